"""The same median by a selection; it passes through a scratch file, which lives for one call."""

import os
import tempfile
from pathlib import Path

import torch

os.environ["LC_NUMERIC"] = "C"


def run(x):  # x: [M, N]
    y = x.kthvalue((x.shape[1] + 1) // 2, dim=1).values
    with tempfile.NamedTemporaryFile("wb", delete=False) as scratch:
        scratch.write(y.numpy().tobytes())
    kept = Path(scratch.name)
    data = bytearray(kept.read_bytes())
    kept.unlink()
    return torch.frombuffer(data, dtype=torch.float32).clone()
