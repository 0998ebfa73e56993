"""One call of a rung on a posed case, in whatever process the rung lives in."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from aisp.checks.oracle import values
from aisp.checks.oracle.layouts import lay_out
from aisp.checks.oracle.returned import reader
from aisp.checks.oracle.schema import Case, Layout
from aisp.checks.oracle.truth import differentiable
from aisp.kernels.catalog.model import Flag, Target

OTHERS = 1 << 20  # added to a case's number for values that prepare() sees and the call does not
RECOMPILE_LIMITS = ("recompile_limit", "accumulated_recompile_limit")  # of torch._dynamo.config
NO_LIMIT = 1 << 20


def keys_before(target: Target, case: Case, seed: int) -> dict[str, tuple[int, int]]:
    """Keys of the values that prepare() sees: all that a rung's process needs of the seed."""
    return values.keys_of(target, replace(case, number=case.number + OTHERS), seed)


def attempt(
    target: Target,
    run: Callable[..., Any] | None,
    prepare: Callable[..., Any] | None,
    case: Case,
    others: Mapping[str, tuple[int, int]],
    posed: Mapping[str, Any],
    made: Mapping[str, Any],
    device: str,
) -> dict[str, Any]:
    """The outputs by name, and gradients as "d_<input>" where [fuzz] says `backward`.

    As in a timed run, prepare() sees buffers whose values are others than those of the call, but for static inputs:
    zeros where pose() makes them, which is not known here.

    Args:
        run: None where there is only prepare; where both are there, what prepare returns is called.
        others: `keys_before`, by which what prepare() sees is drawn.
        posed: Examiner's inputs, and gradients of the outputs as "g_<output>"; host memory.
        made: what inputs.py made, for this process.

    Raises:
        FormError: what came back is no plain tensor or has no memory of its own; see checks.oracle.returned.
        Exception: whatever the rung raises.
    """
    import torch  # only workers and scripts have it

    buffers: list[Any] = []
    leaves: dict[str, Any] = {}
    for spec in target.inputs:
        if spec.made:
            buffers.append(made[spec.name])
            continue
        where = "cpu" if {Flag.CPU, Flag.PINNED} & spec.flags else device
        buffer = lay_out(posed[spec.name], case.layouts.get(spec.name, Layout.CONTIGUOUS), where)
        if Flag.PINNED in spec.flags and device == "cuda":
            buffer = buffer.pin_memory()
        if target.fuzz.backward and differentiable(spec):
            leaves[spec.name] = buffer.requires_grad_(True)
        buffers.append(buffer)
    with _compiled_as_often_as_it_takes():
        if prepare is not None:
            before = values.inputs_by(target, case, others)
            blank = {s.name: torch.zeros_like(posed[s.name]) for s in target.inputs if s.posed}
            _refill(target, buffers, blank | before)
            run = prepare(*buffers)
            _refill(target, buffers, posed)
        assert run is not None, "a rung has run or prepare"
        answer = run(*buffers)
    reading = reader()
    outputs = reading.items(answer, [spec.name for spec in target.outputs])
    declared = [spec.name for spec in target.outputs_of(len(outputs))]
    alike = len(outputs) == len(declared)
    names = declared if alike else [f"output {index}" for index in range(len(outputs))]
    named = {name: reading.plain(name, output) for name, output in zip(names, outputs, strict=True)}
    if alike:
        reading.apart(names, list(named.values()))
    if alike and leaves:
        named |= _gradients(named, leaves, posed)
    return {name: reading.detach(output) for name, output in named.items()}


@contextlib.contextmanager
def _compiled_as_often_as_it_takes() -> Iterator[None]:
    """Lift the compiler's limits on how often a function is compiled anew: drawn cases have more shapes than any user.

    Afterwards they are as before, but where the rung itself has set another: that is for the checks to see.
    """
    compiler = sys.modules.get("torch._dynamo")
    if compiler is None:
        yield
        return
    before = {name: getattr(compiler.config, name) for name in RECOMPILE_LIMITS}
    for name in before:
        setattr(compiler.config, name, NO_LIMIT)
    try:
        yield
    finally:
        for name, limit in before.items():
            if getattr(compiler.config, name) == NO_LIMIT:
                setattr(compiler.config, name, limit)


def _refill(target: Target, buffers: list[Any], values_by_name: Mapping[str, Any]) -> None:
    """Other values into the same buffers, but for static and made inputs."""
    for spec, buffer in zip(target.inputs, buffers, strict=True):
        if spec.refilled:
            once = slice(0, 1) if _expanded(buffer) else slice(None)
            held = buffer.data
            (held[once] if held.dim() else held).copy_(
                values_by_name[spec.name][once] if held.dim() else values_by_name[spec.name]
            )


def _expanded(buffer: Any) -> bool:
    """Whether all slices of the first dimension are one, which then is to be written once."""
    return buffer.dim() > 0 and buffer.shape[0] > 1 and buffer.stride(0) == 0


def _gradients(named: Mapping[str, Any], leaves: Mapping[str, Any], posed: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    pairs = [
        (named[name.removeprefix("g_")], gradient)
        for name, gradient in posed.items()
        if name.startswith("g_") and named[name.removeprefix("g_")].requires_grad
    ]
    zeros = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    if not pairs:
        return {f"d_{name}": zero for name, zero in zeros.items()}
    grads = torch.autograd.grad(
        [output for output, _ in pairs],
        list(leaves.values()),
        [gradient.to(output.device) for output, gradient in pairs],
        allow_unused=True,
    )
    pairs_of = zip(leaves, grads, strict=True)
    return {f"d_{name}": zeros[name] if grad is None else grad for name, grad in pairs_of}
