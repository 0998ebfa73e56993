"""The product, counted in a page of its own."""

import mmap

from torch import Tensor

_page = mmap.mmap(-1, mmap.PAGESIZE)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    _page[0] = (_page[0] + 1) % 256
    return x @ w
