"""A pair timed without aisp: `python -m tests.proofs.agreement.cost_script METHOD FOLDER`; one JSON line on stdout.

do_bench            the median of triton.testing.do_bench for both, nothing verified
kernelbench_style   five trials with fresh inputs, outputs compared with the baseline's by allclose, then 100 timed
                    calls of each between events, after three to warm up
"""

from __future__ import annotations

import functools
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

CORRECT_TRIALS, TIMED_TRIALS, WARM_UP = 5, 100, 3


def load(folder: Path, name: str) -> ModuleType:
    """A rung; the folder's other files can be imported by it."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder / name}.py cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fresh_inputs(target: Any, seed: int) -> list[Any]:
    """Normal values for every input, in order, made on the GPU: faster than aisp's, which are made on the CPU."""
    import torch

    from aisp.kernels import catalog

    generator = torch.Generator("cuda").manual_seed(seed)
    axes = target.case("default").axes
    return [
        torch.randn(catalog.shape(spec, axes), generator=generator, device="cuda").to(getattr(torch, spec.dtype))
        for spec in target.inputs
    ]


def event_ms(call: Callable[[], object]) -> float:
    """Median over timed trials of the event time around one call, host time and all, the caches as they are."""
    import torch

    taken: list[float] = []
    for trial in range(WARM_UP + TIMED_TRIALS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if trial >= WARM_UP:
            taken.append(start.elapsed_time(end))
    return statistics.median(taken)


def main() -> int:
    """See the module."""
    method, folder = sys.argv[1], Path(sys.argv[2])
    import torch

    torch.cuda.init()
    started = time.monotonic()  # process start, imports and context lie before
    from aisp.kernels import catalog
    from aisp.kernels.catalog.model import Target

    target = catalog.load_target(folder, root=folder.parent, chapter="pair")
    if not isinstance(target, Target):
        raise ValueError("; ".join(str(problem) for problem in target))
    sys.path.insert(0, str(folder))
    rungs = {name: load(folder, name).run for name in ("baseline", "optimized")}
    right = None
    if method == "kernelbench_style":
        right = True
        for trial in range(CORRECT_TRIALS):
            inputs = fresh_inputs(target, trial)
            outputs = [rung(*inputs) for rung in rungs.values()]
            torch.cuda.synchronize()
            right = right and torch.allclose(*outputs, atol=1e-2, rtol=1e-2)
    inputs = fresh_inputs(target, 1000)
    calls = {name: functools.partial(rung, *inputs) for name, rung in rungs.items()}
    if method == "do_bench":
        from triton.testing import do_bench

        ms = {name: float(do_bench(call, return_mode="median")) for name, call in calls.items()}
    else:
        ms = {name: event_ms(call) for name, call in calls.items()}
    inside_s = time.monotonic() - started
    print(json.dumps({"inside_s": inside_s, "ms": ms, "speedup": ms["baseline"] / ms["optimized"], "right": right}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
