"""Bias and threshold by a function in C that is compiled at import and called through ctypes."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

from torch import Tensor

SOURCE = """
void finish(float *y, const float *b, long m, long n) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float v = y[i * n + j] + b[j];
            y[i * n + j] = v < 0 ? 0 : v;
        }
}
"""


def _built() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    (folder / "finish.c").write_text(SOURCE)
    subprocess.run(["cc", "-O3", "-shared", "-fPIC", "-o", folder / "finish.so", folder / "finish.c"], check=True)
    return ctypes.CDLL(str(folder / "finish.so"))


_library = _built()


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    y = x @ w
    pointer, size = ctypes.c_void_p, ctypes.c_long
    _library.finish(pointer(y.data_ptr()), pointer(b.data_ptr()), size(y.shape[0]), size(y.shape[1]))
    return y
