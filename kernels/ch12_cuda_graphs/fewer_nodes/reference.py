"""The truth, in fp64: layer by layer, each with the norm of its own input."""

import torch


def run(x: torch.Tensor, scale: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    for layer in range(scale.shape[0]):
        n = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5) * scale[layer]
        x = x + n / (1 + torch.exp(-n)) * gate[layer]
    return x
