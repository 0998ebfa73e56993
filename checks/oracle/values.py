"""A case's input values: the same bytes for the same seed, case and target on every machine.

Each kind of values stays within what the input's declaration allows (schema.takes). The bits come from NumPy's Philox
with a key per input (checks.inputs); what follows is arithmetic that IEEE 754 fixes to the last bit.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aisp.checks import inputs as checks_inputs
from aisp.checks.inputs import subseed
from aisp.checks.oracle.schema import Case, Layout, Values, retyped
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case as NamedCase
from aisp.kernels.catalog.model import Target, TensorSpec

if TYPE_CHECKING:
    import torch

# Factors on declared values: squares and short sums of them stay finite in fp32, products do not in fp16.
LARGE = {"float16": 2.0**9, "float8_e4m3fn": 2.0**6}
LARGE_OTHERS = 2.0**13
OUTLIER = {"float16": 2.0**6, "float8_e4m3fn": 2.0**4}
OUTLIER_OTHERS = 2.0**10
OUTLIER_EVERY = 64
BELOW = 128.0  # exp(-128) is zero in fp32
SMALL_INTEGER = 4
# Heavy tails that leave a scale: one element in OUTLIER_EVERY of a row is this much larger, and the row's RMS doubles.
TAIL = 16.0
SHIFT = 4.0  # standard deviations
MOST_CHANGED = 1 << 18  # elements that another family of values changes at a timed shape, all inputs together
FEWEST_ROWS = 4  # or as many stretches of rows


def inputs_of(target: Target, case: Case, seed: int) -> dict[str, torch.Tensor]:
    """Every input that the grammar describes, contiguous in host memory, by name.

    Raises:
        InputsError: a distribution cannot give this dtype.
        GrammarError: a shape has no value for the case's axes.
    """
    found: dict[str, torch.Tensor] = {}
    for spec in target.inputs:
        if spec.made:
            continue
        own = replace(spec, dtype=retyped(target, spec, case.dtype))
        key = subseed(seed, target.id, case.strategy, case.number, "value", spec.name)
        kind = case.values.get(spec.name, Values.DECLARED)
        tensor = _values(own, case.axes, key, kind)
        if case.layouts.get(spec.name) is Layout.EXPANDED and tensor.numel():
            tensor = tensor[:1].expand(tensor.shape).contiguous()
        found[spec.name] = tensor
    return found


def gradients_of(
    target: Target, case: Case, seed: int, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, torch.Tensor]:
    """Random gradients of the floating outputs, normal(0, 1) in each one's dtype, as "g_<output>"."""
    found: dict[str, torch.Tensor] = {}
    for spec in target.outputs:
        if "float" not in spec.dtype:
            continue
        dtype = retyped(target, spec, case.dtype)
        dims = tuple(str(n) for n in shapes[spec.name])
        line = TensorSpec(f"g_{spec.name}", dtype, dims, "normal", ("0", "1"))
        key = subseed(seed, target.id, case.strategy, case.number, "gradient", spec.name)
        found[line.name] = checks_inputs.values(line, {}, key)
    return found


def digest(tensor: torch.Tensor) -> str:
    """sha256 over a tensor's values, contiguous, in little-endian order, behind its dtype and shape."""
    import torch

    hashed = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}".encode())
    if tensor.numel():
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        hashed.update(flat.view(torch.uint8).numpy().data)
    return hashed.hexdigest()


def _values(spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int], kind: Values) -> torch.Tensor:
    import torch

    if kind is Values.UNIFORM and spec.distribution == "normal":
        mean, std = (catalog.evaluate(text, axes) for text in spec.arguments)
        flat = replace(spec, distribution="uniform", arguments=("-1", "1"))
        drawn = checks_inputs.values(replace(flat, dtype="float64"), axes, key)
        return (drawn * float(std) + float(mean)).to(getattr(torch, spec.dtype))
    if kind is Values.UNIFORM:
        return checks_inputs.values(replace(spec, distribution="uniform", arguments=("0.001", "1")), axes, key)
    if kind is Values.INTEGERS:
        whole = replace(
            spec, dtype="int64", distribution="integers", arguments=(str(-SMALL_INTEGER), str(SMALL_INTEGER + 1))
        )
        return checks_inputs.values(whole, axes, key).to(getattr(torch, spec.dtype))
    drawn = checks_inputs.values(spec, axes, key)
    if not drawn.numel() or kind is Values.DECLARED:
        return drawn
    if kind is Values.LARGE:
        return _within(drawn.to(torch.float64) * LARGE.get(spec.dtype, LARGE_OTHERS), drawn.dtype)
    if kind is Values.BELOW:
        return (-BELOW - drawn.to(torch.float64).abs()).to(drawn.dtype)
    if kind is Values.TINY:
        return _tiny(drawn, key)
    if kind is Values.CONSTANT:
        return drawn.reshape(-1)[:1].expand(drawn.numel()).reshape(drawn.shape).contiguous()
    if kind is Values.SORTED:
        return _sorted(drawn)
    if kind is Values.TIES:
        flat = drawn.reshape(-1)
        chosen = flat[_integers(flat.numel(), min(3, flat.numel()), key)]
        return chosen.reshape(drawn.shape).contiguous()
    if kind is Values.OUTLIERS:
        return _outliers(drawn, key, OUTLIER.get(spec.dtype, OUTLIER_OTHERS))
    if kind is Values.NONFINITE:
        return _nonfinite(drawn, key)
    if kind in (Values.ROWS, Values.FAR):
        return _families(drawn, spec, axes, key, kind)
    if kind is Values.EXTREMES:
        low, high = (int(catalog.evaluate(text, axes)) for text in spec.arguments)
        pick = _integers(drawn.numel(), 2, key).reshape(drawn.shape)
        return torch.where(pick == 0, low, high - 1).to(drawn.dtype)
    raise checks_inputs.InputsError(f"{spec.name}: no values are known for the kind {kind}")


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


def changes_of(target: Target, case: NamedCase, drawn: Case, seed: int, set_index: int) -> dict[str, Change]:
    """What differs from set 0 of a named case where `drawn` gives inputs another kind of values, by name.

    At most MOST_CHANGED elements altogether are drawn, whatever the shape: the first row, the last one and others by
    the seed. A row longer than a quarter of that is changed in a stretch of it. Raises as `inputs_of`.
    """
    found: dict[str, Change] = {}
    kinds = {name: kind for name, kind in drawn.values.items() if kind is not Values.DECLARED}
    for spec in target.inputs:
        if spec.name not in kinds:
            continue
        shape = catalog.shape(spec, case.axes)
        if not math.prod(shape):
            continue
        key = subseed(seed, target.id, case.name, set_index, spec.name)
        at, width = _stretches(shape, MOST_CHANGED // len(kinds), key)
        part = replace(spec, dims=(str(len(at)), str(width)))
        found[spec.name] = Change(at, _values(part, case.axes, key, kinds[spec.name]))
    return found


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


def timed_inputs(target: Target, case: NamedCase, drawn: Case, seed: int, set_index: int) -> dict[str, torch.Tensor]:
    """Set 0 of a named case with the changes of `changes_of`, in host memory. Raises as `inputs_of`."""
    found = checks_inputs.grammar_inputs(target, case, seed, 0)
    for name, change in changes_of(target, case, drawn, seed, set_index).items():
        change.laid(found[name])
    return found


def _integers(count: int, below: int, key: tuple[int, int]) -> torch.Tensor:
    """`count` whole numbers from 0 to `below`, int64, from a key beside the values' own."""
    line = TensorSpec("pick", "int64", (str(count),), "integers", ("0", str(max(below, 1))))
    return checks_inputs.values(line, {}, (key[0] ^ 0x9E3779B97F4A7C15, key[1]))


def _within(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounded to `dtype` without becoming infinite."""
    import torch

    most = torch.finfo(dtype).max / 4
    return wide.clamp(-most, most).to(dtype)


def _tiny(drawn: torch.Tensor, key: tuple[int, int]) -> torch.Tensor:
    """Signs of `drawn`, magnitudes from 1024 times the least normal number down to the least subnormal one."""
    import torch

    info = torch.finfo(drawn.dtype)
    least = float(getattr(info, "smallest_normal", info.tiny))
    steps = 10 + (10 if drawn.dtype is torch.float16 else 7 if drawn.dtype is torch.bfloat16 else 23)
    exponents = _integers(drawn.numel(), steps, key).reshape(drawn.shape).to(torch.float64)
    size = least * 1024.0 * torch.pow(torch.tensor(2.0, dtype=torch.float64), -exponents)
    return torch.where(drawn.to(torch.float64) < 0, -size, size).to(drawn.dtype)


def _sorted(drawn: torch.Tensor) -> torch.Tensor:
    import torch

    if not drawn.dim():
        return drawn
    if drawn.dtype is torch.bool or drawn.dtype.is_floating_point:
        wide = drawn.to(torch.float64)
        return wide.sort(dim=-1).values.to(drawn.dtype)
    return drawn.sort(dim=-1).values


# What follows one another down the rows: each family is met in few rows, and most rows stay as declared.
_ORDER = {
    Values.ROWS: (Values.UNIFORM, Values.SORTED, Values.CONSTANT, *[Values.DECLARED] * 3),
    Values.FAR: (Values.OUTLIERS, Values.BELOW, *[Values.DECLARED] * 2),
}


def _families(
    drawn: torch.Tensor, spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int], kind: Values
) -> torch.Tensor:
    """Rows (slices along the last dimension) of several families, in an order that starts anywhere.

    Only the rows that change are copied to a wider dtype: at a timed shape all of them would be gigabytes.
    """
    import torch

    width = drawn.shape[-1] if drawn.dim() else 1
    rows = drawn.reshape(-1, width).clone()
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
            rows[mine] = ordered.to(drawn.dtype)
        elif family is Values.CONSTANT:
            rows[mine] = some[:, :1].expand(some.shape)
        elif family is Values.OUTLIERS:
            rows[mine] = _outliers(some, key, TAIL, anywhere=True)
        elif spec.distribution == "normal":
            shift = torch.full((some.shape[0], 1), SHIFT * _deviation(spec, axes), dtype=torch.float64)
            shift[1::2] *= -1.0
            rows[mine] = _within(some.to(torch.float64) + shift, drawn.dtype)
    return rows.reshape(drawn.shape)


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
    share = checks_inputs.values(line, {}, (key[0] ^ 0x5851F42D4C957F2D, key[1]))
    return (share.to(some.dtype if some.dtype.itemsize == 8 else share.dtype) * (high - low) + low).to(some.dtype)


def _outliers(drawn: torch.Tensor, key: tuple[int, int], factor: float, *, anywhere: bool = False) -> torch.Tensor:
    """One element in OUTLIER_EVERY, at least one a row, larger by a factor; none in the first half of a row, unless
    they may stand anywhere."""
    import torch

    if not drawn.dim():
        return drawn
    width = drawn.shape[-1]
    rows = drawn.reshape(-1, width).to(torch.float64)
    many = max(1, width // OUTLIER_EVERY)
    first = 0 if anywhere else width // 2
    room = max(1, width - first)
    at = first + _integers(rows.shape[0] * many, room, key).reshape(rows.shape[0], many)
    at = at.clamp(max=width - 1)
    spread = rows.scatter(1, at, rows.gather(1, at) * factor)
    return _within(spread, drawn.dtype).reshape(drawn.shape)


def _nonfinite(drawn: torch.Tensor, key: tuple[int, int]) -> torch.Tensor:
    """NaN, +inf or -inf at one to three places of the whole tensor."""
    import torch

    narrow = drawn.dtype.itemsize == 1  # fp8: placed in fp32, since what it does with infinities is torch's affair
    flat = drawn.to(torch.float32).reshape(-1) if narrow else drawn.reshape(-1).clone()
    numbers = _integers(7, 1 << 30, key).tolist()
    kinds = (float("nan"), float("inf"), float("-inf"))
    for place, kind in zip(numbers[1 : 2 + numbers[0] % 3], numbers[4:], strict=False):
        flat[place % flat.numel()] = kinds[kind % 3]
    if drawn.dtype is torch.float8_e4m3fn:  # has no infinities
        flat = torch.where(torch.isinf(flat), torch.tensor(float("nan")), flat)
    return flat.to(drawn.dtype).reshape(drawn.shape)
