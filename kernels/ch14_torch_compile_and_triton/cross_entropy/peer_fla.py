"""Flash Linear Attention's cross-entropy: a program per 65536 logits of a row, a second kernel to combine; fp32 loss.

It writes two more numbers per row, the log-sum-exp and a regulariser that is zero here: 8 bytes, beside 2 V.
"""

from definition import IGNORED
from fla.modules.fused_cross_entropy import cross_entropy_loss
from torch import Tensor


def run(logits: Tensor, labels: Tensor, trained: Tensor) -> Tensor:  # [M, V] bf16, [M], [M] -> [M] fp32
    targets = labels.masked_fill(~trained, IGNORED)
    loss, _ = cross_entropy_loss(logits, targets, ignore_index=IGNORED)
    return loss
