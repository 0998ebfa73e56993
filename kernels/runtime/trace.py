"""What a target made of a definition does at run time: makes inputs, makes calls, asks the rule.

Inputs(...).pose     in the verifier alone: what is stored, what the definition's own code makes, what is drawn
Inputs(...).make     in every process: numbers that differ between workloads
exactly(...)         in the verifier: the reference, in the floating dtype of what it is given; in fp64 the truth
Outputs(...)         what a call returned, as tensors in the order of the definition's outputs
writes(...)          in the verifier: which inputs the reference writes into, seen by calling it
judged(...)          in the verifier: the rule of SOL-ExecBench, or that of FlashInfer-Bench
module, built        in a rung: a solution's sources
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..catalog.formats.trace_definition import PACKED, Tolerance
from ..catalog.grammar import evaluate
from . import observing, sampling

DEFINITION = "aisp_definition"
HALVES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TWO_FLOATS: torch.dtype = getattr(torch, PACKED)
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""What the lower three of four bits stand for; the fourth is the sign."""
BETWEEN = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Halfway from each to the next."""

Rule = Callable[[torch.Tensor, torch.Tensor, Tolerance], str]
"""Says of an output and of what the reference gives what is wrong; "" for nothing."""


# -- inputs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Posed:
    """An input that is more than a tensor line says.

    Attributes:
        dims: axes expressions.
        how, bounds: the draw of a random one, see `drawn`.
        packed: two floats of 4 bits lie in each of its bytes.
    """

    dtype: str
    dims: Sequence[str]
    how: str
    bounds: Sequence[float] = ()
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a definition.

    Attributes:
        workloads: the rows of the target's list.
        axis: the axis that says which of them it is; "" where they differ in their sizes alone.
        sizes: all axes of the definition, as expressions of those of a case.
        posed: inputs by name.
        numbers: dtypes of all inputs that are plain numbers, and of those that `make` gives.
        made: names of those that `make` gives.
        entry: the definition's function that makes custom inputs.
    """

    workloads: Sequence[Mapping[str, Any]]
    axis: str
    sizes: Mapping[str, str]
    posed: Mapping[str, Posed]
    numbers: Mapping[str, str]
    made: Sequence[str]
    entry: str = ""

    def pose(self, axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Every posed input, by name. Raises ValueError where one has another form than its definition says."""
        number = self._number(axes)
        shapes = {name: tuple(int(evaluate(dim, axes)) for dim in one.dims) for name, one in self.posed.items()}
        if number >= len(self.workloads):  # a case in which draws are counted
            often = {name: self._often(name, shape) for name, shape in shapes.items()}
            return {name: value.to(device) for name, value in often.items()}
        row = self.workloads[number]
        sources = row["workload"]["inputs"]
        own = self._own(axes, number, device) if any(each.get("type") == "custom" for each in sources.values()) else {}
        result = {}
        for name, one in self.posed.items():
            source, dtype, shape = sources.get(name, {}), getattr(torch, one.dtype), shapes[name]
            kind = source.get("type", "random")
            if kind == "safetensors":
                value = stored(**row["stored"][name])
            elif kind == "scalar":
                value = torch.tensor(source["value"], dtype=dtype)
            elif kind == "custom" and name in self.numbers:
                number_of = own[name].item() if isinstance(own[name], torch.Tensor) else own[name]
                value = torch.tensor(number_of, dtype=dtype)
            elif kind == "custom":
                value = unpacked(own[name]) if one.packed else own[name]
            else:
                value = drawn(one.how, one.bounds, shape, dtype, generator)
            if tuple(value.shape) != shape or value.dtype != dtype:
                form = f"{name} was made as {value.dtype} {list(value.shape)}"
                raise ValueError(f"{form}, and the definition says {dtype} {list(shape)}")
            result[name] = value.to(device)
        return result

    def make(self, axes: Mapping[str, int], device: str, generator: torch.Generator) -> dict[str, Any]:
        """Every number that differs between workloads, by name. A random one is the same in every process, whose
        generator begins alike."""
        values = self._numbers_of(self._number(axes))
        for name in self.made:
            if name not in values:
                dtype = self.numbers[name]
                whole = (-128, 128) if dtype == "int8" else (-1024, 1024)
                how = "bernoulli" if dtype == "bool" else "normal" if "float" in dtype else "integers"
                values[name] = drawn(how, whole, (), getattr(torch, dtype), generator).item()
        return {name: values[name] for name in self.made}

    def _number(self, axes: Mapping[str, int]) -> int:
        return axes[self.axis] if self.axis else 0

    def _numbers_of(self, number: int) -> dict[str, Any]:
        """The numbers that a workload gives."""
        row = self.workloads[number if number < len(self.workloads) else 0]["workload"]["inputs"]
        return {name: row[name]["value"] for name in self.numbers if row.get(name, {}).get("type") == "scalar"}

    def _own(self, axes: Mapping[str, int], number: int, device: str) -> Mapping[str, Any]:
        """What the definition's own function makes."""
        sizes: dict[str, Any] = {name: int(evaluate(dim, axes)) for name, dim in self.sizes.items()}
        module = importlib.import_module(DEFINITION)  # the author's code, which no other process imports for this
        own: Mapping[str, Any] = getattr(module, self.entry)(
            {**sizes, **self._numbers_of(number)}, torch.device(device)
        )
        return own

    def _often(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        one, dtype = self.posed[name], getattr(torch, self.posed[name].dtype)
        value = sampling.often(name, shape, dtype)
        if value is None:
            row = drawn(one.how, one.bounds, (1, *shape[1:]), dtype, torch.Generator().manual_seed(0))
            value = row.expand(shape).contiguous() if shape else row.reshape(())
        return value


def drawn(
    how: str, bounds: Sequence[float], shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """A random tensor in host memory."""
    size = list(shape)
    if how == "integers":
        return torch.randint(int(bounds[0]), int(bounds[1]), size, generator=generator).to(dtype)
    if how == "bernoulli":
        return torch.randint(0, 2, size, generator=generator).to(dtype)
    if how in ("ones", "zeros"):
        return torch.full(size, int(how == "ones"), dtype=dtype)
    if how == "causal":
        above = torch.ones(size[-2:], dtype=torch.bool).triu(1)
        return torch.zeros(size, dtype=dtype).masked_fill_(above, torch.finfo(dtype).min)
    if how == "uniform":
        low, high = bounds
        return (torch.rand(size, generator=generator) * (high - low) + low).to(dtype)
    if how == "running_sum":
        return (torch.rand(size, generator=generator) * -0.1).cumsum(-1).to(dtype)
    if how == "packed":
        return encoded(torch.randn((*size[:-1], 2 * size[-1]), generator=generator))
    value = torch.randn(size, generator=generator)
    if how == "softmax":
        value = value.softmax(-1)
    elif how == "weight":
        value = value / math.sqrt(max(1, size[-1]))
    return value.clamp(-2, 2).to(dtype) if "float8" in str(dtype) else value.to(dtype)


def stored(path: str, dtype: str, shape: Sequence[int], start: int, nbytes: int, file_bytes: int) -> torch.Tensor:
    """A tensor out of a file, of which place and size were read when the target was made. Raises ValueError where it
    has another size now."""
    with Path(path).open("rb") as file:
        if os.fstat(file.fileno()).st_size != file_bytes:
            raise ValueError(f"{path} is not what it was when the target was made")
        file.seek(start)
        data = bytearray(file.read(nbytes))
    kind = getattr(torch, dtype)
    return (torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)).reshape(list(shape))


# -- floats of 4 bits --------------------------------------------------------------------------------------------------


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """Bytes as what they hold: two floats of 4 bits each."""
    return tensor.view(TWO_FLOATS)


def unpacked(tensor: Any) -> torch.Tensor:
    """The bytes of a tensor of such floats, which is all that can be copied of one and compared. Raises TypeError."""
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != TWO_FLOATS:
        kind = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"an output is {kind}, not torch.{PACKED}")
    return tensor.view(torch.uint8)


def decoded(data: torch.Tensor) -> torch.Tensor:
    """What the bytes stand for, as float32, with twice as many along the last dimension."""
    table = torch.tensor([*E2M1, *(-each for each in E2M1)], device=data.device)
    return torch.stack((table[(data & 15).long()], table[(data >> 4).long()]), -1).flatten(-2)


def encoded(values: torch.Tensor) -> torch.Tensor:
    """The bytes of values, each as the nearest of those that 4 bits can say; of two that are as near, the even one."""
    size, between = values.abs().float(), torch.tensor(BETWEEN, device=values.device)
    below, up_to = torch.bucketize(size, between), torch.bucketize(size, between, right=True)
    codes = torch.where(up_to % 2 == 0, up_to, below).to(torch.uint8) + 8 * torch.signbit(values).to(torch.uint8)
    return codes[..., ::2] + 16 * codes[..., 1::2]


# -- calls -------------------------------------------------------------------------------------------------------------


class Outputs:
    """What calls return, by the names and dtypes of a definition's outputs."""

    def __init__(self, dtypes: Mapping[str, str]) -> None:
        self.dtypes = dtypes
        self._writes: dict[int, bool] = {}  # by the place of an input: whether calls write into it, once that is clear
        self._copied: list[int] | None = None  # places of those that lie in an input's memory, likewise

    def called(self, run: Callable[..., Any], arguments: Sequence[Any], *inputs: torch.Tensor) -> Any:
        """What a call returns, as `returned`; it may hand back an input that it writes into. Whether it may write there
        is a check's affair."""
        if self._copied is not None:
            return self.returned(run(*arguments))
        new = [place for place, each in enumerate(inputs) if each.numel() and place not in self._writes]
        before = [(inputs[place]._version, inputs[place].clone()) for place in new]
        result = run(*arguments)
        for place, (version, was) in zip(new, before, strict=True):
            self._writes[place] = inputs[place]._version != version or not observing.alike([inputs[place]], [was])
        return self.returned(result, *(each for place, each in enumerate(inputs) if not self._writes.get(place)))

    def returned(self, result: Any, *inputs: torch.Tensor) -> Any:
        """What a call returned, as tensors in the order of the outputs, each in memory of its own and contiguous: what
        is a view of an input, or lies transposed, is copied, since whoever reads it would have to."""
        if isinstance(result, dict):
            several = [result[name] for name in self.dtypes]
        else:
            several = list(result) if isinstance(result, tuple | list) else [result]
        for place, dtype in enumerate(list(self.dtypes.values())[: len(several)]):
            if dtype == PACKED:
                several[place] = unpacked(several[place])
            elif not isinstance(several[place], torch.Tensor):
                several[place] = torch.tensor(several[place], dtype=getattr(torch, dtype))
        for place in self._lying_in(several, inputs) if self._copied is None else self._copied:
            several[place] = several[place].clone(memory_format=torch.contiguous_format)
        several = [each.contiguous() if isinstance(each, torch.Tensor) else each for each in several]
        return several[0] if len(several) == 1 else tuple(several)

    def _lying_in(self, outputs: Sequence[Any], inputs: Sequence[torch.Tensor]) -> list[int]:
        """The places of the outputs that lie in an input's memory; kept for the calls that follow."""
        taken = {each.untyped_storage().data_ptr() for each in inputs if each.numel()}
        tensors = {place: each for place, each in enumerate(outputs) if isinstance(each, torch.Tensor)}
        places = [place for place, each in tensors.items() if each.untyped_storage().data_ptr() in taken]
        if all(each.numel() for each in (*tensors.values(), *inputs)):
            self._copied = places
        return places


def writes(called: Callable[[Any], Any], inputs: Mapping[str, Any], device: str) -> list[str]:
    """Names of the inputs that the reference writes into, which a solution may then do as well: seen in a call on
    copies. None where it fails: its error shows where its outputs are needed."""
    names = [name for name, each in inputs.items() if isinstance(each, torch.Tensor)]

    def kernel(tensors: Sequence[torch.Tensor]) -> None:  # what it returns, the rule judges
        called({**inputs, **dict(zip(names, tensors, strict=True))})

    settle = functools.partial(torch.manual_seed, 0)
    seen = observing.observe(kernel, list, [inputs[name] for name in names], device, settle)
    written = [names[number] for number in sorted(seen.writable)]
    if written:
        print(f"reference: it writes into {', '.join(written)}; a solution may write there as well")  # noqa: T201
    return written


def seeded(seed: torch.Tensor) -> None:
    """Begin PyTorch's random numbers anew, so that a call draws what it drew before behind this seed."""
    torch.manual_seed(int(seed))


def empty(shape: Sequence[int], dtype: str, like: Any) -> torch.Tensor:
    """An output to be written into: where the first tensor of a call lies, and without one on the run's GPU."""
    usual = "cuda" if torch.cuda.is_initialized() else "cpu"
    device = like.device if isinstance(like, torch.Tensor) else usual
    return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=device)


class Lifted(TorchFunctionMode):
    """Every cast to a floating dtype of 16 bits or more is one to `dtype`; casts to fewer bits stay."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.double):
            return args[0].to(self.dtype)
        if func is torch.Tensor.view and isinstance(args[-1], torch.dtype):
            if args[0].dtype not in (TWO_FLOATS, torch.uint8):  # which have the same bits whatever is computed in
                raise TypeError("the bits of a tensor are read, which another dtype does not have")
            return func(*args, **kwargs)
        return func(*map(self._of, args), **{name: self._of(value) for name, value in kwargs.items()})

    def _of(self, value: Any) -> Any:
        return self.dtype if isinstance(value, torch.dtype) and value in HALVES else value


def exactly(run: Callable[..., Any], outputs: Outputs, declared: Sequence[str], *arguments: Any) -> Any:
    """What the reference gives, computed in the floating dtype of what it is given, whatever it casts to.

    A reference that cannot be had so is computed in the definition's own dtypes, which is printed.

    Args:
        declared: dtypes of the arguments; "" of a number, and of what is packed.
    """
    pairs = [(value, getattr(torch, name, None)) for value, name in zip(arguments, declared, strict=True)]
    wide = [value.dtype for value, dtype in pairs if dtype and value.is_floating_point() and value.dtype != dtype]
    if not wide:
        return outputs.returned(run(*arguments))
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(wide[0])
        with Lifted(wide[0]):
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in arguments]
            return outputs.returned(run(*copies))
    except (RuntimeError, TypeError, AssertionError, ValueError):
        if wide[0] != torch.float64:
            raise
    finally:
        torch.set_default_dtype(usual)
    narrow = [
        value.to(getattr(torch, name)) if name else value for value, name in zip(arguments, declared, strict=True)
    ]
    result = outputs.returned(run(*narrow))
    print("reference: it does not compute in float64; the truth is that of its own dtypes")  # noqa: T201
    several = result if isinstance(result, tuple) else (result,)
    lifted = tuple(value.double() if value.is_floating_point() else value for value in several)
    return lifted if len(lifted) > 1 else lifted[0]


# -- sources of a solution ---------------------------------------------------------------------------------------------


def module(file: str, folder: str, name: str) -> Any:
    """A module of the solution in a folder beside `file`, which its other modules are imported from."""
    sys.path.insert(0, str(Path(file).with_name(folder)))
    return importlib.import_module(f"{folder}.{name}")


def built(file: str, folder: str, binding: str, sources: Sequence[str], flags: Sequence[Sequence[str]]) -> Any:
    """What the C++ and CUDA sources in a folder beside `file` make; compiled once for each content.

    Args:
        flags: of the C++ compiler, of nvcc, and of the linker.
    """
    place = Path(file).with_name(folder)
    digest = hashlib.sha256(repr((binding, flags)).encode())
    for path in sorted(place.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(place)}\0".encode() + path.read_bytes())
    name = f"aisp_{digest.hexdigest()}"
    options: dict[str, Any] = {
        "name": name,
        "sources": [str(place / source) for source in sources],
        "extra_include_paths": [str(place)],
        **dict(zip(("extra_cflags", "extra_cuda_cflags", "extra_ldflags"), map(list, flags), strict=True)),
    }
    if binding == "torch":
        from torch.utils import cpp_extension  # only where something is compiled

        return cpp_extension.load(**options)
    ffi = importlib.import_module("tvm_ffi.cpp")
    cache = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or place.parent) / name
    cache.mkdir(parents=True, exist_ok=True)
    return ffi.load(**options, build_directory=str(cache))


# -- the benchmark's rule ----------------------------------------------------------------------------------------------


def judged(
    rule: Rule, dtypes: Mapping[str, str], allowed: Tolerance, outputs: Sequence[torch.Tensor], reference: Any
) -> str | None:
    """What is wrong with outputs by the benchmark's rule; None for nothing.

    Args:
        dtypes: by the names of outputs.
        reference: what the definition's own code gives in its own dtypes.
    """
    several = reference if isinstance(reference, tuple) else (reference,)
    for (name, dtype), output, truth in zip(dtypes.items(), outputs, several, strict=False):
        if output.shape != truth.shape:
            return f"{name} has the shape {list(output.shape)}, not {list(truth.shape)}"
        if output.dtype != truth.dtype:
            return f"{name} is {output.dtype}, not {truth.dtype}"
        one, other = (decoded(each) if dtype == PACKED else each.float() for each in (output, truth.to(output.device)))
        if wrong := rule(one, other, allowed):
            return f"{name}: {wrong}{_at_worst(one, other) if dtype == PACKED else ''}"
    return None


def _at_worst(output: torch.Tensor, truth: torch.Tensor) -> str:
    """Where the two are farthest apart, and what they are there."""
    place = int((output - truth).abs().argmax())
    index = [int(each) for each in torch.unravel_index(torch.tensor(place), output.shape)]
    return f", at {index}: {output.flatten()[place]:g}, and the reference has {truth.flatten()[place]:g}"


def either(output: torch.Tensor, truth: torch.Tensor, allowed: Tolerance) -> str:
    """FlashInfer-Bench: an element fails where both its absolute and its relative error are too large."""
    if not torch.isfinite(output).all():
        return "it is not finite everywhere"
    error = (output - truth).abs()
    failing = (error > allowed.absolute) & (error / (truth.abs() + 1e-8) > allowed.relative)
    return _too_many(failing, error, allowed)


def sum_of_both(output: torch.Tensor, truth: torch.Tensor, allowed: Tolerance) -> str:
    """SOL-ExecBench: an element fails where its error is above absolute + relative * |truth|."""
    lowest = (output == -torch.inf) & (truth == -torch.inf) & allowed.negative_inf
    if not (torch.isfinite(output) | lowest).all() or not (torch.isfinite(truth) | lowest).all():
        return "it is not finite everywhere"
    output, truth = output[~lowest], truth[~lowest]
    if truth.any() and not output.any():
        return "it is zero everywhere"
    error = (output - truth).abs()
    if allowed.cap is not None and error.numel() and float(error.max()) > allowed.cap:
        return f"an error of {float(error.max()):.3g} is above {allowed.cap:g}"
    return _too_many(error > allowed.absolute + allowed.relative * truth.abs(), error, allowed)


def _too_many(failing: torch.Tensor, error: torch.Tensor, allowed: Tolerance) -> str:
    matched = 1.0 - float(failing.sum()) / max(failing.numel(), 1)
    if matched >= allowed.matched:
        return ""
    largest = f"the largest error is {float(error.max()):.3g}"
    return f"{matched:.4%} of the elements match, {allowed.matched:.4%} must; {largest}"
