"""Inputs from a seed: the same bytes for the same seed, target, case and set, on every machine.

Values come from NumPy's Philox, a counter-based generator. Each input has a key of its own, a keyed hash of the
seed, the case, the set's number and the input's name, so that adding an input or a dimension shifts no other.
Large inputs are made in blocks of `BLOCK_ELEMENTS`, each with its own counter range, by several threads: the
bytes do not depend on how many.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case, Target, TensorSpec

if TYPE_CHECKING:
    import torch

BLOCK_ELEMENTS = 1 << 20


class InputsError(Exception):
    """The target's inputs cannot be made; the message names the input and the fix."""


def subseed(seed: int, *names: object) -> tuple[int, int]:
    """A 128-bit key for one purpose, as two 64-bit words, from the master seed and the purpose's names."""
    text = "\x1f".join(str(name) for name in names).encode()
    digest = hashlib.blake2b(text, key=seed.to_bytes(16, "little", signed=False), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def _blocks(
    count: int, key: tuple[int, int], dtype: npt.DTypeLike, fill: Callable[[np.random.Generator, int], Any]
) -> npt.NDArray[Any]:
    """An array of `count` values, filled block by block from counters of their own."""
    out = np.empty(count, dtype)

    def work(block: int) -> None:
        start = block * BLOCK_ELEMENTS
        size = min(BLOCK_ELEMENTS, count - start)
        # The counter's highest word numbers the block, so that no two blocks can overlap.
        bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([0, 0, 0, block], np.uint64))
        out[start : start + size] = fill(np.random.Generator(bits), size)

    blocks = range(math.ceil(count / BLOCK_ELEMENTS))
    if len(blocks) > 1:
        with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1, 16)) as pool:
            list(pool.map(work, blocks))
    else:
        for block in blocks:
            work(block)
    return out


def values(spec: TensorSpec, axes: Mapping[str, int], key: tuple[int, int]) -> torch.Tensor:
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
    wide = np.float64 if spec.dtype == "float64" else np.float32
    array: npt.NDArray[Any]
    if kind == "normal":
        mean, std = argument(0, 0.0), argument(1, 1.0)
        array = _blocks(count, key, wide, lambda g, n: g.standard_normal(n, wide))
        if (mean, std) != (0.0, 1.0):
            array = array * wide(std) + wide(mean)
    elif kind == "uniform":
        low, high = argument(0, 0.0), argument(1, 1.0)
        array = _blocks(count, key, wide, lambda g, n: g.random(n, wide))
        # Rounding, to `wide` or to a narrower dtype, must not reach the excluded end.
        array = np.minimum(array * wide(high - low) + wide(low), wide(max(_below(high, dtype), low)))
    elif kind == "positive":
        array = _blocks(count, key, wide, lambda g, n: np.abs(g.standard_normal(n, wide)) + wide(1e-3))
    elif kind == "integers":
        low_i, high_i = int(arguments[0]), int(arguments[1])
        if high_i <= low_i:
            raise InputsError(f"{spec.name}: integers({low_i}, {high_i}) is empty; the upper end is exclusive")
        array = _blocks(count, key, np.int64, lambda g, n: g.integers(low_i, high_i, n, np.int64))
    elif kind == "permutation":
        bits = np.random.Philox(key=np.array(key, np.uint64))
        array = np.random.Generator(bits).permutation(count).astype(np.int64)
    elif kind == "bernoulli":
        p = argument(0, 0.5)
        array = _blocks(count, key, np.bool_, lambda g, n: g.random(n) < p)
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


def grammar_inputs(target: Target, case: Case, seed: int, set_index: int) -> dict[str, torch.Tensor]:
    """Every input that the grammar describes, by name. Static ones are the same in all sets."""
    made: dict[str, torch.Tensor] = {}
    for spec in target.inputs:
        if spec.made:
            continue
        number = 0 if "static" in spec.flags else set_index
        made[spec.name] = values(spec, case.axes, subseed(seed, target.id, case.name, number, spec.name))
    return made


def changed_inputs(target: Target, case: Case, seed: int, set_index: int, like: int) -> dict[str, torch.Tensor]:
    """The values of set `like`, but one element of every input that is not static has another value.

    Which element, and what it becomes, follow from the seed and `set_index`. A permutation has two of its elements
    exchanged. An input with one value only (ones, an empty one) stays as it is.
    """
    found = grammar_inputs(target, case, seed, like)
    others = grammar_inputs(target, case, seed, set_index)
    for spec in target.inputs:
        if spec.made or "static" in spec.flags or not found[spec.name].numel():
            continue
        flat, other = found[spec.name].reshape(-1), others[spec.name].reshape(-1)
        word = subseed(seed, target.id, case.name, set_index, spec.name, "changed")[0]
        place = word % flat.numel()
        if spec.distribution == "permutation":
            partner = (place + 1) % flat.numel()
            flat[place], flat[partner] = flat[partner].clone(), flat[place].clone()
            continue
        # The first value of the other set, from there on, that is not what stands here.
        differing = (other != flat[place]).nonzero().reshape(-1)
        if differing.numel():
            flat[place] = other[differing[word % differing.numel()]]
    return found


def made_inputs(
    target: Target, case: Case, seed: int, device: str, make: Callable[..., Mapping[str, object]]
) -> dict[str, object]:
    """What the target's own `inputs.make(axes, device, generator)` makes, by name.

    The generator lives on the CPU and is seeded the same everywhere, so that worker and verifier get the same
    weights; `make` moves them to `device` itself.

    Raises:
        InputsError: make returned something else than the declared names.
    """
    import torch

    generator = torch.Generator("cpu").manual_seed(subseed(seed, target.id, case.name, "made")[0] >> 1)
    result = make(dict(case.axes), device, generator)
    wanted = {spec.name for spec in target.inputs if spec.made}
    if not isinstance(result, Mapping) or set(result) != wanted:
        given = sorted(result) if isinstance(result, Mapping) else type(result).__name__
        raise InputsError(f"inputs.py: make() returned {given}; it must return a dict of {sorted(wanted)}")
    return dict(result)
