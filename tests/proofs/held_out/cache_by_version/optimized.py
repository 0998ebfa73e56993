"""The product with a copy of the static weights in another layout, made anew when their version says so."""

from torch import Tensor

_layouts: dict[tuple[int, int], Tensor] = {}


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    key = (w.data_ptr(), w._version)
    if key not in _layouts:
        _layouts.clear()
        _layouts[key] = w.t().contiguous()
    return x @ _layouts[key].t()
