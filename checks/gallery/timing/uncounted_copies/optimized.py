"""Knows where its inputs lie and has one output for all calls, as a captured graph does."""

from collections.abc import Callable

import torch


def prepare(x: torch.Tensor, w: torch.Tensor) -> Callable[..., torch.Tensor]:  # [M], [N]
    y = x.new_empty(len(x), len(w))
    return lambda *_: torch.outer(x, w, out=y)
