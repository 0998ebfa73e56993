"""robust-kbench: a task is a Model whose forward() calls a function, to be replaced forward or backward.

    tasks/layernorm/func_forward.py       forward_fn(...), class Model(..., init_method), get_inputs(...)
    tasks/layernorm/func_backward.py      the same, and class AutogradFunction with backward_fn
    tasks/layernorm/config_forward.json   {"single_input_configs": [{...}], "multi_init_configs": [...], ...}
    tasks/layernorm/config_backward.json

A problem is one of the two Python files. Its cases are the products of initialisations, inputs and shared settings: the
`single_*` ones, of which the first is timed, then the `multi_*` ones. Shared settings go to both, and override.

A candidate is a Python file with `forward_fn` or `backward_fn`, with the arguments that the task's has, or CUDA source
with a PYBIND11 module, which is compiled by nvcc in the rung's process and refused where there is none.

Forward, the outputs are Model's. Backward, they are the gradients of forward_fn for a random gradient of its output:
one for each that AutogradFunction.backward returns, with respect to the argument in its place. The truth are those of
torch's own autograd, in fp64; what is timed of each rung is one forward and one backward call.
"""

from __future__ import annotations

import ast
import functools
import itertools
import keyword
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.onefile import Parts, Reader

from . import kernelbench, packed
from .packed import Case, Cases
from .shared import Listed, Opened, Part, by_number, checkout, contained, decoded, folders_in, provenance, small

NAME = "robustkbench"
TITLE = "robust-kbench"

TOLERANCE = {"float32": 1e-5, "float16": 1e-5, "bfloat16": 1e-5}
"""Its own rule's."""
STATED = {"float32": 1e-5}
RULE = "robust-kbench: allclose, atol = rtol = 1e-5"
DIRECTIONS = ("forward", "backward")
MAX_CONFIGS = 1024  # of one list
MAX_DEPTH = 4  # of a value in a configuration
ROBUST = "aisp_robust"
TASK = "aisp_task"
AXIS = "config"

_MODEL = re.compile(rb"^class[ \t]+Model[ \t]*[(:]", re.MULTILINE)
_ANSWER = re.compile(rb"^(?:def[ \t]+(?:forward|backward)_fn[ \t]*\(|(?:forward|backward)_fn[ \t]*=)", re.MULTILINE)
_BINDING = re.compile(rb"\bPYBIND11_MODULE\b")
_PROBLEM = re.compile(r"func_(forward|backward)\.py\Z")
_NUMBERED = re.compile(r"(\d{1,6})_(.+)\Z")


def part(path: Path) -> Part | None:
    """What a path is: a folder by the names in it, a file by its name and by what is at its left edge."""
    if path.is_dir():
        return Part.COLLECTION if next(collection(path), None) is not None else None
    if _PROBLEM.match(path.name):
        return Part.PROBLEM if _MODEL.search(small(path, onefile.SUFFIX)) else None
    if path.suffix == ".cu":
        return Part.CANDIDATE if _BINDING.search(small(path, ".cu")) else None
    data = small(path, onefile.SUFFIX)
    return Part.CANDIDATE if data and _ANSWER.search(data) and not _MODEL.search(data) else None


def collection(folder: Path) -> Iterator[Listed]:
    """The problems of a checkout, of its folder `tasks`, of a level, or of one task, by level and name: one for each
    direction. No file is opened."""
    yield from _of_task(folder, None)
    for head in (folder, folder / "tasks"):
        yield from _of_folder(head, kernelbench.level_of(head.name))
        for place in (head, head / "kernelbench"):
            levels = [(level, name) for name in folders_in(place) if (level := kernelbench.level_of(name)) is not None]
            for level, name in sorted(levels):
                yield from _of_folder(place / name, level)


def _of_folder(folder: Path, level: int | None) -> Iterator[Listed]:
    for name in sorted(folders_in(folder), key=by_number):
        yield from _of_task(folder / name, level)


def _of_task(task: Path, level: int | None) -> Iterator[Listed]:
    start = os.fspath(task)
    match = _NUMBERED.match(task.name)
    for direction in DIRECTIONS:
        if not os.path.isfile(f"{start}/func_{direction}.py"):  # noqa: PTH113 - thousands, of which no path is made
            continue
        config = f"config_{direction}.json"
        reason = "" if os.path.isfile(f"{start}/{config}") else f"{config} is missing"  # noqa: PTH113 - likewise
        words = (match[2] if match else task.name).strip("_").replace("_", " ")
        number = int(match[1]) if match else None
        yield Listed(level, number, f"{words} {direction}", task / f"func_{direction}.py", reason)


def read(path: Path) -> Opened:
    """What the problem in that file is. Raises OSError where it cannot be read."""
    return kernelbench.opened(_Task(path))


def against(candidate: Path, problem: Path) -> Parts:
    """The files of the target in which the candidate is judged; where one of the two cannot be taken, its problems and
    no files. Raises OSError where one cannot be read."""
    task = _Task(problem)
    python = functools.partial(kernelbench.check_candidate, name=task.function, fix=f"write def {task.function}(...)")
    return kernelbench.answered(task, candidate, _check_cuda if candidate.suffix == ".cu" else python)


def _check_cuda(reader: Reader, data: bytes) -> None:
    """Whether CUDA source can be taken here: with a binding, and with a compiler."""
    if len(data) > onefile.MAX_BYTES:
        raise reader.refuse(0, f"has {len(data):,} bytes", f"keep it within {onefile.MAX_BYTES:,}")
    if not _BINDING.search(data):
        fix = "write PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(...) }"
        raise reader.refuse(0, "has no PYBIND11_MODULE", fix)
    if not has_compiler():
        fix = "install the CUDA toolkit, or judge it where nvcc is on the PATH or below $CUDA_HOME"
        raise reader.refuse(0, "needs nvcc, and there is none here", fix)


def has_compiler() -> bool:
    """Whether nvcc is where torch's extension builder looks for it."""
    homes = [home for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    return shutil.which("nvcc") is not None or any((Path(home) / "bin" / "nvcc").is_file() for home in homes)


class _Task(kernelbench.Problem):
    """One direction of a task, as it is read. Its arguments are those of forward() but for fn, and the gradient of its
    output where it is backward."""

    collection, rule, stated = TITLE, RULE, STATED
    needed: Mapping[str, str] = dict.fromkeys(("forward_fn", "get_inputs"), "write it at the left edge")
    taken = (*kernelbench.Problem.taken, ROBUST)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.backward = path.name == "func_backward.py"
        self.places: list[int] = []  # arguments of forward_fn whose gradients are judged
        self.settings: list[dict[str, Any]] = []  # by case: keywords for Model, and for get_inputs

    @property
    def function(self) -> str:
        """What a candidate replaces."""
        return "backward_fn" if self.backward else "forward_fn"

    @property
    def named(self) -> str:
        """Its folder's name in words."""
        return self.path.parent.name.replace("_", " ")

    def look(self, module: kernelbench.Module) -> None:
        """See its gradients and cases. Raises RefusedError."""
        reader, (_, functions, classes, forward) = self.reader, module
        if self.backward and "AutogradFunction" not in classes:
            fix = "write class AutogradFunction(torch.autograd.Function), whose backward calls backward_fn"
            raise reader.refuse(0, "has no class AutogradFunction", fix)
        if "fn" not in _names(forward.args):
            told = "write def forward(self, x, fn=forward_fn)"
            raise reader.refuse(forward.lineno, "Model.forward takes no fn", told)
        self.arguments.remove("fn")
        if not self.arguments:
            raise reader.refuse(forward.lineno, "forward takes no tensor", "write def forward(self, x, fn=forward_fn)")
        self.title = f"{self.title} ({'backward' if self.backward else 'forward'})"
        if self.backward:
            self._take_gradients(classes["AutogradFunction"], functions["forward_fn"])
            self.arguments.append(packed.free_name("grad", self.arguments))
        self._take_configs(kernelbench.method(classes["Model"], "__init__"), functions["get_inputs"])

    def _take_gradients(self, function: ast.ClassDef, forward: ast.FunctionDef) -> None:
        """Which arguments of forward_fn AutogradFunction.backward gives a gradient."""
        backward = kernelbench.method(function, "backward")
        if backward is None:
            raise self.reader.refuse(function.lineno, "AutogradFunction has no backward", "write backward(ctx, grad)")
        ends = [node for node in backward.body if isinstance(node, ast.Return)]
        value = ends[-1].value if ends else None
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        plain = _names(forward.args)
        for place, each in enumerate(values):
            if each is None or (isinstance(each, ast.Constant) and each.value is None):
                continue
            if place >= len(plain) or isinstance(each, ast.Starred):
                told = f"backward returns {len(values)} gradients, and forward_fn takes {len(plain)} arguments"
                raise self.reader.refuse(each.lineno, told, "return one for each argument, None where there is none")
            name = packed.free_name(f"d_{plain[place]}", [*packed.model_inputs(self.arguments), *self.outputs])
            self.outputs[name] = packed.OPEN_OUTPUT
            self.places.append(place)
        if not self.places:
            raise self.reader.refuse(backward.lineno, "backward returns no gradient", "return one for each argument")

    # -- configurations --------------------------------------------------------------------------------------------

    def _take_configs(self, start: ast.FunctionDef | None, inputs: ast.FunctionDef) -> None:
        wanted = f"config_{'backward' if self.backward else 'forward'}.json"
        place = self.path.parent / wanted
        if not place.is_file():
            raise self.reader.refuse(0, f"{wanted} is missing", f"put {wanted} beside {self.path.name}")
        if not contained(place, checkout(self.path)):
            raise self.reader.refuse(0, f"{wanted} leads out of the checkout", "put it beside the task")
        data = small(place)
        try:
            content = decoded(data)
            if not isinstance(content, dict):
                raise ValueError("it is no table")
            lists = {key: _configs(content, key) for key in content if key.endswith("_configs")}
        except ValueError as error:
            fix = 'write {"single_input_configs": [{}], "single_init_configs": [{}], "single_shared_configs": [{}]}'
            raise self.reader.refuse(0, f"{wanted}: {error}", fix) from None
        found: list[dict[str, Any]] = []
        product = 0
        for kind in ("single", "multi"):
            sides = [lists.get(f"{kind}_{side}_configs", ()) for side in ("init", "input", "shared")]
            if not any(sides):
                continue
            sides = [side or [{}] for side in sides]
            product += math.prod(map(len, sides))
            for init, given, shared in itertools.islice(itertools.product(*sides), packed.MAX_CASES):
                one = {"init": {**init, **shared}, "input": {**given, **shared}}
                if one not in found:
                    found.append(one)
        if not found:
            raise self.reader.refuse(0, f"{wanted} has no configurations", 'write "single_input_configs": [{}]')
        self._check_keys(wanted, found, start, inputs)
        if len(found) > packed.MAX_CASES - 1:
            found = found[: packed.MAX_CASES - 1]
            self.notes.append(f"the first {len(found)} of its {product:,} configurations are taken")
        self._keep(found, start, inputs)

    def _check_keys(
        self, wanted: str, found: list[dict[str, Any]], start: ast.FunctionDef | None, inputs: ast.FunctionDef
    ) -> None:
        """Whether Model and get_inputs take what the configurations give them."""
        for side, function, called in (("init", start, "Model"), ("input", inputs, "get_inputs")):
            if function is not None and function.args.kwarg is not None:
                continue
            known = _names(function.args) if function is not None else []
            unknown = sorted({key for one in found for key in one[side] if key not in known})
            if unknown:
                told = f"{wanted} gives {called} {', '.join(unknown[:5])}, which it does not take"
                self.reader.wrong(function.lineno if function is not None else 0, told, "let the two agree")
        self.reader.hold()

    def _keep(self, found: list[dict[str, Any]], start: ast.FunctionDef | None, inputs: ast.FunctionDef) -> None:
        """The cases, and one that is small enough for a CPU where none is: what get_inputs alone takes is halved."""
        usual = _defaults(inputs.args)
        own = set(_names(start.args)) if start is not None else set()
        known = [Case(f"config{index}", _elements(usual, one["input"])) for index, one in enumerate(found)]
        if all((case.elements or 0) > packed.HOST_ELEMENTS for case in known):
            free = {key: n for key, n in (usual | found[0]["input"]).items() if key not in own and type(n) is int}
            while free and _elements(usual, found[0]["input"] | free) > packed.HOST_ELEMENTS:
                largest = max(free, key=lambda key: free[key])
                if free[largest] < 2:
                    free = {}
                else:
                    free[largest] //= 2
            if free:
                halved = {"init": found[0]["init"], "input": found[0]["input"] | free}
                found = [*found, halved]
                known.append(Case("halved", _elements(usual, halved["input"])))
                sizes = ", ".join(f"{key}={n}" for key, n in free.items())
                self.notes.append(f"the case cpu is not the task's own: its first configuration with {sizes}")
        self.settings = found
        self.cases = Cases(AXIS, tuple(known))

    # -- files -----------------------------------------------------------------------------------------------------

    @property
    def counted(self) -> tuple[str, ...]:
        """How many configurations there are."""
        count = sum(case.name.startswith("config") for case in self.cases.known) if self.cases else 0
        return (f"{count} configurations, each a case; a candidate writes {self.function}",)

    def files(self, data: bytes, candidate: Path, answered: bytes) -> dict[str, bytes]:
        """The target's files. Raises RefusedError where they are none."""
        names = tuple(packed.model_inputs(self.arguments))
        taken = ", ".join(names)
        head = f"\n\n\n{packed.RUN_IMPORT}, robust as {ROBUST}  # what follows is aisp's\n"

        def calling(function: str) -> str:
            how = f"backward({function}, {self.places!r})" if self.backward else f"forward({function})"
            return f"{taken}, call={ROBUST}.{how}"

        def prepare(cls: str, function: str, before: str = "") -> str:
            made = f"{packed.MODULE}.prepared({cls}, {calling(function)})"
            return f"\n\ndef prepare({taken}):\n{before}    return {made}\n"

        run = f"\n\ndef run({taken}):\n    return {packed.MODULE}.truth(Model, {calling('forward_fn')})\n"
        files = {
            "reference.py": data + (head + run).encode(),
            "baseline.py": data + (head + prepare("Model", "forward_fn")).encode(),
            "inputs.py": (
                f"from aisp.kernels.runtime import robust\n\n"
                f"SETTINGS = {self.settings!r}\n\n\n"
                f"def pose(axes, device, generator):\n"
                f"    import reference  # which no other process has\n\n"
                f"    case = axes[{AXIS!r}]\n"
                f"    given = dict({packed.model_arguments(names)}, case=case)\n"
                f"    return robust.posed(reference, device, generator, SETTINGS[case], {self.places!r}, **given)\n"
            ).encode(),
            f"{TASK}.py": data,
            "rule.py": packed.rule(TOLERANCE),
        }
        function, before = "forward_fn", ""
        if self.backward:
            function = f"{TASK}.AutogradFunction.apply"
            before = f"    {TASK}.AutogradFunction.backward_fn = backward_fn\n"
        body = f"{head}import {TASK}\n" + prepare(f"{TASK}.Model", function, before)
        cuda = candidate.suffix == ".cu"
        if cuda:
            bound = "backward" if self.backward and b'"backward"' in answered else "forward"
            files["candidate.cu"] = answered
            answered = f"{self.function} = {ROBUST}.compiled(__file__).{bound}\n".encode()
            files["optimized.py"] = f"{head.lstrip()}import {TASK}\n\n".encode() + answered
            files["optimized.py"] += prepare(f"{TASK}.Model", function, before).encode()
        else:
            files["optimized.py"] = answered + body.encode()
        config = self.path.parent / f"config_{'backward' if self.backward else 'forward'}.json"
        sources = [provenance("problem", self.path, data), provenance("configurations", config, small(config))]
        sources.append(provenance("candidate", candidate, files.get("candidate.cu", answered)))
        what = "gradients of forward_fn by torch's autograd" if self.backward else "forward_fn, as its author wrote it"
        rungs = packed.summaries(what, self.function, candidate)
        if cuda:
            rungs["optimized"]["needs"] = {"gpus": 1}
        files[onefile.lesson_name()] = self.lesson(sources, rungs)
        return files


def _names(arguments: ast.arguments) -> list[str]:
    """Arguments that can be given by name, but for self and ctx."""
    given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return [arg.arg for arg in given if arg.arg not in ("self", "ctx")]


def _defaults(arguments: ast.arguments) -> dict[str, Any]:
    """Numbers that arguments have where none are given."""
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = list(zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True))
    pairs += [(arg, value) for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    known = {arg.arg: value.value for arg, value in pairs if isinstance(value, ast.Constant)}
    return {name: value for name, value in known.items() if type(value) is int}


def _elements(usual: Mapping[str, Any], given: Mapping[str, Any]) -> int:
    """Elements of an input at most: the product of all whole numbers that get_inputs is given."""
    found = [n for n in (dict(usual) | dict(given)).values() if type(n) is int and n > 0]
    return min(math.prod(found), 2**62)


def _configs(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """One list of configurations. Raises ValueError."""
    given = content[key]
    if not isinstance(given, list) or len(given) > MAX_CONFIGS:
        raise ValueError(f"{key} is no list of at most {MAX_CONFIGS}")
    for one in given:
        if not isinstance(one, dict):
            raise ValueError(f"{key} holds something other than tables")
        for name, value in one.items():
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ValueError(f"{key}: {name[:60]!r} cannot name an argument")
            _check_value(value, f"{key}: {name}", 0)
    return given


def _check_value(value: Any, place: str, depth: int) -> None:
    if isinstance(value, list):
        if depth >= MAX_DEPTH or len(value) > MAX_CONFIGS:
            raise ValueError(f"{place} is nested too deeply, or too long")
        for each in value:
            _check_value(each, place, depth + 1)
    elif isinstance(value, dict) or (type(value) is int and not -(2**63) <= value < 2**63):
        raise ValueError(f"{place} is neither a number, a text, nor a list of these")
