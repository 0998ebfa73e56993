"""What was decided before any request came, and the way of the host's books to the device."""

import torch
from torch import Tensor

CONTEXT = 8192  # tokens that a request may grow to, prompt and answer together
PAGE = 16  # tokens in a page of a paged cache


def sent(x: Tensor, device: torch.device) -> Tensor:
    """A small tensor of the host's books, on its way to the device through page-locked memory: the host goes on."""
    return (x.pin_memory() if device.type == "cuda" else x).to(device, non_blocking=True)
