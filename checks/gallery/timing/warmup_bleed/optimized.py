"""Keeps one workspace per shape; every call computes its result in it anew and hands out a copy."""

import torch

workspaces: dict[tuple[int, int], torch.Tensor] = {}


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    shape = (x.shape[0], w.shape[1])
    if shape not in workspaces:
        workspaces[shape] = torch.empty(shape, dtype=x.dtype, device=x.device)
    return torch.mm(x, w, out=workspaces[shape]).clone()
