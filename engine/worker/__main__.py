"""A worker process: `engine.worker CHANNEL_FD ENGINE_PID PLACE`, started by engine.spawner through engine.start, or
forked by a nursery (engine.worker.nursery) with the same three words.

Order matters: first tie our life to the engine's, then give up what we need not (engine.confinement), while there is
one thread; then the slow imports, which a fork finds done.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import math
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.engine import confinement
from aisp.engine.confinement import Place
from aisp.store.outcomes import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisp.engine.protocol import jobs, reports
    from aisp.engine.worker.arm import Arm
    from aisp.engine.worker.channel import Channel
    from aisp.engine.worker.verifier import Verifier

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LEAST_PRIORITY = 19  # nice(2): behind whatever else wants the core
LEAST_CORES = 4  # from which on the first is left to the engine


def die_with(engine_pid: int) -> None:
    """Have the kernel end this process when its parent, the engine, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != engine_pid:
        os._exit(3)  # the engine was gone before the tie was made


def tie_to(engine_pid: int) -> None:
    """Die with the engine, and die first when memory runs out; orphans of ours stay below us, so that whoever counts
    what this process started finds all of it.
    """
    die_with(engine_pid)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        Path("/proc/self/oom_score_adj").write_text("800")
    except OSError:
        sys.stderr.write("aisp: oom_score_adj could not be raised\n")


def keep_caches_in(folder: str) -> None:
    """Have compilers keep what they make in `folder`: torch's and Triton's look there each time they compile."""
    from aisp.engine import paths

    os.environ.update(paths.cache_variables(folder))


def take_caches(job: jobs.Load | jobs.Naive) -> None:
    """Use the folder for caches that comes with a lesson, where one does."""
    if job.caches:
        keep_caches_in(os.fsdecode(job.caches[job.rank]))


def settle_on_cores(cores: Sequence[int] = ()) -> list[int]:
    """Run on these cores, a slot's own. Without any: on all but the first that are allowed, so that arms share theirs
    with one another and not with the engine; where there are fewer than LEAST_CORES, on all. Before torch is imported:
    it makes a thread for each.
    """
    allowed = sorted(os.sched_getaffinity(0))
    wanted = list(cores) or (allowed if len(allowed) < LEAST_CORES else allowed[1:])
    try:
        os.sched_setaffinity(0, wanted)
    except OSError:  # a container that forbids it
        return allowed
    return wanted


def settle_in(place: Place) -> tuple[int, list[Held]]:
    """Take the working folder, the temporary folder and the caches that are ours, and give up what no role needs. As
    `confinement.settle` has it: what holds us to it.
    """
    os.chdir(place.cwd)
    os.environ.update(place.environment)
    tempfile.tempdir = None  # looked up in the environment when it is next wanted
    for folder in (*place.writable, place.layouts):
        with contextlib.suppress(OSError):  # one that cannot be made will be missed by whoever wants it
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)  # a rule is for a folder that is there
    return confinement.settle(place)


def take_role(place: Place, job: jobs.Load | jobs.Naive) -> None:
    """Restrict this process: a worker reaches its rung's snapshot folder alone, the verifier writes to none; ranks of
    one arm share a folder for what they leave one another, and the network.
    """
    from aisp.engine.protocol import jobs

    folder = os.fsdecode(job.folder)
    verifies = isinstance(job, jobs.Load) and job.module == "reference"
    own = [] if verifies else [folder]
    if job.ranks > 1:
        shared = os.path.dirname(job.rendezvous)  # noqa: PTH120  a word of a message
        os.environ["TMPDIR"] = shared  # torch's symmetric memory leaves its sockets there
        tempfile.tempdir = None
        own.append(shared)
    confinement.narrow(place, *own, reads=None if verifies else folder, alone=job.ranks == 1)


def pay_first_costs(device: str) -> None:
    """What the first operation of each kind costs a process: thread pools, library handles, kernels loaded lazily.

    The operations are those of a comparison and of a fingerprint, which every run needs.
    """
    import torch

    from aisp.checks.oracle.comparator import Expected, compare, rms

    matrix = torch.arange(1 << 18, dtype=torch.float32, device=device).view(512, 512)
    projected = ((matrix @ matrix[:, 0:2]) * matrix[:, 2:3]).sum(0)
    torch.cat((projected, torch.dot(matrix.view(-1), matrix.view(-1)).reshape(1))).tolist()
    wide = matrix.to(torch.float64)
    torch.cat(((wide @ wide[:, 0:2]).sum(0), (wide * wide).sum(1)))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        compare(Expected("", wide, "", torch.clamp(wide.abs(), min=rms(wide))), matrix.to(dtype), full=False)
    compare(Expected("", wide, "", None), matrix, full=False)
    compare(Expected("", wide.to(torch.int64), "", None), matrix.to(torch.int64), full=False)
    torch._foreach_copy_([matrix.clone()], [matrix])  # fresh values for several calls at once
    torch._foreach_mul_([matrix], math.nan)  # poison for what several calls returned


def import_compiler() -> None:
    """Import torch's compiler: over three seconds, which the first torch.compile of a process waits for.

    A rung that uses it finds it imported, whether its process stood by or not: what a rung sets in the environment for
    the compiler to read at its import comes too late in either, and not in one replica alone.
    """
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401
    from torch._inductor.codecache import torch_key

    torch_key()  # its caches are looked up by the hash of all its files, half a second


def stand_by(*, compiler: bool, confined: int, held: Sequence[Held] = ()) -> tuple[reports.Ready, int]:
    """Import torch, make a CUDA context where there is a GPU; what this process found, and the L2's size."""
    import torch

    from aisp.engine.protocol import reports
    from aisp.store.text import whole

    versions = {"python": sys.version.split()[0], "torch": str(torch.__version__)}
    name, uuid, sm, memory, l2, note = "", "", None, None, 0, ""
    if torch.version.cuda is None:
        note = "torch was built without CUDA"
    else:
        try:
            torch.cuda.init()
            properties = torch.cuda.get_device_properties(0)
            torch.zeros(1, device="cuda").add_(1)
            torch.cuda.synchronize()
            name, uuid = whole(getattr, properties, "name"), f"GPU-{properties.uuid}"
            sm = properties.major * 10 + properties.minor
            memory, l2 = properties.total_memory, properties.L2_cache_size
            versions["cudnn"] = str(torch.backends.cudnn.version())
        except (RuntimeError, AssertionError) as error:
            note = " ".join(str(error).split())[:200]
    try:
        import triton

        versions["triton"] = triton.__version__
    except ImportError:
        versions["triton"] = ""
    # Loaded here, so that the first job finds them warm; so is the kernel that reads the clocks.
    import aisp.engine.worker.arm
    import aisp.engine.worker.verifier  # noqa: F401
    from aisp.engine.worker.timers import stand_ready

    if name:
        stand_ready()
    pay_first_costs("cuda" if name else "cpu")
    if compiler:
        import_compiler()
    gc.collect()
    gc.freeze()
    ready = reports.Ready(
        pid=os.getpid(),
        torch=str(torch.__version__),
        cuda=torch.version.cuda or "",
        gpu_name=name,
        gpu_uuid=uuid,
        sm=sm,
        memory_bytes=memory,
        l2_bytes=l2 or None,
        cores=sorted(os.sched_getaffinity(0)),
        note=note,
        versions=versions,
        confined=confined,
        held=list(held),
    )
    return ready, l2


def build(job: jobs.Build, place: Place) -> reports.Loaded:
    """Import a rung's module at the lowest priority, for what it compiles at its import. Raises as the module does."""
    from aisp.engine.protocol import reports
    from aisp.engine.worker.loading import import_module

    os.nice(LEAST_PRIORITY)
    os.environ.update(job.environment)
    keep_caches_in(os.fsdecode(job.caches))
    confinement.narrow(place, reads=os.fsdecode(job.folder), alone=True)
    start = time.perf_counter()
    import_module(Path(os.fsdecode(job.folder)), job.module)
    return reports.Loaded(import_ms=(time.perf_counter() - start) * 1e3)


def load(job: jobs.Load, l2_bytes: int, place: Place) -> Arm | Verifier:
    """Take the role that the first job gives."""
    from aisp.engine.worker.arm import Arm
    from aisp.engine.worker.verifier import Verifier
    from aisp.kernels import catalog
    from aisp.kernels.catalog.model import Target

    folder, root = Path(os.fsdecode(job.folder)), Path(os.fsdecode(job.root))
    target = catalog.load_target(folder, root=root, chapter=job.chapter)
    if not isinstance(target, Target):
        raise RuntimeError("; ".join(str(problem) for problem in target))
    import torch

    torch.manual_seed(0)
    if job.module == "reference":
        return Verifier(job, target)
    source = folder / f"{job.module}.py"
    if source.is_file() and catalog.compiles(source.read_bytes()):
        import_compiler()
    return Arm(job, target, l2_bytes, place.writable)


def failed(error: BaseException, name: str, folder: Path) -> reports.Failed:
    """Sort an exception into whose it is. Types decide, and a probe of the device; never a message.

    An exception is the lesson's object: whatever else it does when it is looked at, it is reported as what it was.
    """
    from aisp.engine.protocol import reports
    from aisp.engine.worker.loading import kind_of

    try:
        return _sorted_out(error, name, folder)
    except BaseException as other:
        sentence = f"{kind_of(error)}; what it says could not be read ({kind_of(other)})"
        return reports.Failed(job=name, kind="user", summary=sentence, traceback="")


def _sorted_out(error: BaseException, name: str, folder: Path) -> reports.Failed:
    import torch

    from aisp.checks.oracle.returned import FormError
    from aisp.checks.oracle.truth import BudgetError, ReferenceFault
    from aisp.checks.oracle.values import InputsError
    from aisp.engine.protocol import reports
    from aisp.engine.worker.loading import LessonError, NotHereError, asks_for_a_gpu, summary, text_of, user_traceback
    from aisp.engine.worker.tensors import UnsealedError

    if asks_for_a_gpu(error) and not torch.cuda.is_available():
        sentence = "needs a GPU: it asks for one, and there is none; the trace below ends at the line that does"
        return reports.Failed(job=name, kind="unsupported", summary=sentence, traceback=user_traceback(error, folder))
    kind = "user"
    if isinstance(error, FormError):
        kind = "form"
    elif isinstance(error, (torch.OutOfMemoryError, MemoryError, BudgetError)):
        kind = "memory"
    elif isinstance(error, NotHereError):
        kind = "unsupported"
    elif isinstance(error, torch.AcceleratorError):
        kind = "poisoned"
    elif isinstance(error, UnsealedError):
        kind = "ours"
    if kind in ("user", "memory") and torch.cuda.is_available() and torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            kind = "poisoned"
    ours = (FormError, LessonError, NotHereError, InputsError, BudgetError, ReferenceFault, UnsealedError)
    if isinstance(error, ours):
        # Our own sentence: it says what to mend, and the line that raised it is ours.
        return reports.Failed(job=name, kind=kind, summary=" ".join(text_of(error).split()), traceback="")
    return reports.Failed(job=name, kind=kind, summary=summary(error), traceback=user_traceback(error, folder))


def serve(channel: Channel, l2_bytes: int, place: Place) -> int:
    """Answer jobs until there are no more; the exit status."""
    from aisp.engine.protocol import jobs, reports
    from aisp.engine.worker.arm import Arm
    from aisp.engine.worker.verifier import Verifier

    role: Arm | Verifier | None = None
    folder = Path("/")
    while (job := channel.receive()) is not None:
        try:
            if isinstance(job, jobs.Load):
                folder = Path(os.fsdecode(job.folder))
                take_caches(job)
                start = time.perf_counter()
                take_role(place, job)
                role = load(job, l2_bytes, place)
                channel.send(reports.Loaded(import_ms=(time.perf_counter() - start) * 1e3))
            elif isinstance(job, jobs.Build):
                folder = Path(os.fsdecode(job.folder))
                channel.send(build(job, place))
            elif isinstance(job, (jobs.PlanPeak, jobs.MeasureCeiling)):
                from aisp.engine.worker.peak import answer  # only the process that measures ceilings needs it

                channel.send(answer(job))
            elif isinstance(job, jobs.Naive):
                from aisp.engine.worker import naive  # only the process that plays the naive harness needs it

                folder = Path(os.fsdecode(job.folder))
                take_caches(job)
                take_role(place, job)
                channel.send(naive.answer(job))
            elif isinstance(job, jobs.TellImports):
                from aisp.engine.worker import imports  # one process of an engine is asked

                if role is not None:
                    raise RuntimeError("TellImports after Load")
                channel.send(imports.report())
            elif isinstance(job, jobs.Finish):
                channel.send(role.done() if isinstance(role, Arm) else reports.Done(samples=0, sha256=""))
                return 0
            elif isinstance(role, Arm):
                answer_arm(channel, role, job)
            elif isinstance(role, Verifier):
                answer_verifier(channel, role, job)
            else:
                raise RuntimeError(f"{type(job).__name__} before Load")
        except SystemExit:
            raise  # a variant must return, not exit
        except BaseException as error:  # a KeyboardInterrupt or a group of such is the lesson's error like any other
            channel.send(failed(error, type(job).__name__, folder))
    return 0


def answer_arm(channel: Channel, arm: Arm, job: jobs.AnyJob) -> None:
    """One job of an arm."""
    from aisp.engine.protocol import jobs

    match job:
        case jobs.TakeInputs():
            channel.send(arm.take_inputs(job))
        case jobs.Prepare():
            channel.send(arm.prepare(job))
        case jobs.Execute():
            channel.send(arm.execute(job))
        case jobs.WarmUp():
            channel.send(arm.warm_up(job))
        case jobs.Group():
            channel.send(arm.group(job))
        case jobs.Measure():
            for batch in arm.measure(job):
                channel.send(batch)
        case jobs.FetchLast():
            channel.send(arm.last_outputs(job))
        case jobs.Sustain():
            channel.send(arm.sustain(job))
        case jobs.ServeBatches():
            channel.send(arm.serve_batches(job))
        case jobs.Trace():
            channel.send(arm.trace())
        case jobs.Inspect():
            channel.send(arm.inspect())
        case jobs.Try():
            channel.send(arm.attempt(job))
        case _:
            raise RuntimeError(f"an arm does not serve {type(job).__name__}")


def answer_verifier(channel: Channel, verifier: Verifier, job: jobs.AnyJob) -> None:
    """One job of the verifier."""
    from aisp.engine.protocol import jobs

    match job:
        case jobs.Pose():
            channel.send(verifier.pose(job))
        case jobs.Expect():
            channel.send(verifier.expect(job))
        case jobs.Probe():
            channel.send(verifier.probe(job))
        case jobs.Judge():
            channel.send(verifier.judge(job))
        case jobs.LintTask():
            channel.send(verifier.lint_task(job))
        case jobs.TimeBatches():
            channel.send(verifier.time_batches(job))
        case jobs.ReadPairs():
            channel.send(verifier.read_pairs(job))
        case jobs.Inspect():
            channel.send(verifier.inspect())
        case _:
            raise RuntimeError(f"a verifier does not serve {type(job).__name__}")
    verifier.give_back()


def live(channel_fd: int, engine_pid: int, place: Place, settled: Callable[[], object]) -> int:
    """Stand by, then serve one role; the exit status.

    Args:
        settled: called once this process is confined and may have threads.
    """
    tie_to(engine_pid)
    confined, held = settle_in(place)
    settled()
    faulthandler.enable()
    sys.dont_write_bytecode = True
    from aisp.engine.worker.channel import Channel

    channel = Channel(channel_fd)
    try:
        ready, l2_bytes = stand_by(compiler=place.compiler, confined=confined, held=held)
    except Exception as error:  # of imports and drivers that are not ours: the engine tells what is missing
        from aisp.engine.protocol import reports
        from aisp.engine.worker.loading import summary

        channel.send(reports.Failed(job="Ready", kind="unsupported", summary=summary(error), traceback=""))
        raise
    channel.send(ready)
    return serve(channel, l2_bytes, place)


def main() -> int:
    """See the module."""
    channel_fd, engine_pid, word = sys.argv[1:]
    place = Place.decoded(word)
    return live(int(channel_fd), int(engine_pid), place, lambda: settle_on_cores(place.cores))


if __name__ == "__main__":
    sys.exit(main())
