"""Which Config for how many rows: written down once, looked up with one comparison or two at each call.

Made for the down projection of an 8B model, N = 4096 and K = 14336, on 132 SMs of 228 KiB shared memory each. What a
class needs is derived in lesson.md; a sweep would only move the numbers within it.
"""

from matmul import Config

PREFILL = Config(m=128, n=128, k=64, split=1, warps=8, stages=3)  # 96 KiB of shared memory, tensor cores busy

TABLE = (
    (16, Config(m=16, n=64, k=128, split=4, warps=4, stages=4)),  # 64 tiles x 4 parts: two per SM, 60 KiB each
    (64, Config(m=64, n=64, k=64, split=4, warps=4, stages=4)),  # the same grid, 64 KiB each
    (256, Config(m=64, n=128, k=64, split=2, warps=4, stages=4)),  # 64 to 256 programs, 96 KiB each
)


def for_rows(M: int) -> Config:
    """The Config for a product with M rows: that of the first class that holds them."""
    return next((config for most, config in TABLE if most >= M), PREFILL)
