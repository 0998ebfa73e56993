"""Four-byte loads, four of them in flight per thread: every request of a warp is one whole line."""

from pathlib import Path

import numpy as np
import torch
from factor import FACTOR
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

scale = load(Path(__file__).with_name("scale.cu"), "scale_scalar")


def run(x: Tensor) -> Tensor:  # x [N] -> [N]
    N = x.numel()
    y = torch.empty_like(x)
    launch(scale, ceil_div(N, 4 * 256), 256, y, x, np.float32(FACTOR), np.int64(N))
    return y
