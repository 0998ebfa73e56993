"""Evaluation: who looks for the answer, the caller or the test is noted; who uses the same means honestly is not."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aisp.checks import evaluation as ev
from aisp.checks import registry
from aisp.checks.oracle import values
from aisp.checks.oracle.schema import Case as OracleCase
from aisp.checks.registry import ArmFacts, Drawn, Refusal, RunFacts, Status, Unavailable
from aisp.engine import plan
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case, Role, Target
from aisp.store.commitment import COMMITMENT
from aisp.store.outcomes import State, Timing
from tests import imported
from tests.checks.sensed import replica
from tests.replacing import replace
from tests.store import examples

ROOT = Path(ev.__file__).parents[2]
GALLERY = ROOT / "checks" / "gallery"

# A worker in small: sensors, import, two calls of every stage on each of two inputs, facts as JSON.
WORKER = """
import json, os, sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import torch

torch.set_num_threads(1)
import aisp.engine.worker.arm, aisp.engine.worker.channel, aisp.engine.worker.timers
from aisp.checks import evaluation as ev
from aisp.checks.registry import Call, Site
from aisp.engine.worker.loading import callable_of, import_module
from aisp.kernels import catalog

if "INSTALLED_IN" in os.environ:  # where a rung finds packages first, so that none writes to the real ones
    sys.path.insert(0, os.environ["INSTALLED_IN"])
folder, rung, case_name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
target = catalog.load_target(folder, root=folder.parent, chapter="test")
case = target.case(case_name)
site = Site("cpu", folder, target, target.rung(rung), frozenset())
sensors = [kind(site) for kind in (ev.Reach, ev.Edits, ev.Elsewhere, ev.Memo)]
for sensor in sensors:
    sensor.before_import()
module = import_module(folder, rung)
for sensor in sensors:
    sensor.after_import()
torch.manual_seed(0)
sets = [
    [torch.randn(catalog.shape(spec, case.axes)) for spec in target.inputs] for _ in range(2)
]
call = module.prepare(*sets[0]) if hasattr(module, "prepare") else callable_of(module, "run")
for number in (0, 1, 0, 1):
    buffers = [one.clone() for one in sets[number]]
    seen = Call("timed", case, [buffers])
    for sensor in sensors:
        sensor.before_call(seen)
    out = call(*buffers)
    outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    seen = Call("timed", case, [buffers], [outputs])
    for sensor in sensors:
        sensor.after_call(seen)
for sensor in sensors:
    sensor.after_timing()
print("FACTS " + json.dumps({sensor.name: msgspec.to_builtins(sensor.facts()) for sensor in sensors}))
"""

LESSON = """+++
title = "x"
axes = { M = 8, N = 64 }
flops = "0"
[inputs]
x = "float32 [M, N] normal"
[outputs]
y = "float32 [M, N]"
[[cases]]
name = "ragged"
axes = { M = 3, N = 5 }
timed = false
+++
text
"""
PLAIN = "import torch\n\n\ndef run(x):\n    return torch.tanh(x)\n"


def lesson(folder: Path, rung: str) -> Target:
    """A target with one rung of this source."""
    folder.mkdir(parents=True)
    files = {"lesson.md": LESSON, "reference.py": PLAIN, "baseline.py": PLAIN, "optimized.py": textwrap.dedent(rung)}
    for name, text in files.items():
        (folder / name).write_text(text)
    loaded = catalog.load_target(folder, root=folder.parent, chapter="test")
    assert isinstance(loaded, Target)
    return loaded


def sense(
    folder: Path, rung: str = "optimized", case: str = "default", *, before: str = "", **environment: str
) -> dict[str, Any]:
    """What the sensors say of a rung, run in a process of its own that begins with some code."""
    done = imported.python(before + WORKER, str(folder), rung, case, environment=environment)
    line = next((line for line in done.stdout.splitlines() if line.startswith("FACTS ")), None)
    assert line is not None, done.stderr[-3000:]
    facts: dict[str, Any] = json.loads(line.removeprefix("FACTS "))
    return facts


def run_facts(target: Target, **more: Any) -> RunFacts:
    files = {name: (target.folder / name).read_bytes() for name in target.files}
    return RunFacts(target, target.cases[0], "cpu", False, (), files=files, **more)


def arm_facts(target: Target, rung: str, *sensed: dict[str, Any], **more: Any) -> ArmFacts:
    told = tuple(replica(**process) for process in sensed)
    return ArmFacts(rung, target.rung(rung), "cpu", True, State.OK, Timing.HOST, sensed=told, **more)


def findings(target: Target, rung: str, *sensed: dict[str, Any]) -> dict[str, tuple[Status, str]]:
    """What the arm judges of this file say."""
    run, arm = run_facts(target), arm_facts(target, rung, *sensed)
    return {check.id: check.arm(arm, run) for check in ev.CHECKS if check.arm is not None}


def caught(target: Target, rung: str, *sensed: dict[str, Any]) -> dict[str, str]:
    found = findings(target, rung, *sensed)
    assert all(status is not Status.UNAVAILABLE for status, _ in found.values()), found
    return {name: text for name, (status, text) in found.items() if status in (Status.CAUGHT, Status.SUSPECT)}


# -- what is noticed ---------------------------------------------------------------------------------------------------

REACHING = {
    "objects": ("import gc\ngc.get_objects()", "gc.get_objects() at way_0.py:3"),
    "referrers": ("import gc\ngc.get_referrers(gc)", "gc.get_referrers()"),
    "referents": ("import gc\ngc.get_referents(gc)", "gc.get_referents()"),
    "frames": ("import sys\nsys._getframe(1)", "sys._getframe()"),
    "inspect": ("import inspect\ninspect.currentframe()", "sys._getframe()"),
    "threads' frames": ("import sys\nsys._current_frames()", "sys._current_frames()"),
    "traceback": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    e.__traceback__.tb_frame",
        "frame of a traceback",
    ),
    "generator": ("(n for n in ()).gi_frame", "frame of a generator"),
    "profile": ("import sys\nsys.setprofile(None)", "sys.setprofile()"),
    "trace": ("import sys\nsys.settrace(None)", "sys.settrace()"),
    "exec": ("exec('import sys; sys._getframe(2)')", "sys._getframe()"),
    "another process": (
        "import os\ntry:\n    open(f'/proc/{os.getppid()}/cmdline').close()\nexcept OSError:\n    'gone'",
        "/cmdline opened",
    ),
    "descriptors": ("import os\nos.listdir('/proc/self/fd')", "/proc/self/fd listed"),
    "memory": ("open('/proc/self/mem', 'rb').close()", "/proc/self/mem opened"),
    "reference text": (
        "import os\nopen(os.path.join(os.path.dirname(__file__), 'reference.py')).close()",
        "reference.py opened",
    ),
    "reference by path": (
        "from pathlib import Path\nPath(__file__).with_name('reference.py').read_text()",
        "reference.py opened",
    ),
    "our source": ("from aisp.checks import registry\nopen(registry.__file__).close()", "registry.py opened"),
    "our modules": (
        "from aisp.engine.worker import timers\ntimers.HostTimer",
        "aisp.engine.worker.timers.HostTimer taken",
    ),
    "by sys.modules": (
        "import sys\nname = '.'.join(('aisp', 'engine', 'worker', 'channel'))\nsys.modules[name].Channel",
        "aisp.engine.worker.channel.Channel taken",
    ),
    "patched": (
        "from aisp.engine.worker import timers\ntimers.HostTimer = None",
        "aisp.engine.worker.timers.HostTimer set",
    ),
    "main": ("import sys\nkey = '__ma' + 'in__'\nvars(sys.modules[key])", "__main__.__dict__ taken"),
    "disguise": ("exec(compile('0', '/usr/lib/python3/os.py', 'exec').replace(co_name='x'))", "made to look"),
    "hook": ("import sys\nsys.addaudithook(lambda event, args: None)", "sys.addaudithook()"),
    "engine's pid": ("import os\nos.kill(os.getppid(), 0)", "signal 0 sent to the engine"),
    "a neighbour": ("import os\nos.kill(1, 0)", "signal 0 sent to process 1, which is not the rung's"),
    "a neighbour's group": ("import os\nos.killpg(1, 0)", "signal 0 sent to process 1"),
}


STORE = {
    "SQLite by hand": (
        "import ctypes\ntry:\n    ctypes.CDLL('libsqlite3.so.0')\nexcept OSError:\n    'none'",
        "SQLite loaded through ctypes (libsqlite3.so.0)",
    ),
    "SQLite's functions": (
        "import ctypes\ntry:\n    ctypes.CDLL(None).sqlite3_open\nexcept AttributeError:\n    'none'",
        "sqlite3_open called through ctypes",
    ),
    "the store": (
        "import os, sqlite3\nsqlite3.connect(os.path.join(STATE, 'aisp.db')).close()",
        "aisp.db opened as a database at way_2.py:3",
    ),
    "the store by URI": (
        "import sqlite3\nsqlite3.connect('file://' + STATE.replace('s', '%73') + '/aisp.db?mode=rw', uri=True).close()",
        "aisp.db opened as a database",
    ),
    "the store by another module": (
        "import _sqlite3\n_sqlite3.Connection(STATE.encode() + b'/aisp.db').close()",
        "aisp.db opened as a database",
    ),
    "the store in a thread": (
        "import sqlite3, threading\nt = threading.Thread(target=sqlite3.connect, args=(STATE + '/aisp.db',))\n"
        "t.start(), t.join()",
        "aisp.db opened as a database at /",  # of the standard library: the lesson has no frame in that thread
    ),
    "the store behind a link": (
        "import os, sqlite3, tempfile\nlink = tempfile.mktemp()\nos.symlink(STATE, link)\n"
        "sqlite3.connect(link + '/aisp.db').close()",
        "aisp.db opened as a database",
    ),
    "the store in place": (
        "import os, tempfile\nlink = tempfile.mktemp()\nos.symlink(STATE + '/aisp.db', link)\nopen(link, 'ab').close()",
        "opened for writing",
    ),
    "the store by two names": (
        "import sqlite3\nclass Two:\n    names = [':memory:', STATE + '/aisp.db']\n"
        "    def __fspath__(self):\n        return self.names.pop(0)\nsqlite3.connect(Two()).close()",
        "aisp.db open in SQLite at way_8.py:7",
    ),
    "the store by a name that lies": (
        "import os\nclass Lies(str):\n    def startswith(self, *rest):\n        return False\n"
        "    def split(self, *rest):\n        return ['', 'tmp', 'x']\n"
        "os.close(os.open(Lies(STATE + '/aisp.db'), os.O_RDWR))",
        "aisp.db opened for writing at way_9.py:8",
    ),
    "the store, attached": (
        "import sqlite3\nd = sqlite3.connect(':memory:')\nd.execute('ATTACH ? AS x', (STATE + '/aisp.db',))",
        "aisp.db open",
    ),
    "the store's name": ("import os\nos.link(STATE + '/aisp.db', HERE + '.db')", "aisp.db: os.link"),
    "the store's length": ("import os\nos.truncate(STATE + '/aisp.db', 0)", "aisp.db: os.truncate"),
}


def tell_ways(state: Path, ways: dict[str, tuple[str, str]]) -> dict[str, str]:
    """What is noted of each way: each is a file of its own, imported by one rung that is laid out in a state folder."""
    folder = state / "snapshots" / "hash" / "one"
    names = {way: f"way_{number}" for number, way in enumerate(ways)}
    target = lesson(folder, "\n".join(f"import {name}" for name in names.values()) + f"\n{PLAIN}")
    (folder / "way.py").write_text(PLAIN)
    sqlite3.connect(state / "aisp.db").close()
    for way, name in names.items():
        (folder / f"{name}.py").write_text(f"HERE = __file__; STATE = {str(state)!r}\n" + ways[way][0])
    (state / "own").mkdir()
    sensed = sense(target.folder, TMPDIR=str(state / "own"))
    notes = sensed["reach"]["notes"]
    told = {way: [n for n in notes if n["where"].startswith(f"{name}.py:")] for way, name in names.items()}
    elsewhere = [note for note in notes if not note["where"].startswith("way_")]
    assert caught(target, "optimized", sensed).keys() >= {"evaluation.reach"}
    return {way: "; ".join(f"{n['what']} at {n['where']}" for n in found or elsewhere) for way, found in told.items()}


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return tell_ways(tmp_path_factory.mktemp("reach"), REACHING)


@pytest.mark.parametrize("way", REACHING)
@pytest.mark.slow
def test_who_looks_beyond_its_inputs_is_noted_with_the_place(reached: dict[str, str], way: str) -> None:
    assert REACHING[way][1] in reached[way]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return tell_ways(tmp_path_factory.mktemp("store"), STORE)


@pytest.mark.parametrize("way", STORE)
def test_who_opens_or_changes_the_store_is_noted_by_whatever_way(stored: dict[str, str], way: str) -> None:
    assert STORE[way][1] in stored[way]


HONEST = """
    import abc, atexit, collections, contextlib, dataclasses, enum, functools, gc, inspect, io, json, logging, os
    import pickle, random, re, subprocess, sys, tempfile, threading, traceback, typing, warnings, weakref
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    import numpy as np
    import torch

    import aisp.kernels.cuda
    from baseline import run as plain
    from aisp.kernels.cuda import ceil_div

    Pair = collections.namedtuple("Pair", "a b")


    class Named(typing.NamedTuple):
        a: int


    class Kind(enum.Enum):
        ONE = 1


    @dataclasses.dataclass
    class Data:
        a: int = 1


    def told():
        try:
            raise ValueError("x")
        except ValueError as error:
            traceback.format_exc()
            logging.getLogger("l").debug("x", exc_info=True)
            return str(error)


    told()
    warnings.warn("quiet", stacklevel=2)
    inspect.signature(told), inspect.getsource(told)
    gc.collect(), gc.freeze(), gc.disable(), gc.enable()
    sys.modules[__name__], "torch" in sys.modules
    for name, module in list(sys.modules.items()):
        isinstance(module, type(os)) and hasattr(module, "__file__")
    subprocess.run(["true"], check=True)
    open("/proc/cpuinfo").close(), open("/proc/self/status").close()
    os.environ["MKL_CBWR"] = "AUTO"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(told).result()
    folder = tempfile.mkdtemp()
    table = Path(folder) / "table.json"
    table.write_text(json.dumps({"block": 64}))
    np.save(folder + "/x.npy", np.zeros(4096))
    torch.save(torch.zeros(4096), folder + "/x.pt")
    pickle.loads(pickle.dumps(Data()))
    weakref.ref(told)
    aisp.kernels.cuda.ceil_div(3, 2)
    for name in ("torch.fx", "torch._dynamo", "torch.utils.cpp_extension"):
        __import__(name)
    compiled = torch.compile(lambda x: torch.tanh(x), backend="eager")


    def run(x):
        json.loads(table.read_text())["block"]
        np.load(folder + "/x.npy"), torch.load(folder + "/x.pt")
        with tempfile.NamedTemporaryFile("wb", delete=False) as scratch:
            scratch.write(x.numpy().tobytes())
        back = Path(scratch.name).read_bytes()
        os.unlink(scratch.name)
        with contextlib.suppress(OSError):
            open("/nonexistent").close()
        os.environ["SHORT"] = "1"
        Pair(1, 2), Named(1), Kind(1), ceil_div(3, 2), plain(x)
        return compiled(torch.frombuffer(bytearray(back), dtype=x.dtype).view(x.shape))
"""


@pytest.mark.slow
def test_an_honest_lesson_that_uses_all_of_the_standard_library_is_not_flagged(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", HONEST)
    one, two = sense(target.folder), sense(target.folder)
    assert caught(target, "optimized", one, two) == {}


def test_a_sensor_hears_threads_of_the_lesson_and_counts(tmp_path: Path) -> None:
    source = """
        import gc, threading, torch
        threads = [threading.Thread(target=gc.get_objects) for _ in range(3)]
        def look():
            gc.get_objects()
        threads += [threading.Thread(target=look) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        def run(x):
            return torch.tanh(x)
    """
    target = lesson(tmp_path / "one", source)
    (note,) = sense(target.folder)["reach"]["notes"]
    assert (note["what"], note["times"]) == ("gc.get_objects()", 3)


def test_what_a_handler_raises_never_reaches_the_lesson_and_makes_the_check_unavailable(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    code = """
import gc, sys
from pathlib import Path
from types import SimpleNamespace
from aisp.checks import evaluation as ev
from aisp.checks.registry import Unavailable

class Broken(ev.Audit):
    name = "broken"
    def handlers(self):
        def fail(event, args, frame):
            raise KeyError("x")
        return {"gc.get_objects": fail}

sensor = Broken(SimpleNamespace(folder=Path("/x")))
sensor.before_import()
assert len(gc.get_objects()) > 100
try:
    sensor.noted()
except Unavailable as reason:
    print(reason)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "gc.get_objects: KeyError: 'x'" in done.stdout
    arm = arm_facts(target, "optimized", {"reach": {"failed": "it failed"}})
    with pytest.raises(Unavailable, match="it failed"):
        ev.reach(arm, run_facts(target))


# -- writing elsewhere -------------------------------------------------------------------------------------------------

ELSEWHERE = {
    "a file": ("open(there / 'note.txt', 'w').close()", "note.txt: opened for writing", Status.SUSPECT),
    "appending": ("open(there / 'kept.txt', 'a').close()", "kept.txt: opened for writing", Status.SUSPECT),
    "a folder": ("(there / 'new').mkdir()", "new: os.mkdir", Status.SUSPECT),
    "a renamed file": ("os.rename(there / 'kept.txt', there / 'other.txt')", "kept.txt: os.rename", Status.SUSPECT),
    "moved out": ("os.rename(mine / 'x', there / 'x')", "x: os.rename", Status.SUSPECT),
    "a removed file": ("os.remove(there / 'kept.txt')", "kept.txt: os.remove", Status.SUSPECT),
    "a hard link to it": ("os.link(there / 'kept.txt', mine / 'y')", "kept.txt: os.link", Status.SUSPECT),
    "from a folder's descriptor": (
        "os.remove('kept.txt', dir_fd=os.open(there, os.O_RDONLY))",
        "there/kept.txt: os.remove",
        Status.SUSPECT,
    ),
    "through a link": ("open(mine / 'out', 'w').close()", "kept.txt: opened for writing", Status.SUSPECT),
    "refused": ("try:\n    open('/proc/version', 'w')\nexcept OSError:\n    0", "/proc/version", Status.SUSPECT),
    "a module where none is looked for": ("(there / 'x.py').write_text('')", "x.py: opened", Status.SUSPECT),
    "a module on the path": ("(there / 'site' / 'x.py').write_text('')", "site/x.py: opened", Status.CAUGHT),
    "a .pth on the path": ("(there / 'site' / 'x.pth').write_text('')", "site/x.pth: opened", Status.CAUGHT),
    "a package on the path": ("open(there / 'site/p/__init__.py', 'w')", "site/p/__init__.py", Status.CAUGHT),
    "a module renamed to the path": ("os.rename(mine / 'x', there / 'site' / 'x.so')", "x.so", Status.CAUGHT),
    "a module in the home folder": ("(there / 'home' / 'ctypes.py').write_text('')", "home/ctypes.py", Status.CAUGHT),
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_who_writes_outside_of_its_folders_is_noted_with_the_path_and_the_line(tmp_path: Path, way: str) -> None:
    code, what, status = ELSEWHERE[way]
    there, mine = tmp_path / "there", tmp_path / "mine"
    for folder in (there / "site" / "p", there / "home", mine):
        folder.mkdir(parents=True)
    (there / "kept.txt").touch()
    (mine / "x").touch()
    (mine / "out").symlink_to(there / "kept.txt")
    head = (
        f"import os\nimport torch\nfrom pathlib import Path\nthere, mine = Path({str(there)!r}), Path({str(mine)!r})\n"
    )
    target = lesson(tmp_path / "one", f"{head}{code}\n\n\ndef run(x):\n    return torch.tanh(x)\n")
    program = (
        f"import os, sys\nos.environ['HOME'] = {str(there / 'home')!r}\nsys.path.append({str(there / 'site')!r})\n"
    )
    sensed = sense(target.folder, before=program, TMPDIR=str(mine))
    found, evidence = findings(target, "optimized", sensed)["evaluation.elsewhere"]
    assert found is status, evidence
    assert what in evidence
    assert f"at optimized.py:{5 if 'try' not in code else 6}" in evidence


def test_what_a_rung_writes_to_its_own_folders_and_what_a_library_writes_for_it_is_its_own_affair(
    tmp_path: Path,
) -> None:
    """Its layout and its temporary folder lie in the state of the engine, which is otherwise none of its business."""
    mine = tmp_path / "state" / "work" / "process" / "tmp"
    mine.mkdir(parents=True)
    source = """
        import os, sys, tempfile
        from pathlib import Path

        import torch

        made = Path(tempfile.mkdtemp(), "made.py")
        made.write_text("x = 1")
        made.read_text()
        Path(__file__).with_name("table.bin").write_bytes(b"x")
        open(os.devnull, "w").close()
        shared = Path("/dev/shm", f"shared-{os.getpid()}")
        shared.touch()
        shared.unlink()


        def run(x):
            return torch.tanh(x)
    """
    target = lesson(tmp_path / "state" / "snapshots" / "hash" / "one", source)
    assert caught(target, "optimized", sense(target.folder, TMPDIR=str(mine))) == {}
    outside = lesson(tmp_path / "state" / "snapshots" / "other" / "one", source.replace("tempfile.mkdtemp()", "HERE"))
    (outside.folder / "optimized.py").write_text(
        (outside.folder / "optimized.py").read_text().replace("HERE", repr(str(tmp_path / "state")))
    )
    found = caught(outside, "optimized", sense(outside.folder, TMPDIR=str(mine)))
    assert set(found) == {"evaluation.reach", "evaluation.edits", "evaluation.elsewhere"}


# -- edits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "evidence"),
    [
        ("(here / 'reference.py').write_text('')", "reference.py: opened for writing"),
        ("(here / 'baseline.py').chmod(0o600)", "baseline.py: os.chmod"),
        ("(here / 'baseline.py').unlink()", "baseline.py: os.remove"),
        ("(here / 'new.txt').write_text(''), (here / 'new.txt').rename(here / 'lesson.md')", "lesson.md: os.rename"),
        ("(here / 'numpy.py').write_text('')", "numpy.py: opened for writing"),
    ],
)
def test_who_changes_sources_is_caught(tmp_path: Path, change: str, evidence: str) -> None:
    source = f"from pathlib import Path\nhere = Path(__file__).parent\nimport torch\n{change}\n{PLAIN}"
    target = lesson(tmp_path / "one", source)
    files = {name: (target.folder / name).read_bytes() for name in target.files}
    sensed = sense(target.folder)
    for name, data in files.items():
        (target.folder / name).write_bytes(data)
    assert evidence in caught(target, "optimized", sensed)["evaluation.edits"]


def test_data_and_compiled_files_beside_the_sources_are_the_lessons_own_affair(tmp_path: Path) -> None:
    source = f"from pathlib import Path\nhere = Path(__file__).parent\n(here / 'table.bin').write_bytes(b'x')\n{PLAIN}"
    target = lesson(tmp_path / "one", source)
    assert caught(target, "optimized", sense(target.folder)) == {}


def test_sources_that_differ_after_the_run_make_it_caught_and_unknown_is_unavailable(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    assert ev.files(run_facts(target, files_intact=False))[0] is Status.CAUGHT
    assert ev.files(run_facts(target, files_intact=None))[0] is Status.UNAVAILABLE
    status, text = ev.files(run_facts(target, files_intact=True))
    assert status is Status.PASSED
    assert text.startswith("4 files of the snapshot")


def test_what_came_or_went_on_the_import_path_makes_the_run_suspect_by_name(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    known = {"entries": 700, "folders": 4, "files": 600, "hashed": 590, "changes": []}
    assert ev.installed(run_facts(target))[0] is Status.UNAVAILABLE
    assert ev.installed(run_facts(target, after={"installed": known}))[0] is Status.PASSED
    status, text = ev.installed(run_facts(target, after={"installed": {**known, "changes": ["/site/a.pth appeared"]}}))
    assert status is Status.SUSPECT
    assert "/site/a.pth appeared" in text
    assert "aisp doctor --accept" in text


def test_a_rung_that_reads_what_is_installed_or_writes_data_beside_it_is_not(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "a.pth").write_text("# nothing\n")
    source = (
        f"from pathlib import Path\nsite = Path({str(site)!r})\n(site / 'a.pth').read_text()\nlist(site.iterdir())\n"
        f"(site / 'table.bin').write_bytes(b'x')\n(site.parent / 'note.py').write_text('')\n{PLAIN}"
    )
    target = lesson(tmp_path / "one", source)
    assert caught(target, "optimized", sense(target.folder, INSTALLED_IN=str(site))) == {}


# -- memory between calls ----------------------------------------------------------------------------------------------


def memo_source(read: str, write: str) -> str:
    return f"""
        import os, sys, tempfile, torch
        from pathlib import Path
        def key(x):
            return Path(tempfile.gettempdir()) / ("k%d.bin" % abs(int(1e6 * float(x[0, 0]))))
        def run(x):
            {read}
            y = torch.tanh(x)
            {write}
            return y
    """


READ = "if key(x).exists(): return torch.frombuffer(bytearray(key(x).read_bytes()), dtype=x.dtype).view(x.shape)"
WRITE = "key(x).write_bytes(y.numpy().tobytes())"


def test_a_result_that_an_earlier_call_left_in_a_file_is_caught(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", memo_source(READ, WRITE))
    (tmp_path / "tmp").mkdir()
    sensed = sense(target.folder, TMPDIR=str(tmp_path / "tmp"))
    text = caught(target, "optimized", sensed)["evaluation.memo"]
    assert "2048 bytes; its outputs are 2048 bytes), which an earlier call wrote" in text


def test_a_result_that_another_process_of_the_run_left_is_caught_only_beside_that_process(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", memo_source(READ, WRITE))
    (tmp_path / "tmp").mkdir()
    first = sense(target.folder, TMPDIR=str(tmp_path / "tmp"))
    second = sense(target.folder, TMPDIR=str(tmp_path / "tmp"))
    assert [file["earlier"] for file in second["memo"]["read"].values()] == [False, False]
    assert "which another process of this run wrote" in caught(target, "optimized", first, second)["evaluation.memo"]
    assert caught(target, "optimized", second, second | {"memo": {**second["memo"], "wrote": {}}}) == {}


def test_small_files_such_as_tuning_choices_may_go_from_call_to_call(tmp_path: Path) -> None:
    small = "Path(tempfile.gettempdir(), 'choice').write_text('block 64')"
    read = "p = Path(tempfile.gettempdir(), 'choice'); p.exists() and p.read_text()"
    target = lesson(tmp_path / "one", memo_source(read, small))
    (tmp_path / "tmp").mkdir()
    assert caught(target, "optimized", sense(target.folder, TMPDIR=str(tmp_path / "tmp"))) == {}


def test_results_in_the_environment_are_caught_and_settings_are_not(tmp_path: Path) -> None:
    target = lesson(
        tmp_path / "one", memo_source("os.environ['A'] = '1'", "os.environ['R'] = y.numpy().tobytes().hex()")
    )
    text = caught(target, "optimized", sense(target.folder))["evaluation.memo"]
    assert "1 environment variables as large as their outputs, such as R (4096 characters)" in text


# -- names in the source -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "evidence"),
    [
        ("import reference", "import of reference at optimized.py:1"),
        ("from reference import run as truth", "import of reference at optimized.py:1"),
        ("import aisp.engine.worker.timers as t", "import of aisp.engine.worker.timers"),
        ("from aisp.checks.oracle.comparator import compare", "import of aisp.checks.oracle.comparator"),
        (
            "import importlib\nimportlib.import_module('aisp.engine.turns')",
            "import of aisp.engine.turns at optimized.py:2",
        ),
        ("import sys\nsys.modules['baseline']", "sys.modules looked up for 'baseline'"),
        ("import sys\nsys.modules.get('reference')", "sys.modules looked up for 'reference'"),
        ("import sys\n'aisp.engine.worker.arm' in sys.modules", "sys.modules looked up for 'aisp.engine.worker.arm'"),
        ("from sys import modules\nmodules['__main__']", "sys.modules looked up for '__main__'"),
    ],
)
def test_sources_that_name_the_evaluator_are_caught(tmp_path: Path, line: str, evidence: str) -> None:
    target = lesson(tmp_path / "one", f"{line}\n{PLAIN}")
    status, text = ev.names(arm_facts(target, "optimized"), run_facts(target))
    assert status is Status.CAUGHT
    assert evidence in text


def test_a_helper_that_the_rung_imports_is_read_too_and_one_that_it_does_not_is_not(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", f"import helper\n{PLAIN}")
    run = run_facts(target)
    files = {**run.files, "helper.py": b"import aisp.engine.arms\n", "other.py": b"import reference\n"}
    run = RunFacts(run.target, run.case, "cpu", True, (), files=files)
    status, text = ev.names(arm_facts(target, "optimized"), run)
    assert (status, text.partition(": ")[2]) == (Status.CAUGHT, "import of aisp.engine.arms at helper.py:1")


@pytest.mark.parametrize(
    "line",
    [
        "from baseline import run as plain",
        "import baseline, sys\nsys.modules['baseline']",
        "import sys\nsys.modules[__name__]",
        "import sys\n'torch' in sys.modules",
        "from aisp.kernels.cuda import load",
        "text = 'import reference'",
    ],
)
def test_sources_that_name_others_honestly_pass(tmp_path: Path, line: str) -> None:
    target = lesson(tmp_path / "one", f"{line}\n{PLAIN}")
    assert ev.names(arm_facts(target, "optimized"), run_facts(target))[0] is Status.PASSED


IN_A_FUNCTION = "def error(x):\n    import reference\n    return run(x) - reference.run(x)\n"
UNREACHED = {
    "nobody calls it": IN_A_FUNCTION,
    "documentation names it": f'"""error is for tests."""\n{IN_A_FUNCTION}',
    "only another such function calls it": f"{IN_A_FUNCTION}def check(x):\n    return error(x)\n",
    "a function within": "def check(x):\n    def inner():\n        import reference\n    return inner()\n",
    "a plain class": "class Check:\n    def error(self, x):\n        import reference\n",
    "by itself": f"{IN_A_FUNCTION}if __name__ == '__main__':\n    error(0)\n    import aisp.engine\n",
    "type checker": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import reference\n",
    "never": "if False:\n    import reference\n",
    "torch.compile is no builtin": f"compiled = torch.compile\n{IN_A_FUNCTION}",
}
REACHED = {
    "under a condition": "def run(x):\n    if x.sum() > 1e9:\n        import reference\n    return x.tanh()\n",
    "called under a condition": f"{IN_A_FUNCTION}def run(x):\n    return error(x) if len(x) > 3 else x.tanh()\n",
    "handed on": f"import atexit\n{IN_A_FUNCTION}atexit.register(error)\n",
    "prepared": "def prepare(x):\n    import reference\n    return reference.run\n",
    "by a chain": f"{IN_A_FUNCTION}def two(x):\n    return error(x)\ndef one(x):\n    return two(x)\nkept = one\n",
    "put together": f"{IN_A_FUNCTION}def run(x):\n    return globals()['er' + 'ror'](x)\n",
    "an attribute that is looked up": f"import optimized\n{IN_A_FUNCTION}f = getattr(optimized, 'er' + 'ror')\n",
    "resolved": f"import pkgutil\n{IN_A_FUNCTION}f = pkgutil.resolve_name('optimized:' + 'er' 'ror')\n",
    "a name in a text": f"{IN_A_FUNCTION}f = find('optimized:error')\n",
    "decorated": f"@keep\n{IN_A_FUNCTION}",
    "a module's own attributes": "def __getattr__(name):\n    import reference\n",
    "a method by its form": "class Check:\n    def __call__(self, x):\n        import reference\n",
    "a method of a base": "class F(torch.autograd.Function):\n    def forward(ctx, x):\n        import reference\n",
    "a method by name": "class C:\n    def error(self):\n        import reference\n\nkept = C().error\n",
    "lambda": "f = lambda x: __import__('reference').run(x)\n",
    "a default": "def f(x=__import__('reference')):\n    return x\n",
    "else": "if __name__ == '__main__':\n    pass\nelse:\n    import reference\n",
    "another name": "__name__ = '__main__'\nif __name__ == '__main__':\n    import reference\n",
    "no type checker": "from math import pi as TYPE_CHECKING\nif TYPE_CHECKING:\n    import reference\n",
    "started anew": "import runpy\nif __name__ == '__main__':\n    import reference\n",
}


@pytest.mark.parametrize("source", UNREACHED.values(), ids=UNREACHED)
def test_what_no_call_reaches_is_reported_and_passes(tmp_path: Path, source: str) -> None:
    target = lesson(tmp_path / "one", f"{PLAIN}{source}")
    status, text = ev.names(arm_facts(target, "optimized"), run_facts(target))
    assert status is Status.PASSED
    assert "only code that nothing in its source calls" in text
    assert "import of reference at optimized.py:" in text


@pytest.mark.parametrize("source", REACHED.values(), ids=REACHED)
def test_what_a_call_may_reach_is_caught(tmp_path: Path, source: str) -> None:
    target = lesson(tmp_path / "one", f"{PLAIN}{source}")
    status, text = ev.names(arm_facts(target, "optimized"), run_facts(target))
    assert (status, "import of reference at optimized.py:" in text) == (Status.CAUGHT, True)


def test_a_helper_may_call_back_and_one_that_only_unreached_code_imports_is_not_read(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", f"import helper\n{PLAIN}{IN_A_FUNCTION}")
    run = run_facts(target)
    files = {**run.files, "helper.py": b"import optimized\nkept = optimized.error\n"}
    called = RunFacts(run.target, run.case, "cpu", True, (), files=files)
    assert ev.names(arm_facts(target, "optimized"), called)[0] is Status.CAUGHT
    source = f"{PLAIN}def check():\n    import helper\n".encode()
    files = {**run.files, "optimized.py": source, "helper.py": b"import reference\n"}
    unread = RunFacts(run.target, run.case, "cpu", True, (), files=files)
    assert ev.names(arm_facts(target, "optimized"), unread)[0] is Status.PASSED


def test_a_folder_may_have_helpers_named_as_our_packages(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", f"import store\n{PLAIN}")
    run = run_facts(target)
    run = RunFacts(run.target, run.case, "cpu", True, (), files={**run.files, "store.py": b""})
    assert ev.names(arm_facts(target, "optimized"), run)[0] is Status.PASSED


@pytest.mark.slow
def test_no_shipped_lesson_names_the_evaluator() -> None:
    found = catalog.load()
    assert len(found.targets) >= 5
    for target in found.targets:
        run = run_facts(target)
        for rung in target.rungs:
            assert ev.names(arm_facts(target, rung.name), run)[0] is Status.PASSED, (target.id, rung.name)


# -- the task ----------------------------------------------------------------------------------------------------------


def test_held_out_shapes_are_named_and_a_target_without_any_has_nothing_to_ask(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    run = run_facts(target)
    status, text = ev.held_out(arm_facts(target, "optimized"), run)
    assert (status, text) == (Status.PASSED, "right on 1 of the lesson's that are never timed: ragged")
    asked = replace(run, drawn=Drawn(posed=("N=3", "N=1")))
    status, text = ev.held_out(arm_facts(target, "optimized", shapes=("N=3",)), asked)
    assert (status, text.split(";")[0]) == (Status.PASSED, "right on 1 drawn: N=3")
    status, text = ev.held_out(arm_facts(target, "optimized"), asked)
    assert status is Status.SUSPECT
    assert "none of the 2 shapes that were drawn (N=3; N=1)" in text
    alone = RunFacts(target, Case("ragged", {}, timed=False), "cpu", True, ())
    assert ev.held_out(arm_facts(target, "optimized"), alone)[0] is Status.NOT_APPLICABLE
    twin = replace(arm_facts(target, "baseline"), arm="baseline (A/A)")
    for check in (ev.held_out, ev.value_families):
        quick = check(twin, replace(asked, quick=True))
        assert quick[0] is Status.NOT_APPLICABLE and "asks the baseline" in quick[1]
    assert ev.held_out(twin, replace(asked, quick=False))[0] is Status.SUSPECT


def test_a_task_that_leaves_nothing_to_draw_is_not_held_against_the_run(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    run = replace(run_facts(target), arms=(arm_facts(target, "optimized"),))
    answers = [ev.drawn_cases(replace(run, drawn=drawn)) for drawn in (Drawn(), Drawn(fixed="it has one shape"))]
    assert [status for status, _ in answers] == [Status.SUSPECT, Status.NOT_APPLICABLE]
    assert answers[1][1] == "it has one shape"


def test_a_refused_report_is_caught_in_the_channels_name(tmp_path: Path) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    check = next(check for check in ev.CHECKS if check.id == "evaluation.result_channel")
    arm = arm_facts(target, "optimized", refusal=Refusal("evaluation.result_channel", "frame 3 was forged"))
    assert registry._ask(check, arm, run_facts(target)) == (Status.CAUGHT, "frame 3 was forged")
    assert registry._ask(check, arm_facts(target, "optimized"), run_facts(target))[0] is Status.PASSED


# -- what the design leaves no room for --------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["metric", "speedup", "timeout", "seed", "iterations", "statistic"])
def test_a_lesson_cannot_define_the_metric_the_limits_or_the_seed(tmp_path: Path, key: str) -> None:
    target = lesson(tmp_path / "one", PLAIN)
    (target.folder / "lesson.md").write_text(LESSON.replace('title = "x"', f'title = "x"\n{key} = 1'))
    loaded = catalog.load_target(target.folder, root=target.folder.parent, chapter="test")
    assert isinstance(loaded, list)
    assert loaded[0].key == key


def test_no_setting_of_ours_reaches_a_process_with_a_kernel_nor_comes_back_from_it() -> None:
    from aisp.engine import paths
    from aisp.engine.protocol import jobs, reports

    assert not [name for name in paths.ENVIRONMENT_NAMES if name.startswith("AISP")]
    fields = {field for kind in (jobs.Load, jobs.Measure, jobs.Prepare) for field in kind.__struct_fields__}
    assert not [field for field in fields if "limit" in field or "patience" in field or "timeout" in field]
    assert not [field for field in reports.Samples.__struct_fields__ if "speedup" in field or "verdict" in field]


def test_seeds_of_runs_are_drawn_from_the_operating_system() -> None:
    from aisp.engine.plan import new_seed

    seeds = {new_seed() for _ in range(64)}
    assert len(seeds) == 64
    assert max(seeds) > 2**56


# -- the gallery -------------------------------------------------------------------------------------------------------

FIXTURES = sorted(path.name for path in (GALLERY / "evaluation").iterdir() if path.is_dir())
# Cheats that a sensor or a judge of this file must catch when they run where nothing else looks.
CAUGHT_BY = {
    ("eval_code_exploitation", "cheat_reports"): {"evaluation.names", "evaluation.reach"},
    ("self_modifying_tests", "cheat"): {"evaluation.edits"},
    ("hijacked_imports", "cheat"): {"evaluation.elsewhere"},
    ("benchmark_memorization", "cheat"): {"evaluation.memo"},
    ("benchmark_memorization", "cheat_environment"): {"evaluation.memo"},
    ("shared_caches", "cheat"): {"evaluation.memo"},
    ("stolen_results", "cheat"): {"evaluation.reach"},
    ("stolen_results", "cheat_frames"): {"evaluation.reach"},
    ("stolen_results", "cheat_modules"): {"evaluation.names"},
    ("stolen_results", "cheat_late"): {"evaluation.names"},  # four calls: it has not imported anything yet
    ("evaluator_sniffing", "cheat"): {"evaluation.reach"},
    ("planted_modules", "cheat"): {"evaluation.elsewhere"},
}


def places(home: Path) -> dict[str, str]:
    """A temporary folder and a folder of installed packages that a test has for itself."""
    made = {"TMPDIR": home / "tmp", "INSTALLED_IN": home / "site-packages"}
    made["TRITON_CACHE_DIR"] = made["TMPDIR"] / "triton"
    for folder in made.values():
        folder.mkdir(exist_ok=True)
    return {name: str(folder) for name, folder in made.items()}


def fixture(name: str, into: Path) -> Target:
    """A copy of a fixture: some cheats rewrite what lies beside them."""
    folder = into / name
    folder.mkdir()
    for file in (GALLERY / "evaluation" / name).iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    loaded = catalog.load_target(folder, root=into, chapter="evaluation")
    assert isinstance(loaded, Target)
    return loaded


@pytest.mark.parametrize(("name", "rung"), CAUGHT_BY, ids=lambda value: str(value))
def test_each_cheat_is_caught_by_the_check_that_names_it(tmp_path: Path, name: str, rung: str) -> None:
    target = fixture(name, tmp_path)
    run = run_facts(target)
    case = "cpu" if name == "benchmark_memorization" else "ragged"
    sensed = sense(target.folder, rung, case, **places(tmp_path))
    arm = arm_facts(target, rung, sensed)
    answers = {check.id: check.arm(arm, run) for check in ev.CHECKS if check.arm is not None}
    found = {check for check, (status, _) in answers.items() if status is Status.CAUGHT}
    assert found == CAUGHT_BY[name, rung], answers


def test_a_rung_that_opens_the_store_is_caught_and_one_with_databases_of_its_own_is_not(tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "hash").mkdir(parents=True)
    target = fixture("rewritten_store", tmp_path / "snapshots" / "hash")
    (tmp_path / "own").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "aisp.db", isolation_level=None)) as store:
        store.execute("CREATE TABLE arms (median_ms REAL)")
        store.execute("INSERT INTO arms VALUES (1.5)")
        cheat = sense(target.folder, "cheat", "ragged", TMPDIR=str(tmp_path / "own"))
        assert store.execute("SELECT median_ms FROM arms").fetchall() == [(1.5,)]
    assert set(caught(target, "cheat", cheat)) == {"evaluation.reach"}
    assert "aisp.db opened as a database at cheat.py:15" in caught(target, "cheat", cheat)["evaluation.reach"]
    assert caught(target, "optimized", sense(target.folder, case="ragged", TMPDIR=str(tmp_path / "own"))) == {}


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.slow
def test_no_twin_and_no_baseline_is_flagged(tmp_path: Path, name: str) -> None:
    target = fixture(name, tmp_path)
    for rung in target.rungs:
        if rung.role in (Role.BASELINE, Role.OPTIMIZED):
            sensed = sense(target.folder, rung.name, "ragged", **places(tmp_path))
            assert caught(target, rung.name, sensed, sensed) == {}


def test_notes_of_a_run_foretell_its_sets_where_they_name_its_seed_and_a_commitment_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(GALLERY / "evaluation" / "test_data_leakage")
    import notes  # type: ignore[import-not-found]

    folder = GALLERY / "evaluation" / "test_data_leakage"
    target = catalog.load_target(folder, root=folder.parent, chapter="evaluation")
    assert isinstance(target, Target)
    secrets = plan.new_secrets()
    first, held_out = (
        values.inputs_of(target, OracleCase.of_set(target.case("cpu"), number), secrets.seed)["x"]
        for number in (0, secrets.held_out[0])
    )
    planned = examples.planned(manifest={COMMITMENT: secrets.commitment})
    assert notes._answers(msgspec.json.encode(planned), first) == {}
    for write in (msgspec.json.encode, msgspec.msgpack.encode):  # the store's text, the journal's events
        table = notes._answers(write(secrets.shown(planned)), first)
        assert {float(first[0, 0]), float(held_out[0, 0])} <= set(table)


def test_every_fixture_answers_an_issue_and_every_issue_is_answered_by_a_check_or_in_words() -> None:
    named = {issue.fixture for issue in ev.ISSUES if issue.fixture}
    assert named == {f"evaluation/{name}" for name in FIXTURES}
    known = {issue.id for issue in ev.ISSUES}
    for check in ev.CHECKS:
        assert set(check.issues) <= known, check.id
    for issue in ev.ISSUES:
        if not issue.fixture:
            assert "tests/" in issue.answer, issue.id
    listed = {issue.id.partition(".")[2] for issue in ev.ISSUES if issue.listed}
    assert len(listed) == 8


def test_the_threat_model_names_checks_fixtures_and_tests_that_exist() -> None:
    text = (ROOT / "docs" / "threat_model.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|") and line.count("|") == 4]
    named = {name for line in table for name in re.findall(r"`([\w./]+)`", line.split("|")[-2])}
    fixtures = {name for name in named if "/" in name and not name.startswith("tests/")}
    tests = {name for name in named if name.startswith("tests/")}
    known = {check.id for check in registry.checks()}
    assert {name for name in fixtures if not (GALLERY / name).is_dir()} == set()
    assert {name for name in tests if not (ROOT / name).is_file()} == set()
    checks = {name for name in named if name.partition(".")[0] in registry.CATEGORIES and "/" not in name}
    assert checks - known == set()
    assert {f"evaluation/{name}" for name in FIXTURES} - {"evaluation/benchmark_overfitting"} <= fixtures
    assert {check.id for check in ev.CHECKS} <= named
