"""What the rungs share: the size of a scaled block, and how its values are turned back into bf16."""

import torch
from torch import Tensor

BLOCK = 128  # values along K under one scale; for the weights along N as well


def dequantise_activations(a: Tensor, a_scale: Tensor) -> Tensor:
    """bf16 [M, K] from a, fp8 [M, K], and a_scale, fp32 [ceil(K/128), M]: a scale for 128 values of a row."""
    scales = a_scale.t().repeat_interleave(BLOCK, dim=1)[:, : a.shape[1]]
    return (a.float() * scales).to(torch.bfloat16)


def dequantise_weights(b: Tensor, b_scale: Tensor) -> Tensor:
    """bf16 [N, K] from b, fp8 [N, K], and b_scale, fp32 [ceil(N/128), ceil(K/128)]: a scale for 128 x 128 values."""
    N, K = b.shape
    scales = b_scale.repeat_interleave(BLOCK, dim=0)[:N].repeat_interleave(BLOCK, dim=1)[:, :K]
    return (b.float() * scales).to(torch.bfloat16)
