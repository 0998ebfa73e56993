"""The twenty callables that every timer is given: 2 us to 20 ms, bound by launches, bytes or arithmetic.

`make(seed)` allocates buffers of its own, filled at random, and returns the callable over them. A callable allocates
nothing but its outputs, reads nothing back, and leaves its inputs such that it can be called again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aisp.kernels.cuda import ceil_div, launch, load

if TYPE_CHECKING:
    import torch

Outputs = tuple["torch.Tensor", ...]
Made = Callable[[], Outputs]

KERNELS = Path(__file__).with_name("kernels.cu")
TRANSPOSE = Path(__file__).parents[3] / "kernels" / "ch07_memory_access" / "transpose" / "transpose.cu"


@dataclass(frozen=True, slots=True)
class Subject:
    """One of them: its name, what bounds it, what it is written in, and how to make it."""

    name: str
    bound: str
    language: str
    make: Callable[[int], Made]


def _random(seed: int, *shape: int, dtype: str = "float32") -> Any:
    import torch  # only in the processes that time

    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))


def _wait(us: int, seed: int) -> Made:
    x = _random(seed, 1024)
    y, kernel = x.clone(), load(KERNELS, "wait_ns")

    def call() -> Outputs:
        launch(kernel, 1, 256, y, x, np.int32(1024), np.uint64(us * 1000))
        return (y,)

    return call


def _fma(steps: int, seed: int) -> Made:
    import torch

    x = _random(seed, 4096)
    y, kernel = x.clone(), load(KERNELS, "fma_chain")
    blocks = torch.cuda.get_device_properties(0).multi_processor_count

    def call() -> Outputs:
        launch(kernel, blocks, 128, y, x, np.int32(4096), np.int32(steps), np.float32(0))
        return (y,)

    return call


def _copy(mebibytes: int, seed: int) -> Made:
    x = _random(seed, mebibytes << 18)
    y = x.clone()
    return lambda: (y.copy_(x),)


def _transpose(size: int, seed: int) -> Made:
    x = _random(seed, size, size)
    y, kernel = x.clone(), load(TRANSPOSE, "transpose_tiled", macros={"PITCH": 33})

    def call() -> Outputs:
        blocks = ceil_div(size, 32)
        launch(kernel, (blocks, blocks), (32, 8), y, x, np.int32(size), np.int32(size))
        return (y,)

    return call


def _softmax(seed: int) -> Made:
    from tests.proofs.agreement import triton_kernels  # Triton, only in the processes that time

    x = _random(seed, 4096, 4096)
    return lambda: (triton_kernels.softmax(x),)


def _rmsnorm(seed: int) -> Made:
    from tests.proofs.agreement import triton_kernels

    x, w = _random(seed, 4096, 4096, dtype="bfloat16"), _random(seed + 1, 4096, dtype="bfloat16")
    return lambda: (triton_kernels.rmsnorm(x, w),)


def _matmul(size: int, dtype: str, seed: int) -> Made:
    import torch

    a, b = _random(seed, size, size, dtype=dtype), _random(seed + 1, size, size, dtype=dtype)
    c = torch.empty_like(a)
    return lambda: (torch.matmul(a, b, out=c),)


def _sum(seed: int) -> Made:
    x = _random(seed, 64 << 20)
    return lambda: (x.sum(),)


def _ten_adds(seed: int) -> Made:
    x = _random(seed, 4096)

    def call() -> Outputs:
        for _ in range(10):
            x.add_(1)
        return (x,)

    return call


def _attention(seed: int) -> Made:
    import torch.nn.functional as F

    q, k, v = (_random(seed + part, 4, 16, 2048, 64, dtype="bfloat16") for part in range(3))
    return lambda: (F.scaled_dot_product_attention(q, k, v, is_causal=True),)


def _sort(seed: int) -> Made:
    import torch

    x = _random(seed, 4 << 20)
    return lambda: tuple(torch.sort(x))


SUBJECTS: tuple[Subject, ...] = (
    Subject("wait 1 us", "time", "CUDA", functools.partial(_wait, 1)),
    Subject("wait 5 us", "time", "CUDA", functools.partial(_wait, 5)),
    Subject("wait 20 us", "time", "CUDA", functools.partial(_wait, 20)),
    Subject("copy 1 MB", "bytes", "torch", functools.partial(_copy, 1)),
    Subject("copy 16 MB", "bytes", "torch", functools.partial(_copy, 16)),
    Subject("copy 256 MB", "bytes", "torch", functools.partial(_copy, 256)),
    Subject("softmax 4096x4096", "bytes", "Triton", _softmax),
    Subject("RMSNorm 4096x4096 bf16", "bytes", "Triton", _rmsnorm),
    Subject("transpose 4096x4096", "bytes", "CUDA", functools.partial(_transpose, 4096)),
    Subject("sum of 256 MB", "bytes", "torch", _sum),
    Subject("matmul 256 bf16", "launch", "torch", functools.partial(_matmul, 256, "bfloat16")),
    Subject("matmul 1024 bf16", "flops", "torch", functools.partial(_matmul, 1024, "bfloat16")),
    Subject("matmul 2048 bf16", "flops", "torch", functools.partial(_matmul, 2048, "bfloat16")),
    Subject("matmul 4096 bf16", "flops", "torch", functools.partial(_matmul, 4096, "bfloat16")),
    Subject("matmul 8192 bf16", "flops", "torch", functools.partial(_matmul, 8192, "bfloat16")),
    Subject("matmul 2048 fp32", "flops", "torch", functools.partial(_matmul, 2048, "float32")),
    Subject("attention 4x16x2048x64 bf16", "flops", "torch", _attention),
    Subject("ten adds of 4096", "launch", "torch", _ten_adds),
    Subject("sort 4 Mi floats", "bytes", "torch", _sort),
    Subject("multiply-add chain", "flops", "CUDA", functools.partial(_fma, 900_000)),
)
