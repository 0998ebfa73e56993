"""SOL-ExecBench and FlashInfer trace: a definition in JSON, workloads in lines of JSON, solutions with their sources.

    {"name": "rmsnorm_d128", "axes": {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 128}},
     "inputs": {"x": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}, "eps": {"shape": null, "dtype": "float32"}},
     "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "bfloat16"}},
     "reference": "def run(x, eps): ..."}

One reader for both. SOL-ExecBench lays a problem out as a folder with definition.json and workload.jsonl; a data set of
FlashInfer has the folders definitions/, workloads/ and solutions/, with the definition's name in each. A solution names
its definition, so that a folder of problems is enough to judge it against.

`trace_definition` reads a definition with its workloads, `trace_solution` a solution, `trace_stored` the headers of
tensors in files, and `trace_target` makes a target of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aisp.kernels.catalog.frontmatter import RefusedError
from aisp.kernels.catalog.grammar import GrammarError
from aisp.kernels.catalog.model import Problem
from aisp.kernels.catalog.onefile import Parts
from aisp.kernels.catalog.sources import MAX_FILE_BYTES

from . import trace_definition, trace_solution
from .shared import Listed, Opened, Part, checkout, contained, contents, provenance
from .trace_definition import Definition, Reader, Source, one_line, text_of
from .trace_solution import Solution
from .trace_stored import Stored, StoredError, find
from .trace_target import Plan, about, files

NAME = "trace"
TITLE = "SOL-ExecBench and FlashInfer trace"

MAX_LEVELS = 4  # of folders below that of a collection
MAX_PARTS = 32  # of a tensor file's path
MAX_ENTRIES = 200_000  # names that a listing looks at
BLOBS = "FLASHINFER_TRACE_DIR"
"""The variable that names where the tensors of SOL-ExecBench's FlashInfer problems lie, as its harness has it."""

_DEFINITIONS = "definitions"
_DEFINITION, _WORKLOADS = "definition.json", ("workload.jsonl", "workloads.jsonl")
_SUFFIX = ".json"
_HAS = {
    key: re.compile(rb'(?<!\\)"' + key.encode() + rb'"\s*:') for key in ("axes", "reference", "entry_point", "sources")
}


def part(path: Path) -> Part | None:
    """What a path is: a folder by the names in it, a file of JSON by its keys."""
    if path.is_dir():
        if (path / _DEFINITION).is_file():
            return Part.PROBLEM
        return Part.COLLECTION if next(collection(path), None) is not None else None
    data = _small(path)
    if _HAS["entry_point"].search(data) and _HAS["sources"].search(data):
        return Part.CANDIDATE
    return Part.PROBLEM if _HAS["axes"].search(data) and _HAS["reference"].search(data) else None


def _small(path: Path) -> bytes:
    """The bytes of a file of JSON that may be a definition or a solution; b"" for all else."""
    try:
        return contents(path) if path.suffix == _SUFFIX else b""
    except (OSError, ValueError):
        return b""


def collection(folder: Path) -> Iterator[Listed]:
    """The problems below a folder, by their names: those of every data set's definitions/, and each folder with a
    definition.json. No file is opened. One without workloads beside it is listed with that reason."""
    within = ""  # the definitions/ that the walk is in
    for place, names in _walk(folder):
        if within and place.startswith(within):
            continue
        if os.path.basename(place) == _DEFINITIONS:  # noqa: PTH119 - names
            within = f"{place}{os.sep}"
            yield from _data_set(Path(place).parent)
        elif _DEFINITION in names:
            reason = "" if any(name in names for name in _WORKLOADS) else f"there is no {_WORKLOADS[0]} beside it"
            yield Listed(None, None, os.path.basename(place), Path(place, _DEFINITION), reason)  # noqa: PTH119


def _data_set(root: Path) -> Iterator[Listed]:
    """The definitions of a data set of FlashInfer."""
    known = {name.removesuffix(".jsonl") for _, names in _walk(root / "workloads") for name in names}
    for place, names in _walk(root / _DEFINITIONS):
        for name in names:
            if name.endswith(_SUFFIX):
                stem = name.removesuffix(_SUFFIX)
                reason = "" if stem in known else f"there is no workloads/**/{stem}.jsonl"
                yield Listed(None, None, stem, Path(place, name), reason)


def _walk(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Every folder from this one down with the names of its files, in their order. Links are not followed, and what
    cannot be read is empty."""
    left = MAX_ENTRIES
    waiting = [(os.fspath(folder), 0)]
    while waiting and left > 0:
        place, level = waiting.pop()
        names: list[str] = []
        below: list[str] = []
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                    else:
                        names.append(entry.name)
        except OSError:
            continue
        yield place, sorted(names)
        if level < MAX_LEVELS:
            waiting += [(path, level + 1) for path in sorted(below, reverse=True)]


def answers(folder: Path) -> list[Path]:
    """The solutions below a folder, as far as it is looked at."""
    found = (Path(place, name) for place, names in _walk(folder) for name in names if name.endswith(_SUFFIX))
    return [path for path in found if part(path) is Part.CANDIDATE]


def problems_of(candidates: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """The problem in a folder that each solution names; those that are none, or have none there, are left out.

    A file or folder of the name is taken first; only where there is none of them are definitions opened to look for it.
    """
    asked = {path: wanted(path) for path in candidates}
    missing = {name for name in asked.values() if name}
    if not missing:
        return {}
    known = [each.path for each in definitions(folder)]
    known.sort(key=lambda path: called(path) not in missing)  # stable: the others stay in their order
    found: dict[str, Path] = {}
    for path in known:
        if not missing:
            break
        if _HAS["axes"].search(data := _small(path)) and (name := named(data)) in missing:
            found[name] = path
            missing.discard(name)
    return {path: found[name] for path, name in asked.items() if name in found}


def wanted(candidate: Path) -> str:
    """The name of the definition that a solution answers; "" where it is none, or does not say."""
    return text_of(_small(candidate), "definition")


def definitions(path: Path) -> list[Listed]:
    """The definitions at a path: of a collection, of a problem's folder, or the file that is one."""
    if path.is_dir() and not (path / _DEFINITION).is_file():
        return list(collection(path))
    place = _file(path)
    return [Listed(None, None, called(place), place)]


def called(path: Path) -> str:
    """What a definition is called by where it lies."""
    return path.parent.name if path.name == _DEFINITION else path.stem


def named(data: bytes) -> str:
    """The name that a definition has in its own text; "" where it says none."""
    return text_of(data, "name")


class BrokenError(Exception):
    """A definition that cannot be judged, and why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Text:
    """The files of one definition, as they are; what their tensors lie in is not among them.

    Attributes:
        path: of the definition.
        root: the data set of FlashInfer that it lies in; None for none.
        data: the definition.
        workloads: lines of JSON.
        rest: why there are none of them; "" where there are.
    """

    path: Path
    root: Path | None
    data: bytes
    workloads: bytes
    rest: str = ""

    @property
    def digest(self) -> str:
        """A hash over both."""
        return hashlib.sha256(b"%d\n%b%b" % (len(self.data), self.data, self.workloads)).hexdigest()


def text(problem: Path) -> Text:
    """The files of a definition. Raises OSError where it cannot be read."""
    path = _file(problem)
    data = contents(path)
    root = _root(path)
    place = _workloads(path, root)
    if place is None:
        return Text(path, root, data, b"", "there is no workload.jsonl beside it, and no workloads/**/ with its name")
    try:
        return Text(path, root, data, contents(place))
    except OSError as error:
        why = f"{place.name} cannot be read: {error.strerror or error} ({MAX_FILE_BYTES:,} bytes are the most)"
        return Text(path, root, data, b"", why)


def definition(text: Text) -> Definition:
    """What a definition and its workloads say, whether or not their tensors are there. Raises BrokenError."""
    with _reading(text.path) as reader:
        return _definition(reader, text)


def plan(text: Text) -> Plan:
    """How a definition is judged, in the workloads whose tensors are there. Raises BrokenError."""
    with _reading(text.path) as reader:
        return Plan(*_with_stored(reader, _definition(reader, text), text.path, text.root))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Reader]:
    """A reader of a definition, whose problems end the reading as BrokenError."""
    reader = Reader(path)
    try:
        yield reader
    except RefusedError:
        raise BrokenError(reader.problems) from None
    except GrammarError as error:
        raise _ungrammatical(reader, error) from None


def _ungrammatical(reader: Reader, error: GrammarError) -> BrokenError:
    """A definition with an expression that is none."""
    reader.wrong("inputs", error.message, error.fix)
    return BrokenError(reader.problems)


def read(path: Path) -> Opened:
    """What a definition says, with the workloads that can be taken. Raises OSError where it cannot be read."""
    found = text(path)
    try:
        planned = plan(found)
        with _reading(found.path):
            cpu = planned.for_host()
    except BrokenError as error:
        return Opened(path, problems=error.problems)
    said = planned.definition
    title = one_line(f"{said.name}, of {said.dialect.words}", limit=300)
    axes, inputs, outputs = planned.axes(0), planned.inputs(), planned.outputs()
    return Opened(path, title, axes, inputs, outputs, cpu=cpu, notes=tuple(planned.notes()))


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which a solution is judged against a definition. Where one of the two cannot be
    taken: its problems. Raises OSError where one cannot be read."""
    reader = Reader(candidate)
    data = contents(candidate)
    try:
        solution = trace_solution.read(reader, data)
        found = text(problem)
        return Parts(_made(found, plan(found), solution, provenance("solution", candidate, data), reader))
    except RefusedError:
        return Parts({}, tuple(reader.problems))
    except BrokenError as error:
        return Parts({}, error.problems)


def answered(text: Text, plan: Plan, data: bytes) -> Parts:
    """As `against`, for a solution that lies in no file of its own and a definition that is open."""
    reader = Reader(Path("solution.json"))
    told = f"- solution: sent in, sha256 {hashlib.sha256(data).hexdigest()}"
    try:
        return Parts(_made(text, plan, trace_solution.read(reader, data), told, reader))
    except RefusedError:
        return Parts({}, tuple(reader.problems))
    except BrokenError as error:
        return Parts({}, error.problems)


def _made(text: Text, plan: Plan, solution: Solution, told: str, reader: Reader) -> dict[str, bytes]:
    """The files of the target; `told` is where the solution comes from. Raises RefusedError, BrokenError."""
    name = plan.definition.name
    if name != solution.definition:
        said = f"it answers {solution.definition!r}, and the problem is {name!r}"
        raise reader.refuse("definition", said, "judge it against the problem that it names")
    lines = [provenance("definition", text.path, text.data), f"{told}; {about(solution)}"]
    try:
        return files(plan, solution, lines, reader)
    except GrammarError as error:
        raise _ungrammatical(Reader(text.path), error) from None


def _file(problem: Path) -> Path:
    return problem / _DEFINITION if problem.is_dir() else problem


def _definition(reader: Reader, text: Text) -> Definition:
    """Raises RefusedError."""
    lines = enumerate(text.workloads.split(b"\n"), 1) if text.workloads else ()
    sol = text.root is None and text.path.name == _DEFINITION
    return trace_definition.read(reader, text.data, lines, sol=sol, rest=text.rest)


def _root(path: Path) -> Path | None:
    """The data set of FlashInfer that a definition lies in: the folder that has definitions/."""
    for folder in list(path.absolute().parents)[: MAX_LEVELS + 1]:
        if folder.name == _DEFINITIONS:
            return folder.parent
    return None


def _workloads(path: Path, root: Path | None) -> Path | None:
    """The file with a definition's workloads."""
    beside = next((path.with_name(name) for name in _WORKLOADS if path.with_name(name).is_file()), None)
    if root is None:
        return beside
    usual = (root / "workloads" / path.absolute().relative_to(root / _DEFINITIONS)).with_suffix(".jsonl")
    if usual.is_file():
        return usual
    name = f"{path.stem}.jsonl"
    return next((Path(place, name) for place, names in _walk(root / "workloads") if name in names), beside)


def _with_stored(
    reader: Reader, definition: Definition, path: Path, root: Path | None
) -> tuple[Definition, dict[tuple[str, str], Stored]]:
    """The definition without the workloads whose tensors cannot be had, and the tensors by case and input. Raises
    RefusedError."""
    stored: dict[tuple[str, str], Stored] = {}
    kept, notes = [], []
    for workload in definition.workloads:
        own: dict[tuple[str, str], Stored] = {}
        try:
            for tensor in definition.inputs:
                given = workload.inputs.get(tensor.name)
                if given is not None and given.source is Source.STORED:
                    found = find(_blob(given.path, path, root), given.key)
                    sizes = trace_definition.sizes(tensor, workload)
                    if (found.dtype, found.shape) != (tensor.dtype, sizes):
                        told = f"{given.key} is {found.dtype} {list(found.shape)}"
                        raise StoredError(f"{told}, and {tensor.name} is {tensor.dtype} {list(sizes)}")
                    own[workload.case, tensor.name] = found
        except StoredError as error:
            notes.append(one_line(f"a workload is left out ({workload.case}): {error}", limit=500))
            continue
        kept.append(workload)
        stored |= own
    if not kept:
        raise reader.refuse(
            "workloads", f"there is none that can be taken: {'; '.join(notes[:3])}", "bring their tensors"
        )
    definition = dataclasses.replace(definition, workloads=tuple(kept), notes=(*definition.notes, *notes))
    return definition, stored


def _blob(given: str, path: Path, root: Path | None) -> Path:
    """The file that a workload names: below the data set, the definition's own folder, its checkout, or what the
    variable BLOBS names, whose name the path may repeat. Raises StoredError."""
    top = checkout(path)
    named = os.environ.get(BLOBS, "")
    places = [
        place for place in (root, path.absolute().parent, top, Path(named) if named else None) if place is not None
    ]
    parts = Path(given).parts
    if len(parts) > MAX_PARTS:
        raise StoredError(f"{given[:60]}... has more than {MAX_PARTS} parts")
    for place in places:
        for start in range(len(parts)):
            found = place.joinpath(*parts[start:])
            if found.is_file():
                if not any(contained(found, allowed) for allowed in places):
                    raise StoredError(f"{given} leads out of {top}, and is not followed")
                return found.resolve()
    raise StoredError(f"there is no {given}")
