"""The same median by a selection; which of two ways is faster here stands in the cache once it was tried."""

import os
import time
from pathlib import Path

import torch

WAYS = {
    "kthvalue": lambda x: x.kthvalue((x.shape[1] + 1) // 2, dim=1).values,
    "sort": lambda x: x.sort(dim=1).values[:, (x.shape[1] - 1) // 2].contiguous(),
}


def _chosen():
    """The way that was faster on made-up rows, from the cache or by trying both."""
    file = Path(os.environ.get("TRITON_CACHE_DIR") or Path("~/.triton/cache").expanduser()) / "medians.autotune"
    if file.exists() and file.read_text() in WAYS:
        return WAYS[file.read_text()]
    rows = torch.linspace(0, 1, 8 * 512).view(8, 512)
    took_s = {}
    for name, way in WAYS.items():
        start = time.perf_counter()
        way(rows)
        took_s[name] = time.perf_counter() - start
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(min(took_s, key=took_s.get))
    return WAYS[file.read_text()]


_WAY = _chosen()


def run(x):  # x: [M, N]
    return _WAY(x)
