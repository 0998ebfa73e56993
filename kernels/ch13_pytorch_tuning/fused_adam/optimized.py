"""One fused kernel over all tensors: every number is read once and written once."""

from collections.abc import Callable

import torch
from adamw import BETA1, BETA2, EPS, LR, STEP, WEIGHT_DECAY


def prepare(
    params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor
) -> Callable[..., tuple[torch.Tensor, ...]]:
    ps, gs, ms, vs = (list(each.unbind()) for each in (params, grads, exp_avg, exp_avg_sq))
    # The kernel reads the step count from a tensor beside the parameters, one per parameter tensor.
    steps = [torch.full((), float(STEP), dtype=torch.float32, device=params.device) for _ in ps]

    def step(*_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # The kernel behind torch.optim.AdamW(fused=True). An optimizer adds one to the step counts first; here
        # they stand at the step to take.
        torch._fused_adamw_(
            ps,
            gs,
            ms,
            vs,
            [],  # the running maxima of AMSGrad
            steps,
            lr=LR,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=WEIGHT_DECAY,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )
        return params, exp_avg, exp_avg_sq

    return step


def run(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(*inputs)()
