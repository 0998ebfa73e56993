"""Data of any form as two pieces of memory and a text, and put together again.

    call = "any [...] posed static"     what data is, as bytes, and where each of its tensors lies
    held = "any [...] posed"            the memory of tensors, one behind the other
    room = "any [...] posed mutable"    likewise, of those that the problem's own kernel writes into or returns

Tensors are views of that memory with the dtype and the strides that they were made with; lists and dictionaries are
lists and dictionaries; an object is made of its class, without a call of its constructor, and gets the state that it
had. A module keeps its weights by name. So no line of a problem that makes inputs runs in a rung's process, and what a
kernel changes in an object is gone with the next call.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import packing
from .packing import PackError, Taker

ALIGNED = 512
"""Bytes: where PyTorch's own memory on a GPU begins."""
WIDEST = 16
"""Bytes of the widest element."""
MODULE = frozenset(vars(torch.nn.Module()))
"""What every module has."""
MOST_SHOWN = 12
"""Parts of a list, in words."""

Row = tuple[str, int, int, list[int], list[int]]
"""A tensor in memory: its dtype, the piece (0 held, 1 room), its first element, size and strides."""


@dataclass(frozen=True, slots=True)
class Described:
    """What data is.

    Attributes:
        said: it as JSON, with a number for each tensor.
        tensors: by number, in host memory. One that data has twice is there once.
    """

    said: Any
    tensors: Sequence[torch.Tensor]


def described(data: Any, own: str, classes: Collection[str], modules: Collection[str]) -> Described:
    """What data is. Raises PackError where a part of it cannot be carried.

    Args:
        own: the module of the problem.
        classes: those of its classes that other processes have.
        modules: other modules that all processes have.
    """
    tensors: list[torch.Tensor] = []
    places: dict[int, int] = {}

    def slot(value: torch.Tensor) -> dict[str, Any]:
        if value.layout is not torch.strided or value.is_quantized or value.is_nested:
            raise PackError(f"is a {packing.form_of(value)}, which cannot be carried")
        place = places.setdefault(id(value), len(tensors))
        if place == len(tensors):
            tensors.append(value)
        if isinstance(value, torch.nn.Parameter):
            return {"parameter": [place, value.requires_grad]}
        return {"slot": place}

    def written(value: Any, again: Callable[[Any], Any]) -> Any:
        """An object as text: its class, and its state."""
        kind = type(value)
        module, name = kind.__module__, kind.__qualname__
        if isinstance(value, dict):
            return again(dict(value))
        if isinstance(value, torch.Size):
            return {"shape": list(value)}
        if isinstance(value, np.generic):
            return {"number": [value.dtype.str, again(value.item())]}
        if isinstance(value, tuple) and not hasattr(kind, "_fields"):
            return again(tuple(value))  # what torch.topk() returns
        if module != own and module not in modules and module.partition(".")[0] != "torch":
            raise PackError(f"is a {module}.{name}, which cannot be carried")
        if getattr(sys.modules.get(module), name, None) is not kind:
            raise PackError(f"is a {name.rpartition('.')[2]}, whose class is not at the head of its file")
        if module == own and name not in classes:
            raise PackError(f"is a {name}, whose class cannot be taken out of {own}.py by itself")
        named = [module, name]
        if isinstance(value, enum.Enum):
            return {"member": [named, value.name]}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"record": [named, _state(dict(zip(kind._fields, value, strict=True)), again)]}
        if isinstance(value, torch.nn.Module):
            state = vars(value)
            if any(state[each] for each in MODULE if "hooks" in each):
                raise PackError(f"is a {name} with hooks, which cannot be carried")
            parts = [_state(state[each], again) for each in ("_parameters", "_buffers", "_modules")]
            rest = {each: found for each, found in state.items() if each not in MODULE}
            return {"module": [named, value.training, *parts, _state(rest, again)]}
        state = dict(getattr(value, "__dict__", {}))
        if dataclasses.is_dataclass(value):
            state |= {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        elif not hasattr(value, "__dict__"):
            raise PackError(f"is a {name}, whose state cannot be seen")
        return {"object": [named, _state(state, again)]}

    said = packing.described(data, slot, written)
    return Described(said, [each if each.is_cpu else like(seen(each).cpu(), each) for each in tensors])


def _state(state: Mapping[str, Any], again: Callable[[Any], Any]) -> dict[str, Any]:
    """Attributes as `packing.taker` reads a dictionary."""
    pairs = []
    for name, value in state.items():
        with packing.within(f".{name}"):
            pairs.append([name, again(value)])
    return {"dict": pairs}


# -- memory ------------------------------------------------------------------------------------------------------------


def seen(tensor: torch.Tensor) -> torch.Tensor:
    """The memory that a tensor lies in as a vector, whatever its dtype: what is there is bits."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if not plain.numel():
        return torch.empty(0, dtype=torch.uint8)
    return packing.stretch(plain.view(torch.uint8) if plain.element_size() == 1 else plain)


def like(flat: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A view of memory, as `seen` gives it, in the form of a tensor."""
    if not tensor.numel():
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=flat.device)
    return torch.as_strided(flat.view(tensor.dtype), tensor.shape, tensor.stride())


def laid(
    tensors: Sequence[torch.Tensor], writable: Collection[int]
) -> tuple[list[Row], tuple[torch.Tensor, torch.Tensor]]:
    """The tensors one behind the other: where each lies, and the memory of both pieces, uint8 [N] on the host.

    Args:
        writable: numbers of those in the second piece.
    """
    ends = [0, 0]
    rows: list[Row] = []
    starts: list[int] = []
    for number, tensor in enumerate(tensors):
        piece = int(number in writable)
        start = -(-ends[piece] // ALIGNED) * ALIGNED
        size, width = list(tensor.shape), tensor.element_size()
        dtype = str(tensor.dtype).removeprefix("torch.")
        rows.append((dtype, piece, start // width, size, list(tensor.stride())))
        starts.append(start)
        ends[piece] = start + seen(tensor).numel() * width
    whole = [torch.zeros(-(-end // WIDEST) * WIDEST, dtype=torch.uint8) for end in ends]
    for tensor, (_, piece, *_), start in zip(tensors, rows, starts, strict=True):
        flat = seen(tensor)
        place = whole[piece][start : start + flat.numel() * flat.element_size()]
        place.view(flat.dtype).copy_(flat)
    return rows, (whole[0], whole[1])


def views(pieces: Sequence[torch.Tensor], rows: Sequence[Row]) -> list[torch.Tensor]:
    """The tensors in memory that `laid` has made, by number."""
    by_dtype: dict[tuple[int, str], torch.Tensor] = {}
    found = []
    for dtype, piece, start, size, stride in rows:
        base = by_dtype.get((piece, dtype))
        if base is None:
            base = by_dtype[piece, dtype] = pieces[piece].view(getattr(torch, dtype))
        found.append(torch.as_strided(base, size, stride, base.storage_offset() + start))
    return found


# -- put together again ------------------------------------------------------------------------------------------------


def reader(call: torch.Tensor, own: str, classes: Mapping[str, Any]) -> Callable[..., Any]:
    """What puts data together from `held` and `room`. `classes` has those of the module `own`, by name."""
    said = packing.from_bytes(call)
    rows, take, kept = said["tensors"], maker(said["data"], own, classes), is_kept(said["data"])
    last: tuple[torch.Tensor | None, torch.Tensor | None] = None, None
    known: Any = None

    def data(held: torch.Tensor, room: torch.Tensor) -> Any:
        nonlocal last, known
        if last[0] is not held or last[1] is not room:
            tensors = views((held, room), rows)
            last, known = (held, room), take(tensors) if kept else tensors
        return known if kept else take(known)

    return data


def is_kept(said: Any) -> bool:
    """Whether data has nothing but its tensors' values that a kernel could change, so that calls may share it."""
    if not isinstance(said, dict) or "slot" in said:
        return True
    ((kind, held),) = said.items()
    plain = ("torch", "float", "complex", "range", "slice", "frozenset", "shape", "number", "member")
    return kind in plain or (kind == "tuple" and all(map(is_kept, held)))


def maker(said: Any, own: str, classes: Mapping[str, Any]) -> Taker:
    """What makes data of its tensors, by what `described` says."""

    def taker(value: Any) -> Taker:
        return packing.taker(value, other)

    def class_of(named: Sequence[str]) -> Any:
        module, name = named
        return classes[name] if module == own else getattr(importlib.import_module(module), name)

    def other(kind: str, parts: Any) -> Taker:
        if kind == "parameter":
            place, graded = parts
            return lambda slots: torch.nn.Parameter(slots[place], graded)
        if kind == "shape":
            shape = torch.Size(parts)
            return lambda slots: shape
        if kind == "number":
            number = np.dtype(parts[0]).type(taker(parts[1])(()))
            return lambda slots: number
        made, rest = class_of(parts[0]), parts[1:]
        if kind == "member":
            member = made[rest[0]]
            return lambda slots: member
        if kind == "module":
            training, *inner = rest
            states = [taker(each) for each in inner]
            return lambda slots: _module(made, training, *(take(slots) for take in states))
        state = taker(rest[0])
        if kind == "record":
            return lambda slots: made._make(state(slots).values())
        return lambda slots: _object(made, state(slots))

    return taker(said)


def _object(made: Any, state: Mapping[str, Any]) -> Any:
    """An object of a class with this state, which its constructor does not see."""
    found = made.__new__(made)
    for name, value in state.items():
        object.__setattr__(found, name, value)
    return found


def _module(made: Any, training: bool, *parts: Mapping[str, Any]) -> Any:
    """A module likewise, with its weights by name."""
    found = made.__new__(made)
    torch.nn.Module.__init__(found)
    state = vars(found)
    for name, held in zip(("_parameters", "_buffers", "_modules"), parts, strict=False):
        state[name].update(held)
    state.update(parts[-1], training=training)
    return found


def outline(said: Any, name_of: Callable[[int], str]) -> str:
    """What `described` says, in words; `name_of` says what the tensor of a number is."""
    if not isinstance(said, dict):
        return repr(said)
    if "slot" in said:
        return name_of(said["slot"])
    ((kind, held),) = said.items()
    if kind in ("list", "tuple"):
        parts = [outline(each, name_of) for each in held]
        return ("[{}]" if kind == "list" else "({})").format(_few(parts))
    if kind == "dict":
        return f"{{{_few([f'{outline(key, name_of)}: {outline(each, name_of)}' for key, each in held])}}}"
    if kind == "parameter":
        return f"parameter {name_of(held[0])}"
    if kind in ("module", "object", "record"):
        states = held[2:] if kind == "module" else held[1:]
        pairs = [f"{key}={outline(each, name_of)}" for state in states for key, each in state["dict"]]
        return f"{held[0][1]}({_few(pairs)})"
    return outline(held[1], name_of) if kind in ("member", "number") else str(held)


def _few(parts: Sequence[str]) -> str:
    more = [f"and {len(parts) - MOST_SHOWN} more"] if len(parts) > MOST_SHOWN else []
    return ", ".join([*parts[:MOST_SHOWN], *more])
