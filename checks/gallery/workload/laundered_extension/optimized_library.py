"""C++: the library's product, called from an operator of its own."""

import torch
from torch import Tensor
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/core/Tensor.h>
#include <torch/library.h>
#include <ATen/ops/matmul.h>

static at::Tensor product(const at::Tensor& x, const at::Tensor& w) { return at::matmul(x, w); }

TORCH_LIBRARY(aisp_called, library) { library.def("product", &product); }
"""

load_inline("aisp_called", SOURCE, extra_cflags=["-O3"], no_implicit_headers=True, is_python_module=False)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    return torch.ops.aisp_called.product(x, w)
