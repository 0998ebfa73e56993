"""The same median by a selection, through torch's compiler, which keeps what it compiled in its cache."""

import torch


@torch.compile(dynamic=True)
def _middle(x):  # x: [M, N]
    return x.kthvalue((x.shape[1] + 1) // 2, dim=1).values + 0.0


def run(x):  # x: [M, N]
    return _middle(x)
