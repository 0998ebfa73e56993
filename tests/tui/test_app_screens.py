"""Lesson, diff and history, driven by keys; what the app does about engines, copies, pictures and editors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.widgets import Markdown

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.model import Catalog, Role, Target
from aisp.store import History, Store
from aisp.store.outcomes import FindingStatus, State, Verdict
from aisp.store.record import Comparison, Finding
from aisp.store.results.reading import Reading
from aisp.tui import facts
from aisp.tui.app import Workbench
from aisp.tui.earlier import standing
from aisp.tui.model import Model
from aisp.tui.readings import failed_place
from aisp.tui.screens import Source
from aisp.tui.screens.confirm import ConfirmScreen, Rewrite
from aisp.tui.screens.source import SourceView
from aisp.tui.widgets.diffview import DiffView
from aisp.tui.widgets.editplot import EditPlot
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows
from tests.replacing import replace
from tests.store.examples import finished, planned, samples_of
from tests.tui.app_support import (
    fill_store,
    keep,
    keep_nothing,
    make_catalog,
    make_link,
    opened,
    screen_name,
    screen_text,
    story,
    told,
    until,
)
from tests.tui.fakes import FakeLink, failing_run_events, numbered, quick_run_events
from tests.tui.fuzz_support import fuzz_events
from tests.tui.roof_support import GEMM, counted_catalog, fill_roofs


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("TZ", "UTC")


def highlight(app: Workbench, target_id: str = "ch07:transpose") -> None:
    app.screen.table.move_to(f"target {target_id}")  # type: ignore[attr-defined]


# -- lesson ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=["80x24", "140x40"])
async def test_the_lesson_shows_its_text_and_its_rungs_with_results(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(tmp_path, size=size) as (app, pilot):
        highlight(app)
        await pilot.press("enter")
        await until(pilot, lambda: "touches 32 cache lines" in screen_text(app))
        drawn = screen_text(app)
        assert "optimized" in drawn and "0.1870" in drawn and "▲ 2.20" in drawn and "86 %" in drawn
        assert "reference.py" in drawn or size == (80, 24)


async def test_i_shows_what_the_last_runs_samples_say_of_the_rung(tmp_path: Path) -> None:
    fill_roofs(GEMM, (0.52, 0.228))
    async with opened(tmp_path, size=(140, 40), catalog=counted_catalog(tmp_path), link=make_link(told=False)) as (
        app,
        pilot,
    ):
        highlight(app, GEMM)
        await pilot.press("enter", "tab", "right_square_bracket")
        await until(pilot, lambda: "cold graph x16 · SM 1755 MHz" in screen_text(app))
        beside = screen_text(app)
        assert "90 % of the measured ceilings" in beside and "limit flops, score 0.81" in beside
        await pilot.press("i")
        await until(pilot, lambda: "What the samples say" in screen_text(app))
        drawn = " ".join(screen_text(app).replace("│", " ").split())
        assert "the clocks differed: 1975 MHz for baseline, 1755 MHz for optimized" in drawn
        assert "around a graph of 16 calls" in drawn and "times rise by 2.4 %" in drawn
        await pilot.press("i")
        await until(pilot, lambda: "touches 32 cache lines" in screen_text(app))


async def test_i_without_a_run_says_how_to_get_one(tmp_path: Path) -> None:
    async with opened(tmp_path, link=make_link(told=False)) as (app, pilot):
        highlight(app)
        await pilot.press("enter", "i")
        await until(pilot, lambda: "No run of this target has ended yet" in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=["80x24", "140x40"])
async def test_a_wrong_rung_says_what_to_type_to_see_it_refused(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(tmp_path, size=size) as (app, pilot):
        highlight(app)
        await pilot.press("enter", "tab", "right_square_bracket", "right_square_bracket")
        if size == (80, 24):  # there is no pane about the rung
            await pilot.press("i")
        await until(pilot, lambda: "to see it refused, in a shell" in " ".join(screen_text(app).split()))
        drawn = screen_text(app)
        assert "mistake" in drawn  # in the table, where a speed-up would stand
        folder = tmp_path / "ch07" / "transpose"
        typed = f"aisp run {folder} --rungs wrong_tail --quick"
        words = "".join(line.split("││")[-1].strip("│▁▂▃▄▅▆▇█ ") for line in drawn.splitlines())
        assert typed.replace(" ", "") in words.replace(" ", "")


ALL = ("baseline", "baseline_plain", "optimized", "optimized_wide")


def three_rungs(tmp_path: Path) -> tuple[Catalog, Target]:
    """The small catalogue, where the transpose has ALL rungs."""
    catalog = make_catalog(tmp_path)
    target = catalog.find("ch07:transpose")
    more = []
    for name, role in (("baseline_plain", Role.BASELINE), ("optimized_wide", Role.OPTIMIZED)):
        (target.folder / f"{name}.py").write_text("def run(x):\n    return x.t()\n")
        more.append(replace(target.rungs[0], name=name, role=role, path=target.folder / f"{name}.py"))
    rungs = (target.rungs[0], more[0], target.rungs[1], more[1])
    files = tuple(sorted(path.name for path in target.folder.iterdir()))
    changed = replace(target, rungs=rungs, files=files)
    targets = tuple(changed if one.id == target.id else one for one in catalog.targets)
    return replace(catalog, targets=targets), changed


def run_of(
    target: Target,
    number: int,
    medians: Mapping[str, float],
    edits: Mapping[str, bytes],
    findings: tuple[Finding, ...] = (),
    **more: Any,
) -> None:
    """Store a run of these rungs with the target's files as they would be after `edits`."""
    files = {name: (target.folder / name).read_bytes() for name in target.files}
    with Store.open(paths.database_file()) as store:
        run = planned(
            target.id,
            folder=os.fsencode(target.folder),
            wall=f"2026-05-{number:02d}T10:20:30+00:00",
            snapshot=store.put_snapshot({**files, **edits}),
            **{"device": "cpu", **more},
        )
        end = finished(run)
        arms = tuple(
            replace(end.arms[0], rung=rung, median_ms=ms, low_ms=ms, high_ms=ms) for rung, ms in medians.items()
        )
        store.plan([run])
        end = replace(end, arms=arms, findings=findings)
        store.finish(end, {arm.rung: samples_of(100) for arm in arms})


def figures(app: Workbench) -> dict[str, str]:
    """Each rung's time as the lesson's table has it."""
    return {key: str(cells[1]) for key, cells in app.screen.table._rows}  # type: ignore[attr-defined]


EDIT = {"optimized_wide.py": b"def run(x):\n    return x.t() + 0\n"}


@pytest.mark.parametrize(
    ("edits", "more", "still"),
    [
        (EDIT, {}, {"baseline_plain": "(2.000)", "optimized": "(3.000)", "optimized_wide": "9.000"}),
        ({"reference.py": b"# another\n"}, {}, {}),  # everything may be different
        ({}, {"case": "cpu"}, {}),
        ({}, {"device": "cuda"}, {}),
    ],
    ids=["an edit", "the reference", "another case", "another device"],
)
async def test_a_run_of_one_rung_leaves_the_figures_of_those_that_it_did_not_touch(
    edits: dict[str, bytes], more: dict[str, str], still: dict[str, str], tmp_path: Path
) -> None:
    catalog, target = three_rungs(tmp_path)
    run_of(target, 1, dict.fromkeys(ALL, 7.0), {})
    run_of(target, 2, {"baseline": 1.0, "baseline_plain": 2.0, "optimized": 3.0, "optimized_wide": 4.0}, {})
    run_of(target, 3, {"baseline": 8.0, "optimized_wide": 9.0}, edits, **more)
    async with opened(tmp_path, size=(140, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        highlight(app)
        await pilot.press("enter")
        await until(pilot, lambda: figures(app).get("baseline") == "8.000")
        await until(pilot, lambda: app.screen._earlier_of)  # type: ignore[attr-defined]
        shown = {rung: figures(app)[rung] for rung in ALL}
        assert shown == {**dict.fromkeys(ALL, ""), "baseline": "8.000", "optimized_wide": "9.000", **still}
        assert ("(earlier run)" in screen_text(app)) is bool(still)
        await pilot.press("tab", "right_square_bracket", "right_square_bracket")
        await until(pilot, lambda: app.screen.rung_name == "optimized")  # type: ignore[attr-defined]
        await pilot.pause()
        said = " ".join(line.split("││")[-1].strip("│ ") for line in screen_text(app).splitlines())
        assert ("of the full run of 2026-05-02 10:20: its code has not changed" in said) is bool(still)


async def test_figures_of_a_rung_that_was_caught_do_not_stand(tmp_path: Path) -> None:
    _, target = three_rungs(tmp_path)
    run_of(target, 1, dict.fromkeys(ALL, 7.0), {})
    caught = Finding("timing.wall_clock", "baseline_plain", FindingStatus.CAUGHT, "9.8 ms by the clock")
    run_of(target, 2, dict.fromkeys(ALL, 2.0), {}, findings=(caught,))
    run_of(target, 3, {"baseline": 8.0, "optimized_wide": 9.0}, EDIT)
    with History(paths.database_file()) as history:
        newest = Reading(history.board()[target.id])
        assert set(standing(history, target, newest)) == {"optimized"}


async def test_each_rungs_source_is_shown_highlighted_and_m_goes_back(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(140, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("enter")
        await until(pilot, lambda: "touches 32" in screen_text(app))
        await pilot.press("s")
        view = app.screen.query_one(SourceView)
        await until(pilot, lambda: "y = x.t()" in screen_text(app))
        await until(
            pilot, lambda: any(span.style for line in view._lines for span in line.spans)
        )  # the highlighter's thread is done
        assert view.source == (tmp_path / "ch07" / "transpose" / "baseline.py").read_text()
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "return x.t().contiguous()" in screen_text(app))
        assert "optimized.py" in screen_text(app)
        await pilot.press("m")
        await pilot.pause()
        assert "touches 32" in screen_text(app)


async def test_a_link_in_a_lesson_is_told_and_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_urls: list[str] = []
    monkeypatch.setattr(Workbench, "open_url", lambda self, url, **_: opened_urls.append(url))
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("enter")
        await until(pilot, lambda: "touches 32" in screen_text(app))
        markdown = app.screen.query_one(Markdown)
        markdown.post_message(Markdown.LinkClicked(markdown, "https://example.invalid/guide"))
        await until(pilot, lambda: "example.invalid" in told(app))
    assert opened_urls == []


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.slow
async def test_a_drawing_as_wide_as_a_lesson_may_have_one_is_shown_whole(size: tuple[int, int], tmp_path: Path) -> None:
    drawing = f"|{'-' * 60}|"
    catalog = make_catalog(tmp_path)
    lesson = f"# Title\n\n```\n{drawing}\n```\n" + "\nA paragraph.\n" * 80  # a scroll bar takes its place too
    catalog = replace(catalog, targets=(replace(catalog.targets[0], lesson=lesson), *catalog.targets[1:]))
    async with opened(tmp_path, size=size, catalog=catalog) as (app, pilot):
        highlight(app, catalog.targets[0].id)
        await pilot.press("enter")
        await until(pilot, lambda: "A paragraph." in screen_text(app))
        assert drawing in screen_text(app)


async def test_a_line_of_code_in_a_lesson_wraps_where_it_has_no_room(tmp_path: Path) -> None:
    line = f"x = torch.cat([{', '.join(f'part_{number}' for number in range(20))}], dim=last)"
    lesson = f"# Code\n\n```python\n{line}\n```\n"
    catalog = make_catalog(tmp_path)
    targets = tuple(replace(one, lesson=lesson) for one in catalog.targets)
    async with opened(tmp_path, size=(80, 40), catalog=replace(catalog, targets=targets)) as (app, pilot):
        app.open_screen("lesson", target_id="ch07:transpose")
        await until(pilot, lambda: "part_0" in screen_text(app))
        assert "part_19" in screen_text(app) and "dim=last" in screen_text(app)


async def test_a_lesson_with_hostile_text_is_drawn_as_text(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    lesson = "# Title\n\n\x1b[2J\x1b]0;owned\x07 [@click=app.quit]here[/] plain end\n"
    catalog = replace(catalog, targets=(replace(catalog.targets[0], lesson=lesson), *catalog.targets[1:]))
    async with opened(tmp_path, catalog=catalog) as (app, pilot):
        highlight(app, "ch05:collate")
        await pilot.press("enter")
        await until(pilot, lambda: "plain end" in screen_text(app))
        drawn = screen_text(app)
        assert "\x1b" not in drawn and "\x07" not in drawn
        assert "␛[2J" in drawn


# -- diff ------------------------------------------------------------------------------------------------------


def compared(app: Workbench) -> list[str]:
    return [app.screen._label(side) for side in (0, 1)]  # type: ignore[attr-defined]


async def test_d_compares_the_baseline_with_the_optimized_rung_as_they_are_now(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("d")
        await until(pilot, lambda: "return y.contiguous()" in screen_text(app))
        view = app.screen.query_one(DiffView)
        await until(pilot, lambda: view.hunks == 1)
        assert compared(app) == ["baseline (now)", "optimized (now)"]
        assert "return x.t().contiguous()" in screen_text(app)


async def test_brackets_pick_left_and_braces_pick_right(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen")
        await pilot.press("right_square_bracket", "right_curly_bracket")
        assert compared(app) == ["optimized (now)", "wrong_tail (now)"]
        await pilot.press("left_square_bracket", "left_square_bracket", "left_curly_bracket")
        assert compared(app) == ["reference.py (now)", "optimized (now)"]
        await until(pilot, lambda: "x.double().t()" in screen_text(app))
        await pilot.press("s")
        assert compared(app) == ["optimized (now)", "reference.py (now)"]


async def test_an_earlier_run_is_picked_from_a_list_by_typing(tmp_path: Path) -> None:
    fill_store(runs=4)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("d")
        await until(pilot, lambda: getattr(app.screen, "_earlier", None))
        await pilot.press("p")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        await pilot.press(*"2026-05-01")
        await until(pilot, lambda: len(app.screen._table._rows) == 1)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: "TILE = 16" in screen_text(app))
        assert compared(app)[0] == "baseline (now)"
        assert compared(app)[1].startswith("optimized (2026-05-01 10:20, ")
        await pilot.press("o", "escape")
        await pilot.pause()
        assert screen_name(app) == "DiffScreen"


async def test_a_snapshot_that_is_gone_is_told_in_the_pane(tmp_path: Path) -> None:
    fill_store(runs=1)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.open_diff("ch07:transpose", Source("optimized", "f" * 64), Source("optimized"))
        await until(pilot, lambda: "cannot be read" in screen_text(app))
        assert "no snapshot" in screen_text(app)


# -- history ---------------------------------------------------------------------------------------------------


async def test_history_lists_runs_newest_first_with_intervals_and_reasons(tmp_path: Path) -> None:
    fill_store(runs=4)
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "3.00x [2.94..3.06]" in screen_text(app))
        lines = [line for line in screen_text(app).splitlines() if "2026-05-" in line]
        assert [line[line.index("2026-05-") :][:10] for line in lines] == [
            "2026-05-04", "2026-05-03", "2026-05-02", "2026-05-01",
        ]  # fmt: skip
        assert "▲ faster" in lines[0] and "1.000" in lines[0] and "0.3333" in lines[0] and "full" in lines[0]
        assert "error" in lines[1] and "optimized.py line 3" in lines[1]
        await pilot.press("j")
        await until(pilot, lambda: "optimized.py line 3: '(' was never closed ─" in screen_text(app))


async def test_the_history_has_the_runs_of_before_the_folder_was_renamed(tmp_path: Path) -> None:
    keep(tmp_path / "state", "ch07:turned")
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        assert app.catalog is not None
        names = [
            replace(one, formerly=("ch07:turned",)) if one.id == "ch07:transpose" else one
            for one in app.catalog.targets
        ]
        app.catalog = replace(app.catalog, targets=tuple(names))
        result, _ = app.last("ch07:transpose", ())
        assert result is not None and result.record.target == "ch07:turned"
        app.open_screen("history", target_id="ch07:transpose")
        await until(pilot, lambda: "faster" in screen_text(app))


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.FASTER])
async def test_no_verdict_of_the_history_is_cut(tmp_path: Path, verdict: Verdict) -> None:
    told = Comparison("optimized", "baseline", verdict, 1.1, 1.05, 1.3, 0.01)
    keep(tmp_path / "state", verdict=verdict, comparisons=(told,))
    async with opened(tmp_path, size=(80, 24)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "1.10x [1.05..1.30]" in screen_text(app))
        assert f" {verdict.value} " in screen_text(app)


async def test_history_plots_medians_with_error_bars_of_a_rung_that_can_be_changed(tmp_path: Path) -> None:
    fill_store(runs=4)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "optimized: medians" in screen_text(app) and "●" in screen_text(app))
        plot = app.screen.query_one(EditPlot)
        points = plot._points
        assert [point.y for point in points] == pytest.approx([1 / 1.5, 1 / 2.0, 1 / 3.0])
        assert (points[0].low, points[0].high) == pytest.approx((0.99 / 1.5, 1.01 / 1.5))
        assert " run  " in screen_text(app) and "\u250f" not in screen_text(app), "in the frame of all plots"
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "baseline: medians" in screen_text(app))
        assert [point.y for point in plot._points] == [1.0, 1.0, 1.0]
        await pilot.press("m", "tab", "h")
        await until(pilot, lambda: "marked" in screen_text(app) and plot._chosen == 2)


async def test_what_two_processes_made_of_a_run_is_drawn_as_two_points(tmp_path: Path) -> None:
    quick = {"stop_rule": {"replicas": 2}}
    with Store.open(paths.database_file()) as store:
        for _ in range(2):
            run = planned("ch07:transpose", manifest=quick, quick=True)
            store.plan([run])
            end = finished(run, speedup=2.0, flags=(), samples=100)
            store.finish(end, {arm.rung: samples_of(100) for arm in end.arms})
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "\u2022 each process" in screen_text(app))
        points = app.screen.query_one(EditPlot)._points
        assert all(point.both is not None and point.both[0] < point.both[1] for point in points)


async def test_a_run_of_another_case_says_so_and_is_not_drawn_among_the_newest_ones(tmp_path: Path) -> None:
    fill_store(runs=5, cases={1: "large", 3: "tiny"})  # the fourth failed
    async with opened(tmp_path, size=(200, 50), link=make_link(told=False)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "●" in screen_text(app))
        lines = [line for line in screen_text(app).splitlines() if "2026-05-" in line]
        assert ["case large" in line for line in lines] == [False, False, False, True, False]
        assert "case tiny; opt" in lines[1]
        points = app.screen.query_one(EditPlot)._points
        assert [point.y for point in points] == pytest.approx([1 / 1.5, 1 / 2.5, 1 / 3.5])


async def test_figures_of_another_case_stand_under_its_name(tmp_path: Path) -> None:
    fill_store(runs=1, cases={0: "large"})
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        highlight(app)
        await pilot.press("enter")
        await until(pilot, lambda: "Rungs and files, case large" in screen_text(app))


async def test_two_marked_runs_are_compared_and_enter_opens_the_stored_run(tmp_path: Path) -> None:
    ids = fill_store(runs=4)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "2026-05-04" in screen_text(app))
        await pilot.press("m", "j", "j", "j", "m")
        await pilot.pause()
        assert [line.startswith("│◆") for line in screen_text(app).splitlines()].count(True) == 2
        await pilot.press("d")
        await until(pilot, lambda: "TILE = 64" in screen_text(app) and "TILE = 16" in screen_text(app))
        assert compared(app)[0].startswith("optimized (2026-05-01") and compared(app)[1].startswith(
            "optimized (2026-05-04"
        )
        await pilot.press("escape", "g", "enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        assert app.screen.run_id == ids[-1]  # type: ignore[attr-defined]


async def test_d_names_the_runs_that_are_compared_and_says_where_two_ran_the_same_sources(tmp_path: Path) -> None:
    fill_store(runs=5, edited=False)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        highlight(app)
        await pilot.press("t")
        await until(pilot, lambda: "2026-05-05" in screen_text(app))
        await pilot.press("j", "j", "d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen" and "TILE = 16" in screen_text(app))
        assert compared(app)[0].startswith("optimized (2026-05-03") and compared(app)[1] == "optimized (now)"
        await pilot.press("escape", "m", "j", "m", "d")
        await until(pilot, lambda: "Both runs ran the same sources" in told(app))
        assert screen_name(app) == "HistoryScreen"


async def test_history_leaves_out_cancelled_runs_until_a_key_shows_them(tmp_path: Path) -> None:
    (good,) = fill_store(runs=2)[1:]
    gone = [
        keep_nothing(paths.state_dir(), how=State.CANCELLED, reason=reason).id
        for reason in ("cancelled on request", "superseded by edit 4")
    ]
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.open_screen("history", target_id="ch07:transpose")
        await until(pilot, lambda: screen_name(app) == "HistoryScreen" and "faster" in screen_text(app))
        table = app.screen.query_one("#runs", LiveTable)
        assert table.cursor_key == good and not set(table.keys) & set(gone)
        assert "2 cancelled left out, o shows" in screen_text(app)
        await pilot.press("o")
        await until(pilot, lambda: set(gone) <= set(table.keys))
        assert "left out" not in screen_text(app)
        await pilot.press("o")
        await until(pilot, lambda: not set(table.keys) & set(gone))
        app.marked = gone[:1]
        app.screen.refresh_from(set())  # type: ignore[attr-defined]
        await until(pilot, lambda: gone[0] in table.keys)


async def test_an_empty_history_says_how_to_make_a_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        highlight(app, "ch07:scan")
        await pilot.press("t")
        await until(pilot, lambda: "No run of this target is stored yet" in screen_text(app))
        keys = screen_text(app).splitlines()[-1]
        assert "r run" in keys and "w watch" in keys and "open run" not in keys and "mark" not in keys
        assert f"aisprun{tmp_path}/ch07/scan" in "".join(screen_text(app).split())


# -- the app ---------------------------------------------------------------------------------------------------


async def test_copying_goes_to_the_terminal_and_to_a_file_and_says_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_terminal: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda self, text: to_terminal.append(text))
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        await pilot.press("y")
        await until(pilot, lambda: "clipboard.txt" in told(app))
        assert "terminal's clipboard and to" in told(app)
    file = paths.state_dir() / "clipboard.txt"
    assert file.read_text() == to_terminal[0]
    assert "A transpose that reads" in to_terminal[0]


async def test_y_in_the_diff_copies_the_change_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to_terminal: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda self, text: to_terminal.append(text))
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen" and app.screen.view.ready)  # type: ignore[attr-defined]
        await pilot.press("n", "y")
        await until(pilot, lambda: "clipboard.txt" in told(app))
    assert to_terminal == ["-    y = x.t()\n-    return y.contiguous()\n+    return x.t().contiguous()\n"]


async def test_a_state_folder_that_cannot_be_written_still_copies_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        (paths.state_dir() / "clipboard.txt").mkdir()
        await pilot.press("y")
        await until(pilot, lambda: "to the terminal only" in told(app))
        assert "A transpose that reads" in app.clipboard


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("on", "to the terminal's clipboard and to"),
        ("external", "tmux drops it (set-clipboard external)"),
        ("off", "tmux drops it (set-clipboard off)"),
        (None, "tmux does not say"),
    ],
)
async def test_a_copy_that_tmux_drops_is_said_to_be_in_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str | None, said: str
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    monkeypatch.setattr(facts, "run", lambda words, patience_s: setting)
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        await pilot.press("y")
        await until(pilot, lambda: "clipboard.txt" in told(app))
        assert said in told(app)
        assert ("the terminal's clipboard" in told(app)) is (setting == "on")
        (paths.state_dir() / "clipboard.txt").unlink()
        (paths.state_dir() / "clipboard.txt").mkdir()
        app.screen.action_copy()  # type: ignore[attr-defined]
        word = "nowhere" if setting in ("external", "off") else "to the terminal only"
        await until(pilot, lambda: word in told(app))


async def test_text_that_a_field_copies_goes_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(tmp_path) as (app, pilot):
        app.copy_to_clipboard("by a field")
        await until(pilot, lambda: "clipboard.txt" in told(app))
    assert (paths.state_dir() / "clipboard.txt").read_text() == "by a field"


async def test_a_screenshot_is_saved_in_the_state_folder(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Saved" in told(app))
    (file,) = (paths.state_dir() / "screenshots").glob("*.svg")
    assert file.read_text().startswith("<svg") and "transpose" in file.read_text()


async def test_e_hands_the_terminal_to_the_editor_with_the_rungs_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "edited"
    editor = tmp_path / "ed"
    editor.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {log}\nexit 3\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", f"{editor} -w")
    monkeypatch.setattr(Workbench, "suspend", lambda self: contextlib.nullcontext())
    async with opened(tmp_path / "k") as (app, pilot):
        highlight(app)
        await pilot.press("enter", "tab", "right_square_bracket", "e")
        await until(pilot, lambda: "ended with status 3" in told(app))
        optimized = app.target("ch07:transpose").rung("optimized").path  # type: ignore[union-attr]
        assert log.read_text() == f"-w\n{optimized}\n"
        monkeypatch.setenv("VISUAL", "/nowhere/ed")
        await pilot.press("e")
        await until(pilot, lambda: "could not be started" in told(app))


@pytest.mark.parametrize("place", ["catalogue", "run", "lesson"])
async def test_e_asks_which_file_is_meant_where_several_are(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited: list[Path] = []
    monkeypatch.setattr(Workbench, "edit_file", lambda self, path, line=None: edited.append(path))
    catalog = make_catalog(tmp_path)
    target = catalog.find("ch07:transpose")
    (target.folder / "lesson.md").write_text(target.lesson)
    changed = replace(target, files=("lesson.md", *target.files))
    catalog = replace(catalog, targets=tuple(changed if one is target else one for one in catalog.targets))
    async with opened(tmp_path / "k", catalog=catalog) as (app, pilot):
        highlight(app)
        if place == "lesson":  # what is highlighted is what is meant, files that are no rung among them
            await pilot.press("enter", "tab", "G")
            await until(pilot, lambda: app.screen.rung_name == "reference.py")  # type: ignore[attr-defined]
            await pilot.press("e")
            await until(pilot, lambda: edited)
            assert edited == [target.folder / "reference.py"]
            return
        if place == "run":
            app.open_screen("run", run_id="01G")
            await until(pilot, lambda: "faster" in screen_text(app))
        await pilot.press("e")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        await pilot.pause()
        drawn = screen_text(app)
        assert "Edit a file of ch07:transpose" in drawn and "one pass over memory" in drawn
        assert "lesson.md" in drawn and "reference.py" in drawn
        await pilot.press("enter")
        await until(pilot, lambda: edited)
        await pilot.press("e")
        await until(pilot, lambda: screen_name(app) == "PickerScreen")
        await pilot.press(*"lesson", "enter")
        await until(pilot, lambda: len(edited) == 2)
    assert edited == [target.folder / "optimized.py", target.folder / "lesson.md"]


@pytest.mark.parametrize("opened_from", ["e", "the palette"])
async def test_e_on_a_failed_run_opens_the_file_that_the_error_names_at_its_line(
    opened_from: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "edited"
    editor = tmp_path / "vim"
    editor.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {log}\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(Workbench, "suspend", lambda self: contextlib.nullcontext())
    detail = "  optimized.py:3 in run\n      tiles(x)\n  baseline.py:14 in tiles\n      1 / 0\nZeroDivisionError: no"
    failing = failing_run_events("ch07:transpose", reason="ZeroDivisionError", detail=detail)
    async with opened(tmp_path / "k", link=FakeLink(numbered(failing))) as (app, pilot):
        app.open_screen("run", run_id="R1")
        await until(pilot, lambda: "ZeroDivisionError" in screen_text(app))
        folder = app.target("ch07:transpose").folder  # type: ignore[union-attr]
        if opened_from == "e":
            await pilot.press("e")
        else:
            await pilot.press("ctrl+p")
            await pilot.pause()
            await pilot.press(*"edit ch07")
            await until(pilot, lambda: "Edit ch07:transpose" in screen_text(app))
            await pilot.press("enter")
        await until(pilot, log.exists)
        await pilot.pause(0.1)
        assert log.read_text() == f"+14\n{folder / 'baseline.py'}\n"


@pytest.mark.parametrize(
    ("detail", "chosen", "place"),
    [
        (
            "  optimized.py:1\n      def run(:\nSyntaxError: invalid syntax",
            "baseline",
            ("optimized", "optimized.py", 1),
        ),
        ("y[22]: got 1, expected 2", "baseline", ("optimized", "", None)),
        ("  optimized.py:4 in run\n  /lib/x.py:9 in f\nOSError", "baseline", ("optimized", "optimized.py", 4)),
        ("  a.py:1 in f\nE\n\ncaused by\n  b.py:2 in g\nF", "optimized", ("optimized", "a.py", 1)),
    ],
)
def test_the_place_of_a_failure_is_the_last_line_of_the_first_traceback(
    detail: str, chosen: str, place: tuple[str, str, int | None]
) -> None:
    model = Model()
    model.apply(numbered(failing_run_events(reason="no", detail=detail)))
    assert failed_place(model.runs["R1"], chosen, ["a.py", "b.py", "baseline.py", "optimized.py"]) == place


async def test_where_the_terminal_cannot_be_handed_over_the_file_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        await pilot.press("e", "enter")
        await until(pilot, lambda: "optimized.py" in told(app))


async def test_a_lost_engine_is_told_and_the_catalogue_stays_usable(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        link.lose()
        await until(pilot, lambda: "engine lost" in screen_text(app).splitlines()[1])
        highlight(app)
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen")
        assert "engine lost" in screen_text(app)


async def test_an_engine_of_another_version_can_be_restarted_when_idle_from_the_palette(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        link.mismatch()
        await until(pilot, lambda: "mismatch" in screen_text(app))
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"restart engine")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await until(pilot, lambda: link.restarts == 1)


async def test_a_banner_takes_a_row_and_gives_it_back(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        before = screen_text(app)
        link.push(events.Banner(key="disk", text="the disk is [full] \x1b[31m", severity="error"))
        await until(pilot, lambda: "! the disk is [full] ␛[31m" in screen_text(app))
        link.push(events.Banner(key="disk", text=""))
        await until(pilot, lambda: screen_text(app) == before)


async def test_opening_a_screen_that_is_open_comes_back_to_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        for _ in range(3):
            await pilot.press("t")
            await until(pilot, lambda: screen_name(app) == "HistoryScreen")
            await pilot.press("w")
            await until(pilot, lambda: screen_name(app) == "WatchScreen")
        assert len(app.screen_stack) == 4  # the blank one, catalogue, history, watch


async def test_a_question_is_answered_by_enter_and_escape_and_its_keys_are_the_only_ones_shown(tmp_path: Path) -> None:
    answers: list[bool | None] = []
    async with opened(tmp_path) as (app, pilot):
        for key in ("enter", "y", "escape", "n", "q"):
            app.push_screen(ConfirmScreen("Write [them] back?", "optimized.py is kept"), answers.append)
            await pilot.pause()
            assert "Write [them] back?" in screen_text(app)
            assert screen_text(app).splitlines()[-1].strip() == "⏎ yes  esc no"
            await pilot.press(key)
            await pilot.pause()
    assert answers == [True, True, False, False, False]


async def test_a_question_shows_each_file_that_would_be_written(tmp_path: Path) -> None:
    files = [Rewrite("a.py", "x = 1\n", "x = 2\n"), Rewrite("b.cu", "", "int y;\n")]
    answers: list[bool | None] = []
    async with opened(tmp_path) as (app, pilot):
        app.push_screen(ConfirmScreen("Write them back?", "", files), answers.append)
        await until(pilot, lambda: "a.py (1 of 2) now" in screen_text(app) and "x = 2" in screen_text(app))
        assert "[ ] file" in screen_text(app).splitlines()[-1]
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "b.cu (2 of 2) now" in screen_text(app) and "int y;" in screen_text(app))
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "a.py (1 of 2) now" in screen_text(app))
        await pilot.press("n")  # the answer, though the diff has the focus and a key of that name
        await until(pilot, lambda: answers == [False])


async def test_a_store_that_cannot_be_read_is_told_and_the_app_works(tmp_path: Path) -> None:
    paths.database_file().write_bytes(b"this is no database, it is a poem" * 200)
    async with opened(tmp_path) as (app, pilot):
        await until(pilot, lambda: "Earlier results could not be read" in told(app))
        assert "▲ 2.41" in screen_text(app)


@pytest.mark.parametrize("screen", ["home", "history"])
async def test_keys_go_on_where_they_were_after_a_window_was_too_small(tmp_path: Path, screen: str) -> None:
    fill_store(runs=3)
    async with opened(tmp_path) as (app, pilot):
        highlight(app)
        if screen == "history":
            await pilot.press("t")
            await until(pilot, lambda: screen_name(app) == "HistoryScreen")
        await until(pilot, lambda: isinstance(app.focused, LiveTable) and app.focused.cursor_key is not None)
        table = app.focused
        assert isinstance(table, LiveTable)
        for _ in range(2):
            await pilot.resize_terminal(20, 5)
            await until(pilot, lambda: "make more room" in screen_text(app))
            await pilot.resize_terminal(80, 24)
            await until(pilot, lambda: app.focused is table)
            was = table.cursor_key
            await pilot.press("down")
            await until(pilot, lambda: table.cursor_key != was)  # noqa: B023 - awaited at once


async def test_growing_a_tiny_terminal_shows_the_screen_again(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(20, 5)) as (app, pilot):
        assert "20x5" in screen_text(app) and "Targets" not in screen_text(app)
        await pilot.press("j", "d")
        await pilot.pause()
        assert "make more room" in screen_text(app)
        await pilot.press("escape")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "Targets" in screen_text(app))
        assert "make more room" not in screen_text(app)
        await until(pilot, lambda: isinstance(app.focused, LiveTable))


async def test_A_accepts_what_a_banner_says_of_the_import_path_after_a_question(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("A")
        await until(pilot, lambda: "Nothing on the import path is held against a run" in told(app))
        link.push(events.Banner(key="installed", text="evil.pth appeared while run R1 went on", severity="error"))
        await until(pilot, lambda: "evil.pth appeared" in screen_text(app))
        await pilot.press("A")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("n")
        await until(pilot, lambda: screen_name(app) != "ConfirmScreen")
        assert link.sent_of(requests.AcceptInstalled) == []
        await pilot.press("A")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("y")
        await until(pilot, lambda: link.sent_of(requests.AcceptInstalled))


async def test_A_accepts_nothing_where_the_banner_only_notes_what_was_installed(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        link.push(events.Banner(key="installed", text="six.py changed", severity="info"))
        await until(pilot, lambda: "six.py changed" in screen_text(app))
        await pilot.press("A")
        await until(pilot, lambda: "Nothing on the import path is held against a run" in told(app))
    assert link.sent_of(requests.AcceptInstalled) == []


async def test_times_of_the_newest_run_are_told_as_its_own_when_it_was_seen_live(tmp_path: Path) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, size=(140, 40), link=link) as (app, pilot):
        highlight(app)
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")
        link.push(*numbered(quick_run_events("ch07:transpose", run_id="01Z")))
        await until(pilot, lambda: figures(app).get("optimized"))
        assert not figures(app)["optimized"].startswith("(")
        assert "(earlier run)" not in screen_text(app)


# -- panes that are filled for their width ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pane", "width"),
    [
        *(("run", "facts", 24), ("checks", "about", 48), ("fuzz", "detail", 48), ("lesson", "samples", 48)),
        ("history", "runs", 32),
    ],
)
async def test_a_pane_is_filled_anew_when_it_gets_another_width(
    name: str, pane: str, width: int, tmp_path: Path
) -> None:
    *_, failed, newest = fill_store()
    arguments = {"run": {"run_id": newest}, "checks": {}}.get(name, {"target_id": "ch07:transpose"})
    link = FakeLink(numbered([*story(), *fuzz_events(finished=True)]))

    def filled(app: Workbench) -> list[str]:
        found: Any = app.screen.query_one(f"#{pane}")
        rows = (
            [row.plain for row in found._rows]
            if isinstance(found, TextRows)
            else getattr(found, "text", "").split("\n")
        )
        return [row for row in [*rows, str(found.border_subtitle or "")] if row]

    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        app.open_screen(name, **arguments)
        await until(pilot, lambda: app.screen.query(f"#{pane}"))
        await pilot.pause()
        if name == "lesson":
            await pilot.press("i")
        if name == "history":
            await until(pilot, lambda: app.screen.query_one(LiveTable).move_to(failed))
        await until(pilot, lambda: filled(app))
        app.screen.query_one(f"#{pane}").styles.width = width
        await until(pilot, lambda: max(map(cell_len, filled(app))) <= width)
