"""An evaluator for OpenEvolve: a program is a candidate of a target, its score what it is worth at least.

    from aisp.engine.doors.openevolve import evaluator

    evaluate = evaluator("ch07:transpose")

The score is the lower end of the speed-up's interval, since of many programs the one with the luckiest median wins. The
evidence is the one artifact, of at most `evidence.EVIDENCE_BYTES`. What cannot be judged has the score 0 and evidence
that says why, never an exception: a search of hours goes on.

Nothing of OpenEvolve is imported: where its program calls, its own class is there to answer with.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors import api
from aisp.engine.doors.asking import NotHereError, RefusedError
from aisp.kernels.catalog import parsing
from aisp.kernels.catalog.sources import read_bytes
from aisp.store.errors import StoreError
from aisp.store.results import evidence
from aisp.store.results.outcome import Outcome, Stage
from aisp.store.text import clean, clean_line

TARGET, LEVEL, DEVICE = "AISP_TARGET", "AISP_LEVEL", "AISP_DEVICE"
"""Variables that name what `evaluate` judges against, how thoroughly ("quick", "full") and where."""
ARTIFACT = "evidence"
_THEIRS = "openevolve.evaluation_result"
_LEVELS = ("quick", "full")


@dataclass
class EvaluationResult:
    """Metrics and artifacts, where OpenEvolve's own class of this name is not loaded."""

    metrics: dict[str, float]
    artifacts: dict[str, str | bytes] = field(default_factory=dict)


def evaluator(target: str, *, level: str = "quick", device: str = "auto") -> Callable[[str], Any]:
    """A function `evaluate(program_path)` that judges programs as candidates of this target.

    Args:
        target: an id, a unique name, or the path of a target's folder or file.
        level: "quick", to choose by, or "full".
        device: "auto", "cuda" or "cpu".

    Raises:
        ValueError: there is no such level.
    """
    if level not in _LEVELS:
        raise ValueError(f"there is no level {level!r}; use quick or full")

    def evaluate(program_path: str) -> Any:
        return _judged(program_path, target, level, device)

    return evaluate


def evaluate(program_path: str) -> Any:
    """The program at a path as a candidate of the target that AISP_TARGET names, at the level of AISP_LEVEL."""
    return _judged(program_path, os.environ.get(TARGET, ""), os.environ.get(LEVEL, "quick"), _device())


def evaluate_stage1(program_path: str) -> Any:
    """The first stage of a cascade: a quick run."""
    return _judged(program_path, os.environ.get(TARGET, ""), "quick", _device())


def evaluate_stage2(program_path: str) -> Any:
    """The second stage of a cascade: a full run, of what the first let through."""
    return _judged(program_path, os.environ.get(TARGET, ""), "full", _device())


# -- inside ------------------------------------------------------------------------------------------------------------


def _device() -> str:
    return os.environ.get(DEVICE, "auto")


def _judged(program_path: str, target: str, level: str, device: str) -> Any:
    """The result of a program. Never raises: what was not foreseen is told as evidence too."""
    try:
        return _judge(Path(program_path), target, level, device)
    except (RefusedError, NotHereError, EngineUnavailableError, StoreError) as error:
        return _result(_none(Outcome.UNAVAILABLE, "refused", str(error)))
    except OSError as error:
        return _result(_none(Outcome.UNAVAILABLE, "unreadable", str(error)))
    except Exception as error:  # whatever it is, a search does not end for it
        return _result(_none(Outcome.UNAVAILABLE, "error", f"{type(error).__name__}: {error}"))


def _judge(program: Path, target: str, level: str, device: str) -> Any:
    if not target:
        raise RefusedError(f"no target is named; set {TARGET}, or use evaluator(target)")
    if level not in _LEVELS:
        raise RefusedError(f"there is no level {clean_line(level)!r}; set {LEVEL} to quick or full")
    source = read_bytes(str(program.absolute()))
    if why := parsing.refusal(source, "candidate.py"):
        broken = _none(Outcome.FAILED, "syntax", "it does not parse")
        broken["quoted"] = {"text": clean(why, limit=evidence.QUOTED_CHARS), "untrusted": True}
        return _result(broken | {"stage": Stage.CODE.value, "next_move": "repair what is quoted"})
    made = api.beside(api.target_of(target), {f"{api.CANDIDATE}.py": source})
    reading = api.once(made, api.CANDIDATE, device=device, quick=level == "quick")
    said = evidence.of_run(reading, api.CANDIDATE)
    low = said.interval.lo if said.interval is not None else 0.0
    right = said.verdict.right
    return _result(said.plain(), score=low, speedup=said.speedup or 0.0, right=right, judged=said.verdict.settled)


def _none(verdict: Outcome, code: str, message: str) -> dict[str, Any]:
    """Evidence that there is no run."""
    return {
        "verdict": verdict.value,
        "stage": Stage.MACHINE.value,
        "reason_code": code,
        "message": clean_line(message, limit=evidence.MESSAGE_CHARS),
        "schema": evidence.SCHEMA,
    }


def _result(
    said: Mapping[str, Any], *, score: float = 0.0, speedup: float = 0.0, right: bool = False, judged: bool = False
) -> Any:
    """What OpenEvolve takes: numbers to choose by, and the evidence for the next prompt."""
    metrics = {"combined_score": score, "right": float(right), "speedup": speedup, "judged": float(judged)}
    artifacts: dict[str, str | bytes] = {ARTIFACT: evidence.compact(evidence.fit(dict(said)))}
    theirs = getattr(sys.modules.get(_THEIRS), "EvaluationResult", EvaluationResult)
    return theirs(metrics=metrics, artifacts=artifacts)
