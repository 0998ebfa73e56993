"""C++: a kernel in blocks of 64, or so it says."""

import torch
from torch import Tensor
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/core/Tensor.h>
#include <torch/library.h>
#include <ATen/ops/matmul.h>

constexpr int BLOCK = 64;

static at::Tensor blocked(const at::Tensor& x, const at::Tensor& w) { return at::matmul(x, w); }

TORCH_LIBRARY(aisp_blocked, library) { library.def("blocked", &blocked); }
"""

load_inline("aisp_blocked", SOURCE, extra_cflags=["-O3"], no_implicit_headers=True, is_python_module=False)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return torch.ops.aisp_blocked.blocked(x, w)
