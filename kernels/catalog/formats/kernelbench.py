"""KernelBench: a problem is `class Model`, `get_inputs()` and `get_init_inputs()`; a candidate is `class ModelNew`.

    M = 1024

    class Model(nn.Module):
        def forward(self, A, B):
            return A @ B

    def get_inputs():
        return [torch.rand(M, M), torch.rand(M, M)]

    def get_init_inputs():
        return []

Both files are read by their syntax trees and never imported: for the names that they have, and for what says "cuda".
They become the files of a target's folder:

    reference.py    the problem, and a run() that calls its Model, in fp64 for the truth
    baseline.py     the problem, and a prepare() that makes its Model as its author wrote it
    optimized.py    the candidate, and a prepare() that makes its ModelNew and gives it the Model's weights
    inputs.py       pose(): get_inputs() and get_init_inputs() of the problem, called in the verifier alone
    rule.py         KernelBench's own rule: allclose, atol = rtol

What these do stands in aisp.kernels.runtime.kernelbench. Inputs are carried as they were made, a tensor in each slot,
and so are the weights. What forward() does with them (whether it draws random numbers, what it writes) is seen when the
first set of values is posed. The author's text stands at the head of each, so that line numbers are the file's own.

Weights: seed 42 for `get_init_inputs()`, again for `Model(*init)`, again for `ModelNew(*init)`, as KernelBench does.
Then ModelNew gets every tensor of the Model's state_dict that it has under the same name in the same shape; what had
other values, and what has no counterpart, is printed to the run's log.

A Model is never put into eval() there, nor here. Batch norm then takes the statistics of its batch, the same ones in
every call. A Model whose forward() draws random numbers (dropout) is called, as ModelNew is, behind a seed that comes
with the set: both draw the same numbers where they draw them from PyTorch in the same order. Where fp64 draws others
than the dtype of the inputs (a GPU's dropout does), the truth is that of this dtype.

KernelBench's own rule is told beside ours. Its harness casts every input tensor to the floating precision: where Model
itself raises then, no candidate passes there.

A problem has one shape, and a candidate may rely on it. On a machine without a GPU, whole numbers at the head of the
file are halved for get_inputs() alone until its tensors are small, where Model still takes them.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.frontmatter import RefusedError
from aisp.kernels.catalog.onefile import Parts, Reader

from . import packed
from .packed import Cases
from .shared import NEEDS_GPU, Listed, Opened, Part, contents, provenance, says_cuda, small

NAME = "kernelbench"
TITLE = "KernelBench"

TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
"""KernelBench's, by precision. Ours are relative to max(RMS of the reference, |reference|): zeros never pass."""

RULE = "KernelBench: allclose, atol = rtol = 0.0001 (0.01 in float16 and bfloat16)"
MODULE = packed.MODULE

_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_INPUTS = re.compile(rb"^def[ \t]+get_inputs[ \t]*\(", re.MULTILINE)
_OURS = re.compile(rb"^def[ \t]+reference[ \t]*\(", re.MULTILINE)
_CANDIDATE = re.compile(rb"^class[ \t]+ModelNew[ \t]*[(:]", re.MULTILINE)
_FILE = re.compile(r"(\d{1,6})_(.+)\.py\Z")
_LEVEL = re.compile(r"level_?(\d{1,3})\Z", re.IGNORECASE)
_HEAD = "KernelBench"  # the folder that holds the levels in a checkout
_OTHERS = "reference"  # that of the categories of MultiKernelBench, whose problems are judged by another rule


def part(path: Path) -> Part | None:
    """What a path is: a folder by the names in it, a Python file by the classes and functions at its left edge."""
    if path.is_dir():
        if next(collection(path), None) is not None:
            return Part.COLLECTION
        from .kernelbench_runs import is_runs  # it reads problems through this module

        return Part.RUNS if is_runs(path) else None
    data = small(path, onefile.SUFFIX)
    if not data or _OURS.search(data):
        return None
    if _CANDIDATE.search(data):  # which often repeats the Model and the inputs that it was asked about
        return Part.CANDIDATE
    if path.absolute().parent.parent.name == _OTHERS:
        return None
    return Part.PROBLEM if _MODEL.search(data) and _INPUTS.search(data) else None


def collection(folder: Path) -> Iterator[Listed]:
    """The problems below a checkout, its folder of levels, or one level, by level and number. No file is opened.

    Folders that cannot be read hold none.
    """
    levels = [(folder, level_of(folder.name))]
    for head in (folder, folder / _HEAD):
        levels += sorted(
            ((head / name, level_of(name)) for name in names_in(head) if level_of(name) is not None),
            key=lambda pair: pair[1] or 0,
        )
    for place, level in levels:
        found = [(int(match[1]), match[2], name) for name in names_in(place) if (match := _FILE.match(name))]
        for number, words, name in sorted(found):
            yield Listed(level, number, words.strip("_").replace("_", " "), place / name)


def names_in(folder: Path) -> list[str]:
    """The names in a folder; none where it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - thousands of names, of which no path is made
    except OSError:
        return []


def level_of(name: str) -> int | None:
    """The level that a folder of that name holds; None for any other."""
    found = _LEVEL.match(name)
    return int(found[1]) if found else None


def read(path: Path) -> Opened:
    """What the problem in that file is. Raises OSError where it cannot be read."""
    return opened(Problem(path))


def against(candidate: Path, path: Path) -> Parts:
    """The files of the target in which the candidate is judged; where one of the two cannot be taken, its problems and
    no files. Raises OSError where one cannot be read."""
    return answered(Problem(path), candidate, check_candidate)


def opened(problem: Problem) -> Opened:
    """What a problem is. Raises OSError where it cannot be read."""
    try:
        problem.take(contents(problem.path))
    except (RefusedError, RecursionError) as error:
        return Opened(problem.path, problems=problem.reader.ended(error))
    return problem.opened()


def answered(problem: Problem, candidate: Path, check: Callable[[Reader, bytes], None]) -> Parts:
    """The files of a problem's target for a candidate, which `check` refuses where it is none; see `against`."""
    data, answer = contents(problem.path), contents(candidate)
    reader = problem.reader
    try:
        problem.take(data)
        reader = Reader(candidate)
        check(reader, answer)
        reader = problem.reader
        return Parts(problem.files(data, candidate, answer))
    except (RefusedError, RecursionError) as error:
        return Parts({}, reader.ended(error))


MODEL_NEW = "write class ModelNew(nn.Module) with the problem's arguments"


def check_candidate(reader: Reader, data: bytes, name: str = "ModelNew", fix: str = MODEL_NEW) -> None:
    """Whether a rung can be made of it. What the file does when it is imported is its own affair: a process of its own
    imports it. Raises RefusedError."""
    tree = reader.tree(data)
    bound = [node for node in tree.body if name in bound_names(node)]
    kind = "function"
    if name[0].isupper():
        kind, bound = "class", [node for node in bound if isinstance(node, ast.ClassDef)]
    if not bound:
        raise reader.refuse(0, f"has no {kind} {name}", fix)
    refuse_names(reader, tree, ("prepare",))
    refuse_neighbours(reader, tree)
    reader.hold()


def refuse_effects(reader: Reader, tree: ast.Module) -> None:
    """Statements that do something when the file is imported."""
    for node in tree.body:
        if not onefile.says_nothing(node) and (found := onefile.effect(node)) is not None:
            reader.wrong(*found)


def refuse_names(reader: Reader, tree: ast.Module, taken: tuple[str, ...]) -> None:
    """Collect names of the file that are written behind it."""
    for node in tree.body:
        for name in bound_names(node):
            if name in taken:
                reader.wrong(node.lineno, f"{name} is a name that is written behind the file", "give it another name")


def refuse_neighbours(reader: Reader, tree: ast.Module) -> None:
    """Collect modules that lie beside the file: a run has this file alone."""
    folder = reader.path.parent
    for name, line in onefile.imported(tree.body):
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
            reader.wrong(line, f"{name} lies beside the file, and a run has this file alone", "move what is needed in")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            reader.wrong(node.lineno, "a relative import needs a package", "write what is needed into the file")


# -- a problem ---------------------------------------------------------------------------------------------------------


class Module(NamedTuple):
    """A problem's file, parsed: what stands at its left edge by name, and the forward of its Model."""

    tree: ast.Module
    functions: Mapping[str, ast.FunctionDef]
    classes: Mapping[str, ast.ClassDef]
    forward: ast.FunctionDef


class Problem:
    """One problem with a Model, as it is read; others have this format too.

    Attributes:
        collection: whose it is.
        rule, stated: the name of its own rule, and what ours states.
        source: its function that makes inputs.
        needed: its functions, and how each is written.
        arguments: of forward().
        cases: None where it has one.
        outputs: those of which something is known.
    """

    collection, rule, stated = TITLE, RULE, TOLERANCE
    source = "get_inputs"
    needed: Mapping[str, str] = {"get_inputs": "write def get_inputs(): return [torch.rand(M, N)]"}
    taken: tuple[str, ...] = ("run", "prepare", MODULE)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = Reader(path)
        self.title = ""
        self.arguments: list[str] = []
        self.cases: Cases | None = None
        self.outputs: dict[str, str] = {}
        self.needs_gpu = False
        self.notes: list[str] = []

    def take(self, data: bytes) -> None:
        """Read it. Raises RefusedError, with the reader's problems."""
        reader = self.reader
        tree = reader.tree(data)
        refuse_effects(reader, tree)
        refuse_names(reader, tree, self.taken)
        refuse_neighbours(reader, tree)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        model = classes.get("Model")
        if model is None:
            reader.wrong(0, "has no class Model", "write class Model(nn.Module): it decides what is right")
        for name, fix in self.needed.items():
            if name not in functions:
                reader.wrong(0, f"has no function {name}", fix)
        reader.hold()
        assert model is not None
        forward = method(model, "forward")
        if forward is None:
            raise reader.refuse(model.lineno, "Model has no forward", "write def forward(self, x)")
        self.arguments = packed.parameters(forward)
        said = (ast.get_docstring(model) or "").strip().partition("\n")[0]
        self.title = " ".join(said.split()) or self.named
        self.look(Module(tree, functions, classes, forward))
        reader.hold()
        if says_cuda(tree):
            self.needs_gpu = True
            self.notes.append(NEEDS_GPU)
            self.cases = self.cases and replace(self.cases, on_gpu=True)

    def look(self, module: Module) -> None:
        """See what else its format has. Raises RefusedError."""

    @property
    def named(self) -> str:
        """What it is called by where it lies."""
        return re.sub(r"^\d{1,6}_", "", self.path.stem).strip("_").replace("_", " ") or self.path.stem

    # -- what it is made into --------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, str]:
        """Lines of `[inputs]`."""
        return packed.model_inputs(self.arguments)

    @property
    def counted(self) -> tuple[str, ...]:
        """How many cases it has, in words."""
        return ()

    def opened(self) -> Opened:
        """What was read."""
        cases = self.cases
        cpu = cases.cpu if cases else None if self.needs_gpu else 0
        return Opened(
            self.path,
            self.title,
            {cases.axis: cases.usual} if cases else {},
            dict.fromkeys(self.arguments, f"what {self.source} makes; a run sees it when it makes the first"),
            self.outputs or packed.seen_outputs("Model"),
            weights=True,
            cpu=None if cpu is None else {cases.axis: cpu} if cases else {},
            notes=(*self.counted, *self.notes),
        )

    def files(self, data: bytes, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        names = tuple(self.inputs)
        return {
            **packed.model_files(data, answered, names),
            "inputs.py": self.inputs_file(packed.model_arguments(names)).encode(),
            "rule.py": self.rule_file(),
            onefile.lesson_name(): self.lesson(
                [provenance("problem", self.path, data), provenance("candidate", candidate, answered)],
                packed.summaries("Model, as its author wrote it", "ModelNew", candidate),
            ),
        }

    def inputs_file(self, arguments: str) -> str:
        """inputs.py."""
        return (
            f"{packed.RUN_IMPORT}\n\n\n"
            f"def pose(axes, device, generator):\n"
            f"    import reference  # which no other process has\n\n"
            f"    given = dict({arguments}, host_elements={onefile.HOST_ELEMENTS})\n"
            f"    return {MODULE}.posed(reference, device, generator, **given)\n"
        )

    def rule_file(self) -> bytes:
        """rule.py."""
        return (
            f"import reference\n{packed.RUN_IMPORT}\n\n\n"
            f"def judge(inputs, outputs, expected):\n"
            f"    return {MODULE}.judged(reference, inputs, outputs, expected, {TOLERANCE!r})\n"
        ).encode()

    def lesson(self, sources: Sequence[str], rungs: Mapping[str, Mapping[str, object]]) -> bytes:
        """lesson.md. Raises RefusedError."""
        front: Mapping[str, object] = {"cases": [{"name": "cpu", "axes": {}}]}
        if self.cases:
            front = self.cases.front()
        elif self.needs_gpu:
            front = {"needs": {"gpus": 1}}
        return packed.lesson(
            self.reader,
            front,
            title=self.title,
            tolerance=self.stated,
            inputs=self.inputs,
            outputs=self.outputs,
            rule={"name": self.rule},
            rungs=rungs,
            text=[f"A {self.collection} problem and an answer to it.", "", *sources, "", *self.notes],
        )


# -- expressions and statements ----------------------------------------------------------------------------------------


def method(cls: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """The function that a class has by that name."""
    return next((node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def bound_names(node: ast.stmt) -> list[str]:
    """Names that a statement at the head of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    found = [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    return found + [each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.ClassDef)]
