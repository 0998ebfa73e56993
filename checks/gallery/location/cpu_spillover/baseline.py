"""To the GPU, and reduced there."""

import torch


def run(x):  # x: [M, N] in page-locked host memory -> [M] on the GPU
    return torch.logsumexp(x.to("cuda", non_blocking=True), dim=1)
