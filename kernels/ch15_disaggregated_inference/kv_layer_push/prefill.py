"""The layers of the prompt's pass that all rungs share, and who does what: rank 0 prefills, rank 1 is to decode."""

from collections.abc import Callable

import torch
from torch import Tensor

PREFILL, DECODE = 0, 1


def prefill(
    x: Tensor, kv: Tensor, up: Tensor, down: Tensor, cache: Tensor, done: Callable[[int], None] | None = None
) -> None:
    """Fill `cache` [L, T, 2D]; `done` is told each layer whose keys and values are there, before its wide product."""
    stream = x.float()  # from layer to layer: rounded to bf16 each time, it would be further off with every one
    for layer, (project, widen, narrow) in enumerate(zip(kv, up, down, strict=True)):
        hidden = stream.to(x.dtype)
        torch.mm(hidden, project, out=cache[layer])
        if done is not None:
            done(layer)
        stream = torch.nn.functional.rms_norm(stream + torch.tanh(hidden @ widen) @ narrow, stream.shape[-1:])
