"""Starting the persistent kernel: how many blocks, how much shared memory, and a counter that is zero."""

import numpy as np
import torch
from cell import EPS, LEAK

from aisp.kernels.cuda import Kernel, ceil_div, launch

THREADS = 512  # as in decode.cu
BLOCKS = 128  # of 132 multiprocessors: divides the sizes of models, and 192 KiB of weights each fit
SHARED_BYTES = 226 * 1024  # of 227; the kernel's partial sums take 64 bytes more


def decode(
    kernel: Kernel, x: torch.Tensor, h0: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor
) -> torch.Tensor:
    """All tokens in one launch.

    Raises:
        ValueError: the weights do not fit the multiprocessors' shared memory.
    """
    D, F = w_down.shape
    # Never more blocks than multiprocessors: all of them have to run at once.
    blocks = min(BLOCKS, torch.cuda.get_device_properties(x.device).multi_processor_count)
    floats = D + F + 2 * ceil_div(F, blocks) * D + ceil_div(D, blocks) * F
    if 4 * floats > SHARED_BYTES:
        raise ValueError(f"{4 * floats} bytes for each of {blocks} blocks; at most {SHARED_BYTES} fit: smaller D or F")
    y = torch.empty_like(x)
    a = torch.empty(F, dtype=x.dtype, device=x.device)
    arrivals = torch.zeros(1, dtype=torch.int32, device=x.device)
    # All of the shared memory, needed or not: no two blocks on one multiprocessor, with either kernel.
    launch(
        kernel, blocks, THREADS, y, a, arrivals, x, h0, w_gate_up, w_down,
        np.int32(len(x)), np.int32(D), np.int32(F), np.float32(EPS), np.float32(LEAK), shared_bytes=SHARED_BYTES,
    )  # fmt: skip
    return y
