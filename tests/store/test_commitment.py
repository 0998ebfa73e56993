"""What a run draws is committed to when it is planned, and can be held against that when it has ended."""

import hashlib
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from aisp.store import upkeep
from aisp.store.commitment import COMMITMENT, HELD_OUT, NONCE, Secrets, committed, kept
from aisp.store.outcomes import State
from aisp.store.reader import History
from aisp.store.record import Run
from aisp.store.rows import NO_SEED
from aisp.store.writer import Store
from tests.store.examples import planned

SECRETS = Secrets(2**62 + 1, (2**45 + 3, 2**44 + 5), "ab" * 16)


def committed_run(epoch: str = "E1") -> Run:
    return msgspec.structs.replace(
        planned(), seed=None, epoch=epoch, manifest={"code": "c0de", COMMITMENT: SECRETS.commitment}
    )


def cancelled(run: Run) -> Run:
    return SECRETS.shown(msgspec.structs.replace(run, state=State.CANCELLED, reason="cancelled"))


def test_a_commitment_is_the_hash_that_the_page_says() -> None:
    text = f'[{2**62 + 1},[{2**45 + 3},{2**44 + 5}],"{"ab" * 16}"]'
    assert SECRETS.commitment == hashlib.sha256(text.encode()).hexdigest()
    assert not any(str(number) in repr(SECRETS) for number in (SECRETS.seed, *SECRETS.held_out))


def test_a_planned_run_has_no_seed_in_the_store_and_one_that_ended_keeps_what_it_committed_to(tmp_path: Path) -> None:
    run = committed_run()
    with Store.open(tmp_path / "aisp.db") as store:
        store.plan([run])
        lies = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert SECRETS.commitment.encode() in lies
        for number in (SECRETS.seed, *SECRETS.held_out):
            assert str(number).encode() not in lies
        with History(tmp_path / "aisp.db") as history:
            assert history.run(run.id).seed is None
            assert kept(history.run(run.id)) is None
        store.finish(cancelled(run), {})
    with History(tmp_path / "aisp.db") as history:
        assert history.verify(run.id)
        ended = history.run(run.id)
        assert (ended.seed, ended.manifest[HELD_OUT], ended.manifest[NONCE]) == (
            SECRETS.seed, list(SECRETS.held_out), SECRETS.nonce,
        )  # fmt: skip
        assert kept(ended) is True


def test_a_run_of_an_engine_that_was_lost_keeps_its_seed_unknown(tmp_path: Path) -> None:
    run = committed_run("gone")
    with Store.open(tmp_path / "aisp.db") as store:
        store.plan([run])
        assert store.mark_lost("E2") == [run.id]
        assert store._db.execute("SELECT seed FROM runs").fetchone() == (NO_SEED,)
    with History(tmp_path / "aisp.db") as history:
        assert history.verify(run.id)
        lost = history.run(run.id)
    assert (lost.state, lost.seed, kept(lost)) == (State.ENGINE_LOST, None, None)


@pytest.mark.parametrize(
    "other",
    [
        replace(SECRETS, seed=7),
        replace(SECRETS, held_out=(2**45 + 3,)),
        replace(SECRETS, nonce="cd" * 16),
    ],
)
def test_whatever_is_said_otherwise_afterwards_shows(other: Secrets) -> None:
    ended = msgspec.structs.replace(committed_run(), state=State.CANCELLED, reason="cancelled")
    assert kept(SECRETS.shown(ended)) is True
    assert kept(other.shown(ended)) is False
    assert kept(msgspec.structs.replace(SECRETS.shown(ended), manifest=ended.manifest)) is False


def test_verify_names_every_run_that_did_not_draw_what_it_had_committed_to(tmp_path: Path) -> None:
    runs = [committed_run() for _ in range(3)]
    other = replace(SECRETS, held_out=(7, 8))
    with Store.open(tmp_path / "aisp.db") as store:
        store.plan([*runs, planned()])
        for run, secrets in zip(runs, (SECRETS, other, SECRETS), strict=True):
            store.finish(secrets.shown(msgspec.structs.replace(run, state=State.CANCELLED, reason="by hand")), {})
    found = upkeep.verify(tmp_path / "aisp.db")
    (damage,) = found.damage
    assert (damage.kind, damage.id) == ("run", runs[1].id)
    assert damage.reason == "what it says that it drew is not what its plan committed to"
    with History(tmp_path / "aisp.db") as history:
        assert not history.verify(runs[1].id) and history.verify(runs[0].id)


def test_a_run_of_before_there_were_commitments_is_neither_kept_nor_broken() -> None:
    assert kept(msgspec.structs.replace(planned(), manifest={"surprise": 17})) is None
    assert committed(1, [2], "") != committed(1, [2, 2], "")
