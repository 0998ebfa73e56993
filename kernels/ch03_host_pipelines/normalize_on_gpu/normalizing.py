"""What every rung computes, and the marker that a kept host buffer needs."""

import torch
from torch import Tensor


def affine(mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and shift [3, 1, 1] such that byte * scale + shift is (byte / 255 - mean) / std."""
    return (1 / (255 * std))[:, None, None], (-mean / std)[:, None, None]


def normalize(y: Tensor, images: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Fill y [B, 3, H, W] from bytes [B, H, W, 3] on the same device: widen and turn, then scale, then shift."""
    return y.copy_(images.permute(0, 3, 1, 2)).mul_(scale).add_(shift)


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
