"""How a shard stores its tokens, and what a kept page-locked buffer needs."""

import torch
from torch import Tensor

# A stored number is the token minus this: 16 bits hold 65,536 tokens, and int16 counts from -32768.
OFFSET = 2**15


def host_buffer(like: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Host memory in the shape of `like`: page-locked where the copy goes to a GPU."""
    return torch.empty(like.shape, dtype=dtype, pin_memory=device.type == "cuda")


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
