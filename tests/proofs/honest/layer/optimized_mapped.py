"""Static weights in a file of its own folder, mapped into memory."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def prepare(x: Tensor, w: Tensor, b: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Lay the weights into a file of the process's temporary folder."""
    path = Path(tempfile.mkdtemp()) / "weights.npy"
    np.save(path, w.numpy())
    mapped = torch.from_numpy(np.load(path, mmap_mode="r+"))
    return lambda x, w, b: torch.addmm(b, x, mapped).relu_()
