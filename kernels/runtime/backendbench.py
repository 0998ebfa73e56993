"""What a target of an operator of ATen does at run time: makes the arguments of its calls, and calls it.

    traced(call, ...)         in the verifier alone: arguments as a line of a trace says
    sampled(operator, ...)    there too: those of a sample of torch's own OpInfo
    exactly(operator, ...)    there too: what the operator gives, in fp64 where it can be had
    prepared(function, ...)   in a rung: the operator, or an implementation of it, called

What the operator does is seen by calling it when the first values of a case are made. One that writes into its
arguments gets copies of them in each call, and what lies in their memory is copied when it is returned: of the operator
and of an implementation of it alike. One that draws is refused.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from . import observing, packing
from .gpumode import TaskError

DTYPES = (torch.bfloat16, torch.float32)
ENOUGH = 64
"""Samples: no more entries are asked then."""

Call = tuple[Sequence[Any], Mapping[str, Any]]
"""The arguments of a call, and those by name."""
Inputs = dict[str, torch.Tensor]
_seen: dict[str, dict[str, bool]] = {}
"""By what the arguments are: whether the operator writes into them, and returns what lies in their memory."""
_copies = functools.partial(tree_map_only, torch.Tensor)


def operator(base: str, overload: str) -> Any:
    """The operator. Raises LookupError, with what there is."""
    packet = getattr(torch.ops.aten, base, None)
    if packet is None:
        raise LookupError(f"aten has no operator {base}")
    if overload not in packet.overloads():
        raise LookupError(f"aten.{base} has no overload {overload}; {_others(packet, overload)}")
    return getattr(packet, overload)


def _others(packet: Any, overload: str) -> str:
    """How a file of another overload is called, as an example of those that there are."""
    names = [name for name in packet.overloads() if name != overload and not name.endswith("out")]
    names.sort(key=lambda name: (name != "Tensor", name))
    return f"an overload is named as in {packet.__name__}__{names[0]}" if names else "it has none but that"


# -- calls -------------------------------------------------------------------------------------------------------------


def prepared(function: Callable[..., Any], *inputs: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
    """What is timed of a rung: the operator, or what implements it, called with what the inputs hold."""
    call = packing.from_bytes(inputs[0])
    called = functools.partial(_on_copies, function) if call["writes"] else function
    if call["returns"]:
        called = functools.partial(_apart, called)
    return packing.prepared(lambda *args: called, *inputs)


def exactly(of: Any, call: torch.Tensor, *slots: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the operator gives in the dtype of its arguments; where it has no fp64, what it gives in fp32."""
    args, kwargs = packing.reader(call)(*slots)
    try:
        return packing.flat(_on_copies(of, *args, **kwargs))
    except (RuntimeError, NotImplementedError):
        if all(each.dtype != torch.float64 for each in _tensors([*args, kwargs])):
            raise
    narrow = _copies(lambda tensor: tensor.float() if tensor.dtype == torch.float64 else tensor, [args, kwargs])
    print("reference: the operator does not compute in float64; the truth is that of float32")  # noqa: T201
    result = packing.flat(_on_copies(of, *narrow[0], **narrow[1]))
    return tuple([each.double() if each.is_floating_point() else each for each in result])


def _tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def _apart(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    return [each.clone() for each in packing.flat(function(*args, **kwargs))]


def _on_copies(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*_copies(torch.clone, args), **_copies(torch.clone, kwargs))


# -- arguments ---------------------------------------------------------------------------------------------------------


def posed(of: Any, names: Sequence[str], device: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
    """The inputs of a run for a call. Raises PackError where they cannot be carried, TaskError where what the operator
    returns cannot be judged."""
    inputs = packing.pack(names, args, kwargs)
    call = packing.from_bytes(inputs[names[0]])
    if (key := repr(call)) not in _seen:
        leaves, tree = tree_flatten([list(args), kwargs])
        places = [place for place, each in enumerate(leaves) if isinstance(each, torch.Tensor)]

        def made(tensors: Sequence[torch.Tensor]) -> Any:
            moved = dict(zip(places, tensors, strict=True))
            return tree_unflatten([moved.get(place, each) for place, each in enumerate(leaves)], tree)

        settle = functools.partial(torch.manual_seed, 0)
        tensors = [leaves[place] for place in places]
        seen = observing.observe(lambda call: of(*call[0], **call[1]), made, tensors, device, settle)
        if seen.draws or seen.unwritten:
            why = "draws its values" if seen.draws else "returns memory that nobody has written"
            raise TaskError(f"{of} {why}: there is no one right answer; take another operator")
        _seen[key] = {"writes": bool(seen.wrote), "returns": bool(seen.returned)}
    return {**inputs, names[0]: packing.as_bytes(call | _seen[key])}


# -- lines of a trace --------------------------------------------------------------------------------------------------


def traced(of: Any, names: Sequence[str], device: str, call: Mapping[str, Any], generator: torch.Generator) -> Inputs:
    """The inputs of a run for a call that a trace has: floats are uniform(0, 1), whole numbers small."""

    def tensor(kind: str, form: tuple[Any, str, Any]) -> packing.Taker:
        return lambda slots: _drawn(*form, generator)

    args = [packing.taker(each, tensor)(()) for each in call["args"]]
    kwargs = {name: packing.taker(each, tensor)(()) for name, each in call["kwargs"].items()}
    return posed(of, names, device, args, kwargs)


def _drawn(size: Sequence[int], dtype: str, stride: Sequence[int] | None, generator: torch.Generator) -> torch.Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    held = list(size)
    if stride is not None:
        held = [0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))]
    if kind.is_floating_point:
        made = torch.rand(held, generator=generator).to(kind)
    elif kind is torch.bool:
        made = torch.randint(0, 2, held, generator=generator).bool()
    else:
        made = torch.randint(0 if kind is torch.uint8 else -9, 10, held, generator=generator).to(kind)
    return made if stride is None else torch.as_strided(made, list(size), list(stride))


# -- samples -----------------------------------------------------------------------------------------------------------


class Calls(TorchDispatchMode):
    """Remembers the calls of operators, with copies of their arguments as they were before."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Any, Call]] = []

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.made.append((func, (_copies(_as_it_lies, list(args)), _copies(_as_it_lies, kwargs))))
        return func(*args, **kwargs)


def _as_it_lies(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides that it has."""
    if any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)):
        return tensor.detach()
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def sampled(of: Any, names: Sequence[str], device: str, number: int) -> Inputs:
    """The inputs of a run for sample `number`, counted round, the largest first. Raises LookupError without one."""
    sizes = []
    for entry in _entries(of):
        for args, kwargs in _samples(of, entry):
            try:
                packing.pack(names, args, kwargs)
            except packing.PackError:  # more tensors than there are inputs, or of a dtype that has no name here
                continue
            sizes.append((max((each.numel() for each in _tensors([args, kwargs])), default=0), args, kwargs))
        if len(sizes) >= ENOUGH:
            break
    if not sizes:
        others = _others(of.overloadpacket, of._overloadname)
        raise LookupError(f"OpInfo has no sample that is one call of {of}; {others}")
    sizes.sort(key=lambda size: -size[0])
    return posed(of, names, device, *sizes[number % len(sizes)][1:])


@functools.cache
def _entries(of: Any) -> list[Any]:
    """Entries of OpInfo that call the operator, of those that are named like it, else of those whose names share the
    beginning of a word with its own."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db  # thousands of entries
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"OpInfo needs the package {error.name}: pip install {error.name}") from None
    base = of.overloadpacket.__name__.strip("_").removeprefix("native_")
    near = [entry for entry in op_db if base in (entry.name.rpartition(".")[2], getattr(entry, "aten_name", ""))]
    words = [word[:4] for word in base.split("_") if len(word) > 2]
    far = [entry for entry in op_db if any(word in entry.name for word in words)]
    for entries in (near, far):
        if able := [entry for entry in entries if any(True for _ in _samples(of, entry))]:
            return able
    return []


def _samples(of: Any, entry: Any) -> Iterator[Call]:
    """Arguments of the operator, as the samples of an entry call it, or its twin that writes into none of them."""
    plain = getattr(torch.ops.aten, of.overloadpacket.__name__.removesuffix("_"), None)
    twin = getattr(plain, of._overloadname, None)
    for dtype in DTYPES:
        try:
            samples = list(entry.sample_inputs("cpu", dtype)) if entry.supports_dtype(dtype, "cpu") else []
        except Exception:  # an entry that wants what is not here
            continue
        for sample in samples:
            try:
                with Calls() as calls, torch.no_grad(), warnings.catch_warnings(action="ignore"):
                    entry.op(sample.input, *sample.args, **sample.kwargs)
                ((function, (args, kwargs)),) = calls.made
                if function is of or function is twin:
                    _on_copies(of, *args, **kwargs)
                    yield args, kwargs
            except Exception:  # several calls, a sample that is meant to fail, or what the twin alone can do
                continue
