"""The step that every rung takes: AdamW's numbers, and the operators of one update.

The step count is a Python number, as in torch.optim, where the counter lives on the host: reading it never waits
for the GPU.
"""

import math

import torch

LR = 1e-3
BETA1 = 0.9
BETA2 = 0.999
EPS = 1e-8
WEIGHT_DECAY = 0.01
STEP = 10

STEP_SIZE = LR / (1 - BETA1**STEP)
ROOT_CORRECTION = math.sqrt(1 - BETA2**STEP)


def update_(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> None:
    """One AdamW step in place, whatever the shape: eight operators, each a pass over memory."""
    p.mul_(1 - LR * WEIGHT_DECAY)
    m.lerp_(g, 1 - BETA1)
    v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
    root = v.sqrt().div_(ROOT_CORRECTION).add_(EPS)
    p.addcdiv_(m, root, value=-STEP_SIZE)
