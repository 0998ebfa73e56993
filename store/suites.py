"""Packages of suite runs on disk: a folder per run of a suite, named by its ULID, and `index.json` beside them.

A package is written whole or not at all: its files are written into a folder beside it, flushed, and that folder gets
the package's name. What `store.results.suite_documents` makes goes in; what is read back was written by anybody, so
nothing in it is believed before its kind, schema and shape were looked at, and one bad package never hides the others.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aisp.store.given import flush, json_of, regular_bytes, settle, write_new, write_whole
from aisp.store.results.regression import Change
from aisp.store.results.suite_documents import INDEX, REGRESSION, SCHEMA, SUMMARY
from aisp.store.text import clean_line

NEEDED = {
    SUMMARY: {"id": str, "suite": str, "wall": str, "machine": dict, "targets": list, "changes": dict},
    REGRESSION: {"id": str, "worse": list},
}
"""Documents without which a package is none, and what they must hold."""
MOST_BYTES = 64 * 2**20
"""Most that a document may take."""
_PARTIAL = ".partial-"

Document = dict[str, Any]


class PackageExistsError(FileExistsError):
    """There is a package of that name already; packages are never written over."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package as it was read: its folder, its documents, and whether another machine wrote it."""

    folder: Path
    summary: Document
    regression: Document
    elsewhere: bool = False

    @property
    def id(self) -> str:
        """The ULID of the suite's run."""
        return str(self.summary["id"])


@dataclass(frozen=True, slots=True)
class Packages:
    """What a suite's folder holds.

    Attributes:
        here: packages of this machine, oldest first.
        elsewhere: packages that another machine wrote: to be looked at, never a trend's.
        problems: a sentence for each one that could not be read, or that is from elsewhere.
    """

    here: list[Package] = field(default_factory=list)
    elsewhere: list[Package] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def write(folder: Path, documents: Mapping[str, Document | str]) -> Path:
    """Write a package: all of its files, or nothing. Returns its folder.

    Args:
        folder: of the package; must not exist.
        documents: by file name; text is written as it is, all else as JSON.

    Raises:
        PackageExistsError: there is one.
        ValueError: a name that is no plain file name, or figures that JSON does not know (NaN, infinity).
        OSError: no room, no permission. Nothing is left behind.
    """
    if folder.exists():
        raise PackageExistsError(f"{folder} is there already: a package is never written over")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{_PARTIAL}{folder.name}-", dir=folder.parent))
    try:
        for name, document in documents.items():
            if Path(name).name != name or name.startswith("."):
                raise ValueError(f"{name!r} is no file name for a package")
            write_new(partial / name, _encoded(document), None)
            flush(partial / name)
        partial.chmod(0o755)  # mkdtemp's folders are their owner's alone; a CI job's next step may be another's
        settle(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return folder


def write_index(folder: Path, document: Document) -> Path:
    """Write `index.json` into a suite's folder in the place of the one before. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / INDEX, _encoded(document), 0o644)
    return folder / INDEX


def _encoded(document: Document | str) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document, indent=1, allow_nan=False) + "\n"
    return text.encode("utf-8")


def read_index(folder: Path, machine: Mapping[str, str] | None = None) -> Packages:
    """The packages in a suite's folder; one that cannot be read is named in a sentence, and the rest goes on.

    They are read from their own folders: `index.json` is made from these and is never needed.

    Args:
        machine: this one, as packages name theirs; None to take in all.
    """
    packages = Packages()
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except FileNotFoundError:
        return packages
    except OSError as error:
        packages.problems.append(f"{_name(folder)}: cannot be read: {clean_line(error.strerror or str(error))}")
        return packages
    for name in names:
        if name.startswith(_PARTIAL):
            run = name.removeprefix(_PARTIAL).rpartition("-")[0]
            packages.problems.append(f"{clean_line(run)}: half written, the process that wrote it ended; remove {name}")
            continue
        package = _read(folder / name)
        if isinstance(package, str):
            packages.problems.append(f"{clean_line(name)}: {package}")
        elif differs := _differs(package.summary["machine"], machine):
            foreign = f"from another machine ({differs}): not part of this one's history"
            packages.problems.append(f"{clean_line(name)}: {foreign}")
            packages.elsewhere.append(Package(package.folder, package.summary, package.regression, elsewhere=True))
        else:
            packages.here.append(package)
    return packages


def _read(folder: Path) -> Package | str:
    """A package, or why it is none."""
    documents: dict[str, Document] = {}
    for name in NEEDED:
        document = _read_document(folder / name)
        if isinstance(document, str):
            return document
        documents[name] = document
    ids = {str(document["id"]) for document in documents.values()}
    if ids != {folder.name}:
        return f"its documents are of {clean_line(', '.join(sorted(ids)))}, not of the run that its folder is named by"
    summary, against = documents[SUMMARY], documents[REGRESSION]
    return Package(folder, summary | {"changes": _changes(summary["changes"], against)}, against)


def _changes(counts: Document, against: Document) -> Document:
    """How many targets came to what. Packages from before counted what was left out as not comparable."""
    refused, left_out = Change.NOT_COMPARABLE.value, Change.LEFT_OUT.value
    entries = against.get(refused.replace(" ", "_"))
    if left_out in counts or not isinstance(entries, list) or not isinstance(counts.get(refused), int):
        return counts
    count = sum(isinstance(entry, dict) and bool(entry.get("left_out")) for entry in entries)
    return counts | {refused: counts[refused] - count, left_out: count}


def _read_document(path: Path) -> Document | str:
    """One document of a package, or why it is none."""
    try:
        document = json_of(regular_bytes(path, MOST_BYTES, follow=True))
    except FileNotFoundError:
        return f"half written: {path.name} is missing"
    except ValueError:
        return f"half written: {path.name} is no whole JSON document"
    except OSError as error:
        return f"{path.name} cannot be read: {clean_line(error.strerror or str(error))}"
    if not isinstance(document, dict) or document.get("kind") != f"aisp suite {path.stem}":
        return f"{path.name} is no {path.stem} of a suite"
    schema = document.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        return f"{path.name} has no schema number"
    if schema > SCHEMA:
        return f"{path.name} has schema {schema}, a newer aisp wrote it; this one reads up to {SCHEMA}"
    wrong = [key for key, kind in NEEDED[path.name].items() if not isinstance(document.get(key), kind)]
    if wrong:
        return f"{path.name} lacks {', '.join(wrong)}, or has something else there"
    return document


def _differs(theirs: Mapping[str, Any], ours: Mapping[str, str] | None) -> str:
    """In what a package's machine is another one than this; "" where it is this one, or may be."""
    if ours is None:
        return ""
    apart = [key for key, value in ours.items() if value and theirs.get(key) and theirs[key] != value]
    return ", ".join(f"{clean_line(key)}: {clean_line(str(theirs[key]))}" for key in apart)


def _name(folder: Path) -> str:
    return clean_line(os.fsencode(folder))
