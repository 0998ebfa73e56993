"""MultiKernelBench: a problem is `class Model` and get_input_groups(), whose cases often stand in a file of JSON lines.

    reference/npu_level1/4_scale.py     class Model, get_input_groups(), get_init_inputs()
    reference/npu_level1/4_scale.json   a case a line: {"inputs": [{"name": "x", "type": "tensor", "shape": [3, 5],
    ...}]} reference/activation/relu.py        class Model, get_inputs(), get_init_inputs(): read as KernelBench's

A candidate is `class ModelNew`, as in KernelBench. Its own rule is allclose: 1e-4, and 1e-3 for float16 and bfloat16.

Every group of inputs is a case of the target, `group0` and so on, with its values made by the problem's own code in the
verifier, anew for every set. Of a case list it sees only the line that is posed, so that dozens of groups cost what one
does. Which case is timed where follows from the shapes in the list: the largest on a GPU. Where groups are not written
down one by one, GUESSED of them are taken, counted round.
"""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.onefile import Parts, Reader, RefusedError

from . import kernelbench, packed
from .packed import Case, Cases
from .shared import Listed, Opened, Part, checkout, contained, contents, provenance, small

NAME = "multikernelbench"
TITLE = "MultiKernelBench"

TOLERANCE = {"float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-3}
"""Its own rule's, by the output's dtype."""
STATED = {"float32": 1e-4}
"""Ours: the narrow dtypes keep the house's, since a value that is rounded correctly from fp64 may be 2e-3 off."""
RULE = "MultiKernelBench: allclose, atol = rtol = 1e-4 (1e-3 for float16 and bfloat16)"
GUESSED = 8
CASES = "aisp_cases"
MAX_LINE = 2**16  # characters of a case
FOREIGN = {"torch_npu": "an Ascend NPU", "torch_musa": "an MUSA GPU", "torch_xla": "a TPU"}

_HEAD = "reference"  # the folder that holds the categories in a checkout
_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_GROUPS = re.compile(rb"^def[ \t]+get_input_groups[ \t]*\(", re.MULTILINE)
_ONE = re.compile(rb"^def[ \t]+get_inputs[ \t]*\(", re.MULTILINE)
_ANSWER = re.compile(rb"^class[ \t]+ModelNew[ \t]*[(:]", re.MULTILINE)
_NUMBERED = re.compile(r"(\d{1,6})_(.+)\Z")
_TAKEN = ("run", "prepare", "make", "pose")


def part(path: Path) -> Part | None:
    """What a path is: a folder by the names in it, a Python file by what is at its left edge and where it lies."""
    if path.is_dir():
        return Part.COLLECTION if next(collection(path), None) is not None else None
    data = small(path, onefile.SUFFIX)
    if not data:
        return None
    if _ANSWER.search(data):
        return Part.CANDIDATE
    if not _MODEL.search(data):
        return None
    return Part.PROBLEM if _GROUPS.search(data) or (_in_category(path) and _ONE.search(data)) else None


def _in_category(path: Path) -> bool:
    return path.absolute().parent.parent.name == _HEAD


def collection(folder: Path) -> Iterator[Listed]:
    """The problems of a checkout, of its folder `reference`, or of one category, by category and name. No file is
    opened."""
    heads = [folder / _HEAD]
    if folder.name == _HEAD:
        heads.append(folder)
    places = [folder] if folder.absolute().parent.name == _HEAD else []
    for head in heads:
        places += [head / name for name in sorted(_names(head, folders=True))]
    for place in places:
        for name in sorted(_names(place, folders=False), key=_order):
            stem = name.removesuffix(onefile.SUFFIX)
            match = _NUMBERED.match(stem)
            words = (match[2] if match else stem).strip("_").replace("_", " ")
            yield Listed(None, int(match[1]) if match else None, f"{place.name}: {words}", place / name)


def _names(folder: Path, *, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            if folders:
                return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "_"))]
            return [entry.name for entry in entries if entry.name.endswith(onefile.SUFFIX) and entry.name[0] != "_"]
    except OSError:
        return []


def _order(name: str) -> tuple[int, str]:
    match = re.match(r"\d{1,6}(?=_)", name)
    return (int(match[0]) if match else -1, name)


def read(path: Path) -> Opened:
    """What the problem in that file is. Raises OSError where it cannot be read."""
    data = contents(path)
    if not _GROUPS.search(data):
        return kernelbench.read(path, collection=TITLE)
    problem = _Groups(path)
    try:
        problem.take(data)
    except (RefusedError, RecursionError) as error:
        return Opened(path, problems=problem.reader.ended(error))
    return problem.opened()


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which the candidate is judged; where one of the two cannot be taken, its problems and
    no files. Raises OSError where one cannot be read."""
    data, answered = contents(problem), contents(candidate)
    if not _GROUPS.search(data):
        return _as_kernelbench(candidate, problem)
    groups, answer = _Groups(problem), Reader(candidate)
    try:
        groups.take(data)
    except (RefusedError, RecursionError) as error:
        return Parts({}, groups.reader.ended(error))
    try:
        kernelbench.check_candidate(answer, answered)
    except (RefusedError, RecursionError) as error:
        return Parts({}, answer.ended(error))
    try:
        return Parts(groups.files(data, candidate, answered))
    except (RefusedError, RecursionError) as error:
        return Parts({}, groups.reader.ended(error))


def _as_kernelbench(candidate: Path, problem: Path) -> Parts:
    """A problem with one group is KernelBench's in all but its rule."""
    import tomli_w  # only where a target is made

    parts = kernelbench.against(candidate, problem, collection=TITLE)
    if parts.problems:
        return parts
    name = onefile.lesson_name()
    _, front, text = parts.files[name].decode().split("+++\n", 2)
    content = tomllib.loads(front) | {"rule": {"name": RULE}, "tolerance": STATED}
    lesson = f"+++\n{tomli_w.dumps(content)}+++\n{text}".encode()
    return Parts({**parts.files, name: lesson, "rule.py": packed.rule(TOLERANCE)})


class _Groups:
    """One problem with groups of inputs, as it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = Reader(path)
        self.slots: list[str] = []
        self.outputs: dict[str, str] = {}
        self.cases = Cases("group", (Case("group0"),))
        self.lines: list[str] = []  # of the case list
        self.list = ""  # its name
        self.title = ""
        self.random = False  # forward() draws numbers
        self.notes: list[str] = []

    def take(self, data: bytes) -> None:
        """Read it. Raises RefusedError, with the reader's problems."""
        reader = self.reader
        tree = reader.tree(data)
        kernelbench.refuse_effects(reader, tree)
        kernelbench.refuse_names(reader, tree, _TAKEN)
        kernelbench.refuse_neighbours(reader, tree)
        for name, line in onefile.imported(tree.body):
            if name in FOREIGN:
                reader.wrong(line, f"{name} computes on {FOREIGN[name]} alone", "take a problem in plain PyTorch")
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
        if model is None:
            raise reader.refuse(0, "has no class Model", "write class Model(nn.Module): it decides what is right")
        forward = next((n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if forward is None:
            raise reader.refuse(model.lineno, "Model has no forward", "write def forward(self, x)")
        groups = functions.get("get_input_groups")
        if groups is None:
            raise reader.refuse(0, "has no function get_input_groups", "write it at the left edge")
        self.slots = packed.slots(forward.args)
        if not self.slots:
            raise reader.refuse(forward.lineno, "forward takes no tensor", "write def forward(self, x)")
        self.outputs = packed.outputs(len(packed.returned(forward)), (*self.slots, packed.CALL, "model"))
        said = (ast.get_docstring(model) or "").strip().partition("\n")[0]
        match = _NUMBERED.match(self.path.stem)
        self.title = " ".join(said.split()) or (match[2] if match else self.path.stem).replace("_", " ")
        self.has_init = "get_init_inputs" in functions
        self.random = packed.draws(tree)
        if self.random:
            self.notes.append(packed.DRAWS)
        self._take_cases(tree, groups)
        reader.hold()
        self.cases = self.cases.asked_by(tree, self.notes)

    def _take_cases(self, tree: ast.Module, groups: ast.FunctionDef) -> None:
        named = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".json")
        ]
        own = f"{self.path.stem}.json"
        wanted = own if not named or ".json" in named else Path(named[0]).name
        root = checkout(self.path)
        place = self.path.parent / wanted
        if named and not place.is_file():
            told = f"its case list {wanted} is missing"
            raise self.reader.refuse(0, told, f"put {wanted} beside {self.path.name}")
        if named and not contained(place, root):
            raise self.reader.refuse(0, f"{wanted} leads out of the checkout", "put the case list beside the problem")
        if named:
            self._take_list(place)
            return
        value = next((n.value for n in reversed(groups.body) if isinstance(n, ast.Return)), None)
        if isinstance(value, ast.List | ast.Tuple) and value.elts:
            known = tuple(Case(f"group{index}", _elements(each)) for index, each in enumerate(value.elts))
        else:
            known = tuple(Case(f"group{index}") for index in range(GUESSED))
            self.notes.append(
                f"how many groups there are is known once its code runs: {GUESSED} are taken, counted round"
            )
        self._keep(known)

    def _take_list(self, place: Path) -> None:
        data = small(place)
        if not data:
            raise self.reader.refuse(0, f"{place.name} is empty or larger than {onefile.MAX_BYTES:,} bytes", "split it")
        known: list[Case] = []
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if not line.strip():
                continue
            try:
                if len(line) > MAX_LINE:
                    raise ValueError(f"it has {len(line)} characters")
                case = json.loads(line)
                if not isinstance(case, dict) or not isinstance(case.get("inputs"), list):
                    raise ValueError("it has no list of inputs")
            except (ValueError, RecursionError) as error:
                told = str(error) if isinstance(error, ValueError) else "nested too deeply"
                self.reader.wrong(0, f"{place.name}, line {number}: {told}", 'write {"inputs": [...]}, a case a line')
                continue
            known.append(Case(f"group{len(known)}", max(map(_size, case["inputs"]), default=0)))
            self.lines.append(line)
        self.reader.hold()
        if not known:
            raise self.reader.refuse(0, f"{place.name} holds no case", 'write {"inputs": [...]}, a case a line')
        self.list = place.name
        self._keep(tuple(known))

    def _keep(self, known: tuple[Case, ...]) -> None:
        if len(known) > packed.MAX_CASES:
            self.notes.append(f"the first {packed.MAX_CASES} of its {len(known)} groups are taken")
            known = known[: packed.MAX_CASES]
        sizes = [(case.elements or 0, -index) for index, case in enumerate(known)]
        self.cases = Cases("group", known, usual=-max(sizes)[1])
        self.lines = self.lines[: len(known)]
        untouched = [case.name for case in known if (case.elements or 0) > packed.JUDGED_ELEMENTS]
        if untouched:
            most = f"{packed.JUDGED_ELEMENTS:,} elements"
            told = f"{len(untouched)} of {len(known)}, run where --case names them"
            self.notes.append(f"groups with a tensor of more than {most}: {told}")

    @property
    def all_inputs(self) -> dict[str, str]:
        """Lines of `[inputs]`: the call, its tensors, the weights, and the seed of what forward() draws."""
        return packed.with_model(packed.inputs(self.slots), random=self.random)

    def opened(self) -> Opened:
        """What was read."""
        cpu = self.cases.cpu
        return Opened(
            self.path,
            self.title,
            {self.cases.axis: self.cases.usual},
            self.all_inputs,
            self.outputs,
            True,
            None if cpu is None else {self.cases.axis: cpu},
            (f"{len(self.cases.known)} groups of inputs, each a case", *self.notes),
        )

    def files(self, data: bytes, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        names = list(self.all_inputs)
        carried, (model, *seeds) = names[: len(self.slots) + 1], names[len(self.slots) + 1 :]
        taken, given = ", ".join(names), ", ".join(carried)
        first, *rest = carried
        weights, pack = packed.MODELS, packed.NAME
        head = f"\n\n\n{packed.IMPORT}  # what follows is aisp's\n\n\n"
        run = (
            f"{head}def run({taken}):\n"
            f"    aisp_args, aisp_kwargs = {pack}.reader({first})({', '.join(rest)})\n\n"
            f"    def aisp_call(made, *given):\n"
            f"        return {pack}.flat(made(*given, **aisp_kwargs))\n\n"
            f"    return {weights}.exactly(aisp_call, Model, {model}, {seeds[0] if seeds else None}, 'float32', "
            f"*aisp_args)\n"
        )

        def prepare(name: str) -> bytes:
            made = f"lambda *args: {weights}.aligned({name}, {model}, *args)"
            before = f", before={weights}.seed" if seeds else ""
            return f"{head}def prepare({taken}):\n    return {pack}.prepared({made}, {given}{before})\n".encode()

        init = "get_init_inputs" if self.has_init else "list"
        inputs = (
            f"{head}import {CASES}\n\n\n"
            f"def make(axes, device, generator):\n"
            f"    return {{{model!r}: {weights}.drawn(Model, {init}, device)}}\n\n\n"
            f"def pose(axes, device, generator):\n"
            f"    group = {CASES}.group(globals(), axes[{self.cases.axis!r}])\n"
            f"    args, kwargs = ([], group) if isinstance(group, dict) else (group, {{}})\n"
            f"    return {packed.NAME}.pack({carried!r}, args, kwargs)\n"
        )
        text = [f"A {TITLE} problem and an answer to it.", ""]
        text += [provenance("problem", self.path, data), provenance("candidate", candidate, answered)]
        if self.list:
            text.append(provenance("case list", self.path.parent / self.list, small(self.path.parent / self.list)))
        text += ["", *self.notes]
        lesson = packed.lesson(
            self.reader,
            self.cases,
            title=self.title,
            tolerance=STATED,
            inputs=self.all_inputs,
            outputs=self.outputs,
            rule=RULE,
            rungs={
                "baseline": "Model, as its author wrote it",
                "optimized": f"ModelNew of {packed.plain_name(candidate)}",
            },
            text=text,
        )
        return {
            "reference.py": data + run.encode(),
            "baseline.py": data + prepare("Model"),
            "optimized.py": answered + prepare("ModelNew"),
            "inputs.py": data + inputs.encode(),
            "rule.py": packed.rule(TOLERANCE),
            f"{CASES}.py": _SERVED.format(stem=self.path.stem, name=self.list, lines=self.lines).encode(),
            onefile.lesson_name(): lesson,
        }


def _size(entry: Any) -> int:
    """Elements of one input of a case."""
    dims = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(dims, list) or not all(type(n) is int and n >= 0 for n in dims):
        return 0
    count = 1
    for n in dims:
        count = min(count * n, packed.JUDGED_ELEMENTS * 2**20)
    return count


def _elements(node: ast.expr) -> int | None:
    """Elements of the largest tensor that an expression makes, by the numbers in its calls; None where it has none."""
    found = [0]
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        dims = next((each.elts for each in call.args if isinstance(each, ast.List | ast.Tuple)), call.args)
        numbers = [n.value for n in dims if isinstance(n, ast.Constant) and type(n.value) is int]
        if numbers and len(numbers) == len(dims):
            found.append(_size({"shape": numbers}))
    return max(found) or None


_SERVED = '''\
"""The cases of a problem: the lines of its list, and how its code gets the one that is posed."""

import pathlib
import tempfile

STEM, NAME = {stem!r}, {name!r}
LINES = {lines!r}


def group(module, number):
    """The inputs of a case, by the problem's get_input_groups(). A list lies where `__file__` says, with that line
    alone; with all of them for code that counts them."""
    if not LINES:
        groups = module["get_input_groups"]()
        return groups[number % len(groups)]
    try:
        (found,) = served(module, LINES[number : number + 1])
        return found
    except (IndexError, ValueError):
        return served(module, LINES)[number]


def served(module, lines):
    before = module.get("__file__")
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / NAME).write_text("\\n".join(lines) + "\\n")
        module["__file__"] = str(place / f"{{STEM}}.py")
        try:
            return list(module["get_input_groups"]())
        finally:
            module["__file__"] = before
'''
