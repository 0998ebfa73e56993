"""What a target made of a robust-kbench task does at run time: calls its Model with a function, forward or backward.

Backward, what is judged are gradients of the task's function with respect to its arguments. The gradient of its output
is random, comes with the set, and is the last argument of a call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from . import kernelbench, models
from .kernelbench import Call


def forward(function: Callable[..., Any]) -> Call:
    """What calls a module with a function."""
    return lambda made, *args: made(*args, fn=function)


def backward(function: Callable[..., Any], places: Sequence[int]) -> Call:
    """What gives the gradients of a function, as a module calls it, with respect to its arguments in those places.

    What its output does not depend on has zeros.
    """

    def gradients(made: Callable[..., Any], *given: Any) -> list[torch.Tensor]:
        *args, grad = given
        leaves: list[Any] = []
        outputs = []

        def through(*values: Any, **named: Any) -> Any:
            leaves[:] = [v.detach().requires_grad_() if _floats(v) else v for v in values]
            outputs.append(function(*leaves, **named))
            return outputs[-1]

        with torch.enable_grad():
            made(*args, fn=through)
        asked = [leaves[place] for place in places]
        found = torch.autograd.grad(outputs[-1], asked, grad, allow_unused=True)
        return [torch.zeros_like(leaf) if each is None else each for each, leaf in zip(found, asked, strict=True)]

    return gradients


def _floats(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def posed(
    reference: ModuleType,
    device: str,
    generator: torch.Generator,
    settings: Mapping[str, Mapping[str, Any]],
    places: Sequence[int],
    **given: Any,
) -> dict[str, torch.Tensor]:
    """The inputs of a run, as `kernelbench.posed`.

    Args:
        settings: of the case, by name: of Model `init`, of get_inputs `input`.
        places: arguments whose gradients are judged; none where it is forward.
    """

    def init() -> list[Any]:
        return [[], dict(settings["init"])]

    def inputs() -> list[Any]:
        args = list(reference.get_inputs(**settings["input"]))
        if not places:
            return args
        model = models.drawn(reference.Model, init, "cpu")
        with torch.no_grad():
            found = models.aligned(reference.Model, model)(*args)
        if not isinstance(found, torch.Tensor):
            raise TypeError(f"forward returned {type(found).__name__}; gradients are asked of one tensor alone")
        return [*args, torch.randn_like(found)]

    call = backward(reference.forward_fn, places) if places else forward(reference.forward_fn)
    return kernelbench.posed(reference, device, generator, inputs=inputs, init=init, call=call, **given)


def compiled(path: str) -> Any:
    """The module that CUDA source beside a file binds, built by nvcc."""
    from torch.utils.cpp_extension import load

    source = Path(path).with_name("candidate.cu")
    name = f"aisp_{hashlib.sha256(source.read_bytes()).hexdigest()}"
    return load(name=name, sources=[str(source)], extra_cuda_cflags=["-O3"], with_cuda=True)
