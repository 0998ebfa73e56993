"""Operators' folders and traces in BackendBench's form, of our own writing."""

from __future__ import annotations

from pathlib import Path

ADD = """\
import torch


def add__Tensor_kernel_impl(self, other, *, alpha=1):
    return torch.sub(self, other, alpha=-alpha)
"""

IGNORES_ALPHA = ADD.replace("alpha=-alpha", "alpha=-1")

RELU = """\
import torch


def relu___default_kernel_impl(self):
    return self.copy_(self.clamp_min(0))
"""

MAXIMA = """\
import torch


def max__dim_kernel_impl(self, dim, keepdim=False):
    if self.dim() == 0:
        return self.clone(), torch.zeros((), dtype=torch.int64)
    values, order = torch.sort(self, dim=dim, descending=True, stable=True)
    first = values.narrow(dim, 0, 1), order.narrow(dim, 0, 1)
    return first if keepdim else tuple(each.squeeze(dim) for each in first)
"""

SPLIT = """\
def split__Tensor_kernel_impl(self, size, dim=0):
    return [self.narrow(dim, at, min(size, self.shape[dim] - at)).clone() for at in range(0, self.shape[dim], size)]
"""

BATCH_NORM = """\
import torch


def native_batch_norm__default_kernel_impl(*args):
    return torch.native_batch_norm(*args)
"""

ZEROS = """\
import torch


def _softmax__default_kernel_impl(self, dim, half_to_float):
    return torch.zeros_like(self)
"""

LONG_ROWS = """\
Operator: aten._softmax.default
cnt: 1, ((T([16, 1024], f32), -1, False), {})
"""

TRACE = """\
Operator: aten.add.Tensor
cnt: 12, ((T([8, 4], f32), T([8, 4], f32)), {})
cnt: 3, ((T([64, 32], bf16, [1, 64]), T([64, 32], bf16)), {'alpha': 2})
cnt: 1, ((T([5, 1], f32), 1.5), {})
cnt: 0, ((T([16, 4, 9], 'f32', [36, 1, 4]), T([9], f32, [0])), {})
cnt: 12, ((T([8, 4], f32), T([8, 4], f32)), {})
cnt: 2, ((T([3], i64), T([3], i64)), {'alpha': -3})
Operator: aten.relu_.default
cnt: 1, ((T([33, 5], f32),), {})
Operator: aten.cat.default
cnt: 1, (([T([2, 3], f16), T([4, 3], f16)],), {})
cnt: 4, (([T([2, 3], f16), T([2, 4], f16), T([2, 1], f16)], -1), {})
Operator: aten._softmax.default
cnt: 9, ((T([4, 1, 7], bf16), -1, False), {})
Operator: prims.iota.default
cnt: 1, ((7,), {'dtype': torch.int64, 'device': device(type='cuda', index=0)})
"""

HOSTILE = {
    "a call": "((__import__('os').system('touch owned'),), {})",
    "a call in a shape": "((T([exit()], f32),), {})",
    "an attribute": "((torch.load,), {})",
    "a name": "((T,), {})",
    "a lambda": "((lambda: 0,), {})",
    "a comprehension": "(([x for x in range(9)],), {})",
    "a power": "((9 ** 9 ** 9,), {})",
    "a huge shape": "((T([1000000, 1000000], f32),), {})",
    "a huge stride": "((T([2], f32, [9000000000000000000]),), {})",
    "a negative shape": "((T([-1], f32),), {})",
    "a dtype that is none": "((T([1], f77),), {})",
    "a complex dtype": "((T([1], c64),), {})",
    "strides of other length": "((T([1, 2], f32, [1]),), {})",
    "a starred argument": "((*[1],), {})",
    "a keyword that is no name": "((1,), {'a b': 1})",
    "a keyword that is spread": "((1,), {**{}})",
    "a huge number": "((" + "9" * 400 + ",), {})",
    "no tuple": "7",
    "no Python": "((T([1, f32),), {})",
    "nesting": "((" + "[" * 90 + "]" * 90 + ",), {})",
    "deep nesting": "((" + "(" * 9000 + ")" * 9000 + ",), {})",
    "many parts": "((" + "1, " * 5000 + "), {})",
    "length": "((" + "1, " * 50_000 + "), {})",
    "many tensors": "((" + "T([1], f32), " * 64 + "), {})",
}


def operator(folder: Path, name: str, **files: str) -> Path:
    """An operator's folder below `ops`; files by what follows `_implementation` in their names."""
    place = folder / "ops" / name
    place.mkdir(parents=True, exist_ok=True)
    for end, text in files.items():
        (place / f"{name}_implementation{end.removeprefix('plain')}.py").write_text(text)
    return place


def trace(folder: Path, text: str = TRACE, name: str = "models.txt") -> Path:
    """A trace's file."""
    (folder / name).write_text(text)
    return folder / name
