"""Liger's cross-entropy: the row's maximum and sum in one pass too; its loss is rounded to bf16, as PyTorch's is."""

from definition import IGNORED
from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from torch import Tensor


def run(logits: Tensor, labels: Tensor, trained: Tensor) -> Tensor:  # [M, V] bf16, [M], [M] -> [M] fp32
    targets = labels.masked_fill(~trained, IGNORED)
    loss, *_ = LigerCrossEntropyFunction.apply(logits, targets, None, IGNORED, 0.0, 0.0, "none")
    return loss.float()
