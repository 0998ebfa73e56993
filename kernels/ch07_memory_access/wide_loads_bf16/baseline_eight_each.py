"""Eight 2-byte loads in flight per thread: the requests stay narrow, the flight is that of one wide load."""

from pathlib import Path

import numpy as np
import torch
from factor import FACTOR
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

scale = load(Path(__file__).with_name("scale.cu"), "scale_scalar")


def run(x: Tensor) -> Tensor:  # x [N] bf16 -> [N] bf16
    N = x.numel()
    y = torch.empty_like(x)
    launch(scale, ceil_div(N, 8 * 256), 256, y, x, np.float32(FACTOR), np.int64(N))
    return y
