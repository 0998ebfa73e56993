"""Watching a folder: whatever an editor or git does to it, each save becomes one run, of the last state."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.protocol import events, requests
from engine.watch import Watch
from kernels import catalog
from store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.evil import corpus

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]

TARGET = "mine:doubling"


class Watched:
    """A target under watch, and what the watch says."""

    def __init__(self, engine: EngineUnderTest, stream: Stream, folder: Path) -> None:
        self.engine = engine
        self.stream = stream
        self.folder = folder
        self.edits: list[events.WatchEdit] = []

    async def edit(self) -> events.WatchEdit:
        """The next edit that the watch tells."""
        found = await self.stream.until(events.WatchEdit, lambda edit: edit.target == TARGET)
        self.edits.append(found)
        return found

    async def run_of(self, edit: events.WatchEdit) -> str:
        """The state that the edit's run ended in."""
        assert edit.run_id, edit.error
        return (await self.stream.finish(edit.run_id)).state

    def planned(self) -> list[str]:
        """Runs that were planned so far."""
        return [e.run_id for e in self.stream.seen if isinstance(e, events.RunPlanned)]

    async def settle(self) -> None:
        """Make one more edit and wait for it: whatever came before it has been told by then."""
        (self.folder / "marker.h").write_text(f"// {len(self.edits)}\n")
        while True:
            if (await self.edit()).files == ["marker.h"]:
                return

    def source(self, edit: events.WatchEdit, name: str) -> bytes:
        """A file as the edit's snapshot has it."""
        with self.engine.history() as history:
            return history.snapshot(edit.snapshot)[name]


@contextlib.asynccontextmanager
async def watching(engine: EngineUnderTest, root: Path) -> AsyncIterator[Watched]:
    """Watch the target; its first state has been told, and its run has been cancelled."""
    async with engine.stream() as stream:
        await stream.ask(requests.StartWatch(seq=stream.connection.next_seq(), root=str(root), target=TARGET))
        watched = Watched(engine, stream, root / "doubling")
        try:
            first = await watched.edit()
            assert (first.number, first.files) == (0, [])
            if first.run_id:
                await stream.connection.request(requests.Cancel(seq=stream.connection.next_seq(), run_id=first.run_id))
                await stream.finish(first.run_id)
            yield watched
        finally:
            await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target=TARGET))
            await stream.connection.request(requests.Cancel(seq=stream.connection.next_seq()))
            for run_id in watched.planned():
                await stream.finish(run_id)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with one small target."""
    corpus.write(tmp_path / "mine" / "doubling")
    return tmp_path / "mine"


UNRUNNABLE = corpus.LESSON.replace("[inputs]", "needs = { gpus = 64 }\n[inputs]")


@pytest.fixture
def planned_only(tmp_path: Path) -> Path:
    """The same for tests of what is planned, not of how it runs: no machine has what this target needs."""
    corpus.write(tmp_path / "mine" / "doubling", lesson=UNRUNNABLE)
    return tmp_path / "mine"


def variant(number: int) -> str:
    """A right rung, another one for every number."""
    return f"# {number}\n" + corpus.OPTIMIZED


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
        result = await shared.result(stream, first.run_id)
        assert result.record.state is State.OK
        assert [arm.rung for arm in result.record.arms] == ["baseline", "optimized"]
        assert (result.record.trigger, result.record.quick) == ("watch", True)
        await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target=TARGET))
        assert (await stream.until(events.WatchChanged)).active is False
        assert (await stream.connection.status()).watches == []


async def test_saves_of_every_kind_are_one_run_each_of_what_was_saved(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    async with watching(shared, planned_only) as watched:
        file = watched.folder / "optimized.py"

        def plain(text: str) -> None:
            file.write_text(text)

        def rename_over(text: str) -> None:
            partial = watched.folder / ".optimized.py.new"
            partial.write_text(text)
            partial.rename(file)

        def backup_dance(text: str) -> None:
            # As vim does with backupcopy=no: probe, move the old one away, write anew, remove the backup.
            (watched.folder / "4913").write_text("")
            (watched.folder / "4913").unlink()
            (watched.folder / ".optimized.py.swp").write_bytes(b"b0VIM 9.0")
            backup = watched.folder / "optimized.py~"
            file.rename(backup)
            file.write_text(text)
            backup.unlink()
            (watched.folder / ".optimized.py.swp").unlink()

        def truncated_first(text: str) -> None:
            with file.open("w") as sink:
                sink.flush()
                os.fsync(sink.fileno())
                sink.write(text)

        runs = []
        for number, save in enumerate((plain, rename_over, backup_dance, truncated_first), 1):
            save(variant(number))
            edit = await watched.edit()
            assert (edit.number, edit.files, edit.error) == (number, ["optimized.py"], ""), save.__name__
            assert watched.source(edit, "optimized.py") == variant(number).encode(), save.__name__
            runs.append(edit.run_id)
        assert await watched.run_of(edit) == "unavailable"
        assert len(set(runs)) == 4
        assert watched.planned()[1:] == runs
        # All but the last were replaced before they began, or had begun.
        ends = {(await watched.stream.finish(run)).state for run in runs}
        assert ends <= {"unavailable", "cancelled"}
        assert (await watched.stream.connection.status()).watches[0].edits == 4


@pytest.mark.skipif(not Path("/usr/bin/vim").exists(), reason="needs vim at /usr/bin/vim")
@pytest.mark.parametrize("backup", ["no", "yes"])
async def test_a_save_in_vim_is_one_run(shared: EngineUnderTest, planned_only: Path, backup: str) -> None:
    async with watching(shared, planned_only) as watched:
        file = watched.folder / "optimized.py"
        vim = ["/usr/bin/vim", "-u", "NONE", "-i", "NONE", "-n", "-es", str(file)]
        commands = ["+set nocompatible writebackup", f"+set backupcopy={backup}", "+1", "+norm Ox = 3", "+wq"]
        vim = [*vim[:-1], *commands, vim[-1]]
        await asyncio.to_thread(subprocess.run, vim, check=False, stdin=subprocess.DEVNULL, timeout=30)
        assert file.read_text() == "x = 3\n" + corpus.OPTIMIZED
        edit = await watched.edit()
        assert edit.files == ["optimized.py"]
        assert watched.source(edit, "optimized.py") == b"x = 3\n" + corpus.OPTIMIZED.encode()
        await watched.settle()
        assert [e.files for e in watched.edits] == [[], ["optimized.py"], ["marker.h"]]


async def test_a_half_written_save_is_not_run(shared: EngineUnderTest, planned_only: Path) -> None:
    async with watching(shared, planned_only) as watched:
        with (watched.folder / "optimized.py").open("w") as sink:
            sink.write("def run(x):\n    return (x")
            sink.flush()
            await asyncio.sleep(0.005)  # the two writes of one save
            sink.write(" * 2)\n")
        edit = await watched.edit()
        assert (edit.error, edit.number) == ("", 1)
        assert watched.source(edit, "optimized.py") == b"def run(x):\n    return (x * 2)\n"
        assert await watched.run_of(edit) == "unavailable"


@pytest.mark.parametrize("ends", ["mended", "broken"])
async def test_a_syntax_error_gets_a_second_look_before_it_is_told(
    planned_only: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    async def run_it(*_: object) -> tuple[str, str, str]:
        raise AssertionError("nothing is run while the sources settle")

    watch = Watch(catalog.load([planned_only]).find(TARGET), lambda event: None, run_it)
    states = {"broken": {"optimized.py": b"def run(x:\n"}, "mended": {"optimized.py": corpus.OPTIMIZED.encode()}}
    # A slow editor: the first half stands still for longer than a save takes to settle.
    readings = iter([states["broken"]] * 2 + [states[ends]] * 3)
    monkeypatch.setattr(watch, "_read", lambda: next(readings))
    assert await watch._settled() == states[ends]


async def test_a_syntax_error_is_shown_and_the_mended_file_runs(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    (planned_only / "doubling" / "optimized_other.py").write_text(corpus.OPTIMIZED)
    async with watching(shared, planned_only) as watched:
        before = len(watched.planned())
        (watched.folder / "optimized_other.py").write_text(variant(1))
        (watched.folder / "optimized.py").write_text("def run(x):\n    return x *\n")
        broken = await watched.edit()
        if broken.files == ["optimized_other.py"]:  # the two saves were seen as two edits
            broken = await watched.edit()
            before += 1
        assert (broken.run_id, broken.error) == ("", "optimized.py:2: invalid syntax\n        return x *")
        assert watched.source(broken, "optimized.py") == b"def run(x):\n    return x *\n"
        assert len(watched.planned()) == before, "what does not compile is not run"
        (watched.folder / "optimized.py").write_text(variant(2))
        mended = await watched.edit()
        assert (mended.files, mended.error) == (["optimized.py"], "")
        result = await shared.result(watched.stream, mended.run_id)
        assert result.record.state is State.UNAVAILABLE
        # What the broken edit had changed beside the error is owed a run too.
        assert [arm.rung for arm in result.record.arms] == ["baseline", "optimized", "optimized_other"]


async def test_a_wrong_answer_is_shown_and_the_watch_goes_on(shared: EngineUnderTest, root: Path) -> None:
    async with watching(shared, root) as watched:
        (watched.folder / "optimized.py").write_text("def run(x):\n    return x * 3\n")
        edit = await watched.edit()
        result = await shared.result(watched.stream, edit.run_id)
        assert result.record.state is State.INCORRECT
        assert result.record.reason.startswith("optimized: wrong values: y[")
        assert result.arm("baseline").state is State.OK
        (watched.folder / "optimized.py").write_text(variant(1))
        edit = await watched.edit()
        assert await watched.run_of(edit) == "ok"


async def test_a_checkout_of_a_hundred_files_is_one_run_of_the_last_state(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    folder = planned_only / "doubling"

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-c", "gc.auto=0"]
        subprocess.run(["git", *identity, *arguments], cwd=planned_only, check=True, capture_output=True, timeout=60)

    git("init", "--quiet", "--initial-branch=old")
    for state in ("old", "new"):
        if state == "new":
            git("checkout", "--quiet", "-b", "new")
        for number in range(100):
            (folder / f"part_{number}.py").write_text(f"# {state}\n")
        (folder / "optimized.py").write_text(f"# {state}\n" + corpus.OPTIMIZED)
        git("add", ".")
        git("commit", "--quiet", "-m", state)
    git("checkout", "--quiet", "old")
    async with watching(shared, planned_only) as watched:
        git("checkout", "--quiet", "new")
        edit = await watched.edit()
        assert len(edit.files) == 101
        with shared.history() as history:
            sources = history.snapshot(edit.snapshot)
        assert {sources[f"part_{number}.py"] for number in range(100)} == {b"# new\n"}
        await watched.settle()
        assert [e.number for e in watched.edits] == [0, 1, 2], "the checkout was one edit"


async def test_a_held_git_lock_holds_the_run_back(shared: EngineUnderTest, planned_only: Path) -> None:
    (planned_only / ".git").mkdir()
    async with watching(shared, planned_only) as watched:
        lock = planned_only / ".git" / "index.lock"
        lock.write_text("")
        (watched.folder / "optimized.py").write_text(variant(1))
        await asyncio.sleep(0.5)
        (watched.folder / "optimized.py").write_text(variant(2))
        status = await watched.stream.connection.status()
        assert status.watches[0].edits == 0, "an edit was taken while git was at work"
        lock.unlink()
        edit = await watched.edit()
        assert watched.source(edit, "optimized.py") == variant(2).encode()
        await watched.settle()
        assert [e.number for e in watched.edits] == [0, 1, 2]


async def test_a_deleted_file_is_told_and_its_return_runs(shared: EngineUnderTest, planned_only: Path) -> None:
    async with watching(shared, planned_only) as watched:
        (watched.folder / "optimized.py").unlink()
        gone = await watched.edit()
        assert (gone.files, gone.run_id) == (["optimized.py"], "")
        assert "optimized.py: missing; write run(...) there with the lesson applied" in gone.error
        (watched.folder / "optimized.py").write_text(variant(1))
        back = await watched.edit()
        assert (back.files, back.error) == (["optimized.py"], "")
        assert await watched.run_of(back) == "unavailable"


async def test_a_folder_that_is_deleted_and_made_again_is_still_watched(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    async with watching(shared, planned_only) as watched:
        shutil.rmtree(watched.folder)
        corpus.write(watched.folder, reference="# again\n" + corpus.REFERENCE, lesson=UNRUNNABLE)
        again = await watched.edit()
        while "reference.py" not in again.files or again.error:  # seen while it was half there
            again = await watched.edit()
        assert watched.source(again, "reference.py").startswith(b"# again")
        (watched.folder / "optimized.py").write_text(variant(1))
        edit = await watched.edit()
        assert edit.files == ["optimized.py"]
        assert await watched.run_of(edit) == "unavailable"


async def test_nonsense_in_lesson_md_is_told_and_the_watch_goes_on(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    async with watching(shared, planned_only) as watched:
        lesson = watched.folder / "lesson.md"
        lesson.write_text("+++\ntitle = \n")
        broken = await watched.edit()
        assert (broken.files, broken.run_id) == (["lesson.md"], "")
        assert "lesson.md" in broken.error
        lesson.write_text(UNRUNNABLE.replace("N = 256", "N = 512"))
        mended = await watched.edit()
        assert (mended.files, mended.error) == (["lesson.md"], "")
        result = await shared.result(watched.stream, mended.run_id)
        assert result.record.state is State.UNAVAILABLE
        assert result.record.manifest["axes"] == {"N": 512}


async def test_edits_while_a_run_is_under_way_queue_one_run_of_the_last(
    shared: EngineUnderTest,
    root: Path,
) -> None:
    (root / "doubling" / "optimized_other.py").write_text(corpus.OPTIMIZED)
    async with watching(shared, root) as watched:
        slow = "import time\n\ntime.sleep(2)\n" + corpus.OPTIMIZED
        (watched.folder / "optimized.py").write_text(slow)
        first = await watched.edit()
        await watched.stream.until(events.Step, lambda step: step.run_id == first.run_id)
        (watched.folder / "optimized_other.py").write_text(variant(1))
        replaced = await watched.edit()
        (watched.folder / "optimized.py").write_text(variant(2))
        last = await watched.edit()
        status = await watched.stream.connection.status()
        assert [item.run_id for item in status.queue] == [first.run_id, last.run_id]
        ended = await watched.stream.finish(replaced.run_id)
        assert (ended.state, ended.reason) == ("cancelled", "superseded by a later save")
        under_way = await shared.result(watched.stream, first.run_id)
        result = await shared.result(watched.stream, last.run_id)
    assert under_way.record.state is State.OK
    assert under_way.record.snapshot == first.snapshot
    with shared.history() as history:
        # The run used the sources as they were when it was planned, whatever was saved meanwhile.
        assert history.snapshot(under_way.record.snapshot)["optimized.py"] == slow.encode()
    # The last run takes over what the replaced one would have run.
    assert [arm.rung for arm in result.record.arms] == ["baseline", "optimized", "optimized_other"]
    assert result.record.state is State.OK


async def test_restoring_an_earlier_snapshot_writes_it_back_and_runs_it(
    shared: EngineUnderTest,
    planned_only: Path,
) -> None:
    async with watching(shared, planned_only) as watched:
        first = watched.edits[0]
        (watched.folder / "optimized.py").write_text(variant(9))
        (watched.folder / "notes.txt").write_text("mine")
        edit = await watched.edit()
        reply = await watched.stream.ask(
            requests.Restore(
                seq=watched.stream.connection.next_seq(), root=str(planned_only), target=TARGET, snapshot=first.snapshot
            )
        )
        assert reply.detail == edit.snapshot, "what stood there is kept, and named"
        assert (watched.folder / "optimized.py").read_text() == corpus.OPTIMIZED
        assert (watched.folder / "notes.txt").read_text() == "mine"
        assert sorted(p.name for p in watched.folder.iterdir() if "restoring" in p.name) == []
        restored = await watched.edit()
        assert (restored.files, restored.snapshot) == (["optimized.py"], first.snapshot)
        assert await watched.run_of(restored) == "unavailable"


async def test_a_watch_of_no_target_says_what_there_is(shared: EngineUnderTest, root: Path) -> None:
    async with shared.stream() as stream:
        request = requests.StartWatch(seq=stream.connection.next_seq(), root=str(root), target="mine:doublin")
        reply = await stream.connection.request(request)
    assert reply.error == "no target 'mine:doublin'; did you mean mine:doubling?"
