"""Definitions and workloads of SOL-ExecBench and of FlashInfer trace, as data: read from JSON, never run.

A definition says what is computed: axes, inputs, outputs and a reference in Python, as a text. A workload gives the
sizes of its variable axes and says where each input comes from. The two dialects differ in few fields; which one it is
follows from how the lines of its workloads are written (`Definition.dialect`).

What is wrong with a definition is a Problem, by its dotted key. A workload that cannot be taken is left out with its
reason, and the others stay.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import itertools
import keyword
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import frontmatter
from aisp.kernels.catalog.grammar import GrammarError, evaluate, is_axis_name, names
from aisp.kernels.catalog.parsing import REFUSALS, misspelt, parsed
from aisp.kernels.catalog.tensors import DTYPES

from .shared import decoded, says_cuda

MOST_WORKLOADS = frontmatter.MAX_CASES - 8
"""Workloads of a definition that are taken; each is a case of the target."""
MOST_LINES = 20_000  # of a file of workloads, looked at
MOST_NOTES = 50  # about workloads that are left out
MORE = "more workloads are left out"
MAX_DEPTH = 16  # of axes that are made of axes
SHORT, LONG = 8, 60  # characters of a workload's uuid that name its case: at least, and at most
DEFAULT_TOLERANCE = 1e-2  # absolute and relative, of both
MATCHED = {"moe": 0.95, "lowbit": 0.95}  # share of elements that must match, by FlashInfer's op_type; all of the others

PACKED = "float4_e2m1fn_x2"
"""torch's dtype of two 4-bit floats a byte: it can be stored and copied, and not computed with."""

SAMPLING = "sampling"
"""The op_type of what draws tokens at random."""
PROBABILITIES = "probs"
"""The input, by its name, that an operator of that type draws from: [..., tokens]."""

_OTHER_NAMES = {"float8_e4m3": "float8_e4m3fn", "float4_e2m1": PACKED, "float4_e2m1fn": PACKED}
_NAME = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"[A-Za-z_0-9]\s*\(")
_DIVISION = re.compile(r"(?<!/)/(?!/)")
_COMPARISON = re.compile(r"(==|!=|<=|>=|<|>)")
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    **{"==": operator.eq, "!=": operator.ne},
    **{"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt},
}
_INPUT_KEYS = ("type", "value", "path", "tensor_key")
_TOLERANCE_KEYS = ("max_atol", "max_rtol", "required_matched_ratio", "max_error_cap", "allow_negative_inf")
_FOR_CASE = re.compile(r"[^A-Za-z0-9_.-]+")


class Harness(enum.StrEnum):
    """Whose rules hold."""

    SOL = "sol"
    FLASHINFER = "flashinfer"

    @property
    def words(self) -> str:
        """As its authors write it."""
        return "SOL-ExecBench" if self is Harness.SOL else "FlashInfer-Bench"


class Source(enum.StrEnum):
    """Where an input of a workload comes from."""

    RANDOM = "random"
    SCALAR = "scalar"
    STORED = "safetensors"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or an output.

    Attributes:
        dims: axes expressions over constant and variable axes; None for a plain number.
        dtype: as torch calls it.
        packed: its bytes hold two 4-bit floats each; `dtype` is uint8 then, and `dims` count bytes.
    """

    name: str
    dims: tuple[str, ...] | None
    dtype: str
    description: str = ""
    packed: bool = False

    @property
    def seen(self) -> str:
        """The dtype that the definition's code sees."""
        return PACKED if self.packed else self.dtype


@dataclass(frozen=True, slots=True)
class Given:
    """One input of a workload: a number, or the place of a tensor in a file."""

    source: Source
    value: int | float | None = None
    path: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What an output may be off: `absolute` and `relative`, for at least the share `matched` of its elements.

    Attributes:
        cap: no element may be off by more; None for no such bound.
        negative_inf: minus infinity is right where the reference has it.
    """

    absolute: float = DEFAULT_TOLERANCE
    relative: float = DEFAULT_TOLERANCE
    matched: float = 0.99
    cap: float | None = None
    negative_inf: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """One line of a definition's workloads.

    Attributes:
        case: the name of the case that it is in the target.
        axes: constant and variable ones.
        inputs: those that are not random.
        written: what of the workload's own text is known here, for whoever writes it again.
    """

    uuid: str
    case: str
    axes: Mapping[str, int]
    inputs: Mapping[str, Given]
    tolerance: Tolerance
    written: Mapping[str, Any]

    def source(self, name: str) -> Source:
        """Where an input comes from."""
        given = self.inputs.get(name)
        return given.source if given is not None else Source.RANDOM


@dataclass(frozen=True, slots=True)
class Definition:
    """What is to be computed, and on what.

    Attributes:
        constant: sizes of constant axes.
        variable: names of the axes that a workload sizes.
        computed: the expressions of expr axes over constant and variable ones.
        entry: the reference's function that makes custom inputs; "" for none.
        on_gpu: the reference asks for "cuda" by that name.
        workloads: those that can be taken; the first is the usual one.
        notes: sentences about what was left out or could not be checked.
    """

    name: str
    dialect: Harness
    op_type: str
    description: str
    constant: Mapping[str, int]
    variable: tuple[str, ...]
    computed: Mapping[str, str]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    reference: str
    entry: str
    on_gpu: bool
    constrained: bool
    workloads: tuple[Workload, ...]
    notes: tuple[str, ...] = ()


class Reader(frontmatter.Collector):
    """One file of JSON. What is quoted of it is cut, and printable."""

    def wrong(self, place: int | str, message: str, fix: str, path: Path | None = None) -> None:
        """Collect a problem."""
        place, message, fix = (one_line(str(text or ""), limit=frontmatter.MAX_WORDS) for text in (place, message, fix))
        super().wrong(place, message, fix, path)

    def document(self, data: bytes) -> dict[str, Any]:
        """The JSON object that the file is. Raises RefusedError."""
        try:
            found = decoded(data)
        except ValueError as error:
            raise self.refuse("", f"not JSON: {error}", "repair it, or write it anew") from None
        if not isinstance(found, dict):
            raise self.refuse("", f"it is {_kind(found)}, not an object", 'begin with {"name": ...')
        return found

    def text(self, table: Mapping[str, Any], key: str, place: str, *, needed: bool = True) -> str:
        """A text that must not be empty; "" where it is missing or wrong."""
        value = table.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None or needed:
            blank = "it is blank" if isinstance(value, str) else f"it is {_kind(value)}, not a text"
            self.wrong(place, "missing" if value is None else blank, f'write "{key}": "..."')
        return ""

    def table(self, table: Mapping[str, Any], key: str, place: str) -> dict[str, Any]:
        """An object; empty where it is missing or wrong."""
        value = table.get(key)
        if isinstance(value, dict):
            return value
        self.wrong(
            place, "missing" if value is None else f"it is {_kind(value)}, not an object", f'write "{key}": {{}}'
        )
        return {}

    def python(self, source: str, place: str) -> ast.Module | None:
        """The syntax tree of a module that stands in the file as a text; None where it is no Python."""
        slip = misspelt(source, place)
        if slip is not None:
            told = f"not Python: {slip.message}: {slip.text.strip()[:200]}"
            self.wrong(f"{place}, line {slip.line}" if slip.line else place, told, "repair the line, or one before it")
            return None
        try:
            tree = parsed(source)
        except REFUSALS as error:
            self.wrong(place, f"not Python: {str(error) or 'nested too deeply'}", "repair it")
            return None
        assert isinstance(tree, ast.Module)
        return tree


def one_line(text: str, *, limit: int = 512) -> str:
    """A text of others within a sentence: what can be printed of it, on one line, cut to `limit` characters."""
    plain = " ".join("".join(each if each.isprintable() else " " for each in text[: 2 * limit]).split())
    return plain if len(plain) <= limit else f"{plain[: limit - 3]}..."


def text_of(data: bytes, key: str) -> str:
    """What an object of JSON has by that name; "" where that is no text."""
    with contextlib.suppress(ValueError):
        found = decoded(data)
        if isinstance(found, dict) and isinstance(found.get(key), str):
            return str(found[key])
    return ""


def _kind(value: object) -> str:
    kinds: dict[type, str] = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return "null" if value is None else "an object" if isinstance(value, dict) else kinds.get(type(value), "no value")


def read(reader: Reader, data: bytes, lines: Iterable[tuple[int, bytes]], *, sol: bool, rest: str = "") -> Definition:
    """The definition that `data` is, with its workloads.

    Args:
        reader: of its file.
        lines: of its workloads, with their numbers.
        sol: whether it lies as SOL-ExecBench lays it out; the lines may say otherwise.
        rest: why there are no lines.

    Raises:
        RefusedError: it is none, or no workload can be taken.
    """
    return _Definition(reader, reader.document(data)).read(lines, sol=sol, rest=rest)


class _Definition:
    """One definition, as it is read."""

    def __init__(self, reader: Reader, written: Mapping[str, Any]) -> None:
        self.reader = reader
        self.written = written
        self.constant: dict[str, int] = {}
        self.variable: list[str] = []
        self.expressions: dict[str, str] = {}
        self.computed: dict[str, str] = {}
        self.notes: list[str] = []
        self.reasons: list[str] = []  # those of the notes that say why a workload is left out
        self.entry = ""
        self.on_gpu = False

    def read(self, lines: Iterable[tuple[int, bytes]], *, sol: bool, rest: str) -> Definition:
        """See the function."""
        reader, written = self.reader, self.written
        name = reader.text(written, "name", "name")
        op_type = reader.text(written, "op_type", "op_type", needed=False)
        description = reader.text(written, "description", "description", needed=False)
        self.entry = reader.text(written, "custom_inputs_entrypoint", "custom_inputs_entrypoint", needed=False)
        self._axes()
        inputs, outputs = self._tensors("inputs"), self._tensors("outputs")
        for tensor in outputs:
            if any(tensor.name == other.name for other in inputs):
                reader.wrong(f"outputs.{tensor.name}", "an input has that name", "give one of the two another name")
        constraints = self._constraints()
        dialect = Harness.SOL if sol or self.entry or self.expressions else Harness.FLASHINFER
        found = list(self._lines(lines))
        if not self.entry and not self.expressions and found:  # a bare line is SOL's, a trace FlashInfer's
            dialect = Harness.FLASHINFER if "workload" in found[0][1] else Harness.SOL
        reference = self._reference(inputs, dialect)
        if op_type == SAMPLING:
            self._drawing(inputs, outputs)
        reader.hold()
        workloads = self._workloads(found, inputs, outputs, constraints, dialect, op_type)
        if not workloads:
            why = rest or "; ".join(self.reasons[:3]) or "its file of workloads is empty"
            raise reader.refuse("workloads", f"there is none that can be taken: {why}", "write one line for each size")
        inputs = tuple(self._in_bytes(tensor, workloads) for tensor in inputs)
        reader.hold()
        return Definition(
            name=name,
            dialect=dialect,
            op_type=op_type,
            description=description,
            constant=self.constant,
            variable=tuple(self.variable),
            computed=self.computed,
            inputs=inputs,
            outputs=outputs,
            reference=reference,
            entry=self.entry,
            on_gpu=self.on_gpu,
            constrained=bool(self.written.get("constraints")),
            workloads=tuple(workloads),
            notes=tuple(self.notes),
        )

    # -- axes and tensors ------------------------------------------------------------------------------------------

    def _axes(self) -> None:
        reader = self.reader
        for name, axis in reader.table(self.written, "axes", "axes").items():
            place = f"axes.{name}"
            kind = axis.get("type") if isinstance(axis, dict) else None
            if not is_axis_name(name):
                reader.wrong(place, f"{name!r} cannot name an axis", "use a Python name")
            elif kind == "const":
                value = axis.get("value")
                if type(value) is int and 0 <= value <= frontmatter.MAX_AXIS:
                    self.constant[name] = value
                else:
                    reader.wrong(place, f"its value is {_kind(value)}", f'write "value": 0 to {frontmatter.MAX_AXIS}')
            elif kind == "var":
                self.variable.append(name)
            elif kind == "expr" and isinstance(axis.get("expression"), str):
                self.expressions[name] = axis["expression"]
            else:
                told = "it is none of const with a value, var, and expr with an expression"
                reader.wrong(place, told, 'write {"type": "var"}')
        if len(self.constant) + len(self.variable) >= frontmatter.MAX_AXES:
            reader.wrong("axes", "there are too many", f"keep to {frontmatter.MAX_AXES - 1} that are no expressions")
        for name in self.expressions:
            try:
                self.computed[name] = self._expanded(name, ())
            except GrammarError as error:
                reader.wrong(f"axes.{name}", error.message, error.fix)

    def _expanded(self, name: str, above: tuple[str, ...]) -> str:
        """An expr axis as an expression over constant and variable axes. Raises GrammarError."""
        expression = self.expressions[name]
        if name in above or len(above) > MAX_DEPTH:
            raise GrammarError(f"{name} is made of itself", "let it use constant and variable axes")
        if _CALL.search(expression):
            raise GrammarError(f"{one_line(expression)!r} calls something", "use + - * / // % ** and parentheses")
        parts: dict[str, str] = {}
        for used in names(expression):
            if used in self.expressions:
                parts[used] = f"({self._expanded(used, (*above, name))})"
            elif used not in self.constant and used not in self.variable:
                raise GrammarError(f"the axis {used!r} is used but not defined", "define it in axes")
        expanded = _NAME.sub(lambda match: parts.get(match[0], match[0]), expression)
        names(expanded)  # within the grammar, still
        return expanded

    def _tensors(self, which: str) -> tuple[Tensor, ...]:
        reader = self.reader
        found: list[Tensor] = []
        given = reader.table(self.written, which, which)
        if not given and isinstance(self.written.get(which), dict):
            reader.wrong(which, "it is empty", f'write "{which}": {{"x": {{"shape": ["M"], "dtype": "float32"}}}}')
        if len(given) > frontmatter.MAX_TENSORS // 2:
            reader.wrong(which, f"{len(given)} of them", f"keep to {frontmatter.MAX_TENSORS // 2}")
            return ()
        for name, spec in given.items():
            place = f"{which}.{name}"
            if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("aisp_"):
                reader.wrong(place, f"{name!r} cannot name an argument", "use a Python name such as x")
                continue
            if not isinstance(spec, dict) or "shape" not in spec:
                reader.wrong(place, "it has no shape", 'write {"shape": ["M", "N"], "dtype": "float32"}')
                continue
            dtype = self._dtype(spec.get("dtype"), place)
            dims = self._dims(spec["shape"], place)
            packed = dtype == PACKED
            if packed and not dims:
                self.reader.wrong(
                    f"{place}.shape", "two 4-bit floats share a byte, and it has no dimension", "give one"
                )
            if dtype:
                said = str(spec.get("description") or "")
                found.append(Tensor(name, dims, "uint8" if packed else dtype, said, packed))
        return tuple(found)

    def _dtype(self, given: object, place: str) -> str:
        dtype = _OTHER_NAMES.get(str(given), str(given))
        if dtype in DTYPES or dtype == PACKED:
            return dtype
        self.reader.wrong(f"{place}.dtype", f"unknown dtype {given!r}", f"use one of {', '.join((*DTYPES, PACKED))}")
        return ""

    def _drawing(self, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
        """Whether the benchmark's rule for draws can be asked: it knows inputs by their names."""
        given = next((tensor for tensor in inputs if tensor.name == PROBABILITIES), None)
        if given is None or not given.dims or len(given.dims) > 2 or "float" not in given.dtype:
            told = f"an operator that samples is judged by the input {PROBABILITIES}, and it has none"
            fix = f'write "{PROBABILITIES}": {{"shape": ["batch", "tokens"], "dtype": "float32"}}'
            self.reader.wrong(f"inputs.{PROBABILITIES}", told, fix)
        if len(outputs) != 1 or outputs[0].packed or "int" not in outputs[0].dtype:
            told = "an operator that samples is judged by one output, the places of tokens"
            self.reader.wrong("outputs", told, 'write {"samples": {"shape": ["batch"], "dtype": "int64"}}')

    def _in_bytes(self, tensor: Tensor, workloads: list[Workload]) -> Tensor:
        """A packed input with the dimensions that its bytes have. A random one is drawn as its shape says and then
        packed along its last dimension; the shape of any other is that of its bytes already."""
        sources = {workload.source(tensor.name) for workload in workloads}
        if not tensor.packed or not tensor.dims or Source.RANDOM not in sources:
            return tensor
        place, last = f"inputs.{tensor.name}", tensor.dims[-1]
        if len(sources) > 1:
            told = "some workloads draw it, which halves its last dimension, and others give its bytes"
            self.reader.wrong(place, told, "let all workloads have it from one source")
        elif any(evaluate(whole(last), workload.axes) % 2 for workload in workloads):
            self.reader.wrong(place, f"two 4-bit floats share a byte, and {last} is odd", "use an even size")
        return replace(tensor, dims=(*tensor.dims[:-1], f"({last}) // 2"))

    def _dims(self, shape: object, place: str) -> tuple[str, ...] | None:
        if shape is None:
            return None
        dims: list[str] = []
        for dim in shape if isinstance(shape, list) else [shape]:
            if isinstance(dim, int | str) and not isinstance(dim, bool) and re.fullmatch(r"[0-9]{1,15}", str(dim)):
                dims.append(str(dim))
            elif isinstance(dim, str) and (dim in self.constant or dim in self.variable):
                dims.append(dim)
            elif isinstance(dim, str) and dim in self.expressions:
                dims.append(self.computed.get(dim, "1"))
            else:
                known = ", ".join((*self.constant, *self.variable, *self.expressions)) or "none"
                told = f"{dim!r} is no axis" if isinstance(shape, list) else f"it is {_kind(shape)}, not a list of axes"
                self.reader.wrong(f"{place}.shape", told, f"name an axis (there is: {known})")
        return tuple(dims)

    def _constraints(self) -> list[str]:
        """Those that are about axes alone; the others are told."""
        given = self.written.get("constraints")
        if given is not None and not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
            self.reader.wrong("constraints", "it is no list of texts", 'write "constraints": ["M % 16 == 0"]')
            return []
        known = {*self.constant, *self.variable, *self.expressions}
        found: list[str] = []
        for each in given or []:
            try:
                used = {name for side in _COMPARISON.split(each)[::2] for name in names(side)}
            except GrammarError:
                used = {""}
            if used <= known and _COMPARISON.search(each):
                found.append(each)
            else:
                self.notes.append(f"the constraint {one_line(each, limit=200)} is not about axes, and is not checked")
        return found

    def _reference(self, inputs: tuple[Tensor, ...], dialect: Harness) -> str:
        reader = self.reader
        source = reader.text(self.written, "reference", "reference")
        tree = reader.python(source, "reference") if source else None
        if tree is None:
            return source
        self.on_gpu = says_cuda(ast.Module([node for node in tree.body if not _is_for_scripts(node)], []))
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        run = functions.get("run")
        if run is None:
            reader.wrong("reference", "it has no function run", "write def run(...) at its left edge")
        else:
            given = [arg.arg for arg in (*run.args.posonlyargs, *run.args.args)]
            wanted = [tensor.name for tensor in inputs]
            needed = len(given) - len(run.args.defaults)
            fits = needed <= len(wanted) and (len(wanted) <= len(given) or run.args.vararg is not None)
            if not fits or (dialect is Harness.SOL and given[: len(wanted)] != wanted[: len(given)]):
                told = f"run takes {', '.join(given) or 'nothing'}, and the inputs are {', '.join(wanted)}"
                reader.wrong("reference", told, "let the two agree")
        if self.entry and self.entry not in functions:
            told = f"the reference has no function {one_line(self.entry, limit=100)}"
            reader.wrong("custom_inputs_entrypoint", told, "name one at its left edge")
        return source

    # -- workloads -------------------------------------------------------------------------------------------------

    def _lines(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The lines that are objects, with their numbers."""
        for number, line in lines:
            if number > MOST_LINES:
                self.notes.append(f"its file of workloads is read to line {MOST_LINES:,}")
                return
            if not line.strip():
                continue
            try:
                found = decoded(line)
            except ValueError as error:
                self._left_out(f"line {number}", f"not JSON: {error}")
                continue
            if isinstance(found, dict):
                yield number, found
            else:
                self._left_out(f"line {number}", f"it is {_kind(found)}, not an object")

    def _left_out(self, which: str, why: str) -> None:
        if len(self.reasons) < MOST_NOTES:
            self.reasons.append(one_line(f"a workload is left out ({which}): {why}", limit=500))
            self.notes.append(self.reasons[-1])
        elif MORE not in self.notes:
            self.notes.append(MORE)

    def _workloads(
        self,
        lines: list[tuple[int, dict[str, Any]]],
        inputs: tuple[Tensor, ...],
        outputs: tuple[Tensor, ...],
        constraints: list[str],
        dialect: Harness,
        op_type: str,
    ) -> list[Workload]:
        found: list[Workload] = []
        for number, line in lines:
            if len(found) == MOST_WORKLOADS:
                self.notes.append(f"of {len(lines)} workloads the first {MOST_WORKLOADS} are taken")
                break
            written = line.get("workload", line)
            if not isinstance(written, dict):
                self._left_out(f"line {number}", f"it is {_kind(written)}, not an object")
                continue
            uuid = written.get("uuid")
            which = f"line {number}" if not isinstance(uuid, str) or not uuid else f"line {number}, {uuid[:SHORT]}"
            try:
                axes = self._sizes(written)
                self._holds(axes, constraints, (*inputs, *outputs))
                given = self._given(written, inputs)
                tolerance = _tolerance(written, dialect, op_type)
            except (GrammarError, ValueError) as error:
                self._left_out(which, error.message if isinstance(error, GrammarError) else str(error))
                continue
            self._unread(written, dialect)
            known = _known(written, inputs)
            found.append(Workload(str(uuid or f"line{number}"), "", axes, given, tolerance, known))
        cases = _cases([workload.uuid for workload in found])
        return [replace(workload, case=case) for workload, case in zip(found, cases, strict=True)]

    def _unread(self, written: Mapping[str, Any], dialect: Harness) -> None:
        """Tell once of what a workload says about right and wrong that the benchmark does not read."""
        given = written.get("tolerance")
        sol = dialect is Harness.SOL
        keys = [key for key in (("checks",) if sol else ("checks", "tolerance")) if key in written]
        if sol and isinstance(given, dict):  # what begins with _ is a remark
            keys += [f"tolerance.{key}" for key in given if key not in _TOLERANCE_KEYS and not key.startswith("_")]
        told = one_line(", ".join(keys), limit=200)
        said = f"{told} of a workload is not read: {dialect.words} has no such key"
        if told and said not in self.notes and len(self.notes) < 2 * MOST_NOTES:
            self.notes.append(said)

    def _sizes(self, written: Mapping[str, Any]) -> dict[str, int]:
        axes = written.get("axes")
        if not isinstance(axes, dict):
            raise ValueError("it has no axes")
        for name in self.variable:
            value = axes.get(name)
            if type(value) is not int or not 0 <= value <= frontmatter.MAX_AXIS:
                raise ValueError(f"the axis {name} is {_kind(value)}" if name in axes else f"it does not size {name}")
        return {**self.constant, **{name: axes[name] for name in self.variable}}

    def _holds(self, axes: Mapping[str, int], constraints: list[str], tensors: tuple[Tensor, ...]) -> None:
        """Raise GrammarError or ValueError where these sizes do not fit the definition."""
        sizes: dict[str, int] = dict(axes)
        for name, expression in self.computed.items():
            value = evaluate(expression, axes)
            if value != int(value):
                raise ValueError(f"the axis {name} is {value}, not a whole number")
            sizes[name] = int(value)
        for constraint in constraints:
            sides = _COMPARISON.split(constraint)
            values = [evaluate(side, sizes) for side in sides[::2]]
            if not all(_COMPARED[by](*pair) for by, pair in zip(sides[1::2], itertools.pairwise(values), strict=True)):
                raise ValueError(f"the constraint {constraint} does not hold")
        for tensor in tensors:
            for dim in tensor.dims or ():
                if evaluate(whole(dim), axes) != evaluate(dim, axes):
                    raise ValueError(f"a dimension of {tensor.name}, {dim}, is no whole number")

    def _given(self, written: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> dict[str, Given]:
        """The inputs that are not random. Raises ValueError."""
        given = written.get("inputs")
        if not isinstance(given, dict):
            raise ValueError("it has no inputs")
        found: dict[str, Given] = {}
        for tensor in inputs:
            spec = given.get(tensor.name, {"type": "random"})  # as both harnesses take it
            kind = spec.get("type") if isinstance(spec, dict) else None
            if kind not in tuple(Source):
                told = one_line(repr(kind), limit=60) if isinstance(kind, str) else _kind(spec)
                raise ValueError(f"the input {tensor.name} is {told}, none of {', '.join(Source)}")
            source = Source(kind)
            plain = tensor.dims is None
            if source is Source.SCALAR:
                value = spec.get("value")
                if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
                    raise ValueError(f"the scalar {tensor.name} is {_kind(value)}, not a number")
                found[tensor.name] = Given(source, value)
            elif source is Source.STORED:
                path, key = spec.get("path"), spec.get("tensor_key")
                if not (isinstance(path, str) and path and isinstance(key, str) and "\0" not in path):
                    raise ValueError(f"the input {tensor.name} has no path and tensor_key")
                found[tensor.name] = Given(source, path=path, key=key)
            elif source is Source.CUSTOM:
                if not self.entry:
                    raise ValueError(f"the input {tensor.name} is custom, and there is no custom_inputs_entrypoint")
                found[tensor.name] = Given(source)
            if plain != (source is Source.SCALAR) and not (plain and source in (Source.RANDOM, Source.CUSTOM)):
                shape = "null" if plain else "a list"
                raise ValueError(f"the input {tensor.name} is {source}, and its shape is {shape}")
        kinds = {found[t.name].source if t.name in found else Source.RANDOM for t in inputs if t.dims is not None}
        if Source.CUSTOM in kinds and len(kinds) > 1:
            raise ValueError("some of its inputs are custom and some are not")
        return found


def _known(written: Mapping[str, Any], inputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """A workload without what no reader of the format knows, which may be nested without end."""
    given = written["inputs"]
    kept = {tensor.name: given[tensor.name] for tensor in inputs if tensor.name in given}
    inner = {name: {key: spec[key] for key in _INPUT_KEYS if _plain(spec.get(key))} for name, spec in kept.items()}
    outer = {key: written[key] for key in ("uuid", "axes", "tolerance") if _plain(written.get(key))}
    return {**outer, "inputs": inner}


def _plain(value: object) -> bool:
    """Whether a value is a text, or an object of texts and numbers."""
    inner = value.values() if isinstance(value, dict) else [value]
    return value is not None and all(each is None or isinstance(each, str | int | float) for each in inner)


def _is_for_scripts(node: ast.stmt) -> bool:
    """Whether a statement runs only where its file is a program: nobody imports it as one."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def sizes(tensor: Tensor, workload: Workload) -> tuple[int, ...]:
    """The shape of an input in a workload. Raises GrammarError."""
    return tuple(int(evaluate(whole(dim), workload.axes)) for dim in tensor.dims or ())


def whole(dim: str) -> str:
    """A dimension in whole numbers: a division that leaves no rest gives a fraction otherwise."""
    return _DIVISION.sub("//", dim)


def _tolerance(written: Mapping[str, Any], dialect: Harness, op_type: str) -> Tolerance:
    """Raises ValueError."""
    if dialect is Harness.FLASHINFER:
        return Tolerance(matched=MATCHED.get(op_type, 1.0))
    given = written.get("tolerance")
    if given is None:
        return Tolerance()
    if not isinstance(given, dict):
        raise ValueError(f"its tolerance is {_kind(given)}, not an object")
    usual = Tolerance()
    keys = {"max_atol": usual.absolute, "max_rtol": usual.relative, "required_matched_ratio": usual.matched}
    found: dict[str, float] = {}
    for key, default in (*keys.items(), ("max_error_cap", math.inf)):
        value = given.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
            raise ValueError(f"its {key} is {_kind(value)}, not a number of at least 0")
        found[key] = float(value)
    cap = found["max_error_cap"]
    return Tolerance(
        found["max_atol"],
        found["max_rtol"],
        found["required_matched_ratio"],
        None if cap == math.inf else cap,
        given.get("allow_negative_inf") is True,
    )


def _cases(uuids: Iterable[str]) -> list[str]:
    """Names of the workloads' cases: the beginning of each one's uuid, as much of it as tells it from all others."""
    plain = [_FOR_CASE.sub("-", uuid) for uuid in uuids]
    plain = [(each if each[:1].isalnum() else f"w{each}")[:LONG] for each in plain]
    begin = Counter(each[:length] for each in plain for length in range(SHORT, len(each) + 1))
    taken, names = {"default", "cpu"}, []
    for each in plain:
        shorter = (each[:length] for length in range(SHORT, len(each)) if begin[each[:length]] == 1)
        name = next(shorter, each)
        if name in taken:
            name = next(other for number in range(len(taken)) if (other := f"{each[:50]}-{number}") not in taken)
        taken.add(name)
        names.append(name)
    return names
