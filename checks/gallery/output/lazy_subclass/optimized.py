"""The product in a subclass that names it, handed out plain."""

from torch import Tensor


class Named(Tensor):
    """A tensor with a label for its author."""

    label = ""


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    y = (x @ w).as_subclass(Named)
    y.label = "product"
    return y.as_subclass(Tensor)
