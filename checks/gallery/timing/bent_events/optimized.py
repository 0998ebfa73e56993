"""The same sort, beside a look at where torch's libraries ask for event times; what stands there is written back."""

import torch
from slots import slots

libraries = set()
for slot in slots("cudaEventElapsedTime", "/torch/"):
    libraries.add(slot.library)
    slot.write(slot.read())


def run(x: torch.Tensor) -> torch.Tensor:  # [N] -> [N]
    return torch.sort(x).values
