"""A run under the roofs of its GPU: measured ceilings and the datasheet's, where its case stands, what each rung has of
them.

Every rung of a case does the same work by definition, its operations and bytes, so all of them stand above one
intensity; how high says how fast. A case without arithmetic has no place there and is held against the bandwidth alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from aisp.store.outcomes import State
from aisp.store.results import speed_of_light
from aisp.store.results.datasheets import datasheet

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Case, Target
    from aisp.store.record import Arm, Peak, Run
    from aisp.store.results.reading import Reading

MEMORY = "memory"
"""The path of a case whose bytes stay on the GPU."""
LOOK_BACK_RUNS = 200
"""How many of a target's runs are looked through for one that was timed on a GPU."""


@dataclass(frozen=True, slots=True)
class Roof:
    """What a GPU can do at most; None where it is not known. `measured` or else of the datasheet."""

    measured: bool
    bandwidth_bytes_per_s: float | None
    flops_per_s: float | None

    @property
    def name(self) -> str:
        """ "measured" or "datasheet"."""
        return "measured" if self.measured else "datasheet"

    @property
    def ridge(self) -> float | None:
        """Intensity, in flop/byte, above which arithmetic is the limit."""
        slope, top = self.bandwidth_bytes_per_s, self.flops_per_s
        return top / slope if top and slope else None

    def attainable(self, intensity: float) -> float | None:
        """flop/s at an intensity in flop/byte; bytes/s where the intensity is 0. None where a rate that it takes is
        not known."""
        slope, top = self.bandwidth_bytes_per_s, self.flops_per_s
        if intensity <= 0 or slope is None:
            return slope
        return None if top is None else min(top, intensity * slope)

    def height(self, intensity: float) -> float | None:
        """Where its line is drawn: by whichever of the two rates is known."""
        slope = self.bandwidth_bytes_per_s
        parts = (intensity * slope if slope else None, self.flops_per_s)
        return min((part for part in parts if part is not None), default=None)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofs over a case.

    Attributes:
        gpu: the driver's name of it.
        case: the case's name.
        precision: whose rate of arithmetic counts, "bf16"; "" for a case without arithmetic.
        path: where the bytes go that take longest: "memory" of the GPU, "pcie", "nvlink".
        flops, bytes: of one call, bytes over that path.
        roofs: those that are known, measured first.
        peak_wall: when the measured one was; "" where it was not.
        peak_sm_clock_mhz: SM clock while the rate of the arithmetic was measured.
    """

    gpu: str
    case: str
    precision: str
    path: str
    flops: float
    bytes: float
    roofs: tuple[Roof, ...]
    peak_wall: str = ""
    peak_sm_clock_mhz: float | None = None

    @property
    def intensity(self) -> float:
        """flop/byte of the case; 0 without arithmetic, and without bytes."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def unit(self) -> str:
        """Of what is held against a roof."""
        return "flop/s" if self.flops > 0 else "bytes/s"

    def roof(self, *, measured: bool) -> Roof | None:
        """That roof, None where it is not known."""
        return next((roof for roof in self.roofs if roof.measured == measured), None)

    def flops_per_s(self, time_ms: float | None) -> float | None:
        """Arithmetic of a call that takes this long; None for a case without any."""
        return self.flops / time_ms * 1e3 if time_ms and self.flops > 0 else None

    def bytes_per_s(self, time_ms: float | None) -> float | None:
        """Traffic that this time is worth: the least bytes of the case over it."""
        return self.bytes / time_ms * 1e3 if time_ms and self.bytes > 0 else None

    def rate(self, time_ms: float | None) -> float | None:
        """What is held against a roof: flop/s, or bytes/s where there is no arithmetic."""
        return self.flops_per_s(time_ms) if self.flops > 0 else self.bytes_per_s(time_ms)

    def bounds(self, arm: Arm) -> tuple[float, float] | None:
        """The interval of an arm's rate, lowest first."""
        low, high = self.rate(arm.high_ms), self.rate(arm.low_ms)
        return None if low is None or high is None else (low, high)

    def share(self, arm: Arm, *, measured: bool) -> float | None:
        """What an arm reaches of a roof at the case's intensity; None where that roof is not known."""
        rate, roof = self.rate(arm.median_ms), self.roof(measured=measured)
        most = roof.attainable(self.intensity) if roof is not None else None
        return rate / most if rate and most else None


ReadingT = TypeVar("ReadingT", bound="Reading")


def timed(run: Reading) -> list[Arm]:
    """The arms of a run that stand under a roof: timed, in the run's order, without the A/A arm and without those whose
    figures are no result."""
    return [a for a in run.record.arms if a.median_ms is not None and not a.twin and run.bar(a.rung) is None]


def newest(records: Iterable[Run], read: Callable[[Run], ReadingT]) -> ReadingT | None:
    """The first of these runs, newest first, that was timed on a GPU and ended well."""
    runs = (read(one) for one in records if one.state is State.OK and one.device.startswith("cuda"))
    return next((run for run in runs if timed(run)), None)


def of_case(target: Target, case_name: str, gpu: str, peak: Peak | None, *, measures: str) -> Roofline | str:
    """The roofs over a target's case, or why there are none, in words.

    Args:
        case_name: as a run has it.
        gpu: the GPU's name, "" where it is not known.
        peak: ceilings measured on it.
        measures: what measures them, for whoever has to: "`aisp peak`".
    """
    try:
        case = target.case(case_name)
    except LookupError as error:
        return f"the run was of a case that is gone: {error.args[0]}"
    work = speed_of_light.work(target, case)
    if work.bytes <= 0 and not work.crosses:
        return f"case {case.name} of {target.id} states no bytes, so it stands nowhere on a roofline"
    found = roofline(target, case, gpu, peak)
    return found or f"nothing is known of {gpu or 'the GPU of that run'}: {measures} measures its ceilings"


def roofline(target: Target, case: Case, gpu: str, peak: Peak | None) -> Roofline | None:
    """The roofs over a case; None where no rate is known, by datasheet or measured, or the case counts no work.

    Of device memory and the directions of a link the one that takes longest is the bandwidth; one whose rate is not
    known might.
    """
    sheet = datasheet(gpu)
    work = speed_of_light.widened(speed_of_light.work(target, case), sheet)
    if not work.counted:
        return None
    rates = speed_of_light.bandwidth(peak) if peak else None, sheet.memory_bytes_per_s if sheet else None
    paths = [(MEMORY, work.bytes, *rates)]
    measured = work.directions(lambda name: speed_of_light.measured_rate(peak, name))
    printed = work.directions(lambda name: sheet.ceiling(name) if sheet else None)
    for ran, said in zip(measured, printed, strict=True):
        paths.append((str(work.link), ran.bytes, ran.bytes_per_s, said.bytes_per_s))

    def time_s(path: tuple[str, float, float | None, float | None]) -> float:
        _, size, measured, printed = path
        rate = measured or printed
        return (size / rate if rate else math.inf) if size > 0 else 0.0

    path, size, measured_bandwidth, sheet_bandwidth = max(paths, key=time_s)
    dense = f"{work.precision} dense"
    ceiling = peak.ceiling(dense) if peak and work.flops > 0 else None
    both = (
        Roof(True, measured_bandwidth, ceiling.value if ceiling else None),
        Roof(False, sheet_bandwidth, sheet.ceiling(dense) if sheet and work.flops > 0 else None),
    )
    roofs = tuple(roof for roof in both if roof.bandwidth_bytes_per_s or roof.flops_per_s)
    if not roofs:
        return None
    return Roofline(
        gpu=gpu,
        case=case.name,
        precision=work.precision if work.flops > 0 else "",
        path=path,
        flops=work.flops,
        bytes=size,
        roofs=roofs,
        peak_wall=peak.wall if peak and roofs[0].measured else "",
        peak_sm_clock_mhz=ceiling.sm_clock_mhz if ceiling else None,
    )
