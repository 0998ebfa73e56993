"""`aisp new`: a target to be made one's own, from a starting point that runs with and without a GPU, or a copy.

The starting point is the sum of squares of each row; the naive way writes the squares to memory and reads them back.
Its lesson says what to replace.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from itertools import count, islice
from keyword import iskeyword
from pathlib import Path

from .frontmatter import definition
from .model import Target
from .sources import LESSON, read_sources

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}\Z")
_CHAPTER_LIKE = re.compile(r"(?:ch\d+(?:_.*)?|labs)\Z")


class ScaffoldError(ValueError):
    """A target that cannot be made as asked.

    Attributes:
        message: what was given.
        fix: what would work.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message}; {fix}")
        self.message = message
        self.fix = fix


def scaffold(name: str, into: Path) -> Path:
    """Make the folder `into`/`name` with a working target and return it. `into` is made where it is missing.

    The folder appears whole or not at all.

    Raises:
        ScaffoldError: the name does not fit, is taken, or the folder cannot be written.
    """
    return _make(name, into, {file: text.replace("NAME", name).encode() for file, text in _FILES.items()})


def copy_target(target: Target, name: str, into: Path) -> Path:
    """Make the folder `into`/`name` with every source of `target`, wrong rungs too, and return it.

    Its lesson says of which target it is a copy; else nothing is changed. Raises as `scaffold` does.
    """
    try:
        files = read_sources(target)
    except OSError as error:
        message = f"{target.folder} cannot be read: {error.strerror}"
        raise ScaffoldError(message, "check that it is there and readable") from error
    files[LESSON] = _with_origin(files.get(LESSON, b""), target.id)
    return _make(name, into, files)


def free_name(name: str, into: Path) -> str:
    """`name`, or with the first number behind it under which nothing is in the folder `into`."""
    taken = (f"{name}_{number}" for number in count(2))
    return next(wanted for wanted in (name, *islice(taken, 999)) if not os.path.lexists(into / wanted))


def _with_origin(lesson: bytes, origin: str) -> bytes:
    """A lesson whose text begins by saying where it comes from."""
    lesson = lesson.removeprefix(codecs.BOM_UTF8)
    head = definition(lesson)
    return head + f"\n\nA copy of `{origin}`, made to be changed.\n\n".encode() + lesson[len(head) :].lstrip(b"\r\n")


def _make(name: str, into: Path, files: Mapping[str, bytes]) -> Path:
    """Make the folder `into`/`name` with these files, by their names relative to it."""
    _check_name(name)
    folder = into / name
    if os.path.lexists(folder):  # a dangling link is in the way too
        raise ScaffoldError(f"{folder} is already there", f"choose another name, for example {free_name(name, into)}")
    if (into / LESSON).exists():
        raise ScaffoldError(f"{into} is itself a target", f"targets do not nest: use its parent, {into.parent}")
    try:
        into.mkdir(parents=True, exist_ok=True)
        # Hidden until it is whole, so that neither a listing nor a watch sees half a target.
        draft = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=into))
        try:
            draft.chmod(0o777 & ~_umask())
            for file, content in files.items():
                (draft / file).parent.mkdir(parents=True, exist_ok=True)
                (draft / file).write_bytes(content)
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        raise ScaffoldError(
            f"{folder} cannot be written: {error.strerror}", "choose a folder that you may write to"
        ) from error
    return folder


def _check_name(name: str) -> None:
    fits = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[:60]
    if not _NAME.match(name):
        example = fits if _NAME.match(fits) and not iskeyword(fits) else "my_kernel"
        raise ScaffoldError(
            f"{name!r} cannot name a target", f"use a-z, 0-9 and _, a letter first, for example {example}"
        )
    if iskeyword(name):
        raise ScaffoldError(f"{name!r} is a word of Python", f"add to it, for example {name}_kernel")
    if _CHAPTER_LIKE.match(name):
        raise ScaffoldError(f"{name!r} is read as a chapter's folder", "begin with what the kernel does")


def _umask() -> int:
    """The process's umask, from /proc where there is one: asking by os.umask changes it for every thread."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except OSError:
        return 0o077
    return 0o077


_LESSON = """\
+++
title      = "NAME: the sum of squares of each row, without the squares in memory"
techniques = ["fusion"]
goal       = "speed"                 # speed | memory | latency | null (it teaches that this does not help)
axes       = { M = 8192, N = 8192 }  # the sizes that are timed on a GPU
flops      = "2*M*N"                 # operations of one call; "0" where it only moves data
expect     = { speedup = [1.5, 3.5], on = "any", why = "x crosses memory once instead of three times" }

[inputs]                             # the argument order of run()
x = "float32 [M, N] normal"          # dtype [dims] distribution flags

[outputs]
y = "float32 [M]"

[[cases]]
name = "cpu"                         # timed where there is no GPU; small enough for Triton's interpreter
axes = { M = 128, N = 16384 }

[[cases]]
name  = "ragged"                     # sizes that no block size divides: most mistakes show here
axes  = { M = 37, N = 1021 }
timed = false

[rungs.baseline]
summary = "square, then sum: the squares go to memory and come back"
[rungs.optimized]
summary = "one reduction that squares as it reads"
[rungs.wrong_tail]
summary = "sums whole blocks of 64 columns and forgets the rest"
[rungs.wrong_half]
summary = "fast, and only three digits are right"
+++

# NAME

A starting point that runs. Change it piece by piece: what aisp shows is always about the files as they
are now.

## The problem

`y[m]` is the sum of `x[m, n] * x[m, n]` over `n`. The baseline writes it the way one would first,
`(x * x).sum(-1)`, and PyTorch runs that as two kernels. The first reads `x` and writes as many squares to
memory; the second reads the squares. That is three trips of `4*M*N` bytes where one is enough.

## The one change

`torch.linalg.vector_norm` squares each element as it reads it and keeps only the sum. One kernel, one trip.

## What to change to make it yours

1. **lesson.md**, above: the sizes (`axes`), one line per argument of `run` (`[inputs]`), one per result
   (`[outputs]`), and the operations per call (`flops`). The bytes follow from the tensors; write
   `bytes = "..."` where a call must move more or less than each of them once.
2. **reference.py**: the same result in fp64, as plainly as you can. It decides what is right.
3. **baseline.py**: what a competent engineer writes first. Not a straw man.
4. **optimized.py**: your idea. More versions go beside it as `optimized_SOMETHING.py`, each named after the
   one thing that it changes.
5. **wrong_*.py**: mistakes that look right. A check that refuses none of them checks nothing.
   `wrong_tail.py` is right whenever 64 divides N, so only the case `ragged` finds it out.

Work that a real user does once, such as packing weights or capturing a graph, goes into
`prepare(*inputs)`, which returns the function to time.

## A Triton rung

Save this as `optimized_triton.py`. On a GPU it is timed; without one it runs in Triton's interpreter and
is checked for correctness only.

```python
import torch
import triton
import triton.language as tl


@triton.jit
def sum_of_squares(x_pointer, y_pointer, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # row * N may pass 2**31
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_pointer + row * N + columns, mask=columns < N, other=0.0)
        total += x * x
    tl.store(y_pointer + row, tl.sum(total))


def run(x: torch.Tensor) -> torch.Tensor:  # x [M, N] -> [M]
    y = x.new_empty(x.shape[0])
    sum_of_squares[(x.shape[0],)](x, y, x.shape[1], BLOCK=2048)
    return y
```

Then try BLOCK = 1024 and 8192, and `num_warps`. Predict first, then look.
"""

_FILES = {
    LESSON: _LESSON,
    "reference.py": '''\
"""The truth, in fp64: as plain as can be, however slow."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:  # x [M, N] -> [M]
    return x.double().square().sum(dim=-1)
''',
    "baseline.py": '''\
"""What one writes first: the squares go to memory and come back."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:  # x [M, N] -> [M]
    return (x * x).sum(dim=-1)
''',
    "optimized.py": '''\
"""One reduction that squares as it reads: x crosses memory once."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:  # x [M, N] -> [M]
    return torch.linalg.vector_norm(x, dim=-1).square()
''',
    "wrong_tail.py": '''\
"""Wrong: sums whole blocks of 64 columns and forgets the columns after the last one."""

import torch

BLOCK = 64


def run(x: torch.Tensor) -> torch.Tensor:  # x [M, N] -> [M]
    whole = x.shape[1] // BLOCK * BLOCK
    return torch.linalg.vector_norm(x[:, :whole], dim=-1).square()
''',
    "wrong_half.py": '''\
"""Wrong: half the bytes, and only three digits of the result are right."""

import torch


def run(x: torch.Tensor) -> torch.Tensor:  # x [M, N] -> [M]
    x = x.half()
    return (x * x).sum(dim=-1).float()
''',
}
