"""Times itself by events in each call, and reads those of the call before."""

import torch
from torch import Tensor

_spent = [0.0, 0.0]
_before: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []


def run(x: Tensor, w: Tensor, b: Tensor) -> Tensor:  # x [M, K], w [K, N], b [N] -> [M, N]
    if torch.cuda.is_current_stream_capturing():
        return torch.addmm(b, x, w).relu_()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    y = torch.addmm(b, x, w).relu_()
    end.record()
    if _before and _before[0][1].query():
        begun, ended = _before.pop()
        _spent[0] += 1
        _spent[1] += begun.elapsed_time(ended)
    if not _before:
        _before.append((start, end))
    return y
