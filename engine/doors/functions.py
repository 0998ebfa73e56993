"""Two functions made into the files of a target: what `aisp.compare` gives to the engine.

A function travels by its source file and its name, never by pickle: what it needs is taken out of that file as it
stands now (`kernels.catalog.onefile.take`). What cannot travel so is refused with what would work: a lambda, a function
within a function, a method, one that was typed into a prompt or a notebook.

Nothing here imports torch. An example's type and shape are read from its attributes; a torch that the caller has
imported is asked, without data, what the truth returns.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aisp.engine.doors.asking import RefusedError
from aisp.kernels.catalog import frontmatter, onefile
from aisp.kernels.catalog.grammar import GrammarError, evaluate
from aisp.kernels.catalog.model import UNCOUNTED, TensorSpec
from aisp.kernels.catalog.sources import LESSON, read_bytes
from aisp.kernels.catalog.tensors import DTYPES, INTEGER_RANGES, parse_tensor, refusal, shape
from aisp.store.text import clean_line

Given = str | Sequence[Any] | Mapping[str, Any]
MOST_TOLD = 20
"""Problems that are told at once."""

_EXAMPLE = 'inputs={"x": "float32 [M, N] normal"}, axes={"M": 4096, "N": 4096}'
_AT_THE_TOP = "write def {}(...) at the top level of a file, with all that it needs in that file"
_SCALES = (2, 3, 5, 7, 11, 13, 17, 19)  # an axis times one of these keeps what divides it


@dataclass(frozen=True, slots=True)
class Made:
    """A target made of functions.

    Attributes:
        stem: the name of the file that the judged function is from, without its suffix.
        name: of the target: "fast_against_slow".
        files: of its folder.
        names: the functions' names by rung.
        notes: what was taken for granted, in sentences.
        axes: as given.
    """

    stem: str
    name: str
    files: Mapping[str, bytes]
    names: Mapping[str, str]
    notes: tuple[str, ...]
    axes: Mapping[str, int]


def make(
    baseline: Callable[..., Any],
    optimized: Callable[..., Any],
    *,
    inputs: Given,
    axes: Mapping[str, int],
    outputs: Given | None,
    reference: Callable[..., Any] | None,
    tolerance: Mapping[str, float] | None,
    on_host: bool,
) -> Made:
    """The target that compares two functions. See `api.compare` for the arguments.

    Args:
        on_host: a CPU was asked for: its case has the sizes that were given, and no smaller ones.

    Raises:
        RefusedError: a function cannot travel, or what is said of its inputs cannot be.
    """
    truth = baseline if reference is None else reference
    if truth is optimized:
        raise RefusedError("the judged function cannot be the truth; give another one: reference=...")
    places = {"baseline": _place(baseline), "optimized": _place(optimized), "reference": _place(truth)}
    taken = {part: place.taken() for part, place in places.items()}
    judged = places["optimized"]
    for part in ("reference", "baseline"):
        if places[part].file == judged.file and judged.name in taken[part].uses:
            told = f"{places[part].name} uses {judged.name}, and what is judged cannot judge itself"
            raise RefusedError(f"{told}; write out what {places[part].name} computes")
    notes: list[str] = []
    if reference is None:
        notes.append(f"{places['baseline'].name} is the truth too: what it computes from inputs in fp64 is right")
    lines, drawn = _inputs(baseline, optimized, truth, inputs)
    notes += drawn
    sizes = {str(name): size for name, size in axes.items()}
    specs = [_spec(name, line, sizes) for name, line in lines.items()]
    if outputs is None:
        outputs = _worked_out(truth, places["reference"].name, specs, sizes)
        notes.append(f"what it returns was asked of {places['reference'].name} without data: {', '.join(outputs)}")
    content: dict[str, Any] = {
        "title": f"{judged.name} against {places['baseline'].name}",
        "flops": UNCOUNTED,
        "axes": sizes,
        "inputs": lines,
        "outputs": _outputs(outputs, lines),
        "rungs": {rung: {"summary": taken[rung].summary or places[rung].name} for rung in ("baseline", "optimized")},
    }
    if tolerance is not None:
        content["tolerance"] = dict(tolerance)
    small = None if on_host or not sizes else onefile.for_host(content)
    content["cases"] = [{"name": "cpu", "axes": sizes if small is None else small}]
    files = {f"{part}.py": function.module for part, function in taken.items()}
    files[LESSON] = _lesson(content, places)
    names = {rung: places[rung].name for rung in ("baseline", "optimized")}
    return Made(judged.file.stem, f"{judged.name}_against_{places['baseline'].name}", files, names, tuple(notes), sizes)


# -- where a function comes from ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a function is written: the file, and what it is called there."""

    file: Path
    name: str

    def taken(self) -> onefile.Taken:
        """The function with all that it needs. Raises RefusedError."""
        try:
            data = read_bytes(str(self.file))
        except OSError as error:
            told = f"the file of {self.name}, {clean_line(str(self.file))}, cannot be read: {error.strerror or error}"
            raise RefusedError(f"{told}; functions travel by their files: keep it where it was imported from") from None
        found = onefile.take(self.file, data, self.name)
        if found.problems:
            raise RefusedError(_told([str(problem) for problem in found.problems]))
        return found


def _place(function: Callable[..., Any]) -> _Place:
    """Where a function can be taken from. Raises RefusedError with what would work instead."""
    name = getattr(function, "__name__", "")
    shown = clean_line(str(name or type(function).__name__))
    if isinstance(function, types.MethodType):
        raise RefusedError(
            f"{shown} is a method of an object, which cannot travel; {_AT_THE_TOP.format(shown)} and take what the "
            "object holds as inputs"
        )
    if name == "<lambda>":
        raise RefusedError(f"a lambda has no name to travel by; {_AT_THE_TOP.format('f')}")
    if not name or not callable(function):
        raise RefusedError(f"{shown} is no function; {_AT_THE_TOP.format('f')}")
    qualname = str(getattr(function, "__qualname__", name))
    if "<locals>" in qualname:
        outer = clean_line(qualname.partition(".<locals>")[0])
        told = f"{shown} is defined within {outer}, and what it finds there cannot travel"
        raise RefusedError(f"{told}; {_AT_THE_TOP.format(shown)}")
    module = sys.modules.get(str(getattr(function, "__module__", None)))
    file = getattr(module, "__file__", None)
    if module is None or not file or not str(file).endswith(onefile.SUFFIX):
        if getattr(module, "__name__", "") == "__main__":
            raise RefusedError(
                f"{shown} was typed into a prompt or a notebook and has no file to travel by; write it and all that it "
                "needs to a file (in a notebook: %%writefile kernels.py) and import it from there"
            )
        raise RefusedError(f"{shown} has no Python source; call it from a function of your own: def f(x): return ...")
    called = _called(module, str(name), function)
    if not called:
        told = f"{shown} is not what {clean_line(str(file))} has under a name at its top level"
        raise RefusedError(f"{told}; {_AT_THE_TOP.format(shown)}")
    return _Place(Path(file).absolute(), called)


def _called(module: types.ModuleType, name: str, function: Callable[..., Any]) -> str:
    """The name by which the module has the function: its own, else another one; "" for none."""
    held = vars(module)
    return name if held.get(name) is function else next((key for key, value in held.items() if value is function), "")


# -- inputs and outputs ------------------------------------------------------------------------------------------------


def _inputs(
    baseline: Callable[..., Any], optimized: Callable[..., Any], truth: Callable[..., Any], given: Given
) -> tuple[dict[str, str], list[str]]:
    """The tensor lines of the inputs in the order of the baseline's parameters, and what was taken for granted."""
    parameters = _parameters(baseline)
    called = clean_line(str(getattr(baseline, "__name__", "the baseline")))
    if isinstance(given, Mapping):
        named = {str(name): value for name, value in given.items()}
    elif isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) > len(parameters):
            raise RefusedError(f"{len(given)} inputs were given and {called} takes {len(parameters)}")
        named = dict(zip(parameters, given, strict=False))
    else:
        raise RefusedError(f"inputs are named by parameter or given in their order: {_EXAMPLE}")
    if unknown := [name for name in named if name not in parameters]:
        there = ", ".join(parameters) or "none"
        raise RefusedError(f"{called} has no parameter {clean_line(unknown[0])!r} (there is: {there})")
    order = [name for name in parameters if name in named]
    missing = [name for name, needed in parameters.items() if needed and name not in named]
    if missing:
        raise RefusedError(f"the input {missing[0]} of {called} is not described: {_EXAMPLE}")
    if not order:
        raise RefusedError(f"a run needs at least one input to draw: {_EXAMPLE}")
    if order != list(parameters)[: len(order)]:
        skipped = next(name for name in parameters if name not in named)
        raise RefusedError(f"inputs are passed in their order, and {skipped} stands before one; describe it too")
    for function in (optimized, truth):
        takes = _parameters(function)
        needed = sum(takes.values())
        if not needed <= len(order) <= len(takes):
            other = clean_line(str(getattr(function, "__name__", "")))
            told = f"{other} takes {', '.join(takes) or 'nothing'}, and {called} takes {', '.join(order)}"
            raise RefusedError(f"{told}; both are called with the same inputs in the same order")
    lines: dict[str, str] = {}
    notes: list[str] = []
    for name in order:
        value = named[name]
        lines[name] = value if isinstance(value, str) else _line(name, value)
        if not isinstance(value, str):
            notes.append(f"{name} is drawn anew as the example's type and shape say: {lines[name]}")
    return lines, notes


def _parameters(function: Callable[..., Any]) -> dict[str, bool]:
    """Parameters that can be passed in order, and whether each must be. Raises RefusedError."""
    shown = clean_line(str(getattr(function, "__name__", "the function")))
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise RefusedError(f"what {shown} takes cannot be seen; call it from a function with named inputs") from None
    plain: dict[str, bool] = {}
    for parameter in found:
        needed = parameter.default is parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            plain[parameter.name] = needed
        elif parameter.kind is parameter.VAR_POSITIONAL or (parameter.kind is parameter.KEYWORD_ONLY and needed):
            how = "a star" if parameter.kind is parameter.VAR_POSITIONAL else "name"
            told = f"{shown} takes {parameter.name} by {how}"
            raise RefusedError(f"{told}; inputs are passed one by one in their order: def {shown}(x, y)")
    return plain


def _line(name: str, value: object, *, output: bool = False) -> str:
    """The tensor line of an example, by its attributes `dtype` and `shape`. Raises RefusedError."""
    dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
    dims = getattr(value, "shape", None)
    if refused := refusal(dtype):
        raise RefusedError(f"{name} is {refused}")
    if dtype not in DTYPES or dims is None:
        told = f"{name} is a {clean_line(type(value).__name__)}" + (f" of {clean_line(dtype)}" if dtype else "")
        fix = f'"{"float32 [M, N]" if output else "float32 [M, N] normal"}"'
        raise RefusedError(f"{told}; describe it in words, {fix}, or give a tensor of a type that torch has")
    text = f"{dtype} [{', '.join(str(int(size)) for size in dims)}]"
    return text if output else f"{text} {_distribution(name, dtype, value)}"


def _distribution(name: str, dtype: str, value: Any) -> str:
    """How values like those of an example are drawn: whole numbers within its bounds, fractions normally."""
    if dtype == "bool":
        return "bernoulli(0.5)"
    if dtype not in INTEGER_RANGES:
        return "normal"
    try:
        return f"integers({int(value.min())}, {int(value.max()) + 1})"
    except Exception as error:  # whatever a foreign array says of itself
        told = f"between which numbers {name} lies cannot be read ({clean_line(str(error), limit=200)})"
        raise RefusedError(f'{told}; describe it in words: "{dtype} [N] integers(0, 100)"') from None


def _outputs(given: Given, inputs: Mapping[str, str]) -> dict[str, str]:
    """The tensor lines of the outputs by name: one, several, or named ones."""
    if isinstance(given, Mapping):
        named = {str(name): value for name, value in given.items()}
    else:
        listed = [given] if isinstance(given, str) or hasattr(given, "dtype") else list(given)
        end = "_" if any(name.startswith("out") for name in inputs) else ""
        named = {f"out{place if len(listed) > 1 else ''}{end}": value for place, value in enumerate(listed)}
    return {name: value if isinstance(value, str) else _line(name, value, output=True) for name, value in named.items()}


def _spec(name: str, line: str, axes: Mapping[str, int]) -> TensorSpec:
    """A tensor line as it is read, whose shape is known. Raises RefusedError."""
    try:
        spec = parse_tensor(name, line)
        shape(spec, axes)
    except GrammarError as error:
        fix = error.fix.replace("define it in [axes]", "add it to axes=")
        raise RefusedError(f"the input {name}: {error.message}; {fix}") from None
    return spec


def _worked_out(
    truth: Callable[..., Any], name: str, specs: Sequence[TensorSpec], axes: Mapping[str, int]
) -> list[str]:
    """What a function returns, as tensor lines over the axes: it is called with tensors that have a shape and no data,
    at the sizes that were given and with each axis made larger. Raises RefusedError where that does not tell."""
    ask = f'say what it returns: outputs="{specs[0].dtype} [{", ".join(specs[0].dims)}]"'
    torch = sys.modules.get("torch")  # the caller's own, where he has one; never imported here
    if torch is None:
        raise RefusedError(f"what {name} returns is not known; {ask}")
    larger = {axis: size * scale for (axis, size), scale in zip(axes.items(), _SCALES, strict=False)}
    points = [dict(axes), dict(axes) | larger]
    try:
        first, second = (_returned(torch, truth, specs, point) for point in points)
        if [dtype for dtype, _ in first] != [dtype for dtype, _ in second]:
            raise ValueError("its type depends on the sizes")
        lines = []
        for (dtype, before), (_, after) in zip(first, second, strict=True):
            if refused := refusal(dtype):
                raise ValueError(f"it is {refused}")
            if len(before) != len(after) or dtype not in DTYPES:
                raise ValueError(f"{dtype} of {len(before)} dimensions")
            dims = [_dim(pair, points, specs) for pair in zip(before, after, strict=True)]
            lines.append(f"{dtype} [{', '.join(dims)}]")
    except Exception as error:  # whatever the function does with tensors that hold no data
        told = f"what {name} returns cannot be told from a call without data"
        why = clean_line(f"{type(error).__name__}: {error}", limit=300)
        raise RefusedError(f"{told} ({why}); {ask}") from None
    return lines


def _returned(
    torch: Any, function: Callable[..., Any], specs: Sequence[TensorSpec], axes: Mapping[str, int]
) -> list[tuple[str, tuple[int, ...]]]:
    """Type and shape of all that a function returns for tensors without data."""
    given = [torch.empty(shape(spec, axes), dtype=getattr(torch, spec.dtype), device="meta") for spec in specs]
    found = function(*given)
    every = found if isinstance(found, tuple | list) else (found,)
    return [(str(one.dtype).removeprefix("torch."), tuple(int(size) for size in one.shape)) for one in every]


def _dim(sizes: tuple[int, int], points: Sequence[Mapping[str, int]], specs: Sequence[TensorSpec]) -> str:
    """The expression over the axes that has these values at the two points. Raises ValueError where there is none."""
    for expression in _expressions(points[0], specs):
        if tuple(evaluate(expression, point) for point in points) == sizes:
            return expression
    if sizes[0] == sizes[1]:
        return str(sizes[0])
    raise ValueError(f"a dimension is {sizes[0]}, and no expression over the axes gives it")


def _expressions(axes: Mapping[str, int], specs: Sequence[TensorSpec]) -> Iterator[str]:
    yield from axes
    yield from dict.fromkeys(dim for spec in specs for dim in spec.dims)
    yield from (f"{one}*{two}" for one, two in itertools.combinations(axes, 2))


# -- the lesson --------------------------------------------------------------------------------------------------------


def _lesson(content: dict[str, Any], places: Mapping[str, _Place]) -> bytes:
    """lesson.md of that front matter. Raises RefusedError where it is not valid."""
    import tomli_w  # only where a target is made

    said = "\n".join(
        f"- `{part}.py` is `{place.name}` of `{clean_line(str(place.file))}`" for part, place in places.items()
    )
    try:
        matter = tomli_w.dumps(content)
    except TypeError as error:
        raise RefusedError(f"axes and tolerance are numbers by name: {_EXAMPLE} ({error})") from None
    text = f"+++\n{matter}+++\n\n# {content['title']}\n\nMade by `aisp.compare`:\n\n{said}\n"
    lesson = text.encode("utf-8", "replace")
    _, problems = frontmatter.read(Path(LESSON), lesson)
    if problems:
        words = [f"{problem.key}: {problem.message}; {problem.fix}" for problem in problems]
        raise RefusedError(_told([word.replace("define it in [axes]", "add it to axes=") for word in words]))
    return lesson


def _told(problems: Sequence[str]) -> str:
    return "\n".join(clean_line(problem, limit=1000) for problem in problems[:MOST_TOLD])
