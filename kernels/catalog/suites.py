"""Suites: named lists of targets as TOML files, which one command measures and compares with what was before.

A suite names targets in the words of `aisp run`, says how they are measured, and for some of them on which case
and with which rungs. What is wrong with a suite is a Problem with its key and fix, and the other suites load. A suite
that names a target that is gone says so when it is resolved, and the rest of it goes on; such a run is never green.

    found, problems = suites.load_suites()
    entries, gone = found["tier1"].resolve(catalog.load())
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import choosing, sources
from .choosing import TargetError
from .contracts import BOTTLENECKS, MAX_REPLICAS, SUFFIX, Layer, Policy, name_of, toml
from .frontmatter import EnoughError, Reader, shown
from .grammar import suggest
from .loader import shipped_root
from .model import Catalog, Goal, Problem, Target

FOLDER = "suites"
MAX_SUITES = 200  # of one folder
MAX_TARGETS = 1000  # words that one suite names
KEYS = ("title", "targets", "mode", "contract", "only", "per")
_MODE_KEYS = ("quick", "replicas", "warm", "policy")
_ONLY_KEYS = ("layer", "bottleneck")
_PER_KEYS = ("case", "rungs", "layer", "bottleneck")

LAUNCHES = "launch-overhead"
"""The technique by which a lesson says that launches are what it saves."""
FUSION = "fusion"
"""What the names of techniques that save bytes by joining kernels have in common."""


# -- what a target is in a suite ---------------------------------------------------------------------------------------


def counts_launches(target: Target) -> bool:
    """Whether a target's win is fewer launches, so that a mean over a suite is shown with and without it.

    The lesson itself says so: it names `launch-overhead` among its techniques. Of those that also fuse, a fused kernel
    moves fewer bytes as well. Where the goal is speed the stream is held, so the host's launches are in neither time,
    and a lesson that names a fusion before all else wins by bytes. Where the goal is latency the launches are in the
    time, and the host pays for them, so that its ratio says more of the host than of the kernels.
    """
    if LAUNCHES not in target.techniques:
        return False
    return target.goal is Goal.LATENCY or FUSION not in target.techniques[0]


def bottleneck_of(target: Target) -> str:
    """What keeps a target's best rung from being faster, as its lesson predicts; "" where it predicts nothing.

    The limiter that is expected of `optimized`, else of the other optimized rungs where they have one alone, else the
    link that bytes must cross.
    """
    expected = {rung.name: rung.expect.limiter for rung in target.rungs if rung.expect and rung.expect.limiter}
    if "optimized" in expected:
        return expected["optimized"]
    others = {limiter for name, limiter in expected.items() if name.startswith("optimized")}
    if len(others) == 1:
        return others.pop()
    return target.link.over.value if target.link is not None else ""


def layer_of(target: Target) -> Layer:
    """How much of a program a target measures unless a suite says otherwise: a lesson of a chapter one operation, a
    lab a part of a model, a lab of the real world what a user of the model waits for."""
    if target.chapter.startswith("labs/real_world"):
        return Layer.END_TO_END
    return Layer.COMPONENT if target.chapter.startswith("labs/") else Layer.MICRO


@dataclass(frozen=True, slots=True)
class Entry:
    """One target as a suite measures it.

    Attributes:
        case: for GPUs (Target.case_on); "" for the one that is usual on the device.
        rungs: beside the baseline; empty for all honest ones.
        bottleneck: one of BOTTLENECKS; "" where neither lesson nor suite says.
    """

    target: Target
    case: str = ""
    rungs: tuple[str, ...] = ()
    layer: Layer = Layer.MICRO
    bottleneck: str = ""

    @property
    def launch_count(self) -> bool:
        """See counts_launches."""
        return counts_launches(self.target)


# -- a suite -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Per:
    """What a suite says of the targets that one word means; what is empty or None is as usual."""

    case: str = ""
    rungs: tuple[str, ...] = ()
    layer: Layer | None = None
    bottleneck: str = ""


@dataclass(frozen=True, slots=True)
class How:
    """How a suite's targets are measured, as `aisp run` takes it; 0 replicas are the mode's own number."""

    quick: bool = False
    replicas: int = 0
    warm: bool = False
    policy: Policy = Policy.STRICT


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as its file says it.

    Attributes:
        name: of the file.
        targets: words, as `aisp run` takes them.
        per: what is said of some of them, by word; a later one has the last word.
        contract: file of the contract that its runs must keep; None where there is none.
        layers, bottlenecks: only targets of these; empty for any.
    """

    name: str
    path: Path
    title: str
    targets: tuple[str, ...]
    how: How = How()
    per: Mapping[str, Per] = field(default_factory=dict)
    contract: Path | None = None
    layers: tuple[Layer, ...] = ()
    bottlenecks: tuple[str, ...] = ()

    def resolve(self, catalog: Catalog) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
        """The targets that the suite means, each once, in its order; and a sentence for whatever of it is gone."""
        problems: list[Problem] = []
        chosen: dict[str, Entry] = {}
        for word in self.targets:
            try:
                matches = catalog.choose(word)
            except TargetError as error:
                problems.append(self._gone("targets", error, word))
                continue
            if choosing.is_group(word, catalog.ids):
                problems += self._broken(word, catalog.broken)
            for target in matches:
                chosen.setdefault(target.id, Entry(target, layer=layer_of(target), bottleneck=bottleneck_of(target)))
        for word, changes in self.per.items():
            try:
                meant = choosing.some(catalog.renamed(word), catalog.ids, catalog.broken)
            except TargetError as error:
                problems.append(self._gone(f"per.{word}", error))
                continue
            for target_id in meant:
                if target_id in chosen:
                    chosen[target_id] = self._with(chosen[target_id], changes)
        entries = (self._there(entry, problems) for entry in chosen.values())
        return tuple(entry for entry in entries if entry is not None and self._admits(entry, problems)), tuple(problems)

    def _gone(self, key: str, error: TargetError, word: str = "") -> Problem:
        message, _, fix = str(error).partition("; ")
        return Problem(self.path, key, message, fix or "take it out of the suite", word)

    def _broken(self, word: str, broken: Mapping[str, Sequence[Problem]]) -> list[Problem]:
        return [
            Problem(self.path, "targets", f"{target_id} does not load: {broken[target_id][0]}", "repair it", target_id)
            for target_id in choosing.meant(word, list(broken))
        ]

    def lost(self, before: Iterable[str], catalog: Catalog) -> list[str]:
        """Targets of an earlier run that the suite still means by a group, or by their name, and that are nowhere now,
        or left out by `only`."""
        groups = [word for word in self.targets if choosing.is_group(word, catalog.ids)]
        there = {name for entry in self.resolve(catalog)[0] for name in entry.target.names} | {*catalog.broken}
        words = [*groups, *(word for word in self.targets if word in catalog.ids)]
        return [one for one in before if one not in there and any(choosing.meant(word, [one]) for word in words)]

    def _with(self, entry: Entry, changes: Per) -> Entry:
        return replace(
            entry,
            case=changes.case or entry.case,
            rungs=changes.rungs or entry.rungs,
            layer=changes.layer or entry.layer,
            bottleneck=changes.bottleneck or entry.bottleneck,
        )

    def _there(self, entry: Entry, problems: list[Problem]) -> Entry | None:
        """The entry with those of its rungs that are there; None where its case, or all of them, are gone."""
        target = entry.target
        cases = tuple(case.name for case in target.cases)
        if entry.case and entry.case not in cases:
            fix = suggest(entry.case, cases, "name one that it has")
            problems.append(
                Problem(self.path, "per", f"{target.id} has no case {entry.case!r} and is left out", fix, target.id)
            )
            return None
        names = tuple(rung.name for rung in target.rungs)
        gone = [name for name in entry.rungs if name not in names]
        for name in gone:
            message = f"{target.id} has no rung {name!r}"
            left_out, lost = (", and is left out", target.id) if len(gone) == len(entry.rungs) else ("", "")
            problems.append(
                Problem(self.path, "per", message + left_out, suggest(name, names, "name one that it has"), lost)
            )
        kept = tuple(name for name in entry.rungs if name not in gone)
        return None if gone and not kept else replace(entry, rungs=kept)

    def _admits(self, entry: Entry, problems: list[Problem]) -> bool:
        """Whether the entry is of the layers and bottlenecks that the suite wants."""
        if self.layers and entry.layer not in self.layers:
            return False
        if self.bottlenecks and not entry.bottleneck:
            message = f"{entry.target.id} says no bottleneck, and is left out"
            fix = f'write [per."{entry.target.id}"] with bottleneck = "bytes", or an expected limiter into its lesson'
            problems.append(Problem(self.path, "only.bottleneck", message, fix))
        return not self.bottlenecks or entry.bottleneck in self.bottlenecks


# -- reading -----------------------------------------------------------------------------------------------------------


def load_suites(roots: Sequence[Path] | None = None) -> tuple[dict[str, Suite], tuple[Problem, ...]]:
    """The shipped suites, and those in the folder `suites` of each root, by name.

    One of a root stands for the shipped one of that name. Never raises for what stands on disk.
    """
    problems: list[Problem] = []
    shipped = _of_folder(shipped_root() / FOLDER, problems)
    own: dict[str, Suite] = {}
    for root in roots or ():
        for name, suite in _of_folder(root / FOLDER, problems).items():
            first = own.setdefault(name, suite)
            if first.path != suite.path:
                message = f"the name {name} is taken by {first.path}"
                problems.append(Problem(suite.path, "", message, "rename one of the two files"))
    return shipped | own, tuple(problems)


def _of_folder(folder: Path, problems: list[Problem]) -> dict[str, Suite]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".toml" and not path.name.endswith(SUFFIX))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        problems.append(Problem(folder, "", f"cannot be read: {sources.reason(error)}", "check its permissions"))
        return {}
    if len(files) > MAX_SUITES:
        message = f"holds {len(files)} suites, and those after {files[MAX_SUITES - 1].name} are left out"
        problems.append(Problem(folder, "", message, f"keep to {MAX_SUITES}"))
    suites: dict[str, Suite] = {}
    for path in files[:MAX_SUITES]:
        try:
            suite, wrong = parse(sources.read_bytes(str(path)), path)
        except OSError as error:
            message = f"cannot be read: {sources.reason(error)}"
            problems.append(Problem(path, "", message, "check that it is a readable file"))
            continue
        problems += wrong
        if suite is not None:
            suites[suite.name] = suite
    return suites


def parse(data: bytes, path: Path) -> tuple[Suite | None, tuple[Problem, ...]]:
    """The suite that the file `path` holds with these bytes, or everything that is wrong with it."""
    reader = Reader(path)
    try:
        content = toml(reader, data)
        suite = None if content is None else _suite(reader, content)
    except EnoughError:
        suite = None
    return (None if reader.problems else suite), tuple(reader.problems)


def _suite(reader: Reader, content: dict[str, object]) -> Suite:
    reader.unknown(content, KEYS, "")
    fix = 'write title = "what its result says"'
    title = reader.take(content, "title", (str,), "title", fix)
    if not isinstance(title, str) or not title.strip():
        if "title" not in content or isinstance(title, str):
            reader.wrong("title", "missing" if "title" not in content else "empty", fix)
        title = ""
    fix = 'write targets = ["ch07:transpose", "ch08"]: ids, chapters, globs, or all'
    targets = reader.words(content, "targets", "targets", fix)
    if "targets" not in content or content["targets"] == []:
        reader.wrong("targets", "missing" if "targets" not in content else "empty", fix)
    reader.few(list(targets), MAX_TARGETS, "targets")
    only = _table(reader, content, "only", 'write only = { layer = ["micro"], bottleneck = ["bytes"] }')
    reader.unknown(only, _ONLY_KEYS, "only.")
    return Suite(
        name=name_of(reader.path),
        path=reader.path,
        title=title.strip(),
        targets=targets,
        how=_how(reader, _table(reader, content, "mode", "write mode = { quick = true }")),
        per=_per(reader, _table(reader, content, "per", 'write [per."ch07:transpose"], then case = "wide"')),
        contract=_contract(reader, content),
        layers=tuple(Layer(word) for word in _choices(reader, only, "layer", tuple(layer.value for layer in Layer))),
        bottlenecks=_choices(reader, only, "bottleneck", BOTTLENECKS),
    )


def _table(reader: Reader, content: dict[str, object], key: str, fix: str) -> dict[str, object]:
    table = reader.take(content, key, (dict,), key, fix)
    return table if isinstance(table, dict) else {}


def _choices(reader: Reader, only: dict[str, object], key: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    """The words of `only.<key>`, each of which is one of `known`."""
    place = f"only.{key}"
    words = reader.words(only, key, place, f'write {key} = ["{choices[0]}"]')
    for word in words:
        if word not in choices:
            reader.wrong(place, f"unknown {key} {shown(word)}", suggest(word, choices, "use a known one"))
    return tuple(word for word in words if word in choices)


def _how(reader: Reader, mode: dict[str, object]) -> How:
    reader.unknown(mode, _MODE_KEYS, "mode.")
    quick = reader.take(mode, "quick", (bool,), "mode.quick", "write quick = true, or leave it out")
    warm = reader.take(mode, "warm", (bool,), "mode.warm", "write warm = true, or leave it out")
    fix = f"write replicas = 5, from 1 to {MAX_REPLICAS}, or leave it out for the mode's own number"
    replicas = reader.take(mode, "replicas", (int,), "mode.replicas", fix)
    if isinstance(replicas, int) and not 1 <= replicas <= MAX_REPLICAS:
        reader.wrong("mode.replicas", f"{shown(replicas)} replicas", fix)
    policies = tuple(policy.value for policy in Policy)
    policy = reader.take(mode, "policy", (str,), "mode.policy", f"use one of {', '.join(policies)}")
    if isinstance(policy, str) and policy not in policies:
        reader.wrong("mode.policy", f"unknown policy {shown(policy)}", suggest(policy, policies, "use a known one"))
    return How(
        quick=quick is True,
        replicas=replicas if isinstance(replicas, int) else 0,
        warm=warm is True,
        policy=Policy(policy) if policy in policies else Policy.STRICT,
    )


def _per(reader: Reader, tables: dict[str, object]) -> dict[str, Per]:
    reader.few(tables, MAX_TARGETS, "per")
    changes: dict[str, Per] = {}
    for word, table in tables.items():
        place = f"per.{word}"
        if not isinstance(table, dict):
            reader.wrong(place, f"{shown(table)} is no table", f'write [per."{word}"], then case = "wide"')
            continue
        reader.unknown(table, _PER_KEYS, f"{place}.")
        case = reader.take(table, "case", (str,), f"{place}.case", 'write case = "wide"')
        rungs = reader.words(table, "rungs", f"{place}.rungs", 'write rungs = ["optimized"]')
        words: dict[str, str] = {}
        for key, choices in (("layer", tuple(layer.value for layer in Layer)), ("bottleneck", BOTTLENECKS)):
            value = reader.take(table, key, (str,), f"{place}.{key}", f"use one of {', '.join(choices)}")
            if isinstance(value, str) and value not in choices:
                message = f"unknown {key} {shown(value)}"
                reader.wrong(f"{place}.{key}", message, suggest(value, choices, "use a known one"))
            elif isinstance(value, str):
                words[key] = value
        layer = words.get("layer")
        changes[word] = Per(
            case if isinstance(case, str) else "", rungs, Layer(layer) if layer else None, words.get("bottleneck", "")
        )
    return changes


def _contract(reader: Reader, content: dict[str, object]) -> Path | None:
    fix = f'write contract = "tier1.{SUFFIX}": a file beside the suite'
    name = reader.take(content, "contract", (str,), "contract", fix)
    if not isinstance(name, str):
        return None
    if "/" in name or "\\" in name or "\0" in name or not name.endswith(SUFFIX):
        reader.wrong("contract", f"{shown(name)} is no contract beside the suite", fix)
        return None
    return reader.path.parent / name
