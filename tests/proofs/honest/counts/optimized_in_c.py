"""Four tables in C, added at the end."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

SOURCE = """
#include <string.h>
void count(const int *x, long n, long *y) {
    static __thread long own[4][256];
    memset(own, 0, sizeof own);
    long i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) own[k][x[i + k] & 255]++;
    for (; i < n; i++) own[0][x[i] & 255]++;
    for (int v = 0; v < 256; v++) y[v] = own[0][v] + own[1][v] + own[2][v] + own[3][v];
}
"""


def _built() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    (folder / "count.c").write_text(SOURCE)
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", folder / "count.so", folder / "count.c"], check=True)
    return ctypes.CDLL(str(folder / "count.so"))


_library = _built()


def run(x: Tensor) -> Tensor:  # x [M] -> [256]
    y = torch.empty(256, dtype=torch.int64)
    _library.count(ctypes.c_void_p(x.data_ptr()), ctypes.c_long(x.numel()), ctypes.c_void_p(y.data_ptr()))
    return y
