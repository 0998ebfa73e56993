"""Eight elements by one 16-byte load: four whole lines per request, and an eighth of the load instructions."""

from pathlib import Path

import numpy as np
import torch
from factor import FACTOR
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

scale = load(Path(__file__).with_name("scale.cu"), "scale_wide")
scalar = load(Path(__file__).with_name("scale.cu"), "scale_scalar")


def run(x: Tensor) -> Tensor:  # x [N] bf16 -> [N] bf16
    N = x.numel()
    y = torch.empty_like(x)
    # A 16-byte load from any other address is a fault, and a slice may begin anywhere.
    launch(scalar if x.data_ptr() % 16 else scale, ceil_div(N, 8 * 256), 256, y, x, np.float32(FACTOR), np.int64(N))
    return y
