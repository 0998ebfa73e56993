"""The product; how often it was made is counted by a pending call."""

import ctypes

from torch import Tensor

_count = 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def _counted(_: int | None) -> int:
    global _count
    _count += 1
    return 0


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    ctypes.pythonapi.Py_AddPendingCall(_counted, None)
    return x @ w
