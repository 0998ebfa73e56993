"""What a target of a problem with a Model does at run time: poses its inputs, calls its Model, asks its rule.

    posed(reference, ...)     in the verifier alone: get_inputs() and get_init_inputs() are run, and Model is made
    truth(Model, ...)         there too: what Model returns, in fp64 where it can be had
    prepared(ModelNew, ...)   in a rung: the module is made, given the weights, and called
    judged(reference, ...)    in the verifier: KernelBench's own rule

The inputs of a run, in this order:

    call      what the arguments are, as bytes: all that is no tensor, and where each tensor lies
    slots     a tensor each, with its strides: of each argument of forward() one, some more for tensors in lists, and
              some for those that Model writes into or hands back, which a candidate may then do as well
    weights   those of the Model's tensors that have its floating dtype, one behind the other
    state     all others of its tensors, as bytes
    seed      of what forward() draws; empty where it draws nothing

What forward() does is seen by calling it once, when the first set of values is posed. Nothing is read from its source.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from ..catalog.tensors import DRAWN
from . import carrying, models, observing, packing
from .gpumode import TaskError, line_of, settle
from .packing import PackError

MOST_HOST_ELEMENTS = 2**26
"""Of the largest input that is posed where there is no GPU."""
OWN = "reference"
ALIGNED = 512  # bytes, of a tensor in `state`; elements, of one in `weights`
MAY_HOLD = "inputs may be tensors, numbers, None, texts, and lists and dictionaries of these"

Call = Callable[..., Any]
"""What calls a module: with it, and what forward() is given."""
Spots = list[list[Any]]
"""Where tensors lie: in `weights`, ["", first element, size]; in `state`, [dtype, first element, size]."""

_calls: dict[tuple[str, int], bytes] = {}
"""By device and case: what the arguments are."""
_models: dict[tuple[str, int], dict[str, Any]] = {}
"""Likewise: the arguments of Model and its weights."""


def plainly(made: Callable[..., Any], *args: Any) -> Any:
    """Call a module with its arguments alone."""
    return made(*args)


# -- what the problem's code makes -------------------------------------------------------------------------------------


def posed(
    reference: ModuleType,
    device: str,
    generator: torch.Generator,
    *,
    names: Sequence[str],
    arguments: int,
    rooms: int,
    case: int = 0,
    source: str = "get_inputs",
    inputs: Callable[[], Sequence[Any]] | None = None,
    init: Callable[[], Sequence[Any]] | None = None,
    call: Call = plainly,
    host_elements: int = 0,
) -> dict[str, torch.Tensor]:
    """The inputs of a run for one set of values, by name.

    Args:
        case: its number.
        source: the function of the problem that makes its inputs.
        inputs: what calls it; itself, unless it is given.
        init: what gives the arguments of Model; get_init_inputs of the problem, unless it is given.
        call: what calls its Model.
        names: of the inputs.
        arguments: slots that stand for an argument of forward(), the first ones.
        rooms: slots for tensors that are written, the last ones.
        host_elements: of the largest input, to which sizes are halved where there is no GPU; 0 for no halving.

    Raises TaskError where they cannot be carried, or where Model does not take them or cannot be judged.
    """
    first, second = (int(word) for word in torch.randint(1, 2**31 - 1, (2,), generator=generator))
    where = f"{source}{line_of(getattr(reference, source))}"
    key = device, case
    if key not in _models:
        weights: Callable[[], Sequence[Any]] = getattr(reference, "get_init_inputs", list)
        _models[key] = _model(reference, init or weights, device)
    model = _models[key]
    sizes = _halved(reference, host_elements) if host_elements and device == "cpu" else {}
    settle(first)
    with _sizes(reference, sizes), observing.Draws() as draws:
        made = list((inputs or getattr(reference, source))())
    try:
        with packing.within("the list"):
            given = carrying.described(made, OWN, (), ())
            if not given.tensors:
                raise PackError("holds no tensor")
    except PackError as error:
        raise TaskError(f"{where}: {error}; {MAY_HOLD}") from None
    if device == "cpu" and max(tensor.numel() for tensor in given.tensors) > MOST_HOST_ELEMENTS:
        gib = sum(tensor.numel() * tensor.element_size() for tensor in given.tensors) / 2**30
        told = f"makes {gib:.1f} GiB, and no size at the head of the file can be halved; judge it where a GPU is"
        raise TaskError(f"{where}: {told}")
    seen = _seen(reference, model, given, device, functools.partial(settle, second), call)
    slots = len(names) - 4
    held, kept = _carried(
        given, seen, range(arguments), range(slots - rooms), range(slots - rooms, slots), where, draws
    )
    dtype = _precision(given.tensors, model["state"])
    weights, state, own = _laid(model, dtype)
    said = {"args": given.said["list"], "slots": kept, "rooms": slots - rooms, "draws": seen.draws}
    packed = packing.as_bytes({**said, **own, "precision": str(dtype).removeprefix("torch.")})
    text = bytes(packed.tolist())
    if key not in _calls:
        _calls[key] = text
        print(f"inputs: {_outline(given, seen)}")  # noqa: T201  to the run's log
    if _calls[key] != text:
        told = "made other plain values, or tensors of other forms; only values of tensors may follow from the seed"
        raise TaskError(f"{where}: with another seed it {told}")
    seed = torch.tensor([second] if seen.draws else [], dtype=torch.int64)
    filled = [held.get(place, torch.empty(0, dtype=dtype)) for place in range(slots)]
    return dict(zip(names, (packed, *filled, weights, state, seed), strict=True))


def _model(reference: ModuleType, source: Callable[[], Sequence[Any]], device: str) -> dict[str, Any]:
    """The arguments of Model and its weights. Raises TaskError."""
    try:
        return models.drawn(reference.Model, source, device)
    except TypeError as error:
        told = f"Model does not take what it gives: {error}; return [a, b], or [[a, b], {{'name': c}}]"
        raise TaskError(f"get_init_inputs{line_of(source)}: {told}") from error
    except PackError as error:
        raise TaskError(f"Model{line_of(reference.Model.__init__)}: {error}") from None


def _seen(
    reference: ModuleType,
    model: models.Model,
    given: carrying.Described,
    device: str,
    settle: Callable[[], object],
    called: Call,
) -> observing.Call:
    """What Model does with its inputs. Raises TaskError where it fails, or answers the same inputs in two ways."""
    forward = f"Model.forward{line_of(reference.Model.forward)}"
    make = carrying.maker(given.said, OWN, {})

    def fresh() -> torch.nn.Module:
        return models.aligned(reference.Model, model, torch.empty(0, device=device))

    def call(made: torch.nn.Module) -> observing.Call:
        return observing.call(lambda args: called(made, *args), make, given.tensors, device, settle)

    try:
        made = fresh()
        first = call(made)
        moves = not observing.alike(call(made).outputs, first.outputs) and observing.alike(
            call(fresh()).outputs, first.outputs
        )
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except PackError as error:
        raise TaskError(f"{forward}: {error}; return tensors") from None
    except Exception as error:  # somebody else's code
        raise TaskError(f"{forward}: fails on its inputs: {type(error).__name__}: {error}") from error
    if moves:
        told = "returns other values when it is called again, since it changes a state that they depend on"
        raise TaskError(f"{forward}: {told}; no answer can be compared with it")
    return first


def _carried(
    given: carrying.Described,
    seen: observing.Call,
    own: range,
    read: range,
    rooms: range,
    where: str,
    draws: observing.Draws,
) -> tuple[dict[int, torch.Tensor], list[dict[str, Any]]]:
    """The tensors by their slots, and how each is seen again. Raises TaskError."""
    written = seen.wrote | seen.returned
    places = {part["slot"]: place for place, part in zip(own, given.said["list"], strict=False) if _is_slot(part)}
    wished = {number: place for number, place in places.items() if number not in written}
    spare = iter([place for place in reversed(read) if place not in wished.values()])
    room = iter(rooms)
    held: dict[int, torch.Tensor] = {}
    kept = []
    for number, tensor in enumerate(given.tensors):
        place = wished[number] if number in wished else next(room if number in written else spare, None)
        try:
            if place is None:
                raise PackError("holds more tensors than a call may have")
            held[place], view = packing.carried(tensor)
            if "stride" not in view:
                setattr(held[place], DRAWN, draws.distribution(tensor))
        except PackError as error:
            raise TaskError(f"{where}: a tensor {error}; {MAY_HOLD}") from None
        kept.append({**view, "slot": place})
    return held, kept


def _is_slot(part: Any) -> bool:
    return isinstance(part, dict) and "slot" in part


def _precision(tensors: Sequence[torch.Tensor], state: Mapping[str, torch.Tensor]) -> torch.dtype:
    """The dtype in which KernelBench would run it: that of the first floating input, else of the first weight."""
    floating = (each.dtype for each in (*tensors, *state.values()) if each.is_floating_point())
    return next(floating, torch.float32)


def _laid(model: models.Model, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """`weights`, `state`, and what of the Model travels as text."""
    init = carrying.described([model["init"], model["named"]], OWN, (), ())
    tensors = [*init.tensors, *(tensor.cpu() for tensor in model["state"].values())]
    parts: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    ends = {True: 0, False: 0}
    spots: Spots = []
    for tensor in tensors:
        main = tensor.dtype == dtype
        flat = tensor.contiguous().reshape(-1)
        name = "" if main else str(tensor.dtype).removeprefix("torch.")
        spots.append([name, ends[main] // (1 if main else tensor.element_size()), list(tensor.shape)])
        flat = flat if main else flat.view(torch.uint8)
        padded = -(-flat.numel() // ALIGNED) * ALIGNED
        parts[main].append(torch.nn.functional.pad(flat, (0, padded - flat.numel())))
        ends[main] += padded
    weights = torch.cat([torch.empty(0, dtype=dtype), *parts[True]])
    state = torch.cat([torch.empty(0, dtype=torch.uint8), *parts[False]])
    return weights, state, {"init": init.said, "spots": spots, "names": list(model["state"])}


def _outline(given: carrying.Described, seen: observing.Call) -> str:
    """What was seen, in words."""

    def name_of(number: int) -> str:
        tensor = given.tensors[number]
        words = (("written", seen.wrote), ("returned", seen.returned))
        marks = [word for word, numbers in words if number in numbers]
        if tensor.numel() > 1 and bool((tensor == tensor.reshape(-1)[0]).all()):
            marks.append("all elements alike: such data draw less power, and a GPU may clock higher")
        strides = "" if tensor.is_contiguous() else f" strides {list(tensor.stride())}"
        said = f" ({', '.join(marks)})" if marks else ""
        return f"{packing.form_of(tensor)} {list(tensor.shape)}{strides}{said}"

    outputs = ", ".join(f"{packing.form_of(each)} {list(each.shape)}" for each in seen.outputs[: carrying.MOST_SHOWN])
    more = (
        "; forward() draws random numbers, and an answer must draw the same ones from PyTorch in the same order"
        if seen.draws
        else ""
    )
    return f"{carrying.outline(given.said, name_of)}; Model returns {outputs or 'nothing'}{more}"


# -- sizes for a machine without a GPU ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _sizes(reference: ModuleType, sizes: Mapping[str, int]) -> Iterator[None]:
    """Let numbers at the head of the problem's file be others."""
    before = {name: vars(reference)[name] for name in sizes}
    vars(reference).update(sizes)
    try:
        yield
    finally:
        vars(reference).update(before)


@functools.cache
def _halved(reference: ModuleType, host_elements: int) -> dict[str, int]:
    """Whole numbers at the head of the file, halved until inputs are small enough for a CPU: those on which neither
    get_init_inputs() depends nor that Model takes the inputs. Tried on the device "meta", without memory."""
    init = getattr(reference, "get_init_inputs", list)
    known = {name: size for name, size in vars(reference).items() if type(size) is int and size > 1}
    sizes: dict[str, int] = {}

    def largest(sizes: Mapping[str, int]) -> int:
        """Elements of the largest input with these sizes. Raises what somebody else's code does."""
        with torch.device("meta"), torch.no_grad():
            with _sizes(reference, sizes):
                made, given = list(reference.get_inputs()), repr(init())
            if sizes and given != usual:
                raise ValueError("the weights depend on it")
            found = torch.utils._pytree.tree_leaves(made)
            if sizes:
                positional, named = models.arguments(init())
                reference.Model(*positional, **named)(*made)
        return max((math.prod(each.shape) for each in found if isinstance(each, torch.Tensor)), default=0)

    try:
        usual = repr(init())
        most = largest({})
        while most > host_elements:
            name = max(known, key=lambda name: known[name])
            trial = sizes | {name: known[name] // 2}
            with contextlib.suppress(Exception):
                if trial[name] > 1 and (found := largest(trial)) < most:
                    sizes, most, known[name] = trial, found, trial[name]
                    continue
            del known[name]
    except Exception:  # somebody else's code, without memory: or nothing is left to halve
        return sizes
    return sizes


# -- rungs, and the truth ----------------------------------------------------------------------------------------------


class _Reader:
    """Puts together what `posed` took apart."""

    def __init__(self, call: torch.Tensor) -> None:
        said = packing.from_bytes(call)
        self.draws: bool = said["draws"]
        self.precision: str = said["precision"]
        self.rooms: int = said["rooms"]
        self._init, self._names, self._spots = said["init"], said["names"], said["spots"]
        self._takers = [packing.taker(view) for view in said["slots"]]
        self._args = [carrying.maker(part, OWN, {}) for part in said["args"]]
        self._kept = all(map(carrying.is_kept, said["args"]))
        self._slots: tuple[torch.Tensor, ...] = ()
        self._last: list[Any] = []

    def arguments(self, slots: tuple[torch.Tensor, ...]) -> list[Any]:
        """What forward() is given. Where a call could change nothing but tensors, it is put together once."""
        if self._kept and len(slots) == len(self._slots) and all(map(_is, slots, self._slots)):
            return self._last
        tensors = [take(slots) for take in self._takers]
        self._slots, self._last = slots, [take(tensors) for take in self._args]
        return self._last

    def model(self, weights: torch.Tensor, state: torch.Tensor) -> models.Model:
        """The arguments of Model, and its tensors."""
        tensors = []
        for dtype, start, size in self._spots:
            piece = state.view(getattr(torch, dtype)) if dtype else weights
            tensors.append(piece[start : start + math.prod(size)].view(size))
        count = len(tensors) - len(self._names)
        init, named = carrying.maker(self._init, OWN, {})(tensors[:count])
        return {"init": init, "named": named, "state": dict(zip(self._names, tensors[count:], strict=True))}


def _is(one: object, other: object) -> bool:
    return one is other


def prepared(
    cls: models.Module, *inputs: torch.Tensor, call: Call = plainly
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """What is timed of a rung: its module, with the weights, called; behind a seed where Model draws."""
    packed, *slots, weights, state, _ = inputs
    reader = _Reader(packed)
    made = models.aligned(cls, reader.model(weights, state), *slots)

    def timed(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if reader.draws:
            models.seed(inputs[-1])
        return packing.flat(call(made, *reader.arguments(inputs[1:-3])))

    return timed


def truth(cls: models.Module, *inputs: torch.Tensor, call: Call = plainly) -> Any:
    """What the problem's Model gives, computed in the floating dtype of the slots."""
    packed, *slots, weights, state, seed = inputs
    reader = _Reader(packed)

    def called(made: torch.nn.Module, *slots: torch.Tensor) -> tuple[torch.Tensor, ...]:
        fresh = (*slots[: reader.rooms], *(room.clone() for room in slots[reader.rooms :]))
        return packing.flat(call(made, *reader.arguments(fresh)))

    number = seed if reader.draws else None
    return models.exactly(called, cls, reader.model(weights, state), number, reader.precision, *slots)


# -- its own rule ------------------------------------------------------------------------------------------------------


def judged(
    reference: ModuleType,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    tolerances: Mapping[str, float],
) -> str | None:
    """What is wrong by KernelBench's rule: a shape, or an element off by more than tolerance * (1 + |element|); None
    for nothing.

    Args:
        tolerances: by precision.
    """
    call, *slots, weights, state, _ = inputs.values()
    reader = _Reader(call)
    why = _refused(reference, reader, slots, weights, state)
    if why:
        return why
    tolerance = tolerances.get(reader.precision, tolerances["float32"])
    for index, (got, want) in enumerate(zip(outputs, expected, strict=False)):
        place = f"output {index}" if len(expected) > 1 else "the output"
        if got.shape != want.shape:
            return f"{place} has the shape {list(got.shape)}, not {list(want.shape)}"
        one, other = got, want.to(got.dtype)
        if not got.is_floating_point():
            one, other = got.double(), other.double()
        if not torch.allclose(other, one, atol=tolerance, rtol=tolerance):
            return f"{place} is off by up to {float((other - one).abs().max()):.3g}"
    return None


_whys: list[str] = []


def _refused(
    reference: ModuleType, reader: _Reader, slots: Sequence[torch.Tensor], weights: torch.Tensor, state: torch.Tensor
) -> str:
    """Why no candidate passes in KernelBench's harness, which casts every tensor; "" where Model takes them so."""
    if not _whys:
        dtype = getattr(torch, reader.precision)
        why = ""
        try:
            if not all(each.is_floating_point() for each in slots):
                cast = tuple(each.to(dtype) for each in slots)
                made = models.aligned(reference.Model, reader.model(weights, state), *cast).to(dtype)
                made(*reader.arguments(cast))
        except Exception as error:  # somebody else's code
            said = str(error).partition("\n")[0][:200]
            why = f"its harness makes {reader.precision} of whole numbers, and Model itself raises then: {said}"
        _whys.append(why)
    return _whys[0]
