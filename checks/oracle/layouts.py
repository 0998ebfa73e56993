"""Layouts of the same values in memory. Whatever lies between them is poison: whoever reads it is found out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aisp.checks.oracle.schema import Layout

if TYPE_CHECKING:
    import torch

GAP = 5  # elements between the rows of a sliced input
MARGIN_BYTES = 256  # before and behind a contiguous input, which stays aligned: whoever reads past an end reads poison
POISON_BYTE = 0x7F


def lay_out(tensor: torch.Tensor, layout: Layout, device: str) -> torch.Tensor:
    """A tensor on `device` with the values and shape of `tensor`, in the wanted layout.

    Args:
        tensor: any dtype and shape, contiguous.
        layout: EXPANDED needs all slices of the first dimension to be equal.
        device: "cuda" or "cpu".
    """
    moved = tensor.to(device)
    if layout is Layout.TRANSPOSED and moved.dim() >= 2:
        return _poisoned([*moved.shape[:-2], moved.shape[-1], moved.shape[-2]], moved).transpose(-1, -2).copy_(moved)
    if layout is Layout.SLICED and moved.dim() >= 1:
        wide = _poisoned([*moved.shape[:-1], moved.shape[-1] + GAP], moved)
        return wide[..., 2 : 2 + moved.shape[-1]].copy_(moved)
    if layout is Layout.OFFSET:
        return _poisoned([moved.numel() + 1], moved)[1:].view(moved.shape).copy_(moved)
    if layout is Layout.EXPANDED and moved.dim() >= 1 and moved.shape[0] > 0:
        return moved[:1].clone().expand(moved.shape)
    margin = MARGIN_BYTES // moved.element_size()
    end = margin + moved.numel()
    return _poisoned([end + margin], moved)[margin:end].view(moved.shape).copy_(moved)


def _poisoned(shape: list[int], like: torch.Tensor) -> torch.Tensor:
    """Storage of this shape that holds NaN, or a byte pattern where the dtype has none."""
    import torch

    made = torch.empty(shape, dtype=like.dtype, device=like.device)
    if made.is_floating_point() and made.element_size() > 1:
        return made.fill_(math.nan)
    if made.numel():
        made.view(torch.uint8).fill_(1 if like.dtype is torch.bool else POISON_BYTE)
    return made
