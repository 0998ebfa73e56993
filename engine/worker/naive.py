"""The naive harness: what most harnesses do, kept here as the yardstick of how far it can be fooled.

One process imports baseline and rung. Both get the same tensors, never refilled. Right is what torch.allclose takes for
the baseline's (rtol = atol = 1e-2), on one shape. Time is that of ten calls between one pair of events on the current
stream, after three calls to warm up, over ten; on a CPU, between two readings of time.perf_counter.

It shares nothing with the timers and judges of this program, on purpose: it looks everything up when it needs it, as
those harnesses do, so that whoever replaces time.perf_counter or torch.allclose has replaced its eyes. Of several
ranks it asks the first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle.schema import Case
from aisp.checks.oracle.values import made_inputs
from aisp.engine.protocol import jobs, reports
from aisp.engine.worker import tensors
from aisp.engine.worker.group import Ranks
from aisp.engine.worker.loading import callable_of, entries_of, import_module, summary
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Flag, Target

if TYPE_CHECKING:
    import torch

WARM_UP_CALLS = 3
TIMED_CALLS = 10


def answer(job: jobs.Naive) -> reports.NaiveMeasured:
    """Evaluate one rung; whatever it raises becomes a note."""
    try:
        return _evaluate(job)
    except Exception as error:
        # A rung may raise anything; what a naive harness says of it is then just that.
        return reports.NaiveMeasured(base_ms=None, time_ms=None, accepts=None, note=summary(error))


def _evaluate(job: jobs.Naive) -> reports.NaiveMeasured:
    import torch

    folder = Path(os.fsdecode(job.folder))
    target = catalog.load_target(folder, root=Path(os.fsdecode(job.root)), chapter=job.chapter)
    if not isinstance(target, Target):
        raise RuntimeError("; ".join(str(problem) for problem in target))
    ranks = Ranks(job.rank, job.ranks, job.rendezvous, job.device)
    base_module = import_module(folder, job.baseline)
    inputs = _inputs(job, target, folder, ranks)
    base = _callable(base_module, inputs)
    wanted = _tuple(base(*inputs))
    base_ms = _time_ms(base, inputs, job.device)
    rung = _callable(import_module(folder, job.rung), inputs)
    result = _tuple(rung(*inputs))
    time_ms = _time_ms(rung, inputs, job.device)
    accepts = len(wanted) == len(result)
    for one, other in zip(wanted, result, strict=False):
        try:
            same = torch.allclose(other.float(), one.float(), rtol=1e-2, atol=1e-2)
        except RuntimeError:  # shapes that do not broadcast
            same = False
        accepts = accepts and bool(same)
    ranks.leave()
    return reports.NaiveMeasured(base_ms=base_ms, time_ms=time_ms, accepts=accepts)


def _inputs(job: jobs.Naive, target: Target, folder: Path, ranks: Ranks) -> list[Any]:
    """One set of inputs, on the device, for all calls of both."""
    case = target.case(job.case)
    names = (slot.name for slot in job.sets[0].slots)
    arrived = {name: ranks.part(whole) for name, whole in zip(names, tensors.read(job.sets[0]), strict=True)}
    made: dict[str, object] = {}
    if any(spec.made for spec in target.inputs):
        make: Any = callable_of(import_module(folder, "inputs"), "make")
        made = made_inputs(target, Case.of_set(case), job.made_seed, job.device, make)
    inputs: list[Any] = []
    for spec in target.inputs:
        if spec.made:
            inputs.append(made[spec.name])
        elif Flag.PINNED in spec.flags and job.device == "cuda":
            inputs.append(arrived[spec.name].clone().pin_memory())
        elif Flag.CPU in spec.flags or Flag.PINNED in spec.flags:
            inputs.append(arrived[spec.name].clone())
        else:
            inputs.append(arrived[spec.name].to(job.device, copy=True))
    return inputs


def _callable(module: Any, inputs: list[Any]) -> Callable[..., Any]:
    run, prepare = entries_of(module)
    call: Callable[..., Any] = run if prepare is None else prepare(*inputs)
    return call


def _tuple(returned: Any) -> tuple[torch.Tensor, ...]:
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def _time_ms(call: Callable[..., Any], inputs: list[Any], device: str) -> float | None:
    """Mean time of a call; None where the clock did not advance."""
    import torch

    for _ in range(WARM_UP_CALLS):
        call(*inputs)
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        for _ in range(TIMED_CALLS):
            call(*inputs)
        end.record()
        torch.cuda.synchronize()
        elapsed_ms = float(start.elapsed_time(end))
    else:
        before = time.perf_counter()
        for _ in range(TIMED_CALLS):
            call(*inputs)
        elapsed_ms = (time.perf_counter() - before) * 1e3
    return elapsed_ms / TIMED_CALLS if elapsed_ms > 0 else None
