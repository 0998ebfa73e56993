"""Agreement: the same callables by aisp, NVBench, do_bench and the profiler, turn by turn, for the same wall time each:
aisp and the profiler behind each of the two flushes.

Repeat by repeat, callable by callable, every timer takes its turn (in an order that rotates), so that a drift of the
machine falls on all alike. The profiler's kernel time (of several kernels: from the first start to the last end) is
what the others are held against; the spread of a timer's own repeats is its run-to-run variation.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.proofs.agreement.callables import SUBJECTS
from tests.proofs.agreement.common import ROOT, Document, log, parser, plain_environment, run_program
from tests.proofs.agreement.timing_worker import TIMERS

READY_S = 240.0
TURN_S = 60.0
RESERVE_S = 25.0  # to end the processes and write the results


class TimerProcess:
    """One timer's process. After a failure it is dead, `problem` says why, and nothing more is asked of it."""

    def __init__(self, name: str, home: Path, command: Sequence[str]) -> None:
        self.name = name
        self.problem = ""
        self.turns: list[list[Document]] = [[] for _ in SUBJECTS]
        self._buffer = b""
        self._log = (home / f"{name}.log").open("wb")
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=plain_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def ready(self, limit_s: float) -> None:
        """Wait until it has made its callables."""
        told = self._receive(limit_s)
        if told is not None:
            for index, error in told["ready"].items():
                log(f"{self.name}: {SUBJECTS[int(index)].name}: {error}")

    def measure(self, index: int) -> None:
        """One turn on one callable; its answer is the next of `turns[index]`."""
        if not self.problem:
            start = time.monotonic()
            told = self._send(f"go {index}") and self._receive(TURN_S)
            if told:
                self.turns[index].append({"turn_s": time.monotonic() - start, **told})

    def end(self) -> None:
        """Ask for what is still to be told, and end it. A process that has told all may be gone already."""
        if not self.problem:
            with contextlib.suppress(OSError):
                self._write("end")
            told = self._receive(TURN_S)
            for result in (told or {}).get("results", ()):
                repeat, index = divmod(result.pop("slot"), len(SUBJECTS))
                if repeat < len(self.turns[index]):
                    self.turns[index][repeat].update(result)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _send(self, line: str) -> bool:
        try:
            self._write(line)
        except OSError as error:
            self._died(f"its process is gone ({error})")
            return False
        return True

    def _receive(self, limit_s: float) -> Document | None:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                self._died(f"no answer within {limit_s:.0f} s")
                return None
            data = os.read(handle, 1 << 16)
            if not data:
                self._died("its process ended")
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        told: Document = json.loads(line)
        return told

    def _died(self, reason: str) -> None:
        self._process.kill()
        self._process.wait()
        text = Path(self._log.name).read_text(encoding="utf-8", errors="replace").replace(f"{ROOT}/", "")
        last = text.splitlines()[-4:]  # kept in a document, which is of no checkout
        self.problem = f"{reason}: {' / '.join(last)}" if last else reason
        log(f"{self.name}: {self.problem}")


def take(names: Sequence[str], home: Path, *, wall_s: float, repeats: int, budget_s: float) -> Document:
    """All turns that fit into the budget, as the document's fields."""
    start = time.monotonic()
    words = [sys.executable, "-m", "tests.proofs.agreement.timing_worker"]
    told = ["--wall", str(wall_s), "--repeats", str(repeats)]
    timers = [TimerProcess(name, home, [*words, name, *told]) for name in names]
    done = 0
    try:
        for timer in timers:
            timer.ready(max(1.0, min(READY_S, budget_s - (time.monotonic() - start))))
        log(f"ready after {time.monotonic() - start:.0f} s")
        longest_s = 0.0
        for repeat in range(repeats):
            began = time.monotonic()
            if began - start + longest_s + RESERVE_S > budget_s:
                log(f"the budget ends this after {repeat} of {repeats} repeats")
                break
            for index in range(len(SUBJECTS)):
                turned = (repeat + index) % len(timers)
                for timer in [*timers[turned:], *timers[:turned]]:
                    timer.measure(index)
            done = repeat + 1
            longest_s = max(longest_s, time.monotonic() - began)
            log(f"repeat {done} of {repeats} took {time.monotonic() - began:.1f} s")
    finally:
        for timer in timers:
            timer.end()
    return {
        "wall_s": wall_s,
        "repeats": done,
        "problems": {timer.name: timer.problem for timer in timers if timer.problem},
        "rows": [row(index, timers) for index in range(len(SUBJECTS))],
    }


def row(index: int, timers: Sequence[TimerProcess]) -> Document:
    """One callable: what every timer said, one list entry per repeat."""
    subject = SUBJECTS[index]
    return {
        "name": subject.name,
        "bound": subject.bound,
        "language": subject.language,
        "timers": {timer.name: columns(timer.turns[index]) for timer in timers},
    }


def columns(turns: Sequence[Document]) -> Document:
    """The turns' answers as one list per field; what never changes as one value."""
    names = dict.fromkeys(name for turn in turns for name in turn if name not in ("index", "pending", "turn_s"))
    found: dict[str, Any] = {}
    for name in names:
        values = [turn.get(name) for turn in turns]
        same = name not in ("ms", "wall_s") and all(value == values[0] for value in values)
        found[name] = values[0] if same else values
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    made = parser("timers", "Time the same callables with several timers.", budget_s=540)
    made.add_argument("--repeats", type=int, default=20, help="turns of every timer on every callable (20)")
    made.add_argument("--wall", type=float, default=0.15, metavar="SECONDS", help="wall time of a turn (0.15)")
    made.add_argument("--timers", default=",".join(TIMERS), help="which, by commas (all)")
    given = made.parse_args(arguments)
    names = given.timers.split(",")
    if unknown := set(names) - set(TIMERS):
        made.error(f"no such timer: {', '.join(sorted(unknown))}; there are {', '.join(TIMERS)}")

    def measure() -> tuple[Document, str, str]:
        from tests.proofs.agreement import report

        given.out.mkdir(parents=True, exist_ok=True)
        found = take(names, given.out, wall_s=given.wall, repeats=given.repeats, budget_s=given.budget)
        return found, "timers", report.timers_text(found)

    return run_program("timers", given, measure)


if __name__ == "__main__":
    sys.exit(main())
