"""The truth, in fp64: class probabilities of every request, written out without the shared network."""

import math

import torch


def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    hidden = torch.einsum("rd,dh->rh", x, w1)
    hidden = 0.5 * hidden * (1.0 + torch.erf(hidden / math.sqrt(2.0)))
    scores = torch.einsum("rh,hc->rc", hidden, w2)
    weights = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    return weights / weights.sum(dim=1, keepdim=True)
