"""Wrong: a token's page number stops at the page that was open when the prompt ended.

The first new token that needs a page of its own begins the old one again and overwrites its first tokens. Right for
every request whose answer ends within the prompt's last page: 15 of 16 for one step, and all of them in a test that
starts at a multiple of 16 and decodes less than 16.
"""

import torch
from paged import Cache
from serving import PAGE
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor) -> Tensor:
    # q, new_k, new_v [B, G, H, D] fp16; k, v [B, L, H, D] fp16; lengths [B] in host memory -> [B, G, H, D] fp16
    G = q.shape[1]
    cache = Cache.for_requests(lengths, G, k, fp8=True)
    open_page = cache.lengths // PAGE
    number = torch.arange(cache.table.shape[1], device=q.device)
    cache.table = cache.table.gather(1, torch.minimum(number, open_page[:, None]))
    ones = torch.ones_like(cache.lengths)
    cache.store(k, v, torch.zeros_like(ones), cache.lengths)
    y = torch.zeros_like(q)
    for step in range(G):
        token = slice(step, step + 1)
        cache.store(new_k[:, token], new_v[:, token], cache.lengths, ones, step)
        cache.attend(y[:, step], q[:, step], step + 1)
    return y
