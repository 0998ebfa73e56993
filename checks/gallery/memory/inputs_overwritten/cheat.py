"""All steps but the last one in the input's own memory."""

import torch


def run(x):  # x: [M, N]
    x.mul_(2).exp_().add_(1).log_()
    return torch.sqrt(x)
