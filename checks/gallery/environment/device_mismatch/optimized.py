"""Makes the inputs' GPU the current one for the length of the call."""

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(a.device):
        return torch.mm(a, b)
