"""PTX of a lesson's Triton kernel, for a GPU that need not be there.

A process of its own, because the modules of different lessons share their names and a kernel is for Triton's
interpreter or for its compiler from the moment it is made.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.imported import python

DIVISIBLE = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class Job:
    """What to compile.

    Attributes:
        module, kernel: file and function in the lesson's folder.
        signature: by argument in order, Triton's name of its type: "*bf16", "i32", "constexpr".
        constants: values of the constexpr arguments.
        sm: compute capability, 90 for 9.0.
        undivided: arguments that are not multiples of 16; pointers and integers are by default.
    """

    module: str
    kernel: str
    signature: Mapping[str, str]
    constants: Mapping[str, int | bool]
    sm: int
    warps: int
    stages: int
    undivided: tuple[str, ...] = field(default=())


def ptx(folder: Path, job: Job, cache: Path) -> str:
    """The kernel's PTX, compiled in another process; Triton's own cache would hide an error of the compiler's."""
    code = f"from {__name__} import main\nmain()"
    done = python(code, os.fspath(folder), json.dumps(asdict(job)), environment={"TRITON_CACHE_DIR": os.fspath(cache)})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def main() -> None:
    """Compile the job that the command line names."""
    os.environ.pop("TRITON_INTERPRET", None)
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    folder, job = sys.argv[1], Job(**json.loads(sys.argv[2]))
    sys.path.insert(0, folder)
    kernel = getattr(importlib.import_module(job.module), job.kernel)
    divided = {
        (place,): DIVISIBLE
        for place, (name, kind) in enumerate(job.signature.items())
        if kind != "constexpr" and name not in job.undivided
    }
    source = ASTSource(kernel, dict(job.signature), dict(job.constants), divided)
    options = {"num_warps": job.warps, "num_stages": job.stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", job.sm, 32), options=options)
    sys.stdout.write(compiled.asm["ptx"])
