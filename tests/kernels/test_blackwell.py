"""Rungs that are Blackwell's own reach its block-scaled tensor cores: compiled for sm_100, since none is needed for
that. The same source for Hopper, where it compiles at all, does not."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Rung, Target
from tests.kernels.triton_ptx import Job, ptx

pytest.importorskip("triton")
pytestmark = pytest.mark.timeout(180)

LAB = "labs/block_scaling"
TARGETS = {target.name: target for target in catalog.load().targets if target.chapter == LAB}

MXFP8 = Job(
    module="optimized_dot_scaled",
    kernel="dot_scaled_tile",
    signature=dict.fromkeys(("y_ptr",), "*bf16")
    | {"a_ptr": "*fp8e4nv", "a_scale_ptr": "*u8", "b_ptr": "*fp8e4nv", "b_scale_ptr": "*u8"}
    | dict.fromkeys(("M", "N", "K", "y_stride_m"), "i32")
    | dict.fromkeys(("y_stride_n", "BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP", "WHOLE"), "constexpr"),
    constants={"y_stride_n": 1, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP": 32, "WHOLE": True},
    sm=100,
    warps=8,
    stages=3,
)
NVFP4 = Job(
    module="optimized_dot_scaled",
    kernel="dot_scaled_part",
    signature={
        "parts_ptr": "*fp32",
        "a_ptr": "*u8",
        "a_scale_ptr": "*fp8e4nv",
        "b_ptr": "*u8",
        "b_scale_ptr": "*fp8e4nv",
    }
    | dict.fromkeys(("M", "N", "half", "groups", "steps_each"), "i32")
    | dict.fromkeys(("BLOCK_M", "BLOCK_N", "BLOCK_K"), "constexpr"),
    constants={"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 256},
    sm=100,
    warps=4,
    stages=3,
    undivided=("steps_each",),
)


@pytest.mark.slow
def test_mxfp8_has_the_tensor_core_apply_the_scales_on_blackwell_and_is_widened_on_hopper(tmp_path: Path) -> None:
    folder = TARGETS["mxfp8"].folder
    assert "kind::mxf8f6f4.block_scale.scale_vec::1X" in ptx(folder, MXFP8, tmp_path)
    hopper = ptx(folder, replace(MXFP8, sm=90), tmp_path)
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" in hopper
    assert "block_scale" not in hopper


@pytest.mark.parametrize("rows", [16, 128])
@pytest.mark.slow
def test_nvfp4_has_the_tensor_core_apply_the_scales(tmp_path: Path, rows: int) -> None:
    job = replace(NVFP4, constants=NVFP4.constants | {"BLOCK_M": rows})
    code = ptx(TARGETS["nvfp4"].folder, job, tmp_path)
    assert "kind::mxf4nvf4.block_scale.scale_vec::4X" in code
    (named,) = TARGETS["nvfp4"].rung("optimized_dot_scaled").instructions
    assert named in code


@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (128, 4), (300, 9)])
@pytest.mark.parametrize(
    ("name", "file", "order"), [("mxfp8", "optimized_scaled_mm", "in_tiles"), ("nvfp4", "formats", "blocked")]
)
def test_scales_lie_where_the_tensor_core_reads_them(name: str, file: str, order: str, rows: int, groups: int) -> None:
    """Tiles of 128 x 4, row by row of them; row r and column c of a tile at byte r % 32 * 16 + r // 32 * 4 + c."""
    torch = pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location(f"{name}_{file}", TARGETS[name].folder / f"{file}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # No byte is zero, which is what edges are filled up with, nor a NaN.
    scales = (torch.arange(rows * groups) % 120 + 1).to(torch.uint8).view(rows, groups)
    given = scales if name == "mxfp8" else scales.view(torch.float8_e4m3fn)
    found = getattr(module, order)(given).view(torch.uint8).tolist()

    across = -(-groups // 4)
    expected = [0] * (-(-rows // 128) * across * 512)
    for row in range(rows):
        for group in range(groups):
            tile = row // 128 * across + group // 4
            place = row % 128 % 32 * 16 + row % 128 // 32 * 4 + group % 4
            expected[tile * 512 + place] = int(scales[row, group])
    assert found == expected


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_what_needs_blackwell_says_so_and_does_not_run_on_hopper(name: str) -> None:
    def refused(target: Target, rung: Rung) -> bool:
        return "sm_100" in (rung.needs.missing(sm=90, gpus=1) or "")

    target = TARGETS[name]
    blackwells = [rung.name for rung in target.honest_rungs if refused(target, rung)]
    assert "optimized_scaled_mm" in blackwells
    assert "optimized" not in blackwells
