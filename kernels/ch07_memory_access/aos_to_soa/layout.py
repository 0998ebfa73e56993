"""A particle's fields, and the change of layout."""

from torch import Tensor

FIELDS = 4  # x, y, z, energy
ENERGY = 3


def packed_energies(particles: Tensor) -> Tensor:  # [S, L, 4] -> [S, L], contiguous
    return particles[:, :, ENERGY].contiguous()
