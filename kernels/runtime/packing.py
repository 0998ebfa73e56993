"""How a call's arguments travel: tensors in slots, all else as text in a tensor of bytes.

`pack` is called in the verifier alone, where a problem's own code made the arguments; `reader` puts them together again
in every process. Nothing of the text is evaluated.
"""

from __future__ import annotations

import contextlib
import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "uint8", "int16", "int32", "int64", "bool"),
)
SEVERAL: Mapping[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
TORCH = (torch.dtype, torch.layout, torch.memory_format, torch.device)

Taker = Callable[[Sequence[Any]], Any]
"""What takes a value out of the tensors in the slots."""
Other = Callable[[str, Any], Taker]
"""What reads a kind of text that is not one of ours."""


Form = Callable[[Sequence[torch.Tensor]], Any]
"""What makes of tensors again what a call returned."""


class PackError(ValueError):
    """A value cannot be carried.

    Attributes:
        told: what it is, as "is a slice, which cannot be carried".
        place: where it lies in what was to be carried, as "data[1]"; it grows from the inside out.
    """

    def __init__(self, told: str, place: str = "") -> None:
        super().__init__(f"{place} {told}".strip())
        self.told, self.place = told, place


@contextlib.contextmanager
def within(place: str) -> Iterator[None]:
    """Let a PackError say that it comes from there."""
    try:
        yield
    except PackError as error:
        raise PackError(error.told, place + error.place) from None


def pack(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> dict[str, torch.Tensor]:
    """The arguments of a call by the names of inputs: what it is under the first, tensors under the others, in order.

    A tensor that is an argument of its own is in the slot of its place where there is one; what is unused is empty.
    Raises PackError.
    """
    call, *slots = names
    found = {place: value for place, value in enumerate(args[: len(slots)]) if isinstance(value, torch.Tensor)}
    spare = iter([place for place in range(len(slots)) if place not in found])

    def slot(value: torch.Tensor, place: int | None = None) -> dict[str, Any]:
        place = next(spare, None) if place is None else place
        if place is None:
            raise PackError(f"is one tensor more than {len(slots)}, which a call may have")
        found[place], kept = carried(value)
        return kept | {"slot": place}

    own = set(found)
    known: list[Any] = []
    for at, each in enumerate(args):
        with within(f"argument {at}"):
            known.append(slot(each, at) if at in own else described(each, slot))
    named: dict[str, Any] = {}
    for name, value in (kwargs or {}).items():
        with within(f"argument {name}"):
            named[name] = described(value, slot)
    made = {call: as_bytes({"args": known, "kwargs": named})}
    made.update((name, found.get(place, torch.empty(0))) for place, name in enumerate(slots))
    return made


def as_bytes(said: object) -> torch.Tensor:
    """A value of JSON as a tensor, uint8 [N]."""
    return torch.frombuffer(bytearray(json.dumps(said).encode()), dtype=torch.uint8)


def from_bytes(call: torch.Tensor) -> Any:
    """What `as_bytes` was given."""
    return json.loads(bytes(call.tolist()).decode())


def described(
    value: Any, tensor: Callable[[Any], Any], other: Callable[[Any, Callable[[Any], Any]], Any] | None = None
) -> Any:
    """A value as JSON can say it. Raises PackError.

    Args:
        tensor: says what a tensor is.
        other: says what an object is whose class is not Python's own, with what describes the values in it.
    """

    def again(each: Any) -> Any:
        return described(each, tensor, other)

    if isinstance(value, torch.Tensor):
        return tensor(value)
    if other is not None and type(value).__module__ != "builtins" and not isinstance(value, TORCH):
        return other(value, again)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, range | slice):
        return {type(value).__name__: [again(each) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, set | frozenset):
        return {type(value).__name__: sorted((again(each) for each in value), key=json.dumps)}
    if isinstance(value, list | tuple):
        parts = []
        for place, each in enumerate(value):
            with within(f"[{place}]"):
                parts.append(again(each))
        return {"list" if type(value) is list else "tuple": parts}
    if isinstance(value, dict):
        pairs = []
        for key, each in value.items():
            with within(f"[{key!r}]"):
                pairs.append([again(key), again(each)])
        return {"dict": pairs}
    if isinstance(value, torch.device):
        return {"device": True}
    word = str(value).removeprefix("torch.")
    if isinstance(value, TORCH) and getattr(torch, word, None) is value:
        return {"torch": word}
    raise PackError(f"is of type {type(value).__name__}, which cannot be carried")


def carried(tensor: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    """What of a tensor travels, contiguous, and how it is seen again. Raises PackError."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided or str(tensor.dtype).removeprefix("torch.") not in DTYPES:
        raise PackError(f"is a {form_of(tensor)}, which cannot be carried")
    size = list(tensor.shape)
    if tensor.is_contiguous() or not tensor.numel():
        return tensor.contiguous(), {"size": size}
    return stretch(tensor).clone(), {"size": size, "stride": list(tensor.stride())}


def form_of(tensor: torch.Tensor) -> str:
    """Its dtype, and its layout where that is not the usual one, in words."""
    layout = "" if tensor.layout is torch.strided else f"{tensor.layout} ".removeprefix("torch.")
    return f"{layout}tensor of {tensor.dtype}".replace("torch.", "")


def stretch(tensor: torch.Tensor) -> torch.Tensor:
    """The memory that a tensor of at least one element lies in, from its first to its last one, as a vector."""
    extent = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return torch.as_strided(tensor, (extent,), (1,), tensor.storage_offset())


def reader(call: torch.Tensor) -> Callable[..., tuple[list[Any], dict[str, Any]]]:
    """What makes of the tensors in the slots the arguments and keywords of the call."""
    said = from_bytes(call)
    args = [taker(value) for value in said["args"]]
    kwargs = {name: taker(value) for name, value in said["kwargs"].items()}

    def arguments(*slots: torch.Tensor) -> tuple[list[Any], dict[str, Any]]:
        return [take(slots) for take in args], {name: take(slots) for name, take in kwargs.items()}

    return arguments


def taker(value: Any, other: Other | None = None) -> Taker:
    """What takes one argument out of the slots; `other` knows what `described` let another say."""
    if not isinstance(value, dict):
        return lambda slots: value
    if "slot" in value:
        place, size, stride = value["slot"], value.get("size"), value.get("stride")
        if stride is None:
            return operator.itemgetter(place)
        return lambda slots: torch.as_strided(slots[place], size, stride)
    ((kind, held),) = value.items()
    if kind in SEVERAL:
        several, inner = SEVERAL[kind], [taker(each, other) for each in held]
        return lambda slots: several([take(slots) for take in inner])
    if kind in ("range", "slice"):
        steps = range(*held) if kind == "range" else slice(*held)
        return lambda slots: steps
    if kind == "dict":
        pairs = [(taker(key, other), taker(each, other)) for key, each in held]
        return lambda slots: {key(slots): take(slots) for key, take in pairs}
    if kind == "device":
        return lambda slots: slots[0].device if slots else torch.device("cpu")
    if kind not in ("torch", "float", "complex"):
        assert other is not None
        return other(kind, held)
    made = getattr(torch, held) if kind == "torch" else float(held) if kind == "float" else complex(*map(float, held))
    return lambda slots: made


def prepared(
    make: Callable[..., Callable[..., Any]],
    call: torch.Tensor,
    *slots: torch.Tensor,
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """What is timed: the arguments put together, and the call of what `make` makes of the first ones."""
    arguments = reader(call)
    made = make(*arguments(*slots)[0])

    def timed(call: torch.Tensor, *slots: torch.Tensor) -> tuple[torch.Tensor, ...]:
        args, kwargs = arguments(*slots)
        return flat(made(*args, **kwargs))

    return timed


def flat(result: Any) -> tuple[torch.Tensor, ...]:
    """What a call returned as contiguous tensors, one after the other; see `spread`."""
    if isinstance(result, torch.Tensor):
        return (result.contiguous(),)
    found: list[torch.Tensor] = []
    spread(result, found)
    return tuple([each.contiguous() for each in found])


def spread(value: Any, found: list[torch.Tensor]) -> Form:
    """Put the tensors of what a call returned behind those that were found: those in lists, tuples and dictionaries
    too, by the order of their keys, and numbers as tensors of one. Returns what makes the same of other tensors.

    Raises TypeError where there is anything else than these and None.
    """
    if isinstance(value, torch.Tensor):
        place = len(found)
        found.append(value)
        return lambda tensors: tensors[place]
    if isinstance(value, bool | int | float | complex):
        number = len(found)
        found.append(torch.tensor(value))
        return lambda tensors: tensors[number].item()
    if isinstance(value, list | tuple):
        parts = [spread(each, found) for each in value]
        kind = type(value)
        plain = kind if kind in (list, tuple) or kind.__module__ == "torch.return_types" else tuple
        made: Callable[[list[Any]], Any] = getattr(kind, "_make", plain)
        return lambda tensors: made([part(tensors) for part in parts])
    if isinstance(value, dict):
        named = {key: spread(value[key], found) for key in sorted(value, key=repr)}
        keys = list(value)
        return lambda tensors: {key: named[key](tensors) for key in keys}
    if value is not None:
        raise TypeError(f"a call returned {type(value).__name__}; tensors, numbers, lists and dictionaries are judged")
    return lambda tensors: None
