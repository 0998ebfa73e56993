"""The same single pass in CUDA C++: four elements per thread, in loads of 16 bytes."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

blend = load(Path(__file__).with_name("blend.cu"), "blend")
THREADS = 256
PER_THREAD = 4


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    count = x.numel()
    y = torch.empty_like(x)
    launch(blend, ceil_div(count, THREADS * PER_THREAD), THREADS, y, x, b, g, np.int64(count))
    return y
