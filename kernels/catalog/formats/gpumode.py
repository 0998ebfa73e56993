"""gpu-mode: a problem is a folder with a task.yml, a candidate is a submission.py with `custom_kernel(data)`.

    files:
      - {name: submission.py, source: "@SUBMISSION@"}
      - {name: task.py, source: task.py}
      - {name: utils.py, source: ../utils.py}
      - {name: reference.py, source: reference.py}     generate_input, ref_kernel, check_implementation
    lang: py
    tests:      [{size: 127, seed: 4242}]
    benchmarks: [{size: 1048576, seed: 93246}]

Nothing is imported: task.yml is YAML within bounds (`yaml_text`), Python files are read by their syntax trees. A
problem and a candidate become the files of a target's folder:

    reference.py    the task's own, and a run() that calls ref_kernel
    baseline.py     likewise: ref_kernel as its author wrote it is what candidates are compared with
    optimized.py    the candidate, and a run() that calls custom_kernel
    inputs.py       pose(): generate_input of the task, called for every set of values in the verifier alone
    rule.py         judge(): check_implementation of the task, the judge
    aisp_data.py    how `data` is put together from its tensors and values (`gpumode_data`), and what a case stands for
    aisp_values.py  the plain values in `data`, computed from the case; where there are any
    aisp_classes.py the classes of objects in `data`, where it is carried whole (`gpumode_carried`)
    task.py ...     the other files that task.yml lists, less the harness

The authors' text stands at the head of each, so that line numbers are the files' own.

Cases: the first benchmark is the usual one, the others are timed too, tests are not. Each argument of generate_input is
an axis: whole numbers as they are, all else (True, "cauchy", -1) as a number into a table of what task.yml lists. The
seed is no axis: it is drawn anew for every set of values, so that a candidate meets values that it has not seen.

A task whose code says "cuda" needs a GPU, and says so. Tensors are posed contiguous, on the device of the run. Where
generate_input may give a tensor other strides than its shape says (`.T`, `.permute`), or a dtype in which torch can do
little (fp4), a further input `form` says so of each, and kernels see them as they were made.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from aisp.kernels.catalog import frontmatter, onefile, yaml_text
from aisp.kernels.catalog.grammar import is_axis_name
from aisp.kernels.catalog.model import UNCOUNTED, Problem, Role
from aisp.kernels.catalog.onefile import Parts, Reader, RefusedError

from . import gpumode_carried, gpumode_data, packed
from .gpumode_data import Data, UnclearError
from .shared import NEEDS_GPU, Listed, Opened, Part, checkout, contained, contents, provenance, says_cuda, small

NAME = "gpumode"
TITLE = "gpu-mode"

TASK = "task.yml"
SUBMISSION = "@SUBMISSION@"
REFERENCE = "reference.py"
ENTRIES = ("generate_input", "ref_kernel", "check_implementation")
CANDIDATE = "custom_kernel"
DATA = "aisp_data"

MAX_TASK_BYTES = 64 * 1024
MAX_SET_BYTES = 256 * 1024
MAX_FILES = 32  # that one task.yml lists
MAX_FOLDERS = 20_000  # that a listing looks into
MAX_OUTPUTS = 32  # in a list of which the source does not say how long it is
MAX_DESCRIPTION = 8_000  # characters that the lesson keeps
DEPTH = 3  # a checkout holds problems, which holds sets, which hold tasks

_CANDIDATE = re.compile(rb"^(?:def[ \t]+custom_kernel[ \t]*\(|custom_kernel[ \t]*[:=])", re.MULTILINE)
_OURS = re.compile(rb"^def[ \t]+reference[ \t]*\(", re.MULTILINE)
_SET = re.compile(rb"^problems:", re.MULTILINE)
_IN_SET = re.compile(rb"^[ \t-]+\{?[ \t]*[\"']?directory[\"']?:", re.MULTILINE)
_LANG = re.compile(rb"^lang:[ \t]*[\"']?([\w+-]+)", re.MULTILINE)
_RANKS = re.compile(rb"^multi_gpu:[ \t]*[\"']?true\b|\bworld_size[\"']?:", re.MULTILINE | re.IGNORECASE)
_FILE_NAME = re.compile(r"[\w.+-]{1,100}(?:/[\w.+-]{1,100}){0,4}\Z")
_OWN_FILES = (
    *("lesson.md", "reference.py", "baseline.py", "optimized.py", "inputs.py", "rule.py"),
    *(f"{each}.py" for each in (DATA, gpumode_data.VALUES, gpumode_carried.CLASSES, packed.NAME)),
)
_BY_RANKS = "runs on several GPUs, one process each: multi_gpu is not run here yet"
_TEMPLATES = "`git init` in the folder that all of it lies in, or copy the file beside task.yml"


def part(path: Path) -> Part | None:
    """What a path is: a folder by a task.yml in it or below it, a file by its name or by what stands at its left
    edge."""
    if path.is_dir():
        if (path / TASK).is_file():
            return Part.PROBLEM
        return Part.COLLECTION if next(collection(path), None) is not None else None
    if path.name == TASK:
        return Part.PROBLEM
    data = small(path, ".yaml", ".yml")
    if data and _SET.search(data) and _IN_SET.search(data):
        return Part.COLLECTION
    data = small(path, onefile.SUFFIX)
    return Part.CANDIDATE if data and _CANDIDATE.search(data) and not _OURS.search(data) else None


# -- collections -------------------------------------------------------------------------------------------------------


def collection(folder: Path) -> Iterator[Listed]:
    """The tasks below a checkout, its problems, one set or one task; or those that a set's YAML file names.

    Of each task.yml the head is looked at, for what cannot be run here; none is parsed.
    """
    if not folder.is_dir():
        yield from _of_set(folder)
        return
    looked = 0
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        looked += 1
        try:
            with os.scandir(place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        if any(entry.name == TASK for entry in found):
            yield _listed(place)
        elif depth < DEPTH and looked < MAX_FOLDERS:
            below = [entry for entry in found if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)]
            waiting += [(Path(entry.path), depth + 1) for entry in reversed(below)]


def _listed(folder: Path) -> Listed:
    name = f"{folder.parent.name}/{folder.name}"
    return Listed(None, None, name, folder, _obstacle(folder / TASK))


def _obstacle(path: Path) -> str:
    """Why a task cannot be run, as far as the text of its task.yml shows; "" for nothing known."""
    try:
        data = contents(path)
    except OSError as error:
        return f"task.yml cannot be read: {error.strerror or 'it is too large, or no file'}"
    if len(data) > MAX_TASK_BYTES:
        return f"task.yml has {len(data):,} bytes; the most that is read is {MAX_TASK_BYTES:,}"
    lang = _LANG.search(data)
    if lang is not None and lang[1] != b"py":
        return _other_language(lang[1].decode("ascii", "replace"))
    return _BY_RANKS if _RANKS.search(data) else ""


def _other_language(lang: str) -> str:
    return f'lang is "{lang}": only tasks in "py" are run here; their submissions may hold CUDA as text'


def _of_set(path: Path) -> Iterator[Listed]:
    """The tasks that a set's file names, in its order."""
    try:
        document = yaml_text.load(contents(path), most=MAX_SET_BYTES)
    except OSError:
        return
    except (yaml_text.MissingYamlError, yaml_text.YamlTextError) as error:
        yield Listed(None, None, path.stem, path, str(error))
        return
    root = checkout(path)
    entries = document.get("problems") if isinstance(document, dict) else None
    for number, entry in enumerate(entries if isinstance(entries, list) else (), 1):
        directory = entry.get("directory") if isinstance(entry, dict) else None
        if not isinstance(directory, str) or "\0" in directory:
            yield Listed(None, number, f"{path.stem}: entry {number}", path, "it names no directory")
            continue
        named = entry.get("name")
        folder = path.parent / directory
        reason = ""
        if not contained(folder, root):
            folder, reason = path, f"{directory[:200]} leads out of {root}"
        elif not (folder / TASK).is_file():
            reason = "there is no task.yml"
        yield Listed(
            None,
            number,
            named if isinstance(named, str) and named else directory,
            folder,
            reason or _obstacle(folder / TASK),
        )


# -- one task ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> Opened:
    """What the task in that folder, or with that task.yml, is. Raises OSError where it cannot be read."""
    task = _Task(path)
    try:
        task.take()
        return task.opened()
    except _RefusedTaskError:
        return Opened(path, problems=tuple(task.problems))


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which the submission is judged against the task at `problem`.

    Where one of the two cannot be taken: its problems, and no files. Raises OSError where one cannot be read.
    """
    task, answer = _Task(problem), Reader(candidate)
    answered = contents(candidate)
    try:
        task.take()
    except _RefusedTaskError:
        return Parts({}, tuple(task.problems))
    try:
        _check_candidate(answer, answered, task)
    except (RefusedError, RecursionError) as error:
        return Parts({}, answer.ended(error))
    try:
        return Parts(task.files(candidate, answered))
    except _RefusedTaskError:
        return Parts({}, tuple(task.problems))


def _check_candidate(reader: Reader, data: bytes, task: _Task) -> None:
    """Whether custom_kernel can be called from it, and has all that it imports. Raises RefusedError."""
    body = [node for node in reader.tree(data).body if not onefile.says_nothing(node)]
    bound = {name: node.lineno for node in body for name in _bound(node)}
    if CANDIDATE not in bound:
        reader.wrong(0, f"has no {CANDIDATE}", f"write def {CANDIDATE}(data): and return what the task asks for")
    for name in ("run", "prepare", DATA):
        if name in bound:
            reader.wrong(bound[name], f"{name} is a name that is written behind the file", "give it another name")
    kept = {PurePosixPath(name).parts[0].removesuffix(".py") for name in task.helpers}
    for name, line in onefile.imported(body):
        if name in task.withheld:
            told = f"{name} is the task's judge, and no run of a submission has it"
            fix = "write out what is needed of it"
            if name == gpumode_data.REFERENCE and task.classes:
                fix += f", or import {' and '.join(task.classes)} from {gpumode_carried.CLASSES}"
            reader.wrong(line, told, fix)
        elif name not in kept and _lies_beside(reader.path, name):
            told = f"{name} lies beside the file, and task.yml does not list it"
            reader.wrong(line, told, "move what is needed into the file")
    for node in (inner for outer in body for inner in ast.walk(outer)):
        if isinstance(node, ast.ImportFrom) and node.level:
            reader.wrong(node.lineno, "a relative import needs a package", "import by the name that task.yml lists")
    reader.hold()


def _lies_beside(path: Path, name: str) -> bool:
    return (path.parent / f"{name}.py").is_file() or (path.parent / name / "__init__.py").is_file()


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement at the head of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]


class _RefusedTaskError(Exception):
    """The task cannot be taken; its problems say why."""


@dataclass(slots=True)
class _Case:
    """One entry of tests[] or benchmarks[]."""

    name: str
    given: dict[str, object]
    timed: bool
    axes: dict[str, int] = field(default_factory=dict)


class _Task:
    """One task, as it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path / TASK if path.is_dir() else path
        self.folder = self.path.parent
        self.root = checkout(self.path)
        self.problems: list[Problem] = []
        self.helpers: dict[str, bytes] = {}  # files that a submission may import, by the names that task.yml gives them
        self.withheld: set[str] = set()  # modules that it may not
        self.judged_by = ""
        self.gpus: tuple[str, ...] = ()
        self.needs_gpu = False
        self.cases: list[_Case] = []
        self.choices: dict[str, list[object]] = {}  # by axis: what its numbers stand for; ... for "left out"
        self.outputs: int | None = None
        self._document: dict[str, Any] = {}
        self._bytes = b""
        self._reference = b""
        self._reference_path = self.folder / REFERENCE
        self._takes: set[str] = set()
        self._data: Data | None = None
        self._values = b""
        self._classes = b""

    def wrong(self, key: str, message: str, fix: str, path: Path | None = None) -> None:
        """Collect a problem."""
        if len(self.problems) < frontmatter.MAX_PROBLEMS:
            self.problems.append(Problem(path or self.path, key, message, fix))

    def hold(self) -> None:
        """Raise _RefusedTaskError where anything is wrong so far."""
        if self.problems:
            raise _RefusedTaskError

    def take(self) -> None:
        """Read it. Raises _RefusedTaskError, with the task's problems, and OSError where there is no task.yml."""
        if not contained(self.path, self.root):
            self.wrong("", f"is a link that leads out of {self.root}", "put the file there")
            self.hold()
        self._bytes = contents(self.path)
        try:
            document = yaml_text.load(self._bytes, most=MAX_TASK_BYTES)
        except yaml_text.MissingYamlError as error:
            self.problems.append(Problem(self.path, "", error.told, error.fix, not_here=str(error)))
            raise _RefusedTaskError from None
        except yaml_text.YamlTextError as error:
            self.wrong("", error.told, error.fix)
            raise _RefusedTaskError from None
        if not isinstance(document, dict):
            self.wrong("", "holds no keys", "begin it with files:, then tests: and benchmarks:")
            raise _RefusedTaskError
        self._document = document
        lang = document.get("lang", "py")
        if lang != "py":
            self.wrong("lang", _other_language(str(lang)[:40]), "name a task whose lang is py")
        if document.get("multi_gpu"):
            self.wrong("multi_gpu", _BY_RANKS, "name a task that one GPU runs")
        gpus = document.get("gpus")
        self.gpus = tuple(str(each)[:40] for each in gpus[:16]) if isinstance(gpus, list) else ()
        self._take_cases()
        self.hold()
        sources = self._take_files()
        self.hold()
        self._take_code(sources)
        self.hold()

    # -- files ---------------------------------------------------------------------------------------------------------

    def _take_files(self) -> dict[str, bytes]:
        """The files that are listed, less the submission and the harness, by their names in the run's folder."""
        given = self._document.get("files")
        fix = 'write files: [{name: reference.py, source: reference.py}, {name: submission.py, source: "@SUBMISSION@"}]'
        if not isinstance(given, list) or not given:
            self.wrong("files", "is no list of files", fix)
            return {}
        if len(given) > MAX_FILES:
            self.wrong("files", f"lists {len(given)} files", f"keep to {MAX_FILES}")
            return {}
        config = self._document.get("config")
        main = config.get("main") if isinstance(config, dict) else None
        harness = main if isinstance(main, str) else "eval.py"
        self.withheld = {harness.removesuffix(".py"), "reference", "submission"}
        found: dict[str, bytes] = {}
        submitted = False
        for index, entry in enumerate(given):
            place = f"files[{index}]"
            name, source = (entry.get("name"), entry.get("source")) if isinstance(entry, dict) else (None, None)
            if not isinstance(name, str) or not isinstance(source, str):
                self.wrong(place, "has no name and source", fix)
            elif source == SUBMISSION:
                submitted = True
                self.withheld.add(name.removesuffix(".py"))
            elif name != harness:
                data = self._file(place, name, source)
                if name in found:
                    self.wrong(place, f"{name} is listed twice", "give one of the two another name")
                elif data is not None:
                    found[name] = data
        if not submitted:
            self.wrong("files", f"none of them is {SUBMISSION}", fix)
        if REFERENCE not in found and not self.problems:
            self.wrong("files", f"{REFERENCE} is not among them", f"list it: it holds {', '.join(ENTRIES)}")
        return found

    def _file(self, place: str, name: str, source: str) -> bytes | None:
        if not _FILE_NAME.match(name) or ".." in name.split("/"):
            self.wrong(place, f"{name[:100]!r} cannot name a file of a run", "use letters, digits, - and _")
            return None
        stem = name.removesuffix(".py")
        if name != REFERENCE and (name in _OWN_FILES or (name.endswith(".py") and Role.of(stem) is not None)):
            self.wrong(place, f"{name} is a name of aisp's own in a run's folder", "give the file another name")
            return None
        path = self.folder / source if "\0" not in source else self.folder
        if Path(source).is_absolute() or not contained(path, self.root):
            self.wrong(place, f"{source[:200]} leads out of {self.root}", _TEMPLATES)
            return None
        try:
            data = contents(path)
        except OSError as error:
            self.wrong(place, f"{source[:200]} cannot be read: {error.strerror or error}", "add the file")
            return None
        if len(data) > onefile.MAX_BYTES:
            self.wrong(place, f"{source[:200]} has {len(data):,} bytes", f"keep it within {onefile.MAX_BYTES:,}")
            return None
        if name == REFERENCE:
            self._reference_path = Path(os.path.normpath(path))
        return data

    # -- cases ---------------------------------------------------------------------------------------------------------

    def _take_cases(self) -> None:
        """The entries of benchmarks[] and tests[], the usual one first, without those that differ in the seed alone."""
        found: list[_Case] = []
        for key, word, timed in (("benchmarks", "benchmark", True), ("tests", "test", False)):
            given = self._document.get(key) or []
            if not isinstance(given, list):
                self.wrong(key, "is no list", f"write {key}: [{{size: 1024, seed: 1}}]")
                continue
            for index, entry in enumerate(given):
                place = f"{key}[{index}]"
                if not isinstance(entry, dict) or not all(isinstance(name, str) for name in entry):
                    self.wrong(place, "is no table of arguments", "write {size: 1024, seed: 1}")
                elif "world_size" in entry:
                    self.wrong(f"{place}.world_size", _BY_RANKS, "name a task that one GPU runs")
                else:
                    arguments = {name: value for name, value in entry.items() if name != gpumode_data.SEED}
                    found.append(_Case(f"{word}-{index + 1}", arguments, timed))
        if not found and not self.problems:
            self.wrong("tests", "there are neither tests nor benchmarks", "write tests: [{size: 1024, seed: 1}]")
        names = list(dict.fromkeys(name for case in found for name in case.given))
        for name in names:
            if not is_axis_name(name) or not name.isidentifier():
                self.wrong("tests", f"{name[:60]!r} cannot name an argument here", "use a name such as size")
        if len(names) > frontmatter.MAX_AXES or len(found) > frontmatter.MAX_CASES:
            told = f"{len(found)} cases of {len(names)} arguments"
            self.wrong("tests", told, f"keep to {frontmatter.MAX_CASES} of {frontmatter.MAX_AXES}")
        self.hold()
        for name in names:
            self._take_axis(name, found)
        different: list[_Case] = []
        for case in found:
            if all(case.axes != other.axes for other in different):
                different.append(case)
        self.cases = different

    def _take_axis(self, name: str, cases: Sequence[_Case]) -> None:
        """One argument as an axis: whole numbers as they are, all else by their place in a table."""
        values = [case.given.get(name, ...) for case in cases]
        if all(type(value) is int and 0 <= value <= frontmatter.MAX_AXIS for value in values):
            for case, value in zip(cases, values, strict=True):
                assert isinstance(value, int)
                case.axes[name] = value
            return
        if all(type(value) is bool for value in values):
            known: list[object] = [False, True]
        else:
            known = []
            for value in values:
                if not any(type(value) is type(other) and value == other for other in known):
                    known.append(value)
        for value in known:
            if not _is_plain(value):
                self.wrong("tests", f"{name} is {frontmatter.shown(value)}", "use numbers, true, false, text and lists")
                return
        self.choices[name] = known
        for case, value in zip(cases, values, strict=True):
            case.axes[name] = next(i for i, o in enumerate(known) if type(o) is type(value) and o == value)

    @property
    def cpu(self) -> dict[str, int] | None:
        """Axes of the case for a machine without a GPU: the largest one that is small by its arguments, else the
        smallest; None where the task's code says "cuda". One argument may be the length of two dimensions."""

        def size(axes: Mapping[str, int]) -> int:
            given = [max(value, 1) for name, value in axes.items() if name not in self.choices]
            return math.prod(given) * max(given, default=1)

        if self.needs_gpu:
            return None
        known = sorted((case.axes for case in self.cases), key=size)
        return next((axes for axes in reversed(known) if size(axes) <= packed.HOST_ELEMENTS), known[0])

    # -- code ----------------------------------------------------------------------------------------------------------

    def _take_code(self, sources: Mapping[str, bytes]) -> None:
        self._reference = sources[REFERENCE]
        self.helpers = {name: data for name, data in sources.items() if name != REFERENCE}
        trees: dict[str, ast.Module] = {}
        for name, data in sources.items():
            if not name.endswith(".py"):
                continue
            reader = Reader(self._reference_path if name == REFERENCE else self.folder / name)
            try:
                trees[name.removesuffix(".py").replace("/", ".")] = reader.tree(data)
            except (RefusedError, RecursionError) as error:
                self.problems += reader.ended(error)
        self.hold()
        tree = trees["reference"]
        for node in tree.body:
            for name in _bound(node):
                if name in ("run", DATA):
                    told = f"{name} is a name that is written behind the file"
                    self.wrong(f"line {node.lineno}", told, "give it another name", self._reference_path)
        try:
            self._take_functions(trees)
            self.needs_gpu = any(map(says_cuda, _without_harness(trees)))
        except (UnclearError, RecursionError) as error:
            line = error.line if isinstance(error, UnclearError) else 0
            told = error.told if isinstance(error, UnclearError) else "an expression is nested too deeply"
            fix = error.fix if isinstance(error, UnclearError) else "break the deepest one up"
            self.wrong(f"line {line}" if line else "", told, fix, self._reference_path)

    def _take_functions(self, trees: Mapping[str, ast.Module]) -> None:
        files = gpumode_data.Files(trees)
        names = {name for node in trees["reference"].body for name in _bound(node)}
        if ENTRIES[2] not in names and "validation" in self._document:
            told = "it is judged by a validation script of its own, which is not run here yet"
            self.wrong("validation", told, f"name a task whose {REFERENCE} has {ENTRIES[2]}")
            self.hold()
        for name in ENTRIES:
            if name not in names:
                self.wrong("", f"has no {name}", f"write def {name} there", self._reference_path)
        self.hold()
        made, kernel = (files.function(name, "reference") for name in ENTRIES[:2])
        for name, found in zip(ENTRIES[:2], (made, kernel), strict=True):
            if found is None:
                told = f"{name} is no function that is defined in the task's files"
                self.wrong("", told, f"write def {name}", self._reference_path)
        self.hold()
        assert made is not None
        assert kernel is not None
        self._check_arguments(made[0])
        self.hold()
        self._data = files.read(*made, *kernel)
        if len(self._data.tensors()) + len(self._data.plain()) > frontmatter.MAX_TENSORS:
            self.wrong("", "its data has too many parts", f"keep to {frontmatter.MAX_TENSORS}", self._reference_path)
        self.outputs = files.outputs(*kernel)
        check = files.bound(ENTRIES[2], "reference")
        self.judged_by = f"{ENTRIES[2]}, {ast.unparse(check)[:200]}" if check is not None else ENTRIES[2]
        if self._data.values:
            self._take_values(made[1])
        if self._data.root is None:
            self._take_classes(self._data.classes)

    def _check_arguments(self, made: ast.FunctionDef) -> None:
        """Whether every case says what generate_input takes, and nothing else."""
        arguments = dict(gpumode_data.defaults(made))
        self._takes = {gpumode_data.SEED, "device"}.intersection(arguments)
        said = {arg.arg: ast.unparse(arg.annotation) for arg in gpumode_data.parameters(made) if arg.annotation}
        typed = {name: kind for name, kind in said.items() if kind in ("int", "float", "bool", "str")}
        for case in self.cases:
            lacking = [
                name
                for name, default in arguments.items()
                if default is None and name not in case.given and name not in self._takes
            ]
            for name in lacking:
                self.wrong(case.name, f"generate_input takes {name}, which is not given", f"add {name} to the case")
            for name in (name for name, value in case.given.items() if value is None and name in typed):
                told = f"{name} has no value, and generate_input takes it as {typed[name]}"
                self.wrong(case.name, told, f"give {name} a value")
            for name in case.given:
                if name not in arguments and made.args.kwarg is None:
                    self.wrong(case.name, f"generate_input takes no {name}", f"it takes {', '.join(arguments)}")
        if any("device" in case.given for case in self.cases):
            self._takes.discard("device")

    def _take_values(self, file: str) -> None:
        """The function that computes the plain values in data, with what it needs of its file."""
        assert self._data is not None
        name = f"{file}.py"
        data = self._reference if name == REFERENCE else self.helpers[name]
        text = data.rstrip() + b"\n\n\n" + self._data.values.encode() + b"\n"
        # What lies beside it comes along, where task.yml lists it: a folder that is not there has nothing beside.
        taken = onefile.take(self._reference_path / name, text, gpumode_data.VALUES)
        for each in taken.problems:
            told = f"{each.message} ({', '.join(value.name for value, _ in self._data.plain())} needs it)"
            self.wrong(each.key, told, each.fix, self._reference_path)
        self._values = taken.module

    def _take_classes(self, names: Sequence[str]) -> None:
        """The module that gives the classes of objects in data by their names, with what they need of their file."""
        given = ", ".join(f"{name!r}: {name}" for name in names)
        text = self._reference.rstrip() + f"\n\n\ndef found():\n    return {{{given}}}\n".encode()
        taken = onefile.take(self._reference_path / REFERENCE, text, "found")
        for each in taken.problems:
            self.wrong(each.key, f"{each.message} ({', '.join(names)} needs it)", each.fix, self._reference_path)
        self._classes = taken.module

    # -- what it is made into ------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, str]:
        """Lines of `[inputs]`, in the order of data."""
        assert self._data is not None
        if self._data.root is None:
            return gpumode_carried.inputs(mutable=self._data.mutable)
        found = {
            tensor.name: f"any [...] posed{' mutable' if tensor.mutable else ''}" for tensor, _ in self._data.tensors()
        }
        found |= {value.name: "made" for value, _ in self._data.plain()}
        return found | ({gpumode_data.FORM: "int64 [...] posed static cpu"} if self._data.formed else {})

    @property
    def output_lines(self) -> dict[str, str]:
        """Lines of `[outputs]`."""
        count = MAX_OUTPUTS if self.outputs == gpumode_data.MANY else self.outputs
        names = ["out"] if count is None else [f"out{index}" for index in range(count)]
        return dict.fromkeys(names, "any [...]")

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of its reference.py that objects in data may be of."""
        return self._data.classes if self._data is not None else ()

    @property
    def title(self) -> str:
        """Its folder's name in words."""
        return self.folder.name.replace("_", " ").strip() or "task"

    def notes(self) -> list[str]:
        """What a person should know before a verdict."""
        timed = [case.name for case in self.cases if case.timed]
        found = [f"timed cases: {', '.join(timed) or self.cases[0].name}; judged only: {len(self.cases) - len(timed)}"]
        found.append(f"judge: the task's own {self.judged_by}")
        if self.needs_gpu:
            found.append(NEEDS_GPU)
        for name, values in self.choices.items():
            said = (f"{n} is {'left out' if v is ... else frontmatter.shown(v)}" for n, v in enumerate(values))
            found.append(f"{name}: {', '.join(said)}")
        if self.gpus:
            found.append(f"it was posed for {', '.join(self.gpus)}")
        return found

    def opened(self) -> Opened:
        """What was read."""
        return Opened(
            self.path,
            self.title,
            self.cases[0].axes,
            self.inputs,
            self.output_lines,
            cpu=self.cpu,
            notes=tuple(self.notes()),
        )

    def files(self, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises _RefusedTaskError where they are none."""
        assert self._data is not None
        whole = self._data.root is None
        taken = ", ".join(self.inputs)
        head = f"\n\n\nimport {DATA}  # what follows is aisp's\n\n\n"
        truth = _call("ref_kernel", taken, "globals()" if whole else "")
        files = {
            **self.helpers,
            "reference.py": self._reference + f"{head}def run({taken}):\n    return {truth}\n".encode(),
            "baseline.py": self._reference + self._rung("ref_kernel", head, "globals()"),
            "optimized.py": answered + self._rung(CANDIDATE, head, f"{gpumode_carried.CLASSES}.run()"),
            "inputs.py": self._inputs_module(),
            "rule.py": _rule("vars(reference)" if whole else "").encode(),
            f"{DATA}.py": self._data_module(),
        }
        if whole:
            files[f"{gpumode_carried.CLASSES}.py"] = self._classes
            files[f"{packed.NAME}.py"] = b"from aisp.kernels.runtime.packing import *\n"
        if self._values:
            files[f"{gpumode_data.VALUES}.py"] = self._values
        files[onefile.lesson_name()] = self._lesson(candidate, answered)
        return files

    def _rung(self, kernel: str, head: str, classes: str) -> bytes:
        """What stands behind the file of a rung that calls `kernel`; `classes` are those of objects in data."""
        assert self._data is not None
        taken = ", ".join(self.inputs)
        if self._data.root is None:
            lines = [
                f"aisp_read = {DATA}.reader({gpumode_carried.CALL}, {classes})",
                f"return lambda {taken}: {DATA}.outputs({kernel}(aisp_read({gpumode_carried.HELD})))",
            ]
            imports = f"import {gpumode_carried.CLASSES}\n" if classes.startswith(gpumode_carried.CLASSES) else ""
            head = head.replace("\n\n\nimport", f"\n\n\n{imports}import", 1)
        elif self._data.formed:
            given = [name for name in self.inputs if name != gpumode_data.FORM]
            lines = [
                f"aisp_seen = {DATA}.forms({gpumode_data.FORM})",
                f"return lambda {taken}: {_call(kernel, ', '.join([*given, 'aisp_seen']), '')}",
            ]
        else:
            return f"{head}def run({taken}):\n    return {_call(kernel, taken, '')}\n".encode()
        return f"{head}def prepare({taken}):\n    {lines[0]}\n    {lines[1]}\n".encode()

    def _inputs_module(self) -> bytes:
        assert self._data is not None
        taken = f"{DATA}.taken(data{', computed' if self._values else ''})"
        made = f"{DATA}.formed({taken})" if self._data.formed else taken
        if self._data.root is None:
            made = f"{DATA}.carried(data, axes)"
        arguments = f"{DATA}.case(axes)"
        extra = [
            *([f"{gpumode_data.SEED}={gpumode_data.SEED}"] if gpumode_data.SEED in self._takes else []),
            *(["device=device"] if "device" in self._takes else []),
        ]
        lines = [
            '"""The data of the task: generate_input makes it, anew for every set of values, in the verifier alone."""',
            "",
            f"import {DATA}",
            *([f"import {gpumode_data.VALUES}"] if self._values else []),
            *["", "", "def pose(axes, device, generator):"],
            "    from reference import generate_input  # which no other process has",
            "",
            *([f"    {gpumode_data.SEED} = {DATA}.seed(generator)"] if gpumode_data.SEED in self._takes else []),
            f"    {DATA}.settle({DATA}.seed(generator))",
            f"    data = generate_input({', '.join([f'**{arguments}', *extra])})",
            *(["    computed = make(axes, device, generator)"] if self._values else []),
            "    return " + made,
        ]
        if self._values:
            given = [f"**{arguments}", *(["device=device"] if "device" in self._takes else [])]
            lines += ["", "", "def make(axes, device, generator):"]
            lines.append(f"    return {gpumode_data.VALUES}.run({', '.join(given)})")
        return ("\n".join(lines) + "\n").encode()

    def _data_module(self) -> bytes:
        assert self._data is not None
        tables = {
            "CHOICES": {name: tuple(values) for name, values in self.choices.items()},
            "SEVERAL": self.outputs is not None,
            "MANY": MAX_OUTPUTS if self.outputs == gpumode_data.MANY else 0,
            **({"EXOTIC": gpumode_data.EXOTIC} if self._data.formed or self._data.root is None else {}),
        }
        if self._data.root is None:
            helpers = {name.removesuffix(".py").replace("/", ".") for name in self.helpers if name.endswith(".py")}
            tables["HELPERS"] = tuple(sorted(helpers))
        head = "\n".join(f"{name} = {value!r}" for name, value in tables.items())
        if self._data.root is None:
            imports = (
                "import dataclasses\nimport enum\nimport importlib\nimport json\nimport random\nimport sys\n\n"
                f"import {packed.NAME}\nimport torch"
            )
            start = _DATA_HEAD.replace("import random\nimport sys\n\nimport torch", imports, 1)
            return f"{start}{head}\n{_DATA_FUNCTIONS}{gpumode_carried.SHARED}".encode()
        names = [tensor.name for tensor, _ in self._data.tensors()]
        tensors = "".join(f"        {t.name!r}: {code},\n" for t, code in self._data.tensors())
        plain = "".join(f"        {v.name!r}: {code},\n" for v, code in self._data.plain())
        seen = ""
        if self._data.formed:
            last = "," if len(names) == 1 else ""
            listed = f"({', '.join(names)}{last})"
            seen = f"    {', '.join(names)}{last} = map(seen, {listed}, forms({gpumode_data.FORM}))\n"
        own = (
            f"\n\ndef packed({', '.join(self.inputs)}):\n"
            f'    """What kernels of the task take."""\n{seen}    return {self._data.packed()}\n'
            f"\n\ndef parts(data):\n"
            f'    """The tensors and the computed values in it, by name."""\n'
            f"    return {{\n{tensors}    }}, {{\n{plain}    }}\n"
        )
        return f"{_DATA_HEAD}{head}\n{_DATA_FUNCTIONS}{_TAKEN}{_FORMS if self._data.formed else ''}{own}".encode()

    def _lesson(self, candidate: Path, answered: bytes) -> bytes:
        import tomli_w  # only where a target is made

        cpu = self.cpu
        usual, *others = self.cases
        content: dict[str, Any] = {
            "title": self.title,
            "flops": UNCOUNTED,
            "axes": usual.axes,
            **({"needs": {"gpus": 1}} if self.needs_gpu else {}),
            "inputs": self.inputs,
            "outputs": self.output_lines,
            "cases": [
                *([{"name": "cpu", "axes": cpu}] if cpu is not None else []),
                *({"name": case.name, "axes": case.axes, "timed": case.timed} for case in others),
            ],
            "fuzz": {"axes": {name: sorted({case.axes[name] for case in self.cases}) for name in usual.axes}},
            "rule": {"name": f"{TITLE}: {ENTRIES[2]}", "alone": True},
            "rungs": {
                "baseline": {"summary": "ref_kernel, as its author wrote it"},
                "optimized": {"summary": f"{CANDIDATE} of {_printable(candidate.name)}"},
            },
        }
        text = [f"# {self.title}", "", "A gpu-mode task and a submission to it.", ""]
        sources = (("task", self.path, self._bytes), ("reference", self._reference_path, self._reference))
        for what, path, held in (*sources, ("candidate", candidate, answered)):
            text.append(provenance(what, path, held))
        text += ["", *(f"- {_printable(note)}" for note in self.notes()), ""]
        described = self._document.get("description")
        if isinstance(described, str):
            text += [_printable(line) for line in described[:MAX_DESCRIPTION].splitlines()]
        lines = "\n".join(text)
        lesson = f"+++\n{tomli_w.dumps(content)}+++\n\n{lines}\n".encode("utf-8", "replace")
        _, found = frontmatter.read(self.path, lesson)
        for each in found:
            self.wrong(each.key, each.message, each.fix)
        self.hold()
        return lesson


def _is_plain(value: object, depth: int = 0) -> bool:
    """Whether a value of a case can be written into a Python file and be the same there."""
    if isinstance(value, list):
        return depth < 4 and len(value) <= 1000 and all(_is_plain(each, depth + 1) for each in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or value is ... or isinstance(value, bool | int | str)


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _without_harness(trees: Mapping[str, ast.Module]) -> list[ast.stmt]:
    """The statements of a task's files that run without its harness: reference.py, and of the files that it imports
    what lies outside of functions and classes, and those that are named. Some of utils.py is for the harness alone."""
    defining = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    found: list[ast.stmt] = []
    waiting: list[tuple[str, ast.stmt]] = []
    entered: set[str] = set()
    taken: set[tuple[str, str]] = set()

    def enter(file: str, *, whole: bool = False) -> None:
        body = trees[file].body if file not in entered else []
        waiting.extend((file, node) for node in body if not isinstance(node, defining))
        entered.add(file)
        if whole:
            take(file, *(name for node in trees[file].body for name in _bound(node)))

    def take(file: str, *names: str) -> None:
        for node in trees[file].body:
            if isinstance(node, defining) and node.name in names and (file, node.name) not in taken:
                taken.add((file, node.name))
                waiting.append((file, node))

    enter("reference", whole=True)
    while waiting:
        file, statement = waiting.pop()
        found.append(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                take(file, node.id)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in trees:
                        enter(alias.name, whole=True)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in trees:
                enter(node.module, whole=any(alias.name == "*" for alias in node.names))
                take(node.module, *(alias.name for alias in node.names))
    return found


def _call(kernel: str, given: str, classes: str) -> str:
    """The code that calls a kernel with data put together from the inputs of a run."""
    return f"{DATA}.outputs({kernel}({DATA}.packed({given}{', ' if classes else ''}{classes})))"


def _rule(classes: str) -> str:
    given, imports = ("**inputs, own=" + classes, "import reference\n") if classes else ("**inputs", "")
    return f'''\
"""The task's own check: it is the judge."""

import {DATA}
{imports}from reference import check_implementation


def judge(inputs, outputs, expected):
    if told := {DATA}.miscounted(outputs, expected):
        return told
    try:
        return {DATA}.said(check_implementation({DATA}.packed({given}), {DATA}.returned(outputs)))
    except Exception as error:  # of a check that takes the right form for granted
        told = {DATA}.misshapen(outputs, expected)
        if told:
            try:
                check_implementation({DATA}.packed({given}), {DATA}.returned(expected))
            except Exception:  # it is not the form: ref_kernel's own result breaks it as well
                told = ""
        if not told:
            raise {DATA}.CheckError({DATA}.broken(error)) from error
        return f"{{told}} ({{type(error).__name__}})"
'''


_DATA_HEAD = '''\
"""How the data of this task is put together, and what a case stands for."""

import random
import sys

import torch

'''

_DATA_FUNCTIONS = '''

def case(axes):
    """The arguments of generate_input, less the seed."""
    given = {name: CHOICES[name][number] if name in CHOICES else number for name, number in axes.items()}
    return {name: value for name, value in given.items() if value is not ...}


def seed(generator):
    """A seed for one set of values."""
    return int(torch.randint(1, 2**31 - 1, (1,), generator=generator))


def settle(word):
    """Let what generate_input draws without a generator of its own follow from a word."""
    torch.manual_seed(word)
    random.seed(word)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(word)


def outputs(found):
    """What a kernel returned, as a run returns it: of a list that may have any length with empty tensors behind it."""
    if not MANY:
        return tuple(map(plain, found)) if isinstance(found, (tuple, list)) else plain(found)
    listed = [plain(each) for each in found] if isinstance(found, (tuple, list)) else [plain(found)]
    if len(listed) > MANY:
        raise ValueError(f"the kernel returned {len(listed)} tensors; at most {MANY} are judged")
    for place, each in enumerate(listed):
        if not isinstance(each, torch.Tensor):
            raise TypeError(f"the kernel returned {type(each).__name__} at place {place} of a list of tensors")
    like = listed[0].device if listed else None
    nothing = [torch.empty(NOTHING, dtype=torch.uint8, device=like) for _ in range(MANY - len(listed))]
    return (*listed, *nothing)


NOTHING = (0,) * 8  # the shape of what stands behind the end of a list


def plain(found):
    """A tensor as a run may return it: contiguous, and no parameter."""
    if not isinstance(found, torch.Tensor):
        return found
    return (found.detach() if found.requires_grad or type(found) is not torch.Tensor else found).contiguous()


def listed(outputs):
    """The tensors of a list that may have any length."""
    return [each for each in outputs if tuple(each.shape) != NOTHING]


def returned(outputs):
    """What a run returned, as check_implementation takes it."""
    return listed(outputs) if MANY else tuple(outputs) if SEVERAL else outputs[0]


def said(found):
    """What check_implementation says is wrong; None where it is right. Some return a pair, some only what is wrong."""
    if isinstance(found, tuple) and len(found) == 2:
        right, why = found
    elif isinstance(found, (str, list)):
        right, why = not found, found
    elif found is None:
        raise TypeError("check_implementation returned None")
    else:
        right, why = found, ""
    if right:
        return None
    return (" ".join(map(str, why)) if isinstance(why, (list, tuple)) else str(why)) or "check_implementation says no"


def miscounted(outputs, expected):
    """How many tensors of how many there are; "" where they are as many."""
    found, wanted = len(listed(outputs)), len(listed(expected))
    return "" if found == wanted else f"the list has {found} tensors, and ref_kernel's has {wanted}"


class CheckError(Exception):
    """The task's own check breaks down on outputs of the right form."""


def broken(error):
    """What it says of itself, and the last line of reference.py that it came through."""
    lines, step = [], error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__") == "reference":
            lines.append(step.tb_lineno)
        step = step.tb_next
    place = f" at line {lines[-1]} of reference.py" if lines else ""
    return f"check_implementation of the task raises {type(error).__name__}{place}: {error}"


def misshapen(outputs, expected):
    """How outputs differ in form from what ref_kernel returned; "" where they do not."""
    for number, (got, want) in enumerate(zip(outputs, expected)):
        if got.shape != want.shape or got.dtype != want.dtype:
            forms = [f"{each.dtype} {list(each.shape)}" for each in (got, want)]
            return f"output {number} is {forms[0]}, and ref_kernel returns {forms[1]}"
    return ""
'''

_TAKEN = '''

def taken(data, computed={}):
    """The tensors that generate_input made, by name; it must have made what was read from its source."""
    tensors, values = parts(data)
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"generate_input made {name} a {type(tensor).__name__}; its source was read as a tensor's")
    for name, value in values.items():
        if repr(value) != repr(computed[name]):
            raise ValueError(f"generate_input made {name} {value!r}, which follows from the case as {computed[name]!r}")
    return tensors
'''

_FORMS = """

def formed(tensors):
    \"\"\"The same, contiguous and in a dtype that can be copied, with an input that says how they are to be seen.\"\"\"
    kept, rows = {}, []
    for name, tensor in tensors.items():
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        if not tensor.permute(order).is_contiguous():
            order = list(range(tensor.dim()))
        dtype = str(tensor.dtype).removeprefix("torch.")
        exotic = EXOTIC.index(dtype) + 1 if dtype in EXOTIC else 0
        kept[name] = tensor.permute(order).contiguous()
        kept[name] = kept[name].view(torch.uint8) if exotic else kept[name]
        rows.append([exotic, *map(order.index, range(tensor.dim()))])
    most = max(map(len, rows))
    return {**kept, "form": torch.tensor([row + [-1] * (most - len(row)) for row in rows], dtype=torch.int64)}


def forms(form):
    \"\"\"How each tensor is to be seen, as numbers of Python.\"\"\"
    if isinstance(form, torch.Tensor):
        form = [[number for number in row if number >= 0] for row in form.tolist()]
    return form


def seen(tensor, form):
    \"\"\"A tensor with the dtype and the strides that generate_input gave it.\"\"\"
    exotic, *order = form
    if exotic:
        tensor = tensor.view(getattr(torch, EXOTIC[exotic - 1]))
    return tensor.permute(order)
"""
