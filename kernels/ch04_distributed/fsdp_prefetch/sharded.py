"""The same stack as a module for FSDP2: every layer is a group of its own, gathered and let go as one."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard


class Layer(nn.Module):
    """One product with a tanh behind it."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:  # [B, D] -> [B, D]
        return torch.tanh(nn.functional.linear(x, self.weight))


class Sharded:
    """The stack under `fully_shard`, made of all ranks' rows.

    Attributes:
        layers: the sharded layers, in the order of the forward pass.
    """

    def __init__(self, shards: Tensor) -> None:  # this rank's [L, R, D]
        with torch.enable_grad():
            self._model = nn.Sequential(*(Layer(_whole(shard)) for shard in shards))
            for layer in self._model:
                fully_shard(layer)
            fully_shard(self._model)
        self.layers: list[FSDPModule] = list(self._model)

    def step(self, x: Tensor, _: Tensor, dy: Tensor) -> Tensor:
        """This rank's rows of the mean gradient, [L, R, D]."""
        self._model.zero_grad(set_to_none=True)
        with torch.enable_grad():
            self._model(x).backward(dy)
        return torch.stack([parameter.grad.to_local() for parameter in self._model.parameters()])


def _whole(shard: Tensor) -> Tensor:
    rows = shard.new_empty(dist.get_world_size() * shard.shape[0], shard.shape[1])
    dist.all_gather_into_tensor(rows, shard.contiguous())
    return rows
