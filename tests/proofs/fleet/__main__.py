"""`python -m tests.proofs fleet`: CPU candidates over a Ray cluster of this machine, the command killed on the way.

    --candidates N  how many; a tenth of them crashes, a fiftieth hangs (100)
    --plain N       how many of the same through one engine without Ray, for the pace (as many)
    --kills N       SIGKILLs of the command, at even shares of the outcomes (2)
    --patience S    how long a rung may give no sign of progress (10)
    --record FILE   put the figures there

Each candidate is a file of its own content. At the end every one must have its outcome, the outcome that it was written
for, and one run that came to its end. The figures go to stdout as JSON, progress to stderr. The exit status is 0 where
all of it held. Needs Ray.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from aisp.engine import client, paths
from aisp.engine.doors import api
from aisp.engine.doors.fleet import agent, messages, work
from aisp.engine.doors.many import ENTRY, Common, rung_of
from aisp.engine.protocol import requests
from aisp.store import History
from aisp.store.candidates import Candidates, CandidateState, Row
from aisp.store.content import snapshot_hash
from tests import recordings
from tests.proofs.fleet.cluster import Cluster, cluster

TARGET = """\
import torch

axes = {"M": 64, "N": 64}


def reference(x: "float32 [M, N] normal") -> "float32 [M]":
    return x.sum(-1)


def baseline(x):
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in range(x.shape[1]):
        total += x[:, column]
    return total


def optimized(x):
    return x.sum(-1)
"""
GOOD = "def run(x):\n    return x.sum(-1)\n"
CRASHES = {
    "crashed": "import os\n\n\ndef run(x):\n    os.kill(os.getpid(), 11)\n",
    "premature_exit": "import os\n\n\ndef run(x):\n    os._exit(0)\n",
    "user_error": "def run(x):\n    raise ValueError('no')\n",
}
HANG = "def run(x):\n    while True:\n        pass\n"


def told(text: str) -> None:
    """Progress."""
    print(f"fleet: {text}", file=sys.stderr, flush=True)


def written(folder: Path, count: int) -> dict[str, str]:
    """Write so many candidates; by name, the state that each must end in."""
    folder.mkdir()
    expected = {}
    for number in range(count):
        state, text = "ok", GOOD
        if number % 10 == 5:
            state = list(CRASHES)[number // 10 % len(CRASHES)]
            text = CRASHES[state]
        elif number % 50 == 7:
            state, text = "timeout_progress", HANG
        name = f"c{number:05d}.py"
        (folder / name).write_text(f"# {number}\n{text}")
        expected[name] = state
    return expected


def rows(state: Path) -> list[tuple[str, Row]]:
    """What stands in the table."""
    with Candidates(state / "candidates.db") as table:
        return [entry for batch in table.batches() for entry in table.rows(batch)]


def ended(state: Path) -> int:
    """How many have their end."""
    if not (state / "candidates.db").exists():
        return 0
    return sum(row.state.ended for _, row in rows(state))


def final_runs(state: Path) -> Counter[str]:
    """Runs that say something of a candidate, by target; each candidate is a target of its own."""
    with History(state / "aisp.db") as history:
        return Counter(
            run.target
            for target in history.targets()
            for run in history.history(target)
            if run.state.final and run.state not in ("cancelled", "engine_lost", "infra_error", "unavailable")
        )


def start(home: Path, address: str, patience_s: float) -> subprocess.Popen[bytes]:
    """The command, as a person starts it."""
    words = ["fleet", str(home / "c"), "--against", str(home / "rows.py"), "--device", "cpu", "--finalists", "0"]
    words += ["--patience", str(patience_s), "--address", address, "--json"]
    with (home / "out").open("ab") as out, (home / "err").open("ab") as err:
        return subprocess.Popen(
            [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def with_ray(home: Path, made: Cluster, expected: Mapping[str, str], kills: int, patience_s: float) -> dict[str, Any]:
    """All candidates over the cluster, the command killed on the way."""
    state, began_s = paths.state_dir(), time.monotonic()
    marks = [len(expected) * (number + 1) // (kills + 1) for number in range(kills)]
    process = start(home, made.address, patience_s)
    killed = 0
    while process.poll() is None or killed < len(marks):
        done = ended(state)
        if killed < len(marks) and done >= marks[killed]:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            told(f"{done} of {len(expected)} had their end when the command was killed ({killed})")
            process = start(home, made.address, patience_s)
        elif process.poll() is not None:
            break
        time.sleep(0.2)
    took_s = time.monotonic() - began_s
    found = rows(state)
    states = Counter(str((row.outcome or {}).get("state", row.state.value)) for _, row in found)
    finals = final_runs(state)
    return {
        "candidates": len(expected),
        "outcomes": sum(row.state is CandidateState.DONE for _, row in found),
        "lost": len(expected) - sum(row.state is CandidateState.DONE for _, row in found),
        "not_as_expected": sorted(
            f"{name}: {(row.outcome or {}).get('state')}, not {expected[name]}"
            for name, row in found
            if (row.outcome or {}).get("state") != expected[name]
        ),
        "run_twice": sorted(target for target, count in finals.items() if count > 1),
        "final_runs": sum(finals.values()),
        "states": dict(states),
        "attempts": dict(Counter(row.attempts for _, row in found)),
        "killed": killed,
        "exit_status": process.returncode,
        "took_s": round(took_s, 1),
        "per_hour": round(len(expected) / took_s * 3600, 1),
        "load_average_5_minutes": os.getloadavg()[1],
    }


def without_ray(home: Path, count: int, patience_s: float) -> dict[str, Any]:
    """The first of the same candidates, one after the other through one engine, by the same function as an agent's."""
    common = Common.of(api.target_of(home / "rows.py"))
    environment = agent.environment(os.environ, [])
    work.open_engine(environment)
    began_s, states = time.monotonic(), Counter[str]()
    for number, path in enumerate(sorted((home / "c").iterdir())[:count]):
        files = {ENTRY: path.read_bytes()}
        rung = rung_of(snapshot_hash(files))
        row = messages.Give(
            number=number,
            stem=common.stem,
            name=common.name,
            files={**common.files, f"{rung}.py": files[ENTRY]},
            rung=rung,
            device="cpu",
            quick=True,
            patience_s=patience_s,
            since_s=time.time(),
        )
        result = work.judge(row, environment)
        states[str(result.outcome["state"]) if isinstance(result, messages.Ended) else "lost"] += 1
    took_s = time.monotonic() - began_s
    return {
        "candidates": count,
        "states": dict(states),
        "took_s": round(took_s, 1),
        "per_hour": round(count / took_s * 3600, 1),
        "load_average_5_minutes": os.getloadavg()[1],
    }


async def stop() -> None:
    try:
        async with await client.connect(start=False) as engine:
            await engine.request(requests.Shutdown(seq=engine.next_seq()))
    except client.EngineUnavailableError:
        return


def surroundings(home: Path, name: str) -> dict[str, str]:
    """An engine's own state, and a short way to its socket."""
    (home / f"run-{name}").mkdir()
    (home / "tmp").mkdir(exist_ok=True)
    return {
        "AISP_STATE": str(home / f"state-{name}"),
        "XDG_RUNTIME_DIR": str(home / f"run-{name}"),
        "TMPDIR": str(home / "tmp"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs fleet", description="A fleet, killed on the way.")
    parser.add_argument("--candidates", type=int, default=100, metavar="N")
    parser.add_argument("--plain", type=int, metavar="N")
    parser.add_argument("--kills", type=int, default=2, metavar="N")
    parser.add_argument("--patience", type=float, default=10.0, metavar="S")
    parser.add_argument("--record", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fleet_", ignore_cleanup_errors=True) as name:
        home = Path(name)
        (home / "rows.py").write_text(TARGET)
        expected = written(home / "c", given.candidates)
        for part in ("ray", "plain"):
            with mock.patch.dict(os.environ, surroundings(home, part)):
                try:
                    if part == "ray":
                        with cluster({}) as made:
                            found[part] = with_ray(home, made, expected, given.kills, given.patience)
                    else:
                        count = given.candidates if given.plain is None else min(given.plain, given.candidates)
                        found[part] = without_ray(home, count, given.patience)
                finally:
                    asyncio.run(stop())
            told(json.dumps(found[part]))
    print(json.dumps(found, indent=2))
    if given.record is not None:
        recordings.write(given.record, found)
    kept = found["ray"]
    return 0 if not kept["lost"] and not kept["not_as_expected"] and not kept["run_twice"] else 1


if __name__ == "__main__":
    sys.exit(main())
