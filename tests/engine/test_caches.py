"""What compilers keep: a process finds what the same code left in an earlier run, and nothing else whatever."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from aisp.engine import caches, confinement, paths, planning, spawner, workplaces
from aisp.engine.caches import Caches, RunCaches, closure, key_of
from aisp.engine.pool import Pool
from aisp.engine.protocol import events, reports
from aisp.engine.runs import Execution
from aisp.engine.services import Services
from aisp.engine.telemetry import Nvml
from aisp.store.outcomes import FindingStatus, State
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

READY = reports.Ready(pid=1, torch="2.13.0", cuda="", versions={"python": "3.11.2", "triton": "3.7"})
FILES = {
    "lesson.md": b"prose",
    "reference.py": b"def run(x): return x",
    "baseline.py": b"def run(x): return x",
    "optimized.py": b"import torch, tiles\nfrom parts.inner import two\ndef run(x): return x",
    "tiles.py": b"from . import sizes",
    "sizes.py": b"N = 2",
    "parts/inner.py": b"two = 2",
    "other.py": b"N = 3",
    "kernel.cu": b"void f() {}",
}


# -- whose entry it is -------------------------------------------------------------------------------------------------


def test_a_rung_is_made_of_its_file_and_of_those_that_its_imports_name() -> None:
    assert closure(FILES, "optimized").keys() == {"optimized.py", "tiles.py", "sizes.py", "parts/inner.py"}
    assert closure(FILES, "baseline").keys() == {"baseline.py"}


@pytest.mark.parametrize(
    "source",
    [
        b"import importlib\nimportlib.import_module('ot' + 'her')",
        b"exec(open('other.py').read())",
        b"from pathlib import Path\nHERE = Path(__file__).parent",
        b"__import__('other')",
        b"def run(x: return x",
    ],
)
def test_where_a_source_may_load_others_in_another_way_all_but_the_prose_decides(source: bytes) -> None:
    assert closure(FILES | {"baseline.py": source}, "baseline").keys() == FILES.keys() - {"lesson.md"}
    assert closure(FILES | {"sizes.py": source}, "optimized").keys() == FILES.keys() - {"lesson.md"}


def named(rung: str = "optimized", arm: str = "", rank: int = 0, **changed: Any) -> str:
    files = FILES | changed.pop("files", {})
    device, interpret = changed.pop("device", "cpu"), changed.pop("interpret", False)
    ready = msgspec.structs.replace(READY, **changed)
    return key_of(files, rung, arm or rung, rank, ready, device=device, interpret=interpret)


def test_a_key_changes_with_whatever_decides_what_is_compiled_and_with_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = named()
    others = {"lesson.md": b"other prose", "other.py": b"N = 4", "baseline.py": b"", "kernel.cu": b""}
    assert named(files=others) == usual
    changed = {
        named(files={"optimized.py": FILES["optimized.py"] + b"\n"}),
        named(files={"sizes.py": b"N = 3"}),
        named("baseline"),
        named(arm="optimized (A/A)"),
        named(rank=1),
        named(device="cuda"),
        named(interpret=True),
        named(torch="2.14.0"),
        named(cuda="13.0"),
        named(gpu_name="NVIDIA H100"),
        named(sm=90),
        named(versions={"python": "3.11.2", "triton": "3.8"}),
    }
    monkeypatch.setenv("CXX", "clang++")
    changed.add(named())
    monkeypatch.setattr("aisp.engine.caches._own_sources", lambda: "others")
    changed.add(named())
    assert len(changed | {usual}) == 15


# -- the store ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Caches:
    return Caches(tmp_path / "compiled", tmp_path / "links")


def left(folder: Path, **contents: bytes) -> Path:
    """A folder for caches as a process leaves it, with these in Triton's."""
    (folder / "triton").mkdir(parents=True, exist_ok=True)
    for number, (name, content) in enumerate(contents.items()):
        path = folder / "triton" / name
        path.write_bytes(content)
        os.utime(path, (number + 1, number + 1))
    return folder


def found(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_was_taken_over_is_given_byte_for_byte_with_its_time_in_inodes_of_its_own(
    store: Caches, tmp_path: Path
) -> None:
    source = left(tmp_path / "one", a=b"code", b=b"", c=b"code")
    (source / "triton" / "a").chmod(0o755)
    assert store.take_over("k", source) == 3
    for name in ("two", "three"):
        assert store.seed("k", tmp_path / name) == 3
        assert found(tmp_path / name) == found(source)
        given = (tmp_path / name / "triton" / "a").stat()
        assert (given.st_mtime, given.st_nlink, stat.S_IMODE(given.st_mode)) == (1, 1, 0o700)
    (tmp_path / "two" / "triton" / "a").write_bytes(b"mine")
    assert store.seed("k", tmp_path / "four") == 3
    assert found(tmp_path / "four") == found(source)
    assert store.seed("another", tmp_path / "five") == 0
    assert not (tmp_path / "five").exists()


def test_what_lies_there_already_stays(store: Caches, tmp_path: Path) -> None:
    store.take_over("k", left(tmp_path / "one", a=b"1", b=b"2"))
    assert store.seed("k", left(tmp_path / "two", a=b"mine")) == 1
    assert found(tmp_path / "two") == {"triton/a": b"mine", "triton/b": b"2"}


@pytest.mark.parametrize("changed", ["content", "manifest", "nonsense", "escape"])
@pytest.mark.parametrize("anew", [False, True])
def test_an_entry_that_is_not_as_it_was_noted_is_removed(
    store: Caches, tmp_path: Path, changed: str, anew: bool
) -> None:
    store.take_over("k", left(tmp_path / "one", a=b"code"))
    entry = tmp_path / "compiled" / "k"
    manifest = entry / caches.MANIFEST
    match changed:
        case "content":
            next(path for path in entry.iterdir() if path != manifest).write_bytes(b"evil")
        case "manifest":
            store.take_over("other", left(tmp_path / "two", a=b"evil"))
            for path in (tmp_path / "compiled" / "other").iterdir():
                (entry / path.name).write_bytes(path.read_bytes())
        case "nonsense":
            manifest.write_bytes(b"nonsense")
        case "escape":
            data = msgspec.msgpack.decode(manifest.read_bytes())
            data["files"] = {"triton/../../escaped": data["files"]["triton/a"]}
            manifest.write_bytes(msgspec.msgpack.encode(data))
    seen = Caches(tmp_path / "compiled", tmp_path / "links") if anew else store
    if anew and changed == "manifest":
        return  # an engine that never saw the entry before has only the entry to go by
    assert seen.seed("k", tmp_path / "three" / "cache") == 0
    assert not entry.exists()
    assert not (tmp_path / "three").exists() or found(tmp_path / "three") == {}


def test_links_pipes_locks_and_the_drivers_own_cache_are_not_taken_over(store: Caches, tmp_path: Path) -> None:
    source = left(tmp_path / "one", a=b"code")
    (source / "triton" / "secret").symlink_to("/etc/passwd")
    (source / "xdg").symlink_to("/etc")
    os.mkfifo(source / "triton" / "pipe")
    (source / "triton" / "a.lock").touch()
    (source / "extensions" / "mine").mkdir(parents=True)
    (source / "extensions" / "mine" / "lock").touch()  # of a process that was killed while it built: all others wait
    (source / "cuda").mkdir()
    (source / "cuda" / "index").write_bytes(b"open database")
    (source / "stray").write_bytes(b"no compiler's")
    assert store.take_over("k", source) == 1
    store.seed("k", tmp_path / "two")
    assert found(tmp_path / "two") == {"triton/a": b"code"}


def test_an_entry_is_bounded_and_the_oldest_files_are_left_out(
    store: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "MOST_FILES", 3)
    monkeypatch.setattr(caches, "MOST_BYTES", 100)
    store.take_over("k", left(tmp_path / "one", old=b"x", huge=b"x" * 101, b=b"x" * 50, c=b"x" * 40, d=b"x" * 9))
    store.seed("k", tmp_path / "two")
    assert found(tmp_path / "two").keys() == {"triton/b", "triton/c", "triton/d"}
    monkeypatch.setattr(caches, "MOST_LOOKED_AT", 3)
    assert store.take_over("other", tmp_path / "one") == 0


def test_the_store_is_bounded_and_the_entry_that_was_used_longest_ago_goes_first(
    store: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "MOST_ENTRIES", 2)
    for number, key in enumerate("abc"):
        store.take_over(key, left(tmp_path / key, code=key.encode()))
        os.utime(tmp_path / "compiled" / key, (number, number))
        if key == "b":
            store.seed("a", tmp_path / "again")
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == {"a", "c"}
    monkeypatch.setattr(caches, "MOST_STORED_BYTES", 1)
    store.take_over("d", left(tmp_path / "d", code=b"d"))
    assert {path.name for path in (tmp_path / "compiled").iterdir()} == {"d"}


def test_a_run_that_compiled_nothing_new_copies_nothing(store: Caches, tmp_path: Path) -> None:
    store.take_over("k", left(tmp_path / "one", a=b"code"))
    written = (tmp_path / "compiled" / "k" / caches.MANIFEST).stat().st_ino
    store.seed("k", tmp_path / "two")
    assert store.take_over("k", tmp_path / "two") == 1
    assert (tmp_path / "compiled" / "k" / caches.MANIFEST).stat().st_ino == written


# -- one run -----------------------------------------------------------------------------------------------------------


class Process:
    """As much of engine.spawner.Child as caches need."""

    pids = itertools.count(100_000)

    def __init__(self, base: Path) -> None:
        self.pid = next(self.pids)
        self.folder = base / str(self.pid)
        self.caches = self.folder / paths.CACHE_FOLDER
        self.caches.mkdir(parents=True)
        self.ready = READY
        self.alive = True
        self.keeps_folder = False

    @property
    def children(self) -> list[Process]:
        return [self]


class Run:
    """A run's caches, and the processes that take part in it."""

    def __init__(self, store: Caches, base: Path, **options: Any) -> None:
        self.caches = RunCaches(store, FILES, "cpu", False, **options)
        self.base = base

    async def process(self, arm: str, **leaves: bytes) -> dict[str, bytes]:
        """A process of an arm, from its start to a good end: what it found."""
        process: Any = Process(self.base)
        (folder,) = await self.caches.prepare(process, arm.partition(" ")[0], arm)
        there = found(Path(os.fsdecode(folder)))
        left(Path(os.fsdecode(folder)), **leaves)
        self.caches.keep(process)
        process.alive = False
        if not process.keeps_folder:
            workplaces.leave(process.folder)
        return there


async def test_what_an_arm_left_is_given_in_the_next_run_to_that_arm_alone_and_never_within_the_run(
    store: Caches, tmp_path: Path
) -> None:
    run = Run(store, tmp_path / "work")
    assert await run.process("optimized", a=b"compiled") == {}
    assert await run.process("optimized", b=b"results") == {}, "a replica finds nothing of the one before"
    assert await run.process("baseline") == {}
    await run.caches.settle({"optimized", "baseline"})
    await workplaces.cleared()
    assert list((tmp_path / "work").iterdir()) == [], "no folder that was kept stays"
    assert list((tmp_path / "links").iterdir()) == []

    run = Run(store, tmp_path / "work")
    assert await run.process("optimized") == {"triton/a": b"compiled"}
    assert await run.process("baseline") == {}
    assert await run.process("optimized (A/A)") == {}
    await run.caches.settle({"optimized", "baseline", "optimized (A/A)"})


async def test_what_was_compiled_for_the_shapes_of_one_run_alone_is_given_to_no_other(
    store: Caches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "MOST_FILES", 3)
    for number in range(5):
        run = Run(store, tmp_path / "work")
        process: Any = Process(tmp_path / "work")
        await run.caches.prepare(process, "optimized", "optimized")
        assert [path.name for path in process.caches.rglob("*") if path.is_file()] == (["always"] if number else [])
        left(process.caches, always=b"code")
        async with run.caches.passing(process):
            left(process.caches, **{f"drawn{number}": b"for 4097 rows", f"other{number}": b"for 63"})
        run.caches.keep(process)
        process.alive = False
        await run.caches.settle({"optimized"})


async def test_an_arm_that_did_not_end_well_leaves_nothing_and_loses_what_it_was_given(
    store: Caches, tmp_path: Path
) -> None:
    run = Run(store, tmp_path / "work")
    await run.process("optimized", a=b"wrong")
    await run.caches.settle(())
    run = Run(store, tmp_path / "work")
    assert await run.process("optimized", a=b"compiled") == {}
    await run.caches.settle({"optimized"})
    run = Run(store, tmp_path / "work")
    assert await run.process("optimized") == {"triton/a": b"compiled"}
    await run.caches.settle(())  # what it was given may be what made it fail
    assert await Run(store, tmp_path / "work").process("optimized") == {}


async def test_a_fuzz_is_given_what_runs_left_and_leaves_nothing(store: Caches, tmp_path: Path) -> None:
    run = Run(store, tmp_path / "work")
    await run.process("optimized", a=b"compiled")
    await run.caches.settle({"optimized"})
    fuzz = Run(store, tmp_path / "work", keeps=False)
    assert await fuzz.process("optimized", b=b"more") == {"triton/a": b"compiled"}
    await fuzz.caches.settle(())
    assert await Run(store, tmp_path / "work").process("optimized") == {"triton/a": b"compiled"}


async def test_what_compiles_the_same_ahead_is_waited_for_and_stored_only_by_a_run_that_ends_well(
    store: Caches, tmp_path: Path
) -> None:
    early: Any = Process(tmp_path / "work")
    key = key_of(FILES, "optimized", "optimized", 0, READY, device="cpu", interpret=False)
    assert store.lend(key, early) is not None
    built = asyncio.Event()

    async def compiles() -> None:
        await built.wait()
        left(early.caches, a=b"built")
        early.alive = False
        store.give_back(key)
        store.ahead[key] = early.caches

    store.coming[key] = asyncio.create_task(compiles())
    run = Run(store, tmp_path / "work")
    asking = asyncio.create_task(run.process("optimized"))
    done, _ = await asyncio.wait({asking}, timeout=0.2)
    assert not done, "the path is not free"
    built.set()
    assert await asking == {"triton/a": b"built"}
    await run.caches.settle(set())
    assert not store.has(key), "a check caught it"

    run = Run(store, tmp_path / "work")
    assert await run.process("optimized") == {"triton/a": b"built"}
    assert await run.process("baseline") == {}
    await run.caches.settle({"optimized", "baseline"})
    assert store.has(key)


async def test_a_path_that_a_living_process_has_is_given_to_no_other(store: Caches, tmp_path: Path) -> None:
    first: Any = Process(tmp_path / "work")
    second: Any = Process(tmp_path / "work")
    run = RunCaches(store, FILES, "cpu", False)
    (link,) = await run.prepare(first, "optimized", "optimized")
    assert Path(os.fsdecode(link)).resolve() == first.caches
    assert await run.prepare(second, "optimized", "optimized") == [os.fsencode(second.caches)]
    first.alive = False
    assert await run.prepare(second, "optimized", "optimized") == [link], "compilers write absolute paths"
    assert Path(os.fsdecode(link)).resolve() == second.caches


async def test_a_store_that_cannot_be_written_costs_a_compile_and_no_run(tmp_path: Path) -> None:
    (tmp_path / "compiled").write_bytes(b"in the way")
    (tmp_path / "links").write_bytes(b"in the way")
    run = Run(Caches(tmp_path / "compiled", tmp_path / "links"), tmp_path / "work")
    assert await run.process("optimized", a=b"compiled") == {}
    await run.caches.settle({"optimized"})


# -- a process ---------------------------------------------------------------------------------------------------------


async def test_of_two_runs_side_by_side_one_has_the_path_until_its_process_has_ended(tmp_path: Path) -> None:
    store = Caches(tmp_path / "compiled", tmp_path / "links")
    first, second = (RunCaches(store, FILES, "cpu", False) for _ in range(2))
    one, two, three = (Process(tmp_path) for _ in range(3))
    (path,) = await first.prepare(one, "optimized", "optimized")  # type: ignore[arg-type]
    assert Path(os.fsdecode(path)).resolve() == one.caches
    assert await second.prepare(two, "optimized", "optimized") == [os.fsencode(two.caches)], "its own, and cold"  # type: ignore[arg-type]
    one.alive = two.alive = False
    assert await second.prepare(three, "optimized", "optimized") == [path]  # type: ignore[arg-type]
    await first.settle({"optimized"})
    assert Path(os.fsdecode(path)).resolve() == three.caches, "its own process has ended, but another one has the path"
    three.alive = False
    await second.settle({"optimized"})
    assert not Path(os.fsdecode(path)).is_symlink()


@pytest.mark.slow
async def test_each_process_has_its_own_folder_for_caches_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    for name in paths.CACHES:
        monkeypatch.setenv(name, str(tmp_path / "shared"))
    one, two = await spawner.spawn(interpret=True), await spawner.spawn(interpret=True)
    try:
        assert one.folder != two.folder
        for child in (one, two):
            assert child.folder.parent == tmp_path / "state" / "work"
            assert child.folder.stat().st_mode & 0o777 == 0o700
            await spawner.until_ready(child)
            told = (Path("/proc") / str(child.pid) / "environ").read_bytes()
            assert str(tmp_path / "shared").encode() not in told
    finally:
        await asyncio.gather(one.end(gently=False), two.end(gently=False))
    await workplaces.cleared()
    assert list((tmp_path / "state" / "work").iterdir()) == []
    assert not (tmp_path / "shared").exists()


def test_every_cache_is_below_the_only_folder_that_a_process_may_write_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    for name in paths.CACHES:
        monkeypatch.setenv(name, str(tmp_path / "shared"))
    folder = workplaces.make()
    place = workplaces.place(folder, compiler=False)
    assert place.writable == [str(folder)]
    given = {name: Path(place.environment[name]) for name in paths.CACHES}
    assert {path.parent for path in given.values()} == {folder / paths.CACHE_FOLDER}
    assert len(set(given.values())) == len(paths.CACHES)


@pytest.mark.skipif(not confinement.abi(), reason="this kernel has no Landlock")
def test_a_confined_process_writes_its_cache_by_the_link_and_neither_stored_files_nor_anothers_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    mine, others = workplaces.make(), workplaces.make()
    stored, links = paths.compiled_dir() / "k", paths.cache_links_dir()
    stored.mkdir(parents=True)
    links.mkdir()
    for name, folder in (("mine", mine), ("others", others)):
        (links / name).symlink_to(folder / paths.CACHE_FOLDER)
    place = workplaces.place(mine, compiler=False)
    tried = [links / "mine", links / "others", stored, links]
    code = (
        "import sys\nfrom pathlib import Path\nfrom aisp.engine import confinement\n"
        "confinement.confine_to(sys.argv[1])\n"
        "for folder in sys.argv[2:]:\n"
        "    try:\n        (Path(folder) / 'written').touch()\n        print('yes')\n"
        "    except PermissionError:\n        print('no')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *place.writable, *map(str, tried)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["yes", "no", "no", "no"]


def test_folders_of_an_engine_that_was_killed_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    left(workplaces.make() / paths.CACHE_FOLDER, a=b"left")
    paths.cache_links_dir().mkdir()
    (paths.cache_links_dir() / "k").symlink_to("/nowhere")
    shared = paths.state_dir() / "cache" / "triton"  # of all runs, before each process had its own
    shared.mkdir(parents=True)
    workplaces.sweep()
    assert list(paths.work_dir().iterdir()) == []
    assert not shared.parent.exists()
    assert not paths.cache_links_dir().exists()


# -- beside what is measured -------------------------------------------------------------------------------------------

KEEPER = (
    "import os, torch\nfile = os.path.join(os.environ['TRITON_CACHE_DIR'], 'kept')\n"
    "print('found', os.path.exists(file), flush=True)\n"
    "os.makedirs(os.path.dirname(file), exist_ok=True)\nwith open(file, 'w') as kept:\n    kept.write('code')\n\n\n"
    "def run(x):\n    return x * 2\n"
)
_copying = threading.local()
_started: list[str] = []


def _note_starts(event: str, arguments: tuple[Any, ...]) -> None:
    if getattr(_copying, "now", False) and event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec"):
        _started.append(event)


@pytest.fixture(scope="module")
def _audited() -> None:
    sys.addaudithook(_note_starts)  # once: it cannot be taken away


@pytest.fixture
def watched(_audited: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """What is done to the store, among the steps of a run."""
    done: list[str] = []
    for name in ("lend", "seed", "take_over"):
        usual = getattr(Caches, name)

        def noted(*arguments: Any, _name: str = name, _usual: Any = usual, **named: Any) -> Any:
            assert threading.current_thread() is not threading.main_thread()
            done.append(_name)
            _copying.now = True
            try:
                return _usual(*arguments, **named)
            finally:
                _copying.now = False

        monkeypatch.setattr(Caches, name, noted)
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    _started.clear()
    yield done


@pytest.mark.timeout(180)
@pytest.mark.slow
async def test_nothing_is_copied_between_a_runs_first_and_last_sample_and_no_process_is_started_for_it(
    tmp_path: Path, watched: list[str]
) -> None:
    target = write_target(tmp_path / "mine", {"optimized.py": KEEPER}, inputs='x = "float32 [N] normal cpu"')
    files = {path.name: path.read_bytes() for path in target.folder.iterdir()}
    spawner.become_subreaper()
    pool = Pool(interpret=True, open_nursery=spawner.open_nursery)

    def publish(event: events.Event) -> None:
        if isinstance(event, events.Step) and event.step.name in ("warm-up", "measure", "challenge"):
            watched.append("timing begins" if event.step.duration_ms is None else "timing ends")

    async def store(work: Callable[[Any], Any]) -> Any:
        return work(MagicMock(earlier=lambda run: [], quarantines=lambda *_: {}, put_environment=lambda seen: ""))

    services = Services(publish, store, pool, Nvml(), tmp_path / "snapshots")
    for seq in (1, 2):
        plan = planning.plan(
            target, files, "ab" * 32, planning.Hardware((), 0, None, "none", 0), epoch="E", seq=seq, quick=True,
            replicas=2, naive=False,
        )  # fmt: skip
        try:
            record = await Execution(plan, services).run()
        finally:
            pool.expect(0)
        assert record.state is State.OK, record.reason
    await pool.close()
    await workplaces.cleared()

    timing = 0
    for what in watched:
        timing += {"timing begins": 1, "timing ends": -1}.get(what, 0)
        assert not timing or what.startswith("timing"), watched
    arms, replicas = 3, 2
    assert watched.count("seed") == 2 * arms * replicas
    assert "take_over" in watched
    assert _started == []
    stored = paths.compiled_dir()
    sizes = [caches.size_bytes(entry) < caches.MOST_BYTES for entry in stored.iterdir()]
    assert sizes == [True] * replicas, "both processes of an arm live at once, each with a path of its own"
    assert b"code" in [path.read_bytes() for path in next(stored.iterdir()).iterdir()]
    assert list(paths.work_dir().iterdir()) == []


MARKER = (
    "import os\nfrom pathlib import Path\n\nFOLDERS = [Path(os.environ[n]) if n in os.environ else Path.home() / n\n"
    "           for n in ('TRITON_CACHE_DIR', 'TORCHINDUCTOR_CACHE_DIR', 'TORCH_EXTENSIONS_DIR', 'XDG_CACHE_HOME')]\n"
    "for folder in FOLDERS:\n"
    "    folder.mkdir(parents=True, exist_ok=True)\n"
    "    names = sorted(path.name for path in folder.glob('aisp-test-*'))\n"
    "    print(' '.join(['found', *names]) + '\\n', end='', flush=True)\n"
    "    (folder / 'aisp-test-NAME').touch()\n\n\n"
    "def run(x):\n    return x * 2\n"
)


@pytest.mark.xdist_group("engine")
@pytest.mark.timeout(300)
@pytest.mark.slow
async def test_a_rung_finds_in_every_cache_what_it_left_itself_and_nothing_of_another_rung(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    rungs = {f"optimized_{name}.py": MARKER.replace("NAME", name) for name in ("one", "two")}
    write_target(tmp_path / "mine", rungs, inputs='x = "float32 [N] normal cpu"')
    chosen = [file.removesuffix(".py") for file in rungs]
    first, second = [await shared.run(tmp_path / "mine", "mine:one", rungs=chosen, quick=True) for _ in range(2)]
    for result in (first, second):
        assert result.record.state is State.OK, result.record.reason
        assert [f for f in result.record.findings if f.status is FindingStatus.CAUGHT] == []
    for name in ("one", "two"):
        assert first.printed(f"optimized_{name}") == ["found"] * 4
        assert second.printed(f"optimized_{name}") == [f"found aisp-test-{name}"] * 4
