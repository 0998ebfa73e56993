"""Log-sum-exps as attention leaves them: a wide range, some far beyond what exp() holds, some of no keys at all."""

from collections.abc import Mapping

import torch

NO_KEYS = 0.1  # share of the rows in each half that saw no key: a mask, or a request shorter than the split
LOUD = 0.05  # share of the heads whose scores are in the hundreds


def make(axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, object]:
    """`la` and `lb`, fp32 [T, H]; -inf where that half saw no key. The first row saw none in either."""
    shape = axes["T"], axes["H"]

    def normal() -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    def share(part: float) -> torch.Tensor:
        return torch.rand(shape, generator=generator) < part

    la = 6 + 3 * normal() + 200 * share(LOUD)
    lb = la + 2 * normal()
    for half in (la, lb):
        half[share(NO_KEYS)] = -torch.inf
        half[:1, :1] = -torch.inf
    return {"la": la.to(device), "lb": lb.to(device)}
