"""One buffer for all calls; each writes the whole of it."""

import torch


def prepare(x):  # x: [M, N] -> [M, 4N]
    y = torch.empty(x.shape[0], 4 * x.shape[1], dtype=x.dtype, device=x.device)

    def step(x):
        y[:, : x.shape[1]] = x
        y[:, x.shape[1] :] = 0
        return y

    return step


def run(x):
    return prepare(x)(x)
