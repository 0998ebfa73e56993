"""Triton: a program per row keeps a running maximum and sum, so that the row is read once and nothing written back."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192
WARPS = 8


@triton.jit
def row_loss(loss_ptr, logits_ptr, labels_ptr, trained_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # 16384 rows of 131072 are 2**31 elements
    largest = float("-inf")
    total = 0.0  # sum of exp(x - largest) over what has been read
    for start in range(0, V, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * V + at, mask=at < V, other=float("-inf")).to(tl.float32)
        raised = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - raised) + tl.sum(tl.exp(x - raised), axis=0)
        largest = raised
    chosen = tl.load(logits_ptr + row * V + tl.load(labels_ptr + row)).to(tl.float32)
    loss = largest + tl.log(total) - chosen
    tl.store(loss_ptr + row, tl.where(tl.load(trained_ptr + row) != 0, loss, 0.0))


def run(logits: Tensor, labels: Tensor, trained: Tensor) -> Tensor:  # [M, V] bf16, [M], [M] -> [M] fp32
    M, V = logits.shape
    loss = torch.empty(M, dtype=torch.float32, device=logits.device)
    block = min(BLOCK, triton.next_power_of_2(V))
    row_loss[(M,)](loss, logits, labels, trained, V, BLOCK=block, num_warps=WARPS)
    return loss
