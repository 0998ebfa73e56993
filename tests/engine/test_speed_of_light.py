"""The least time that a call can take: arithmetic that can be done by hand, and a dash where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.speed_of_light import DATASHEETS, bound, datasheet
from kernels import catalog
from kernels.catalog.model import Target
from tests.engine.targets import write_target

H100, H200, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA A100-SXM4-80GB"


def matmul(root: Path, dtype: str, *, k: int = 8192, flops: str = "2*M*N*K") -> Target:
    return write_target(
        root,
        {},
        axes=f"{{ M = 8192, N = 8192, K = {k} }}",
        flops=flops,
        inputs=f'a = "{dtype} [M, K] normal"\nb = "{dtype} [K, N] normal"',
        outputs=f'c = "{dtype} [M, N]"',
    )


def test_a_transpose_is_bound_by_its_bytes() -> None:
    target = catalog.load().find("ch07:transpose")
    case = target.case("default")
    M, N = case.axes["M"], case.axes["N"]
    found = bound(target, case, H100)
    assert found is not None
    assert found.limiter == "bytes"
    assert found.ms == pytest.approx(2 * M * N * 4 / 3.35e12 * 1e3)
    assert "H100" in found.source


@pytest.mark.parametrize(
    ("gpu", "dtype", "flops_per_s"),
    [
        (H100, "bfloat16", 989e12),
        (H100, "float32", 67e12),
        (H200, "bfloat16", 989e12),
        (A100, "bfloat16", 312e12),
        (A100, "float32", 19.5e12),
        ("NVIDIA H100 PCIe", "float16", 756e12),
    ],
)
def test_a_large_matmul_is_bound_by_its_operations(tmp_path: Path, gpu: str, dtype: str, flops_per_s: float) -> None:
    target = matmul(tmp_path, dtype)
    found = bound(target, target.case("default"), gpu)
    assert found is not None
    assert found.limiter == "flops"
    assert found.ms == pytest.approx(2 * 8192**3 / flops_per_s * 1e3)


def test_a_thin_matmul_is_bound_by_its_bytes(tmp_path: Path) -> None:
    target = matmul(tmp_path, "bfloat16", k=16)
    found = bound(target, target.case("default"), H200)
    assert found is not None
    assert found.limiter == "bytes"
    assert found.ms == pytest.approx((2 * 8192 * 16 + 8192 * 8192) * 2 / 4.8e12 * 1e3)


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
    assert found.ms == pytest.approx(1e12 / 989e12 * 1e3)


@pytest.mark.parametrize("gpu", ["", "NVIDIA GeForce RTX 4090", "NVIDIA H100", "nvidia h200", "NVIDIA H200 NVL"])
def test_a_gpu_that_is_not_known_has_no_bound(tmp_path: Path, gpu: str) -> None:
    """A rate of a similar GPU would be a wrong number; a dash is right."""
    assert datasheet(gpu) is None
    target = matmul(tmp_path, "bfloat16")
    assert bound(target, target.case("default"), gpu) is None


def test_a_lesson_without_bytes_and_operations_has_no_bound(tmp_path: Path) -> None:
    target = write_target(tmp_path, {}, more='bytes = "0"')
    assert bound(target, target.case("default"), H100) is None


def test_every_datasheet_names_its_source_and_rates_that_could_be() -> None:
    for sheet in DATASHEETS:
        assert sheet.source
        assert 1e12 < sheet.bandwidth_bytes_per_s < 1e13
        assert sheet.flops_per_s["float64"] <= sheet.flops_per_s["float32"] < sheet.flops_per_s["bfloat16"]
    assert len({sheet.name for sheet in DATASHEETS}) == len(DATASHEETS)
