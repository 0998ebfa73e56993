"""FSDP2 as it is: forward, the host runs ahead and gathers on another stream; backward, one layer is prefetched."""

from collections.abc import Callable

from sharded import Sharded
from torch import Tensor


def prepare(x: Tensor, shards: Tensor, dy: Tensor) -> Callable[..., Tensor]:
    return Sharded(shards).step


def run(x: Tensor, shards: Tensor, dy: Tensor) -> Tensor:
    return prepare(x, shards, dy)(x, shards, dy)
