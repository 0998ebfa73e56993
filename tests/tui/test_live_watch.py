"""The watch's screen: the list of edits, their diffs, and restoring the best."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.engine.protocol.events import WatchEdit
from aisp.kernels.catalog.model import Catalog
from aisp.store import Store
from aisp.store.record import Quarantine
from aisp.tui import edits
from aisp.tui.app import Workbench
from aisp.tui.screens.watch_diff import EditDiff
from aisp.tui.settings import Settings
from aisp.tui.widgets.editplot import EditPlot
from aisp.tui.widgets.table import LiveTable
from tests import heard
from tests.replacing import replace
from tests.store.examples import finished, planned, samples_of
from tests.tui.app_support import make_catalog, opened, screen_name, screen_text, told, until
from tests.tui.fakes import NOW_NS, FakeLink, failing_run_events, quick_run_events, watch_events
from tests.tui.live_support import SIZES, check_snapshot, isolate

TARGET = "ch05:collate"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


async def open_watch(app: Workbench, pilot: Any) -> LiveTable:
    app.open_screen("watch", target_id=TARGET)
    await until(pilot, lambda: screen_name(app) == "WatchScreen" and app.screen.query("#edits"))
    await pilot.pause(0.1)
    return app.screen.query_one("#edits", LiveTable)


def table_rows(app: Workbench) -> dict[str, str]:
    """The lines of the table of edits as they are drawn, by the edit's number."""
    lines = [line.partition("│")[0] for line in screen_text(app).splitlines()]
    heads = [at for at, line in enumerate(lines) if "vs baseline" in line and "#" in line]
    numbers = [(line[:5].strip("★*m "), line) for line in lines[heads[0] + 1 :]]
    return {number: line for number, line in numbers if number.isdigit()}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screen_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    catalog = make_catalog(tmp_path)
    link = FakeLink(with_sources(catalog, watch_events()))
    async with opened(tmp_path, size=size, link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("j")
        await until(pilot, lambda: app.screen.query_one(EditDiff).ready)
        await until(pilot, lambda: size[0] < 120 or "samples of edit 4" in screen_text(app))
        drawn = screen_text(app)
    check_snapshot(request, f"watch_{size[0]}x{size[1]}", drawn)


async def test_at_80x24_the_footer_has_the_editor_the_end_of_the_watch_and_the_best_edit(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        footer = screen_text(app).splitlines()[-1]
        for key in ("p pane", "⏎ open run", "e edit", "w stop", "b restore"):
            assert f" {key} " in footer


async def test_opening_it_starts_the_watch(tmp_path: Path) -> None:
    link = FakeLink()
    async with opened(tmp_path, link=link) as (app, pilot):
        await open_watch(app, pilot)
        await until(pilot, lambda: link.sent_of(requests.StartWatch))
        link.push(events.WatchChanged(target=TARGET, folder="/f", active=True))
        await until(pilot, lambda: "watching: save a file" in screen_text(app))
        assert "waiting for the first save" in screen_text(app)
    sent = link.sent_of(requests.StartWatch)
    assert [(message.target, message.root) for message in sent] == [(TARGET, str(tmp_path))]


async def test_a_watch_that_is_on_is_shown_as_it_stands(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, link=link) as (app, pilot):
        table = await open_watch(app, pilot)
        assert link.sent_of(requests.StartWatch) == []
        assert len(table._rows) == 6
        assert table.cursor_key == "5"
        assert "best: edit 4, 1.818 ms" in screen_text(app)
        assert screen_text(app).splitlines()[1].startswith(" edit 5  optimized ▲ 2.05× faster")


async def test_edits_of_an_engine_before_are_there_again_with_number_best_and_diff(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    folder = next(target.folder for target in catalog.targets if target.id == TARGET)
    with Store.open(paths.database_file()) as store:
        for number, speedup in ((0, 1.5), (1, 3.0), (3, 2.0)):
            snapshot = store.put_snapshot({"optimized.py": f"TILE = {number}\n".encode()})
            edit = {"edit": {"number": number, "files": ["optimized.py"] if number else []}}
            run = planned(TARGET, snapshot=snapshot, trigger="watch", manifest=edit, folder=os.fsencode(folder))
            store.plan([run])
            end = finished(run, speedup=speedup, flags=())
            store.finish(end, {arm.rung: samples_of(100) for arm in end.arms})
        assert store.last_edit(TARGET, os.fsencode(folder)) == 3
        assert store.last_edit(TARGET, b"/elsewhere") is None
    link = FakeLink()
    async with opened(tmp_path, size=(140, 40), link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        link.push(events.WatchChanged(target=TARGET, folder=str(folder), active=True))
        await until(pilot, lambda: "best: edit 1" in screen_text(app))
        assert list(table_rows(app)) == ["3", "1", "0"]
        await pilot.press("end", "k")
        await until(pilot, lambda: "edit 1 against edit 0" in screen_text(app) and "TILE = 1" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")


async def test_edits_are_compared_with_the_one_before_and_the_best(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(140, 40), link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        row = table_rows(app)
    best = row["4"]
    assert best.startswith("★")
    assert "▲ 2.31×" in best and "-35.1 %" in best and " best " in best
    assert row["5"].count("+12.7 %") == 2 and "▲ 2.05× [2.02..2.08]" in row["5"]
    assert "not run: optimized." in row["2"]
    assert "wrong: optimized: y[0, 17]" in row["3"]
    assert "-33.3 %" in row["1"] and "-35.1 %" in best  # what has no time is passed over


async def test_an_edit_that_a_later_one_superseded_is_no_fault_and_neither_best_nor_before(tmp_path: Path) -> None:
    saved = events.WatchEdit(target=TARGET, number=6, snapshot="06" * 32, files=["optimized.py"], run_id="W6")
    story = failing_run_events(TARGET, run_id="W6", state="cancelled", reason="superseded by edit 7", detail="")
    story[-1] = heard.finished(
        run_id="W6", state="cancelled", reason="superseded by edit 7", flags=["superseded"], duration_ms=7.5
    )
    link = FakeLink([*watch_events(), saved, *heard.whole(story)])
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        table = await open_watch(app, pilot)
        watch = link.model.watches[TARGET]
        rows = dict(edits.rows(watch, edits.all_told(link.model, watch), 120, False))
        head = rows["6"][0]
        assert isinstance(head, Text) and head.plain.split(None, 1) == ["6", "superseded by edit 7"]
        assert "bold" not in str(head.spans)
        assert "best: edit 4, 1.818 ms" in screen_text(app)
        assert table.cursor_key == "6"
        await pilot.press("enter")
        await until(pilot, lambda: "superseded by edit 7" in screen_text(app))
        assert " \u00b7 superseded \u00b7 " in screen_text(app)
        assert "flags" not in screen_text(app)


async def test_a_syntax_error_and_a_wrong_answer_are_told_in_full(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("j", "j", "p", "p", "p")
        await until(pilot, lambda: "wrong: optimized: y[0, 17] is 3.25, expected 1.5" in screen_text(app))
        await pilot.press("p", "j", "p", "p", "p")
        await until(pilot, lambda: "optimized.py line 9: '(' was never closed" in screen_text(app))
        assert "the watch goes on" in screen_text(app)


ELEMENT = "z[48615]: got 6.03, expected -2.58, 3.19e+05 times the error allowed"


def wrong_edit(check: str, *, edit: int = 6, finished: bool = True) -> list[events.Event]:
    """An edit whose outputs are wrong, as the engine tells it: `check` caught it."""
    run_id = f"W{edit}"
    story = failing_run_events(TARGET, run_id=run_id, state="incorrect", reason=f"wrong values: {ELEMENT}", detail="")
    story.pop()
    found = heard.finding(check=check, arm="optimized", status="caught", evidence=ELEMENT)
    end = heard.finished(
        run_id=run_id, state="incorrect", duration_ms=71.5, reason=f"wrong values: {ELEMENT}", findings=[found]
    )
    saved = events.WatchEdit(target=TARGET, number=edit, snapshot="06" * 32, files=["optimized.py"], run_id=run_id)
    return [saved, *(story[:4] if not finished else heard.whole([*story, end]))]


def left_half(app: Workbench) -> str:
    """What is drawn left of the first line down."""
    return " ".join(line.partition("│")[0] for line in screen_text(app).splitlines())


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_an_edit_with_wrong_values_is_wrong_and_not_caught(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(tmp_path, size=size, link=FakeLink([*watch_events(), *wrong_edit("output.values")])) as (
        app,
        pilot,
    ):
        table = await open_watch(app, pilot)
        await until(pilot, lambda: table.cursor_key == "6")
        assert "wrong: optim" in table_rows(app)["6"]
        if size[0] < 120:
            await pilot.press("p", "p", "p")
        await until(pilot, lambda: f"optimized ⊘ wrong: {ELEMENT}" in " ".join(left_half(app).split()))
        drawn = left_half(app)
        for word in ("caught", "quarantine", "speed-up"):
            assert word not in drawn


async def test_wrong_outputs_are_called_wrong_whichever_check_saw_them(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink([*watch_events(), *wrong_edit("output.ground_truth")])) as (app, pilot):
        table = await open_watch(app, pilot)
        await until(pilot, lambda: table.cursor_key == "6")
        await pilot.press("p", "p", "p")
        told = "optimized ⊘ wrong: output.ground_truth: no speed-up of it is one"
        await until(pilot, lambda: told in " ".join(screen_text(app).split()))


async def test_the_edit_after_a_wrong_one_is_told_to_be_judged_anew(tmp_path: Path) -> None:
    story = [*watch_events(), *wrong_edit("output.values"), *wrong_edit("output.values", edit=7, finished=False)]
    async with opened(tmp_path, size=(120, 40), link=FakeLink(story)) as (app, pilot):
        table = await open_watch(app, pilot)
        await until(pilot, lambda: table.cursor_key == "7")
        held = Quarantine(
            TARGET, app.model.runs["W7"].record.folder, "optimized", "", "W6", "output.values", ELEMENT, ""
        )
        app.model.set_quarantines([held])
        app.screen.refresh_from(set())  # type: ignore[attr-defined]
        await until(pilot, lambda: "judged anew" in screen_text(app))
        drawn = " ".join(" ".join(line.partition("│")[0] for line in screen_text(app).splitlines()).split())
        assert f"optimized ⊘ was wrong: {ELEMENT}; judged anew" in drawn
        assert "quarantine" not in drawn and "caught" not in drawn


def in_quarantine(app: Workbench, run_id: str) -> None:
    """The store has this run's optimized rung in quarantine; screens are told."""
    run = app.model.runs[run_id]
    held = Quarantine(TARGET, run.record.folder, "optimized", run.record.code, run_id, "output.values", ELEMENT, "")
    app._forward(app.model.set_quarantines([held]))


@pytest.mark.slow
async def test_edits_that_were_right_stay_right_after_a_wrong_one_and_the_best_can_be_restored(tmp_path: Path) -> None:
    catalog, snapshot = catalog_and_snapshot(tmp_path)
    story = [*watch_events(), *wrong_edit("output.values")]
    for event in story:
        if isinstance(event, events.RunPlanned):
            event.run = replace(event.run, manifest={"code": f"code of {event.run_id}"})
        elif isinstance(event, events.WatchEdit) and event.number == 4:
            event.snapshot = snapshot
    link = FakeLink(heard.whole(story))
    async with opened(tmp_path, size=(120, 40), link=link, catalog=catalog) as (app, pilot):
        table = await open_watch(app, pilot)
        await until(pilot, lambda: table.cursor_key == "6")
        in_quarantine(app, "W6")
        link.push(events.WatchEdit(target=TARGET, number=7, snapshot="07" * 32, files=["optimized.py"], run_id="",
                                   error="optimized.py line 1: invalid syntax"))  # fmt: skip
        await until(pilot, lambda: len(table._rows) == 8)
        rows = [line for line in screen_text(app).splitlines() if "×" in line and "[" in line]
        assert len([row for row in rows if "▲" in row]) == 3 and not any("was wrong" in row for row in rows)
        await pilot.press("escape")
        await open_watch(app, pilot)
        await pilot.press("b")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        assert "Restore edit 4, the best so far (1.818 ms)?" in screen_text(app)


async def test_a_new_edit_takes_the_cursor_unless_it_was_moved(tmp_path: Path) -> None:
    story = watch_events()
    link = FakeLink(story)
    async with opened(tmp_path, link=link) as (app, pilot):
        table = await open_watch(app, pilot)
        edit = events.WatchEdit(target=TARGET, number=6, snapshot="06" * 32, files=["a.py"], run_id="W6")
        link.push(edit, *quick_run_events(run_id="W6", finished=False)[:5])
        await until(pilot, lambda: table.cursor_key == "6")
        assert "edit 6: running" in screen_text(app)
        await pilot.press("G")
        link.push(events.WatchEdit(target=TARGET, number=7, snapshot="07" * 32, files=["a.py"], run_id="W7"))
        await until(pilot, lambda: len(table._rows) == 8)
        assert table.cursor_key == "0"


async def test_polling_is_told(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        await open_watch(app, pilot)
        link.push(events.WatchChanged(target=TARGET, folder="/f", active=True, polling=True))
        await until(pilot, lambda: "polling (no inotify here" in screen_text(app))


async def test_the_plot_has_a_tick_for_each_edit_and_nothing_between_them(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        lines = app.screen.query_one(EditPlot).lines
        assert lines[-1].split() == ["0", "1", "2", "3", "4", "[5]"]
        assert all(sign in lines[0] for sign in ("● edit", "★ best", "× failed"))
        drawn = "".join(line[3:] for line in lines[1:-2])
        assert (drawn.count("●"), drawn.count("★"), drawn.count("×")) == (3, 1, 2)
        assert set(drawn) <= set(" ●★×┬│┴")


async def test_the_plots_cursor_is_the_tables(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        table = await open_watch(app, pilot)
        app.screen.query_one(EditPlot).focus()
        await pilot.press("h", "h", "l")
        await until(pilot, lambda: table.cursor_key == "4")
        await pilot.click(EditPlot, offset=(6, 3))
        await until(pilot, lambda: table.cursor_key == "0")


async def test_p_shows_one_pane_after_the_other_where_there_is_no_room_for_all(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        assert " p pane" in screen_text(app)
        for title in ("edit 5 against edit 4", "samples of edit 5", "what became of edit 5", "vs baseline"):
            await pilot.press("p")
            await until(pilot, lambda title=title: title in screen_text(app))
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "samples of edit 5" in screen_text(app) and "what became" in screen_text(app))
        assert " p pane" not in screen_text(app)
        await pilot.resize_terminal(40, 12)
        await until(pilot, lambda: "what became" not in screen_text(app) and "vs baseline" in screen_text(app))


async def test_a_compares_with_the_edit_before_the_best_and_the_baseline_in_turn(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    link = FakeLink(with_sources(catalog, watch_events()))
    async with opened(tmp_path, size=(120, 40), link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        await until(pilot, lambda: "edit 5 against edit 4, the one before · optimized.py" in screen_text(app))
        await until(pilot, lambda: "- TILE = 4" in screen_text(app) and "+ TILE = 5" in screen_text(app))
        await pilot.press("j", "j", "a")
        await until(pilot, lambda: "edit 3 against edit 4, the best" in screen_text(app))
        await until(pilot, lambda: "+ TILE = 3" in screen_text(app))
        await pilot.press("k")
        await until(pilot, lambda: "this is the best edit" in screen_text(app))
        await pilot.press("a")
        await until(pilot, lambda: "edit 4 against its baseline" in screen_text(app))
        await until(pilot, lambda: "+ TILE = 4" in screen_text(app) and "return y.contiguous()" in screen_text(app))
        await pilot.press("a", "G")
        await until(pilot, lambda: "nothing is before it: the watch began with it" in screen_text(app))


async def test_sources_that_cannot_be_read_are_told_in_the_place_of_the_diff(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("a")
        await until(pilot, lambda: "there is no store yet" in screen_text(app))


async def test_an_edit_under_way_shows_its_step_and_about_how_long_it_takes(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    base_ns = NOW_NS - 4_000_000_000
    began = quick_run_events(run_id="W6", finished=False, trigger="watch", base_ns=base_ns, expected_s=9.0)[:6]
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        await open_watch(app, pilot)
        link.push(events.WatchEdit(target=TARGET, number=6, snapshot="06" * 32, files=["a.py"], run_id="W6"))
        await until(pilot, lambda: "edit 6: waiting for its turn" in screen_text(app))
        link.push(*began)
        await until(pilot, lambda: "edit 6: import and compile baseline · about 5 s left" in screen_text(app))
        assert "import and compile baseline · about 5 s left" in table_rows(app)["6"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.slow
async def test_an_edit_under_way_shows_its_first_verified_time_beside_its_step(
    size: tuple[int, int], tmp_path: Path
) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, size=size, link=link) as (app, pilot):
        await open_watch(app, pilot)
        link.push(events.WatchEdit(target=TARGET, number=6, snapshot="06" * 32, files=["a.py"], run_id="W6"))
        link.push(*quick_run_events(run_id="W6", finished=False, trigger="watch"))
        await until(pilot, lambda: table_rows(app)["6"].split()[:2] == ["6", "1.818"])
        assert " measure" in table_rows(app)["6"]
        assert any(line.strip("\u2502 ").split()[:2] == ["6", "1.818"] for line in screen_text(app).splitlines())


async def test_a_process_that_gives_no_sign_is_named_in_the_row_and_the_title(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    told = "optimized: no sign for 10 of 300 s (prepare() or the first run()); it is ended then"
    async with opened(tmp_path, size=(200, 50), link=link) as (app, pilot):
        await open_watch(app, pilot)
        link.push(events.WatchEdit(target=TARGET, number=6, snapshot="06" * 32, files=["a.py"], run_id="W6"))
        link.push(*quick_run_events(run_id="W6", finished=False, trigger="watch")[:6])
        link.push(events.Banner(key="silent: optimized", text=told))
        await until(pilot, lambda: f"edit 6 (x cancels it, a save ends it): {told}" in screen_text(app))
        assert any(
            line.split()[:1] == ["6"] and "no sign for 10 of 300 s" in line for line in screen_text(app).splitlines()
        )
        # Another job is under way too: whose process it is, nobody can tell.
        link.push(*quick_run_events("ch07:gather", run_id="OTHER", finished=False)[:6])
        await until(pilot, lambda: "edit 6: import and compile" in screen_text(app))
        link.push(events.Banner(key="silent: optimized", text=""))


async def test_x_cancels_the_edit_under_way_and_not_the_one_that_waits(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, link=link) as (app, pilot):
        await open_watch(app, pilot)
        assert " x cancel" not in screen_text(app)
        for number, came in (("6", 6), ("7", 1)):
            edit = events.WatchEdit(target=TARGET, number=int(number), snapshot="", files=["a.py"], run_id=f"W{number}")
            link.push(edit, *quick_run_events(run_id=f"W{number}", finished=False)[:came])
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: " x cancel" in screen_text(app))
        await pilot.press("x")
        await until(pilot, lambda: link.sent_of(requests.Cancel))
    assert [message.run_id for message in link.sent_of(requests.Cancel)] == ["W6"]


async def test_no_edit_that_was_right_a_lost_engine_and_a_watch_that_ended_have_a_sentence_each(tmp_path: Path) -> None:
    link = FakeLink([*watch_events()[:1], *wrong_edit("output.values", edit=1)])
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        await open_watch(app, pilot)
        await until(pilot, lambda: "no edit was correct and timed yet" in screen_text(app))
        await pilot.press("b")
        await until(pilot, lambda: "nothing to restore" in told(app))
        link.push(events.WatchChanged(target=TARGET, folder="/f", active=False))
        await until(pilot, lambda: "the edits of the watch that ended; w watches on" in screen_text(app))
        link.lose()
        await until(pilot, lambda: "no engine: these are the edits as they stood" in screen_text(app))


async def test_an_edit_whose_run_is_not_known_here_is_not_said_to_wait(tmp_path: Path) -> None:
    story = [*watch_events(), events.WatchEdit(target=TARGET, number=6, snapshot="", files=["a.py"], run_id="W6")]
    link = FakeLink([event for event in story if getattr(event, "run_id", "") != "W1" or isinstance(event, WatchEdit)])
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        await open_watch(app, pilot)
        rows = table_rows(app)
        assert "its run is in the store: enter opens it" in rows["1"]
        assert "waiting for its turn" in rows["6"]


async def test_the_footer_offers_to_open_a_run_where_one_ran(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        table = await open_watch(app, pilot)
        assert "open run" in screen_text(app).splitlines()[-1]
        table.move_to("2")
        await until(pilot, lambda: "open run" not in screen_text(app).splitlines()[-1])
        await pilot.press("enter")
        await until(pilot, lambda: "Nothing ran for this edit" in told(app))
        table.move_to("3")
        await until(pilot, lambda: "open run" in screen_text(app).splitlines()[-1])


async def test_enter_opens_the_run_of_the_edit(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        assert app.screen.run_id == "W5"  # type: ignore[attr-defined]
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "WatchScreen")
        await pilot.press("j", "j", "j", "enter")
        await until(pilot, lambda: "Nothing ran for this edit" in told(app))
        assert screen_name(app) == "WatchScreen"


async def test_d_D_and_m_compare_any_two_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str, str]] = []
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        monkeypatch.setattr(
            app,
            "open_diff",
            lambda target, left, right: asked.append((left.name, left.snapshot[:2], right.name, right.snapshot[:2])),
        )
        await open_watch(app, pilot)
        await pilot.press("d")  # 5 against 4
        await pilot.press("D")  # 5 against the best, 4
        await pilot.press("G", "m", "g", "d")  # 5 against 0, which is marked
        await until(pilot, lambda: len(asked) == 3)
        await pilot.press("G", "m", "d")  # no mark, and nothing is before the first
        await until(pilot, lambda: "nothing before it" in told(app))
        await pilot.press("g", "j", "D")
        await until(pilot, lambda: "This is the best edit" in told(app))
    assert asked == [
        ("optimized", "04", "optimized", "05"),
        ("optimized", "04", "optimized", "05"),
        ("optimized", "00", "optimized", "05"),
    ]


async def test_w_stops_the_watch_and_starts_it_again(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, link=link) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("w")
        await until(pilot, lambda: link.sent_of(requests.StopWatch))
        link.push(events.WatchChanged(target=TARGET, folder="/f", active=False))
        await until(pilot, lambda: "not watching: these are the edits" in screen_text(app))
        await pilot.press("w")
        await until(pilot, lambda: link.sent_of(requests.StartWatch))


async def test_leaving_the_screen_leaves_the_watch_on(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, link=link) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
    assert link.sent_of(requests.StopWatch) == []


def with_sources(catalog: Catalog, story: list[events.Event]) -> list[events.Event]:
    """The story, each edit with stored sources of its own."""
    target = catalog.find(TARGET)
    with Store.open(paths.database_file()) as store:
        for event in story:
            if isinstance(event, events.WatchEdit):
                sources = {name: (target.folder / name).read_bytes() for name in target.files}
                sources["optimized.py"] = f"TILE = {event.number}\n\n\ndef run(x):\n    return x\n".encode()
                event.snapshot = store.put_snapshot(sources)
    return story


def catalog_and_snapshot(root: Path) -> tuple[Catalog, str]:
    """The catalogue, and the stored snapshot of an edit in which optimized.py was another."""
    catalog = make_catalog(root)
    target = catalog.find(TARGET)
    sources = {name: (target.folder / name).read_bytes() for name in target.files}
    sources["optimized.py"] = b"def run(x):\n    return x\n"
    with Store.open(paths.database_file()) as store:
        return catalog, store.put_snapshot(sources)


async def test_restore_asks_first_and_names_the_files(tmp_path: Path) -> None:
    catalog, snapshot = catalog_and_snapshot(tmp_path)
    story = watch_events()
    for event in story:
        if isinstance(event, events.WatchEdit) and event.number == 4:
            event.snapshot = snapshot
    link = FakeLink(story)
    async with opened(tmp_path, link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("b")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        drawn = screen_text(app)
        assert "Restore edit 4, the best so far (1.818 ms)?" in drawn
        assert f"Overwritten in {app.model.watches[TARGET].folder}: optimized.py." in drawn
        assert "baseline.py" not in drawn and "kept in the store" in drawn
        await until(pilot, lambda: "optimized.py now" in screen_text(app) and "return x.t()" in screen_text(app))
        assert screen_text(app).splitlines()[-1].strip().startswith("⏎ yes  esc no")
        assert "restore best" not in screen_text(app) and " e edit" not in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "WatchScreen")
        assert link.sent_of(requests.Restore) == []
        await pilot.press("b")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("enter")
        await until(pilot, lambda: "kept as snapshot kept0123" in told(app))
    sent = link.sent_of(requests.Restore)
    assert [(message.target, message.snapshot, message.root) for message in sent] == [(TARGET, snapshot, str(tmp_path))]


async def test_restoring_what_stands_there_already_asks_nothing(tmp_path: Path) -> None:
    catalog, snapshot = catalog_and_snapshot(tmp_path)
    (catalog.find(TARGET).folder / "optimized.py").write_bytes(b"def run(x):\n    return x\n")
    link = link_of(snapshot)
    async with opened(tmp_path, link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("b")
        await until(pilot, lambda: "holds edit 4, the best, already" in told(app))
    assert link.sent_of(requests.Restore) == []


async def test_one_file_of_which_runs_keep_the_parts_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    catalog, snapshot = catalog_and_snapshot(tmp_path)
    shutil.rmtree(catalog.find(TARGET).folder)
    catalog.find(TARGET).folder.write_text("# softmax.py: its parts are what runs keep")
    link = link_of(snapshot)
    async with opened(tmp_path, link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("b")
        await until(pilot, lambda: "is one file, of which runs keep the parts" in told(app))
        assert screen_name(app) == "WatchScreen"
    assert link.sent_of(requests.Restore) == []


def link_of(snapshot: str) -> FakeLink:
    """The story of a watch, all of whose edits had these sources."""
    story = watch_events()
    for event in story:
        if isinstance(event, events.WatchEdit):
            event.snapshot = snapshot
    return FakeLink(story)


async def test_without_a_best_edit_there_is_nothing_to_restore(tmp_path: Path) -> None:
    link = FakeLink(watch_events()[:2])
    async with opened(tmp_path, link=link) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("b")
        await until(pilot, lambda: "nothing to restore" in told(app))
        assert screen_name(app) == "WatchScreen"


async def test_e_opens_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_files: list[Path] = []
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        monkeypatch.setattr(app, "edit_file", lambda path, _line: opened_files.append(path))
        await open_watch(app, pilot)
        await pilot.press("e")
        await pilot.pause(0.1)
    assert [path.name for path in opened_files] == ["optimized.py"]


async def test_a_refused_watch_says_why(tmp_path: Path) -> None:
    refusal = events.Reply(to=1, error="no target ch05:collate; the folder is gone")
    async with opened(tmp_path, link=FakeLink(replies={requests.StartWatch: refusal})) as (app, pilot):
        await open_watch(app, pilot)
        await until(pilot, lambda: "the folder is gone" in told(app))
        assert "w tries again" in screen_text(app)


async def test_y_copies_the_list_of_edits(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("y")
        await until(pilot, lambda: "Copied" in told(app))
        assert "*   4  1.818  ^ 2.31x [2.28..2.35]" in app.clipboard
        assert "wrong: optimized: y[0, 17] is 3.25, expected 1.5 (412 tolerances)" in app.clipboard


@pytest.mark.parametrize("graph", ["ascii", "block"])
async def test_without_colour_and_braille_the_signs_say_the_same(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    settings = Settings(graph=graph)
    async with opened(tmp_path, size=(120, 40), link=FakeLink(watch_events()), settings=settings) as (app, pilot):
        await open_watch(app, pilot)
        for key in ("j", "a", "tab", "tab", "tab", "tab"):
            await pilot.press(key)
        drawn = app.screen.query_one(EditPlot).lines
        assert ("* best" if graph == "ascii" else "★ best") in drawn[0] and "[4]" in drawn[-1]
        assert all(line.isascii() for line in drawn) == (graph == "ascii")
