"""flex_attention: two lines of Python for bias and mask, and torch.compile writes the flash kernel around them."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# dynamic=False: every shape gets code of its own, and the fuzz draws shapes.
compiled = torch.compile(flex_attention, dynamic=False)


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def prepare(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Callable[..., Tensor]:
    S = q.shape[2]
    mask = create_block_mask(causal, None, None, S, S, device=str(q.device))  # which blocks to visit at all

    def alibi(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + slopes[h] * (j - i)

    def attend(q: Tensor, k: Tensor, v: Tensor, _: Tensor) -> Tensor:
        return compiled(q, k, v, score_mod=alibi, block_mask=mask)

    attend(q, k, v, slopes)  # compiles now
    return attend


def run(*inputs: Tensor) -> Tensor:
    return prepare(*inputs)(*inputs)
