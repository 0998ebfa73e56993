"""The one maker of inputs: the same bytes for the same seed, case and target on every machine.

Each kind of values stays within what the input's declaration allows (schema.takes). The bits come from NumPy's Philox,
a counter-based generator, with a key per input; what follows is arithmetic that IEEE 754 fixes to the last bit. Large
inputs are made in blocks of `BLOCK_ELEMENTS`, each with its own counter range, by several threads: the bytes do not
depend on how many.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aisp.checks.oracle.schema import WHOLE, Case, Layout, Values, retyped, subseed, takes
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Flag, Target, TensorSpec
from aisp.kernels.catalog.tensors import DRAWN, refusal

if TYPE_CHECKING:
    import torch

BLOCK_ELEMENTS = 1 << 20
# Factors on declared values: squares and short sums of them stay finite in fp32, products do not in fp16.
LARGE = {"float16": 2.0**9, "float8_e4m3fn": 2.0**6}
LARGE_OTHERS = 2.0**13
OUTLIER = {"float16": 2.0**6, "float8_e4m3fn": 2.0**4}
OUTLIER_OTHERS = 2.0**10
OUTLIER_EVERY = 64
BELOW = 128.0  # exp(-128) is zero in fp32
SMALL_INTEGER = 4
DOMINANT_OF = 10  # of so many values, all but one are the same
# Heavy tails that leave a scale: one element in OUTLIER_EVERY of a row is this much larger, and the row's RMS doubles.
TAIL = 16.0
SHIFT = 4.0  # standard deviations
MOST_CHANGED = 1 << 18  # elements that another family of values changes at a timed shape, all inputs together
FEWEST_ROWS = 4  # or as many stretches of rows


Maker = Callable[..., Mapping[str, object]]
"""make() or pose() of a target's inputs.py: (axes, device, generator) to what it makes, by name."""


class InputsError(Exception):
    """The target's inputs cannot be made; the message names the input and the fix."""


def inputs_of(
    target: Target,
    case: Case,
    seed: int,
    pose: Maker | None = None,
    device: str = "cpu",
    drawn_before: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Every input that the grammar describes or that is posed, contiguous in host memory, by name.

    In all sets of a lesson's own case static inputs are the same. A set with other kinds of values is set 0 with
    `changes_of`.

    Args:
        pose: what makes the posed inputs; None in processes that do not know it, where those are left out.
        device: where pose works.
        drawn_before: inputs that are not drawn anew: static ones of another set.

    Raises:
        InputsError: a distribution cannot give this dtype, or pose made something else than it should.
        GrammarError: a shape has no value for the case's axes.
    """
    inputs: dict[str, torch.Tensor] = {}
    if case.name and case.values:
        inputs = inputs_of(target, replace(case, number=0, values={}), seed, pose=pose, device=device)
        for name, change in changes_of(target, case, seed, inputs).items():
            change.laid(inputs[name])
        return inputs
    posed = _posed(target, case, seed, pose, device) if pose is not None else {}
    there = {**posed, **(drawn_before or {})}
    keys = {name: key for name, key in keys_of(target, case, seed).items() if name not in there}
    return inputs_by(target, case, keys, there)


def inputs_by(
    target: Target, case: Case, keys: Mapping[str, tuple[int, int]], posed: Mapping[str, torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """`inputs_of` for a process that is given keys and no seed; an input that is neither in `keys` nor in `posed` is
    left out.
    """
    inputs: dict[str, torch.Tensor] = {}
    for spec in target.inputs:
        if posed is not None and spec.name in posed:
            inputs[spec.name] = posed[spec.name]
        if spec.name not in keys:
            continue
        own = replace(spec, dtype=retyped(target, spec, case.dtype))
        tensor = _values(own, case.axes, keys[spec.name], case.values.get(spec.name, Values.DECLARED))
        if case.layouts.get(spec.name) is Layout.EXPANDED and tensor.numel():
            tensor = tensor[:1].expand(tensor.shape).contiguous()
        inputs[spec.name] = tensor
    return inputs


def keys_of(target: Target, case: Case, seed: int) -> dict[str, tuple[int, int]]:
    """The key of each input that the grammar describes. The seed does not follow from them, nor does another key."""
    drawn = (spec for spec in target.inputs if not spec.made and not spec.posed)
    return {spec.name: _key(target, case, seed, spec) for spec in drawn}


def made_seed(target: Target, case: Case, seed: int) -> int:
    """What `made_inputs` are drawn by: one for all sets of a case. Nothing else follows from it, nor does the seed."""
    return subseed(seed, target.id, case.label, "made")[0] >> 1


def _key(target: Target, case: Case, seed: int, spec: TensorSpec) -> tuple[int, int]:
    """Each input's own, so that adding an input or a dimension shifts no other."""
    if case.name:
        number = 0 if Flag.STATIC in spec.flags else case.number
        return subseed(seed, target.id, case.name, number, spec.name)
    return subseed(seed, target.id, case.strategy, case.number, "value", spec.name)


def _posed(target: Target, case: Case, seed: int, pose: Maker, device: str) -> dict[str, torch.Tensor]:
    """What the target's own `inputs.pose(axes, device, generator)` makes for a set, as it was declared, by name.

    The generator lives on the CPU; torch's own one is seeded likewise, since others' code draws from that. Static
    inputs are those of set 0.
    """
    import torch

    def made(number: int) -> Mapping[str, object]:
        word = subseed(seed, target.id, case.name or case.strategy, number, "posed")[0] >> 1
        with torch.random.fork_rng(range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()):
            torch.manual_seed(word)
            return _mapping_of("pose", pose(dict(case.axes), device, torch.Generator("cpu").manual_seed(word)), wanted)

    wanted = {spec.name for spec in target.inputs if spec.posed}
    if not wanted:
        return {}
    values = made(case.number)
    static = {spec.name for spec in target.inputs if spec.posed and Flag.STATIC in spec.flags}
    if static and case.name and case.number:
        values = {**values, **{name: value for name, value in made(0).items() if name in static}}
    inputs: dict[str, torch.Tensor] = {}
    for spec in target.inputs:
        if not spec.posed:
            continue
        tensor = values[spec.name]
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            kind = type(tensor).__name__ if not isinstance(tensor, torch.Tensor) else str(tensor.layout)
            raise InputsError(f"inputs.py: pose() made {spec.name} a {kind}; it must be a dense tensor")
        _refuse_complex(target, "pose", spec.name, tensor)
        dtype = retyped(target, spec, case.dtype)
        tensor = tensor.detach().to("cpu")
        if dtype != spec.dtype:  # a fuzz's own
            tensor = tensor.to(getattr(torch, dtype))
        shape = tuple(tensor.shape) if spec.open else catalog.shape(spec, case.axes)
        if dtype not in ("any", str(tensor.dtype).removeprefix("torch.")) or tuple(tensor.shape) != shape:
            made_as = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            raise InputsError(f"inputs.py: pose() made {spec.name} {made_as}; it is declared {dtype} {list(shape)}")
        # Its own storage: pose() may give the same tensor twice, or keep it.
        inputs[spec.name] = tensor.contiguous().clone()
        setattr(inputs[spec.name], DRAWN, getattr(values[spec.name], DRAWN, ""))
    return inputs


def _mapping_of(entry: str, result: object, wanted: set[str]) -> dict[str, object]:
    """What make() or pose() returned. Raises InputsError where it has other names than those that are wanted."""
    if not isinstance(result, Mapping) or set(result) != wanted:
        names = sorted(result) if isinstance(result, Mapping) else type(result).__name__
        raise InputsError(f"inputs.py: {entry}() returned {names}; it must return a dict of {sorted(wanted)}")
    return dict(result)


def _refuse_complex(target: Target, entry: str, name: str, value: object) -> None:
    """Raise InputsError where a tensor of a value, a module or a container is of a dtype that is not judged: the
    reference would lose its imaginary part, or its precision, without a word.
    """
    import torch

    if target.rule is not None and target.rule.alone:
        return
    within: Iterable[object] = ()
    if isinstance(value, torch.Tensor):
        if refused := refusal(str(value.dtype).removeprefix("torch.")):
            raise InputsError(f"inputs.py: {entry}() made {name} {refused}")
    elif isinstance(value, torch.nn.Module):
        within = itertools.chain(value.parameters(), value.buffers())
    elif isinstance(value, (dict, list, tuple)):
        within = value.values() if isinstance(value, dict) else value
    for part in within:
        _refuse_complex(target, entry, name, part)


def made_inputs(target: Target, case: Case, made_seed: int, device: str, make: Maker) -> dict[str, object]:
    """What the target's own `inputs.make(axes, device, generator)` makes, by name.

    The generator lives on the CPU and is seeded with the case's `made_seed` everywhere, so that worker and verifier get
    the same weights; `make` moves them to `device` itself.

    Raises:
        InputsError: make returned something else than the declared names, or what is not judged.
    """
    import torch

    generator = torch.Generator("cpu").manual_seed(made_seed)
    wanted = {spec.name for spec in target.inputs if spec.made}
    made = _mapping_of("make", make(dict(case.axes), device, generator), wanted)
    for name, value in made.items():
        _refuse_complex(target, "make", name, value)
    return made


def gradients_of(
    target: Target, case: Case, seed: int, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, torch.Tensor]:
    """Random gradients of the floating outputs, normal(0, 1) in each one's dtype, as "g_<output>"."""
    gradients: dict[str, torch.Tensor] = {}
    for spec in target.outputs:
        if "float" not in spec.dtype:
            continue
        dtype = retyped(target, spec, case.dtype)
        dims = tuple(str(n) for n in shapes[spec.name])
        line = TensorSpec(f"g_{spec.name}", dtype, dims, "normal", ("0", "1"))
        key = subseed(seed, target.id, case.strategy, case.number, "gradient", spec.name)
        gradients[line.name] = drawn(line, {}, key)
    return gradients


def digest(tensor: torch.Tensor) -> str:
    """sha256 over a tensor's values, contiguous, in little-endian order, behind its dtype and shape."""
    import torch

    hashed = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}".encode())
    if tensor.numel():
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        hashed.update(flat.view(torch.uint8).numpy().data)
    return hashed.hexdigest()


# -- distributions ----------------------------------------------------------------------------------------------


def drawn(spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int]) -> torch.Tensor:
    """The tensor that one line of `[inputs]` describes, contiguous, in host memory, of the declared dtype.

    Raises:
        InputsError: the distribution cannot give this dtype.
    """
    import torch  # only workers and verifiers have it

    shape = catalog.shape(spec, axes)
    count = math.prod(shape)
    arguments = [catalog.evaluate(text, axes) for text in spec.arguments]  # int or float: int64 bounds stay exact
    dtype: torch.dtype = getattr(torch, spec.dtype)
    floating = dtype.is_floating_point

    def argument(index: int, default: float) -> float:
        return float(arguments[index]) if index < len(arguments) else default

    kind = spec.distribution
    wide: type[np.floating[Any]] = np.float64 if spec.dtype == "float64" else np.float32
    array: npt.NDArray[Any]
    if kind in ("normal", "uniform", "positive"):
        shift, scale = (0.001, 1.0) if kind == "positive" else (argument(0, 0.0), argument(1, 1.0))
        scale -= shift if kind == "uniform" else 0.0  # from there to the upper end
        # Rounding, to `wide` or to a narrower dtype, must not reach the excluded end.
        most = wide(max(_below(argument(1, 1.0), dtype), shift)) if kind == "uniform" else None

        def fill(g: np.random.Generator, out: npt.NDArray[Any]) -> None:
            (g.random if kind == "uniform" else g.standard_normal)(out=out, dtype=wide)
            if kind == "positive":
                np.abs(out, out=out)
            if (shift, scale) != (0.0, 1.0):
                out *= wide(scale)
                out += wide(shift)
            if most is not None:
                np.minimum(out, most, out=out)

        array = _blocks(count, key, wide, fill)
    elif kind == "integers":
        low_i, high_i = int(arguments[0]), int(arguments[1])
        if high_i <= low_i:
            raise InputsError(f"{spec.name}: integers({low_i}, {high_i}) is empty; the upper end is exclusive")

        def integers(g: np.random.Generator, out: npt.NDArray[Any]) -> None:
            out[:] = g.integers(low_i, high_i, len(out), np.int64)

        array = _blocks(count, key, np.int64, integers)
    elif kind == "permutation":
        bits = np.random.Philox(key=np.array(key, np.uint64))
        array = np.random.Generator(bits).permutation(count).astype(np.int64)
    elif kind == "bernoulli":
        p = argument(0, 0.5)

        def bernoulli(g: np.random.Generator, out: npt.NDArray[Any]) -> None:
            np.less(g.random(len(out)), p, out=out)

        array = _blocks(count, key, np.bool_, bernoulli)
    elif kind in ("ones", "zeros"):
        array = np.full(count, 1 if kind == "ones" else 0, wide if floating else np.int64)
    else:
        raise InputsError(f"{spec.name}: no values are known for distribution {kind!r}")
    if not floating and array.dtype.kind == "f":
        raise InputsError(f"{spec.name}: {kind} gives fractions, {spec.dtype} holds none; use integers(low, high)")
    return torch.from_numpy(array).to(dtype).reshape(shape)


def _below(high: float, dtype: torch.dtype) -> float:
    """The greatest value of a floating dtype that is less than `high`."""
    import torch

    top = torch.tensor([high], dtype=torch.float64).to(dtype)
    if float(top) < high:
        return float(top)
    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    if high == 0:
        bits = torch.tensor([torch.iinfo(whole).min + 1], dtype=whole)  # sign and one: the least step below zero
    else:
        bits = top.view(whole) + (-1 if high > 0 else 1)
    return float(bits.view(dtype))


def _blocks(
    count: int, key: tuple[int, int], dtype: npt.DTypeLike, fill: Callable[[np.random.Generator, Any], None]
) -> npt.NDArray[Any]:
    """An array of `count` values, filled block by block from counters of their own. `fill` makes a block in its place:
    threads that allocate would wait for each other's pages."""
    out = np.empty(count, dtype)

    def work(block: int) -> None:
        start = block * BLOCK_ELEMENTS
        # The counter's highest word numbers the block, so that no two blocks can overlap.
        bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([0, 0, 0, block], np.uint64))
        fill(np.random.Generator(bits), out[start : start + BLOCK_ELEMENTS])

    blocks = range(math.ceil(count / BLOCK_ELEMENTS))
    if len(blocks) > 1:
        with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1, 16)) as pool:
            list(pool.map(work, blocks))
    else:
        for block in blocks:
            work(block)
    return out


# -- kinds of values --------------------------------------------------------------------------------------------


def _values(spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int], kind: Values) -> torch.Tensor:
    import torch

    if kind is Values.UNIFORM and spec.distribution == "normal":
        mean, std = (catalog.evaluate(text, axes) for text in spec.arguments)
        flat = replace(spec, distribution="uniform", arguments=("-1", "1"))
        flat_values = drawn(replace(flat, dtype="float64"), axes, key)
        return (flat_values * float(std) + float(mean)).to(getattr(torch, spec.dtype))
    if kind is Values.UNIFORM:
        return drawn(replace(spec, distribution="uniform", arguments=("0.001", "1")), axes, key)
    if kind is Values.INTEGERS:
        whole = replace(
            spec, dtype="int64", distribution="integers", arguments=(str(-SMALL_INTEGER), str(SMALL_INTEGER + 1))
        )
        return drawn(whole, axes, key).to(getattr(torch, spec.dtype))
    base = drawn(spec, axes, key)
    if not base.numel() or kind is Values.DECLARED:
        return base
    if kind is Values.LARGE:
        return _within(base.to(torch.float64) * LARGE.get(spec.dtype, LARGE_OTHERS), base.dtype)
    if kind is Values.BELOW:
        return (-BELOW - base.to(torch.float64).abs()).to(base.dtype)
    if kind is Values.TINY:
        return _tiny(base, key)
    if kind is Values.CONSTANT:
        return base.reshape(-1)[:1].expand(base.numel()).reshape(base.shape).contiguous()
    if kind is Values.SORTED:
        return _sorted(base)
    if kind is Values.TIES:
        flat = base.reshape(-1)
        chosen = flat[_integers(flat.numel(), min(3, flat.numel()), key)]
        return chosen.reshape(base.shape).contiguous()
    if kind is Values.OUTLIERS:
        return _outliers(base, key, OUTLIER.get(spec.dtype, OUTLIER_OTHERS))
    if kind is Values.NONFINITE:
        return _nonfinite(base, key)
    if kind in (Values.ROWS, Values.FAR):
        return _families(base, spec, axes, key, kind)
    if kind is Values.EXTREMES:
        low, high = (int(catalog.evaluate(text, axes)) for text in spec.arguments)
        pick = _integers(base.numel(), 2, key).reshape(base.shape)
        return torch.where(pick == 0, low, high - 1).to(base.dtype)
    if kind in WHOLE:
        return _whole(base, spec, axes, key, kind)
    raise InputsError(f"{spec.name}: no values are known for the kind {kind}")


def _whole(
    base: torch.Tensor, spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int], kind: Values
) -> torch.Tensor:
    """Whole numbers within their declared bounds that an even draw never gives."""
    import torch

    low, high = (int(catalog.evaluate(text, axes)) for text in spec.arguments)
    if kind in (Values.LOWEST, Values.HIGHEST):
        return torch.full_like(base, low if kind is Values.LOWEST else high - 1)
    if kind is Values.DOMINANT:
        others = _integers(base.numel(), DOMINANT_OF, key).reshape(base.shape) == 0
        return torch.where(others, base, base.reshape(-1)[0])
    if kind is Values.UPPER:
        width = max(1, (high - low) // 4)
        return (_integers(base.numel(), width, key) + (high - width)).reshape(base.shape).to(base.dtype)
    powers = [sign << bit for bit in range(63) for sign in (1, -1) if low <= sign << bit < high]
    if not powers:
        return base
    chosen = torch.tensor(powers, dtype=torch.int64)[_integers(base.numel(), len(powers), key)]
    return chosen.reshape(base.shape).to(base.dtype)


@dataclass(frozen=True, slots=True)
class Change:
    """Stretches of one input that hold other values than its set 0.

    Attributes:
        at: first element of each stretch in the flat tensor, int64 [K], ascending, without overlap.
        rows: the values [K, L], dtype of the input.
    """

    at: torch.Tensor
    rows: torch.Tensor

    def laid(self, tensor: torch.Tensor) -> None:
        """Write the stretches into a contiguous tensor of the whole input, on any device."""
        import torch

        # As whole numbers of that width: not every narrow float can be written by index.
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        width = self.rows.shape[1]
        places = self.at[:, None] + torch.arange(width, dtype=torch.int64)
        values = self.rows.contiguous().view(kind).to(tensor.device)
        tensor.view(-1).view(kind)[places.to(tensor.device)] = values


def changes_of(
    target: Target, case: Case, seed: int, posed: Mapping[str, torch.Tensor] | None = None
) -> dict[str, Change]:
    """What differs from set 0 of a lesson's case where `case` gives inputs another kind of values, by name.

    At most MOST_CHANGED elements altogether are drawn, whatever the shape: the first row, the last one and others by
    the seed. A row longer than a quarter of that is changed in a stretch of it. A static input is changed whole. Raises
    as `inputs_of`.

    Args:
        posed: set 0. Of inputs that pose() makes those are changed that are plain draws, as their distribution allows.
    """
    changes: dict[str, Change] = {}
    able = [described for spec in target.inputs if (described := _described(target, spec, case, posed or {}))]
    for spec, shape, kind in able:
        key = subseed(seed, target.id, case.name, case.number, spec.name)
        most = math.prod(shape) if Flag.STATIC in spec.flags else MOST_CHANGED // len(able)
        at, width = _stretches(shape, most, key)
        part = replace(spec, dims=(str(len(at)), str(width)))
        changes[spec.name] = Change(at, _values(part, case.axes, key, kind))
    return changes


def _described(
    target: Target, spec: TensorSpec, case: Case, posed: Mapping[str, torch.Tensor]
) -> tuple[TensorSpec, Sequence[int], Values] | None:
    """An input that such a case changes, as our grammar would declare it, with its shape and the kind of its values;
    None for one that stays."""
    if spec.name not in case.values:
        return None
    kind = case.values[spec.name]
    if spec.posed:
        made = posed.get(spec.name)
        of = getattr(made, DRAWN, "")
        if made is None or not of:
            return None
        bounds = ("0", "1")  # of torch.rand; mean and deviation of torch.randn
        dtype = str(made.dtype).removeprefix("torch.")
        spec = replace(spec, dtype=dtype, distribution=of, arguments=bounds, open=False)
        kind = kind if takes(target, spec, kind) else Values.ROWS
        shape: Sequence[int] = tuple(made.shape)
    else:
        shape = catalog.shape(spec, case.axes)
    return (spec, shape, kind) if math.prod(shape) else None


def _stretches(shape: Sequence[int], most: int, key: tuple[int, int]) -> tuple[torch.Tensor, int]:
    """Where the stretches begin, and how long each is."""
    import torch

    width = shape[-1] if shape else 1
    rows = math.prod(shape) // width
    length = min(width, max(1, most // FEWEST_ROWS))
    within = -(-width // length)  # stretches of a row; the last one ends with it
    count = min(rows * (width // length), max(1, most // length))
    every = rows * within
    if count >= every:
        chosen = torch.arange(every, dtype=torch.int64)
    else:
        chance = random.Random(key[0] ^ key[1])
        picked = {0, every - 1} if count > 1 else {0}
        while len(picked) < count:
            picked.add(chance.randrange(every))
        chosen = torch.tensor(sorted(picked), dtype=torch.int64)
    row, place = chosen // within, chosen % within
    begin = torch.clamp(place * length, max=width - length)
    first = row * width + begin
    if within > 1 and width % length:  # the last stretch of a row may reach into the one before it
        apart = torch.ones_like(first, dtype=torch.bool)
        apart[1:] = first[1:] - first[:-1] >= length
        first = first[apart]
    return first, length


def _integers(count: int, below: int, key: tuple[int, int]) -> torch.Tensor:
    """`count` whole numbers from 0 to `below`, int64, from a key beside the values' own."""
    line = TensorSpec("pick", "int64", (str(count),), "integers", ("0", str(max(below, 1))))
    return drawn(line, {}, (key[0] ^ 0x9E3779B97F4A7C15, key[1]))


def _within(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounded to `dtype` without becoming infinite."""
    import torch

    most = torch.finfo(dtype).max / 4
    return wide.clamp(-most, most).to(dtype)


def _tiny(base: torch.Tensor, key: tuple[int, int]) -> torch.Tensor:
    """Signs of `base`, magnitudes from 1024 times the least normal number down to the least subnormal one."""
    import torch

    info = torch.finfo(base.dtype)
    least = float(getattr(info, "smallest_normal", info.tiny))
    steps = 10 + (10 if base.dtype is torch.float16 else 7 if base.dtype is torch.bfloat16 else 23)
    exponents = _integers(base.numel(), steps, key).reshape(base.shape).to(torch.float64)
    size = least * 1024.0 * torch.pow(torch.tensor(2.0, dtype=torch.float64), -exponents)
    return torch.where(base.to(torch.float64) < 0, -size, size).to(base.dtype)


def _sorted(base: torch.Tensor) -> torch.Tensor:
    import torch

    if not base.dim():
        return base
    if base.dtype is torch.bool or base.dtype.is_floating_point:
        wide = base.to(torch.float64)
        return wide.sort(dim=-1).values.to(base.dtype)
    return base.sort(dim=-1).values


# What follows one another down the rows: each family is met in few rows, and most rows stay as declared.
_ORDER = {
    Values.ROWS: (Values.UNIFORM, Values.SORTED, Values.CONSTANT, *[Values.DECLARED] * 3),
    Values.FAR: (Values.OUTLIERS, Values.BELOW, *[Values.DECLARED] * 2),
}


def _families(
    base: torch.Tensor, spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int], kind: Values
) -> torch.Tensor:
    """Rows (slices along the last dimension) of several families, in an order that starts anywhere.

    Only the rows that change are copied to a wider dtype: at a timed shape all of them would be gigabytes.
    """
    import torch

    width = base.shape[-1] if base.dim() else 1
    rows = base.reshape(-1, width).clone()
    order = _ORDER[kind]
    if rows.shape[0] < len(order):  # too few for declared ones among them
        order = tuple(family for family in order if family is not Values.DECLARED)
    start = int(_integers(1, len(order), key)[0])
    for place, family in enumerate(order):
        first = (place - start) % len(order)
        mine = slice(first, None, len(order))
        some = rows[mine]
        if not some.numel() or family is Values.DECLARED:
            continue
        if family is Values.UNIFORM:
            rows[mine] = _flat_rows(some, spec, axes, key)
        elif family is Values.SORTED:
            ordered = _sorted(some).to(torch.float64)  # 8-bit numbers cannot be turned round
            ordered[1::2] = ordered[1::2].flip(-1)  # every other one descends
            rows[mine] = ordered.to(base.dtype)
        elif family is Values.CONSTANT:
            rows[mine] = some[:, :1].expand(some.shape)
        elif family is Values.OUTLIERS:
            rows[mine] = _outliers(some, key, TAIL, anywhere=True)
        elif spec.distribution == "normal":
            shift = torch.full((some.shape[0], 1), SHIFT * _deviation(spec, axes), dtype=torch.float64)
            shift[1::2] *= -1.0
            rows[mine] = _within(some.to(torch.float64) + shift, base.dtype)
    return rows.reshape(base.shape)


def _deviation(spec: TensorSpec, axes: Mapping[str, int]) -> float:
    return float(catalog.evaluate(spec.arguments[1], axes)) if len(spec.arguments) > 1 else 1.0


def _flat_rows(some: torch.Tensor, spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int]) -> torch.Tensor:
    """Uniform rows with the mean and the standard deviation of what is declared; those of bounds as they are."""
    if spec.distribution == "uniform":
        return some
    low, high = 0.001, 2.0
    if spec.distribution == "normal":
        mean = float(catalog.evaluate(spec.arguments[0], axes)) if spec.arguments else 0.0
        reach = 3.0**0.5 * _deviation(spec, axes)
        low, high = mean - reach, mean + reach
    line = TensorSpec("rows", "float32", tuple(map(str, some.shape)), "uniform", ("0", "1"))
    share = drawn(line, {}, (key[0] ^ 0x5851F42D4C957F2D, key[1]))
    return (share.to(some.dtype if some.dtype.itemsize == 8 else share.dtype) * (high - low) + low).to(some.dtype)


def _outliers(base: torch.Tensor, key: tuple[int, int], factor: float, *, anywhere: bool = False) -> torch.Tensor:
    """One element in OUTLIER_EVERY, at least one a row, larger by a factor; none in the first half of a row, unless
    they may stand anywhere."""
    import torch

    if not base.dim():
        return base
    width = base.shape[-1]
    rows = base.reshape(-1, width).to(torch.float64)
    many = max(1, width // OUTLIER_EVERY)
    first = 0 if anywhere else width // 2
    room = max(1, width - first)
    at = first + _integers(rows.shape[0] * many, room, key).reshape(rows.shape[0], many)
    at = at.clamp(max=width - 1)
    spread = rows.scatter(1, at, rows.gather(1, at) * factor)
    return _within(spread, base.dtype).reshape(base.shape)


def _nonfinite(base: torch.Tensor, key: tuple[int, int]) -> torch.Tensor:
    """NaN, +inf or -inf at one to three places of the whole tensor."""
    import torch

    narrow = base.dtype.itemsize == 1  # fp8: placed in fp32, since what it does with infinities is torch's affair
    flat = base.to(torch.float32).reshape(-1) if narrow else base.reshape(-1).clone()
    numbers = _integers(7, 1 << 30, key).tolist()
    kinds = (float("nan"), float("inf"), float("-inf"))
    for place, kind in zip(numbers[1 : 2 + numbers[0] % 3], numbers[4:], strict=False):
        flat[place % flat.numel()] = kinds[kind % 3]
    if base.dtype is torch.float8_e4m3fn:  # has no infinities
        flat = torch.where(torch.isinf(flat), torch.tensor(float("nan")), flat)
    return flat.to(base.dtype).reshape(base.shape)
