"""What a target of a problem with a Model does at run time: makes weights, gives them to an answer, finds the truth.

Weights are those of KernelBench's seed: 42 for get_init_inputs(), again for Model(*init), again for ModelNew(*init).
Then ModelNew gets every tensor of the Model's state_dict that it has under the same name in the same shape, but for one
that it has laid out in another way. A Model is never put into eval(): batch norm takes the statistics of its batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .gpumode import settle
from .packing import PackError

SEED = 42
MOST_LINES = 20
"""Of what is printed about weights."""
ALIKE = {"float32": 2.5e-5, "float16": 2.5e-3, "bfloat16": 2.5e-3}
"""How far results that differ by rounding alone may be apart: a quarter of the tolerance."""

Module = Callable[..., torch.nn.Module]
"""A class of modules, or what makes one."""
Model = Mapping[str, Any]
"""What makes a problem's Model: `init` and `named`, the arguments of its class, and `state`, its tensors by name."""

_printed: set[str] = set()


# -- weights -----------------------------------------------------------------------------------------------------------


def drawn(cls: Module, get_init_inputs: Callable[[], Sequence[Any]], device: str) -> dict[str, Any]:
    """The arguments of a problem's Model, and its weights on `device`. Raises PackError where one has no size."""
    with torch.random.fork_rng(devices=[]):
        settle(SEED)
        init, named = arguments(get_init_inputs())
        settle(SEED)
        state = cls(*init, **named).state_dict()
    for name, tensor in state.items():
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            told = "has no size before the first call; make it with its sizes, as nn.Linear, not nn.LazyLinear"
            raise PackError(told, name)
    tensors = {name: tensor.detach().to(device) for name, tensor in state.items()}
    return {"init": init, "named": named, "state": tensors}


def arguments(init: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a class and those by name: what get_init_inputs() returns, which some write [[...], {...}]."""
    found = list(init)
    if len(found) == 2 and isinstance(found[0], list | tuple) and isinstance(found[1], dict):
        return list(found[0]), dict(found[1])
    return found, {}


def aligned(cls: Module, model: Model, *inputs: Any) -> torch.nn.Module:
    """A `cls` with the weights of the problem's Model where names and shapes agree; the rest is printed."""
    settle(SEED)
    made = cls(*model["init"], **model["named"])
    own, state, name_of = made.state_dict(), model["state"], cls.__name__
    same = {name: value for name, value in state.items() if name in own and own[name].shape == value.shape}
    lines = []
    for name, value in state.items():
        if name not in own:
            lines.append(f"{name} {list(value.shape)} of Model has no counterpart in {name_of}")
        elif name not in same:
            lines.append(f"{name} is {list(value.shape)} in Model and {list(own[name].shape)} in {name_of}")
        elif _rearranged(own[name], value):
            lines.append(f"{name} of {name_of} has the values of Model in another order, and keeps them")
            del same[name]
        elif not torch.equal(own[name].to(value.device, value.dtype), value):
            lines.append(f"{name} was made with other values in {name_of}, and has those of Model now")
    lines += [f"{name} of {name_of} is not in Model and keeps its own values" for name in own if name not in state]
    for line in lines[:MOST_LINES]:
        print("weights:", line)  # noqa: T201  to the run's log
    if len(lines) > MOST_LINES:
        print("weights:", len(lines) - MOST_LINES, "more")  # noqa: T201
    made.load_state_dict(same, strict=False)
    tensors = _tensors(inputs, model)
    if tensors:
        made = made.to(tensors[0].device)
    return made.requires_grad_(False)


def _rearranged(own: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a weight is the Model's laid out in another way, as a transposed one."""
    own = own.detach().to(value.device)
    if own.dtype != value.dtype or torch.equal(own, value):
        return False
    return torch.equal(own.flatten().sort().values, value.flatten().sort().values)


def _tensors(inputs: Sequence[Any], model: Model) -> list[torch.Tensor]:
    """Those of the inputs and of the weights; the first lies where the module is to be."""
    return [value for value in (*inputs, *model["state"].values()) if isinstance(value, torch.Tensor)]


def seed(number: torch.Tensor | int) -> None:
    """Put PyTorch's generators where a set says, so that Model and ModelNew draw the same numbers.

    Raises RuntimeError while a graph is captured: each replay would draw other numbers.
    """
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("a call that stands behind a seed cannot be captured")
    word = int(number)
    torch.default_generator.manual_seed(word)
    for generator in torch.cuda.default_generators:  # none before CUDA is used
        generator.manual_seed(word)


# -- the truth ---------------------------------------------------------------------------------------------------------


def exactly(
    call: Callable[..., Any], cls: Module, model: Model, number: torch.Tensor | int | None, precision: str, *inputs: Any
) -> Any:
    """What the problem's Model gives, computed in the floating dtype of what it is given.

    In fp64 it may not be had: of a Model that makes fp32 tensors in forward, and of one that draws other random numbers
    in fp64 than in the dtype that rungs get. The truth is computed in the narrower dtype then, which is printed.

    Args:
        number: the seed of what forward() draws; None where it draws nothing.
        precision: the dtype that rungs get.
    """
    floating = (value.dtype for value in _tensors(inputs, model) if value.is_floating_point())
    dtype = next(floating, torch.float32)
    wide = None
    try:
        wide = _called(call, cls, model, number, dtype, inputs)
        if dtype != torch.float64 or number is None:
            return wide
    except (RuntimeError, TypeError):
        if dtype != torch.float64:
            raise
    name = "float32" if number is None else precision
    narrow = _called(call, cls, model, number, getattr(torch, name), inputs)
    if wide is not None and alike(wide, narrow, ALIKE[name]):
        return wide
    why = "does not compute in float64" if wide is None else "draws other random numbers in float64"
    if why not in _printed:
        _printed.add(why)
        print(f"reference: Model {why}; the truth is that of {name}")  # noqa: T201  to the run's log
    found = [value.double() if value.is_floating_point() else value for value in several(narrow)]
    return found if len(found) > 1 else found[0]


def _called(
    call: Callable[..., Any],
    cls: Module,
    model: Model,
    number: torch.Tensor | int | None,
    dtype: torch.dtype,
    inputs: Sequence[Any],
) -> Any:
    cast = [v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs]
    made = aligned(cls, model, *cast).to(dtype)
    if number is None:
        settle(SEED)
    else:
        seed(number)
    return call(made, *cast)


def several(result: Any) -> list[Any]:
    """What a call returned, as a list."""
    return list(result) if isinstance(result, tuple | list) else [result]


def alike(wide: Any, narrow: Any, share: float) -> bool:
    """Whether two results differ by rounding alone, element by element, relative to max(RMS, |value|)."""
    for one, other in zip(several(wide), several(narrow), strict=False):
        if one.shape != other.shape:
            return False
        if not one.is_floating_point():
            if not torch.equal(one, other):
                return False
            continue
        size = torch.clamp(one.abs(), min=float(one.square().mean().sqrt()) if one.numel() else 0.0)
        if not bool(((one - other.double()).abs() <= share * size).all()):
            return False
    return True
