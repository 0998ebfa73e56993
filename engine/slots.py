"""Where jobs are carried out: a slot for each GPU, one for the CPU, and sets of GPUs for jobs that need several.

Sets are of 2, 4, ... GPUs that stand beside each other, and of all: a job of three ranks has one of four.

Two slots work side by side where they share neither a GPU nor a processor core; others take turns. Cores are shared out
once, by whole physical cores: the first is the engine's, and a GPU has its own on its memory node where that has some
left. Where each slot would have fewer than LEAST_CORES_OF_A_SLOT, the GPUs have cores of their own and the CPU's slot
all of these; where that is not enough either, every slot has all cores, and one job runs at a time.

Runs are planned for one model of GPU, that of the first one. They go to any slot of that model, each time to the one
where the target ran last if it is free. Runs of a watch wait for that one: their times are compared with each other.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aisp.engine import environment, nursery, paths, spawner
from aisp.engine.job import AnyJob, PeakJob, RunJob
from aisp.engine.planning import Hardware
from aisp.engine.pool import Pool
from aisp.engine.replicas import CONTEXT_BYTES
from aisp.engine.services import Services
from aisp.engine.spawner import Share
from aisp.engine.telemetry import Nvml
from aisp.store.outcomes import Trigger

LEAST_CORES_OF_A_SLOT = 4
WARM_PROCESSES = 3  # a baseline, a rung and the verifier

Cores = frozenset[int]


def least_cores() -> float:
    """How many cores a slot must have of its own to work beside others; below 1: no slot needs any.

    Tests lower it, on machines where there are not enough.
    """
    return paths.positive_setting("AISP_SLOT_CORES", LEAST_CORES_OF_A_SLOT)


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor cores that this engine may use.

    Attributes:
        physical: what Linux numbers as several and is one core (hardware threads), in order.
        nodes: by number: the memory node.
        gpus: by NVML's index: the memory node of the GPU; None where it is not known.
    """

    physical: tuple[Cores, ...]
    nodes: Mapping[int, int] = field(default_factory=dict)
    gpus: Mapping[int, int | None] = field(default_factory=dict)

    @staticmethod
    def find(nvml: Nvml, gpus: Iterable[int], root: Path = environment.ROOT) -> Machine:
        """Look once, at what this process is allowed to use."""
        allowed = os.sched_getaffinity(0)
        physical = dict.fromkeys(environment.hardware_threads(core, root) & allowed for core in sorted(allowed))
        return Machine(
            tuple(physical),
            environment.node_of_cores(root),
            {gpu: environment.node_of_gpu(nvml, gpu, root) for gpu in gpus},
        )

    @property
    def cores(self) -> Cores:
        """All of them."""
        return Cores().union(*self.physical)

    def shared_out(self, wishes: Sequence[int | None], least: float) -> list[Cores] | None:
        """Shares, one for each wish, of `least` cores or more, from the memory nodes that are wished for if possible.

        None where there are too few. The first core is in no share.
        """
        left = list(self.physical[1:])
        most = len(left) // len(wishes)
        shares: list[list[Cores]] = [[] for _ in wishes]
        for nearby in (True, False):
            for share, wish in zip(shares, wishes, strict=True):
                fit = [core for core in left if not nearby or wish is None or self.nodes.get(min(core)) == wish]
                if nearby and wish is None:
                    continue  # it takes what others have no use for
                taken = fit[: most - len(share)]
                share += taken
                left = [core for core in left if core not in taken]
        portions = [Cores().union(*share) for share in shares]
        return portions if min(map(len, portions)) >= max(least, 1) else None


@dataclass(slots=True, eq=False)
class Slot:
    """One place where jobs are carried out, one at a time.

    Attributes:
        name: as clients read it: "cpu", "cuda", or "cuda:1" where there are several GPUs, "cuda:0,1" of a set of them;
            "cuda" is all of them then.
        mark: what tells its banners from those of other slots; "" where there is one GPU.
        gpus: NVML's indices of the GPUs that its jobs use.
        uuids: theirs, where the driver tells them.
        model: theirs.
        cores: the processor cores of its processes; none where no slot has any of its own, nor needs them.
        pool: its processes.
        sees: the GPUs on which these processes have a context.
        memory_bytes: of the smallest of its GPUs; 0 where the driver does not tell it, and for the CPU.
        services: what its jobs need.
        job: what is under way in it.
    """

    name: str
    mark: str
    gpus: tuple[int, ...]
    uuids: tuple[str, ...]
    model: str
    cores: Cores
    pool: Pool
    sees: tuple[int, ...]
    memory_bytes: int = 0
    services: Services = field(init=False)
    job: AnyJob | None = None

    def standbys(self, job: AnyJob) -> int:
        """How many processes are to stand by once a job like this is there: all that the run of a save takes, where an
        eighth of the GPU's memory has room for their contexts.
        """
        if not isinstance(job, RunJob) or job.plan.record.trigger is not Trigger.WATCH:
            return WARM_PROCESSES
        most = self.memory_bytes // 8 // CONTEXT_BYTES if self.gpus else math.inf
        return int(max(WARM_PROCESSES, min(job.plan.processes[0], most)))

    def meets(self, other: Slot) -> bool:
        """Whether they must take turns."""
        return self is other or bool(self.cores & other.cores or set(self.gpus) & set(other.gpus))


class Slots:
    """All slots of one engine.

    Attributes:
        gpus: one for each GPU, in the order in which runs are placed on them.
        cpu: the CPU's.
        sets: of several GPUs, the smallest first, all at once last; none where there is one GPU.
        set_aside: by GPU: why nothing is placed on it at present.
        pools: of all slots.
        own_cores: whether some work side by side, on cores that they do not share.
    """

    def __init__(self, hardware: Hardware, machine: Machine, least: float) -> None:
        """Share out the machine's cores. `least`: see least_cores."""
        self._home: dict[tuple[str, bytes], Slot] = {}  # by target: where it ran last
        self.set_aside: dict[int, str] = {}
        indices = [gpu for gpu, _ in hardware.usable]
        shares, own = _shares(machine, indices, least)
        self._all_but_the_first = Cores().union(*machine.physical[1:])
        turns = bool(indices) and own == machine.cores
        self.own_cores = bool(own) and own != machine.cores
        # Parts of one GPU (MIG) are one slot, and the engine's own variable names them.
        several = len(hardware.devices) > 1 and not all(word.startswith("MIG-") for _, word in hardware.usable)

        def pool(cores: Cores, visible: str | None, uuid: str = "") -> Pool:
            share = Share(tuple(sorted(cores)) if self.own_cores else (), visible, uuid)
            opens = functools.partial(spawner.open_nursery, share=share) if nursery.wanted() else None
            return Pool(interpret=not indices, open_nursery=opens, share=share)

        def slot(gpus: Sequence[int], words: Sequence[str], cores: Cores, which: str = "") -> Slot:
            devices = [hardware.devices[gpu] for gpu in gpus]
            gpu_uuid = words[0] if several and words[0].startswith("GPU-") else ""
            processes = pool(cores, ",".join(words) if several else None, gpu_uuid)
            return Slot(
                name=f"cuda:{which}" if which else "cuda",
                mark=f" {which}" if which else "",
                gpus=tuple(gpus),
                uuids=tuple(device.uuid for device in devices if device.uuid),
                model=devices[0].name,
                cores=cores,
                pool=processes,
                sees=tuple(gpus),
                memory_bytes=min(device.memory_bytes or 0 for device in devices),
            )

        self.gpus = [
            slot([gpu], [word], cores, str(gpu) if len(indices) > 1 else "")
            for (gpu, word), cores in zip(hardware.usable, shares, strict=True)
        ]
        self.sets: list[Slot] = []
        words = [word for _, word in hardware.usable]
        for first, last in _sets(len(indices)):
            members = indices[first:last]
            which = "" if members == indices else ",".join(map(str, members))
            self.sets.append(slot(members, words[first:last], Cores().union(*shares[first:last]), which))
        # Where it takes turns with the first GPU, one set of standbys serves both.
        processes = self.gpus[0].pool if turns else pool(own, "" if indices else None)
        self.cpu = Slot("cpu", "", (), (), "", own, processes, self.gpus[0].gpus if turns else ())
        self.pools = list(dict.fromkeys(slot.pool for slot in self))
        for one in self:
            beside = (other.pool for other in self if one.cores & other.cores)
            one.pool.beside = list(dict.fromkeys([one.pool, *beside]))
        if self.own_cores:
            with contextlib.suppress(OSError):  # a container that forbids it
                os.sched_setaffinity(0, machine.physical[0])

    def __iter__(self) -> Iterator[Slot]:
        yield from self.gpus
        yield from self.sets
        yield self.cpu

    @property
    def spare(self) -> Cores:
        """Cores that nothing under way uses, while something is, and only on GPUs: what is timed on a CPU shares more
        with its neighbours than cores. None where slots have no cores of their own.
        """
        busy = [slot for slot in self if slot.job is not None]
        if not self.own_cores or not busy or self.cpu in busy:
            return Cores()
        return self._all_but_the_first.difference(*(slot.cores for slot in busy))

    @property
    def usual(self) -> Slot:
        """Where jobs go where nothing speaks against it."""
        return next((slot for slot in self.gpus if not self.why_not(slot)), self.cpu)

    @property
    def gone(self) -> str:
        """Why runs can be placed on no GPU any more; "" while they can."""
        model = [slot for slot in self.gpus if slot.model == self.gpus[0].model]
        return self.why_not(model[0]) if model and all(map(self.why_not, model)) else ""

    def why_not(self, slot: Slot) -> str:
        """Why nothing is placed in a slot any more; "" where something is."""
        return next((self.set_aside[gpu] for gpu in slot.gpus if gpu in self.set_aside), "")

    def options(self, job: AnyJob) -> list[Slot]:
        """Slots that a job may have, the best first. Where all of them are set aside, these: it ends there at once."""
        if isinstance(job, PeakJob):
            (alone,) = (slot for slot in self.gpus if slot.gpus == (job.plan.gpu,))
            # Some ceilings are of the link from the first GPU to the second: both must be idle, and seen.
            return [self.sets[0] if self.sets and alone is self.gpus[0] else alone]
        if job.plan.device != "cuda" or not self.gpus:
            return [self.cpu]
        if job.gpus > 1 and self.sets:
            enough = [slot for slot in self.sets if len(slot.gpus) >= job.gpus] or self.sets[-1:]
            fitting = [slot for slot in enough if len(slot.gpus) == len(enough[0].gpus)]
            return [slot for slot in fitting if not self.why_not(slot)] or fitting
        model = [slot for slot in self.gpus if slot.model == self.gpus[0].model]
        able = [slot for slot in model if not self.why_not(slot)] or model
        home = self._home.get(_whose(job)) if isinstance(job, RunJob) else None
        if home in able:
            able.sort(key=lambda slot: slot is not home)
            if job.plan.record.trigger is Trigger.WATCH:
                return able[:1]
        return able

    def next(self, waiting: Sequence[AnyJob]) -> tuple[AnyJob, Slot] | None:
        """The first job in order that can begin now, and where; None where none can.

        A waiting job reserves its slots: no later job takes one of them, nor a slot that overlaps one.
        """
        taken = {slot for slot in self if slot.job is not None}
        layouts = {slot.job.layout for slot in taken if slot.job is not None} - {""}
        for job in waiting:
            if job.layout in layouts:
                continue  # its processes would work where those of another do
            options = self.options(job)
            for slot in options:
                if not any(slot.meets(other) for other in taken):
                    return job, slot
            taken.update(options)
        return None

    def forecast(self, jobs: Sequence[AnyJob], now_ns: int) -> dict[str, int]:
        """By id of a job that waits: when it may be expected to begin (CLOCK_MONOTONIC). One is left out where nobody
        knows how long something before it takes.

        Args:
            jobs: all, in the order in which they go.
        """
        free: dict[Slot, float] = dict.fromkeys(self, now_ns)

        def ends(job: AnyJob, begins_ns: float) -> float:
            return math.inf if job.expected_s is None else max(now_ns, begins_ns + job.expected_s * 1e9)

        starts: dict[str, int] = {}
        for job in jobs:
            if job.slot is not None:
                free[job.slot] = ends(job, now_ns if job.began_ns is None else job.began_ns)
                continue
            options = self.options(job)
            ready = {slot: max(free[other] for other in self if slot.meets(other)) for slot in options}
            slot = min(options, key=lambda slot: ready[slot])
            begins = ready[slot]
            if begins < math.inf:
                starts[job.id] = int(begins)
            for other in options:  # nobody behind it takes one of its slots before
                free[other] = max(free[other], begins)
            free[slot] = ends(job, begins)
        return starts

    def give(self, job: AnyJob, slot: Slot) -> None:
        """Let a job have a slot."""
        slot.job = job
        if isinstance(job, RunJob) and slot in self.gpus:
            self._home[_whose(job)] = slot

    def warm(self, job: AnyJob, queued: Sequence[AnyJob]) -> None:
        """Have processes stand by for a job that waits: in as many slots as jobs like it may have side by side."""
        options = [slot for slot in self.options(job) if not self.why_not(slot)]
        if not options:
            return
        alike = (other for other in queued if options[0] in self.options(other))
        wanted = sum(1 for _ in itertools.islice(alike, len(options)))
        chosen: list[Slot] = []
        for slot in sorted(options, key=lambda slot: not slot.pool.target):
            if len(chosen) < wanted and not any(slot.meets(other) for other in chosen):
                chosen.append(slot)
                slot.pool.keep(max(slot.pool.target, slot.standbys(job)))

    def stand_by(self) -> None:
        """Somebody may ask for a run soon: have a few processes stand by, and no fewer than now."""
        pool = self.usual.pool
        pool.keep(max(pool.target, WARM_PROCESSES))

    def rest(self) -> None:
        """No save is waited for any more: keep as many standbys as before."""
        for pool in self.pools:
            pool.keep(min(pool.target, WARM_PROCESSES))


def _sets(count: int) -> Iterator[tuple[int, int]]:
    """Where sets of so many GPUs begin and end: of 2, 4, ... and then of all, where there are several."""
    size = 2
    while size < count:
        yield from ((first, first + size) for first in range(0, count - size + 1, size))
        size *= 2
    if count > 1:
        yield 0, count


def _shares(machine: Machine, gpus: Sequence[int], least: float) -> tuple[list[Cores], Cores]:
    """The cores of the GPUs' slots, and of the CPU's; see the module."""
    nodes = [machine.gpus.get(gpu) for gpu in gpus]
    if gpus and least < 1:
        return [Cores()] * len(gpus), Cores()
    if gpus and (parts := machine.shared_out([*nodes, None], least)) is not None:
        return parts[:-1], parts[-1]
    if len(gpus) > 1 and (parts := machine.shared_out(nodes, least)) is not None:
        return parts, Cores().union(*parts)
    return [machine.cores] * len(gpus), machine.cores


def _whose(job: RunJob) -> tuple[str, bytes]:
    return job.plan.record.target, job.plan.record.folder
