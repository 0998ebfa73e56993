"""What the programs share: arguments, the machine, results as JSON, the real engine asked through its real command."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import recordings

ROOT = Path(__file__).parents[3]
NOT_HERE = 3
DROPPED = ("AISP_DEBUG", "AISP_CONFIG", "AISP_STATE", "TRITON_INTERPRET")
DASH = "–"

Document = dict[str, Any]


def log(text: str) -> None:
    """Progress, on stderr."""
    print(f"agreement: {text}", file=sys.stderr, flush=True)


def parser(name: str, about: str, *, budget_s: float) -> argparse.ArgumentParser:
    """The arguments of every program."""
    made = argparse.ArgumentParser(prog=f"python -m tests.proofs {name}", description=about)
    made.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="where the JSON goes")
    made.add_argument(
        "--budget", type=float, default=budget_s, metavar="SECONDS", help=f"end before this ({budget_s:.0f})"
    )
    return made


def taking(replicas: int, quick: bool = False) -> tuple[str, ...]:
    """The words that ask `aisp run` for so many replicas; none for 0, as many as a run has where nobody says."""
    return (*(["--replicas", str(replicas)] if replicas else []), *(["--quick"] if quick else []))


def taken(replicas: int, quick: bool = False) -> str:
    """The same for people."""
    usual = "replicas of a quick run" if quick else "replicas in the looks of a full run"
    return f"{replicas} replicas" if replicas else usual


def no_gpu() -> str:
    """Why there is no GPU here, "" where there is one."""
    from aisp.engine.telemetry import Nvml

    nvml = Nvml()
    return "" if nvml.count else (nvml.note or "NVML sees none")


def run_program(
    name: str,
    given: argparse.Namespace,
    measure: Callable[[], tuple[Document, str, str]],
    *,
    needs_gpu: bool = True,
) -> int:
    """Measure, write `FILE.json`, print the table; the exit status. `measure` gives document, file name and table."""
    reason = no_gpu() if needs_gpu else ""
    if reason:
        print(f"{name}: needs an NVIDIA GPU, and there is none here ({reason})", file=sys.stderr)
        return NOT_HERE
    from tests.proofs.bench.table import Machine

    machine = Machine.find().document()
    start = time.monotonic()
    document, file, table = measure()
    document = {"what": name, "machine": machine, "took_s": round(time.monotonic() - start, 1), **document}
    given.out.mkdir(parents=True, exist_ok=True)
    recordings.write(given.out / f"{file}.json", rounded(document))
    print(table)
    return 0


def rounded(value: Any) -> Any:
    """The same with floats cut to seven digits and what is not finite as None."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value


def median(values: Sequence[float | None]) -> float | None:
    """Median of those that are known; None without any."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.median(known) if known else None


def variation(values: Sequence[float | None]) -> float | None:
    """Coefficient of variation of those that are known; None for fewer than two."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return statistics.stdev(known) / statistics.fmean(known) if len(known) > 1 else None


def plain_environment() -> dict[str, str]:
    """This process's environment, in which our own modules can be imported and nothing changes how aisp works."""
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
    path = os.pathsep.join(part for part in (str(ROOT), kept.get("PYTHONPATH", "")) if part)
    return kept | {"PYTHONPATH": path}


def environment(home: Path) -> dict[str, str]:
    """What an engine of ours runs under: state and sockets below `home`, everything else as it is."""
    (home / "run").mkdir(parents=True, exist_ok=True)
    (home / "run").chmod(0o700)
    return plain_environment() | {
        "AISP_STATE": str(home / "state"),
        "AISP_CONFIG": str(home / "config"),
        "XDG_RUNTIME_DIR": str(home / "run"),
    }


@contextlib.contextmanager
def engine_home() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder and the environment of an engine in it; an engine that was started there is ended with its processes."""
    from tests.proofs.bench.engines import stop_engine

    with tempfile.TemporaryDirectory(prefix="aisp-agreement-") as folder:
        home = Path(folder)
        environ = environment(home)
        try:
            yield home, environ
        finally:
            stop_engine(environ)


def bench_run(environ: Mapping[str, str], *words: str, limit_s: float) -> tuple[list[Document], float, str]:
    """`aisp run --json` with these words: an object per run, wall time in s, and what went wrong ("" if nothing).

    A run that is not good (exit status 1 or 3) still has its object; past `limit_s` the command is interrupted, which
    cancels the run.
    """
    command = [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", "run", *words, "--json"]
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    problem = ""
    try:
        told, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        problem = f"not done within {limit_s:.0f} s"
        try:
            told, errors = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            told, errors = process.communicate()
    took_s = time.monotonic() - start
    objects = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    runs = [one for one in objects if "error" not in one]
    if not problem and (process.returncode or not runs):
        last = [line for line in errors.splitlines() if line.strip()][-3:]
        reasons = [f"{run['status']}: {run['reason']}" for run in runs if run["status"] != "ok"]
        problem = f"exit status {process.returncode}: " + ("; ".join(reasons) or " / ".join(last))
    return runs, took_s, problem


def rule_of(environ: Mapping[str, str]) -> str:
    """The stop rule that the engine wrote down for its newest run, as JSON; "" where it cannot be read."""
    import sqlite3

    try:
        with contextlib.closing(sqlite3.connect(Path(environ["AISP_STATE"]) / "aisp.db")) as base:
            row = base.execute(
                "select content from manifests m join runs r on r.manifest = m.hash order by r.id desc limit 1"
            ).fetchone()
    except sqlite3.Error:
        return ""
    return str(row[0]) if row else ""
