"""Where the requests begin in the packed batch: lengths spread evenly between 0 and twice the mean, in random order."""

from collections.abc import Mapping

import torch


def make(axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
    """`starts`, int32 [B + 1]: request b owns the tokens starts[b] .. starts[b + 1] - 1 of B*N in all."""
    B, N = axes["B"], axes["N"]
    # The sum of the first i terms of 1, 3, 5, ... is i^2: so cut, the lengths rise evenly and add up to B*N.
    cuts = [B * N * i * i // (B * B) for i in range(B + 1)]
    lengths = torch.tensor(cuts).diff()[torch.randperm(B, generator=generator)]
    starts = torch.zeros(B + 1, dtype=torch.int32)
    starts[1:] = lengths.cumsum(0)
    return {"starts": starts.to(device)}
