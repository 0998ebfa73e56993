"""One program per cell, straight from the records: of every 16 bytes that cross HBM, 4 are used."""

from layout import ENERGY, FIELDS
from particles import sum_above_cut
from torch import Tensor


def run(particles: Tensor, cut: Tensor) -> Tensor:  # particles [S, L, 4], cut [S] -> [S]
    return sum_above_cut(particles[:, :, ENERGY], cut, stride=FIELDS)
