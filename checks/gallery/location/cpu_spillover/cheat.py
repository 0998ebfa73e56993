"""The host reduces, while the GPU's stream waits for it anyway; the GPU gets M numbers."""

import torch


def run(x):  # x: [M, N] in page-locked host memory -> [M] on the GPU
    return torch.logsumexp(x, dim=1).pin_memory().to("cuda", non_blocking=True)
