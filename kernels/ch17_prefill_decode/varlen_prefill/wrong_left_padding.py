"""Wrong: padded on the left, as generation likes it, with the causal mask alone.

On the left the padding is everybody's past. Its keys are zeros, so its scores are 0 and not minus infinity: each
padded place takes a share of the softmax and gives a value of zero. The longest request is right, all others fade.
"""

import torch
import torch.nn.functional as F
from padding import longest, pad, places, unpad
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, starts: Tensor) -> Tensor:  # [T, H, D] -> [T, H, D]
    B, L = len(starts) - 1, longest(starts)
    lengths = starts.diff().long()
    request = torch.arange(B, device=q.device).repeat_interleave(lengths)
    rows = places(starts, L) + (L - lengths)[request]
    q, k, v = (pad(x, rows, B, L) for x in (q, k, v))
    return unpad(F.scaled_dot_product_attention(q, k, v, is_causal=True), rows)
