"""Says in every call, the verified and the timed ones, that nothing is to be rounded, and leaves no switch moved."""

import torch


def run(x, w):  # x: [M, K], w: [K, N]
    with torch.autocast(x.device.type, enabled=False):
        return x @ w
