"""CUDA, one record at a time: a thread loads its sector whole, once, and gives each field to its own array."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aisp.kernels.cuda import ceil_div, launch, load

whole_record = load(Path(__file__).with_name("fields.cu"), "whole_record")


def run(x: Tensor) -> Tensor:  # [M, 8] -> [8, M]
    M, F = x.shape
    if x.data_ptr() % 16:
        x = x.clone()  # loads of 16 bytes want their addresses to be multiples of 16
    y = torch.empty((F, M), dtype=x.dtype, device=x.device)
    launch(whole_record, ceil_div(M, 256), 256, y, x, np.int64(M))
    return y
