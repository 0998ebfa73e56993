"""What a definition and a solution become: the files of a target's folder.

    aisp_definition.py   the definition's reference, as its author wrote it
    reference.py         the same in the dtype of what it is given: in fp64 the truth
    baseline.py          the same in the definition's own dtypes
    optimized.py         the solution; where it has several files, they lie in aisp_answer/
    rule.py              the rule of the benchmark that the definition comes from
    inputs.py            pose() and make(), where inputs are more than tensor lines say
    aisp_workloads.py    the workloads and outputs as data, also for whoever writes results back as traces

What these do stands in aisp.kernels.runtime.trace and sampling.

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

from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.grammar import names
from aisp.kernels.catalog.parsing import REFUSALS, parsed
from aisp.kernels.catalog.tensors import DEFAULT_TOLERANCE

from . import packed, trace_draws
from .trace_definition import (
    PROBABILITIES,
    SAMPLING,
    Definition,
    Given,
    Harness,
    Reader,
    Source,
    Tensor,
    Tolerance,
    Workload,
    one_line,
    whole,
)
from .trace_solution import FOLDER, Build, Solution
from .trace_stored import Stored

WORKLOADS = "aisp_workloads"
DEFINITION = "aisp_definition"
SOLUTION = "aisp_solution"
MODULE, SAMPLES, RETURNED = "aisp_trace", "aisp_sampling", "aisp_returned"
"""What the target's files call aisp.kernels.runtime.trace and sampling, and the outputs of a call."""
MOST_TOLERANCE = 0.5

_HEAD = f"""\
from {WORKLOADS} import OUTPUTS
from aisp.kernels.runtime import trace as {MODULE}  # what follows is aisp's

{RETURNED} = {MODULE}.Outputs(OUTPUTS)
"""
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
    def head(self) -> str:
        """How run() begins: with what it does before the call."""
        seeded = f"    {MODULE}.seeded({trace_draws.SEED})\n" if self.samples else ""
        return f"def run({', '.join(self.arguments)}):\n{seeded}"

    @property
    def returning(self) -> str:
        """run() by a function, which stands for {}, that returns its outputs."""
        tensors = "".join(f", {t.name}" for t in self.definition.inputs if t.dims is not None)
        return f"{self.head}    return {RETURNED}.called({{}}, [{', '.join(self.passed)}]{tensors})\n"

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
    return f"{MODULE}.packed({code})" if tensor.packed else code


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
    declared = tuple(t.dtype if t.dims is not None and not t.packed else "" for t in definition.inputs)
    exactly = ", ".join((f"{MODULE}.exactly({DEFINITION}.run, {RETURNED}, {declared!r}", *plan.passed))
    texts = {
        f"{DEFINITION}.py": definition.reference,
        f"{WORKLOADS}.py": _workloads_text(plan),
        "reference.py": f"import {DEFINITION}\n{_HEAD}\n\n{plan.head}    return {exactly})\n",
        "baseline.py": _with_run(
            definition.reference, "run", f"import {DEFINITION}\n{_HEAD}\n\n", f"{DEFINITION}.run", plan.returning
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
    return f"{source.rstrip()}\n\n\n{_HEAD}aisp_theirs = {name}\n\n\n{run.format('aisp_theirs')}"


def _uses_run(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "run" and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Global) and "run" in node.names


def _answer(plan: Plan, solution: Solution, reader: Reader) -> dict[str, str]:
    """optimized.py, and what it needs of the solution's sources."""
    file, function = solution.entry
    run = _call(plan, solution, reader)
    below = {f"{FOLDER}/{path}": text for path, text in solution.sources.items()}
    triton = "import triton  # noqa: F401 - what is called is Triton's\n" if solution.triton else ""
    if solution.build is not Build.PYTHON:
        sources = [path for path in solution.sources if path.endswith((".cu", ".cpp"))]
        what = f"built(__file__, {FOLDER!r}, {solution.build.value!r}, {sources!r}, {solution.flags!r})"
    else:
        what = f"module(__file__, {FOLDER!r}, {file.removesuffix('.py').replace('/', '.')!r})"
        if len(solution.sources) == 1 and not solution.imports_relatively:
            merged = _with_run(solution.sources[file], function, "", "", run)
            if merged.startswith(solution.sources[file].rstrip()):
                return {"optimized.py": merged}
    head = f"{triton}{_HEAD}aisp_theirs = {MODULE}.{what}\n\n\n"
    return {"optimized.py": head + run.format(f"aisp_theirs.{function}")} | below


def _call(plan: Plan, solution: Solution, reader: Reader) -> str:
    """run() of the target by the solution's function, which stands for {}."""
    definition = plan.definition
    if not solution.into_outputs:
        return plan.returning
    where: dict[str, str] = {}  # by dimension, expressions too
    for tensor in definition.inputs:
        for index, dim in enumerate(tensor.dims or ()):
            where.setdefault(dim, f"{tensor.name}.shape[{index}]")
    known = {name: code for name, code in where.items() if name in definition.variable}
    known |= {name: str(value) for name, value in definition.constant.items()}
    first = next((t.name for t in definition.inputs if t.dims is not None), "None")  # whose device outputs are on
    lines = []
    for number, tensor in enumerate(definition.outputs):
        dims = tensor.dims or ()
        for name in {name for dim in dims if dim not in where for name in names(dim)} - known.keys():
            told = f"the output {tensor.name} is to be allocated, and no input has the axis {name}"
            raise reader.refuse("spec.destination_passing_style", told, 'let it return its outputs: write "false"')
        coded = (_coded(whole(dim), known) if names(dim) <= known.keys() else where[dim] for dim in dims)
        sizes = "".join(f"{each}, " for each in coded)
        lines.append(f"    aisp_{number} = {MODULE}.empty(({sizes}), {tensor.seen!r}, {first})\n")
    into = ", ".join(f"aisp_{number}" for number in range(len(definition.outputs)))
    given = ", ".join(
        f"{MODULE}.unpacked(aisp_{number})" if tensor.packed else f"aisp_{number}"
        for number, tensor in enumerate(definition.outputs)
    )
    call = f"{{}}({', '.join([*plan.passed, into])})"
    return f"{plan.head}{''.join(lines)}    {call}\n    return {given}\n"


def _coded(dim: str, known: Mapping[str, str]) -> str:
    """An axes expression as Python: the grammar's operators are Python's own."""
    return _NAME.sub(lambda match: known[match[0]], dim)


def _shown(value: object) -> str:
    return pprint.pformat(value, width=110, sort_dicts=False)


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
    outputs = {t.name: t.seen for t in definition.outputs}
    return f"{said}\n\nTRACE = {_shown(told)}\nOUTPUTS = {_shown(outputs)}\nWORKLOADS = {_shown(rows)}\n"


def _inputs_text(plan: Plan) -> str:
    definition = plan.definition
    posed = "".join(f"        {t.name!r}: {_posed(plan, t)},\n" for t in definition.inputs if t.name in plan.posed)
    sizes = {name: name for name in (*definition.constant, *definition.variable)} | dict(definition.computed)
    numbers = {t.name: t.dtype for t in definition.inputs if t.dims is None}
    return f"""\
from {WORKLOADS} import WORKLOADS
from aisp.kernels.runtime import trace as {MODULE}

INPUTS = {MODULE}.Inputs(
    WORKLOADS,
    axis={plan.number if plan.numbered else ""!r},
    sizes={sizes!r},
    posed={{
{posed}    }},
    numbers={numbers!r},
    made={plan.made!r},
    entry={definition.entry!r},
)
pose, make = INPUTS.pose, INPUTS.make
"""


def _posed(plan: Plan, tensor: Tensor) -> str:
    """How inputs.py says what it is. The deviation of a weight follows from its shape there."""
    draw = plan.draws[tensor.name]
    how, bounds = draw.how, tuple(float(each) for each in draw.arguments if draw.how != "normal")
    if how == "normal" and draw.arguments:
        how = "weight"
    dtype = as_wide(tensor.dtype) if tensor.name in plan.carried else tensor.dtype
    return f"{MODULE}.Posed({dtype!r}, {tuple(map(whole, tensor.dims or ()))!r}, {how!r}, {bounds!r}, {tensor.packed})"


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
    """rule.py: the tolerances by the sizes that vary, since a rule is not told which workload it judges. It compares
    with the reference as its author wrote it, in the definition's own dtypes, and not with fp64."""
    definition = plan.definition
    given = {t.name: plan.given(t, seen(t, f"inputs[{t.name!r}]")) for t in definition.inputs}
    if plan.samples:
        filters = ", ".join(f"{name!r}: {given[name]}" for name in trace_draws.FILTERS if name in given)
        drawn_from = f"{given[PROBABILITIES]}, {{{filters}}}, int(inputs[{trace_draws.SEED!r}])"
        judge = f"{SAMPLES}.judged(lambda: reference(inputs), {drawn_from}, outputs, expected)"
        head = f"from aisp.kernels.runtime import sampling as {SAMPLES}\n{_HEAD}"
    else:
        where: dict[str, tuple[str, int]] = {}
        for tensor in definition.inputs:
            for index, dim in enumerate(tensor.dims or ()):
                if names(dim) & set(definition.variable):
                    where.setdefault(dim, (tensor.name, index))
        rows: dict[tuple[int, ...], Tolerance] = {}
        for workload in definition.workloads:
            rows.setdefault(tuple(int(_size(whole(dim), workload)) for dim in where), workload.tolerance)
        usual = definition.workloads[0].tolerance
        places = [f"inputs[{name!r}].shape[{index}], " for name, index in where.values()]
        rule = "sum_of_both" if definition.dialect is Harness.SOL else "either"
        allowed = f"ALLOWED.get(({''.join(places)}), USUAL)"
        judge = f"{MODULE}.judged({MODULE}.{rule}, OUTPUTS, {allowed}, outputs, reference(inputs))"
        head = f"from aisp.kernels.catalog.formats.trace_definition import Tolerance\n{_HEAD}"
        head += f"ALLOWED = {_shown({sizes: one for sizes, one in rows.items() if one != usual})}\nUSUAL = {usual!r}\n"
    return (
        f"import copy\n\nimport {DEFINITION}\n{head}\n\ndef called(inputs):\n"
        f"    return {DEFINITION}.run({', '.join(given.values())})\n\n\n"
        f"def reference(inputs):\n    return {RETURNED}.returned(called(copy.deepcopy(inputs)))\n\n\n"
        f"def writes(inputs, device):\n    return {MODULE}.writes(called, inputs, device)\n\n\n"
        f"def judge(inputs, outputs, expected):\n    return {judge}\n"
    )


# -- the lesson --------------------------------------------------------------------------------------------------------


def _lesson(plan: Plan, solution: Solution, told: Sequence[str], reader: Reader) -> bytes:
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
    text = [one_line(definition.description, limit=4000), ""] if definition.description else []
    text += [*told, "", *(f"- {one_line(note, limit=1000)}" for note in plan.notes())]
    return packed.lesson(
        reader,
        {
            **({"needs": {"gpus": 1}} if definition.on_gpu else {}),
            "axes": plan.axes(0),
            "cases": cases,
            "fuzz": {"axes": plan.drawn_axes()},
        },
        title=title if 0 < len(title) <= 80 else one_line(definition.name),
        heading=one_line(definition.name),
        inputs=plan.inputs(),
        outputs=plan.outputs(),
        tolerance=plan.tolerance(),
        rule={
            "name": rule_name(definition),
            **({"alone": True} if plan.alone else {}),
            **({"compared": False} if plan.samples else {}),
        },
        rungs={"baseline": {"summary": "the definition's reference"}, "optimized": answer},
        text=text,
    )
