"""Triton: whether an element stays is a hash of the seed and of its place; nothing random is stored."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def widened(x):
    """The same values in fp32. bf16 is the upper half of fp32; Triton's interpreter would take its subnormals for 0."""
    if x.dtype == tl.bfloat16:
        wide = (x.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    else:
        wide = x.to(tl.float32)
    return wide


@triton.jit
def mixed(bits):
    """A bijection of 64-bit words in which every bit depends on every other (the finaliser of SplitMix64)."""
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB
    return bits ^ (bits >> 31)


@triton.jit
def dropout_flat(y_ptr, x_ptr, seed_ptr, keep, threshold, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # int32 ends at 2**31 elements
    inside = i < count
    x = widened(tl.load(x_ptr + i, mask=inside, other=0.0))
    seed = tl.load(seed_ptr).to(tl.uint64)
    # Mixed before and after the seed joins: neighbouring seeds and neighbouring places have nothing in common.
    bits = mixed(mixed((i + 1).to(tl.uint64)) + seed)
    kept = (bits >> 32).to(tl.int64) < threshold
    y = tl.where(kept, x / keep, 0.0)
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=inside)


def run(x: Tensor, seed: Tensor, keep_percent: Tensor) -> Tensor:  # x [M, N], seed [1], keep_percent [1] -> [M, N]
    x = x.contiguous()
    y = x.new_empty(x.shape)
    count = x.numel()
    percent = int(keep_percent)
    threshold = (percent << 32) // 100  # of 2**32 hashes; a float32 share could not tell 100 % from 2**32 - 1 of them
    if count:
        dropout_flat[(triton.cdiv(count, 1024),)](y, x, seed, percent / 100, threshold, count, BLOCK=1024)
    return y
