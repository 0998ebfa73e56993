"""Where each request's keys begin: one owns half of them, the others' lengths spread evenly, in random order."""

from collections.abc import Mapping

import torch


def make(axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
    """`starts`, int32 [B + 1]: request b owns the keys starts[b] .. starts[b + 1] - 1 of B*N; each has at least one."""
    B, N = axes["B"], axes["N"]
    spare = B * (N - 1)  # keys beyond the first of each request
    long = spare if B == 1 else spare // 2
    others = max(B - 1, 1)
    # The sum of the first i odd numbers is i^2: so cut, lengths rise evenly and add up.
    cuts = [(spare - long) * i * i // (others * others) for i in range(B)]
    lengths = 1 + torch.cat([torch.tensor([long]), torch.tensor(cuts).diff()])
    starts = torch.zeros(B + 1, dtype=torch.int32)
    starts[1:] = lengths[torch.randperm(B, generator=generator)].cumsum(0)
    return {"starts": starts.to(device)}
