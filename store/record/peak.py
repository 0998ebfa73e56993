"""The record of a GPU's measured ceilings."""

from __future__ import annotations

import math

import msgspec

from aisp.store.record.run import ContradictionError, clean_lines


class Ceiling(msgspec.Struct, frozen=True):
    """The most that this GPU was seen to do in one respect, at the clocks that ran.

    Attributes:
        name: "dram read", "bf16 dense", "launch graph node" ...: see store.results.speed_of_light.CEILINGS.
        value: in `unit`; None where it could not be measured here, with `note` saying why.
        unit: "bytes/s", "flop/s" or "s".
        footprint_bytes: memory touched, where that matters.
    """

    name: str
    value: float | None
    unit: str
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    footprint_bytes: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        clean_lines(self, "name", "unit", "note")
        if self.value is None and not self.note:
            raise ContradictionError(f"{self.name}: no value, and no reason why")
        if self.value is not None and not (math.isfinite(self.value) and self.value > 0):
            raise ContradictionError(f"{self.name}: {self.value} {self.unit} is no rate")
        clocks = [clock for clock in (self.sm_clock_mhz, self.memory_clock_mhz) if clock is not None]
        if not all(math.isfinite(clock) and clock > 0 for clock in clocks):
            raise ContradictionError(f"{self.name}: {clocks} MHz are no clocks; None says that one is not known")


class Peak(msgspec.Struct, frozen=True):
    """One measurement of a GPU's ceilings."""

    id: str  # ULID
    gpu: str  # the driver's name of it
    gpu_uuid: str
    wall: str
    environment: str  # hash of the environment record
    ceilings: tuple[Ceiling, ...] = ()

    def __post_init__(self) -> None:
        clean_lines(self, "id", "gpu", "gpu_uuid", "wall")

    def ceiling(self, name: str) -> Ceiling | None:
        """The ceiling of this name that has a value, the highest where footprints differ; for times the lowest."""
        ceilings = [c for c in self.ceilings if c.name == name and c.value is not None]
        if not ceilings:
            return None
        return (min if ceilings[0].unit == "s" else max)(ceilings, key=lambda c: c.value or 0.0)
