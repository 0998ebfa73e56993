"""The library's all-reduces captured into one graph: no host between two of them."""

from collections.abc import Callable

import baseline
from graphs import replayed
from torch import Tensor


def prepare(x: Tensor) -> Callable[..., Tensor]:
    return replayed(baseline.run, x)


def run(x: Tensor) -> Tensor:  # this rank's [C, N] -> the sums over all ranks, in place
    return prepare(x)(x)
