"""The truth, in fp64: the attention over both halves of the keys, from each half's output and log-sum-exp.

a, b [T, H, D] are the halves' outputs, la, lb [T, H] the logarithms of the sums of their weights: y [T, H, D] is the
mean of a and b weighted by exp(la) and exp(lb), lse [T, H] the logarithm of exp(la) + exp(lb). A half that saw no key
has -inf and weighs nothing; where both saw none, y is 0 and lse -inf, as for attention over no keys.
"""

import torch
from torch import Tensor


def run(a: Tensor, b: Tensor, la: Tensor, lb: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(la, lb)
    seen = torch.where(lse == -torch.inf, 0.0, lse)  # exp(-inf - 0) is the 0 that is wanted, -inf - -inf a NaN
    return torch.exp(la - seen)[..., None] * a + torch.exp(lb - seen)[..., None] * b, lse
