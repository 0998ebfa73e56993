"""Flash Linear Attention's SwiGLU: the same pass, flat over all elements, block and warps chosen by trial."""

from fla.modules.activations import swiglu
from torch import Tensor


def run(gate: Tensor, up: Tensor) -> Tensor:  # gate, up [M, F] bf16 -> [M, F] bf16
    return swiglu(gate, up)
