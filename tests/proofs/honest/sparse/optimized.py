"""Rows compressed by torch in prepare()."""

from collections.abc import Callable

from torch import Tensor


def prepare(w: Tensor, x: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Compress the static matrix."""
    packed = w.to_sparse_csr()
    return lambda w, x: packed @ x
