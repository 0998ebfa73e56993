"""What a definition and a solution become: the files of a target's folder.

    aisp_definition.py   the definition's reference, as its author wrote it
    reference.py         the same in the dtype of what it is given: in fp64 the truth
    baseline.py          the same in the definition's own dtypes
    optimized.py         the solution; where it has several files, they lie in aisp_answer/
    rule.py              the rule of the benchmark that the definition comes from
    inputs.py            what pose() and make() make, where inputs are more than tensor lines say
    aisp_workloads.py    the workloads as data, for inputs.py, and for whoever writes results back as traces
    aisp_calls.py        what reference.py, baseline.py and optimized.py share

Random inputs are tensor lines wherever the grammar has the distribution, so that their values are fresh in every set
and the oracle's other kinds of values are asked too. FlashInfer draws normal(0, 1), SOL-ExecBench goes by the name of
an input; the rest (masks, softmax weights, running sums, stored and custom tensors) is posed in the verifier. A number
that all workloads share is written into the call; else it is made, by the number of the workload, which is an axis of
its own.
"""

from __future__ import annotations

import ast
import pprint
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aisp.kernels.catalog import frontmatter, onefile
from aisp.kernels.catalog.grammar import names
from aisp.kernels.catalog.model import UNCOUNTED
from aisp.kernels.catalog.parsing import REFUSALS, parsed
from aisp.kernels.catalog.tensors import DEFAULT_TOLERANCE

from . import trace_draws
from .trace_definition import (
    PACKED,
    PROBABILITIES,
    SAMPLING,
    Definition,
    Given,
    Harness,
    Reader,
    Source,
    Tensor,
    Workload,
    one_line,
    whole,
)
from .trace_solution import FOLDER, Build, Solution
from .trace_stored import Stored

WORKLOADS = "aisp_workloads"
DEFINITION = "aisp_definition"
CALLS = "aisp_calls"
SOLUTION = "aisp_solution"
MOST_TOLERANCE = 0.5

_INTEGERS = {"int8": ("-128", "128"), "uint8": ("0", "256")}  # drawn by both; other integers as the next line says
_OTHER_INTEGERS = ("-1024", "1024")
_LOW = ("float8_e4m3fn", "float8_e5m2")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NORM = re.compile(r".*norm\d*_(weight|bias)\Z")
_WEIGHT = re.compile(r"(?:.*(?:_weights?|_projs?|_weight_matrix)|weight)\d*\Z")
_POSITIVE = re.compile(r"(?:.*_)?(?:rstd|std|variance|var)\d*\Z")
_BINARY = ("x_mask", "text_mask", "aspect_ratio_mask", "drop_mask", "attention_mask")
_BINARY_WORDS = ("binary", "{0, 1}", "0 or 1", "1.0 for valid", "0.0 for masked")
_ROTARY = ("cos", "sin", "cos_cached", "sin_cached", "rope_cos", "rope_sin")
_DECAY = {"A_log": ("-5", "-1"), "A": ("-1", "-0.001"), "g": ("-5", "0")}


@dataclass(frozen=True, slots=True)
class Draw:
    """How a random input is drawn: by a distribution of the grammar, or by one of inputs.py's own where `posed`."""

    how: str
    arguments: tuple[str, ...] = ()
    posed: bool = False

    def __str__(self) -> str:
        return f"{self.how}({', '.join(self.arguments)})" if self.arguments else self.how


class Plan:
    """The inputs and outputs of a definition in our grammar, and what follows from them."""

    def __init__(self, definition: Definition, stored: Mapping[tuple[str, str], Stored]) -> None:
        """`stored` are the tensors in files, by workload's case and input.

        `carried` are the numbers that the definition's own code makes: it runs in the verifier alone, and each reaches
        a rung as a tensor of one element in host memory, whose value the call takes.
        """
        self.definition = definition
        self.stored = stored
        first = definition.workloads[0]
        sources = {t.name: {w.source(t.name) for w in definition.workloads} for t in definition.inputs}
        own = [t.name for t in definition.inputs if t.dims is None and Source.CUSTOM in sources[t.name]]
        self.carried = frozenset(own)
        tensors = [t for t in definition.inputs if t.dims is not None or t.name in self.carried]
        self.draws = {t.name: drawn(t, definition, first) for t in tensors}
        self.constants = {name: code for name, code in _constants(definition).items() if name not in self.carried}
        self.made = [t.name for t in definition.inputs if t not in tensors and t.name not in self.constants]
        self.samples = definition.op_type == SAMPLING
        self.posed = [
            name
            for name, draw in self.draws.items()
            if draw.posed or self.samples or sources[name] & {Source.STORED, Source.CUSTOM}
        ]
        taken = {*definition.constant, *definition.variable}
        self.number = "workload"  # the axis that says which one it is
        while self.number in taken:
            self.number += "_"
        self.numbered = bool(self.made) or self.samples or any(sources[name] != {Source.RANDOM} for name in self.posed)

    @property
    def arguments(self) -> list[str]:
        """Names of the inputs of the target."""
        given = [t.name for t in self.definition.inputs if t.name not in self.constants]
        return given + [trace_draws.SEED] * self.samples

    @property
    def before(self) -> str:
        """What run() does before the call."""
        return f"    {CALLS}.seeded({trace_draws.SEED})\n" if self.samples else ""

    @property
    def repeated(self) -> dict[str, int]:
        """The axes of the cases in which a solution draws often from one distribution; none where the rows of the
        probabilities have a size of their own."""
        dims = next((t.dims or () for t in self.definition.inputs if t.name == PROBABILITIES), ())
        if not self.samples or len(dims) < 2 or dims[0] not in self.definition.variable or dims[0] in names(dims[1]):
            return {}
        usual = self.definition.workloads[0].axes
        rows = trace_draws.rows(int(_size(whole(dims[1]), self.definition.workloads[0])))
        return {**usual, dims[0]: rows, self.number: len(self.definition.workloads)}

    @property
    def passed(self) -> list[str]:
        """What the definition's run() is called with: names, and numbers that all workloads share."""
        return [self.given(t, seen(t, t.name)) for t in self.definition.inputs]

    def given(self, tensor: Tensor, code: str) -> str:
        """The code of an argument of the definition's run(), where `code` is that of the target's input."""
        return f"{code}.item()" if tensor.name in self.carried else self.constants.get(tensor.name, code)

    @property
    def kept(self) -> str:
        """The tensors that a call may not hand back, as further arguments: those that it may not write into."""
        given = (t.name for t in self.definition.inputs if t.dims is not None and t.name not in self.definition.written)
        return "".join(f", {name}" for name in given)

    def axes(self, index: int) -> dict[str, int]:
        """The axes of a workload's case."""
        workload = self.definition.workloads[index]
        return {**workload.axes, **({self.number: index} if self.numbered else {})}

    def inputs(self) -> dict[str, str]:
        """Lines of `[inputs]`."""
        lines: dict[str, str] = {}
        for tensor in self.definition.inputs:
            if tensor.name in self.made:
                lines[tensor.name] = "made"
            elif tensor.name in self.carried:
                lines[tensor.name] = f"{as_wide(tensor.dtype)} [] posed cpu"
            elif tensor.dims is not None:
                how = "posed" if tensor.name in self.posed else str(self.draws[tensor.name])
                how += " mutable" if tensor.name in self.definition.written else ""
                lines[tensor.name] = f"{tensor.dtype} [{', '.join(map(whole, tensor.dims))}] {how}"
        return lines | ({trace_draws.SEED: trace_draws.SEED_LINE} if self.samples else {})

    def outputs(self) -> dict[str, str]:
        """Lines of `[outputs]`."""
        found = self.definition.outputs
        return {t.name: f"{t.dtype} [{', '.join(map(whole, t.dims or ()))}]" for t in found}

    def for_host(self) -> dict[str, int] | None:
        """Axes of the case that runs without a GPU: of the first workload, made small where they may be, else of the
        first that is small; None where there is none, or the reference asks for a GPU."""
        definition = self.definition
        if definition.on_gpu:
            return None
        fixed = self.numbered or definition.constrained
        packed = [t.dims[-1] for t in (*definition.inputs, *definition.outputs) if t.packed and t.dims]
        held = {name for dim in packed for name in names(dim)}
        free = set() if fixed else set(definition.variable) - held  # half of it must stay whole
        tensors = {"inputs": self.inputs(), "outputs": self.outputs()}
        found = (onefile.for_host({"axes": self.axes(n)} | tensors, free) for n in range(len(definition.workloads)))
        return next((axes for axes in found if axes is not None), None)

    def drawn_axes(self) -> dict[str, list[int]]:
        """What drawn cases may have: a variable axis that stands alone has the sizes of all workloads, all others those
        of the usual one, on which a solution may rely."""
        usual = self.axes(0)
        found = {name: [value] for name, value in usual.items()}
        if len(self.definition.variable) == 1 and not self.numbered and not self.definition.constrained:
            (name,) = self.definition.variable
            found[name] = sorted({workload.axes[name] for workload in self.definition.workloads})
        return found

    def tolerance(self) -> dict[str, float]:
        """Ours, by dtype: the benchmark's relative one where that allows more than the usual one."""
        theirs = self.definition.workloads[0].tolerance.relative
        floats = {t.dtype for t in self.definition.outputs if "float" in t.dtype}
        return {dtype: min(MOST_TOLERANCE, max(DEFAULT_TOLERANCE[dtype], theirs)) for dtype in sorted(floats)}

    @property
    def alone(self) -> bool:
        """Whether the definition's own rule is the judge: of tokens that are drawn none is the right one, and where an
        output is packed, ours compares bytes, of which one step of rounding makes others."""
        return self.samples or any(t.packed for t in self.definition.outputs)

    def notes(self) -> list[str]:
        """What a person should know before a verdict."""
        definition = self.definition
        said = list(definition.notes)
        always = {
            name: draw.how for name, draw in self.draws.items() if definition.workloads[0].source(name) is Source.RANDOM
        }
        ones = [name for name, how in always.items() if how == "ones"]
        if ones:
            said.append(
                f"{', '.join(ones)} is exactly 1 in every set, as {definition.dialect.words} has it: a solution that "
                "forgets to multiply by it is not found out"
            )
        zeros = [name for name, how in always.items() if how == "zeros"]
        if zeros:
            said.append(f"{', '.join(zeros)} is exactly 0 in every set: a solution that forgets to add it is not found")
        if self.stored:
            kept = sorted({name for _, name in self.stored})
            said.append(f"{', '.join(kept)} is read from a file, with the same values in every set")
        if definition.on_gpu:
            said.append('its reference says "cuda": it cannot run without a GPU')
        if definition.op_type.startswith("dsa_topk"):
            said.append("FlashInfer-Bench judges this operator's indices as sets; here they must be equal")
        packed = [t.name for t in (*definition.inputs, *definition.outputs) if t.packed]
        if packed:
            said.append(f"{', '.join(packed)}: two floats of 4 bits (e2m1) in a byte, the first one in its lower half")
        if self.samples:
            said.append(trace_draws.note(counted=bool(self.repeated)))
        asked = "its own rule is the judge" if self.alone else "beside ours, its own rule is asked"
        said.append(f"{asked}: {rule_name(definition)}")
        for workload in definition.workloads[1:]:
            sizes: dict[str, object] = {name: workload.axes[name] for name in definition.variable}
            given = (name for name in self.made if workload.source(name) is Source.SCALAR)
            sizes |= {name: workload.inputs[name].value for name in given}
            told = ", ".join(f"{name}={value}" for name, value in sizes.items())
            said.append(f"--case {workload.case}: {told or 'other inputs'}")
        return said


def as_wide(dtype: str) -> str:
    """The dtype of a tensor that holds a plain number of that dtype as Python does."""
    return "float64" if "float" in dtype else "bool" if dtype == "bool" else "int64"


def seen(tensor: Tensor, code: str) -> str:
    """The code of an input as the definition's code gets it."""
    return f"{CALLS}.packed({code})" if tensor.packed else code


def _constants(definition: Definition) -> dict[str, str]:
    """Numbers that all workloads share, as code."""
    found: dict[str, str] = {}
    for tensor in definition.inputs:
        values = [workload.inputs.get(tensor.name) for workload in definition.workloads]
        first = values[0]
        if tensor.dims is None and first is not None and all(_same(first, value) for value in values):
            found[tensor.name] = repr(first.value)
    return found


def _same(one: Given, other: Given | None) -> bool:
    return other is not None and repr(one.value) == repr(other.value)  # True is not 1, and 1 is not 1.0


# -- how random inputs are drawn ---------------------------------------------------------------------------------------


def drawn(tensor: Tensor, definition: Definition, first: Workload) -> Draw:
    """How the benchmark draws a random input of this name, dtype and shape."""
    if tensor.packed:
        return Draw("packed", posed=True)
    if definition.op_type == SAMPLING and tensor.name == PROBABILITIES:
        return Draw("softmax", posed=True)
    if tensor.dtype == "bool":
        return Draw("bernoulli", ("0.5",))
    if "float" not in tensor.dtype:
        return Draw("integers", _INTEGERS.get(tensor.dtype, _OTHER_INTEGERS))
    by_name = None
    if definition.dialect is Harness.SOL and tensor.dtype not in _LOW:
        by_name = _by_name(tensor, first)
    return by_name or Draw("normal")


def _by_name(tensor: Tensor, first: Workload) -> Draw | None:
    name, dims, said = tensor.name, tensor.dims or (), tensor.description.lower()
    if match := _NORM.match(name):
        return Draw("ones" if match[1] == "weight" else "zeros")
    square = len(dims) > 1 and _size(dims[-1], first) == _size(dims[-2], first)
    causal = "attention mask" in said and "causal" in said
    if square and (name in ("attention_mask", "causal_mask") or causal):
        return Draw("causal", posed=True)
    if name in _BINARY or (name.endswith("_mask") and any(word in said for word in _BINARY_WORDS)):
        return Draw("bernoulli", ("0.5",))
    if name in _ROTARY:
        return Draw("uniform", ("-1", "1"))
    if _POSITIVE.match(name):
        return Draw("uniform", ("0.1", "3"))
    if name in _DECAY:
        return Draw("uniform", _DECAY[name])
    if name == "A_cumsum":
        return Draw("running_sum", posed=True)
    if name in ("attn_weights", "attention_weights", "routing_weights") or ("softmax" in said and "output" in said):
        return Draw("softmax", posed=True)
    if len(dims) > 1 and _WEIGHT.match(name):
        return Draw("normal", ("0", f"max(1, {dims[-1]}) ** -0.5"))
    return None


def _size(dim: str, workload: Workload) -> int | float:
    from aisp.kernels.catalog.grammar import evaluate  # with its caches, not at the import of a listing

    return evaluate(dim, workload.axes)


# -- files -------------------------------------------------------------------------------------------------------------


def about(solution: Solution) -> str:
    """A solution in words, behind where it comes from: all that a lesson says of it stands on one line."""
    said = one_line(solution.name)
    said += f" by {one_line(solution.author)}" if solution.author else ""
    said += f", written for {one_line(', '.join(solution.hardware))}" if solution.hardware else ""
    if solution.left_out:
        said += f"; left out of its sources: {one_line(', '.join(solution.left_out), limit=1000)}"
    return said


def files(plan: Plan, solution: Solution, told: Sequence[str], reader: Reader) -> dict[str, bytes]:
    """The files of the target; `told` are the lines of its lesson about where it comes from. Raises RefusedError."""
    definition = plan.definition
    taken, passed = ", ".join(plan.arguments), ", ".join(plan.passed)
    head = f"import {CALLS}\nimport {DEFINITION}\n\n\n"
    texts = {
        f"{DEFINITION}.py": definition.reference,
        f"{CALLS}.py": _calls_text(definition),
        f"{WORKLOADS}.py": _workloads_text(plan),
        "reference.py": (
            f'"""The truth: {DEFINITION}.py in fp64."""\n\n{head}'
            f"def run({taken}):\n{plan.before}"
            f"    return {CALLS}.exactly({DEFINITION}.run, ({passed}{',' if passed else ''}))\n"
        ),
        "baseline.py": _with_run(
            definition.reference,
            "run",
            f'"""The reference as its author wrote it."""\n\n{head}',
            f"{DEFINITION}.run",
            f"def run({taken}):\n{plan.before}    return {CALLS}.returned({{}}({passed}){plan.kept})\n",
        ),
        "rule.py": _rule_text(plan),
    }
    if plan.posed or plan.made:
        texts["inputs.py"] = _inputs_text(plan)
    texts |= _answer(plan, solution, reader)
    texts["optimized.py"] += f"\n\n{SOLUTION} = {solution.name!r}  # what its author calls it\n"
    found = {name: text.encode("utf-8", "replace") for name, text in texts.items()}
    found[onefile.lesson_name()] = _lesson(plan, solution, told, reader)
    return found


def _with_run(source: str, name: str, head: str, otherwise: str, run: str) -> str:
    """A module with the author's text at its head, so that a diff shows it, and a run() behind it. Where the text uses
    the name run itself, it stays in its own module, and this one calls it there."""
    try:
        tree = parsed(source)
    except REFUSALS:
        tree = None
    uses = tree is None or any(map(_uses_run, ast.walk(tree)))
    bound = {node.name for node in getattr(tree, "body", []) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if uses or "prepare" in bound:
        return head + run.format(otherwise)
    own = f"{source.rstrip()}\n\n\nimport {CALLS}  # what follows is aisp's\n\n"
    return f"{own}aisp_theirs = {name}\n\n\n{run.format('aisp_theirs')}"


def _uses_run(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "run" and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Global) and "run" in node.names


def _answer(plan: Plan, solution: Solution, reader: Reader) -> dict[str, str]:
    """optimized.py, and what it needs of the solution's sources."""
    file, function = solution.entry
    run = _call(plan, solution, reader)
    below = {f"{FOLDER}/{path}": text for path, text in solution.sources.items()}
    alone = len(solution.sources) == 1 and solution.build is Build.PYTHON and not solution.imports_relatively
    said = f'"""The solution, as its author wrote it in {FOLDER}/."""'
    triton = "import triton  # noqa: F401 - what is called is Triton's\n" if solution.triton else ""
    head = f"{said}\n\n{triton}import {CALLS}\n\n\n"
    if solution.build is not Build.PYTHON:
        sources = [path for path in solution.sources if path.endswith((".cu", ".cpp"))]
        by, flags = solution.build.value, tuple(map(list, solution.flags))
        head += f"aisp_built = {CALLS}.built({by!r}, {FOLDER!r}, {sources!r}, {flags!r})\n\n\n"
        return {"optimized.py": head + run.format(f"aisp_built.{function}")} | below
    module = file.removesuffix(".py").replace("/", ".")
    head += f"aisp_module = {CALLS}.module({FOLDER!r}, {module!r})\n\n\n"
    text = head + run.format(f"aisp_module.{function}")
    if alone:
        merged = _with_run(solution.sources[file], function, "", "", run)
        if merged.startswith(solution.sources[file].rstrip()):
            return {"optimized.py": merged}
    return {"optimized.py": text} | below


def _call(plan: Plan, solution: Solution, reader: Reader) -> str:
    """run() of the target by the solution's function, which stands for {}."""
    definition = plan.definition
    taken, passed = ", ".join(plan.arguments), ", ".join(plan.passed)
    if not solution.into_outputs:
        return f"def run({taken}):\n{plan.before}    return {CALLS}.returned({{}}({passed}){plan.kept})\n"
    where: dict[str, str] = {}  # by dimension, expressions too
    for tensor in definition.inputs:
        for index, dim in enumerate(tensor.dims or ()):
            where.setdefault(dim, f"{tensor.name}.shape[{index}]")
    known = {name: code for name, code in where.items() if name in definition.variable}
    known |= {name: str(value) for name, value in definition.constant.items()}
    lines = []
    for number, tensor in enumerate(definition.outputs):
        dims = tensor.dims or ()
        for name in {name for dim in dims if dim not in where for name in names(dim)} - known.keys():
            told = f"the output {tensor.name} is to be allocated, and no input has the axis {name}"
            raise reader.refuse("spec.destination_passing_style", told, 'let it return its outputs: write "false"')
        sizes = "".join(f"{_coded(whole(dim), known) if names(dim) <= known.keys() else where[dim]}, " for dim in dims)
        lines.append(f"    aisp_{number} = {CALLS}.empty(({sizes}), {tensor.seen!r}, {_first(plan)})\n")
    into = ", ".join(f"aisp_{number}" for number in range(len(definition.outputs)))
    given = ", ".join(
        f"{CALLS}.unpacked(aisp_{number})" if tensor.packed else f"aisp_{number}"
        for number, tensor in enumerate(definition.outputs)
    )
    call = f"{{}}({passed}, {into})" if passed else f"{{}}({into})"
    return f"def run({taken}):\n{plan.before}{''.join(lines)}    {call}\n    return {given}\n"


def _first(plan: Plan) -> str:
    """The first input that is a tensor, whose device outputs are allocated on; None without one."""
    return next((t.name for t in plan.definition.inputs if t.dims is not None), "None")


def _coded(dim: str, known: Mapping[str, str]) -> str:
    """An axes expression as Python: the grammar's operators are Python's own."""
    return _NAME.sub(lambda match: known[match[0]], dim)


def _calls_text(definition: Definition) -> str:
    outputs = tuple((t.name, t.seen) for t in definition.outputs)
    declared = tuple(t.dtype if t.dims is not None and not t.packed else "" for t in definition.inputs)
    head, _, tail = _CALLS_TEXT.partition("\n\n\n")
    names_of = f"PACKED = {PACKED!r}\nOUTPUTS = {outputs!r}\nDECLARED = {declared!r}"
    return f"{head}\n{names_of}  # dtypes of the inputs; none of a number, or of what is packed\n\n\n{tail}"


def _workloads_text(plan: Plan) -> str:
    definition = plan.definition
    told = {"dialect": definition.dialect.value, "definition": definition.name}
    rows: list[dict[str, Any]] = []
    for workload in definition.workloads:
        row: dict[str, Any] = {"case": workload.case, "workload": dict(workload.written)}
        kept = {name: found for (case, name), found in plan.stored.items() if case == workload.case}
        if kept:
            row["stored"] = {name: found.plain() for name, found in kept.items()}
        rows.append(row)
    said = '"""The workloads of the definition, the first of them the case `default`; by their number elsewhere."""'
    written = pprint.pformat(rows, width=110, sort_dicts=False)
    return f"{said}\n\nTRACE = {pprint.pformat(told, width=110, sort_dicts=False)}\nWORKLOADS = {written}\n"


def _inputs_text(plan: Plan) -> str:
    definition = plan.definition
    coded = {name: f"axes[{name!r}]" for name in (*definition.constant, *definition.variable)}
    tensors = [t for t in definition.inputs if t.name in plan.posed]
    shapes = "".join(f"        {t.name!r}: ({_sizes(t.dims or (), coded)}),\n" for t in tensors)
    resolved = "".join(f"        {name!r}: {code},\n" for name, code in coded.items())
    resolved += "".join(f"        {n!r}: int({_coded(e, coded)}),\n" for n, e in definition.computed.items())
    scalars = {t.name: t.dtype for t in definition.inputs if t.name in plan.made}
    dtypes = {t.name: as_wide(t.dtype) if t.name in plan.carried else t.dtype for t in tensors}
    numbers = {t.name: t.dtype for t in definition.inputs if t.dims is None}
    draws = {t.name: _posed(plan.draws[t.name]) for t in tensors}
    entry = f"{DEFINITION}.{definition.entry}" if definition.entry else ""
    number = f"axes[{plan.number!r}]" if plan.numbered else "0"
    custom = (
        f"    import {DEFINITION}  # the author's code, in the verifier alone\n\n"
        f"    values = {{**sizes(axes), **numbers_of(number)}}\n"
        f"    return {entry}(values, torch.device(device))\n"
        if entry
        else "    return {}\n"
    )
    return f'''\
"""Inputs that are more than a tensor line says: posed in the verifier anew for every set; other numbers are made in
every process."""

import math

import torch

import {CALLS}
from {WORKLOADS} import WORKLOADS

DTYPES = {dtypes!r}
PACKED = {([t.name for t in tensors if t.packed])!r}  # in whose bytes lie two floats of 4 bits each
DRAWS = {draws!r}
SCALARS = {scalars!r}
NUMBERS = {numbers!r}


def sizes(axes):
    """All axes of the definition."""
    return {{
{resolved}    }}


def shapes(axes):
    """Of what is posed."""
    return {{
{shapes}    }}


def custom(axes, number, device):
    """What the definition's own function makes."""
{custom}

def pose(axes, device, generator):
    """Every posed input, by name."""
    number = {number}
    if number >= len(WORKLOADS):
        return {{name: value.to(device) for name, value in often(shapes(axes)).items()}}
    given, stored = WORKLOADS[number]["workload"]["inputs"], WORKLOADS[number].get("stored", {{}})
    theirs = custom(axes, number, device) if any(one.get("type") == "custom" for one in given.values()) else {{}}
    found = {{}}
    for name, shape in shapes(axes).items():
        kind = given.get(name, {{}}).get("type", "random")
        dtype = getattr(torch, DTYPES[name])
        if kind == "safetensors":
            value = read(stored[name])
        elif kind == "scalar":
            value = torch.tensor(given[name]["value"], dtype=dtype)
        elif kind == "custom" and name in NUMBERS:
            value = theirs[name]
            value = torch.tensor(value.item() if isinstance(value, torch.Tensor) else value, dtype=dtype)
        elif kind == "custom":
            value = theirs[name]
            value = {CALLS}.unpacked(value) if name in PACKED else value
        else:
            value = draw(*DRAWS[name], shape, dtype, generator)
        if tuple(value.shape) != shape or value.dtype != dtype:
            told = f"{{name}} was made as {{value.dtype}} {{list(value.shape)}}"
            raise ValueError(f"{{told}}, and the definition says {{dtype}} {{list(shape)}}")
        found[name] = value.to(device)
    return found


def make(axes, device, generator):
    """Every number that differs between workloads, by name."""
    found = numbers_of({number})
    for name, dtype in SCALARS.items():
        if name not in found:  # random: the same in every process, whose generator begins alike
            drawn = draw(*random_number(dtype), (), getattr(torch, dtype), generator)
            found[name] = drawn.item()
    return {{name: found[name] for name in SCALARS}}


def numbers_of(number):
    """The numbers that a workload gives."""
    given = WORKLOADS[number if number < len(WORKLOADS) else 0]["workload"]["inputs"]
    return {{name: given[name]["value"] for name in NUMBERS if given.get(name, {{}}).get("type") == "scalar"}}
{_INPUTS_TAIL}{trace_draws.OFTEN if plan.repeated else ""}'''


def _sizes(dims: Sequence[str], coded: Mapping[str, str]) -> str:
    return "".join(f"{_coded(whole(dim), coded)}, " for dim in dims)


def _posed(draw: Draw) -> tuple[str, tuple[float, ...]]:
    """How inputs.py draws it; the deviation of a weight follows from its shape there."""
    if draw.how == "normal":
        return ("weight" if draw.arguments else "normal"), ()
    return draw.how, tuple(float(each) for each in draw.arguments)


# -- the rule ----------------------------------------------------------------------------------------------------------


def rule_name(definition: Definition) -> str:
    """What the benchmark takes for right, in a few words."""
    if definition.op_type == SAMPLING:
        return f"{definition.dialect.words}: {trace_draws.RULE}"
    allowed = definition.workloads[0].tolerance
    share = "" if allowed.matched >= 1 else f", for {allowed.matched:.4g} of the elements"
    if definition.dialect is Harness.FLASHINFER:
        either = f"absolute error within {allowed.absolute:g} or relative within {allowed.relative:g}"
        return f"FlashInfer-Bench: {either}{share}"
    cap = f", none above {allowed.cap:g}" if allowed.cap is not None else ""
    return f"SOL-ExecBench: error within {allowed.absolute:g} + {allowed.relative:g} of the reference{share}{cap}"


def _rule_text(plan: Plan) -> str:
    """rule.py: the tolerances by the sizes that vary, since a rule is not told which workload it judges."""
    definition = plan.definition
    where: dict[str, tuple[str, int]] = {}
    for tensor in definition.inputs:
        for index, dim in enumerate(tensor.dims or ()):
            if names(dim) & set(definition.variable):
                where.setdefault(dim, (tensor.name, index))
    rows: list[tuple[tuple[int, ...], dict[str, Any]]] = []
    for workload in definition.workloads:
        allowed = workload.tolerance
        row = {
            "absolute": allowed.absolute,
            "relative": allowed.relative,
            "matched": allowed.matched,
            "cap": allowed.cap,
            "negative_inf": allowed.negative_inf,
        }
        sizes = tuple(int(_size(whole(dim), workload)) for dim in where)
        if all(sizes != other for other, _ in rows):
            rows.append((sizes, row))
    if all(row == rows[0][1] for _, row in rows):
        rows = rows[:1]
    known = {t.name: t for t in definition.inputs}
    check = "sum_of_both" if definition.dialect is Harness.SOL else "either"
    given = [
        seen(t, f'inputs["{t.name}"].clone()') if t.dims is not None else plan.given(t, f'inputs["{t.name}"]')
        for t in definition.inputs
    ]
    if plan.samples:
        params = ((n, plan.given(known[n], f'inputs["{n}"]')) for n in trace_draws.FILTERS if n in known)
        return trace_draws.rule(rule_name(definition), dict(params), ", ".join(given))
    return (
        f'"""{rule_name(definition)}.\n\n'
        "It compares with the reference as its author wrote it, in the definition's own dtypes, and not with fp64.\n"
        '"""\n\n'
        f"import torch\n\nimport {CALLS}\nimport {DEFINITION}\n\n"
        f"PLACES = {tuple(where.values())!r}  # where the sizes that vary are found\n"
        f"ALLOWED = {pprint.pformat(rows, width=110, sort_dicts=False)}\n\n\n"
        "def reference(inputs):\n"
        '    """Its outputs."""\n'
        f"    found = {CALLS}.returned({DEFINITION}.run({', '.join(given)}))\n"
        "    return found if isinstance(found, tuple) else (found,)\n"
        f"{_RULE_TAIL.replace('CHECK', check)}"
    )


# -- the lesson --------------------------------------------------------------------------------------------------------


def _lesson(plan: Plan, solution: Solution, told: Sequence[str], reader: Reader) -> bytes:
    import tomli_w  # only where a target is made

    definition = plan.definition
    cpu = plan.for_host()
    cases: list[dict[str, Any]] = [{"name": "cpu", "axes": cpu}] if cpu is not None else []
    cases += [
        {"name": workload.case, "axes": plan.axes(index)}
        for index, workload in enumerate(definition.workloads)
        if index
    ]
    if plan.repeated:  # the same probabilities behind two seeds
        cases += [{"name": name, "axes": plan.repeated, "timed": False} for name in trace_draws.CASES]
    answer: dict[str, Any] = {"summary": f"{solution.name}, in {', '.join(solution.languages)}"}
    if solution.gpu:
        answer["needs"] = {"gpus": 1}
    title = one_line(definition.description, limit=500).partition(". ")[0]
    content: dict[str, Any] = {
        "title": title if 0 < len(title) <= 80 else one_line(definition.name),
        "flops": UNCOUNTED,
        **({"needs": {"gpus": 1}} if definition.on_gpu else {}),
        "axes": plan.axes(0),
        "inputs": plan.inputs(),
        "outputs": plan.outputs(),
        "tolerance": plan.tolerance(),
        "cases": cases,
        "rungs": {"baseline": {"summary": "the definition's reference"}, "optimized": answer},
        "rule": {
            "name": rule_name(definition),
            **({"alone": True} if plan.alone else {}),
            **({"compared": False} if plan.samples else {}),
        },
        "fuzz": {"axes": plan.drawn_axes()},
    }
    text = [f"# {one_line(definition.name)}", ""]
    if definition.description:
        text += [one_line(definition.description, limit=4000), ""]
    text += [*told, ""]
    text += [f"- {one_line(note, limit=1000)}" for note in plan.notes()]
    body = "\n".join(text)
    lesson = f"+++\n{tomli_w.dumps(content)}+++\n\n{body}\n".encode("utf-8", "replace")
    _, found = frontmatter.read(reader.path, lesson)
    for each in found:
        reader.wrong(each.key, each.message, each.fix)
    reader.hold()
    return lesson


_CALLS_TEXT = '''\
"""How the reference and a solution are called and what they return; how a solution's sources are loaded."""

import importlib
import pathlib
import sys

import torch
from torch.overrides import TorchFunctionMode

HERE = pathlib.Path(__file__).resolve().parent
HALVES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


BYTES = (getattr(torch, PACKED), torch.uint8)  # what has the same bits whatever is computed in
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # what the lower three of four bits stand for; the fourth is the sign
BETWEEN = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # halfway from each to the next
copies = None  # which outputs lie in an input's memory, once that is known


def returned(found, *inputs):
    """What a call returned, as tensors in the order of the outputs, each in memory of its own and contiguous: what is a
    view of an input, or lies transposed, is copied, since whoever reads it would have to."""
    global copies
    if isinstance(found, torch.Tensor):
        several = [found]
    elif isinstance(found, dict):
        several = [found[name] for name, _ in OUTPUTS]
    else:
        several = list(found) if isinstance(found, (tuple, list)) else [found]
    for place, (_, dtype) in enumerate(OUTPUTS[: len(several)]):
        if dtype == PACKED:
            several[place] = unpacked(several[place])
        elif not isinstance(several[place], torch.Tensor):  # a plain number
            several[place] = torch.tensor(several[place], dtype=getattr(torch, dtype))
    for place in lying_in(several, inputs) if copies is None else copies:
        several[place] = several[place].clone(memory_format=torch.contiguous_format)
    several = [one.contiguous() if isinstance(one, torch.Tensor) else one for one in several]
    return several[0] if len(several) == 1 else tuple(several)


def lying_in(outputs, inputs):
    """The places of the outputs that lie in an input's memory; kept for the calls that follow."""
    global copies
    taken = {one.untyped_storage().data_ptr() for one in inputs if one.numel()}
    tensors = {place: one for place, one in enumerate(outputs) if isinstance(one, torch.Tensor)}
    found = [place for place, one in tensors.items() if one.untyped_storage().data_ptr() in taken]
    if all(one.numel() for one in (*tensors.values(), *inputs)):
        copies = found
    return found


def packed(tensor):
    """Bytes as what they hold: two floats of 4 bits each."""
    return tensor.view(getattr(torch, PACKED))


def unpacked(tensor):
    """The bytes of a tensor of such floats, which is all that can be copied of one and compared."""
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != getattr(torch, PACKED):
        told = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"an output is {told}, not torch.{PACKED}")
    return tensor.view(torch.uint8)


def decoded(data):
    """What the bytes stand for, as float32, with twice as many along the last dimension."""
    table = torch.tensor([*E2M1, *(-each for each in E2M1)], device=data.device)
    return torch.stack((table[(data & 15).long()], table[(data >> 4).long()]), -1).flatten(-2)


def encoded(values):
    """The bytes of values, each as the nearest of those that 4 bits can say; of two that are as near, the even one."""
    size, between = values.abs().float(), torch.tensor(BETWEEN, device=values.device)
    below, up_to = torch.bucketize(size, between), torch.bucketize(size, between, right=True)
    codes = torch.where(up_to % 2 == 0, up_to, below).to(torch.uint8) + 8 * torch.signbit(values).to(torch.uint8)
    return codes[..., ::2] + 16 * codes[..., 1::2]


def seeded(seed):
    """Begin PyTorch's random numbers anew, so that a call draws what it drew before behind this seed."""
    torch.manual_seed(int(seed))


def empty(shape, dtype, like):
    """An output to be written into: where the first tensor of a call lies, and without one on the run's GPU."""
    usual = "cuda" if torch.cuda.is_initialized() else "cpu"
    device = like.device if isinstance(like, torch.Tensor) else usual
    return torch.empty(shape, dtype=getattr(torch, dtype), device=device)


class Lifted(TorchFunctionMode):
    """Every cast to a floating dtype of 16 bits or more is one to `dtype`; casts to fewer bits stay."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.double):
            func, args, kwargs = torch.Tensor.to, (args[0], self.dtype), {}
        elif func is torch.Tensor.view and isinstance(args[-1], torch.dtype) and args[0].dtype not in BYTES:
            raise TypeError("the bits of a tensor are read, which another dtype does not have")
        else:
            args = tuple(self._of(value) for value in args)
            kwargs = {name: self._of(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)

    def _of(self, value):
        return self.dtype if isinstance(value, torch.dtype) and value in HALVES else value


def exactly(run, arguments):
    """What the reference gives, computed in the floating dtype of what it is given, whatever it casts to.

    A reference that cannot be had so is computed in the definition's own dtypes, which is told.
    """
    pairs = [(value, getattr(torch, name)) for value, name in zip(arguments, DECLARED) if name]
    wide = [value.dtype for value, dtype in pairs if value.is_floating_point() and value.dtype != dtype]
    if not wide:
        return returned(run(*arguments))
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(wide[0])
        with Lifted(wide[0]):
            return returned(run(*copied(arguments)))
    except (RuntimeError, TypeError, AssertionError, ValueError):
        if wide[0] != torch.float64:
            raise
    finally:
        torch.set_default_dtype(usual)
    narrow = [value.to(getattr(torch, name)) if name else value for value, name in zip(arguments, DECLARED)]
    found = returned(run(*narrow))
    print("reference: it does not compute in float64; the truth is that of its own dtypes")
    several = found if isinstance(found, tuple) else (found,)
    lifted = tuple(value.double() if value.is_floating_point() else value for value in several)
    return lifted if len(lifted) > 1 else lifted[0]


def copied(arguments):
    """The arguments, of which tensors may be written into."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]


def module(folder, name):
    """A module of a solution, whose folder its other modules are imported from."""
    sys.path.insert(0, str(HERE / folder))
    return importlib.import_module(f"{folder}.{name}")


def built(binding, folder, sources, flags):
    """What a solution's C++ and CUDA sources make; compiled once for each content."""
    import hashlib

    place = HERE / folder
    digest = hashlib.sha256(repr((binding, flags)).encode())
    for path in sorted(place.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(place)}\\0".encode() + path.read_bytes())
    name = f"aisp_{digest.hexdigest()}"
    given = {
        "name": name,
        "sources": [str(place / source) for source in sources],
        "extra_include_paths": [str(place)],
        "extra_cflags": flags[0],
        "extra_cuda_cflags": flags[1],
        "extra_ldflags": flags[2],
    }
    if binding == "torch":
        from torch.utils import cpp_extension

        return cpp_extension.load(**given)
    import os

    import tvm_ffi.cpp

    cache = pathlib.Path(os.environ.get("TORCH_EXTENSIONS_DIR") or HERE) / name
    cache.mkdir(parents=True, exist_ok=True)
    return tvm_ffi.cpp.load(**given, build_directory=str(cache))
'''

_INPUTS_TAIL = '''

def random_number(dtype):
    """How a number of that dtype is drawn."""
    if dtype == "bool":
        return "bernoulli", (0.5,)
    return ("normal", ()) if "float" in dtype else ("integers", (-128, 128) if dtype == "int8" else (-1024, 1024))


def draw(how, bounds, shape, dtype, generator):
    """A random tensor in host memory."""
    if how == "integers":
        return torch.randint(int(bounds[0]), int(bounds[1]), shape, generator=generator).to(dtype)
    if how == "bernoulli":
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if how in ("ones", "zeros"):
        return getattr(torch, how)(shape, dtype=dtype)
    if how == "causal":
        above = torch.ones(shape[-2:], dtype=torch.bool).triu(1)
        return torch.zeros(shape, dtype=dtype).masked_fill_(above, torch.finfo(dtype).min)
    if how == "uniform":
        low, high = bounds
        return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)
    if how == "running_sum":
        return (torch.rand(shape, generator=generator) * -0.1).cumsum(-1).to(dtype)
    if how == "packed":
        return aisp_calls.encoded(torch.randn((*shape[:-1], 2 * shape[-1]), generator=generator))
    value = torch.randn(shape, generator=generator)
    if how == "softmax":
        value = value.softmax(-1)
    elif how == "weight":
        value = value / math.sqrt(max(1, shape[-1]))
    return value.clamp(-2, 2).to(dtype) if "float8" in str(dtype) else value.to(dtype)


def read(stored):
    """A tensor out of a file, of which place and size were read when the target was made."""
    with open(stored["path"], "rb") as file:
        file.seek(0, 2)
        if file.tell() != stored["file_bytes"]:
            raise ValueError(f"{stored['path']} is not what it was when the target was made")
        file.seek(stored["start"])
        data = bytearray(file.read(stored["bytes"]))
    if not data:
        return torch.empty(stored["shape"], dtype=getattr(torch, stored["dtype"]))
    return torch.frombuffer(data, dtype=getattr(torch, stored["dtype"])).reshape(stored["shape"])
'''

_RULE_TAIL = '''

def judge(inputs, outputs, expected):
    """None where the outputs are right by the benchmark's own rule, else what is wrong."""
    allowed = allowed_for(inputs)
    for (name, dtype), output, truth in zip(aisp_calls.OUTPUTS, outputs, reference(inputs)):
        if output.shape != truth.shape:
            return f"{name} has the shape {list(output.shape)}, not {list(truth.shape)}"
        if output.dtype != truth.dtype:
            return f"{name} is {output.dtype}, not {truth.dtype}"
        packed = dtype == aisp_calls.PACKED
        output, truth = (aisp_calls.decoded(each) if packed else each.float() for each in (output, truth))
        truth = truth.to(output.device)
        told = CHECK(output, truth, allowed)
        if told:
            return f"{name}: {told}{at_worst(output, truth) if packed else ''}"
    return None


def at_worst(output, truth):
    """Where the two are farthest apart, and what they are there."""
    place = int((output - truth).abs().argmax())
    index = [int(each) for each in torch.unravel_index(torch.tensor(place), output.shape)]
    found, wanted = float(output.flatten()[place]), float(truth.flatten()[place])
    return f", at {index}: {found:g}, and the reference has {wanted:g}"


def allowed_for(inputs):
    """The tolerance of the workload with these sizes; of the first where none has them."""
    sizes = tuple(inputs[name].shape[index] for name, index in PLACES)
    return next((allowed for known, allowed in ALLOWED if known == sizes), ALLOWED[0][1])


def either(output, truth, allowed):
    """FlashInfer-Bench: an element fails where both its absolute and its relative error are too large."""
    if not torch.isfinite(output).all():
        return "it is not finite everywhere"
    error = (output - truth).abs()
    failing = (error > allowed["absolute"]) & (error / (truth.abs() + 1e-8) > allowed["relative"])
    return too_many(failing, error, allowed)


def sum_of_both(output, truth, allowed):
    """SOL-ExecBench: an element fails where its error is above absolute + relative * |truth|."""
    lowest = (output == -torch.inf) & (truth == -torch.inf) if allowed["negative_inf"] else torch.zeros_like(output) > 0
    if not (torch.isfinite(output) | lowest).all() or not (torch.isfinite(truth) | lowest).all():
        return "it is not finite everywhere"
    output, truth = output[~lowest], truth[~lowest]
    if truth.any() and not output.any():
        return "it is zero everywhere"
    error = (output - truth).abs()
    if allowed["cap"] is not None and error.numel() and float(error.max()) > allowed["cap"]:
        return f"an error of {float(error.max()):.3g} is above {allowed['cap']:g}"
    return too_many(error > allowed["absolute"] + allowed["relative"] * truth.abs(), error, allowed)


def too_many(failing, error, allowed):
    """What is told where too few elements match."""
    if not failing.numel():
        return None
    matched = 1.0 - float(failing.sum()) / failing.numel()
    if matched >= allowed["matched"]:
        return None
    largest = f"the largest error is {float(error.max()):.3g}"
    return f"{matched:.4%} of the elements match, {allowed['matched']:.4%} must; {largest}"
'''
