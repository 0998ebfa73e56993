"""Trusted processes import what was installed and nothing else; one that runs a kernel writes to what is its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine import confinement, paths, seccomp, spawner, start, workplaces
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
@pytest.mark.slow
async def test_no_process_of_ours_imports_what_lies_where_it_was_started_or_a_variable_points_or_has_the_shells_keys(
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
        SECRET_API_KEY="hunter2",
    )
    corpus.write(tmp_path / "mine" / "doubling")
    monkeypatch.chdir(library)
    await engine.start()
    result = await engine.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    nurseries = [process for process in engine.ps.children() if process not in engine.workers()]
    for process in [engine.ps, *engine.workers(), *nurseries]:
        found = process.environ()
        assert not [name for name in found if name.startswith("PYTHON")]
        assert "hunter2" not in found.values()


@pytest.mark.slow
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


def settled(tmp_path: Path, code: str, *, role: str = "arm", ranks: int = 1, **more: object) -> str:
    """What `code` prints in a process with a place of its own and a role, as a worker has them.

    A state folder with a secret lies beside its own folder and its layout, a data set outside of it.
    """
    state, data = tmp_path / "state", tmp_path / "data"
    shutil.rmtree(state, ignore_errors=True)
    own, layout, other = state / "work" / "own", state / "snapshots" / "mine", state / "snapshots" / "other"
    (own / "tmp").mkdir(parents=True)
    for folder in (own, layout, other, data):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").write_text("content")
    (state / "aisp.db").write_text("secret")
    place = Place(
        cwd=str(own),
        tmp=str(own / "tmp"),
        writable=[str(own)],
        layouts=str(state / "snapshots"),
        sources=str(state / "snapshots"),
        state=str(state),
        confine=True,
        environment={"TMPDIR": str(own / "tmp")},
        **more,  # type: ignore[arg-type]
    )
    program = f"""
        import os, socket, subprocess, sys, threading
        sys.path.insert(0, {str(ROOT)!r})
        from aisp.engine import confinement
        state, data, own, layout, other = {[str(path) for path in (state, data, own, layout, other)]!r}
        place = confinement.Place.decoded(sys.argv[1])
        os.chdir(place.cwd)
        os.environ.update(place.environment)
        version, holds = confinement.settle(place)
        def attempt(what):
            try:
                return what() or "ok"
            except OSError as error:
                return type(error).__name__
        def read(*parts):
            with open(os.path.join(*parts)) as file:
                return file.read()
        go, early = threading.Event(), []
        thread = threading.Thread(target=lambda: (go.wait(), early.append(attempt(lambda: read(state, "aisp.db")))))
        thread.start()
        role, ranks = {role!r}, {ranks}
        reads = None if role == "verifier" else layout
        confinement.narrow(place, *([] if role == "verifier" else [layout]), reads=reads, alone=ranks == 1)
        go.set()
        thread.join()
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(program) + textwrap.dedent(code), place.encoded()],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@HELD
@pytest.mark.parametrize("role", ["arm", "verifier"])
@pytest.mark.slow
def test_no_role_reads_what_the_engine_keeps_by_itself_by_a_child_by_torch_or_under_another_name(
    tmp_path: Path, role: str
) -> None:
    told = settled(
        tmp_path,
        """
        import torch
        secret = state + "/aisp.db"
        os.symlink(secret, own + "/link")
        print(attempt(lambda: read(secret)), attempt(lambda: read(own, "link")), early[0])
        print(attempt(lambda: os.link(secret, own + "/hard")), attempt(lambda: os.rename(secret, own + "/moved")))
        print(subprocess.run(["cat", secret], capture_output=True).returncode)
        try:
            print(bytes(torch.UntypedStorage.from_file(secret, False, 6)))
        except RuntimeError as error:
            print("Permission denied" in str(error))
        print(read(own, "file"), read(layout, "file"))
        """,
        role=role,
    )
    *rest, other_name, child, torch, own = told.splitlines()
    assert rest == ["PermissionError PermissionError PermissionError"]
    assert set(other_name.split()) <= {"PermissionError", "OSError"}  # the last is EXDEV, as to another disk
    assert (child, torch, own) == ("1", "True", "content content")


@HELD
def test_an_arm_reads_its_own_and_what_is_installed_and_a_verifier_a_problems_data_too(tmp_path: Path) -> None:
    home = str(Path.home())
    code = f"""
        print(*(attempt(lambda: read(folder, "file")) for folder in (layout, own, other, data)))
        print(*(attempt(lambda: os.listdir(at) and "ok") for at in ({home!r}, os.path.dirname(os.__file__))))
        import ctypes.util, email.mime, json, sqlite3
        from aisp.checks import registry
        print(*(bool(read(path)) for path in ("/proc/self/maps", "/proc/cpuinfo", "/etc/passwd")))
        print(subprocess.run(["true"]).returncode, attempt(lambda: read(f"/proc/{{os.getppid()}}/environ")))
        """
    assert settled(tmp_path, code).splitlines() == [
        "content content PermissionError PermissionError",
        "PermissionError ok",
        "True True True",
        "0 PermissionError",
    ]
    assert settled(tmp_path, code, role="verifier").splitlines()[0] == "content content content content"
    allowed = settled(tmp_path, code, readable=[str(tmp_path / "data")])
    assert allowed.splitlines()[0] == "content content PermissionError content"


@HELD
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_single_rank_reaches_no_port_of_this_machine_and_several_find_one_another(tmp_path: Path, ranks: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        name = f"\0aisp-{os.urandom(8).hex()}"
        hidden.bind(name)
        hidden.listen()
        told = settled(
            tmp_path,
            f"""
            print(attempt(lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]})).close()))
            print(attempt(lambda: socket.create_server(("127.0.0.1", 0)).close()))
            print(attempt(lambda: socket.socket(socket.AF_UNIX).connect({name!r})))
            inner = 'import socket; socket.create_connection(("127.0.0.1", {server.getsockname()[1]}))'
            print(subprocess.run([sys.executable, "-I", "-c", inner], capture_output=True).returncode)
            print(attempt(lambda: socket.socketpair()[0].close()))
            """,
            ranks=ranks,
        )
    tcp, scoped = seccomp.available() or confinement.abi() >= confinement.ABI_TCP, confinement.abi() >= 6
    alone = ranks == 1
    refused = "PermissionError"
    wanted = [refused if alone and tcp else "ok"] * 2
    assert told.split() == [*wanted, refused if alone and scoped else "ok", str(int(alone and tcp)), "ok"]


@HELD
def test_where_calls_cannot_be_filtered_landlock_refuses_tcp_by_itself(tmp_path: Path) -> None:
    if confinement.abi() < confinement.ABI_TCP:
        pytest.skip("this kernel's Landlock knows no sockets")
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = probe(
            f"""
            import socket
            confinement.confine_to(*folders, alone=True)
            print(attempt(lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}))))
            print(attempt(lambda: socket.create_server(("127.0.0.1", 0))))
            """,
            str(tmp_path),
        )
    assert told.split() == ["PermissionError"] * 2


@HELD
@pytest.mark.slow
def test_what_honest_kernels_do_works_where_all_of_it_is_held(tmp_path: Path) -> None:
    """Products in threads, OpenMP, the C compiler, extensions, pools of threads and processes, Triton's interpreter."""
    program = "#include <omp.h>\n#include <stdio.h>\nint main(void) { int n = 0;\n"
    program += '#pragma omp parallel reduction(+ : n)\nn += 1;\nprintf("%d", n); return n < 1; }\n'
    kernel = "import triton, triton.language as tl\n@triton.jit\ndef k(x): tl.store(x + tl.arange(0, 2), 2.0)\n"
    told = settled(
        tmp_path,
        f"""
        os.environ["TRITON_INTERPRET"] = "1"
        import concurrent.futures, ctypes, multiprocessing, resource, tempfile
        import torch
        torch.set_num_threads(2)
        a = torch.randn(600, 600)
        print(torch.allclose(a @ a, (a.double() @ a.double()).float(), atol=1e-2))
        with open(own + "/a.c", "w") as file:
            file.write({program!r})
        if not os.path.exists("/usr/bin/cc"):
            print("2")
        else:
            subprocess.run(["cc", "-fopenmp", "-O1", "-o", own + "/a", own + "/a.c"], check=True)
            print(subprocess.run([own + "/a"], env={{"OMP_NUM_THREADS": "2"}}, capture_output=True, text=True).stdout)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            print(sum(pool.map(abs, range(3))))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(sum(pool.map(abs, range(4))))
        os.sched_setaffinity(0, os.sched_getaffinity(os.getpid()))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            import triton, triton.language as tl
        except ImportError:
            print("[2.0, 2.0]")
        else:
            with open(own + "/kernel_of_ours.py", "w") as file:
                file.write({kernel!r})
            sys.path.insert(0, own)
            from kernel_of_ours import k
            x = torch.zeros(2)
            k[(1,)](x)
            print(x.tolist())
        """,
    )
    assert told.splitlines() == ["True", "2", "3", "6", "[2.0, 2.0]"]


@HELD
@pytest.mark.timeout(240)
@pytest.mark.slow
def test_the_c_compiler_serves_torch_compile_where_all_of_it_is_held(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler here")
    told = settled(
        tmp_path,
        """
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = own + "/cache"
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
        import torch
        x = torch.arange(5000.0)
        made = torch.compile(lambda x: x.clamp(min=3) + 1)(x)
        print(torch.equal(made, x.clamp(min=3) + 1), os.listdir(own + "/cache") != [])
        """,
    )
    assert told == "True True"


def test_a_folder_within_what_may_be_read_is_shut_where_the_state_lies_there(tmp_path: Path) -> None:
    state = tmp_path / "prefix" / "below" / "state"
    state.mkdir(parents=True)
    (tmp_path / "prefix" / "lib").mkdir()
    (tmp_path / "prefix" / "below" / "other").touch()
    (tmp_path / "prefix" / "round").symlink_to(state)
    found = set(confinement._without(str(state), [str(tmp_path / "prefix"), "/usr"]))
    assert found == {str(tmp_path / "prefix" / "lib"), str(tmp_path / "prefix" / "below" / "other"), "/usr"}
    reached = set(confinement.all_but(str(state)))
    assert not [path for path in reached if state.is_relative_to(os.path.realpath(path))]
    assert {str(tmp_path / "prefix" / "lib"), "/usr", "/proc"} <= reached


def test_a_place_at_home_is_read_and_home_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    for name in (".keys/bin", "venv", "cuda/bin", "tools/bin"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/.keys/bin:{home}:/:relative:{tmp_path}:{tmp_path}/elsewhere/bin")
    monkeypatch.setenv("VIRTUAL_ENV", str(home / "venv"))
    monkeypatch.setenv("CUDA_HOME", str(home / "cuda"))
    found = set(confinement.installed(str(tmp_path / "state")))
    below = {str(Path(path).relative_to(home)) for path in found if Path(path).is_relative_to(home)}
    assert below == {".keys/bin", "venv", "cuda"}
    assert not {str(home), "/", str(tmp_path), "relative"} & found
    assert {f"{tmp_path}/elsewhere", os.path.realpath(sys.base_prefix)} <= found
    assert not [path for path in found if home.is_relative_to(path) and path not in confinement.MACHINE]


@pytest.mark.parametrize(
    ("version", "filtered", "wanted"),
    [
        (0, False, ""),
        (0, True, "network scheduling"),
        (3, False, "files reading"),
        (4, False, "files reading network"),
        (5, True, "files reading network scheduling"),
        (6, True, "files reading network signals scheduling"),
    ],
)
def test_what_holds_is_said_for_every_kernel(version: int, filtered: bool, wanted: str) -> None:
    assert [one.value for one in confinement.held(version, filtered=filtered)] == wanted.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="of another account than root's there is nothing to give up")
def test_the_superusers_rights_over_others_are_given_up_for_good(tmp_path: Path) -> None:
    told = settled(
        tmp_path,
        """
        print([line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith("CapEff")][0])
        print(subprocess.run(["grep", "CapEff", "/proc/self/status"], capture_output=True, text=True).stdout.split()[1])
        print(attempt(lambda: os.mknod(own + "/disk", 0o60600, os.makedev(7, 0))))
        """,
    )
    own, childs, disk = told.splitlines()
    taken = sum(1 << number for number in confinement._GIVEN_UP.values())
    assert not int(own, 16) & taken and not int(childs, 16) & taken
    assert disk == "PermissionError"


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
    place = Place(
        cwd=odd,
        tmp=odd,
        writable=[odd],
        layouts=odd,
        sources=odd,
        state=odd,
        readable=[odd],
        confine=True,
        environment={"TMPDIR": odd},
    )
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
state = os.path.dirname(os.path.dirname(os.getcwd())).rpartition("/work")[0]
secrets = [os.path.join(state, name) for name in ("aisp.db", "aisp.db-wal", "engine.log", "candidates.db")]
for path in [*secrets, f"/proc/{os.getppid()}/environ", f"/proc/{os.getppid()}/maps", os.path.expanduser("~")]:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
        print("READ", path)
    except (PermissionError, FileNotFoundError):
        print("SHUT", path)
for attempt in (lambda: os.setpriority(0, os.getppid(), 1), lambda: os.sched_setaffinity(os.getppid(), {0}),
                lambda: socket.create_connection(("127.0.0.1", 9)), lambda: os.kill(os.getppid(), 0)):
    try:
        attempt()
        print("DID")
    except PermissionError:
        print("COULD NOT")
"""


@HELD
@pytest.mark.slow
async def test_a_rung_writes_to_its_own_folders_alone_and_the_run_says_that_it_was_held(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    probing(tmp_path, ESCAPES, "import os, socket, tempfile, torch")
    result = await shared.run(tmp_path / "mine", "mine:doubling")
    assert result.record.state is State.OK, result.record.reason
    with shared.history() as history:
        facts = history.environment(result.record.environment)
    version, filtered = confinement.abi(), seccomp.available()
    assert facts["landlock"] == version
    assert facts["confined"] == list(confinement.held(version, filtered=filtered))
    printed = result.printed("optimized_probe")
    assert not [line for line in printed if line.startswith("WROTE")]
    assert len([line for line in printed if line.startswith("REFUSED")]) == 8
    assert "OWN" in printed
    assert [line for line in printed if line.startswith("READ")] == []
    assert len([line for line in printed if line.startswith("SHUT")]) == 7
    if version >= confinement.ABI_SCOPES and filtered:
        assert [line for line in printed if line in ("DID", "COULD NOT")] == ["COULD NOT"] * 4


@pytest.mark.timeout(180)
@pytest.mark.slow
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
        facts = history.environment(result.record.environment)
        assert (facts["landlock"], facts["confined"]) == (0, [])


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
    monkeypatch.setattr(spawner, "helped", lambda words, _: asked.append(words))
    assert not workplaces.place(workplaces.make(), compiler=False).confine
    assert asked == [["nvidia-modprobe", "-u", "-c=0"]]
    monkeypatch.setattr(spawner, "helped", lambda *_: unified.touch())
    assert workplaces.place(workplaces.make(), compiler=False).confine
