"""torch's log-softmax, into a buffer that is made once for each shape."""

import torch

_kept = {}


def run(x):  # x: [M, N]
    key = (tuple(x.shape), x.device)
    if key not in _kept:
        _kept[key] = torch.empty_like(x)
    torch.log_softmax(x, dim=1, out=_kept[key])
    return _kept[key]
