"""Rows 76, 77 and 79: what is said where torch, stdout or the disk fail."""

from __future__ import annotations

import asyncio

from engine.protocol import events, requests
from store.outcomes import State
from tests.engine import started
from tests.evil.matrix import fault
from tests.evil.stage import Stage

# -- row 76: torch cannot be imported ----------------------------------------------------------------------------------

MISSING = "libcudart.so.12: cannot open shared object file: No such file or directory"
RAISES = f"raise ImportError({MISSING!r})"
HANGS = "time.sleep(600)"


def spoilt(stage: Stage, body: str) -> dict[str, str]:
    """Settings of an engine in whose workers `import torch` does `body`."""
    folder = stage.home / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, time\n\n\nclass Spoilt:\n    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'torch':\n            {body}\n\n\n"
        "if 'engine.worker' in sys.orig_argv:\n    sys.meta_path.insert(0, Spoilt())\n"
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
