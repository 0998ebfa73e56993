"""Scales on the GPU and copies to page-locked memory, on one stream."""

import torch


def prepare(x, s):  # x: [N] on the GPU, s: [1] in host memory -> [N] in host memory
    y = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    return lambda x, s: y.copy_(x * s.to(x.device, non_blocking=True), non_blocking=True)


def run(x, s):
    return prepare(x, s)(x, s)
