"""A contract on its way: asked for with the runs, held against its hash, frozen into each run's manifest."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from aisp.engine.planning import PlanError, plan
from aisp.engine.protocol import requests
from aisp.engine.protocol.framing import Encoder
from aisp.kernels import catalog
from aisp.kernels.catalog import contracts
from aisp.kernels.catalog.contracts import Contract
from aisp.store.results import contract as results
from tests.engine.harness import EngineUnderTest
from tests.engine.test_planning import machine
from tests.proofs.evil import corpus


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    corpus.write(tmp_path / "mine" / "honest")
    return tmp_path / "mine"


def contract(*workload: str) -> Contract:
    base = contracts.example()
    return Contract("nightly", {**base.values, "workload": workload, "imports": ("torch",), "measuring.mode": "quick"})


def frozen(**changes: object) -> requests.FrozenContract:
    return msgspec.convert({**contract("mine").frozen(), **changes}, requests.FrozenContract)


def planned(mine: Path, held: requests.FrozenContract | None) -> dict[str, object]:
    (target,) = catalog.load([mine]).targets
    files = {"baseline.py": b"def run(x):\n    return x\n"}
    made = plan(target, files, "ab" * 32, machine(), epoch="E", seq=1, contract=held)
    return dict(made.record.manifest)


def test_a_request_carries_it_over_the_wire() -> None:
    request = requests.StartRuns(seq=1, targets=["mine:honest"], contract=frozen())
    frame = Encoder().frame(request)
    again = msgspec.msgpack.decode(bytes(frame[4:]), type=requests.AnyRequest)
    assert again == request


def test_it_stands_in_the_manifest_and_nowhere_where_none_was_asked_for(mine: Path) -> None:
    assert planned(mine, frozen())["contract"] == contract("mine").frozen()
    assert "contract" not in planned(mine, None)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sha256": "ab" * 32}, "the contract nightly has sha256 "),
        ({"document": {"title": "t"}}, "the contract cannot be kept: nightly: workload: missing"),
        ({"document": {}}, "the contract cannot be kept: nightly: title: missing"),
    ],
)
def test_one_that_is_not_what_its_hash_says_or_is_none_is_refused(
    mine: Path, changes: dict[str, object], why: str
) -> None:
    with pytest.raises(PlanError) as told:
        planned(mine, frozen(**changes))
    assert str(told.value).startswith(why)


@pytest.mark.xdist_group("engine")
@pytest.mark.slow
async def test_a_run_under_a_contract_keeps_it_to_its_end_and_is_another_job_than_one_without(
    shared: EngineUnderTest, mine: Path
) -> None:
    async with shared.stream() as stream:
        (first,) = await stream.plan(mine, "mine:honest", rungs=["optimized"], contract=frozen())
        (second,) = await stream.plan(mine, "mine:honest", rungs=["optimized"])
        (joined,) = await stream.plan(mine, "mine:honest", rungs=["optimized"], contract=frozen())
        assert joined == first
        assert second != first
        await stream.finish(first)
        await stream.finish(second)
    run, without = shared.record(first), shared.record(second)
    held, why = results.frozen_in(run)
    assert (held, why) == (contract("mine"), "")
    assert held is not None and held.sha256 == contract("mine").sha256
    assert results.frozen_in(without) == (None, "")
    files = {path.name: path.read_bytes() for path in (mine / "honest").iterdir() if path.is_file()}
    imports = results.imports_of(run, files)
    broken = results.breaches(held, run, {}, imports)
    assert [one.key for one in broken if one.key != "kpi.metric"] == []
    other, _ = contracts.of_document(contract("ch07").document(), "other")
    assert other is not None
    assert "workload" in [one.key for one in results.breaches(other, run, {}, imports)]
