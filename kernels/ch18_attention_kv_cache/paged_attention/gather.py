"""The pages of each request copied behind each other, as a kernel that knows no pages wants them."""

from torch import Tensor


def gather(pages: Tensor, table: Tensor, B: int) -> Tensor:
    """pages [P, S, H, D], table [B*M] -> [B, M*S, H, D], a copy."""
    return pages[table].view(B, -1, *pages.shape[2:])
