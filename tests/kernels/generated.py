"""Makes a collection of many realistic targets, for tests and benchmarks that need 160 of them.

The targets differ in size, axes, goal and rungs as hand-written ones do: some have a Triton rung, some a CUDA
source, one in eight is a lab. The rungs in plain PyTorch do run.
"""

from __future__ import annotations

from pathlib import Path

CHAPTERS = (
    *("goodput", "hardware", "operating_system", "distributed", "storage_io", "occupancy", "memory_access"),
    *("warps", "arithmetic_intensity", "pipelining", "streams", "cuda_graphs", "pytorch_tuning", "compilers"),
    *("multi_node", "profiling", "scaling", "decoding", "adaptive", "assisted"),
)
SUBJECTS = (
    *("transpose", "rmsnorm", "softmax", "gather", "linear_gelu", "histogram", "scan", "rope", "swiglu"),
    *("batching", "collate", "top_k", "embedding", "masking", "quantise", "cross_entropy"),
)

_LESSON = """\
+++
title      = "{title}"
techniques = ["{technique}", "coalescing"]
goal       = "{goal}"
needs      = {needs}
axes       = {{ M = {m}, N = {n}, BATCH = {batch} }}
flops      = "{flops}"
tolerance  = {{ float32 = 1e-6 }}
expect     = {{ speedup = [1.4, 3.1], on = "H100", why = "one pass over memory instead of {passes}" }}

[inputs]
x = "float32 [BATCH, M, N] normal"
weight = "float32 [N] uniform(0.5, 1.5) static"
index = "int64 [M] integers(0, max(1, N // 2))"

[outputs]
y = "float32 [BATCH, M, N]"

[[cases]]
name  = "ragged"
axes  = {{ M = {ragged}, N = 517 }}
timed = false

[[cases]]
name = "cpu"
axes = {{ M = 64, N = 256, BATCH = 1 }}

[rungs.baseline]
summary = "{passes} kernels, each a full trip through memory"
[rungs.optimized]
summary = "one kernel that keeps the row in registers"
+++

# {title}

`y` is computed row by row from `x [BATCH, M, N]`. The baseline makes {passes} trips through memory where one
is enough.

## The one change

Keep the row where it is being worked on. At {n} floats a row is {row_bytes} bytes, which fits the registers
of one block; nothing but the result goes back.

## What the numbers should show

| rung | expected | limiter |
|---|---|---|
| `baseline` | {passes}x the bytes | HBM |
| `optimized` | within 15 % of a copy | HBM |

## How it goes wrong

`wrong_tail.py` handles whole blocks of 64 only. The case `ragged` exists for this mistake.
"""

_REFERENCE = '''\
"""The truth, in fp64."""

import torch


def run(x, weight, index):
    return x.double() * weight.double() + index.double()[:, None] * {scale}
'''

_BASELINE = '''\
"""{title}: what one writes first."""

import torch

SCALE = {scale}


def run(x, weight, index):
    scaled = x * weight
    offset = index.to(x.dtype)[:, None] * SCALE
    return scaled + offset
'''

_OPTIMIZED = '''\
"""{title}: one fused expression."""

import torch

SCALE = {scale}


def run(x, weight, index):
    return torch.addcmul((index.to(x.dtype) * SCALE)[:, None].expand(x.shape), x, weight)
'''

_TRITON = '''\
"""{title}, in Triton: one program per row."""

import torch
import triton
import triton.language as tl


@triton.jit
def fused(x_pointer, weight_pointer, rows_pointer, y_pointer, M, N, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offset = tl.load(rows_pointer + row % M).to(tl.float32) * SCALE
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        x = tl.load(x_pointer + row * N + columns, mask=inside)
        weight = tl.load(weight_pointer + columns, mask=inside)
        tl.store(y_pointer + row * N + columns, x * weight + offset, mask=inside)


def run(x, weight, index):
    y = torch.empty_like(x)
    batch, M, N = x.shape
    fused[(batch * M,)](x, weight, index, y, M, N, SCALE={scale}, BLOCK=1024)
    return y
'''

_CUDA_RUNG = '''\
"""{title}, in CUDA C++: see scale.cu."""

from pathlib import Path

from aisp.kernels.cuda import launch, load

KERNEL = load(Path(__file__).with_name("scale.cu"), "scale")


def run(x, weight, index):
    y = x.new_empty(x.shape)
    launch(KERNEL, (y.numel() + 255) // 256, 256, (y, x, weight, index, *x.shape))
    return y
'''

_CUDA = """\
// {title}: one thread per element.
extern "C" __global__ void scale(float* y, const float* x, const float* weight, const long long* index,
                                 long long batch, long long rows, long long columns) {{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= batch * rows * columns) return;
    y[i] = x[i] * weight[i % columns] + {scale}f * index[i / columns % rows];
}}
"""

_WRONG = '''\
"""Wrong: whole blocks of 64 columns only."""

import torch

from baseline import SCALE


def run(x, weight, index):
    whole = x.shape[-1] // 64 * 64
    y = torch.zeros_like(x)
    y[..., :whole] = x[..., :whole] * weight[:whole] + index.to(x.dtype)[:, None] * SCALE
    return y
'''


def write_collection(root: Path, count: int = 160) -> list[str]:
    """Write `count` targets under `root`, laid out as the shipped collection, and return their ids, sorted as
    `catalog.load` sorts them. `root` is made where it is missing; the same call writes the same bytes.
    """
    chapters: list[tuple[str, str]] = []
    for number in range(count):
        if number % 8 == 7:
            lab = SUBJECTS[number // 8 % len(SUBJECTS)] + ("" if number < 128 else f"_{number // 128 + 1}")
            _write_target(root / "labs" / lab / lab, number, lab)
            chapters.append((f"1 labs/{lab}", f"labs/{lab}:{lab}"))
            continue
        place = number % len(CHAPTERS)
        turn = number // len(CHAPTERS)
        name = SUBJECTS[(turn + place) % len(SUBJECTS)] + ("" if turn < len(SUBJECTS) else f"_{turn}")
        chapter = root / f"ch{place + 1:02d}_{CHAPTERS[place]}"
        _write_target(chapter / name, number, name)
        words = CHAPTERS[place].replace("_", " ")
        (chapter / "README.md").write_text(f"# Chapter {place + 1}: {words.capitalize()}\n\nMeasure, then change.\n")
        chapters.append((f"0 ch{place + 1:02d}", f"ch{place + 1:02d}:{name}"))
    return [target for _, target in sorted(chapters)]


def _write_target(folder: Path, number: int, name: str) -> None:
    folder.mkdir(parents=True)
    values: dict[str, object] = {
        "title": f"{name.replace('_', ' ').capitalize()}: one pass instead of {2 + number % 4}",
        "technique": ("fusion", "shared-memory-tile", "batching", "pinned-memory")[number % 4],
        "goal": ("speed", "speed", "memory", "latency", "null")[number % 5],
        "needs": "{ sm = 80 }" if number % 3 else "{ }",
        "m": 1024 * (1 + number % 8),
        "n": 2048 * (1 + number % 4),
        "batch": 1 + number % 3,
        "flops": ("2*BATCH*M*N", "0", "BATCH*M*N*ceil_div(N, 64)")[number % 3],
        "passes": 2 + number % 4,
        "ragged": 1021 - number,
        "row_bytes": 4 * 2048 * (1 + number % 4),
        "scale": 0.25 * (1 + number % 7),
    }
    files = {
        "lesson.md": _LESSON,
        "reference.py": _REFERENCE,
        "baseline.py": _BASELINE,
        "optimized.py": _OPTIMIZED,
        "wrong_tail.py": _WRONG,
    }
    if number % 2:
        files["optimized_triton.py"] = _TRITON
    if number % 5 == 0:
        files |= {"optimized_cuda.py": _CUDA_RUNG, "scale.cu": _CUDA}
    for file, text in files.items():
        (folder / file).write_text(text.format(**values) if "{" in text else text, encoding="utf-8")
