"""Sort, running sum, and the smallest weight that is still inside: what every sampling code starts with."""

from definition import P
from torch import Tensor


def run(weights: Tensor) -> Tensor:  # [B, V] int32 -> [B, V] bool
    values = weights.sort(dim=-1, descending=True).values
    held = values.cumsum(dim=-1)  # int64, as torch sums whole numbers
    inside = 100 * (held - values) < P * held[:, -1:]
    smallest = values.masked_fill(~inside, 2**31 - 1).amin(dim=-1, keepdim=True)
    return weights >= smallest
