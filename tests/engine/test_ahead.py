"""Compiling ahead: a rung's own process finds built what it would build, and nothing else comes of it."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest

from aisp.engine import ahead, confinement, environment, paths, planning, spawner, workplaces
from aisp.engine.ahead import Ahead
from aisp.engine.caches import Caches
from aisp.engine.confinement import ABI_TRUNCATE
from aisp.engine.job import RunJob
from aisp.engine.protocol import events
from aisp.engine.runs import Execution
from aisp.engine.services import Services
from aisp.engine.slots import Cores
from aisp.engine.telemetry import Nvml
from aisp.kernels.catalog import builds
from aisp.store.outcomes import Correctness, State
from tests.engine.harness import EngineUnderTest
from tests.engine.nurseries import BorrowingPool, Nurseries
from tests.engine.targets import write_target

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("ahead"),  # whose nurseries are shared
    pytest.mark.skipif(confinement.abi() < ABI_TRUNCATE, reason="Landlock holds no process to its own folder here"),
]

EXTENSION = """\
import ctypes
import os

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = '''
extern "C" void twice(const float* x, float* y, long n) { for (long i = 0; i < n; i++) y[i] = 2 * x[i]; }
'''

load_inline("aisp_ahead", SOURCE, extra_cflags=["-O0"], no_implicit_headers=True, is_python_module=False)
LIBRARY = ctypes.CDLL(os.environ["TORCH_EXTENSIONS_DIR"] + "/aisp_ahead/aisp_ahead.so")


def twice(x):
    y = torch.empty_like(x)
    LIBRARY.twice(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel()))
    return y


def run(x):
    return twice(x)
"""  # without torch's headers, which take seconds
COMPILER = """\
#!/bin/sh
case " $* " in *" -o "*) echo "$*" >> {log};; esac
exec c++ "$@"
"""


class Place:
    """One slot of a machine that has cores to spare, and a queue of runs; what was compiled is noted."""

    def __init__(self, home: Path, compiled: Path, nurseries: Nurseries) -> None:
        self.home, self.compiled = home, compiled
        self.caches = Caches(paths.compiled_dir(), paths.cache_links_dir())
        self.pool = BorrowingPool(nurseries)
        self.services = Services(
            lambda event: None, self._store, self.pool, Nvml(), paths.snapshots_dir(), caches=self.caches
        )
        slot = SimpleNamespace(services=self.services, name="cpu")
        self.slots: Any = SimpleNamespace(
            options=lambda job: [slot], pools=[self.pool], spare=Cores(os.sched_getaffinity(0))
        )
        self.ahead = Ahead(paths.snapshots_dir(), self.caches)
        self._seq = 0

    @staticmethod
    async def _store(work: Callable[[Any], Any]) -> Any:
        return work(MagicMock(earlier=lambda run: [], quarantines=lambda *_: {}, put_environment=lambda seen: ""))

    def job(self, source: str, **options: Any) -> RunJob:
        """A run of one rung, which waits."""
        self._seq += 1
        target = write_target(self.home / "mine", {"optimized.py": source}, inputs='x = "float32 [N] normal cpu"')
        files = {path.name: path.read_bytes() for path in target.folder.iterdir()}
        given = {"quick": True, "replicas": 2, "naive": False} | options
        plan = planning.plan(
            target, files, f"{self._seq:02x}" * 32, planning.Hardware((), 0, None, "none", 0), epoch="E",
            seq=self._seq, **given,
        )  # fmt: skip
        return RunJob(plan, self.services)

    async def know_the_machine(self) -> None:
        """Have a process come up, as in the run before."""
        child = await self.pool.take(interpret=False)
        await child.end(gently=False)

    async def settled(self, *queue: RunJob) -> None:
        """Have everything compiled that can be, for these runs."""
        self.ahead.tend(queue, self.slots)
        while busy := [*(run.planning for run in self.ahead._runs.values()), *self.caches.coming.values()]:
            if all(task.done() for task in busy):
                return
            await asyncio.wait(busy)

    async def run(self, job: RunJob) -> Any:
        """Carry it out; its record."""
        try:
            return await Execution(job.plan, self.services).run()
        finally:
            self.pool.expect(0)

    def compilers(self) -> list[str]:
        """What compilers were asked for, to compile or to link."""
        return self.compiled.read_text().splitlines() if self.compiled.exists() else []


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all places here have: a compiler that notes what it is asked, and what forks, which takes long to begin."""

    compiler: Path
    log: Path
    nurseries: Nurseries = field(default_factory=Nurseries)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    log = Path("/dev/shm") / f"compilers-{os.urandom(8).hex()}"  # a confined process may write there
    made = Workshop(tmp_path_factory.mktemp("ahead") / "compiler", log)
    made.compiler.write_text(COMPILER.format(log=log))
    made.compiler.chmod(stat.S_IRWXU)
    yield made
    made.nurseries.close()


@pytest.fixture
async def place(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    log = workshop.log
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CXX", str(workshop.compiler))
    monkeypatch.setattr(ahead, "FREE_BYTES", 1)  # a machine for tests may have little to spare
    monkeypatch.setattr(ahead, "CORES_EACH", 1)
    found = Place(tmp_path, log, workshop.nurseries)
    await found.know_the_machine()
    try:
        yield found
    finally:
        await found.ahead.close()
        await found.pool.close()
        await workplaces.cleared()
        log.unlink(missing_ok=True)
        for child in psutil.Process().children():  # which an engine would sweep
            if child.status() == psutil.STATUS_ZOMBIE:
                child.wait()
    assert list(paths.work_dir().iterdir()) == [], "no folder of a process stays"
    assert not paths.cache_links_dir().exists() or list(paths.cache_links_dir().iterdir()) == []
    assert [child for child in spawner.living() if child.alive] == []


# -- what is compiled --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2], ids=["one process at a time", "both replicas at once"])
@pytest.mark.slow
async def test_a_rungs_processes_find_its_extension_built_and_start_no_compiler(place: Place, replicas: int) -> None:
    job = place.job(EXTENSION, replicas=replicas)
    await place.settled(job)
    before = place.compilers()
    assert len(before) == 2 * replicas, "each process that will live at once has a path of its own: compiled and linked"
    assert not paths.compiled_dir().exists(), "it is stored by a run alone"

    record = await place.run(job)

    assert record.state is State.OK, record.reason
    assert place.compilers() == before
    place.ahead.tend([], place.slots)
    assert place.caches.ahead == {}
    again = place.job(EXTENSION, replicas=replicas)
    await place.settled(again)
    assert place.compilers() == before, "what the run stored need not be compiled ahead"


@pytest.mark.slow
async def test_without_it_a_rungs_process_compiles_for_itself(place: Place) -> None:
    record = await place.run(place.job(EXTENSION, replicas=1))
    assert record.state is State.OK, record.reason
    assert len(place.compilers()) == 2


@pytest.mark.slow
async def test_a_run_that_begins_meanwhile_waits_for_what_is_compiled(place: Place) -> None:
    job = place.job(EXTENSION, replicas=1)
    place.ahead.tend([job], place.slots)
    await asyncio.wait([run.planning for run in place.ahead._runs.values()])
    assert len(place.caches.coming) == 1
    record = await place.run(job)
    assert record.state is State.OK, record.reason
    assert place.caches.coming == {} and len(place.compilers()) == 2
    place.ahead.tend([], place.slots)


# -- what is not -------------------------------------------------------------------------------------------------------


@pytest.mark.evil
@pytest.mark.parametrize(
    "end",
    ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", "raise ValueError('no')", "raise SystemExit(0)"],
    ids=["leaves", "is killed", "raises", "exits"],
)
async def test_one_that_does_not_end_well_leaves_nothing_and_its_run_tells_it(place: Place, end: str) -> None:
    job = place.job(EXTENSION.replace("def run", f"{end}\n\n\ndef run"), replicas=1)
    await place.settled(job)
    assert len(place.compilers()) == 2, "it was built, and then ended"
    assert place.caches.ahead == {}

    record = await place.run(job)

    assert record.arm("optimized").state not in (State.OK, State.CANCELLED)
    assert len(place.compilers()) == 4
    place.ahead.tend([], place.slots)


@pytest.mark.slow
async def test_a_rung_that_its_run_catches_leaves_nothing(place: Place) -> None:
    job = place.job(EXTENSION.replace("twice(x)\n", "twice(x) + 1\n"), replicas=1)
    await place.settled(job)
    assert len(place.caches.ahead) == 1
    record = await place.run(job)
    assert record.arm("optimized").correctness is Correctness.WRONG, record.arm("optimized").reason
    place.ahead.tend([], place.slots)
    assert place.caches.ahead == {}
    assert [entry for entry in paths.compiled_dir().glob("*") if entry.suffix == ""] == []


HELD = "import time\nfrom pathlib import Path\nPath('/dev/shm/NAME').touch()\ntime.sleep(600)  # load_inline\n" + (
    "def run(x):\n    return x * 2\n"
)


@pytest.mark.parametrize(
    "why", ["the run leaves the queue", "a slot takes its cores", "an import is suspect", "closed"]
)
@pytest.mark.slow
async def test_it_ends_with_its_run_and_with_its_cores(place: Place, why: str) -> None:
    begun = place.compiled.with_name(place.compiled.name + "-begun")
    job = place.job(HELD.replace("NAME", begun.name), replicas=1)
    try:
        place.ahead.tend([job], place.slots)
        async with asyncio.timeout(60):
            while not begun.exists():  # noqa: ASYNC110  another process makes it
                await asyncio.sleep(0.02)
        (child,) = spawner.living()
        (task,) = place.caches.coming.values()
        nice = os.getpriority(os.PRIO_PROCESS, child.pid)
        assert nice == 19 and len(os.sched_getaffinity(child.pid)) == ahead.CORES_EACH
        assert Path(f"/proc/{child.pid}/environ").read_bytes().count(b"CUDA_VISIBLE_DEVICES=\0") == 1
        queue = [job]
        if why == "the run leaves the queue":
            queue = []
        elif why == "a slot takes its cores":
            place.slots.spare = Cores()
        elif why == "an import is suspect":
            place.pool.forbid("something was put where everybody imports from")
        if why == "closed":
            await place.ahead.close()
        else:
            place.ahead.tend(queue, place.slots)
            place.ahead.tend(queue, place.slots)  # asked twice, it ends once
        await asyncio.wait([task])
        assert not child.alive and place.caches.ahead == place.caches.coming == {}
    finally:
        begun.unlink(missing_ok=True)


@pytest.mark.evil
async def test_one_that_hangs_is_ended_by_the_patience_of_its_run_and_leaves_nothing(place: Place) -> None:
    begun = place.compiled.with_name(place.compiled.name + "-begun")
    job = place.job(HELD.replace("NAME", begun.name), replicas=1, patience_s=1.0)
    try:
        await place.settled(job)
        assert begun.exists(), "it was imported"
        assert spawner.living() == [] and place.caches.ahead == {}
    finally:
        begun.unlink(missing_ok=True)
    place.ahead.tend([], place.slots)


WRITER = """\
from pathlib import Path

HERE = Path(__file__).parent  # load_inline
for path in (HERE / "reference.py", HERE / "new.py", Path({state!r}) / "compiled" / "x", Path({state!r}) / "x.pth"):
    try:
        path.unlink(missing_ok=True)
        path.write_text("")
    except OSError:
        continue
    raise SystemExit(1)


def run(x):
    return x * 2
"""


@pytest.mark.slow
async def test_it_may_write_to_no_layout_nor_to_what_is_stored(place: Place) -> None:
    paths.compiled_dir().mkdir(parents=True)
    job = place.job(WRITER.format(state=str(paths.state_dir())), replicas=1)
    await place.settled(job)
    assert len(place.caches.ahead) == 1, "it was refused everywhere, and ended well"
    place.ahead.tend([], place.slots)


@pytest.mark.parametrize(
    "how", ["no core to spare", "no memory", "its layout is in use", "not the next", "nothing built"]
)
async def test_where_there_is_no_room_nothing_is_started(
    place: Place, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = place.job("def run(x):\n    return x * 2\n" if how == "nothing built" else EXTENSION, replicas=1)
    queue = [job]
    if how == "no core to spare":
        place.slots.spare = Cores()
    elif how == "no memory":
        monkeypatch.setattr(environment, "available_bytes", lambda: None)
    elif how == "its layout is in use":
        other: Any = SimpleNamespace(id="other", layout=job.layout, slot="cpu")
        queue.insert(0, other)
    elif how == "not the next":
        monkeypatch.setattr(ahead, "RUNS", 0)
    started = MagicMock()
    monkeypatch.setattr(spawner, "spawn", started)
    await place.settled(*queue)
    started.assert_not_called()
    place.ahead.tend([], place.slots)


# -- in an engine ------------------------------------------------------------------------------------------------------

SITE = """\
import os
import sys

if "aisp.engine.server" in sys.orig_argv:
    from aisp.engine import ahead, slots

    ahead.FREE_BYTES, ahead.CORES_EACH = 1, 1
    slots.Slots.spare = property(lambda self: slots.Cores(os.sched_getaffinity(0) if self.cpu.job else ()))
"""
WAITS = """\
import time
from pathlib import Path

while not Path({go!r}).exists():
    time.sleep(0.05)


def run(x):
    return x * 2
"""


@pytest.mark.slow
async def test_while_one_run_is_under_way_the_extension_of_the_next_is_built(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    log = Path("/dev/shm") / f"compilers-{os.urandom(8).hex()}"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(log=log))
    compiler.chmod(stat.S_IRWXU)
    inputs = 'x = "float32 [N] normal cpu"'
    go = tmp_path / "go"
    write_target(tmp_path / "mine", {"optimized.py": WAITS.format(go=str(go))}, name="first", inputs=inputs)
    write_target(tmp_path / "mine", {"optimized.py": EXTENSION}, name="second", inputs=inputs)
    engine = own(AISP_TEST_SITE=str(tmp_path / "site"), CXX=str(compiler), AISP_COMPILE_LIMIT_S="100")
    await engine.start()
    try:
        async with engine.stream() as stream:
            first, second = await stream.plan(tmp_path / "mine", "mine:first", "mine:second")
            with engine.use():
                async with asyncio.timeout(90):
                    while "was compiled ahead in" not in paths.log_tail(1000):  # noqa: ASYNC110  the engine is another process
                        await asyncio.sleep(0.1)
            assert [event for event in stream.seen if isinstance(event, events.RunFinished)] == []
            built = log.read_text().splitlines()
            go.touch()
            for run_id in (first, second):
                ended = await stream.finish(run_id)
                assert ended.state is State.OK, ended.reason
        assert len(built) == 2, built
    finally:
        log.unlink(missing_ok=True)


# -- for which GPU -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sm", "capability"), [(90, (9, 0)), (89, (8, 9)), (100, (10, 0)), (120, (12, 0))])
def test_torch_makes_the_same_command_as_where_it_sees_the_gpu(
    monkeypatch: pytest.MonkeyPatch, sm: int, capability: tuple[int, int]
) -> None:
    torch = pytest.importorskip("torch")
    builder = pytest.importorskip("torch.utils.cpp_extension")
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90", "sm_100", "sm_120"])
    seen = builder._get_cuda_arch_flags()
    for name, value in ahead.variables("cuda", sm).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert builder._get_cuda_arch_flags() == seen and len(seen) == 2
    assert "TORCH_CUDA_ARCH_LIST" not in ahead.variables("cpu", None)


def test_a_source_that_names_the_builder_is_one_that_builds() -> None:
    assert builds(b"from torch.utils.cpp_extension import load") and builds(b"cpp.load_inline(name='x')")
    assert not builds(b"import torch")
