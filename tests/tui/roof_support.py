"""What the tests of roofline and ceilings share: lessons that count their work, and a store with a GPU's ceilings."""

from __future__ import annotations

from pathlib import Path

from aisp.engine import paths
from aisp.kernels.catalog import parse_tensor
from aisp.kernels.catalog.model import Case, Catalog
from aisp.store import Store
from aisp.store.outcomes import Limiter, Timing
from aisp.store.record import Arm, Ceiling, Peak, Quality, RooflineBound
from aisp.store.ulid import new_ulid
from tests.replacing import replace
from tests.store.examples import finished, planned, samples_of
from tests.tui.app_support import make_catalog

GPU_NAME = "NVIDIA H100 80GB HBM3"
GPU_UUID = "GPU-1"
GEMM, TRANSPOSE = "ch07:gather", "ch07:transpose"


def counted_catalog(root: Path) -> Catalog:
    """The small catalogue; one target multiplies bf16 matrices, one only moves bytes, the others count nothing."""
    catalog = make_catalog(root)
    changes = {
        GEMM: {
            "cases": (Case("default", {"M": 4096}),),
            "inputs": (parse_tensor("a", "bfloat16 [M, M] normal"), parse_tensor("b", "bfloat16 [M, M] normal")),
            "outputs": (parse_tensor("y", "bfloat16 [M, M]", output=True),),
            "flops": "2*M*M*M",
        },
        TRANSPOSE: {
            "cases": (Case("default", {"M": 8192}),),
            "inputs": (parse_tensor("x", "float32 [M, M] normal"),),
            "outputs": (parse_tensor("y", "float32 [M, M]", output=True),),
        },
    }
    targets = tuple(
        replace(target, **changes[target.id]) if target.id in changes else target  # type: ignore[arg-type]
        for target in catalog.targets
    )
    return replace(catalog, targets=targets)


def ceilings() -> Peak:
    """What an H100 was measured to do: 3 TB/s and 700 TFLOP/s in bf16, at a lowered clock."""
    return Peak(
        id=new_ulid(),
        gpu=GPU_NAME,
        gpu_uuid=GPU_UUID,
        wall="2026-05-04T10:00:00+00:00",
        environment="",
        ceilings=(
            Ceiling("launch graph node", 1.1e-6, "s", 1980.0, 2619.0, note="64 empty kernels in one graph"),
            Ceiling("dram read", 2.9e12, "bytes/s", 1980.0, 2619.0, 1 << 30),
            Ceiling("dram read", 3.0e12, "bytes/s", 1980.0, 2619.0, 4 << 30),
            Ceiling("bf16 dense", 7.0e14, "flop/s", 1410.0, 2619.0),
            Ceiling("peer copy", None, "bytes/s", note="there is one GPU here, and a copy between peers takes two"),
        ),
    )


def fill_roofs(target: str, times_ms: tuple[float, float], *, peak: bool = True, device: str = "cuda") -> str:
    """Store a run of a target on that GPU, and its ceilings; returns the run's id."""
    base_ms, best_ms = times_ms
    light = RooflineBound(
        spec_ms=best_ms * 0.8,
        clock_ms=best_ms * 0.85,
        measured_ms=best_ms * 0.9 if peak else None,
        limiter=Limiter.FLOPS if target == GEMM else Limiter.BYTES,
    )
    quality = Quality(
        drift=0.024, autocorrelation=0.05, throttled_share=0.03, resolution_ms=3.2e-5, overhead_ms=1.28e-3
    )
    with Store.open(paths.database_file()) as store:
        if peak:
            store.put_peak(ceilings())
        environment = store.put_environment({"gpu": GPU_NAME, "gpu_uuid": GPU_UUID})
        run = planned(target, device=device, environment=environment)
        store.plan([run])
        end = finished(run)

        def arm(record: Arm, time_ms: float, score: float | None) -> Arm:
            return replace(
                record,
                median_ms=time_ms,
                low_ms=time_ms * 0.99,
                high_ms=time_ms * 1.01,
                timing=Timing.COLD_GRAPH,
                calls=16,
                sm_clock_mhz=1755.0,
                sol=0.9 * best_ms / time_ms,
                light=replace(light, score=score),
                quality=quality,
            )

        end = replace(end, arms=(arm(end.arms[0], base_ms, None), arm(end.arms[1], best_ms, 0.81)))
        end = replace(
            end,
            comparisons=(
                replace(end.comparisons[0], note="the clocks differed: 1975 MHz for baseline, 1755 MHz for optimized"),
            ),
        )
        store.finish(end, {record.rung: samples_of(100) for record in end.arms})
    return run.id
