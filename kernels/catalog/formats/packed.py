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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import frontmatter
from aisp.kernels.catalog.frontmatter import Collector
from aisp.kernels.catalog.model import UNCOUNTED

from .shared import NEEDS_GPU, says_cuda

MODULE = "aisp_run"
RUN_IMPORT = f"from aisp.kernels.runtime import kernelbench as {MODULE}"
"""What those of a problem with a Model import it by."""
CALL = "call"
MAX_CASES = 128
MAX_SLOTS = 32
MAX_OUTPUTS = 32
SPARE_SLOTS = 8  # for tensors in lists
ROOMS = 4  # slots for tensors that a Model writes into, or hands back
JUDGED_ELEMENTS = 2**22  # of a case's largest tensor: above it, no run judges the case unless it is asked for
HOST_ELEMENTS = 2**20  # likewise, of the case that a machine without a GPU times

OPEN_TENSOR = "any [...] posed"
OPEN_BYTES = "uint8 [...] posed static cpu"
OPEN_OUTPUT = "any [...]"


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
        """Axes, cases, fuzz and needs of the front matter."""
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
            **({"needs": {"gpus": 1}} if cpu is None else {}),
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


def model_inputs(arguments: Sequence[str]) -> dict[str, str]:
    """The lines of the inputs of a problem with a Model, in the order of aisp.kernels.runtime.kernelbench.

    Args:
        arguments: of its forward(), a slot for each.
    """
    found = dict.fromkeys(arguments, OPEN_TENSOR)
    for number in range(SPARE_SLOTS):
        found[free_name(f"more{number}", list(found))] = OPEN_TENSOR
    for number in range(ROOMS):
        found[free_name(f"room{number}", list(found))] = f"{OPEN_TENSOR} mutable"
    found[free_name("weights", list(found))] = f"{OPEN_TENSOR} static"
    found[free_name("state", list(found))] = "uint8 [...] posed static"
    found[free_name("seed", list(found))] = "int64 [...] posed cpu"
    return {call_name(list(found)): OPEN_BYTES} | found


def model_files(problem: bytes, answer: bytes, names: Sequence[str]) -> dict[str, bytes]:
    """The reference and both rungs of a problem with a Model and of its answer's ModelNew."""
    taken = ", ".join(names)
    head = f"\n\n\n{RUN_IMPORT}  # what follows is aisp's\n\n\n"

    def ending(entry: str, called: str, cls: str) -> bytes:
        return f"{head}def {entry}({taken}):\n    return {MODULE}.{called}({cls}, {taken})\n".encode()

    return {
        "reference.py": problem + ending("run", "truth", "Model"),
        "baseline.py": problem + ending("prepare", "prepared", "Model"),
        "optimized.py": answer + ending("prepare", "prepared", "ModelNew"),
    }


def model_arguments(names: Sequence[str]) -> str:
    """What `kernelbench.posed` is told of the inputs, as keywords."""
    count = len(names) - 4 - SPARE_SLOTS - ROOMS
    return f"names={tuple(names)!r}, arguments={count}, rooms={ROOMS}"


def parameters(function: ast.FunctionDef) -> list[str]:
    """Names of a method's arguments, but for self, as many as there are slots for."""
    return [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)][1 : 1 + MAX_SLOTS]


def open_outputs(taken: Iterable[str] = ()) -> dict[str, str]:
    """The lines of outputs of which nothing is known before they are there: a call returns as many of them as the
    reference does."""
    end = "_" if any(name.startswith("out") for name in taken) else ""
    return {f"out{index}{end}": OPEN_OUTPUT for index in range(MAX_OUTPUTS)}


def seen_outputs(function: str) -> dict[str, str]:
    """The same in words."""
    return {"output": f"what {function} returns, up to {MAX_OUTPUTS} tensors"}


def summaries(theirs: str, entry: str, candidate: Path) -> dict[str, dict[str, object]]:
    """What both rungs are: the problem's own code, and what answers it."""
    answer = f"{entry} of {printable(candidate.name)}"
    return {"baseline": {"summary": theirs}, "optimized": {"summary": answer}}


def printable(line: str) -> str:
    """A line as a lesson may have it."""
    return "".join(letter if letter.isprintable() else " " for letter in line)


def lesson(
    collector: Collector,
    front: Mapping[str, Any],
    *,
    title: str,
    inputs: Mapping[str, str],
    rule: Mapping[str, object],
    rungs: Mapping[str, Mapping[str, object]],
    text: Sequence[str],
    outputs: Mapping[str, str] | None = None,
    tolerance: Mapping[str, float] | None = None,
    heading: str = "",
) -> bytes:
    """lesson.md of a target. Raises RefusedError where it would be none.

    Args:
        collector: of the problem, which collects what is wrong.
        front: axes, cases, fuzz and needs of the front matter.
        rule: the problem's own rule, which rule.py holds.
        outputs: those of which nothing is known, unless they are given.
        text: lines below the heading, which is the title unless it is given.
    """
    import tomli_w  # only where a target is made

    content: dict[str, Any] = {
        "title": title,
        "flops": UNCOUNTED,
        "tolerance": dict(tolerance or {}),
        **front,
        "inputs": dict(inputs),
        "outputs": dict(outputs or open_outputs(inputs)),
        "rule": dict(rule),
        "rungs": {name: dict(rung) for name, rung in rungs.items()},
    }
    lines = "\n".join((f"# {heading or title}", "", *text))
    made = f"+++\n{tomli_w.dumps(content)}+++\n\n{lines}\n".encode("utf-8", "replace")
    _, found = frontmatter.read(collector.path, made)
    for each in found:
        collector.wrong(each.key, each.message, each.fix)
    collector.hold()
    return made


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
