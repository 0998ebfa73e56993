"""Front matter: TOML between two +++ lines at the head of lesson.md, checked key by key.

`read` collects everything that is wrong with a file, each as a `Problem` with its key and fix, so that a
lesson with three slips is repaired in one go. What a file may announce is bounded, because a frontend reads what lies
in a folder: reading takes some milliseconds and a few megabytes, and at worst a second, whatever the file holds.
"""

from __future__ import annotations

import codecs
import re
import sys
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from .grammar import GrammarError, evaluate, is_axis_name, suggest
from .model import (
    LIMITERS,
    MAX_RANKS,
    PRECISIONS,
    UNCOUNTED,
    Case,
    Expectation,
    Extent,
    Fuzz,
    Goal,
    Judged,
    JudgedAs,
    Link,
    LinkKind,
    Needs,
    OwnRule,
    Problem,
    RungExpectation,
    TensorSpec,
)
from .parameters import MAX_PARAMETERS, Parameter, ParameterError
from .tensors import DEFAULT_TOLERANCE, check_values, parse_tensor, shape

MAX_LESSON_BYTES = 2**20
MAX_MATTER = 64 * 1024  # characters between the two fences; the largest lesson that is shipped has 2 400
MAX_DOTS = 100  # in one line: the TOML parser's memory grows with the square of a dotted key's parts
MAX_PROBLEMS = 100  # reported of one file; each may look for the nearest of many names
MAX_WORDS = 2000  # characters of one problem's message or fix
MAX_AXIS = 2**48
MAX_AXES = 64  # every case holds all of them
MAX_CASES = 256
MAX_TENSORS = 64  # inputs, and outputs; every case has the shapes of all of them
MAX_RUNGS = 256
MAX_LINKS = 16

KEYS = (
    *("title", "formerly", "techniques", "goal", "needs", "ranks", "axes", "flops", "bytes", "precision", "tolerance"),
    *("expect", "inputs", "outputs", "cases", "rungs", "fuzz", "judged", "rule", "link", "link_in", "link_out"),
    "links",
)
_NEEDS_KEYS = ("sm", "gpus")
_EXPECT_KEYS = ("speedup", "on", "why", "memory")
_EXPECT_NEEDS = _EXPECT_KEYS[:3]
_CASE_KEYS = ("name", "axes", "timed")
_RUNG_KEYS = ("summary", "needs", "inexact", "supports", "instructions", "formerly", "expect", "parameters")
_RUNG_EXPECT_KEYS = ("ms", "limiter", "counters")
_FUZZ_KEYS = ("axes", "dtypes", "layouts", "independent", "linear", "shift", "finite", "backward")
_EXTENT_KEYS = ("least", "most", "multiple")
_RULE_KEYS = ("name", "alone", "compared")
_JUDGED_KEYS = ("as", "of", "values", "keep", "seed")
FUZZ_DTYPES = ("float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2")
LAYOUTS = ("transposed", "sliced", "offset", "expanded")
_CASE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_FENCE = re.compile(r"^\+\+\+[ \t]*\r?$", re.MULTILINE)
_AT_LINE = re.compile(r"at line (\d{1,7}), column \d{1,7}\)\Z")
_TYPES = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


@dataclass(slots=True)
class RungNotes:
    """What `[rungs.<name>]` says of a rung; `needs` is None where it says nothing."""

    summary: str = ""
    needs: Needs | None = None
    inexact: bool = False
    supports: dict[str, Extent] = field(default_factory=dict)
    instructions: tuple[str, ...] = ()
    formerly: str = ""
    expect: RungExpectation | None = None
    parameters: tuple[Parameter, ...] = ()


@dataclass(slots=True)
class FrontMatter:
    """The checked content of one lesson.md."""

    title: str = ""
    formerly: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()
    goal: Goal = Goal.SPEED
    needs: Needs = field(default_factory=Needs)
    flops: str = "0"
    bytes: str = ""
    tolerance: dict[str, float] = field(default_factory=lambda: dict(DEFAULT_TOLERANCE))
    expect: Expectation | None = None
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    cases: tuple[Case, ...] = ()
    rungs: dict[str, RungNotes] = field(default_factory=dict)
    fuzz: Fuzz = field(default_factory=Fuzz)
    judged: dict[str, Judged] = field(default_factory=dict)
    rule: OwnRule | None = None
    stated: frozenset[str] = frozenset()  # dtypes that `tolerance` names
    ranks: int = 1
    precision: str = ""
    link: Link | None = None
    links: tuple[str, ...] = ()
    lesson: str = ""


class EnoughError(Exception):
    """So much is wrong with a file that the rest need not be looked at."""


class RefusedError(Exception):
    """It cannot be taken; what was collected says why."""


class Collector:
    """What is wrong with a problem or an answer of others, as it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def wrong(self, place: int | str, message: str, fix: str, path: Path | None = None) -> None:
        """Collect a problem: of a key, or of a line, of which 0 stands for the whole file."""
        if len(self.problems) < MAX_PROBLEMS:
            place = f"line {place}" if place and isinstance(place, int) else place or ""
            self.problems.append(Problem(path or self.path, place, message, fix))

    def refuse(self, place: int | str, message: str, fix: str) -> RefusedError:
        """Collect a problem that ends the reading."""
        self.wrong(place, message, fix)
        return RefusedError()

    def ended(self, error: Exception) -> tuple[Problem, ...]:
        """All that is wrong, where `error` ended the reading."""
        if isinstance(error, RecursionError):
            self.wrong(0, "an expression is nested too deeply", "break the deepest one up")
        return tuple(self.problems)

    def hold(self) -> None:
        """Raise RefusedError where anything is wrong so far."""
        if self.problems:
            raise RefusedError


class Reader:
    """One pass over one file, collecting problems."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def wrong(self, key: str, message: str, fix: str) -> None:
        """Collect a problem. Raises EnoughError after the last one that is reported."""
        self.problems.append(Problem(self.path, _cut(key, 200), _cut(message, MAX_WORDS), _cut(fix, MAX_WORDS)))
        if len(self.problems) >= MAX_PROBLEMS:
            self.problems.append(Problem(self.path, "", "there is more", "repair these first, then look again"))
            raise EnoughError

    def few(self, entries: dict[str, object] | list[object], most: int, place: str) -> bool:
        """Whether `given` has at most `most` entries; else a problem."""
        if len(entries) > most:
            self.wrong(place, f"{len(entries)} of them", f"keep to {most}")
        return len(entries) <= most

    def take(self, table: dict[str, object], key: str, kinds: tuple[type, ...], place: str, fix: str) -> object:
        """`table[key]` where it is of one of `kinds` (a bool is no number), else None and a problem."""
        if key not in table:
            return None
        value = table[key]
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return value
        self.wrong(place, f"{shown(value)} is {_kind(value)}, not {' or '.join(_TYPES[kind] for kind in kinds)}", fix)
        return None

    def unknown(self, table: dict[str, object], keys: tuple[str, ...], prefix: str) -> None:
        for key in table:
            if key not in keys:
                self.wrong(f"{prefix}{key}", "unknown key", suggest(key, keys, "remove it"))

    def tables(self, content: dict[str, object]) -> FrontMatter:
        matter = FrontMatter()
        self.unknown(content, KEYS, "")
        self._words(content, matter)
        matter.needs = self.needs(content, "needs") or Needs()
        self._tolerance(content, matter)
        self._expect(content, matter)
        before = len(self.problems)
        axes = self._axes(content.get("axes", {}), "axes")
        axes_hold = len(self.problems) == before
        matter.cases = self._cases(content, axes, axes_hold)
        # Without its axes no expression has a value: one slip is then reported once, not once per tensor.
        cases = matter.cases if axes_hold else ()
        matter.inputs = self._tensors(content, "inputs", cases)
        matter.outputs = self._tensors(content, "outputs", cases)
        self._outputs_over_inputs(matter)
        matter.flops = self._expression(content, "flops", cases)
        matter.bytes = self._expression(content, "bytes", cases)
        matter.link = self._link(content, cases)
        self._rungs(content, matter, axes)
        self._ranks(content, matter)
        self._fuzz(content, matter, axes)
        self._judged(content, matter)
        matter.rule = self._rule(content)
        matter.links = self._links(content)
        return matter

    def _link(self, content: dict[str, object], cases: tuple[Case, ...]) -> Link | None:
        """The link that bytes must cross, and how many of them."""
        kinds = tuple(kind.value for kind in LinkKind)
        fix = f'write link = "pcie", one of {" or ".join(kinds)}, and link_in = "4*M*N": the bytes over it'
        over = self.take(content, "link", (str,), "link", fix)
        amounts = {key: self._expression(content, key, cases) for key in ("link_in", "link_out")}
        if "link" not in content:
            for key in amounts:
                if key in content:
                    self.wrong(key, "there is no link that they cross", fix)
            return None
        if not isinstance(over, str):
            return None
        if over not in kinds:
            self.wrong("link", f"unknown link {over!r}", suggest(over, kinds, fix))
            return None
        if not any(amounts.values()):
            self.wrong("link", "no bytes cross it", 'write link_in = "4*M*N", link_out = "4*M*N", or both')
            return None
        return Link(LinkKind(over), amounts["link_in"] or "0", amounts["link_out"] or "0")

    def _links(self, content: dict[str, object]) -> tuple[str, ...]:
        """Links to folders elsewhere that a rung needs, by their names in the target's folder."""
        fix = 'write links = ["common"]: the name that a link to a folder elsewhere has in this one'
        names = self.words(content, "links", "links", fix)
        if not self.few(list(names), MAX_LINKS, "links"):
            return ()
        for name in names:
            if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
                self.wrong("links", f"{name!r} names nothing in this folder", fix)
        return names

    def _ranks(self, content: dict[str, object], matter: FrontMatter) -> None:
        """How many processes a rung has; each gets its slice of every tensor."""
        fix = f"write ranks = 2 (1 to {MAX_RANKS}), or leave it out where one process does all"
        ranks = self.take(content, "ranks", (int,), "ranks", fix)
        if not isinstance(ranks, int):
            return
        if not 1 <= ranks <= MAX_RANKS:
            self.wrong("ranks", f"{shown(ranks)} ranks", fix)
            return
        matter.ranks = ranks
        for spec in (*matter.inputs, *matter.outputs) if ranks > 1 else ():
            if spec.made or not spec.dims or spec.dims[0] != str(ranks):
                message = f"{spec.name} has no leading dimension of {ranks}"
                self.wrong("ranks", message, f"write [{ranks}, ...]: every rank gets its slice of every tensor")

    def _words(self, content: dict[str, object], matter: FrontMatter) -> None:
        fix = 'write title = "what the optimized version does differently"'
        title = self.take(content, "title", (str,), "title", fix)
        if isinstance(title, str) and title.strip():
            matter.title = title.strip()
        elif "title" not in content or isinstance(title, str):
            self.wrong("title", "missing" if "title" not in content else "empty", fix)
        fix = 'write formerly = ["ch07:old_name"]: what results from before its folder was renamed call it'
        if isinstance(word := content.get("formerly"), str):
            content = {**content, "formerly": [word]}
        matter.formerly = self.words(content, "formerly", "formerly", fix)
        fix = 'write techniques = ["coalescing", "shared-memory-tile"]'
        matter.techniques = self.words(content, "techniques", "techniques", fix)
        precision = self.take(content, "precision", (str,), "precision", f"use one of {', '.join(PRECISIONS)}")
        if isinstance(precision, str):
            if precision in PRECISIONS:
                matter.precision = precision
            else:
                fix = suggest(precision, PRECISIONS, f"use one of {', '.join(PRECISIONS)}")
                self.wrong("precision", f"unknown precision {precision!r}", fix)
        goals = tuple(goal.value for goal in Goal)
        goal = self.take(content, "goal", (str,), "goal", f"use one of {', '.join(goals)}")
        if isinstance(goal, str):
            if goal in goals:
                matter.goal = Goal(goal)
            else:
                self.wrong("goal", f"unknown goal {goal!r}", suggest(goal, goals, "use a known one"))

    def words(self, table: dict[str, object], key: str, place: str, fix: str) -> tuple[str, ...]:
        """A list of words, empty where it is absent or wrong."""
        values = self.take(table, key, (list,), place, fix)
        if not isinstance(values, list):
            return ()
        if not all(isinstance(word, str) and word.strip() for word in values):
            self.wrong(place, f"{shown(values)} holds something other than words", fix)
            return ()
        return tuple(word.strip() for word in values)

    def needs(self, table: dict[str, object], place: str) -> Needs | None:
        """The `needs` of a target or rung, None where it is absent or wrong."""
        fix = "write needs = { sm = 80, gpus = 1 }, or leave it out where a CPU is enough"
        entries = self.take(table, "needs", (dict,), place, fix)
        if not isinstance(entries, dict):
            return None
        self.unknown(entries, _NEEDS_KEYS, f"{place}.")
        sm = self.take(entries, "sm", (int,), f"{place}.sm", "write 80 for compute capability 8.0")
        if isinstance(sm, int) and not 50 <= sm <= 200:
            self.wrong(
                f"{place}.sm",
                f"{shown(sm)} is no compute capability times ten",
                "write 80 for compute capability 8.0",
            )
            return None
        assert sm is None or isinstance(sm, int)
        gpus = self.take(entries, "gpus", (int,), f"{place}.gpus", "write how many GPUs a call uses, for example 1")
        if isinstance(gpus, int) and not 0 <= gpus <= 1024:
            self.wrong(f"{place}.gpus", f"{shown(gpus)} is no number of GPUs", "write 0 to 1024")
            return None
        # sm without gpus is meant: a CPU is enough, and the rungs that do use a GPU need that one.
        return Needs(sm=sm, gpus=gpus if isinstance(gpus, int) else 0)

    def _tolerance(self, content: dict[str, object], matter: FrontMatter) -> None:
        fix = "write tolerance = { float32 = 1e-6 }; 0 means bit-equal"
        entries = self.take(content, "tolerance", (dict,), "tolerance", fix)
        if not isinstance(entries, dict):
            return
        for dtype in entries:
            place = f"tolerance.{dtype}"
            if dtype not in DEFAULT_TOLERANCE:
                self.wrong(place, f"unknown dtype {dtype!r}", suggest(dtype, DEFAULT_TOLERANCE, "use a dtype"))
                continue
            number = self.take(entries, dtype, (int, float), place, fix)
            if isinstance(number, int | float):
                if 0 <= number < 1:  # which a NaN is not
                    matter.tolerance[dtype] = float(number)
                    matter.stated |= {dtype}
                else:
                    self.wrong(place, f"{shown(number)} is no relative tolerance", "use 0 (bit-equal) to less than 1")

    def _expect(self, content: dict[str, object], matter: FrontMatter) -> None:
        fix = 'write expect = { speedup = [1.5, 3.0], on = "H100", why = "half the bytes" }'
        entries = self.take(content, "expect", (dict,), "expect", fix)
        if not isinstance(entries, dict):
            return
        self.unknown(entries, _EXPECT_KEYS, "expect.")
        for key in _EXPECT_NEEDS:
            if key not in entries:
                self.wrong(f"expect.{key}", "missing", fix)
        speedup = self.take(entries, "speedup", (list,), "expect.speedup", fix)
        on = self.take(entries, "on", (str,), "expect.on", fix)
        why = self.take(entries, "why", (str,), "expect.why", fix)
        ranges = {"speedup": self._range(speedup, "expect.speedup")}
        if "memory" in entries:
            ranges["memory"] = self._range(self.take(entries, "memory", (list,), "expect.memory", fix), "expect.memory")
        bounds = [ranges["speedup"], ranges.get("memory")]
        if bounds[0] is not None and all(ranges.values()) and isinstance(on, str) and isinstance(why, str):
            matter.expect = Expectation(bounds[0], on, why, bounds[1])

    def _range(self, value: object, place: str) -> tuple[float, float] | None:
        if not isinstance(value, list):
            return None
        # Compared before they become floats: an integer may be larger than any.
        numbers = [x for x in value if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(numbers) != 2 or len(value) != 2 or not 0 < numbers[0] <= numbers[1] <= sys.float_info.max:
            self.wrong(place, f"{shown(value)} is no range", "write [low, high], both above 0, low first")
            return None
        return float(numbers[0]), float(numbers[1])

    def _axes(self, table: object, place: str) -> dict[str, int]:
        fix = "write axes = { M = 8192, N = 8192 }"
        if not isinstance(table, dict):
            self.wrong(place, f"{shown(table)} is {_kind(table)}, not a table", fix)
            return {}
        if not self.few(table, MAX_AXES, place):
            return {}
        axes: dict[str, int] = {}
        for name, value in table.items():
            if not is_axis_name(name):
                self.wrong(
                    f"{place}.{name}", f"{shown(name)} cannot name an axis", "use an ASCII name such as M or HEADS"
                )
            elif isinstance(value, bool) or not isinstance(value, int):
                self.wrong(f"{place}.{name}", f"{shown(value)} is {_kind(value)}, not a whole number", fix)
            elif not 0 <= value <= MAX_AXIS:
                self.wrong(f"{place}.{name}", f"{shown(value)} is out of range", f"use 0 to {MAX_AXIS}")
            else:
                axes[name] = value
        return axes

    def _cases(self, content: dict[str, object], axes: dict[str, int], axes_hold: bool) -> tuple[Case, ...]:
        cases = [Case("default", axes)]
        fix = 'write [[cases]], then name = "ragged" and axes = { M = 1023 }'
        entries = self.take(content, "cases", (list,), "cases", fix)
        if not isinstance(entries, list) or not self.few(entries, MAX_CASES, "cases"):
            entries = []
        for index, entry in enumerate(entries):
            place = f"cases[{index}]"
            if not isinstance(entry, dict):
                self.wrong(place, f"{shown(entry)} is {_kind(entry)}, not a table", fix)
                continue
            name = self.take(entry, "name", (str,), f"{place}.name", fix)
            if "name" not in entry:
                self.wrong(f"{place}.name", "missing", fix)
            elif isinstance(name, str):
                place = f"cases.{name}"
                if not _CASE_NAME.match(name):
                    self.wrong(place, f"{name!r} cannot name a case", "use letters, digits, - and _")
                elif name == "default":
                    self.wrong(place, "the name is taken", "the default case is [axes] itself; use another name")
                elif any(case.name == name for case in cases):
                    self.wrong(place, "there are two cases of that name", "rename one")
            self.unknown(entry, _CASE_KEYS, f"{place}.")
            changed = self._axes(entry.get("axes", {}), f"{place}.axes")
            for axis in [axis for axis in changed if axis not in axes and axes_hold]:
                self.wrong(f"{place}.axes.{axis}", "not among [axes]", suggest(axis, axes, "define it in [axes]"))
                del changed[axis]
            timed = self.take(entry, "timed", (bool,), f"{place}.timed", "write timed = false, or leave it out")
            cases.append(Case(name if isinstance(name, str) else place, {**axes, **changed}, timed is not False))
        return tuple(cases)

    def _tensors(self, content: dict[str, object], key: str, cases: tuple[Case, ...]) -> tuple[TensorSpec, ...]:
        output = key == "outputs"
        fix = f"write [{key}], then " + ('y = "float32 [M, N]"' if output else 'x = "float32 [M, N] normal"')
        lines = self.take(content, key, (dict,), key, fix)
        if key not in content or (output and lines == {}):
            self.wrong(key, "missing" if key not in content else "empty", fix)
        if not isinstance(lines, dict) or not self.few(lines, MAX_TENSORS, key):
            lines = {}
        specs: list[TensorSpec] = []
        for name, line in lines.items():
            place = f"{key}.{name}"
            if not name.isidentifier():
                self.wrong(place, f"{name!r} cannot name an argument", "use a Python name such as x")
            elif not isinstance(line, str):
                # A key below a [table] header belongs to that table, whatever was meant.
                moved = f"move {name} above the first [table]" if name in KEYS else fix
                self.wrong(place, f"{shown(line)} is {_kind(line)}, not a tensor line", moved)
            else:
                try:
                    spec = parse_tensor(name, line, output=output)
                    for case in cases if spec.shaped else ():
                        with _Naming(case):
                            shape(spec, case.axes)
                            check_values(spec, case.axes)
                except GrammarError as error:
                    moved = f"move {name} above the first [table]" if name in KEYS else error.fix
                    self.wrong(place, error.message, moved)
                else:
                    specs.append(spec)
        return tuple(specs)

    def _outputs_over_inputs(self, matter: FrontMatter) -> None:
        """An output may carry the name of an input only where the call writes to that input."""
        inputs = {spec.name: spec for spec in matter.inputs}
        for spec in matter.outputs:
            same = inputs.get(spec.name)
            if same is None:
                continue
            place = f"outputs.{spec.name}"
            if "mutable" not in same.flags:
                self.wrong(place, "an input has that name and is not mutable", "rename it, or flag the input mutable")
            elif same.shaped and (same.dtype, same.dims) != (spec.dtype, spec.dims):
                dims = f"{same.dtype} [{', '.join(same.dims)}]"
                self.wrong(place, "it differs from the mutable input of that name", f'write "{dims}"')

    def _expression(self, content: dict[str, object], key: str, cases: tuple[Case, ...]) -> str:
        example = "2*M*N" if key == "flops" else "2*M*N*4"
        fix = f'write {key} = "{example}"'
        if key not in content:
            if key == "flops":
                self.wrong(key, "missing", f'{fix}, or "0" where a call only moves data')
                return "0"
            return ""
        raw = self.take(content, key, (str, int, float), key, fix)
        if raw is None:
            return "0" if key == "flops" else ""
        text = raw.strip() if isinstance(raw, str) else shown(raw)
        if key == "flops" and text == UNCOUNTED:
            return text
        try:
            for case in cases:
                with _Naming(case):
                    value = evaluate(text, case.axes)
                    if value < 0:
                        raise GrammarError(f"{text!r} is {value}", "it cannot be below 0")
        except GrammarError as error:
            self.wrong(key, error.message, error.fix)
        return text

    def _rungs(self, content: dict[str, object], matter: FrontMatter, axes: dict[str, int]) -> None:
        fix = 'write [rungs.optimized], then summary = "one tile per block"'
        tables = self.take(content, "rungs", (dict,), "rungs", fix)
        if not isinstance(tables, dict) or not self.few(tables, MAX_RUNGS, "rungs"):
            tables = {}
        for name, notes in tables.items():
            place = f"rungs.{name}"
            if not isinstance(notes, dict):
                self.wrong(place, f"{shown(notes)} is {_kind(notes)}, not a table", fix)
                continue
            self.unknown(notes, _RUNG_KEYS, f"{place}.")
            summary = self.take(notes, "summary", (str,), f"{place}.summary", fix)
            inexact = self.take(notes, "inexact", (bool,), f"{place}.inexact", "write inexact = true, or leave it out")
            as_before = 'write formerly = "baseline_old", its name in results from before'
            formerly = self.take(notes, "formerly", (str,), f"{place}.formerly", as_before)
            as_ptx = 'write instructions = ["wgmma.mma_async"]: what its PTX must hold'
            matter.rungs[name] = RungNotes(
                summary=summary.strip() if isinstance(summary, str) else "",
                needs=self.needs(notes, f"{place}.needs"),
                inexact=inexact is True,
                supports=self._extents(notes, "supports", f"{place}.supports", axes),
                instructions=self.words(notes, "instructions", f"{place}.instructions", as_ptx),
                formerly=formerly.strip() if isinstance(formerly, str) else "",
                expect=self._rung_expect(notes, f"{place}.expect"),
                parameters=self._parameters(notes, f"{place}.parameters"),
            )

    def _parameters(self, notes: dict[str, object], place: str) -> tuple[Parameter, ...]:
        """Constants of a rung and the values to try: `{ BLOCK = [64, 128] }`."""
        fix = "write parameters = { BLOCK = [64, 128] }: a constant at the top of its file, and the values to try"
        table = self.take(notes, "parameters", (dict,), place, fix)
        if not isinstance(table, dict) or not self.few(table, MAX_PARAMETERS, place):
            return ()
        parameters: list[Parameter] = []
        for name, values in table.items():
            if not isinstance(values, list) or not all(isinstance(value, bool | int | float | str) for value in values):
                self.wrong(f"{place}.{name}", f"{shown(values)} is no list of numbers or texts", fix)
                continue
            try:
                parameters.append(Parameter(str(name), tuple(values)))
            except ParameterError as error:
                self.wrong(f"{place}.{name}", str(error), fix)
        return tuple(parameters)

    def _rung_expect(self, notes: dict[str, object], place: str) -> RungExpectation | None:
        """What is predicted of one rung: `{ ms = [0.19, 0.23], limiter = "bytes" }`."""
        fix = 'write expect = { ms = [0.19, 0.23], limiter = "bytes" }'
        entries = self.take(notes, "expect", (dict,), place, fix)
        if not isinstance(entries, dict):
            return None
        self.unknown(entries, _RUNG_EXPECT_KEYS, f"{place}.")
        if not entries:
            self.wrong(place, "it predicts nothing", fix)
        ms = self._range(self.take(entries, "ms", (list,), f"{place}.ms", fix), f"{place}.ms")
        limiter = self.take(entries, "limiter", (str,), f"{place}.limiter", fix)
        if isinstance(limiter, str) and limiter not in LIMITERS:
            hint = suggest(limiter, LIMITERS, f"use one of {', '.join(LIMITERS)}")
            self.wrong(f"{place}.limiter", f"unknown limiter {limiter!r}", hint)
        fix = 'write counters = { "name of a counter" = [low, high] }'
        counters = self.take(entries, "counters", (dict,), f"{place}.counters", fix)
        ranges: dict[str, tuple[float, float]] = {}
        if isinstance(counters, dict):
            for name in counters:
                where = f"{place}.counters.{name}"
                bounds = self._range(self.take(counters, name, (list,), where, fix), where)
                ranges |= {name: bounds} if bounds else {}
        return RungExpectation(ms, limiter if isinstance(limiter, str) else "", ranges)

    # -- what the oracle needs to know -----------------------------------------------------------------------------

    def _extents(self, table: dict[str, object], key: str, place: str, axes: dict[str, int]) -> dict[str, Extent]:
        """Allowed values by axis: `{ N = [32, 64], M = { multiple = 8, most = 512 } }`."""
        fix = f"write {key} = {{ N = {{ multiple = 16, most = 512 }}, D = [32, 64] }}"
        entries = self.take(table, key, (dict,), place, fix)
        extents: dict[str, Extent] = {}
        for name, value in (entries if isinstance(entries, dict) else {}).items():
            where = f"{place}.{name}"
            if name not in axes:
                self.wrong(where, "not among [axes]", suggest(name, axes, "name an axis"))
            elif isinstance(value, list):
                whole = [n for n in value if isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_AXIS]
                if value and len(whole) == len(value):
                    extents[name] = Extent(values=tuple(value))
                else:
                    self.wrong(where, f"{shown(value)} is no list of whole numbers of 0 to {MAX_AXIS}", fix)
            elif isinstance(value, dict):
                self.unknown(value, _EXTENT_KEYS, f"{where}.")
                numbers = {k: self.take(value, k, (int,), f"{where}.{k}", fix) for k in _EXTENT_KEYS if k in value}
                bound = {k: n for k, n in numbers.items() if isinstance(n, int)}
                extent = Extent(least=bound.get("least", 1), most=bound.get("most"), multiple=bound.get("multiple", 1))
                beyond = extent.most is not None and extent.most < extent.least
                if extent.least < 0 or extent.multiple < 1 or beyond or max(bound.values(), default=0) > MAX_AXIS:
                    self.wrong(where, f"{shown(value)} allows nothing", "least at most most, multiple at least 1")
                else:
                    extents[name] = extent
            else:
                self.wrong(where, f"{shown(value)} is {_kind(value)}, neither a list nor a table", fix)
        return extents

    def _names(self, table: dict[str, object], key: str, place: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        """A list of names, each of which must be known."""
        fix = f"write {key} = [{', '.join(repr(name) for name in choices[:2])}]"
        values = self.take(table, key, (list,), f"{place}.{key}", fix)
        names: list[str] = []
        for name in values if isinstance(values, list) else []:
            if name in choices:
                names.append(name)
            else:
                self.wrong(f"{place}.{key}", f"unknown {shown(name)}", suggest(str(name), choices, fix))
        return tuple(names)

    def _fuzz(self, content: dict[str, object], matter: FrontMatter, axes: dict[str, int]) -> None:
        """`[fuzz]`: which cases a rung must get right beyond the timed ones, and what holds in all of them."""
        fix = "write [fuzz], then axes = { N = { multiple = 16 } }"
        table = self.take(content, "fuzz", (dict,), "fuzz", fix)
        if not isinstance(table, dict):
            return
        self.unknown(table, _FUZZ_KEYS, "fuzz.")
        floating = tuple(spec.name for spec in matter.inputs if "float" in spec.dtype)
        independent = self.take(table, "independent", (str,), "fuzz.independent", 'write independent = "M"')
        if isinstance(independent, str) and independent not in axes:
            self.wrong("fuzz.independent", f"unknown axis {independent!r}", suggest(independent, axes, "name an axis"))
            independent = None
        backward = self.take(table, "backward", (bool,), "fuzz.backward", "write backward = true, or leave it out")
        for spec in (*matter.inputs, *matter.outputs):
            for key in ("independent", "backward") if spec.open else ():
                if table.get(key):
                    message = f"the shape of {spec.name} is not written down"
                    self.wrong(f"fuzz.{key}", message, f"write its dimensions instead of [...], or take {key} out")
        matter.fuzz = Fuzz(
            axes=self._extents(table, "axes", "fuzz.axes", axes),
            dtypes=self._names(table, "dtypes", "fuzz", FUZZ_DTYPES),
            layouts=self._names(table, "layouts", "fuzz", LAYOUTS),
            independent=independent if isinstance(independent, str) else "",
            linear=self._names(table, "linear", "fuzz", floating),
            shift=self._names(table, "shift", "fuzz", floating),
            finite=self._names(table, "finite", "fuzz", floating),
            backward=backward is True,
        )

    def _rule(self, content: dict[str, object]) -> OwnRule | None:
        """`[rule]`: what whoever posed the problem takes for right."""
        fix = 'write [rule], then name = "allclose, atol = rtol = 1e-4": what judge() of rule.py does'
        table = self.take(content, "rule", (dict,), "rule", fix)
        if not isinstance(table, dict):
            return None
        self.unknown(table, _RULE_KEYS, "rule.")
        name = self.take(table, "name", (str,), "rule.name", fix)
        alone = self.take(
            table, "alone", (bool,), "rule.alone", "write alone = true where it is the judge, or leave it"
        )
        compared = self.take(
            table, "compared", (bool,), "rule.compared", "write compared = false where a comparison means nothing"
        )
        if "name" not in table or (isinstance(name, str) and not name.strip()):
            self.wrong("rule.name", "missing" if "name" not in table else "empty", fix)
        return OwnRule(" ".join(name.split()), alone is True, compared is not False) if isinstance(name, str) else None

    def _judged(self, content: dict[str, object], matter: FrontMatter) -> None:
        """`[judged]`: outputs that an element-by-element comparison would do wrong."""
        fix = 'write [judged], then indices = { as = "indices", of = "x", values = "values" }'
        entries = self.take(content, "judged", (dict,), "judged", fix)
        inputs = tuple(spec.name for spec in matter.inputs)
        outputs = tuple(spec.name for spec in matter.outputs)
        for name, table in (entries if isinstance(entries, dict) else {}).items():
            place = f"judged.{name}"
            if name not in outputs:
                self.wrong(place, "no output has that name", suggest(name, outputs, fix))
                continue
            if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
                self.wrong(place, f"{shown(table)} is no table of texts", fix)
                continue
            self.unknown(table, _JUDGED_KEYS, f"{place}.")
            ways = tuple(way.value for way in JudgedAs)
            how = table.get("as", "")
            if how not in ways:
                self.wrong(f"{place}.as", f"unknown way {shown(how)}", suggest(str(how), ways, "use a known one"))
                continue
            way = JudgedAs(how)
            needed = {"of": inputs, "values": outputs} if way is JudgedAs.INDICES else {"seed": inputs}
            lacking = [key for key, choices in needed.items() if table.get(key) not in choices]
            if lacking:
                choices = needed[lacking[0]]
                text = shown(table.get(lacking[0], ""))
                self.wrong(f"{place}.{lacking[0]}", f"{text} is not there", f"name one of {', '.join(choices)}")
                continue
            if way is JudgedAs.DROPOUT:
                try:
                    for case in matter.cases:
                        keep = evaluate(str(table.get("keep", "")), case.axes)
                        if not 0 <= keep <= 1:
                            raise GrammarError(f"keep is {keep}", "it is a share, 0 to 1")
                except GrammarError as error:
                    self.wrong(f"{place}.keep", error.message, error.fix)
                    continue
            matter.judged[name] = Judged(
                way, table.get("of", ""), table.get("values", ""), table.get("keep", ""), table.get("seed", "")
            )


@lru_cache(maxsize=512)  # a collection is read again after every save, and nearly all of it is as it was
def read(path: Path, data: bytes) -> tuple[FrontMatter | None, tuple[Problem, ...]]:
    """The front matter and Markdown of a lesson.md that holds `data`, or None where any problem was found.

    Both are shared between calls: read them, change nothing.
    """
    reader = Reader(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reader.wrong("", f"byte {error.start} is not UTF-8", "save the file as UTF-8")
        return None, tuple(reader.problems)
    fences = list(_first_two(text))
    if not fences or text[: fences[0].start()].strip():
        reader.wrong("", "no front matter", "begin the file with a line +++, the keys, and another line +++")
        return None, tuple(reader.problems)
    if len(fences) == 1:
        reader.wrong("", "the front matter is not closed", "end it with a line +++")
        return None, tuple(reader.problems)
    inner = text[fences[0].end() : fences[1].start()]
    if len(inner) > MAX_MATTER:
        reader.wrong("", f"the front matter has {len(inner)} characters", f"keep it within {MAX_MATTER}")
        return None, tuple(reader.problems)
    if max(line.count(".") for line in inner.split("\n")) > MAX_DOTS:
        reader.wrong("", f"a line has more than {MAX_DOTS} dots", "break it up, or shorten the dotted key")
        return None, tuple(reader.problems)
    # Blank lines stand in for everything above, so that the parser counts lines as an editor does.
    above = "\n" * (text[: fences[0].start()].count("\n") + 1)
    try:
        content = tomllib.loads(above + inner.lstrip("\r").removeprefix("\n"))
    except (ValueError, RecursionError) as error:  # a plain ValueError where a number has thousands of digits
        message = (str(error) if isinstance(error, ValueError) else "") or "nested too deeply"
        reader.wrong("", f"not TOML: {message[0].lower()}{message[1:]}", toml_fix(message, text))
        return None, tuple(reader.problems)
    try:
        matter = reader.tables(content)
    except EnoughError:
        return None, tuple(reader.problems)
    matter.lesson = text[fences[1].end() :].replace("\r\n", "\n").strip("\n") + "\n"
    return (None if reader.problems else matter), tuple(reader.problems)


def definition(data: bytes) -> bytes:
    """The part of a lesson.md that says what is run and how it is judged: the front matter of `data`.

    It is all of `data` where the front matter is not closed. A byte-order mark, which an editor may put before it, is
    left out.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    fences = _first_two(data.decode("latin-1"))  # a character for each byte
    return data[: fences[1].end()] if len(fences) == 2 else data


def _first_two(text: str) -> list[re.Match[str]]:
    matches = []
    for match in _FENCE.finditer(text):
        matches.append(match)
        if len(matches) == 2:
            break
    return matches


def toml_fix(message: str, text: str) -> str:
    """What to do about an error of the TOML parser, from its sentence and the line that it names."""
    lowered = message.lower()
    # The place ends the sentence; what stands before it may quote the file, which may say "at line 999" too.
    at = _AT_LINE.search(message)
    line = "".join(text.split("\n")[int(at.group(1)) - 1 : int(at.group(1))]) if at else ""
    if line.count("{") > line.count("}"):
        return "an inline table { } must stand on one line; use a [table] for a longer one"
    if "overwrite" in lowered or "duplicate" in lowered or "twice" in lowered or "mutate" in lowered:
        return "a key may stand once; keep one of them"
    if "invalid value" in lowered:
        return 'put text between quotes, for example flops = "2*M*N"'
    return 'each line is key = value, with text between quotes, for example title = "A transpose"'


class _Naming:
    """Adds the case's name to a GrammarError that only shows in one case.

    A class and no generator, because a listing enters it thousands of times.
    """

    __slots__ = ("case",)

    def __init__(self, case: Case) -> None:
        self.case = case

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, GrammarError) and self.case.name != "default":
            raise GrammarError(f"in the case {self.case.name!r}, {error.message}", error.fix) from None


def shown(value: object) -> str:
    """A value as a message quotes it: short, and never an error of its own."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # Python writes no integer of more than 4300 digits
        text = "a number of thousands of digits" if isinstance(value, int) else "what cannot be written out"
    return _cut(text, 60)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _kind(value: object) -> str:
    return _TYPES.get(type(value), f"a {type(value).__name__}")
