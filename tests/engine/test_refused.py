"""What cannot run on this machine is refused when it is asked for: no queue entry, no run in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from tests.engine.harness import EngineUnderTest
from tests.proofs.evil import corpus
from tests.proofs.evil.watched import UNRUNNABLE

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(180)]

WITHOUT_A_GPU = "mine:doubling cannot run here: needs a GPU: "


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A collection with a target that runs here and one that runs nowhere."""
    corpus.write(tmp_path / "mine" / "doubling")
    corpus.write(tmp_path / "mine" / "nowhere", lesson=UNRUNNABLE)
    return tmp_path / "mine"


async def test_a_run_on_a_gpu_that_is_not_there_is_refused_at_once(shared: EngineUnderTest, root: Path) -> None:
    async with shared.stream() as stream:
        if (await stream.connection.status()).gpu_note == "":
            pytest.skip("there is a GPU here")
        with shared.history() as history:
            before = history.count()
        for request in (
            requests.StartRuns(
                seq=stream.connection.next_seq(), roots=[str(root)], targets=["mine:doubling"], device="cuda"
            ),
            requests.StartWatch(
                seq=stream.connection.next_seq(), root=str(root), target="mine:doubling", device="cuda"
            ),
        ):
            reply = await stream.connection.request(request)
            assert reply.error.startswith(WITHOUT_A_GPU)
            assert reply.error.endswith("; --device cpu runs it here")
            if isinstance(
                request, requests.StartRuns
            ):  # each target with its own reason, whoever shows them one by one
                assert reply.error == f"mine:doubling cannot run here: {reply.refused['mine:doubling']}"
        status = await stream.connection.status()
        assert (status.queue, status.watches) == ([], [])
        assert not [event for event in stream.seen if isinstance(event, events.RunPlanned)]
        with shared.history() as history:
            assert history.count() == before


async def test_of_several_targets_those_that_cannot_run_here_are_named_and_the_others_are_planned(
    shared: EngineUnderTest, root: Path
) -> None:
    async with shared.stream() as stream:
        reply = await stream.ask(
            requests.StartRuns(
                seq=stream.connection.next_seq(),
                roots=[str(root)],
                targets=["mine:nowhere", "mine:doubling"],
                quick=True,
            )
        )
        (run_id,) = reply.run_ids
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=run_id))
        assert (await stream.finish(run_id)).target == "mine:doubling"
        assert list(reply.refused) == ["mine:nowhere"]
        assert reply.refused["mine:nowhere"].startswith("needs ")


async def test_a_name_with_a_nul_is_refused_by_its_field_and_leaves_no_trace(
    shared: EngineUnderTest, root: Path
) -> None:
    log = paths.log_file()
    before = log.read_text().count("Traceback")
    async with shared.stream() as stream:
        number = stream.connection.next_seq
        for request in (
            requests.StartRuns(seq=number(), roots=[f"{root}\0"], targets=["mine:doubling"]),
            requests.StartWatch(seq=number(), root=f"{root}\0x", target="mine:doubling"),
            requests.FuzzTarget(seq=number(), root="\0", target="mine:doubling"),
            requests.Restore(seq=number(), root=str(root), target="mine:\0", snapshot=""),
        ):
            reply = await stream.connection.request(request)
            assert reply.error.split()[0] in ("roots", "root", "target") and "has a NUL in it" in reply.error
    assert log.read_text().count("Traceback") == before
