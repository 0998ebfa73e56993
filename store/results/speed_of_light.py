"""The least time that a call can take: its bytes over a bandwidth, of device memory or of a link, its operations over a
rate, a launch at least.

Three bounds, each of which may be unknown (None, drawn as a dash):

- by the datasheet, at the clocks that it was printed for;
- by the datasheet, at the SM clock that ran: operations scale with the SM clock, bytes do not, since device memory has
  a clock of its own;
- by the ceilings that were measured on this GPU (`aisp peak`), operations again at the SM clock that ran: what a
  GPU keeps up per cycle under sustained load is what a short call gets, and a short call runs at a higher clock.

A bound never assumes what it does not know: where a lesson counts operations and the rate of its type is unknown, there
is no bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aisp.kernels import catalog
from aisp.kernels.catalog.model import UNCOUNTED, Case, LinkKind, Target
from aisp.store.outcomes import Limiter, Timing
from aisp.store.results.datasheets import Datasheet, datasheet

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisp.store.record import Ceiling, LinkUse, Peak, RooflineBound

# A lesson's dtype and the precision whose rate bounds it. float32 counts as SIMT: TF32 is not float32, and a lesson
# that allows it says so with `precision`.
PRECISION_OF = {
    "float64": "fp64",
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
    "float4_e2m1fn_x2": "fp4",
}
DEFAULT_PRECISION = "fp32"
# What values of a narrow format are widened to, exactly, where tensor cores do not take them.
WIDER = {"fp4": "fp8", "fp8": "bf16", "fp8 promoted": "bf16", "mxfp8": "bf16", "nvfp4": "bf16"}

DRAM = ("dram read", "dram write", "dram copy", "dram triad")
L2_READ = "l2 read"
LAUNCH_EMPTY = "launch empty"
LAUNCH_GRAPH_NODE = "launch graph node"
LAUNCH_EAGER = "launch eager"
DENSE = ("bf16", "fp16", "tf32", "fp8", "fp8 promoted", "int8", "fp32", "fp64")
H2D_PINNED, D2H_PINNED = "pcie h2d pinned", "pcie d2h pinned"
# Between the first two GPUs: by the copy engines and by a kernel, one way, and both ways at once (bytes/s each way).
PEER_COPY, PEER_COPY_BOTH = "peer copy", "peer copy both ways"
PEER_SM_COPY, PEER_SM_COPY_BOTH = "peer SM copy", "peer SM copy both ways"
PEER = (PEER_COPY, PEER_COPY_BOTH, PEER_SM_COPY, PEER_SM_COPY_BOTH)
ALL_REDUCE = "nccl all-reduce"  # bus bandwidth, of each GPU and each way
LINKS = (H2D_PINNED, D2H_PINNED, "pcie h2d pageable", "pcie d2h pageable", *PEER, ALL_REDUCE)


@dataclass(frozen=True, slots=True)
class Across:
    """The ceilings that bound what crosses a link; of several for one thing the fastest that is known.

    Attributes:
        into, out: of a direction by itself.
        both: of each direction while the other one is as busy; none where that is not measured.
    """

    into: tuple[str, ...]
    out: tuple[str, ...]
    both: tuple[str, ...] = ()


_ONE_WAY, _BOTH_WAYS = (PEER_COPY, PEER_SM_COPY), (PEER_COPY_BOTH, PEER_SM_COPY_BOTH)
ACROSS = {
    LinkKind.PCIE: Across((H2D_PINNED,), (D2H_PINNED,)),
    LinkKind.NVLINK: Across(_ONE_WAY, _ONE_WAY, _BOTH_WAYS),
}

# Every ceiling that is measured, in the order in which it is, with its unit.
CEILINGS: dict[str, str] = {
    LAUNCH_EMPTY: "s",
    LAUNCH_GRAPH_NODE: "s",
    LAUNCH_EAGER: "s",
    **dict.fromkeys(DRAM, "bytes/s"),
    L2_READ: "bytes/s",
    **{f"{precision} dense": "flop/s" for precision in DENSE},
    **dict.fromkeys(LINKS, "bytes/s"),
}

FAST_HOST_MS = 0.005  # what an eager launch costs a host that is not slow: 4 to 6 us have been published
HOST_SHARE = 0.8  # host time that explains a sample: this share of it at least
BOUND_SHARE = 0.5  # a call whose bound is half of its time is kept by the GPU, whatever the host did meanwhile


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a link that a case uses: its bytes, and what it can carry meanwhile, None where not known."""

    into: bool
    bytes: float
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Work:
    """What a case must do at least, of each GPU where a rung has several ranks.

    Attributes:
        bytes: of device memory.
        flops, precision: operations, and whose rate bounds them.
        link: what `into` and `out` cross, in bytes; None where nothing leaves the GPU.
    """

    bytes: float
    flops: float
    precision: str
    link: LinkKind | None = None
    into: float = 0.0
    out: float = 0.0

    @property
    def crosses(self) -> bool:
        """Whether bytes cross a link."""
        return self.link is not None and (self.into > 0 or self.out > 0)

    @property
    def counted(self) -> bool:
        """Whether there is anything that could bound it."""
        return self.bytes > 0 or self.flops > 0 or self.crosses

    def directions(self, rate: Callable[[str], float | None]) -> list[Direction]:
        """The directions of the link that are used.

        Both go at the same time. While both are busy each has the rate of both ways, where that is known; what the
        busier one has left then goes at the rate of one way.

        Args:
            rate: a ceiling's bytes/s by its name, None where it is not known.
        """
        if self.link is None:
            return []
        across = ACROSS[self.link]
        shared = _fastest(across.both, rate)
        found = []
        for into, names, size, other in (
            (True, across.into, self.into, self.out),
            (False, across.out, self.out, self.into),
        ):
            if size <= 0:
                continue
            alone = carried = _fastest(names, rate)
            if alone is not None and shared is not None and other > 0:
                beside = min(size, other)
                # A rate of both ways above that of one way is noise: two directions do not speed each other up.
                carried = size / (beside / min(shared, alone) + (size - beside) / alone)
            found.append(Direction(into, size, carried))
        return found


def _fastest(names: tuple[str, ...], rate: Callable[[str], float | None]) -> float | None:
    return max((found for name in names if (found := rate(name)) is not None), default=None)


def work(target: Target, case: Case) -> Work:
    """What a case must do. The precision is what the lesson states, else that of the first input, else output, whose
    type has one."""
    dtype = next((s.dtype for s in (*target.inputs, *target.outputs) if s.dtype in PRECISION_OF), "")
    into, out = catalog.link_bytes(target, case)
    return Work(
        bytes=float(catalog.bytes_moved(target, case)) / target.ranks,  # each rank has a GPU of its own
        flops=float(catalog.flops(target, case)) / target.ranks,
        precision=target.precision or PRECISION_OF.get(dtype, DEFAULT_PRECISION),
        link=target.link.over if target.link else None,
        into=into,
        out=out,
    )


def light(
    target: Target,
    case: Case,
    gpu_name: str,
    peak: Peak | None,
    *,
    time_ms: float,
    base_ms: float | None,
    timing: Timing,
    host_ms: float | None = None,
    sm_clock_mhz: float | None = None,
) -> RooflineBound | None:
    """An arm's time against the speed of light; None where no bound is known.

    Args:
        target, case: what was run.
        gpu_name: the GPU that ran it, as the driver names it.
        peak: ceilings measured on that GPU.
        time_ms: the arm's median.
        base_ms: the baseline's; None for the baseline itself.
        timing: how the samples were taken. Calls on the host have no bound.
        host_ms: median time that the host took to issue a call.
        sm_clock_mhz: median SM clock of the arm's samples.

    Limited by the host: the stream was not held, issuing the call took HOST_SHARE of its time or more, and the bound
    is under BOUND_SHARE of its time (a call that waits for the GPU has a long host time, too, and is not meant).
    Limited by the launch: a kernel that does nothing takes longer than the bytes and the operations.

    The score is measured from the bound by the measured ceilings, else by the datasheet.
    """
    from aisp.store.record import RooflineBound

    if timing in (Timing.HOST, Timing.NONE):
        return None
    sheet = datasheet(gpu_name)
    wanted = widened(work(target, case), sheet)
    spec = _of_sheet(wanted, sheet, timing, sm_clock_mhz=None) if sheet else None
    at_clock = _of_sheet(wanted, sheet, timing, sm_clock_mhz=sm_clock_mhz) if sheet and sm_clock_mhz else None
    measured = _of_peak(wanted, peak, sheet, timing, sm_clock_mhz) if peak else None
    best = measured or spec
    if best is None:
        return None
    limiter: Limiter | None = best.limiter
    eager_s = None
    if not timing.held and host_ms is not None and host_ms >= HOST_SHARE * time_ms and best.ms < BOUND_SHARE * time_ms:
        limiter, eager_s = Limiter.HOST, measured_rate(peak, LAUNCH_EAGER)
    if target.flops == UNCOUNTED:  # the bytes bound it from below; what keeps it is not known
        limiter, base_ms = None, None
    return RooflineBound(
        spec_ms=spec.ms if spec else None,
        clock_ms=at_clock.ms if at_clock else None,
        measured_ms=measured.ms if measured else None,
        limiter=limiter,
        score=None if base_ms is None else score_of_light(time_ms, best.ms, base_ms),
        launch_eager_ms=None if eager_s is None else eager_s * 1e3,
        link=link_use(wanted, peak, sheet, time_ms),
    )


def score_of_light(time: float, bound: float, base: float) -> float | None:
    """How near a time has come to its bound: 1 / (1 + (t - b) / (t0 - b)): 0.5 for the baseline's, 1 at the bound.

    As published the formula has a pole, and exceeds 1 below the bound. There a time is a finding, not a score.

    Args:
        time, bound, base: t, b and t0, in one unit, > 0.

    Returns:
        None where time < bound, and where base <= bound: such a baseline leaves nothing to gain.
    """
    if not (time >= bound and base > bound > 0):
        return None
    return 1.0 / (1.0 + (time - bound) / (base - bound))


def at_fast_host_ms(time_ms: float | None, light: RooflineBound | None) -> float | None:
    """What a call that its host limits would take with a host of FAST_HOST_MS a launch: derived, not measured.

    A time t that is all launches of e each is t / e of them. At h = FAST_HOST_MS each they take t * h / e, unless the
    bound b is longer: max(b, t * h / e). A host whose launch costs h or less is left as it is, and where e is not known
    there is no figure.
    """
    if time_ms is None or light is None or light.launch_eager_ms is None:
        return None
    bound_ms = light.measured_ms if light.measured_ms is not None else light.spec_ms
    return max(bound_ms or 0.0, time_ms * min(1.0, FAST_HOST_MS / light.launch_eager_ms))


def widened(wanted: Work, sheet: Datasheet | None) -> Work:
    """The same work in the narrowest precision that the GPU has, from the one that it asks for upwards."""
    precision = wanted.precision
    while sheet is not None and sheet.rate(precision) is None and precision in WIDER:
        precision = WIDER[precision]
    return replace(wanted, precision=precision)


@dataclass(frozen=True, slots=True)
class _Least:
    ms: float
    limiter: Limiter


def _greatest(parts: dict[Limiter, float]) -> _Least | None:
    limiter = max(parts, key=lambda key: parts[key])
    return _Least(parts[limiter], limiter) if parts[limiter] > 0 else None


def _of_sheet(wanted: Work, sheet: Datasheet, timing: Timing, *, sm_clock_mhz: float | None) -> _Least | None:
    bytes_ms = _dram_bytes(wanted, timing, sheet.l2_bytes) / sheet.memory_bytes_per_s * 1e3
    flops_ms = 0.0
    if wanted.flops > 0:
        rate = sheet.rate(wanted.precision)
        if rate is None:
            return None
        flops_ms = wanted.flops / rate * 1e3
        if sm_clock_mhz is not None:
            printed_mhz = sheet.clock_mhz(wanted.precision)
            if printed_mhz is None:
                return None
            flops_ms *= printed_mhz / sm_clock_mhz
    crossing = _crossing(wanted, sheet.ceiling)
    return None if crossing is None else _greatest({Limiter.BYTES: bytes_ms, Limiter.FLOPS: flops_ms} | crossing)


def _of_peak(
    wanted: Work, peak: Peak, sheet: Datasheet | None, timing: Timing, sm_clock_mhz: float | None
) -> _Least | None:
    """By the measured ceilings, operations at the SM clock that ran, where both clocks are known."""
    parts = {Limiter.BYTES: 0.0, Limiter.FLOPS: 0.0, Limiter.LAUNCH: 0.0}
    if wanted.bytes > 0:
        fastest = bandwidth(peak)
        if fastest is None:
            return None
        parts[Limiter.BYTES] = _dram_bytes(wanted, timing, sheet.l2_bytes if sheet else None) / fastest * 1e3
        cache = peak.ceiling(L2_READ)
        if timing.warm and cache is not None:
            # Whatever is not read from device memory still comes through the L2.
            parts[Limiter.BYTES] = max(parts[Limiter.BYTES], wanted.bytes / _value(cache) * 1e3)
    if wanted.flops > 0:
        rate = peak.ceiling(f"{wanted.precision} dense")
        if rate is None:
            return None
        flops_ms = wanted.flops / _value(rate) * 1e3
        if sm_clock_mhz and rate.sm_clock_mhz:
            flops_ms *= rate.sm_clock_mhz / sm_clock_mhz
        parts[Limiter.FLOPS] = flops_ms
    crossing = _crossing(wanted, lambda name: measured_rate(peak, name))
    # Without work to bound, a launch alone is no speed of light.
    if crossing is None or not wanted.counted:
        return None
    parts |= crossing
    floor = peak.ceiling(LAUNCH_GRAPH_NODE if timing.in_graph else LAUNCH_EMPTY)
    if floor is not None:
        parts[Limiter.LAUNCH] = _value(floor) * 1e3
    return _greatest(parts)


def _crossing(wanted: Work, rate: Callable[[str], float | None]) -> dict[Limiter, float] | None:
    """ms of the link's busier direction, nothing without a link; None where a rate that it takes is not known."""
    used = wanted.directions(rate)
    times = [one.bytes / one.bytes_per_s * 1e3 for one in used if one.bytes_per_s is not None]
    if len(times) < len(used):
        return None
    return {Limiter(wanted.link or ""): max(times)} if times else {}


def link_use(wanted: Work, peak: Peak | None, sheet: Datasheet | None, time_ms: float) -> LinkUse | None:
    """What a call of `time_ms` carries over its link, and its share of what the link can; None without a link.

    The share is of the measured ceilings, and of the datasheet's rate where one that it takes was not measured.
    """
    from aisp.store.record import LinkUse

    if wanted.link is None or not wanted.crosses:
        return None
    found = wanted.directions(lambda name: measured_rate(peak, name))
    measured = all(direction.bytes_per_s is not None for direction in found)
    if not measured:
        found = wanted.directions(sheet.ceiling if sheet else lambda name: None)
    rates = {direction.into: direction.bytes / time_ms * 1e3 for direction in found}
    most = {direction.into: direction.bytes_per_s for direction in found}
    shares = {into: rate / ceiling for into, rate in rates.items() if (ceiling := most[into]) is not None}
    return LinkUse(
        over=Limiter(wanted.link),
        in_bytes_per_s=rates.get(True),
        out_bytes_per_s=rates.get(False),
        in_share=shares.get(True),
        out_share=shares.get(False),
        measured=measured,
    )


def measured_rate(peak: Peak | None, name: str) -> float | None:
    """The value of a measured ceiling, in its unit; None where it was not measured."""
    ceiling = peak.ceiling(name) if peak else None
    return ceiling.value if ceiling else None


def bandwidth(peak: Peak) -> float | None:
    """The fastest way that was found to move bytes: no mix of reads and writes can be asked to beat it."""
    found = [_value(ceiling) for name in DRAM if (ceiling := peak.ceiling(name)) is not None]
    return max(found, default=None)


def _dram_bytes(wanted: Work, timing: Timing, l2_bytes: int | None) -> float:
    """Bytes that must cross the memory bus. Warm, a whole L2 of them need not; of an unknown L2 none must."""
    if not timing.warm:
        return wanted.bytes
    return 0.0 if l2_bytes is None else max(0.0, wanted.bytes - l2_bytes)


def _value(ceiling: Ceiling) -> float:
    assert ceiling.value is not None  # Peak.ceiling gives none without one
    return ceiling.value
