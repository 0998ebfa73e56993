"""`python -c CODE WORDS` for tests, in a fork of a process that has imported torch and the worker's modules.

Those imports take three CPU-seconds, and a fork of what has them none. Such a process serves all tests of one pytest
process, one fork after the other: `python -m tests.imported`, which reads a request a line and answers in one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from aisp.engine.spawner import NO_PRECOMPILED_HEADERS
from aisp.engine.worker.nursery import leave

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_S = 120.0
# Torch's compiler else builds six programs to learn which vector instructions g++ knows: twelve seconds of a core.
PLAIN_INSTRUCTIONS = {"TORCHINDUCTOR_VEC_ISA_OK": "0"}
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    **NO_PRECOMPILED_HEADERS,  # as the engine's workers have it
    **PLAIN_INSTRUCTIONS,
}


def python(
    code: str, *words: str, environment: Mapping[str, str] | None = None, where: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """What `python -c CODE WORDS` says in the folder `where`, in a process of its own."""
    return _server().ask(code, words, environment or {}, where)


class Server:
    """The process that has imported what takes long."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.imported"],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def ask(
        self, code: str, words: tuple[str, ...], environment: Mapping[str, str], where: Path
    ) -> subprocess.CompletedProcess[str]:
        """See `python`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([code, words, dict(environment), os.fspath(where)]), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        answer = self._process.stdout.readline() if ready else ""
        if not answer:
            self.end()
            _server.cache_clear()
            raise AssertionError(f"no answer within {PATIENCE_S:.0f} s")
        status, stdout, stderr = json.loads(answer)
        return subprocess.CompletedProcess(list(words), status, stdout, stderr)

    def end(self) -> None:
        """It and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_server = functools.cache(Server)


def run(code: str, words: list[str], environment: dict[str, str], where: str, said: list[Any]) -> None:
    """Be `python -c CODE WORDS`, and leave."""
    os.chdir(where)
    for number, file in enumerate(said, 1):
        os.dup2(file.fileno(), number)
    import numpy

    numpy.random.seed()  # random seeds itself in a fork, numpy does not
    os.environ |= environment
    tempfile.tempdir = None  # looked up anew: TMPDIR may be another one
    sys.argv, sys.path[0] = ["-c", *words], ""
    sys.modules["__main__"] = main = ModuleType("__main__")
    status: object = 0
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)  # noqa: S102  what it is for
    except SystemExit as leaving:
        status = leaving.code
    except BaseException:
        traceback.print_exc()
        status = 1
    leave(status)


def serve() -> None:
    """Answer requests until nobody asks any more."""
    import torch  # noqa: F401

    import aisp.checks.evaluation
    import aisp.engine.worker.arm
    import aisp.engine.worker.channel
    import aisp.engine.worker.timers  # noqa: F401

    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if child == 0:
                code, words, environment, where = json.loads(line)
                run(code, words, environment, where, [out, err])
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
        print(json.dumps([status, *texts]), flush=True)


if __name__ == "__main__":
    serve()
