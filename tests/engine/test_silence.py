"""A process that gives no sign is named before it is ended, and no longer once it gives one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import silence
from aisp.engine.arms import ask
from aisp.engine.protocol import events, jobs, reports
from aisp.engine.silence import Limit, awaiting
from aisp.store.outcomes import State
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(240)]

NAP = """\
import {imports}
import time

napped = False


def nap():
    global napped
    if not napped:
        napped = True
        time.sleep({nap_s})
"""


def told(stream: Stream) -> list[str]:
    """What was told of silent processes, in order; "" where it was taken back."""
    banners = [event for event in stream.seen if isinstance(event, events.Banner)]
    return [banner.text for banner in banners if banner.key.startswith("silent: ")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with a target whose rung is slow in a turn, one that never ends its turn, one that never compiles,
    and one whose reference never answers.
    """
    for name, nap_s in (("slow", 3), ("stuck", 600)):
        turn = NAP.format(imports="gc", nap_s=nap_s) + "\n\ndef run(x):\n    if not gc.isenabled():\n        nap()\n"
        corpus.write(tmp_path / "mine" / name)
        (tmp_path / "mine" / name / "optimized.py").write_text(turn + "    return x * 2\n")
    corpus.write(tmp_path / "mine" / "compiles")
    compiles = "import time\n\n\ndef prepare(x):\n    time.sleep(600)\n\n\ndef run(x):\n    return x * 2\n"
    (tmp_path / "mine" / "compiles" / "optimized.py").write_text(compiles)
    silent = "import time\n\n\ndef run(x):\n    time.sleep(600)\n"
    corpus.write(tmp_path / "mine" / "unanswered", reference=silent)
    return tmp_path / "mine"


@pytest.mark.evil
async def test_who_gives_no_sign_is_named_with_its_step_and_its_end_until_it_gives_one(
    own: Callable[..., EngineUnderTest], root: Path
) -> None:
    engine = own(AISP_TELL_AFTER_S="1", AISP_PROGRESS_LIMIT_S="5", AISP_COMPILE_LIMIT_S="7")
    await engine.start()

    async def run(name: str) -> tuple[State, list[str]]:
        async with engine.stream() as stream:
            (run_id,) = await stream.plan(root, f"mine:{name}", rungs=["optimized"])
            state = (await stream.finish(run_id)).state
            return state, told(stream)

    first, second = "optimized: no sign for 1 ", "optimized: no sign for 2 "
    end = "of 5 s (measure); it is ended then (AISP_PROGRESS_LIMIT_S)"
    assert await run("slow") == (State.OK, [first + end, second + end, ""])
    third = "optimized: no sign for 4 "
    assert await run("stuck") == (State.TIMEOUT_PROGRESS, [first + end, second + end, third + end, ""])
    end = "of 7 s (prepare() or the first run()); it is ended then (AISP_COMPILE_LIMIT_S)"
    assert await run("compiles") == (State.TIMEOUT_PROGRESS, [first + end, second + end, third + end, ""])
    state, (sentence, *_, last) = await run("unanswered")
    assert (state, last) == (State.TIMEOUT_PROGRESS, "")
    assert sentence == "reference.py: no sign for 1 of 7 s; it is ended then (AISP_COMPILE_LIMIT_S)"


async def test_nothing_is_told_of_who_answers_in_time_and_a_patience_without_a_setting_names_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(silence, "TELL_AFTER_S", 0.01)
    said: list[tuple[str, str]] = []
    silence.banner.set(lambda key, text: said.append((key, text)))
    with awaiting("baseline", 5.0):
        pass
    await asyncio.sleep(0.03)
    assert said == []
    with pytest.raises(TimeoutError), awaiting("baseline", 5.0):
        await asyncio.sleep(0.015)
        raise TimeoutError
    key = "silent: baseline"
    first, *_, last = said  # on a busy machine it says so more than once
    assert (first, last) == ((key, "baseline: no sign for 0.01 of 5 s; it is ended then"), (key, ""))


@pytest.mark.parametrize(
    ("job", "where"),
    [
        (jobs.Prepare(case="default"), " (prepare() or the first run())"),  # a kernel that loops in its first call
        (jobs.Load(folder=b"", root=b"", chapter="", target_id="", module="", device="cpu"), " (import)"),
        (jobs.Inspect(), " (collect what checks saw)"),
    ],
)
async def test_who_hangs_in_its_first_call_is_not_said_to_compile_and_80_columns_have_both_figures(
    monkeypatch: pytest.MonkeyPatch, job: jobs.AnyJob, where: str
) -> None:
    monkeypatch.setattr(silence, "TELL_AFTER_S", 0.01)
    said: list[str] = []
    silence.banner.set(lambda key, text: said.append(text))
    silence.step.set("inspect")

    class Hanging:
        async def ask(self, job: jobs.AnyJob, patience_s: float) -> reports.Report:
            await asyncio.sleep(0.05)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        child: Any = Hanging()
        await ask(child, job, reports.Prepared, Limit(300.0, "AISP_COMPILE_LIMIT_S"), "optimized")
    assert said[0] == f"optimized: no sign for 0.01 of 300 s{where}; it is ended then (AISP_COMPILE_LIMIT_S)"
    assert said[0].index("of 300 s") < 40


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "soon"])
def test_a_limit_that_the_environment_cannot_mean_is_the_usual_one(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AISP_COMPILE_LIMIT_S", value)
    limit = Limit.of("AISP_COMPILE_LIMIT_S", 300.0)
    assert (limit, limit.setting) == (300.0, "AISP_COMPILE_LIMIT_S")
