"""Work of several ranks: did every one of them do its share, and did they really talk to one another?

The defence is the design: each rank is a process with its own slice of fresh values, the slices of all ranks are judged
together, and a sample lasts as long as its slowest rank. The sensor here adds what each rank said to the group: it
stands in the methods of ProcessGroup, below the functions that a lesson imports, and costs some microseconds a
collective. Collectives that C++ starts by itself (compiled code, DDP's reducer) pass it by; the group's own sequence
number tells of them.

Payloads are counted and not calls: a better rung may well use fewer and larger collectives. A ring's traffic makes
kinds comparable: an all-reduce is a reduce-scatter and an all-gather.
"""

from __future__ import annotations

import functools
import importlib
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aisp.checks.registry import (
    Answer,
    ArmFacts,
    Call,
    Check,
    Evidence,
    Facts,
    How,
    Issue,
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
from aisp.kernels.catalog.model import Role
from aisp.store.outcomes import Timing

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target

RENDEZVOUS_GROUP = "aisp.rendezvous"  # description of the group in which ranks wait for one another between calls
MOST_SAMPLES = 4096
LESS = 0.75  # of the baseline's payload: what differs by less may be another algorithm
WRONG_FACTOR = 2.0  # outputs within tolerance have an RMS error of at most sqrt(2) tolerances
IDLE_SHARE = 0.1  # of a rank's work in the baseline, beside the share that the busiest rank still does of its own
HEAVY_SHARE = 0.5  # of the busiest rank's work in the baseline: a rank with less is not asked
LEAST_BUSY_MS = {"cuda": 0.05, "cpu": 0.5}

# Techniques of a lesson that say that ranks exchange data.
EXCHANGING = frozenset(
    {"all-reduce", "all-gather", "all-to-all", "reduce-scatter", "reduce", "broadcast", "scatter", "gather"}
    | {"send-recv", "pipeline-parallelism", "data-parallelism", "tensor-parallelism", "sharding", "ring-exchange"}
)

# -- what a rank says to its group -------------------------------------------------------------------------------------

# Methods of ProcessGroup by what they do; not every release of torch has all of them.
_METHODS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
}
_WAITS = ("wait", "synchronize", "get_future", "block_current_stream")


def traffic(kind: str, size: int, members: int) -> float:
    """What one rank of a ring of `members` moves for a payload of `size`, in the unit of `size`."""
    if kind == "barrier" or members < 2:
        return 0.0
    share = (members - 1) / members
    factor = {"all_reduce": 2 * share, "all_gather": share, "reduce_scatter": share, "all_to_all": share}
    return factor.get(kind, 1.0) * size


@dataclass(slots=True)
class Operation:
    """One operation that was started during a call.

    Attributes:
        group: the ranks that it joins, as the whole world numbers them.
        handle: what was returned to wait for; None where nothing was.
        apart: inside of a coalesced group, whose own handle stands for it.
    """

    kind: str
    group: tuple[int, ...]
    elements: int
    nbytes: int
    handle: Any = None
    awaited: bool = False
    apart: bool = False

    @property
    def open(self) -> bool:
        """Whether nobody waited for it."""
        return self.handle is not None and not self.awaited and not self.apart


class Listeners:
    """Stands in the methods of ProcessGroup and Work and notes what passes while it listens.

    It notes inside of timed calls, and who exchanges more often pays more often: so it does little there, and `said`
    puts the notes in order afterwards.
    """

    def __init__(self) -> None:
        import torch.distributed as dist  # a sensor runs in a worker, which has it
        from torch._C import _distributed_c10d as c10d

        self._dist = dist
        self._c10d = c10d
        self._originals: list[tuple[Any, str, Any]] = []
        self._groups: dict[int, tuple[Any, tuple[int, ...]]] = {}  # id -> the group, kept alive, and its ranks
        self._coalescing = False
        self._notes: list[tuple[str, tuple[int, ...], int, int, Any, bool]] = []  # Operation but for `awaited`
        self._awaited: set[int] = set()  # ids of handles, which the notes keep alive
        self.listening = False
        self.symmetric = False

    def attach(self) -> None:
        """Take the methods' places."""
        group, work = self._c10d.ProcessGroup, self._c10d.Work
        for name, kind in _METHODS.items():
            self._replace(group, name, functools.partial(self._starting, kind))
        self._replace(group, "_start_coalescing", functools.partial(self._bracket, True))
        self._replace(group, "_end_coalescing", functools.partial(self._bracket, False))
        for name in _WAITS:
            self._replace(work, name, self._waiting)
        self._replace(work, "is_completed", self._asking)
        # Imported here, for nobody has yet: a lesson that is imported later finds what stands in its place.
        symmetric = importlib.import_module("torch.distributed._symmetric_memory")
        for name in ("empty", "rendezvous", "enable_symm_mem_for_group"):
            self._replace(symmetric, name, self._sharing)

    def leave(self) -> None:
        """Put the originals back."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)

    def forget(self) -> None:
        """Begin anew. Handles of a call must not outlive it."""
        self._notes.clear()
        self._awaited.clear()

    def operations(self) -> list[Operation]:
        """What was noted since."""
        return [
            Operation(kind, group, elements, nbytes, handle, id(handle) in self._awaited, apart)
            for kind, group, elements, nbytes, handle, apart in self._notes
        ]

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        if hasattr(owner, name):  # not every release of torch has all of them
            original = getattr(owner, name)
            self._originals.append((owner, name, original))
            setattr(owner, name, functools.wraps(original)(make(original)))  # a plain function, to bind as it did

    # -- what takes their places -----------------------------------------------------------------------------------

    def _starting(self, kind: str, original: Any) -> Callable[..., Any]:
        def method(group: Any, *positional: Any, **named: Any) -> Any:
            handle = original(group, *positional, **named)
            if self.listening:
                self._note(kind, group, positional, named, handle)
            return handle

        return method

    def _bracket(self, begins: bool, original: Any) -> Callable[..., Any]:
        def method(group: Any, *positional: Any, **named: Any) -> Any:
            result = original(group, *positional, **named)
            self._coalescing = begins
            if self.listening and isinstance(result, self._c10d.Work):
                self._keep("coalesced", self._members(group) or (), 0, 0, result, False)
            return result

        return method

    def _waiting(self, original: Any) -> Callable[..., Any]:
        def method(work: Any, *positional: Any, **named: Any) -> Any:
            result = original(work, *positional, **named)
            if self.listening:
                self._awaited.add(id(work))
            return result

        return method

    def _asking(self, original: Any) -> Callable[..., Any]:
        def method(work: Any) -> bool:
            done = bool(original(work))
            if done and self.listening:
                self._awaited.add(id(work))
            return done

        return method

    def _sharing(self, original: Any) -> Callable[..., Any]:
        def function(*positional: Any, **named: Any) -> Any:
            self.symmetric = True
            return original(*positional, **named)

        return function

    def _note(self, kind: str, group: Any, positional: tuple[Any, ...], named: dict[str, Any], handle: Any) -> None:
        members = self._members(group)
        if members is None:
            return
        elements, nbytes = max(map(self._size, (*positional, *named.values())), default=(0, 0))
        if kind in ("send", "recv"):
            peer = positional[1] if len(positional) > 2 and isinstance(positional[1], int) else None
            if peer is not None and peer < len(members):
                members = tuple(sorted({members[peer], self._dist.get_rank()}))
        self._keep(kind, members, elements, nbytes, handle, self._coalescing)

    def _keep(self, kind: str, group: tuple[int, ...], elements: int, nbytes: int, handle: Any, apart: bool) -> None:
        self._awaited.discard(id(handle))  # of one that had its place before, and that no note keeps
        waitable = handle if isinstance(handle, self._c10d.Work) else None
        self._notes.append((kind, group, elements, nbytes, waitable, apart))

    # -- about groups ----------------------------------------------------------------------------------------------

    def _members(self, group: Any) -> tuple[int, ...] | None:
        """Ranks of a group; None for the one in which ranks only wait for one another."""
        entry = self._groups.get(id(group))
        if entry is None:
            ours = group.group_desc == RENDEZVOUS_GROUP
            try:
                ranks = () if ours else tuple(self._dist.get_process_group_ranks(group))
            except (KeyError, ValueError):  # made past torch.distributed: its size is all there is to know
                ranks = tuple(range(group.size()))
            entry = self._groups[id(group)] = (group, ranks)
        return entry[1] or None

    def _size(self, argument: Any) -> tuple[int, int]:
        """Elements and bytes of all tensors in an argument."""
        if isinstance(argument, (list, tuple)):
            if len(argument) == 1:
                return self._size(argument[0])
            sizes = [self._size(each) for each in argument]
            return sum(elements for elements, _ in sizes), sum(nbytes for _, nbytes in sizes)
        return (argument.numel(), argument.nbytes) if hasattr(argument, "numel") else (0, 0)

    def sequence(self) -> int:
        """How many collectives the groups of this rank have counted so far, those of C++ among them."""
        total = 0
        for group in list(self._dist.distributed_c10d._world.pg_map):
            if group.group_desc != RENDEZVOUS_GROUP:
                total += group._get_sequence_number_for_group()
        return total


@dataclass(slots=True)
class _Tally:
    """What was noted of the timed calls so far."""

    elements: list[float] = field(default_factory=list)
    nbytes: list[float] = field(default_factory=list)
    unseen: list[int] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    busy_ms: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    groups: set[tuple[int, ...]] = field(default_factory=set)
    worlds: set[int] = field(default_factory=set)
    open_calls: int = 0
    open_kinds: Counter[str] = field(default_factory=Counter)


class CollectivesFacts(Facts, frozen=True, kw_only=True):
    """One rank's part in its timed calls. It says nothing where `calls` is 0.

    Attributes:
        calls: that were seen.
        elements, nbytes: moved in a call, medians.
        most_elements: moved in a call.
        operations: of each kind, in a call on the mean.
        groups: ranks of those that carried data, at most 64.
        worlds: sizes of the world that were seen.
        open_calls: calls that left something under way.
        left_open: of each kind, in a call on the mean.
        unseen: collectives that the groups counted and Python did not start, median.
        symmetric: whether symmetric memory was used.
        wall_ms, busy_ms: times of a call, medians.
    """

    calls: int
    elements: float
    most_elements: float
    nbytes: float
    operations: dict[str, float]
    groups: list[list[int]]
    worlds: list[int]
    open_calls: int
    left_open: dict[str, float]
    unseen: float
    symmetric: bool
    wall_ms: float
    busy_ms: float


class Collectives(Sensor[CollectivesFacts]):
    """What this rank exchanges in its timed calls, what it leaves unfinished, and how long it works."""

    name = "collectives"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.listeners = Listeners() if site.target.ranks > 1 else None
        self._tally = _Tally()
        self._sequence: int | None = None

    def before_import(self) -> None:
        """See Sensor."""
        if self.listeners is not None:
            self.listeners.attach()

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        if self.listeners is None or call.stage != "timed":
            return
        try:
            self._sequence = self.listeners.sequence()
        except RuntimeError:  # a backend that does not count
            self._sequence = None
        self.listeners.forget()
        self.listeners.listening = True

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        listeners, tally, sample = self.listeners, self._tally, call.sample
        if listeners is None or not listeners.listening:
            return
        listeners.listening = False
        operations = listeners.operations()
        listeners.forget()
        if sample is None or len(tally.wall_ms) >= MOST_SAMPLES:
            return
        tally.elements.append(sum(traffic(one.kind, one.elements, len(one.group)) for one in operations))
        tally.nbytes.append(sum(traffic(one.kind, one.nbytes, len(one.group)) for one in operations))
        tally.kinds.update(one.kind for one in operations)
        tally.groups.update(one.group for one in operations if one.elements)
        tally.worlds.add(self._world())
        left = unfinished(operations)
        tally.open_calls += bool(left)
        tally.open_kinds.update(one.kind for one in left)
        if self._sequence is not None:
            tally.unseen.append(max(0, listeners.sequence() - self._sequence - len(operations)))
        tally.wall_ms.append(sample.device_ms)
        tally.busy_ms.append(sample.host_ms if self.site.device == "cpu" else sample.device_ms)

    def _world(self) -> int:
        import torch.distributed as dist  # a sensor runs in a worker, which has it

        return int(dist.get_world_size()) if dist.is_initialized() else 0

    def facts(self) -> CollectivesFacts:
        """See CollectivesFacts."""
        tally, calls = self._tally, len(self._tally.wall_ms)

        def median(values: Sequence[float]) -> float:
            return statistics.median(values) if values else 0.0

        return CollectivesFacts(
            calls=calls,
            elements=median(tally.elements),
            most_elements=max(tally.elements, default=0.0),
            nbytes=median(tally.nbytes),
            operations={kind: count / calls for kind, count in sorted(tally.kinds.items())},
            groups=sorted(list(group) for group in tally.groups)[:64],
            worlds=sorted(tally.worlds),
            open_calls=tally.open_calls,
            left_open={kind: count / calls for kind, count in sorted(tally.open_kinds.items())},
            unseen=median(tally.unseen),
            symmetric=self.listeners is not None and self.listeners.symmetric,
            wall_ms=median(tally.wall_ms),
            busy_ms=median(tally.busy_ms),
        )


def unfinished(operations: Sequence[Operation]) -> list[Operation]:
    """Operations of one call that nobody waited for.

    A message that was sent counts as waited for where something later was: an answer says that it arrived.
    """
    last = max((number for number, one in enumerate(operations) if one.awaited), default=-1)
    return [one for number, one in enumerate(operations) if one.open and (one.kind != "send" or number > last)]


# -- the judges --------------------------------------------------------------------------------------------------------


def _why_not(arm: ArmFacts, run: RunFacts) -> Answer | None:
    """Why there is nothing to ask of this arm; None where there is."""
    if run.target.ranks == 1:
        return not_applicable("the lesson has one rank")
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    return None


def _by_replica(arm: ArmFacts, target: Target) -> list[list[CollectivesFacts]]:
    """Facts of the sensors, per replica in the order of ranks. Raises Unavailable where one of them said nothing."""
    facts = arm.facts(Collectives)
    ranks = target.ranks
    if len(facts) % ranks or any(not each.calls for each in facts):
        raise Unavailable(f"not all of its {ranks} ranks reported timed calls")
    return [facts[start : start + ranks] for start in range(0, len(facts), ranks)]


def _baseline(run: RunFacts) -> ArmFacts | None:
    baselines = [arm for arm in run.arms if arm.rung.role is Role.BASELINE and not arm.twin]
    return next((arm for arm in baselines if arm.rung.name == "baseline"), baselines[0] if baselines else None)


def _yardstick(arm: ArmFacts, run: RunFacts) -> list[list[CollectivesFacts]] | None:
    """The baseline's facts; None where this arm is a baseline or there is none to compare with."""
    base = _baseline(run)
    if base is None or arm.rung.role is Role.BASELINE or base.timing is Timing.NONE:
        return None
    return _by_replica(base, run.target)


def every_rank(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where one rank hardly works, and receives no more, while the baseline shares the work out."""
    if (nothing := _why_not(arm, run)) is not None:
        return nothing
    replicas = _by_replica(arm, run.target)
    wall = [_median(replica[rank].wall_ms for replica in replicas) for rank in range(run.target.ranks)]
    times = ", ".join(f"rank {rank} {_ms(each)}" for rank, each in enumerate(wall))
    base = _yardstick(arm, run)
    if base is not None:
        usual = [_Work.of([replica[rank] for replica in base]) for rank in range(run.target.ranks)]
        least_ms = LEAST_BUSY_MS.get(arm.device, max(LEAST_BUSY_MS.values()))
        for rank, work in enumerate(usual):
            heavy = work.busy_ms >= max(least_ms, HEAVY_SHARE * max(each.busy_ms for each in usual))
            if heavy and all(_idles(replica, rank, usual) for replica in replicas):
                what = "processor time" if arm.device == "cpu" else "device time"
                busy_ms = _median(replica[rank].busy_ms for replica in replicas)
                return caught(
                    f"rank {rank} works {_ms(busy_ms)} of {what} a call and {_ms(work.busy_ms)} in the baseline,"
                    f" and nothing that another rank did in its place is sent to it ({times} a call)"
                )
    return passed(f"{times} a call; the slowest counts")


@dataclass(frozen=True, slots=True)
class _Work:
    """What one rank does in a call of the baseline."""

    busy_ms: float
    elements: float

    @staticmethod
    def of(replicas: Sequence[CollectivesFacts]) -> _Work:
        return _Work(_median(each.busy_ms for each in replicas), min(each.elements for each in replicas))


def _idles(replica: Sequence[CollectivesFacts], rank: int, usual: Sequence[_Work]) -> bool:
    """Whether this rank does next to nothing of its usual work while another one does, and receives no more for it."""
    shares = [each.busy_ms / max(work.busy_ms, 1e-9) for each, work in zip(replica, usual, strict=True)]
    mine = replica[rank]
    alone = mine.elements <= usual[rank].elements and not mine.unseen and not mine.symmetric
    return bool(alone and shares[rank] < IDLE_SHARE * min(1.0, max(shares)))


def exchange(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a rank exchanges nothing though the lesson is about it, or too little and the outputs show it."""
    if (nothing := _why_not(arm, run)) is not None:
        return nothing
    replicas = _by_replica(arm, run.target)
    base = _yardstick(arm, run)
    if base is None:
        return passed(f"{_operations(replicas)}: {_moved(replicas)} a call and rank")
    ranks = range(run.target.ranks)
    usual = [min(replica[rank].elements for replica in base) for rank in ranks]
    if not any(usual):
        return passed(f"{_moved(replicas)} a call and rank; the baseline exchanges nothing")
    got = [max(replica[rank].elements for replica in replicas) for rank in ranks]
    shares = {rank: got[rank] / usual[rank] for rank in ranks if usual[rank]}
    rank = min(shares, key=lambda each: shares[each])
    words = f"rank {rank} moves {got[rank]:.4g} elements a call, {shares[rank]:.0%} of the baseline's {usual[rank]:.4g}"
    if shares[rank] >= LESS:
        return passed(f"{words} ({_operations(replicas)})")
    facts = [each for replica in replicas for each in replica]
    if any(each.symmetric for each in facts):
        return unavailable(f"{words}, but it uses symmetric memory, in which nothing counts what is exchanged")
    if any(each.unseen for each in facts):
        return unavailable(f"{words}, but its group counted collectives that were started past Python")
    wrong = _wrong(arm, run.target)
    if wrong:
        return caught(f"{words}, and {wrong}")
    never = all(not replica[rank].most_elements for replica in replicas)
    claimed = sorted(EXCHANGING & set(run.target.techniques))
    if never and claimed:
        return caught(
            f"rank {rank} sends and receives nothing in {sum(replica[rank].calls for replica in replicas)} timed calls,"
            f" the baseline moves {usual[rank]:.4g} elements; the lesson is about {', '.join(claimed)}:"
            " what its outputs need comes by another way than the group"
        )
    return passed(f"{words}; its outputs are right all the same")


def _wrong(arm: ArmFacts, target: Target) -> str:
    """How far outputs are off where they certainly are; "" where they may be right."""
    worst: tuple[float, str] = (0.0, "")
    for figures in arm.compared:
        for spec in target.outputs:
            error = figures.get(f"{spec.name}.rms_error")
            allowed = target.tolerance.get(spec.dtype)
            if error is not None and allowed is not None and error > WRONG_FACTOR * allowed:
                sentence = f"the RMS error of {spec.name} is {error:.2g} of its RMS where {allowed:.2g} is allowed"
                worst = max(worst, (error, sentence))
    return worst[1]


def awaited(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where most calls of a rank return while something that they started was never waited for."""
    if (nothing := _why_not(arm, run)) is not None:
        return nothing
    replicas = _by_replica(arm, run.target)
    for rank in range(run.target.ranks):
        mine = [replica[rank] for replica in replicas]
        calls, left = sum(each.calls for each in mine), sum(each.open_calls for each in mine)
        if not left:
            continue
        kinds = ", ".join(sorted({kind for each in mine for kind in each.left_open}))
        words = (
            f"rank {rank} returned from {left} of {calls} timed calls with {kinds} under way that it never waited for"
        )
        if all(each.open_calls * 2 >= each.calls for each in mine):
            return caught(words)
        return suspect(words)
    return passed(f"whatever was started was waited for ({_operations(replicas)})")


def topology(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where the group has another size than the lesson says, or its operations leave ranks alone."""
    if (nothing := _why_not(arm, run)) is not None:
        return nothing
    ranks = run.target.ranks
    replicas = _by_replica(arm, run.target)
    worlds = sorted({world for replica in replicas for each in replica for world in each.worlds})
    if worlds != [ranks]:
        return caught(f"the lesson says {ranks} ranks; its processes saw a world of {_list(worlds)}")
    islands = [_islands(replica, ranks) for replica in replicas]
    base = _yardstick(arm, run)
    spoke = all(any(each.groups for each in replica) for replica in replicas)
    unseen = any(each.unseen for replica in replicas for each in replica)
    if base is not None and spoke and not unseen and all(len(_islands(replica, ranks)) == 1 for replica in base):
        apart = max(islands, key=len)
        if all(len(parts) > 1 for parts in islands):
            return caught(
                f"{_operations(replicas)} ran in groups that never join the ranks {' | '.join(map(_list, apart))};"
                f" the baseline's join all {ranks}"
            )
    groups = sorted({tuple(group) for replica in replicas for each in replica for group in each.groups})
    return passed(f"a world of {ranks}; data went through the groups {'; '.join(map(_list, groups)) or '-'}")


def _islands(replica: Sequence[CollectivesFacts], ranks: int) -> list[list[int]]:
    """Sets of ranks that data could pass between."""
    parts = [{rank} for rank in range(ranks)]
    for group in {tuple(group) for each in replica for group in each.groups}:
        joined = set().union(*(part for part in parts if part & set(group)))
        parts = [part for part in parts if not part & set(group)] + [joined]
    return sorted(sorted(part) for part in parts if part)


def _operations(replicas: Sequence[Sequence[CollectivesFacts]]) -> str:
    """What the ranks of the first replica did in a call, on the mean over ranks."""
    total: defaultdict[str, float] = defaultdict(float)
    for each in replicas[0]:
        for kind, count in each.operations.items():
            total[kind] += count
    ranks = len(replicas[0])
    return ", ".join(f"{count / ranks:.3g} {kind}" for kind, count in sorted(total.items())) or "no collective"


def _moved(replicas: Sequence[Sequence[CollectivesFacts]]) -> str:
    return _bytes(_median(each.nbytes for replica in replicas for each in replica))


def _median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def _list(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


def _bytes(size: float) -> str:
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size:.0f} bytes"


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


CHECKS: tuple[Check, ...] = (
    Check(
        "distributed.every_rank",
        "Every rank works",
        "Compares what each rank works in a call with the busiest rank and with the baseline's. A rank that neither"
        " works nor receives has nothing to hand over.",
        ("distributed.rank_skipping",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=every_rank,
        sensor=Collectives,
    ),
    Check(
        "distributed.exchange",
        "As much is exchanged as must be",
        "Counts the elements that each rank moves in a call, whatever the number of collectives. Less than the baseline"
        " is caught where the outputs are wrong, none at all where the lesson is about an exchange.",
        (
            "distributed.collective_short_circuit",
            "distributed.gradient_bucketing_mismatch",
            "distributed.shard_size_mismatch",
            "distributed.side_door",
            "distributed.topology_mismatch",
        ),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=exchange,
        sensor=Collectives,
    ),
    Check(
        "distributed.awaited",
        "Nothing is left under way",
        "Keeps the handle of every operation of a call and sees whether it was waited for when the call had returned."
        " What goes on after that was not timed.",
        (
            "distributed.async_gradient_timing",
            "distributed.barrier_timing",
            "distributed.pipeline_bubble_hiding",
        ),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=awaited,
        sensor=Collectives,
    ),
    Check(
        "distributed.topology",
        "The ranks that were declared",
        "The size of the world and the members of every group that carried data, against the lesson and the baseline.",
        ("distributed.topology_mismatch",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        arm=topology,
        sensor=Collectives,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "distributed.rank_skipping",
        "One rank does its part and is looked at; another hands back nothing, or what it had.",
        How.DETECTED,
        "The outputs of every rank are judged in full against the reference, on values that differ from rank to rank;"
        " the work of each rank is compared with the baseline's.",
        "distributed/rank_skipping",
    ),
    Issue(
        "distributed.collective_short_circuit",
        "The collective is left out, and each rank answers from its own data.",
        How.DETECTED,
        "Every rank's inputs are its own, so a local answer is a wrong output; what each rank moves is counted below"
        " the functions of torch.distributed.",
        "distributed/collective_short_circuit",
    ),
    Issue(
        "distributed.topology_mismatch",
        "The collectives run in other groups than declared, a rank in each in the worst case.",
        How.DETECTED,
        "The size of the world and the ranks of every group that carries data are noted and compared with the lesson's"
        " `ranks` and with the baseline's groups.",
        "distributed/topology_mismatch",
    ),
    Issue(
        "distributed.barrier_timing",
        "A rank leaves before the barrier that ends the step, so that its clock never sees the slow one.",
        How.DETECTED,
        "A sample lasts as long as its slowest rank, whoever else has left; a barrier that was entered and never waited"
        " for is seen by its handle.",
        "distributed/barrier_timing",
    ),
    Issue(
        "distributed.gradient_bucketing_mismatch",
        "Gradients are reduced in other buckets than claimed, and some of them belong to none.",
        How.DETECTED,
        "Elements are counted and not collectives, so that buckets may be cut as one likes as long as all is in them;"
        " what was left out is wrong in the outputs.",
        "distributed/gradient_bucketing_mismatch",
    ),
    Issue(
        "distributed.async_gradient_timing",
        "The reduction is started and never waited for; the clock sees the start.",
        How.DETECTED,
        "The handle of each operation is kept until the call has returned: nobody may have left it unasked. Outputs"
        " are read at once, and the device as a whole is waited for after each sample.",
        "distributed/async_gradient_timing",
    ),
    Issue(
        "distributed.pipeline_bubble_hiding",
        "A stage works on what the call before sent, so that no call ever waits for the pipeline to fill.",
        How.DETECTED,
        "Every call has values of its own, so results of the call before are wrong; messages that a call leaves under"
        " way are seen by their handles, and the slowest stage's time counts.",
        "distributed/pipeline_bubble_hiding",
    ),
    Issue(
        "distributed.shard_size_mismatch",
        "Ranks exchange smaller shards than they hold and make up the rest.",
        How.DETECTED,
        "The form of every rank's slice is declared and judged; the elements that each rank moves are compared with the"
        " baseline's.",
        "distributed/shard_size_mismatch",
    ),
    Issue(
        "distributed.side_door",
        "Ranks of one machine pass data through a file in memory instead of the group, which no other machine could.",
        How.DETECTED,
        "A lesson about a collective whose ranks move nothing through the group, and whose outputs are right all the"
        " same, has another way.",
        "distributed/side_door",
        listed=False,
    ),
)
