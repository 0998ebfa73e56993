"""Trusted processes import what was installed and nothing else; one that runs a kernel writes to what is its own."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine import confinement, paths, start, workplaces
from aisp.engine.confinement import Place
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest
from tests.proofs.evil import corpus
from tests.proofs.evil.stage import eventually

ROOT = Path(start.FILE).parents[2]
HELD = pytest.mark.skipif(not confinement.abi(), reason="this kernel has no Landlock")
# What engine, worker or verifier would import if a folder with these came before the true ones.
STRAYS = (
    "ctypes",
    "asyncio",
    "msgspec",
    "numpy",
    "torch",
    "engine",
    "checks",
    "sitecustomize",
    "usercustomize",
    "opt_einsum",
)
USER_SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def probing(folder: Path, body: str, imports: str) -> None:
    """A target with a rung `optimized_probe` that does `body` in its first verified call."""
    row = corpus.Row("probe", corpus.on_call(corpus.VERIFIED, body, imports=imports), State.OK)
    corpus.write(folder / "mine" / "doubling", [row])


def lay_strays(folder: Path) -> Path:
    """Modules of which each would end the process that imports it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in STRAYS:
        (folder / f"{name}.py").write_text("import os\nos._exit(42)\n")
    (folder / "stray.pth").write_text("import os; os._exit(42)\n")
    return folder


@pytest.mark.timeout(180)
async def test_no_process_of_ours_imports_a_file_that_lies_where_it_was_started_or_where_a_variable_points(
    own: Callable[..., EngineUnderTest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, library = tmp_path / "home", lay_strays(tmp_path / "library")
    lay_strays(home)
    lay_strays(home / ".local" / USER_SITE)
    (library / "startup.py").write_text("import os\nos._exit(42)\n")
    engine = own(
        HOME=str(home),
        PYTHONPATH=str(library),
        PYTHONHOME=str(library),
        PYTHONSTARTUP=str(library / "startup.py"),
        PYTHONINSPECT="1",
        PYTHONUSERBASE=str(home / ".local"),
        PYTHONSAFEPATH="",
        PYTHONBREAKPOINT="os.abort",
        PYTHONDONTWRITEBYTECODE="",
        PYTHONPLATLIBDIR="stray",
        PYTHONWARNINGS="error",
    )
    corpus.write(tmp_path / "mine" / "doubling")
    monkeypatch.chdir(library)
    await engine.start()
    result = await engine.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    for process in [engine.ps, *engine.workers()]:
        found = process.environ()
        assert not [name for name in found if name.startswith("PYTHON")]


async def test_a_worker_looks_for_modules_in_its_layout_and_where_they_are_installed_and_nowhere_else(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    lines = "print('PATH', json.dumps([sys.path, os.getcwd(), os.listdir(), sys.flags.isolated, os.environ['TMPDIR']]))"
    probing(tmp_path, lines, "import json, os, sys")
    result = await shared.run(tmp_path / "mine", "mine:doubling")
    (line,) = {line for line in result.printed("optimized_probe") if line.startswith("PATH")}
    path, cwd, listed, isolated, temporary = json.loads(line.removeprefix("PATH "))
    layout, *rest = path
    work = shared.home / "state" / "work"
    assert Path(layout).is_relative_to(shared.home / "state" / "snapshots")
    assert not {"", "/", cwd, os.environ.get("HOME"), str(ROOT)} & set(rest)
    assert Path(cwd).is_relative_to(work) and listed == []
    assert Path(temporary).parent == Path(cwd).parent
    assert isolated
    await eventually(lambda: not Path(cwd).exists(), "the folder is gone after the run")


def probe(code: str, *words: str) -> str:
    """What `code` prints in a process that is confined to the folders that the words name."""
    program = textwrap.dedent("""
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from aisp.engine import confinement
        def attempt(what):
            try:
                return repr(what())
            except OSError as error:
                return type(error).__name__
        folders = sys.argv[2:]
        version = confinement.confine_to(*folders)
    """)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program + textwrap.dedent(code), str(ROOT), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@HELD
def test_a_confined_process_writes_makes_renames_and_removes_in_its_folders_and_nowhere_else(
    tmp_path: Path,
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    (mine / "below").mkdir()
    other.mkdir()
    (other / "kept").write_text("kept")
    told = probe(
        """
        from pathlib import Path
        mine = Path(folders[0]); other = mine.parent / "other"
        def both(action):
            return [attempt(lambda: action(mine)) , attempt(lambda: action(other))]
        (mine / "kept").write_text("x")
        print(both(lambda at: (at / "new.py").write_text("12")))
        print(both(lambda at: (at / "folder").mkdir()))
        print(both(lambda at: (at / "link").symlink_to("/")))
        print(both(lambda at: os.mkfifo(at / "pipe")))
        print(both(lambda at: os.truncate(at / "kept", 0)))
        print(both(lambda at: os.rename(at / "kept", at / "renamed")))
        print(both(lambda at: os.rename(mine / "new.py", at / ("below/new.py" if at == mine else "new.py"))))
        print(both(lambda at: os.remove(at / ("renamed" if at == mine else "kept"))))
        print(both(lambda at: os.rmdir(at / "folder")))
        print(attempt(lambda: (other / "kept").read_text()), attempt(lambda: Path("/dev/null").write_text("x")))
        print(*(attempt(lambda: Path(path).write_text("x")) for path in ("/aisp-confined", "/dev/aisp")))
        """,
        str(mine),
    )
    rows = told.splitlines()
    assert all("Error" not in json.loads(row.replace("'", '"'))[0] for row in rows[:9]), told
    refused = {
        "PermissionError",
        "FileNotFoundError",
        "OSError",
    }  # the last is EXDEV, for a folder that may not receive
    assert {json.loads(row.replace("'", '"'))[1] for row in rows[:9]} <= refused, told
    assert rows[9:] == ["'kept' 1", "PermissionError PermissionError"]
    assert [path.name for path in other.iterdir()] == ["kept"] and (other / "kept").read_text() == "kept"


@HELD
def test_a_confined_process_reads_the_store_and_cannot_write_it_and_keeps_databases_of_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "aisp.db")) as store, store:
        store.execute("CREATE TABLE arms (median_ms)")
        store.execute("INSERT INTO arms VALUES (1.5)")
    told = probe(
        """
        import sqlite3
        def does(path, text, attach=False):
            try:
                with sqlite3.connect(":memory:" if attach else path) as d:
                    if attach:
                        d.execute("ATTACH ? AS s", (path,))
                    return d.execute(text).fetchall()
            except sqlite3.Error as error:
                return str(error)
        store, own = folders[0] + "/../aisp.db", folders[0] + "/own.db"
        print(does(store, "SELECT * FROM arms"), does(store, "DELETE FROM arms"))
        print(does(store, "UPDATE s.arms SET median_ms = 0", attach=True))
        print(does(own, "CREATE TABLE kept (x)"), does(":memory:", "CREATE TABLE kept (x)"))
        """,
        str(mine),
    )
    refused = "attempt to write a readonly database"
    assert told.splitlines() == [f"[(1.5,)] {refused}", refused, "[] []"]


@HELD
def test_a_confined_process_and_what_it_starts_can_neither_open_files_of_another_nor_signal_it(
    tmp_path: Path,
) -> None:
    """Of a process outside of the confinement; its own children it can."""
    shared = os.memfd_create("shared")
    inner = (
        "import os, sys\n"
        f"for path in ('/proc/{os.getpid()}/fd/{shared}', '/proc/{os.getpid()}/mem', '/proc/self/mem'):\n"
        "    try:\n        open(path, 'rb').close()\n        print('opened')\n"
        "    except PermissionError:\n        print('refused')\n"
    )
    told = probe(
        f"""
        import subprocess
        exec({inner!r})
        print(subprocess.run([sys.executable, "-I", "-c", {inner!r}], capture_output=True, text=True).stdout, end="")
        print(attempt(lambda: os.kill({os.getpid()}, 0)), attempt(lambda: os.kill(os.getpid(), 0)))
        sleeper = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)"])
        sleeper.terminate()
        print(sleeper.wait())
        """,
        str(tmp_path),
    )
    os.close(shared)
    refused = "PermissionError" if confinement.abi() >= confinement.ABI_SCOPES else "None"
    assert told.splitlines() == ["refused", "refused", "opened"] * 2 + [f"{refused} None", "-15"]


@HELD
def test_a_confinement_can_only_become_narrower(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    told = probe(
        """
        from pathlib import Path
        confinement.confine_to(folders[0])
        confinement.confine_to(*folders)
        print([attempt(lambda: (Path(folder) / "x").write_text("1")) for folder in folders])
        """,
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    )
    assert told == "['1', 'PermissionError']"


def test_where_the_kernel_has_no_landlock_nothing_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        @staticmethod
        def syscall(number: int, *_: object) -> int:
            assert number == confinement._CREATE_RULESET
            return -1

    monkeypatch.setattr(confinement, "_libc", lambda: Kernel)
    assert confinement.abi() == 0
    assert confinement.confine_to("/nowhere") == 0


def test_a_place_survives_a_command_line_whatever_bytes_its_paths_have() -> None:
    odd = os.fsdecode(b"/tmp/\xff \xc3\xa4")
    place = Place(cwd=odd, tmp=odd, writable=[odd], layouts=odd, confine=True, environment={"TMPDIR": odd})
    word = place.encoded()
    assert word.isascii()
    assert Place.decoded(word) == place


# -- whole runs --------------------------------------------------------------------------------------------------------

ESCAPES = """
for target in (os.path.expanduser("~"), "/", os.path.dirname(os.path.dirname(os.getcwd())),
               os.path.dirname(os.__file__), os.path.dirname(torch.__file__),
               os.path.dirname(os.path.dirname(__file__)), "/tmp", "/var/tmp"):
    path = os.path.join(target, "aisp_confinement_probe.txt")
    try:
        with open(path, "w") as file:
            file.write("x")
        os.remove(path)
        print("WROTE", target)
    except OSError as error:
        print("REFUSED", target)
for own in (os.getcwd(), tempfile.gettempdir(), os.path.dirname(__file__), os.environ["TRITON_CACHE_DIR"], "/dev/shm"):
    os.makedirs(own, exist_ok=True)
    with tempfile.TemporaryFile(dir=own) as file:
        file.write(b"x")
print("OWN")
"""


@HELD
async def test_a_rung_writes_to_its_own_folders_alone_and_the_run_says_that_it_was_held(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    probing(tmp_path, ESCAPES, "import os, tempfile, torch")
    result = await shared.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    with shared.history() as history:
        assert history.environment(result.record.environment)["landlock"] == confinement.abi()
    printed = result.printed("optimized_probe")
    assert not [line for line in printed if line.startswith("WROTE")]
    assert len([line for line in printed if line.startswith("REFUSED")]) == 8
    assert "OWN" in printed


@pytest.mark.timeout(180)
async def test_without_confinement_runs_end_as_with_it(own: Callable[..., EngineUnderTest], tmp_path: Path) -> None:
    engine = own(AISP_LANDLOCK="0")
    engine.environment["HOME"] = str(tmp_path)
    await engine.start()
    line = "open(os.path.join(os.environ['HOME'], 'seen'), 'w').close()"
    probing(tmp_path, line, "import os")
    result = await engine.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    assert (tmp_path / "seen").exists()
    with engine.history() as history:
        assert history.environment(result.record.environment)["landlock"] == 0


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


async def test_a_folder_is_private_and_is_removed_once_nothing_is_measured_whatever_lies_in_it(state: Path) -> None:
    folder = workplaces.make()
    assert [path.stat().st_mode & 0o777 for path in (folder, *(folder / part for part in workplaces.PARTS))] == [
        0o700
    ] * 4
    (folder / "tmp" / "closed").mkdir()
    (folder / "tmp" / "closed" / "file").touch()
    (folder / "tmp" / "closed").chmod(0)
    (folder / "cwd" / "outside").symlink_to(state)
    with workplaces.held():
        workplaces.leave(folder)
        await workplaces.cleared()
        assert folder.exists()
    await workplaces.cleared()
    assert not folder.exists() and state.exists()


def test_what_an_engine_that_was_killed_left_is_gone_when_the_next_one_starts(state: Path) -> None:
    for _ in range(2):
        (workplaces.make() / "tmp" / "file").touch()
    (paths.work_dir() / "file").touch()
    workplaces.sweep()
    assert list(paths.work_dir().iterdir()) == []


def test_no_process_is_held_while_the_driver_has_a_device_file_to_make(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Confined, it could not make it, and would find no GPU."""
    asked: list[list[str]] = []
    control, unified = Path("/dev/nvidiactl"), tmp_path / "nvidia-uvm"
    there = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path == control or there(path))
    monkeypatch.setattr(workplaces, "UNIFIED_MEMORY", unified)
    monkeypatch.setattr(workplaces.subprocess, "run", lambda words, **_: asked.append(words))
    assert not workplaces.place(workplaces.make(), compiler=False).confine
    assert asked == [["nvidia-modprobe", "-u", "-c=0"]]
    monkeypatch.setattr(workplaces.subprocess, "run", lambda *_, **__: unified.touch())
    assert workplaces.place(workplaces.make(), compiler=False).confine
