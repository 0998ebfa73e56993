"""Contracts: what a run must keep to count as a result, as a TOML file that is checked key by key.

`FIELDS` is the one table of keys: it validates, it writes the commented file that `aisp contract --new` starts with,
and it orders what is shown. A contract's values are kept by dotted key ("environment.gpu"). Its hash is over them in a
canonical form, so that comments, the order of keys and the order of names do not matter. Whether a run keeps a contract
is said by `store.results.contract`. Standard library only: frontends import this.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from . import sources

# One reader of tables and one way to tell what is wrong with them, a lesson's front matter and these files alike.
from .frontmatter import MAX_DOTS, EnoughError, Reader, shown, toml_fix
from .grammar import suggest
from .model import LIMITERS, Problem
from .tensors import DTYPES

MAX_BYTES = 64 * 1024
"""Of a contract or suite as a file, and of a contract's canonical form."""
MAX_WORDS_IN_LIST = 1000
MAX_REPLICAS = 100
SUFFIX = "contract.toml"
"""How the name of a contract's file ends: it may lie beside suites, which are TOML too."""

Value: TypeAlias = str | bool | int | float | tuple[str, ...] | tuple[int, ...]
EnumT = TypeVar("EnumT", bound=enum.StrEnum)


class Layer(enum.StrEnum):
    """How much of a program is measured."""

    MICRO = "micro"  # one kernel, or one operation
    COMPONENT = "component"  # several of them that make one part of a model
    END_TO_END = "end-to-end"  # what a user waits for


BOTTLENECKS = LIMITERS
"""The taxonomy of bottlenecks is that of runs."""


class Variable(enum.StrEnum):
    """The one thing that differs between the measurements that a contract puts side by side."""

    RUNG = "rung"
    SOURCE = "source"
    CASE = "case"
    PRECISION = "precision"
    CACHE = "cache"
    GPU = "gpu"
    DRIVER = "driver"
    VERSIONS = "versions"
    CLOCKS = "clocks"


class ToleranceRule(enum.StrEnum):
    """By whose allowance outputs are judged; the values are those of store.outcomes.TolerancePolicy."""

    STATED = "stated"
    DERIVED = "derived"


class Cache(enum.StrEnum):
    """What the L2 holds before a sample."""

    COLD = "cold"  # flushed, and nothing in it waits to be written back
    DIRTY = "dirty"  # flushed by writing: what the flush wrote is written back while the sample runs
    WARM = "warm"  # what the same call left


class Mode(enum.StrEnum):
    """How much is measured: `quick` takes two replicas and fewer samples."""

    FULL = "full"
    QUICK = "quick"


class Policy(enum.StrEnum):
    """What an environment that is not fit for measuring does: `portable` warns only."""

    STRICT = "strict"
    PORTABLE = "portable"


class Judged(enum.StrEnum):
    """Whose clock the times of a rung must hold by as well."""

    OUTSIDE = "outside"  # the judge's, in another process


class Clocks(enum.StrEnum):
    """Whether somebody holds the clocks of the GPU."""

    LOCKED = "locked"
    UNLOCKED = "unlocked"


class Direction(enum.StrEnum):
    """Which values of a figure are better."""

    HIGHER = "higher"
    LOWER = "lower"


class Metric(enum.StrEnum):
    """The figure that a contract is about, of the run's best rung."""

    SPEEDUP = "speedup"
    MEDIAN_MS = "median_ms"
    SHARE_OF_LIGHT = "share_of_light"
    PEAK_BYTES = "peak_bytes"
    LAUNCHES = "launches"

    @property
    def direction(self) -> Direction:
        """Which values of it are better."""
        return Direction.HIGHER if self in (Metric.SPEEDUP, Metric.SHARE_OF_LIGHT) else Direction.LOWER


# -- reading one value -------------------------------------------------------------------------------------------------

Read: TypeAlias = Callable[[Reader, dict[str, object], str, str], Value | None]
"""The checked value of `table[key]`, which stands at the dotted `place`; None, and a problem, where it will not do."""


def _text(example: str) -> Read:
    def read(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
        fix = f'write {key} = "{example}"'
        text = reader.take(table, key, (str,), place, fix)
        if isinstance(text, str) and text.strip():
            return text.strip()
        if isinstance(text, str):
            reader.wrong(place, "empty", fix)
        return None

    return read


def _words(example: str, *, empty: bool = False, choices: tuple[str, ...] = ()) -> Read:
    """A list of names in which neither order nor repetition matters."""

    def read(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
        fix = f"write {key} = {example}"
        before = len(reader.problems)
        words = reader.words(table, key, place, fix)
        if len(reader.problems) > before:
            return None
        if not words and not empty:
            reader.wrong(place, "empty", fix)
            return None
        if not reader.few(list(words), MAX_WORDS_IN_LIST, place):
            return None
        for word in words:
            if choices and word not in choices:
                reader.wrong(place, f"unknown {key} {shown(word)}", suggest(word, choices, fix))
                return None
        return tuple(sorted(set(words)))

    return read


def _one_of(choices: tuple[str, ...]) -> Read:
    def read(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
        fix = f"use one of {', '.join(choices)}"
        word = reader.take(table, key, (str,), place, fix)
        if isinstance(word, str) and word not in choices:
            reader.wrong(place, f"unknown {key} {shown(word)}", suggest(word, choices, "use a known one"))
            return None
        return word if isinstance(word, str) else None

    return read


def _number(example: str, *, least: float, most: float, above: bool = False) -> Read:
    def read(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
        fix = f"write {key} = {example}"
        number = reader.take(table, key, (int, float), place, fix)
        if not isinstance(number, int | float):
            return None
        if not (least < number if above else least <= number) or not number <= most:  # which a NaN is not
            reader.wrong(place, f"{shown(number)} is out of range", fix)
            return None
        return float(number)

    return read


def _whole(example: str, *, least: int, most: int) -> Read:
    def read(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
        fix = f"write {key} = {example}, from {least} to {most}"
        number = reader.take(table, key, (int,), place, fix)
        if isinstance(number, int) and not least <= number <= most:
            reader.wrong(place, f"{shown(number)} is out of range", fix)
            return None
        return number if isinstance(number, int) else None

    return read


def _looks(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
    fix = f"write {key} = [2, 3, 5]: numbers of replicas, each above the one before; [] for no look before the end"
    looks = reader.take(table, key, (list,), place, fix)
    if not isinstance(looks, list):
        return None
    numbers = [one for one in looks if isinstance(one, int) and not isinstance(one, bool)]
    if numbers != looks or numbers != sorted(set(numbers)) or not all(1 <= one <= MAX_REPLICAS for one in numbers):
        reader.wrong(place, f"{shown(looks)} are no looks", fix)
        return None
    return tuple(numbers)


def _driver(reader: Reader, table: dict[str, object], key: str, place: str) -> Value | None:
    fix = f'write {key} = "550.54": the least version'
    text = reader.take(table, key, (str,), place, fix)
    if isinstance(text, str) and version(text) is None:
        reader.wrong(place, f"{shown(text)} is no version", fix)
        return None
    return text if isinstance(text, str) else None


def version(text: str) -> tuple[int, ...] | None:
    """The numbers of a version, "580.159.04" as (580, 159, 4); None where it is none."""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,5}", text) is None:
        return None
    return tuple(int(part) for part in text.split("."))


# -- all keys ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a contract.

    Attributes:
        key: dotted: "environment.gpu" stands as `gpu` in the table [environment].
        says: what it demands, for the commented file.
        example: a value that would do, as TOML.
        read: checks a value.
        needed: whether a contract must have it.
    """

    key: str
    says: str
    example: str
    read: Read
    needed: bool = False


def _values(kind: type[enum.StrEnum]) -> tuple[str, ...]:
    return tuple(one.value for one in kind)


def _choice(key: str, says: str, kind: type[enum.StrEnum], example: enum.StrEnum, *, needed: bool = False) -> Field:
    choices = _values(kind)
    return Field(key, f"{says}: {', '.join(choices)}", f'"{example}"', _one_of(choices), needed)


_TARGETS = '["ch07:transpose"]'
_DTYPES = '["float32"]'

FIELDS = (
    Field("title", "what a result of this contract is worth, in a line", '"A transpose"', _text("A transpose"), True),
    Field(
        "workload",
        "targets, in the words of `aisp run`: ids, chapters, globs, all",
        _TARGETS,
        _words(_TARGETS),
        True,
    ),
    Field("cases", "cases of them that count; without it any", '["default"]', _words('["default"]')),
    _choice("layer", "how much of a program is measured", Layer, Layer.MICRO, needed=True),
    Field(
        "bottleneck",
        f"what keeps the best rung from being faster: {', '.join(BOTTLENECKS)}",
        '"bytes"',
        _one_of(BOTTLENECKS),
    ),
    _choice("variable", "the one thing that differs between what is compared", Variable, Variable.RUNG, needed=True),
    Field("owners", "who may change this contract", '["kernels team"]', _words('["kernels team"]'), True),
    Field("precision", "dtypes that the outputs may have", _DTYPES, _words(_DTYPES, choices=tuple(DTYPES))),
    Field(
        "imports",
        "all that rungs may import beside their own files: a package, or a module of one",
        '["torch", "triton", "math", "aisp.kernels"]',
        _words('["torch", "triton"]', empty=True),
    ),
    _choice("tolerance.rule", "whose allowance outputs were judged by", ToleranceRule, ToleranceRule.STATED),
    *(
        Field(
            f"tolerance.{dtype}",
            f"most that {dtype} outputs may be off, relative to the reference's RMS; 0 is bit-equal",
            "0.0",
            _number("1e-5, from 0 (bit-equal) to less than 1", least=0.0, most=math.nextafter(1.0, 0.0)),
        )
        for dtype in DTYPES
    ),
    _choice("measuring.cache", "whether the L2 is flushed before each sample", Cache, Cache.COLD),
    _choice("measuring.mode", "how much is measured", Mode, Mode.FULL),
    Field(
        "measuring.replicas",
        "fresh processes that the stop rule allows for each rung, at least",
        "5",
        _whole("5", least=1, most=MAX_REPLICAS),
    ),
    Field(
        "measuring.looks",
        "after how many replicas the comparisons are looked at; [] for none before the end",
        "[2, 3, 5]",
        _looks,
    ),
    _choice("measuring.policy", "what an unfit environment does to a run", Policy, Policy.STRICT),
    _choice("measuring.judged", "where every rung that was timed was judged", Judged, Judged.OUTSIDE),
    Field("environment.gpu", "model of the GPU", '"H100"', _text("H100")),
    Field("environment.driver", "least version of the driver", '"550.54"', _driver),
    _choice("environment.clocks", "whether the GPU's clocks are held", Clocks, Clocks.UNLOCKED),
    Field(
        "environment.temperature_c",
        "most that the GPU may have had during the run, in degrees Celsius",
        "85.0",
        _number("85, from 1 to 150", least=1.0, most=150.0),
    ),
    _choice("kpi.metric", "the figure that counts, of the best rung", Metric, Metric.SPEEDUP, needed=True),
    _choice("kpi.direction", "which values of it are better", Direction, Direction.HIGHER),
    Field(
        "kpi.target",
        "the value that is wanted; without it any will do",
        "1.5",
        _number("1.5, above 0", least=0.0, most=1e18, above=True),
    ),
)
KEYS = {one.key: one for one in FIELDS}
GROUPS = tuple(dict.fromkeys(key.partition(".")[0] for key in KEYS if "." in key))


@dataclass(frozen=True, slots=True)
class Contract:
    """What a run must keep.

    Attributes:
        name: of its file, without what all such names end with.
        values: by dotted key, in the order of FIELDS; a key that is not there demands nothing.
        path: the file; None for one that was frozen into a run.
        lines: on which line of the file each key stands.
    """

    name: str
    values: Mapping[str, Value]
    path: Path | None = field(default=None, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def title(self) -> str:
        """What a result is worth, in a line."""
        return str(self.values["title"])

    @property
    def workload(self) -> tuple[str, ...]:
        """Words that mean targets (choosing.meant)."""
        return self.words("workload")

    @property
    def layer(self) -> Layer:
        """How much of a program is measured."""
        return Layer(str(self.values["layer"]))

    @property
    def bottleneck(self) -> str:
        """One of BOTTLENECKS; "" where it says none."""
        return str(self.values.get("bottleneck", ""))

    @property
    def variable(self) -> Variable:
        """The one thing that differs."""
        return Variable(str(self.values["variable"]))

    @property
    def metric(self) -> Metric:
        """The figure that counts."""
        return Metric(str(self.values["kpi.metric"]))

    @property
    def target(self) -> float | None:
        """The value of it that is wanted; None where any will do."""
        value = self.values.get("kpi.target")
        return value if isinstance(value, float) else None

    def words(self, key: str) -> tuple[str, ...]:
        """The names of a key; none where it is not there."""
        value = self.values.get(key, ())
        return tuple(str(one) for one in value) if isinstance(value, tuple) else ()

    def place(self, key: str) -> str:
        """Where a key stands, for a message: "contract.toml:12", or the contract's name where there is no file."""
        if self.path is None:
            return f"contract {self.name}"
        line = self.lines.get(key) or self.lines.get(key.partition(".")[0])
        return self.path.name if line is None else f"{self.path.name}:{line}"

    def document(self) -> dict[str, object]:
        """The contract as plain data, nested as in its file."""
        tables: dict[str, object] = {}
        for key, value in self.values.items():
            group, _, name = key.rpartition(".")
            table = tables.setdefault(group, {}) if group else tables
            assert isinstance(table, dict)
            table[name] = list(value) if isinstance(value, tuple) else value
        return tables

    @property
    def sha256(self) -> str:
        """Hash of the canonical form, in hexadecimal: the same whatever the comments and whatever the order of keys."""
        return digest(self.document())

    def frozen(self) -> dict[str, object]:
        """Plain data as a run's manifest has it."""
        return {"name": self.name, "sha256": self.sha256, "document": self.document()}


def digest(document: Mapping[str, object]) -> str:
    """The sha256 of a contract's plain data in canonical form, in hexadecimal. TypeError, ValueError: it has none."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[Contract | None, tuple[Problem, ...]]:
    """The contract in a file, or everything that is wrong with it. Raises OSError where it cannot be read."""
    return parse(sources.read_bytes(str(path)), path)


def parse(data: bytes, path: Path) -> tuple[Contract | None, tuple[Problem, ...]]:
    """The contract that the file `path` holds with these bytes, or everything that is wrong with it."""
    reader = Reader(path)
    try:
        content = toml(reader, data)
        if content is None:
            return None, tuple(reader.problems)
        values = _validate(reader, content)
    except EnoughError:
        return None, tuple(reader.problems)
    if reader.problems:
        return None, tuple(reader.problems)
    return Contract(name_of(path), values, path, lines_of(data.decode("utf-8-sig"))), ()


def of_document(document: Mapping[str, object], name: str, path: Path | None = None) -> tuple[Contract | None, str]:
    """The contract that plain data says, as a run's manifest has it, or a sentence on what is wrong with it."""
    contract, problems = checked(document, name, path or Path(name))
    return contract, str(problems[0]) if problems else ""


def checked(document: Mapping[str, object], name: str, path: Path) -> tuple[Contract | None, tuple[Problem, ...]]:
    """The contract that plain data says, or everything that is wrong with it; `path` is what is blamed."""
    reader = Reader(path)
    try:
        values = _validate(reader, dict(document))
    except EnoughError:
        return None, tuple(reader.problems)
    return (None if reader.problems else Contract(name, values)), tuple(reader.problems)


def toml(reader: Reader, data: bytes) -> dict[str, object] | None:
    """The tables of a TOML file, None and a problem where it is none. What it may announce is bounded."""
    if len(data) > MAX_BYTES:
        reader.wrong("", f"the file has {len(data):,} bytes", f"keep it within {MAX_BYTES:,}")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reader.wrong("", f"byte {error.start} is not UTF-8", "save the file as UTF-8")
        return None
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        reader.wrong("", f"a line has more than {MAX_DOTS} dots", "break it up, or shorten the dotted key")
        return None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a plain ValueError where a number has thousands of digits
        message = (str(error) if isinstance(error, ValueError) else "") or "nested too deeply"
        reader.wrong("", f"not TOML: {message[0].lower()}{message[1:]}", toml_fix(message, text))
        return None


def name_of(path: Path) -> str:
    """What a contract or suite is called by its file: "tier1" of tier1.toml, and of tier1.contract.toml."""
    return path.name.removesuffix(".toml").removesuffix(".contract") or path.name


def _validate(reader: Reader, content: dict[str, object]) -> dict[str, Value]:
    """The values of a contract by dotted key; what is wrong with them becomes problems of `reader`."""
    reader.unknown(content, tuple(key for key in KEYS if "." not in key) + GROUPS, "")
    values: dict[str, Value] = {}
    tables: dict[str, dict[str, object]] = {"": content}
    for group in GROUPS:
        table = reader.take(content, group, (dict,), group, f"write a table [{group}] with its keys below it")
        tables[group] = table if isinstance(table, dict) else {}
        names = tuple(key.partition(".")[2] for key in KEYS if key.startswith(f"{group}."))
        reader.unknown(tables[group], names, f"{group}.")
    for one in FIELDS:
        group, _, name = one.key.rpartition(".")
        if name in tables[group]:
            value = one.read(reader, tables[group], name, one.key)
            if value is not None:
                values[one.key] = value
        elif one.needed and (not group or group not in content or isinstance(content[group], dict)):
            reader.wrong(one.key, "missing", f"write {name} = {one.example}" + (f" below [{group}]" if group else ""))
    for key, message, fix in _contradictions(values):
        reader.wrong(key, message, fix)
    return values


_HELD_BY = {
    Variable.GPU: "environment.gpu",
    Variable.CLOCKS: "environment.clocks",
    Variable.CACHE: "measuring.cache",
}
"""What must not be held where it is the variable."""
_NEEDS_TWO = {Variable.CASE: "cases", Variable.PRECISION: "precision"}
"""What must have several values where it is the variable."""


def _contradictions(values: Mapping[str, Value]) -> list[tuple[str, str, str]]:
    """Keys that cannot both be kept: the key, what is wrong, and what would work."""
    clash: list[tuple[str, str, str]] = []
    variable = values.get("variable")
    for what, key in _HELD_BY.items():
        if variable == what and key in values:
            clash.append(
                (key, f"holds the {what}, which is the variable", f"leave {key} out, or name another variable")
            )
    for what, key in _NEEDS_TWO.items():
        allowed = values.get(key)
        if variable == what and isinstance(allowed, tuple) and len(allowed) < 2:
            message = f"allows one {what} alone, which is the variable"
            clash.append((key, message, f"name two or more in {key}, or name another variable"))
    metric, direction = values.get("kpi.metric"), values.get("kpi.direction")
    if metric is not None and direction is not None and direction != Metric(str(metric)).direction:
        better = Metric(str(metric)).direction
        clash.append(("kpi.direction", f"a {direction} {metric} is not better", f'write direction = "{better}"'))
    looks, replicas = values.get("measuring.looks"), values.get("measuring.replicas")
    if isinstance(looks, tuple) and looks and isinstance(replicas, int) and replicas > int(looks[-1]):
        message = f"{replicas} replicas can never be had: the last look is after {looks[-1]}"
        clash.append(("measuring.replicas", message, f"write replicas = {looks[-1]}, or add a look"))
    return clash


_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*\]\s*(?:#.*)?\Z")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")
_MULTILINE = re.compile(r'"""|\'\'\'')


def lines_of(text: str) -> dict[str, int]:
    """On which line of a TOML text each bare key first stands, by dotted key; tables stand on their heads' lines.

    A key within an inline table has no line of its own.
    """
    numbers: dict[str, int] = {}
    table, inside = "", ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not inside:
            if head := _TABLE.match(line.rstrip("\r")):
                table = re.sub(r"\s", "", head[1])
                numbers.setdefault(table, number)
            elif key := _KEY.match(line):
                name = re.sub(r"\s", "", key[1])
                numbers.setdefault(f"{table}.{name}" if table else name, number)
        for sign in _MULTILINE.findall(line):
            inside = "" if inside == sign else inside or sign
    return numbers


# -- writing -----------------------------------------------------------------------------------------------------------


def example() -> Contract:
    """A contract to start from: what is needed, and what most want to hold."""
    usual = ("measuring.cache", "measuring.mode", "measuring.policy", "imports", "kpi.direction")
    text = "".join(f"{one.key} = {one.example}\n" for one in FIELDS if one.needed or one.key in usual)
    values = _validate(Reader(Path(SUFFIX)), tomllib.loads(text))
    return Contract("contract", values)


def render(contract: Contract) -> str:
    """The contract as a commented file; a key that it does not have stands there as a comment with an example."""
    lines = [
        "# What a run must keep to count as a result of this contract. `aisp contract FILE RUN` says whether one",
        "# does; a key that is left out demands nothing.",
    ]
    group = ""
    for one in FIELDS:
        table, _, name = one.key.rpartition(".")
        if one.key.startswith("tolerance.") and name in DTYPES and name != "float32" and one.key not in contract.values:
            continue  # one dtype shows how it is written
        if table != group:
            lines += ["", f"[{table}]"]
            group = table
        elif not table:
            lines.append("")
        value = contract.values.get(one.key)
        written = f"# {name} = {one.example}" if value is None else f"{name} = {as_toml(value)}"
        lines += [f"# {one.says}", written]
    return "\n".join(lines) + "\n"


def as_toml(value: Value) -> str:
    """One value as TOML writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(as_toml(one) for one in value)}]"
    if isinstance(value, str):  # TOML's strings are JSON's, but for this sign
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


# -- comparing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """A key in which two contracts differ; None where one does not have it."""

    key: str
    a: Value | None
    b: Value | None


def diff(a: Contract, b: Contract) -> list[Changed]:
    """The keys in which two contracts differ, in the order of FIELDS."""
    pairs = ((key, a.values.get(key), b.values.get(key)) for key in KEYS)
    return [Changed(key, left, right) for key, left, right in pairs if left != right]
