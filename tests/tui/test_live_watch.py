"""The watch's screen: the list of edits, their diffs, and restoring the best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.model import Catalog
from aisp.store import Store
from aisp.store.record import Quarantine
from aisp.tui import readings
from aisp.tui.app import Workbench
from aisp.tui.widgets.plot import LivePlot
from aisp.tui.widgets.table import LiveTable
from tests import heard
from tests.replacing import replace
from tests.tui.app_support import make_catalog, opened, screen_name, screen_text, told, until
from tests.tui.fakes import FakeLink, failing_run_events, quick_run_events, watch_events
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


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screen_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("j", "j")
        await pilot.pause(0.1)
        drawn = screen_text(app)
    check_snapshot(request, f"watch_{size[0]}x{size[1]}", drawn)


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


async def test_edits_are_compared_with_the_one_before_and_the_best(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        lines = screen_text(app).splitlines()
    row = {line.split()[0].strip("★ "): line for line in lines if "10:1" in line and ":05" in line}
    best = next(line for line in lines if "★" in line)
    assert "▲ 2.31×" in best and "-35.1 %" in best and " best " in best
    assert "+12.7 %  " in row["5"] and row["5"].count("+12.7 %") == 2
    assert "not run: optimized." in row["2"]
    assert "wrong: optimized: y[0, 17]" in row["3"]


async def test_an_edit_that_a_later_one_superseded_is_no_fault_and_neither_best_nor_before(tmp_path: Path) -> None:
    saved = events.WatchEdit(target=TARGET, number=6, snapshot="06" * 32, files=["optimized.py"], run_id="W6")
    story = failing_run_events(TARGET, run_id="W6", state="cancelled", reason="superseded by edit 7", detail="")
    story[-1] = heard.finished(
        run_id="W6", state="cancelled", reason="superseded by edit 7", flags=["superseded"], duration_ms=7.5
    )
    link = FakeLink([*watch_events(), saved, *heard.whole(story)])
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        table = await open_watch(app, pilot)
        rows = dict(readings.edit_rows(link.model, link.model.watches[TARGET], 120, False, None))
        note = rows["6"][-1]
        assert isinstance(note, Text) and (note.plain, note.style) == ("superseded by edit 7", "")
        assert "best: edit 4, 1.818 ms" in screen_text(app)
        assert table.cursor_key == "6"
        await pilot.press("enter")
        await until(pilot, lambda: "superseded by edit 7" in screen_text(app))
        assert " \u00b7 superseded \u00b7 " in screen_text(app)
        assert "flags" not in screen_text(app)


async def test_a_syntax_error_and_a_wrong_answer_are_told_in_full(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("j", "j")
        await until(pilot, lambda: "wrong: optimized: y[0, 17] is 3.25, expected 1.5" in screen_text(app))
        await pilot.press("j")
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


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_an_edit_with_wrong_values_is_wrong_and_not_caught(size: tuple[int, int], tmp_path: Path) -> None:
    async with opened(tmp_path, size=size, link=FakeLink([*watch_events(), *wrong_edit("output.values")])) as (
        app,
        pilot,
    ):
        table = await open_watch(app, pilot)
        await until(pilot, lambda: table.cursor_key == "6")
        drawn = " ".join(screen_text(app).split())
        assert f"optimized ⊘ wrong: {ELEMENT}" in drawn
        row = next(line for line in screen_text(app).splitlines() if line.split()[:1] == ["6"])
        assert "wrong: optim" in row
        for word in ("caught", "quarantine", "speed-up"):
            assert word not in drawn


async def test_what_another_check_caught_is_called_so(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink([*watch_events(), *wrong_edit("output.identity")])) as (app, pilot):
        table = await open_watch(app, pilot)
        await until(pilot, lambda: table.cursor_key == "6")
        assert "optimized ⊘ caught: output.identity: no speed-up of it is one" in " ".join(screen_text(app).split())


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
        await until(pilot, lambda: "judged anew when this run ends" in " ".join(screen_text(app).split()))
        drawn = " ".join(screen_text(app).split())
        assert f"optimized ⊘ was wrong: {ELEMENT}; judged anew" in drawn
        assert "quarantine" not in drawn and "caught" not in drawn


def in_quarantine(app: Workbench, run_id: str) -> None:
    """The store has this run's optimized rung in quarantine; screens are told."""
    run = app.model.runs[run_id]
    held = Quarantine(TARGET, run.record.folder, "optimized", run.record.code, run_id, "output.values", ELEMENT, "")
    app._forward(app.model.set_quarantines([held]))


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
        rows = [line for line in screen_text(app).splitlines() if ":05" in line]
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
        assert "running edit 6" in screen_text(app)
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


async def test_the_plot_shows_edits_and_the_best_so_far(tmp_path: Path) -> None:
    async with opened(tmp_path, link=FakeLink(watch_events())) as (app, pilot):
        await open_watch(app, pilot)
        lines = app.screen.query_one(LivePlot).lines
    assert "best so far" in lines[0] and "each edit" in lines[0]
    assert lines[-1].rstrip().endswith("5 edit")


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
        await until(pilot, lambda: "marked: edit 0" in screen_text(app) or len(asked) == 3)
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
        await until(pilot, lambda: "not watching: w watches on" in screen_text(app))
        await pilot.press("w")
        await until(pilot, lambda: link.sent_of(requests.StartWatch))


async def test_leaving_the_screen_leaves_the_watch_on(tmp_path: Path) -> None:
    link = FakeLink(watch_events())
    async with opened(tmp_path, link=link) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
    assert link.sent_of(requests.StopWatch) == []


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
        assert "Overwritten: optimized.py" in drawn and "baseline.py" not in drawn
        assert "kept in the store" in drawn
        await pilot.press("n")
        await until(pilot, lambda: screen_name(app) == "WatchScreen")
        assert link.sent_of(requests.Restore) == []
        await pilot.press("b")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("y")
        await until(pilot, lambda: "kept as snapshot kept0123" in told(app))
    sent = link.sent_of(requests.Restore)
    assert [(message.target, message.snapshot, message.root) for message in sent] == [(TARGET, snapshot, str(tmp_path))]


async def test_restoring_what_stands_there_already_asks_nothing(tmp_path: Path) -> None:
    catalog, snapshot = catalog_and_snapshot(tmp_path)
    (catalog.find(TARGET).folder / "optimized.py").write_bytes(b"def run(x):\n    return x\n")
    story = [
        replace_snapshot(event, snapshot) if isinstance(event, events.WatchEdit) else event for event in watch_events()
    ]
    link = FakeLink(story)
    async with opened(tmp_path, link=link, catalog=catalog) as (app, pilot):
        await open_watch(app, pilot)
        await pilot.press("b")
        await until(pilot, lambda: "holds edit 4, the best, already" in told(app))
    assert link.sent_of(requests.Restore) == []


def replace_snapshot(event: events.WatchEdit, snapshot: str) -> events.WatchEdit:
    event.snapshot = snapshot
    return event


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
        assert "* 4  10:14:05  ^ 2.31x" in app.clipboard
