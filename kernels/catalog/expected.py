"""What rungs came to and a person agreed to, as data: `expectations/*.toml` below a collection, read and written here.

A *strict* file speaks of one model of GPU: by target and rung ranges of the speed-up, the median time in ms and the
share of light, and what limits. The *portable* one speaks of any GPU: the order of the rungs, what limits, and a range
of the speed-up. Each target names the runs that its figures came from, their date, driver and versions. How ranges are
made of runs and held against others is said in store.results.expected; a lesson's own `expect`, predicted before
anything was measured, is another thing (catalog.model.Expectation).

What is wrong with a file is a Problem, and the rest of it goes on. Standard library only: frontends read this.
"""

from __future__ import annotations

import enum
import json
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import sources
from .frontmatter import shown
from .grammar import suggest
from .loader import shipped_root
from .model import LIMITERS, Problem

SCHEMA = 1
"""Of these files; it rises when a key goes or changes its meaning."""
FOLDER = "expectations"
MAX_FILES = 256
MAX_WORD = 200  # characters of a name or a version

Range = tuple[float, float]

HEAD = {
    "strict": (
        "What the rungs came to on one model of GPU, agreed to by a person; another model says nothing of it.\n"
        "Written by `aisp dev expectations --refresh`, not by hand."
    ),
    "portable": (
        "What holds of the rungs on any GPU, agreed to by a person: their order, what limits them, a range of ratios.\n"
        "Written by `aisp dev expectations --refresh --portable`, not by hand."
    ),
}


class Scope(enum.StrEnum):
    """Hardware that a file speaks of."""

    STRICT = "strict"
    PORTABLE = "portable"


@dataclass(frozen=True, slots=True)
class AgreedRung:
    """What one rung came to. None, and "" of a text, where nothing was agreed to.

    Attributes:
        speedup: of the first baseline's time over the rung's.
        ms: median time; of a strict file only.
        sol: share of the speed of light by measured ceilings; of a strict file only.
        limiter: one of LIMITERS.
        timing: the way its times were taken, as runs name it; of a strict file only.
        undecided: whether its speed-up may be chance; of a strict file only.
    """

    speedup: Range | None = None
    ms: Range | None = None
    sol: Range | None = None
    limiter: str = ""
    timing: str = ""
    undecided: bool = False


@dataclass(frozen=True, slots=True)
class AgreedTarget:
    """What the rungs of one target came to in one case.

    Attributes:
        runs: ids of the runs that its figures came from, the newest first: one for each sitting.
        wall: when the newest of them was planned, ISO 8601.
        on: the hardware of these runs; of a portable file, where there may be several.
        versions: of packages, by name.
        order: of a portable file: groups of rungs, the fastest first; inside of a group none is claimed to be faster.
    """

    case: str
    rungs: Mapping[str, AgreedRung]
    runs: tuple[str, ...] = ()
    wall: str = ""
    on: tuple[str, ...] = ()
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    order: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Agreed:
    """One file. `hardware` is its GPU's whole name, "NVIDIA H200"; "" of a portable one."""

    scope: Scope
    hardware: str
    targets: Mapping[str, AgreedTarget]
    path: Path


# -- reading -----------------------------------------------------------------------------------------------------------


def folders(roots: Sequence[Path] | None = None) -> list[Path]:
    """Where these collections keep their files, the shipped one where None is given."""
    return [root / FOLDER for root in ([shipped_root()] if roots is None else roots)]


def load(roots: Sequence[Path] | None = None) -> tuple[list[Agreed], list[Problem]]:
    """Every file of these collections, by name, and what is wrong with any. Never raises for what stands on disk."""
    agreements: list[Agreed] = []
    problems: list[Problem] = []
    for folder in folders(roots):
        try:
            files = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(Problem(folder, "", f"cannot be read: {sources.reason(error)}", "make it readable"))
            continue
        if len(files) > MAX_FILES:
            problems.append(Problem(folder, "", f"{len(files)} files", f"keep to {MAX_FILES}"))
        for path in files[:MAX_FILES]:
            agreed, wrong = read(path)
            problems += wrong
            if agreed is not None:
                agreements.append(agreed)
    return agreements, problems


def read(path: Path) -> tuple[Agreed | None, list[Problem]]:
    """One file, None where it says nothing that could be used; and what is wrong with it."""
    try:
        data = sources.read_bytes(str(path))
    except OSError as error:
        return None, [Problem(path, "", f"cannot be read: {sources.reason(error)}", "make it a readable file")]
    try:
        return parse(path, data.decode("utf-8"))
    except UnicodeDecodeError:
        return None, [Problem(path, "", "it is not UTF-8", "save it as UTF-8")]


def parse(path: Path, text: str) -> tuple[Agreed | None, list[Problem]]:
    """Parse a text that stands, or would stand, in `path`."""
    again = "have it written anew by `aisp dev expectations --refresh`"
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return None, [Problem(path, "", f"no TOML: {error}", again)]
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        newer = isinstance(schema, int) and schema > SCHEMA
        fix = "a newer aisp reads it" if newer else f"write schema = {SCHEMA}"
        return None, [Problem(path, "schema", f"{shown(schema)} is none that this aisp knows", fix)]
    reader = _Reader(path)
    reader.only(document, "", ("schema", "scope", "hardware", "targets"))
    scope = document.get("scope")
    if scope not in list(Scope):
        reader.wrong("scope", f"{shown(scope)} is none", 'write "strict" or "portable"')
        return None, reader.problems
    hardware = reader.word(document, "", "hardware")
    if bool(hardware) is not (scope == Scope.STRICT):
        message = "a strict file names its hardware, and a portable one names none"
        reader.wrong("hardware", f"{hardware!r}: {message}", 'write the GPU\'s whole name, "NVIDIA H200"')
        return None, reader.problems
    targets = {}
    for name, entry in reader.table(document, "", "targets").items():
        place = f"targets.{name}"
        if not isinstance(entry, dict):
            reader.wrong(place, "no table", "give it a case and rungs")
        elif (target := reader.target(entry, place, Scope(scope))) is not None:
            targets[name] = target
    return Agreed(Scope(scope), hardware, targets, path), reader.problems


_TARGET_KEYS = ("case", "runs", "wall", "driver", "versions", "rungs")
_RUNG_KEYS = {
    Scope.STRICT: ("speedup", "ms", "sol", "limiter", "timing", "undecided"),
    Scope.PORTABLE: ("speedup", "limiter"),
}


class _Reader:
    """One pass over one file, collecting problems; what is wrong is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def wrong(self, key: str, message: str, fix: str) -> None:
        self.problems.append(Problem(self.path, key[:MAX_WORD], message[:MAX_WORD], fix))

    def only(self, table: Mapping[str, object], place: str, keys: tuple[str, ...]) -> None:
        for key in table.keys() - set(keys):
            self.wrong(_dotted(place, key), "an unknown key", suggest(key, keys, "take it out"))

    def table(self, table: Mapping[str, object], place: str, key: str) -> dict[str, object]:
        value = table.get(key, {})
        if isinstance(value, dict):
            return value
        self.wrong(_dotted(place, key), "no table", "write a table")
        return {}

    def word(self, table: Mapping[str, object], place: str, key: str) -> str:
        value = table.get(key, "")
        if isinstance(value, str) and len(value) <= MAX_WORD:
            return value
        self.wrong(_dotted(place, key), "no short string", f"write at most {MAX_WORD} characters in quotes")
        return ""

    def words(self, table: Mapping[str, object], place: str, key: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(word, str) and len(word) <= MAX_WORD for word in value):
            return tuple(value)
        self.wrong(_dotted(place, key), "no list of short strings", "write a list of names in quotes")
        return ()

    def limits(self, table: Mapping[str, object], place: str, key: str) -> Range | None:
        value = table.get(key)
        if value is None:
            return None
        pair = value if isinstance(value, list) and len(value) == 2 else []
        numbers = [number for number in pair if isinstance(number, (int, float)) and not isinstance(number, bool)]
        if len(numbers) == 2 and 0 < numbers[0] <= numbers[1] <= sys.float_info.max:
            return float(numbers[0]), float(numbers[1])
        self.wrong(_dotted(place, key), f"{shown(value)} is no range", "write [low, high], both above 0")
        return None

    def target(self, entry: dict[str, object], place: str, scope: Scope) -> AgreedTarget | None:
        extra = ("on", "order") if scope is Scope.PORTABLE else ()
        self.only(entry, place, (*_TARGET_KEYS, *extra))
        case = self.word(entry, place, "case")
        if not case:
            self.wrong(f"{place}.case", "missing", "name the case that was timed")
            return None
        rungs = {}
        for name, notes in self.table(entry, place, "rungs").items():
            here = f"{place}.rungs.{name}"
            if not isinstance(notes, dict):
                self.wrong(here, "no table", "write { speedup = [low, high] }")
                continue
            self.only(notes, here, _RUNG_KEYS[scope])
            limiter = self.word(notes, here, "limiter")
            if limiter and limiter not in LIMITERS:
                self.wrong(f"{here}.limiter", f"{limiter!r} is none", suggest(limiter, LIMITERS, "take one of these"))
                limiter = ""
            speedup, ms, sol = (self.limits(notes, here, key) for key in ("speedup", "ms", "sol"))
            timing, undecided = self.word(notes, here, "timing"), notes.get("undecided", False)
            if not isinstance(undecided, bool):
                self.wrong(f"{here}.undecided", f"{shown(undecided)} is neither", "write true, or leave it out")
            rungs[name] = AgreedRung(speedup, ms, sol, limiter, timing, undecided is True)
        order = entry.get("order", [])
        if not isinstance(order, list) or not all(
            isinstance(group, list) and all(isinstance(rung, str) for rung in group) for group in order
        ):
            self.wrong(f"{place}.order", "no list of groups", 'write [["fastest"], ["slower", "as slow"]]')
            order = []
        versions = self.table(entry, place, "versions")
        return AgreedTarget(
            case,
            rungs,
            self.words(entry, place, "runs"),
            self.word(entry, place, "wall"),
            self.words(entry, place, "on"),
            self.word(entry, place, "driver"),
            {name: self.word(versions, f"{place}.versions", name) for name in versions},
            tuple(tuple(group) for group in order),
        )


def _dotted(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


# -- writing -----------------------------------------------------------------------------------------------------------


def text(agreed: Agreed) -> str:
    """The file as TOML: targets by id, a line for every rung, so that a difference is read by people."""
    lines = [f"# {line}" for line in HEAD[agreed.scope].splitlines()]
    lines += [f"schema = {SCHEMA}", f"scope = {_quoted(agreed.scope)}"]
    lines += [f"hardware = {_quoted(agreed.hardware)}"] if agreed.hardware else []
    for name in sorted(agreed.targets):
        target = agreed.targets[name]
        lines += ["", f"[targets.{_quoted(name)}]", f"case = {_quoted(target.case)}", f"runs = {_list(target.runs)}"]
        lines += [f"on = {_list(target.on)}"] if target.on else []
        lines += [f"wall = {_quoted(target.wall)}", f"driver = {_quoted(target.driver)}"]
        lines.append(f"versions = {_inline({key: _quoted(word) for key, word in sorted(target.versions.items())})}")
        lines += [f"order = [{', '.join(_list(group) for group in target.order)}]"] if target.order else []
        lines += ["", f"[targets.{_quoted(name)}.rungs]"]
        lines += [f"{_key(rung)} = {_inline(_rung(figures))}" for rung, figures in target.rungs.items()]
    return "\n".join(lines) + "\n"


def _rung(rung: AgreedRung) -> dict[str, str]:
    ranges = (("speedup", rung.speedup), ("ms", rung.ms), ("sol", rung.sol))
    fields = {key: f"[{low!r}, {high!r}]" for key, pair in ranges if pair for low, high in [pair]}
    words = (("limiter", rung.limiter), ("timing", rung.timing))
    doubt = {"undecided": "true"} if rung.undecided else {}
    return fields | {key: _quoted(word) for key, word in words if word} | doubt


def _inline(pairs: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{_key(key)} = {value}' for key, value in pairs.items())} }}" if pairs else "{}"


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _quoted(name)


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(_quoted, words))}]"


def _quoted(word: str) -> str:
    """A basic string: JSON's escapes are TOML's too, but for DEL, which JSON leaves as it is."""
    return json.dumps(word, ensure_ascii=False).replace("\x7f", "\\u007f")
