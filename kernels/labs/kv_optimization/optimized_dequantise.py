"""fp8 pages, all of which every step turns back into fp16 for the fp16 kernel: small at rest, not at work."""

import torch
from paged import Cache
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor) -> Tensor:
    # q, new_k, new_v [B, G, H, D] fp16; k, v [B, L, H, D] fp16; lengths [B] in host memory -> [B, G, H, D] fp16
    G = q.shape[1]
    cache = Cache.for_requests(lengths, G, k, fp8=True)
    ones = torch.ones_like(cache.lengths)
    cache.store(k, v, torch.zeros_like(ones), cache.lengths)
    y = torch.empty_like(q)
    for step in range(G):
        token = slice(step, step + 1)
        cache.store(new_k[:, token], new_v[:, token], cache.lengths, ones, step)
        # In place after the first rounding to fp16, so that no fp32 copy of a whole cache is made.
        keys = cache.keys.to(q.dtype).mul_(cache.key_scales[..., None])
        values = cache.values.to(q.dtype).mul_(cache.value_scales[..., None])
        nothing = cache.key_scales[:0]
        wide = Cache(keys, values, nothing, nothing, cache.table, cache.lengths, False)
        wide.attend(y[:, step], q[:, step], step + 1)
    return y
