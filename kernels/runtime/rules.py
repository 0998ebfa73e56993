"""The rules by which others take an output for right: allclose with atol = rtol. Asked in the verifier alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .models import several

Outputs = Sequence[torch.Tensor]
Tolerances = Mapping[str, float]
"""By the dtype of an output; outputs of all others must be equal."""


def by_own_dtype(
    run: Callable[..., Any],
    inputs: Mapping[str, Any],
    outputs: Outputs,
    expected: Outputs,
    tolerances: Tolerances,
    *,
    equal_nan: bool = False,
) -> str | None:
    """What is wrong with outputs by what `run`, the problem's own code, gives in its own dtype; None for nothing. Where
    it cannot be run in that, by what it gives in fp64.

    Args:
        inputs: by name, as `run` takes them.
    """
    try:
        own = several(run(**inputs))
    except (RuntimeError, NotImplementedError, TypeError):
        own = list(expected)
    for place, (found, exact) in enumerate(zip(outputs, own, strict=False)):
        if found.shape != exact.shape:
            return f"output {place} has shape {list(found.shape)}, not {list(exact.shape)}"
        wanted = exact.to(found.dtype)
        tolerance = tolerances.get(str(found.dtype).removeprefix("torch."))
        if tolerance is None:
            if not torch.equal(found, wanted):
                return f"output {place} is not equal"
        elif not torch.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=equal_nan):
            apart = (found.double() - wanted.double()).abs().max().item()
            return f"output {place} is not within {tolerance}: {apart:.3g} apart"
    return None
