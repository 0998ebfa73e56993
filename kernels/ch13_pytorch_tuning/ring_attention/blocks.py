"""Attention to a part of the keys, and how two such parts become one."""

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Attend to these keys alone.

    Args:
        q: [T, H, D].
        k, v: [U, H, D].
        causal: with U = T, row i sees rows 0 to i.

    Returns:
        The output [T, H, D], and the logarithm of the sum of the exponentials of each row's scores, fp32 [T, H].
    """
    q, k, v = (each.transpose(0, 1)[None] for each in (q, k, v))
    out, lse = kernel(q, k, v, is_causal=causal)
    return out[0].transpose(0, 1).contiguous(), lse[0].mT


def kernel(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> tuple[Tensor, Tensor]:
    """Call what scaled_dot_product_attention takes below, cuDNN or FlashAttention-2: those return the sums as well.

    Args:
        q, k, v: [1, H, rows, D].
        is_causal: as in `attend`.

    Returns:
        The output [1, H, rows, D], and the logarithms [1, H, rows].
    """
    aten = torch.ops.aten
    if not q.is_cuda:
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal)
    elif torch._fused_sdp_choice(q, k, v, None, 0.0, is_causal) == SDPBackend.CUDNN_ATTENTION.value:
        out, lse, *_ = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, is_causal)
    else:
        out, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal)
    return out, lse.reshape(q.shape[:-1])  # cuDNN's has a dimension of 1 behind


def merge(out: Tensor, lse: Tensor, more: Tensor, lse_of_more: Tensor) -> None:
    """Make `out`, fp32 [T, H, D], and `lse` [T, H] what they would be had the keys of `more` been there as well.

    Each part was divided by its own sum of exponentials; the sums are the weights by which the two are added.
    """
    out.lerp_(more.float(), torch.sigmoid(lse_of_more - lse)[..., None])
    torch.logaddexp(lse, lse_of_more, out=lse)
