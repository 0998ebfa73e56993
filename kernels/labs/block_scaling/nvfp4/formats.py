"""nvfp4: what a byte and a scale mean, the plain way back to numbers, and the order of scales that cuBLAS wants.

A row of K values lies in K/2 bytes, two e2m1 in each, the first in the low four bits. e2m1 is a sign, two bits of
exponent and one of mantissa. Every 16 values, so every 8 bytes, have a scale, an e4m3 number above zero. One fp32
number for both tensors brings the scales of a whole product into e4m3's range.
"""

import functools

import torch
from torch import Tensor

GROUP = 16  # values along K under one scale
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0 .. 7; 8 .. 15 are the same below zero
VALUES = (*MAGNITUDES, *(-value for value in MAGNITUDES))


@functools.cache
def pairs(device: torch.device) -> Tensor:
    """bf16 [256, 2]: the two values of each byte, in their order along K."""
    both = [[VALUES[byte & 15], VALUES[byte >> 4]] for byte in range(256)]
    return torch.tensor(both, dtype=torch.bfloat16, device=device)


def dequantise(packed: Tensor, scales: Tensor, table: Tensor) -> Tensor:
    """[R, K] in the dtype of `table`, two values for each byte, from packed [R, K/2] uint8 and scales [R, K/16].

    Exact in bf16: e2m1 has two significant bits and e4m3 four, their product at most six of bf16's eight.
    """
    rows, half = packed.shape
    values = table[packed.long()].view(rows, 2 * half // GROUP, GROUP)
    return (values * scales.to(table.dtype)[:, :, None]).view(rows, 2 * half)


def blocked(scales: Tensor) -> Tensor:
    """The scales [R, K/16] in tiles of 128 rows x 4, zeros at the edges, tile after tile along a row of tiles; one
    dimension. In its 512 bytes a tile has row r, column c at (r % 32) * 16 + (r // 32) * 4 + c."""
    R, C = scales.shape
    down, across = -(-R // 128), -(-C // 4)
    padded = torch.zeros((128 * down, 4 * across), dtype=torch.uint8, device=scales.device)
    padded[:R, :C] = scales.view(torch.uint8)
    tiles = padded.view(down, 4, 32, across, 4)  # tile row, r // 32, r % 32, tile column, c
    return tiles.permute(0, 3, 2, 1, 4).reshape(-1).view(scales.dtype)
