import torch

RATE = 1e-3


def run(w, g):
    return torch.sub(w, g, alpha=RATE)
