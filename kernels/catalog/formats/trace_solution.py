"""Solutions of SOL-ExecBench and of FlashInfer trace: sources, how they are built, and which function is called.

Python (`python`, `pytorch`, `triton` and other languages that are Python) is imported; CUDA C++ is compiled by
torch.utils.cpp_extension on a machine with a GPU. What needs a package that is not installed here is refused with its
name. Nothing is imported to find that out.
"""

from __future__ import annotations

import ast
import enum
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import PurePosixPath
from typing import Any

from aisp.kernels.catalog.sources import MAX_FILES, MAX_SUBFOLDERS, SUFFIXES

from .kernelbench import bound_names
from .trace_definition import Reader, one_line

FOLDER = "aisp_answer"
"""The folder of a target in which a solution of several files lies."""
CUDA_FLAGS = ("-O3", "--use_fast_math")  # of SOL-ExecBench, where a solution names none
LINK_FLAGS = ("-lcuda",)

_RENAMED = {".cc": ".cpp", ".cxx": ".cpp", ".c": ".cpp"}  # suffixes that a run's snapshot does not take
_COMPILED = (".cu", ".cpp")
_HEADERS = (".cuh", ".h", ".hpp")
_BY_PACKAGE = {  # languages that are Python and need what is not aisp's own: the module and the package
    "cute_dsl": ("cutlass", "nvidia-cutlass-dsl"),
    "cutile": ("cuda.tile", "cuda-tile"),
    "cudnn_frontend": ("cudnn", "nvidia-cudnn-frontend"),
    "tilelang": ("tilelang", "tilelang"),
    "tlx": ("triton.language.extra.tlx", "a Triton with TLX"),
}
_PYTHON = ("python", "pytorch", "triton", *_BY_PACKAGE)
_CPP = ("cpp", "cuda", "cuda_cpp", "cutlass", "cudnn", "cublas")
_WITH_HEADERS = ("cutlass", "cudnn", "cublas")


class Build(enum.StrEnum):
    """How the function that is called comes about."""

    PYTHON = "python"  # imported
    TORCH = "torch"  # compiled to an extension of PyTorch's
    TVM_FFI = "tvm-ffi"  # compiled to a module of TVM's foreign functions


@dataclass(frozen=True, slots=True)
class Solution:
    """An answer to a definition.

    Attributes:
        entry: the file with the function, and the function's name.
        languages: as it says.
        into_outputs: the outputs are passed behind the inputs and written into; else they are returned.
        sources: by path. Those that a run does not take are in `left_out`.
        flags: of the C++ compiler, of nvcc, and of the linker.
        triton: whether a source imports Triton.
        gpu: it cannot run without one.
    """

    name: str
    definition: str
    author: str
    description: str
    languages: tuple[str, ...]
    hardware: tuple[str, ...]
    build: Build
    entry: tuple[str, str]
    into_outputs: bool
    sources: Mapping[str, str]
    left_out: tuple[str, ...]
    flags: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    triton: bool
    gpu: bool
    imports_relatively: bool


def read(reader: Reader, data: bytes) -> Solution:
    """The solution that `data` is. Raises RefusedError where it is none, or cannot be had here."""
    written = reader.document(data)
    name = reader.text(written, "name", "name")
    definition = reader.text(written, "definition", "definition")
    author = reader.text(written, "author", "author", needed=False)
    description = reader.text(written, "description", "description", needed=False)
    spec = reader.table(written, "spec", "spec")
    languages = _languages(reader, spec)
    entry = _entry(reader, spec)
    sources, left_out = _sources(reader, written)
    reader.hold()
    build = _build(reader, spec, languages)
    # What is compiled is one extension, in which the function's name is enough; older solutions name it, and no file.
    unnamed = build is not Build.PYTHON and PurePosixPath(entry[0]).suffix == ""
    if entry[0] not in sources and not unnamed:
        there = ", ".join(sources) or "none"
        raise reader.refuse("spec.entry_point", f"there is no source {entry[0]!r}", f"name one (there is: {there})")
    _refuse_mixed(reader, languages, build, entry[0])
    _refuse_absent(reader, languages)
    trees = {path: reader.python(text, path) for path, text in sources.items() if path.endswith(".py")}
    reader.hold()
    if build is Build.PYTHON and not _has(trees[entry[0]], entry[1]):
        told = f"{entry[0]} has no function {entry[1]}"
        raise reader.refuse("spec.entry_point", told, "name a function at its left edge")
    imports = {found for tree in trees.values() if tree is not None for found in _imports(tree)}
    modules = {module.partition(".")[0] for module, level in imports if not level}
    compiled = any(path.endswith(".cu") for path in sources)
    if build is not Build.PYTHON and not any(path.endswith(_COMPILED) for path in sources):
        raise reader.refuse("sources", "there is nothing to compile", f"add a file *{' or *'.join(_COMPILED)}")
    return Solution(
        name=name,
        definition=definition,
        author=author,
        description=description,
        languages=languages,
        hardware=_words(spec.get("target_hardware")),
        build=build,
        entry=entry,
        into_outputs=spec.get("destination_passing_style") is not False,
        sources=sources,
        left_out=left_out,
        flags=_flags(spec),
        triton="triton" in modules,
        gpu=compiled or bool(set(languages) & {*_BY_PACKAGE, *_CPP} - {"cpp"}),
        imports_relatively=any(level for _, level in imports),
    )


def _languages(reader: Reader, spec: Mapping[str, Any]) -> tuple[str, ...]:
    given = spec.get("languages", spec.get("language"))
    found = _words([given] if isinstance(given, str) else given)
    if not found:
        reader.wrong("spec.language", "missing", 'write "language": "triton", or "languages": ["triton"]')
    for language in found:
        if language not in (*_PYTHON, *_CPP):
            told = f"unknown language {one_line(language, limit=60)!r}"
            reader.wrong("spec.language", told, f"use one of {', '.join((*_PYTHON, *_CPP))}")
    return found


def _words(given: object) -> tuple[str, ...]:
    items = [given] if isinstance(given, str) else given
    return tuple(each for each in items if isinstance(each, str)) if isinstance(items, list) else ()


def _entry(reader: Reader, spec: Mapping[str, Any]) -> tuple[str, str]:
    given = reader.text(spec, "entry_point", "spec.entry_point")
    file, mark, function = given.rpartition("::")
    if given and not (mark and file and function.isidentifier()):
        reader.wrong("spec.entry_point", f"{given!r} names no function", 'write "main.py::run"')
    return _renamed(file), function


def _renamed(path: str) -> str:
    suffix = PurePosixPath(path).suffix
    return path[: -len(suffix)] + _RENAMED[suffix] if suffix in _RENAMED else path


def _sources(reader: Reader, written: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    given = written.get("sources")
    if not isinstance(given, list) or not given or len(given) > MAX_FILES // 2:
        reader.wrong("sources", "it is no list of files", 'write [{"path": "main.py", "content": "..."}]')
        return {}, ()
    found: dict[str, str] = {}
    left_out: list[str] = []
    for index, source in enumerate(given):
        place = f"sources[{index}]"
        path = source.get("path") if isinstance(source, dict) else None
        content = source.get("content") if isinstance(source, dict) else None
        if not isinstance(path, str) or not isinstance(content, str):
            named = f"{one_line(path, limit=100)!r} has no content" if isinstance(path, str) else ""
            reader.wrong(place, named or "it has no path and content", 'write {"path": "main.py", "content": "..."}')
            continue
        parts = PurePosixPath(path).parts
        plain = parts and str(PurePosixPath(path)) == path and not {"\\", "\0"} & set(path) and parts[0] != "/"
        if not plain or any(part.startswith(".") for part in parts):
            told = f"{path!r} leads out of the solution, or is hidden"
            reader.wrong(f"{place}.path", told, "use a plain relative path")
        elif len(parts) > MAX_SUBFOLDERS:
            reader.wrong(f"{place}.path", f"{path!r} lies too deep", f"keep to {MAX_SUBFOLDERS - 1} folders")
        elif _renamed(path) in found:
            reader.wrong(f"{place}.path", f"{path!r} is there twice", "give one of the two another name")
        elif _renamed(path).endswith(SUFFIXES):
            found[_renamed(path)] = content.encode("utf-8", "replace").decode()
        else:
            left_out.append(path)
    return found, tuple(left_out)


def _refuse_mixed(reader: Reader, languages: tuple[str, ...], build: Build, file: str) -> None:
    if build is not Build.PYTHON and set(languages) & set(_PYTHON):
        told = f"{', '.join(languages)} are Python and C++ at once"
        raise reader.refuse("spec.languages", told, "name the languages of one of the two")
    wanted = (".py",) if build is Build.PYTHON else (*_COMPILED, *_HEADERS)
    if PurePosixPath(file).suffix and not file.endswith(wanted):
        raise reader.refuse("spec.entry_point", f"{file!r} is not {languages[0]}", f"name a file *{wanted[0]}")


def _refuse_absent(reader: Reader, languages: tuple[str, ...]) -> None:
    for language in languages:
        module, package = _BY_PACKAGE.get(language, ("", ""))
        if module and not _installed(module):
            told = f"{language} needs the module {module}, which is not installed here"
            raise reader.refuse("spec.languages", told, f"install {package}")
        if language in _WITH_HEADERS:
            told = f"{language} needs headers that aisp does not bring"
            raise reader.refuse("spec.languages", told, "judge it with its own harness, or call it through cuda_cpp")


def _build(reader: Reader, spec: Mapping[str, Any], languages: tuple[str, ...]) -> Build:
    """How its function comes about. FlashInfer's usual binding of C++ is tvm-ffi; SOL-ExecBench knows torch alone."""
    if not set(languages) & set(_CPP):
        return Build.PYTHON
    binding = spec.get("binding") or (Build.TORCH if "languages" in spec else Build.TVM_FFI)
    if binding not in (Build.TORCH, Build.TVM_FFI):
        told = f"unknown binding {one_line(str(binding), limit=60)!r}"
        raise reader.refuse("spec.binding", told, "use torch or tvm-ffi")
    if binding == Build.TVM_FFI and not _installed("tvm_ffi"):
        told = "its binding is tvm-ffi, and the module tvm_ffi is not installed here"
        raise reader.refuse(
            "spec.binding", told, "pip install 'aisp[tvm-ffi]', or bind it with torch's PYBIND11_MODULE"
        )
    return Build(binding)


def _installed(module: str) -> bool:
    first, *below = module.split(".")
    try:
        found = importlib.util.find_spec(first)
        for part in below:  # find_spec would import the parents
            if found is None:
                return False
            found = PathFinder.find_spec(f"{found.name}.{part}", found.submodule_search_locations or [])
    except (ImportError, ValueError):
        return False
    return found is not None


def _flags(spec: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    options = spec.get("compile_options")
    given = options if isinstance(options, dict) else {}
    sol = "languages" in spec  # FlashInfer's builder adds none
    cuda = _words(given["cuda_cflags"]) if "cuda_cflags" in given else CUDA_FLAGS if sol else ()
    link = _words(given["ld_flags"]) if "ld_flags" in given else LINK_FLAGS if sol else ()
    return _words(given.get("cflags")), cuda, link


def _has(tree: ast.Module | None, name: str) -> bool:
    """Whether a module binds the name at its top level."""
    return tree is not None and any(name in bound_names(node) for node in tree.body)


def _imports(tree: ast.Module) -> set[tuple[str, int]]:
    """Modules that are imported anywhere, each with the level of a relative import."""
    found: set[tuple[str, int]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, 0) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "", node.level))
    return found
