"""Between the packed batch [T, H, D] and the padded one [B, L, H, D], where L is the longest request.

The places follow from `starts` alone. They are worked out once per batch and serve every layer of the model.
"""

import torch
from torch import Tensor


def longest(starts: Tensor) -> int:
    """The longest request's tokens, at least 1. Waits for the device: for prepare, not for a timed call."""
    return max(1, int(starts.diff().max()))


def places(starts: Tensor, L: int) -> Tensor:
    """Row of each packed token in the padded batch [B*L], int64 [T]: request b's tokens begin at b*L."""
    lengths = starts.diff().long()
    request = torch.arange(len(lengths), device=starts.device).repeat_interleave(lengths)
    token = torch.arange(len(request), device=starts.device)
    return request * L + token - starts[:-1].long()[request]


def pad(x: Tensor, rows: Tensor, B: int, L: int) -> Tensor:
    """x [T, H, D] -> [B, H, L, D], zeros behind each request's end."""
    padded = x.new_zeros(B * L, *x.shape[1:])
    padded[rows] = x
    return padded.view(B, L, *x.shape[1:]).transpose(1, 2)


def unpad(y: Tensor, rows: Tensor) -> Tensor:
    """y [B, H, L, D] -> [T, H, D]."""
    return y.transpose(1, 2).flatten(0, 1)[rows]
