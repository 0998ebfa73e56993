"""What a target is, as data: frozen values, made by `kernels.catalog.load`, shared by every other folder.

Units: axes are element counts, `flops` are floating-point operations per call, `bytes` are bytes of
device memory that a call must move at least (each input read once, each output written once).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from . import choosing

if TYPE_CHECKING:  # it parses
    from .parameters import Parameter

T = TypeVar("T")


class Goal(enum.StrEnum):
    """What a lesson improves. A `null` lesson teaches that the technique does not help; a `refusal` shows what must be
    refused, and needs no optimized.py beside its wrong rungs."""

    SPEED = "speed"
    MEMORY = "memory"
    LATENCY = "latency"
    NULL = "null"
    REFUSAL = "refusal"


class Role(enum.StrEnum):
    """Why a source file stands in a target's folder."""

    BASELINE = "baseline"  # baseline.py, and baseline_*.py: further honest starting points
    OPTIMIZED = "optimized"  # optimized.py and optimized_*.py
    PEER = "peer"  # peer_*.py: somebody else's library, for comparison
    WRONG = "wrong"  # wrong_*.py: the oracle must refuse it
    CHEAT = "cheat"  # cheat.py, cheat_*.py, in the gallery: looks faster than it is, and must be refused

    @classmethod
    def of(cls, name: str) -> Role | None:
        """The role that the name of a file says, None for a name of no role."""
        word = name.partition("_")[0]
        return cls(word) if word in cls._value2member_map_ else None


BY_OTHERS = ("compile", "max_autotune", "scaled_mm", "flex", "varlen", "index_select", "foreach", "torch", "library")
"""What the name of a rung says where a compiler or a library made it."""


def opposes(rung: str) -> bool:
    """Whether a rung of this name is an opponent: a peer, or made by a compiler or a library (BY_OTHERS)."""
    return rung.startswith("peer_") or any(word in rung for word in BY_OTHERS)


def by_others(rung: str) -> bool:
    """Whether a rung of this name stands beside the lesson's own for comparison: an opponent, or a baseline."""
    return rung.startswith("baseline") or opposes(rung)


class Kind(enum.StrEnum):
    """How a rung reaches the hardware, found by reading its imports, never by running it."""

    TORCH = "torch"  # runs and is timed on a CPU as well
    TRITON = "triton"  # on a CPU: the interpreter, for correctness only; its time means nothing
    CUDA = "cuda"  # needs a GPU


class Flag(enum.StrEnum):
    """Properties of an input beyond its type."""

    STATIC = "static"  # known before the call, like weights: never refilled after prepare()
    MUTABLE = "mutable"  # the call may overwrite it; restored before every call
    CPU = "cpu"  # stays in host memory, whatever the device of the run
    PINNED = "pinned"  # host memory that the GPU can read directly; implies CPU


class LinkKind(enum.StrEnum):
    """What bytes cross outside of a GPU's own memory."""

    PCIE = "pcie"  # between host memory and the GPU
    NVLINK = "nvlink"  # between two GPUs


@dataclass(frozen=True, slots=True)
class Link:
    """What a call must move over a link at least; both directions go at the same time.

    Attributes:
        over: which link.
        into, out: axes expressions, bytes into a GPU and out of it; of each rank where there are ranks.
    """

    over: LinkKind
    into: str = "0"
    out: str = "0"


@dataclass(frozen=True, slots=True)
class Needs:
    """The hardware without which a target or rung is not applicable.

    Attributes:
        sm: least compute capability times ten (80 for sm_80), or None where any will do.
        gpus: how many GPUs; 0 where a CPU is enough.
    """

    sm: int | None = None
    gpus: int = 0

    def missing(self, *, sm: int | None, gpus: int) -> str | None:
        """Say what a machine with `gpus` GPUs of compute capability `sm` lacks, as "needs sm_90", or None."""
        if self.gpus > gpus:
            if gpus == 0:
                return f"needs sm_{self.sm}" if self.sm else "needs a GPU"
            return f"needs {self.gpus} GPUs"
        if self.sm is not None and self.gpus and (sm is None or sm < self.sm):
            return f"needs sm_{self.sm}"
        return None


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One line of `[inputs]` or `[outputs]`: "float32 [M, N] normal static".

    Attributes:
        name: the key.
        dtype: a torch dtype's name (float32, bfloat16, float8_e4m3fn, int64, bool ...), "made" for an input that the
            target's inputs.py makes, or "any" for an open tensor's that is not known either.
        dims: one axes expression per dimension, unevaluated; empty for a scalar tensor, a made input or an open tensor.
        distribution: name of the value distribution; empty for outputs and made inputs.
        arguments: the distribution's arguments as axes expressions, e.g. ("0", "V") for integers(0, V).
        flags: see Flag.
        open: nobody has written its shape down: an output's is what the reference's is, a posed input's what pose()
            makes.
    """

    name: str
    dtype: str
    dims: tuple[str, ...] = ()
    distribution: str = ""
    arguments: tuple[str, ...] = ()
    flags: frozenset[Flag] = frozenset()
    open: bool = False

    @property
    def made(self) -> bool:
        """Whether inputs.py makes this input rather than the grammar."""
        return self.dtype == "made"

    @property
    def posed(self) -> bool:
        """Whether pose() of inputs.py makes this input, for every set of values and in the verifier alone."""
        return self.distribution == "posed"

    @property
    def refilled(self) -> bool:
        """Whether this input has new values in each call."""
        return not self.made and Flag.STATIC not in self.flags

    @property
    def shaped(self) -> bool:
        """Whether its shape follows from the axes."""
        return not (self.made or self.open)


@dataclass(frozen=True, slots=True)
class OwnRule:
    """What whoever posed the problem takes for right, as judge() of rule.py says it.

    Attributes:
        name: what it is, in a few words.
        alone: it is the judge: comparing element by element with fp64 decides nothing here. Else ours is, and it is
            shown beside.
        compared: where it is the judge, whether what the comparison would say is shown beside.
    """

    name: str
    alone: bool = False
    compared: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """One set of axes values. `default` is timed on a GPU, `cpu` on a machine without one."""

    name: str
    axes: Mapping[str, int]
    timed: bool = True


@dataclass(frozen=True, slots=True)
class Extent:
    """Which values an axis may have: those listed, or the multiples of `multiple` from `least` to `most`."""

    values: tuple[int, ...] = ()
    least: int = 1
    most: int | None = None
    multiple: int = 1

    def admits(self, value: int) -> bool:
        """Whether an axis may have this value."""
        if self.values:
            return value in self.values
        return value >= self.least and (self.most is None or value <= self.most) and value % self.multiple == 0

    def __str__(self) -> str:
        """In words: "multiples of 16, at least 1"."""
        if self.values:
            return f"of {', '.join(map(str, self.values))}"
        parts = [f"multiples of {self.multiple}"] if self.multiple > 1 else []
        if self.least:
            parts.append(f"at least {self.least}")
        if self.most is not None:
            parts.append(f"at most {self.most}")
        return ", ".join(parts)


class JudgedAs(enum.StrEnum):
    """How an output is judged where comparing it element by element would be wrong."""

    INDICES = "indices"  # positions along the last dimension: what they point at counts, not which of several ties
    DROPOUT = "dropout"  # each element is the reference's or zero, at random


@dataclass(frozen=True, slots=True)
class Judged:
    """One output's way of being judged.

    Attributes:
        of: the input that indices point into.
        values: the output that holds what they point at.
        keep: share of elements that dropout keeps, an axes expression.
        seed: the integer input that alone decides which: same seed, same choice.
    """

    how: JudgedAs
    of: str = ""
    values: str = ""
    keep: str = ""
    seed: str = ""


@dataclass(frozen=True, slots=True)
class Fuzz:
    """What `[fuzz]` says beyond the tensors themselves: which cases a rung must get right, and what always holds.

    Attributes:
        axes: allowed values by axis; an axis that is not named may have any that its tensors allow.
        dtypes: floating dtypes that stand in for the target's own; () for that alone.
        layouts: checks.oracle.schema.Layout names in which inputs may come, beside contiguous.
        independent: axis along which slices of all outputs depend on the same slices of the inputs alone.
        linear: inputs in each of which all outputs are linear.
        shift: inputs to which a constant may be added along the last dimension without changing any output.
        finite: inputs that hold no NaN and no infinity, whatever the strategy (an optimizer's own state).
        backward: gradients of the floating inputs are judged as well.
    """

    axes: Mapping[str, Extent] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    independent: str = ""
    linear: tuple[str, ...] = ()
    shift: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    backward: bool = False


LIMITERS = ("bytes", "flops", "pcie", "nvlink", "launch", "host")
"""What may keep a call from being faster, as runs name it."""


@dataclass(frozen=True, slots=True)
class RungExpectation:
    """What was predicted of one rung before it was measured, in the usual case, on the hardware of the target's
    prediction.

    Attributes:
        ms: range of its median time; None where none was predicted.
        limiter: one of LIMITERS; "" where none was predicted, or one that no run names.
        counters: ranges by the profiler's name of a counter.
    """

    ms: tuple[float, float] | None = None
    limiter: str = ""
    counters: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def judged(
        self, *, ms: float | None = None, limiter: str = "", counters: Mapping[str, float] | None = None
    ) -> dict[str, bool]:
        """Whether each part was met: "ms", "limiter", and counters by name. What was not predicted, or not measured,
        is no member."""
        measured = {"ms": ms} | dict(counters or {})
        ranges = ({"ms": self.ms} if self.ms else {}) | dict(self.counters)
        parts = {
            name: low <= value <= high
            for name, (low, high) in ranges.items()
            if (value := measured.get(name)) is not None
        }
        return parts | ({"limiter": limiter == self.limiter} if self.limiter and limiter else {})


@dataclass(frozen=True, slots=True)
class Rung:
    """One variant of a target: a file with `run`."""

    name: str  # file name without .py: "optimized_swizzled"
    role: Role
    kind: Kind
    path: Path
    needs: Needs  # the target's, unless [rungs.<name>] says otherwise
    summary: str = ""  # one line: the one thing that this rung changes
    # Declared not bit-reproducible between calls (atomics): fingerprints get a tolerance.
    inexact: bool = False
    # The rung itself cannot run on a CPU, even where its target can: CUDA, or [rungs.<name>] needs a GPU.
    gpu_only: bool = False
    # Axes values that this rung alone supports; any other case is unsupported, not wrong.
    supports: Mapping[str, Extent] = field(default_factory=dict)
    # What the PTX of its kernels holds, where the lesson is an instruction: "wgmma.mma_async".
    instructions: tuple[str, ...] = ()
    # Its name in results from before its file was renamed; "" where it never was.
    formerly: str = ""
    expect: RungExpectation | None = None
    # Constants of its file that may have other values, which `aisp tune` searches.
    parameters: tuple[Parameter, ...] = ()

    def unsupported(self, axes: Mapping[str, int]) -> str:
        """Why the rung need not get a case with these axes right, as it declares; "" where it must."""
        for name, extent in self.supports.items():
            if not extent.admits(axes[name]):
                return f"{self.name} supports {name} {extent}, not {name} = {axes[name]}"
        return ""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What was predicted before it was measured."""

    speedup: tuple[float, float]
    on: str
    why: str
    memory: tuple[float, float] | None = None  # the baseline's peak over the rung's, where memory is the lesson


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a folder that looks like a target could not be loaded, or not all of it: the file, the key, and the fix."""

    path: Path
    key: str  # dotted key inside the front matter, "" where the whole file is meant
    message: str  # what was given
    fix: str  # what would work
    target: str = ""  # id of the target that does not load, or a suite loses, because of it; "" where there is none
    not_here: str = ""  # what this machine lacks and how to get it, where the file may well be right

    def __str__(self) -> str:
        place = f"{self.path}: {self.key}" if self.key else str(self.path)
        return f"{place}: {self.message}; {self.fix}"


PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp8 promoted", "mxfp8", "int8", "fp4", "nvfp4")
"""Of arithmetic, each with a rate of its own. `fp8 promoted` promotes its sum to fp32 block by block, where `fp8` may
add as the tensor cores do by themselves; `mxfp8` and `nvfp4` have a scale for every 32 and 16 values along the sum."""


MAX_RANKS = 8
"""Most processes that one rung may be."""
UNCOUNTED = "?"
"""The flops of a target whose author has not counted them: how near it comes to what a GPU can do is not shown."""


@dataclass(frozen=True, slots=True)
class Target:
    """A lesson: a folder with lesson.md, reference.py, baseline.py, optimized.py and more rungs."""

    id: str  # "ch07:transpose", "labs/block_scaling:block_scaling", "mine:my_kernel"
    chapter: str  # "ch07", "labs/block_scaling", or the name of a user's folder
    name: str  # "transpose"
    title: str
    folder: Path
    root: Path  # the collection that it was found in
    goal: Goal
    needs: Needs
    techniques: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]  # in the argument order of run()
    outputs: tuple[TensorSpec, ...]
    cases: tuple[Case, ...]  # the default case first
    flops: str  # axes expression, or UNCOUNTED
    bytes: str  # axes expression; "" means derived from inputs and outputs
    tolerance: Mapping[str, float]  # by dtype name, relative to max(RMS of the reference, |reference|)
    rungs: tuple[Rung, ...]  # baseline first, then baseline_*, optimized, optimized_*, peer_*, wrong_*, cheat*
    expect: Expectation | None
    lesson: str  # Markdown below the front matter
    fuzz: Fuzz = field(default_factory=Fuzz)
    judged: Mapping[str, Judged] = field(default_factory=dict)  # by output
    rule: OwnRule | None = None  # rule.py's; None where there is none
    stated: frozenset[str] = frozenset()  # dtypes whose tolerance lesson.md states; the others' is the usual one
    ranks: int = 1  # processes of every rung; above 1 the leading dimension of all inputs and outputs
    precision: str = ""  # the fastest one of PRECISIONS that a rung may compute in; "" follows from the tensors
    link: Link | None = None  # what must cross PCIe or NVLink; None where all of it stays in the GPU's memory
    links: tuple[str, ...] = ()  # links to folders elsewhere that are followed, relative to folder
    formerly: tuple[str, ...] = ()  # ids that results from before its folder was renamed know it by
    files: tuple[str, ...] = field(default=())  # every file a run depends on, relative to folder, sorted
    left_out: tuple[Problem, ...] = ()  # what of the folder a run does not see, and why

    def outputs_of(self, count: int) -> tuple[TensorSpec, ...]:
        """The outputs of a call that returned so many: all, or of a problem with a rule of its own, where nothing is
        known of them, the first ones. How many are right, the reference says."""
        open_ended = self.rule is not None and all(spec.open for spec in self.outputs)
        return self.outputs[:count] if open_ended and count else self.outputs

    def rung(self, name: str) -> Rung:
        """The rung of that name; LookupError names those there are."""
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise LookupError(f"{self.id} has no rung {name!r}; it has {', '.join(r.name for r in self.rungs)}")

    def case(self, name: str) -> Case:
        """The case of that name; LookupError names those there are."""
        for case in self.cases:
            if case.name == name:
                return case
        raise LookupError(f"{self.id} has no case {name!r}; it has {', '.join(c.name for c in self.cases)}")

    def pair(self, rung: str = "") -> tuple[str, str]:
        """The rungs that a diff shows: the baseline and `rung`; of a cheat its honest twin and the cheat.

        Args:
            rung: the one that is looked at; "" (or the baseline) for what the target is about.
        """
        first = {role: next((each.name for each in self.rungs if each.role is role), "") for role in Role}
        cheats = [each.name for each in self.rungs if each.role is Role.CHEAT]
        names = [each.name for each in self.rungs]
        about = rung not in names or Role.of(rung) is Role.BASELINE
        if cheats and (rung in cheats or about or rung == first[Role.OPTIMIZED]):
            return first[Role.OPTIMIZED] or first[Role.BASELINE], rung if rung in cheats else cheats[0]
        own = first[Role.OPTIMIZED] or first[Role.WRONG] or first[Role.BASELINE]
        return first[Role.BASELINE], own if about else rung

    def usual_case(self, device: str) -> Case:
        """The case that a run on "cuda" or "cpu" times where none is asked for, and that a prediction is about."""
        small = device == "cpu" and not self.on_host and any(case.name == "cpu" for case in self.cases)
        return self.case("cpu" if small else "default")

    def case_on(self, device: str, named: str) -> Case:
        """The case of that name, "" for the usual one; on a CPU the one that the author made for a CPU, if any. Raises
        LookupError."""
        usual = self.usual_case(device)
        return usual if not named or (device == "cpu" and usual.name == "cpu") else self.case(named)

    def with_mutable(self, names: Collection[str]) -> Target:
        """This target with inputs of these names mutable."""
        flags = {spec.name: spec.flags | ({Flag.MUTABLE} if spec.name in names else set()) for spec in self.inputs}
        return replace(self, inputs=tuple(replace(spec, flags=flags[spec.name]) for spec in self.inputs))

    @property
    def names(self) -> tuple[str, ...]:
        """What runs call it: its id, and those of before its folder was renamed."""
        return self.id, *self.formerly

    def known_in(self, values: Mapping[str, T]) -> T | None:
        """What is known of it by the newest of its names that anything is known by."""
        return next((values[name] for name in self.names if name in values), None)

    @property
    def on_host(self) -> bool:
        """Whether this target runs on the CPU everywhere: it needs no GPU, its inputs stay on the host."""
        host = {Flag.CPU, Flag.PINNED}
        return self.needs.gpus == 0 and bool(self.inputs) and all(host & spec.flags for spec in self.inputs)

    @property
    def honest_rungs(self) -> tuple[Rung, ...]:
        """The rungs that a run times unless others are named: all but the wrong ones and the cheats."""
        return tuple(rung for rung in self.rungs if rung.role not in (Role.WRONG, Role.CHEAT))


@dataclass(frozen=True, slots=True)
class Chapter:
    """A folder of targets."""

    id: str  # "ch07", "labs/block_scaling", or a user folder's name
    number: int | None  # 7 for ch07, None for labs and user folders
    title: str  # "Memory access", from the folder's name or README.md's first heading
    folder: Path
    readme: str  # Markdown, "" where there is none


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything found under one or more roots: what loaded, and what did not and why."""

    roots: tuple[Path, ...]
    chapters: tuple[Chapter, ...]
    targets: tuple[Target, ...]
    problems: tuple[Problem, ...]

    @property
    def ids(self) -> list[str]:
        """Ids of the targets, in their order."""
        return [target.id for target in self.targets]

    @property
    def broken(self) -> dict[str, list[Problem]]:
        """What keeps targets from loading, by the ids that they would have."""
        problems: dict[str, list[Problem]] = {}
        for problem in self.problems:
            if problem.target:
                problems.setdefault(problem.target, []).append(problem)
        return problems

    def find(self, word: str) -> Target:
        """The target of that id, or of that name where no other has it; TargetError says what would work."""
        return self._of(choosing.one(self.renamed(word), self.ids, self.broken))

    def choose(self, word: str) -> list[Target]:
        """The targets that `word` means: one as in `find`, or those of a chapter, of a glob, or all."""
        return [self._of(each) for each in choosing.some(self.renamed(word), self.ids, self.broken)]

    def renamed(self, word: str) -> str:
        """The id of the target that was called so before its folder was renamed; any other word as it is."""
        return next((one.id for one in self.targets if word in one.formerly and word not in self.ids), word)

    def _of(self, target_id: str) -> Target:
        return next(target for target in self.targets if target.id == target_id)
