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
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.onefile import Parts

from . import kernelbench, packed
from .packed import Case, Cases
from .shared import (
    Listed,
    Opened,
    Part,
    by_number,
    checkout,
    contained,
    contents,
    decoded,
    folders_in,
    provenance,
    small,
)

NAME = "multikernelbench"
TITLE = "MultiKernelBench"

TOLERANCE = {"float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-3}
"""Its own rule's, by the output's dtype."""
STATED = {"float32": 1e-4}
"""Ours: the narrow dtypes keep the house's, since a value that is rounded correctly from fp64 may be 2e-3 off."""
RULE = "MultiKernelBench: allclose, atol = rtol = 1e-4 (1e-3 for float16 and bfloat16)"
GUESSED = 8
MAX_LINE = 2**16  # characters of a case
FOREIGN = {"torch_npu": "an Ascend NPU", "torch_musa": "an MUSA GPU", "torch_xla": "a TPU"}

_HEAD = "reference"  # the folder that holds the categories in a checkout
_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_GROUPS = re.compile(rb"^def[ \t]+get_input_groups[ \t]*\(", re.MULTILINE)
_ONE = re.compile(rb"^def[ \t]+get_inputs[ \t]*\(", re.MULTILINE)
_ANSWER = re.compile(rb"^class[ \t]+ModelNew[ \t]*[(:]", re.MULTILINE)
_NUMBERED = re.compile(r"(\d{1,6})_(.+)\Z")


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
        places += [head / name for name in sorted(folders_in(head)) if name[0] != "_"]
    for place in places:
        for name in sorted(kernelbench.names_in(place), key=by_number):
            if name[0] in "._" or not name.endswith(onefile.SUFFIX):
                continue
            stem = name.removesuffix(onefile.SUFFIX)
            match = _NUMBERED.match(stem)
            words = (match[2] if match else stem).strip("_").replace("_", " ")
            yield Listed(None, int(match[1]) if match else None, f"{place.name}: {words}", place / name)


def read(path: Path) -> Opened:
    """What the problem in that file is. Raises OSError where it cannot be read."""
    return kernelbench.opened(_problem(path))


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which the candidate is judged; where one of the two cannot be taken, its problems and
    no files. Raises OSError where one cannot be read."""
    return kernelbench.answered(_problem(problem), candidate, kernelbench.check_candidate)


def _problem(path: Path) -> kernelbench.Problem:
    return _Groups(path) if _GROUPS.search(contents(path)) else _One(path)


class _One(kernelbench.Problem):
    """A problem with one group: KernelBench's in all but its rule."""

    collection, rule, stated = TITLE, RULE, STATED

    def rule_file(self) -> bytes:
        """rule.py."""
        return packed.rule(TOLERANCE)


class _Groups(_One):
    """One problem with groups of inputs, as it is read."""

    source = "get_input_groups"
    needed: Mapping[str, str] = {"get_input_groups": "write it at the left edge"}

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.lines: list[str] = []  # of the case list
        self.list = ""  # its name

    def look(self, module: kernelbench.Module) -> None:
        """See its cases. Raises RefusedError."""
        for name, line in onefile.imported(module.tree.body):
            if name in FOREIGN:
                self.reader.wrong(line, f"{name} computes on {FOREIGN[name]} alone", "take a problem in plain PyTorch")
        self._take_cases(module.tree, module.functions[self.source])

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
                case = decoded(line.encode())
                if not isinstance(case, dict) or not isinstance(case.get("inputs"), list):
                    raise ValueError("it has no list of inputs")
            except ValueError as error:
                self.reader.wrong(0, f"{place.name}, line {number}: {error}", 'write {"inputs": [...]}, a case a line')
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
    def counted(self) -> tuple[str, ...]:
        """How many groups there are."""
        return (f"{len(self.cases.known)} groups of inputs, each a case",) if self.cases else ()

    def inputs_file(self, arguments: str) -> str:
        """inputs.py."""
        return (
            f"{packed.RUN_IMPORT}, multikernel\n\n"
            f"LINES = {self.lines!r}\n\n\n"
            f"def pose(axes, device, generator):\n"
            f"    import reference  # which no other process has\n\n"
            f"    def inputs():\n"
            f"        return multikernel.group(reference, axes['group'], {self.list!r}, LINES)\n\n"
            f"    given = dict({arguments}, source={self.source!r}, case=axes['group'], inputs=inputs)\n"
            f"    return {packed.MODULE}.posed(reference, device, generator, **given)\n"
        )

    def lesson(self, sources: Sequence[str], rungs: Mapping[str, Mapping[str, object]]) -> bytes:
        """lesson.md. Raises RefusedError."""
        place = self.path.parent / self.list
        return super().lesson([*sources, *([provenance("case list", place, small(place))] if self.list else [])], rungs)


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
