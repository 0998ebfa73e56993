"""Wrong: one buffer for both halves, filled again before the first half was read: the race, as it is lost.

With a copy that does not block and nobody who waits, the host may be done with the second half before the GPU has
begun to read the first. Here it always is, so that the mistake shows every time and on any device.
"""

import torch
from staging import host_buffer
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N] in pageable host memory, w [N] -> [M, N]
    rows = -(-x.shape[0] // 2)
    buffer = host_buffer(x, rows, w.device).zero_()
    y = torch.zeros(x.shape, dtype=x.dtype, device=w.device)
    halves = [*zip(x.split(rows), y.split(rows), strict=True)]
    for part, _ in halves:
        buffer[: part.shape[0]].copy_(part)
    for part, there in halves:
        there.copy_(buffer[: part.shape[0]], non_blocking=True)
    return y.mul_(w)
