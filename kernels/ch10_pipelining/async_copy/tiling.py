"""How the CUDA rungs cut the work into tiles, and how many blocks walk over them."""

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import Kernel, ceil_div, launch

TILE = 2048  # outputs of a block, as in fir.cu
THREADS = 256
BLOCKS_PER_SM = 4  # what the registers allow: 256 threads with up to 64 each, as fir.cu promises the compiler


def run_tiles(kernel: Kernel, x: Tensor, w: Tensor, *, one_block_per_tile: bool) -> Tensor:
    """Launch `kernel` on x [M, N + 32], w [33] -> [M, N]; N must be a multiple of 4."""
    M, N = x.shape[0], x.shape[1] - (len(w) - 1)
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles_per_row = ceil_div(N, TILE)
    blocks = tiles = M * tiles_per_row
    if not one_block_per_tile:
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        blocks = min(tiles, BLOCKS_PER_SM * sms)
    launch(kernel, blocks, THREADS, y, x, w, np.int32(N), np.int32(tiles_per_row), np.int32(tiles))
    return y
