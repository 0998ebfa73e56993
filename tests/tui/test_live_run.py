"""The live run's screen, driven by keys over scripted streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import Limiter, Timing, Validity, Verdict
from aisp.store.record import LinkUse, Quality, Rank, Ranks, RooflineBound, unplanned
from aisp.tui import readings, runplot
from aisp.tui.model import RunView
from aisp.tui.screens import run as run_module
from aisp.tui.screens.run import RunScreen
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.plot import LivePlot, Series
from aisp.tui.widgets.strips import DistributionStrips
from aisp.tui.widgets.table import LiveTable
from tests import heard
from tests.replacing import replace
from tests.tui.app_support import fill_store, opened, screen_name, screen_text, told, until
from tests.tui.fakes import (
    CLOCKS_NOTE,
    START_NS,
    FakeLink,
    batch_event,
    failing_run_events,
    gpu_run_events,
    quick_run_events,
    status_event,
    telemetry_event,
)
from tests.tui.live_support import SIZES, check_snapshot, isolate

STORIES = {
    "quick": (quick_run_events, "R1", False),
    "failing": (failing_run_events, "R1", False),
    "gpu": (gpu_run_events, "G1", True),
}


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def link_with(story: list[events.Event], *, gpu: bool = False) -> FakeLink:
    link = FakeLink(story)
    link.engine_status = status_event(gpu=gpu)
    return link


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", STORIES)
async def test_screen_looks_the_same_at_every_size(
    name: str, size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    make, run_id, gpu = STORIES[name]
    async with opened(tmp_path, size=size, link=link_with(make(), gpu=gpu)) as (app, pilot):
        app.open_screen("run", run_id=run_id)
        await until(pilot, lambda: "steps" in screen_text(app) and screen_name(app) == "RunScreen")
        await pilot.pause()
        drawn = screen_text(app)
    check_snapshot(request, f"run_{name}_{size[0]}x{size[1]}", drawn)


async def test_a_person_sees_verdict_interval_floor_and_both_arms_at_80x24(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "▲ 2.31×" in screen_text(app))
        drawn = screen_text(app)
    assert "quick: 2 replicas" in drawn
    assert "optimized ▲ 2.31× faster [2.28..2.35], floor 0.5 %" in drawn
    assert "4.20 [4.16..4.24]" in drawn and "1.82 [1.80..1.84]" in drawn
    assert "start processes 2.4 ms" in drawn
    assert drawn.count("no clocks: this run is on the CPU") == 1 and "NVML" not in drawn


async def test_the_run_is_drawn_as_it_goes_on(tmp_path: Path) -> None:
    story = quick_run_events()
    measure = next(i for i, event in enumerate(story) if isinstance(event, events.SampleBatch))
    link = link_with(story[:measure])
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "▸ measure" in screen_text(app))
        assert "no samples yet" in screen_text(app)
        link.push(*story[measure : measure + 1])
        await until(pilot, lambda: "● baseline" in screen_text(app))
        link.push(*story[measure + 1 :])
        await until(pilot, lambda: "▲ 2.31× faster" in screen_text(app))
        assert "▸" not in screen_text(app)


async def test_a_run_that_is_opened_before_it_is_planned_appears(tmp_path: Path) -> None:
    link = link_with([])
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        link.push(*quick_run_events())
        await until(pilot, lambda: "▲ 2.31× faster" in screen_text(app))


async def test_clocks_stand_below_the_times_and_m_changes_which_comes_first(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await until(pilot, lambda: "SM clock MHz" in screen_text(app))
        drawn = screen_text(app)
        assert "SM 1755 MHz" in drawn and "mem 2619 MHz" in drawn and "700 W" in drawn
        assert "12 samples discarded: clock too low" in drawn and "clocks=unlocked" in drawn
        titles = []
        for _ in range(5):
            lines = app.screen.query_one(LivePlot).lines
            titles.append(next(line for line in lines if "├─" in line).split("─ ")[1].split("  ")[0])
            assert any("power cap" in line for line in lines)  # the marks stay, whatever is shown
            await pilot.press("m")
            await pilot.pause()
    assert titles == ["SM clock MHz", "memory clock MHz", "temperature C", "power W", "SM clock MHz"]


async def test_readings_stand_in_the_same_columns_as_the_samples(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50), link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await until(pilot, lambda: "power W" in screen_text(app))
        lines = app.screen.query_one(LivePlot).lines
    heads = [number for number, line in enumerate(lines) if "├─" in line]
    assert [lines[at].split("─ ")[1].split("  ")[0].split(" ─")[0].strip() for at in heads] == [
        "SM clock MHz",
        "memory clock MHz",
        "temperature C",
        "power W",
    ]
    # The power cap bites at the second second, and so do the marks: where the axis says 2.
    axis = next(line for line in lines if "└" in line)
    two_s = lines[-1].index("2.0") + 1
    assert axis[two_s] == "┬"
    flags = next(line for line in lines[heads[0] : heads[1]] if line.count("◆") > 20)
    assert abs(flags.index("◆") - two_s) <= 1
    # The samples that were set aside are the first of each turn in the third second.
    aside = [line.index("■") for line in lines[1 : heads[0]] if "■" in line]
    assert min(aside) >= two_s - 1
    # Their clocks, by the GPU's counters, lie low in the same columns, though the driver's reading does not.
    low = lines[heads[0] + 2]
    assert {column for column, sign in enumerate(low[6:], 6) if sign not in " │"} & set(
        range(min(aside) - 1, min(aside) + 2)
    )


async def test_i_says_what_the_samples_say_and_shows_the_whole_note(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await until(pilot, lambda: "i: note" in screen_text(app))
        assert "the clocks differed" not in screen_text(app)
        await pilot.press("i")
        await until(pilot, lambda: "what the samples say" in screen_text(app))
        await pilot.pause()
        drawn = " ".join(screen_text(app).split())
        assert app.screen.rung_name == "optimized_swizzled"  # type: ignore[attr-defined]
        assert CLOCKS_NOTE in drawn
        assert "in SM cycles 2.34x [2.31..2.36]" in drawn
        assert "cold: L2 flushed before, and clean; the stream was held" in drawn
        assert "1755 MHz during the samples, by the GPU's own counters" in drawn
        lines = "\n".join(readings.sample_lines(app.screen.run_view, True))  # type: ignore[attr-defined]
        assert "limited by bytes" in lines and "94 % of what is possible by the measured ceilings" in lines
        assert "score 0.96" in lines
        assert "two modes, 0.1680 and 0.1830 ms (20 % in the slower)" in lines
        assert "times rise by 2.1 % within a replica" in lines
        assert "12 samples of the run were set aside: clock too low" in lines
        await pilot.press("i")
        await pilot.pause(0.1)
        assert "what the samples say" not in screen_text(app)
        assert app.screen.query_one("#plot").display


async def test_a_key_puts_away_what_a_large_screen_shows_by_itself_and_brings_it_back(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50), link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await until(pilot, lambda: "what the samples say" in screen_text(app))
        rows = app.screen.query_one("#plot").size.height
        await pilot.press("i")
        await until(pilot, lambda: "what the samples say" not in screen_text(app))
        await until(pilot, lambda: app.screen.query_one("#plot").size.height > rows)
        await pilot.press("s")
        await until(pilot, lambda: "start process" in screen_text(app))
        await pilot.press("s")
        await until(pilot, lambda: "what the samples say" in screen_text(app))
        await pilot.press("i", "i")
        await until(pilot, lambda: app.screen.query_one("#plot").size.height == rows)
        assert "what the samples say" in screen_text(app)


def test_the_host_that_limits_an_arm_has_the_price_of_its_launch_beside_it() -> None:
    def lines(light: RooflineBound) -> str:
        arm = heard.arm_of("optimized", median_ms=20.0, timing="cold+host", light=light)
        return "\n".join(readings.sample_lines(RunView(unplanned("G1", "mine:one").with_arm(arm)), True))

    known = "an eager launch costs this host 20.0 µs; with one of 5 µs it would be 5.000 ms, derived"
    assert known in lines(heard.light(measured_ms=0.07, limiter="host", launch_eager_ms=0.02))
    assert "what a launch costs this host is not known (-)" in lines(heard.light(measured_ms=0.07, limiter="host"))


def test_what_an_arm_carries_over_a_link_stands_below_its_light_and_nothing_without_a_link() -> None:
    def lines(link: LinkUse | None) -> str:
        light = heard.light(spec_ms=0.07, limiter="pcie", link=link)
        arm = heard.arm_of("optimized", median_ms=20.0, timing="cold", light=light)
        return "\n".join(readings.sample_lines(RunView(unplanned("G1", "mine:one").with_arm(arm)), True))

    told = lines(LinkUse(Limiter.PCIE, in_bytes_per_s=48e9, in_share=0.75))
    assert "pcie in 48.0 GB/s (75 % of the datasheet)" in told and " out " not in told
    assert "/s" not in lines(None)


def test_what_accepted_an_arms_outputs_is_told_in_words_where_it_is_known() -> None:
    def lines(quality: Quality) -> str:
        arm = heard.arm_of("optimized", median_ms=20.0, timing="cold", quality=quality)
        return "\n".join(readings.sample_lines(RunView(unplanned("G1", "mine:one").with_arm(arm)), True))

    told = "right     9 calls by the stated tolerance, 4 on drawn cases by the derived bound"
    assert told in lines(Quality(right_by_stated=9, right_by_derived=4))
    assert "stated tolerance" not in lines(Quality())


async def test_where_a_run_was_judged_stands_in_its_verdict(tmp_path: Path) -> None:
    story = quick_run_events()
    end = story[-1]
    assert isinstance(end, events.RunFinished)
    arms = tuple(replace(arm, quality=Quality(inside="no room")) for arm in end.run.arms)
    story[-1] = replace(end, run=replace(end.run, arms=arms))
    async with opened(tmp_path, size=(200, 50), link=link_with(story)) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "[2.28..2.35], floor 0.5 %, judged inside (no room)" in screen_text(app))


async def test_a_note_that_fits_stands_in_the_verdict(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50), link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await until(pilot, lambda: CLOCKS_NOTE in screen_text(app))
        assert "i: note" not in screen_text(app)


async def test_a_wide_table_says_how_each_arm_was_timed_and_what_limits_it(tmp_path: Path) -> None:
    story = gpu_run_events()
    for event in story:
        if isinstance(event, events.ArmUpdate) and event.arm.rung == "optimized":
            light = heard.light(spec_ms=0.15, limiter="launch")
            event.arm = replace(event.arm, timing=Timing.COLD_GRAPH, calls=16, light=light)
    async with opened(tmp_path, size=(200, 50), link=link_with(heard.whole(story), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await until(pilot, lambda: "SOL by" in screen_text(app))
        table = app.screen.query_one("#arms", LiveTable)
        heads = [column.key for column in table.columns]
        cells = [str(cell) for cell in table.row("optimized") or []]
        other = [str(cell) for cell in table.row("optimized_swizzled") or []]
    shown = dict(zip(heads, cells, strict=True))
    assert (shown["timing"], shown["clock"], shown["sol"]) == ("cold graph x16", "1975", "86 %")
    assert (shown["limiter"], shown["against"], shown["score"]) == ("launch", "datasheet", "-")
    assert dict(zip(heads, other, strict=True))["against"] == "measured"


async def test_f_opens_the_roofline_of_this_run(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await pilot.pause()
        await pilot.press("f")
        await until(pilot, lambda: screen_name(app) == "RooflineScreen")
        assert app.screen.opened_with == {"target_id": "ch07:transpose", "run_id": "G1"}  # type: ignore[attr-defined]


async def test_m_without_a_gpu_says_why_there_is_nothing_to_show(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        await pilot.press("m")
        await until(pilot, lambda: "no clocks: this run is on the CPU" in told(app))


async def test_a_reading_the_driver_does_not_give_is_a_dash(tmp_path: Path) -> None:
    link = link_with(gpu_run_events(finished=False), gpu=True)
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="G1")
        silent = telemetry_event(6_000_000_000_000, 1)
        silent.sm_clock_mhz, silent.throttle = [float("nan")], [-1]
        link.push(silent)
        await until(pilot, lambda: "SM - MHz" in screen_text(app))
        assert "throttle -" in screen_text(app)


async def test_failure_shows_the_reason_and_the_traceback(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(failing_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "optimized.py:14 in run" in screen_text(app))
        drawn = screen_text(app)
        assert "error: optimized.py line 14 does not compile" in drawn
        assert "return tl.dot(a, b, acc)" in drawn
        assert "no samples yet" not in drawn  # the plot gives its room to the reason


async def test_wrong_answer_shows_the_mismatch(tmp_path: Path) -> None:
    story = failing_run_events(state="incorrect", reason="y differs", detail="[0, 17]  got 3.25  expected 1.5")
    async with opened(tmp_path, link=link_with(story)) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "got 3.25  expected 1.5" in screen_text(app))
        assert "wrong: y differs" in screen_text(app)
        row = app.screen.query_one("#arms", LiveTable).row("optimized")
        assert row is not None and "NO" in [str(cell) for cell in row]


async def test_x_cancels_this_run(tmp_path: Path) -> None:
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        await pilot.press("x")
        await until(pilot, lambda: link.sent_of(requests.Cancel))
    assert [message.run_id for message in link.sent_of(requests.Cancel)] == ["R1"]


async def test_x_leaves_the_footer_when_the_run_ends_and_sends_nothing(tmp_path: Path) -> None:
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "x cancel" in screen_text(app))
        link.push(*quick_run_events()[-4:])
        await until(pilot, lambda: "▲ 2.31× faster" in screen_text(app) and "x cancel" not in screen_text(app))
        await pilot.press("x")
        await pilot.pause(0.1)
    assert link.sent_of(requests.Cancel) == []


async def test_the_header_names_the_target_of_a_stored_run(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with([])) as (app, pilot):
        ids = fill_store()
        app.open_screen("run", run_id=ids[0])
        await until(pilot, lambda: "Run ch07:transpose" in screen_text(app).splitlines()[0])


@pytest.mark.parametrize(("key", "quick"), [("r", True), ("R", False)])
async def test_r_and_R_run_again_on_the_same_screen(key: str, quick: bool, tmp_path: Path) -> None:
    link = link_with(quick_run_events())
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        depth = len(app.screen_stack)
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.run_id == "NEW0")
        link.push(*quick_run_events(run_id="NEW0", speedup=3.0))
        await until(pilot, lambda: "▲ 3.00× faster" in screen_text(app))
        assert len(app.screen_stack) == depth
    sent = link.sent_of(requests.StartRuns)
    assert [(message.targets, message.quick) for message in sent] == [(["ch05:collate"], quick)]
    assert sent[0].roots == [str(tmp_path)]


@pytest.mark.parametrize("answer", ["y", "n"])
async def test_what_is_queued_already_is_followed_and_asked_for_once_more_only_after_a_question(
    answer: str, tmp_path: Path
) -> None:
    def reply(request: requests.StartRuns) -> events.Reply:
        run_id = "NEW0" if request.again else "R1"
        return events.Reply(to=request.seq, run_ids=[run_id], joined=[] if request.again else ["R1"])

    link = link_with(quick_run_events(finished=False))
    link.replies[requests.StartRuns] = reply
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        await pilot.press("r")
        await until(pilot, lambda: "ch05:collate: already queued: following it" in told(app))
        assert isinstance(app.screen, RunScreen) and app.screen.run_id == "R1"
        await pilot.press("r")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        assert "Queue it once more? ch05:collate" in screen_text(app)
        await pilot.press(answer)
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        await until(pilot, lambda: getattr(app.screen, "run_id", "") == ("NEW0" if answer == "y" else "R1"))
    assert [sent.again for sent in link.sent_of(requests.StartRuns)] == [False, False] + [True] * (answer == "y")


async def test_a_refused_request_says_why(tmp_path: Path) -> None:
    refusal = events.Reply(to=1, error="the disk is full; free 20 MB")
    link = FakeLink(quick_run_events(), replies={requests.StartRuns: refusal})
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        await pilot.press("r")
        await until(pilot, lambda: "the disk is full; free 20 MB" in told(app))
        assert app.screen.run_id == "R1"  # type: ignore[attr-defined]


async def test_o_shows_the_output_and_new_lines_as_they_come(tmp_path: Path) -> None:
    link = link_with(failing_run_events()[:-1])
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        await pilot.press("o")
        await until(pilot, lambda: "optimized: compiling for sm_90" in screen_text(app))
        assert "optimized:   tile 128x64" in screen_text(app)
        link.push(events.Output(run_id="R1", arm="baseline", stream="stdout", lines=["hello"], dropped=9))
        await until(pilot, lambda: "baseline: hello" in screen_text(app))
        assert "3 lines, 9 more left out" in screen_text(app)
        await pilot.press("o")
        await until(pilot, lambda: "optimized.py:14 in run" in screen_text(app))


async def test_s_lists_every_step_with_its_duration(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        assert not app.screen.query_one("#text", LogPane).display
        await pilot.press("s")
        await pilot.pause()
        pane = app.screen.query_one("#text", LogPane)
        assert pane.display
        await pilot.press("tab", "z")
        await pilot.pause()
        lines = screen_text(app).splitlines()
    assert any("compile" in line and "optimized" in line and "12 ms" in line for line in lines)
    assert any("verdict" in line and "3.1 ms" in line for line in lines)


async def test_p_stops_the_drawing_and_draws_all_again(tmp_path: Path) -> None:
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause()
        await pilot.press("p")
        await until(pilot, lambda: "drawing paused" in screen_text(app))
        link.push(*quick_run_events()[-4:])
        await pilot.pause(0.2)
        assert "faster" not in screen_text(app)
        await pilot.press("p")
        await until(pilot, lambda: "▲ 2.31× faster" in screen_text(app))
        assert "drawing paused" not in screen_text(app)


class Plotted:
    """Notes what the live plot is given: up to which second of the run each drawing reaches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.until_s: list[float] = []
        show = LivePlot.show

        def noted(plot: LivePlot, series: list[Series], **labels: Any) -> None:
            self.until_s.append(max(item.x[-1] for item in series))
            show(plot, series, **labels)

        monkeypatch.setattr(LivePlot, "show", noted)

    async def settled(self, pilot: Pilot[None]) -> None:
        """Wait until the screen has its size and its plot, and forget how often that was drawn."""
        seen = 0
        while not seen or seen != len(self.until_s):
            seen = len(self.until_s)
            await pilot.pause(0.2)
        self.until_s.clear()


def sample_at(seconds: int) -> events.SampleBatch:
    return batch_event("R1", "baseline", START_NS + seconds * 10**9, 0.1, round=100 + seconds, count=1)


def newest_s(link: FakeLink) -> float:
    """Where the newest sample stands on the axis, whose pauses are folded."""
    run = link.model.runs["R1"]
    newest = max(float(drawn.points.points()[0][-1]) for drawn in run.drawn.values() if drawn.points.count)
    return runplot.Folding.of(run)([newest])[0]


async def test_the_plot_waits_for_its_time_but_not_when_the_run_pauses_or_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "PLOT_PERIOD_S", 3600.0)  # its time never comes
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        plotted = Plotted(monkeypatch)
        app.open_screen("run", run_id="R1")
        await plotted.settled(pilot)
        for second in (60, 61):
            figures = app.screen.query_one("#arms", LiveTable).row("baseline")
            link.push(sample_at(second))
            await until(pilot, lambda old=figures: app.screen.query_one("#arms", LiveTable).row("baseline") != old)  # type: ignore[misc]
        assert plotted.until_s == []
        await pilot.press("p")
        await until(pilot, lambda: plotted.until_s == [newest_s(link)])
        await pilot.press("p")
        await until(pilot, lambda: len(plotted.until_s) == 2)
        link.push(sample_at(62))
        await pilot.pause(0.1)
        assert len(plotted.until_s) == 2
        link.push(*quick_run_events()[-4:])
        # More than once: the row that said how far it is goes, and gives its place to the plot.
        await until(pilot, lambda: len(plotted.until_s) >= 3 and plotted.until_s[-1] == newest_s(link))
        assert plotted.until_s[-1] > plotted.until_s[0]


async def test_a_plot_that_waited_is_drawn_though_nothing_more_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "PLOT_PERIOD_S", 0.5)
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        plotted = Plotted(monkeypatch)
        app.open_screen("run", run_id="R1")
        await plotted.settled(pilot)
        for second in range(60, 65):
            link.push(sample_at(second))
            await pilot.pause(0.01)
        await until(pilot, lambda: bool(plotted.until_s) and plotted.until_s[-1] == newest_s(link))
        assert len(plotted.until_s) < 5


async def test_z_zooms_the_plot_and_escape_leaves_the_zoom_first(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        app.screen.query_one("#plot").focus()
        before = app.screen.query_one("#plot").size.height
        await pilot.press("z")
        await pilot.pause(0.1)
        assert app.screen.query_one("#plot").size.height > before
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert app.screen.query_one("#plot").size.height == before
        assert screen_name(app) == "RunScreen"
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert screen_name(app) == "HomeScreen"


async def test_d_compares_the_sources_as_they_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object, object]] = []
    async with opened(tmp_path, link=link_with(gpu_run_events(), gpu=True)) as (app, pilot):
        app.open_screen("run", run_id="G1")
        await pilot.pause(0.1)
        monkeypatch.setattr(
            app, "open_screen", lambda name, target_id, left, right: asked.append((target_id, left, right))
        )
        await pilot.press("d")
        await pilot.press("j", "d")
        await pilot.pause(0.1)
    shown = [(target, left.name, right.name, right.snapshot) for target, left, right in asked]  # type: ignore[attr-defined]
    assert shown == [
        ("ch07:transpose", "baseline", "optimized_swizzled", "a1" * 32),
        ("ch07:transpose", "baseline", "optimized", "a1" * 32),
    ]


async def test_y_copies_the_run_on_the_line_that_one_pastes_into_a_pull_request(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        await pilot.press("y")
        await until(pilot, lambda: "Copied" in told(app))
        text = app.clipboard
    assert text == (
        "ch05:collate optimized: 2.31x (2.28 to 2.35) faster than baseline, CPU, quick, floor 0.5 %, run R1"
    )


async def test_a_stored_run_is_shown_like_a_live_one(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with([])) as (app, pilot):
        ids = fill_store()
        app.open_screen("run", run_id=ids[0])
        await until(pilot, lambda: "stored" in screen_text(app))
        drawn = screen_text(app)
        run = app.screen.run_view  # type: ignore[attr-defined]
        assert run.stored
        counts = [drawn.points.count + sum(drawn.discarded.values()) for drawn in run.drawn.values()]
        assert counts == [100] * len(run.rungs)
        assert "ch07:transpose" in drawn and "faster" in drawn
        assert app.screen.query_one(LivePlot).lines[0].startswith("ms")


async def test_an_unknown_run_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with([])) as (app, pilot):
        fill_store()
        app.open_screen("run", run_id="NOSUCH")
        await until(pilot, lambda: "NOSUCH" in screen_text(app) and "no run" in screen_text(app).lower())


async def test_a_gap_is_told_in_the_run(tmp_path: Path) -> None:
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        link.push(events.Gap(first=10, last=20))
        await until(pilot, lambda: "events 10..20 were not received; the stored run is whole" in screen_text(app))


async def test_a_lost_engine_is_a_banner_over_the_run(tmp_path: Path) -> None:
    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        link.lose("it went away and is looked for")
        await until(pilot, lambda: "engine lost: it went away and is looked for" in screen_text(app))
        link.model.set_connection("connected")
        link.push(events.Banner(key="x", text=""))
        await until(pilot, lambda: "engine lost" not in screen_text(app))


@pytest.mark.parametrize("screen", [("run", {"run_id": "R1"}), ("watch", {"target_id": "ch05:collate"})])
async def test_a_process_that_gives_no_sign_is_named_with_its_end_until_it_gives_one(
    tmp_path: Path, screen: tuple[str, dict[str, str]]
) -> None:
    link = link_with(quick_run_events(finished=False))
    sentence = "optimized: no sign for 10 of 60 s (measure); it is ended then (AISP_PROGRESS_LIMIT_S)"
    async with opened(tmp_path, size=(80, 24), link=link) as (app, pilot):
        app.open_screen(screen[0], **screen[1])
        await pilot.pause(0.1)
        link.push(events.Banner(key="silent: optimized", text=sentence))
        await until(pilot, lambda: sentence[:70] in screen_text(app))
        link.push(events.Banner(key="silent: optimized", text=""))
        await until(pilot, lambda: "no sign" not in screen_text(app))


async def test_plain_ascii_graphs_hold_nothing_but_ascii_signs(tmp_path: Path) -> None:
    from aisp.tui.settings import Settings

    async with opened(tmp_path, link=link_with(quick_run_events()), settings=Settings(graph="ascii")) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "^ 2.31x faster" in screen_text(app))
        plot = app.screen.query_one(LivePlot).lines
    assert all(line.isascii() for line in plot)


async def test_a_resize_changes_the_layout_and_keeps_the_run(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.1)
        await pilot.resize_terminal(130, 40)
        await until(pilot, lambda: "error/tol" in screen_text(app) and "timing" in screen_text(app))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "error/tol" not in screen_text(app))
        assert "▲ 2.31× faster" in screen_text(app)


async def test_a_flood_costs_one_redraw_per_tick_and_bounded_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws: list[int] = []
    show = LivePlot.show

    def counted(self: LivePlot, series: list[object], **labels: Any) -> None:
        draws.append(max((len(item.x) for item in series), default=0))  # type: ignore[attr-defined]
        show(self, series, **labels)  # type: ignore[arg-type]

    link = link_with(quick_run_events(finished=False))
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await pilot.pause(0.2)
        monkeypatch.setattr(LivePlot, "show", counted)
        ticks = 20
        for tick in range(ticks):  # each of 5,000 samples in 50 batches, as ten seconds of a flood would bring
            start_ns = 6_000_000_000_000 + tick * 1_000_000_000
            link.push(
                *(
                    batch_event(
                        "R1", "baseline", start_ns + i * 20_000_000, 0.2, count=100, round=tick, period_ns=200_000
                    )
                    for i in range(50)
                )
            )
            await pilot.pause(0.01)
        run = app.model.runs["R1"]
        assert run.samples("baseline").points.count == 100_000 + 120
        assert app.model.samples_applied == 100_000 + 360
    assert 1 <= len(draws) <= ticks
    assert max(draws) <= 2 * 2 * 120  # two points per dot of the plot's width
    assert len(run.samples("baseline").points.x) <= 2048


@pytest.mark.slow
async def test_step_times_are_told_where_the_run_is_opened_from_the_palette(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=link_with(quick_run_events())) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"ch05:collate, ")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen" and "steps" in screen_text(app))
        await pilot.pause(0.3)
        steps = [line.split()[-3:] for line in screen_text(app).splitlines() if "start processes" in line]
    assert steps == [["processes", "2.4", "ms"]]


async def test_arms_that_differ_much_are_drawn_on_a_logarithmic_axis_and_a_changes_that(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=link_with(quick_run_events(speedup=12.0))) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        plot = app.screen.query_one(LivePlot)
        await until(pilot, lambda: plot.lines and plot.lines[0].startswith("ms, log"))
        await pilot.press("a")
        await until(pilot, lambda: plot.lines[0].startswith("ms  "))
        await pilot.press("a")
        await until(pilot, lambda: plot.lines[0].startswith("ms, log"))


async def test_arms_that_differ_little_are_drawn_on_a_linear_axis(tmp_path: Path) -> None:
    async with opened(
        tmp_path, size=(120, 40), link=link_with(quick_run_events(speedup=1.01, verdict="undecided"))
    ) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        plot = app.screen.query_one(LivePlot)
        await until(pilot, lambda: plot.lines and plot.lines[0].startswith("ms  "))
        strips = app.screen.query_one(DistributionStrips)
        await until(pilot, lambda: any("A/A" in line for line in strips.lines))
        base, other = (next(line for line in strips.lines if f" {name} " in line) for name in ("baseline", "optimized"))
        assert base.index("●", 14) > other.index("○", 14), "a percent faster stands to the left"
        assert "noise floor 0.5 %" in strips.lines[0]


async def test_where_rows_are_few_the_distributions_go_first(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        strips = app.screen.query_one(DistributionStrips)
        await until(pilot, lambda: strips.display and "times against" in screen_text(app))
        await pilot.resize_terminal(120, 24)
        await until(pilot, lambda: "times against" not in screen_text(app))
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "times against" in screen_text(app))


async def test_the_times_of_a_rung_that_was_caught_stand_against_no_baseline(tmp_path: Path) -> None:
    story = quick_run_events(rungs=("baseline", "optimized", "optimized_b"))
    story[-1].run = replace(  # type: ignore[attr-defined]
        story[-1].run,  # type: ignore[attr-defined]
        findings=(heard.finding(check="timing.wall_clock", arm="optimized", status="caught", evidence="0.4 ms"),),
        validity=Validity.CAUGHT,
        verdict=Verdict.NONE,
        comparisons=(),
    )
    async with opened(tmp_path, size=(120, 40), link=link_with(story)) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        strips = app.screen.query_one(DistributionStrips)
        await until(pilot, lambda: any(" b " in line for line in strips.lines))
        assert not any(line.startswith("○") for line in strips.lines)


async def test_z_on_the_rungs_shows_all_that_is_said_of_them_and_leaves_no_empty_pattern(tmp_path: Path) -> None:
    async with opened(tmp_path, link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "▲ 2.31× faster" in screen_text(app))
        assert "what the samples say" not in screen_text(app)
        await pilot.press("z")
        await until(pilot, lambda: "what the samples say" in screen_text(app))
        drawn = screen_text(app)
        assert "╱" not in drawn and "baseline (A/A)" in drawn and "host: the monotonic clock" in drawn
        assert not app.screen.query_one("#plot").region.height
        await pilot.press("escape")
        await until(pilot, lambda: "what the samples say" not in screen_text(app))
        assert screen_name(app) == "RunScreen"


def ranked_events(ranks: int, *, late_us: float = 0.0) -> list[events.Event]:
    """A run whose arms are several ranks each, of which the last takes an eighth longer than the others."""
    each = tuple(
        Rank(
            median_ms=0.45 if rank == ranks - 1 else 0.4,
            slowest_share=0.92 if rank == ranks - 1 else 0.08,
            late_us=late_us if rank == 0 else 0.0,
            sm_clock_mhz=1980.0,
        )
        for rank in range(ranks)
    )
    story = quick_run_events()
    last = story[-1]
    assert isinstance(last, events.RunFinished)
    told = {"baseline": Ranks(each=each, skew_us=3.0, skew_most_us=9.0)}
    told["optimized"] = replace(told["baseline"], skew_us=200.0)
    arms = tuple(replace(arm, ranks=told.get(arm.rung)) for arm in last.run.arms)
    story[-1] = replace(last, run=replace(last.run, arms=arms))
    return story


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
async def test_each_rank_has_a_lane_and_the_straggler_is_named(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(tmp_path, size=size, link=link_with(ranked_events(2, late_us=50.0))) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "rank 1 takes" in screen_text(app))
        assert "baseline: rank 1 takes 12.5 % longer than the fastest; they begin 3.0 us apart" in screen_text(app)
        first, second = [line for line in screen_text(app).splitlines() if line.startswith("rank")]
        # Rank 0 began 0.05 ms late and took 0.4 ms; rank 1 began at once and took 0.45: both end together.
        assert first.startswith("rank 0 ░") and second.startswith("rank 1 ━")
        assert first.rindex("━") == second.rindex("━")
        assert "0.4000 ms  slowest in   8 %" in first and "0.4500 ms  slowest in  92 %" in second
        assert first.endswith("50.0 µs late  1980 MHz") and second.endswith(" 0 µs late  1980 MHz")
        await pilot.press("down")
        await until(pilot, lambda: "optimized: no rank stands out (longest +12.5 %)" in screen_text(app))


async def test_where_there_are_no_rows_for_ranks_the_samples_tell_of_them(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(80, 24), link=link_with(ranked_events(8))) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "optimized" in screen_text(app))
        assert "they begin" not in screen_text(app)
        await pilot.press("i")
        await until(pilot, lambda: "rank 7: 0.4500 ms" in app.screen.query_one("#text", LogPane).text)


async def test_a_run_of_one_process_has_no_lanes(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50), link=link_with(quick_run_events())) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "optimized" in screen_text(app))
        assert not app.screen.query_one("#ranks").display
        await until(pilot, lambda: "timing" in app.screen.query_one("#text", LogPane).text)
        assert "rank 0" not in app.screen.query_one("#text", LogPane).text
