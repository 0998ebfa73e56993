"""What a run draws is committed to when it is planned and shown when it has ended.

From a plan on the store holds one hash over the master seed, the numbers of the held-out sets and a nonce; the values
themselves are the engine's alone until the run is final, and are then written beside the hash. So a rung can read all
that is stored and foresees nothing, and anybody can see afterwards that nothing was drawn a second time. A run whose
engine was lost never shows them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from aisp.store.record import Run

COMMITMENT = "commitment"  # in a manifest, from the plan on
HELD_OUT = "surprise"  # in the manifest of a run that has ended; one number where there is no commitment
NONCE = "nonce"


def committed(seed: int, held_out: Sequence[int], nonce: str) -> str:
    """Hex sha256 over the JSON array [seed, [held-out numbers], nonce], without blanks."""
    text = json.dumps([seed, list(held_out), nonce], separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Secrets:
    """What nobody but the engine and the verifier knows before a run's end.

    Attributes:
        seed: the master seed, from which all inputs are drawn.
        held_out: numbers of the sets that no process of a rung sees before its last sample.
        nonce: 128 random bits in hex, so that no guess of the others can be tried on the commitment.
    """

    seed: int = field(repr=False)
    held_out: tuple[int, ...] = field(repr=False)
    nonce: str = field(repr=False)

    @property
    def commitment(self) -> str:
        """What the plan says of them."""
        return committed(self.seed, self.held_out, self.nonce)

    def shown(self, run: Run) -> Run:
        """The run, which has ended, with them."""
        manifest = {**run.manifest, HELD_OUT: list(self.held_out), NONCE: self.nonce}
        return msgspec.structs.replace(run, seed=self.seed, manifest=manifest)


def kept(run: Run) -> bool | None:
    """Whether what a run says that it drew is what its plan committed to; None where it has not said it, or its plan
    committed to nothing.
    """
    return keeps(run.manifest, run.seed)


def keeps(manifest: Mapping[str, object], seed: int | None) -> bool | None:
    """Check a run's manifest and master seed, as `kept` does."""
    promised, held_out, nonce = (manifest.get(name) for name in (COMMITMENT, HELD_OUT, NONCE))
    if promised is None or seed is None:
        return None
    if not isinstance(held_out, (list, tuple)) or not isinstance(nonce, str):
        return False
    return committed(seed, held_out, nonce) == promised
