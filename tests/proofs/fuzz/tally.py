"""What a fuzz counts, and the one way in which it fails."""

from __future__ import annotations

import random
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Given = TypeVar("Given")

MEMORY_EVERY = 50  # inputs: to trace allocations takes several times as long as to read
LONG = 8000  # bytes: what is longer than most is always traced
MAX_SECONDS = 2.0  # processor seconds of one input
MAX_GROWTH_BYTES = 96 << 20  # of the whole process, from the first input to the last


class BrokenPromiseError(AssertionError):
    """An input did what no input may do."""


@dataclass
class Tally:
    """Figures of one fuzz."""

    inputs: int = 0
    bytes: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: int = -1
    peak_bytes: int = 0  # allocated over one input, of those that were traced
    growth_bytes: int = 0
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        """As plain data, for a record."""
        return {
            "inputs": self.inputs,
            "input_bytes": self.bytes,
            "broken": 0,  # the first one that breaks anything ends the fuzz
            "outcomes": dict(sorted(self.outcomes.items())),
            "slowest_input_ms": round(self.slowest_s * 1e3, 3),
            "slowest_input": self.slowest,
            "peak_traced_bytes": self.peak_bytes,
            "process_growth_bytes": self.growth_bytes,
            "processor_s": round(self.seconds, 1),
        }


@dataclass(frozen=True)
class Fuzz(Generic[Given]):
    """One kind of input.

    Attributes:
        make: an input from a generator of random numbers.
        judge: reads it and says what came of it in a word or two; raises BrokenPromiseError.
        size: its length in bytes.
        allowance: bytes that reading an input of that length may allocate at most.
    """

    make: Callable[[random.Random], Given]
    judge: Callable[[Given], str]
    size: Callable[[Given], int]
    allowance: Callable[[int], int]

    def one(self, seed: int, number: int) -> Given:
        """Input `number` of `seed`."""
        return self.make(random.Random(seed << 40 | number))

    def run(self, inputs: int, seed: int, told: Callable[[Tally], None] = lambda _: None) -> Tally:
        """Read that many inputs. Raises BrokenPromiseError with the number of the first that breaks a promise."""
        tally = Tally()
        began = time.process_time()
        before = resident_peak()
        for number in range(inputs):
            given = self.one(seed, number)
            try:
                outcome, took_s, peak = self._read(given, traced=number % MEMORY_EVERY == 0 or self.size(given) > LONG)
                check(took_s < MAX_SECONDS, f"it took {took_s:.1f} s")
                check(peak <= self.allowance(self.size(given)), f"it allocated {peak} bytes")
            except Exception as error:
                told_as = "" if isinstance(error, BrokenPromiseError) else f"{type(error).__name__}: "
                raise BrokenPromiseError(f"input {number} of seed {seed}: {told_as}{error}") from error
            tally.inputs += 1
            tally.bytes += self.size(given)
            tally.outcomes[outcome] += 1
            tally.peak_bytes = max(tally.peak_bytes, peak)
            if took_s > tally.slowest_s and not peak:  # tracing is slow by itself
                tally.slowest_s, tally.slowest = took_s, number
            if number % 1000 == 999:
                tally.growth_bytes = resident_peak() - before
                check(
                    tally.growth_bytes < MAX_GROWTH_BYTES, f"after {number} inputs it holds {tally.growth_bytes} more"
                )
                tally.seconds = time.process_time() - began
                told(tally)
        tally.growth_bytes = resident_peak() - before
        tally.seconds = time.process_time() - began
        return tally

    def _read(self, given: Given, *, traced: bool) -> tuple[str, float, int]:
        """The outcome, the processor seconds, and the bytes allocated (0 where they were not traced)."""
        if traced:
            tracemalloc.start()
        try:
            start = time.process_time()
            outcome = self.judge(given)
            took_s = time.process_time() - start
            return outcome, took_s, max(1, tracemalloc.get_traced_memory()[1]) if traced else 0
        finally:
            if traced:
                tracemalloc.stop()


def check(holds: bool, told: str) -> None:
    """Raise BrokenPromiseError(told) unless it holds."""
    if not holds:
        raise BrokenPromiseError(told)


def resident_peak() -> int:
    """The most bytes that this process ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
