"""Locks the pages of x where they lie, copies at full speed, unlocks: the cost of locking, bare."""

import torch
from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N] in pageable host memory, w [N] -> [M, N]
    runtime = torch.cuda.cudart()
    torch.cuda.check_error(int(runtime.cudaHostRegister(x.data_ptr(), x.numel() * x.element_size(), 0)))
    try:
        y = x.to(w.device, non_blocking=True)
        torch.cuda.current_stream(w.device).synchronize()  # pages may not be let go under a copy
    finally:
        torch.cuda.check_error(int(runtime.cudaHostUnregister(x.data_ptr())))
    return y * w
