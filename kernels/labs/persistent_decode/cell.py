"""The decoder that every rung runs: one gated cell whose state is carried from token to token."""

import torch
import torch.nn.functional as F

EPS = 1e-6  # added to the mean of the squares, inside the root
LEAK = 0.5  # the share of a token's sum that stays in the state; less than 1, so that rounding errors die out


def token(
    h: torch.Tensor,  # [D], the state after the token before
    x: torch.Tensor,  # [D], this token's embedding
    w_gate_up: torch.Tensor,  # [2 F, D], gate above up
    w_down: torch.Tensor,  # [D, F]
) -> torch.Tensor:
    """The state after this token, [D]: seven operators, two of them matrix-vector products."""
    v = h + x
    n = F.rms_norm(v, v.shape, None, EPS)
    gate, up = F.linear(n, w_gate_up).chunk(2)
    return torch.add(F.linear(F.silu(gate) * up, w_down), v, alpha=LEAK)


def decode(x: torch.Tensor, h0: torch.Tensor, w_gate_up: torch.Tensor, w_down: torch.Tensor) -> torch.Tensor:
    """All tokens, one after the other: x [G, D], h0 [D] -> the states [G, D]."""
    states = []
    h = h0
    for embedding in x:
        h = token(h, embedding, w_gate_up, w_down)
        states.append(h)
    return torch.stack(states)
