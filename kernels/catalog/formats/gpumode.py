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
    optimized.py    the candidate, and a prepare() whose call is custom_kernel
    inputs.py       pose(): generate_input of the task, called for every set of values in the verifier alone
    rule.py         judge(): check_implementation of the task, the judge
    aisp_classes.py the classes that objects in `data` may be of
    task.py ...     the other files that task.yml lists, less the harness

What these do stands in aisp.kernels.runtime.gpumode. `data` is carried as it was made, whatever it is: two pieces of
memory and a text that says what lies there (runtime.carrying). What ref_kernel does with it is seen when the first set
of values is posed (runtime.observing). Of the source, names and arguments are read, and what says "cuda".

The authors' text stands at the head of each, so that line numbers are the files' own.

Cases: the first benchmark is the usual one, the others are timed too, tests are not. Each argument of generate_input is
an axis: whole numbers as they are, all else (True, "cauchy", -1) as a number into a table of what task.yml lists. The
seed is no axis: it is drawn anew for every set of values, so that a candidate meets values that it has not seen.

A task whose code says "cuda" needs a GPU, and says so.
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
from aisp.kernels.catalog.frontmatter import Collector, RefusedError
from aisp.kernels.catalog.grammar import is_axis_name
from aisp.kernels.catalog.model import Problem, Role
from aisp.kernels.catalog.onefile import Parts, Reader

from . import packed
from .kernelbench import bound_names
from .shared import NEEDS_GPU, Listed, Opened, Part, checkout, contained, contents, provenance, says_cuda, small

NAME = "gpumode"
TITLE = "gpu-mode"

TASK = "task.yml"
SUBMISSION = "@SUBMISSION@"
REFERENCE = "reference.py"
ENTRIES = ("generate_input", "ref_kernel", "check_implementation")
CANDIDATE = "custom_kernel"
MODULE = "aisp_task"
"""What the target's files import aisp.kernels.runtime.gpumode by."""
CLASSES = "aisp_classes"
"""The module with the classes of the task's reference.py that objects in data may be of."""
INPUTS = {
    "call": f"{packed.OPEN_TENSOR} static",
    "held": packed.OPEN_TENSOR,
    "room": f"{packed.OPEN_TENSOR} mutable",
}
"""See runtime.carrying."""
SEED = "seed"  # the argument that is drawn for every set
GIVEN = frozenset({SEED, "device"})  # arguments that a case need not give

MAX_TASK_BYTES = 64 * 1024
MAX_SET_BYTES = 256 * 1024
MAX_FILES = 32  # that one task.yml lists
MAX_FOLDERS = 20_000  # that a listing looks into
MAX_DESCRIPTION = 8_000  # characters that the lesson keeps
DEPTH = 3  # a checkout holds problems, which holds sets, which hold tasks

_CANDIDATE = re.compile(rb"^(?:def[ \t]+custom_kernel[ \t]*\(|custom_kernel[ \t]*[:=])", re.MULTILINE)
_OURS = re.compile(rb"^def[ \t]+reference[ \t]*\(", re.MULTILINE)
_SET = re.compile(rb"^problems:", re.MULTILINE)
_IN_SET = re.compile(rb"^[ \t-]+\{?[ \t]*[\"']?directory[\"']?:", re.MULTILINE)
_LANG = re.compile(rb"^lang:[ \t]*[\"']?([\w+-]+)", re.MULTILINE)
_RANKS = re.compile(rb"^multi_gpu:[ \t]*[\"']?true\b|\bworld_size[\"']?:", re.MULTILINE | re.IGNORECASE)
_FILE_NAME = re.compile(r"[\w.+-]{1,100}(?:/[\w.+-]{1,100}){0,4}\Z")
_OWN_FILES = ("lesson.md", "reference.py", "baseline.py", "optimized.py", "inputs.py", "rule.py", f"{CLASSES}.py")
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
    except RefusedError:
        return Opened(path, problems=tuple(task.problems))


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which the submission is judged against the task at `problem`.

    Where one of the two cannot be taken: its problems, and no files. Raises OSError where one cannot be read.
    """
    task, answered = _Task(problem), contents(candidate)
    reading: Collector = task
    try:
        task.take()
        reading = answer = Reader(candidate)
        _check_candidate(answer, answered, task)
        reading = task
        return Parts(task.files(candidate, answered))
    except (RefusedError, RecursionError) as error:
        return Parts({}, reading.ended(error))


def _check_candidate(reader: Reader, data: bytes, task: _Task) -> None:
    """Whether custom_kernel can be called from it, and has all that it imports. Raises RefusedError."""
    body = [node for node in reader.tree(data).body if not onefile.says_nothing(node)]
    bound = {name: node.lineno for node in body for name in bound_names(node)}
    if CANDIDATE not in bound:
        reader.wrong(0, f"has no {CANDIDATE}", f"write def {CANDIDATE}(data): and return what the task asks for")
    for name in ("run", "prepare", MODULE):
        if name in bound:
            reader.wrong(bound[name], f"{name} is a name that is written behind the file", "give it another name")
    kept = {PurePosixPath(name).parts[0].removesuffix(".py") for name in task.helpers}
    for name, line in onefile.imported(body):
        if name in task.withheld:
            told = f"{name} is the task's judge, and no run of a submission has it"
            fix = "write out what is needed of it"
            if name == REFERENCE.removesuffix(".py") and task.classes:
                fix += f", or import {' and '.join(task.classes)} from {CLASSES}"
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


@dataclass(slots=True)
class _Case:
    """One entry of tests[] or benchmarks[]."""

    name: str
    given: dict[str, object]
    timed: bool
    axes: dict[str, int] = field(default_factory=dict)


class _Task(Collector):
    """One task, as it is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path / TASK if path.is_dir() else path)
        self.folder = self.path.parent
        self.root = checkout(self.path)
        self.helpers: dict[str, bytes] = {}  # files that a submission may import, by the names that task.yml gives them
        self.withheld: set[str] = set()  # modules that it may not
        self.judged_by = ""
        self.gpus: tuple[str, ...] = ()
        self.needs_gpu = False
        self.cases: list[_Case] = []
        self.choices: dict[str, list[object]] = {}  # by axis: what its numbers stand for; ... for "left out"
        self.classes: tuple[str, ...] = ()  # of its reference.py, that objects in data may be of
        self._document: dict[str, Any] = {}
        self._bytes = b""
        self._reference = b""
        self._reference_path = self.folder / REFERENCE
        self._classes = b""

    def take(self) -> None:
        """Read it. Raises RefusedError, with the task's problems, and OSError where there is no task.yml."""
        if not contained(self.path, self.root):
            self.wrong("", f"is a link that leads out of {self.root}", "put the file there")
            self.hold()
        self._bytes = contents(self.path)
        try:
            document = yaml_text.load(self._bytes, most=MAX_TASK_BYTES)
        except yaml_text.MissingYamlError as error:
            self.problems.append(Problem(self.path, "", error.reason, error.fix, not_here=str(error)))
            raise RefusedError from None
        except yaml_text.YamlTextError as error:
            self.wrong("", error.reason, error.fix)
            raise RefusedError from None
        if not isinstance(document, dict):
            self.wrong("", "holds no keys", "begin it with files:, then tests: and benchmarks:")
            raise RefusedError
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
        if name != REFERENCE and (
            name in _OWN_FILES or name.startswith("aisp") or (name.endswith(".py") and Role.of(stem))
        ):
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
                    arguments = {name: value for name, value in entry.items() if name != SEED}
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
            for name in bound_names(node):
                if name in ("run", "prepare", MODULE, CLASSES):
                    told = f"{name} is a name that is written behind the file"
                    self.wrong(f"line {node.lineno}", told, "give it another name", self._reference_path)
        self._take_functions(trees)
        self.hold()
        self._take_classes()
        self.needs_gpu = any(map(says_cuda, _without_harness(trees)))

    def _take_functions(self, trees: Mapping[str, ast.Module]) -> None:
        """Whether it has its functions, and every case what generate_input takes."""
        names = {name for node in trees["reference"].body for name in bound_names(node)}
        if ENTRIES[2] not in names and "validation" in self._document:
            told = "it is judged by a validation script of its own, which is not run here yet"
            self.wrong("validation", told, f"name a task whose {REFERENCE} has {ENTRIES[2]}")
            self.hold()
        for name in ENTRIES:
            if name not in names:
                self.wrong("", f"has no {name}", f"write def {name} there", self._reference_path)
        self.hold()
        made = _function(ENTRIES[0], trees)
        if made is not None:
            self._check_arguments(made.args)
        bound = [n.value for n in trees["reference"].body if isinstance(n, ast.Assign) and ENTRIES[2] in bound_names(n)]
        self.judged_by = f"{ENTRIES[2]}, {ast.unparse(bound[-1])[:200]}" if bound else ENTRIES[2]

    def _check_arguments(self, taken: ast.arguments) -> None:
        """Whether every case gives what generate_input takes, and nothing else."""
        plain = [*taken.posonlyargs, *taken.args]
        optional = {arg.arg for arg in plain[len(plain) - len(taken.defaults) :]} | GIVEN
        optional |= {a.arg for a, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if default}
        known = {arg.arg: arg.annotation for arg in (*plain, *taken.kwonlyargs)}
        typed = {name: ast.unparse(note) for name, note in known.items() if note is not None}
        for case in self.cases:
            for name in known:
                if name not in case.given and name not in optional:
                    self.wrong(case.name, f"generate_input takes {name}, which is not given", f"add {name} to the case")
            for name, value in case.given.items():
                if value is None and typed.get(name) in ("int", "float", "bool", "str"):
                    told = f"{name} has no value, and generate_input takes it as {typed[name]}"
                    self.wrong(case.name, told, f"give {name} a value")
                if name not in known and taken.kwarg is None:
                    self.wrong(case.name, f"generate_input takes no {name}", f"it takes {', '.join(known)}")

    def _take_classes(self) -> None:
        """The module that gives the classes that generate_input needs by their names, with what they need."""
        # What lies beside the file comes along, where task.yml lists it: a folder that is not there has nothing beside.
        path = self._reference_path / REFERENCE
        needed = onefile.take(path, self._reference, ENTRIES[0])
        tree = ast.parse(self._reference if needed.problems else needed.module)
        names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        given = ", ".join(f"{name!r}: {name}" for name in names)
        text = self._reference.rstrip() + f"\n\n\ndef {CLASSES}():\n    return {{{given}}}\n".encode()
        taken = onefile.take(path, text, CLASSES)
        if not taken.problems:
            self.classes, self._classes = tuple(sorted(names)), taken.module

    # -- what it is made into ------------------------------------------------------------------------------------------

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
            {"data": f"what {ENTRIES[0]} makes; a run sees it when it makes the first"},
            packed.seen_outputs(ENTRIES[1]),
            cpu=self.cpu,
            notes=tuple(self.notes()),
        )

    def files(self, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        imports = f"\n\n\nfrom aisp.kernels.runtime import gpumode as {MODULE}  # what follows is aisp's\n"
        taken = ", ".join(INPUTS)

        def rung(kernel: str, classes: str, imports: str = imports) -> bytes:
            body = f"return {MODULE}.prepared({kernel}, {classes}, call)"
            return f"{imports}\n\ndef prepare({taken}):\n    {body}\n".encode()

        run = f"{imports}\n\ndef run({taken}):\n    return {MODULE}.truth(ref_kernel, globals(), {taken})\n"
        return {
            **self.helpers,
            "reference.py": self._reference + run.encode(),
            "baseline.py": self._reference + rung(ENTRIES[1], "globals()"),
            "optimized.py": answered + rung(CANDIDATE, f"{CLASSES}.run()", f"{imports}import {CLASSES}\n"),
            "inputs.py": self._inputs_module().encode(),
            "rule.py": _RULE.encode(),
            f"{CLASSES}.py": self._classes or b"def run():\n    return {}\n",
            onefile.lesson_name(): self._lesson(candidate, answered),
        }

    def _inputs_module(self) -> str:
        modules = sorted({n.removesuffix(".py").replace("/", ".") for n in self.helpers if n.endswith(".py")})
        tables = {"choices": self.choices, "classes": self.classes, "modules": modules}
        given = "".join(f"        {name}={value!r},\n" for name, value in tables.items())
        return f"{_INPUTS}{given}    )\n"

    def _lesson(self, candidate: Path, answered: bytes) -> bytes:
        cpu = self.cpu
        usual, *others = self.cases
        front: dict[str, Any] = {
            "axes": usual.axes,
            **({"needs": {"gpus": 1}} if self.needs_gpu else {}),
            "cases": [
                *([{"name": "cpu", "axes": cpu}] if cpu is not None else []),
                *({"name": case.name, "axes": case.axes, "timed": case.timed} for case in others),
            ],
            "fuzz": {"axes": {name: sorted({case.axes[name] for case in self.cases}) for name in usual.axes}},
        }
        text = ["A gpu-mode task and a submission to it.", ""]
        sources = (("task", self.path, self._bytes), ("reference", self._reference_path, self._reference))
        for what, path, held in (*sources, ("candidate", candidate, answered)):
            text.append(provenance(what, path, held))
        text += ["", *(f"- {packed.printable(note)}" for note in self.notes()), ""]
        described = self._document.get("description")
        if isinstance(described, str):
            text += [packed.printable(line) for line in described[:MAX_DESCRIPTION].splitlines()]
        return packed.lesson(
            self,
            front,
            title=self.title,
            inputs=INPUTS,
            rule={"name": f"{TITLE}: {ENTRIES[2]}", "alone": True},
            rungs=packed.summaries("ref_kernel, as its author wrote it", CANDIDATE, candidate),
            text=text,
        )


def _is_plain(value: object, depth: int = 0) -> bool:
    """Whether a value of a case can be written into a Python file and be the same there."""
    if isinstance(value, list):
        return depth < 4 and len(value) <= 1000 and all(_is_plain(each, depth + 1) for each in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or value is ... or isinstance(value, bool | int | str)


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
            take(file, *(name for node in trees[file].body for name in bound_names(node)))

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


def _function(name: str, trees: Mapping[str, ast.Module]) -> ast.FunctionDef | None:
    """The function that reference.py has by that name, its own or imported from another of the task's files; None
    where it is none that stands there."""
    file = REFERENCE.removesuffix(".py")
    for _ in trees:
        body = trees[file].body
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        brought = [(node.module or "", a) for node in body if isinstance(node, ast.ImportFrom) for a in node.names]
        found = next(((module, alias.name) for module, alias in brought if name == (alias.asname or alias.name)), None)
        if found is None or found[0] not in trees:
            return None
        file, name = found
    return None


_INPUTS = f'''\
"""The data of the task: generate_input makes it, anew for every set of values, in the verifier alone."""

from aisp.kernels.runtime import gpumode as {MODULE}


def pose(axes, device, generator):
    import reference  # which no other process has

    return {MODULE}.posed(
        reference,
        axes,
        device,
        generator,
'''

_RULE = f'''\
"""The task's own check: it is the judge."""

import reference
from aisp.kernels.runtime import gpumode as {MODULE}


def judge(inputs, outputs, expected):
    return {MODULE}.judged(reference, inputs, outputs, expected)
'''
