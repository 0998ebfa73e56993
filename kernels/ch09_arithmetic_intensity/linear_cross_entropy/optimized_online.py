"""1024 tokens at a time, and a kernel that reads a chunk's bf16 logits once and stores nothing but the losses.

The fp32 copy and the log-probabilities never exist. The sum of exponentials is kept with the largest logit so far,
and rescaled when a larger one comes.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from chunks import in_chunks
from torch import Tensor

CHUNK = 1024  # tokens
BLOCK = 4096  # logits per step


@triton.jit
def token_losses(loss_ptr, logits_ptr, target_ptr, V, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = logits_ptr + token * V
    largest = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)  # of exp(logit - largest), lane by lane
    for start in range(0, V, BLOCK):
        v = start + tl.arange(0, BLOCK)
        logits = tl.load(row + v, mask=v < V, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, logits)
        # A lane that has seen nothing but -inf would compute -inf - -inf, a NaN.
        anchor = tl.where(larger == float("-inf"), 0.0, larger)
        total = total * tl.exp(largest - anchor) + tl.exp(logits - anchor)
        largest = larger
    peak = tl.max(largest, axis=0)
    log_sum = peak + tl.log(tl.sum(total * tl.exp(largest - peak), axis=0))
    chosen = tl.load(row + tl.load(target_ptr + token)).to(tl.float32)
    tl.store(loss_ptr + token, log_sum - chosen)


def loss_of(h: Tensor, w: Tensor, target: Tensor) -> Tensor:  # h [C, H], w [V, H], target [C] -> [C] fp32
    logits = F.linear(h, w)
    loss = torch.empty(h.shape[0], dtype=torch.float32, device=h.device)
    token_losses[(h.shape[0],)](loss, logits, target, w.shape[0], BLOCK, num_warps=8)
    return loss


def run(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:  # h [T, H], w [V, H] bf16, target [T] int64
    return in_chunks(loss_of, h, w, target, chunk=CHUNK)
