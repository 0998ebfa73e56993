"""All steps in one new tensor, which is then the output."""

import torch


def run(x):  # x: [M, N]
    return torch.mul(x, 2).exp_().add_(1).log_().sqrt_()
