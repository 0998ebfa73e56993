"""A GPU that is a CPU: with this module imported first (tests.engine.started) and the fake driver, runs on
"cuda" go from start to end.

The engine takes torch for one that was built with CUDA, and its workers say that they have a GPU; what they are then
asked to do on it they do on the CPU, timed by the host's clock. What the engine makes of the driver's answers is real.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_version = importlib.metadata.version


def _torch_with_cuda(name: str) -> str:
    return _version(name).removesuffix("+cpu")


def _says_that_it_has_a_gpu(module: ModuleType) -> None:
    ready: Callable[..., Any] = module.Ready

    def with_gpu(**told: Any) -> Any:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "GPU-0")
        if not visible:
            return ready(**told)
        uuid = visible.partition(",")[0]
        return ready(**told | {"gpu_name": "NVIDIA H100 80GB HBM3", "gpu_uuid": uuid, "sm": 90, "note": ""})

    module.Ready = with_gpu  # type: ignore[attr-defined]


def _works_on_the_cpu(*names: str) -> Callable[[ModuleType], None]:
    def patch(module: ModuleType) -> None:
        import msgspec

        for role in (getattr(module, name) for name in names):

            def make(self: Any, job: Any, *rest: Any, original: Callable[..., None] = role.__init__) -> None:
                original(self, msgspec.structs.replace(job, device="cpu"), *rest)

            role.__init__ = make

    return patch


class _After:
    """Changes modules right after they were imported."""

    def __init__(self, patches: dict[str, Callable[[ModuleType], None]]) -> None:
        self._patches = patches

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        patch = self._patches.pop(name, None)
        spec = importlib.util.find_spec(name) if patch is not None else None
        if spec is None or spec.loader is None or patch is None:
            return None
        execute = spec.loader.exec_module

        def then_patch(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = then_patch  # type: ignore[method-assign]
        return spec


importlib.metadata.version = _torch_with_cuda
if {"aisp.engine.worker", "aisp.engine.worker.nursery"}.intersection(sys.orig_argv):
    sys.meta_path.insert(
        0,
        _After(  # type: ignore[arg-type]
            {
                "aisp.engine.protocol.reports": _says_that_it_has_a_gpu,
                "aisp.engine.worker.arm": _works_on_the_cpu("Arm"),
                "aisp.engine.worker.verifier": _works_on_the_cpu("Verifier"),
            }
        ),
    )
