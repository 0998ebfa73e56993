"""torch.mm given to torch.compile with max-autotune, and its persistent TMA templates switched on."""

import torch
from peer_cublas import run as multiply
from torch import Tensor

# No CUDA graphs: that would be a second change. The templates are off unless asked for.
OPTIONS = {"max_autotune": True, "triton.cudagraphs": False, "triton.enable_persistent_tma_matmul": True}
compiled = torch.compile(multiply, dynamic=False, options=OPTIONS)


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    return compiled(a, b)


def prepare(a: Tensor, b: Tensor):
    compiled(a, b)  # compiles and tunes for these shapes, before the clock starts
    return compiled
