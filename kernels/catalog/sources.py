"""The files of a target's folder: which a run depends on, and how each rung reaches the hardware."""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from .model import Kind, Target
from .parsing import parsed

LESSON = "lesson.md"
SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp")
MAX_SUBFOLDERS = 4  # levels below the target's folder
MAX_FILE_BYTES = 8 * 2**20  # a source file that is larger is data, not source

_GPU_PACKAGES = ("cuda", "cupy", "pycuda", "cutlass")
# Cheap signs in the raw bytes. Only a file that shows one is parsed: most heads need no parser at all.
_IMPORT_LINE = re.compile(rb"\b(?:from|import)\b(?:[^\n\\]+|\\\r?\n?)*")
_TELLING = re.compile(rb"\b(?:triton|cuda|cupy|pycuda|cutlass)\b")
_WORDS = re.compile(rb"\w+")
_CUDA_SOURCE = re.compile(rb"\.cuh?['\"]")
_CUDA_FILE = re.compile(r"\S+\.cuh?\Z")  # a file's name, not a sentence that ends with one
_DEFINITIONS = (b"\ndef ", b"\nclass ", b"\nasync ", b"\n@")


def list_files(folder: Path) -> tuple[str, ...]:
    """Names, relative to `folder` and sorted, of every file that a run of the target there depends on.

    That is lesson.md and all sources (*.py *.cu *.cuh *.h *.hpp *.cpp), in sub-folders too unless those are
    targets of their own, hidden, or __pycache__. Links are followed, loops are not. Raises OSError where
    `folder` cannot be read.
    """
    return tuple(sorted(_walk(os.fspath(folder), "", 0, set())))


def _walk(folder: str, prefix: str, level: int, seen: set[tuple[int, int]]) -> Iterator[str]:
    below: list[tuple[str, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name == "__pycache__":
                continue
            try:
                if name.endswith(SUFFIXES) or (name == LESSON and not prefix):
                    if entry.is_file():
                        yield prefix + name
                elif level < MAX_SUBFOLDERS and entry.is_dir():
                    below.append((entry.path, f"{prefix}{name}/"))
            except OSError:  # gone while we looked, or a link in a circle: not a file that a run could read
                continue
    if not below:
        return
    here = os.stat(folder)  # noqa: PTH116 - a listing asks for hundreds
    seen.add((here.st_dev, here.st_ino))
    for path, inner in below:
        try:
            found = os.stat(path)  # noqa: PTH116
            if (found.st_dev, found.st_ino) in seen or os.path.exists(f"{path}/{LESSON}"):  # noqa: PTH110 - hot path
                continue
            yield from _walk(path, inner, level + 1, seen)
        except OSError:
            continue


def read_bytes(path: str) -> bytes:
    """What a regular file of at most MAX_FILE_BYTES holds. OSError where it is neither."""
    # Not waiting: a pipe that carries a source's name must not hang the face that lists it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is not a regular file")
        parts: list[bytes] = []
        while part := os.read(descriptor, max(found.st_size + 1, 4096)):
            parts.append(part)
            if sum(map(len, parts)) > MAX_FILE_BYTES:
                raise OSError(f"{path} is larger than the {MAX_FILE_BYTES} bytes that a source may have")
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(descriptor)


def read_sources(target: Target) -> dict[str, bytes]:
    """The bytes of every file that a run of `target` depends on, by relative name, as they are on disk now.

    A file that vanishes between the listing and the reading (an editor's atomic save) is left out. Raises
    OSError where the folder itself cannot be read.
    """
    sources: dict[str, bytes] = {}
    for name in list_files(target.folder):
        try:
            sources[name] = read_bytes(os.path.join(target.folder, name))  # noqa: PTH118
        except OSError:
            continue
    return sources


def compiles(source: bytes) -> bool:
    """Whether a rung whose own file this is uses torch's compiler: seconds to import, and more for each new shape."""
    return b"torch.compile" in source


def find_kinds(folder: Path, files: tuple[str, ...], rungs: list[str]) -> dict[str, Kind]:
    """How each of `rungs` (file names without .py) reaches the hardware, by the imports of its file.

    `triton` makes TRITON. `cuda`, `kernels.cuda` and its like, and a string that names a .cu file make CUDA,
    which wins. Imports of other files of the folder count as the rung's own. A file that does not parse is
    TORCH as far as its head does not say otherwise: it still is a rung, and running it shows the syntax
    error.
    """
    siblings = frozenset(name[:-3] for name in files if name.endswith(".py") and "/" not in name)
    known: dict[str, tuple[Kind, frozenset[str]]] = {}

    def kind_of(stem: str, above: frozenset[str]) -> Kind:
        if stem not in known:
            try:
                data = read_bytes(os.path.join(folder, f"{stem}.py"))  # noqa: PTH118
            except OSError:
                data = b""
            known[stem] = _scan(data, folder.name, siblings)
        kind, imported = known[stem]
        for other in imported - above:
            if kind is Kind.CUDA:
                break
            theirs = kind_of(other, above | {stem})
            if theirs is not Kind.TORCH:
                kind = theirs
        return kind

    return {stem: kind_of(stem, frozenset((stem,))) for stem in rungs}


@lru_cache(maxsize=4096)  # a collection is read again after every save, and nearly all of it is as it was
def _scan(data: bytes, folder_name: str, siblings: frozenset[str]) -> tuple[Kind, frozenset[str]]:
    """The kind that one file's own imports give, and the siblings it imports."""
    # The head, above the first definition, holds the imports of nearly every rung and is all that is parsed.
    # The rest is looked at only where it holds the word itself.
    ends = [end for end in (data.find(start) for start in _DEFINITIONS) if end >= 0]
    head = data[: min(ends) + 1] if ends else data
    rest = data[len(head) :]
    reads_cuda = b".cu" in data and _CUDA_SOURCE.search(data) is not None
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
    except (SyntaxError, ValueError, MemoryError, RecursionError):
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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _CUDA_FILE.match(node.value):
                kind = Kind.CUDA
            continue
        else:
            pending.extend(ast.iter_child_nodes(node))
        for module in modules:
            parts = module.split(".")
            if parts[0] in _GPU_PACKAGES or parts[:2] == ["kernels", "cuda"] or parts[:2] == ["numba", "cuda"]:
                kind = Kind.CUDA
            elif parts[0] == "triton" and kind is Kind.TORCH:
                kind = Kind.TRITON
            # kernels.ch07_memory_access.transpose.baseline: the folder's own files by their full name
            for package, name in pairwise(parts):
                if package == folder_name and name in siblings:
                    imported.add(name)
    return kind, frozenset(imported & siblings)
