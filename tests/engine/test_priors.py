"""What earlier runs on a machine say of how its processes differ is what the next run takes for known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from aisp.engine import statistics
from aisp.store import Store
from aisp.store.outcomes import Timing
from aisp.store.record import Quality, Run
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.store.examples import finished, planned

H200 = {"gpu": "NVIDIA H200"}


def told(device: str, between: float, timing: Timing = Timing.COLD) -> Run:
    """A good run whose processes differed so much."""
    run = finished(planned(device=device))
    base, *others = run.arms
    quality = Quality(between=between, between_freedom=4.0)
    return msgspec.structs.replace(run, arms=(msgspec.structs.replace(base, quality=quality, timing=timing), *others))


def keep(store: Store, run: Run, environment: dict[str, object]) -> None:
    store.finish(msgspec.structs.replace(run, environment=store.put_environment(environment)), {})


def test_the_newest_good_runs_of_a_device_and_model_say_how_its_processes_differ(tmp_path: Path) -> None:
    with Store.open(tmp_path / "aisp.db") as store:
        for number in range(3):
            keep(store, told("cuda", 0.001 * (number + 1)), H200)
        keep(store, told("cuda", 0.5), {"gpu": "NVIDIA A100"})
        keep(store, told("cuda", 0.03, Timing.COLD_SYNC), H200)
        keep(store, told("cuda", 0.004, Timing.DIRTY_GRAPH), H200)
        keep(store, told("cpu", 0.02, Timing.HOST), {"gpu": ""})
        keep(store, finished(planned(device="cuda")), H200)  # of before this was kept
        assert store.spreads("cuda", "NVIDIA H200", True) == [(0.004, 4.0), (0.003, 4.0), (0.002, 4.0), (0.001, 4.0)]
        assert store.spreads("cuda", "NVIDIA H200", False) == [(0.03, 4.0)], "host time is in these"
        assert store.spreads("cpu", "", False) == [(0.02, 4.0)]
        assert store.spreads("cuda", "NVIDIA B200", True) == store.spreads("cpu", "", True) == []
        for timing in set(Timing) - {Timing.NONE}:
            keep(store, told("cuda", 0.1, timing), {"gpu": timing.value})
            assert len(store.spreads("cuda", timing.value, timing.held)) == 1


@pytest.mark.slow
async def test_a_run_takes_for_known_what_ten_before_it_showed_and_adds_its_own(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:

    engine = own()
    with engine.use():
        (engine.home / "state").mkdir(mode=0o700)
        with Store.open(engine.home / "state" / "aisp.db") as store:
            for _ in range(statistics.FEWEST_RUNS - 1):
                keep(store, told("cpu", 0.004, Timing.HOST), {"gpu": ""})
    rungs = {"optimized.py": "def run(x):\n    return x + x\n"}
    target = write_target(tmp_path / "mine", rungs, cases='[[cases]]\nname = "cpu"\naxes = { N = 4096 }')
    await engine.start()
    first = await engine.run(tmp_path / "mine", target.id, replicas=2)
    assert first.record.manifest["prior"] == {"host": statistics.PRIORS["cpu"]["host"].manifest()}
    quality = first.arm("baseline").quality
    assert quality is not None and quality.between is not None and quality.between_freedom == 1.0
    second = await engine.run(tmp_path / "mine", target.id, replicas=2)
    known = second.record.manifest["prior"]
    assert isinstance(known, dict)
    prior = known["host"]
    assert prior["source"] == f"{statistics.FEWEST_RUNS} runs on this machine's CPU, host time in them"
    assert 0.001 < prior["deviation"] < 0.02
