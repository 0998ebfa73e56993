"""Was the work done where and when the clock looked: on the device, inside the call?

Work that was done early is useless here: inputs are refilled after prepare(), differ from call to call, and are new at
the end. Work that is done late or elsewhere must be looked for: in other processes, in threads that go on, and on the
host while the GPU's stream is held.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
    Need,
    RunFacts,
    Sensor,
    Site,
    When,
    caught,
    not_applicable,
    passed,
    unavailable,
)
from aisp.store.outcomes import Timing

MOST_SAMPLES = 4096
WINDOW_S = 0.025  # of sleep, in which nothing of ours works
MOST_WINDOWS = 20  # OpenMP's threads spin for up to 0.2 s when there is nothing left to do
IDLE_SHARE = 0.02  # of one core, of all threads together: who takes more in every window is at work
# A pool that is idle sleeps on a futex, and nothing wakes it. What polls honestly does so 20 times a second at most:
# `Popen.wait(timeout)` and watchers of files; CUDA's own threads and NCCL's watchdog 10 times. A thread that looks for
# work less often than every 33 ms finds none between two samples.
MOST_POLLS_PER_S = 30.0
# But for the loop of each gloo group that a lesson of several ranks makes: it waits for its peers 10 ms at a time, by
# epoll_wait. Older torch (2.11) gives the thread no name.
GLOO_LOOP = "gloo_tcp_loop"
GLOO_WAIT = re.compile(r"(?:232|281|22) \S+ \S+ \S+ 0xa ")  # epoll_wait, epoll_pwait of x86-64 and of aarch64
GLOO_LOOKS = 5  # between two waits it is seen to run
GLOO_POLLS_PER_S = 200.0  # in a window of 25 ms it wakes twice or three times
BEGUN = "threads begun since"
TURN_GAP_NS = 20_000_000  # between two samples of one turn
ELSEWHERE_LEAST_MS = 0.2
ELSEWHERE_SHARE = 0.3  # of the time that was claimed
HOST_LEAST_MS = 1.0
HOST_FACTOR = 20.0  # launching takes the host up to ten times as long as the smallest kernels take the GPU
THREADS_FACTOR = 1.5
PR_SET_CHILD_SUBREAPER = 36
COMPILE_WORKER = "torch/_inductor/compile_worker/__main__.py"


def processor_ns(pid: int) -> int:
    """Processor time of a process and all its threads. Raises OSError where it has ended."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # Linux: the scheduler's clock of that process


def descendants(pid: int) -> list[int]:
    """Processes below `pid`, without PyTorch's own compile helpers."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted, a thousand times a second
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/stat").read_text(errors="replace")
            except OSError:
                continue
            parents[int(name)] = int(text.rpartition(")")[2].split()[1])
    pids: list[int] = []
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        pids += level
    return [child for child in pids if not _compiles(child)]


def _compiles(pid: int) -> bool:
    """Whether this is a helper of torch.compile: it starts in the background and takes seconds to import torch."""
    try:
        return COMPILE_WORKER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def has_children() -> bool:
    """Whether this process has any, ended or not: one system call."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


# -- other processes ---------------------------------------------------------------------------------------------------


class ElsewhereFacts(Facts, frozen=True, kw_only=True):
    """Medians over samples. They say nothing where `samples` is 0.

    Attributes:
        samples: how many were seen.
        outside_ms: processor time of other processes while nothing was timed.
        claimed_ms: by the clock, of all calls of a sample together.
        processes: the most that were there.
    """

    samples: int
    outside_ms: float
    claimed_ms: float
    processes: int


class Elsewhere(Sensor[ElsewhereFacts]):
    """Processor time that processes which the lesson started took while no call was being timed."""

    name = "elsewhere"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._children: list[int] = []
        self._last: dict[int, int] = {}
        self._ended_ns = 0
        self._seen_ns = 0
        self._gap_ns = 0
        self._rows: list[tuple[float, float, int]] = []  # worked outside, claimed, processes
        self._cores = len(os.sched_getaffinity(0))

    def before_import(self) -> None:
        """See Sensor. Orphans of our children come to us, so that none of them is lost from sight."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _worked_ns(self) -> int:
        """Since the last look, of all processes below us and of those that have ended."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
        worked, self._ended_ns = ended_ns - self._ended_ns, ended_ns
        if not has_children():
            self._children, self._last = [], {}
            return worked
        now: dict[int, int] = {}
        for pid in self._children:
            try:
                now[pid] = processor_ns(pid)
            except OSError:
                worked -= self._last.get(pid, 0)  # it is among the ended ones now, with all that it ever took
        worked += sum(ns - self._last.get(pid, 0) for pid, ns in now.items())
        self._last = now
        return max(0, worked)

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage != "timed":
            return
        now = time.monotonic_ns()
        if has_children() and (not self._children or len(self._rows) % 16 == 0):
            self._children = descendants(os.getpid())
            for pid in self._children:
                if pid not in self._last:
                    try:
                        self._last[pid] = processor_ns(pid)  # what it did before is not of this sample
                    except OSError:
                        continue
        worked = self._worked_ns()
        # Between turns the engine has calls made that no hook sees.
        self._gap_ns = worked if self._seen_ns and now - self._seen_ns < TURN_GAP_NS else 0

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage != "timed" or call.sample is None or len(self._rows) >= MOST_SAMPLES:
            return
        sample, calls = call.sample, max(1, len(call.outputs))
        claimed_ms = sample.device_ms * calls
        inside_ms = max(claimed_ms, sample.host_ms * calls) * self._cores  # at most, with every core at work
        worked_ms = self._worked_ns() / 1e6
        outside_ms = max(0.0, worked_ms - inside_ms) + self._gap_ns / 1e6
        self._rows.append((outside_ms, claimed_ms, len(self._children)))
        self._seen_ns = time.monotonic_ns()

    def facts(self) -> ElsewhereFacts:
        """See ElsewhereFacts."""
        if not self._rows:
            return ElsewhereFacts(samples=0, outside_ms=0.0, claimed_ms=0.0, processes=0)
        outside, claimed, processes = zip(*self._rows, strict=True)
        return ElsewhereFacts(
            samples=len(self._rows),
            outside_ms=statistics.median(outside),
            claimed_ms=statistics.median(claimed),
            processes=max(processes),
        )


def processes(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where in every replica other processes did the work beside the clock."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    replicas = [facts for facts in arm.facts(Elsewhere) if facts.samples]
    if not replicas:
        return unavailable("no timed sample was seen")
    if all(f.outside_ms > max(ELSEWHERE_LEAST_MS, ELSEWHERE_SHARE * f.claimed_ms) for f in replicas):
        one = replicas[0]
        return caught(
            f"processes that the rung started worked {one.outside_ms:.3g} ms per sample while nothing was timed,"
            f" beside {one.claimed_ms:.3g} ms that were claimed"
        )
    count = max(facts.processes for facts in replicas)
    if not count:
        return passed("it has started no process that was alive while it was timed")
    worst = max(facts.outside_ms for facts in replicas)
    return passed(f"{count} processes of its own worked {worst:.3g} ms per sample beside the clock")


# -- after the last call -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turns:
    """What a thread has had of the processors since it began, or between two looks.

    Attributes:
        run_ns: time on a processor.
        wait_ns: time in line for one. Who stands in line now is counted when his turn comes.
        count: how often it came on a processor, most often because it was woken.
        in_line: whether it runs or stands in line at this moment.
    """

    run_ns: int = 0
    wait_ns: int = 0
    count: int = 0
    in_line: bool = False

    def __add__(self, other: Turns) -> Turns:
        return Turns(
            self.run_ns + other.run_ns,
            self.wait_ns + other.wait_ns,
            self.count + other.count,
            self.in_line or other.in_line,
        )

    def since(self, before: Turns) -> Turns:
        """Turns after an earlier look."""
        return Turns(
            self.run_ns - before.run_ns, self.wait_ns - before.wait_ns, self.count - before.count, self.in_line
        )

    def at_work(self, window_ns: int, most_polls_per_s: float = MOST_POLLS_PER_S) -> bool:
        """Whether in a window of this length it worked, wanted to, or looked for work more often than an idle one.

        Who stands in line cannot look for work meanwhile: on a loaded host that time is no part of the window.
        """
        most = most_polls_per_s * (window_ns - self.wait_ns) / 1e9
        return self.in_line or self.run_ns >= IDLE_SHARE * window_ns or (self.count > 0 and self.count >= most)


def turns_of(process: str, tid: int) -> Turns:
    """The turns of a thread since it began. Raises OSError where it has ended."""
    folder = Path(f"/proc/{process}/task/{tid}")
    run, wait, count = map(int, (folder / "schedstat").read_text().split())
    state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return Turns(run, wait, count, state == "R")


class StillRunningFacts(Facts, frozen=True, kw_only=True):
    """Who was at work after the last call.

    Attributes:
        windows: looked through.
        asleep_s: how long they took.
        busy_s: the eight busiest of those who were at work in all of them: time on a processor and in line for one.
        turns: how often each of these came on a processor.
    """

    windows: int
    asleep_s: float
    busy_s: dict[str, float]
    turns: dict[str, int]


class StillRunning(Sensor[StillRunningFacts]):
    """What of this process and those below it still takes processor time when the last call is over."""

    name = "still_running"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._before: set[int] = set()
        self._windows = 0
        self._asleep_s = 0.0
        self._busy: dict[str, Turns] = {}

    def before_import(self) -> None:
        """See Sensor."""
        Path("/proc/self/schedstat").read_text()  # raises where the kernel does not tell, and the check says so
        self._before = set(_threads("self"))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def after_timing(self) -> None:
        """See Sensor. Sleeps until a window was quiet, at most half a second.

        In a quiet window nobody is at work who was in every one before, and all together take next to no time.
        """
        inductor = sys.modules.get("torch._inductor.async_compile")
        if inductor is not None:
            inductor.shutdown_compile_workers()  # their idling is not the lesson's
        total: dict[str, Turns] = {}
        restless: set[str] | None = None
        # Looked up once: a walk over all processes takes as long as a window.
        below = descendants(os.getpid()) if has_children() else []
        earlier = set(self._brought(below))
        loops = {_name(*thread) for thread in earlier if self._waits_for_peers(*thread)}
        start = time.monotonic()
        for _ in range(MOST_WINDOWS):
            before, at_ns = _turns(list(self._brought(below))), time.monotonic_ns()
            time.sleep(WINDOW_S)
            self._windows += 1
            there = list(self._brought(below))
            after, window_ns = _turns(there), time.monotonic_ns() - at_ns
            spent: dict[str, Turns] = {}
            for thread, turns in after.items():
                who = _name(*thread) if thread in earlier else BEGUN
                spent[who] = spent.get(who, Turns()) + turns.since(before.get(thread, Turns()))
            if len(after) < len(there):  # one ended since it was listed, and may have begun another
                spent[BEGUN] = spent.get(BEGUN, Turns()) + Turns(in_line=True)
            # One may end as the next begins: nobody is there from first to last.
            begun = len(after) < len(there) or bool(after.keys() - before.keys())
            at_work = {
                who
                for who, turns in spent.items()
                if turns.at_work(window_ns, GLOO_POLLS_PER_S if who in loops else MOST_POLLS_PER_S)
            }
            restless = at_work if restless is None or begun else restless & at_work
            if not restless and not begun and sum(turns.run_ns for turns in spent.values()) < IDLE_SHARE * window_ns:
                total = {}
                break
            for who, turns in spent.items():
                total[who] = total.get(who, Turns()) + turns
        self._asleep_s = time.monotonic() - start
        self._busy = {who: turns for who, turns in total.items() if not restless or who in restless}

    def _brought(self, below: list[int]) -> Iterator[tuple[str, int]]:
        """Threads that the lesson brought and those of processes below, each with its process."""
        for process in ("self", *map(str, below)):
            try:
                tids = _threads(process)
            except OSError:
                continue
            for tid in tids:
                if process != "self" or (tid not in self._before and tid != os.getpid()):
                    yield process, tid

    def _waits_for_peers(self, process: str, tid: int) -> bool:
        """Whether this is a loop of a gloo group. Others can pretend to be one, in a lesson of several ranks alone."""
        if process != "self" or self.site.target.ranks < 2:
            return False
        thread = Path(f"/proc/self/task/{tid}")
        with contextlib.suppress(OSError):
            if (thread / "comm").read_text(errors="replace").strip() == GLOO_LOOP:
                return True
            for _ in range(GLOO_LOOKS):
                if GLOO_WAIT.match((thread / "syscall").read_text()):
                    return True
                time.sleep(1e-3)
        return False

    def facts(self) -> StillRunningFacts:
        """See StillRunningFacts."""
        busiest = sorted(self._busy.items(), key=lambda item: (-item[1].run_ns - item[1].wait_ns, -item[1].count))[:8]
        return StillRunningFacts(
            windows=self._windows,
            asleep_s=self._asleep_s,
            busy_s={who: (turns.run_ns + turns.wait_ns) / 1e9 for who, turns in busiest},
            turns={who: turns.count for who, turns in busiest},
        )


def _name(process: str, tid: int) -> str:
    if process == "self":
        return f"thread {tid}"
    return f"process {process}" if process == str(tid) else f"thread {tid} of process {process}"


def _turns(threads: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Turns]:
    """The turns of each since it began, without those that have ended."""
    turns: dict[tuple[str, int], Turns] = {}
    for process, tid in threads:
        try:
            turns[process, tid] = turns_of(process, tid)
        except OSError:
            continue
    return turns


def _threads(process: str) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208 - names alone


def still_running(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where threads or processes of the lesson went on for as long as was looked, in every replica."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    replicas = [facts for facts in arm.facts(StillRunning) if facts.windows]
    if not replicas:
        return unavailable("no replica was looked at after its last call")
    if all(f.busy_s for f in replicas):
        one = replicas[0]
        who = ", ".join(
            f"{name} for {spent:.2g} s in {one.turns.get(name, 0)} turns" for name, spent in one.busy_s.items()
        )
        return caught(
            f"{one.asleep_s:.2f} s after its last call the rung still worked, stood in line to work or looked for"
            f" work: {who}"
        )
    return passed(f"all was quiet {max(f.asleep_s for f in replicas) * 1e3:.0f} ms after the last call")


# -- the host behind the GPU -------------------------------------------------------------------------------------------


class HostFacts(Facts, frozen=True, kw_only=True):
    """Medians over samples, of all calls of a sample together. They say nothing where `samples` is 0.

    Attributes:
        samples: how many were seen.
        others_ms: processor time of threads beside the main one, around a sample.
        host_ms, device_ms: to launch, and by the clock.
    """

    samples: int
    others_ms: float
    host_ms: float
    device_ms: float


class Host(Sensor[HostFacts]):
    """Processor time of threads beside the main one around each sample, on a GPU."""

    name = "host_work"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._start_ns = 0
        self._rows: list[tuple[float, float, float]] = []

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "timed":
            self._start_ns = time.process_time_ns() - time.thread_time_ns()

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "timed" and call.sample is not None and len(self._rows) < MOST_SAMPLES:
            others_ms = (time.process_time_ns() - time.thread_time_ns() - self._start_ns) / 1e6
            calls = max(1, len(call.outputs))
            self._rows.append((others_ms, call.sample.host_ms * calls, call.sample.device_ms * calls))

    def facts(self) -> HostFacts:
        """See HostFacts."""
        if not self._rows:
            return HostFacts(samples=0, others_ms=0.0, host_ms=0.0, device_ms=0.0)
        others, host, device = (statistics.median(column) for column in zip(*self._rows, strict=True))
        return HostFacts(samples=len(self._rows), others_ms=others, host_ms=host, device_ms=device)


def host_work(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where the host computes what the GPU should, hidden behind a stream that is held."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    if arm.timing.endswith("+host") or arm.timing is Timing.HOST:
        return passed("the stream is not held: what the host does is part of the time")
    replicas = [facts for facts in arm.facts(Host) if facts.samples]
    if not replicas:
        return unavailable("no timed sample was seen")
    visible = [spec.name for spec in run.target.inputs if {"cpu", "pinned"} & set(spec.flags)]
    sentences = [_behind_the_hold(facts, visible) for facts in replicas]
    if all(sentences):
        return caught(sentences[0])
    worst = max(replicas, key=lambda facts: facts.host_ms)
    return passed(
        f"the host took {worst.host_ms:.3g} ms to launch what took the GPU {worst.device_ms:.3g} ms,"
        f" other threads {worst.others_ms:.3g} ms around it"
    )


def _behind_the_hold(facts: HostFacts, visible: list[str]) -> str:
    host_ms, device_ms, others_ms = facts.host_ms, facts.device_ms, facts.others_ms
    if visible and host_ms > max(HOST_LEAST_MS, HOST_FACTOR * device_ms):
        return (
            f"the host worked {host_ms:.3g} ms in every call of which the GPU saw {device_ms:.3g} ms,"
            f" on inputs that lie in its memory ({', '.join(visible)})"
        )
    # Refilling inputs in host memory takes several threads by itself: there they say nothing.
    if not visible and others_ms > max(HOST_LEAST_MS, THREADS_FACTOR * host_ms):
        return (
            f"threads beside the main one worked {others_ms:.3g} ms around every sample, whose launch took"
            f" {host_ms:.3g} ms and the GPU {device_ms:.3g} ms"
        )
    return ""


CHECKS: tuple[Check, ...] = (
    Check(
        "location.processes",
        "No work in other processes",
        "Adds up the processor time of all processes that the rung started, and compares it with what fits into the "
        "timed calls. More means that they worked while no clock ran.",
        ("location.background_thread",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=processes,
        sensor=Elsewhere,
    ),
    Check(
        "location.still_running",
        "Quiet after the last call",
        "Sleeps when the last call is over and looks which threads and processes of the rung work on, or are woken 30 "
        "times a second and more to look for work. Calls that have returned have nothing left to do, and an idle pool "
        "sleeps until somebody wakes it.",
        ("location.background_thread",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        arm=still_running,
        sensor=StillRunning,
    ),
    Check(
        "location.host_work",
        "The GPU's work on the GPU",
        "Compares what the host does during a call with what the GPU sees of it. While the stream is held, host work "
        "takes no time by any event.",
        ("location.cpu_spillover",),
        When.EACH_SAMPLE,
        evidence=Evidence.TIME,
        needs=(Need.GPU,),
        arm=host_work,
        sensor=Host,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "location.cpu_spillover",
        "The host computes while the GPU's clock does not look, and the GPU only copies the result.",
        How.DETECTED,
        "What waits for the GPU outlasts the hold and is timed with the host; what computes from inputs in host "
        "memory shows in the host's own time.",
        "location/cpu_spillover",
    ),
    Issue(
        "location.setup_pre_computation",
        "The result is computed in setup, and the timed call hands it out.",
        How.PREVENTED,
        "Inputs that are not static get fresh values after prepare(), and outputs are judged against those.",
        "location/setup_pre_computation",
    ),
    Issue(
        "location.graph_capture_cheat",
        "Work is done while a graph is captured, and the replay only copies.",
        How.PREVENTED,
        "Capture belongs to prepare(): whatever it computed belongs to values that are gone when the graph runs.",
        "location/graph_capture_cheat",
    ),
    Issue(
        "location.warmup_computation",
        "Results are made in warm-up calls and looked up in timed ones.",
        How.OUTSIDE,
        "The judge's batches are on values that no warm-up call had.",
        "location/warmup_computation",
    ),
    Issue(
        "location.background_thread",
        "A thread or another process does the work after the call has returned.",
        How.DETECTED,
        "Outputs are read right after the call; threads and processes that work while no clock runs are found by "
        "their processor time.",
        "location/background_thread",
    ),
    Issue(
        "location.lazy_evaluation_skip",
        "An object that looks like a tensor computes when somebody reads it.",
        How.PREVENTED,
        "Outputs must be plain tensors, by exact type, contiguous and strided: there is nothing left to evaluate.",
        "location/lazy_evaluation_skip",
    ),
    Issue(
        "location.jit_compilation_timing",
        "Compilation counts for one side and not for the other, or carries work that belongs to the calls.",
        How.OUTSIDE,
        "Compilation is over before the first sample, for every arm, and shown apart; code that is made for values is "
        "made anew in the judge's batches, and is in their time.",
        "location/jit_compilation_timing",
    ),
)
