"""The model: events in, views out, bounded and exact."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from aisp.engine.protocol import events
from aisp.store.outcomes import Correctness, State, Timing, Validity, Verdict
from aisp.store.record import Quality, Quarantine, RuleSaid
from aisp.store.results.trust import by_category
from aisp.tui import edits, findings, readings, runplot
from aisp.tui.model import (
    AA_ARM,
    MAX_OUTPUT_LINES,
    MAX_POINTS,
    WHOLE_RUNS,
    Model,
    PointLog,
    TelemetryLog,
    stored_run,
    thin,
    throttle_words,
)
from tests import heard
from tests.replacing import replace
from tests.store.examples import measured, planned, samples_of
from tests.tui.fakes import (
    NOW_NS,
    START_NS,
    batch_event,
    failing_run_events,
    gpu_run_events,
    numbered,
    peak_events,
    planned_event,
    quick_run_events,
    telemetry_event,
    watch_events,
    welcome_event,
)
from tests.tui.trust_support import HIDDEN_WORK, cheat_run_events, items


def test_a_quick_run_is_told_whole() -> None:
    model = Model(clock_ns=lambda: NOW_NS)
    names = model.apply(quick_run_events())
    run = model.runs["R1"]
    assert {"runs", "run:R1", "samples:R1"} <= names
    assert (run.record.state, run.record.correctness, run.record.verdict) == (
        State.OK,
        Correctness.CORRECT,
        Verdict.FASTER,
    )
    assert run.rungs == ["baseline", "optimized", AA_ARM]
    assert [run.samples(rung).points.count for rung in run.rungs] == [120, 120, 120]
    assert run.record.arms[1].timing is Timing.HOST
    assert run.headline is not None and run.headline.speedup == 2.31
    assert run.lead == run.arm("optimized")
    assert [step.name for step in run.record.steps if not step.arm] == ["warm worker", "measure", "verdict"]
    assert all(step.duration_ms is not None for step in run.record.steps)


def test_time_axis_begins_with_the_measuring() -> None:
    model = Model()
    model.apply(quick_run_events())
    run = model.runs["R1"]
    assert run.origin_ns == START_NS + 150_000_000
    first = run.samples("baseline").points.x[0]
    assert math.isclose(first, run.samples("baseline").points.y[0] / 1e3, rel_tol=1e-3)


def test_every_sample_is_kept_while_there_is_room() -> None:
    model = Model()
    batch = batch_event("R1", "baseline", START_NS, 1.0, count=100)
    model.apply([planned_event("R1", "t", rungs=["baseline"]), batch])
    assert list(model.runs["R1"].samples("baseline").points.y) == batch.device_ms


def test_discarded_samples_are_counted_apart_with_their_reason() -> None:
    model = Model()
    model.apply([batch_event("R1", "a", START_NS, 1.0, count=4, discarded=[0, 1, 2, 1])])
    arm = model.runs["R1"].samples("a")
    assert arm.points.count == 1
    assert arm.discarded == {1: 2, 2: 1}
    assert "2 samples discarded: clock too low" in readings.note_row(model.runs["R1"]).plain


def test_a_long_run_is_thinned_evenly_and_keeps_every_spike() -> None:
    log = PointLog()
    for i in range(100_000):
        log.add(i / 1e3, 9.0 if i in (7, 50_001, 99_998) else 1.0)
    x, y = log.points()
    assert log.count == 100_000
    assert len(x) <= MAX_POINTS + 2
    assert sum(1 for value in y if value == 9.0) == 3
    assert list(x) == sorted(x)
    halves = sum(1 for value in x if value < 50), sum(1 for value in x if value >= 50)
    assert 0.8 < halves[0] / halves[1] < 1.25


def test_thinning_for_a_narrow_plot_keeps_lows_and_highs() -> None:
    x = [i / 10 for i in range(1000)]
    y = [5.0 if i == 321 else 0.5 if i == 322 else 1.0 for i in range(1000)]
    out_x, out_y = thin(x, y, 40)
    assert len(out_x) <= 80
    assert max(out_y) == 5.0 and min(out_y) == 0.5
    assert list(out_x) == sorted(out_x)
    assert [list(part) for part in thin([1.0], [2.0], 40)] == [[1.0], [2.0]]


def test_telemetry_goes_to_the_running_gpu_run_alone() -> None:
    model = Model()
    model.apply(quick_run_events(run_id="C", finished=False))
    model.apply(gpu_run_events(finished=False))
    assert len(model.runs["G1"].telemetry) == 80
    assert len(model.runs["C"].telemetry) == 0
    assert model.runs["G1"].telemetry.latest("sm_clock_mhz") == 1755.0
    assert throttle_words(model.runs["G1"].telemetry.throttle[-1]) == ["power cap"]


def test_of_several_gpus_each_run_has_the_telemetry_of_its_own() -> None:
    model = Model()
    for gpu in range(2):
        model.apply(gpu_run_events(run_id=f"G{gpu}", finished=False))
    for gpu in range(2):
        run = model.runs[f"G{gpu}"]
        run.telemetry = TelemetryLog()
        model.apply([events.RunState(run_id=run.id, state=State.RUNNING, at_ns=0, device=f"cuda:{gpu}")])
    model.apply([telemetry_event(START_NS, 3, gpu=1)])
    assert [len(model.runs[f"G{gpu}"].telemetry) for gpu in range(2)] == [0, 3]
    assert [run.device for run in model.active_runs()] == ["cuda:0", "cuda:1"]
    model.apply([events.RunState(run_id="G0", state=State.RUNNING, at_ns=0, device="cuda:2,3")])
    model.apply([telemetry_event(START_NS, 3, gpu=2)])
    assert [len(model.runs[f"G{gpu}"].telemetry) for gpu in range(2)] == [3, 3]


def test_telemetry_is_bounded_and_keeps_a_short_throttling() -> None:
    log = TelemetryLog(limit=64)
    for i in range(5000):
        log.add(i * 50_000_000, 1980.0, 2619.0, 40.0, 300.0, 0x40 if i == 1234 else 0)
    assert len(log.at_s) <= 64
    assert log.count == 5000
    assert throttle_words(functools.reduce(operator.or_, log.throttle)) == ["thermal slowdown (hardware)"]


def test_a_reading_the_driver_did_not_give_is_unknown_not_zero() -> None:
    log = TelemetryLog()
    log.add(1, math.nan, 2619.0, 40.0, 300.0, -1)
    assert log.latest("sm_clock_mhz") is None
    assert list(log.throttle) == [-1]
    assert throttle_words(-1) == []


def test_what_idles_or_was_set_is_not_called_throttling() -> None:
    assert throttle_words(0x1 | 0x2 | 0x100) == []
    assert throttle_words(0x4 | 0x20) == ["power cap", "thermal slowdown (software)"]
    assert throttle_words(0x1000) == ["reason 0x1000"]


def test_a_replay_after_a_reconnect_changes_nothing() -> None:
    model = Model()
    model.apply([welcome_event()])
    story = numbered(quick_run_events())
    model.apply(story)
    assert model.connection.last_seq == len(story)
    assert model.apply(story[-20:]) == set()
    assert model.runs["R1"].samples("baseline").points.count == 120


def test_another_epoch_ends_what_the_old_engine_had_under_way() -> None:
    model = Model()
    model.apply([welcome_event("ONE")])
    model.apply(numbered([*watch_events(), *quick_run_events(finished=False)]))
    names = model.apply([welcome_event("TWO")])
    run = model.runs["R1"]
    assert run.record.state is State.ENGINE_LOST
    assert "R runs it again" in run.record.reason
    assert not model.watches["ch05:collate"].active
    assert "runs" in names
    assert model.connection.last_seq == 0
    model.apply(numbered(quick_run_events(run_id="R2")))
    assert model.runs["R2"].record.state is State.OK


def test_a_step_is_news_of_its_run_and_of_no_list_of_runs() -> None:
    model = Model()
    model.apply(quick_run_events(finished=False))
    assert model.apply([heard.step(run_id="R1", name="verify", arm="optimized", start_ns=START_NS)]) == {"run:R1"}


def test_a_gap_is_noted_in_the_runs_under_way_only() -> None:
    model = Model()
    model.apply([*quick_run_events(run_id="DONE"), *quick_run_events(run_id="ON", finished=False)])
    model.apply([events.Gap(first=10, last=20)])
    assert model.runs["DONE"].gaps == []
    note = readings.note_row(model.runs["ON"]).plain
    assert note == "events 10..20 were not received; the stored run is whole"


def test_a_run_whose_plan_was_missed_is_still_shown() -> None:
    model = Model()
    model.apply(quick_run_events()[1:])
    run = model.runs["R1"]
    assert run.record.target == "ch05:collate"  # from its end
    assert run.samples("optimized").points.count == 120


def test_what_has_ended_does_not_change_any_more() -> None:
    model = Model()
    model.apply(quick_run_events())
    ended = model.runs["R1"].record
    late = heard.arm(run_id="R1", arm="optimized", state="crashed", reason="too late")
    model.apply([heard.state(run_id="R1", state="running", at_ns=1), late])
    assert model.runs["R1"].record is ended


def test_old_runs_keep_their_results_and_let_go_of_their_points() -> None:
    model = Model()
    for number in range(WHOLE_RUNS + 3):
        model.apply(quick_run_events(run_id=f"R{number}", rounds=1))
    old, new = model.runs["R0"], model.runs[f"R{WHOLE_RUNS + 2}"]
    assert not old.whole and old.samples("baseline").points.count == 0
    assert old.record.arms[0].median_ms == 4.2
    assert new.whole and new.samples("baseline").points.count == 40


def test_output_is_bounded_counted_and_keeps_its_indentation() -> None:
    model = Model()
    for _ in range(60):
        model.apply([events.Output(run_id="R1", arm="a", stream="stdout", lines=["  x\ty"] * 100, dropped=7)])
    run = model.runs["R1"]
    assert len(run.output) == MAX_OUTPUT_LINES
    assert (run.output_count, run.output_dropped) == (6000, 420)
    assert run.output[0] == ("a", "  x     y")


def test_a_banner_comes_and_goes() -> None:
    model = Model()
    model.apply([events.Banner(key="disk", text="the disk is full", severity="error")])
    assert model.banners["disk"].text == "the disk is full"
    model.apply([events.Banner(key="disk", text="")])
    assert model.banners == {}


def test_a_lost_engine_is_a_banner_until_it_is_back() -> None:
    model = Model()
    model.set_connection("lost", "it went away")
    assert str(model.connection) == "lost: it went away"
    assert model.banners["engine"].severity == "error"
    model.set_connection("connected")
    assert "engine" not in model.banners


def test_watch_edits_and_the_best_of_them() -> None:
    model = Model()
    model.apply(watch_events())
    watch = model.watches["ch05:collate"]
    assert [edit.number for edit in watch.edits] == [0, 1, 2, 3, 4, 5]
    best = edits.best_edit(model, watch)
    assert best is not None and best.number == 4
    assert edits.sentence(model, watch, watch.edits[2]) == "not run: optimized.py line 9: '(' was never closed"
    assert edits.sentence(model, watch, watch.edits[3]).startswith("wrong: optimized: y[0, 17] is 3.25")
    rows = dict(edits.rows(watch, edits.all_told(model, watch), 60, False))
    assert rows["5"][3] == "+12.7 %"
    assert edits.median_ms(model, watch.edits[3]) is None


def test_a_change_inside_the_intervals_is_marked_as_no_change() -> None:
    model = Model()
    story = watch_events()[:1]
    for number, speedup in ((0, 2.0), (1, 2.005)):
        story.append(
            events.WatchEdit(
                target="ch05:collate", number=number, snapshot=f"{number}" * 64, files=["a.py"], run_id=f"W{number}"
            )
        )
        story += quick_run_events(run_id=f"W{number}", speedup=speedup)
    model.apply(story)
    watch = model.watches["ch05:collate"]
    rows = dict(edits.rows(watch, edits.all_told(model, watch), 60, False))
    assert rows["1"][4] == "~ -0.2 %"


def test_a_suspect_time_is_never_the_best() -> None:
    model = Model()
    model.apply(watch_events())
    best = model.runs["W4"]
    best.record = replace(best.record, validity=Validity.SUSPECT, verdict=Verdict.NONE)
    best = edits.best_edit(model, model.watches["ch05:collate"])
    assert best is not None and best.number == 5


def test_a_watch_that_begins_again_goes_on_with_its_edits_and_one_of_another_folder_starts_a_new_list() -> None:
    model = Model()
    model.apply(watch_events(folder="/f"))
    model.apply([events.WatchChanged(target="ch05:collate", folder="/f", active=False)])
    model.apply([events.WatchChanged(target="ch05:collate", folder="/f", active=True, polling=True)])
    assert [edit.number for edit in model.watches["ch05:collate"].edits] == list(range(6))
    assert model.watches["ch05:collate"].polling
    model.apply([events.WatchChanged(target="ch05:collate", folder="/g", active=True)])
    assert model.watches["ch05:collate"].edits == []


def test_sentences_of_every_verdict() -> None:
    model = Model()
    model.apply(quick_run_events())
    run = model.runs["R1"]
    assert readings.verdict_row(run, False).plain == "optimized ▲ 2.31× faster [2.28..2.35], floor 0.5 %"
    item = run.headline
    assert item is not None

    def changed(**changes: Any) -> None:
        run.record = replace(run.record, comparisons=(replace(item, **changes),))

    changed(verdict=Verdict.UNDECIDED, note="4 more replicas would decide it")
    assert readings.verdict_row(run, True).plain == (
        "optimized ? 2.31x undecided [2.28..2.35], floor 0.5 %: 4 more replicas would decide it"
    )
    changed(verdict=Verdict.UNDECIDED, low=2.31, high=2.31, note="2 rounds say nothing of how rounds differ")
    row = readings.verdict_row(run, True).plain
    assert row.startswith("optimized ? 2.31x undecided, floor"), "one process has no interval"
    changed(verdict=Verdict.NONE, speedup=None, low=None, high=None, note="optimized: checked, not timed here")
    assert readings.verdict_row(run, False).plain == "optimized – no verdict: checked, not timed here"
    changed(verdict=Verdict.SLOWER, speedup=0.8, low=0.78, high=0.82)
    assert readings.verdict_row(run, False).plain == (
        "optimized ▼ 0.80× the baseline's speed: slower [0.78..0.82], floor 0.5 %"
    )
    run.record = replace(run.record, verdict=Verdict.NONE, validity=Validity.SUSPECT)
    assert readings.verdict_row(run, False).plain.startswith("suspect, not a verdict: ")
    run.record = replace(run.record, validity=Validity.CAUGHT, reason="the timer was replaced")
    assert readings.verdict_row(run, False).plain == "caught: the timer was replaced; there is no verdict"


def test_a_reason_that_begins_with_its_word_is_said_once() -> None:
    model = Model()
    model.apply(failing_run_events(state="incorrect", reason="wrong values: y[3]: got 1, expected 2", detail=""))
    assert readings.detail_lines(model.runs["R1"])[0] == "optimized: wrong values: y[3]: got 1, expected 2"


def test_a_failed_run_says_why_with_the_failing_arm_first() -> None:
    model = Model()
    model.apply(failing_run_events())
    run = model.runs["R1"]
    lines = readings.detail_lines(run)
    assert readings.verdict_row(run, False).plain == f"error: {run.record.reason}"
    assert lines[0] == f"optimized: error: {run.record.reason}"  # said once, at the arm that decided it
    assert lines[1] == "  optimized.py:14 in run"
    assert "baseline: cancelled: ended with optimized" in lines[3:]


def test_short_times_are_shown_in_microseconds() -> None:
    model = Model()
    model.apply(quick_run_events(baseline_ms=0.02, speedup=2.0))
    run = model.runs["R1"]
    unit = runplot.time_unit(run, False)
    assert unit.name == "µs"
    cells = dict(readings.arm_rows(run, 80, unit, False))["optimized"]
    assert "10.0 [9.90..10.1]" in cells
    series = runplot.run_series(run, 100, unit)
    assert 9 < series[1].y[0] < 11


def test_samples_and_readings_share_one_time_axis() -> None:
    model = Model()
    model.apply(gpu_run_events())
    run = model.runs["G1"]
    series = {item.name: item for item in runplot.run_series(run, 200, runplot.Unit("ms", 1))}
    assert list(series) == ["baseline", "optimized", "swizzled", "A/A", "set aside: clock too low"]
    aside = series["set aside: clock too low"]
    assert (len(aside.x), aside.mark) == (12, "signs")
    lanes = runplot.run_lanes(run, 0, 10_000)
    assert [lane.title for lane in lanes] == ["SM clock MHz", "memory clock MHz", "temperature C", "power W"]
    driver, counters, cap = lanes[0].series
    assert driver.x[0] == 0.0 and math.isclose(driver.x[40], 2.0) and driver.y[40] == 1755.0
    assert (cap.name, cap.mark) == ("power cap", "flags")
    assert math.isclose(next(x for x, y in zip(cap.x, cap.y, strict=True) if y > 0), 2.0)
    # The counters saw in each sample that was set aside what the driver's reading did not: its clock was low.
    low = [x for x, y in zip(counters.x, counters.y, strict=True) if y < 1500]
    assert sorted(low) == list(aside.x) and min(driver.y) == 1755.0


def test_pauses_between_samples_are_folded_and_order_and_measuring_stay_as_they_are() -> None:
    fold = runplot.Folding([0.0, 0.5, 1.0, 21.0, 21.5, 22.0, 52.0, 53.0])
    assert fold.x_label == "s, pauses folded"
    moments = fold([0.0, 0.5, 1.0, 11.0, 21.0, 22.0, 37.0, 52.0, 53.0, 54.0])
    kept = runplot.FOLDED_SHARE * 3.0
    wanted = [0.0, 0.5, 1.0, 1 + kept / 2, 1 + kept, 2 + kept, 2 + 1.5 * kept, 2 + 2 * kept, 3 + 2 * kept, 4 + 2 * kept]
    assert all(math.isclose(found, due) for found, due in zip(moments, wanted, strict=True))


def test_without_pauses_seconds_are_seconds() -> None:
    for fold in (runplot.Folding(), runplot.Folding([0.0, 0.9, 1.8]), runplot.UNFOLDED):
        assert (fold.x_label, fold([0.0, 0.9, 7.5])) == ("s", [0.0, 0.9, 7.5])


def test_samples_and_readings_are_folded_alike() -> None:
    model = Model()
    model.apply(gpu_run_events())
    run = model.runs["G1"]
    fold = runplot.Folding([0.0, 40.0])  # one pause, over everything
    unit = runplot.Unit("ms", 1)
    for plain, folded in zip(
        runplot.run_series(run, 10_000, unit), runplot.run_series(run, 10_000, unit, fold), strict=True
    ):
        assert list(folded.x) == fold(plain.x) and list(folded.y) == list(plain.y)
    for lane, under in zip(runplot.run_lanes(run, 0, 10_000), runplot.run_lanes(run, 0, 10_000, fold), strict=True):
        assert [list(s.x) for s in under.series] == [fold(s.x) for s in lane.series]


def test_an_answer_that_the_driver_did_not_give_is_a_gap_in_its_lane() -> None:
    model = Model()
    model.apply(gpu_run_events(finished=False, rounds=1))
    silent = telemetry_event(START_NS + 2_000_000_000, 3)
    silent.power_w, silent.throttle, silent.temperature_c = [math.nan, 500.0, math.nan], [-1, 4, -1], [math.nan] * 3
    model.apply([silent])
    lanes = {lane.title: lane for lane in runplot.run_lanes(model.runs["G1"], 0, 200)}
    power = list(lanes["power W"].series[0].y[-3:])
    assert math.isnan(power[0]) and power[1] == 500.0 and math.isnan(power[2])
    flags = list(lanes["SM clock MHz"].series[-1].y[-3:])
    assert math.isnan(flags[0]) and flags[1] == 1.0 and math.isnan(flags[2])


def test_a_reading_that_never_came_has_no_lane() -> None:
    model = Model()
    story = gpu_run_events(rounds=1)
    for event in story:
        if isinstance(event, events.TelemetryBatch):
            event.memory_clock_mhz = [math.nan] * len(event.at_ns)
    model.apply(story)
    titles = [lane.title for lane in runplot.run_lanes(model.runs["G1"], 0, 200)]
    assert titles == ["SM clock MHz", "temperature C", "power W"]


def test_telemetry_before_the_measuring_is_not_on_its_axis() -> None:
    model = Model()
    model.apply(gpu_run_events(rounds=1, finished=False)[:3])
    model.apply([telemetry_event(START_NS, 10)])
    assert len(model.runs["G1"].telemetry) == 10
    assert runplot.run_series(model.runs["G1"], 100, runplot.Unit("ms", 1)) == []
    assert runplot.run_lanes(model.runs["G1"], 0, 100) == []


def test_clocks_of_samples_are_kept_and_unknown_ones_are_no_points() -> None:
    model = Model()
    batch = batch_event("R1", "baseline", START_NS, 0.2, count=4, sm_clock_mhz=[1980.0, math.nan, 1500.0, 1970.0])
    batch.discarded = [0, 0, 1, 0]
    model.apply([batch])
    arm = model.runs["R1"].samples("baseline")
    assert list(arm.clocks.y) == [1980.0, 1500.0, 1970.0]
    assert (arm.points.count, list(arm.discarded_points), arm.discarded_points[1].count) == (3, [1], 1)
    assert arm.discarded_points[1].x[0] == arm.clocks.x[1]


def test_an_arm_keeps_how_it_was_timed_its_light_and_its_quality() -> None:
    model = Model()
    light = heard.light(measured_ms=0.1, limiter="bytes", score=0.9)
    quality = Quality(drift=0.02)
    model.apply(
        [
            heard.arm(
                run_id="R1", arm="optimized", state="ok", correctness="correct", timing="warm graph", calls=16,
                median_ms=0.11, sm_clock_mhz=1755.0, light=light, quality=quality,
            ),
            heard.comparison(
                run_id="R1", rung="optimized", baseline="baseline", verdict="faster", speedup=2.0, cycles=1.9,
                cycles_low=1.8, cycles_high=2.0, p_value=0.001,
            ),
        ]
    )  # fmt: skip
    arm = model.runs["R1"].record.arms[0]
    assert (arm.timing, arm.calls, arm.sm_clock_mhz) == (Timing.WARM_GRAPH, 16, 1755.0)
    assert (arm.light, arm.quality) == (light, quality)
    assert "  launches  2 kernels a call" in readings.arm_lines(model.runs["R1"], replace(arm, launches=2), ascii=False)
    assert "  launches  1 kernel a call" in readings.arm_lines(model.runs["R1"], replace(arm, launches=1), ascii=False)
    assert not [line for line in readings.arm_lines(model.runs["R1"], arm, ascii=False) if "launches" in line]
    told = replace(
        arm, correctness=Correctness.CORRECT, rule=RuleSaid("allclose, 1e-2", right=False, detail="y is off")
    )
    for shown in (told, replace(told, median_ms=None, low_ms=None, high_ms=None)):
        lines = " ".join(" ".join(readings.arm_lines(model.runs["R1"], shown, ascii=False)).split())
        assert "own rule wrong by its own rule (allclose, 1e-2), which we do not share: y is off" in lines
    (item,) = model.runs["R1"].comparisons
    assert (item.cycles, item.cycles_low, item.cycles_high, item.p_value) == (1.9, 1.8, 2.0, 0.001)


def test_a_measurement_of_ceilings_grows_and_ends() -> None:
    model = Model()
    story = peak_events()
    assert model.apply(story[:2]) == {"peak"}
    assert model.peak is not None
    assert (model.peak.id, model.peak.count, len(model.peak.ceilings), model.peak.finished) == ("01P", 6, 2, False)
    model.apply(story[2:])
    assert (len(model.peak.ceilings), model.peak.finished, model.peak.reason) == (6, True, "")
    model.apply(peak_events(peak_id="02P", count=1, reason="the GPU fell off the bus"))
    assert (model.peak.id, len(model.peak.ceilings), model.peak.reason) == ("02P", 1, "the GPU fell off the bus")


def test_ceilings_of_gpus_that_are_measured_side_by_side_are_not_mixed() -> None:
    model = Model()
    one, two = (peak_events(peak_id=peak_id) for peak_id in ("01P", "02P"))
    for events_ in zip(one, two, strict=True):
        model.apply(events_)
    assert model.peak is not None
    assert (model.peak.id, len(model.peak.ceilings), model.peak.finished) == ("01P", 6, True)


def test_a_measurement_under_way_is_lost_with_its_engine() -> None:
    model = Model()
    model.apply([welcome_event(), *peak_events(finished=False)])
    model.apply([welcome_event(epoch="another")])
    assert model.peak is not None
    assert (model.peak.finished, model.peak.reason) == (True, "the engine ended while this was under way")


def test_a_stored_run_carries_clocks_light_and_quality() -> None:
    record = measured(planned())
    samples = {arm.rung: samples_of(50) for arm in record.arms}
    run = stored_run(record, samples)
    arm = run.arm("optimized")
    assert arm is not None
    assert (arm.timing, arm.calls, arm.sm_clock_mhz) == (Timing.COLD_GRAPH, 16, 1980.0)
    assert arm.light is not None and (arm.light.limiter, arm.light.measured_ms) == ("bytes", 0.45)
    assert arm.quality is not None and (arm.quality.high_mode_ms, arm.quality.overhead_ms) == (0.56, 0.00128)
    known = int(np.isfinite(samples["optimized"].sm_clock_mhz).sum())
    assert run.samples("optimized").clocks.count == known
    assert run.comparisons[0].cycles == 1.95


# -- findings and quarantine -------------------------------------------------------------------------------------------


def test_findings_come_with_the_end_and_bar_the_caught_rung_alone() -> None:
    model = Model()
    story = cheat_run_events(run_id="R1")
    model.apply(numbered(story[:-1]))
    assert model.runs["R1"].record.findings == ()
    assert model.apply(numbered(story[-1:], len(story))) >= {"runs", "run:R1"}
    run = model.runs["R1"]
    assert len(run.record.findings) == 20
    bar = run.bar("cheat")
    assert bar is not None and (bar.word, bar.check) == ("caught", "timing.wall_clock")
    assert run.bar("optimized") is None and run.lead == run.arm("optimized")
    assert run.caught == {"cheat": f"timing.wall_clock: {HIDDEN_WORK}"}


def test_a_baseline_that_was_caught_bars_every_comparison_with_it() -> None:
    model = Model()
    story = quick_run_events(run_id="R1")
    found = list(items(["baseline", "optimized", AA_ARM], AA_ARM))
    end = heard.finished(run_id="R1", state="ok", validity="caught", duration_ms=9.0, findings=found)
    model.apply(numbered(heard.whole([*story[:-1], end])))
    run = model.runs["R1"]
    item = run.comparison("optimized")
    bar = run.barred(item) if item is not None else None
    assert bar is not None and bar.rung == "baseline"
    drawn = readings.verdict_row(run, True).plain
    assert "baseline # caught: timing.wall_clock" in drawn and "2.31" not in drawn


def test_a_finding_about_the_whole_run_bars_all_of_it_and_is_told_once() -> None:
    model = Model()
    story = quick_run_events(run_id="R1")
    told = heard.finding(check="evaluation.files", arm="", status="caught", evidence="two files changed")
    end = heard.finished(run_id="R1", state="ok", validity="caught", duration_ms=9.0, findings=[told])
    model.apply(numbered(heard.whole([*story[:-1], end])))
    run = model.runs["R1"]
    assert [bar.rung for bar in run.bars] == [""] and run.bar("optimized") is not None
    drawn = readings.verdict_row(run, False).plain
    assert drawn == "the run ⊘ caught: evaluation.files: no speed-up of it is one; v says more"


def test_a_quarantine_marks_runs_of_the_code_that_was_caught_and_live_ones() -> None:
    model = Model()
    model.apply(numbered(quick_run_events(run_id="R1", folder="/k")))
    held = Quarantine("ch05:collate", b"/k", "optimized", "old", "R0", "timing.wall_clock", "why", "")
    assert model.set_quarantines([held]) == {"quarantines"} and model.set_quarantines([held]) == set()
    run = model.runs["R1"]
    bar = run.bar("optimized")
    assert bar is not None and bar.word == "quarantined"
    run.record = replace(run.record, manifest={"code": "new"})
    model.mark(run)
    assert run.bar("optimized") is None
    run.record = replace(run.record, manifest={"code": "old"}, folder=b"/elsewhere")
    model.mark(run)
    assert run.bar("optimized") is None


def test_a_run_in_which_a_cheat_was_caught_still_says_what_its_honest_rung_came_to() -> None:
    model = Model()
    model.apply(numbered(cheat_run_events(run_id="R1")))
    drawn = readings.verdict_row(model.runs["R1"], False).plain
    assert "optimized ▲ 1.23× faster" in drawn and "cheat ⊘ caught: timing.wall_clock" in drawn


def test_a_check_counts_once_as_the_worst_that_it_said() -> None:
    model = Model()
    model.apply(numbered(cheat_run_events(run_id="R1")))
    categories = by_category(model.runs["R1"].record.findings)
    assert [one.name for one in categories] == ["timing", "output", "cuda"]
    assert findings.counts_text(categories) == "1 caught, 1 suspect, 1 passed, 1 unavailable, 1 n/a"
    assert [item.arm for item in categories[0].checks[0].worst] == ["cheat"]
