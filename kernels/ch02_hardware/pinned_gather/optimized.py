"""Triton: the kernel reads the wanted rows out of the host's page-locked memory by itself, over PCIe."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def gather_rows(y_ptr, table_ptr, order_ptr, D, BLOCK: tl.constexpr):
    k = tl.program_id(0).to(tl.int64)
    row = tl.load(order_ptr + k)
    columns = tl.arange(0, BLOCK)
    values = tl.load(table_ptr + row * D + columns, mask=columns < D)  # an address of the host: PCIe answers it
    tl.store(y_ptr + k * D + columns, values, mask=columns < D)


def run(table: Tensor, order: Tensor) -> Tensor:  # table [V, D] in host memory, order [K] -> [K, D]
    K, D = len(order), table.shape[1]
    y = torch.empty((K, D), dtype=table.dtype, device=order.device)
    BLOCK = triton.next_power_of_2(D)
    # Eight floats per thread: a warp asks for up to 1 KB, and 32 such warps an SM keep the bus busy many times over.
    gather_rows[(K,)](y, table, order, D, BLOCK, num_warps=min(max(BLOCK // 256, 1), 16))
    return y
