"""The truth, in fp64: head by head over only the slots that may be seen, with its own rotation and norms."""

import math

import torch


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5) * weight


def _rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Pairs (i, i + E/2) of the last dimension as points in a plane, turned by angle i."""
    half = x.shape[-1] // 2
    re, im = x[..., :half], x[..., half:]
    cos, sin = torch.cos(angles), torch.sin(angles)
    return torch.cat((re * cos - im * sin, re * sin + im * cos), dim=-1)


def run(
    x, position, keys, values, frequencies, norm1, wq, wk, wv, wo, norm2, w_gate, w_up, w_down
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, heads, _, width = keys.shape
    place = int(position)
    angles = place * frequencies
    keys, values = keys.clone(), values.clone()
    h = _norm(x, norm1)
    q, k, v = ((h @ w).view(batch, heads, width) for w in (wq, wk, wv))
    keys[:, :, place] = _rotate(k, angles)
    values[:, :, place] = v
    seen = slice(0, place + 1)
    scores = torch.einsum("bae,bale->bal", _rotate(q, angles), keys[:, :, seen]) / math.sqrt(width)
    mixed = torch.einsum("bal,bale->bae", torch.softmax(scores, dim=-1), values[:, :, seen])
    x = x + mixed.reshape(batch, heads * width) @ wo
    h = _norm(x, norm2)
    gate = h @ w_gate
    return x + (gate * torch.sigmoid(gate) * (h @ w_up)) @ w_down, keys, values
