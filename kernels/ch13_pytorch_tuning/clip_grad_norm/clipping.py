"""The limit, and the factor that follows from a norm: the same in every rung."""

import torch

LIMIT = 1.0
EPS = 1e-6  # added to the norm, as torch.nn.utils.clip_grad_norm_ does


def coefficient(norm: torch.Tensor) -> torch.Tensor:
    """What to multiply all gradients with [], on the device: 1 where the norm is within the limit."""
    return (LIMIT / (norm + EPS)).clamp(max=1.0)


def clip_flat_(grads: torch.Tensor) -> torch.Tensor:
    """Clip one buffer in place, whatever its shape; its norm [] before."""
    norm = torch.linalg.vector_norm(grads)
    grads.mul_(coefficient(norm))
    return norm
