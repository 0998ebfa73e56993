"""Tasks and submissions in gpu-mode's form, of our own writing: text, as files hold it, and what is made of it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from aisp.kernels.catalog.formats import gpumode

UTILS = '''\
"""Shared by the tasks of a set."""

import torch


def closeness(got, want, rtol, atol):
    """What is wrong with got; nothing where it is close."""
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, wanted {tuple(want.shape)}"
    off = (got - want).abs() > atol + rtol * want.abs()
    return f"{int(off.sum())} elements are off" if bool(off.any()) else ""


def make_match_reference(reference, rtol=1e-5, atol=1e-8):
    def check(data, output):
        wrong = closeness(output, reference(data), rtol, atol)
        return not wrong, wrong

    return check
'''

TASK_PY = """\
from typing import TypeVar

import torch

input_t = TypeVar("input_t", bound=tuple[torch.Tensor, torch.Tensor, torch.Tensor])
output_t = TypeVar("output_t", bound=torch.Tensor)
"""

FILES = """\
files:
  - {"name": "submission.py", "source": "@SUBMISSION@"}
  - {"name": "task.py", "source": "task.py"}
  - {"name": "utils.py", "source": "../utils.py"}
  - {"name": "reference.py", "source": "reference.py"}
  - {"name": "eval.py", "source": "../eval.py"}
lang: "py"
config:
  main: "eval.py"
"""

# -- a weighted sum into a buffer that comes with the data: matches a reference ----------------------------------------

BLEND_YML = f"""\
# name: blend
{FILES}
description: |
  Blend two vectors into the third one.

tests:
  - {{"size": 127, "seed": 4242}}
  - {{"size": 128, "seed": 5236}}
  - {{"size": 128, "seed": 17}}
benchmarks:
  - {{"size": 65536, "seed": 54352}}
  - {{"size": 32768, "seed": 93246}}
ranking_by: "geom"
gpus: [T4, H100]
"""

BLEND = """\
import torch
from task import input_t, output_t
from utils import make_match_reference


def generate_input(size: int, seed: int) -> input_t:
    gen = torch.Generator().manual_seed(seed)
    left = torch.randn(size, generator=gen)
    right = torch.rand(size, generator=gen) + 1.0
    return left.contiguous(), right, torch.empty_like(left)


def ref_kernel(data: input_t) -> output_t:
    a, b, out = data
    out[...] = 0.25 * a + 0.75 * b
    return out


check_implementation = make_match_reference(ref_kernel, rtol=1e-4, atol=1e-5)
"""

BLEND_RIGHT = """\
import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, out = data
    return torch.lerp(a, b, 0.75, out=out)


if __name__ == "__main__":
    from reference import generate_input

    print(custom_kernel(generate_input(8, 1)))
"""

BLEND_OWN_OUTPUT = """\
def custom_kernel(data):
    a, b, _ = data
    return 0.25 * a + 0.75 * b
"""

BLEND_WRONG = """\
def custom_kernel(data):
    a, b, _ = data
    return 0.26 * a + 0.74 * b
"""

BLEND_REMEMBERS = """\
KNOWN = {}


def custom_kernel(data):
    a, b, _ = data
    if a.shape not in KNOWN:
        KNOWN[a.shape] = 0.25 * a + 0.75 * b
    return KNOWN[a.shape]
"""

BLEND_WRONG_SHAPE = """\
def custom_kernel(data):
    a, b, _ = data
    return (0.25 * a + 0.75 * b)[:-1].clone()
"""

# -- the same, and the task's own kernel leaves the buffer alone -------------------------------------------------------

APART = BLEND.replace("    out[...] = 0.25 * a + 0.75 * b\n    return out", "    return 0.25 * a + 0.75 * b")

BLEND_CHANGES_FORM = """\
CALLS = []


def custom_kernel(data):
    a, b, _ = data
    CALLS.append(None)
    found = 0.25 * a + 0.75 * b
    return found if len(CALLS) < 3 else (found, b + 0)
"""

BLEND_SPOILS = BLEND_RIGHT.replace(
    "    return torch.lerp(a, b, 0.75, out=out)", "    torch.lerp(a, b, 0.75, out=out)\n    a.zero_()\n    return out"
)

BLEND_PAST_THE_END = BLEND_SPOILS.replace(
    "a.zero_()", "out.as_strided((4,), (1,), out.storage_offset() + out.numel()).zero_()"
)

# -- a factorisation, of which there are many right ones: a check of properties ----------------------------------------

FRAME_YML = f"""\
{FILES}
tests:
  - {{"batch": 2, "n": 6, "seed": 3, "case": "dense"}}
  - {{"batch": 1, "n": 9, "seed": 8, "case": "thin"}}
benchmarks:
  - {{"batch": 16, "n": 24, "seed": 11, "case": "dense"}}
"""

FRAME = '''\
import torch
from task import input_t, output_t


def generate_input(batch, n, seed, case):
    torch.manual_seed(seed)
    rows = n if case == "dense" else 2 * n
    return torch.randn(batch, rows, n, dtype=torch.float32)


def ref_kernel(data):
    return torch.linalg.qr(data)


def check_implementation(data, output):
    """Older form: what is wrong, as a text."""
    q, r = output
    eye = torch.eye(q.shape[-1], dtype=torch.float64)
    if (q.double().mT @ q.double() - eye).abs().max() > 1e-4:
        return "q is not orthogonal"
    if torch.tril(r, -1).abs().max() > 1e-5:
        return "r is not triangular"
    if (q.double() @ r.double() - data.double()).norm() > 1e-4 * data.double().norm():
        return "q r is not the input"
    return ""
'''

FRAME_TASK_PY = """\
import torch

input_t = torch.Tensor
output_t = tuple[torch.Tensor, torch.Tensor]
"""

FRAME_OTHER_SIGNS = """\
import torch


def custom_kernel(data):
    q, r = torch.linalg.qr(data)
    return -q, -r
"""

FRAME_WRONG = """\
import torch


def custom_kernel(data):
    q, r = torch.linalg.qr(data)
    return q * 1.01, r / 1.01
"""

# -- the same in its compact form, which one function of torch gives ---------------------------------------------------

HOUSE = (
    FRAME.replace("return torch.linalg.qr(data)", "return torch.geqrf(data)")
    .replace("torch.randn(batch, rows, n,", "torch.randn(batch, n, n,")
    .replace("    q, r = output\n", "    q, r = torch.linalg.householder_product(*output), torch.triu(output[0])\n")
)

HOUSE_RIGHT = """\
import torch


def custom_kernel(data):
    found = [torch.geqrf(each) for each in data]
    return torch.stack([h for h, _ in found]), torch.stack([tau for _, tau in found])
"""

# -- an input with a structure that its values share: the check takes it for granted -----------------------------------

SPECTRUM_YML = f"""\
{FILES}
tests:
  - {{"n": 5, "seed": 3}}
benchmarks:
  - {{"n": 48, "seed": 11}}
"""

SPECTRUM = """\
import torch


def generate_input(n, seed):
    torch.manual_seed(seed)
    half = torch.randn(n, n)
    return half + half.mT


def ref_kernel(data):
    return torch.linalg.eigh(data)


def check_implementation(data, output):
    w, v = output
    wide, exact = v.double(), data.double()
    if (exact @ wide - wide * w.double()).norm() > 1e-4 * exact.norm():
        return False, "no eigenvectors"
    if (wide.mT @ wide - torch.eye(v.shape[-1])).abs().max() > 1e-4:
        return False, "not orthonormal"
    return True, ""
"""

SPECTRUM_OTHER_SIGNS = """\
import torch


def custom_kernel(data):
    w, v = torch.linalg.eigh(data)
    return w, -v
"""

# -- an input whose memory is not as its shape says --------------------------------------------------------------------

COLUMNS = BLEND.replace(
    "return left.contiguous(), right, torch.empty_like(left)",
    "return torch.randn(size, 3, generator=gen).T, right, torch.empty(3, size)",
)

COLUMNS_BY_MEMORY = """\
import torch


def custom_kernel(data):
    a, b, out = data
    rows = torch.as_strided(a, (a.shape[1], a.shape[0]), (a.shape[0], 1))  # as it lies in memory
    out.copy_((0.25 * rows + 0.75 * b[:, None]).mT)
    return out
"""

# -- tensors in a dictionary, a configuration, words and truth values among the arguments ------------------------------

GATE_YML = f"""\
{FILES}
tests:
  - {{"rows": 4, "width": 8, "halved": false, "shape": "flat", "seed": 1}}
  - {{"rows": 5, "width": 12, "halved": true, "shape": "peaked", "seed": 2}}
benchmarks:
  - {{"rows": 256, "width": 64, "halved": true, "shape": "flat", "seed": 3}}
"""

GATE = """\
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from task import input_t, output_t
from utils import make_match_reference

ALIGN = 16


@dataclass
class Plan:
    width: int
    padded: int
    dtype: torch.dtype


def padded_to(n, align):
    return (n + align - 1) // align * align


def generate_input(rows: int, width: int, halved: bool, shape: str, seed: int):
    gen = torch.Generator()
    gen.manual_seed(seed)
    full = padded_to(width, ALIGN)
    plan = Plan(width=width, padded=full, dtype=torch.float32)
    config = {"scale": 1.0 / math.sqrt(width), "halved": halved}
    config["rows"] = rows
    if shape == "flat":
        x = torch.rand((rows, width), generator=gen)
    else:
        x = F.softmax(torch.randn((rows, width), generator=gen), dim=-1)
    weights = {}
    weights["gate.weight"] = torch.randn(width, generator=gen)
    weights["gate.bias"] = torch.zeros(width)
    return (x, weights, config, plan, None)


def ref_kernel(data):
    x, weights, config, plan, _ = data
    gate = torch.sigmoid(x * weights["gate.weight"] + weights["gate.bias"]) * config["scale"]
    y = F.pad(x * gate, (0, plan.padded - plan.width))
    return y * 0.5 if config["halved"] else y


check_implementation = make_match_reference(ref_kernel, rtol=1e-4, atol=1e-6)
"""

GATE_RIGHT = """\
import torch


def custom_kernel(data):
    x, weights, config, plan, nothing = data
    assert nothing is None and config["rows"] == x.shape[0]
    scale = config["scale"] * (0.5 if config["halved"] else 1.0)
    y = x.new_zeros(x.shape[0], plan.padded)
    y[:, : plan.width] = x * torch.sigmoid(torch.addcmul(weights["gate.bias"], x, weights["gate.weight"])) * scale
    return y
"""

# -- lists whose length is an argument, into buffers that come with the data -------------------------------------------

GROUPS_YML = f"""\
{FILES}
tests:
  - {{"rows": [5, 9], "width": 8, "seed": 1}}
  - {{"rows": [7], "width": 3, "seed": 2}}
benchmarks:
  - {{"rows": [64, 33, 96], "width": 32, "seed": 3}}
"""

GROUPS = """\
import torch
from utils import closeness


def generate_input(rows, width, seed):
    gen = torch.Generator().manual_seed(seed)
    groups = []
    for n in rows:
        a = torch.randn(width, n, generator=gen).T
        b = torch.randn(width, width, generator=gen)
        groups.append((a, b, torch.empty(n, width)))
    scales = {f"group{i}": torch.rand(1, generator=gen) + 0.5 for i in range(len(rows))}
    return groups, scales, [(n, width) for n in rows]


def ref_kernel(data):
    groups, scales, shapes = data
    found = []
    for i, (a, b, c) in enumerate(groups):
        assert tuple(c.shape) == shapes[i]
        c[...] = a @ b * scales[f"group{i}"]
        found.append(c)
    return found


def check_implementation(data, output):
    for got, want in zip(output, ref_kernel(data)):
        wrong = closeness(got, want, 1e-4, 1e-4)
        if wrong:
            return False, wrong
    return True, ""
"""

GROUPS_RIGHT = """\
import torch


def custom_kernel(data):
    groups, scales, shapes = data
    assert isinstance(groups, list) and isinstance(groups[0], tuple) and shapes[0] == tuple(groups[0][2].shape)
    assert all(a.shape[0] == 1 or a.stride(0) == 1 for a, _, _ in groups)  # as generate_input left it
    for (a, b, c), scale in zip(groups, scales.values()):
        torch.matmul(a * scale, b, out=c)
    return [c for _, _, c in groups]
"""

GROUPS_OWN_OUTPUTS = """\
def custom_kernel(data):
    groups, scales, _ = data
    return tuple((a @ b) * scale for (a, b, _), scale in zip(groups, scales.values()))
"""

GROUPS_WRONG = GROUPS_OWN_OUTPUTS.replace("(a @ b)", "(a @ b + 0.01)")

GROUPS_SHORT = GROUPS_OWN_OUTPUTS.replace("scales.values()))", "scales.values()))[:-1]")

GROUPS_REMEMBERS = """\
KNOWN = {}


def custom_kernel(data):
    groups, scales, shapes = data
    key = str(shapes)
    if key not in KNOWN:
        KNOWN[key] = [(a @ b) * scale for (a, b, _), scale in zip(groups, scales.values())]
    return KNOWN[key]
"""

# -- a cache with a state, and a configuration with weights ------------------------------------------------------------

CACHE_YML = f"""\
{FILES}
tests:
  - {{"batch": 2, "filled": 3, "width": 8, "seed": 1}}
benchmarks:
  - {{"batch": 16, "filled": 12, "width": 32, "seed": 3}}
"""

CACHE = """\
import enum
from dataclasses import dataclass

import torch
from torch import nn
from utils import make_match_reference

LONGEST = 16


class Mode(enum.Enum):
    CAUSAL = "causal"


@dataclass
class Config:
    width: int
    mode: Mode
    weight: torch.Tensor
    bias: nn.Parameter


class Cache(nn.Module):
    def __init__(self, batch, width):
        super().__init__()
        self.register_buffer("data", torch.zeros(batch, LONGEST, width))
        self.filled = 0

    def forward(self, rows):
        end = self.filled + rows.shape[1]
        assert end <= self.data.shape[1]
        self.data[:, self.filled : end] = rows
        self.filled = end
        return self.data[:, :end]


def generate_input(batch, filled, width, seed):
    torch.manual_seed(seed)
    cache = Cache(batch, width)
    cache(torch.randn(batch, filled, width))
    bias = nn.Parameter(torch.randn(width), requires_grad=False)
    config = Config(width=width, mode=Mode.CAUSAL, weight=torch.randn(width, width), bias=bias)
    gate = nn.Sequential(nn.Linear(width, width), nn.Sigmoid()).eval()
    return config, torch.randn(batch, 1, width), cache, gate


@torch.no_grad()
def ref_kernel(data):
    config, x, cache, gate = data
    assert config.mode is Mode.CAUSAL and isinstance(cache, Cache)
    rows = cache(x @ config.weight + config.bias)
    return (rows.mean(dim=1) * gate(x[:, 0])), cache.data


def check_implementation(data, output):
    return make_match_reference(lambda _: torch.cat([each.flatten() for each in ref_kernel(data)]), 1e-4, 1e-4)(
        data, torch.cat([each.flatten() for each in output])
    )
"""

CACHE_RIGHT = """\
import torch


@torch.no_grad()
def custom_kernel(data):
    config, x, cache, gate = data
    assert config.mode.value == "causal" and config.width == x.shape[-1] and not gate.training
    place = cache.filled
    cache.data[:, place] = torch.addmm(config.bias, x[:, 0], config.weight)
    cache.filled += 1
    state = gate.state_dict()
    opened = torch.sigmoid(torch.addmm(state["0.bias"], x[:, 0], state["0.weight"].T))
    return cache.data[:, : place + 1].sum(dim=1) / (place + 1) * opened, cache.data
"""

CACHE_BY_CLASS = CACHE_RIGHT.replace("import torch\n", "import torch\nfrom aisp_classes import Cache, Mode\n").replace(
    "    place =", "    assert isinstance(cache, Cache) and config.mode is Mode.CAUSAL\n    place ="
)

CACHE_FORGETS = CACHE_RIGHT.replace("    cache.data[:, place] =", "    _ =")

# -- what cannot be run here -------------------------------------------------------------------------------------------

ON_CUDA = BLEND.replace("torch.Generator()", 'torch.Generator(device="cuda")').replace(
    "size, generator=gen", 'size, device="cuda", generator=gen'
)
ON_EITHER = BLEND.replace("    gen =", '    device = "cuda" if torch.cuda.is_available() else "cpu"\n    gen =')

OF_RANKS_YML = BLEND_YML.replace("\ntests:", "\nmulti_gpu: true\ntests:").replace(
    '"size": 127', '"world_size": 2, "size": 127'
)
OF_CUDA_YML = BLEND_YML.replace('lang: "py"', 'lang: "cu"')
CLIMBING_YML = BLEND_YML.replace("../utils.py", "../../../../outside/utils.py")
BOMB_YML = FILES + "a: &a [1, 1]\nb: &b [*a, *a, *a, *a]\ntests: [*b, *b]\n"

STATEFUL = BLEND.replace(
    "    return left.contiguous(), right, torch.empty_like(left)",
    """\
    class Cache(torch.nn.Module):
        pass

    return left, right, Cache()""",
)

TASKS: Mapping[str, tuple[str, str, str]] = {
    "blend_py": (BLEND_YML, BLEND, TASK_PY),
    "frame_py": (FRAME_YML, FRAME, FRAME_TASK_PY),
    "spectrum_py": (SPECTRUM_YML, SPECTRUM, FRAME_TASK_PY),
    "columns_py": (BLEND_YML, COLUMNS, TASK_PY),
    "gate_py": (GATE_YML, GATE, "input_t = object\noutput_t = object\n"),
    "on_cuda_py": (BLEND_YML, ON_CUDA, TASK_PY),
    "ranks_py": (OF_RANKS_YML, BLEND, TASK_PY),
    "of_cuda": (OF_CUDA_YML, BLEND, TASK_PY),
    "climbing_py": (CLIMBING_YML, BLEND, TASK_PY),
    "bomb_py": (BOMB_YML, BLEND, TASK_PY),
    "huge_py": (BLEND_YML + "# " + "x" * gpumode.MAX_TASK_BYTES + "\n", BLEND, TASK_PY),
    "groups_py": (GROUPS_YML, GROUPS, "input_t = object\noutput_t = object\n"),
    "cache_py": (CACHE_YML, CACHE, "input_t = object\noutput_t = object\n"),
    "apart_py": (BLEND_YML, APART, TASK_PY),
    "house_py": (FRAME_YML, HOUSE, "input_t = object\noutput_t = object\n"),
    "stateful_py": (BLEND_YML, STATEFUL, TASK_PY.replace(", torch.Tensor]", ", object]")),
}
"""By folder: task.yml, reference.py and task.py."""


def task(folder: Path, yml: str = BLEND_YML, reference: str = BLEND, types: str = TASK_PY) -> Path:
    """One task's folder, with the set's utils.py above it."""
    folder.mkdir(parents=True)
    (folder.parent / "utils.py").write_text(UTILS)
    (folder / "task.yml").write_text(yml)
    (folder / "reference.py").write_text(reference)
    (folder / "task.py").write_text(types)
    return folder


def checkout(folder: Path) -> Path:
    """A checkout with a set of all TASKS, and the file that names them and one that is not there."""
    (folder / ".git").mkdir(parents=True)
    for name, texts in TASKS.items():
        task(folder / "problems" / "ours" / name, *texts)
    lines = [f"  - directory: ours/{name}\n    name: {name.removesuffix('_py')}\n" for name in (*TASKS, "gone_py")]
    (folder / "problems" / "ours.yaml").write_text(f"name: Ours\nproblems:\n{''.join(lines)}")
    return folder


def laid_out(folder: Path, name: str, submission: str) -> Path:
    """The folder of the target that a submission to one of TASKS makes, in a collection of the task's name."""
    made = checkout(folder / "checkout") if not (folder / "checkout").exists() else folder / "checkout"
    return target(folder, made / "problems" / "ours" / name, submission)


def target(folder: Path, task: Path, submission: str) -> Path:
    """The folder of the target that a submission to a task makes, in a collection of the task's name."""
    answer = folder / "submission.py"
    answer.write_text(submission)
    parts = gpumode.against(answer, task)
    assert not parts.problems, parts.problems
    place = folder / "laid out" / task.name / "submission"
    for relative, data in parts.files.items():
        path = place / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


# -- tasks whose data or results have forms of their own ---------------------------------------------------------------

ANY = "input_t = object\noutput_t = object\n"
SMALL_YML = f"{FILES}tests: [{{m: 8, k: 16, seed: 1}}]\n"
HEAD = """\
import collections
import dataclasses
import enum
import math
import random
import typing

import numpy as np
import torch
import torch.nn.functional as F
"""
CLOSE = """
def close(got, want):
    if isinstance(want, torch.Tensor):
        return got.shape == want.shape and got.dtype == want.dtype and torch.allclose(got, want, atol=1e-5)
    if isinstance(want, dict):
        return list(got) == list(want) and all(close(got[key], want[key]) for key in want)
    if isinstance(want, (list, tuple)):
        return type(got) is type(want) and len(got) == len(want) and all(map(close, got, want))
    return type(got) is type(want) and (want is None or math.isclose(got, want, rel_tol=1e-5))


def check_implementation(data, output):
    return close(output, ref_kernel(data)), "it is not close"
"""
RETURNED: Mapping[str, tuple[str, str]] = {
    "complex numbers": ("return torch.fft.rfft(data)", "return torch.fft.fft(data)[:, : data.shape[-1] // 2 + 1]"),
    "written over what it reads": ("return data.relu_() + 1", "return torch.relu(data) + 1"),
    "what it was given": ("return F.dropout(data, 0.0)", "return data.clone()"),
    "a view of it": ("return data[:, 1:].T", "return data.T[1:].clone()"),
    "a dictionary": (
        "return {'y': torch.relu(data), 'norm': data.norm(dim=1)}",
        "return {'norm': data.square().sum(1).sqrt(), 'y': data.clamp(min=0)}",
    ),
    "a tensor and nothing": ("return data * 2, None", "return data + data, None"),
    "a number": ("return float(data.square().sum())", "return (data.double() ** 2).sum().item()"),
    "lists in a tuple": ("return [data, data + 1], (data * 2,)", "return [data.clone(), 1 + data], (data + data,)"),
    "a tuple with names": (
        "return torch.topk(data, 2)",
        "return tuple(each[:, :2] for each in data.sort(descending=True))",
    ),
    "columns": ("return data.T * 2", "return (data * 2).T.contiguous()"),
    "nothing in it": ("return data[:0]", "return data[:0].clone()"),
}
"""By what ref_kernel returns of data [m, k]: its body, and that of a right submission."""


def function(name: str, body: str) -> str:
    """A function of data with this body."""
    return f"def {name}(data):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"


def generated(body: str) -> str:
    """A generate_input with this body, and behind three empty lines what stands above it; or both as they are."""
    inner, _, above = textwrap.dedent(body).strip("\n").partition("\n\n\n")
    if "def generate_input" in body:
        return textwrap.dedent(body)
    seeded = f"torch.manual_seed(seed)\n{textwrap.dedent(inner)}"
    return f"{above}\n\n\ndef generate_input(m, k, seed):\n{textwrap.indent(seeded, '    ')}\n"


def composed(folder: Path, data: str, kernel: str, check: str = CLOSE, submission: str = "return data") -> Path:
    """The target of a task of these functions, given by their bodies, and of a submission; `check` is given whole."""
    (folder / ".git").mkdir()
    own = f"{HEAD}\n\n{generated(data)}\n\n{function('ref_kernel', kernel)}\n\n{check}"
    made = task(folder / "s" / "our_py", SMALL_YML, own, ANY)
    return target(folder, made, f"import torch\n\n\n{function('custom_kernel', submission)}")
