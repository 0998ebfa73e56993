"""Rows 26 to 33: what editors, git and the file system do to sources while they are watched and while they run."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.sources import MAX_FILE_BYTES
from aisp.store.outcomes import State
from tests.engine.started import SITE
from tests.proofs.evil import corpus
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, assert_timed
from tests.proofs.evil.watched import NAME, TARGET, UNRUNNABLE, planned_only, variant, watching

VIM = "/usr/bin/vim"
MAIN = Path(__file__).parents[4]


@fault(
    26,
    "sources are edited while their run is under way",
    "a run that a person asked for uses the snapshot that it was planned with; of the later edits one new run goes on, "
    "and one that had begun ends at once",
)
async def edited_while_it_runs(stage: Stage) -> str:
    root = stage.target(NAME)
    (root / NAME / "optimized_other.py").write_text(corpus.OPTIMIZED)
    async with watching(stage.engine, root) as watched:
        slow = "import time\n\ntime.sleep(2)\n" + corpus.OPTIMIZED
        begun = await watched.save("optimized.py", slow)
        await watched.stream.until(events.Step, lambda step: step.run_id == begun.run_id)
        (asked,) = await watched.stream.plan(root, TARGET)
        cut = await watched.save("optimized.py", "# 1\n" + slow)
        superseded = await watched.stream.finish(begun.run_id)
        assert (superseded.state, superseded.reason) == ("cancelled", f"superseded by edit {cut.number}")
        await watched.stream.connection.request(
            requests.Cancel(seq=watched.stream.connection.next_seq(), run_id=cut.run_id)
        )
        await watched.stream.until(events.Step, lambda step: step.run_id == asked)
        replaced = await watched.save("optimized_other.py", variant(1))
        last = await watched.save("optimized.py", variant(2))
        status = await watched.stream.connection.status()
        assert [item.run_id for item in status.queue] == [asked, last.run_id]
        ended = await watched.stream.finish(replaced.run_id)
        assert (ended.state, ended.reason) == ("cancelled", f"superseded by edit {last.number}")
        under_way = await stage.engine.result(watched.stream, asked)
        result = await stage.engine.result(watched.stream, last.run_id)
    assert under_way.record.state is State.OK
    assert under_way.record.snapshot == begun.snapshot
    with stage.engine.history() as history:
        assert history.snapshot(under_way.record.snapshot)["optimized.py"] == slow.encode()
        assert history.snapshot(result.record.snapshot)["optimized.py"] == variant(2).encode()
    # The last run takes over what the replaced one would have run.
    assert [arm.rung for arm in result.record.arms if not arm.twin] == ["baseline", "optimized", "optimized_other"]
    assert result.record.state is State.OK
    return (
        f"the run of a save ended with the next one; the run that was asked for ended {under_way.record.state.value} "
        "with the sources it was planned with; of two edits meanwhile one run was queued and ended "
        f"{result.record.state.value} with both"
    )


@fault(
    27,
    "a file is deleted while it runs, or before its run is planned",
    "the run ends as it would have; without the file nothing is run and the error names it; the watch goes on",
)
async def deleted(stage: Stage) -> str:
    root = stage.target(NAME)
    folder = root / NAME
    (folder / "optimized_other.py").write_text("import time\n\ntime.sleep(1)\n" + corpus.OPTIMIZED)
    async with stage.engine.stream() as stream:
        (run_id,) = await stream.plan(root, TARGET)
        await stream.until(events.Step, lambda step: step.run_id == run_id)
        (folder / "optimized_other.py").unlink()
        result = await stage.engine.result(stream, run_id)
        assert result.record.state is State.OK, result.record.reason
        assert_timed(result, "optimized_other")
        # Listed and yet not there to be read, as a file is that goes between the listing and the reading.
        (folder / "optimized_gone.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
        (run_id,) = await stream.plan(root, TARGET)
        result = await stage.engine.result(stream, run_id)
        missing = result.arm("optimized_gone")
        assert missing.state is State.USER_ERROR, missing
        assert_timed(result, "optimized")
        (folder / "optimized_gone.py").unlink()
    (folder / "lesson.md").write_text(UNRUNNABLE)
    async with watching(stage.engine, root) as watched:
        (folder / "optimized.py").unlink()
        gone = await watched.edit()
        assert (gone.files, gone.run_id) == (["optimized.py"], "")
        assert "optimized.py: missing; write run(...) there with the lesson applied" in gone.error
        back = await watched.save("optimized.py", variant(1))
        assert await watched.run_of(back) == "unavailable"
    reason = gone.error.replace(f"{folder}/", "")
    return f"deleted while it ran: ok; gone when it was planned: {missing.reason}; watched: {reason}"


@fault(28, "a save is written in two halves", "one run, of the whole; what does not compile gets a second look")
async def half_written(stage: Stage) -> str:
    async with watching(stage.engine, planned_only(stage.home)) as watched:
        text = "def run(x):\n    return (x * 2)\n"
        for pause_s in (0.005, 0.08):  # the two writes of one save; and those of a slow editor
            with (watched.folder / "optimized.py").open("w") as sink:
                sink.write(text[:24])
                sink.flush()
                await asyncio.sleep(pause_s)
                sink.write(text[24:])
            edit = await watched.saved("optimized.py", text)
            assert await watched.run_of(edit) == "unavailable"
            text += "# again\n"
        await watched.settle()
        assert [e.error for e in watched.edits] == [""] * 4
    return f"writes 5 and 80 ms apart: {len(watched.edits) - 2} saves, {len(watched.edits) - 2} edits, no error told"


@fault(29, "a save renames over the file, or does vim's backup dance", "one run per save, of what was saved")
async def saved_in_every_way(stage: Stage) -> str:
    async with watching(stage.engine, planned_only(stage.home)) as watched:
        file = watched.folder / "optimized.py"

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

        def vim(text: str, copies: str = "no") -> None:
            first, _, _ = text.partition("\n")
            command = [VIM, "-u", "NONE", "-i", "NONE", "-n", "-es", "+set nocompatible writebackup"]
            command += [f"+set backupcopy={copies}", f"+1s/.*/{first}/", "+wq", str(file)]
            subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=30)
            assert file.read_text() == text

        def vim_with_copies(text: str) -> None:
            vim(text, "yes")

        ways = [rename_over, backup_dance, truncated_first]
        ways += [vim, vim_with_copies] if Path(VIM).exists() else []
        runs = []
        for number, way in enumerate(ways):
            await asyncio.to_thread(way, variant(number))
            runs.append((await watched.saved("optimized.py", variant(number))).run_id)
        await watched.settle()
        assert [e.number for e in watched.edits] == list(range(len(ways) + 2)), "a save was more than one edit"
        assert watched.planned()[1:-1] == runs
        assert len(set(runs)) == len(ways)
        # All but the last were replaced before they began, or had begun.
        ends = {(await watched.stream.finish(run)).state for run in runs}
        assert ends <= {"unavailable", "cancelled"}
    told = ", ".join(way.__name__.replace("_", " ") for way in ways)
    return f"{len(ways)} saves ({told}), {len(runs)} edits, {len(runs)} runs, each of what was saved"


@fault(
    30,
    "a target is a link, a file in it is a link, and links go in circles",
    "an edit of the file that a link leads to is seen, and runs; no walk is endless",
)
async def links(stage: Stage) -> str:
    real = corpus.write(stage.home / "elsewhere" / NAME, lesson=UNRUNNABLE)
    shared = stage.home / "library" / "deep" / "optimized.py"
    shared.parent.mkdir(parents=True)
    (real / "optimized.py").rename(shared)
    (real / "optimized.py").symlink_to(shared)
    (real / "again").symlink_to(real)
    (real / "parts").mkdir()
    (real / "parts" / "up").symlink_to(real.parent)
    (real / "one.py").symlink_to("two.py")
    (real / "two.py").symlink_to("one.py")
    (stage.home / "mine").mkdir()
    (stage.home / "mine" / NAME).symlink_to(real)
    seen_s = []
    async with watching(stage.engine, stage.home / "mine") as watched:
        await watched.settle()  # the watch is armed
        for number, file in enumerate((shared, real / "baseline.py", real / "parts" / "part.py")):
            name = "parts/part.py" if file.parent.name == "parts" else file.name
            saved_ns = time.monotonic_ns()
            file.write_text(variant(number))
            seen_s.append(((await watched.saved(name, variant(number))).save_ns - saved_ns) / 1e9)
        partial = shared.with_name(".new")
        partial.write_text(variant(7))
        partial.rename(shared)
        last = await watched.saved("optimized.py", variant(7))
        assert await watched.run_of(last) == "unavailable"
        assert len(last.files) == 1
    told = ", ".join(f"{s * 1e3:.0f}" for s in seen_s)
    return f"edits behind a link, in a linked folder and below it were seen after {told} ms, as was a rename behind it"


FILES = 1000


@fault(
    31,
    f"git checks out {FILES:,} changed files, and holds its lock",
    "nothing runs while the lock is there; then one run of the last state",
)
async def checkout(stage: Stage) -> str:
    root = planned_only(stage.home)
    folder = root / NAME

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false", "-c", "gc.auto=0"]
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, timeout=60)

    git("init", "--quiet", "--initial-branch=old")
    for state in ("old", "new"):
        if state == "new":
            git("checkout", "--quiet", "-b", "new")
        for number in range(FILES):
            (folder / f"part_{number}.h").write_text(f"// {state}\n")
        (folder / "optimized.py").write_text(f"# {state}\n" + corpus.OPTIMIZED)
        git("add", ".")
        git("commit", "--quiet", "-m", state)
    git("checkout", "--quiet", "old")
    async with watching(stage.engine, root) as watched:
        await asyncio.to_thread(git, "checkout", "--quiet", "new")
        edit = await watched.edit()
        assert len(edit.files) == FILES + 1
        with stage.engine.history() as history:
            sources = history.snapshot(edit.snapshot)
        assert {sources[f"part_{number}.h"] for number in range(FILES)} == {b"// new\n"}
        await watched.settle()
        assert [e.number for e in watched.edits] == [0, 1, 2], "the checkout was one edit"
        lock = root / ".git" / "index.lock"
        lock.write_text("")
        (watched.folder / "optimized.py").write_text(variant(1))
        await asyncio.sleep(0.5)
        status = await watched.stream.connection.status()
        assert status.watches[0].edits == 2, "an edit was taken while git was at work"
        (watched.folder / "optimized.py").write_text(variant(2))
        lock.unlink()
        await watched.saved("optimized.py", variant(2))
        await watched.settle()
        assert [e.number for e in watched.edits] == [0, 1, 2, 3, 4]
        assert len(watched.planned()) == 5
    return f"{len(edit.files)} changed files were one edit and one run; two saves while the lock was held were one more"


@fault(32, "the watched folder is removed and made again", "the new folder is watched, and its state runs")
async def replaced(stage: Stage) -> str:
    root = planned_only(stage.home)
    async with watching(stage.engine, root) as watched:
        shutil.rmtree(watched.folder)
        corpus.write(watched.folder, reference="# again\n" + corpus.REFERENCE, lesson=UNRUNNABLE)
        again = await watched.edit()
        while "reference.py" not in again.files or again.error:  # seen while it was half there
            again = await watched.edit()
        assert watched.source(again, "reference.py").startswith(b"# again")
        await watched.save("optimized.py", variant(1))
        # The whole root goes, and comes back by a rename, as a restored backup does.
        root.rename(stage.home / "away")
        away_ns = time.monotonic_ns()
        corpus.write(stage.home / "restored" / NAME, lesson=UNRUNNABLE)
        (stage.home / "restored").rename(root)
        back = await watched.edit()
        while back.error:
            back = await watched.edit()
        found_s = (back.save_ns - away_ns) / 1e9
        edit = await watched.save("optimized.py", variant(2))
        assert await watched.run_of(edit) == "unavailable"
    return f"made again: seen; another root moved to its place: seen after {found_s:.1f} s; the next saves ran"


NO_INOTIFY = '''\
"""Read by Python as it starts: an engine that finds this has no inotify instance to get."""

import ctypes
import os
import sys
from pathlib import Path

NEW_USER_NAMESPACE = 0x10000000


def limit():
    """The kernel's own limit, in a user namespace of the engine's; "" where it was set, else why not."""
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USER_NAMESPACE) != 0:
        return os.strerror(ctypes.get_errno())
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        Path("/proc/sys/user/max_inotify_instances").write_text("0")
    except OSError as error:
        return str(error)
    return ""


def pretend():
    """Where no such namespace can be had, the watcher says what it says at the limit."""
    import watchfiles

    def refused(*_, **__):
        raise OSError("OS file watch limit reached.")

    watchfiles.awatch = refused


if "aisp.engine.server" in sys.orig_argv:
    problem = limit()
    if problem:
        pretend()
    Path(__file__).with_name("how").write_text(problem or "the kernel's limit")
'''


@fault(
    33,
    "there is no inotify instance left for a watch",
    "it looks now and then instead, clients say so, and saves still run",
    own=True,
)
async def no_inotify(stage: Stage) -> str:
    engine = stage.own()
    folder = stage.home / "limited"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_INOTIFY)
    engine.environment[SITE] = str(folder)
    await engine.start()
    async with watching(engine, planned_only(stage.home)) as watched:
        seen_s = []
        for number in range(2):
            saved_ns = time.monotonic_ns()
            edit = await watched.save("optimized.py", variant(number))
            seen_s.append((edit.save_ns - saved_ns) / 1e9)
        assert await watched.run_of(edit) == "unavailable"
        command = [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", "engine"]
        with engine.use():
            ran = await asyncio.to_thread(
                subprocess.run, command, cwd=MAIN, capture_output=True, timeout=60, check=True
            )
        line = next(line for line in ran.stdout.decode().splitlines() if line.startswith(f"watching {TARGET}"))
        assert "2 edits, by looking now and then" in line
        told = [e.polling for e in watched.stream.seen if isinstance(e, events.WatchChanged) and e.active]
        assert told == [False, True]
    how = (folder / "how").read_text()
    how = how if how == "the kernel's limit" else f"a stub's limit ({how})"
    line = line.partition(", /")[0]
    return f"{how}: told; saves seen after {', '.join(f'{s:.1f} s' for s in seen_s)}; `aisp engine`: {line}"


@fault(33, "more events than the kernel keeps", "what stands there in the end runs, once")
async def overflow(stage: Stage) -> str:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    async with watching(stage.engine, planned_only(stage.home)) as watched:
        await watched.settle()  # the watch is armed
        assert stage.engine.process is not None
        stage.engine.process.send_signal(signal.SIGSTOP)
        try:
            for number in range(most):  # each is made, opened, closed and deleted
                path = watched.folder / f"part_{number % 7}.txt"
                path.touch()
                path.unlink()
            (watched.folder / "optimized.py").write_text(variant(1))  # nobody hears of this one
        finally:
            stage.engine.process.send_signal(signal.SIGCONT)
        went_on_ns = time.monotonic_ns()
        edit = await watched.saved("optimized.py", variant(1))
        assert await watched.run_of(edit) == "unavailable"
        await watched.settle()
        assert [e.number for e in watched.edits] == [0, 1, 2, 3]
    seen_s = (edit.save_ns - went_on_ns) / 1e9
    return f"{4 * most:,} events against a queue of {most:,}: the save behind them was found after {seen_s:.2f} s"
