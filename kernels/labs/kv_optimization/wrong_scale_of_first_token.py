"""Wrong: one scale for each request and head, taken from its first token; what is larger later is cut off at 448.

It saves all scales but one, and every test passes in which the first token is among the largest. The codes are turned
back at once here, so that the rest of the rung is the paged one.
"""

import torch
from paged import decode
from torch import Tensor


def through_fp8(prompt: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:  # [B, L, H, D], [B, G, H, D]
    scale = prompt[:, :1].float().abs().amax(dim=-1, keepdim=True).clamp(min=1e-20) / 448  # [B, 1, H, 1]

    def there_and_back(x: Tensor) -> Tensor:
        codes = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return (codes.float() * scale).to(x.dtype)

    return there_and_back(prompt), there_and_back(new)


def run(q: Tensor, k: Tensor, v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor) -> Tensor:
    # q, new_k, new_v [B, G, H, D] fp16; k, v [B, L, H, D] fp16; lengths [B] in host memory -> [B, G, H, D] fp16
    k, new_k = through_fp8(k, new_k)
    v, new_v = through_fp8(v, new_v)
    return decode(q, k, v, new_k, new_v, lengths, fp8=False)
