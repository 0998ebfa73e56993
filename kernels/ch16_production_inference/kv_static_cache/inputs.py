"""A small decoder, built from the generator so that every process gets the same weights.

The model knows nothing of caches: a layer hands out query, key and value of the new token, and takes what attention
made of them. Where keys and values are kept is what the rungs differ in.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """Pre-norm attention and a GELU feed-forward network, without the attention itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query, key and value [B, A, T, E] of the tokens x [B, T, D]."""
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def finish(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The layer's output [B, T, D], given what attention made of its tokens, mixed [B, A, T, E]."""
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Layers and a last norm. Tokens come in as embeddings and leave as hidden states."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)


def make(axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
    """The decoder with Y layers of width A * E, weights normal with variance 1 / fan-in, ready for inference."""
    model = Decoder(axes["Y"], axes["A"] * axes["E"], axes["A"])
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:  # the norms keep their ones and zeros
                drawn = torch.randn(parameter.shape, generator=generator, device=generator.device)
                parameter.copy_(drawn * parameter.shape[1] ** -0.5)
    return {"model": model.requires_grad_(False).to(device)}
