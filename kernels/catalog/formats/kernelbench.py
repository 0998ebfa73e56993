"""KernelBench: a problem is `class Model`, `get_inputs()` and `get_init_inputs()`; a candidate is `class ModelNew`.

    M = 1024

    class Model(nn.Module):
        def forward(self, A, B):
            return A @ B

    def get_inputs():
        return [torch.rand(M, M), torch.rand(M, M)]

    def get_init_inputs():
        return []

Both files are read by their syntax trees and never imported. They become the files of a target's folder:

    reference.py    the problem, and a run() that computes in the dtype of what it is given, fp64 for the truth
    baseline.py     the problem, and a prepare() that makes its Model as its author wrote it
    optimized.py    the candidate, and a prepare() that makes its ModelNew and gives it the Model's weights
    inputs.py       the problem, a make() that draws the weights as KernelBench does, and a pose() that gives what its
                    get_inputs() makes; where there are any
    rule.py         KernelBench's own rule: allclose, atol = rtol
    aisp_weights.py what these share

The author's text stands at the head of each, so that line numbers are the file's own.

Inputs: `torch.rand(M, K)`, `randn`, `randint`, `ones`, `zeros`, and these scaled and shifted, become tensor lines in
our grammar, with the whole numbers at the head of the file as axes: the values are then ours, other ones for every set.
What is more than that is posed by the problem's own code, with another seed for every set. Integers stay integers.
Numbers, None, True and texts among the inputs are passed as they are; lists and what Python computes are `made`, once.

Weights: seed 42 for `get_init_inputs()`, again for `Model(*init)`, again for `ModelNew(*init)`, as KernelBench does.
Then ModelNew gets every tensor of the Model's state_dict that it has under the same name in the same shape; what had
other values, and what has no counterpart, is printed to the run's log.

Outputs are declared open: shape and dtype are what the reference's are.

A Model is never put into eval() there, nor here. Batch norm then takes the statistics of its batch, the same ones in
every call. A Model whose forward() draws random numbers (dropout) is called, as ModelNew is, behind a seed that comes
with the set as one more input: both draw the same numbers where they draw them from PyTorch in the same order. Where
fp64 draws others than the dtype of the inputs (a GPU's dropout does), the truth is that of this dtype.

KernelBench's own rule (rule.py) is told beside ours. Its harness casts every input tensor to the floating precision:
where Model itself raises then, no candidate passes there.

A problem has one shape, and a candidate may rely on it: the drawn cases of a run keep it. Only axes that neither the
weights nor the Model use are halved for the case `cpu`; a get_inputs() that poses is run behind them, in inputs.py.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import frontmatter, onefile
from aisp.kernels.catalog.grammar import GrammarError, evaluate, is_axis_name, names
from aisp.kernels.catalog.model import UNCOUNTED
from aisp.kernels.catalog.onefile import Parts, Reader, RefusedError

from .shared import Listed, Opened, Part, contents, provenance, small

NAME = "kernelbench"
TITLE = "KernelBench"

TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
"""KernelBench's, by precision. Ours are relative to max(RMS of the reference, |reference|): zeros never pass."""

HOST_ELEMENTS = 2**20  # of a case that a machine without a GPU times as it is
SEED = 42
SEED_LINE = "int64 [1] integers(0, 2147483648) cpu"
"""Of the input that decides which numbers a forward() draws."""
WEIGHTS = "aisp_weights"
MAX_STATEMENTS = 200  # of get_inputs(), looked at
MAX_DEPTH = 64  # of one of its expressions
MAX_STEPS = 5000  # of reading them: names that stand for names that stand for names

_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_INPUTS = re.compile(rb"^def[ \t]+get_inputs[ \t]*\(", re.MULTILINE)
_OURS = re.compile(rb"^def[ \t]+reference[ \t]*\(", re.MULTILINE)
_CANDIDATE = re.compile(rb"^class[ \t]+ModelNew[ \t]*[(:]", re.MULTILINE)
_FILE = re.compile(r"(\d{1,6})_(.+)\.py\Z")
_LEVEL = re.compile(r"level_?(\d{1,3})\Z", re.IGNORECASE)
_HEAD = "KernelBench"  # the folder that holds the levels in a checkout
_OTHERS = "reference"  # that of the categories of MultiKernelBench, whose problems are judged by another rule
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"} | {
    name: name
    for name in ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")
}
_PLACING = ("cuda", "cpu", "contiguous", "requires_grad_", "detach")  # methods that leave values as they are
_CASTING = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
_IGNORED = ("device", "requires_grad", "pin_memory")  # arguments of torch.rand and the like
_POSED = "any [...] posed"
_ALIKE = ("ones", "zeros")
_USUAL = ("0", "1")  # bounds of torch.rand; mean and deviation of torch.randn
_COMPUTED = ("int", "float", "bool", "len", "max", "min", "round", "abs", "sum", "tuple", "list", "range", "dict")
"""Builtins that make no tensor; what the module math computes is none either."""
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


class _UnclearError(Exception):
    """An expression is more than a tensor line can say."""


@dataclass(frozen=True, slots=True)
class _Number:
    """A whole or broken number as an axes expression."""

    text: str


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What is passed to forward() as it is: an axes expression's value, None, True, a text."""

    text: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A tensor as the grammar says it."""

    dtype: str
    dims: tuple[str, ...]
    distribution: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = f"({', '.join(self.arguments)})" if self.arguments else ""
        return f"{self.dtype} [{', '.join(self.dims)}] {self.distribution}{values}"


class _Problem:
    """One problem, as it is read."""

    def __init__(self, path: Path, collection: str) -> None:
        """`collection`: its title."""
        self.path = path
        self.collection = collection
        self.reader = Reader(path)
        self.axes: dict[str, int] = {}
        self.inputs: dict[str, str] = {}
        self.arguments: list[str] = []  # of forward(), as code: names of inputs, and what is passed as it is
        self.made: dict[str, int] = {}  # inputs that are no tensors, with their place in get_inputs()
        self.posed: dict[str, int] = {}  # tensors that the problem's code makes, likewise
        self.alike: list[str] = []  # of these, those whose elements it makes all alike
        self.weights = False
        self.model = "model"  # the input that holds them
        self.random = False  # forward() draws numbers
        self.seed = "seed"  # the input that decides which
        self._steps = 0
        self._inside: dict[str, str] = {}  # lines of what get_inputs() draws on the way to what it poses
        self._literals: dict[str, ast.expr] = {}  # bound once at the head of the file
        self._tied: set[str] = set()  # axes that weights, the Model or a number among the inputs use
        self._uses: collections.Counter[str] = collections.Counter()  # of names in get_inputs()
        self._functions: dict[str, ast.FunctionDef] = {}
        self._class: ast.ClassDef | None = None
        self._forward: ast.FunctionDef | None = None

    def take(self, data: bytes) -> None:
        """Read it. Raises RefusedError, with the reader's problems."""
        reader = self.reader
        tree = reader.tree(data)
        refuse_effects(reader, tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self._functions[node.name] = node
            elif isinstance(node, ast.ClassDef) and node.name == "Model":
                self._class = node
        refuse_names(reader, tree, ("run", "prepare", "make", "pose", "judge"))
        refuse_neighbours(reader, tree)
        if self._class is None:
            reader.wrong(0, "has no class Model", "write class Model(nn.Module): it decides what is right")
        if "get_inputs" not in self._functions:
            reader.wrong(0, "has no function get_inputs", "write def get_inputs(): return [torch.rand(M, N)]")
        reader.hold()
        assert self._class is not None
        own = [node for node in self._class.body if isinstance(node, ast.FunctionDef)]
        self._forward = next((node for node in own if node.name == "forward"), None)
        if self._forward is None:
            raise reader.refuse(self._class.lineno, "Model has no forward", "write def forward(self, x)")
        self._take_literals(tree)
        self._take_inputs()
        start = next((node for node in own if node.name == "__init__"), None)
        alone = all(ast.unparse(base) in ("nn.Module", "torch.nn.Module") for base in self._class.bases)
        self.weights = not (alone and self._makes_nothing() and (start is None or all(map(_is_plain, start.body))))
        self.random = draws(tree, self._literals | self._given(start))
        while self.model in (*self.inputs, *self.axes):
            self.model += "_"
        while self.seed in (*self.inputs, *self.axes):
            self.seed += "_"
        self._inside = self._drawn_inside()
        self._tie(tree)

    def _take_literals(self, tree: ast.Module) -> None:
        counted: dict[str, int] = {}
        for node in tree.body:
            for name in bound_names(node):
                counted[name] = counted.get(name, 0) + 1
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._literals |= _assigned(target, node.value)
        changed = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        for name in [name for name in self._literals if counted[name] > 1 or name in changed]:
            del self._literals[name]

    def _given(self, start: ast.FunctionDef | None) -> dict[str, ast.expr]:
        """What the arguments of Model stand for: what get_init_inputs() gives them, else their defaults."""
        if start is None:
            return {}
        names = [each.arg for each in (*start.args.posonlyargs, *start.args.args)]
        defaults = start.args.defaults
        found: dict[str, ast.expr] = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        node = self._functions.get("get_init_inputs")
        last = node.body[-1] if node is not None else None
        value = last.value if isinstance(last, ast.Return) else None
        if isinstance(value, ast.List | ast.Tuple) and not any(isinstance(each, ast.Starred) for each in value.elts):
            found |= dict(zip(names[1:], value.elts, strict=False))
        # `dropout` that is given `dropout` stands for the one at the head of the file.
        own = {name for name, each in found.items() if isinstance(each, ast.Name) and each.id == name}
        return {name: each for name, each in found.items() if name not in own}

    def _makes_nothing(self) -> bool:
        """Whether a Model is made without arguments."""
        node = self._functions.get("get_init_inputs")
        if node is None:
            return True
        last = [each for each in node.body if not onefile.says_nothing(each)]
        value = last[0].value if len(last) == 1 and isinstance(last[0], ast.Return) else None
        return isinstance(value, ast.List | ast.Tuple) and not value.elts

    # -- inputs ----------------------------------------------------------------------------------------------------

    def _take_inputs(self) -> None:
        node = self._functions["get_inputs"]
        given = node.args
        if given.posonlyargs or given.args or given.kwonlyargs or given.vararg:
            raise self.reader.refuse(node.lineno, "get_inputs takes arguments", "write def get_inputs():")
        loads = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
        self._uses = collections.Counter(loads)
        places, local = self._returned(node)
        names = self._parameters(len(places))
        for index, (name, place) in enumerate(zip(names, places, strict=True)):
            value = None
            try:
                value = self._value(place, local)
                if isinstance(value, _Number | _Fixed):
                    self.arguments.append(self._constant(value))
                    continue
                line = "made" if isinstance(value, tuple) else str(value)
            except _UnclearError:
                line = "made" if _computed(place) else _POSED
            if isinstance(value, _Line) and value.distribution in _ALIKE and value.dims:
                self.alike.append(name)
                line = _POSED
            if line not in ("made", _POSED) and not self._holds(name, line):
                line = _POSED
            if line == "made":
                self.made[name] = index
            elif line == _POSED:
                self.posed[name] = index
            self.inputs[name] = line
            self.arguments.append(name)
        if not self.inputs:
            raise self.reader.refuse(node.lineno, "get_inputs returns no tensor", "return [torch.rand(M, N)]")

    def _returned(self, node: ast.FunctionDef) -> tuple[list[ast.expr], dict[str, ast.expr]]:
        """The expressions that get_inputs() returns, and what the names in them stand for."""
        local: dict[str, ast.expr] = {}
        body = [each for each in node.body if not onefile.says_nothing(each)]
        known = len(body) <= MAX_STATEMENTS
        for each in body[:-1]:
            target = each.targets[0] if isinstance(each, ast.Assign) and len(each.targets) == 1 else None
            if isinstance(each, ast.Assign) and isinstance(target, ast.Name) and target.id not in local:
                local[target.id] = each.value
            else:
                known = False  # a loop, a condition, a name bound twice: its own code makes them
        last = body[-1] if body else None
        value = last.value if isinstance(last, ast.Return) else None
        if isinstance(value, ast.Name) and value.id in local:
            value = local[value.id]
        if not isinstance(value, ast.List | ast.Tuple) or any(isinstance(e, ast.Starred) for e in value.elts):
            line = last.lineno if last is not None else node.lineno
            raise self.reader.refuse(line, "get_inputs does not end with a list", "end with return [a, b]")
        if not known:
            return [ast.Name("", ast.Load()) for _ in value.elts], {}
        return value.elts, local

    def _parameters(self, count: int) -> list[str]:
        """A name for each of `count` inputs: those of forward() where it has as many."""
        assert self._forward is not None
        given = [arg.arg for arg in (*self._forward.args.posonlyargs, *self._forward.args.args)][1:]
        if len(given) < count:
            if self._forward.args.vararg is None:
                told = f"forward takes {len(given)} inputs, and get_inputs returns {count}"
                raise self.reader.refuse(self._forward.lineno, told, "let the two agree")
            given += [f"x{index}" for index in range(len(given), count)]
        return given[:count]

    def _constant(self, value: _Number | _Fixed) -> str:
        if isinstance(value, _Fixed):
            return value.text
        self._tied |= names(value.text)
        return repr(self._known(value.text))

    def _holds(self, name: str, line: str) -> bool:
        """Whether the grammar takes the line for these axes."""
        from aisp.kernels.catalog.tensors import check_values, parse_tensor, shape  # with the loader, not at its import

        try:
            spec = parse_tensor(name, line)
            shape(spec, self.axes)
            check_values(spec, self.axes)
        except GrammarError:
            return False
        return True

    def _known(self, text: str) -> int | float:
        try:
            return evaluate(text, self.axes)
        except GrammarError as error:
            raise _UnclearError(text) from error

    def _value(self, node: ast.expr, local: Mapping[str, ast.expr], depth: int = 0) -> Any:
        """What an expression stands for: _Number, _Fixed, _Line or a tuple of these. Raises _UnclearError."""
        self._steps += 1
        if depth > MAX_DEPTH or self._steps > MAX_STEPS:
            raise _UnclearError
        if isinstance(node, ast.Constant):
            number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
            if not (number or node.value is None or isinstance(node.value, bool | str)):
                raise _UnclearError
            return _Number(repr(node.value)) if number else _Fixed(repr(node.value))
        if isinstance(node, ast.Name):
            return self._named(node.id, local, depth)
        if isinstance(node, ast.Tuple | ast.List):
            found: list[Any] = []
            for each in node.elts:
                value = self._value(each.value if isinstance(each, ast.Starred) else each, local, depth + 1)
                found += value if isinstance(each, ast.Starred) and isinstance(value, tuple) else [value]
            return tuple(found)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand, local, depth + 1)
            return _Number(f"(-{value.text})") if isinstance(value, _Number) else self._scaled(value, _Number("-1"))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = (self._value(each, local, depth + 1) for each in (node.left, node.right))
            return self._combined(left, _OPERATORS[type(node.op)], right)
        if isinstance(node, ast.Call):
            return self._called(node, local, depth)
        raise _UnclearError

    def _named(self, name: str, local: Mapping[str, ast.expr], depth: int) -> Any:
        if name in local:
            value = self._value(local[name], local, depth + 1)  # a circle ends at MAX_DEPTH
            if isinstance(value, _Line) and self._uses[name] > 1:
                raise _UnclearError  # two lines would have values that have nothing to do with each other
            return value
        node = self._literals.get(name)
        if node is None:
            raise _UnclearError
        value = self._value(node, {}, depth + 1)
        if isinstance(value, _Number) and not names(value.text) and is_axis_name(name):
            size = self._known(value.text)
            if type(size) is int and size >= 0:
                self.axes[name] = size
                return _Number(name)
        return value

    def _combined(self, left: Any, operator: str, right: Any) -> Any:
        if isinstance(left, _Number) and isinstance(right, _Number):
            return _Number(f"({left.text} {operator} {right.text})")
        if isinstance(left, _Line) and isinstance(right, _Number):
            if operator in "*/":
                factor = right if operator == "*" else _Number(f"(1 / {right.text})")
                return self._scaled(left, factor)
            return _shifted(left, operator, right)
        if isinstance(left, _Number) and isinstance(right, _Line):
            if operator == "*":
                return self._scaled(right, left)
            if operator in "+-":
                turned = self._scaled(right, _Number("-1")) if operator == "-" else right
                return _shifted(turned, "+", left)
        raise _UnclearError

    def _scaled(self, line: Any, factor: _Number) -> _Line:
        """A line whose values are multiplied. Raises _UnclearError for what does not stay in its distribution."""
        size = self._known(factor.text)
        if not isinstance(line, _Line) or line.distribution not in ("uniform", "normal") or size == 0:
            raise _UnclearError
        low, high = (f"({text} * {factor.text})" for text in line.arguments or _USUAL)
        if line.distribution == "normal":
            return _replaced(line, (low, high if size > 0 else f"(-{high})"))
        return _replaced(line, (low, high) if size > 0 else (high, low))

    def _called(self, node: ast.Call, local: Mapping[str, ast.expr], depth: int) -> Any:
        called = node.func
        if not isinstance(called, ast.Attribute):
            raise _UnclearError
        if isinstance(called.value, ast.Name) and called.value.id == "torch":
            return self._drawn(called.attr, node, local, depth)
        line = self._value(called.value, local, depth + 1)
        if not isinstance(line, _Line):
            raise _UnclearError
        if called.attr in _PLACING:
            return line
        dtype = _CASTING.get(called.attr, "")
        if called.attr == "to":
            named = (*node.args, *(k.value for k in node.keywords if k.arg == "dtype"))
            dtype = next((found for each in named if (found := _dtype(each))), line.dtype)
        if "float" not in line.dtype or "float" not in dtype:
            if dtype == line.dtype:
                return line
            raise _UnclearError
        return _Line(dtype, line.dims, line.distribution, line.arguments)

    def _drawn(self, kind: str, node: ast.Call, local: Mapping[str, ast.expr], depth: int) -> _Line:
        """`torch.rand(M, K)` and the like."""
        keywords = {k.arg: k.value for k in node.keywords if k.arg not in _IGNORED}
        dtype = _dtype(keywords.pop("dtype")) if "dtype" in keywords else "float32"
        plain = ast.Tuple(node.args, ast.Load())
        given = list(self._value(plain, local, depth + 1))
        size = keywords.pop("size", None)
        if kind == "randint":
            dtype = dtype if "dtype" in {k.arg for k in node.keywords} else "int64"
            bounds = {
                name: self._value(keywords.pop(name), local, depth + 1) for name in ("low", "high") if name in keywords
            }
            dims = self._value(size, local, depth + 1) if size is not None else given.pop() if given else None
            rest = [*given, *(bounds[name] for name in ("low", "high") if name in bounds)]
            if not isinstance(dims, tuple) or not 1 <= len(rest) <= 2 or keywords:
                raise _UnclearError
            low, high = rest if len(rest) == 2 else (_Number("0"), rest[0])
            return _Line(dtype, _dims(dims), "integers", _dims((low, high)))
        named = {"rand": "uniform", "randn": "normal", "ones": "ones", "zeros": "zeros"}.get(kind)
        if named is None or keywords or not dtype:
            raise _UnclearError
        if size is not None:
            given.append(self._value(size, local, depth + 1))
        dims = given[0] if len(given) == 1 and isinstance(given[0], tuple) else tuple(given)
        return _Line(dtype, _dims(dims), named)

    # -- axes ------------------------------------------------------------------------------------------------------

    def _tie(self, tree: ast.Module) -> None:
        """Find the axes that something else than the inputs depends on."""
        used: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
                continue
            found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            if node is self._functions["get_inputs"] and not self.made:
                # What it reads itself is set before it poses; what is computed of that at the head of the file is not.
                found = found - set(self.axes) if self.posed else set()
            used |= found
        waiting = list(used)
        while waiting:  # through what is computed at the head of the file
            value = self._literals.get(waiting.pop())
            inner = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)} if value is not None else set()
            waiting += inner - used
            used |= inner
        self._tied |= used

    # -- files -----------------------------------------------------------------------------------------------------

    @property
    def all_inputs(self) -> dict[str, str]:
        """Lines of `[inputs]`: get_inputs(), the weights, the seed."""
        weights = {self.model: "made static"} if self.weights else {}
        return self.inputs | weights | ({self.seed: SEED_LINE} if self.random else {})

    def outputs(self) -> dict[str, str]:
        """Lines of `[outputs]`: what forward() returns last."""
        assert self._forward is not None
        ends = [node for node in self._forward.body if isinstance(node, ast.Return)]
        value = ends[-1].value if ends else None
        count = len(value.elts) if isinstance(value, ast.Tuple | ast.List) else 1
        taken = "_" if any(name.startswith("out") for name in self.all_inputs) else ""
        return {f"out{index if count > 1 else ''}{taken}": "any [...]" for index in range(count)}

    @property
    def precision(self) -> str:
        """The dtype in which KernelBench would run it: that of the first floating input whose dtype is written down,
        else its own default."""
        known = (line.partition(" ")[0] for line in self.inputs.values())
        return next((dtype for dtype in known if dtype in TOLERANCE), "float32")

    def notes(self) -> tuple[str, ...]:
        """What a person should know before a verdict."""
        found = []
        if self.random:
            found.append(
                "forward() draws random numbers: every call stands behind a seed of its set, and an answer must draw "
                "the same numbers from PyTorch in the same order"
            )
        if self.posed:
            found.append(f"its own code makes {', '.join(self.posed)}, with another seed for every set")
        if self.alike:
            told = "such data draw less power, and a GPU may clock higher"
            found.append(f"its own code makes every element of {', '.join(self.alike)} alike: {told}")
        if self.made:
            found.append(f"its own code makes {', '.join(self.made)} once, with the same values in every call")
        if self.whole and self.collection == TITLE:
            found.append(
                f"whole numbers stay whole in {', '.join(self.whole)}; KernelBench's harness makes fractions of them"
            )
        return tuple(found)

    @property
    def whole(self) -> list[str]:
        """Inputs of whole numbers."""
        return [name for name, line in self.inputs.items() if "int" in line.partition(" ")[0]]

    @property
    def title(self) -> str:
        """What its author calls it, else its file's name in words."""
        said = (ast.get_docstring(self._class) if self._class is not None else None) or ""
        first = " ".join(said.strip().partition("\n")[0].split())
        match = _FILE.match(self.path.name)
        return first or (match[2] if match else self.path.stem).strip("_").replace("_", " ") or self.path.stem

    def _for_host(self) -> dict[str, int] | None:
        """Axes of the case `cpu`; None where it is too large, however often what is free is halved. The size of what
        the problem's code poses is that of what it draws; what it makes keeps its size."""
        free = set() if self.made else set(self.axes) - self._tied
        lines = {name: line for name, line in self.inputs.items() if name not in (*self.made, *self.posed)}
        lines |= self._inside
        content = {"axes": self.axes, "inputs": lines, "outputs": {}}
        found = onefile.for_host(content, free)
        found = onefile.for_host(content, free, HOST_ELEMENTS) if found is None else found
        return found if found is None or self._fit(lines, found) else None

    def _fit(self, lines: Mapping[str, str], halved: Mapping[str, int]) -> bool:
        """Whether sizes that agree from the right, as those of tensors that are broadcast do, agree when halved."""
        from aisp.kernels.catalog.tensors import parse_tensor, shape  # with the loader, not at its import

        specs = [parse_tensor(name, line) for name, line in lines.items()]
        known = [(shape(spec, self.axes)[::-1], shape(spec, halved)[::-1]) for spec in specs if spec.shaped]
        return all(
            (a == b) <= (c == d)
            for (usual, small), (others, smaller) in itertools.combinations(known, 2)
            for a, b, c, d in zip(usual, others, small, smaller, strict=False)
        )

    def _drawn_inside(self) -> dict[str, str]:
        """The tensors that get_inputs() draws on the way to those that it returns, as lines."""
        found: dict[str, str] = {}
        _, local = self._returned(self._functions["get_inputs"])
        for node in ast.walk(self._functions["get_inputs"]) if self.posed else ():
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and getattr(called.value, "id", "") == "torch":
                assert isinstance(node, ast.Call)
                with contextlib.suppress(_UnclearError, GrammarError):
                    found[f"drawn{len(found)}"] = str(self._drawn(called.attr, node, local, 0))
        return found

    def opened(self) -> Opened:
        """What was read."""
        cpu = self._for_host()
        lines = self.all_inputs
        return Opened(self.path, self.title, self.axes, lines, self.outputs(), self.weights, cpu, self.notes())

    def files(self, data: bytes, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        taken = ", ".join(self.all_inputs)
        given, passed = ", ".join(self.inputs), ", ".join(self.arguments)
        model = self.model if self.weights else f"{WEIGHTS}.NONE"
        seed = self.seed if self.random else "None"
        head = f"\n\n\nimport {WEIGHTS}  # what follows is aisp's\n\n\n"
        run = (
            f"{head}def run({taken}):\n"
            f"    def aisp_call(aisp_made, {given}):\n"
            f"        return aisp_made({passed})\n\n"
            f"    return {WEIGHTS}.exactly(aisp_call, Model, {model}, {seed}, {self.precision!r}, {given})\n"
        )

        def prepare(name: str) -> str:
            seeded = f"        {WEIGHTS}.seed({self.seed})\n" if self.random else ""
            return (
                f"{head}def prepare({taken}):\n"
                f"    aisp_made = {WEIGHTS}.aligned({name}, {model}, {given})\n\n"
                f"    def aisp_call({taken}):\n"
                f"{seeded}"
                f"        return {WEIGHTS}.dense(aisp_made({passed}))\n\n"
                f"    return aisp_call\n"
            )

        files = {
            "reference.py": data + run.encode(),
            "baseline.py": data + prepare("Model").encode(),
            "optimized.py": answered + prepare("ModelNew").encode(),
            "rule.py": self._rule(data, head, model).encode("utf-8", "surrogateescape"),
            f"{WEIGHTS}.py": SHARED.encode(),
        }
        if self.weights or self.made or self.posed:
            files["inputs.py"] = data + (head + self._makers()).encode()
        files[onefile.lesson_name()] = self._lesson(data, candidate, answered)
        return files

    def _makers(self) -> str:
        """make() and pose() of inputs.py."""
        init = "get_init_inputs" if "get_init_inputs" in self._functions else "list"
        weights = f"{self.model!r}: {WEIGHTS}.drawn(Model, {init}, device)" if self.weights else ""
        others = f"**{WEIGHTS}.given(get_inputs, {self.made!r}, device)" if self.made else ""
        made = ", ".join(filter(None, (weights, others)))
        found = [f"def make(axes, device, generator):\n    return {{{made}}}\n"] if made else []
        if self.posed:
            sizes = tuple(name for name in self.axes if name not in self._tied)
            told = f"    globals().update((name, axes[name]) for name in {sizes!r})\n" if sizes else ""
            call = f"{WEIGHTS}.posed(get_inputs, {self.posed!r})"
            found.append(f"def pose(axes, device, generator):\n{told}    return {call}\n")
        return "\n\n".join(found)

    def _rule(self, data: bytes, head: str, model: str) -> str:
        """rule.py. Where inputs are whole numbers it holds the problem, whose Model may not take fractions."""
        tolerance = TOLERANCE[self.precision]
        same = f"    return {WEIGHTS}.allclose(outputs, expected, {tolerance!r})\n"
        judge = "def judge(inputs, outputs, expected):\n"
        if not self.whole:
            return f"import {WEIGHTS}\n\n\n{judge}{same}"
        model = f"inputs[{self.model!r}]" if self.weights else model
        called = ", ".join(f"inputs[{name!r}]" if name in self.inputs else name for name in self.arguments)
        return (
            f"{data.decode('utf-8', 'surrogateescape')}{head}{judge}"
            f"    def aisp_call(aisp_made, inputs):\n"
            f"        return aisp_made({called})\n\n"
            f"    given = {{name: inputs[name] for name in {tuple(self.inputs)!r}}}\n"
            f"    why = {WEIGHTS}.refused(aisp_call, Model, {model}, given, {self.precision!r})\n"
            f"    if why:\n"
            f"        return why\n"
            f"{same}"
        )

    def _lesson(self, data: bytes, candidate: Path, answered: bytes) -> bytes:
        import tomli_w  # only where a target is made

        cpu = self._for_host()
        content: dict[str, Any] = {
            "title": self.title,
            "flops": UNCOUNTED,
            **({"needs": {"gpus": 1}} if cpu is None else {}),
            "tolerance": TOLERANCE,
            "rule": {"name": f"KernelBench: allclose, atol = rtol = {TOLERANCE[self.precision]:g}"},
            "axes": self.axes,
            "inputs": self.all_inputs,
            "outputs": self.outputs(),
            "cases": [{"name": "cpu", "axes": cpu}] if cpu is not None else [],
            "fuzz": {"axes": {name: [value] for name, value in self.axes.items()}},
            "rungs": {
                "baseline": {"summary": "Model, as its author wrote it"},
                "optimized": {"summary": f"ModelNew of {candidate.name}"},
            },
        }
        text = [f"# {self.title}", "", f"A {self.collection} problem and an answer to it.", ""]
        for what, path, held in (("problem", self.path, data), ("candidate", candidate, answered)):
            text.append(provenance(what, path, held))
        for note in self.notes():
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


def _computed(node: ast.expr) -> bool:
    """Whether an expression is no tensor for sure: a list, a dictionary, what a builtin or the module math computes."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name):
            return called.id in _COMPUTED
        return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "math"
    return isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set | ast.JoinedStr | ast.ListComp | ast.Compare)


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


def _assigned(target: ast.expr, value: ast.expr) -> dict[str, ast.expr]:
    """What names stand for behind `a = 1` or `a, b = 1, 2`."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)):
        return {}
    pairs = zip(target.elts, value.elts, strict=True)
    return {one.id: other for one, other in pairs if isinstance(one, ast.Name)}


def _is_plain(node: ast.stmt) -> bool:
    """Whether a statement of __init__ makes no state: super().__init__(), a text, pass."""
    if onefile.says_nothing(node):
        return True
    return isinstance(node, ast.Expr) and ast.unparse(node.value).startswith("super(")


def _dtype(node: ast.expr) -> str:
    """The dtype that `torch.float16` names; "" for all else."""
    of_torch = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch"
    return _DTYPES.get(node.attr, "") if of_torch and isinstance(node, ast.Attribute) else ""


def _dims(values: tuple[Any, ...]) -> tuple[str, ...]:
    if not all(isinstance(value, _Number) for value in values):
        raise _UnclearError
    return tuple(_bare(value.text) for value in values)


def _bare(text: str) -> str:
    """An expression without the parentheses around all of it."""
    inner = text[1:-1]
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for character in inner:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return text
    return inner


def _replaced(line: _Line, arguments: tuple[str, str]) -> _Line:
    return _Line(line.dtype, line.dims, line.distribution, tuple(map(_folded, arguments)))


def _folded(text: str) -> str:
    """An expression without axes as the number that it is."""
    try:
        return _bare(text) if names(text) else repr(evaluate(text, {}))
    except GrammarError as error:
        raise _UnclearError(text) from error


def _shifted(line: _Line, operator: str, by: _Number) -> _Line:
    """A line to whose values a number is added, or from which it is taken. Raises _UnclearError."""
    if operator not in "+-" or line.distribution not in ("uniform", "normal"):
        raise _UnclearError
    low, high = line.arguments or _USUAL
    moved = f"({low} {operator} {by.text})"
    return _replaced(line, (moved, high if line.distribution == "normal" else f"({high} {operator} {by.text})"))


SHARED = f'''\
"""How a problem's weights and inputs are made, its truth is computed, and its own rule judges."""

import random
import sys

import torch

SEED = {SEED}
MOST_TOLD = 20
ALIKE = {{"float32": 2.5e-5, "float16": 2.5e-3, "bfloat16": 2.5e-3}}  # a quarter of the tolerance
NONE = {{"init": [], "state": {{}}}}

_told = set()
_refused = []


# -- what the problem's code makes


def drawn(cls, get_init_inputs, device):
    """The arguments of a problem's Model, and its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        init = list(get_init_inputs())
        torch.manual_seed(SEED)
        state = cls(*init).state_dict()
    return {{"init": init, "state": {{name: tensor.detach().to(device) for name, tensor in state.items()}}}}


def given(get_inputs, wanted, device):
    """Inputs that are no tensors, by name, from their places in the problem's list."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        found = list(get_inputs())
    moved = {{name: found[place] for name, place in wanted.items()}}
    return {{name: value.to(device) if hasattr(value, "to") else value for name, value in moved.items()}}


def posed(get_inputs, wanted):
    """Tensors that only the problem's code can make, likewise; PyTorch's generator stands where the set has put it."""
    word = torch.initial_seed()
    random.seed(word)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(word % 2**32)
    found = list(get_inputs())
    return {{name: found[place] for name, place in wanted.items()}}


# -- a module with the problem's weights


def aligned(cls, model, *inputs):
    """A `cls` with the weights of the problem's Model where names and shapes agree; the rest is told."""
    torch.manual_seed(SEED)
    made = cls(*model["init"])
    own, state = made.state_dict(), model["state"]
    same = {{name: value for name, value in state.items() if name in own and own[name].shape == value.shape}}
    told = []
    for name, value in state.items():
        if name not in own:
            told.append(f"{{name}} {{list(value.shape)}} of Model has no counterpart in {{cls.__name__}}")
        elif name not in same:
            told.append(f"{{name}} is {{list(value.shape)}} in Model and {{list(own[name].shape)}} in {{cls.__name__}}")
        elif not torch.equal(own[name].to(value.device, value.dtype), value):
            told.append(f"{{name}} was made with other values in {{cls.__name__}}, and has those of Model now")
    others = (name for name in own if name not in state)
    told += [f"{{name}} of {{cls.__name__}} is not in Model and keeps its own values" for name in others]
    for line in told[:MOST_TOLD]:
        print("weights:", line)
    if len(told) > MOST_TOLD:
        print("weights:", len(told) - MOST_TOLD, "more")
    made.load_state_dict(same, strict=False)
    tensors = _tensors(inputs, model)
    if tensors:
        made = made.to(tensors[0].device)
    return made.requires_grad_(False)


def _tensors(inputs, model):
    """Those of the inputs and of the weights; the first lies where the module is to be."""
    return [value for value in (*inputs, *model["state"].values()) if isinstance(value, torch.Tensor)]


def seed(number):
    """Put PyTorch's generators where a set says, so that Model and ModelNew draw the same numbers.

    Raises RuntimeError while a graph is captured: each replay would draw other numbers.
    """
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("a call that stands behind a seed cannot be captured")
    word = int(number)
    torch.default_generator.manual_seed(word)
    for generator in torch.cuda.default_generators:  # none before CUDA is used
        generator.manual_seed(word)


def dense(found):
    """What a module returned, contiguous: a view is copied within the call, Model's and ModelNew's alike."""
    if isinstance(found, (tuple, list)):
        return tuple(map(dense, found))
    return found.contiguous() if isinstance(found, torch.Tensor) else found


# -- the truth


def exactly(call, cls, model, number, precision, *inputs):
    """What the problem's Model gives, computed in the floating dtype of what it is given.

    In fp64 it may not be had: of a Model that makes fp32 tensors in forward, and of one that draws other random numbers
    in fp64 than in the dtype that rungs get. The truth is computed in the narrower dtype then, which is told.

    Args:
        number: the seed of what forward() draws; None where it draws nothing.
        precision: the dtype that rungs get.
    """
    floating = (value.dtype for value in _tensors(inputs, model) if value.is_floating_point())
    dtype = next(floating, torch.float32)
    try:
        wide = _called(call, cls, model, number, dtype, inputs)
        if dtype != torch.float64 or number is None:
            return wide
    except (RuntimeError, TypeError):
        if dtype != torch.float64:
            raise
        wide = None
    name = "float32" if number is None else precision
    narrow = _called(call, cls, model, number, getattr(torch, name), inputs)
    if wide is not None and _alike(wide, narrow, ALIKE[name]):
        return wide
    why = "does not compute in float64" if wide is None else "draws other random numbers in float64"
    if why not in _told:
        _told.add(why)
        print(f"reference: Model {{why}}; the truth is that of {{name}}")
    found = [value.double() if value.is_floating_point() else value for value in _several(narrow)]
    return found if len(found) > 1 else found[0]


def _called(call, cls, model, number, dtype, inputs):
    cast = [v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs]
    made = aligned(cls, model, *cast).to(dtype)
    if number is None:
        torch.manual_seed(SEED)
    else:
        seed(number)
    return call(made, *cast)


def _several(found):
    return list(found) if isinstance(found, (tuple, list)) else [found]


def _alike(wide, narrow, share):
    """Whether two results differ by rounding alone, element by element, relative to max(RMS, |value|)."""
    for one, other in zip(_several(wide), _several(narrow)):
        if one.shape != other.shape:
            return False
        if not one.is_floating_point():
            if not torch.equal(one, other):
                return False
            continue
        size = torch.clamp(one.abs(), min=float(one.square().mean().sqrt()) if one.numel() else 0.0)
        if not bool(((one - other.double()).abs() <= share * size).all()):
            return False
    return True


# -- KernelBench's own rule


def allclose(outputs, expected, tolerance):
    """What is wrong by it: shapes, or an element off by more than tolerance * (1 + |element|). None for nothing."""
    for index, (got, want) in enumerate(zip(outputs, expected)):
        place = f"output {{index}}" if len(expected) > 1 else "the output"
        if got.shape != want.shape:
            return f"{{place}} has the shape {{list(got.shape)}}, not {{list(want.shape)}}"
        want = want.to(got.dtype)
        if not got.is_floating_point():
            got, want = got.double(), want.double()
        if not torch.allclose(want, got, atol=tolerance, rtol=tolerance):
            return f"{{place}} is off by up to {{float((want - got).abs().max()):.3g}}"
    return None


def refused(call, cls, model, inputs, precision):
    """Why no candidate passes in KernelBench's harness, which casts every tensor; "" where Model takes them so."""
    if not _refused:
        dtype = getattr(torch, precision)
        cast = {{name: v.to(dtype) if isinstance(v, torch.Tensor) else v for name, v in inputs.items()}}
        try:
            call(aligned(cls, model, *cast.values()).to(dtype), cast)
            _refused.append("")
        except Exception as error:
            said = str(error).partition("\\n")[0][:200]
            _refused.append(f"its harness makes {{precision}} of whole numbers, and Model itself raises then: {{said}}")
    return _refused[0]
'''
