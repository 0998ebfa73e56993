"""Rows split over programs, 1024 each; a second launch of the same kernel adds up what they found."""

from strips import ROWS, partial_sums
from torch import Tensor


def run(x: Tensor) -> Tensor:  # x [M, N] -> [N]
    parts = partial_sums(x, rows=ROWS)
    if parts.shape[0] > 1:
        parts = partial_sums(parts, rows=parts.shape[0])
    return parts[0]
