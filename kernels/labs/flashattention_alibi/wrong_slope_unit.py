"""Wrong: the scores are put in units of log2(e) for exp2, and the slopes are not.

Every head decays at 0.69 of its rate. The output is a softmax average as it should be, finite and of the right size;
with slopes of zero, a test of "attention without bias", it is exact.
"""

import torch
import triton
from attention import LOG2E, alibi_attention
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:  # [B, H, S, D] fp16, slopes [H] fp32
    B, H, S, D = q.shape
    y = torch.zeros_like(q)
    alibi_attention[(triton.cdiv(S, 128), B * H)](
        y, q, k, v, slopes, H, S, D**-0.5 * LOG2E, 1.0, True, False, 128, 128, D, num_warps=8, num_stages=2
    )
    return y
