"""The least time that a call can take on a known GPU: its bytes over bandwidth, its operations over peak rate.

Datasheet values, dense and without sparsity, at boost clock. A GPU that is not listed has no bound: a dash.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels import catalog
from kernels.catalog.model import Case, Target


@dataclass(frozen=True, slots=True)
class Datasheet:
    """Peak rates: bytes per second of device memory, operations per second by dtype."""

    name: str
    bandwidth_bytes_per_s: float
    flops_per_s: dict[str, float]
    source: str


_HOPPER_SXM = {
    "float64": 67e12, "float32": 67e12, "bfloat16": 989e12, "float16": 989e12,
    "float8_e4m3fn": 1979e12, "float8_e5m2": 1979e12, "int8": 1979e12,
}  # fmt: skip

DATASHEETS = (
    Datasheet("NVIDIA H200", 4.8e12, _HOPPER_SXM, "NVIDIA H200 datasheet, 2024"),
    Datasheet("NVIDIA H100 80GB HBM3", 3.35e12, _HOPPER_SXM, "NVIDIA H100 datasheet, SXM5, 2023"),
    Datasheet(
        "NVIDIA H100 PCIe",
        2.0e12,
        {"float64": 51e12, "float32": 51e12, "bfloat16": 756e12, "float16": 756e12, "float8_e4m3fn": 1513e12,
         "float8_e5m2": 1513e12, "int8": 1513e12},
        "NVIDIA H100 datasheet, PCIe, 2023",
    ),
    Datasheet(
        "NVIDIA A100-SXM4-80GB",
        2.039e12,
        {"float64": 19.5e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12, "int8": 624e12},
        "NVIDIA A100 datasheet, 2021",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of one case, in ms, what sets it, and where the rates come from."""

    ms: float
    limiter: str  # "bytes" or "flops"
    source: str


def datasheet(gpu_name: str) -> Datasheet | None:
    """The rates of a GPU by the name that the driver gives it, or None."""
    return next((sheet for sheet in DATASHEETS if gpu_name == sheet.name), None)


def bound(target: Target, case: Case, gpu_name: str) -> Bound | None:
    """The speed of light of a case, or None for an unknown GPU or a lesson without bytes and flops.

    The rate for operations is that of the first floating-point input; fp32 counts as SIMT, without TF32.
    """
    sheet = datasheet(gpu_name)
    if sheet is None:
        return None
    bytes_ms = catalog.bytes_moved(target, case) / sheet.bandwidth_bytes_per_s * 1e3
    dtype = next((s.dtype for s in (*target.inputs, *target.outputs) if s.dtype in sheet.flops_per_s), "float32")
    flops_ms = float(catalog.flops(target, case)) / sheet.flops_per_s[dtype] * 1e3
    if bytes_ms <= 0 and flops_ms <= 0:
        return None
    if flops_ms > bytes_ms:
        return Bound(flops_ms, "flops", sheet.source)
    return Bound(bytes_ms, "bytes", sheet.source)
