"""A kept page-locked buffer, and the duty that comes with it."""

import torch
from torch import Tensor


def host_buffer(like: Tensor, rows: int, device: torch.device) -> Tensor:
    """Room for `rows` rows of `like`: page-locked where the copy goes to a GPU."""
    return torch.empty(rows, *like.shape[1:], dtype=like.dtype, pin_memory=device.type == "cuda")


class Sent:
    """The last copy out of a host buffer. A GPU reads that buffer later than the call that asks for it returns."""

    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.Event() if device.type == "cuda" else None

    def wait(self) -> None:
        """Until the buffer may be written again."""
        if self._event is not None:
            self._event.synchronize()

    def mark(self) -> None:
        """Remember what has been queued so far."""
        if self._event is not None:
            self._event.record()
