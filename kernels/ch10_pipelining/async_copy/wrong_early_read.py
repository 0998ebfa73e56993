"""Wrong: a stage is read before its copy has arrived, as with a `wait_group` that allows one group too many.

On a GPU this is a race: it may pass a thousand times, and a test with the same data in every tile cannot see it at all.
Here it is played out in the worst order, so that it can be refused: every tile is filtered from what its stage held
before, and only then does the copy land.
"""

import torch
from torch import Tensor

TILE = 2048
STAGES = 2


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N + 32], w [33] -> [M, N]
    halo = len(w) - 1
    M, N = x.shape[0], x.shape[1] - halo
    y = torch.zeros((M, N), dtype=x.dtype, device=x.device)
    ring = torch.zeros((STAGES, M, TILE + halo), dtype=x.dtype, device=x.device)
    for i, start in enumerate(range(0, N, TILE)):
        count = min(TILE, N - start)
        stage = ring[i % STAGES]
        for t in range(len(w)):
            y[:, start : start + count] += w[t] * stage[:, t : t + count]
        stage[:, : count + halo] = x[:, start : start + count + halo]  # the copy lands too late
    return y
