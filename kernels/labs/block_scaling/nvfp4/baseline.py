"""In every call: both values of each byte from a table, in bf16, times their scale, then cuBLAS."""

import torch
from formats import dequantise, pairs
from torch import Tensor


def product(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor, table: Tensor) -> Tensor:
    y = torch.mm(dequantise(a, a_scale, table), dequantise(b, b_scale, table).t())
    return (y * scale).to(torch.bfloat16)  # fp32 while it is scaled


def run(a: Tensor, a_scale: Tensor, b: Tensor, b_scale: Tensor, scale: Tensor) -> Tensor:
    # a uint8 [M, K/2], a_scale e4m3 [M, K/16], b uint8 [N, K/2], b_scale e4m3 [N, K/16], scale fp32 [1] -> bf16 [M, N]
    return product(a, a_scale, b, b_scale, scale, pairs(a.device))
