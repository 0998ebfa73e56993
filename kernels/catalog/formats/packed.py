"""Calls whose arguments differ from case to case: how a target of ours carries them, whatever they are.

A problem of others often has a list of cases: other shapes, dtypes, and numbers, texts and None between the tensors.
Ours has one line for each input. So the arguments of a call are packed: tensors into slots, inputs `any [...] posed`,
and all else, with the place of every tensor, as text into a static input of bytes:

    call = "uint8 [...] posed static cpu"
    x    = "any [...] posed"

`pose()` packs, in the verifier alone. A rung's prepare() reads `call` once; from then on a call puts the tensors
where they belong. A tensor that is not contiguous travels as the stretch of memory that it lies in, and is viewed
with its strides. So no line of a problem that makes inputs runs in a rung's process, and what is timed is the call.

Which case it is, is the value of one axis. The cases that are small enough for any machine are judged in every full
run; the others are run by their names.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import frontmatter
from aisp.kernels.catalog.model import UNCOUNTED
from aisp.kernels.catalog.onefile import Reader

from . import kernelbench
from .shared import NEEDS_GPU, says_cuda

NAME = "aisp_packed"
MODELS = "aisp_models"
IMPORT = f"from aisp.kernels.runtime import models as {MODELS}, packing as {NAME}"
"""What a target's files import them by."""
CALL = "call"
MAX_CASES = 128
MAX_SLOTS = 32
SPARE_SLOTS = 8  # for tensors in lists
JUDGED_ELEMENTS = 2**22  # of a case's largest tensor: above it, no run judges the case unless it is asked for
HOST_ELEMENTS = 2**20  # likewise, of the case that a machine without a GPU times

OPEN_TENSOR = "any [...] posed"
OPEN_BYTES = "uint8 [...] posed static cpu"
OPEN_OUTPUT = "any [...]"
DRAWS = (
    "forward draws random numbers: every call stands behind a seed of its set, and an answer must draw the same "
    "numbers from PyTorch in the same order"
)

_PLAIN = ("int", "float", "str", "bool", "list", "tuple", "dict", "List[int]", "list[int]", "Tuple[int]", "tuple[int]")
_SEVERAL = ("List[", "list[", "Sequence[", "Iterable[", "Tuple[", "tuple[")


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a problem.

    Attributes:
        name: as `--case` takes it.
        elements: of its largest tensor; None where nobody has written that down.
    """

    name: str
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class Cases:
    """All cases of a problem, by the value of one axis.

    Attributes:
        axis: its name; its values count the cases from 0.
        usual: which one is timed where a GPU is.
        known: the cases, at least one.
        on_gpu: the problem's code asks for a GPU by name.
    """

    axis: str
    known: tuple[Case, ...]
    usual: int = 0
    on_gpu: bool = False

    def asked_by(self, tree: ast.AST, notes: list[str]) -> Cases:
        """These cases, of this code, with a note where it asks for a GPU."""
        if not says_cuda(tree):
            return self
        notes.append(NEEDS_GPU)
        return replace(self, on_gpu=True)

    @property
    def cpu(self) -> int | None:
        """The case that is timed on a machine without a GPU: the largest of those that are small enough, the first
        where no size is known; None where all are too large, or the code asks for a GPU."""
        if self.on_gpu:
            return None
        sizes = [(case.elements, -index) for index, case in enumerate(self.known) if case.elements is not None]
        if not sizes:
            return 0
        small = [pair for pair in sizes if pair[0] <= HOST_ELEMENTS]
        return -max(small)[1] if small else None

    def front(self) -> dict[str, Any]:
        """Axes, cases and fuzz of the front matter."""
        cpu = self.cpu
        small = [index for index, case in enumerate(self.known) if (case.elements or 0) <= JUDGED_ELEMENTS]
        listed: list[dict[str, Any]] = [{"name": "cpu", "axes": {self.axis: cpu}}] if cpu is not None else []
        listed += [
            {"name": case.name, "axes": {self.axis: index}, "timed": index not in small}
            for index, case in enumerate(self.known)
        ]
        return {
            "axes": {self.axis: self.usual},
            "cases": listed,
            "fuzz": {"axes": {self.axis: small or [self.usual]}},
        }


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """The name, with as many underscores behind it as it takes to be no other's."""
    while wanted in taken:
        wanted += "_"
    return wanted


def call_name(slots: Sequence[str]) -> str:
    """The name of the input that says what the slots are."""
    return free_name(CALL, slots)


def inputs(slots: Sequence[str]) -> dict[str, str]:
    """The lines of a packed call's inputs."""
    return {call_name(slots): OPEN_BYTES} | dict.fromkeys(slots, OPEN_TENSOR)


def with_model(lines: Mapping[str, str], *, random: bool) -> dict[str, str]:
    """The lines, and those of a Model's weights and of the seed of what it draws, if it does."""
    found = dict(lines)
    found[free_name("model", list(found))] = "made static"
    if random:
        found[free_name("seed", list(found))] = kernelbench.SEED_LINE
    return found


def outputs(count: int, taken: Sequence[str]) -> dict[str, str]:
    """The lines of so many outputs, of which nothing is known before they are there."""
    names = [f"out{index if count > 1 else ''}" for index in range(count)]
    end = "_" if any(name.startswith("out") for name in taken) else ""
    return {f"{name}{end}": OPEN_OUTPUT for name in names}


def plain_name(path: Path) -> str:
    """A path's last part as a lesson may have it."""
    return "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in path.name)


def lesson(
    reader: Reader,
    cases: Cases,
    *,
    title: str,
    tolerance: Mapping[str, float],
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    rule: str,
    rungs: Mapping[str, str],
    text: Sequence[str],
    needs: Mapping[str, Mapping[str, int]] | None = None,
) -> bytes:
    """lesson.md of a packed target. Raises RefusedError where it would be none.

    Args:
        reader: of the problem, which collects what is wrong.
        rule: the name of the problem's own rule, which rule.py holds.
        rungs: a summary for each.
        needs: what a rung needs of a machine.
        text: lines below the title.
    """
    import tomli_w  # only where a target is made

    front = cases.front()
    content: dict[str, Any] = {
        "title": title,
        "flops": UNCOUNTED,
        **({"needs": {"gpus": 1}} if cases.cpu is None else {}),
        "tolerance": dict(tolerance),
        "axes": front["axes"],
        "inputs": dict(inputs),
        "outputs": dict(outputs),
        "cases": front["cases"],
        "fuzz": front["fuzz"],
        "rule": {"name": rule},
        "rungs": {name: {"summary": summary} for name, summary in rungs.items()},
    }
    for name, needed in (needs or {}).items():
        content["rungs"][name]["needs"] = dict(needed)
    lines = "\n".join((f"# {title}", "", *text))
    made = f"+++\n{tomli_w.dumps(content)}+++\n\n{lines}\n".encode("utf-8", "replace")
    _, found = frontmatter.read(reader.path, made)
    for each in found:
        reader.wrong(0, f"{each.key}: {each.message}", each.fix)
    reader.hold()
    return made


# -- what a signature says ---------------------------------------------------------------------------------------------


def slots(arguments: ast.arguments, *, without: Collection[str] = ()) -> list[str]:
    """Names of the slots that a function's arguments need: of each that may be a tensor its own, and some more where
    there are lists of tensors or a star. `self` takes none."""
    found: list[str] = []
    more = SPARE_SLOTS if arguments.vararg is not None else 0
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    for arg, default in zip(plain, defaults + list(arguments.defaults), strict=True):
        if arg.arg in ("self", *without):
            continue
        note = ast.unparse(arg.annotation) if arg.annotation is not None else ""
        if "Tensor" in note and any(word in note for word in _SEVERAL):
            more = SPARE_SLOTS
        elif "Tensor" not in note and (note.strip("'\"") in _PLAIN or _is_plain(default)):
            continue
        found.append(arg.arg)
    return (found + [free_name(f"more{index}", found) for index in range(more)])[:MAX_SLOTS]


def _is_plain(default: ast.expr | None) -> bool:
    """Whether a default says that no tensor is meant: a number or a text, and not None."""
    return isinstance(default, ast.Constant) and default.value is not None


def draws(tree: ast.Module) -> bool:
    """Whether a call may draw random numbers: a class of the file does, or a function that one of them names."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    used = {each.id for node in classes for each in ast.walk(node) if isinstance(each, ast.Name)}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in used]
    return any(kernelbench.draws(node, {}) for node in (*classes, *functions))


def returned(function: ast.FunctionDef) -> list[str]:
    """Names of what a function returns at its end, "" where it has none: as many as its annotation says, else as many
    as there are between commas."""
    ends = [node for node in function.body if isinstance(node, ast.Return)]
    value = ends[-1].value if ends else None
    values: Sequence[ast.expr | None] = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    said = _said(function.returns)
    if said > 1 and len(values) != said:
        return [""] * said
    return [each.id if isinstance(each, ast.Name) else "" for each in values]


def _said(note: ast.expr | None) -> int:
    """How many a `tuple[Tensor, Tensor]` is; 0 where it does not say."""
    if not isinstance(note, ast.Subscript) or ast.unparse(note.value).rpartition(".")[2].lower() != "tuple":
        return 0
    inner = note.slice
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    return 0 if any(isinstance(each, ast.Constant) and each.value is ... for each in parts) else len(parts)


# -- what a target holds -----------------------------------------------------------------------------------------------


def rule(tolerances: Mapping[str, float], *, equal_nan: bool = False) -> bytes:
    """rule.py: allclose with atol = rtol, by the dtype of the output; all other dtypes must be equal.

    A problem's own rule compares with what its own code gives in its own dtype, and not with fp64.
    """
    given = f"{dict(tolerances)!r}, equal_nan={equal_nan}"
    return (
        f"import reference\nfrom aisp.kernels.runtime import rules\n\n\n"
        f"def judge(inputs, outputs, expected):\n"
        f"    return rules.by_own_dtype(reference.run, inputs, outputs, expected, {given})\n"
    ).encode()
