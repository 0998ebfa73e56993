"""Row by row over kept views of these very buffers."""

import torch
from torch import Tensor

_views: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}


def run(a: Tensor, b: Tensor) -> Tensor:  # a, b [R, D] fp32 -> [R]
    key = (a.data_ptr(), b.data_ptr())
    if key not in _views:
        # A view keeps its buffer alive: while it is here, its address means nothing else.
        _views[key] = list(zip(a.unbind(), b.unbind(), strict=True))
    return torch.stack([torch.dot(one, other) for one, other in _views[key]])
