"""Launch parameters of a rung: constants at the top of its file that may have other values.

    BLOCK = 64                      # declared in lesson.md: [rungs.optimized] parameters = { BLOCK = [64, 128, 256] }
    WARPS: tl.constexpr = 4         # or named by whoever searches: WARPS=4,8
    STAGES = tl.constexpr(2)

A value is put in the place of the literal in the syntax tree, and not one other byte of the file changes: what is
measured is the file that a person would have written. Nothing is imported.
"""

from __future__ import annotations

import ast
import codecs
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from .parsing import REFUSALS, parsed

Value = bool | int | float | str
MAX_PARAMETERS = 16
MAX_VALUES = 256
MAX_VARIANTS = 256
"""Of one file, where all of them are made at once."""
MAX_TEXT = 200
"""Characters of a value that is a text."""

_WRAPPERS = ("constexpr",)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class ParameterError(ValueError):
    """A parameter that cannot be set; the message says why, and what would work."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One constant and the values to try, in the order given, each once."""

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ParameterError(f"{self.name[:80]!r} is no name of a constant; write BLOCK=64,128")
        if not self.values or len(self.values) > MAX_VALUES:
            raise ParameterError(f"{self.name} has {len(self.values)} values; give 1 to {MAX_VALUES}")
        if len(set(self.values)) != len(self.values):  # 1 and 1.0 and True are one value
            raise ParameterError(f"{self.name} has a value twice; give each once")
        if any(isinstance(value, float) and not math.isfinite(value) for value in self.values):
            raise ParameterError(f"{self.name} has a value that is no finite number; no literal says it")
        if any(isinstance(value, str) and len(value) > MAX_TEXT for value in self.values):
            raise ParameterError(f"{self.name} has a value of more than {MAX_TEXT} characters")


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal at the top of a file: its value, its line, and the bytes that it takes."""

    value: Value
    line: int
    start: int
    end: int


def read(text: str) -> Parameter:
    """A parameter as it is typed: "BLOCK=16,32,64", "MODE='a','b'". Raises ParameterError."""
    name, sign, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not sign or not all(words):
        raise ParameterError(f"{text[:80]!r} is no parameter; write a constant and its values, as in BLOCK=64,128")
    return Parameter(name.strip(), tuple(_value(word) for word in words))


def constants(source: bytes) -> dict[str, Constant]:
    """The constants at the left edge of a file that have a literal and are given a value once, in their order.

    Raises:
        ParameterError: the file is not Python, or not UTF-8.
    """
    try:
        source.decode()  # the tree counts in bytes of UTF-8, whatever the file's encoding
        tree = parsed(source)
    except REFUSALS as error:
        raise ParameterError(f"it does not parse: {error}") from None
    assert isinstance(tree, ast.Module)
    starts = _line_starts(source)
    by_name: dict[str, Constant] = {}
    bound: list[str] = [name for node in tree.body for name in _bound(node)]
    for node in tree.body:
        name, literal = _assigned(node)
        if not name or literal is None or bound.count(name) > 1:
            continue
        value = ast.literal_eval(literal)
        assert literal.end_lineno is not None and literal.end_col_offset is not None  # the parser gives them
        start = starts[literal.lineno - 1] + literal.col_offset
        end = starts[literal.end_lineno - 1] + literal.end_col_offset
        by_name[name] = Constant(value, node.lineno, start, end)
    return by_name


def put(source: bytes, values: Mapping[str, Value], file: str = "the file") -> bytes:
    """The file with these constants at other values.

    Raises:
        ParameterError: it has no such constant, or one of another kind.
    """
    there = constants(source)
    edits: list[tuple[int, int, bytes]] = []
    for name, value in values.items():
        constant = there.get(name)
        if constant is None:
            names = ", ".join(there) or "none"
            message = f"{file} has no constant {name} with a literal, given a value once, at its left edge"
            raise ParameterError(f"{message} (there is: {names}); write {name} = {value!r} at the top")
        kind = type(constant.value)
        if not _fits(constant.value, value):
            message = f"{name} is {constant.value!r} in {file}, line {constant.line}; {value!r} is no {kind.__name__}"
            raise ParameterError(f"{message}: give {_KINDS[kind]}")
        typed = float(value) if kind is float else value  # a whole number that stands for a fraction is written as one
        if typed != constant.value:
            edits.append((constant.start, constant.end, repr(typed).encode()))
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def variants(source: bytes, parameters: Sequence[Parameter]) -> Iterator[tuple[dict[str, Value], bytes]]:
    """The file once for every combination of values, each with these; the last parameter changes fastest.

    Raises:
        ParameterError: as `put`, or there are more than MAX_VARIANTS.
    """
    if (combinations := count(parameters)) > MAX_VARIANTS:
        raise ParameterError(f"{combinations:,} combinations; at most {MAX_VARIANTS}")
    for values in grid(parameters):
        yield values, put(source, values)


def as_written(source: bytes, parameters: Sequence[Parameter], file: str = "the file") -> dict[str, Value]:
    """The values that a file has now, of these parameters. Raises ParameterError as `put` does, for every value."""
    for parameter in parameters:
        for value in parameter.values:
            put(source, {parameter.name: value}, file)
    there = constants(source)
    return {parameter.name: there[parameter.name].value for parameter in parameters}


def grid(parameters: Sequence[Parameter]) -> Iterator[dict[str, Value]]:
    """Every combination, the last parameter changing fastest."""
    names = [parameter.name for parameter in parameters]
    for values in product(*(parameter.values for parameter in parameters)):
        yield dict(zip(names, values, strict=True))


def count(parameters: Sequence[Parameter]) -> int:
    """How many combinations there are."""
    number = 1
    for parameter in parameters:
        number *= len(parameter.values)
    return number


def words(values: Mapping[str, Value]) -> str:
    """Values as they would be typed: "BLOCK=64 WARPS=4"."""
    return " ".join(
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}" for name, value in values.items()
    )


# -- inside ------------------------------------------------------------------------------------------------------------

_KINDS: Mapping[type, str] = {bool: "True or False", int: "whole numbers", float: "numbers", str: "texts"}


def _value(word: str) -> Value:
    """A literal as it is typed; a word that is none is a text."""
    try:
        literal = ast.literal_eval(word)
    except REFUSALS:
        literal = word
    return literal if isinstance(literal, bool | int | float | str) else word


def _fits(now: Value, value: Value) -> bool:
    """Whether a constant that has the one value may have the other: of the same kind, or a whole number for another."""
    if isinstance(now, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(now) is type(value)


def _assigned(node: ast.stmt) -> tuple[str, ast.expr | None]:
    """The one name that a statement gives a literal, and the literal; ("", None) for any other statement."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target, value = node.target, node.value
    else:
        return "", None
    if not isinstance(target, ast.Name):
        return "", None
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        value = value.args[0] if called in _WRAPPERS else value
    inner = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    plain = isinstance(inner, ast.Constant) and isinstance(inner.value, bool | int | float | str)
    return (target.id, value) if plain else ("", None)


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement at the top gives a value, anywhere in it but within functions and classes; there those
    that are declared global."""
    pending: list[tuple[ast.AST, bool]] = [(node, False)]
    while pending:
        one, inside = pending.pop()
        if isinstance(one, ast.Global):
            yield from one.names
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del) and not inside:
            yield one.id
        elif isinstance(one, ast.Import | ast.ImportFrom) and not inside:
            yield from (alias.asname or alias.name.partition(".")[0] for alias in one.names)
        deeper = inside or isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
        pending += [(child, deeper) for child in ast.iter_child_nodes(one)]


def _line_starts(source: bytes) -> list[int]:
    """Where each line begins, in bytes, as Python counts lines and columns: not with the mark of the encoding."""
    first = len(codecs.BOM_UTF8) if source.startswith(codecs.BOM_UTF8) else 0
    return [first, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", source))]
