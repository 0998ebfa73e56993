"""Whether the kernels may load eight float16 at once."""

import numpy as np
from torch import Tensor


def vector(*matrices: Tensor) -> np.int32:
    """1 if every row of every matrix begins at a multiple of 16 bytes, else 0: the kernels' last argument."""
    return np.int32(all(matrix.shape[1] % 8 == 0 and matrix.data_ptr() % 16 == 0 for matrix in matrices))
