"""The same values in other places, with poison between: what a kernel that ignores strides would read."""

from __future__ import annotations

import pytest
import torch

from aisp.checks.oracle.layouts import GAP, lay_out
from aisp.checks.oracle.schema import Layout

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.float8_e4m3fn]
SHAPES = [(3, 5), (2, 3, 4), (1, 1), (7,), (), (0, 4), (4, 0)]


def filled(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 5).to(torch.float32).to(dtype).reshape(shape)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    wide = torch.float32 if one.dtype.is_floating_point and one.element_size() == 1 else one.dtype
    return bool(torch.equal(one.to(wide), other.to(wide)))


@pytest.mark.parametrize("layout", [layout for layout in Layout if layout is not Layout.EXPANDED])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_keeps_shape_dtype_and_values_and_copies(
    dtype: torch.dtype, shape: tuple[int, ...], layout: Layout
) -> None:
    tensor = filled(shape, dtype)
    laid = lay_out(tensor, layout, "cpu")
    assert (laid.shape, laid.dtype) == (tensor.shape, tensor.dtype)
    assert same_bytes(laid, tensor)
    assert laid.data_ptr() != tensor.data_ptr() or not tensor.numel()


def test_each_layout_lies_as_its_name_says() -> None:
    tensor = filled((2, 3, 4), torch.float32)
    assert lay_out(tensor, Layout.CONTIGUOUS, "cpu").stride() == (12, 4, 1)
    assert lay_out(tensor, Layout.TRANSPOSED, "cpu").stride() == (12, 1, 3)
    assert lay_out(tensor, Layout.SLICED, "cpu").stride() == (3 * (4 + GAP), 4 + GAP, 1)
    shifted = lay_out(tensor, Layout.OFFSET, "cpu")
    assert shifted.is_contiguous()
    assert shifted.storage_offset() == 1
    assert shifted.data_ptr() % 16 == 4, "vector loads of 16 bytes would be misaligned"
    wide = lay_out(tensor[:1].expand(2, 3, 4).contiguous(), Layout.EXPANDED, "cpu")
    assert wide.stride() == (0, 4, 1)
    assert torch.equal(wide[1], tensor[0])


def storage(view: torch.Tensor) -> torch.Tensor:
    whole = torch.empty(0, dtype=view.dtype).set_(view.untyped_storage())
    assert whole.numel() > view.numel()
    return whole


@pytest.mark.parametrize("layout", [Layout.SLICED, Layout.OFFSET])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_whatever_lies_between_floating_values_is_nan(dtype: torch.dtype, layout: Layout) -> None:
    tensor = filled((3, 5), dtype)
    whole = storage(lay_out(tensor, layout, "cpu"))
    assert int(torch.isnan(whole).sum()) == whole.numel() - tensor.numel()


@pytest.mark.parametrize("layout", [Layout.SLICED, Layout.OFFSET])
def test_whatever_lies_between_whole_numbers_is_no_index_of_anything(layout: Layout) -> None:
    whole = storage(lay_out(filled((3, 5), torch.int64), layout, "cpu"))
    assert int((whole == 0x7F7F7F7F7F7F7F7F).sum()) == whole.numel() - 15


@pytest.mark.parametrize("layout", [Layout.TRANSPOSED, Layout.SLICED, Layout.OFFSET])
def test_a_kernel_that_ignores_strides_reads_something_else(layout: Layout) -> None:
    tensor = torch.randn(6, 10, generator=torch.Generator().manual_seed(1))
    laid = lay_out(tensor, layout, "cpu")
    flat = torch.empty(0).set_(laid.untyped_storage())[: tensor.numel()].reshape(tensor.shape)
    assert not torch.equal(flat, tensor)


def test_a_layout_that_a_shape_cannot_have_is_plain() -> None:
    vector = filled((7,), torch.float32)
    assert lay_out(vector, Layout.TRANSPOSED, "cpu").is_contiguous()
    assert lay_out(filled((), torch.float32), Layout.SLICED, "cpu").shape == ()
    assert lay_out(filled((0, 4), torch.float32), Layout.EXPANDED, "cpu").shape == (0, 4)
