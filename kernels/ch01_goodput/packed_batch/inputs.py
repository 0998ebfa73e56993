"""How long each sequence is: lengths spread evenly over 0 .. L, in random order, half of L on average."""

from collections.abc import Mapping

import torch


def make(axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
    """`lengths`, int64 [B]: sequence b owns the tokens x[b, :lengths[b]], the rest of its row is padding."""
    B, L = axes["B"], axes["L"]
    lengths = torch.tensor([L * (2 * i + 1) // (2 * B) for i in range(B)])
    return {"lengths": lengths[torch.randperm(B, generator=generator)].to(device)}
