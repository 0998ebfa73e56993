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
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import frontmatter, onefile
from aisp.kernels.catalog.model import UNCOUNTED
from aisp.kernels.catalog.onefile import Parts, Reader, RefusedError

from .shared import NEEDS_GPU, Listed, Opened, Part, contents, provenance, says_cuda, small

NAME = "kernelbench"
TITLE = "KernelBench"

TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
"""KernelBench's, by precision. Ours are relative to max(RMS of the reference, |reference|): zeros never pass."""

RULE = "KernelBench: allclose, atol = rtol = 0.0001 (0.01 in float16 and bfloat16)"
MAX_ARGUMENTS = 40  # of forward()
SPARE_SLOTS = 8  # for tensors in lists
ROOMS = 4  # slots for tensors that Model writes into, or hands back
MAX_OUTPUTS = 32
MODULE = "aisp_run"
"""What the target's files import aisp.kernels.runtime.kernelbench by."""
SEED_LINE = "int64 [1] integers(0, 2147483648) cpu"
"""Of the input that decides which numbers a forward() draws."""
MAX_DEPTH = 64  # names that stand for names

_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_INPUTS = re.compile(rb"^def[ \t]+get_inputs[ \t]*\(", re.MULTILINE)
_OURS = re.compile(rb"^def[ \t]+reference[ \t]*\(", re.MULTILINE)
_CANDIDATE = re.compile(rb"^class[ \t]+ModelNew[ \t]*[(:]", re.MULTILINE)
_FILE = re.compile(r"(\d{1,6})_(.+)\.py\Z")
_LEVEL = re.compile(r"level_?(\d{1,3})\Z", re.IGNORECASE)
_HEAD = "KernelBench"  # the folder that holds the levels in a checkout
_OTHERS = "reference"  # that of the categories of MultiKernelBench, whose problems are judged by another rule
_DROPOUT = re.compile(r"(?:alpha_?|feature_?)*dropout[123]?d?_?\Z", re.IGNORECASE)
_RATES = {
    "TransformerEncoderLayer": (3, 0.1),
    "TransformerDecoderLayer": (3, 0.1),
    "Transformer": (5, 0.1),
    "MultiheadAttention": (2, 0.0),
}
"""Modules of torch with a rate of dropout: its place among their arguments, and what it is unless they are told."""
_RANDOM = re.compile(r"rrelu|gumbel_softmax|fractional_?max_?pool", re.IGNORECASE)
_DRAWING = re.compile(
    r"(?:rand(?:n|int|perm)?(?:_like)?|bernoulli_?|multinomial|normal_?|uniform_|exponential_|geometric_|random_)\Z"
)
"""Names of functions that draw numbers."""
_ONCE = re.compile(r"_*(?:init|reset)")
"""Functions in which drawing is part of making a Model."""


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


def read(path: Path, *, collection: str = TITLE) -> Opened:
    """What the problem in that file is. Raises OSError where it cannot be read.

    Args:
        collection: whose problem it is; others have this format too.
    """
    problem = _Problem(path, collection)
    try:
        problem.take(contents(path))
    except (RefusedError, RecursionError) as error:
        return Opened(path, problems=problem.reader.ended(error))
    return problem.opened()


def against(candidate: Path, path: Path, *, collection: str = TITLE) -> Parts:
    """The files of the target in which the candidate is judged against the problem at `path`.

    Where one of the two cannot be taken: its problems, and no files. Raises OSError where one cannot be read.

    Args:
        collection: whose problem it is; others have this format too.
    """
    problem, answer = _Problem(path, collection), Reader(candidate)
    data, answered = contents(path), contents(candidate)
    try:
        problem.take(data)
    except (RefusedError, RecursionError) as error:
        return Parts({}, problem.reader.ended(error))
    try:
        check_candidate(answer, answered)
    except (RefusedError, RecursionError) as error:
        return Parts({}, answer.ended(error))
    try:
        return Parts(problem.files(data, candidate, answered))
    except (RefusedError, RecursionError) as error:
        return Parts({}, problem.reader.ended(error))


def check_candidate(reader: Reader, data: bytes) -> None:
    """Whether a ModelNew can be made of it. What the file does when it is imported is its own affair: a process of its
    own imports it."""
    tree = reader.tree(data)
    if not any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body):
        raise reader.refuse(0, "has no class ModelNew", "write class ModelNew(nn.Module) with the problem's arguments")
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


class _Problem:
    """One problem, as it is read."""

    def __init__(self, path: Path, collection: str) -> None:
        """`collection`: its title."""
        self.path = path
        self.collection = collection
        self.reader = Reader(path)
        self.title = ""
        self.arguments: list[str] = []  # of forward()
        self.needs_gpu = False

    def take(self, data: bytes) -> None:
        """Read it. Raises RefusedError, with the reader's problems."""
        reader = self.reader
        tree = reader.tree(data)
        refuse_effects(reader, tree)
        refuse_names(reader, tree, ("run", "prepare", MODULE))
        refuse_neighbours(reader, tree)
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
        if model is None:
            reader.wrong(0, "has no class Model", "write class Model(nn.Module): it decides what is right")
        if "get_inputs" not in names:
            reader.wrong(0, "has no function get_inputs", "write def get_inputs(): return [torch.rand(M, N)]")
        reader.hold()
        assert model is not None
        forward = next((n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if forward is None:
            raise reader.refuse(model.lineno, "Model has no forward", "write def forward(self, x)")
        self.arguments = [arg.arg for arg in (*forward.args.posonlyargs, *forward.args.args)][1 : 1 + MAX_ARGUMENTS]
        said = " ".join((ast.get_docstring(model) or "").strip().partition("\n")[0].split())
        match = _FILE.match(self.path.name)
        self.title = said or (match[2] if match else self.path.stem).strip("_").replace("_", " ") or self.path.stem
        self.needs_gpu = says_cuda(tree)

    # -- what it is made into --------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, str]:
        """Lines of `[inputs]`, in the order of aisp.kernels.runtime.kernelbench."""
        found = dict.fromkeys(self.arguments, "any [...] posed")

        def add(name: str, line: str) -> None:
            while name in found:
                name += "_"
            found[name] = line

        for number in range(SPARE_SLOTS):
            add(f"more{number}", "any [...] posed")
        for number in range(ROOMS):
            add(f"room{number}", "any [...] posed mutable")
        add("weights", "any [...] posed static")
        add("state", "uint8 [...] posed static")
        add("seed", "int64 [...] posed cpu")
        call = "call" if "call" not in found else "call_"
        return {call: "uint8 [...] posed static cpu"} | found

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know before a verdict."""
        return (NEEDS_GPU,) if self.needs_gpu else ()

    def opened(self) -> Opened:
        """What was read."""
        return Opened(
            self.path,
            self.title,
            {},
            dict.fromkeys(self.arguments, "what get_inputs makes; a run sees it when it makes the first"),
            {"output": "what Model returns"},
            weights=True,
            cpu=None if self.needs_gpu else {},
            notes=self.notes,
        )

    def files(self, data: bytes, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        names = tuple(self.inputs)
        taken = ", ".join(names)
        imported = f"from aisp.kernels.runtime import kernelbench as {MODULE}"
        head = f"\n\n\n{imported}  # what follows is aisp's\n\n\n"

        def prepare(name: str) -> bytes:
            return f"{head}def prepare({taken}):\n    return {MODULE}.prepared({name}, {taken})\n".encode()

        run = f"{head}def run({taken}):\n    return {MODULE}.truth(Model, {taken})\n"
        return {
            "reference.py": data + run.encode(),
            "baseline.py": data + prepare("Model"),
            "optimized.py": answered + prepare("ModelNew"),
            "inputs.py": (
                f"{imported}\n\n\n"
                f"def pose(axes, device, generator):\n"
                f"    import reference  # which no other process has\n\n"
                f"    return {MODULE}.posed(\n"
                f"        reference,\n"
                f"        device,\n"
                f"        generator,\n"
                f"        names={names!r},\n"
                f"        arguments={len(self.arguments)},\n"
                f"        rooms={ROOMS},\n"
                f"        host_elements={onefile.HOST_ELEMENTS},\n"
                f"    )\n"
            ).encode(),
            "rule.py": (
                f"import reference\n{imported}\n\n\n"
                f"def judge(inputs, outputs, expected):\n"
                f"    return {MODULE}.judged(reference, inputs, outputs, expected, {TOLERANCE!r})\n"
            ).encode(),
            onefile.lesson_name(): self._lesson(data, candidate, answered),
        }

    def _lesson(self, data: bytes, candidate: Path, answered: bytes) -> bytes:
        import tomli_w  # only where a target is made

        inputs = self.inputs
        end = "_" if any(name.startswith("out") for name in inputs) else ""
        content: dict[str, Any] = {
            "title": self.title,
            "flops": UNCOUNTED,
            **({"needs": {"gpus": 1}} if self.needs_gpu else {}),
            "tolerance": TOLERANCE,
            "rule": {"name": RULE},
            "inputs": inputs,
            "outputs": {f"out{number}{end}": "any [...]" for number in range(MAX_OUTPUTS)},
            "cases": [] if self.needs_gpu else [{"name": "cpu", "axes": {}}],
            "rungs": {
                "baseline": {"summary": "Model, as its author wrote it"},
                "optimized": {"summary": f"ModelNew of {candidate.name}"},
            },
        }
        text = [f"# {self.title}", "", f"A {self.collection} problem and an answer to it.", ""]
        for what, path, held in (("problem", self.path, data), ("candidate", candidate, answered)):
            text.append(provenance(what, path, held))
        for note in self.notes:
            text += ["", f"{note[0].upper()}{note[1:]}."]
        lines = "\n".join(text)
        lesson = f"+++\n{tomli_w.dumps(content)}+++\n\n{lines}\n".encode("utf-8", "replace")
        _, found = frontmatter.read(self.path, lesson)
        for each in found:
            self.reader.wrong(0, f"{each.key}: {each.message}", each.fix)
        self.reader.hold()
        return lesson


# -- expressions and statements ----------------------------------------------------------------------------------------


def bound_names(node: ast.stmt) -> list[str]:
    """Names that a statement at the head of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


def draws(tree: ast.AST, known: Mapping[str, ast.expr]) -> bool:
    """Whether code may draw random numbers when forward() is called; `known`: what names stand for."""
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    inner = (each for function in functions for each in ast.walk(function) if isinstance(each, ast.Name))
    found = _Draws(known, {"self", *(each.id for each in inner if isinstance(each.ctx, ast.Store))})
    found.visit(tree)
    return found.found


class _Draws(ast.NodeVisitor):
    """Whether forward() may draw random numbers, as far as its file shows.

    Attributes:
        found: it names what does so in train mode at a rate that is not known to be 0, or draws outside of what makes
            a Model or its inputs.
    """

    def __init__(self, known: Mapping[str, ast.expr], bound: Set[str]) -> None:
        """`known`: what names stand for, the arguments of Model among them; `bound`: names that functions bind."""
        self.found = False
        self._known = known
        self._bound = bound
        self._once = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Look into what a call of forward() may come to."""
        if node.name in ("get_inputs", "get_init_inputs"):
            return
        making = _ONCE.match(node.name) is not None
        self._once += making
        self.generic_visit(node)
        self._once -= making

    def visit_If(self, node: ast.If) -> None:
        """What runs as a program alone is no part of it."""
        if not onefile.says_nothing(node):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """One call, and what stands in it."""
        whole = _called(node)
        base, name = whole.partition(".")[0], whole.rpartition(".")[2]
        told = {each.arg: each.value for each in node.keywords if each.arg}
        rates = [value for key, value in told.items() if "dropout" in key and not _makes_dropout(value)]
        if _DROPOUT.match(name) and base not in self._bound:  # what a module has by that name was made somewhere
            place = 0 if name[:1].isupper() else 1  # nn.Dropout(p), F.dropout(x, p)
            given = node.args[place] if len(node.args) > place else told.get("p", ast.Constant(0.5))
            switch = told.get("training")
            off = isinstance(switch, ast.Constant) and not switch.value
            rates += [] if off else [given]
        elif name in _RATES and not rates:
            place, usual = _RATES[name]
            rates += [node.args[place] if len(node.args) > place else ast.Constant(usual)]
        drawing = not self._once and _DRAWING.match(name) is not None
        drawing = drawing or _RANDOM.match(name) is not None
        self.found = self.found or drawing or not all(map(self._is_zero, rates))
        self.generic_visit(node)

    def _is_zero(self, node: ast.expr, depth: int = 0) -> bool:
        if isinstance(node, ast.IfExp):
            return self._is_zero(node.body, depth) and self._is_zero(node.orelse, depth)
        if isinstance(node, ast.Name) and node.id in self._known and depth < MAX_DEPTH:
            return self._is_zero(self._known[node.id], depth + 1)
        return isinstance(node, ast.Constant) and node.value in (0, None)


def _makes_dropout(node: ast.expr) -> bool:
    """Whether an expression makes a module with a rate of its own: what dict(dropout=nn.Dropout(0.0)) is given."""
    return isinstance(node, ast.Call) and _DROPOUT.match(_called(node).rpartition(".")[2]) is not None


def _called(node: ast.Call) -> str:
    """The name that is called, with what stands before it; "" where that is no name."""
    return ast.unparse(node.func) if isinstance(node.func, ast.Attribute | ast.Name) else ""
