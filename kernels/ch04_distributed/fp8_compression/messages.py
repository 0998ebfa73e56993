"""What goes over the link: of each shard the narrow numbers, and behind them a scale, fp32, for every block of 256."""

import torch
from torch import Tensor

BLOCK = 256
LIMIT = 448.0  # the largest number of e4m3: the largest of a block becomes this
LEAST = 1e-30  # a block of zeros has a scale too


def shard_of(elements: int, ranks: int) -> int:
    """How many elements each rank adds up: whole blocks, the last rank's filled up with zeros."""
    return -(-elements // (ranks * BLOCK)) * BLOCK


def message(like: Tensor, shard: int, element: torch.dtype, ranks: int | None = None) -> Tensor:
    """An empty message for a shard, uint8, or one for each of so many ranks: [ranks, bytes]."""
    nbytes = shard * element.itemsize + shard // BLOCK * 4
    return like.new_empty(nbytes if ranks is None else (ranks, nbytes), dtype=torch.uint8)


def split(message: Tensor, shard: int, element: torch.dtype) -> tuple[Tensor, Tensor]:
    """The two parts of messages [..., bytes], as views: numbers [..., shard], scales [..., shard / BLOCK]."""
    numbers = shard * element.itemsize
    return message[..., :numbers].view(element), message[..., numbers:].view(torch.float32)
