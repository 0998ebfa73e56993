"""All lessons on one page, driven by keys over a fake engine and a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.style import Style
from textual.pilot import Pilot

from aisp.engine import paths
from aisp.engine.protocol import requests
from aisp.kernels.catalog.model import Catalog
from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.record import Comparison
from aisp.tui.app import Workbench
from aisp.tui.settings import Settings
from aisp.tui.widgets.ratiobar import Axis, ratio_bar
from tests.replacing import replace
from tests.store.examples import finding
from tests.tui.app_support import (
    keep,
    make_catalog,
    make_link,
    opened,
    screen_name,
    screen_text,
    told,
    until,
    write_target,
)
from tests.tui.live_support import check_snapshot, isolate

SLOWER = Comparison("optimized", "baseline", Verdict.SLOWER, 0.8, 0.79, 0.81, floor=0.004)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def filled(root: Path) -> Catalog:
    """A catalogue of which one lesson is faster, one slower on a CPU, one was caught, one failed, one never ran."""
    catalog = make_catalog(root, problems=False)
    state = paths.state_dir()
    by_name = {target.name: target for target in catalog.targets}
    wall = "2026-05-04T10:20:30+00:00"
    keep(state, "ch07:transpose", folder=by_name["transpose"].folder, device="cuda", case="default", wall=wall)
    keep(
        state, "ch05:collate", folder=by_name["collate"].folder, device="cpu", case="cpu", verdict=Verdict.SLOWER,
        comparisons=(SLOWER,), wall=wall, environment={"cpu": "AMD EPYC 7763 64-Core Processor"},
    )  # fmt: skip
    caught = finding("timing.wall_clock", "optimized", "caught", "0.4 ms by events, 9 ms by the clock")
    keep(
        state, "ch07:gather", folder=by_name["gather"].folder, device="cuda", case="default", wall=wall,
        validity=Validity.CAUGHT, verdict=Verdict.NONE, comparisons=(), findings=(caught,), manifest={"code": "c0de"},
    )  # fmt: skip
    keep(
        state, "labs/block_scaling:block_scaling", folder=by_name["block_scaling"].folder, wall=wall,
        state=State.USER_ERROR, reason="'(' was never closed", verdict=Verdict.NONE, comparisons=(), arms=(),
    )  # fmt: skip
    return catalog


def rows_of(app: Workbench) -> dict[str, str]:
    """The rows of lessons by their ids; of a lab by its chapter, since its id may be cut."""
    rows = [line[1:] for line in screen_text(app).splitlines() if line[1:].startswith(("ch0", "labs/"))]
    return {row.split()[0].partition(":")[0] if row.startswith("labs") else row.split()[0]: row for row in rows}


async def show(pilot: Pilot[None], app: Workbench) -> None:
    await until(pilot, lambda: len(app.board) == 4)
    await pilot.press("O")
    await until(pilot, lambda: screen_name(app) == "LessonsScreen")
    await until(pilot, lambda: "ch07:transpose" in app.screen._answers)  # type: ignore[attr-defined]
    await pilot.pause()


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 40), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_page_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size, catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        drawn = screen_text(app)
    check_snapshot(request, f"lessons_{size[0]}x{size[1]}", drawn)


async def test_a_figure_that_may_not_be_shown_is_not_drawn(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        rows = rows_of(app)
        assert "●" in rows["ch07:transpose"] and "2.00x" in rows["ch07:transpose"]
        assert "⊘ caught" in rows["ch07:gather"]
        for name in ("ch07:gather", "ch07:scan", "labs/block_scaling"):
            assert "●" not in rows[name] and "━" not in rows[name]
        app.screen.table.move_to("ch07:gather")  # type: ignore[attr-defined]
        await pilot.pause()
        assert "timing.wall_clock: 0.4 ms by events" in screen_text(app)


async def test_a_prediction_is_answered_on_its_hardware_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        rows = rows_of(app)
    assert "1.5..3.0x met" in rows["ch07:transpose"]
    assert "1.5..3.0x on H100" in rows["ch05:collate"]


async def test_s_sorts_o_chooses_and_the_title_says_both(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        assert "Lessons by chapter: 5" in screen_text(app)
        await pilot.press("s")
        await pilot.pause()
        assert "Lessons by speed-up: 5" in screen_text(app)
        assert app.screen.target_id == "ch07:transpose"  # type: ignore[attr-defined]
        titles = []
        for _ in range(7):
            await pilot.press("o")
            await pilot.pause()
            titles.append(screen_text(app).split("Lessons by speed-up")[1].split(" ─")[0])
        assert titles == [
            ", only: can be timed here: 4 of 5",
            ", only: not run: 1 of 5",
            ", only: less than predicted: 0 of 5",
            ", only: prediction missed: 0 of 5",
            ", only: not faster: 1 of 5",
            ", only: failed or doubted: 2 of 5",
            ": 5",
        ]
        for _ in range(4):
            await pilot.press("s")
        await pilot.pause()
        assert "Lessons by chapter: 5" in screen_text(app)


async def test_nothing_left_says_what_brings_rows_back(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        await pilot.press("o", "o", "slash", *"epyc")
        await pilot.pause()
        assert "No lesson is left by “epyc” and not run; escape clears the words, o shows another choice" in (
            screen_text(app)
        )
        await pilot.press("escape")
        await pilot.pause()
        assert "only: not run: 1 of 5" in screen_text(app)


async def test_words_filter_as_one_types_and_escape_brings_all_back_before_it_leaves(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        await pilot.press("slash", *"epyc slower")
        await pilot.pause()
        assert "with “epyc slower”: 1 of 5" in screen_text(app)
        await pilot.press("enter")
        assert app.screen.target_id == "ch05:collate"  # type: ignore[attr-defined]
        await pilot.press("escape")
        await pilot.pause()
        assert "Lessons by chapter: 5" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")


@pytest.mark.parametrize(
    ("key", "screen"),
    [
        ("enter", "LessonScreen"),
        ("d", "DiffScreen"),
        ("t", "HistoryScreen"),
        ("v", "TrustScreen"),
        ("w", "WatchScreen"),
    ],
)
async def test_keys_about_a_lesson_work_as_everywhere(tmp_path: Path, key: str, screen: str) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        app.screen.table.move_to("ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press(key)
        await until(pilot, lambda: screen_name(app) == screen)
        await until(pilot, lambda: getattr(app.screen, "target_id", "") == "ch07:transpose")


@pytest.mark.parametrize(("key", "quick"), [("r", True), ("R", False)])
async def test_r_and_R_run_the_highlighted_lesson(tmp_path: Path, key: str, quick: bool) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=link) as (app, pilot):
        await show(pilot, app)
        app.screen.table.move_to("ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press(key)
        await until(pilot, lambda: screen_name(app) == "RunScreen")
    sent = link.sent_of(requests.StartRuns)
    assert [(request.targets, request.quick) for request in sent] == [(["ch07:transpose"], quick)]


async def test_O_opens_it_from_a_screen_about_one_lesson_and_comes_back_there(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")
        await pilot.press("O")
        await until(pilot, lambda: screen_name(app) == "LessonsScreen")
        assert [type(screen).__name__ for screen in app.screen_stack[1:]] == ["HomeScreen", "LessonsScreen"]


async def test_y_copies_the_rows_that_are_shown(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(80, 24), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        await pilot.press("y")
        await until(pilot, lambda: "Copied 5 lines" in told(app))
    copied = (paths.state_dir() / "clipboard.txt").read_text("utf-8").splitlines()
    assert copied[1].startswith("ch07:transpose  faster  2.00x [1.96..2.04]  1.5..3.0x met  82 %  ")


async def test_what_goes_on_is_said_in_its_row(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: screen_name(app) == "LessonsScreen")
        await until(pilot, lambda: "● running" in screen_text(app))
        await pilot.press("slash", *"running")
        await pilot.pause()
        assert app.screen.target_id == "labs/block_scaling:block_scaling"  # type: ignore[attr-defined]


async def test_ascii_and_no_colour_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    catalog, link = filled(tmp_path), make_link(told=False)
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=link, settings=Settings(graph="ascii")) as (
        app,
        pilot,
    ):
        await show(pilot, app)
        rows = rows_of(app)
    assert "^ faster" in rows["ch07:transpose"] and "==" in rows["ch07:transpose"] and "o." in rows["ch07:transpose"]
    assert "# caught" in rows["ch07:gather"]


async def test_two_hundred_lessons_scroll_without_working_out_a_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = tuple(write_target(tmp_path, "ch05", f"lesson_{number:03}") for number in range(200))
    catalog = replace(make_catalog(tmp_path / "more", problems=False), targets=targets)
    async with opened(tmp_path, size=(80, 24), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await pilot.press("O")
        await until(pilot, lambda: screen_name(app) == "LessonsScreen")
        await until(pilot, lambda: "lesson_000" in screen_text(app))
        screen = app.screen
        worked_out: list[str] = []
        drawing = type(screen)._cell  # type: ignore[attr-defined]

        def counted(self: object, lesson: object, *more: object) -> object:
            worked_out.append(lesson.target.id)  # type: ignore[attr-defined]
            return drawing(self, lesson, *more)

        monkeypatch.setattr(type(screen), "_cell", counted)
        await pilot.press("G", "g", *["j"] * 30, "pagedown", "pageup", "G")
        screen.refresh_from({"runs"})  # type: ignore[attr-defined]
        await pilot.pause()
        assert "lesson_199" in screen_text(app)
    assert worked_out == []


# -- the bar -----------------------------------------------------------------------------------------------------------


def bar(figure: tuple[float, float | None, float | None] | None, predicted: tuple[float, float] | None = None) -> str:
    axis = Axis(0.5, 8.0, 17)  # four cells for a doubling
    return ratio_bar(axis, figure, predicted, style=Style(), behind=Style(), ascii=False).plain


@pytest.mark.parametrize(
    ("figure", "predicted", "drawn"),
    [
        (None, None, "    │            "),
        ((2.0, None, None), None, "    ━━━━●        "),
        ((2.0, 1.7, 2.4), None, "    ━━━├●┤       "),
        ((0.5, 0.5, 0.6), None, "●┤━━━            "),
        ((2.0, None, None), (2.0, 4.0), "    ━━━━●░░░░    "),
        (None, (2.0, 4.0), "    │   ░░░░░    "),
        ((100.0, 90.0, 110.0), None, "    ━━━━━━━━━━━━▶"),
        ((0.01, 0.009, 0.011), None, "◀━━━━            "),
        ((1.0, 0.99, 1.01), None, "    ●            "),
    ],
)
def test_a_bar_goes_from_one_to_the_figure(
    figure: tuple[float, float | None, float | None] | None, predicted: tuple[float, float] | None, drawn: str
) -> None:
    assert bar(figure, predicted) == drawn


def test_a_label_stands_over_its_cell_and_one_that_has_no_room_is_left_out() -> None:
    axis = Axis(0.5, 8.0, 17)
    assert axis.scale((0.5, 1.0, 2.0)) == "    1x  2x       "
    assert axis.scale((1.0, 8.0)) == "    1x         8x"
    assert Axis(0.5, 8.0, 4).scale((0.5, 1.0, 8.0)).count("x") == 1


async def test_a_renamed_lesson_keeps_its_result_in_the_app(tmp_path: Path) -> None:
    catalog = filled(tmp_path / "catalog")
    renamed = replace(catalog.find("ch07:transpose"), id="ch07:turned", name="turned", formerly=("ch07:transpose",))
    targets = tuple(renamed if one.id == "ch07:transpose" else one for one in catalog.targets)
    async with opened(tmp_path, catalog=replace(catalog, targets=targets)) as (app, pilot):
        await until(pilot, lambda: len(app.board) == 4)
        last, attempt = app.last("ch07:turned", [])
        assert last is not None and attempt is None
        assert last.record.target == "ch07:transpose"
        await pilot.press("O")
        await until(pilot, lambda: "ch07:turned" in getattr(app.screen, "_answers", {}))
        assert "faster" in rows_of(app)["ch07:turned"] or "2.31" in rows_of(app)["ch07:turned"]
