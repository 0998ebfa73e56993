"""From a save to the first verified time: a real engine watches a tiny pair of PyTorch functions, one rung is saved.

The clock starts right before the edited file is replaced by its new version. It stops when the first SampleBatch of the
edited rung reaches a client (nothing is timed before its outputs were found right), and again when the app's watch
screen shows the edit's time. The edited rung's `compile` steps are taken off; between edits the standbys are waited
for, as they are by a person who thinks for some seconds. Beside it stands a cold script that imports torch and times
the same pair.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aisp.engine.client import Connection
from aisp.engine.protocol import events, requests
from aisp.store.record import Step
from tests.proofs.bench.engines import connected, devices, real_engine, settled, temporary
from tests.proofs.bench.table import Aim, Row, parts_rows
from tests.proofs.bench.terminal import Terminal, program

NAME = "saves"
AIM_S = Aim(0.5, "p50")
SIZE = 65_536
TARGET = "pair:scaled_gelu"

REFERENCE = """\
import torch


def run(x):
    x = x.double()
    return 2 * torch.nn.functional.gelu(x)
"""
BASELINE = """\
import torch


def run(x):
    return x * (1 + torch.erf(x / 2**0.5))
"""
OPTIMIZED = """\
import torch


def run(x):
    return torch.nn.functional.gelu(x) * 2
"""

PAIR = {"baseline.py": BASELINE, "optimized.py": OPTIMIZED}

# The engine's steps of a quick run up to the first sample, in the order of the rows.
STEPS = ("warm worker", "inputs", "compile", "verify", "warm-up")


def lesson(size: int) -> str:
    """Its lesson.md, for so many elements on a GPU."""
    return f"""\
+++
title = "Scaled GELU, written out and fused"
techniques = ["fusion"]
goal = "speed"
axes = {{ N = {size} }}
flops = "8*N"
tolerance = {{ float32 = 1e-5 }}
[inputs]
x = "float32 [N] normal"
[outputs]
y = "float32 [N]"
[[cases]]
name = "cpu"
axes = {{ N = {SIZE} }}
+++

# Scaled GELU
"""


def write_target(root: Path, name: str = "scaled_gelu", rungs: Mapping[str, str] = PAIR, size: int = SIZE) -> Path:
    """Make a target in the collection `root`; its folder.

    Args:
        rungs: their sources by file name.
        size: elements of its input on a GPU.
    """
    folder = root / name
    folder.mkdir(parents=True)
    for file, content in {"lesson.md": lesson(size), "reference.py": REFERENCE, **rungs}.items():
        (folder / file).write_text(content, encoding="utf-8")
    return folder


@dataclass
class Edit:
    """One save: moments in CLOCK_MONOTONIC nanoseconds, None while they have not come."""

    saved_ns: int
    number: int = 0
    run_id: str = ""
    noticed_ns: int | None = None
    planned_ns: int | None = None
    started_ns: int | None = None
    first_ns: int | None = None
    screen_ns: int | None = None
    finished_ns: int | None = None
    state: str = ""
    steps: list[Step] = field(default_factory=list)

    def compile_s(self) -> float:
        """How long the edited rung was compiled."""
        own = [step for step in self.steps if (step.name, step.arm) == ("compile", "optimized")]
        return sum(step.duration_ms or 0.0 for step in own) / 1e3

    def to_client_s(self) -> float | None:
        """Save to first sample, less compile time."""
        return None if self.first_ns is None else (self.first_ns - self.saved_ns) / 1e9 - self.compile_s()

    def to_screen_s(self) -> float | None:
        """Save to the time on the screen, less compile time."""
        return None if self.screen_ns is None else (self.screen_ns - self.saved_ns) / 1e9 - self.compile_s()

    def parts_ms(self) -> dict[str, float]:
        """Where the time went, one after the other, until the first sample. Arms compile and verify side by side: a
        step's time is what passed from its first beginning to its last end."""
        found: dict[str, float] = {}
        if self.noticed_ns is None or self.planned_ns is None or self.first_ns is None or self.started_ns is None:
            return found
        found["save noticed"] = (self.noticed_ns - self.saved_ns) / 1e6
        found["settled, stored, planned"] = (self.planned_ns - self.noticed_ns) / 1e6
        found["taken from the queue"] = (self.started_ns - self.planned_ns) / 1e6
        end_ns = 0
        for name in STEPS:
            spans = [
                (step.start_ns, step.start_ns + int(step.duration_ms * 1e6))
                for step in self.steps
                if step.name == name and step.duration_ms is not None and step.start_ns < self.first_ns
            ]
            if spans:
                found[name] = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e6
                end_ns = max(end_ns, *(end for _, end in spans))
        found["first batch"] = (self.first_ns - end_ns) / 1e6
        return found


class Screen:
    """The app's watch screen, read while the loop runs."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.awaited: Edit | None = None

    def on_readable(self) -> None:
        """Take what was drawn; note when the awaited edit's time came."""
        while self.terminal.read(0.0):
            edit = self.awaited
            if edit is not None and edit.number and edit.screen_ns is None and self._shows(edit.number):
                edit.screen_ns = self.terminal.read_ns

    def _shows(self, number: int) -> bool:
        """Whether the edit's row holds a median."""
        lines = iter(self.terminal.screen.display)
        head = next((line for line in lines if "vs baseline" in line and "#" in line), "")
        row = re.compile(rf"^\W*{number}\s+\d")
        rows = itertools.takewhile(lambda line: not line.startswith("\u2500"), lines)
        return bool(head) and any(row.match(line) for line in rows)


async def _follow(connection: Connection, edit: Edit, patience_s: float = 60.0) -> None:
    """Note an edit's moments from the events until its run has ended."""
    deadline = time.monotonic() + patience_s
    backlog: list[events.Event] = []
    while not edit.state:
        if time.monotonic() > deadline:
            raise TimeoutError(f"edit {edit.number} was not run within {patience_s:.0f} s")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection._arrived.wait(), 0.5)
        now = time.monotonic_ns()
        for event in connection.take():
            _note(edit, event, now, backlog)


def _note(edit: Edit, event: events.Event, now: int, backlog: list[events.Event]) -> None:
    if isinstance(event, events.RunPlanned) and event.run.trigger == "watch" and event.run.target == TARGET:
        edit.run_id, edit.planned_ns = event.run_id, now
    if isinstance(event, events.WatchEdit):
        if event.error:
            raise RuntimeError(f"the edit was refused: {event.error}")
        edit.number, edit.noticed_ns = event.number, event.save_ns
    if getattr(event, "run_id", "") != edit.run_id or not edit.run_id:
        return
    if isinstance(event, events.RunState) and event.state == "starting":
        edit.started_ns = event.at_ns
    elif isinstance(event, events.Step):
        if event.step.duration_ms is not None:
            edit.steps.append(event.step)
    elif isinstance(event, events.SampleBatch):
        if event.arm == "optimized" and edit.first_ns is None:
            edit.first_ns = now
    elif isinstance(event, events.RunFinished):
        edit.finished_ns, edit.state = now, event.run.state


async def watch_edits(environ: Mapping[str, str], root: Path, count: int, device: str) -> list[Edit]:
    """Save `count` edits under watch, with the app's watch screen open."""
    file = root / "scaled_gelu" / "optimized.py"
    done: list[Edit] = []
    async with connected(environ, warm=True) as connection:
        await settled(connection)
        first = Edit(time.monotonic_ns())
        request = requests.StartWatch(seq=connection.next_seq(), root=str(root), target=TARGET, device=device)
        reply = await connection.request(request)
        if reply.error:
            raise RuntimeError(reply.error)
        await _follow(connection, first)
        if first.state != "ok":
            raise RuntimeError(f"the pair's own run ended as {first.state}")
        loop = asyncio.get_running_loop()
        with Terminal(program("aisp.tui.start", "main", str(root)), environ) as terminal:
            await asyncio.to_thread(_open_watch, terminal)
            screen = Screen(terminal)
            loop.add_reader(terminal.master, screen.on_readable)
            try:
                for number in range(count):
                    await settled(connection)
                    await asyncio.sleep(0.5)
                    partial = file.with_name("optimized.py.partial~")
                    partial.write_text(f"# edit {number}\n{OPTIMIZED}", encoding="utf-8")
                    edit = Edit(time.monotonic_ns())
                    screen.awaited = edit
                    partial.replace(file)
                    await _follow(connection, edit)
                    if edit.state != "ok":
                        raise RuntimeError(f"edit {edit.number} ended as {edit.state}")
                    for _ in range(40):
                        if edit.screen_ns is not None:
                            break
                        await asyncio.sleep(0.05)
                    done.append(edit)
            finally:
                loop.remove_reader(terminal.master)
            await connection.request(requests.StopWatch(seq=connection.next_seq(), target=TARGET))
            terminal.signal(signal.SIGTERM)
            await asyncio.to_thread(terminal.end)
    return done


def _open_watch(terminal: Terminal) -> None:
    terminal.until(lambda: "scaled_gelu" in terminal.shown(), what="the first screen")
    terminal.run(1.0)
    terminal.press("w")
    terminal.until(lambda: "the state when" in terminal.shown(), what="the watch screen")


def cold_s(folder: Path, device: str) -> float:
    """One cold script over the same pair, from its fork to its end."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("cold_pair.py")), str(folder), device, str(SIZE)],
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.monotonic() - start
    if done.returncode or "optimized" not in done.stdout:
        raise RuntimeError(f"the cold script failed: {done.stderr}")
    return took


def rows(edits: list[Edit], cold: list[float], where: str) -> Iterator[Row]:
    """The rows of one device."""
    less = "less compile"
    to_client = tuple(taken for edit in edits if (taken := edit.to_client_s()) is not None)
    to_screen = tuple(taken for edit in edits if (taken := edit.to_screen_s()) is not None)
    missing = len(edits) - len(to_screen)
    yield Row(NAME, f"save to first verified time at a client, {where}", "s", to_client, AIM_S, less)
    note = f"{less}; {missing} not seen" if missing else less
    yield Row(NAME, f"save to first verified time on screen, {where}", "s", to_screen, AIM_S, note)
    yield Row(NAME, f"cold script, the same pair once, {where}", "s", tuple(cold), note="verifies nothing")
    yield from parts_rows(NAME, [edit.parts_ms() for edit in edits], where, "ms")
    ended = tuple((edit.finished_ns - edit.saved_ns) / 1e9 for edit in edits if edit.finished_ns is not None)
    yield Row(NAME, f"save to stored verdict, {where}", "s", ended, note="quick run, four rounds or more")


def measure(*, quick: bool) -> Iterator[Row]:
    """On the CPU, and on the GPU where there is one.

    Raises:
        RuntimeError: of no edit a time was seen on the watch screen; every other row has been told.
    """
    count = 4 if quick else 10
    unseen: list[str] = []
    for device, where, no_gpu in devices():
        if no_gpu:
            yield Row(NAME, "save to first verified time, GPU", "s", (), AIM_S, no_gpu)
            continue
        with temporary() as (home, environ):
            pair = write_target(home / "pair")
            with real_engine(environ):
                edits = asyncio.run(watch_edits(environ, home / "pair", count, device))
            cold = [cold_s(pair, device) for _ in range(3 if quick else 5)]
        yield from rows(edits, cold, where)
        if all(edit.screen_ns is None for edit in edits):
            unseen.append(where)
    if unseen:
        raise RuntimeError(f"the watch screen showed no edit's time: {', '.join(unseen)}")
