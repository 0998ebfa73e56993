"""What a range is made of, and what a figure says to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import expected as files
from aisp.kernels.catalog.expected import Agreed, AgreedRung, AgreedTarget, Scope
from aisp.store.results import expected
from aisp.store.results.expected import (
    EQUIVALENCE,
    ONE_SITTING,
    ONE_SITTING_OF_HOST,
    Met,
    Seen,
    Sighting,
    portable,
    sittings,
    strict,
)
from aisp.store.results.prediction import Measured


def seen(rung: str, ms: float, *, floor: float | None = 0.005, base_ms: float = 1.0, **more: str) -> Seen:
    """A rung with an interval of 1 % to either side."""
    speedup = None if rung == "baseline" else base_ms / ms
    ratio = (speedup, speedup * 0.98, speedup * 1.02) if speedup else (None, None, None)
    figures = Seen(rung, "cold", ms, ms * 0.99, ms * 1.01, *ratio, 0.5, "bytes", floor)
    return replace(figures, **more)


def sighting(optimized_ms: float, day: int = 1, *more: Seen, **facts: object) -> Sighting:
    rungs = {one.rung: one for one in (seen("baseline", 1.0), seen("optimized", optimized_ms), *more)}
    one = Sighting(f"{day:026}", f"2026-01-{day:02}T00:00:00", "default", "NVIDIA H100", "strict", Measured(), rungs)
    return replace(one, **{"host": "atlas", "driver": "1", **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(("floor", "share"), [(0.005, ONE_SITTING), (0.2, 0.2), (None, max(ONE_SITTING, EQUIVALENCE))])
def test_a_range_of_one_sitting_is_its_interval_and_the_floor_or_what_a_sitting_stands_for(
    floor: float | None, share: float
) -> None:
    one = replace(sighting(0.5), rungs={"baseline": seen("baseline", 1.0, floor=floor)})
    low, high = strict([one]).rungs["baseline"].ms or (0, 0)
    assert low == pytest.approx(0.99 / (1 + share), rel=1e-3)
    assert high == pytest.approx(1.01 * (1 + share), rel=1e-3)
    assert low <= 0.99 / (1 + share)
    assert high >= 1.01 * (1 + share)


def test_sittings_that_differ_make_a_range_wider_by_their_spread_and_ones_alike_make_it_narrower() -> None:
    alone = strict([sighting(0.5)]).rungs["optimized"].ms
    alike = strict([sighting(0.5, 2), sighting(0.5, 1)]).rungs["optimized"].ms
    apart = strict([sighting(0.5, 2), sighting(0.6, 1)]).rungs["optimized"].ms
    assert alone
    assert alike
    assert apart
    assert alone[0] < alike[0] < alike[1] < alone[1]
    assert apart == pytest.approx((0.5 * 0.99 / 1.2, 0.6 * 1.01 * 1.2), rel=1e-3)


def test_the_hosts_time_makes_a_range_as_wide_as_hosts_differ() -> None:
    for more in ({"timing": "cold+host"}, {"limiter": "host"}):
        rungs = {"baseline": seen("baseline", 1.0, **more), "optimized": seen("optimized", 0.5)}
        told = strict([replace(sighting(0.5), rungs=rungs)]).rungs
        assert told["baseline"].ms == pytest.approx((0.99 / (1 + ONE_SITTING_OF_HOST), 1.01 * (1 + 1 / 3)), rel=1e-3)
        assert told["optimized"].speedup == pytest.approx((1.96 * 0.75, 2.04 * 4 / 3), rel=1e-3), "of its baseline's"
        assert told["optimized"].ms == pytest.approx((0.495 / 1.05, 0.505 * 1.05), rel=1e-3)


def test_a_sitting_is_a_day_on_a_machine_and_counts_while_driver_and_versions_are_the_newests() -> None:
    newest = sighting(0.5, 9)
    others = [
        replace(sighting(0.6, 9), run_id="earlier that day"),
        sighting(0.52, 8),
        sighting(0.53, 8, host="bruno"),
        sighting(0.9, 7, driver="0"),
        sighting(0.9, 7, versions={"torch": "1"}),
    ]
    assert [one.run_id[-2:] + one.host[:1] for one in sittings([newest, *others])] == ["09a", "08a", "08b"]
    assert len(sittings([sighting(0.5, day) for day in range(20, 1, -1)])) == expected.SITTINGS


def test_a_rungs_earlier_figures_count_while_its_file_and_timing_are_the_same() -> None:
    now = sighting(0.5, 2)
    for more in ({"sources": "other"}, {"timing": "cold batch"}):
        before = sighting(0.9, 1)
        before = replace(before, rungs={**before.rungs, "optimized": seen("optimized", 0.9, **more)})
        assert strict([now, before]).rungs["optimized"].ms == strict([now]).rungs["optimized"].ms


def test_a_gain_stays_a_gain_on_any_gpu_and_a_loss_a_loss() -> None:
    slow = seen("optimized_slow", 1.5)
    told = portable([[sighting(0.5, 1, slow)]]).rungs
    assert told["optimized"].speedup == pytest.approx(((1.96 / 1.05) ** 0.5, (2.04 * 1.05) ** 2), rel=2e-3)
    low, high = told["optimized_slow"].speedup or (0, 0)
    assert low < high < 1


def test_a_limiter_holds_on_any_gpu_where_all_hardware_agrees_and_it_is_not_the_host() -> None:
    h100 = sighting(0.5)
    h200 = replace(h100, on="NVIDIA H200")
    other = replace(h200, rungs={**h200.rungs, "optimized": seen("optimized", 0.5, limiter="flops")})
    hosts = replace(h100, rungs={**h100.rungs, "optimized": seen("optimized", 0.5, limiter="host")})
    assert portable([[h100], [h200]]).rungs["optimized"].limiter == "bytes"
    assert portable([[h100], [other]]).rungs["optimized"].limiter == ""
    assert portable([[hosts]]).rungs["optimized"].limiter == ""
    assert portable([[h100], [h200]]).on == ("NVIDIA H100", "NVIDIA H200")


def test_rungs_that_are_not_clear_of_each_other_on_all_hardware_share_a_group() -> None:
    close = seen("optimized_close", 0.52)
    h100 = sighting(0.5, 1, close)
    assert portable([[h100]]).order == (("optimized", "optimized_close"), ("baseline",))
    slow_there = replace(h100, on="NVIDIA H200", rungs={**h100.rungs, "baseline": seen("baseline", 0.53)})
    assert portable([[h100], [slow_there]]).order == ()
    fast = seen("optimized_fast", 0.1)
    assert portable([[sighting(0.5, 1, fast)]]).order == (("optimized_fast",), ("optimized",), ("baseline",))


def test_numbers_of_any_length_are_refused_and_not_raised(tmp_path: Path) -> None:
    """One is larger than any float, one has more digits than Python writes."""
    head = 'schema = 1\nscope = "strict"\nhardware = "NVIDIA H200"\n[targets."ch07:transpose"]\ncase = "default"\n'
    for low, high in (("1.0", "1" + "0" * 400), ("0x" + "f" * 9000, "1.0")):
        text = f'{head}[targets."ch07:transpose".rungs]\noptimized = {{ speedup = [{low}, {high}] }}\n'
        _, problems = files.parse(tmp_path / "h200.toml", text)
        assert any(problem.message.endswith("is no range") for problem in problems), problems
    _, problems = files.parse(tmp_path / "h200.toml", f"schema = 0x{'f' * 9000}\n")
    assert problems[0].message.endswith("is none that this aisp knows")


@pytest.mark.parametrize(
    ("ms", "met"),
    [(0.5, Met.MET), (0.524, Met.UNDECIDED), (0.6, Met.BELOW), (0.476, Met.UNDECIDED), (0.4, Met.ABOVE)],
)
def test_a_time_is_missed_where_its_whole_interval_lies_outside(ms: float, met: Met) -> None:
    agreed = AgreedRung(ms=(0.48, 0.52))
    assert expected._rung("optimized", agreed, seen("optimized", ms)).met is met


def test_a_rung_that_was_not_timed_or_timed_in_another_way_is_unmeasured() -> None:
    agreed = AgreedRung(ms=(0.4, 0.6), timing="cold")
    assert expected._rung("optimized", agreed, None).met is Met.UNMEASURED
    other = expected._rung("optimized", agreed, seen("optimized", 5.0, timing="host"))
    assert (other.met, other.note) == (Met.UNMEASURED, "timed as host, and as cold when it was agreed to")


def test_the_order_is_broken_only_by_what_is_clear_of_the_floor() -> None:
    groups = (("optimized",), ("baseline",))
    kept, close, turned = (expected._hold_order(groups, sighting(ms)) for ms in (0.5, 1.01, 1.2))
    assert (kept.met, close.met, turned.met) == (Met.MET, Met.MET, Met.OTHER)
    assert turned.broken == (("optimized", "baseline"),)
    assert expected._hold_order((("gone",), ("baseline",)), sighting(0.5)).met is Met.UNMEASURED


def test_a_range_of_another_case_says_nothing_of_this_one() -> None:
    (target,) = catalog.load([catalog.shipped_root() / "ch01_goodput/batching"]).targets
    agreed = AgreedTarget("large", {"optimized": AgreedRung(ms=(0.1, 0.2))})
    held = expected.hold(target, Scope.STRICT, agreed, expected.Answered(Met.MET, sighting(0.5)))
    assert held.met is Met.UNMEASURED
    assert "the case large" in held.rungs[0].note


def test_what_a_collection_ships_leads_with_its_fastest_rung_by_the_names_of_today_and_says_where(
    tmp_path: Path,
) -> None:
    from tests.tui.app_support import write_target

    target = write_target(tmp_path, "ch07", "one")
    renamed = replace(
        target, rungs=tuple(replace(r, formerly="fast" if r.name == "optimized" else "") for r in target.rungs)
    )
    rungs = {"baseline": AgreedRung(ms=(2.0, 8.0)), "fast": AgreedRung((4.0, 9.0)), "gone": AgreedRung((90.0, 99.0))}
    agreed = AgreedTarget("default", rungs, wall="2026-11-23T05:03")
    old = AgreedTarget("default", {}, wall="2025-01-01T00:00")
    files = [
        Agreed(Scope.STRICT, "NVIDIA A100", {target.id: old}, tmp_path / "expectations" / "a100.toml"),
        Agreed(Scope.STRICT, "NVIDIA H200", {target.id: agreed}, tmp_path / "expectations" / "h200.toml"),
        Agreed(Scope.PORTABLE, "", {target.id: old}, tmp_path / "expectations" / "portable.toml"),
    ]
    found = expected.shipped([renamed], files)[target.id]
    assert (found.on, found.lead, found.speedup("optimized")) == ("NVIDIA H200", "optimized", "6.0x")
    chance = replace(agreed, rungs={"optimized": AgreedRung((2.0, 9.0), undecided=True)})
    files[1] = replace(files[1], targets={target.id: chance})
    assert expected.shipped([target], files)[target.id].speedup("optimized") == "? 4.2x"
    assert found.ms("baseline") == 4.0
    assert found.speedup("baseline") == found.speedup("wrong_tail") == ""
    assert not expected.shipped([replace(target, root=tmp_path / "mine")], files), "of another collection"
