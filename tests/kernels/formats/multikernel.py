"""Problems in MultiKernelBench's form, of our own writing: a list of cases, groups in the code, and one group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCALE = '''\
import json
import os

import torch
import torch.nn as nn

DTYPES = {"float32": torch.float32, "float16": torch.float16, "int32": torch.int32}


class Model(nn.Module):
    """Powers of x, scaled, with another tensor added where there is one."""

    def forward(self, x: torch.Tensor, power: int, mode: str = "once", other: torch.Tensor = None) -> torch.Tensor:
        found = x**power
        if mode == "twice":
            found = found * 2
        return found if other is None else found + other


def get_input_groups():
    path = os.path.join(os.path.dirname(__file__), "4_scale.json")
    with open(path, "r") as file:
        cases = [json.loads(line) for line in file if line.strip()]
    groups = []
    for case in cases:
        values = []
        for each in case["inputs"]:
            if each["type"] == "tensor":
                values.append(torch.randn(each["shape"]).to(DTYPES[each["dtype"]]))
            else:
                values.append(each["value"])
        groups.append(values)
    return groups


def get_init_inputs():
    return []
'''


def tensor(*shape: int, dtype: str = "float32") -> dict[str, Any]:
    """A tensor of a case."""
    return {"name": "x", "type": "tensor", "required": True, "dtype": dtype, "shape": list(shape)}


def attr(value: object) -> dict[str, Any]:
    """What is no tensor."""
    return {"name": "a", "type": "attr", "value": value}


CASES = [
    [tensor(3, 5), attr(2)],
    [tensor(64, 4096), attr(1), attr("twice")],
    [tensor(7, 9, dtype="float16"), attr(2), attr("once"), tensor(9, dtype="float16")],
    [tensor(9, dtype="int32"), attr(3), attr("twice"), attr(None)],
    [tensor(4096, 16384), attr(2)],
]

SCALE_NEW = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, power, mode="once", other=None):
        found = x
        for _ in range(power - 1):
            found = found * x
        found = found + found if mode == "twice" else found
        return found.clone() if other is None else torch.add(found, other)
"""

IGNORES_MODE = SCALE_NEW.replace('if mode == "twice" else found', "if False else found")

LITERAL = """\
import torch
import torch.nn as nn

bound = 4


class Model(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.layer = nn.Linear(8, bound)

    def forward(self, x, parts: list[torch.Tensor], keep=True) -> tuple[torch.Tensor, torch.Tensor]:
        both = self.layer(x) + sum(parts)
        return both, both.argmax(-1)


def get_input_groups():
    return [
        [torch.randn([5, 8]), [torch.randn(5, 4)]],
        [torch.randn([128, 8]), [torch.randn(128, 4), torch.randn(128, 4)], False],
    ]


def get_init_inputs():
    return [bound]
"""

LITERAL_NEW = """\
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.layer = nn.Linear(8, bound)

    def forward(self, x, parts, keep=True):
        both = torch.addmm(self.layer.bias, x, self.layer.weight.t())
        for part in parts:
            both = both + part
        return both, torch.max(both, -1).indices
"""

ONE = '''\
import torch
import torch.nn as nn

rows = 512


class Model(nn.Module):
    """Sums of rows."""

    def forward(self, x):
        return x.sum(-1)


def get_inputs():
    return [torch.rand(rows, 256)]


def get_init_inputs():
    return []
'''

ONE_NEW = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.einsum("mn->m", x)
"""

ASCEND = SCALE.replace("import torch.nn as nn", "import torch.nn as nn\nimport torch_npu")


DROPS = LITERAL.replace("both = self.layer(x) + sum(parts)", "both = self.drop(self.layer(x)) + sum(parts)").replace(
    "        self.layer = nn.Linear(8, bound)\n",
    "        self.layer = nn.Linear(8, bound)\n        self.drop = nn.Dropout(0.5)\n",
)
DROPS_NEW = LITERAL_NEW.replace(
    "        for part in parts:\n", "        both = torch.dropout(both, 0.5, True)\n        for part in parts:\n"
)


def written(folder: Path, problem: str = SCALE, cases: object = CASES, *, name: str = "4_scale") -> Path:
    """A problem of a category below a checkout's `reference`, with its case list where it names one."""
    place = folder / "reference" / "powers"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.py").write_text(problem)
    if cases is not None:
        lines = cases if isinstance(cases, str) else "\n".join(json.dumps({"inputs": case}) for case in cases)  # type: ignore[attr-defined]
        (place / "4_scale.json").write_text(lines)
    return place / f"{name}.py"


def answer(folder: Path, text: str, name: str = "answer.py") -> Path:
    """A candidate's file."""
    (folder / name).write_text(text)
    return folder / name
