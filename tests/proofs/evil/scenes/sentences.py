"""Rows 76, 77 and 79: what is said where torch, stdout or the disk fail."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State
from tests.engine import started
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.scenes.stores import ON_A_SMALL_DISK
from tests.proofs.evil.stage import Stage
from tests.tui.fake_engine import MAIN

# -- row 76: torch cannot be imported ----------------------------------------------------------------------------------

MISSING = "libcudart.so.12: cannot open shared object file: No such file or directory"
RAISES = f"raise ImportError({MISSING!r})"
HANGS = "time.sleep(600)"


def spoilt(stage: Stage, body: str) -> dict[str, str]:
    """Settings of an engine in whose workers and nurseries `import torch` does `body`."""
    folder = stage.home / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, time\n\n\nclass Spoilt:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'torch':\n            {body}\n\n\n"
        "if any('aisp.engine.worker' in word for word in sys.orig_argv):\n    sys.meta_path.insert(0, Spoilt())\n"
    )
    return {started.SITE: str(folder)}


@fault(76, "`import torch` raises", "the ImportError itself, as the run's reason and in the log", own=True)
async def torch_raises(stage: Stage) -> str:
    engine = await stage.started(**spoilt(stage, RAISES))
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(stage.target("honest"), "mine:honest")
        result = await engine.result(stream, run_id)
        assert result.record.state is State.INFRA_ERROR
        assert f"for the verifier (ImportError: {MISSING})" in result.record.reason, result.record.reason
        assert any(f"ImportError: {MISSING}" in line for line in await stream.connection.log())
        await stream.ask(requests.Shutdown(seq=stream.connection.next_seq()))
    assert engine.process is not None
    await asyncio.to_thread(engine.process.wait, 30)
    return result.record.reason


@fault(76, "`import torch` hangs", "what is waited for, again and again; the run ends when its limit is over", own=True)
async def torch_hangs(stage: Stage) -> str:
    engine = await stage.started(AISP_TELL_AFTER_S="1", AISP_READY_LIMIT_S="5", **spoilt(stage, HANGS))
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(stage.target("honest"), "mine:honest")
        said = [(await stream.until(events.Banner, lambda banner: banner.key == "start")).text for _ in range(2)]
        result = await engine.result(stream, run_id)
        assert ["to import torch, for 1 s now of at most 5: it sleeps" in said[0], " 2 s now" in said[1]] == [True] * 2
        assert result.record.state is State.INFRA_ERROR
        assert "torch was not imported within 5 s: it sleeps" in result.record.reason, result.record.reason
        banners = [event.text for event in stream.seen if isinstance(event, events.Banner) and event.key == "start"]
        assert banners[-1] == "", "the banner is taken back"
        await stream.ask(requests.Shutdown(seq=stream.connection.next_seq()))
    assert engine.process is not None
    await asyncio.to_thread(engine.process.wait, 30)
    return f"{said[-1]}; {result.record.reason}"


# -- row 77: stdout ----------------------------------------------------------------------------------------------------

COMMANDS = (
    ("--help",),
    ("--version",),
    ("list",),
    ("checks",),
    ("store",),
    ("engine",),
)


def said(words: tuple[str, ...], stdout: IO[bytes] | None, environment: dict[str, str]) -> tuple[int, str]:
    """Status and stderr of a command with that stdout, closed where it is None."""
    done = subprocess.run(
        [sys.executable, "-c", "from aisp.tui.cli.tree import main; main()", *words],
        cwd=MAIN,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=None if stdout else lambda: os.close(1),
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def refused(environment: dict[str, str]) -> str:
    """What commands say whose stdout takes nothing."""
    with Path("/dev/full").open("wb") as full:
        for words in (*COMMANDS, *((*words, "--json") for words in COMMANDS[2:])):
            for stdout, why in ((full, "No space left on device"), (None, "Bad file descriptor")):
                status, told = said(words, stdout, environment)
                assert (status, told.count("\n")) == (3, 1), (words, status, told)
                assert told.startswith(f"aisp: cannot write to stdout: {why}; "), told
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        assert said(("checks",), gone, environment) == (141, "")
    return told


@fault(77, "stdout is closed, or its disk is full", "status 3 and `cannot write to stdout`, by every command", own=True)
async def stdout_takes_nothing(stage: Stage) -> str:
    told = await asyncio.to_thread(refused, stage.own().environment)
    return f"{told.strip()} (status 3); nothing where its reader went away (status 141)"


# -- row 79: the disk --------------------------------------------------------------------------------------------------

FILL = """
import subprocess, sys
def fill():
    with open(state + b"/filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
def aisp(*words):
    program = "from aisp.tui.cli.tree import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    print(done.returncode, done.stderr.strip(), flush=True)
"""


def on_a_small_disk(stage: Stage, program: str) -> list[str] | None:
    """What a program printed whose state folder lies on a disk of 4 MB; None where none can be mounted."""
    engine = stage.own()
    Path(engine.environment["AISP_STATE"]).mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-c", ON_A_SMALL_DISK + FILL + program],
        cwd=MAIN,
        env=started.environment(os.environ | engine.environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77:
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


NOT_PLAYED = "not played: this machine lets nobody mount a disk of his own"


@fault(
    79, "the disk is full before the first start", "the engine's own words, though no log could be written", own=True
)
async def full_before_the_start(stage: Stage) -> str:
    told = await asyncio.to_thread(on_a_small_disk, stage, "fill()\naisp('engine', '--start')\n")
    if told is None:
        return NOT_PLAYED
    (line,) = told
    state = stage.made[0].environment["AISP_STATE"]
    assert line == (
        "3 aisp: the engine ended at once with status 1: No space left on device in "
        f"{state}: free some, or set AISP_STATE to a folder on another disk"
    )
    return line


@fault(79, "the disk is full when a run is asked for", "the answer says so, at once; nothing is planned", own=True)
async def full_when_asked(stage: Stage) -> str:
    root = stage.target("honest")
    run = f"aisp('run', 'mine:honest', '--quick', '--root', {str(root)!r}, '--json')\n"
    program = f"import time\naisp('engine', '--start')\nfill()\nstart = time.monotonic()\n{run}"
    program += "print(time.monotonic() - start)\naisp('engine', '--stop')\n"
    told = await asyncio.to_thread(on_a_small_disk, stage, program)
    if told is None:
        return NOT_PLAYED
    answer, took_s = told[1:3]
    assert answer.startswith("3 aisp: ") and "cannot grow (SQLITE_FULL): free some space on its disk; nothing" in answer
    assert float(took_s) < 20.0
    return f"{answer}, after {float(took_s):.1f} s"
