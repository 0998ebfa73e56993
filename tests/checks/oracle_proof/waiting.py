"""Whoever waits for a rung's process: starts it, starts it again after a death, and gives up on one that hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.checks.oracle_proof.asking import Job

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
        return [line for line in self.cases if line["verdict"] in ("wrong", "error", "crashed", "timeout")]


def ask(job: Job, *, patience_s: float = 120.0, first_s: float = READY_S) -> Answers:
    """Ask all of a job's questions.

    Args:
        patience_s: with one case; a process that says nothing for longer is killed, and the case has timed out.
        first_s: the same before and of the first case of a process, which compiles.
    """
    answers, started, deaths = Answers(), time.monotonic(), 0
    while True:
        began = _once(replace(job, skip=job.skip + len(answers.cases)), answers, patience_s, first_s)
        if answers.others.get("done"):
            answers.problem = ""
            break
        deaths += 1
        if began is not None:
            answers.cases.append(began)
        sticky = answers.cases and "CUDA error" in answers.cases[-1].get("detail", "")
        if (began is None and not sticky) or deaths >= DEATHS:
            answers.problem = answers.problem or f"{deaths} of its processes died"
            break
    answers.took_s = time.monotonic() - started
    return answers


def _once(job: Job, answers: Answers, patience_s: float, first_s: float) -> dict[str, Any] | None:
    """One process. What it died of as a case's line, None where it died of no case."""
    with tempfile.TemporaryDirectory(prefix="oracle_proof_") as folder:
        lines, told = Path(folder, "lines"), Path(folder, "job.json")
        lines.touch()
        told.write_text(json.dumps(asdict(replace(job, lines=os.fspath(lines)))), "utf-8")
        # One thread: two cores that a test run shares gain nothing from more.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
        errors = Path(folder, "errors")
        with errors.open("wb") as stream:
            command = [sys.executable, "-m", "tests.checks.oracle_proof.asking", os.fspath(told)]
            child = subprocess.Popen(command, cwd=MAIN, env=environment, stdout=stream, stderr=stream)
            hung, size, heard, parts = False, 0, time.monotonic(), 0
            while child.poll() is None:
                time.sleep(LOOK_EVERY_S)
                now = lines.stat().st_size
                if now != size:
                    size, heard, parts = now, time.monotonic(), parts + 1
                elif time.monotonic() - heard > (first_s if parts < 3 else patience_s):
                    hung = True
                    child.kill()
                    child.wait()
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
        last = errors.read_text("utf-8", "replace").strip().splitlines()[-1:] or [f"exit status {child.returncode}"]
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
