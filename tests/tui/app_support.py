"""What the tests of the app's shell share: a small catalogue, a store with runs, and the screen as text."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from aisp.engine import paths
from aisp.engine.protocol import events
from aisp.kernels.catalog.model import (
    Case,
    Catalog,
    Chapter,
    Expectation,
    Goal,
    Kind,
    Needs,
    Problem,
    Role,
    Rung,
    Target,
)
from aisp.store import Store
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.record import Run
from aisp.tui.app import Workbench
from aisp.tui.settings import Settings
from tests.replacing import replace
from tests.store.examples import finished, planned, samples_of
from tests.tui.fakes import FakeLink, failing_run_events, gpu_run_events, numbered, quick_run_events, status_event

SIZES = ((20, 5), (80, 24), (120, 40), (200, 50))

H100: dict[str, object] = {"gpu": "NVIDIA H100 80GB HBM3", "cpu": "a CPU"}
NOT_HERE = "needs a GPU: NVML 12: NVML Shared Library Not Found"

LESSON = """# A transpose that reads and writes whole cache lines

A warp that writes down a column touches 32 cache lines; a tile in shared memory turns that into one.
See [the guide](https://example.invalid/guide).
"""


def write_target(root: Path, chapter: str, name: str, **changes: Any) -> Target:
    """A target with its files on disk: baseline, optimized, one wrong rung, a reference."""
    folder = root / chapter.replace("/", "_") / name
    folder.mkdir(parents=True)
    (folder / "baseline.py").write_text("import torch\n\n\ndef run(x):\n    y = x.t()\n    return y.contiguous()\n")
    (folder / "optimized.py").write_text("import torch\n\n\ndef run(x):\n    return x.t().contiguous()\n")
    (folder / "wrong_tail.py").write_text("def run(x):\n    return x\n")
    (folder / "reference.py").write_text("def run(x):\n    return x.double().t()\n")
    needs = changes.get("needs", Needs())

    def rung(stem: str, role: Role, summary: str) -> Rung:
        return Rung(stem, role, Kind.TORCH, folder / f"{stem}.py", needs, summary)

    target = Target(
        id=f"{chapter}:{name}",
        chapter=chapter,
        name=name,
        title=f"How {name} is made fast",
        folder=folder,
        root=root,
        goal=Goal.SPEED,
        needs=needs,
        techniques=("coalescing",),
        inputs=(),
        outputs=(),
        cases=(Case("default", {"M": 8}), Case("cpu", {"M": 4})),
        flops="0",
        bytes="",
        tolerance={},
        rungs=(
            rung("baseline", Role.BASELINE, "two passes over memory"),
            rung("optimized", Role.OPTIMIZED, "one pass over memory"),
            rung("wrong_tail", Role.WRONG, "forgets the tail"),
        ),
        expect=Expectation((1.5, 3.0), "H100", "half the bytes"),
        lesson=LESSON,
        files=("baseline.py", "optimized.py", "reference.py", "wrong_tail.py"),
    )
    return replace(target, **changes)


def make_catalog(root: Path, *, problems: bool = True) -> Catalog:
    """Three chapters with five targets; one of them needs sm_100, and two folders could not be loaded."""
    targets = (
        write_target(root, "ch05", "collate"),
        write_target(root, "ch07", "transpose", title="A transpose that reads and writes whole cache lines"),
        write_target(root, "ch07", "gather", techniques=("vector-loads",)),
        write_target(root, "ch07", "scan", needs=Needs(sm=100, gpus=1)),
        write_target(root, "labs/block_scaling", "block_scaling"),
    )
    chapters = tuple(
        Chapter(chapter, number, title, root / chapter, f"# {title}\n\nMeasure, then change.\n")
        for chapter, number, title in (
            ("ch05", 5, "Storage and input"),
            ("ch07", 7, "Memory access"),
            ("labs/block_scaling", None, "Block scaling"),
        )
    )
    found = (
        Problem(
            Path("/home/ada/kernels/ch09/gelu/lesson.md"), "axes.M", "'8k' is not a whole number", "write M = 8192"
        ),
        Problem(
            Path("/home/ada/kernels/ch09/silu/lesson.md"), "", "the closing +++ is missing", "end the front matter"
        ),
    )
    return Catalog((root,), chapters, targets, found if problems else ())


SHIPPED = """schema = 1
scope = "strict"
hardware = "NVIDIA H200"

[targets."ch07:gather"]
case = "default"
runs = ["01M83CK4T7VRDAXZ3PB9FH7HP0"]
wall = "2026-11-23T05:03:23.463+00:00"
driver = "580.159.04"
versions = { torch = "2.11.0" }

[targets."ch07:gather".rungs]
baseline = { ms = [3.0, 3.6], limiter = "bytes", timing = "cold" }
optimized = { speedup = [24.38, 27.43], ms = [0.1217, 0.1357], limiter = "bytes", timing = "cold" }
"""


def ship(root: Path) -> None:
    """Have the small catalogue come with what its gather came to on an H200."""
    (root / "expectations").mkdir(parents=True)
    (root / "expectations" / "h200.toml").write_text(SHIPPED, encoding="utf-8")


def story() -> list[events.Event]:
    """One target faster on a GPU, one failed, one undecided, one running."""
    return numbered(
        [
            *gpu_run_events(target="ch07:transpose", run_id="01G"),
            *failing_run_events(target="ch07:gather", run_id="01H"),
            *quick_run_events(target="ch05:collate", run_id="01I", verdict="undecided", speedup=1.01),
            *quick_run_events(target="labs/block_scaling:block_scaling", run_id="01J", finished=False),
        ]
    )


def fill_store(
    target: str = "ch07:transpose", runs: int = 4, cases: Mapping[int, str] | None = None, *, edited: bool = True
) -> list[str]:
    """Put runs into the store, the last but one a failure; returns their ids, oldest first. `cases`: by the number of a
    run, where it is not the default one. `edited`: whether each ran sources of its own."""
    ids = []
    with Store.open(paths.database_file()) as store:
        for number in range(runs):
            snapshot = store.put_snapshot(
                {
                    "baseline.py": b"def run(x):\n    return x.t().contiguous()\n",
                    "optimized.py": f"TILE = {16 * (number * edited + 1)}\n\ndef run(x):\n    return x.t()\n".encode(),
                }
            )
            run = planned(target, wall=f"2026-05-{number + 1:02d}T10:20:30+00:00", snapshot=snapshot)
            run = replace(run, case=(cases or {}).get(number, run.case))
            store.plan([run])
            if number == runs - 2:
                store.finish(
                    replace(
                        run, state=State.USER_ERROR, reason="optimized.py line 3: '(' was never closed", start_ns=1,
                        duration_ms=4.0,
                    ),
                    {},
                )  # fmt: skip
            else:
                end = finished(run, speedup=1.5 + 0.5 * number)
                store.finish(end, {arm.rung: samples_of(100) for arm in end.arms})
            ids.append(run.id)
    return ids


def keep(
    home: Path,
    target: str = "ch07:transpose",
    *,
    folder: Path | None = None,
    environment: dict[str, object] | None = None,
    **changes: Any,
) -> Run:
    """Put a run that has ended into the store of a state folder: a good one on an H100, or `changes` of it."""
    home.mkdir(mode=0o700, exist_ok=True)
    with Store.open(home / "aisp.db") as store:
        began = {name: changes.pop(name) for name in ("device", "case", "manifest", "wall", "id") if name in changes}
        run = planned(target, environment=store.put_environment(environment or H100), **began)
        run = replace(run, folder=os.fsencode(folder or home / "nowhere"))
        store.plan([run])
        end = finished(run, **{"flags": (), **changes})
        store.finish(end, {arm.rung: samples_of(100) for arm in end.arms if arm.median_ms is not None})
    return end


def keep_nothing(home: Path, target: str = "ch07:transpose", how: State = State.UNAVAILABLE, **changes: Any) -> Run:
    """The same for one that never began."""
    nothing: dict[str, Any] = {"correctness": Correctness.UNKNOWN, "validity": Validity.UNKNOWN}
    nothing |= {"verdict": Verdict.NONE, "arms": (), "comparisons": (), "steps": (), "reason": NOT_HERE}
    return keep(home, target, **{"state": how, **nothing, **changes})


def make_link(*, gpu: bool = True, told: bool = True, **arguments: Any) -> FakeLink:
    """A link that tells `story` when it starts, on a machine with or without a GPU."""
    link = FakeLink(story() if told else (), **arguments)
    link.engine_status = status_event(gpu=gpu)
    return link


@asynccontextmanager
async def opened(
    root: Path,
    *,
    size: tuple[int, int] = (80, 24),
    link: FakeLink | None = None,
    settings: Settings | None = None,
    catalog: Catalog | None = None,
) -> AsyncIterator[tuple[Workbench, Pilot[None]]]:
    """The app with the small catalogue, its first screen drawn and everything read."""
    app = Workbench(
        link=link or make_link(),  # type: ignore[arg-type]
        catalog=catalog or make_catalog(root),
        settings=settings or Settings(graph="braille"),
    )
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.model.status is not None)
        await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[None], condition: Callable[[], object], tries: int = 400) -> None:
    """Let the app go on until `condition`; fails where it never comes."""
    await pilot.pause()
    for _ in range(tries):
        if condition():
            await pilot.pause()
            return
        await pilot.pause(0.01)
    raise AssertionError("waited for something that did not come:\n" + screen_text(pilot.app))


def screen_text(app: Any) -> str:
    """The screen as plain text, without the blanks at the ends of lines."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def screen_name(app: Any) -> str:
    """Class name of the screen on top."""
    return type(app.screen).__name__


def told(app: Any) -> str:
    """Everything that was notified."""
    return "\n".join(str(notification.message) for notification in app._notifications)
