"""The exchange in PyTorch's own operators, each a pass over memory or two."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from messages import BLOCK, LEAST, LIMIT, message, shard_of, split
from torch import Tensor


def narrow(values: Tensor, numbers: Tensor, scales: Tensor) -> Tensor:
    """Write `values` [..., shard] rounded into a message's two parts; return what a receiver makes of them."""
    blocks = values.unflatten(-1, (-1, BLOCK))
    scale = blocks.abs().amax(-1).clamp_(min=LEAST).div_(LIMIT)
    numbers.copy_((blocks / scale[..., None]).to(numbers.dtype).flatten(-2))
    scales.copy_(scale)
    return widen(numbers, scales)


def widen(numbers: Tensor, scales: Tensor) -> Tensor:
    """The values, fp32, of a message's two parts."""
    return (numbers.float().unflatten(-1, (-1, BLOCK)) * scales[..., None]).flatten(-2)


def exchange(
    grads: Tensor, residual: Tensor, element: torch.dtype, narrow: Callable[..., Tensor] = narrow
) -> tuple[Tensor, Tensor]:
    """Make `grads` [N] the ranks' rounded mean of grads + residual; `residual` [N] keeps what both roundings took."""
    ranks, shard = dist.get_world_size(), shard_of(len(grads), dist.get_world_size())
    outgoing, own = message(grads, shard, element, ranks), message(grads, shard, element)
    wanted = torch.nn.functional.pad(grads + residual, (0, ranks * shard - len(grads))).view(ranks, shard)
    sent = narrow(wanted, *split(outgoing, shard, element))
    residual.copy_((wanted - sent).flatten()[: len(grads)])

    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing)
    mean = widen(*split(incoming, shard, element)).sum(0).div_(ranks)
    sent = narrow(mean, *split(own, shard, element))
    mine = residual[dist.get_rank() * shard :][:shard]
    mine.add_((mean - sent)[: len(mine)], alpha=ranks)  # the mean counts once for every rank

    gathered = torch.empty_like(incoming)
    dist.all_gather_into_tensor(gathered.view(-1), own)
    grads.copy_(widen(*split(gathered, shard, element)).flatten()[: len(grads)])
    return grads, residual
