"""What the vendor prints about a GPU: rates, clocks, caches and links, each sheet with the documents it is from.

Everything is dense: vendors print tensor rates with 2:4 sparsity first, which is twice as much, and no dense kernel can
reach it. Where the accumulator's type changes the rate (GeForce cards run fp16 and fp8 at half speed with an fp32
accumulator), the rate with the fp32 accumulator stands here, which is what PyTorch's matrix products use. What the
documents do not print is None and drawn as a dash. Pure data; the names of precisions are the catalogue's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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

        A link's is what its signalling carries, so pageable and pinned copies are held against the same.
        """
        kind, _, _ = name.partition(" ")
        if kind == "dram":
            return self.memory_bytes_per_s
        if kind == "pcie":
            return self.pcie_bytes_per_s
        if kind == "peer":
            return self.nvlink_bytes_per_s
        return self.rate(name.removesuffix(" dense")) if name.endswith(" dense") else None

    def clock_mhz(self, precision: str) -> float | None:
        """SM clock at which `rate(precision)` holds; None where the documents do not say."""
        ordinary = precision in SIMT or precision == "fp64"
        return self.boost_mhz if ordinary else self.tensor_boost_mhz


MB = 1 << 20
PCIE_4 = 32e9
PCIE_5 = 64e9


def _tensor(bf16: float, *, fp8: bool = True, **others: float) -> dict[str, float]:
    """Dense rates of data-centre tensor cores from that of bf16: tf32 half of it, fp16 the same, 8 bits twice."""
    rates = {"tf32": bf16 / 2, "bf16": bf16, "fp16": bf16}
    if fp8:
        rates["fp8"] = bf16 * 2
    return others | rates | {"int8": bf16 * 2}


_HOPPER_PAPER = Source(
    "NVIDIA H100 Tensor Core GPU Architecture, white paper 1.04",
    2023,
    "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper",
    "dense rates, both boost clocks, SMs, L2",
)
_H100_PAGE = Source(
    "NVIDIA H100 Tensor Core GPU datasheet",
    2024,
    "https://www.nvidia.com/en-us/data-center/h100/",
    "bandwidth, links, power",
)
_AMPERE_PAPER = Source(
    "NVIDIA A100 Tensor Core GPU Architecture, white paper 1.0",
    2020,
    "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf",
    "dense rates, boost clock, SMs, L2",
)
_A100_SHEET = Source(
    "NVIDIA A100 Tensor Core GPU datasheet",
    2021,
    "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
    "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    "bandwidth, links, power",
)
_ADA_PAPER = Source(
    "NVIDIA Ada GPU Architecture, white paper 2.01",
    2023,
    "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf",
    "fp64 as 1/64 of fp32, and for GeForce cards all rates, clocks and caches",
)
_GA102_PAPER = Source(
    "NVIDIA Ampere GA102 GPU Architecture, white paper 2.0",
    2021,
    "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    "operations per clock of an SM, fp64 as 1/64 of fp32, L2",
)

_H100_SXM_RATES = {
    "fp64": 66.9e12, "fp32": 66.9e12, "tf32": 494.7e12, "bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12,
    "int8": 1978.9e12,
}  # fmt: skip
_H100_SXM_SPARSE = {"tf32": 989.4e12, "bf16": 1978.9e12, "fp16": 1978.9e12, "fp8": 3957.8e12, "int8": 3957.8e12}
_H100_NVL_RATES = _tensor(835.5e12, fp64=60e12, fp32=60e12)
_H100_NVL_SPARSE = {"tf32": 835e12, "bf16": 1671e12, "fp16": 1671e12, "fp8": 3341e12, "int8": 3341e12}
_A100_RATES = _tensor(312e12, fp8=False, fp64=19.5e12, fp32=19.5e12)
_A100_SPARSE = {"tf32": 312e12, "bf16": 624e12, "fp16": 624e12, "int8": 1248e12}
_HOPPER_CLOCK_NOTE = (
    "The sheet prints no clock: it follows from the rates, 132 SMs and 4096 dense bf16 operations a clock and SM."
)

DATASHEETS = (
    Datasheet(
        name="H100 SXM5",
        names=("NVIDIA H100 80GB HBM3",),
        architecture="Hopper",
        sources=(_HOPPER_PAPER, _H100_PAGE),
        memory_bytes_per_s=3.35e12,
        rates=_H100_SXM_RATES,
        sparse=_H100_SXM_SPARSE,
        boost_mhz=1980,
        tensor_boost_mhz=1830,
        memory_mhz=2619,
        sm_count=132,
        l2_bytes=50 * MB,
        nvlink_bytes_per_s=450e9,
        pcie_bytes_per_s=PCIE_5,
        power_w=700,
        note="The memory clock is the one that gives the printed bandwidth over 5120 bits.",
    ),
    Datasheet(
        name="H100 PCIe",
        names=("NVIDIA H100 PCIe",),
        architecture="Hopper",
        sources=(_HOPPER_PAPER, _H100_PAGE),
        memory_bytes_per_s=2.0e12,
        rates={"fp64": 51.2e12, "fp32": 51.2e12, "tf32": 378e12, "bf16": 756e12, "fp16": 756e12, "fp8": 1513e12,
               "int8": 1513e12},
        sparse={"tf32": 756e12, "bf16": 1513e12, "fp16": 1513e12, "fp8": 3026e12, "int8": 3026e12},
        boost_mhz=1755,
        tensor_boost_mhz=1620,
        sm_count=114,
        l2_bytes=50 * MB,
        nvlink_bytes_per_s=300e9,
        pcie_bytes_per_s=PCIE_5,
        power_w=350,
    ),
    Datasheet(
        name="H100 NVL",
        names=("NVIDIA H100 NVL",),
        architecture="Hopper",
        sources=(
            Source(
                "NVIDIA H100 Tensor Core GPU datasheet, H100 NVL", 2024, "https://www.nvidia.com/en-us/data-center/h100/"
            ),
        ),
        memory_bytes_per_s=3.9e12,
        rates=_H100_NVL_RATES,
        sparse=_H100_NVL_SPARSE,
        boost_mhz=1785,
        tensor_boost_mhz=1545,
        sm_count=132,
        nvlink_bytes_per_s=300e9,
        pcie_bytes_per_s=PCIE_5,
        power_w=400,
        note=_HOPPER_CLOCK_NOTE,
    ),
    Datasheet(
        name="H200 SXM",
        names=("NVIDIA H200",),
        architecture="Hopper",
        sources=(
            Source("NVIDIA H200 Tensor Core GPU datasheet", 2024, "https://www.nvidia.com/en-us/data-center/h200/"),
        ),
        memory_bytes_per_s=4.8e12,
        rates=_H100_SXM_RATES,
        sparse=_H100_SXM_SPARSE,
        boost_mhz=1980,
        tensor_boost_mhz=1830,
        sm_count=132,
        nvlink_bytes_per_s=450e9,
        pcie_bytes_per_s=PCIE_5,
        power_w=700,
        note="Printed rates are those of the H100 SXM5, to the digits that are printed. " + _HOPPER_CLOCK_NOTE,
    ),
    Datasheet(
        name="H200 NVL",
        names=("NVIDIA H200 NVL",),
        architecture="Hopper",
        sources=(
            Source(
                "NVIDIA H200 Tensor Core GPU datasheet, H200 NVL", 2024, "https://www.nvidia.com/en-us/data-center/h200/"
            ),
        ),
        memory_bytes_per_s=4.8e12,
        rates=_H100_NVL_RATES,
        sparse=_H100_NVL_SPARSE,
        boost_mhz=1785,
        tensor_boost_mhz=1545,
        sm_count=132,
        nvlink_bytes_per_s=450e9,
        pcie_bytes_per_s=PCIE_5,
        power_w=600,
        note=_HOPPER_CLOCK_NOTE,
    ),
    Datasheet(
        name="B200",
        names=("NVIDIA B200",),
        architecture="Blackwell",
        sources=(
            Source(
                "NVIDIA HGX Platform specifications, HGX B200 (eight GPUs, divided by eight)",
                2025,
                "https://www.nvidia.com/en-us/data-center/hgx/",
                "rates, NVLink",
            ),
            Source(
                "NVIDIA DGX B200 datasheet (eight GPUs, divided by eight)",
                2025,
                "https://www.nvidia.com/en-us/data-center/dgx-b200/",
                "bandwidth",
            ),
            Source(
                "NVIDIA Blackwell Architecture technical brief",
                2024,
                "https://resources.nvidia.com/en-us-blackwell-architecture",
                "power",
            ),
        ),
        memory_bytes_per_s=8.0e12,
        rates=_tensor(2.25e15, fp64=37e12, fp32=75e12, fp4=9e15),
        sparse={"tf32": 2.25e15, "bf16": 4.5e15, "fp16": 4.5e15, "fp8": 9e15, "int8": 9e15, "fp4": 18e15},
        nvlink_bytes_per_s=900e9,
        power_w=1000,
        note="No clock, SM count or cache size is printed: bounds at the clock that ran need a measured peak.",
    ),
    Datasheet(
        name="A100 SXM4 80 GB",
        names=("NVIDIA A100-SXM4-80GB",),
        architecture="Ampere",
        sources=(_AMPERE_PAPER, _A100_SHEET),
        memory_bytes_per_s=2.039e12,
        rates=_A100_RATES,
        sparse=_A100_SPARSE,
        boost_mhz=1410,
        tensor_boost_mhz=1410,
        sm_count=108,
        l2_bytes=40 * MB,
        nvlink_bytes_per_s=300e9,
        pcie_bytes_per_s=PCIE_4,
        power_w=400,
    ),
    Datasheet(
        name="A100 SXM4 40 GB",
        names=("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
        architecture="Ampere",
        sources=(_AMPERE_PAPER, _A100_SHEET),
        memory_bytes_per_s=1.555e12,
        rates=_A100_RATES,
        sparse=_A100_SPARSE,
        boost_mhz=1410,
        tensor_boost_mhz=1410,
        memory_mhz=1215,
        sm_count=108,
        l2_bytes=40 * MB,
        nvlink_bytes_per_s=300e9,
        pcie_bytes_per_s=PCIE_4,
        power_w=400,
    ),
    Datasheet(
        name="A100 PCIe 80 GB",
        names=("NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-80GB"),
        architecture="Ampere",
        sources=(_AMPERE_PAPER, _A100_SHEET),
        memory_bytes_per_s=1.935e12,
        rates=_A100_RATES,
        sparse=_A100_SPARSE,
        boost_mhz=1410,
        tensor_boost_mhz=1410,
        sm_count=108,
        l2_bytes=40 * MB,
        nvlink_bytes_per_s=300e9,
        pcie_bytes_per_s=PCIE_4,
        power_w=300,
    ),
    Datasheet(
        name="A100 PCIe 40 GB",
        names=("NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"),
        architecture="Ampere",
        sources=(_AMPERE_PAPER, _A100_SHEET),
        memory_bytes_per_s=1.555e12,
        rates=_A100_RATES,
        sparse=_A100_SPARSE,
        boost_mhz=1410,
        tensor_boost_mhz=1410,
        memory_mhz=1215,
        sm_count=108,
        l2_bytes=40 * MB,
        nvlink_bytes_per_s=300e9,
        pcie_bytes_per_s=PCIE_4,
        power_w=250,
    ),
    Datasheet(
        name="L40S",
        names=("NVIDIA L40S",),
        architecture="Ada",
        sources=(
            Source("NVIDIA L40S datasheet", 2023, "https://www.nvidia.com/en-us/data-center/l40s/", "all but fp64"),
            _ADA_PAPER,
        ),
        memory_bytes_per_s=864e9,
        rates={"fp64": 91.6e12 / 64, "fp32": 91.6e12, "tf32": 183e12, "bf16": 362.05e12, "fp16": 362.05e12,
               "fp8": 733e12, "int8": 733e12},
        sparse={"tf32": 366e12, "bf16": 733e12, "fp16": 733e12, "fp8": 1466e12, "int8": 1466e12},
        boost_mhz=2520,
        tensor_boost_mhz=2520,
        sm_count=142,
        pcie_bytes_per_s=PCIE_4,
        power_w=350,
        note="fp16 and fp8 run at full rate with an fp32 accumulator. Its clock is 91.6 Tflop/s over 18176 cores.",
    ),
    Datasheet(
        name="A10",
        names=("NVIDIA A10",),
        architecture="Ampere",
        sources=(
            Source(
                "NVIDIA A10 datasheet",
                2021,
                "https://www.nvidia.com/en-us/data-center/products/a10-gpu/",
                "rates but fp64, bandwidth, link, power",
            ),
            _GA102_PAPER,
        ),
        memory_bytes_per_s=600e9,
        rates={"fp64": 31.2e12 / 64, "fp32": 31.2e12, "tf32": 62.5e12, "bf16": 125e12, "fp16": 125e12, "int8": 250e12},
        sparse={"tf32": 125e12, "bf16": 250e12, "fp16": 250e12, "int8": 500e12},
        boost_mhz=1695,
        tensor_boost_mhz=1695,
        sm_count=72,
        l2_bytes=6 * MB,
        pcie_bytes_per_s=PCIE_4,
        power_w=150,
        note="fp16 runs at full rate with an fp32 accumulator. Its clock is 31.2 Tflop/s over 9216 cores.",
    ),
    Datasheet(
        name="GeForce RTX 4090",
        names=("NVIDIA GeForce RTX 4090",),
        architecture="Ada",
        sources=(_ADA_PAPER,),
        memory_bytes_per_s=1008e9,
        rates={"fp64": 82.6e12 / 64, "fp32": 82.6e12, "tf32": 82.6e12, "bf16": 165.2e12, "fp16": 165.2e12,
               "fp8": 330.3e12, "int8": 660.6e12},
        sparse={"tf32": 165.2e12, "bf16": 330.4e12, "fp16": 330.4e12, "fp8": 660.6e12, "int8": 1321.2e12},
        boost_mhz=2520,
        tensor_boost_mhz=2520,
        sm_count=128,
        l2_bytes=72 * MB,
        pcie_bytes_per_s=PCIE_4,
        power_w=450,
        note="fp16 and fp8 with an fp32 accumulator; an fp16 accumulator doubles both (330.3 and 660.6 Tflop/s).",
    ),
    Datasheet(
        name="GeForce RTX 3060 12 GB",
        names=("NVIDIA GeForce RTX 3060",),
        architecture="Ampere",
        sources=(
            Source(
                "GeForce RTX 3060 specifications (3584 cores, 1.78 GHz, 15 Gbit/s over 192 bits, 170 W)",
                2021,
                "https://www.nvidia.com/en-us/geforce/graphics-cards/30-series/rtx-3060-3060ti/",
                "clock, cores, memory, power",
            ),
            _GA102_PAPER,
        ),
        memory_bytes_per_s=360e9,
        rates={"fp64": 12.7e12 / 64, "fp32": 12.7e12, "tf32": 12.7e12, "bf16": 25.5e12, "fp16": 25.5e12,
               "int8": 102e12},
        sparse={"tf32": 25.5e12, "bf16": 51e12, "fp16": 51e12, "int8": 204e12},
        boost_mhz=1777,
        tensor_boost_mhz=1777,
        sm_count=28,
        pcie_bytes_per_s=PCIE_4,
        power_w=170,
        note="Rates are 28 SMs times the operations per clock of the GA102 paper, fp16 with an fp32 accumulator; an "
        "fp16 accumulator doubles fp16 (51 Tflop/s). An 8 GB card of the same name has 240 GB/s.",
    ),
)  # fmt: skip


def datasheet(gpu_name: str) -> Datasheet | None:
    """The sheet of a GPU by the name that the driver gives it, or None: a similar GPU's rates would be wrong ones."""
    return next((sheet for sheet in DATASHEETS if gpu_name in sheet.names), None)


def ceiling_value(gpu_name: str, ceiling: str) -> float | None:
    """`Datasheet.ceiling` of a GPU by the name that the driver gives it; None for one without a sheet."""
    sheet = datasheet(gpu_name)
    return sheet.ceiling(ceiling) if sheet else None


def table() -> str:
    """All sheets as a Markdown table, for docs/ceilings.md."""
    head = ("GPU", "memory TB/s", *(f"{name} Tflop/s" for name in PRINTED), "boost MHz", "tensor boost MHz", "SMs",
            "L2 MiB", "NVLink GB/s", "PCIe GB/s", "W")  # fmt: skip
    lines = [_row(head), _row(["---"] + ["---:"] * (len(head) - 1))]
    for sheet in DATASHEETS:
        cells: list[str] = [sheet.name, _figure(sheet.memory_bytes_per_s, 1e12)]
        cells += [_figure(sheet.rates.get(name), 1e12) for name in PRINTED]
        cells += [_figure(sheet.boost_mhz), _figure(sheet.tensor_boost_mhz), _figure(sheet.sm_count)]
        cells += [_figure(sheet.l2_bytes, MB), _figure(sheet.nvlink_bytes_per_s, 1e9)]
        cells += [_figure(sheet.pcie_bytes_per_s, 1e9), _figure(sheet.power_w)]
        lines.append(_row(cells))
    lines.append("")
    for sheet in DATASHEETS:
        driver = ", ".join(f"`{name}`" for name in sheet.names)
        origin = "; ".join(
            f"[{source.title}]({source.url}), {source.year}" + (f" ({source.what})" if source.what else "")
            for source in sheet.sources
        )
        lines.append(f"- **{sheet.name}** (driver: {driver}): {origin}." + (f" {sheet.note}" if sheet.note else ""))
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _figure(value: float | None, unit: float = 1.0) -> str:
    """A value in a unit, to four digits; a dash where it is not known."""
    return "–" if value is None else f"{value / unit:.4g}"
