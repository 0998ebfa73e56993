"""The step that every rung takes, and what it needs of a device.

Small operators on purpose: each is one launch, as in a loop that was written in an afternoon.
"""

import torch


def advance(w: torch.Tensor, h: torch.Tensor, drive: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The new state before scaling [N], and its scale [], the mean size of its elements."""
    h = torch.mv(w, h) + drive
    return h, h.abs().mean()


def energy_of(h: torch.Tensor) -> torch.Tensor:
    """Mean square of the state []: nothing later depends on it."""
    return h.square().mean()


def walk(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """All steps in stream order, every number left on the device: state [N], scales [STEPS], energies [STEPS]."""
    scales, energies = [], []
    for drive in x.unbind():
        h, scale = advance(w, h, drive)
        h = h / scale
        scales.append(scale)
        energies.append(energy_of(h))
    return h, torch.stack(scales), torch.stack(energies)
