"""flex_attention through torch.compile, which for few queries makes a kernel that splits the keys."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

compiled = torch.compile(flex_attention, dynamic=False)


def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # q [B, H*G, D], k, v [B, H, L, D] -> [B, H*G, D]
    return compiled(q[:, :, None], k, v, enable_gqa=True)[:, :, 0].contiguous()


def prepare(q: Tensor, k: Tensor, v: Tensor) -> Callable[..., Tensor]:
    run(q, k, v)  # compiles for these shapes, before the clock starts
    return run
