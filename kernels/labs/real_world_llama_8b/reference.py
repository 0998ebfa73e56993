"""The truth, in fp64: every formula written out, rotations as turns in a plane, heads looked up."""

import math

import torch


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5) * weight


def _rotate(x: torch.Tensor) -> torch.Tensor:
    """x [B, heads, S, E]: elements i and i + E/2 are a point, turned by position * 500000^(-2 i / E)."""
    positions, half = x.shape[2], x.shape[3] // 2
    index = torch.arange(half, device=x.device, dtype=torch.float64)
    angles = torch.arange(positions, device=x.device)[:, None] * 500_000.0 ** (-index / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    re, im = x[..., :half], x[..., half:]
    return torch.cat((re * cos - im * sin, re * sin + im * cos), dim=-1)


def run(x, norms, w_qkv, w_o, w_gate_up, w_down) -> torch.Tensor:
    layers, _, heads, width = w_o.shape
    kv_heads = (w_qkv.shape[1] - heads) // 2
    kv_of = torch.arange(heads, device=x.device) // (heads // kv_heads)
    for n in range(layers):
        qkv = torch.einsum("bsd,hed->bhse", _norm(x, norms[n, 0]), w_qkv[n])
        q = _rotate(qkv[:, :heads])
        k = _rotate(qkv[:, heads : heads + kv_heads])[:, kv_of]
        v = qkv[:, heads + kv_heads :][:, kv_of]
        scores = q @ k.mT / math.sqrt(width)
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
        x = x + torch.einsum("bhse,dhe->bsd", torch.softmax(scores, dim=-1) @ v, w_o[n])
        gate, up = torch.einsum("bsd,gfd->gbsf", _norm(x, norms[n, 1]), w_gate_up[n])
        x = x + (gate * torch.sigmoid(gate) * up) @ w_down[n].mT
    return x
