"""BenchmarkRun documents: a contract, and perhaps what a run came to, as YAML in the manner of a Kubernetes resource.

    apiVersion: aisp/v1
    kind: BenchmarkRun
    metadata: {name, title, owners}
    spec:     {workload, precision, cacheState, replicas, ..., kpi, layer, bottleneck}
    results:  [...]                         what runs came to; not part of the contract

`PLACES` says where each key of a contract stands. What is read goes through the contract's own checks. PyYAML is an
extra of the installation and imported when a document is read or written: `MissingYamlError` says how to get it. A
document's size, depth and count of values are bounded, and aliases are refused: ten lines of them can stand for
gigabytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from . import contracts
from .contracts import KEYS, MAX_BYTES, Contract
from .frontmatter import EnoughError, Reader, shown
from .grammar import suggest
from .model import Problem

API_VERSION = "aisp/v1"
KIND = "BenchmarkRun"
MAX_DEPTH = 20
MAX_VALUES = 10_000

_OTHERWISE = {
    "title": ("metadata", "title"),
    "owners": ("metadata", "owners"),
    "workload": ("spec", "workload", "targets"),
    "cases": ("spec", "workload", "cases"),
    "precision": ("spec", "precision", "dtypes"),
    "measuring.cache": ("spec", "cacheState"),
    "measuring.mode": ("spec", "mode"),
    "measuring.replicas": ("spec", "replicas"),
    "measuring.looks": ("spec", "looks"),
    "measuring.policy": ("spec", "policy"),
    "environment.temperature_c": ("spec", "environment", "temperatureCelsius"),
}
PLACES: Mapping[str, tuple[str, ...]] = {key: _OTHERWISE.get(key, ("spec", *key.split("."))) for key in KEYS}
"""Where each key of a contract stands in the document."""
_HEAD = ("apiVersion", "kind", "metadata", "spec", "results")


class MissingYamlError(ImportError):
    """PyYAML is not installed."""

    def __init__(self) -> None:
        super().__init__("YAML needs PyYAML, which is not installed; `pip install 'aisp[yaml]'` brings it")


def _yaml() -> ModuleType:
    """PyYAML. Raises MissingYamlError."""
    try:
        import yaml  # an extra of the installation, for these documents alone
    except ImportError:
        raise MissingYamlError from None
    found: ModuleType = yaml
    return found


# -- writing -----------------------------------------------------------------------------------------------------------


def write(contract: Contract, results: Sequence[Mapping[str, object]] = ()) -> str:
    """A contract as YAML, with what runs came to where it is given. Raises MissingYamlError."""
    document: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": contract.name, "labels": {"contract-sha256": contract.sha256}},
        "spec": {},
    }
    for key, value in contract.values.items():
        *tables, name = PLACES[key]
        inner: dict[str, object] = document
        for table in tables:
            below = inner.setdefault(table, {})
            assert isinstance(below, dict)
            inner = below
        inner[name] = list(value) if isinstance(value, tuple) else value
    if results:
        document["results"] = [dict(result) for result in results]
    text = _yaml().safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return str(text)


# -- reading -----------------------------------------------------------------------------------------------------------


def parse(data: bytes, path: Path) -> tuple[Contract | None, tuple[Problem, ...]]:
    """The contract that the document with these bytes says, or everything that is wrong with it.

    Raises:
        MissingYamlError: PyYAML is not installed.
    """
    reader = Reader(path)
    try:
        document = _load(reader, data)
        plain = _plain(reader, document) if document is not None else {}
    except EnoughError:
        plain = {}
    if reader.problems:
        return None, tuple(reader.problems)
    metadata = document.get("metadata") if document is not None else None
    named = metadata.get("name") if isinstance(metadata, Mapping) else None
    name = named if isinstance(named, str) and named else contracts.name_of(path)
    found, problems = contracts.checked(plain, name, path)
    return found, tuple(replace(problem, key=_told(problem.key)) for problem in problems)


def _told(key: str) -> str:
    """Where a contract's key stands in the document, for a message."""
    return ".".join(PLACES.get(key, (key,)))


def _load(reader: Reader, data: bytes) -> dict[str, object] | None:
    """The document as plain data; None, and a problem, where it is none or too much."""
    yaml = _yaml()
    if len(data) > MAX_BYTES:
        reader.wrong("", f"the document has {len(data):,} bytes", f"keep it within {MAX_BYTES:,}")
        return None
    try:
        text = data.decode("utf-8-sig")
        if told := _too_much(yaml, text):
            reader.wrong("", told, "write the values out, and no more of them than are needed")
            return None
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).partition("\n")[0] or "nested too deeply"
        reader.wrong("", f"not YAML{place}: {what}", "each line is key: value, indented by two spaces below its table")
        return None
    if not isinstance(document, dict):
        reader.wrong("", f"{shown(document)} is no document", f"begin it with apiVersion: {API_VERSION}")
        return None
    return document


def _too_much(yaml: ModuleType, text: str) -> str:
    """What of a document is beyond its bounds, from its events, before anything is built of it; "" for nothing."""
    depth = count = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            return f"it has an alias at line {event.start_mark.line + 1}"
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            return f"it is nested more than {MAX_DEPTH} deep"
        if count > MAX_VALUES:
            return f"it has more than {MAX_VALUES:,} values"
    return ""


def _plain(reader: Reader, document: dict[str, object]) -> dict[str, object]:
    """A contract's plain data from the document's; what has no place in it becomes problems of `reader`."""
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != wanted:
            told = f"{shown(document[key])} is not known" if key in document else "missing"
            reader.wrong(key, told, f"write {key}: {wanted}")
    for key in document:
        if key not in _HEAD:
            reader.wrong(shown(key), "unknown key", suggest(str(key), _HEAD, "remove it"))
    found: dict[str, object] = {}
    keys = {place: key for key, place in PLACES.items()}
    tables = {place[:depth] for place in PLACES.values() for depth in range(1, len(place))}
    beside = {("metadata", "name"), ("metadata", "labels"), ("metadata", "annotations")}

    def walk(table: Mapping[object, object], above: tuple[str, ...]) -> None:
        known = sorted(
            {place[len(above)] for place in {*keys, *tables, *beside} if place[: len(above)] == above != place}
        )
        for name, value in table.items():
            place = (*above, str(name))
            if place in keys:
                group, _, own = keys[place].rpartition(".")
                into = found.setdefault(group, {}) if group else found
                assert isinstance(into, dict)
                into[own] = value
            elif place in tables and isinstance(value, Mapping):
                walk(value, place)
            elif place in tables:
                reader.wrong(".".join(place), f"{shown(value)} is no table", "write its keys below it, indented")
            elif place not in beside:
                reader.wrong(".".join(place), "unknown key", suggest(str(name), known, "remove it"))

    for head in ("metadata", "spec"):
        given = document.get(head, {})
        if isinstance(given, Mapping):
            walk(given, (head,))
        else:
            reader.wrong(head, f"{shown(given)} is no table", "write its keys below it, indented")
    return found
