"""The kernel reads the page table itself, and each key where it lies."""

from paged import decode
from torch import Tensor


def run(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:  # -> [B, H, G, D]
    return decode(q, k_pages, v_pages, table, lengths)
