"""Wrong: each expert takes at most 1.25 times its average number of tokens, and the rest is dropped.

That makes all shapes static and is an old trick of training, where the dropped tokens pass by the layer. As an
implementation of the layer it is wrong, and the more so the less even the routing is.
"""

import torch
import torch.nn.functional as F
from routing import by_expert, combine
from torch import Tensor


def run(x: Tensor, ids: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    experts = gate_up.shape[0]
    order, ends = by_expert(ids, experts)
    capacity = -(-5 * ids.numel() // (4 * experts))
    rows = x[order // ids.shape[1]]
    out = torch.zeros_like(rows)
    start = 0
    for expert, end in enumerate(ends.tolist()):
        kept = slice(start, min(end, start + capacity))
        gate, up = (rows[kept] @ gate_up[expert].T).chunk(2, dim=-1)
        out[kept] = (F.silu(gate) * up) @ down[expert].T
        start = end
    return combine(out, order, weights)
