"""The product; how long its own calls take is noted, which changes nothing of what they do."""

import time

from torch import Tensor

taken_ms: list[float] = []


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    start = time.perf_counter()
    y = x @ w
    taken_ms.append((time.perf_counter() - start) * 1e3)
    del taken_ms[:-10]
    return y
