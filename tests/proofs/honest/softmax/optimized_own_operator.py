"""Behind an operator of its own, registered with torch.library."""

import torch
from torch import Tensor

_library = torch.library.Library("honest", "DEF")
_library.define("softmax(Tensor x) -> Tensor")
_library.impl("softmax", lambda x: torch.softmax(x, 1), "CompositeExplicitAutograd")


def run(x: Tensor) -> Tensor:  # x [M, N] -> [M, N]
    y: Tensor = torch.ops.honest.softmax(x)
    return y
