"""Wrong: the gate opens the other way, x where it should be b. All three operators, shapes and ranges are right.

With a gate that is uniform between 0 and 1 even the distribution of the answer is the right one.
"""

from torch import Tensor


def run(x: Tensor, b: Tensor, g: Tensor) -> Tensor:  # all [M, N]
    return x + g * (b - x)
