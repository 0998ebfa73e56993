"""fp32 on the link: everything is sent as it is, and nothing is left for the next step."""

import torch.distributed as dist
from torch import Tensor


def run(grads: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # this rank's [N] each, changed in place
    grads.add_(residual)
    dist.all_reduce(grads)
    return grads.div_(dist.get_world_size()), residual.zero_()
