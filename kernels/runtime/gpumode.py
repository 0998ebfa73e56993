"""What a target that is made of a gpu-mode task does at run time: poses its data, calls its kernels, asks its check.

    posed(reference, ...)     in the verifier alone: generate_input makes data, which is looked at and carried
    truth(ref_kernel, ...)    there too: what ref_kernel returns, and in which form
    prepared(kernel, ...)     in a rung: data is put together, and the kernel called
    judged(reference, ...)    in the verifier: check_implementation says what is wrong

Data may be anything that `carrying` carries. What it is, and what ref_kernel does with it, is seen by running them once
for each case, in the verifier. Nothing is read from their source.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from . import carrying, observing, packing
from .observing import Seen
from .packing import Form, PackError

OWN = "reference"
SEED = "seed"
DEVICE = "device"
MAY_HOLD = "data may hold tensors, and plain values that follow from the case"

_seen: dict[str, tuple[Seen, str]] = {}
"""By case: what was seen of it, and what data was."""
_forms: dict[bytes, Form] = {}
"""By what data is: the form in which ref_kernel returns."""


class TaskError(Exception):
    """The task cannot be judged; the message says which part of it, and what would work."""


# -- data --------------------------------------------------------------------------------------------------------------


def case(axes: Mapping[str, int], choices: Mapping[str, Sequence[object]]) -> dict[str, object]:
    """The arguments of generate_input that a case gives; one that it leaves out is `...` among the choices."""
    given = {name: choices[name][number] if name in choices else number for name, number in axes.items()}
    return {name: value for name, value in given.items() if value is not ...}


def settle(word: int) -> None:
    """Let what is drawn without a generator of its own follow from a word."""
    torch.manual_seed(word)
    random.seed(word)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(word)


def posed(
    reference: ModuleType,
    axes: Mapping[str, int],
    device: str,
    generator: torch.Generator,
    *,
    choices: Mapping[str, Sequence[object]],
    classes: Collection[str],
    modules: Collection[str],
) -> dict[str, torch.Tensor]:
    """What generate_input makes for one set of values, as the inputs of a run.

    Args:
        choices: what the numbers of an axis stand for.
        classes: of `reference`, that rungs have.
        modules: of the task, that rungs have.

    Raises:
        TaskError: data cannot be carried, or ref_kernel returns what cannot be judged.
    """
    first, second = (int(word) for word in torch.randint(1, 2**31 - 1, (2,), generator=generator))
    made = reference.generate_input
    given = case(axes, choices)
    takes = _parameters(made)
    given |= {name: value for name, value in ((SEED, first), (DEVICE, device)) if name in takes and name not in given}
    settle(second)
    try:
        with packing.within("data"):
            found = carrying.described(made(**given), OWN, classes, modules)
            if not found.tensors:
                raise PackError("holds no tensor")
    except PackError as error:
        raise TaskError(f"generate_input{line_of(made)}: {error}; {MAY_HOLD}") from None
    key = repr(sorted(axes.items()))
    if key in _seen:
        seen = _seen[key][0]
    else:
        make = carrying.maker(found.said, OWN, vars(reference))
        try:
            seen = observing.observe(
                reference.ref_kernel, make, found.tensors, device, functools.partial(settle, second)
            )
        except PackError as error:
            raise TaskError(f"ref_kernel{line_of(reference.ref_kernel)}: {error}") from None
    rows, (held, room) = carrying.laid(found.tensors, seen.writable)
    call = packing.as_bytes({"data": found.said, "tensors": rows})
    text = bytes(call.tolist()).decode()
    if key not in _seen:
        _seen[key] = seen, text
        print(f"data: {said(found, seen)}")  # noqa: T201  to the run's log
    if _seen[key][1] != text:
        told = (
            "made other plain values, or tensors of other shapes; only the values of tensors may follow from the seed"
        )
        raise TaskError(f"generate_input{line_of(made)}: with another seed it {told}")
    return {"call": call, "held": held, "room": room}


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # one of C's
        return ()


def line_of(function: Any) -> str:
    """Where a function of the task's stands, as " (reference.py, line 3)"; "" where that is not known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f" ({code.co_filename.rpartition('/')[2]}, line {code.co_firstlineno})"


def said(data: carrying.Described, seen: Seen) -> str:
    """What was seen of a case, in words."""

    def name_of(number: int) -> str:
        tensor = data.tensors[number]
        words = (("written", seen.wrote), ("returned", seen.returned), ("not read", seen.ignored))
        marks = ", ".join(word for word, numbers in words if number in numbers)
        strides = "" if tensor.is_contiguous() else f" strides {list(tensor.stride())}"
        return f"{packing.form_of(tensor)} {list(tensor.shape)}{strides}{f' ({marks})' if marks else ''}"

    told = carrying.outline(data.said, name_of)
    if not seen.outputs:
        return f"{told}; ref_kernel failed on it"
    more = [", and draws random numbers"] if seen.draws else []
    more += [f"; of output {number} some is memory that nobody wrote" for number in sorted(seen.unwritten)]
    return f"{told}; ref_kernel returns {seen.outputs}{''.join(more)}"


# -- kernels -----------------------------------------------------------------------------------------------------------


def prepared(kernel: Callable[[Any], Any], classes: Mapping[str, Any], call: torch.Tensor) -> Callable[..., Any]:
    """What is timed of a rung: data put together of `held` and `room`, and the call of its kernel."""
    data, device = carrying.reader(call, OWN, classes), call.device
    return lambda call, held, room: outputs(kernel(data(held, room)), device)


def truth(
    kernel: Callable[[Any], Any], classes: Mapping[str, Any], call: torch.Tensor, held: torch.Tensor, room: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """What ref_kernel returns; in which form is remembered."""
    found: list[torch.Tensor] = []
    form = packing.spread(kernel(carrying.reader(call, OWN, classes)(held, room)), found)
    _forms[bytes(call.tolist())] = form
    return tuple([_plain(each, held.device) for each in found])


def outputs(returned: Any, device: torch.device) -> tuple[torch.Tensor, ...]:
    """What a kernel returned, as a run returns it."""
    if isinstance(returned, torch.Tensor):
        return (_plain(returned, device),)
    found: list[torch.Tensor] = []
    packing.spread(returned, found)
    return tuple([_plain(each, device) for each in found])


def _plain(found: torch.Tensor, device: torch.device) -> torch.Tensor:
    """It as a run may return it: contiguous, on the device, and no parameter."""
    if found.requires_grad or type(found) is not torch.Tensor:
        found = found.detach()
    return (found if found.device == device else found.to(device)).contiguous()


# -- the judge ---------------------------------------------------------------------------------------------------------


def judged(
    reference: ModuleType,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
) -> str | None:
    """What check_implementation says is wrong with outputs; None where they are right.

    A check that breaks down on outputs of another form than ref_kernel's takes that form for granted, and they are
    wrong. Raises TaskError where it breaks down on the right one.
    """
    call, pieces = inputs["call"], (inputs["held"], inputs["room"])
    if (key := bytes(call.tolist())) not in _forms:
        truth(reference.ref_kernel, vars(reference), call, *(piece.clone() for piece in pieces))
    form = _forms[key]

    def ask(tensors: Sequence[torch.Tensor]) -> str | None:
        data = carrying.reader(call, OWN, vars(reference))(*(piece.clone() for piece in pieces))
        return _told(reference.check_implementation(data, form(tensors)))

    try:
        return ask(outputs)
    except Exception as error:  # somebody else's code
        told = misshapen(outputs, expected)
        if told:
            try:
                ask(expected)
            except Exception:  # it is not the form: ref_kernel's own result breaks it as well
                told = ""
        if not told:
            raise TaskError(broken(error)) from error
        return f"{told} ({type(error).__name__})"


def _told(found: Any) -> str | None:
    """What check_implementation says is wrong; None where it is right. Some return a pair, some only what is wrong."""
    if isinstance(found, tuple) and len(found) == 2:
        right, why = found
    elif isinstance(found, str | list):
        right, why = not found, found
    elif found is None:
        raise TypeError("check_implementation returned None")
    else:
        right, why = found, ""
    if right:
        return None
    return (" ".join(map(str, why)) if isinstance(why, list | tuple) else str(why)) or "check_implementation says no"


def misshapen(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> str:
    """How outputs differ in form from what ref_kernel returned; "" where they do not."""
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            forms = [f"{each.dtype} {list(each.shape)}" for each in (one, other)]
            return f"output {number} is {forms[0]}, and ref_kernel returns {forms[1]}"
    return ""


def broken(error: Exception) -> str:
    """What an error of the task's check says, and the last line of reference.py that it came through."""
    lines, step = [], error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__") == OWN:
            lines.append(step.tb_lineno)
        step = step.tb_next
    place = f" at line {lines[-1]} of {OWN}.py" if lines else ""
    return f"check_implementation of the task raises {type(error).__name__}{place}: {error}"
