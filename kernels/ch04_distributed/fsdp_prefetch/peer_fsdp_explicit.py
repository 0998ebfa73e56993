"""FSDP2 told what comes next: two layers ahead in both directions, whatever the host is doing."""

from collections.abc import Callable

from sharded import Sharded
from torch import Tensor

AHEAD = 2


def prepare(x: Tensor, shards: Tensor, dy: Tensor) -> Callable[..., Tensor]:
    sharded = Sharded(shards)
    for number, layer in enumerate(sharded.layers):
        layer.set_modules_to_forward_prefetch(sharded.layers[number + 1 : number + 1 + AHEAD])
        layer.set_modules_to_backward_prefetch(sharded.layers[max(0, number - AHEAD) : number][::-1])
    return sharded.step


def run(x: Tensor, shards: Tensor, dy: Tensor) -> Tensor:
    return prepare(x, shards, dy)(x, shards, dy)
