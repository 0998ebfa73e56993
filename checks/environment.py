"""The machine that a result depends on: what of it changed, throttled or stood in the way while a run lasted.

Facts come from engine.environment.observe, once before the first and once after the last process of a run, from the
telemetry between, and from sensors in every arm's process. All of it is only read.

Two modes. `--validity strict` is for results that somebody will build on: what demonstrably disturbed the run, or
changed while it lasted, makes it SUSPECT, and it has no verdict. `--validity portable` is for a laptop, a shared server
or a build machine: the same finding is reported, and warns, but does not refuse; results of this mode never update
expectations. In both modes what cannot be known is UNAVAILABLE, what is merely not ideal (clocks that are not locked,
a guest of a hypervisor, a governor that saves power) is PASSED with its figures, and a kernel that changes its own
standing, by a higher priority, more threads or other cores than its rivals have, is CAUGHT.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

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
    Unavailable,
    When,
    caught,
    not_applicable,
    passed,
    suspect,
    unavailable,
)
from aisp.store.outcomes import Timing

Plain: TypeAlias = Mapping[str, Any]

THERMAL = 0x20 | 0x40  # NVML's clocks-event reasons: slowed by software or hardware for heat
POWER_CAP, POWER_BRAKE = 0x4, 0x80
DISTURBED = 0.05  # of the time: from here on a limit that stepped in is no longer a trifle
SET_ASIDE = 0.5  # of the samples, for a low clock
STARVED = 0.98  # of an arm's turns in line for a processor: what it measured is its neighbours
STOLEN = 0.10  # of all processor time, by the hypervisor
SWAPPED_BYTES = 64 << 20  # read back from disk during a run: seconds, and in the middle of samples
LOOKS = 12  # calls of a process whose outputs' pages are looked at: 0.1 ms for 16 MB
RAISING_POLICIES = {1: "SCHED_FIFO", 2: "SCHED_RR", 6: "SCHED_DEADLINE"}

# Bound while checks are imported, before any lesson is: what a kernel puts in their place is not asked.
_getpriority, _getscheduler, _getaffinity = os.getpriority, os.sched_getscheduler, os.sched_getaffinity


def unfit(run: RunFacts, evidence: str) -> Answer:
    """The machine disturbed this run: SUSPECT; in portable mode a warning."""
    if run.validity == "portable":
        return passed(f"warning, let pass in portable mode: {evidence}")
    return suspect(evidence)


def beside_others(run: RunFacts, evidence: str) -> Answer:
    """What a check of other processes says where they did not spoil the run.

    On a busy machine nobody can know what they did to a time, so it is UNAVAILABLE. That is no suspicion and takes no
    verdict away: the noise floor of every comparison allows for them already.
    """
    if not any(arm.quality is not None and arm.quality.busy for arm in run.arms):
        return passed(evidence)
    return unavailable(f"what others did to the times cannot be known, and the noise floor allows for it: {evidence}")


# -- sensors -----------------------------------------------------------------------------------------------------------


class ProcessState(Facts, frozen=True, kw_only=True):
    """How a process stands.

    Attributes:
        nice: its priority.
        policy: the scheduler's number of it.
        threads: torch's.
        cores: that it may use.
        device: the GPU that is current; None on a CPU.
    """

    nice: int
    policy: int
    threads: int
    cores: list[int]
    device: int | None


class CountedState(ProcessState, frozen=True, kw_only=True):
    """State at the edge of `calls` calls."""

    calls: int


class StandingFacts(Facts, frozen=True, kw_only=True):
    """How a process stood.

    Attributes:
        start: before the lesson was imported.
        seen: every different one at the edge of a call, at most 32.
        given, cores: all cores that any thread was allowed, at the start and since.
        uuid: of the GPU; None on a CPU.
        versions: of libraries; None where one is not there.
        asked: the most threads that were ever asked for.
    """

    start: ProcessState
    seen: list[CountedState]
    given: list[int]
    cores: list[int]
    uuid: str | None
    versions: dict[str, str | None]
    asked: int


class Standing(Sensor[StandingFacts]):
    """How this process stands with the scheduler, on which device, with which libraries; 3 us around a call."""

    name = "standing"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        import torch  # sensors live in workers

        self._torch = torch
        self._threads = torch.get_num_threads
        self._device = torch.cuda.current_device if site.device == "cuda" else None
        self._start: _Key | None = None
        self._seen: dict[_Key, int] = {}
        self._first_cores: set[int] = set()
        self._cores: set[int] = set()
        self._looks = 0
        self._most_threads = 0  # the most threads that were ever asked for, if only for the time of a call

    def before_import(self) -> None:
        """The standing that the engine gave."""
        self._start = self._now()
        self._first_cores = self._of_threads()
        original = self._torch.set_num_threads

        def noted(count: int) -> None:
            self._most_threads = max(self._most_threads, int(count))
            original(count)

        self._torch.set_num_threads = noted

    def after_import(self) -> None:
        """What importing changed counts from now on."""
        self._note()

    def after_call(self, call: Call) -> None:
        """Cheap: four questions to the kernel."""
        self._note()
        if self._looks < LOOKS and call.stage == "timed":
            self._looks += 1
            self._cores |= self._of_threads()

    def after_timing(self) -> None:
        """Threads that stayed are looked at once more."""
        self._cores |= self._of_threads()

    def facts(self) -> StandingFacts:
        """See StandingFacts."""
        if self._start is None:
            raise RuntimeError("nothing was noted before the import")
        torch = self._torch
        uuid: str | None = None
        versions: dict[str, str | None] = {"torch": str(torch.__version__), "cuda": torch.version.cuda or None}
        if self.site.device == "cuda":
            uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
            versions["cudnn"] = str(torch.backends.cudnn.version())
        nice, policy, threads, cores, device = self._start
        return StandingFacts(
            start=ProcessState(nice=nice, policy=policy, threads=threads, cores=list(cores), device=device),
            seen=[
                CountedState(nice=nice, policy=policy, threads=threads, cores=list(cores), device=device, calls=calls)
                for (nice, policy, threads, cores, device), calls in list(self._seen.items())[:32]
            ],
            given=sorted(self._first_cores),
            cores=sorted(self._cores),
            uuid=uuid,
            versions=versions,
            asked=self._most_threads,
        )

    def _note(self) -> None:
        now = self._now()
        self._seen[now] = self._seen.get(now, 0) + 1

    def _now(self) -> _Key:
        return (
            _getpriority(os.PRIO_PROCESS, 0),
            _getscheduler(0),
            self._threads(),
            tuple(sorted(_getaffinity(0))),
            self._device() if self._device is not None else None,
        )

    @staticmethod
    def _of_threads() -> set[int]:
        """Cores that any thread of this process may use."""
        cores: set[int] = set()
        for task in Path("/proc/self/task").iterdir():
            try:
                cores |= _getaffinity(int(task.name))
            except OSError:  # it has ended
                continue
        return cores


_Key: TypeAlias = tuple[int, int, int, tuple[int, ...], int | None]  # Stand, in its order

# -- judges of arms ----------------------------------------------------------------------------------------------------


def _device(arm: ArmFacts, run: RunFacts) -> Answer:
    processes = arm.facts(Standing)
    for facts in processes:
        start = facts.start.device
        others = [seen for seen in facts.seen if seen.device != start]
        if others:
            calls, total = sum(seen.calls for seen in others), sum(seen.calls for seen in facts.seen)
            return caught(
                f"made GPU {others[0].device} the current one in {calls} of {total} calls; the run is on GPU {start}"
            )
    uuids = sorted({str(facts.uuid) for facts in processes})
    if len(uuids) > 1:
        return suspect(f"its processes ran on different GPUs: {', '.join(uuids)}")
    watched = _inside(run.before, "gpu", "uuid")
    if watched is None:
        return unavailable("the driver does not name the GPU that is watched")
    if watched != uuids[0]:
        return unavailable(
            f"it ran on {uuids[0]}, while clocks and power are read of {watched}; "
            "with CUDA_DEVICE_ORDER=PCI_BUS_ID and the first GPU visible both are the same"
        )
    return passed(f"all {len(processes)} processes ran on {watched}, which is the GPU whose clocks are read")


def _priority(arm: ArmFacts, run: RunFacts) -> Answer:
    processes = arm.facts(Standing)
    for facts in processes:
        start, total = facts.start, sum(seen.calls for seen in facts.seen)
        for seen in facts.seen:
            share = f"in {seen.calls} of {total} calls"
            if seen.nice < start.nice:
                return caught(f"raised its priority: nice {seen.nice} {share}, {start.nice} at the start")
            if seen.policy != start.policy and seen.policy in RAISING_POLICIES:
                return caught(f"asked for {RAISING_POLICIES[seen.policy]} {share}")
            if seen.threads > start.threads:
                return caught(
                    f"took more threads than it was given: {seen.threads} {share}, {start.threads} at the start"
                )
    for facts in processes:
        if facts.asked > facts.start.threads:
            return caught(f"asked for {facts.asked} threads for a while, {facts.start.threads} were given to every arm")
    start = processes[0].start
    other = _first_other_start(arm, run)
    if other is not None and (other.nice, other.policy) != (start.nice, start.policy):
        return suspect(
            f"it was started with nice {start.nice} and policy {start.policy}, "
            f"the baseline with nice {other.nice} and policy {other.policy}"
        )
    return passed(f"nice {start.nice}, {start.threads} threads, as it was given")


def _placement(arm: ArmFacts, run: RunFacts) -> Answer:
    processes = arm.facts(Standing)
    for facts in processes:
        allotment = set(facts.given) | set(facts.start.cores)
        # On a GPU the driver's and the libraries' own threads may go where they like: the calling one counts.
        reached = set(facts.cores) if arm.device == "cpu" or run.target.on_host else set()
        more = sorted(reached.union(*(seen.cores for seen in facts.seen)) - allotment)
        if more:
            return caught(
                f"moved threads to core{'s' if len(more) > 1 else ''} {_list(more)}, "
                f"outside of the {len(allotment)} that every arm was given ({_list(sorted(allotment))})"
            )
    start = processes[0].start
    other = _first_other_start(arm, run)
    if other is not None and other.cores != start.cores:
        return unfit(run, f"it was started on cores {_list(start.cores)}, the baseline on {_list(other.cores)}")
    fewer = [seen for facts in processes for seen in facts.seen if seen.cores != start.cores]
    if fewer:
        return passed(f"kept to cores {_list(fewer[0].cores)} of its {len(start.cores)}")
    return passed(f"stayed on its {len(start.cores)} cores ({_list(start.cores)})")


def _first_other_start(arm: ArmFacts, run: RunFacts) -> ProcessState | None:
    """State in which the first arm that sent facts was started; None for that arm itself."""
    for other in run.arms:
        if other.arm == arm.arm:
            return None
        try:
            return other.facts(Standing)[0].start
        except Unavailable:
            continue
    return None


# -- judges of the run -------------------------------------------------------------------------------------------------


def _clocks(run: RunFacts) -> Answer:
    changed = _changes(run, "gpu", ("most_sm_clock_mhz", "most_memory_clock_mhz", "application_sm_clock_mhz",
                                    "application_memory_clock_mhz"))  # fmt: skip
    if changed:
        return unfit(run, f"the GPU's clock limits changed during the run: {'; '.join(changed)}")
    most = _inside(run.before, "gpu", "most_sm_clock_mhz")
    if most is None:
        return unavailable("the driver does not tell the GPU's clock limits")
    telemetry = run.telemetry
    ran = [float(mhz) for mhz in telemetry.sm_clock_mhz if mhz > 0] if telemetry is not None else []
    if not ran:
        return passed(f"the limit stayed at {most} MHz; no clock was read in between")
    if max(ran) > most * 1.02:
        return unfit(run, f"the SM clock reached {max(ran):.0f} MHz, above the limit of {most} MHz")
    application = _inside(run.before, "gpu", "application_sm_clock_mhz")
    setting = "not reported" if application is None else f"{application} MHz"
    return passed(
        f"SM clock {min(ran):.0f} to {max(ran):.0f} MHz, limit {most} MHz before and after, application clock {setting}"
    )


def _swap(run: RunFacts) -> Answer:
    pages = _delta(run, "swapped_in_pages")
    if pages is None:
        return unavailable("/proc/vmstat does not tell what was read back from swap")
    moved = pages * os.sysconf("SC_PAGE_SIZE")
    killed = _delta(run, "oom_kills")
    policy = run.before.get("overcommit") or "not reported"
    left = run.after.get("memory_available_bytes")
    words = f"{moved / 1e6:.0f} MB read back from swap, overcommit {policy}"
    if left is not None:
        words += f", {left / 1e9:.1f} GB of memory available at the end"
    if killed:
        words += f", {killed:.0f} processes of this machine killed for want of memory"
    return unfit(run, words) if moved > SWAPPED_BYTES else passed(words)


def _numa(run: RunFacts) -> Answer:
    nodes = run.before.get("numa")
    if nodes is None:
        return unavailable("/sys/devices/system/node is not there: the kernel does not tell its memory nodes")
    if nodes != run.after.get("numa") or run.before.get("allowed_cores") != run.after.get("allowed_cores"):
        return unfit(
            run,
            f"cores {run.before.get('allowed_cores')} on nodes {nodes} before, "
            f"{run.after.get('allowed_cores')} on {run.after.get('numa')} after",
        )
    if len(nodes) == 1:
        return passed(f"one memory node, cores {run.before.get('allowed_cores')} before and after")
    place = run.before.get("gpu_numa_node")
    near = "" if place is None else f"; the GPU is at node {place}"
    return passed(f"{len(nodes)} memory nodes, cores {run.before.get('allowed_cores')} before and after{near}")


def _governor(run: RunFacts) -> Answer:
    changed = _changes(run, "", ("governors", "cpu_most_khz", "turbo", "smt"))
    if changed:
        return unfit(run, f"the processors' frequency settings changed during the run: {'; '.join(changed)}")
    governors = run.before.get("governors")
    if governors is None:
        return unavailable(
            "no frequency driver is to be seen (as in most virtual machines and containers): the host decides the clock"
        )
    named = ", ".join(f"{name} on cores {cores}" for name, cores in governors.items())
    return passed(f"governor {named}, turbo {_onoff(run.before.get('turbo'))}, the same before and after")


def _thermal(run: RunFacts) -> Answer:
    shares = [
        (arm.quality.throttled_share, arm.arm)
        for arm in run.arms
        if arm.quality is not None and arm.quality.throttled_share is not None
    ]
    worst, whose = max(shares, default=(None, ""))
    if worst is not None and worst > SET_ASIDE:
        return unfit(run, f"{worst:.0%} of the samples of {whose} were set aside because the clock had fallen")
    telemetry = run.telemetry
    readings = [int(bits) for bits in telemetry.throttle if bits >= 0] if telemetry is not None else []
    if not readings:
        return unavailable("the driver does not tell why clocks are held back")
    hot = sum(bool(bits & THERMAL) for bits in readings) / len(readings)
    capped = sum(bool(bits & (POWER_CAP | POWER_BRAKE)) for bits in readings) / len(readings)
    degrees = [float(value) for value in telemetry.temperature_c if value > 0] if telemetry is not None else []
    words = (
        f"held back for heat in {hot:.1%} and for power in {capped:.1%} of {len(readings)} readings"
        + (f", {min(degrees):.0f} to {max(degrees):.0f} °C" if degrees else "")
        + (f"; at most {worst:.1%} of an arm's samples set aside" if worst is not None else "")
    )
    return unfit(run, words) if hot > DISTURBED else passed(words)


def _power_limit(run: RunFacts) -> Answer:
    changed = _changes(run, "gpu", ("power_limit_w", "enforced_power_limit_w"))
    if changed:
        return unfit(run, f"the power limit changed during the run: {'; '.join(changed)}")
    limit, usual = _inside(run.before, "gpu", "power_limit_w"), _inside(run.before, "gpu", "default_power_limit_w")
    if limit is None:
        return unavailable("the driver does not tell the power limit")
    if usual is not None and limit != usual:
        return passed(f"power limit {limit:.0f} W before and after; this GPU's usual one is {usual:.0f} W")
    return passed(f"power limit {limit:.0f} W before and after" + ("" if usual is None else ", the usual one"))


def _gpu_settings(run: RunFacts) -> Answer:
    names = ("ecc", "mig", "persistence", "compute_mode")
    changed = _changes(run, "gpu", names) + _changes(run, "", ("mps", "gpu_count"))
    if changed:
        return unfit(run, f"the GPU's settings changed during the run: {'; '.join(changed)}")
    settings = [f"{name.replace('_', ' ')} {_onoff(_inside(run.before, 'gpu', name))}" for name in names]
    return passed(f"{', '.join(settings)}, MPS {'on' if run.before.get('mps') else 'off'}; the same before and after")


def _neighbours(run: RunFacts) -> Answer:
    if "gpu_processes" not in run.after or run.after["gpu_processes"] is None:
        return unavailable("the driver does not tell who uses the GPU")
    since = run.before.get("wall_us", 0)
    others = [one for one in run.after["gpu_processes"] if one["here"]]
    unknown = len(run.after["gpu_processes"]) - len(others)
    if run.after.get("gpu_pids_are_ours") is False:
        return passed(
            f"{len(run.after['gpu_processes'])} processes hold memory on the GPU; the driver counts them as the host "
            "does, so that ours cannot be told from others"
        )
    busy = [one for one in others if (one["busy_at_us"] or 0) > since]
    if busy:
        one = busy[0]
        share = "" if one["sm_share_pct"] is None else f" ({one['sm_share_pct']} % of its multiprocessors' time)"
        return unfit(run, f"process {one['pid']} used the GPU during the run{share}; {len(busy)} such in all")
    held = sum(one["memory_bytes"] or 0 for one in others)
    words = f"{len(others)} other processes hold {held / 1e6:.0f} MB on the GPU, none was seen to compute"
    return passed(words + (f"; {unknown} more are numbers of another namespace" if unknown else ""))


def _cpu_neighbours(run: RunFacts) -> Answer:
    measured = [arm for arm in run.arms if arm.waited_share is not None]
    if not measured:
        timed = any(arm.timing is Timing.HOST for arm in run.arms)
        return unavailable("the kernel does not tell who waited") if timed else not_applicable("no arm ran on a CPU")
    worst = max(measured, key=lambda arm: arm.waited_share or 0.0)
    waited = worst.waited_share or 0.0
    parts = [f"threads of {worst.arm} stood in line for {waited:.1%} of its turns"]
    if worst.others_cores is not None:
        parts.append(f"others kept {max(worst.others_cores, 0.0):.2f} processors busy")
    if worst.stolen_share is not None:
        parts.append(f"the hypervisor took {worst.stolen_share:.1%}")
    if worst.pressure_share is not None:
        parts.append(f"something on the machine stood in line for {worst.pressure_share:.0%} of the time")
    load = _inside(run.before, "load")
    parts += [f"load {load[0]:.1f} before"] if isinstance(load, (list, tuple)) and load else []
    if waited > STARVED and run.validity != "portable":
        return suspect(", ".join(parts))
    return beside_others(run, ", ".join(parts))


def _driver(run: RunFacts) -> Answer:
    changed = _changes(run, "gpu", ("driver",)) + _changes(run, "", ("driver_module", "kernel"))
    if changed:
        return unfit(run, f"the driver changed during the run: {'; '.join(changed)}")
    driver = _inside(run.before, "gpu", "driver")
    if driver is None:
        return unavailable("there is no driver that would tell its version")
    module = run.before.get("driver_module")
    if module is not None and module != driver:
        return unfit(
            run, f"the driver's library is {driver}, its kernel module {module}: the machine waits for a restart"
        )
    return passed(f"driver {driver} before and after")


def _libraries(run: RunFacts) -> Answer:
    by_library: dict[str, dict[str, str]] = {}
    for arm in run.arms:
        try:
            processes = arm.facts(Standing)
        except Unavailable:
            continue
        for facts in processes:
            for name, version in facts.versions.items():
                if version is not None:
                    by_library.setdefault(name, {}).setdefault(version, arm.arm)
    if not by_library:
        raise Unavailable("no process reported which libraries it runs on")
    for name, versions in by_library.items():
        if len(versions) > 1:
            where = ", ".join(f"{version} in {arm}" for version, arm in versions.items())
            return suspect(f"processes of one run have different versions of {name}: {where}")
    names = ", ".join(f"{name} {next(iter(versions))}" for name, versions in sorted(by_library.items()))
    return passed(f"the same in every process: {names}")


def _comparable(run: RunFacts) -> Answer:
    if not run.history:
        return not_applicable("this is the first run of this target on this device")
    earlier = run.history[0].get("environment") or {}
    now = {"driver": _inside(run.before, "gpu", "driver"), "kernel": run.before.get("kernel")}
    then = {"driver": earlier.get("driver") or None, "kernel": earlier.get("kernel")}
    versions: Plain = earlier.get("versions") or {}
    for arm in run.arms[:1]:
        for name, version in arm.facts(Standing)[0].versions.items():
            now[name], then[name] = version, versions.get(name, earlier.get(name))
    moved = [
        f"{name} {then[name]} then, {now[name]} now"
        for name in now
        if now[name] is not None and then[name] is not None and now[name] != then[name]
    ]
    when = run.history[0].get("wall", "before")
    if moved:
        return passed(f"compared with the run of {when}: {'; '.join(moved)}; times across that step are not alike")
    common = [name for name in now if now[name] is not None and then[name] is not None]
    if not common:
        return unavailable("the earlier run does not tell its versions")
    return passed(f"{', '.join(common)} as in the run of {when}")


def _limits(run: RunFacts) -> Answer:
    changed = _changes(run, "limits", ("cpus", "memory_bytes", "cores"))
    if changed:
        return unfit(run, f"the control group's limits changed during the run: {'; '.join(changed)}")
    before, after = run.before.get("limits"), run.after.get("limits")
    if before is None or after is None:
        return unavailable("the control group cannot be read")
    if before.get("cpus") is None:
        memory = before.get("memory_bytes")
        words = "none" if memory is None else f"{memory / 1e9:.1f} GB"
        return passed(f"no limit of processor time; memory limit {words}")
    periods, held = _difference(before, after, "periods"), _difference(before, after, "throttled_periods")
    lost_s, wall_s = _difference(before, after, "throttled_s"), _wall_s(run)
    if not periods or held is None or lost_s is None or not wall_s:
        return passed(f"{before['cpus']:.2f} processors allowed; no period was counted in the run")
    words = (
        f"{before['cpus']:.2f} processors allowed; stopped in {held / periods:.1%} of {periods:.0f} periods, "
        f"{lost_s:.2f} s of {wall_s:.1f} s"
    )
    return unfit(run, words) if held / periods > DISTURBED and lost_s / wall_s > DISTURBED else passed(words)


def _virtual(run: RunFacts) -> Answer:
    virtual = run.before.get("virtual") or {}
    named = " ".join(str(virtual[key]) for key in ("vendor", "product", "type") if virtual.get(key))
    guest = {True: "guest of a hypervisor", False: "no hypervisor", None: "hypervisor not reported"}[
        virtual.get("hypervisor")
    ]
    box = run.before.get("container")
    words = guest + (f" ({named})" if named else "") + (f", container ({box})" if box else ", no sign of a container")
    stolen, busy, idle = (_delta(run, name) for name in ("steal_s", "busy_s", "idle_s"))
    if stolen is None or busy is None or idle is None or busy + idle + stolen <= 0:
        return passed(words)
    share = stolen / (busy + idle + stolen)
    words += f"; {share:.1%} of the processors' time went to other guests"
    return unfit(run, words) if share > STOLEN else passed(words)


# -- small questions ---------------------------------------------------------------------------------------------------


def _inside(facts: Plain, *path: str) -> Any:
    """A value inside nested mappings, None where something on the way is missing."""
    value: Any = facts
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _changes(run: RunFacts, group: str, names: tuple[str, ...]) -> list[str]:
    """Values that were read before and after, and differ."""
    changes: list[str] = []
    for name in names:
        path = (group, name) if group else (name,)
        before, after = _inside(run.before, *path), _inside(run.after, *path)
        if before is not None and after is not None and before != after:
            changes.append(f"{name.replace('_', ' ')} {before} before, {after} after")
    return changes


def _delta(run: RunFacts, name: str) -> float | None:
    return _difference(run.before, run.after, name)


def _difference(before: Plain, after: Plain, name: str) -> float | None:
    first, last = before.get(name), after.get(name)
    return None if first is None or last is None else last - first


def _wall_s(run: RunFacts) -> float | None:
    wall_ns = _delta(run, "at_ns")
    return None if wall_ns is None else wall_ns / 1e9


def _list(cores: list[int]) -> str:
    return ", ".join(str(core) for core in cores)


def _onoff(value: object) -> str:
    if value is None:
        return "not reported"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


# -- what there is -----------------------------------------------------------------------------------------------------

# The first check of a sensor decides what the sensor needs: Standing is wanted on every device.
CHECKS: tuple[Check, ...] = (
    Check(
        "environment.priority",
        "Priority and threads",
        "Nice value, scheduling policy and torch's threads at the edges of every call, against those that the engine "
        "gave. An arm that raises any of them is measured with more of the machine than its rivals.",
        ("environment.priority_elevation", "environment.borrowed_threads"),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=_priority,
        sensor=Standing,
    ),
    Check(
        "environment.placement",
        "Cores",
        "The cores that any thread of an arm's process may use. All arms are given the same; one that reaches beyond "
        "them takes what its rivals cannot have.",
        ("environment.numa_inconsistency", "environment.priority_elevation"),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=_placement,
        sensor=Standing,
    ),
    Check(
        "environment.device",
        "One GPU, the one that is watched",
        "The device that is current at the edges of every call is the one that the run was given, and clocks and power "
        "are read of the same GPU. A kernel that makes another one current moves the timers away from its work.",
        ("environment.device_mismatch",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        arm=_device,
        sensor=Standing,
    ),
    Check(
        "environment.swap",
        "Swap and overcommit",
        "Memory read back from disk during the run, the overcommit setting and what memory was left.",
        ("environment.memory_overcommit",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_swap,
    ),
    Check(
        "environment.numa",
        "Memory nodes",
        "The machine's memory nodes and the cores of the run, before and after, and the node that the GPU is at.",
        ("environment.numa_inconsistency",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_numa,
    ),
    Check(
        "environment.clocks",
        "Clock limits",
        "Greatest and application clocks before and after the run, and the clocks that ran between. A limit that moved "
        "during the run favours one side.",
        ("environment.frequency_boost",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        run=_clocks,
    ),
    Check(
        "environment.governor",
        "Processor frequency",
        "Governors, frequency limits, turbo and hyper-threading of the run's cores, before and after.",
        ("environment.cpu_governor_mismatch",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_governor,
    ),
    Check(
        "environment.thermal",
        "Heat",
        "Why the GPU held its clocks back, 20 times a second, and how many samples were set aside for a low clock.",
        ("environment.thermal_throttling",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        run=_thermal,
    ),
    Check(
        "environment.power_limit",
        "Power limit",
        "The GPU's power limit before and after the run, and against its usual one.",
        ("environment.power_limit_difference",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        run=_power_limit,
    ),
    Check(
        "environment.gpu_settings",
        "MIG, MPS, ECC",
        "Partitioning, sharing, error correction, persistence and compute mode of the GPU, before and after.",
        ("environment.gpu_mode_change",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        run=_gpu_settings,
    ),
    Check(
        "environment.gpu_neighbours",
        "Others on the GPU",
        "Processes that are not ours and have a context on the GPU; one that computed during the run spoils it.",
        ("environment.gpu_neighbours",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        run=_neighbours,
    ),
    Check(
        "environment.cpu_neighbours",
        "Others on the processors",
        "How long threads of the arms stood in line while they were timed on a CPU, how many processors others kept "
        "busy, what the hypervisor took. A comparison without an A/A arm has a floor that is no lower than that. On a "
        "busy machine it has no answer: what others did to a time cannot be known.",
        ("environment.cpu_neighbours",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_cpu_neighbours,
    ),
    Check(
        "environment.driver",
        "Driver version",
        "Versions of the driver's library and kernel module, and of the operating system's kernel, before and after.",
        ("environment.driver_version_mismatch",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        run=_driver,
    ),
    Check(
        "environment.libraries",
        "Library versions",
        "Versions of torch, CUDA and cuDNN, as each arm's process loaded them, are the same in all.",
        ("environment.library_version_mismatch",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_libraries,
        sensor=Standing,
    ),
    Check(
        "environment.comparable",
        "Versions since the last run",
        "Driver, kernel and libraries against those of the last run of this target. Both sides of a speed-up come from "
        "one run, so a step here does not spoil it; it separates times of different days.",
        ("environment.driver_version_mismatch", "environment.library_version_mismatch"),
        When.HISTORY,
        evidence=Evidence.WORK,
        run=_comparable,
        sensor=Standing,
    ),
    Check(
        "environment.limits",
        "Container limits",
        "Processor, memory and core limits of the control group, and how often it stopped its processes in this run.",
        ("environment.container_resource_limits",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_limits,
    ),
    Check(
        "environment.virtualisation",
        "Virtual machine",
        "Signs of a hypervisor and of a container, and the processor time that went to other guests.",
        ("environment.virtualization_overhead",),
        When.AFTER_RUN,
        evidence=Evidence.WORK,
        run=_virtual,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "environment.device_mismatch",
        "The work is done on another GPU than the one that is named and timed.",
        How.DETECTED,
        "Every process is asked for its current GPU at the edges of every call, and the GPU whose clocks are read is "
        "matched by its UUID.",
        "environment/device_mismatch",
    ),
    Issue(
        "environment.frequency_boost",
        "Clocks are raised for the measurement and lowered afterwards, or for one side of it.",
        How.DETECTED,
        "Clock limits are read before and after, clocks with every sample, and a claim must hold in SM cycles too, "
        "which no clock can move. A kernel without root cannot raise a GPU's clocks, so there is nothing to put into "
        "the gallery; tests/checks/test_environment.py moves the limits.",
    ),
    Issue(
        "environment.priority_elevation",
        "One side runs with a higher priority or with more threads than the other.",
        How.DETECTED,
        "Arms are started alike by one process, and an arm's nice value, policy and threads are read around its calls.",
        "environment/priority_elevation",
    ),
    Issue(
        "environment.borrowed_threads",
        "A call takes every core for as long as it lasts and gives them back before it returns.",
        How.DETECTED,
        "Whatever number of threads is ever asked for counts, not only what stands between calls.",
        "environment/borrowed_threads",
        listed=False,
    ),
    Issue(
        "environment.memory_overcommit",
        "Memory is taken that exists only as a promise: its cost falls on somebody else, or on the swap device.",
        How.DETECTED,
        "Pages of large outputs in host memory must have been written; swap traffic and overcommit are reported.",
        "environment/memory_overcommit",
    ),
    Issue(
        "environment.numa_inconsistency",
        "The two sides run on cores or memory of different distance.",
        How.DETECTED,
        "All arms are given the same cores, and no thread may leave them; nodes are read before and after.",
        "environment/numa_inconsistency",
    ),
    Issue(
        "environment.cpu_governor_mismatch",
        "The processors' clock policy differs between two measurements, or changes in one.",
        How.DETECTED,
        "Governors, limits and turbo are read before and after, and arms take turns, so that a drift falls on all. "
        "Only root can set them: tests/checks/test_environment.py changes them in facts.",
    ),
    Issue(
        "environment.thermal_throttling",
        "The GPU slows down for heat while one side is measured.",
        How.DETECTED,
        "Throttle reasons come 20 times a second; samples at a low clock are set aside and counted, the run waits for "
        "the GPU to cool, and arms take turns. Heat falls on all arms alike, so a kernel gains nothing by it: "
        "tests/checks/test_environment.py holds the judge against throttled telemetry.",
    ),
    Issue(
        "environment.power_limit_difference",
        "The two sides are measured under different power limits.",
        How.DETECTED,
        "Both sides come from one run, and its limits are read before and after. Only root can set one: "
        "tests/checks/test_environment.py changes it in facts.",
    ),
    Issue(
        "environment.driver_version_mismatch",
        "The two sides are measured with different drivers.",
        How.PREVENTED,
        "A speed-up is made of arms of one run that take turns, never of two runs; a driver that changes in between is "
        "found, and history tells where versions step. tests/checks/test_environment.py does both.",
    ),
    Issue(
        "environment.library_version_mismatch",
        "The two sides are measured with different libraries.",
        How.PREVENTED,
        "All arms' processes are started from one interpreter and environment, and each tells what it loaded. "
        "tests/checks/test_environment.py gives one of them another version.",
    ),
    Issue(
        "environment.container_resource_limits",
        "A control group limits processor time or memory, or does so for one side only.",
        How.DETECTED,
        "All arms are children of one process and in its group; limits of either version are read with their counters, "
        "and a run that was stopped over 5 % of its time is SUSPECT. tests/engine/test_environment.py reads them.",
    ),
    Issue(
        "environment.virtualization_overhead",
        "A virtual machine or container costs time that bare metal would not, and not always the same.",
        How.DETECTED,
        "Its signs and the stolen time are shown with a run, and both sides bear it in turns. What bare metal would "
        "say cannot be known from inside. tests/checks/test_environment.py holds the judge against stolen time.",
    ),
    Issue(
        "environment.gpu_neighbours",
        "Another process computes on the GPU while one side is measured.",
        How.DETECTED,
        "The driver's list of processes and of their last use is read before and after; only what is not ours counts. "
        "tests/checks/test_environment.py names a stranger.",
        listed=False,
    ),
    Issue(
        "environment.cpu_neighbours",
        "Other processes take the processors while one side is measured, and identical code seems faster or slower.",
        How.DETECTED,
        "The time that threads stood in line is counted around every turn; a comparison without an A/A arm is decided "
        "only beyond what that can have done. tests/engine/test_contention.py holds the verdict against it.",
        listed=False,
    ),
    Issue(
        "environment.moved_rivals",
        "What is measured moves the processes of its rivals to other cores, or makes them slower or limits them.",
        How.PREVENTED,
        "A seccomp filter refuses it for every process but the caller, in all threads and children of a rung "
        "(tests/engine/test_seccomp.py); what a kernel cannot hold is shown with every result.",
        "environment/moved_rivals",
        listed=False,
    ),
    Issue(
        "environment.gpu_mode_change",
        "The GPU is partitioned, shared or switched to another memory mode during the run.",
        How.DETECTED,
        "MIG, MPS, ECC, persistence and compute mode are read before and after; tests/checks/test_environment.py "
        "changes each.",
        listed=False,
    ),
)
