"""Whether others kept the processors busy while a run was timed on a CPU, and in which words: the one rule.

What each arm met stands in its quality (store.record.Quality). A run is told by the arm that
others can have slowed most.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aisp.store.record import Quality, Run
    from aisp.store.results.regression import Row

STOLEN = 0.02
"""Of the processor time: where the hypervisor took less, it is not told."""
MACHINE = "busy machine"
"""The state, where there is room for no more."""


def of_run(run: Run) -> Quality | None:
    """What the arm met that others can have slowed most; None where the machine was quiet."""
    met = [arm.quality for arm in run.arms if arm.quality is not None and arm.quality.busy]
    return max(met, key=lambda one: one.busy_factor or 1.0, default=None)


def figures(met: Quality) -> str:
    """ "threads waited 18% of the time, others kept 0.5 of 64 processors busy"."""
    parts = [] if met.waited_share is None else [f"threads waited {met.waited_share:.0%} of the time"]
    if met.others_cores is not None:
        parts.append(f"others kept {met.others_cores:.1f} of {met.cores} processors busy")
    if met.stolen_share is not None and met.stolen_share >= STOLEN:
        parts.append(f"the hypervisor took {met.stolen_share:.0%}")
    return ", ".join(parts)


def sentence(met: Quality) -> str:
    """ "the machine was busy (threads waited 18% of the time, others kept 0.5 of 64 processors busy)"."""
    return f"the machine was busy ({figures(met)})"


def targets(rows: Iterable[Row]) -> list[str]:
    """Those of a suite whose run was made on a busy machine, of all that say something."""
    return [row.target for row in rows if row.now is not None and not row.left_out and of_run(row.now.run.record)]


def tally(count: int) -> str:
    """How a suite's tally names them: "2 on a busy machine"; "" for none."""
    return f"{count} on a {MACHINE}" if count else ""
