"""Flash Linear Attention's RMSNorm: a row per program as in optimized.py; it writes 1 / root for each row as well.

Those 4 bytes are for its backward pass, beside 4 N of the row.
"""

from definition import EPS
from fla.modules.norm.layernorm import rms_norm
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N], w [N], bf16 -> [M, N] bf16
    return rms_norm(x, w, None, eps=EPS)
