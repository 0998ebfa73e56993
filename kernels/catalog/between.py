"""A target of two versions of one rung: the old source is its baseline, the new one its optimized rung.

Both are then measured in turns, in one sitting: the only way to say of two versions which is faster without machine and
day in it. Whatever a rung reaches comes along: modules of its folder that it imports, files that it names
(`Path(__file__).with_name("gemm.cu")`), and what these reach in turn. A file that the two versions need with different
contents gets a second name, and the import or the text that names it is changed at exactly its place in the syntax
tree. What cannot be followed so, such as a file name that is computed, is refused with the reason.

Pure functions over snapshots (file name -> content, as `store.reader.History.snapshot` gives them). Nothing is imported
or run.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from . import frontmatter
from .loader import rungs_among
from .model import Goal
from .parsing import REFUSALS, parsed
from .sources import LESSON, SUFFIXES

OLD = "baseline"
NEW = "optimized"
KEPT_NOTES = ("needs", "inexact", "supports")
"""What `[rungs.NAME]` says that holds for both versions; predictions, and what its PTX must hold, are of one."""

_COMPUTES = frozenset(
    (
        *("import_module", "exec_module", "run_path", "run_module", "with_suffix", "with_stem"),
        *("glob", "rglob", "iterdir", "listdir", "scandir"),
    )
)
_COMPUTES_ALONE = frozenset(("__import__", "exec", "eval"))
_LINE = re.compile(rb"\r\n|\r|\n")
_FROM = re.compile(rb"from(?:[ \t\f]|\\(?:\r\n|\r|\n))+")
_WORD = re.compile(rb"[^\s.\\]+")
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\r\n]+)"|([A-Za-z_]\w*))', re.MULTILINE)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BOM = b"\xef\xbb\xbf"


class BetweenError(Exception):
    """No such target can be made; the message says why, as a clause."""


@dataclass(frozen=True, slots=True)
class _Mention:
    """A place in a file where another one of the folder is named.

    Attributes:
        unit: what is named, see `_Snapshot.units`.
        start, end: bytes of the file.
        renamed: what is to stand there where the unit gets another name; None where it cannot be changed.
        line: counted from 1.
    """

    unit: str
    start: int
    end: int
    renamed: Callable[[str], bytes] | None
    line: int


@dataclass(slots=True)
class _Mentions:
    """All such places of one file, and why there may be more: what is computed while it runs."""

    places: list[_Mention] = field(default_factory=list)
    computed: str = ""
    by_own_name: bool = False  # what is computed is the file's own name with another suffix


class _Snapshot:
    """The sources of a target, by units: a file of the folder, or a whole sub-folder ("common/")."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.units: dict[str, dict[str, bytes]] = {}
        for name in sorted(files):
            if name != LESSON:
                top, slash, _ = name.partition("/")
                self.units.setdefault(top + slash, {})[name] = bytes(files[name])
        self.names = frozenset(files)
        self.rungs = frozenset(f"{name}.py" for name in rungs_among(tuple(sorted(self.units))))
        self._mentions: dict[str, _Mentions] = {}

    def module(self, name: str) -> str:
        """The unit that importing the top-level `name` gives; "" where it is none of the folder's."""
        if f"{name}/__init__.py" in self.names:
            return f"{name}/"
        return next((unit for unit in (f"{name}.py", f"{name}/") if unit in self.units), "")

    def mentions(self, name: str) -> _Mentions:
        """What the file of that name mentions."""
        if name not in self._mentions:
            unit = _unit_of(name)
            data = self.units[unit][name]
            self._mentions[name] = _in_python(self, name, data) if name.endswith(".py") else _in_cuda(self, name, data)
        return self._mentions[name]

    def near(self, unit: str) -> Iterator[tuple[str, _Mention]]:
        """(file, mention) of other units in the files of this one."""
        for name in self.units[unit]:
            for mention in self.mentions(name).places:
                if mention.unit != unit:
                    yield name, mention

    def reach(self, units: Iterable[str]) -> list[str]:
        """These and all that they mention, directly or by others."""
        closure: list[str] = []
        pending = list(units)
        while pending:
            unit = pending.pop(0)
            if unit not in closure:
                closure.append(unit)
                pending += [mention.unit for _, mention in self.near(unit)]
        return closure


def reached(files: Mapping[str, bytes], rung: str) -> dict[str, bytes]:
    """The sources that `rung` is made of: its own file and all that it reaches, by name.

    Raises:
        BetweenError: there is no such rung.
    """
    snapshot = _Snapshot(files)
    units = snapshot.reach([_own(snapshot, rung, "the")])
    return {name: data for unit in units for name, data in snapshot.units[unit].items()}


def between(
    old: Mapping[str, bytes], new: Mapping[str, bytes], rung: str, name: str, *, task: Mapping[str, bytes] | None = None
) -> dict[str, bytes]:
    """The files of a target whose baseline.py is `rung` of `old`, and whose optimized.py is `rung` of `new`.

    Args:
        old, new: sources of the target in two versions.
        rung: "baseline" too.
        name: of the target, for its title.
        task: whose lesson.md, reference.py and inputs.py say what is measured; those of `new` where it is None.

    Raises:
        BetweenError: a version has no such rung, the lesson is not valid, or what one of them reads cannot be followed
            and would be another version's.
    """
    files = new if task is None else task
    common = _Snapshot(files)
    for needed in (LESSON, "reference.py"):
        if needed not in files:
            raise BetweenError(f"there is no {needed}")
    whole = [unit for unit in common.units if unit not in common.rungs]
    placing = _Placing({*common.units, *_Snapshot(old).units, *_Snapshot(new).units, f"{OLD}.py", f"{NEW}.py"})
    placing.keep(common, whole)
    placing.place(_Snapshot(old), rung, f"{OLD}.py", "then")
    placing.place(_Snapshot(new), rung, f"{NEW}.py", "now")
    lesson = _lesson(files[LESSON], _notes(old, rung), _notes(new, rung), rung, name, placing.files)
    return {LESSON: lesson, **dict(sorted(placing.files.items()))}


class _Placing:
    """Puts the sources of several versions into one folder, each under a name of its own where they differ."""

    def __init__(self, taken: Collection[str]) -> None:
        """Begin with an empty folder, in which none of the names `taken` is free for something new."""
        self.files: dict[str, bytes] = {}
        self._taken = set(taken)
        self._kept: dict[str, dict[str, bytes]] = {}  # the task's units, as they were given

    def keep(self, snapshot: _Snapshot, units: Iterable[str]) -> None:
        """Put these units in under their own names. What they reach of rungs gets other ones."""
        units = list(units)
        reach = snapshot.reach(units)
        names = {unit: self._free(unit, "task") for unit in reach if unit in snapshot.rungs}
        self._write(snapshot, reach, names, "the task")
        self._kept = {unit: snapshot.units[unit] for unit in units}

    def place(self, snapshot: _Snapshot, rung: str, slot: str, prefix: str) -> None:
        """Put one version of a rung in as the file `slot`, with what it reaches."""
        which = {"then": "the old", "now": "the new"}[prefix]
        own = _own(snapshot, rung, which)
        reach = snapshot.reach([own])
        names = {own: slot} | {u: self._free(u, prefix) for u in reach if u in snapshot.rungs and u != own}
        label = f"{which} {rung}"
        grown = True
        while grown:  # what mentions a unit that has another name is changed by that, and needs one too
            clash = [unit for unit in reach if unit not in names and self._clashes(snapshot, unit, names, label)]
            names |= {unit: self._free(unit, prefix) for unit in clash}
            grown = bool(clash)
        self._followed(snapshot, reach, names, own, label)
        self._write(snapshot, reach, names, label)

    def _clashes(self, snapshot: _Snapshot, unit: str, names: Mapping[str, str], what: str) -> bool:
        """Whether the folder has the unit's name, and other contents under it than the unit would have."""
        contents = {name: self._changed(snapshot, name, names, what) for name in snapshot.units[unit]}
        there = {name: data for name, data in self.files.items() if _unit_of(name) == unit}
        return bool(there) and there != contents

    def _followed(
        self, snapshot: _Snapshot, reach: Iterable[str], names: Mapping[str, str], own: str, what: str
    ) -> None:
        """Refuse what computes which file it reads, where that file may not lie here as this version had it."""
        others = [unit for unit in snapshot.units if unit not in snapshot.rungs]
        alike = all(self._kept.get(unit) == snapshot.units[unit] for unit in others) and names.keys() == {own}
        for unit in reach:
            for name in snapshot.units[unit]:
                mentions = snapshot.mentions(name)
                renamed = names.get(unit, unit) != unit
                if mentions.computed and (not alike or (mentions.by_own_name and renamed)):
                    raise BetweenError(
                        f"{what} computes which file it reads ({mentions.computed}), and the versions differ in more "
                        "than its own file; name the file in full"
                    )

    def _write(self, snapshot: _Snapshot, reach: Iterable[str], names: Mapping[str, str], what: str) -> None:
        for unit in reach:
            for name in snapshot.units[unit]:
                data = self._changed(snapshot, name, names, what)
                self.files[names.get(unit, unit) + name.removeprefix(unit)] = data

    @staticmethod
    def _changed(snapshot: _Snapshot, name: str, names: Mapping[str, str], what: str) -> bytes:
        """A file with every mention of a renamed unit changed."""
        data = snapshot.units[_unit_of(name)][name]
        renames = [m for m in snapshot.mentions(name).places if names.get(m.unit, m.unit) != m.unit]
        for mention in sorted(renames, key=lambda mention: mention.start, reverse=True):
            if mention.renamed is None:
                raise BetweenError(
                    f"{what} needs another {mention.unit} than the other version, and line {mention.line} of {name} "
                    "names it in a way that cannot be changed safely"
                )
            data = data[: mention.start] + mention.renamed(names[mention.unit]) + data[mention.end :]
        if renames and name.endswith(".py"):
            try:
                parsed(data)
            except REFUSALS as error:
                raise BetweenError(f"{name} of {what} cannot be changed to its companions' other names") from error
        return data

    def _free(self, unit: str, prefix: str) -> str:
        """A name like the unit's that nothing has."""
        name = f"{prefix}_{unit}"
        while name in self._taken or name.removesuffix(".py").removesuffix("/") in sys.stdlib_module_names:
            name = f"{prefix}_{name}"
        self._taken.add(name)
        return name


def _own(snapshot: _Snapshot, rung: str, which: str) -> str:
    own = f"{rung}.py"
    if own not in snapshot.rungs:
        there = ", ".join(sorted(name.removesuffix(".py") for name in snapshot.rungs)) or "none"
        raise BetweenError(f"{which} sources have no rung {rung}; there is {there}")
    return own


def _unit_of(name: str) -> str:
    top, slash, _ = name.partition("/")
    return top + slash


# -- what a file mentions ----------------------------------------------------------------------------------------------


def _in_python(snapshot: _Snapshot, name: str, data: bytes) -> _Mentions:
    """What a Python file imports of its folder, and which files it names. Nothing where it does not parse: running it
    tells."""
    mentions = _Mentions()
    try:
        tree = parsed(data)
    except REFUSALS:
        return mentions
    skipped = len(_BOM) if data.startswith(_BOM) else 0
    starts = [skipped, *(newline.end() for newline in _LINE.finditer(data))]
    # Columns are counted in UTF-8: in a file of another encoding no place is certain.
    cookies = [match[1] for line in data.split(b"\n", 2)[:2] if (match := _COOKIE.match(line))]
    exact = all(cookie.lower().replace(b"_", b"-") in (b"utf-8", b"utf8", b"utf-8-sig") for cookie in cookies)

    def add(unit: str, line: int, start: int, end: int, renamed: Callable[[str], bytes] | None) -> None:
        mentions.places.append(_Mention(unit, start, end, renamed if exact else None, line))

    def computed(line: int, reason: str, *, own: bool = False) -> None:
        mentions.computed = mentions.computed or f"line {line} of {name}: {reason}"
        mentions.by_own_name = mentions.by_own_name or own

    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                if unit := snapshot.module(top):
                    span = _span(starts, alias)
                    add(unit, alias.lineno, *span, None if _shadows(top) else _import_of(alias))
        elif isinstance(node, ast.ImportFrom):
            top = (node.module or "").partition(".")[0]
            if node.level == 0 and (unit := snapshot.module(top)):
                begin, _ = _span(starts, node)
                words = _FROM.match(data, begin)
                word = _WORD.match(data, words.end()) if words else None
                plainly = word is not None and word[0] == top.encode() and not _shadows(top)
                span = word.span() if word is not None else (begin, begin)
                add(unit, node.lineno, *span, (lambda new: _stem(new).encode()) if plainly else None)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            unit, reason = _named(snapshot, name, node.value)
            if unit:
                renamed = None
                if id(node) not in formatted and not reason:
                    rest = node.value.removeprefix(unit)
                    renamed = _text_of(rest)
                add(unit, node.lineno, *_span(starts, node), renamed)
            elif reason:
                computed(node.lineno, reason, own=node.value.startswith("."))
        elif isinstance(node, ast.Attribute) and node.attr in _COMPUTES:
            computed(node.lineno, node.attr, own=node.attr in ("with_suffix", "with_stem"))
        elif isinstance(node, ast.Name) and node.id in _COMPUTES_ALONE:
            computed(node.lineno, node.id)
    return mentions


def _named(snapshot: _Snapshot, name: str, text: str) -> tuple[str, str]:
    """The unit that a text names, if it does; and why what it names is unknown, or cannot be changed."""
    if text in snapshot.names and text != LESSON:
        return _unit_of(text), ""
    if f"{text}/" in snapshot.units:
        return f"{text}/", f"{text!r} may be the folder"
    if not text.endswith(SUFFIXES) or re.search(r"\s", text):
        return "", ""
    inside = [other for other in snapshot.names if other.endswith(f"/{text}")]
    units = {_unit_of(other) for other in inside}
    if not units:
        return "", repr(text)
    if units == {_unit_of(name)}:
        return "", ""  # beside itself in the same sub-folder, which moves as a whole
    return min(units), "a file of a sub-folder, whose folder is named elsewhere"


def _in_cuda(snapshot: _Snapshot, name: str, data: bytes) -> _Mentions:
    """What a CUDA or C++ file includes of its folder."""
    mentions = _Mentions()
    folder = name.rpartition("/")[0]
    for include in _INCLUDE.finditer(data):
        line = data.count(b"\n", 0, include.start()) + 1
        if include[2] is not None:
            mentions.computed = mentions.computed or f"line {line} of {name}: a macro"
            continue
        path = include[1].decode("utf-8", "replace")
        if folder and f"{folder}/{path}" in snapshot.names:
            continue
        if path in snapshot.names:
            unit = _unit_of(path)
            rest = path.removeprefix(unit)
            mentions.places.append(_Mention(unit, *include.span(1), _include_of(rest), line))
    return mentions


def _span(starts: list[int], node: ast.alias | ast.stmt | ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _stem(unit: str) -> str:
    return unit.removesuffix("/").removesuffix(".py")


def _shadows(name: str) -> bool:
    """Whether Python has a module of its own of that name, which may be the one that is imported."""
    return name in sys.stdlib_module_names


def _import_of(alias: ast.alias) -> Callable[[str], bytes]:
    """What stands for `alias` of an import statement where its module has another name; it binds the same names."""
    top, dot, rest = alias.name.partition(".")

    def renamed(new: str) -> bytes:
        module = f"{_stem(new)}{dot}{rest}"
        if alias.asname:
            return f"{module} as {alias.asname}".encode()
        return (f"{module}, {_stem(new)} as {top}" if dot else f"{module} as {top}").encode()

    return renamed


def _text_of(rest: str) -> Callable[[str], bytes]:
    return lambda new: repr(new + rest).encode()


def _include_of(rest: str) -> Callable[[str], bytes]:
    return lambda new: (new + rest).encode()


# -- the lesson --------------------------------------------------------------------------------------------------------


def _content(data: bytes) -> dict[str, Any]:
    """The front matter of a valid lesson.md as plain data. Raises BetweenError where it is not valid."""
    _, problems = frontmatter.read(Path(LESSON), data)
    if problems:
        raise BetweenError(f"{LESSON} is not valid: {problems[0]}")
    text = frontmatter.definition(data).decode("utf-8")
    return tomllib.loads(text.split("+++", 1)[1].rpartition("+++")[0].replace("\r\n", "\n"))


def _notes(files: Mapping[str, bytes], rung: str) -> dict[str, Any]:
    """What a version's lesson says of the rung, as far as it holds here. Nothing where that lesson is not valid."""
    try:
        notes = _content(files.get(LESSON, b"")).get("rungs", {}).get(rung, {})
    except BetweenError:
        return {}
    return {key: notes[key] for key in KEPT_NOTES if key in notes}


def _lesson(
    data: bytes, then: dict[str, Any], now: dict[str, Any], rung: str, name: str, files: Mapping[str, bytes]
) -> bytes:
    """The lesson of the two versions: the task of the given one, without what it says of rungs that are not there."""
    content = _content(data)
    content.pop("expect", None)
    content["title"] = f"{name}: {rung} as it was, beside {rung} as it became"
    content["goal"] = Goal.LATENCY.value if content.get("goal") == Goal.LATENCY else Goal.SPEED.value
    axes = content.get("axes", {})
    for notes in (then, now):
        if "supports" in notes:
            notes["supports"] = {axis: extent for axis, extent in notes["supports"].items() if axis in axes}
    content["rungs"] = {
        OLD: {"summary": f"{rung} as it was", **then},
        NEW: {"summary": f"{rung} as it became", **now},
    }
    links = [link for link in content.pop("links", []) if any(file.startswith(f"{link}/") for file in files)]
    if links:
        content["links"] = links
    body = (
        f"`baseline.py` is the older source of `{rung}`, `optimized.py` the newer one, with the task as it is now. "
        "Made by aisp, to measure both in turns."
    )
    lesson = f"+++\n{tomli_w.dumps(content)}+++\n\n# {content['title']}\n\n{body}\n".encode()
    _, problems = frontmatter.read(Path(LESSON), lesson)
    if problems:
        raise BetweenError(f"{LESSON} does not fit both versions: {problems[0]}")
    return lesson
