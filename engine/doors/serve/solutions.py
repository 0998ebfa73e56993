"""A solution as files of a candidate: its sources in a folder of their own, and a rung that calls its entry point.

The folder `solution` keeps its modules apart from the target's. Nothing of it is imported here.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping, Sequence

import msgspec

from aisp.engine.doors.api import CANDIDATE, SOURCE_NAMES, names_source
from aisp.engine.doors.serve.bodies import Solution
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.kernels.catalog.grammar import GrammarError, names
from aisp.kernels.catalog.model import Kind as Reach
from aisp.kernels.catalog.model import Target, TensorSpec
from aisp.kernels.catalog.parsing import REFUSALS, parsed, refusal
from aisp.kernels.catalog.sources import kind_of
from aisp.store import identity
from aisp.store.text import clean_line

FOLDER = "solution"
_INTERPRETED = ("python", "triton", "pytorch", "tilelang", "cute_dsl", "cutile")
"""Languages whose entry point is a Python function."""
_REACHES = {
    Reach.TORCH: "",
    Reach.TRITON: "import triton  # noqa: F401  the solution's kernels are Triton's\n",
    Reach.CUDA: 'NEEDS_A_GPU = "solution.cu"\n',  # the name of a CUDA file tells the catalogue that a GPU is needed
}
_HEAD = '''"""{about}"""

import importlib
import sys
from math import log2  # noqa: F401  sizes may use it
from pathlib import Path

import torch
{reach}
sys.path.insert(0, str(Path(__file__).parent / {folder!r}))
_entry = getattr(importlib.import_module({module!r}), {function!r})


def ceil_div(a, b):
    return -(-a // b)


def _outputs(given):
    if isinstance(given, dict):
        given = tuple(given[name] for name in {outputs!r})
    if isinstance(given, (list, tuple)):
        return given[0] if len(given) == 1 else tuple(given)
    return given


def run({parameters}):
'''


def unique_name(solution: Solution) -> str:
    """Its name with the whole digest of all else in it: the same for the same content, and for no other."""
    content = msgspec.to_builtins(solution)
    del content["name"]
    return f"{clean_line(solution.name)}_{identity.digest(msgspec.json.encode(content, order='sorted'))}"


def files_of(solution: Solution, target: Target) -> dict[str, bytes]:
    """The candidate's files by their names in the target's folder.

    Raises:
        RefusalError: sources of another kind than a target's, two of one name, a language that is not interpreted, an
            entry point that names no source, outputs that cannot be allocated.
    """
    _check_language(solution)
    found: dict[str, bytes] = {}
    for source in solution.sources:
        if not names_source(source.path):
            given = clean_line(source.path)
            raise RefusalError(Kind.INVALID, f"{given!r} cannot name a source of a solution", SOURCE_NAMES)
        if source.path in found:
            raise RefusalError(Kind.INVALID, f"{source.path} is there twice", "give each source a path of its own")
        found[source.path] = source.content.encode("utf-8", "surrogateescape")
    file, _, function = solution.spec.entry_point.partition("::")
    if file not in found or not file.endswith(".py") or "." in file[:-3] or not _is_name(function):
        given = clean_line(solution.spec.entry_point)
        fix = f"name a function of one of them, as {next(iter(found))}::run"
        raise RefusalError(Kind.INVALID, f"the entry point {given!r} names no function of the sources", fix)
    rung = _rung(solution, target, found, file, function)
    return {f"{CANDIDATE}.py": rung} | {f"{FOLDER}/{name}": data for name, data in found.items()}


def misspelt(files: Mapping[str, bytes], prefix: str = f"{FOLDER}/") -> str:
    """Why Python cannot compile a file below `prefix`, with its line; "" where it can compile all of them."""
    told = (
        refusal(data, name.removeprefix(prefix))
        for name, data in files.items()
        if name.startswith(prefix) and name.endswith(".py")
    )
    return next(filter(None, told), "")


def _check_language(solution: Solution) -> None:
    named = [word.lower() for word in (solution.spec.language, *solution.spec.languages) if word]
    wrong = [word for word in named if word not in _INTERPRETED]
    if wrong:
        fix = "send language python with a Python entry point; it may compile the sources itself (load_inline, NVRTC)"
        raise RefusalError(Kind.INVALID, f"the language {clean_line(wrong[0])!r} is not built here", fix)


def _rung(solution: Solution, target: Target, found: dict[str, bytes], file: str, function: str) -> bytes:
    inputs = [spec.name for spec in target.inputs]
    outputs = [spec.name for spec in target.outputs]
    reaches = [kind_of(data) for name, data in found.items() if name.endswith(".py")]
    reach = next((one for one in (Reach.CUDA, Reach.TRITON) if one in reaches), Reach.TORCH)
    passed = [*inputs, *outputs] if solution.spec.destination_passing_style else inputs
    parameters = _parameters(found[file], function)
    # By name where it has exactly these, so that its order is its own affair.
    given = [f"{name}={name}" for name in passed] if sorted(parameters) == sorted(passed) else passed
    text = _HEAD.format(
        about=f"The entry point {function} of {FOLDER}/{file}, called as a rung is.",
        reach=_REACHES[reach],
        folder=FOLDER,
        module=file[:-3].replace("/", "."),
        function=function,
        outputs=tuple(outputs),
        parameters=", ".join(inputs),
    )
    called = f"_entry({', '.join(given)})"
    if solution.spec.destination_passing_style:
        text += "".join(f"    {line}\n" for line in _allocations(target))
        text += f"    {called}\n    return _outputs(({', '.join(outputs)},))\n"
    else:
        text += f"    return _outputs({called})\n"
    return text.encode()


def _allocations(target: Target) -> list[str]:
    """Lines that allocate the outputs by the sizes of the inputs. Raises RefusalError where these do not tell."""
    fix = "send destination_passing_style false, and return the outputs"
    taken = {spec.name for spec in target.inputs}
    sizes: dict[str, str] = {}
    for spec in target.inputs:
        for place, dim in enumerate(spec.dims if spec.shaped else ()):
            if dim.isidentifier():
                sizes.setdefault(dim, f"{spec.name}.shape[{place}]")
    first = next((spec.name for spec in target.inputs if not spec.made), "")
    needed = sorted({name for spec in target.outputs for name in _axes(spec, fix)})
    lost = [name for name in needed if name not in sizes or name in taken]
    if lost or not first or target.ranks > 1 or taken & {spec.name for spec in target.outputs}:
        told = (
            f"the size of {lost[0]} cannot be read off an input" if lost else "outputs cannot be allocated beforehand"
        )
        raise RefusalError(Kind.INVALID, f"of {target.id}: {told}", fix)
    lines = [f"{name} = {sizes[name]}" for name in needed]
    for spec in target.outputs:
        shape = "".join(f"int({dim}), " for dim in spec.dims)
        lines.append(f"{spec.name} = torch.empty(({shape}), dtype=torch.{spec.dtype}, device={first}.device)")
    return lines


def _axes(spec: TensorSpec, fix: str) -> frozenset[str]:
    if not spec.shaped:
        raise RefusalError(Kind.INVALID, f"the shape of the output {spec.name} is the reference's own", fix)
    try:
        return frozenset().union(*(names(dim) for dim in spec.dims))
    except GrammarError as error:
        raise RefusalError(Kind.INVALID, clean_line(str(error), limit=500), fix) from None


def _parameters(source: bytes, function: str) -> Sequence[str]:
    """Names of the function's parameters; none where the file does not parse, or makes it in another way."""
    try:
        tree = parsed(source)
    except REFUSALS:
        return ()
    body = tree.body if isinstance(tree, ast.Module) else []
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            plain = not (node.args.vararg or node.args.kwarg or node.args.posonlyargs)
            return [one.arg for one in (*node.args.args, *node.args.kwonlyargs)] if plain else ()
    return ()


def _is_name(word: str) -> bool:
    return word.isidentifier() and word.isascii() and not keyword.iskeyword(word)
