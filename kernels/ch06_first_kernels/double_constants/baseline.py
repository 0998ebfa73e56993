"""`acc * v + 0.1` with a float acc: the literal is a double, so every step goes up to fp64 and back."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

leaky = load(Path(__file__).with_name("leaky.cu"), "leaky_double_literal")
THREADS = 256
EACH = 4  # elements per thread, as in leaky.cu


def run(x: Tensor, steps: Tensor) -> Tensor:  # [N], scalar on the host -> [N]
    N = x.numel()
    y = torch.empty_like(x)
    launch(leaky, ceil_div(N, EACH * THREADS), THREADS, y, x, np.int32(int(steps)), np.int64(N))
    return y
