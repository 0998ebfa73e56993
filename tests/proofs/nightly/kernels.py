"""Kernels whose nights are drawn from what was measured on an H100, in docs/measurement/.

Two kinds of stored samples are drawn from. Every one is of identical code, so the truth is known.

* `aa_*.json`: 20 identical rungs beside a baseline in one run of 5 replicas. A night's ratio is that of two of these
  rungs, its interval and floor are those that the run gave it.
* `spread_cuda_*.json`: the medians of 10 processes of a baseline and its twin in each of two sittings. A night draws
  processes from one sitting and puts them through the engine's own intervals, floor and looks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from aisp.engine import statistics
from aisp.store.results import comparison

DATA = Path(__file__).resolve().parents[3] / "docs" / "measurement"
TWIN = "baseline (A/A)"


@dataclass(frozen=True, slots=True)
class Measured:
    """A rung beside its baseline in one run: log of baseline over rung with its 95 % interval, the floor, the verdict,
    and the half width of the 95 % interval of either arm's log time."""

    log: float
    low: float
    high: float
    floor: float
    verdict: str
    p_value: float
    half_width: float

    def beside(self, log: float) -> Measured:
        """The same noise around another true ratio; the verdict anew."""
        verdict, _ = comparison.judge(math.exp(self.low + log), math.exp(self.high + log), self.floor)
        return replace(self, log=self.log + log, low=self.low + log, high=self.high + log, verdict=verdict)


class Kernel(Protocol):
    """A target's rung: `gain` is its true speed-up over the baseline."""

    @property
    def name(self) -> str: ...
    @property
    def time_ms(self) -> float: ...
    @property
    def gain(self) -> float: ...

    def measured(self, random: np.random.Generator, log: float) -> Measured:
        """One run in which baseline over rung truly is exp(log)."""

    def lasting(self, time_ms: float) -> Kernel:
        """One with the same noise, as a share, whose call takes so long."""

    def gaining(self, gain: float) -> Kernel:
        """One with another true speed-up."""


@dataclass(frozen=True, slots=True)
class Identical:
    """A kernel of the first kind: what its run said of each of the identical rungs."""

    name: str
    time_ms: float
    gain: float
    rungs: Sequence[Measured]

    def measured(self, random: np.random.Generator, log: float) -> Measured:
        """See Kernel."""
        one, other = (int(at) for at in random.choice(len(self.rungs), 2, replace=False))
        found = self.rungs[one]
        # All were held against one baseline: the ratio of two of them has the noise of two processes in it.
        return found.beside(log - self.rungs[other].log)

    def lasting(self, time_ms: float) -> Kernel:
        """See Kernel."""
        return replace(self, time_ms=time_ms)

    def gaining(self, gain: float) -> Kernel:
        """See Kernel."""
        return replace(self, gain=gain)


@dataclass(frozen=True, slots=True)
class Processes:
    """A kernel of the second kind: by sitting, log medians of its processes, and log ratios of twins."""

    name: str
    time_ms: float
    gain: float
    sittings: Sequence[tuple[statistics.Floats, statistics.Floats]]

    def measured(self, random: np.random.Generator, log: float) -> Measured:
        """See Kernel."""
        times, twins = self.sittings[int(random.integers(len(self.sittings)))]
        most = statistics.LOOKS[-1].replicas
        # No process twice: two of the same would say that processes do not differ at all.
        base = random.choice(times, most, replace=False)
        drawn = random.choice(twins, 2 * most, replace=False) * random.choice((-1.0, 1.0), 2 * most)
        rung, twin = base + drawn[:most], base + drawn[most:]
        arms = [_turns(values) for values in (base, rung - log, twin)]
        found, half_width = None, 0.0
        for look in statistics.LOOKS:
            own = [arm.of(arm.replica < look.replicas) for arm in arms]
            measured = {"rung": own[1], "twin": own[2]}
            known = statistics.estimates(own[0], measured, statistics.PRIORS["cuda"][statistics.HELD], same=("twin",))
            ratio = known["rung"]
            assert ratio is not None
            floor = statistics.noise_floor(known["twin"], quick=False)
            found = statistics.decide(ratio, floor, quick=False, looks=statistics.LOOKS)
            half_width = float(np.std(base[: look.replicas], ddof=1)) * 1.96 / math.sqrt(look.replicas)
            if found.verdict.decided:
                break
        assert found is not None
        log, low, high = (math.log(value) for value in (found.speedup, found.low, found.high))
        return Measured(log, low, high, found.floor, found.verdict, found.p_value, half_width)

    def lasting(self, time_ms: float) -> Kernel:
        """See Kernel."""
        return replace(self, time_ms=time_ms)

    def gaining(self, gain: float) -> Kernel:
        """See Kernel."""
        return replace(self, gain=gain)


def _turns(logs: statistics.Floats) -> statistics.ByRound:
    """One turn for each process: its median is all that is stored of it."""
    count = len(logs)
    return statistics.by_round(np.exp(logs), np.arange(count), np.zeros(count, np.int64))


def stored(folder: Path = DATA) -> list[Kernel]:
    """Every kernel of which there are stored samples, each with a true speed-up of its own, from 1.1 to 3."""
    found: list[Kernel] = []
    for path in sorted(folder.glob("aa_*.json")):
        found += [_identical(run) for run in json.loads(path.read_text("utf-8"))["runs"]]
    for path in sorted(folder.glob("spread_cuda_*.json")):
        found += [_processes(row) for row in json.loads(path.read_text("utf-8"))["rows"]]
    gains = np.geomspace(1.1, 3.0, len(found))
    return [kernel.gaining(float(gain)) for kernel, gain in zip(found, gains, strict=True)]


def _identical(run: dict[str, Any]) -> Identical:
    rungs = []
    for item in run["comparisons"]:
        log, low, high = (math.log(item[name]) for name in ("speedup", "low", "high"))
        half = (high - low) / 2 / math.sqrt(2)
        rungs.append(Measured(log, low, high, item["floor"], item["verdict"], item["p_value"], half))
    return Identical(run["name"], run["median_ms"], 1.0, rungs)


def _processes(row: dict[str, Any]) -> Processes:
    sittings = []
    for way in ("forked", "started"):
        base, twin = (np.log(row[way]["medians_ms"][arm]) for arm in ("baseline", TWIN))
        sittings.append((base, twin - base))
    time_ms = float(np.exp(np.median(sittings[0][0])))
    return Processes(row["target"], time_ms, 1.0, sittings)
