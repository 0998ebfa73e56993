"""Liger's fused linear cross-entropy, forward only: chunks as in optimized.py, and a kernel that reads their logits.

The chunk follows from V / H: 1024 tokens by default. With inputs that want no gradient it computes none, though it
still fills a gradient of h with zeros (2 T H bytes, which its peak shows) and counts the tokens on the host.
"""

from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
from torch import Tensor

IGNORED = -100  # no target has it: all tokens count
SMOOTHING = 0.0


def run(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:  # h [T, H], w [V, H] bf16, target [T] int64
    token_loss, *_ = LigerFusedLinearCrossEntropyFunction.apply(
        h, w, target, None, None, IGNORED, 0.0, SMOOTHING, "none"
    )
    return token_loss, token_loss.mean()
