"""torch.mm given to torch.compile with max-autotune: Inductor times its Triton templates against cuBLAS."""

import torch
from peer_cublas import run as multiply
from torch import Tensor

# Only max-autotune looks at templates at all. No CUDA graphs: that would be a second change.
compiled = torch.compile(multiply, dynamic=False, mode="max-autotune-no-cudagraphs")


def run(a: Tensor, b: Tensor) -> Tensor:  # a [M, K], b [K, N], fp16 -> [M, N] fp16
    return compiled(a, b)


def prepare(a: Tensor, b: Tensor):
    compiled(a, b)  # compiles and tunes for these shapes, before the clock starts
    return compiled
