"""Tokens to experts and back: what all sorted rungs share.

A slot is one (token, choice) pair, numbered token * K + choice.
"""

import torch
from torch import Tensor


def by_expert(ids: Tensor, experts: int) -> tuple[Tensor, Tensor]:
    """The slots in order of their expert [T*K], and where each expert's slots end in that order [E], int32."""
    chosen, order = ids.flatten().sort(stable=True)
    ends = torch.searchsorted(chosen, torch.arange(experts, device=ids.device), right=True, out_int32=True)
    return order, ends


def combine(out: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """Rows in expert order [T*K, H] back to their slots, then each token's K rows weighted and summed: [T, H]."""
    T, K = weights.shape
    slots = torch.empty_like(out).index_copy_(0, order, out)
    return torch.bmm(weights[:, None], slots.view(T, K, -1)).squeeze(1)
