"""One line, from pageable memory: the driver copies it piece by piece through a locked buffer of its own."""

from torch import Tensor


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, N] in pageable host memory, w [N] -> [M, N]
    return x.to(w.device) * w
