"""What all rungs share: the size of a tile, the order in which tiles are walked, and descriptors of the operands."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M, BLOCK_N, BLOCK_K = 128, 256, 64
GROUP_M = 8  # tiles of this many block rows share a stretch of b while it is in the L2
FEW_PROGRAMS = 3  # where there are no SMs to count, and where a small matrix is to give a program several tiles


@triton.jit
def place(tile, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The first row and column of a tile: in bands of GROUP_M block rows, column by column inside a band."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    band = tile // (GROUP_M * tiles_n)
    height = min(tiles_m - band * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return (band * GROUP_M + within % height) * BLOCK_M, (within // height) * BLOCK_N


def described(c: Tensor, a: Tensor, b: Tensor) -> tuple[TensorDescriptor, TensorDescriptor, TensorDescriptor]:
    """TMA descriptors of c [M, N], a [M, K], b [K, N]: 128 bytes each, made on the host and passed by value."""
    return (
        TensorDescriptor.from_tensor(c, [BLOCK_M, BLOCK_N]),
        TensorDescriptor.from_tensor(a, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(b, [BLOCK_K, BLOCK_N]),
    )


def programs_of(device: torch.device) -> int:
    """One program per SM: a tile of this size leaves no room for a second."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else FEW_PROGRAMS
