"""Did the call read and write the memory that it was given, and only that?

Inputs have margins of their own storage on either side, hold the same bits after a call as before unless they are
`mutable`, and are nobody's output. What a call returns in host memory must have been written by it: pages that the
reader touches first were paid for by the reader. On a GPU the cache is the engine's to flush, and the allocator stays
as it was.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
    suspect,
    unavailable,
)
from aisp.kernels.catalog.model import Case, Flag, Role
from aisp.store.outcomes import Timing

MARGIN_BYTES = 256
CANARY = 0xA5
LOOKS_EVERY = 16  # samples between two looks at the margins of timed calls
WORDS = 1 << 20  # 64-bit words that a fingerprint takes at a time
PAGE_BYTES = 4096
PAGE_LOOKS = (1, 4, 12)  # numbers of the timed samples whose outputs are looked at
UNTOUCHED_LEAST_BYTES = 1 << 20
UNTOUCHED_SHARE = 0.25
FAULTS_PER_SAMPLE = 1.0  # from disk
FAULTS_LEAST = 20
SWAPPED_LEAST_BYTES = 16 << 20
SEGMENTS_SHARE = 0.5  # of the samples
SEGMENTS_LEAST = 8


# -- inputs keep their bits --------------------------------------------------------------------------------------------


def bits(tensor: Any) -> str:
    """A fingerprint of a tensor's bytes: two sums of its 64-bit words, one weighted by place, as hexadecimal text.

    Computed where the tensor lies. Two tensors that differ in one bit always differ in the first sum; those whose
    words changed places differ in the second.
    """
    import torch  # only workers have it

    raw = tensor.detach().reshape(-1).contiguous().view(torch.uint8)
    if raw.numel() % 8:
        raw = torch.nn.functional.pad(raw, (0, 8 - raw.numel() % 8))
    if raw.data_ptr() % 8:
        raw = raw.clone()
    words = raw.view(torch.int64)
    plain = torch.zeros((), dtype=torch.int64, device=words.device)
    placed = torch.zeros_like(plain)
    weights = torch.arange(min(WORDS, max(words.numel(), 1)), dtype=torch.int64, device=words.device) * 2 + 1
    for number, chunk in enumerate(words.split(WORDS)):
        plain += chunk.sum()
        placed += (chunk * weights[: chunk.numel()]).sum() * (2 * number + 1)
    return f"{int(plain) & 0xFFFFFFFFFFFFFFFF:016x}{int(placed) & 0xFFFFFFFFFFFFFFFF:016x}"


def immutable(site: Site, buffers: Sequence[object]) -> Iterator[tuple[str, Any]]:
    """Name and tensor of every input that a call may not change, but for those that inputs.py made."""
    import torch

    for spec, buffer in zip(site.target.inputs, buffers, strict=True):
        if isinstance(buffer, torch.Tensor) and Flag.MUTABLE not in spec.flags and not spec.made:
            yield spec.name, buffer


class InputBitsFacts(Facts, frozen=True, kw_only=True):
    """Fingerprints of each input, by case and name.

    Attributes:
        before: of set 0, as the engine filled it, when no call had been made.
        after: those that differ, after calls.
    """

    before: dict[str, dict[str, str]]
    after: dict[str, dict[str, list[str]]]


class InputBits(Sensor[InputBitsFacts]):
    """Fingerprints of all inputs that may not change, as they are before the first call, after each verified one and
    after one made later."""

    name = "input_bits"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._before: dict[str, dict[str, str]] = {}
        self._after: dict[str, dict[str, list[str]]] = {}  # case, input, fingerprints
        self._first: tuple[Case, Sequence[object]] | None = None  # the timed case comes first

    def after_prepare(self, case: Case, buffers: Sequence[object]) -> None:
        """See Sensor. Set 0 lies there as it arrived."""
        self._before[case.name] = {name: bits(tensor) for name, tensor in immutable(self.site, buffers)}

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "verify":
            self._note(call.case, call.buffers[0])
            if self._first is None:
                self._first = call.case, call.buffers[0]

    def after_timing(self) -> None:
        """See Sensor. One call more, in case it is only the timed ones that are careless."""
        if self._first is not None and self.site.call_once is not None:
            self.site.call_once()
            self._note(*self._first)

    def _note(self, case: Case, buffers: Sequence[object]) -> None:
        of_case = self._after.setdefault(case.name, {})
        for name, tensor in immutable(self.site, buffers):
            fingerprints, now = of_case.setdefault(name, []), bits(tensor)
            if now not in fingerprints:
                fingerprints.append(now)

    def facts(self) -> InputBitsFacts:
        """See InputBitsFacts."""
        return InputBitsFacts(before=self._before, after=self._after)


def inputs_intact(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a rung writes into an input that no other rung writes into.

    The bits after its calls are held against those after the calls of others, which had the same values. Where they
    differ, the bits that others had before any call say who wrote: whoever leaves those alone has done nothing,
    whatever the baseline does; where the others write there too the task's declaration is in doubt, and not the rung.
    """
    replicas = arm.facts(InputBits)
    names = {name for facts in replicas for case in facts.after.values() for name in case}
    if not names:
        return not_applicable("there is no input that a call may not change")
    others = [
        other
        for other in run.arms
        if other.ended_well and other.rung.name != arm.rung.name and other.rung.role in (Role.BASELINE, Role.OPTIMIZED)
    ]
    noted = [facts for other in others for replica in other.sensed if (facts := replica.of(InputBits)) is not None]
    theirs, own = _left(noted), _left(replicas)
    arrived: dict[tuple[str, str], set[str]] = {}
    for facts in noted:
        for case, inputs in facts.before.items():
            for name, held in inputs.items():
                arrived.setdefault((case, name), set()).add(held)
    if not theirs:
        return unavailable("no other rung's inputs are known; run it beside its baseline")
    strange = [place for place, fingerprints in own.items() if place in theirs and not fingerprints <= theirs[place]]
    if not strange:
        return passed(f"{', '.join(sorted(names))}: the same bits after its calls as after those of other rungs")
    # Which of two is the careless one is decided by the rest, and where there are but two, by the baseline's office.
    if arm.rung.role is Role.BASELINE:
        return passed("another rung left its inputs otherwise; the baseline is what the others are compared with")
    writing = [place for place in strange if arrived.get(place, set()) & theirs[place]]
    if writing:
        return caught(
            f"{_names(writing)}: other bits after a call than the same values have after the baseline's; an input may"
            " change only where the lesson calls it mutable"
        )
    both = [place for place in strange if not arrived.get(place, set()) & own[place]]
    if both:
        return suspect(
            f"{_names(both)}: other bits after a call than after the baseline's, which writes there as well; call the"
            " input mutable in the lesson, or let the baseline leave it alone"
        )
    return passed(f"{_names(strange)}: as it arrived after its calls; it is the baseline that writes there")


def _left(replicas: Sequence[InputBitsFacts]) -> dict[tuple[str, str], set[str]]:
    """Fingerprints after calls of all processes, by case and input."""
    by_place: dict[tuple[str, str], set[str]] = {}
    for facts in replicas:
        for case, inputs in facts.after.items():
            for name, left in inputs.items():
                by_place.setdefault((case, name), set()).update(left)
    return by_place


def _names(places: Sequence[tuple[str, str]]) -> str:
    return ", ".join(dict.fromkeys(name for _, name in places))


# -- margins -----------------------------------------------------------------------------------------------------------


def margins(tensor: Any) -> list[Any]:
    """The bytes of a tensor's storage right before and right behind it, at most 256 each, as uint8 views."""
    import torch

    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    start = tensor.storage_offset() * tensor.element_size()
    end = start + tensor.numel() * tensor.element_size()
    parts = [whole[max(0, start - MARGIN_BYTES) : start], whole[end : end + MARGIN_BYTES]]
    return [part for part in parts if part.numel()]


class CanariesFacts(Facts, frozen=True, kw_only=True):
    """What became of the margins.

    Attributes:
        looks: how often they were looked at.
        watched_bytes: in one of the looks.
        hit_bytes: lost around each input.
    """

    looks: int
    watched_bytes: int
    hit_bytes: dict[str, int]


class Canaries(Sensor[CanariesFacts]):
    """Fills the margins of all inputs and looks whether calls wrote there."""

    name = "canaries"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._filled: list[tuple[str, list[Any]]] = []
        self._looks = 0
        self._bytes = 0
        self._samples = 0
        self._hit: dict[str, int] = {}

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        self._filled = []
        if call.stage == "timed":
            self._samples += 1
            if self._samples > 4 and self._samples % LOOKS_EVERY:
                return
        import torch

        for spec, buffer in zip(self.site.target.inputs, call.buffers[0], strict=True):
            if isinstance(buffer, torch.Tensor) and (parts := margins(buffer)):
                for part in parts:
                    part.fill_(CANARY)
                self._filled.append((spec.name, parts))
        self._bytes = max(self._bytes, sum(part.numel() for _, parts in self._filled for part in parts))

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        for name, parts in self._filled:
            gone = sum(int((part != CANARY).sum()) for part in parts)
            if gone:
                self._hit[name] = max(self._hit.get(name, 0), gone)
        self._looks += bool(self._filled)
        self._filled = []

    def facts(self) -> CanariesFacts:
        """See CanariesFacts."""
        return CanariesFacts(looks=self._looks, watched_bytes=self._bytes, hit_bytes=self._hit)


def canaries(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where a call wrote past an end of an input."""
    replicas = [facts for facts in arm.facts(Canaries) if facts.looks]
    if not replicas:
        return unavailable("its inputs have no margins to watch")
    hit: dict[str, int] = {}
    for facts in replicas:
        for name, count in facts.hit_bytes.items():
            hit[name] = max(hit.get(name, 0), count)
    if hit:
        worst = ", ".join(f"{name} ({count} bytes)" for name, count in hit.items())
        return caught(f"it writes past the ends of its inputs: {worst}; that memory is another's")
    first = replicas[0]
    return passed(f"{first.watched_bytes} bytes around its inputs stayed as they were, over {first.looks} looks")


# -- aliasing ----------------------------------------------------------------------------------------------------------


class AliasesFacts(Facts, frozen=True, kw_only=True):
    """Outputs in the memory of inputs.

    Attributes:
        calls: looked at.
        shared: how many of them returned which input's memory.
    """

    calls: int
    shared: dict[str, int]


class Aliases(Sensor[AliasesFacts]):
    """Outputs that lie inside the storage of an input which may not change."""

    name = "aliases"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._calls = 0
        self._shared: dict[str, int] = {}

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        for buffers, outputs in zip(call.buffers, call.outputs, strict=False):
            self._calls += 1
            taken: dict[int, str] = {}
            for name, tensor in immutable(self.site, buffers):
                taken[tensor.untyped_storage().data_ptr()] = name
            for spec, output in zip(self.site.target.outputs_of(len(outputs)), outputs, strict=True):
                source = taken.get(output.untyped_storage().data_ptr()) if output.numel() else None
                if source is not None:
                    pair = f"{spec.name} is {source}"
                    self._shared[pair] = self._shared.get(pair, 0) + 1

    def facts(self) -> AliasesFacts:
        """See AliasesFacts."""
        return AliasesFacts(calls=self._calls, shared=self._shared)


def aliasing(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where an output is an input's memory."""
    replicas = [facts for facts in arm.facts(Aliases) if facts.calls]
    if not replicas:
        return unavailable("no call was seen")
    calls = sum(facts.calls for facts in replicas)
    shared: dict[str, int] = {}
    for facts in replicas:
        for pair, count in facts.shared.items():
            shared[pair] = shared.get(pair, 0) + count
    if shared:
        pairs = ", ".join(f"{pair} in {count} of {calls} calls" for pair, count in shared.items())
        return caught(f"an output lies in an input's memory: {pairs}; only a mutable input may be handed back")
    return passed(f"in {calls} calls no output lay in the memory of an input that is not mutable")


# -- pages of host memory ----------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """Resident memory of this process, counted exactly, without pages of zeros that nobody has written."""
    return _kilobytes(Path("/proc/self/smaps_rollup").read_text(), "Rss:") << 10


def swapped_bytes() -> int:
    """Memory of this process that lies in swap."""
    return _kilobytes(Path("/proc/self/status").read_text(), "VmSwap:") << 10


def _kilobytes(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise OSError(f"this kernel does not tell {name.rstrip(':')}")


def untouched_bytes(tensor: Any) -> int:
    """How much of a contiguous tensor in host memory was never written, in bytes; from /proc/self/pagemap.

    A page that was promised and only read since is the kernel's one page of zeros: present, but not its owner's alone.
    """
    size = tensor.numel() * tensor.element_size()
    first, last = -(-tensor.data_ptr() // PAGE_BYTES), (tensor.data_ptr() + size) // PAGE_BYTES
    if last <= first:
        return 0
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        file.seek(first * 8)
        entries = file.read((last - first) * 8)
    # The highest byte of each entry. Bit 63 present, bit 62 swapped, bit 56 mapped by one process.
    written = sum(bool(byte & 0x40) or (byte & 0x81) == 0x81 for byte in entries[7::8])
    return (last - first - written) * PAGE_BYTES


class PagesFacts(Facts, frozen=True, kw_only=True):
    """Pages of outputs in host memory, and what came from disk.

    Attributes:
        samples: how many were taken.
        faults: that read from disk while they were.
        looks: at outputs in host memory.
        untouched_bytes, output_bytes: medians over the looks; 0 where there was none.
        swapped_bytes: growth in swap.
    """

    samples: int
    faults: int
    looks: int
    untouched_bytes: int
    output_bytes: int
    swapped_bytes: int


class Pages(Sensor[PagesFacts]):
    """Whether outputs in host memory were written by the call, and what came from disk while samples were taken."""

    name = "pages"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._samples = 0
        self._faults = 0
        self._start_faults = 0
        self._swapped_before = 0
        self._swapped_after = 0
        self._looks: list[tuple[int, int]] = []  # untouched, bytes of outputs

    def before_timing(self) -> None:
        """See Sensor."""
        self._swapped_before = swapped_bytes()

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "timed":
            self._start_faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage != "timed":
            return
        self._faults += resource.getrusage(resource.RUSAGE_SELF).ru_majflt - self._start_faults
        self._samples += 1
        if self._samples not in PAGE_LOOKS:
            return
        outputs = [o for o in call.outputs[-1] if o.device.type == "cpu" and o.numel() * o.element_size() >= PAGE_BYTES]
        if outputs:
            total = sum(o.numel() * o.element_size() for o in outputs)
            self._looks.append((sum(untouched_bytes(output) for output in outputs), total))

    def after_timing(self) -> None:
        """See Sensor."""
        self._swapped_after = swapped_bytes()

    def facts(self) -> PagesFacts:
        """See PagesFacts."""
        return PagesFacts(
            samples=self._samples,
            faults=self._faults,
            looks=len(self._looks),
            untouched_bytes=int(statistics.median(look[0] for look in self._looks)) if self._looks else 0,
            output_bytes=int(statistics.median(look[1] for look in self._looks)) if self._looks else 0,
            swapped_bytes=self._swapped_after - self._swapped_before,
        )


def pages(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where outputs were never written by the call; suspect where samples waited for the disk."""
    if arm.timing is Timing.NONE:
        return not_applicable("it was not timed")
    replicas = [facts for facts in arm.facts(Pages) if facts.samples]
    if not replicas:
        return unavailable("no timed sample was seen")
    if all(f.untouched_bytes > max(UNTOUCHED_LEAST_BYTES, UNTOUCHED_SHARE * f.output_bytes) for f in replicas):
        one = replicas[0]
        return caught(
            f"{one.untouched_bytes / 1e6:.3g} MB of outputs of {one.output_bytes / 1e6:.3g} MB were pages that"
            " the call had asked for and never written; whoever reads them pays for them"
        )
    if all(f.faults > max(FAULTS_LEAST, FAULTS_PER_SAMPLE * f.samples) for f in replicas):
        return suspect(
            f"samples waited for the disk: {replicas[0].faults} page faults from there in {replicas[0].samples}"
            " samples; give the machine more free memory"
        )
    if all(f.swapped_bytes > SWAPPED_LEAST_BYTES for f in replicas):
        return suspect(
            f"{replicas[0].swapped_bytes / 1e6:.3g} MB of this process went to swap while it was timed;"
            " give the machine more free memory"
        )
    looks = sum(facts.looks for facts in replicas)
    seen = f"outputs were written whole in {looks} samples that were looked at" if looks else "outputs lie on the GPU"
    return passed(f"{seen}; {sum(facts.faults for facts in replicas)} page faults from disk while samples were taken")


# -- the GPU's allocator and cache -------------------------------------------------------------------------------------


def caching_off(torch: Any) -> bool:
    """Whether PyTorch's allocator hands every request to the driver: then it does not count it."""
    count = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
    kept = torch.empty(1, device="cuda")
    after = torch.cuda.memory_stats().get("allocation.all.allocated", 0)
    del kept
    return bool(after == count)


class AllocatorFacts(Facts, frozen=True, kw_only=True):
    """Requests to the driver.

    Attributes:
        samples: looked at.
        asking: how many of them asked the driver for memory.
        retries: requests that had to free some first.
        off: whether the lesson switched caching off.
    """

    samples: int
    asking: int
    retries: int
    off: bool


class Allocator(Sensor[AllocatorFacts]):
    """Requests of PyTorch's allocator to the driver during samples, on a GPU."""

    name = "allocator"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._before = (0, 0)
        self._samples = 0
        self._asking = 0
        self._retries = 0
        self._off_before = False
        self._off = False

    def before_import(self) -> None:
        """See Sensor."""
        import torch

        self._torch = torch
        self._off_before = caching_off(torch)

    def before_timing(self) -> None:
        """See Sensor."""
        self._off = caching_off(self._torch)

    def _counts(self) -> tuple[int, int]:
        stats = self._torch.cuda.memory_stats_as_nested_dict()  # memory_stats() sorts 160 of them, in 0.2 ms
        return stats["segment"]["all"]["allocated"], stats["num_alloc_retries"]

    def before_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "timed" and self._wanted():
            self._before = self._counts()

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage != "timed":
            return
        if self._wanted():
            segments, retries = self._counts()
            self._asking += segments > self._before[0]
            self._retries += retries - self._before[1]
        self._samples += 1

    def _wanted(self) -> bool:
        return self._samples < 256  # of a run that is slowed by it

    def facts(self) -> AllocatorFacts:
        """See AllocatorFacts."""
        return AllocatorFacts(
            samples=min(self._samples, 256),
            asking=self._asking,
            retries=self._retries,
            off=self._off and not self._off_before,
        )


def allocator(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where the rung switched caching off; suspect where most samples asked the driver for memory."""
    replicas = arm.facts(Allocator)
    if any(facts.off for facts in replicas):
        return caught("it switched off PyTorch's caching allocator, for every rung that would share its process")
    replicas = [facts for facts in replicas if facts.samples]
    if not replicas:
        return not_applicable("it was not timed")
    if all(f.asking > max(SEGMENTS_LEAST, SEGMENTS_SHARE * f.samples) for f in replicas):
        return suspect(
            f"{replicas[0].asking} of {replicas[0].samples} samples asked the driver for memory; that takes about a"
            " millisecond each, and a rung that keeps its memory would win by it alone"
        )
    return passed(
        f"{sum(f.asking for f in replicas)} of {sum(f.samples for f in replicas)} samples asked the driver for memory,"
        f" {sum(f.retries for f in replicas)} had to free some first"
    )


class PersistingFacts(Facts, frozen=True, kw_only=True):
    """Bytes of the L2 that are set aside: before the import, at most after a timed sample, and at the end.

    `after_bytes` is None where nothing was timed.
    """

    before_bytes: int
    most_bytes: int
    after_bytes: int | None


class Persisting(Sensor[PersistingFacts]):
    """How much of the L2 is set aside for lines that no flush evicts, on a GPU."""

    name = "persisting_l2"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._before = 0
        self._after: int | None = None
        self._samples = 0
        self._most = 0

    def before_import(self) -> None:
        """See Sensor."""
        self._before = set_aside_bytes()

    def after_call(self, call: Call) -> None:
        """See Sensor."""
        if call.stage == "timed":
            self._samples += 1
            if self._samples <= LOOKS_EVERY or self._samples % LOOKS_EVERY == 0:
                self._most = max(self._most, set_aside_bytes())

    def after_timing(self) -> None:
        """See Sensor."""
        self._after = set_aside_bytes()

    def facts(self) -> PersistingFacts:
        """See PersistingFacts."""
        return PersistingFacts(before_bytes=self._before, most_bytes=self._most, after_bytes=self._after)


def set_aside_bytes() -> int:
    """The L2 limit for persisting lines. Raises RuntimeError where the driver does not tell."""
    from cuda.bindings import driver  # loads the driver: only a process with a GPU can

    status, size = driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{status.name} for the L2's persisting limit")
    return int(size)


def persisting_l2(arm: ArmFacts, run: RunFacts) -> Answer:
    """Caught where the rung set a part of the L2 aside while it was timed."""
    replicas = arm.facts(Persisting)
    most = [max(facts.most_bytes, facts.after_bytes or 0) - facts.before_bytes for facts in replicas]
    if any(size > 0 for size in most):
        return caught(
            f"{max(most) / 1e6:.3g} MB of the L2 were set aside for lines that stay from call to call; cold means cold"
        )
    return passed("no part of the L2 was set aside for lines that no flush evicts")


# -- data --------------------------------------------------------------------------------------------------------------


def constant_data(run: RunFacts) -> Answer:
    """Suspect where an input of some size is declared all zeros or ones: such data draw less power and clock higher."""
    names = [spec.name for spec in run.target.inputs if spec.distribution in ("zeros", "ones") and spec.dims]
    if names:
        return suspect(
            f"{', '.join(names)}: every element alike, which switches fewer transistors and lets the clock rise;"
            " declare a random distribution"
        )
    if not run.target.inputs:
        return not_applicable("the lesson has no inputs")
    return passed(f"{len(run.target.inputs)} inputs, none of them declared all zeros or ones")


CHECKS: tuple[Check, ...] = (
    Check(
        "memory.inputs_intact",
        "Inputs keep their bits",
        "Compares the bits of every input that may not change, as calls leave it, with those that the baseline leaves "
        "for the same values. A kernel that works in its caller's memory has not done the same job.",
        ("memory.inputs_overwritten",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        arm=inputs_intact,
        sensor=InputBits,
    ),
    Check(
        "memory.margins",
        "Nothing written past an end",
        "Every input lies between two margins of its own storage, which are filled before calls and looked at after.",
        ("memory.out_of_bounds",),
        When.EACH_SAMPLE,
        evidence=Evidence.VALUES,
        arm=canaries,
        sensor=Canaries,
    ),
    Check(
        "memory.aliasing",
        "Outputs are no inputs",
        "Compares the memory of every output with that of the inputs. Only a mutable input may come back as an output.",
        ("memory.input_output_aliasing",),
        When.EACH_SAMPLE,
        evidence=Evidence.VALUES,
        arm=aliasing,
        sensor=Aliases,
    ),
    Check(
        "memory.pages",
        "Pages written by the call",
        "Writes to the pages of outputs in host memory and sees whether they were there; counts page faults from disk "
        "and memory that went to swap while samples were taken.",
        ("memory.page_fault_timing", "memory.swap_interference", "environment.memory_overcommit"),
        When.EACH_SAMPLE,
        evidence=Evidence.VALUES,
        arm=pages,
        sensor=Pages,
    ),
    Check(
        "memory.allocator",
        "An allocator as it was",
        "Sees whether PyTorch's caching allocator was switched off, and how many samples asked the driver for memory.",
        ("memory.memory_pool_reuse", "memory.fragmentation_effects"),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        arm=allocator,
        sensor=Allocator,
    ),
    Check(
        "memory.persisting_l2",
        "No cache kept from the flush",
        "Asks the driver how much of the L2 is set aside for persisting lines, before the lesson is imported and while "
        "it is timed.",
        ("memory.persisting_l2",),
        When.EACH_SAMPLE,
        evidence=Evidence.WORK,
        needs=(Need.GPU,),
        arm=persisting_l2,
        sensor=Persisting,
    ),
    Check(
        "memory.constant_data",
        "Data that are not all alike",
        "Reads the lesson's declared distributions: inputs of zeros or ones make a GPU faster than it is.",
        ("memory.zeros_as_data",),
        When.AFTER_RUN,
        evidence=Evidence.VALUES,
        run=constant_data,
    ),
)

ISSUES: tuple[Issue, ...] = (
    Issue(
        "memory.pre_allocated_output",
        "The result's buffer is made in setup with a part of the result in it, and calls write only the rest.",
        How.PREVENTED,
        "Outputs are overwritten with poison before every call: what a call does not write is wrong.",
        "memory/pre_allocated_output",
    ),
    Issue(
        "memory.input_output_aliasing",
        "An output is the memory of an input that happens to hold the result.",
        How.DETECTED,
        "The storage of every output is compared with that of the inputs.",
        "memory/input_output_aliasing",
    ),
    Issue(
        "memory.pinned_memory_timing",
        "A copy to page-locked memory is started and not waited for.",
        How.DETECTED,
        "Work that goes on when the timed stream is done is measured after each sample, and outputs are read at once.",
        "memory/pinned_memory_timing",
    ),
    Issue(
        "memory.memory_pool_reuse",
        "One side finds its memory in the pool and the other has to ask the driver.",
        How.DETECTED,
        "Every arm has a process and a pool of its own, filled by the calls that verify it; who changes how the pool "
        "works, or asks in every call, is named.",
        "memory/memory_pool_reuse",
    ),
    Issue(
        "memory.fragmentation_effects",
        "What ran before has left holes in memory, and it is slower to find a place.",
        How.PREVENTED,
        "A replica is a new process that runs one arm of one lesson (tests/checks/test_memory.py).",
    ),
    Issue(
        "memory.page_fault_timing",
        "Pages are asked for inside the call and written for the first time outside of it, or the other way round.",
        How.DETECTED,
        "Outputs must be written by the call: pages that come into being under the reader's hand are counted.",
        "memory/page_fault_timing",
    ),
    Issue(
        "memory.swap_interference",
        "Memory goes to disk and comes back while the clock runs.",
        How.DETECTED,
        "Page faults from disk and growth in swap are counted around samples. No kernel gains by it, hence no cheat "
        "(tests/checks/test_memory.py).",
    ),
    Issue(
        "memory.inputs_overwritten",
        "A call works in the memory of its inputs, which its caller still needs.",
        How.DETECTED,
        "The bits of all inputs that may not change are compared with what the baseline leaves.",
        "memory/inputs_overwritten",
        listed=False,
    ),
    Issue(
        "memory.out_of_bounds",
        "A call writes past an end of its input, to spare itself the edges.",
        How.DETECTED,
        "Inputs lie between margins that are filled and looked at.",
        "memory/out_of_bounds",
        listed=False,
    ),
    Issue(
        "memory.persisting_l2",
        "A part of the cache is set aside so that the flush before each call does not reach it.",
        How.DETECTED,
        "Persisting lines are set free before every sample, and the limit is read.",
        "memory/persisting_l2",
        listed=False,
    ),
    Issue(
        "memory.small_flush",
        "The flush is smaller than the cache, and the data of the call before are still there.",
        How.PREVENTED,
        "The flush is the engine's: at least twice the L2 and no less than 64 MiB (tests/checks/test_memory.py).",
        listed=False,
    ),
    Issue(
        "memory.zeros_as_data",
        "Inputs of zeros let the clock rise and the branches agree.",
        How.PREVENTED,
        "Values are the engine's, drawn from the declared distribution; a lesson that declares zeros or ones is named "
        "(tests/checks/test_memory.py).",
        listed=False,
    ),
)
