"""The rule of whoever posed the problem: judge() of the target's rule.py, asked in the verifier alone.

    def judge(inputs, outputs, expected) -> str | None

It gets the inputs by name, as rungs get them, what the rung returned, and what the reference returned: in fp64, or in
the reference's own dtypes where the rule is the judge alone. It says what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.checks.oracle.comparator import ComparisonResult, Mismatch
from aisp.kernels.catalog.model import OwnRule
from aisp.store.text import clean_line

if TYPE_CHECKING:
    import torch

Judge = Callable[[Mapping[str, object], Sequence["torch.Tensor"], Sequence["torch.Tensor"]], object]
MOST_CHARACTERS = 500


class RuleFault(Exception):
    """The rule broke down, where nothing else can judge."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What it said of a call.

    Attributes:
        right: None where it could not be asked.
        detail: what is wrong, or why it could not be asked; "" where it is right.
    """

    right: bool | None
    detail: str = ""

    def opinion(self, name: str) -> ComparisonResult:
        """Result of a call whose first output has that name. Raises RuleFault where it could not be asked."""
        if self.right is None:
            raise RuleFault(f"rule.py: {self.detail}; it is the judge here, so that nothing can be said")
        return ComparisonResult(name, Mismatch.NOTHING if self.right else Mismatch.VALUES, self.detail)


def ask(
    rule: OwnRule,
    judge: Judge,
    inputs: Mapping[str, object],
    outputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
) -> Ruling:
    """Let the rule judge one call. It may write into all that it gets."""
    import torch  # only verifiers judge

    try:
        with torch.no_grad():
            verdict = judge(inputs, outputs, expected)
    except Exception as error:  # somebody else's code
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Ruling(None, clean_line(message, limit=MOST_CHARACTERS))
    if verdict is None or verdict == "":
        return Ruling(True)
    if not isinstance(verdict, str):
        return Ruling(None, f"judge() returned {type(verdict).__name__}; it must say what is wrong, or None")
    return Ruling(False, clean_line(f"{verdict} (by {rule.name})", limit=MOST_CHARACTERS))
