"""The operator on logits widened to fp32, as most training code has it: exact, and two more matrices, of fp32."""

import torch.nn.functional as F
from definition import IGNORED
from torch import Tensor


def run(logits: Tensor, labels: Tensor, trained: Tensor) -> Tensor:  # [M, V] bf16, [M], [M] -> [M] fp32
    targets = labels.masked_fill(~trained, IGNORED)
    return F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="none")
