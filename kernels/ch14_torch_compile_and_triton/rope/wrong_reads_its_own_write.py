"""Wrong: in place, the second half is computed from a first half that has just been overwritten.

At position 0 (cos 1, sin 0) nothing shows, and small angles show little.
"""

from torch import Tensor


def turn_(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)  # views
    c, s = cos[:, None], sin[:, None]
    first.copy_(first * c - second * s)
    second.copy_(second * c + first * s)  # `first` is the new one by now
    return x


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    return turn_(q.clone(), cos, sin), turn_(k.clone(), cos, sin)
