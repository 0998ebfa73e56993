"""Tensor lines, "float32 [M, N] normal static", and what follows from them: shapes, bytes and operations.

Distributions (arguments are axes expressions; what is left out is filled in here, so that readers see all of
them):

    normal, normal(mean, std)     normal(0, 1) unless given
    uniform, uniform(low, high)   low <= x < high, uniform(0, 1) unless given
    positive                      |normal(0, 1)| + 1e-3, for logarithms, roots and divisors
    integers(low, high)           whole numbers, low <= x < high
    permutation                   0 .. n-1 in random order; one dimension
    bernoulli(p)                  1 with probability p, else 0
    ones, zeros
    posed                         by pose() of the target's inputs.py, anew for every set; in the verifier alone
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from .grammar import GrammarError, evaluate, suggest
from .model import UNCOUNTED, Case, Flag, Target, TensorSpec

# Bytes per element. The names are torch's own.
DTYPES: dict[str, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "bool": 1,
}

# What torch has and nobody judges here: an error of a complex number is neither that of its parts nor exact.
COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def parts_of(dtype: str) -> str:
    """What to write in place of a complex dtype."""
    return f"give real and imaginary parts, {COMPLEX[dtype]} [..., 2]: torch.view_as_real(y), torch.view_as_complex(x)"


def refusal(dtype: str) -> str:
    """Why a tensor of this dtype is refused, to be read behind its name; "" where it is judged."""
    return f"{dtype}, which is not judged; {parts_of(dtype)}" if dtype in COMPLEX else ""


# Relative to max(RMS of the reference, |reference|). Integers and booleans must be equal.
DEFAULT_TOLERANCE: dict[str, float] = {
    "float64": 1e-12,
    "float32": 1e-5,
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "float8_e4m3fn": 0.15,
    "float8_e5m2": 0.15,
    "int8": 0.0,
    "uint8": 0.0,
    "int16": 0.0,
    "int32": 0.0,
    "int64": 0.0,
    "bool": 0.0,
}

# What an integer dtype can hold: lowest, and one more than the highest.
INTEGER_RANGES: dict[str, tuple[int, int]] = {
    "int8": (-(2**7), 2**7),
    "uint8": (0, 2**8),
    "int16": (-(2**15), 2**15),
    "int32": (-(2**31), 2**31),
    "int64": (-(2**63), 2**63),
}

DRAWN = "aisp_drawn"
"""Attribute of a tensor that somebody else's code made as a plain draw: the distribution that it is of, or ""."""

# How many arguments each distribution may be given, and what stands in for none.
DISTRIBUTIONS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "normal": ((0, 2), ("0", "1")),
    "uniform": ((0, 2), ("0", "1")),
    "integers": ((2,), ()),
    "ones": ((0,), ()),
    "zeros": ((0,), ()),
    "positive": ((0,), ()),
    "permutation": ((0,), ()),
    "bernoulli": ((1,), ()),
    "posed": ((0,), ()),
}
_SIGNATURES = {
    "normal": "normal or normal(mean, std)",
    "uniform": "uniform or uniform(low, high)",
    "integers": "integers(low, high)",
    "bernoulli": "bernoulli(p)",
}
_FLOATING_ONLY = ("normal", "uniform", "positive")
_WHOLE_ONLY = ("integers", "permutation")

POSED = "posed"  # the distribution of what pose() of inputs.py makes

MAX_LINE = 500  # characters of one tensor line
MAX_ELEMENTS = 2**44  # of one tensor: more is a slip of the keyboard, not a tensor

_DTYPE = re.compile(r"\s*([^\s\[]+)\s*")
_OPEN = ("...",)  # dimensions that nobody has written down: an output's, and those of a posed input
ANY = "any"  # a dtype that nobody has written down, likewise
_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*")


def parse_tensor(name: str, line: str, *, output: bool = False) -> TensorSpec:
    """Read one line of `[inputs]` or, with `output`, of `[outputs]`.

    Raises:
        GrammarError: what is wrong and what would work.
    """
    if len(line) > MAX_LINE:
        raise GrammarError(f"the line has {len(line)} characters", f"keep it within {MAX_LINE}")
    dtype, dims, distribution, arguments, flags = _parse(line, output)
    if dims == _OPEN:
        return TensorSpec(name, dtype, (), distribution, arguments, flags, open=True)
    return TensorSpec(name, dtype, dims, distribution, arguments, flags)


_Parts = tuple[str, tuple[str, ...], str, tuple[str, ...], frozenset[Flag]]


@lru_cache(maxsize=1024)  # a collection repeats its lines, and is read again after every save
def _parse(line: str, output: bool) -> _Parts:
    head = _DTYPE.match(line)
    if head is None:
        raise GrammarError("the line is empty", _example(output))
    dtype, rest = head.group(1), line[head.end() :]
    if dtype == "made":
        return _made(rest, output)
    if dtype in COMPLEX:
        raise GrammarError(f"{dtype} is not judged", parts_of(dtype))
    if dtype not in DTYPES and dtype != ANY:
        raise GrammarError(f"unknown dtype {dtype!r}", suggest(dtype, DTYPES, "use a dtype that torch has"))
    if not rest.startswith("["):
        raise GrammarError(f"the dimensions are missing after {dtype!r}", _example(output))
    end = rest.find("]")
    if end < 0:
        raise GrammarError("the dimensions are not closed", "close them with ]")
    dims = _OPEN if rest[1:end].strip() == _OPEN[0] else _split(rest[1:end])
    rest = rest[end + 1 :]
    if dtype == ANY and dims != _OPEN:
        raise GrammarError("dimensions without a dtype", "write any [...] where neither is known, else both")
    if output:
        if rest.strip():
            raise GrammarError(
                f"{rest.strip()!r} after an output's dimensions",
                f"an output is only dtype and dimensions: {_example(True)}",
            )
        return dtype, dims, "", (), frozenset()
    word = _WORD.match(rest)
    if word is None or word.group(1) in _FLAG_NAMES:
        raise GrammarError(
            "it does not say how its values are made" if word or not rest.strip() else f"cannot read {rest.strip()!r}",
            f"add a distribution ({', '.join(DISTRIBUTIONS)}), for example: {_example(False)}",
        )
    distribution, rest = word.group(1), rest[word.end() :]
    arguments: tuple[str, ...] | None = None
    if rest.startswith("("):
        closing = _closing(rest)
        arguments = _split(rest[1:closing])
        rest = rest[closing + 1 :]
    arguments = _arguments(dtype, dims, distribution, arguments)
    if dims == _OPEN and distribution != POSED:
        raise GrammarError(f"{distribution} needs a shape", "write the dimensions, or posed: by pose() of inputs.py")
    return dtype, dims, distribution, arguments, _flags(rest)


def _example(output: bool) -> str:
    return '"float32 [M, N]"' if output else '"float32 [M, N] normal"'


_FLAG_NAMES = tuple(flag.value for flag in Flag)


def _flags(text: str) -> frozenset[Flag]:
    flags: set[Flag] = set()
    for word in text.replace(",", " ").split():
        if word not in _FLAG_NAMES:
            raise GrammarError(f"unknown flag {word!r}", suggest(word, _FLAG_NAMES, "flags come last"))
        flags.add(Flag(word))
    if Flag.PINNED in flags:
        flags.add(Flag.CPU)
    if {Flag.STATIC, Flag.MUTABLE} <= flags:
        raise GrammarError("it is both static and mutable", "keep one: what a call overwrites is not known before it")
    return frozenset(flags)


def _made(rest: str, output: bool) -> _Parts:
    if output:
        raise GrammarError("an output cannot be made by inputs.py", f"give its dtype and dimensions: {_example(True)}")
    if "[" in rest:
        raise GrammarError("a made input has no dimensions here", "inputs.py decides its shape: write made")
    flags = _flags(rest)
    if flags - {Flag.STATIC, Flag.MUTABLE}:
        raise GrammarError(
            f"a made input takes no {' '.join(sorted(flags - {Flag.STATIC, Flag.MUTABLE}))}",
            "inputs.py decides where it lives; static and mutable are the flags it may have",
        )
    return "made", (), "", (), flags


def _arguments(dtype: str, dims: tuple[str, ...], distribution: str, words: tuple[str, ...] | None) -> tuple[str, ...]:
    if distribution not in DISTRIBUTIONS:
        raise GrammarError(
            f"unknown distribution {distribution!r}", suggest(distribution, DISTRIBUTIONS, "use a known one")
        )
    counts, default = DISTRIBUTIONS[distribution]
    signature = _SIGNATURES.get(distribution, distribution)
    if len(words or ()) not in counts or words == ():
        raise GrammarError(f"{distribution} was given {len(words or ())} arguments", f"write {signature}")
    floating = "float" in dtype
    if distribution in _FLOATING_ONLY and not floating:
        better = "bernoulli(0.5)" if dtype == "bool" else "integers(low, high)"
        raise GrammarError(f"{distribution} makes fractions, which {dtype} cannot hold", f"use {better}")
    if distribution in _WHOLE_ONLY and dtype not in INTEGER_RANGES:
        raise GrammarError(
            f"{distribution} makes whole numbers for an index, and {dtype} is none",
            "use an integer dtype, for example int64",
        )
    if distribution == "permutation" and len(dims) != 1:
        raise GrammarError(f"permutation was given {len(dims)} dimensions", "give it one, for example [N]")
    return words or default


def _closing(text: str) -> int:
    """Index of the parenthesis that closes the one at the start of `text`."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return index
    raise GrammarError("a parenthesis is not closed", "close it with )")


def _split(text: str) -> tuple[str, ...]:
    """The expressions between commas outside of parentheses. Raises GrammarError on an empty one."""
    if not text.strip():
        return ()
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    last = text[start:].strip()
    if last or not parts:
        parts.append(last)
    if not all(parts):
        raise GrammarError(f"an empty place between commas in {text.strip()!r}", "take the extra comma out")
    return tuple(parts)


def shape(spec: TensorSpec, axes: Mapping[str, int]) -> tuple[int, ...]:
    """The tensor's shape where its dimensions stand for `axes`.

    Raises:
        GrammarError: a dimension is not a whole number of at least 0, or the tensor would be absurdly large.
    """
    if spec.made:
        raise GrammarError(f"the shape of {spec.name} is not known", "inputs.py makes it")
    if spec.open:
        whose = "pose() of inputs.py makes it" if spec.posed else "it is what the reference's is"
        raise GrammarError(f"the shape of {spec.name} is not known", whose)
    sizes: list[int] = []
    for dim in spec.dims:
        size = evaluate(dim, axes)
        if not isinstance(size, int):
            raise GrammarError(f"the dimension {dim!r} is {size!r}, not a whole number", "divide with // or ceil_div")
        if size < 0:
            raise GrammarError(f"the dimension {dim!r} is {size}", "use at least 0")
        sizes.append(size)
    count = math.prod(sizes)
    if count > MAX_ELEMENTS:
        # Of many dimensions, the product has more digits than Python writes out.
        text = str(count) if count.bit_length() <= 128 else f"2**{count.bit_length() - 1} or more"
        raise GrammarError(f"the tensor {spec.name} would have {text} elements", "make its axes smaller")
    return tuple(sizes)


def itemsize(dtype: str) -> int:
    """Bytes per element. LookupError names the dtypes there are."""
    try:
        return DTYPES[dtype]
    except KeyError:
        raise LookupError(f"no dtype {dtype!r}; there is {', '.join(DTYPES)}") from None


def check_values(spec: TensorSpec, axes: Mapping[str, int]) -> None:
    """Raise GrammarError where the distribution of `spec` cannot be drawn with these axes."""
    if spec.made or spec.posed or not spec.distribution:
        return
    numbers = [evaluate(argument, axes) for argument in spec.arguments]
    if spec.distribution == "integers":
        low, high = numbers
        least, beyond = INTEGER_RANGES[spec.dtype]
        if not (isinstance(low, int) and isinstance(high, int)):
            raise GrammarError(f"integers({low!r}, {high!r}) has a bound that is no whole number", "divide with //")
        if low >= high:
            raise GrammarError(f"integers({low}, {high}) is empty", "the upper bound is exclusive: make it larger")
        if low < least or high > beyond:
            raise GrammarError(
                f"integers({low}, {high}) does not fit {spec.dtype}", f"it holds {least} to {beyond - 1}"
            )
    elif spec.distribution == "permutation":
        (length,) = shape(spec, axes)
        if length > INTEGER_RANGES[spec.dtype][1]:
            raise GrammarError(f"a permutation of {length} does not fit {spec.dtype}", "use int64")
    elif spec.distribution == "uniform" and numbers[0] > numbers[1]:
        raise GrammarError(f"uniform({numbers[0]}, {numbers[1]}) is empty", "give the lower bound first")
    elif spec.distribution == "normal" and numbers[1] < 0:
        raise GrammarError(f"normal has the standard deviation {numbers[1]}", "use at least 0")
    elif spec.distribution == "bernoulli" and not 0 <= numbers[0] <= 1:
        raise GrammarError(f"bernoulli has the probability {numbers[0]}", "use 0 to 1")


def flops(target: Target, case: Case) -> float:
    """Floating-point operations per call, 0 where nobody has counted them. Raises GrammarError."""
    return 0.0 if target.flops == UNCOUNTED else float(evaluate(target.flops, case.axes))


def link_bytes(target: Target, case: Case) -> tuple[float, float]:
    """Bytes that a call must move over the target's link into a GPU and out of it; none without a link. Raises
    GrammarError."""
    if target.link is None:
        return 0.0, 0.0
    return float(evaluate(target.link.into, case.axes)), float(evaluate(target.link.out, case.axes))


def bytes_moved(target: Target, case: Case, *, packed: bool = False) -> int:
    """Bytes that a call must move at least: the target's `bytes`, else derived from its tensors.

    Derived: every input is read once and every output written once. A mutable input that is not also listed
    as an output is written once more. Made inputs and open tensors are unknown to the grammar and count nothing,
    so a target whose traffic is mostly in them states `bytes`. A fraction (packed 4-bit weights) is rounded up.

    `packed`: static inputs count nothing in what is derived: prepare() knows them, and may keep them in fewer bytes.

    Raises:
        GrammarError: an expression has no value for these axes.
    """
    if target.bytes:
        return math.ceil(evaluate(target.bytes, case.axes))
    outputs = {spec.name for spec in target.outputs}
    total = 0
    for spec in (*target.inputs, *target.outputs):
        if spec.shaped and not (packed and Flag.STATIC in spec.flags):
            total += math.prod(shape(spec, case.axes)) * itemsize(spec.dtype)
    for spec in target.inputs:
        if Flag.MUTABLE in spec.flags and spec.name not in outputs and spec.shaped:
            total += math.prod(shape(spec, case.axes)) * itemsize(spec.dtype)
    return total
