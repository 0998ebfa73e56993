"""Epsilon added under the root. With gradients near 1e-4 the second moment is as small as epsilon itself."""

from collections.abc import Callable

import torch
from adamw import BETA1, BETA2, EPS, LR, ROOT_CORRECTION, STEP_SIZE, WEIGHT_DECAY


def prepare(
    params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor
) -> Callable[..., tuple[torch.Tensor, ...]]:
    ps, gs, ms, vs = (list(each.unbind()) for each in (params, grads, exp_avg, exp_avg_sq))

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch._foreach_mul_(ps, 1 - LR * WEIGHT_DECAY)
        torch._foreach_lerp_(ms, gs, 1 - BETA1)
        torch._foreach_mul_(vs, BETA2)
        torch._foreach_addcmul_(vs, gs, gs, 1 - BETA2)
        roots = torch._foreach_sqrt(torch._foreach_add(vs, EPS))
        torch._foreach_div_(roots, ROOT_CORRECTION)
        torch._foreach_addcdiv_(ps, ms, roots, -STEP_SIZE)
        return params, exp_avg, exp_avg_sq

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
