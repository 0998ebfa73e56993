"""BackendBench: an operator of ATen, whose cases are torch's own OpInfo samples or lines of a trace.

    ops/add__Tensor/add__Tensor_implementation_v1.py     def add__Tensor_kernel_impl(self, other, *, alpha=1)
    trace.txt                                            Operator: aten.add.Tensor
                                                         cnt: 12, ((T([8, 4], bf16), T([8, 4], bf16, [1, 8])), {})

The reference is the operator itself, in fp64. There are two kinds of problem: an operator's folder, whose cases are the
samples that OpInfo has for it, and a trace, whose cases are its lines for the candidate's operator. A candidate is an
implementation, or an operator's folder, of whose implementations the first by name counts, as in BackendBench.

A line of a trace is meant for eval(). Here it is parsed, and made into data by an allow-list: T(shape, dtype,
strides), numbers, texts, None, lists and dictionaries of these, torch's dtypes and layouts, and a device, which is that
of the run. A line with anything else is left out with its reason, and so is one whose tensors nobody could hold.
Strides are kept, also where PyTorch's own logs have them as stride=(1, 8); floats are uniform(0, 1).

OpInfo is a list in torch, which only the verifier has. How many samples there are is not known here: the cases are
SAMPLES numbers, and sample n is the n-th, counted round, of those that are one call of this operator alone, in
bfloat16 and then in XX
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.onefile import Parts, Reader, RefusedError
from aisp.kernels.catalog.parsing import REFUSALS, parsed

from . import aten, kernelbench, packed
from .packed import Case, Cases
from .shared import Listed, Opened, Part, contents, provenance, regular, small

NAME = "backendbench"
TITLE = "BackendBench"

TOLERANCE = dict.fromkeys(("float64", "float32", "float16", "bfloat16"), 1e-2)
"""Its own rule's. Ours is the same number, relative to max(RMS of the reference, |reference|)."""
RULE = "BackendBench: assert_close, atol = rtol = 1e-2, NaNs are equal"
SAMPLES = 16
SAMPLE_SLOTS = 8
OPERATOR = "aisp_operator"
MAX_TRACE_BYTES = 64 * 2**20
MAX_LINES = 100_000  # of a trace
MAX_LINE = 2**15  # characters of one of its lines
MAX_NODES = 2000  # of a line's syntax tree
MAX_DEPTH = 12
MAX_DIMS = 16
MAX_ELEMENTS = 2**31  # of all tensors of a call
MOST_TOLD = 5
LEFT_OUT = "left out:"
HEADS = ("ops", "generated_kernels")  # folders of operators in a checkout

_FILE = re.compile(r"([A-Za-z_]\w*?)_implementation[\w.-]*\.py\Z")
_NAME = re.compile(r"[A-Za-z_]\w{0,127}\Z")
_OPERATOR = re.compile(r"Operator:\s*(.{1,200})\Z")
_LINE = re.compile(r"cnt:\s*\d{1,12},\s*(.*)\Z", re.DOTALL)
_QUOTED = re.compile(r"'((?:bf|f|c|i|u|b)\d{1,3})'")
_DTYPES = {
    "bf16": "bfloat16",
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "b8": "bool",
}
_COMPLEX = ("c32", "c64", "c128")
_WORDS = frozenset(
    (
        *(*_DTYPES.values(), "float8_e4m3fn", "float8_e5m2", "strided"),
        *("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
    )
)
_RENAMED = {"aten.sum.SymInt": "aten.sum.dim_IntList"}


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of ATen."""

    base: str
    overload: str

    @staticmethod
    def of_folder(name: str) -> Operator | None:
        """The one that a folder like `add__Tensor` is named after; None where it is no name."""
        base, mark, overload = name.rpartition("__")
        if not mark or not base:
            base, overload = name, "default"
        return Operator(base, overload) if _NAME.match(base) and _NAME.match(overload) else None

    @staticmethod
    def of_text(text: str) -> Operator | None:
        """The one that a trace calls `aten.add.Tensor`; None for one of another library."""
        library, _, rest = _RENAMED.get(text, text).partition(".")
        base, _, overload = rest.partition(".")
        if library != "aten" or not _NAME.match(base) or not _NAME.match(overload or "default"):
            return None
        return Operator(base, overload or "default")

    def __str__(self) -> str:
        return f"aten.{self.base}.{self.overload}"

    @property
    def in_place(self) -> bool:
        """Whether it writes into its first argument."""
        return self.base.endswith("_") and not self.base.endswith("__")

    @property
    def outputs(self) -> int:
        """How many tensors it returns."""
        return aten.SEVERAL.get(f"{self.base}.{self.overload}", 1)

    @property
    def obstacle(self) -> str:
        """Why it cannot be judged; "" where it can."""
        if self.overload.endswith("out"):
            return f"{self} writes into `out`, which no rung may"
        if f"{self.base}.{self.overload}" in aten.LISTS:
            return f"{self} returns a list, as long as its arguments say"
        if self.base in aten.UNDEFINED:
            return f"{self} returns memory that nobody has written: no values are the right ones"
        return f"{self} is random: there is no one right answer" if self.base in aten.RANDOM else ""


def part(path: Path) -> Part | None:
    """What a path is: a folder by the names in it, an implementation by its name and function, a trace by its head."""
    if path.is_dir():
        if _implementations(path):
            return Part.PROBLEM
        return Part.COLLECTION if next(collection(path), None) is not None else None
    if path.suffix == ".txt":
        return Part.PROBLEM if _is_trace(path) else None
    match = _FILE.match(path.name)
    data = small(path, onefile.SUFFIX) if match else b""
    return Part.CANDIDATE if match and f"{match[1]}_kernel_impl".encode() in data else None


def collection(folder: Path) -> Iterator[Listed]:
    """The operators of a checkout or of a folder of operators, by name, and the traces beside them. Of the traces alone
    the first bytes are read."""
    for place in (folder, *(folder / name for name in HEADS)):
        known = sorted(_folders(place))
        own = {name: _implementations(place / name) for name in known}
        if not any(own.values()):
            continue
        for name in known:
            operator = Operator.of_folder(name)
            if operator is None or not (own[name] or "__" in name):
                continue
            reason = operator.obstacle if own[name] else f"has no file {name}_implementation*.py"
            yield Listed(None, None, str(operator), place / name, reason)
    for name in sorted(_texts(folder)):
        if _is_trace(folder / name):
            yield Listed(None, None, f"trace {name.removesuffix('.txt')}", folder / name)


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []


def _texts(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith(".txt")][:256]  # noqa: PTH208 - names alone
    except OSError:
        return []


def _implementations(folder: Path) -> list[str]:
    """Implementations in an operator's folder, the one that counts first."""
    start = f"{folder.name}_implementation"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names alone, of thousands of folders
    except OSError:
        return []
    return sorted(name for name in names if name.startswith(start) and name.endswith(onefile.SUFFIX))


def _is_trace(path: Path) -> bool:
    head = regular(path, 4096)
    return head.startswith(b"Operator:") or b"\nOperator:" in head


def read(path: Path) -> Opened:
    """What the problem at `path` says. Raises OSError where it cannot be read."""
    reader = Reader(path)
    try:
        if path.is_dir():
            return _opened_folder(reader)
        return _opened_trace(reader)
    except (RefusedError, RecursionError) as error:
        return Opened(path, problems=reader.ended(error))


def _opened_folder(reader: Reader) -> Opened:
    operator = Operator.of_folder(reader.path.name)
    if operator is None:
        raise reader.refuse(0, "its name is no operator's", "call it add__Tensor")
    if operator.obstacle:
        raise reader.refuse(0, operator.obstacle, "take another operator")
    problem = _Problem(operator, reader.path)
    files = _implementations(reader.path)
    notes = [f"cases: {SAMPLES} of torch's OpInfo samples, counted round; or lines of a trace: --against TRACE"]
    if len(files) > 1:
        notes.append(f"{len(files)} implementations, of which {files[0]} counts")
    return problem.opened(notes)


def _opened_trace(reader: Reader) -> Opened:
    trace = Trace(reader.path)
    if not trace.calls:
        raise reader.refuse(0, "has no call of an operator of aten", "write Operator: aten.add.Tensor, then cnt: lines")
    most = [f"{operator} ({count:,})" for operator, count in trace.calls.most_common(MOST_TOLD)]
    notes = [
        f"{len(trace.calls):,} operators in {sum(trace.calls.values()):,} lines, each a case of its operator",
        f"most: {', '.join(most)}",
        *trace.left_out,
    ]
    return Opened(reader.path, f"trace {reader.path.stem}", cpu={"line": 0}, notes=tuple(notes))


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which the candidate is judged; where one of the two cannot be taken, its problems and
    no files. Raises OSError where one cannot be read."""
    answer, asked = Reader(candidate), Reader(problem)
    try:
        file, operator = _implementation(answer)
        answered = contents(file)
        function = f"{_stem(file)}_kernel_impl"
        answer = Reader(file)
        tree = answer.tree(answered)
        if not any(function in kernelbench.bound_names(node) for node in tree.body):
            raise answer.refuse(0, f"has no function {function}", f"write def {function}(...) as {operator} is called")
        kernelbench.refuse_names(answer, tree, ("prepare",))
        kernelbench.refuse_neighbours(answer, tree)
        answer.hold()
    except (RefusedError, RecursionError) as error:
        return Parts({}, answer.ended(error))
    try:
        if operator.obstacle:
            raise asked.refuse(0, operator.obstacle, "take another operator")
        made = _Problem(operator, problem)
        if problem.is_dir():
            other = Operator.of_folder(problem.name)
            if other != operator:
                raise asked.refuse(0, f"is {other}, and {file.name} is {operator}", "name the operator's own folder")
        else:
            made.trace = Trace(problem, operator)
            if not made.trace.cases:
                told = "; ".join(why for why in made.trace.left_out if why.startswith(LEFT_OUT)) or "has no line of it"
                raise asked.refuse(0, f"{operator}: {told}", "take a trace with a call of the operator")
        return Parts(made.files(asked, file, answered, function))
    except (RefusedError, RecursionError) as error:
        return Parts({}, asked.ended(error))


def _stem(file: Path) -> str:
    match = _FILE.match(file.name)
    return match[1] if match else file.stem


def _implementation(reader: Reader) -> tuple[Path, Operator]:
    """The file that counts, and whose implementation it is. Raises RefusedError."""
    path = reader.path
    if path.is_dir():
        files = _implementations(path)
        if not files:
            raise reader.refuse(0, f"has no file {path.name}_implementation*.py", "write one")
        path = path / files[0]
    match = _FILE.match(path.name)
    operator = Operator.of_folder(match[1]) if match else None
    if operator is None:
        raise reader.refuse(0, "is no implementation of an operator", "call it add__Tensor_implementation.py")
    return path, operator


# -- traces ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call, as data: tensors are {"tensor": [shape, dtype, strides or None]}.

    Attributes:
        line: of the trace.
        tensors, elements: how many there are, and how many elements the largest has.
    """

    line: int
    args: list[Any]
    kwargs: dict[str, Any]
    tensors: int
    elements: int


@dataclass(slots=True)
class Trace:
    """A trace, read once.

    Attributes:
        operator: whose lines are kept; None: of all operators the lines are counted, and none is parsed.
        calls: lines by operator.
        cases: calls of the operator, each once.
        left_out: why lines are left out, in sentences.
    """

    path: Path
    operator: Operator | None = None
    calls: Counter[str] = field(default_factory=Counter)
    cases: list[Call] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        reasons: Counter[str] = Counter()
        seen: set[str] = set()
        current: Operator | None = None
        others = 0
        with self.path.open("rb") as file:
            for number, raw in enumerate(_lines(file), 1):
                if number > MAX_LINES or file.tell() > MAX_TRACE_BYTES:
                    reasons[f"all behind line {number - 1:,}"] += 1
                    break
                text = raw.decode("utf-8", "replace").strip()
                if found := _OPERATOR.match(text):
                    current = Operator.of_text(found[1].strip())
                    others += current is None
                    continue
                line = _LINE.match(text)
                if line is None or current is None:
                    continue
                self.calls[str(current)] += 1
                if current != self.operator or line[1] in seen:
                    continue
                seen.add(line[1])
                try:
                    self.cases.append(call(line[1], number))
                except ValueError as error:
                    reasons[str(error)] += 1
        if others:
            self.left_out.append(f"operators of other libraries than aten: {others:,}")
        told = [f"{why} ({count:,} times)" if count > 1 else why for why, count in reasons.most_common(MOST_TOLD)]
        self.left_out += [f"{LEFT_OUT} {why}" for why in told]
        if len(self.cases) > packed.MAX_CASES:
            self.left_out.append(f"the first {packed.MAX_CASES} of its {len(self.cases):,} calls are taken")
            self.cases = self.cases[: packed.MAX_CASES]


def _lines(file: Any) -> Iterator[bytes]:
    """Lines, of each no more than can be a case and a character beyond; the rest of a longer one is passed over."""
    while raw := file.readline(MAX_LINE + 2):
        yield raw
        while not raw.endswith(b"\n"):
            raw = file.readline(MAX_LINE)
            if not raw:
                return


def call(text: str, line: int = 0) -> Call:
    """What a line of a trace says. Raises ValueError for all that is not on the allow-list."""
    if len(text) > MAX_LINE:
        raise ValueError(f"a line has more than {MAX_LINE:,} characters")
    plain = _QUOTED.sub(r"\1", text.strip().strip("'\""))
    try:
        tree = parsed(plain, "eval")
    except REFUSALS as error:
        raise ValueError(f"a line is no Python: {_cut(str(error) or 'nested too deeply')}") from None
    assert isinstance(tree, ast.Expression)
    said = _Line()
    body = tree.body
    if not isinstance(body, ast.Tuple):
        raise ValueError("a line is no tuple of arguments")
    pair = len(body.elts) == 2 and isinstance(body.elts[0], ast.Tuple) and isinstance(body.elts[1], ast.Dict)
    args = body.elts[0] if pair else body
    named = body.elts[1] if pair else ast.Dict([], [])
    assert isinstance(args, ast.Tuple)
    assert isinstance(named, ast.Dict)
    found = [said.value(each) for each in args.elts]
    kwargs = {said.key(key): said.value(value) for key, value in zip(named.keys, named.values, strict=True)}
    if isinstance(kwargs.get("device"), str):
        kwargs["device"] = {"device": True}
    if said.total > MAX_ELEMENTS:
        raise ValueError(f"a call has tensors of more than {MAX_ELEMENTS:,} elements")
    if said.tensors > packed.MAX_SLOTS:
        raise ValueError(f"a call has more than {packed.MAX_SLOTS} tensors")
    return Call(line, found, kwargs, said.tensors, said.largest)


class _Line:
    """One line, as it is read."""

    def __init__(self) -> None:
        self.tensors = 0
        self.largest = 0
        self.total = 0
        self._nodes = 0

    def key(self, node: ast.expr | None) -> str:
        """A keyword."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            return node.value
        raise ValueError("a keyword is no name")

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """One argument as data. Raises ValueError."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise ValueError("a line is nested too deeply, or has too many parts")
        if isinstance(node, ast.Constant):
            if node.value is None or isinstance(node.value, bool | str) or self._number(node.value):
                return node.value
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self.value(node.operand, depth + 1)
            sign = -1 if isinstance(node.op, ast.USub) else 1
            if isinstance(value, dict) and list(value) == ["float"]:
                return {"float": repr(sign * float(value["float"]))}
            if isinstance(value, int | float) and not isinstance(value, bool):
                return sign * value
        elif isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            return {"float": node.id}
        elif isinstance(node, ast.Name) and node.id in _DTYPES:
            return {"torch": _DTYPES[node.id]}
        elif isinstance(node, ast.List | ast.Tuple):
            kind = "list" if isinstance(node, ast.List) else "tuple"
            return {kind: [self.value(each, depth + 1) for each in node.elts]}
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return {"dict": [[self.key(key), self.value(value, depth + 1)] for key, value in pairs]}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("torch", "th"):
            if node.attr in _WORDS:
                return {"torch": node.attr}
        elif isinstance(node, ast.Call):
            return self._called(node)
        raise ValueError(f"{_cut(ast.unparse(node))} is not on the list of what a line may say")

    @staticmethod
    def _number(value: object) -> bool:
        if isinstance(value, int):
            return -(2**63) <= value < 2**63
        return isinstance(value, float) and math.isfinite(value)

    def _called(self, node: ast.Call) -> dict[str, Any]:
        called = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
        if called in ("device", "torch.device", "th.device"):
            return {"device": True}
        named = {each.arg: each.value for each in node.keywords}
        named.pop("device", None)  # a tensor lies where the run is
        strides = [*node.args[2:], *([named.pop("stride")] if "stride" in named else [])]
        if called != "T" or len(node.args) < 2 or len(strides) > 1 or named:
            raise ValueError(f"{_cut(ast.unparse(node))} is not on the list of what a line may say")
        shape, dtype = node.args[:2]
        size = self._numbers(shape)
        stride = self._numbers(strides[0]) if strides else None
        if not isinstance(dtype, ast.Name) or dtype.id not in _DTYPES:
            word = dtype.id if isinstance(dtype, ast.Name) else ""
            why = "complex" if word in _COMPLEX else "of an unknown dtype"
            raise ValueError(f"{_cut(ast.unparse(node))} is {why}")
        if stride is not None and len(stride) != len(size):
            raise ValueError(f"{_cut(ast.unparse(node))} has not a stride for each dimension")
        extent = math.prod(size)
        if stride is not None and extent:
            extent = max(1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)), extent)
        self.tensors += 1
        self.largest = max(self.largest, extent)
        self.total += extent
        return {"tensor": [size, _DTYPES[dtype.id], stride]}

    def _numbers(self, node: ast.expr) -> list[int]:
        """A shape, or strides."""
        parts: list[ast.expr] = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        values = [each.value for each in parts if isinstance(each, ast.Constant)]
        found = [value for value in values if type(value) is int and 0 <= value < 2**63]
        if parts == [node] or len(found) != len(parts) or len(found) > MAX_DIMS:
            raise ValueError(f"{_cut(ast.unparse(node))} is no shape")
        return found


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


# -- targets -----------------------------------------------------------------------------------------------------------


class _Problem:
    """An operator with its cases."""

    def __init__(self, operator: Operator, path: Path) -> None:
        self.operator = operator
        self.path = path
        self.trace: Trace | None = None

    @property
    def cases(self) -> Cases:
        """The lines of a trace, or numbers of samples."""
        if self.trace is None:
            return Cases("sample", tuple(Case(f"sample{index}") for index in range(SAMPLES)))
        calls = self.trace.cases
        known = tuple(Case(f"line{each.line}", each.elements) for each in calls)
        return Cases("line", known, usual=max(range(len(calls)), key=lambda index: (calls[index].elements, -index)))

    @property
    def slots(self) -> list[str]:
        """Names of the inputs that hold tensors."""
        count = SAMPLE_SLOTS if self.trace is None else max(each.tensors for each in self.trace.cases)
        return [f"t{index}" for index in range(count)]

    @property
    def outputs(self) -> dict[str, str]:
        """Lines of `[outputs]`."""
        return packed.outputs(self.operator.outputs, [])

    def opened(self, notes: list[str]) -> Opened:
        """What was read."""
        cases = self.cases
        axes = {cases.axis: cases.usual}
        cpu = None if cases.cpu is None else {cases.axis: cases.cpu}
        return Opened(
            self.path, str(self.operator), axes, packed.inputs(self.slots), self.outputs, False, cpu, tuple(notes)
        )

    def files(self, reader: Reader, file: Path, answered: bytes, function: str) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        names = list(packed.inputs(self.slots))
        taken, rest = ", ".join(names), ", ".join(names[1:])
        pack = packed.NAME
        head = f"import {OPERATOR}\n{packed.IMPORT}\n\n\n"
        run = (
            f"{head}def run({taken}):\n"
            f"    args, kwargs = {pack}.reader({names[0]})({rest})\n"
            f"    return {pack}.flat({OPERATOR}.exactly(args, kwargs))\n"
        )

        def prepare(called: str) -> str:
            made = f"lambda *args: {OPERATOR}.{'kept' if self.operator.in_place else 'plain'}({called})"
            return f"{head}def prepare({taken}):\n    return {pack}.prepared({made}, {taken})\n"

        if self.trace is None:
            source = _SAMPLES.encode()
            inputs = (
                f"import {OPERATOR}, aisp_samples\n{packed.IMPORT}\n\n\n"
                f"def pose(axes, device, generator):\n"
                f"    return aisp_samples.posed({OPERATOR}, lambda args, kwargs: {pack}.pack({names!r}, args, kwargs), "
                f"axes['sample'])\n"
            )
        else:
            known = [{"args": each.args, "kwargs": each.kwargs} for each in self.trace.cases]
            source = _DRAWN.format(calls=known).encode()
            inputs = (
                f"import aisp_samples\n{packed.IMPORT}\n\n\n"
                f"def pose(axes, device, generator):\n"
                f"    return {pack}.pack({names!r}, *aisp_samples.call(axes['line'], generator))\n"
            )
        where = [] if self.path.is_dir() else [provenance("trace", self.path, _head(self.path))]
        text = [f"An operator as {TITLE} asks for it, and an implementation.", "", *where]
        text += [provenance("candidate", file, answered), ""]
        if self.operator.in_place:
            text.append("It writes into its arguments: the reference and every rung get copies of them in each call.")
        text += self.trace.left_out if self.trace is not None else []
        lesson = packed.lesson(
            reader,
            self.cases.front(),
            title=str(self.operator),
            tolerance=TOLERANCE,
            inputs=packed.inputs(self.slots),
            outputs=self.outputs,
            rule=RULE,
            rungs={
                "baseline": f"{self.operator} of torch",
                "optimized": f"{function} of {packed.printable(file.name)}",
            },
            text=text,
        )
        return {
            "reference.py": run.encode(),
            "baseline.py": prepare(f"{OPERATOR}.OPERATOR").encode(),
            "optimized.py": answered + f"\n\n\n{prepare(function)}".encode(),
            "inputs.py": inputs.encode(),
            "aisp_samples.py": source,
            f"{OPERATOR}.py": _CALLED.format(base=self.operator.base, overload=self.operator.overload).encode(),
            "rule.py": packed.rule(TOLERANCE, equal_nan=True),
            onefile.lesson_name(): lesson,
        }


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_TRACE_BYTES)


_CALLED = '''\
"""The operator, and how it is called."""

import torch

BASE, OVERLOAD = {base!r}, {overload!r}


def found():
    """The operator. Raises LookupError, with what there is."""
    try:
        known = getattr(torch.ops.aten, BASE)
    except AttributeError:
        raise LookupError(f"aten has no operator {{BASE}}") from None
    if OVERLOAD not in known.overloads():
        raise LookupError(f"aten.{{BASE}} has no overload {{OVERLOAD}}; {{others(known)}}")
    return getattr(known, OVERLOAD)


def others(known):
    """How a file of another overload is called, as an example of those that there are."""
    names = [name for name in known.overloads() if name != OVERLOAD and not name.endswith("out")]
    names.sort(key=lambda name: (name != "Tensor", name))
    return f"an overload is named as in {{BASE}}__{{names[0]}}" if names else "it has none but that"


OPERATOR = found()


def plain(function):
    """The function as it is."""
    return function


def kept(function):
    """A function that writes into its arguments, called with copies of them."""

    def called(*args, **kwargs):
        return function(*copies(args), **copies(kwargs))

    return called


def copies(value, of=torch.clone):
    """The same with every tensor as `of` makes it."""
    if isinstance(value, torch.Tensor):
        return of(value)
    if isinstance(value, dict):
        return {{key: copies(each, of) for key, each in value.items()}}
    return type(value)(copies(each, of) for each in value) if isinstance(value, (list, tuple)) else value


def exactly(args, kwargs):
    """What the operator gives in the dtype of its arguments; where it has no fp64, what it gives in fp32."""
    try:
        return OPERATOR(*copies(args), **copies(kwargs))
    except (RuntimeError, NotImplementedError):
        if not any(tensor.dtype == torch.float64 for tensor in tensors((args, kwargs))):
            raise
    found = OPERATOR(*copies(args, narrow), **copies(kwargs, narrow))
    print("reference: the operator does not compute in float64; the truth is that of float32")
    return copies(found, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def narrow(tensor):
    return tensor.float() if tensor.dtype == torch.float64 else tensor.clone()


def tensors(value):
    found = []
    copies(value, lambda tensor: found.append(tensor) or tensor)
    return found
'''

_DRAWN = '''\
"""Calls of the operator in a trace, and their tensors: floats are uniform(0, 1), whole numbers small."""

import torch

CALLS = {calls!r}


def call(number, generator):
    """The arguments of a call, drawn anew."""
    said = CALLS[number]

    def made(value):
        if not isinstance(value, dict):
            return value
        ((kind, held),) = value.items()
        if kind == "tensor":
            return tensor(*held, generator)
        if kind in ("list", "tuple"):
            return {{"list": list, "tuple": tuple}}[kind](made(each) for each in held)
        if kind == "dict":
            return {{key: made(each) for key, each in held}}
        if kind == "torch":
            return getattr(torch, held)
        return torch.device("cpu") if kind == "device" else float(held)

    return [made(value) for value in said["args"]], {{name: made(value) for name, value in said["kwargs"].items()}}


def tensor(size, dtype, stride, generator):
    kind = getattr(torch, dtype)
    known = size
    if stride is not None:
        empty = 0 in size
        known = [0 if empty else 1 + sum((n - 1) * step for n, step in zip(size, stride))]
    if kind.is_floating_point:
        found = torch.rand(known, generator=generator).to(kind)
    elif kind is torch.bool:
        found = torch.randint(0, 2, known, generator=generator).bool()
    else:
        found = torch.randint(0 if kind is torch.uint8 else -9, 10, known, generator=generator).to(kind)
    return found if stride is None else torch.as_strided(found, size, stride)
'''

_SAMPLES = '''\
"""Samples of an operator from torch's own OpInfo: those that are one call of it and nothing else."""

import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = (torch.bfloat16, torch.float32)
ENOUGH = 64  # samples: no more entries are asked then
KNOWN = []  # entries of OpInfo that call the operator, found once


class Seen(TorchDispatchMode):
    """Remembers the calls of operators, with copies of their arguments as they were before."""

    def __init__(self, copies):
        super().__init__()
        self.calls = []
        self.copies = copies

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.calls.append((function, self.copies(list(args), kept), self.copies(kwargs, kept)))
        return function(*args, **kwargs)


def kept(tensor):
    """A copy with the strides that it has."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor) if not overlaps(tensor) else tensor.detach()


def overlaps(tensor):
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride()))


def posed(operator, packed, number):
    """Sample `number`, counted round, as `packed` carries it."""
    entries = KNOWN or list(entries_of(operator))
    found = []
    for entry in entries:
        here = list(samples(operator, entry))
        found += here
        if here and entry not in KNOWN:
            KNOWN.append(entry)
        if len(found) >= ENOUGH:
            break
    carried = []
    for args, kwargs in found:
        try:
            largest = max((tensor.numel() for tensor in operator.tensors((args, kwargs))), default=0)
            carried.append((packed(args, kwargs), largest))
        except ValueError:  # more tensors than there are inputs, or of a dtype that has no name here
            continue
    if not carried:
        known = getattr(operator.torch.ops.aten, operator.BASE)
        told = f"OpInfo has no sample that is one call of aten.{operator.BASE}.{operator.OVERLOAD}"
        raise LookupError(f"{told}; {operator.others(known)}")
    carried.sort(key=lambda pair: -pair[1])
    return carried[number % len(carried)][0]


def entries_of(operator):
    """Entries that may call the operator: those that are named like it, else those whose names share the beginning of a
    word with its own."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"OpInfo needs the package {error.name}: pip install {error.name}") from None
    base = operator.BASE.strip("_").removeprefix("native_")
    near = [entry for entry in op_db if base in (entry.name.rpartition(".")[2], getattr(entry, "aten_name", ""))]
    if any(any(samples(operator, entry)) for entry in near):
        return near
    words = [word[:4] for word in base.split("_") if len(word) > 2]
    return [entry for entry in op_db if any(word in entry.name for word in words)]


def samples(operator, entry):
    """Arguments of the operator, as the samples of an entry call it, or its twin that writes into none of them."""
    twin = getattr(getattr(torch.ops.aten, operator.BASE.removesuffix("_"), None), operator.OVERLOAD, None)
    for dtype in DTYPES:
        try:
            if not entry.supports_dtype(dtype, "cpu"):
                continue
            inputs = list(entry.sample_inputs("cpu", dtype))
        except Exception:  # an entry that wants what is not here
            continue
        for sample in inputs:
            try:
                with Seen(operator.copies) as seen, torch.no_grad(), warnings.catch_warnings(action="ignore"):
                    entry.op(sample.input, *sample.args, **sample.kwargs)
                ((function, args, kwargs),) = seen.calls
                if function is operator.OPERATOR or function is twin:
                    operator.OPERATOR(*operator.copies(args), **operator.copies(kwargs))
                    yield args, kwargs
            except Exception:  # several calls, a sample that is meant to fail, or what the twin alone can do
                continue
'''
