"""torch.mm given to torch.compile with max-autotune over its Triton templates, the persistent TMA ones among them."""

import torch
from peer_cublas import run as multiply
from torch import Tensor

# No CUDA graphs: that would be a second change. No cuBLAS: left to itself the tuner takes it, and this rung would be
# `peer_cublas` by another name. The TMA templates are off unless asked for.
OPTIONS = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON",
    "triton.cudagraphs": False,
    "triton.enable_persistent_tma_matmul": True,
}
compiled = torch.compile(multiply, dynamic=False, options=OPTIONS)


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    return compiled(a, b)


def prepare(a: Tensor, b: Tensor):
    compiled(a, b)  # compiles and tunes for these shapes, before the clock starts
    return compiled
