"""What all dialects share: what a path can be, what is told of it, and where foreign text may be read from.

Nothing here imports or runs what it reads. Sizes are bounded, links are not followed out of the checkout, and of a
repository only names and hashes are read, without running git.
"""

from __future__ import annotations

import ast
import enum
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aisp.kernels.catalog.model import Problem
from aisp.kernels.catalog.onefile import MAX_BYTES, Parts

NEEDS_GPU = 'its code says "cuda": it cannot run without a GPU'
MAX_REFS_BYTES = 8 * 2**20  # of a repository's packed-refs
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_REF = re.compile(r"refs/[\w./+-]{1,300}\Z")
_LICENCE = re.compile(r"(?:un)?licen[cs]e|copying", re.IGNORECASE)


class Part(enum.StrEnum):
    """What a path is in a dialect."""

    PROBLEM = "problem"
    CANDIDATE = "candidate"  # an answer to a problem, which it need not name
    COLLECTION = "collection"  # a folder of problems
    RUNS = "runs"  # a folder of answers, with what was claimed of them


@dataclass(frozen=True, slots=True)
class Listed:
    """One problem of a collection.

    Attributes:
        level, number: where its dialect counts them.
        name: in words.
        path: of its file or folder; what `read` and `against` take.
        reason: why it cannot be judged, as far as listing it shows; "" for nothing known.
    """

    level: int | None
    number: int | None
    name: str
    path: Path
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a problem says.

    Attributes:
        title: in words.
        axes: sizes that inputs depend on.
        inputs: our tensor lines, in the order of the arguments; "made" for what the problem's code makes. In words
            where only a run sees them.
        outputs: likewise.
        weights: whether a module with a state of its own computes it.
        cpu: axes of the case that runs without a GPU; None where the problem has none.
        notes: sentences about it that a person should read before a verdict.
        problems: why it is no problem that can be judged; all else is empty then.
    """

    path: Path
    title: str = ""
    axes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    weights: bool = False
    cpu: Mapping[str, int] | None = None
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class Dialect(Protocol):
    """A module that reads one format of others. It imports nothing heavy before it is asked, and never what it reads.

    Attributes:
        NAME: one word, as JSON has it.
        TITLE: as its authors write it.
    """

    NAME: str
    TITLE: str

    def part(self, path: Path, /) -> Part | None:
        """What a file or a folder is in this dialect: by names, and for one small file by its bytes."""

    def collection(self, folder: Path, /) -> Iterator[Listed]:
        """The problems below a folder, by names alone where possible. A broken one is listed with its reason, and a
        folder that cannot be read holds none."""

    def read(self, path: Path, /) -> Opened:
        """What the problem at `path` says. Raises OSError where it cannot be read."""

    def against(self, candidate: Path, problem: Path, /) -> Parts:
        """The files of the target in which the candidate is judged; where one of the two cannot be taken, its problems
        and no files. Raises OSError where one cannot be read."""


def small(path: Path, *suffixes: str) -> bytes:
    """The bytes of a regular file with one of these suffixes that is no larger than a target's one file may be; b""
    for all else, and for what cannot be read."""
    if suffixes and path.suffix not in suffixes:
        return b""
    data = regular(path, MAX_BYTES + 1)
    return data if len(data) <= MAX_BYTES else b""


def regular(path: Path, most: int) -> bytes:
    """The first `most` bytes of a regular file; b"" where it is none, leads out of its checkout, or cannot be read."""
    if leads_out(path):
        return b""
    try:
        # A pipe without a writer would be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return b""


def contents(path: Path) -> bytes:
    """What a regular file holds. Raises OSError."""
    from aisp.kernels.catalog.sources import read_bytes  # it reads one-file targets, and this module is no part of it

    if leads_out(path):
        raise OSError(f"{path} is a link that leads out of its checkout; name the file that it stands for")
    return read_bytes(os.fspath(path))


def decoded(data: bytes) -> Any:
    """What JSON says. Raises ValueError for all else, NaN and infinities too."""

    def number(name: str) -> float:
        raise ValueError(f"{name} is no number")

    def finite(digits: str) -> float:
        return value if math.isfinite(value := float(digits)) else number(digits)

    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=number, parse_float=finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def folders_in(folder: Path) -> list[str]:
    """The names of the folders in a folder; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except OSError:
        return []


def by_number(name: str) -> tuple[int, str]:
    """The place of a name that may begin with a number, as 12_softmax does."""
    match = re.match(r"\d{1,6}(?=_)", name)
    return (int(match[0]) if match else -1, name)


# -- where it comes from -----------------------------------------------------------------------------------------------


def checkout(path: Path) -> Path:
    """The root of the checkout that a path lies in: the nearest folder with .git, else its own folder. What a problem
    may read lies below it."""
    start = path.absolute()
    start = start if start.is_dir() else start.parent
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def contained(path: Path, root: Path) -> bool:
    """Whether a path, its links followed, lies below a root."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle of links, a name that is none
        return False


def leads_out(path: Path) -> bool:
    """Whether a path in a checkout stands, by links, for one outside of it. A folder of one's own may hold any."""
    try:
        if os.path.realpath(path) == os.path.abspath(path):  # noqa: PTH100  nearly all: no checkout is looked for
            return False
    except (OSError, ValueError):
        return False
    root = checkout(path)
    return (root / ".git").exists() and not contained(path, root)


def says_cuda(tree: ast.AST) -> bool:
    """Whether code asks for "cuda" by that name, other than where it has asked whether there is a GPU, or asserts that
    a tensor lies there."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.IfExp | ast.If) and "is_available" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Attribute) and node.test.attr == "is_cuda":
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.partition(":")[0] == "cuda":
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            return True
        waiting += ast.iter_child_nodes(node)
    return False


def commit(root: Path) -> str:
    """The commit that a checkout stands at, read from the files of its repository; "" where they do not say."""
    place = root / ".git"
    if place.is_file():  # a worktree, or a submodule
        named = _line(place).removeprefix("gitdir: ")
        place = root / named
    head = _line(place / "HEAD")
    if _COMMIT.match(head):
        return head
    ref = head.removeprefix("ref: ")
    if not _REF.match(ref) or ".." in ref:
        return ""
    common = _line(place / "commondir")
    for folder in (place, place / common) if common else (place,):
        if _COMMIT.match(found := _line(folder / ref)):
            return found
        if found := _packed(folder / "packed-refs", ref):
            return found
    return ""


def _line(path: Path) -> str:
    """The first line of a file of a repository; "" where there is none."""
    return regular(path, 4096).decode("utf-8", "replace").partition("\n")[0].strip()


def _packed(path: Path, ref: str) -> str:
    for line in regular(path, MAX_REFS_BYTES).decode("utf-8", "replace").splitlines():
        found, _, name = line.partition(" ")
        if name == ref and _COMMIT.match(found):
            return found
    return ""


def licence(root: Path) -> str:
    """The name of the file in a checkout's root that says under which licence it is; "" where there is none."""
    try:
        names = sorted(os.listdir(root))  # noqa: PTH208 - names alone
    except OSError:
        return ""
    return next((name for name in names if _LICENCE.match(name) and (root / name).is_file()), "")


def provenance(what: str, path: Path, data: bytes) -> str:
    """Where a source comes from, as a line of a lesson's list: its path, sha256, and its checkout's commit and licence
    as far as they are known."""
    root = checkout(path)
    told = [f"`{_plain(str(path))}`", f"sha256 {hashlib.sha256(data).hexdigest()}"]
    if found := commit(root):
        told.append(f"commit {found}")
    if named := licence(root):
        told.append(f"licence file `{_plain(named)}`")
    return f"- {what}: {', '.join(told)}"


def _plain(text: str) -> str:
    """A name on one line, without what a terminal or Markdown would take for more."""
    return "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in text)
