"""The files of a target's folder: which a run depends on, and how each rung reaches the hardware."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from . import onefile
from .model import Kind, Problem, Target
from .parsing import REFUSALS, parsed

LESSON = "lesson.md"
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp")
MAX_SUBFOLDERS = 4  # levels below the target's folder
MAX_FILE_BYTES = 8 * 2**20  # a source file that is larger is data, not source
MAX_FILES = 2048  # of one target
MAX_BYTES = 64 * 2**20  # of all of them
MAX_ENTRIES = 100_000  # names that a walk looks at, whatever they are
MAX_SURVEYED = 2000  # the same behind links that are not followed, which are walked to say what lies there

_GPU_PACKAGES = ("cuda", "cupy", "pycuda", "cutlass")
# Cheap signs in the raw bytes. Only a file that shows one is parsed: most heads need no parser at all.
_IMPORT_LINE = re.compile(rb"\b(?:from|import)\b(?:[^\n\\]+|\\\r?\n?)*")
_TELLING = re.compile(rb"\b(?:triton|cuda|cupy|pycuda|cutlass)\b")
_WORDS = re.compile(rb"\w+")
_INLINE = b"cuda_sources"  # what load_inline of torch.utils.cpp_extension compiles by nvcc
_CUDA_SOURCE = re.compile(rb"\.cuh?['\"]")
_CUDA_FILE = re.compile(r"\S+\.cuh?\Z")  # a file's name, not a sentence that ends with one
_DEFINITIONS = (b"\ndef ", b"\nclass ", b"\nasync ", b"\n@")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a walk over a target's folder found.

    Attributes:
        files: names, relative to the folder and sorted, of every file that a run of the target depends on: lesson.md
            and all sources (*.py *.cu *.cuh *.h *.hpp *.cpp), in sub-folders too unless those are targets of their
            own, hidden, or __pycache__.
        folders: paths of the folders that these can lie in, the target's own first.
        linked: paths of those files that are links.
        outside: (name, path, level) of links to folders elsewhere that were not followed: see `survey`.
        left_out: what else a run does not see of the folder, and why.
        excess: why this is more than a target may have; None where it is not. `files` are then without the part that
            is most of it.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    linked: tuple[str, ...]
    outside: tuple[tuple[str, str, int], ...]
    left_out: tuple[Problem, ...]
    excess: Problem | None


def list_files(folder: Path, links: Collection[str] = ()) -> Listing:
    """Walk over the folder of a target. Raises OSError where it cannot be read.

    A link to a file is followed, and one to a folder that lies in this one. A link to a folder elsewhere is followed
    where `links` has its name, relative to `folder`, as the lesson's front matter gives it. No folder is walked again
    below itself, so that links in a circle end. Of a target that is one file, the parts that it is made into.
    """
    if onefile.is_one_file(folder):
        return Listing(tuple(sorted(onefile.read(folder).files)), (), (os.fspath(folder),), (), (), None)
    walk = _Walk(os.fspath(folder), links, MAX_ENTRIES)
    walk.over(walk.top, "", 0)
    files, excess = walk.files, None
    if walk.full:
        part = walk.heaviest()
        files = [name for name in files if name == LESSON or _part(name) != part]
        excess = walk.sentence(part)
    return Listing(
        tuple(sorted(files)),
        tuple(walk.folders),
        tuple(walk.linked),
        tuple(walk.outside),
        tuple(walk.left_out),
        excess,
    )


def survey(folder: Path, listing: Listing, links: Collection[str]) -> list[Problem]:
    """What lies behind links that were not followed, where it is sources, and which of `links` names nothing."""
    problems: list[Problem] = []
    entries_left = MAX_SURVEYED
    for name, path, level in listing.outside:
        if _is_target(path):
            continue
        walk = _Walk(path, (), entries_left)
        with contextlib.suppress(OSError):
            walk.over(path, "", level)
        entries_left = max(0, walk.entries_left)
        if walk.files:
            held = _held(len(walk.files), walk.nbytes) + (", as far as it was walked" if walk.full else "")
            text = f"is a link out of the folder to {os.path.realpath(path)} and is not followed; behind it: {held}"
            problems.append(Problem(Path(path), "", text, f'where a rung needs it, {LESSON} says links = ["{name}"]'))
    for name in links:
        if not (folder / name).is_dir():
            text = f"there is no folder {name}"
            problems.append(Problem(folder / LESSON, "links", text, "name a link to a folder, or remove it"))
    return problems


class _Walk:
    """One walk over one folder, as far as a target may reach."""

    def __init__(self, top: str, links: Collection[str], most_entries: int) -> None:
        self.top = top
        self.files: list[str] = []
        self.folders: list[str] = []
        self.linked: list[str] = []
        self.left_out: list[Problem] = []
        self.nbytes = 0
        self.full = False  # a bound was passed, and the walk ended there
        self._links = links
        self.entries_left = most_entries
        self.outside: list[tuple[str, str, int]] = []
        self._seen: set[tuple[int, int]] = set()
        self._within: list[str] = []  # what a link may lead into without being named
        self._parts: dict[str, list[int]] = {}  # [sources, their bytes, names] by `_part`

    def over(self, folder: str, prefix: str, level: int) -> None:
        """Take in one folder and what lies below it. Raises OSError where it cannot be read."""
        below: list[tuple[str, str]] = []
        self.folders.append(folder)
        tally = self._parts.setdefault(_part(prefix), [0, 0, 0])
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                tally[2] += 1
                self.entries_left -= 1
                if self.entries_left < 0:
                    self.full = True
                    return
                if name.startswith(".") or name == "__pycache__":
                    continue
                try:
                    if name.endswith(SUFFIXES) or (name == LESSON and not prefix):
                        if entry.is_file():
                            self._take(entry, prefix, tally)
                    elif level < MAX_SUBFOLDERS and entry.is_dir():
                        if entry.is_symlink() and not self._may_follow(entry.path, prefix + name):
                            self.outside.append((prefix + name, entry.path, level + 1))
                        else:
                            below.append((entry.path, f"{prefix}{name}/"))
                except OSError:  # gone while we looked, or a link in a circle: not a file that a run could read
                    continue
                if self.full:
                    return
        if not below:
            return
        here = os.stat(folder)  # noqa: PTH116 - a listing asks for hundreds
        self._seen.add((here.st_dev, here.st_ino))
        for path, inner in below:
            try:
                status = os.stat(path)  # noqa: PTH116
                if (status.st_dev, status.st_ino) in self._seen or (_is_target(path) and inner[:-1] not in self._links):
                    continue
                self.over(path, inner, level + 1)
            except OSError as error:
                if isinstance(error, PermissionError):
                    self._leave_out(path, f"cannot be read: {reason(error)}", "check its permissions")
                continue
            if self.full:
                return

    def _take(self, entry: os.DirEntry[str], prefix: str, tally: list[int]) -> None:
        status = entry.stat()
        nbytes = status.st_size
        if nbytes > MAX_FILE_BYTES:
            message = f"has {nbytes:,} bytes and is left out; a source has at most {MAX_FILE_BYTES:,}"
            self._leave_out(entry.path, message, "move it out of the folder, or split it")
            nbytes = 0
        elif status.st_mode & 0o444 != 0o444 and not os.access(entry.path, os.R_OK):
            self._leave_out(entry.path, "cannot be read: permission denied", "give yourself the right: chmod u+r")
        tally[0] += 1
        tally[1] += nbytes
        self.nbytes += nbytes
        self.files.append(prefix + entry.name)
        if entry.is_symlink():
            self.linked.append(entry.path)
        self.full = len(self.files) > MAX_FILES or self.nbytes > MAX_BYTES

    def _leave_out(self, path: str, message: str, fix: str) -> None:
        self.left_out.append(Problem(Path(path), "", message, fix))

    def _may_follow(self, path: str, name: str) -> bool:
        real = os.path.realpath(path)
        if not self._within:
            self._within.append(os.path.realpath(self.top))
        if name in self._links:
            self._within.append(real)
        return any(real == place or real.startswith(place.rstrip("/") + "/") for place in self._within)

    def heaviest(self) -> str:
        """The part that brings the most, "" for the files that lie in the folder itself."""
        by = 0 if len(self.files) > MAX_FILES else 1 if self.nbytes > MAX_BYTES else 2
        return max(self._parts, key=lambda part: self._parts[part][by])

    def sentence(self, part: str) -> Problem:
        """A sentence that it is too much, and which part of it."""
        count, nbytes, names = self._parts[part]
        most = f"a target has at most {MAX_FILES:,} sources, {size_text(MAX_BYTES)} and {MAX_ENTRIES:,} names"
        path = os.path.join(self.top, part)  # noqa: PTH118
        linked = f"is a link to {os.path.realpath(path)} and " if os.path.islink(path) else ""  # noqa: PTH114
        held = f"{_held(count, nbytes)} among {names:,} names, as far as it was walked"
        message = f"{linked}holds {held}; {most}"
        return Problem(Path(path), "", message, "leave there only what a rung needs")


def _part(name: str) -> str:
    """Which sub-folder of the target a name lies in, "" for those of the folder itself."""
    return name.partition("/")[0] if "/" in name else ""


def _is_target(folder: str) -> bool:
    return os.path.exists(f"{folder}/{LESSON}")  # noqa: PTH110 - hot path


def _held(count: int, nbytes: int) -> str:
    return f"{count:,} {'source' if count == 1 else 'sources'} of {size_text(nbytes)}"


def size_text(nbytes: int) -> str:
    """The size in the largest unit that leaves at least 1: "8 MiB", "3.2 GiB"."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.3g} {unit}"
    return f"{nbytes} bytes"


def reason(error: OSError) -> str:
    """Why a file cannot be read, in the system's words, to stand within a sentence."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read_bytes(path: str) -> bytes:
    """What a regular file of at most MAX_FILE_BYTES holds, or a part of a target that is one file. OSError where it is
    none of these."""
    # Not waiting: a pipe that carries a source's name must not hang the frontend that lists it.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except NotADirectoryError as error:
        file, _, name = path.rpartition("/")
        if onefile.is_one_file(Path(file)) and name in (made := onefile.read(Path(file)).files):
            return made[name]
        raise FileNotFoundError(errno.ENOENT, "no such part of it", path) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a regular file")
        parts: list[bytes] = []
        nbytes = status.st_size  # a sparse file of gigabytes is not read to find that out
        while nbytes <= MAX_FILE_BYTES and (part := os.read(descriptor, max(status.st_size + 1, 4096))):
            parts.append(part)
            nbytes = max(nbytes, sum(map(len, parts)))
        if nbytes > MAX_FILE_BYTES:
            raise OSError(f"{path} is larger than the {MAX_FILE_BYTES} bytes that a source may have")
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(descriptor)


def read_sources(target: Target) -> dict[str, bytes]:
    """The bytes of every file that a run of `target` depends on, by relative name, as they are on disk now.

    A file that vanishes between the listing and the reading (an editor's atomic save) is left out, as is what
    `Target.left_out` names. Raises OSError where the folder itself cannot be read.
    """
    sources: dict[str, bytes] = {}
    for name in list_files(target.folder, target.links).files:
        try:
            sources[name] = read_bytes(os.path.join(target.folder, name))  # noqa: PTH118
        except OSError:
            continue
    return sources


def not_restorable(folder: Path) -> str:
    """Why no earlier sources can be written back into a target's folder; "" where they can."""
    why = f"{folder} is one file, of which runs keep the parts; `aisp diff FILE RUN` shows them as they ran"
    return why if folder.is_file() else ""


def compiles(source: bytes) -> bool:
    """Whether a rung whose own file this is uses torch's compiler: seconds to import, and more for each new shape."""
    return b"torch.compile" in source


def builds(source: bytes) -> bool:
    """Whether a file of a rung names torch's builder of C++ and CUDA extensions: tens of seconds for each extension."""
    return b"cpp_extension" in source or b"load_inline" in source


def find_kinds(folder: Path, files: tuple[str, ...], rungs: list[str]) -> dict[str, Kind]:
    """How each of `rungs` (file names without .py) reaches the hardware, by the imports of its file.

    `triton` makes TRITON. `cuda`, `kernels.cuda` and the like, a string that names a .cu file, and the argument
    `cuda_sources` of torch's load_inline make CUDA, which wins. Imports of other files of the folder count as the
    rung's own. A file that does not parse is TORCH unless its head says otherwise: it is still a rung, and running it
    shows the syntax error.
    """
    siblings = frozenset(name[:-3] for name in files if name.endswith(".py") and "/" not in name)
    kinds: dict[str, tuple[Kind, frozenset[str]]] = {}

    def kind_of(stem: str, above: frozenset[str]) -> Kind:
        if stem not in kinds:
            try:
                data = read_bytes(os.path.join(folder, f"{stem}.py"))  # noqa: PTH118
            except OSError:
                data = b""
            kinds[stem] = _scan(data, folder.name, siblings)
        kind, imported = kinds[stem]
        for other in imported - above:
            if kind is Kind.CUDA:
                break
            theirs = kind_of(other, above | {stem})
            if theirs is not Kind.TORCH:
                kind = theirs
        return kind

    return {stem: kind_of(stem, frozenset((stem,))) for stem in rungs}


def kind_of(source: bytes) -> Kind:
    """How one file reaches the hardware by its own imports, as `find_kinds` says of a rung. It is not remembered: what
    somebody sends in is seen once."""
    return _scan.__wrapped__(source, "", frozenset())[0]


@lru_cache(maxsize=4096)  # a collection is read again after every save, and nearly all of it is as it was
def _scan(data: bytes, folder_name: str, siblings: frozenset[str]) -> tuple[Kind, frozenset[str]]:
    """The kind that one file's own imports give, and the siblings it imports."""
    # The head, above the first definition, holds the imports of nearly every rung and is all that is parsed.
    # The rest is looked at only where it holds the word itself.
    ends = [end for end in (data.find(start) for start in _DEFINITIONS) if end >= 0]
    head = data[: min(ends) + 1] if ends else data
    rest = data[len(head) :]
    reads_cuda = (b".cu" in data and _CUDA_SOURCE.search(data) is not None) or _INLINE in data
    telling, near = _signs(head, siblings)
    late_telling, late_near = _signs(rest, siblings) if b"import" in rest else (False, frozenset[str]())
    if not (reads_cuda or telling or near or late_telling or late_near):
        return Kind.TORCH, frozenset()
    kind, imported = _imports(head, folder_name, siblings)
    left_out = late_telling or (reads_cuda and kind is not Kind.CUDA) or not imported >= late_near
    if rest and (left_out or (telling and kind is Kind.TORCH) or not imported >= near):
        whole_kind, whole_imported = _imports(data, folder_name, siblings)
        kind = whole_kind if whole_kind is not Kind.TORCH else kind
        imported |= whole_imported
    return kind, imported


def _signs(source: bytes, siblings: frozenset[str]) -> tuple[bool, frozenset[str]]:
    """What the import lines of `source` hold: a word that tells the kind, and names of siblings."""
    lines = b"\n".join(_IMPORT_LINE.findall(source))
    near = siblings & {word.decode() for word in _WORDS.findall(lines) if word.isascii()}
    return _TELLING.search(lines) is not None, near


def _imports(source: bytes, folder_name: str, siblings: frozenset[str]) -> tuple[Kind, frozenset[str]]:
    try:
        tree = parsed(source)
    except REFUSALS:
        return Kind.TORCH, frozenset()
    kind = Kind.TORCH
    imported: set[str] = set()
    pending: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            imported.update(name for name in modules if name in siblings)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            modules = [f"{base}.{alias.name}".lstrip(".") for alias in node.names] if node.level == 0 else []
            if node.level == 1:
                imported.update([base.partition(".")[0]] if base else [alias.name for alias in node.names])
            elif node.level == 0:
                imported.update(name for name in (base,) if name in siblings)
        elif isinstance(node, ast.keyword) and node.arg == _INLINE.decode():
            kind = Kind.CUDA
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _CUDA_FILE.match(node.value):
                kind = Kind.CUDA
            continue
        else:
            pending.extend(ast.iter_child_nodes(node))
        for module in modules:
            parts = module.split(".")
            if parts[0] in _GPU_PACKAGES or parts[:3] == ["aisp", "kernels", "cuda"] or parts[:2] == ["numba", "cuda"]:
                kind = Kind.CUDA
            elif parts[0] == "triton" and kind is Kind.TORCH:
                kind = Kind.TRITON
            # kernels.ch07_memory_access.transpose.baseline: the folder's own files by their full name
            for package, name in pairwise(parts):
                if package == folder_name and name in siblings:
                    imported.add(name)
    return kind, frozenset(imported & siblings)
