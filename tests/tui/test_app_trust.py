"""Whether a run may be believed, driven by keys: the two numbers, every check with its evidence, quarantine marks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog import shipped_root
from aisp.store import Store
from aisp.store.record import RuleSaid
from aisp.store.text import clean_line
from aisp.tui.app import Workbench
from aisp.tui.screens.checklist import ChecklistScreen
from aisp.tui.widgets.diffview import DiffView
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import LiveTable
from tests import heard
from tests.replacing import replace
from tests.store.examples import finished, planned
from tests.tui.app_support import keep, make_link, opened, screen_name, screen_text, told, until
from tests.tui.fakes import FakeLink, numbered, quick_run_events
from tests.tui.live_support import check_snapshot, isolate
from tests.tui.trust_support import (
    CHEAT_ID,
    HIDDEN_WORK,
    LESSON_ID,
    cheat_run_events,
    items,
    stored_trust,
    trust_catalog,
)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def telling(*story: events.Event) -> FakeLink:
    link = make_link(told=False)
    link.script(numbered(story))
    return link


def highlight(app: Workbench, target_id: str) -> None:
    app.screen.table.move_to(f"target {target_id}")  # type: ignore[attr-defined]


def cells(app: Workbench, table: str, key: str) -> list[str]:
    """A row of a table as text."""
    row = app.screen.query_one(table, LiveTable).row(key)
    assert row is not None, f"{table} has no row {key!r}:\n{screen_text(app)}"
    return [str(cell) for cell in row]


def list_of(app: Workbench) -> list[str]:
    """Keys of the rows of the list of checks."""
    screen: Any = app.screen
    assert isinstance(screen, ChecklistScreen)
    return [key for key, _ in screen.table._rows]


def seen(app: Workbench, pane: str = "") -> str:
    """The words of the screen or of a pane, with nothing between them but one blank."""
    lines = screen_text(app).splitlines()
    if pane:
        region = app.screen.query_one(pane).region
        lines = [line[region.x : region.right] for line in lines[region.y : region.bottom]]
    return " ".join(" ".join(lines).replace("│", " ").split())


def about(app: Workbench) -> str:
    """All words of the pane about a row, in sight or not."""
    return " ".join(app.screen.query_one("#about", LogPane).text.split())


# -- the two numbers, and the list -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=["80x24", "140x40"])
async def test_v_puts_the_naive_number_beside_ours(size: tuple[int, int], tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, size=size, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, CHEAT_ID)
        await pilot.press("v")
        await until(pilot, lambda: screen_name(app) == "TrustScreen" and "wall_clock" in screen_text(app))
        twin, cheat = cells(app, "#numbers", "optimized"), cells(app, "#numbers", "cheat")
        ours = 2 if size[0] < 100 else 3
        assert twin[1] == "1.20× accepted" and twin[ours] == "▲ 1.23× [1.21..1.25] faster"
        assert cheat[1] == "9.84× accepted" and cheat[ours] == "⊘ caught: timing.wall_clock"
        assert app.screen.query_one("#numbers", LiveTable).row("baseline") is None
        assert "caught · by timing.wall_clock, timing.physics · 5 checks: 1 caught, 1 suspect" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_v_tells_what_the_problems_own_rule_says(size: tuple[int, int], tmp_path: Path) -> None:
    rule = RuleSaid("allclose, 1e-2", right=False, detail="y is off")
    events_told = cheat_run_events()
    end = events_told[-1]
    assert isinstance(end, events.RunFinished)
    arms = tuple(replace(arm, rule=rule) if arm.rung == "optimized" else arm for arm in end.run.arms)
    events_told[-1] = replace(end, run=replace(end.run, arms=arms))
    async with opened(tmp_path, size=size, link=telling(*events_told), catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, CHEAT_ID)
        await pilot.press("v")
        await until(pilot, lambda: screen_name(app) == "TrustScreen" and "wall_clock" in screen_text(app))
        row = cells(app, "#numbers", "optimized (own rule)")
        assert row[0].strip() == "its own rule"
        assert row[2 if size[0] < 100 else 3] == (
            "wrong by its own rule (allclose, 1e-2), which we do not share: y is off"
        )
        assert "wrong by its own rule (al" in screen_text(app)


async def test_the_screen_looks_the_same_at_80x24(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id="01T")
        await until(pilot, lambda: "wall_clock" in screen_text(app))
        check_snapshot(request, "trust_80x24", screen_text(app))


async def test_categories_come_with_their_counts_and_the_worst_first(tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id="01T")
        await until(pilot, lambda: "wall_clock" in screen_text(app))
        # What nobody must overlook is unfolded, all else is a line of counts.
        assert list_of(app) == [
            "category timing", "check timing.wall_clock", "check timing.physics", "category output",
            "category cuda", "check cuda.streams",
        ]  # fmt: skip
        assert cells(app, "#checks", "category timing")[0] == "▾ timing  1 caught, 1 suspect"
        assert cells(app, "#checks", "category output")[0] == "▸ output  1 passed, 1 n/a"
        assert cells(app, "#checks", "category cuda")[0] == "▾ cuda  1 unavailable"
        assert cells(app, "#checks", "check timing.wall_clock") == ["  wall_clock", "✗ caught", f"cheat: {HIDDEN_WORK}"]
        assert cells(app, "#checks", "check cuda.streams")[2].startswith("CUPTI is not installed; pip install")
        await pilot.press("G", "space")
        await until(pilot, lambda: "check cuda.streams" not in list_of(app))
        await pilot.press("space")
        await until(pilot, lambda: "check cuda.streams" in list_of(app))


async def test_o_leaves_only_what_is_not_passed_then_only_what_was_caught(tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id="01T")
        await until(pilot, lambda: "wall_clock" in screen_text(app))
        await pilot.press("o")
        await until(pilot, lambda: "only what is not passed" in screen_text(app))
        assert [key for key in list_of(app) if key.startswith("check ")] == [
            "check timing.wall_clock", "check timing.physics", "check output.nonfinite", "check cuda.streams"
        ]  # fmt: skip
        await pilot.press("o")
        await until(pilot, lambda: "only caught and suspect" in screen_text(app))
        assert list_of(app) == ["category timing", "check timing.wall_clock", "check timing.physics"]
        await pilot.press("o")
        await until(pilot, lambda: "check output.nonfinite" not in list_of(app) and "category output" in list_of(app))


async def test_enter_reads_the_evidence_in_full_with_what_the_check_looks_at_and_what_proves_it(tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, size=(80, 40), link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id="01T")
        await until(pilot, lambda: "wall_clock" in screen_text(app))
        assert app.screen.table.cursor_key == "check timing.wall_clock"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: "looks at" in screen_text(app))
        drawn = about(app)
        assert f"cheat caught: {HIDDEN_WORK}" in drawn
        assert "baseline, optimized, baseline (A/A) passed" in drawn
        for label in ("looks at", "asked", "answers", "proof"):
            assert label in drawn
        from aisp.engine import trust

        view = next(view for view in trust.listing() if view.id == "timing.wall_clock")
        assert view.about.split(".")[0] in drawn and view.issues and all(issue in drawn for issue in view.issues)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "4.1 TB/s of 3.0 TB/s" in about(app))
        await pilot.press("escape")
        await until(pilot, lambda: "▾ timing" in screen_text(app))
        assert screen_name(app) == "TrustScreen"
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")


async def test_a_wide_screen_says_all_about_the_highlighted_row_beside_the_list(tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, size=(200, 50), link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id="01T")
        await until(pilot, lambda: f"cheat caught: {HIDDEN_WORK}" in seen(app, "#about"))
        await pilot.press("down")
        await until(pilot, lambda: "cheat suspect: faster than the measured bandwidth" in seen(app, "#about"))
        await pilot.press("up", "up")
        await until(pilot, lambda: f"timing.wall_clock caught (cheat): {HIDDEN_WORK}" in seen(app, "#about"))


async def test_p_opens_the_lesson_of_the_cheat_or_says_where_it_is(tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id="01T")
        screen: Any = app.screen
        await until(pilot, lambda: "wall_clock" in screen_text(app) and screen.book is not None)
        view = replace(screen.book.checks["timing.wall_clock"], cheats=("timing:elsewhere/cheat", f"{CHEAT_ID}/cheat"))
        screen.book = replace(screen.book, checks={**screen.book.checks, view.id: view})
        await pilot.press("p")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")
        assert app.screen.target_id == CHEAT_ID  # type: ignore[attr-defined]
        await pilot.press("escape")
        screen.book.checks[view.id] = replace(view, cheats=("timing:elsewhere/cheat",))
        await until(pilot, lambda: screen_name(app) == "TrustScreen")
        await pilot.press("p")
        await until(pilot, lambda: f"aisp-tui {shipped_root().parent / 'checks' / 'gallery' / 'timing'}" in told(app))


async def test_before_the_checks_are_asked_the_screen_says_what_is_waited_for(tmp_path: Path) -> None:
    link = telling(*cheat_run_events(finished=False))
    async with opened(tmp_path, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, CHEAT_ID)
        await pilot.press("v")
        await until(pilot, lambda: "the checks are asked when the run ends; now: measure" in screen_text(app))
        # What a cheat came to so far is not shown as if it were a speed-up.
        assert cells(app, "#numbers", "cheat")[1:] == ["- (after the samples)", "a cheat: judged at the end"]
        assert cells(app, "#numbers", "optimized")[1:] == ["- (after the samples)", "nothing yet"]
        whole = numbered(cheat_run_events())
        link.push(*whole)
        await until(pilot, lambda: "wall_clock" in screen_text(app))
        assert "the checks are asked" not in screen_text(app)
        assert cells(app, "#numbers", "cheat")[2] == "⊘ caught: timing.wall_clock"


async def test_a_target_that_never_ran_says_how_to_run_it(tmp_path: Path) -> None:
    stored_trust(tmp_path)
    async with opened(tmp_path, link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, CHEAT_ID)
        await pilot.press("v")
        await until(pilot, lambda: "no run of this target is stored yet: r runs it quickly" in screen_text(app))
        keys = screen_text(app).splitlines()[-1]
        assert "diff" in keys and not [word for word in ("evidence", "only", "[ ]", "proof") if word in keys]
        assert screen_text(app).count("is stored yet") == 1


async def test_a_run_from_before_there_were_checks_says_so(tmp_path: Path) -> None:
    with Store.open(paths.database_file()) as store:
        run = planned(LESSON_ID)
        store.plan([run])
        store.finish(finished(run), {})
    async with opened(tmp_path, link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, LESSON_ID)
        await pilot.press("v")
        await until(pilot, lambda: "no check is stored with this run" in screen_text(app))
        assert cells(app, "#numbers", "optimized")[1:] == ["- (not asked)", "▲ 2.00× [1.96..2.04] faster"]


async def test_a_stored_run_is_shown_like_a_live_one(tmp_path: Path) -> None:
    end = stored_trust(tmp_path)
    async with opened(tmp_path, link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id=end.id)
        await until(pilot, lambda: "wall_clock" in screen_text(app))
        assert cells(app, "#numbers", "optimized")[1:] == ["10.0× accepted", "⊘ caught: timing.wall_clock"]
        await pilot.press("y")
        await until(pilot, lambda: "Copied" in told(app))
        copied = (paths.state_dir() / "clipboard.txt").read_text()
        assert "10.0x accepted" in copied and f"caught       timing.wall_clock  optimized: {HIDDEN_WORK}" in copied


@pytest.mark.parametrize("live", [False, True], ids=["stored", "live"])
async def test_the_panel_says_what_the_processes_of_a_run_were_held_from(live: bool, tmp_path: Path) -> None:
    held = "confined: files, reading; not network, signals, scheduling"
    stored = keep(paths.state_dir(), LESSON_ID, environment={"confined": ["files", "reading"]})
    story = quick_run_events(LESSON_ID, run_id=stored.id)
    end = story[-1]
    assert isinstance(end, events.RunFinished)
    told_of = tuple(items(["baseline", "optimized"]))
    story[-1] = replace(end, run=replace(end.run, findings=told_of))
    link = telling(*story) if live else make_link(told=False)
    async with opened(tmp_path, size=(200, 50), link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        app.open_screen("trust", run_id=stored.id)
        await until(pilot, lambda: held in screen_text(app))


async def test_v_in_the_history_opens_the_highlighted_run_and_in_a_run_that_run(tmp_path: Path) -> None:
    older = stored_trust(tmp_path, wall="2026-05-01T10:00:00+00:00")
    newer = stored_trust(tmp_path, wall="2026-05-02T10:00:00+00:00")
    async with opened(tmp_path, link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (app, pilot):
        for target, run in ((older, older), (newer, newer)):
            app.open_screen("history", target_id=LESSON_ID)
            await until(pilot, lambda: len(app.screen.query_one("#runs", LiveTable)._rows) == 2)
            app.screen.query_one("#runs", LiveTable).move_to(run.id)
            await pilot.press("v")
            await until(pilot, lambda target=target: app.screen.opened_with.get("run_id") == target.id)  # type: ignore[misc,attr-defined]
            await until(pilot, lambda: "wall_clock" in screen_text(app))
            await pilot.press("escape", "escape")
        app.open_screen("run", run_id=older.id)
        await until(pilot, lambda: "SM clock" in screen_text(app))
        await pilot.press("v")
        await until(pilot, lambda: screen_name(app) == "TrustScreen")
        assert app.screen.opened_with == {"target_id": LESSON_ID, "run_id": older.id}  # type: ignore[attr-defined]


# -- every check of the registry ---------------------------------------------------------------------------------------


async def test_V_lists_every_check_by_category_with_what_it_did_last(tmp_path: Path) -> None:
    from aisp.engine import trust

    stored_trust(tmp_path)
    async with opened(tmp_path, size=(80, 30), link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (
        app,
        pilot,
    ):
        await pilot.press("V")
        await until(pilot, lambda: screen_name(app) == "ChecksScreen" and "▸ timing" in screen_text(app))
        await until(pilot, lambda: f"last run {LESSON_ID}: 1 caught" in screen_text(app))
        views = trust.listing()
        categories = list(dict.fromkeys(view.category for view in views))
        assert list_of(app)[: len(categories)] == [f"category {name}" for name in categories]
        await pilot.press("minus")
        await until(pilot, lambda: "check timing.wall_clock" in list_of(app))
        listed = [key.removeprefix("check ") for key in list_of(app) if key.startswith("check ")]
        assert sorted(listed) == sorted(view.id for view in views)
        assert cells(app, "#checks", "check timing.wall_clock")[1:] == [
            "✗ caught", next(view.about for view in views if view.id == "timing.wall_clock"),
        ]  # fmt: skip
        never = next(view.id for view in views if view.id.startswith("statistical."))
        assert cells(app, "#checks", f"check {never}")[1] == "-"
        app.screen.query_one("#checks", LiveTable).move_to("check timing.wall_clock")
        await pilot.press("enter")
        await until(pilot, lambda: "in the last run" in screen_text(app))
        assert f"in the last run: optimized caught: {HIDDEN_WORK}" in about(app)


async def test_i_lists_every_issue_with_how_it_is_answered(tmp_path: Path) -> None:
    from aisp.engine import trust

    async with opened(tmp_path, size=(120, 40), link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (
        app,
        pilot,
    ):
        await pilot.press("V")
        await until(pilot, lambda: "last run: there is no store" in seen(app) or "timing" in screen_text(app))
        await pilot.press("i")
        await until(pilot, lambda: "Issues: all" in screen_text(app))
        views = trust.issues()
        shown = [key.removeprefix("issue ") for key in list_of(app) if key.startswith("issue ")]
        assert sorted(shown) == sorted(view.id for view in views)
        some = next(view for view in views if view.fixture)
        assert cells(app, "#checks", f"issue {some.id}")[1] == some.how
        app.screen.query_one("#checks", LiveTable).move_to(f"issue {some.id}")
        await until(pilot, lambda: f"checks/gallery/{some.fixture}" in about(app).replace(" ", ""))  # wrapped
        await pilot.press("i")
        await until(pilot, lambda: "Checks: all" in screen_text(app))


# -- quarantine --------------------------------------------------------------------------------------------------------


async def test_a_rung_in_quarantine_is_marked_everywhere_and_has_no_speed_up_anywhere(tmp_path: Path) -> None:
    stored_trust(tmp_path)
    catalog = trust_catalog(tmp_path)
    async with opened(tmp_path, size=(140, 40), link=make_link(told=False), catalog=catalog) as (app, pilot):
        target = app.target(LESSON_ID)
        assert target is not None
        await until(pilot, lambda: app.held(target))
        assert cells(app, "#tree", f"target {LESSON_ID}")[1:] == ["⊘ caught", ""]
        highlight(app, LESSON_ID)
        await until(
            pilot, lambda: f"⊘ optimized in quarantine timing.wall_clock: {HIDDEN_WORK}" in seen(app, "#details")
        )
        assert "2.00x" not in screen_text(app) and "0.5000" not in screen_text(app)
        await pilot.press("enter", "tab", "right_square_bracket")
        await until(pilot, lambda: "in quarantine since" in seen(app, "#rung-about"))
        assert cells(app, "#rungs", "optimized")[1:] == ["", "⊘ caught", ""]
        await pilot.press("escape", "t")
        await until(pilot, lambda: "⊘ optimized in quarantine: timing.wall_clock" in screen_text(app))
        assert "⊘ caught" in screen_text(app) and "2.00x" not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: "no speed-up of it is one" in screen_text(app))
        assert cells(app, "#arms", "optimized")[3] == "⊘ caught"


async def test_a_later_run_of_a_rung_in_quarantine_shows_no_speed_up_until_it_is_released(tmp_path: Path) -> None:
    stored_trust(tmp_path)
    catalog = trust_catalog(tmp_path)
    folder = clean_line(os.fsencode(catalog.find(LESSON_ID).folder))
    story = quick_run_events(LESSON_ID, run_id="01Z", speedup=2.31, folder=folder, rungs=("baseline", "optimized"))
    link = make_link(told=False)
    async with opened(tmp_path, size=(140, 40), link=link, catalog=catalog) as (app, pilot):
        await until(pilot, lambda: app.model.quarantines)
        link.push(*numbered(story[:-1]))
        app.open_screen("run", run_id="01Z")
        await until(pilot, lambda: "optimized ⊘ quarantined: timing.wall_clock" in screen_text(app))
        assert "2.31" not in screen_text(app)
        assert cells(app, "#arms", "optimized")[3] == "⊘ quarantined"
        # The store let it go: its code changed, and every check passed.
        app._forward(app.model.set_quarantines([]))
        await until(pilot, lambda: "2.31" in screen_text(app))


async def test_another_folders_quarantine_marks_nothing_here(tmp_path: Path) -> None:
    stored_trust(tmp_path / "elsewhere")
    async with opened(tmp_path, link=make_link(told=False), catalog=trust_catalog(tmp_path)) as (app, pilot):
        await until(pilot, lambda: app.model.quarantines)
        target = app.target(LESSON_ID)
        assert target is not None and app.held(target) == {}


# -- the gallery -------------------------------------------------------------------------------------------------------


async def test_a_cheat_is_shown_as_one_and_d_compares_it_with_its_twin(tmp_path: Path) -> None:
    link = telling(*cheat_run_events())
    async with opened(tmp_path, size=(140, 40), link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        assert cells(app, "#tree", f"target {CHEAT_ID}")[1] == "✓ caught"
        highlight(app, CHEAT_ID)
        await until(pilot, lambda: "a cheat: must be caught" in screen_text(app))
        drawn = seen(app, "#details")
        assert f"⊘ cheat caught timing.wall_clock: {HIDDEN_WORK}" in drawn
        assert "A cheat and its honest twin: d compares them" in drawn
        await pilot.press("d")
        await until(pilot, lambda: "side_stream" in screen_text(app))
        screen: Any = app.screen
        assert [screen._label(side) for side in (0, 1)] == ["optimized (now)", "cheat (now)"]
        assert app.screen.query_one(DiffView).hunks == 1
        await pilot.press("escape", "enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")
        assert cells(app, "#rungs", "cheat")[1:] == ["", "⊘ caught", ""]
        assert cells(app, "#rungs", "optimized")[2] == "▲ 1.23×"
        await pilot.press("d")
        await until(pilot, lambda: "side_stream" in screen_text(app))


@pytest.mark.parametrize("by", ["cheat", ""], ids=["by its values", "with the whole run"])
async def test_a_caught_cheats_row_says_so_whatever_gave_it_away(by: str, tmp_path: Path) -> None:
    story = cheat_run_events()
    for event in story:
        if isinstance(event, events.ArmUpdate) and event.arm.rung == "cheat":
            event.arm = heard.arm_of("cheat", state="incorrect", reason="wrong values: y[0]: got 1, expected 2")
    found = heard.finding(check="output.values", arm=by, status="caught", evidence="y[0]: got 1, expected 2")
    why = "cheat: wrong values: y[0]: got 1, expected 2"
    end = heard.finished(run_id="01T", state="incorrect", duration_ms=9.0, reason=why, findings=[found])
    story = heard.whole([*story[:-1], end])
    async with opened(tmp_path, size=(140, 40), link=telling(*story), catalog=trust_catalog(tmp_path)) as (app, _):
        assert cells(app, "#tree", f"target {CHEAT_ID}")[1] == "✓ caught"


async def test_the_history_of_a_cheat_with_wrong_values_says_that_it_was_caught(tmp_path: Path) -> None:
    run = stored_trust(tmp_path, cheat="cheat", wrong=True)
    async with opened(tmp_path, size=(140, 40)) as (app, pilot):
        app.open_screen("history", target_id=run.target)
        await until(pilot, lambda: len(app.screen.query_one("#runs", LiveTable)._rows))
        assert cells(app, "#runs", run.id)[3] == "✓ caught"


async def test_a_cheat_that_came_through_is_called_missed_and_has_no_speed_up(tmp_path: Path) -> None:
    story = cheat_run_events()
    told_of = items(["baseline", "optimized", "cheat"], "nobody")
    end = heard.finished(
        run_id="01T", state="ok", validity="valid", verdict="faster", duration_ms=9.0, findings=told_of
    )
    story = heard.whole([*story[:-1], end])
    async with opened(tmp_path, size=(140, 40), link=telling(*story), catalog=trust_catalog(tmp_path)) as (app, pilot):
        assert cells(app, "#tree", f"target {CHEAT_ID}")[1] == "! 0 of 1"
        highlight(app, CHEAT_ID)
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")
        assert cells(app, "#rungs", "cheat")[2] == "! missed"
        await pilot.press("v")
        await until(pilot, lambda: screen_name(app) == "TrustScreen")
        assert cells(app, "#numbers", "cheat")[3] == "! not caught"


@pytest.mark.parametrize("key", ["r", "R"])
async def test_running_a_gallery_target_runs_its_cheats_and_asks_the_naive_harness(key: str, tmp_path: Path) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, CHEAT_ID)
        await pilot.press(key)
        await until(pilot, lambda: link.sent_of(requests.StartRuns))
        sent = link.sent_of(requests.StartRuns)[0]
        assert (sent.targets, sent.rungs, sent.naive) == ([CHEAT_ID], ["optimized", "cheat"], True)
        await pilot.press("escape")
        highlight(app, LESSON_ID)
        await pilot.press(key)
        await until(pilot, lambda: len(link.sent_of(requests.StartRuns)) == 2)
        assert (link.sent_of(requests.StartRuns)[1].rungs, link.sent_of(requests.StartRuns)[1].naive) == ([], None)


async def test_predictions_name_the_machine_that_the_stored_run_was_measured_on(tmp_path: Path) -> None:
    with Store.open(paths.database_file()) as store:
        environment = store.put_environment({"gpu": "NVIDIA H100 80GB HBM3"})
        run = planned(LESSON_ID, environment=environment)
        store.plan([run])
        store.finish(finished(run), {})
    link = make_link(gpu=False, told=False)
    async with opened(tmp_path, size=(140, 40), link=link, catalog=trust_catalog(tmp_path)) as (app, pilot):
        highlight(app, LESSON_ID)
        await until(pilot, lambda: "1.5x to 3x on H100: met, 2.00x" in seen(app, "#details"))
