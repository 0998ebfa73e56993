"""The chain in fp64."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * torch.exp(torch.cos(x))
