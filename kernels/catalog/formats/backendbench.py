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
import pprint
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.frontmatter import RefusedError
from aisp.kernels.catalog.onefile import Parts, Reader
from aisp.kernels.catalog.parsing import REFUSALS, parsed

from . import kernelbench, packed
from .packed import Case, Cases
from .shared import Listed, Opened, Part, contents, folders_in, provenance, regular, small

NAME = "backendbench"
TITLE = "BackendBench"

TOLERANCE = dict.fromkeys(("float64", "float32", "float16", "bfloat16"), 1e-2)
"""Its own rule's. Ours is the same number, relative to max(RMS of the reference, |reference|)."""
RULE = "BackendBench: assert_close, atol = rtol = 1e-2, NaNs are equal"
SAMPLES = 16
SAMPLE_SLOTS = 8
MODULE, OPERATOR = "aisp_run", "aisp_operator"
"""What the target's files call aisp.kernels.runtime.backendbench, and the operator."""
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

_RANDOM = (
    "_fused_dropout alpha_dropout bernoulli bernoulli_ cauchy_ dropout exponential_ geometric_ log_normal_ "
    "multinomial native_dropout normal normal_ poisson rand rand_like randint randint_like randn randn_like "
    "random_ randperm uniform_"
)
RANDOM = frozenset(_RANDOM.split())
"""Operators whose values are drawn: there is no one right answer."""
_UNDEFINED = (
    "_empty_affine_quantized _empty_per_channel_affine_quantized empty empty_like empty_permuted empty_quantized "
    "empty_strided new_empty new_empty_strided resize resize_ resize_as_"
)
UNDEFINED = frozenset(_UNDEFINED.split())
"""Operators that return memory which nobody has written."""

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
    def obstacle(self) -> str:
        """Why it cannot be judged; "" where it can."""
        if self.overload.endswith("out"):
            return f"{self} writes into `out`, which no rung may"
        if self.base in UNDEFINED:
            return f"{self} returns memory that nobody has written: no values are the right ones"
        return f"{self} is random: there is no one right answer" if self.base in RANDOM else ""


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
        known = sorted(folders_in(place))
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
        kernelbench.check_candidate(answer, answered, function, f"write def {function}(...) as {operator} is called")
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

    def opened(self, notes: list[str]) -> Opened:
        """What was read."""
        cases = self.cases
        axes = {cases.axis: cases.usual}
        cpu = None if cases.cpu is None else {cases.axis: cases.cpu}
        outputs = packed.seen_outputs(str(self.operator))
        return Opened(
            self.path, str(self.operator), axes, packed.inputs(self.slots), outputs, cpu=cpu, notes=tuple(notes)
        )

    def files(self, reader: Reader, file: Path, answered: bytes, function: str) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        names = list(packed.inputs(self.slots))
        taken = ", ".join(names)
        head = f"from aisp.kernels.runtime import backendbench as {MODULE}\n\n"
        head += f"{OPERATOR} = {MODULE}.operator({self.operator.base!r}, {self.operator.overload!r})\n\n\n"

        def entry(named: str, returned: str) -> bytes:
            return f"{head}def {named}:\n    return {MODULE}.{returned}\n".encode()

        posed, calls = f"sampled({OPERATOR}, {names!r}, device, axes['sample'])", b""
        if self.trace is not None:
            posed = f"traced({OPERATOR}, {names!r}, device, CALLS[axes['line']], generator)"
            lines = [{"args": each.args, "kwargs": each.kwargs} for each in self.trace.cases]
            calls = f"CALLS = {pprint.pformat(lines, width=110, sort_dicts=False)}\n\n".encode()
        where = [] if self.path.is_dir() else [provenance("trace", self.path, _head(self.path))]
        text = [f"An operator as {TITLE} asks for it, and an implementation.", "", *where]
        text += [provenance("candidate", file, answered), ""]
        text.append("Where it writes into its arguments, the reference and every rung get copies of them in each call.")
        text += self.trace.left_out if self.trace is not None else []
        lesson = packed.lesson(
            reader,
            self.cases.front(),
            title=str(self.operator),
            tolerance=TOLERANCE,
            inputs=packed.inputs(self.slots),
            rule={"name": RULE},
            rungs=packed.summaries(f"{self.operator} of torch", function, file),
            text=text,
        )
        prepare = f"prepare({taken})"
        return {
            "reference.py": entry(f"run({taken})", f"exactly({OPERATOR}, {taken})"),
            "baseline.py": entry(prepare, f"prepared({OPERATOR}, {taken})"),
            "optimized.py": answered + b"\n\n\n" + entry(prepare, f"prepared({function}, {taken})"),
            "inputs.py": calls + entry("pose(axes, device, generator)", posed),
            "rule.py": packed.rule(TOLERANCE, equal_nan=True),
            onefile.lesson_name(): lesson,
        }


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_TRACE_BYTES)
