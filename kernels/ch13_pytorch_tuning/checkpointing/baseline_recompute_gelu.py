"""GELU's output is not kept: backward makes it again from GELU's input, which is kept anyway."""

import torch
import torch.nn.functional as F
from stack import Results, train


class FrugalBlock(torch.autograd.Function):
    """The block with its backward written out; five units kept and not nine."""

    @staticmethod
    def forward(ctx, h: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        before = h @ w1
        ctx.save_for_backward(h, before, w1, w2)
        return h + F.gelu(before) @ w2

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h, before, w1, w2 = ctx.saved_tensors
        dw2 = F.gelu(before).t() @ dy
        d_before = torch.ops.aten.gelu_backward(dy @ w2.t(), before)
        return dy + d_before @ w1.t(), h.t() @ d_before, dw2


def run(x: torch.Tensor, target: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> Results:
    return train(lambda _, h, a, b: FrugalBlock.apply(h, a, b), x, target, w1, w2)
