"""What is decided of a run before it starts."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from aisp.checks.oracle.schema import subseed
from aisp.engine.statistics import PRIORS, Prior
from aisp.engine.turns import StopRule
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case, Kind, Rung, Target
from aisp.store import record as records
from aisp.store.commitment import COMMITMENT, Secrets

PATIENCE = "patience_s"  # in a manifest, where a request asked for less than the limits


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before a run starts."""

    record: records.Run  # state planned, without its seed
    target: Target
    case: Case
    rungs: tuple[Rung, ...]  # in the order of arms, the baseline first
    rule: StopRule
    secrets: Secrets
    files: dict[str, bytes]
    problem: str = ""  # why it cannot run here ("needs sm_90")
    obstacles: Mapping[str, str] = field(default_factory=dict)  # by rung: why that rung cannot run here
    without: frozenset[str] = frozenset()  # checks that are left out on request
    naive: bool = False  # ask what the naive harness would say
    priors: Mapping[str, Prior] = field(default_factory=lambda: PRIORS["cuda"])
    """What is known of how processes of the same code differ, by class of timing (engine.statistics.class_of)."""

    @property
    def id(self) -> str:
        """The run's."""
        return self.record.id

    @property
    def device(self) -> str:
        """ "cuda" or "cpu"."""
        return self.record.device

    @property
    def seed(self) -> int:
        """The master seed, from which all inputs are drawn."""
        return self.secrets.seed

    @property
    def held_out(self) -> tuple[int, ...]:
        """Numbers of held-out sets, see `new_secrets`; no worker knows one before it is due."""
        return self.secrets.held_out

    def chance(self, purpose: str) -> random.Random:
        """A source for what workers see of a run, as the order of its turns: their inputs do not follow from it."""
        return random.Random(subseed(self.seed, self.target.id, "chance", purpose)[0])

    @property
    def patience_s(self) -> float:
        """See requests.StartRuns."""
        value = self.record.manifest.get(PATIENCE, 0.0)
        assert isinstance(value, float)
        return value

    @property
    def interpreted(self) -> bool:
        """Whether Triton's kernels go through its interpreter."""
        return self.device == "cpu" and any(rung.kind is Kind.TRITON for rung in self.rungs)

    def doubt(self, rung: Rung) -> str:
        """Why wrong values of a rung may be right on a GPU, as a clause; "" for no reason."""
        halves = any(spec.dtype == "bfloat16" for spec in (*self.target.inputs, *self.target.outputs))
        if self.device == "cuda" or rung.kind is not Kind.TRITON or not halves:
            return ""
        return "Triton's interpreter takes the bits of a bfloat16 for a whole number unless the kernel widens it first"

    @property
    def side_by_side(self) -> bool:
        """Whether both of its replicas may be alive at once: a quick run's, whose verdict somebody waits for."""
        return self.record.quick and self.rule.replicas == 2 and self.rule.interleaved

    @property
    def processes(self) -> tuple[int, int]:
        """How many processes it takes at once, and how many of them use torch's compiler: those of its arms, of the A/A
        arm, and the verifier.
        """
        arms = (*self.rungs, *self.rungs[: self.rule.replicas > 1])
        each = self.target.ranks * (2 if self.side_by_side else 1)
        return len(arms) * each + 1, sum(map(self.compiles, arms)) * each

    @property
    def replica_again(self) -> int:
        """Number of the replica in which a suspicion is asked again."""
        return self.rule.replicas

    @property
    def sought(self) -> tuple[object, ...]:
        """What two runs have alike that are the same job: all that was decided, but what was drawn and who asked."""
        run = self.record
        decisions = {name: value for name, value in run.manifest.items() if name not in (COMMITMENT, "batch")}
        return run.target, run.folder, run.device, run.case, run.quick, run.snapshot, decisions, self.naive

    def source(self, rung: Rung) -> bytes:
        """The rung's own file."""
        return self.files.get(f"{rung.name}.py", b"")

    def compiles(self, rung: Rung) -> bool:
        """Whether the rung uses torch's compiler."""
        return catalog.compiles(self.source(rung))


FIRST_HELD_OUT = 1 << 20  # above every number of a known set


def new_secrets() -> Secrets:
    """What a run draws from the operating system: its seed, and the number of its first set of another family of
    values, which no process of a rung sees before its last sample.
    """
    return Secrets(new_seed(), (FIRST_HELD_OUT + (new_seed() >> 16),), os.urandom(16).hex())


def new_seed() -> int:
    """A master seed that no lesson can foresee."""
    return int.from_bytes(os.urandom(8), "little") >> 1
