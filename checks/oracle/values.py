"""A case's input values: the same bytes for the same seed, case and target on every machine.

Each kind of values stays within what the input's declaration allows (schema.takes). The bits come from NumPy's Philox
with a key per input (checks.inputs); what follows is arithmetic that IEEE 754 fixes to the last bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from checks import inputs as checks_inputs
from checks.inputs import subseed
from checks.oracle.schema import Case, Layout, Values, retyped
from kernels import catalog
from kernels.catalog.model import Target, TensorSpec

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
        return _outliers(drawn, spec.dtype, key)
    if kind is Values.NONFINITE:
        return _nonfinite(drawn, key)
    if kind is Values.EXTREMES:
        low, high = (int(catalog.evaluate(text, axes)) for text in spec.arguments)
        pick = _integers(drawn.numel(), 2, key).reshape(drawn.shape)
        return torch.where(pick == 0, low, high - 1).to(drawn.dtype)
    raise checks_inputs.InputsError(f"{spec.name}: no values are known for the kind {kind}")


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


def _outliers(drawn: torch.Tensor, dtype: str, key: tuple[int, int]) -> torch.Tensor:
    """One element in OUTLIER_EVERY, at least one a row, far larger; none in the first half of a row."""
    import torch

    if not drawn.dim():
        return drawn
    width = drawn.shape[-1]
    rows = drawn.reshape(-1, width).to(torch.float64)
    many = max(1, width // OUTLIER_EVERY)
    room = max(1, width - width // 2)
    at = width // 2 + _integers(rows.shape[0] * many, room, key).reshape(rows.shape[0], many)
    at = at.clamp(max=width - 1)
    factor = OUTLIER.get(dtype, OUTLIER_OTHERS)
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
