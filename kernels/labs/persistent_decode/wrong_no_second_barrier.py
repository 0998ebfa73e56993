"""Wrong: the barrier behind a token is left out, so a block that is early reads a state that is partly the last one's.

Written in PyTorch, where the race can be frozen: the last quarter of the state comes from blocks that were late. On a
GPU the missing barrier is worse to find. It shows once in a thousand runs, and never under a debugger.
"""

import torch
from cell import token


def run(x: torch.Tensor, h0: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    before, h = h0, h0
    for t in range(len(x)):
        late = h.numel() - h.numel() // 4
        seen = torch.cat((h[:late], before[late:]))
        before, h = h, token(seen, x[t], w_gate_up, w_down)
        y[t] = h
    return y
