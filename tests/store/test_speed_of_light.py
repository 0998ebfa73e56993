"""The least time that a call can take: arithmetic that can be done by hand, and a dash where nothing is known."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog.model import LIMITERS, Case, Target
from aisp.store.outcomes import Limiter, Timing
from aisp.store.record import Ceiling, LinkUse, Peak, RooflineBound
from aisp.store.results.datasheets import DATASHEETS, PRECISIONS, Datasheet, ceiling_value, datasheet
from aisp.store.results.roofline import Roof, roofline
from aisp.store.results.speed_of_light import (
    CEILINGS,
    DENSE,
    DRAM,
    LAUNCH_EMPTY,
    LAUNCH_GRAPH_NODE,
    PRECISION_OF,
    at_fast_host_ms,
    light,
    link_use,
    work,
)
from tests import datasheets
from tests.engine.targets import write_target

H100, H200, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB"
UNKNOWN = "NVIDIA Quadro Nothing"
DOCS = Path(__file__).parents[2] / "docs"


def matmul(root: Path, dtype: str, *, k: int = 8192, flops: str = "2*M*N*K") -> Target:
    return write_target(
        root,
        {},
        axes=f"{{ M = 8192, N = 8192, K = {k} }}",
        flops=flops,
        inputs=f'a = "{dtype} [M, K] normal"\nb = "{dtype} [K, N] normal"',
        outputs=f'c = "{dtype} [M, N]"',
    )


def vector(root: Path, count: int = 1 << 26) -> Target:
    """y = 2 x on float32: 8 bytes and no operation an element."""
    return write_target(root, {}, axes=f"{{ N = {count} }}")


def peak(**values: float) -> Peak:
    """A measured peak; underscores in names are spaces, clocks stand at 1600 MHz."""
    named = {name.replace("_", " "): value for name, value in values.items()}
    ceilings = [Ceiling(name, value, CEILINGS[name], sm_clock_mhz=1600.0) for name, value in named.items()]
    return Peak("01", "a GPU", "GPU-1", "2026-01-01T00:00:00.000+00:00", "", tuple(ceilings))


def lit(target: Target, gpu: str = H100, measured: Peak | None = None, **arguments: object) -> RooflineBound | None:
    """An arm's light; 1 ms, cold and held where the test says nothing else."""
    given: dict[str, object] = {"time_ms": 1.0, "base_ms": None, "timing": Timing.COLD} | arguments
    return light(target, target.case("default"), gpu, measured, **given)  # type: ignore[arg-type]


def bound(target: Target, case: Case, gpu: str) -> RooflineBound | None:
    """The bound by the datasheet alone."""
    return light(target, case, gpu, None, time_ms=1e9, base_ms=None, timing=Timing.COLD)


def known(found: RooflineBound | None) -> RooflineBound:
    assert found is not None
    return found


# -- the bound by the datasheet ------------------------------------------------------------------------------------


def test_a_transpose_is_bound_by_its_bytes() -> None:
    target = catalog.load().find("ch07:transpose")
    case = target.case("default")
    M, N = case.axes["M"], case.axes["N"]
    found = bound(target, case, H100)
    assert found is not None
    assert found.limiter == "bytes"
    assert found.spec_ms == pytest.approx(2 * M * N * 4 / 3.35e12 * 1e3)


@pytest.mark.parametrize(
    ("gpu", "dtype", "flops_per_s"),
    [
        (H100, "bfloat16", 989.4e12),
        (H100, "float32", 66.9e12),
        (H200, "bfloat16", 989.4e12),
        (A100, "bfloat16", 312e12),
        (A100, "float32", 19.5e12),
        ("NVIDIA H100 PCIe", "float16", 756e12),
        ("NVIDIA GeForce RTX 4090", "float16", 165.2e12),  # with the fp32 accumulator
        ("NVIDIA B200", "float8_e4m3fn", 4.5e15),
    ],
)
def test_a_large_matmul_is_bound_by_its_operations(tmp_path: Path, gpu: str, dtype: str, flops_per_s: float) -> None:
    target = matmul(tmp_path, dtype)
    found = bound(target, target.case("default"), gpu)
    assert found is not None
    assert found.limiter == "flops"
    assert found.spec_ms == pytest.approx(2 * 8192**3 / flops_per_s * 1e3)


def test_a_thin_matmul_is_bound_by_its_bytes(tmp_path: Path) -> None:
    target = matmul(tmp_path, "bfloat16", k=16)
    found = bound(target, target.case("default"), H200)
    assert found is not None
    assert found.limiter == "bytes"
    assert found.spec_ms == pytest.approx((2 * 8192 * 16 + 8192 * 8192) * 2 / 4.8e12 * 1e3)


def test_an_index_before_the_matrix_does_not_choose_the_rate(tmp_path: Path) -> None:
    target = write_target(
        tmp_path,
        {},
        axes="{ N = 1024 }",
        flops="10**12",
        inputs='i = "int64 [N] integers(0, N)"\nx = "bfloat16 [N] normal"',
        outputs='y = "float32 [N]"',
    )
    found = bound(target, target.case("default"), H100)
    assert found is not None
    assert found.spec_ms == pytest.approx(1e12 / 989.4e12 * 1e3)


@pytest.mark.parametrize("gpu", ["", UNKNOWN, "NVIDIA H100", "nvidia h200", "NVIDIA GeForce RTX 4090 Laptop GPU"])
def test_a_gpu_that_is_not_known_has_no_bound(tmp_path: Path, gpu: str) -> None:
    """A rate of a similar GPU would be a wrong number; a dash is right."""
    assert datasheet(gpu) is None
    target = matmul(tmp_path, "bfloat16")
    assert bound(target, target.case("default"), gpu) is None
    assert lit(target, gpu) is None
    assert roofline(target, target.case("default"), gpu, None) is None


def test_a_lesson_without_bytes_and_operations_has_no_bound(tmp_path: Path) -> None:
    target = write_target(tmp_path, {}, more='bytes = "0"')
    assert bound(target, target.case("default"), H100) is None
    assert lit(target, H100, peak(dram_read=3e12, launch_empty=2e-6)) is None


@pytest.mark.parametrize(
    ("gpu", "precision", "widened"),
    [
        (A100, "fp8", "bf16"),
        (A100, "fp4", "bf16"),
        (H100, "fp4", "fp8"),
        (H100, "fp8", "fp8"),
        ("NVIDIA B200", "fp4", "fp4"),
    ],
)
def test_a_format_that_a_gpu_has_no_tensor_cores_for_is_bounded_by_what_it_is_widened_to(
    tmp_path: Path, gpu: str, precision: str, widened: str
) -> None:
    """An fp8 product on an A100: the bytes alone would bound it twenty times too low."""
    narrow = dataclasses.replace(matmul(tmp_path, "float8_e4m3fn"), precision=precision)
    same = dataclasses.replace(narrow, precision=widened)
    case = narrow.case("default")
    found = bound(narrow, case, gpu)
    assert found is not None and found.limiter == "flops"
    assert found == bound(same, case, gpu)
    roof = roofline(narrow, case, gpu, None)
    assert roof is not None and roof.precision == widened
    measured = known(lit(narrow, gpu, peak(dram_read=3e12, bf16_dense=2e14, fp8_dense=4e14), time_ms=99.0)).measured_ms
    rate = {"bf16": 2e14, "fp8": 4e14}.get(widened)  # fp4 is not measured: where a GPU has it, no bound is
    assert measured == (pytest.approx(roof.flops / rate * 1e3) if rate else None)


@pytest.mark.parametrize(
    ("gpu", "precision", "as_printed", "ceiling"),
    [
        (H200, "fp8 promoted", "fp8", "fp8 promoted dense"),  # one rate is printed; the measured ones differ
        (A100, "fp8 promoted", "bf16", "bf16 dense"),
        (H200, "mxfp8", "bf16", "bf16 dense"),  # Hopper's tensor cores take no scales: widened to bf16
        (H200, "nvfp4", "bf16", "bf16 dense"),
        ("NVIDIA B200", "mxfp8", "fp8", "mxfp8 dense"),
        ("NVIDIA B200", "nvfp4", "fp4", "nvfp4 dense"),
    ],
)
def test_a_format_with_scales_is_bounded_by_the_rate_that_the_gpu_can_have_in_it(
    tmp_path: Path, gpu: str, precision: str, as_printed: str, ceiling: str
) -> None:
    scaled = dataclasses.replace(matmul(tmp_path, "float8_e4m3fn"), precision=precision)
    case = scaled.case("default")
    assert bound(scaled, case, gpu) == bound(dataclasses.replace(scaled, precision=as_printed), case, gpu)
    rates = {"bf16_dense": 2e14, "fp8_dense": 5e14, "fp8_promoted_dense": 4e14}
    measured = known(lit(scaled, gpu, peak(dram_read=3e12, **rates), time_ms=99.0)).measured_ms
    rate = {"bf16 dense": 2e14, "fp8 promoted dense": 4e14}.get(ceiling)  # those of Blackwell's scales are not measured
    assert measured == (pytest.approx(2 * 8192**3 / rate * 1e3) if rate else None)


def test_the_block_scaling_lab_has_the_light_of_its_own_text() -> None:
    """Fast accumulation is no ceiling of a sum that is promoted, and fp8's rate is none of mxfp8 on Hopper."""
    found = catalog.load()
    promoted, mxfp8, nvfp4 = (found.find(f"labs/block_scaling:{name}") for name in ("block_scaling", "mxfp8", "nvfp4"))
    rates = peak(dram_read=4.6e12, fp8_dense=1550e12, fp8_promoted_dense=1230e12, bf16_dense=800e12)
    for target, case, rate in ((promoted, "default", 1230e12), (mxfp8, "default", 800e12), (nvfp4, "prefill", 800e12)):
        at = target.case(case)
        roof = light(target, at, H200, rates, time_ms=9.0, base_ms=None, timing=Timing.COLD)
        assert known(roof).limiter is Limiter.FLOPS
        assert known(roof).measured_ms == pytest.approx(catalog.flops(target, at) / rate * 1e3)


# -- links ---------------------------------------------------------------------------------------------------------


def sent(root: Path, link: str = "pcie", count: int = 1 << 24, **bytes_over: str) -> Target:
    """A step that moves `count` floats over a link, and as many through device memory; no arithmetic."""
    keys = "\n".join(f'{key} = "{expression}"' for key, expression in bytes_over.items())
    return write_target(root, {}, axes=f"{{ N = {count} }}", more=f'link = "{link}"\n{keys}')


@pytest.mark.parametrize(
    ("link", "over", "limiter", "printed", "ceiling"),
    [
        ("pcie", {"link_in": "4*N"}, Limiter.PCIE, 64e9, "pcie_h2d_pinned"),
        ("pcie", {"link_out": "4*N"}, Limiter.PCIE, 64e9, "pcie_d2h_pinned"),
        ("nvlink", {"link_in": "4*N", "link_out": "4*N"}, Limiter.NVLINK, 450e9, "peer_copy"),
    ],
)
def test_what_must_cross_a_link_is_bounded_by_the_link(
    tmp_path: Path, link: str, over: dict[str, str], limiter: Limiter, printed: float, ceiling: str
) -> None:
    target = sent(tmp_path, link, **over)
    found = bound(target, target.case("default"), H200)
    assert found is not None and (found.limiter, found.spec_ms) == (limiter, pytest.approx((4 << 24) / printed * 1e3))
    measured = peak(dram_read=4e12, **{ceiling: 50e9})
    roof = known(lit(target, H200, measured, time_ms=2.0))
    assert (roof.limiter, roof.measured_ms) == (limiter, pytest.approx((4 << 24) / 50e9 * 1e3))
    without = known(lit(target, H200, peak(dram_read=4e12), time_ms=2.0))  # the link was not measured: no such bound
    assert without.measured_ms is None and without.bound_ms == pytest.approx(found.spec_ms)


def test_both_directions_of_a_link_go_at_the_same_time(tmp_path: Path) -> None:
    target = sent(tmp_path, link_in="8*N", link_out="4*N")
    measured = peak(dram_read=4e12, pcie_h2d_pinned=50e9, pcie_d2h_pinned=20e9)
    assert known(lit(target, H200, measured, time_ms=9.0)).measured_ms == pytest.approx((4 << 24) / 20e9 * 1e3)


PEER_RATES = {"peer_copy": 360e9, "peer_copy_both_ways": 300e9}
SM_RATES = {"peer_SM_copy": 390e9, "peer_SM_copy_both_ways": 330e9}


@pytest.mark.parametrize(
    ("over", "rates", "carried"),
    [
        ({"link_in": "4*N"}, PEER_RATES, 360e9),
        ({"link_out": "4*N"}, PEER_RATES, 360e9),
        ({"link_in": "4*N", "link_out": "4*N"}, PEER_RATES, 300e9),
        ({"link_in": "4*N", "link_out": "4*N"}, {"peer_copy": 360e9}, 360e9),  # an older peak: one way alone
        ({"link_in": "4*N"}, {**PEER_RATES, **SM_RATES}, 390e9),  # the SMs are faster than the copy engine
        ({"link_in": "4*N", "link_out": "4*N"}, {**PEER_RATES, **SM_RATES}, 330e9),
        ({"link_in": "4*N", "link_out": "4*N"}, {**PEER_RATES, "peer_SM_copy_both_ways": 250e9}, 300e9),
        # Half of it while the other direction is busy, half of it alone.
        ({"link_in": "4*N", "link_out": "2*N"}, PEER_RATES, 2 / (1 / 300e9 + 1 / 360e9)),
        ({"link_in": "2*N", "link_out": "4*N"}, PEER_RATES, 2 / (1 / 300e9 + 1 / 360e9)),
        ({"link_in": "4*N", "link_out": "4*N"}, {"peer_copy": 360e9, "peer_copy_both_ways": 365e9}, 360e9),
        ({"link_in": "4*N"}, {"peer_copy_both_ways": 300e9}, None),  # nothing says what one way alone can carry
        ({"link_in": "4*N", "link_out": "4*N"}, {"nccl_all-reduce": 340e9}, None),  # bounds no lesson
    ],
)
def test_a_link_between_gpus_is_bounded_by_the_fastest_copy_in_the_directions_that_are_used(
    tmp_path: Path, over: dict[str, str], rates: dict[str, float], carried: float | None
) -> None:
    target = sent(tmp_path, "nvlink", count=1 << 28, **over)
    found = known(lit(target, H200, peak(dram_read=4e12, **rates), time_ms=9.0))
    assert found.measured_ms == (None if carried is None else pytest.approx((4 << 28) / carried * 1e3))
    roof = roofline(target, target.case("default"), H200, peak(dram_read=4e12, **rates))
    assert roof is not None and (roof.path, roof.bytes) == ("nvlink", 4 << 28)
    assert [one.bandwidth_bytes_per_s for one in roof.roofs] == ([pytest.approx(carried)] if carried else []) + [450e9]


def test_an_arm_says_what_it_carries_over_its_link_and_its_share_of_what_the_link_can(tmp_path: Path) -> None:
    target = sent(tmp_path, "nvlink", count=1 << 28, link_in="4*N", link_out="2*N")
    found = known(lit(target, H200, peak(dram_read=4e12, **PEER_RATES), time_ms=10.0)).link
    assert found is not None and (found.over, found.measured) == (Limiter.NVLINK, True)
    assert found.in_bytes_per_s == pytest.approx((4 << 28) / 10e-3)
    assert found.out_bytes_per_s == pytest.approx((2 << 28) / 10e-3)
    assert found.in_share == pytest.approx((4 << 28) / 10e-3 * (1 / 300e9 + 1 / 360e9) / 2)
    assert found.out_share == pytest.approx((2 << 28) / 10e-3 / 300e9)  # busy only while the other direction is, too
    assert [name for name, _, _ in found.directions] == ["in", "out"]
    by_sheet = known(lit(target, H200, peak(dram_read=4e12), time_ms=10.0)).link
    assert by_sheet is not None and not by_sheet.measured
    assert (by_sheet.in_bytes_per_s, by_sheet.in_share) == (
        found.in_bytes_per_s,
        pytest.approx((4 << 28) / 10e-3 / 450e9),
    )


def test_a_host_link_is_used_in_one_direction_and_a_ceiling_that_is_not_known_leaves_no_share(tmp_path: Path) -> None:
    target = sent(tmp_path, count=1 << 26, link_out="4*N")
    found = known(lit(target, H200, peak(dram_read=4e12, pcie_d2h_pinned=50e9), time_ms=8.0)).link
    assert found == LinkUse(
        Limiter.PCIE,
        out_bytes_per_s=pytest.approx((4 << 26) / 8e-3),
        out_share=pytest.approx((4 << 26) / 8e-3 / 50e9),
        measured=True,
    )
    unknown = link_use(work(target, target.case("default")), None, None, 8.0)
    assert unknown == LinkUse(Limiter.PCIE, out_bytes_per_s=pytest.approx((4 << 26) / 8e-3))


def test_a_lesson_without_a_link_and_a_run_on_the_host_use_none(tmp_path: Path) -> None:
    assert known(lit(vector(tmp_path / "a"), H200, peak(dram_read=4e12))).link is None
    assert lit(sent(tmp_path / "b", link_in="4*N"), "", timing=Timing.HOST) is None


def test_a_step_whose_link_has_little_to_carry_is_bound_by_its_memory(tmp_path: Path) -> None:
    target = sent(tmp_path, link_in="4")
    assert known(lit(target, H200, peak(dram_read=4e12, pcie_h2d_pinned=50e9))).limiter is Limiter.BYTES


def test_the_kept_times_of_the_lessons_on_links_are_shares_of_the_link() -> None:
    """The H200's kept medians, against 53 GB/s of PCIe, which the lessons name: nine tenths, not one per cent."""
    found = catalog.load()
    rates = peak(dram_read=4.6e12, pcie_h2d_pinned=53e9, pcie_d2h_pinned=53e9, fp32_dense=50e12)
    kept = {run["target"]: run["runs"][0] for run in json.loads((DOCS / "results/h200.json").read_text())["targets"]}
    for name, rung, least in (
        ("ch02:pinned_gather", "optimized", 0.9),
        ("ch15:kv_page_send", "optimized_direct", 0.98),
        ("ch03:normalize_on_gpu", "optimized", 0.7),
        ("ch03:pin_every_step", "optimized", 0.3),  # the host's own copy into the kept buffer comes first
    ):
        target = found.find(name)
        time_ms = next(arm["median_ms"] for arm in kept[name]["rungs"] if arm["rung"] == rung)
        roof = light(
            target, target.case("default"), H200, rates, time_ms=time_ms, base_ms=None, timing=Timing.COLD_SYNC
        )
        assert known(roof).limiter is Limiter.PCIE
        assert least < (known(roof).bound_ms or 0.0) / time_ms < 1.05, name


def test_a_lessons_limiters_are_those_that_a_run_can_name() -> None:
    assert tuple(limiter.value for limiter in Limiter) == LIMITERS


def test_ranks_have_a_gpu_each_for_their_bytes_and_their_operations() -> None:
    target = catalog.load().find("ch04:bucketed_all_reduce")
    case = target.case("default")
    whole = catalog.bytes_moved(target, case)
    assert (work(target, case).bytes, work(target, case).flops) == (whole / 2, catalog.flops(target, case) / 2)


# -- an arm against its bounds -------------------------------------------------------------------------------------


def test_operations_follow_the_sm_clock_and_bytes_do_not(tmp_path: Path) -> None:
    product = known(lit(matmul(tmp_path / "a", "bfloat16"), sm_clock_mhz=915.0, time_ms=9.0))
    assert product.spec_ms == pytest.approx(2 * 8192**3 / 989.4e12 * 1e3)
    assert product.clock_ms == pytest.approx(2 * 2 * 8192**3 / 989.4e12 * 1e3)  # tensor cores are printed at 1830 MHz
    assert product.limiter is Limiter.FLOPS
    simt = known(lit(matmul(tmp_path / "b", "float32"), sm_clock_mhz=990.0, time_ms=99.0))
    assert simt.clock_ms == pytest.approx(2 * 2 * 8192**3 / 66.9e12 * 1e3)  # fp32 units at 1980 MHz
    moved = known(lit(vector(tmp_path / "c"), sm_clock_mhz=915.0))
    assert moved.clock_ms == moved.spec_ms == pytest.approx((8 << 26) / 3.35e12 * 1e3)


def test_without_a_clock_there_is_no_bound_at_the_clock_that_ran(tmp_path: Path) -> None:
    assert known(lit(vector(tmp_path / "a"))).clock_ms is None
    # The B200's sheet prints no clock: what its rates would be at another one is unknown.
    found = known(lit(matmul(tmp_path / "b", "bfloat16"), "NVIDIA B200", sm_clock_mhz=1500.0, time_ms=9.0))
    assert found.spec_ms is not None
    assert found.clock_ms is None


def test_measured_ceilings_bound_a_gpu_that_has_no_datasheet(tmp_path: Path) -> None:
    measured = peak(dram_read=2.0e12, dram_copy=1.5e12, bf16_dense=500e12, launch_empty=2e-6)
    moved = known(lit(vector(tmp_path / "a"), UNKNOWN, measured))
    assert (moved.spec_ms, moved.clock_ms, moved.limiter) == (None, None, Limiter.BYTES)
    assert moved.measured_ms == pytest.approx((8 << 26) / 2.0e12 * 1e3)  # the fastest way to move bytes
    product = known(lit(matmul(tmp_path / "b", "bfloat16"), UNKNOWN, measured, time_ms=9.0))
    assert product.measured_ms == pytest.approx(2 * 8192**3 / 500e12 * 1e3)
    assert product.limiter is Limiter.FLOPS
    assert lit(matmul(tmp_path / "c", "float32"), UNKNOWN, measured) is None  # fp32 was not measured


def test_a_short_call_at_a_high_clock_is_not_held_to_a_throttled_ceiling(tmp_path: Path) -> None:
    """The ceiling ran at 1600 MHz under sustained load; at 2000 MHz the same cycles take four fifths of the time."""
    measured = peak(dram_read=3e12, bf16_dense=500e12)
    found = known(lit(matmul(tmp_path, "bfloat16"), H100, measured, sm_clock_mhz=2000.0, time_ms=9.0))
    assert found.measured_ms == pytest.approx(2 * 8192**3 / 500e12 * 1e3 * 0.8)


def test_the_limiter_is_of_the_measured_bound_where_there_is_one(tmp_path: Path) -> None:
    # 68.7 Gflop are 69.5 us by the sheet; 151 MB are 45 us by the sheet and 151 us at 1 TB/s.
    target = matmul(tmp_path, "bfloat16", k=512)
    assert known(lit(target)).limiter is Limiter.FLOPS
    slow_memory = peak(dram_read=1.0e12, bf16_dense=989e12)
    assert known(lit(target, H100, slow_memory)).limiter is Limiter.BYTES


def test_a_call_smaller_than_a_launch_is_limited_by_the_launch(tmp_path: Path) -> None:
    measured = peak(dram_read=3e12, launch_empty=2.5e-6, launch_graph_node=1.0e-6)
    tiny = vector(tmp_path, 4096)  # 32 KB: 11 ns of bandwidth
    one = known(lit(tiny, H100, measured, time_ms=0.004))
    assert one.measured_ms == pytest.approx(2.5e-3)
    assert one.limiter is Limiter.LAUNCH
    assert one.spec_ms == pytest.approx(32768 / 3.35e12 * 1e3)
    in_graph = known(lit(tiny, H100, measured, time_ms=0.004, timing=Timing.COLD_GRAPH))
    assert in_graph.measured_ms == pytest.approx(1.0e-3)
    assert in_graph.limiter is Limiter.LAUNCH
    large = known(lit(vector(tmp_path / "b"), H100, measured))
    assert large.limiter is Limiter.BYTES


@pytest.mark.parametrize(
    ("timing", "host_ms", "time_ms", "limiter"),
    [
        (Timing.COLD_SYNC, 0.9, 1.0, Limiter.HOST),
        (Timing.WARM_SYNC, 0.9, 1.0, Limiter.HOST),
        (Timing.COLD_SYNC, 0.7, 1.0, Limiter.BYTES),  # the host explains too little of it
        (Timing.COLD_SYNC, None, 1.0, Limiter.BYTES),  # unknown
        (Timing.COLD, 0.9, 1.0, Limiter.BYTES),  # held: host time is not in the sample
        (Timing.COLD_SYNC, 0.3, 0.3, Limiter.BYTES),  # it waited for a GPU that was busy over half of the time
    ],
)
def test_the_host_limits_what_it_was_waited_for(
    tmp_path: Path, timing: Timing, host_ms: float | None, time_ms: float, limiter: Limiter
) -> None:
    """The bound is 0.16 ms by the datasheet."""
    found = known(lit(vector(tmp_path), timing=timing, host_ms=host_ms, time_ms=time_ms))
    if timing is Timing.WARM_SYNC:
        assert found.spec_ms == pytest.approx(((8 << 26) - (50 << 20)) / 3.35e12 * 1e3)
    assert found.limiter is limiter


def test_a_call_that_the_host_limits_says_what_a_launch_costs_this_host(tmp_path: Path) -> None:
    measured = peak(dram_read=3.35e12, launch_eager=20e-6)
    slow = {"timing": Timing.COLD_SYNC, "host_ms": 0.9, "time_ms": 1.0}
    assert known(lit(vector(tmp_path), H100, measured, **slow)).launch_eager_ms == pytest.approx(0.02)
    assert known(lit(vector(tmp_path), H100, None, **slow)).launch_eager_ms is None  # not measured
    assert known(lit(vector(tmp_path), H100, measured)).launch_eager_ms is None  # not the host's doing


@pytest.mark.parametrize(
    ("time_ms", "launch_eager_ms", "bound_ms", "expected"),
    [
        (20.0, 0.02, 0.07, 5.0),  # 1000 launches of 20 us; of 5 us they take a quarter
        (20.0, 0.02, 8.0, 8.0),  # then the GPU is the limit
        (20.0, 0.004, 0.07, 20.0),  # this host is faster already
        (20.0, None, 0.07, None),
    ],
)
def test_what_a_host_of_5_us_a_launch_would_make_of_it_is_derived(
    time_ms: float, launch_eager_ms: float | None, bound_ms: float, expected: float | None
) -> None:
    roof = RooflineBound(spec_ms=99.0, measured_ms=bound_ms, limiter=Limiter.HOST, launch_eager_ms=launch_eager_ms)
    found = at_fast_host_ms(time_ms, roof)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("timing", [Timing.HOST, Timing.NONE])
def test_what_ran_on_the_host_has_no_speed_of_light(tmp_path: Path, timing: Timing) -> None:
    assert lit(vector(tmp_path), H100, peak(dram_read=3e12), timing=timing) is None


def test_a_warm_call_may_find_its_bytes_in_the_l2(tmp_path: Path) -> None:
    """Held to the memory's bandwidth it would be faster than physics."""
    fits = vector(tmp_path / "a", 1 << 20)  # 8 MB
    assert lit(fits, H100, timing=Timing.WARM) is None
    measured = peak(dram_read=3e12, l2_read=6e12, launch_empty=1e-9)
    inside = known(lit(fits, H100, measured, timing=Timing.WARM))
    assert inside.measured_ms == pytest.approx((8 << 20) / 6e12 * 1e3)
    cold = known(lit(fits, H100, measured))
    assert cold.measured_ms == pytest.approx((8 << 20) / 3e12 * 1e3)
    large = known(lit(vector(tmp_path / "b"), H100, timing=Timing.WARM))  # all but the L2's 50 MiB must be moved
    assert large.spec_ms == pytest.approx(((8 << 26) - (50 << 20)) / 3.35e12 * 1e3)


def test_the_score_is_a_half_at_the_baseline_and_none_below_the_bound(tmp_path: Path) -> None:
    target = vector(tmp_path)
    measured = peak(dram_read=(8 << 26) / 1e-3)  # a bound of exactly 1 ms
    assert known(lit(target, H100, measured, time_ms=3.0, base_ms=3.0)).score == pytest.approx(0.5)
    assert known(lit(target, H100, measured, time_ms=2.0, base_ms=3.0)).score == pytest.approx(1 / 1.5)
    assert known(lit(target, H100, measured, time_ms=1.0, base_ms=3.0)).score == pytest.approx(1.0)
    assert known(lit(target, H100, measured, time_ms=0.9, base_ms=3.0)).score is None  # a finding, not a score
    assert known(lit(target, H100, measured, time_ms=3.0, base_ms=None)).score is None  # the baseline itself
    assert known(lit(target, H100, measured, time_ms=2.0, base_ms=1.0)).score is None  # nothing to gain


# -- the roofline --------------------------------------------------------------------------------------------------


def test_a_roofline_has_both_roofs_and_where_the_case_stands(tmp_path: Path) -> None:
    target = matmul(tmp_path, "bfloat16", k=512)
    found = roofline(target, target.case("default"), H100, peak(dram_copy=3.0e12, bf16_dense=750e12))
    assert found is not None
    assert (found.precision, found.flops) == ("bf16", 2 * 8192 * 8192 * 512)
    assert found.bytes == (2 * 8192 * 512 + 8192 * 8192) * 2
    assert found.intensity == pytest.approx(found.flops / found.bytes)
    assert found.roofs == (Roof(True, 3.0e12, 750e12), Roof(False, 3.35e12, 989.4e12))
    assert [roof.ridge for roof in found.roofs] == pytest.approx([250.0, 989.4 / 3.35])
    assert (found.peak_sm_clock_mhz, found.peak_wall[:4]) == (1600.0, "2026")


def test_a_roof_that_is_not_known_is_left_out_and_a_rate_that_is_not_is_a_dash(tmp_path: Path) -> None:
    target = matmul(tmp_path / "a", "bfloat16")
    case = target.case("default")
    of_sheet = roofline(target, case, H100, None)
    assert of_sheet is not None and [roof.measured for roof in of_sheet.roofs] == [False] and not of_sheet.peak_wall
    measured = roofline(target, case, UNKNOWN, peak(dram_read=1e12))
    assert measured is not None and measured.roofs == (Roof(True, 1e12, None),)
    assert measured.roofs[0].ridge is None and measured.peak_sm_clock_mhz is None


def test_a_case_without_arithmetic_has_the_bandwidth_alone_and_one_over_a_link_that_of_the_link(tmp_path: Path) -> None:
    still = vector(tmp_path / "a")
    found = roofline(still, still.case("default"), H100, peak(dram_read=3e12, pcie_h2d_pinned=50e9))
    assert found is not None
    assert (found.precision, found.path, found.bytes) == ("", "memory", 8 << 26)
    assert found.roofs == (Roof(True, 3e12, None), Roof(False, 3.35e12, None))
    over = sent(tmp_path / "b", link_in="4*N")
    crossed = roofline(over, over.case("default"), H100, peak(dram_read=3e12, pcie_h2d_pinned=50e9))
    assert crossed is not None
    assert (crossed.path, crossed.bytes) == ("pcie", 4 << 24)
    assert crossed.roofs == (Roof(True, 50e9, None), Roof(False, 64e9, None))
    unmeasured = roofline(over, over.case("default"), H100, peak(dram_read=3e12))
    assert unmeasured is not None and (unmeasured.path, unmeasured.roofs) == ("pcie", (Roof(False, 64e9, None),))
    little = sent(tmp_path / "c", link_in="4")
    held = roofline(little, little.case("default"), H100, None)
    assert held is not None and held.path == "memory"
    nothing = write_target(tmp_path / "d", {}, more='bytes = "0"')
    assert roofline(nothing, nothing.case("default"), H100, None) is None


def test_a_roof_is_the_lower_of_its_slope_and_its_flat_part() -> None:
    roof = Roof(True, 2e12, 1e14)
    assert roof.ridge == 50.0
    assert [roof.attainable(intensity) for intensity in (0, 10, 1000)] == [2e12, 2e13, 1e14]
    assert Roof(True, 2e12, None).attainable(10) is None
    steep = Roof(False, None, 1e14)
    assert (steep.attainable(10), steep.height(10), steep.ridge) == (None, 1e14, None)


def test_every_precision_of_a_lesson_has_a_rate_somewhere() -> None:
    assert set(PRECISION_OF.values()) <= set(PRECISIONS)
    for precision in set(PRECISION_OF.values()):
        assert any(precision in sheet.rates for sheet in DATASHEETS), precision
    assert {f"{precision} dense" for precision in DENSE} <= set(CEILINGS)
    assert {*DRAM, LAUNCH_EMPTY, LAUNCH_GRAPH_NODE} <= set(CEILINGS)
    for target in catalog.load().targets:
        assert work(target, target.cases[0]).precision in PRECISIONS


def test_a_lesson_that_allows_a_faster_precision_is_bounded_by_that_ones_rate(tmp_path: Path) -> None:
    slow = matmul(tmp_path / "a", "float32")
    fast = dataclasses.replace(slow, precision="bf16")
    case = slow.case("default")
    assert (work(slow, case).precision, work(fast, case).precision) == ("fp32", "bf16")
    plain, declared = bound(slow, case, H100), bound(fast, case, H100)
    assert plain is not None
    assert declared is not None
    assert declared.spec_ms and plain.spec_ms and declared.spec_ms < plain.spec_ms / 5


# -- the datasheets ------------------------------------------------------------------------------------------------

# Dense operations per clock and SM: bf16 on tensor cores and fp32 on the ordinary ones, by the architecture papers.
PER_CLOCK = {"Hopper": (4096, 256), "A100": (2048, 128), "GA10x": (1024, 256), "AD102": (1024, 256)}
GEFORCE = ("GeForce RTX 4090", "GeForce RTX 3060 12 GB")  # half rate with an fp32 accumulator


@pytest.mark.parametrize("sheet", DATASHEETS, ids=lambda sheet: sheet.name)
def test_a_datasheet_has_sources_and_rates_that_fit_each_other(sheet: Datasheet) -> None:
    assert sheet.sources
    for source in sheet.sources:
        assert source.title and 2020 <= source.year <= 2026 and source.url.startswith("https://")
        assert "nvidia.com/" in source.url
    assert sheet.names and all(name == name.strip() for name in sheet.names)
    assert 100e9 < sheet.memory_bytes_per_s < 1e13
    assert set(sheet.rates) <= set(PRECISIONS) and {"fp64", "fp32", "tf32", "bf16", "fp16"} <= set(sheet.rates)
    assert sheet.rates["fp64"] <= sheet.rates["fp32"] <= sheet.rates["tf32"] <= sheet.rates["bf16"]
    assert sheet.rates["bf16"] == sheet.rates["fp16"] == pytest.approx(2 * sheet.rates["tf32"], rel=0.02)
    assert set(sheet.sparse) == set(sheet.rates) - {"fp64", "fp32"}
    for precision, sparse in sheet.sparse.items():
        assert sparse == pytest.approx(2 * sheet.rates[precision], rel=0.03), f"{precision} is not dense"


@pytest.mark.parametrize("sheet", [s for s in DATASHEETS if s.sm_count], ids=lambda sheet: sheet.name)
def test_a_rate_is_its_sms_times_operations_times_the_clock_it_is_printed_at(sheet: Datasheet) -> None:
    assert sheet.sm_count is not None
    kind = {"Hopper": "Hopper", "Ada": "AD102"}.get(sheet.architecture, "A100" if "A100" in sheet.name else "GA10x")
    tensor, ordinary = PER_CLOCK[kind]
    tensor //= 2 if sheet.name in GEFORCE else 1
    for precision, operations in (("bf16", tensor), ("fp32", ordinary)):
        clock = sheet.clock_mhz(precision)
        assert clock is not None
        expected = sheet.sm_count * operations * clock * 1e6
        assert sheet.rates[precision] == pytest.approx(expected, rel=0.015), precision


def test_each_name_of_a_gpu_leads_to_one_datasheet() -> None:
    names = [name for sheet in DATASHEETS for name in sheet.names]
    assert len(set(names)) == len(names)
    for sheet in DATASHEETS:
        for name in sheet.names:
            assert datasheet(name) is sheet
    wanted = {
        "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200", "NVIDIA B200",
        "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB",
        "NVIDIA L40S", "NVIDIA A10", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060",
    }  # fmt: skip
    assert wanted <= set(names)


def test_an_h100_has_two_boost_clocks() -> None:
    sheet = datasheet(H100)
    assert sheet is not None
    assert (sheet.clock_mhz("bf16"), sheet.clock_mhz("tf32"), sheet.clock_mhz("fp32"), sheet.clock_mhz("fp64")) == (
        1830, 1830, 1980, 1980,
    )  # fmt: skip


def test_what_a_datasheet_does_not_print_is_a_dash_in_the_table() -> None:
    lines = datasheets.table().splitlines()
    head = [cell.strip() for cell in lines[0].strip("|").split("|")]
    b200 = next(line for line in lines if line.startswith("| B200 |"))
    cells = dict(zip(head, (cell.strip() for cell in b200.strip("|").split("|")), strict=True))
    assert cells["L2 MiB"] == cells["SMs"] == cells["boost MHz"] == "–"
    assert cells["bf16 Tflop/s"] == "2250"
    assert sum(line.startswith("| ") for line in lines) == len(DATASHEETS) + 2
    for sheet in DATASHEETS:
        assert any(line.startswith(f"- **{sheet.name}**") and sheet.sources[0].url in line for line in lines)


def test_the_table_in_the_documentation_is_the_one_of_the_code() -> None:
    text = (DOCS / "ceilings.md").read_text(encoding="utf-8")
    start, end = "<!-- datasheets: begin -->\n", "<!-- datasheets: end -->"
    assert text.count(start) == text.count(end) == 1
    assert text.partition(start)[2].partition(end)[0].strip() == datasheets.table().strip()


def test_every_ceiling_is_explained_in_the_documentation() -> None:
    text = (DOCS / "ceilings.md").read_text(encoding="utf-8")
    for name in CEILINGS:
        assert f"`{name}`" in text, name


def test_a_datasheet_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DATASHEETS[0].power_w = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("dram copy", 3.35e12), ("fp8 dense", 1978.9e12), ("fp8 promoted dense", 1978.9e12), ("pcie h2d pinned", 64e9),
     ("peer copy", 450e9), ("peer copy both ways", 450e9), ("peer SM copy", 450e9), ("nccl all-reduce", 450e9),
     ("mxfp8 dense", None),
     ("l2 read", None), ("launch empty", None), ("fp4 dense", None)],
)  # fmt: skip
def test_a_datasheet_says_of_a_ceiling_what_it_says_and_no_more(name: str, expected: float | None) -> None:
    assert ceiling_value("NVIDIA H100 80GB HBM3", name) == expected
    assert ceiling_value("NVIDIA of next year", name) is None
