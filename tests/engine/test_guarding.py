"""A person installs something, or a rung leaves something, beside an engine: who is told, and what is started.

The engine's interpreter is that of an environment of the test's own, so that nothing is written to a real one. What a
rung leaves is written by the test while the rung runs: where workers may not write there, a rung could not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import FindingStatus, State, Validity
from tests.engine.harness import EngineUnderTest, Result
from tests.engine.targets import write_target
from tests.proofs.evil.stage import eventually

pytestmark = [pytest.mark.evil, pytest.mark.timeout(300)]

CPU = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }\n'
SLOW = "import time\nimport torch\n\ntime.sleep(1.0)\n\n\ndef run(x):\n    return x * 2\n"


class Environment:
    """A virtual environment with all that this one has, and a site folder of its own."""

    def __init__(self, home: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        self.python = home / "bin" / "python"
        (self.site,) = home.glob("lib/python*/site-packages")
        real = next(entry for entry in sys.path if entry.endswith("site-packages"))
        (self.site / "all_of_it.pth").write_text(f"import site; site.addsitedir({real!r})\n")

    async def start(self, engine: EngineUnderTest) -> None:
        """Start an engine with this environment's interpreter."""
        with mock.patch.object(sys, "executable", str(self.python)):
            await engine.start()


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def installed_of(result: Result) -> tuple[FindingStatus, str]:
    """What the check said."""
    return next((f.status, f.evidence) for f in result.record.findings if f.check == "evaluation.installed")


async def run_and_write(engine: EngineUnderTest, root: Path, file: Path) -> Result:
    """A run of the slow target, and a file that appears while its rungs are imported."""
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "root:one")
        await stream.until(events.Step, lambda step: step.run_id == run_id and step.step.name == "warm worker")
        file.write_text("# nothing\n")
        return await engine.result(stream, run_id)


async def test_what_appears_during_a_run_stops_everything_until_it_is_gone_or_accepted(
    own: Callable[..., EngineUnderTest], environment: Environment, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    write_target(root, {"optimized.py": SLOW}, cases=CPU)
    engine = own()
    await environment.start(engine)

    # Nobody writes: the run says how much was looked at.
    first = await engine.run(root, "root:one")
    assert first.record.state is State.OK, first.record.reason
    status, text = installed_of(first)
    assert status is FindingStatus.PASSED, text
    assert int(text.split()[0]) > 2000, "what a process has imported is among it"

    # Between runs: noted, and nobody is held up.
    note = environment.site / "honest.py"
    async with engine.stream() as stream:
        note.write_text("A = 1\n")
        banner = await stream.until(events.Banner, lambda b: b.key == "installed" and b.text != "")
        assert f"{note} appeared" in banner.text
    second = await engine.run(root, "root:one")
    assert installed_of(second)[0] is FindingStatus.PASSED, installed_of(second)

    # During a run.
    evil = environment.site / "evil.pth"
    third = await run_and_write(engine, root, evil)
    assert third.record.state is State.OK
    assert third.record.validity is Validity.SUSPECT
    assert f"{evil} appeared" in installed_of(third)[1]
    banners = [banner for banner in third.of(events.Banner) if banner.key == "installed"]
    with engine.history() as history:
        # A baseline is not accused: what appeared is the machine's fault to it.
        assert [(q.rung, q.check) for q in history.quarantines()] == [("optimized", "evaluation.installed")]
    await eventually(lambda: engine.workers() == [], "no process is left")
    refused = await engine.run(root, "root:one")
    assert refused.record.state is State.UNAVAILABLE
    assert f"{evil} appeared" in refused.record.reason
    assert f"run {third.record.id}" in refused.record.reason
    assert "aisp doctor --accept" in refused.record.reason
    await eventually(lambda: engine.workers() == [], "no process is left")
    assert banners == []  # a banner is of no run

    # The next engine knows.
    engine.terminate()
    await environment.start(engine)
    refused = await engine.run(root, "root:one")
    assert refused.record.state is State.UNAVAILABLE
    assert f"{evil} appeared" in refused.record.reason

    # It is gone: runs go on, the rungs stay marked.
    evil.unlink()
    fourth = await engine.run(root, "root:one")
    assert fourth.record.state is State.OK, fourth.record.reason
    with engine.history() as history:
        assert len(history.quarantines()) == 1

    # Once more, and this time it was the person.
    fifth = await run_and_write(engine, root, environment.site / "package.py")
    assert fifth.record.validity is Validity.SUSPECT
    async with engine.stream() as stream:
        reply = await stream.ask(requests.AcceptInstalled(seq=stream.connection.next_seq()))
    assert "package.py appeared" in reply.detail
    with engine.history() as history:
        assert history.quarantines() == []
    sixth = await engine.run(root, "root:one")
    assert sixth.record.state is State.OK, sixth.record.reason
    assert installed_of(sixth)[0] is FindingStatus.PASSED, installed_of(sixth)


async def test_an_engine_that_is_killed_while_something_appears_leaves_it_to_the_next_one(
    own: Callable[..., EngineUnderTest], environment: Environment, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    write_target(root, {"optimized.py": SLOW.replace("1.0", "60")}, cases=CPU)
    engine = own()
    await environment.start(engine)
    evil = environment.site / "evil.pth"
    async with engine.stream() as stream:
        (run_id,) = await stream.plan(root, "root:one")
        await stream.until(events.Step, lambda step: step.run_id == run_id and step.step.name == "warm worker")
        evil.write_text("# nothing\n")
        engine.kill()
    await environment.start(engine)
    refused = await engine.run(root, "root:one")
    assert refused.record.state is State.UNAVAILABLE
    assert f"{evil} appeared" in refused.record.reason
    assert f"run {run_id}, in which the engine was lost," in refused.record.reason
    await eventually(lambda: engine.workers() == [], "no process is left")
