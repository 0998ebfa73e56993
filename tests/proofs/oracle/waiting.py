"""Whoever waits for a rung's process: starts it, starts it again after a death, and gives up on one that hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.proofs.oracle import asking
from tests.proofs.oracle.asking import Job

MAIN = Path(__file__).resolve().parents[3]
LOOK_EVERY_S = 0.1
READY_S = 180.0  # imports and, with compilers, the first case
DEATHS = 5


@dataclass
class Answers:
    """Everything that a rung's processes wrote.

    Attributes:
        cases: lines of cases, in order; one that a process died of has the verdict "crashed" or "timeout".
        others: by key, the lines that belong to no case.
        problem: why it did not come to its end; "" where it did.
    """

    cases: list[dict[str, Any]] = field(default_factory=list)
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    problem: str = ""
    took_s: float = 0.0

    def one(self, key: str) -> dict[str, Any]:
        """The last line with that key; {} where there is none."""
        return self.others[key][-1] if self.others.get(key) else {}

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Lines of failing cases."""
        return [line for line in self.cases if line["verdict"] in asking.FAILING]


def ask(job: Job, *, patience_s: float = 120.0, first_s: float = READY_S, fork: bool = False) -> Answers:
    """Ask all of a job's questions.

    Args:
        patience_s: with one case; a process that says nothing for longer is killed, and the case has timed out.
        first_s: the same before and of the first case of a process, which compiles.
        fork: copy this process instead of starting another; it then imports what jobs on a CPU need.
    """
    answers, started, deaths = Answers(), time.monotonic(), 0
    while True:
        before = len(answers.cases)
        died_of = _once(replace(job, skip=job.skip + before), answers, patience_s, first_s, fork)
        if answers.others.get("done"):
            answers.problem = ""
            break
        deaths += 1
        if died_of is not None:
            answers.cases.append(died_of)
        if len(answers.cases) == before or deaths >= DEATHS:  # another process would come no further
            answers.problem = answers.problem or f"{deaths} of its processes died"
            break
    answers.took_s = time.monotonic() - started
    return answers


def _once(job: Job, answers: Answers, patience_s: float, first_s: float, fork: bool) -> dict[str, Any] | None:
    """One process. What it died of as a case's line, None where it died of no case."""
    with tempfile.TemporaryDirectory(prefix="oracle_proof_") as folder:
        lines, told = Path(folder, "lines"), Path(folder, "job.json")
        lines.touch()
        told.write_text(json.dumps(asdict(replace(job, lines=os.fspath(lines)))), "utf-8")
        errors = Path(folder, "errors")
        child = (_Forked if fork else _Started)(told, errors)
        hung, size, heard, parts = False, 0, time.monotonic(), 0
        while child.poll() is None:
            time.sleep(LOOK_EVERY_S)
            now = lines.stat().st_size
            if now != size:
                size, heard, parts = now, time.monotonic(), parts + 1
            elif time.monotonic() - heard > (first_s if parts < 3 else patience_s):
                hung = True
                child.kill()
        begun: dict[str, Any] | None = None
        for text in lines.read_text("utf-8").splitlines():
            line = _read(text)
            if line is None:
                continue
            if "start" in line:
                begun = line
            elif "index" in line:
                begun = None
                answers.cases.append(line)
            else:
                answers.others.setdefault(next(iter(line)), []).append(line)
        if answers.others.get("done"):
            return None
        last = errors.read_text("utf-8", "replace").strip().splitlines()[-1:] or [f"exit status {child.poll()}"]
        if begun is None:
            answers.problem = last[0][:300]
            return None
        verdict, detail = ("timeout", f"no answer for {patience_s:.0f} s") if hung else ("crashed", last[0][:300])
        died = {"index": begun["start"], "seed": begun["seed"], "case": begun["case"], "took_s": 0.0}
        return died | {
            "verdict": verdict,
            "finding": "",
            "detail": detail,
            "hashes": {},
            "sha256": "",
            "max_error": None,
        }


class _Started:
    """A process from nothing: CUDA cannot be forked."""

    def __init__(self, job: Path, errors: Path) -> None:
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "tests.proofs.oracle.asking", os.fspath(job)]
        with errors.open("wb") as stream:
            self._child = subprocess.Popen(command, cwd=MAIN, env=environment, stdout=stream, stderr=stream)

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._child.poll()

    def kill(self) -> None:
        """End it and wait for that."""
        self._child.kill()
        self._child.wait()


class _Forked:
    """A copy of this process, which has imported everything: most of a small job would be imports."""

    def __init__(self, job: Path, errors: Path) -> None:
        asking.prepare("cpu")
        self._status: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid:
            return
        status = 1
        try:
            stream = os.open(errors, os.O_WRONLY | os.O_CREAT)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            warnings.simplefilter("ignore")
            sys.dont_write_bytecode = True
            sys.argv[1:] = [os.fspath(job)]
            asking.main()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)  # nothing of the parent's may run twice: no clean-up of its folders, no tests

    def poll(self) -> int | None:
        """Its exit status, negative for a signal, None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def kill(self) -> None:
        """End it and wait for that."""
        os.kill(self._pid, signal.SIGKILL)
        self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _read(text: str) -> dict[str, Any] | None:
    """A line, None for one that a dying process left unfinished."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def failure(line: Mapping[str, Any]) -> dict[str, Any]:
    """What is needed to do a failing case again."""
    return {key: line[key] for key in ("seed", "case", "hashes", "sha256", "detail")}
