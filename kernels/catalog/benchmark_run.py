"""BenchmarkRun documents: a contract, and perhaps what a run came to, as YAML in the manner of a Kubernetes resource.

    apiVersion: aisp/v1
    kind: BenchmarkRun
    metadata: {name, title, owners}
    spec:     {workload, precision, cacheState, replicas, ..., kpi, layer, bottleneck}
    results:  [...]                         what runs came to; not part of the contract

`PLACES` says where each key of a contract stands. What is read goes through `yaml_text`, which bounds it, and
through the contract's own checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from . import contracts, yaml_text
from .contracts import KEYS, MAX_BYTES, Contract
from .frontmatter import EnoughError, Reader, shown
from .grammar import suggest
from .model import Problem

API_VERSION = "aisp/v1"
KIND = "BenchmarkRun"

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
    "measuring.judged": ("spec", "judged"),
    "environment.temperature_c": ("spec", "environment", "temperatureCelsius"),
}
PLACES: Mapping[str, tuple[str, ...]] = {key: _OTHERWISE.get(key, ("spec", *key.split("."))) for key in KEYS}
"""Where each key of a contract stands in the document."""
_HEAD = ("apiVersion", "kind", "metadata", "spec", "results")


# -- writing -----------------------------------------------------------------------------------------------------------


def write(contract: Contract, results: Sequence[Mapping[str, object]] = ()) -> str:
    """A contract as YAML, with what runs came to where it is given. Raises yaml_text.MissingYamlError."""
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
    text = yaml_text.library().safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return str(text)


# -- reading -----------------------------------------------------------------------------------------------------------


def parse(data: bytes, path: Path) -> tuple[Contract | None, tuple[Problem, ...]]:
    """The contract that the document with these bytes says, or everything that is wrong with it.

    Raises:
        yaml_text.MissingYamlError: PyYAML is not installed.
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
    contract, problems = contracts.checked(plain, name, path)
    return contract, tuple(replace(problem, key=_place_of(problem.key)) for problem in problems)


def _place_of(key: str) -> str:
    """Where a contract's key stands in the document, for a message."""
    return ".".join(PLACES.get(key, (key,)))


def _load(reader: Reader, data: bytes) -> dict[str, object] | None:
    """The document as plain data; None, and a problem, where it is none or too much."""
    try:
        document = yaml_text.load(data, most=MAX_BYTES)
    except yaml_text.YamlTextError as error:
        reader.wrong("", error.reason, error.fix)
        return None
    if not isinstance(document, dict):
        reader.wrong("", f"{shown(document)} is no document", f"begin it with apiVersion: {API_VERSION}")
        return None
    return document


def _plain(reader: Reader, document: dict[str, object]) -> dict[str, object]:
    """A contract's plain data from the document's; what has no place in it becomes problems of `reader`."""
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != wanted:
            message = f"{shown(document[key])} is not known" if key in document else "missing"
            reader.wrong(key, message, f"write {key}: {wanted}")
    for key in document:
        if key not in _HEAD:
            reader.wrong(shown(key), "unknown key", suggest(str(key), _HEAD, "remove it"))
    content: dict[str, object] = {}
    keys = {place: key for key, place in PLACES.items()}
    tables = {place[:depth] for place in PLACES.values() for depth in range(1, len(place))}
    beside = {("metadata", "name"), ("metadata", "labels"), ("metadata", "annotations")}

    def walk(table: Mapping[object, object], above: tuple[str, ...]) -> None:
        names = sorted(
            {place[len(above)] for place in {*keys, *tables, *beside} if place[: len(above)] == above != place}
        )
        for name, value in table.items():
            place = (*above, str(name))
            if place in keys:
                group, _, own = keys[place].rpartition(".")
                into = content.setdefault(group, {}) if group else content
                assert isinstance(into, dict)
                into[own] = value
            elif place in tables and isinstance(value, Mapping):
                walk(value, place)
            elif place in tables:
                reader.wrong(".".join(place), f"{shown(value)} is no table", "write its keys below it, indented")
            elif place not in beside:
                reader.wrong(".".join(place), "unknown key", suggest(str(name), names, "remove it"))

    for head in ("metadata", "spec"):
        section = document.get(head, {})
        if isinstance(section, Mapping):
            walk(section, (head,))
        else:
            reader.wrong(head, f"{shown(section)} is no table", "write its keys below it, indented")
    return content
