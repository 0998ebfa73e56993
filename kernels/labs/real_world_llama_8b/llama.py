"""The stack of layers in the operators of a careful eager implementation, and what all rungs must agree on."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

EPS = 1e-5  # added to the mean of the squares, inside the root
THETA = 500_000.0  # base of the rotary frequencies


def rotary_table(positions: int, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of every position's angles, [S, E / 2] each in fp32: a model makes them when it is loaded."""
    pair = torch.arange(width // 2, device=device, dtype=torch.float64)
    angles = torch.arange(positions, device=device)[:, None] * THETA ** (-2 * pair / width)
    return angles.cos().float(), angles.sin().float()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of x [B, heads, S, E] by cos and sin [S, E]: element i is turned with element i + E / 2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of q [B, Q, S, E] to k, v [B, KV, S, E]: heads of q in groups, each with a head of k and v."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def layers(
    x: torch.Tensor,  # [B, S, D]
    cos: torch.Tensor,  # [S, E], as is sin: both halves alike
    sin: torch.Tensor,
    norms: torch.Tensor,  # [LAYERS, 2, D]: before attention, before the MLP
    w_qkv: torch.Tensor,  # [LAYERS, Q + 2 KV, E, D]
    w_o: torch.Tensor,  # [LAYERS, D, Q, E]
    w_gate_up: torch.Tensor,  # [LAYERS, 2, F, D]
    w_down: torch.Tensor,  # [LAYERS, D, F]
    attend: Callable[..., torch.Tensor] = attend,
) -> torch.Tensor:
    """All layers, [B, S, D]."""
    batch, positions, _ = x.shape
    heads, width = w_o.shape[2:]
    kv_heads = (w_qkv.shape[1] - heads) // 2
    for n in range(len(norms)):
        normed = F.rms_norm(x, x.shape[-1:], norms[n, 0], EPS)
        qkv = F.linear(normed, w_qkv[n].flatten(0, 1)).view(batch, positions, -1, width).transpose(1, 2)
        q, k, v = qkv.split((heads, kv_heads, kv_heads), dim=1)
        mixed = attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + F.linear(mixed.transpose(1, 2).flatten(2), w_o[n].flatten(1))
        normed = F.rms_norm(x, x.shape[-1:], norms[n, 1], EPS)
        gate, up = F.linear(normed, w_gate_up[n].flatten(0, 1)).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, w_down[n])
    return x


def eager(*inputs: torch.Tensor, attend: Callable[..., torch.Tensor] = attend) -> Callable[..., torch.Tensor]:
    """What a rung's prepare() gives: the layers with their table, to be called with the inputs."""
    x, w_o = inputs[0], inputs[3]
    half = rotary_table(x.shape[1], w_o.shape[-1], x.device)
    cos, sin = (torch.cat((part, part), dim=-1).to(x.dtype) for part in half)

    def forward(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        return layers(x, cos, sin, *weights, attend=attend)

    return forward
