"""How far each key lies behind each query, from which every mask here is made."""

import torch
from torch import Tensor


def behind(L: int, device: torch.device) -> Tensor:
    """[L, L] int32: query's place less key's. Negative: the future."""
    places = torch.arange(L, dtype=torch.int32, device=device)
    return places[:, None] - places[None, :]
