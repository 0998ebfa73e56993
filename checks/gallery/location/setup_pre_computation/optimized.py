"""The buffers are made once; every call sorts what it is given into them."""

import torch


def prepare(x):  # x: [M, N]
    values, places = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64, device=x.device)

    def step(x):
        torch.sort(x, dim=1, out=(values, places))
        return values

    return step


def run(x):
    return prepare(x)(x)
