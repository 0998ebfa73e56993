"""The product in the thread's own stream, joined."""

import torch
from torch import Tensor

PER_THREAD = 2  # cudaStreamPerThread in driver_types.h


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    y = torch.empty(x.shape[0], w.shape[1], device=x.device)
    current, own = torch.cuda.current_stream(x.device), torch.cuda.ExternalStream(PER_THREAD, device=x.device)
    own.wait_stream(current)
    with torch.cuda.stream(own):
        torch.mm(x, w, out=y)
    current.wait_stream(own)
    return y
