"""What the vendor prints about a GPU: rates, clocks, caches and links, each sheet with the documents it is from.

Everything is dense: vendors print tensor rates with 2:4 sparsity first, which is twice as much, and no dense kernel can
reach it. Where the accumulator's type changes the rate (GeForce cards run fp16 and fp8 at half speed with an fp32
accumulator), the rate with the fp32 accumulator stands here, which is what PyTorch's matrix products use. What the
documents do not print is None and drawn as a dash. The values stand in datasheets.toml; the names of precisions are
the catalogue's. Standard library only: frontends import this.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aisp.kernels.catalog.model import PRECISIONS

# Precisions whose rate the documents print under another name. Scales along the sum are taken by Blackwell's tensor
# cores at the full rate of the values; where tensor cores know no scales, the format has no rate.
PRINTED_AS = {"fp8 promoted": "fp8", "mxfp8": "fp8", "nvfp4": "fp4"}
SCALED = ("mxfp8", "nvfp4")
TAKES_SCALES = ("Blackwell",)
PRINTED = tuple(name for name in PRECISIONS if name not in PRINTED_AS)

SIMT = ("fp32",)  # the precisions whose rate here is that of the ordinary units, the others' are the tensor cores'


@dataclass(frozen=True, slots=True)
class Source:
    """A document of the vendor's."""

    title: str
    year: int
    url: str
    what: str = ""  # which of the values are from here; "" for all


@dataclass(frozen=True, slots=True)
class Datasheet:
    """One GPU.

    Attributes:
        name: as people say it, "H100 SXM5".
        names: as NVML and PyTorch report it, exactly.
        architecture: "Hopper".
        memory_bytes_per_s: of device memory, reads and writes together.
        rates: dense operations per second by precision, as printed (PRINTED); a multiplication and an addition are
            two. `rate` answers for every precision.
        boost_mhz: SM clock at which the ordinary units (fp32, and fp64 also on tensor cores) reach their rate.
        tensor_boost_mhz: SM clock at which the tensor cores reach theirs; Hopper's is lower than the other.
        memory_mhz: memory clock as NVML counts it.
        sm_count: streaming multiprocessors that are switched on.
        l2_bytes: size of the L2 cache.
        nvlink_bytes_per_s: each way, all links of one GPU together; None where there is no NVLink.
        pcie_bytes_per_s: each way, by the generation's signalling rate; protocol overhead takes some 10 % of it.
        power_w: most that the board draws.
        note: what must be known to read the values.
    """

    name: str
    names: tuple[str, ...]
    architecture: str
    sources: tuple[Source, ...]
    memory_bytes_per_s: float
    rates: Mapping[str, float]
    boost_mhz: float | None = None
    tensor_boost_mhz: float | None = None
    memory_mhz: float | None = None
    sm_count: int | None = None
    l2_bytes: int | None = None
    nvlink_bytes_per_s: float | None = None
    pcie_bytes_per_s: float | None = None
    power_w: float | None = None
    note: str = ""
    sparse: Mapping[str, float] = field(default_factory=dict)  # the rates with 2:4 sparsity as printed

    def rate(self, precision: str) -> float | None:
        """Dense operations per second; None where this GPU has no units for the precision, or no document says."""
        if precision in SCALED and self.architecture not in TAKES_SCALES:
            return None
        return self.rates.get(PRINTED_AS.get(precision, precision))

    def ceiling(self, name: str) -> float | None:
        """What it says where the measured ceiling `name` says something, in that one's unit; else None.

        A link's is what its signalling carries each way: pageable and pinned copies, one direction, both at once and a
        bus bandwidth are held against the same.
        """
        kind, _, _ = name.partition(" ")
        if kind == "dram":
            return self.memory_bytes_per_s
        if kind == "pcie":
            return self.pcie_bytes_per_s
        if kind in ("peer", "nccl"):
            return self.nvlink_bytes_per_s
        return self.rate(name.removesuffix(" dense")) if name.endswith(" dense") else None

    def clock_mhz(self, precision: str) -> float | None:
        """SM clock at which `rate(precision)` holds; None where the documents do not say."""
        ordinary = precision in SIMT or precision == "fp64"
        return self.boost_mhz if ordinary else self.tensor_boost_mhz


MB = 1 << 20


def _read() -> tuple[Datasheet, ...]:
    """The sheets of datasheets.toml, in its order. A sheet with `rates_of` has the rates of an earlier one."""
    known = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    sources = {name: Source(**values) for name, values in known["sources"].items()}
    made: dict[str, Datasheet] = {}
    for values in known["sheets"]:
        if other := values.pop("rates_of", ""):
            values |= {"rates": made[other].rates, "sparse": made[other].sparse}
        values["names"] = tuple(values["names"])
        values["sources"] = tuple(sources[name] for name in values["sources"])
        made[values["name"]] = Datasheet(**values)
    return tuple(made.values())


DATASHEETS = _read()


def datasheet(gpu_name: str) -> Datasheet | None:
    """The sheet of a GPU by the name that the driver gives it, or None: a similar GPU's rates would be wrong ones."""
    return next((sheet for sheet in DATASHEETS if gpu_name in sheet.names), None)


def ceiling_value(gpu_name: str, ceiling: str) -> float | None:
    """`Datasheet.ceiling` of a GPU by the name that the driver gives it; None for one without a sheet."""
    sheet = datasheet(gpu_name)
    return sheet.ceiling(ceiling) if sheet else None
