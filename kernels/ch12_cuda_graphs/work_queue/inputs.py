"""Where rows begin: lengths by a power law, similar ones next to each other in runs, the runs in random order."""

from collections.abc import Mapping

import torch

EXPONENT = 0.5  # the row of rank i has a share proportional to i ** -EXPONENT
RUN = 64  # rows of neighbouring ranks that stay together


def make(axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
    """offsets int64 [R + 1]: row r is values[offsets[r] : offsets[r + 1]]; rows may be empty, and fill TOTAL."""
    R, total = axes["R"], axes["TOTAL"]
    share = torch.arange(1, R + 1, dtype=torch.float64) ** -EXPONENT
    runs = share.split(RUN)
    order = torch.randperm(len(runs), generator=generator, device=generator.device).tolist()
    mixed = torch.cat([runs[i] for i in order])
    ends = (mixed.cumsum(0) / mixed.sum() * total).floor().to(torch.int64).clamp(max=total)
    ends[-1] = total
    return {"offsets": torch.cat((torch.zeros(1, dtype=torch.int64), ends)).to(device)}
