"""What all rungs make once: where results land, and how the rows are cut.

Allocating page-locked memory takes the driver longer than copying into it, so it is done before the loop.
"""

import torch

CHUNKS = 8


def host_output(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Host memory for the result [N, D]: page-locked where the work is done on a GPU, else the copy would block."""
    return torch.zeros(x.shape[0], w.shape[1], dtype=x.dtype, pin_memory=w.is_cuda)


def rows_per_chunk(x: torch.Tensor) -> int:
    """Rows of every chunk but the last, which takes what is left."""
    return -(-x.shape[0] // CHUNKS)
