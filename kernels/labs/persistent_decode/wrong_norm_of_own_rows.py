"""Wrong: every block divides by the norm of the rows that it owns, because those are the ones that it has at hand.

Right as long as one block owns everything, up to D = 64 here. Beyond, the norms of two slices of random numbers differ
by a few percent only: each state looks plausible, and so do the tokens.
"""

import torch
import torch.nn.functional as F
from cell import EPS, LEAK

OWNED = 64


def run(x: torch.Tensor, h0: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    h = h0
    for t in range(len(x)):
        v = h + x[t]
        n = torch.cat([F.rms_norm(part, part.shape, None, EPS) for part in v.split(OWNED)])
        gate, up = F.linear(n, w_gate_up).chunk(2)
        h = torch.add(F.linear(F.silu(gate) * up, w_down), v, alpha=LEAK)
        y[t] = h
    return y
