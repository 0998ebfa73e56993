"""The product, and the time of the C library by a function in C."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

from torch import Tensor

SOURCE = """
#include <time.h>
long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
"""


def _built() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    (folder / "now.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "now.so", folder / "now.c"], check=True)
    return ctypes.CDLL(str(folder / "now.so"))


_library = _built()
_spent_ns = 0


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    global _spent_ns
    start = _library.now()
    y = x @ w
    _spent_ns += _library.now() - start
    return y
