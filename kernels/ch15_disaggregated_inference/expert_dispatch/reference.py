"""The truth, in fp64: y[t] = sum over k of weights[t, k] * mlp of expert ids[t, k] at x[t].

x [T, H], ids and weights [T, K], gate_up [E, 2I, H], down [E, H, I]; the mlp is down @ (silu(gate @ x) * (up @ x)).
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def run(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    # A place for every (token, slot), summed at the end. Not index_add_: where a token has an expert twice, it adds
    # in another order each time on a GPU, and a truth gives the same twice.
    made = x.new_zeros(*ids.shape, x.shape[1])
    for expert in range(gate_up.shape[0]):
        token, slot = torch.where(ids == expert)
        gate, up = (x[token] @ gate_up[expert].T).chunk(2, dim=-1)
        made[token, slot] = (F.silu(gate) * up) @ down[expert].T * weights[token, slot, None]
    return made.sum(1)
