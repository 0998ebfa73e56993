"""Watching a folder: what a watch tells, what it listens to, and what it does where it cannot.

What editors, git and the file system do to a watched folder is in the fault matrix: tests/proofs/evil/scenes/files.py.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import watchfiles

from aisp.checks.registry import Sensed, received
from aisp.engine import watch, watches
from aisp.engine.protocol import events, requests
from aisp.engine.runs import Execution
from aisp.engine.watch import Watch
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest
from tests.proofs.evil import corpus, watched
from tests.proofs.evil.stage import eventually
from tests.proofs.evil.watched import NAME, TARGET, UNRUNNABLE, variant, watching

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]


def idle() -> bool:
    """For a watch of which no run is under way."""
    return False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with one small target."""
    corpus.write(tmp_path / "mine" / "doubling")
    return tmp_path / "mine"


@pytest.fixture
def planned_only(tmp_path: Path) -> Path:
    """The same for tests of what is planned, not of how it runs."""
    return watched.planned_only(tmp_path)


async def not_run(*_: object) -> tuple[str, str]:
    """For a watch of which no run is wanted."""
    return "", ""


@pytest.mark.slow
async def test_opening_a_watch_runs_every_rung_of_the_first_state(
    shared: EngineUnderTest,
    root: Path,
) -> None:
    async with shared.stream() as stream:
        request = requests.StartWatch(seq=stream.connection.next_seq(), root=str(root), target=TARGET)
        await stream.ask(request)
        changed = await stream.until(events.WatchChanged)
        assert (changed.target, changed.active, changed.polling) == (TARGET, True, False)
        first = await stream.until(events.WatchEdit)
        assert (first.number, first.error) == (0, "")
        planned = await stream.until(events.RunPlanned)  # after the edit that it is for
        assert planned.run_id == first.run_id
        result = await shared.result(stream, first.run_id)
        assert result.record.state is State.OK
        assert [arm.rung for arm in result.record.arms] == ["baseline", "optimized", "baseline (A/A)"]
        assert (result.record.trigger, result.record.quick) == ("watch", True)
        await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target=TARGET))
        assert (await stream.until(events.WatchChanged)).active is False
        assert (await stream.connection.status()).watches == []


async def test_a_file_that_is_being_written_when_the_watch_opens_is_no_edit(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor empties a file and fills it; between the two there is nothing to run."""
    told: list[events.Event] = []
    taken: list[dict[str, bytes]] = []

    async def take(target: Target, files: dict[str, bytes], *_: object) -> tuple[str, str]:
        taken.append(files)
        return "", ""

    sut = Watch(catalog.load([planned_only]).find(TARGET), told.append, take, idle)
    emptied, filled = {"optimized.py": b""}, {"optimized.py": corpus.OPTIMIZED.encode()}
    readings = iter([emptied] * 2)
    monkeypatch.setattr(sut, "_read", lambda: next(readings, filled))
    watching = asyncio.create_task(sut.run())
    await eventually(lambda: bool(told), "the first state")
    watching.cancel()
    assert taken == [filled]
    assert [(edit.number, edit.error) for edit in told if isinstance(edit, events.WatchEdit)] == [(0, "")]


@pytest.mark.parametrize("ends", ["mended", "broken"])
async def test_a_syntax_error_gets_a_second_look_before_it_is_told(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    sut = Watch(catalog.load([planned_only]).find(TARGET), lambda event: None, not_run, idle)
    states = {"broken": {"optimized.py": b"def run(x:\n"}, "mended": {"optimized.py": corpus.OPTIMIZED.encode()}}
    # A slow editor: the first half stands still for longer than a save takes to settle.
    readings = iter([states["broken"]] * 2 + [states[ends]] * 3)
    monkeypatch.setattr(sut, "_read", lambda: next(readings))
    assert await sut._settled() == states[ends]


async def test_an_empty_file_that_is_written_again_meanwhile_is_not_taken(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a burst of saves every look may find the file empty, and each time another save emptied it."""
    sut = Watch(catalog.load([planned_only]).find(TARGET), lambda event: None, not_run, idle)
    file = planned_only / NAME / "optimized.py"
    emptied, filled = {"optimized.py": b""}, {"optimized.py": corpus.OPTIMIZED.encode()}
    looks = 0

    def read() -> dict[str, bytes]:
        nonlocal looks
        looks += 1
        os.utime(file, ns=(0, looks))
        return emptied if looks < 10 else filled

    monkeypatch.setattr(sut, "_read", read)
    monkeypatch.setattr(watch, "SECOND_LOOK_S", 0.01)
    assert await sut._settled() == filled


async def test_a_file_that_stays_empty_is_taken(planned_only: Path) -> None:
    (planned_only / NAME / "optimized.py").write_text("")
    settled = await Watch(catalog.load([planned_only]).find(TARGET), lambda event: None, not_run, idle)._settled()
    assert settled is not None and settled["optimized.py"] == b""


async def test_whatever_goes_wrong_with_a_save_ends_that_edit_and_is_told_as_what_it_was(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SWEEP_S", 0.05)
    told: list[events.Event] = []
    faults: list[Exception] = [MemoryError(), SystemError("AST constructor recursion depth mismatch")]

    async def run_it(
        target: Target, files: dict[str, bytes], number: int, names: set[str] | None, announce: watch.Announce
    ) -> tuple[str, str]:
        if faults:
            raise faults.pop(0)
        announce("snapshot", "run")
        return "snapshot", ""

    def edits() -> list[tuple[int, str, str]]:
        return [(e.number, e.run_id, e.error) for e in told if isinstance(e, events.WatchEdit)]

    sut = Watch(catalog.load([planned_only]).find(TARGET), told.append, run_it, idle)
    task = asyncio.create_task(sut.run())
    await eventually(lambda: len(edits()) == 1, "the first state")
    (planned_only / NAME / "optimized.py").write_text(variant(1))
    await eventually(lambda: len(edits()) == 2, "the save that failed")
    read = sut._read
    monkeypatch.setattr(sut, "_read", lambda: 1 // 0)
    await eventually(lambda: any(isinstance(e, events.Banner) for e in told), "what cannot be looked at")
    monkeypatch.setattr(sut, "_read", read)
    (planned_only / NAME / "optimized.py").write_text(variant(2))
    await eventually(lambda: len(edits()) == 3, "the save after it")
    task.cancel()
    await asyncio.wait([task])
    assert edits() == [
        (0, "", "this save could not be run: MemoryError; save again to have it tried again"),
        (
            1,
            "",
            "this save could not be run: SystemError: AST constructor recursion depth mismatch; save again to "
            "have it tried again",
        ),
        (2, "run", ""),
    ]
    banners = [e.text for e in told if isinstance(e, events.Banner)]
    assert banners == [
        f"a save of {TARGET} could not be looked at: ZeroDivisionError: integer division or modulo by zero",
        "",
    ]


async def test_what_a_run_writes_itself_starts_none_until_somebody_else_changes_it(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "RUN_BEHIND_S", 0.0)
    told: list[events.Event] = []
    busy = True
    sut = Watch(catalog.load([planned_only]).find(TARGET), told.append, not_run, lambda: busy)
    tuned = planned_only / NAME / "tuned.py"

    def edits() -> list[list[str]]:
        return [e.files for e in told if isinstance(e, events.WatchEdit)]

    async def saved(file: Path, text: str) -> None:
        file.write_text(text)
        await sut._look(0)

    await sut._take(await sut._settled(), first=True)
    sut.run_ended({"tuned.py": "optimized"})
    await saved(tuned, "CHOICE = 1\n")
    assert edits() == [[]]
    await saved(planned_only / NAME / "optimized.py", variant(1))
    await saved(tuned, "CHOICE = 2\n")
    tuned.write_text("CHOICE = 3\n")
    await saved(planned_only / NAME / "optimized.py", variant(2))
    assert edits() == [[], ["optimized.py"], ["optimized.py", "tuned.py"]]
    busy = False
    await saved(tuned, "CHOICE = 4\n")
    busy = True
    await saved(tuned, "CHOICE = 5\n")  # it is somebody else's now
    assert edits()[3:] == [["tuned.py"], ["tuned.py"]]
    (first, last) = [e.text for e in told if isinstance(e, events.Banner)]
    assert first.startswith(f"a run of {TARGET} writes a source that is watched: {tuned} (by optimized); ")
    assert last == ""


@pytest.mark.parametrize("confined", [0, 7])
def test_what_a_rungs_process_says_that_it_wrote_is_looked_at_before_it_is_believed(
    tmp_path: Path, confined: int
) -> None:
    sut = object.__new__(Execution)
    sut._crew = SimpleNamespace(ready=SimpleNamespace(confined=confined))  # type: ignore[assignment]
    sut.plan = SimpleNamespace(target=SimpleNamespace(folder=tmp_path))  # type: ignore[assignment]
    paths = [f"{tmp_path}/tuned.py", f"{tmp_path}/choice.json", f"{tmp_path.parent}/other.py", "tuned.py"]
    said: list[dict[str, Any]] = [{}, *({"notes": [], "paths": given} for given in (7, None, [7, *paths], paths))]
    encoded = [msgspec.Raw(msgspec.msgpack.encode(facts)) for facts in said]
    sensed = [Sensed(), *(received({"writes_elsewhere": facts}, {}) for facts in encoded)]
    sut._arms = [SimpleNamespace(rung=SimpleNamespace(name="optimized"), sensed=sensed)]  # type: ignore[list-item]
    assert sut.written() == ({} if confined else {"tuned.py": "optimized"})


NAPS = "import time\n" + corpus.when_timed("time.sleep(600)", imports="import time")
"""Never done by itself: what ends it is told by the state."""


@pytest.mark.slow
async def test_a_save_ends_the_run_of_the_save_before_at_once_and_takes_its_rungs_over(
    shared: EngineUnderTest, root: Path
) -> None:
    (root / NAME / "optimized_other.py").write_text(corpus.OPTIMIZED)
    async with watching(shared, root) as watched:
        first = await watched.save("optimized_other.py", NAPS)
        await watched.stream.until(events.Step, lambda e: (e.run_id, e.step.name) == (first.run_id, "measure"))
        second = await watched.save("optimized.py", variant(1))  # the rung that sleeps is still owed a run
        ended = await shared.result(watched.stream, first.run_id)
        assert (ended.record.state, ended.record.reason) == (State.CANCELLED, f"superseded by edit {second.number}")
        assert ended.record.superseded and ended.finished.superseded
        assert {arm.median_ms for arm in ended.record.arms} == {None}
        await watched.stream.until(events.Step, lambda e: (e.run_id, e.step.name) == (second.run_id, "measure"))
        third = await watched.save("optimized_other.py", variant(2))
        assert (await watched.stream.finish(second.run_id)).reason == f"superseded by edit {third.number}"
        last = await shared.result(watched.stream, third.run_id)
    assert last.record.state is State.OK
    assert [arm.rung for arm in last.record.arms if not arm.twin] == ["baseline", "optimized", "optimized_other"]


@pytest.mark.slow
async def test_neither_a_run_that_a_person_asked_for_nor_one_that_has_no_successor_is_ended_by_a_save(
    shared: EngineUnderTest, root: Path
) -> None:
    async with watching(shared, root) as watched:
        first = await watched.save("optimized.py", NAPS)
        await watched.stream.until(events.Step, lambda e: (e.run_id, e.step.name) == (first.run_id, "measure"))
        (watched.folder / "optimized.py").write_text("def run(x:\n")
        assert "optimized.py:1" in (await watched.edit()).error
        (asked,) = await watched.stream.plan(root, TARGET, rungs=["baseline"])
        seq = watched.stream.connection.next_seq()
        reply = await watched.stream.ask(requests.Cancel(seq=seq, run_id=first.run_id))
        assert reply.run_ids == [first.run_id], "it was still under way"
        assert not (await watched.stream.finish(first.run_id)).superseded
        await watched.stream.until(events.Step, lambda e: e.run_id == asked)
        later = await watched.save("optimized.py", variant(1))
        assert (await watched.stream.finish(asked)).state is State.OK
        assert await watched.run_of(later) == "ok"


@pytest.mark.parametrize(("nap_s", "state"), [(0.2, State.OK), (600, State.CANCELLED)])
@pytest.mark.slow
async def test_a_run_that_is_past_its_last_sample_may_conclude_unless_that_takes_long(
    shared: EngineUnderTest, root: Path, nap_s: float, state: State
) -> None:
    """Collection is off in turns and on held-out values, and on again on other values, which come behind them."""
    dozing = (
        "import gc\nimport time\n\non, turned = True, 0\n\n\ndef run(x):\n    global on, turned\n"
        "    turned += on is not gc.isenabled()\n    on = gc.isenabled()\n"
        f"    if turned == 4:\n        time.sleep({nap_s})\n    return x * 2\n"
    )
    async with watching(shared, root) as watched:
        first = await watched.save("optimized.py", dozing)
        await watched.stream.until(events.Step, lambda e: (e.run_id, e.step.name) == (first.run_id, "values"))
        second = await watched.save("optimized.py", variant(1))
        ended = await shared.result(watched.stream, first.run_id)
        assert (ended.record.state, ended.record.superseded) == (state, state is State.CANCELLED)
        assert await watched.run_of(second) == "ok"


@pytest.mark.slow
async def test_of_a_storm_of_saves_the_last_is_measured_and_each_other_says_what_took_its_place(
    shared: EngineUnderTest, root: Path
) -> None:
    async with watching(shared, root) as watched:
        file = watched.folder / "optimized.py"
        for number in range(20):
            file.write_text(variant(number))
            await asyncio.sleep(0.1)
        last = await watched.edit()
        while watched.source(last, "optimized.py") != variant(19).encode():
            last = await watched.edit()
        assert await watched.run_of(last) == "ok"
        for edit in watched.edits[1:-1]:
            run = await watched.stream.finish(edit.run_id)
            assert run.state is State.OK or run.reason == f"superseded by edit {edit.number + 1}"


async def test_the_numbers_of_edits_go_on_where_the_watch_before_ended(
    shared: EngineUnderTest, planned_only: Path
) -> None:
    async with watching(shared, planned_only) as before:
        saved = await before.save("optimized.py", variant(1))
        assert [edit.number for edit in before.edits] == [0, 1]
    async with watching(shared, planned_only) as after:
        later = await after.save("optimized.py", variant(2))
        assert [edit.number for edit in after.edits] == [2, 3]
    with shared.history() as history:
        assert history.run(saved.run_id).edit == (1, ["optimized.py"])
        assert history.run(later.run_id).edit == (3, ["optimized.py"])


async def test_a_syntax_error_is_shown_and_the_mended_file_runs(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    (planned_only / "doubling" / "optimized_other.py").write_text(corpus.OPTIMIZED)
    async with watching(shared, planned_only) as seen:
        before = len(seen.planned())
        (seen.folder / "optimized_other.py").write_text(variant(1))
        (seen.folder / "optimized.py").write_text("def run(x):\n    return x *\n")
        broken = await seen.edit()
        if broken.files == ["optimized_other.py"]:  # the two saves were seen as two edits
            broken = await seen.edit()
            before += 1
        assert (broken.run_id, broken.error) == ("", "optimized.py:2: invalid syntax\n        return x *")
        assert seen.source(broken, "optimized.py") == b"def run(x):\n    return x *\n"
        assert len(seen.planned()) == before, "what does not compile is not run"
        (seen.folder / "optimized.py").write_text(variant(2))
        mended = await seen.edit()
        assert (mended.files, mended.error) == (["optimized.py"], "")
        result = await shared.result(seen.stream, mended.run_id)
        assert result.record.state is State.UNAVAILABLE
        # What the broken edit had changed beside the error is owed a run too.
        assert [arm.rung for arm in result.record.arms if not arm.twin] == ["baseline", "optimized", "optimized_other"]


@pytest.mark.slow
async def test_a_wrong_answer_is_shown_and_the_watch_goes_on(shared: EngineUnderTest, root: Path) -> None:
    async with watching(shared, root) as seen:
        (seen.folder / "optimized.py").write_text("def run(x):\n    return x * 3\n")
        edit = await seen.edit()
        result = await shared.result(seen.stream, edit.run_id)
        assert result.record.state is State.INCORRECT
        assert result.record.reason.startswith("optimized: wrong values: y[")
        assert result.arm("baseline").state is State.OK
        (seen.folder / "optimized.py").write_text(variant(1))
        edit = await seen.edit()
        assert await seen.run_of(edit) == "ok"


async def test_nonsense_in_lesson_md_is_told_and_the_watch_goes_on(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    async with watching(shared, planned_only) as seen:
        lesson = seen.folder / "lesson.md"
        lesson.write_text("+++\ntitle = \n")
        broken = await seen.edit()
        assert (broken.files, broken.run_id) == (["lesson.md"], "")
        assert "lesson.md" in broken.error
        lesson.write_text(UNRUNNABLE.replace("N = 256", "N = 512"))
        mended = await seen.edit()
        assert (mended.files, mended.error) == (["lesson.md"], "")
        result = await shared.result(seen.stream, mended.run_id)
        assert result.record.state is State.UNAVAILABLE
        assert result.record.manifest["axes"] == {"N": 512}


async def test_restoring_an_earlier_snapshot_writes_it_back_and_runs_it(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    async with watching(shared, planned_only) as seen:
        first = seen.edits[0]
        (seen.folder / "optimized.py").write_text(variant(9))
        (seen.folder / "notes.txt").write_text("mine")
        edit = await seen.edit()
        reply = await seen.stream.ask(
            requests.Restore(
                seq=seen.stream.connection.next_seq(), root=str(planned_only), target=TARGET, snapshot=first.snapshot
            )
        )
        assert reply.detail == edit.snapshot, "what stood there is kept, and named"
        assert (seen.folder / "optimized.py").read_text() == corpus.OPTIMIZED
        assert (seen.folder / "notes.txt").read_text() == "mine"
        assert sorted(p.name for p in seen.folder.iterdir() if "restoring" in p.name) == []
        restored = await seen.edit()
        assert (restored.files, restored.snapshot) == (["optimized.py"], first.snapshot)
        assert await seen.run_of(restored) == "unavailable"


async def test_a_watch_of_no_target_says_what_there_is(shared: EngineUnderTest, root: Path) -> None:
    async with shared.stream() as stream:
        request = requests.StartWatch(seq=stream.connection.next_seq(), root=str(root), target="mine:doublin")
        reply = await stream.connection.request(request)
    assert reply.error == "no target 'mine:doublin'; did you mean mine:doubling?"


async def test_more_watches_than_the_engine_keeps_are_refused(shared: EngineUnderTest, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(watches.MOST_WATCHES + 1)]
    for name in names:
        corpus.write(tmp_path / "many" / name, lesson=UNRUNNABLE)
    async with shared.stream() as stream:

        async def ask(name: str) -> events.Reply:
            request = requests.StartWatch(
                seq=stream.connection.next_seq(), root=str(tmp_path / "many"), target=f"many:{name}"
            )
            return await stream.connection.request(request)

        try:
            replies = [await ask(name) for name in names]
            assert [reply.error for reply in replies[:-1]] == [""] * watches.MOST_WATCHES
            assert replies[-1].error == "32 targets are watched already, which is the most; end a watch first"
            await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target=f"many:{names[0]}"))
            assert (await ask(names[-1])).error == ""
        finally:
            for name in names:
                await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target=f"many:{name}"))
            await stream.connection.request(requests.Cancel(seq=stream.connection.next_seq()))
            for event in list(stream.seen):
                if isinstance(event, events.RunPlanned):
                    await stream.finish(event.run_id)


@pytest.mark.slow
async def test_a_name_that_is_no_utf_8_does_not_end_the_watch(shared: EngineUnderTest, planned_only: Path) -> None:
    async with watching(shared, planned_only) as seen:
        for number in range(3):
            Path(os.fsdecode(os.fsencode(seen.folder) + b"/bad_\xff.txt")).write_text(f"{number}")
            await seen.save("optimized.py", variant(number))
        status = await seen.stream.connection.status()
        assert [(item.edits, item.polling) for item in status.watches] == [(3, False)]


async def test_a_watch_asks_the_kernel_again_and_tells_when_it_listens(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Exception | None] = [
        OSError("OS file watch limit reached."),
        RuntimeError("Too many open files (os error 24)"),
        None,
    ]

    async def awatch(*_: object, **__: object) -> AsyncIterator[set[object]]:
        if answers and (refused := answers.pop(0)) is not None:
            raise refused
        while True:
            await asyncio.sleep(0.01)
            yield set()

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    monkeypatch.setattr(watch, "RETRY_S", 0.05)
    told: list[events.Event] = []
    sut = Watch(catalog.load([planned_only]).find(TARGET), told.append, not_run, idle)
    task = asyncio.create_task(sut.run())
    await eventually(lambda: len(told) == 3, "polling and its end are told")
    (planned_only / NAME / "optimized.py").write_text(variant(1))
    await eventually(lambda: len(told) == 4, "the save is seen")
    task.cancel()
    await asyncio.wait([task])
    assert [event.polling for event in told if isinstance(event, events.WatchChanged)] == [True, False]
    assert [event.number for event in told if isinstance(event, events.WatchEdit)] == [0, 1]


async def test_a_git_lock_that_stays_is_told_and_so_is_its_end(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LOCK_PATIENCE_S", 0.2)
    told: list[events.Event] = []
    sut = Watch(catalog.load([planned_only]).find(TARGET), told.append, not_run, idle)
    lock = planned_only / ".git" / "index.lock"
    lock.parent.mkdir()
    lock.write_text("")
    assert await sut._settled() is None
    assert await sut._settled() is None
    (banner,) = told
    assert isinstance(banner, events.Banner)
    assert banner.text == f"{TARGET} is not run: {lock} is there; remove it if no git command runs"
    lock.unlink()
    settled = await sut._settled()
    assert settled is not None and "optimized.py" in settled
    (_, over) = told
    assert over == events.Banner(key=banner.key, text="")


def test_the_lock_of_a_worktree_and_of_a_linked_checkout_is_found(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, timeout=60)

    git("init", "--quiet", "main")
    git("-C", "main", "commit", "--quiet", "--allow-empty", "-m", "first")
    git("-C", "main", "worktree", "add", "--quiet", "../tree")
    (tmp_path / "tree" / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "tree" / "target")
    assert watch._git_lock(tmp_path / "link") is None
    lock = tmp_path / "main" / ".git" / "worktrees" / "tree" / "index.lock"
    lock.write_text("")
    assert watch._git_lock(tmp_path / "tree" / "target") == lock
    assert watch._git_lock(tmp_path / "link") == lock
    assert watch._git_lock(tmp_path / "main") is None


def test_what_is_listened_to_are_folders_of_sources_and_those_that_links_lead_to(tmp_path: Path) -> None:
    folder = corpus.write(tmp_path / "real" / "doubling")
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / "__pycache__").mkdir()
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "round").symlink_to(folder)
    (folder / "self").symlink_to("self")
    (tmp_path / "library" / "deep").mkdir(parents=True)
    (tmp_path / "library" / "shared.py").write_text("")
    (folder / "shared.py").symlink_to(tmp_path / "library" / "shared.py")
    (tmp_path / "link").symlink_to(folder)
    found = watch._places(tmp_path / "link")
    assert found is not None
    names = {os.path.relpath(path, tmp_path) for path in found.folders}
    assert names == {"real/doubling", "real/doubling/a", "real/doubling/a/b", "library"}
    assert found.matter(str(folder / "a" / "new.py"))
    assert found.matter(str(tmp_path / "library" / "shared.py"))
    assert not found.matter(str(tmp_path / "library" / "another.py"))
    assert not found.matter(str(folder / "optimized.py~"))
    assert watch._places(tmp_path / "nowhere") is None


def test_a_tree_without_end_is_listened_to_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_PLACES", 5)
    for number in range(9):
        (tmp_path / f"part_{number}").mkdir()
    found = watch._places(tmp_path)
    assert found is not None
    assert len(found.folders) == 5
    assert str(tmp_path) in found.folders
