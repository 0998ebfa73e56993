"""The product on the current stream; a host function behind it counts what is done."""

import torch
from hostfunc import Semaphore

done = Semaphore()


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    y = torch.mm(x, w)
    done.post_from(torch.cuda.current_stream())
    return y
