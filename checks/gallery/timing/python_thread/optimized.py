"""A bare thread does the product, and the call waits for its lock."""

import _thread

import torch


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:  # [N, D], [D, D] -> [N, D]
    y = torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        torch.mm(x, w, out=y)
        done.release()

    _thread.start_new_thread(work, ())
    done.acquire()
    return y
