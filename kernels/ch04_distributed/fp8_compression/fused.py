"""The exchange with a Triton kernel before, between and behind its two collectives: three passes over memory."""

import torch
import torch.distributed as dist
import triton
import triton.language as tl
from messages import BLOCK, LEAST, LIMIT, message, shard_of, split
from torch import Tensor

ROWS = 16  # blocks of a program


def exchange(grads: Tensor, residual: Tensor, element: torch.dtype) -> tuple[Tensor, Tensor]:
    """Make `grads` [N] the ranks' rounded mean of grads + residual; `residual` [N] keeps what both roundings took."""
    ranks, elements = dist.get_world_size(), len(grads)
    shard = shard_of(elements, ranks)
    blocks = shard // BLOCK
    fixed = {"BLOCK": BLOCK, "ROWS": ROWS}
    outgoing, own = message(grads, shard, element, ranks), message(grads, shard, element)

    numbers, scales = split(outgoing, shard, element)
    steps = (numbers.stride(0), scales.stride(0))
    everywhere, here = (triton.cdiv(ranks * blocks, ROWS),), (triton.cdiv(blocks, ROWS),)
    _pack[everywhere](
        grads, residual, numbers, scales, elements, blocks, ranks * blocks, *steps, LEAST=LEAST, LIMIT=LIMIT, **fixed
    )

    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing)
    _add[here](
        *split(incoming, shard, element),
        *split(own, shard, element),
        residual,
        elements,
        dist.get_rank() * shard,
        blocks,
        *steps,
        RANKS=ranks,
        LEAST=LEAST,
        LIMIT=LIMIT,
        **fixed,
    )

    gathered = torch.empty_like(incoming)
    dist.all_gather_into_tensor(gathered.view(-1), own)
    _unpack[everywhere](*split(gathered, shard, element), grads, elements, blocks, ranks * blocks, *steps, **fixed)
    return grads, residual


@triton.jit
def _pack(
    grads_ptr, residual_ptr, numbers_ptr, scales_ptr, elements, blocks, all_blocks, numbers_step, scales_step,
    LEAST: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Round grads + residual into the message of the rank that adds them, and keep what that took."""
    block = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    place = block[:, None] * BLOCK + column
    wanted = tl.load(grads_ptr + place, mask=place < elements, other=0.0)
    wanted += tl.load(residual_ptr + place, mask=place < elements, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(wanted), 1), LEAST) / LIMIT
    narrow = (wanted / scale[:, None]).to(numbers_ptr.dtype.element_ty)
    rank, at = block // blocks, block % blocks
    there = numbers_ptr + rank[:, None] * numbers_step + at[:, None] * BLOCK + column
    tl.store(there, narrow, mask=block[:, None] < all_blocks)
    tl.store(scales_ptr + rank * scales_step + at, scale, mask=block < all_blocks)
    tl.store(residual_ptr + place, wanted - narrow.to(tl.float32) * scale[:, None], mask=place < elements)


@triton.jit
def _add(
    numbers_ptr, scales_ptr, own_numbers_ptr, own_scales_ptr, residual_ptr, elements, first, blocks,
    numbers_step, scales_step,
    RANKS: tl.constexpr, LEAST: tl.constexpr, LIMIT: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Add up the ranks' messages in fp32, round the mean, and keep what that took of every rank's share."""
    block = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = block < blocks
    at = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for rank in tl.static_range(RANKS):
        numbers = tl.load(numbers_ptr + rank * numbers_step + at, mask=inside[:, None], other=0.0).to(tl.float32)
        scales = tl.load(scales_ptr + rank * scales_step + block, mask=inside, other=0.0)
        total += numbers * scales[:, None]
    mean = total / RANKS
    scale = tl.maximum(tl.max(tl.abs(mean), 1), LEAST) / LIMIT
    narrow = (mean / scale[:, None]).to(own_numbers_ptr.dtype.element_ty)
    tl.store(own_numbers_ptr + at, narrow, mask=inside[:, None])
    tl.store(own_scales_ptr + block, scale, mask=inside)
    mine = inside[:, None] & (first + at < elements)
    left = tl.load(residual_ptr + first + at, mask=mine, other=0.0)
    left += RANKS * (mean - narrow.to(tl.float32) * scale[:, None])
    tl.store(residual_ptr + first + at, left, mask=mine)


@triton.jit
def _unpack(
    numbers_ptr, scales_ptr, grads_ptr, elements, blocks, all_blocks, numbers_step, scales_step,
    BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Widen the messages of all ranks into the gradients."""
    block = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    rank, at = block // blocks, block % blocks
    there = numbers_ptr + rank[:, None] * numbers_step + at[:, None] * BLOCK + column
    numbers = tl.load(there, mask=block[:, None] < all_blocks, other=0.0).to(tl.float32)
    scales = tl.load(scales_ptr + rank * scales_step + at, mask=block < all_blocks, other=0.0)
    place = block[:, None] * BLOCK + column
    tl.store(grads_ptr + place, numbers * scales[:, None], mask=place < elements)
