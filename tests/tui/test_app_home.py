"""The catalogue screen, driven by keys over a fake engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual import events

from aisp.engine.protocol import requests
from aisp.kernels.catalog.model import Expectation, Goal, Kind, Needs
from aisp.store.outcomes import Verdict
from aisp.store.record import Comparison
from aisp.tui.app import Workbench
from aisp.tui.screens.details import Details, needs_text, paragraphs
from aisp.tui.settings import Settings
from tests.kernels.generated import write_collection
from tests.replacing import replace
from tests.store.examples import finished, planned
from tests.tui.app_support import (
    SIZES,
    fill_store,
    keep,
    make_catalog,
    make_link,
    opened,
    screen_name,
    screen_text,
    ship,
    told,
    until,
)
from tests.tui.fakes import gpu_run_events, quick_run_events
from tests.tui.live_support import check_snapshot, isolate

SLOWER = Comparison("optimized", "baseline", Verdict.SLOWER, 0.8, 0.79, 0.81)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_first_screen_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size) as (app, pilot):
        await pilot.press("G", "g", "j", "j", "j", "j", "j", "j")
        await until(pilot, lambda: "looking it up" not in screen_text(app))
        drawn = screen_text(app)
    check_snapshot(request, f"home_{size[0]}x{size[1]}", drawn)


async def test_the_details_begin_with_the_comparison_that_the_row_shows(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await until(pilot, lambda: "▲ 2.20x" in screen_text(app))
        drawn = screen_text(app)
    assert drawn.index("▲ 2.41x [2.39..2.43]") < drawn.index("▲ 2.20x [2.18..2.23]")


async def test_what_could_not_be_compared_has_no_verdict_and_says_why(tmp_path: Path) -> None:
    note = "baseline_compiled: needs a GPU"
    none = Comparison("optimized", "baseline_compiled", Verdict.NONE, None, None, None, note=note)
    keep(tmp_path / "state", comparisons=(SLOWER, none), verdict=Verdict.SLOWER)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await until(pilot, lambda: "– no verdict  optimized against baseline_compiled" in screen_text(app))
        assert note in screen_text(app) and "none  optimized" not in screen_text(app)


async def test_what_a_rung_could_not_be_compared_with_stands_on_one_line_with_its_reason_once(tmp_path: Path) -> None:
    items = [
        Comparison("optimized", base, Verdict.NONE, None, None, None, note="optimized: checked, not timed here")
        for base in ("baseline", "baseline_compiled")
    ]
    keep(tmp_path / "state", comparisons=tuple(items), verdict=Verdict.NONE)
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await until(pilot, lambda: "no verdict" in screen_text(app))
        words = " ".join(app.screen.query_one(Details).text.split())
        assert words.count("not timed here") == 1
        assert "no verdict optimized against baseline, baseline_compiled checked, not timed here" in words


async def test_the_last_column_says_what_became_known_while_another_screen_was_open(tmp_path: Path) -> None:
    async with opened(tmp_path, link=make_link(gpu=False)) as (app, pilot):
        status, app.model.status = app.model.status, None
        app._forward({"status"})
        await until(pilot, lambda: "of SOL" in screen_text(app))
        await pilot.press("F")
        await until(pilot, lambda: screen_name(app) == "FuzzScreen")
        app.model.status = status
        app._forward({"status"})
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen" and "  here" in screen_text(app))
        assert "of SOL" not in screen_text(app)


async def test_a_newcomer_at_80x24_sees_targets_results_details_and_keys(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.pause()
        drawn = screen_text(app)
    assert "▾ ch07" in drawn
    assert "▲ 2.41" in drawn and "94 %" in drawn  # verdict, speed-up and share of the speed of light
    assert "A transpose that reads" in drawn  # the highlighted target's summary
    footer = drawn.splitlines()[-1]
    for word in ("lesson", "run", "diff", "watch", "history", "help", "menu", "quit"):
        assert word in footer


async def test_every_row_says_how_its_target_stands(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, _):
        rows = {line.split("││")[0] for line in screen_text(app).splitlines()}
    by_name = {name: row for row in rows for name in ("collate", "gather", "scan", "transpose") if f"  {name}" in row}
    assert "? 1.01" in by_name["collate"]
    assert "error" in by_name["gather"]
    assert "needs sm_100" in by_name["scan"]
    assert "▲" in by_name["transpose"]
    assert any("● running" in row for row in rows)


@pytest.mark.parametrize("gpu", [True, False])
async def test_what_is_shipped_stands_where_there_is_no_result_and_says_where_it_is_of(
    tmp_path: Path, gpu: bool
) -> None:
    ship(tmp_path)
    async with opened(tmp_path, link=make_link(gpu=gpu, told=False), size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: "26x on H200" in screen_text(app))
        await pilot.press("slash", *"gather", "enter")
        await until(pilot, lambda: "shipped    optimized 26x, 0.1285 ms on NVIDIA H200" in screen_text(app))
        drawn = screen_text(app)
        assert "Not run yet" in drawn
        assert "dim: shipped, measured elsewhere" in drawn
        cells = app.screen.table.row("target ch07:gather")  # type: ignore[attr-defined]
        assert any("dim" in str(cell.style) for cell in cells if str(cell) == "26x on H200")
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen" and "on H200" in screen_text(app))
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "shipped: optimized 26x, 0.1285 ms on" in screen_text(app))


async def test_a_result_of_ones_own_stands_before_what_is_shipped(tmp_path: Path) -> None:
    ship(tmp_path)
    keep(tmp_path / "state", "ch07:gather")
    async with opened(tmp_path, link=make_link(told=False), size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: app.shipped and app.board)
        drawn = screen_text(app)
    assert "H200" not in drawn
    assert "shipped" not in drawn


async def test_without_a_gpu_the_catalogue_says_what_can_be_done_here_and_o_shows_it_alone(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    collate, transpose, *rest = catalog.targets
    triton = replace(transpose, rungs=tuple(replace(rung, kind=Kind.TRITON) for rung in transpose.rungs))
    catalog = replace(catalog, targets=(collate, triton, *rest))
    async with opened(tmp_path, link=make_link(gpu=False, told=False), catalog=catalog) as (app, pilot):
        drawn = screen_text(app)
        here = {
            line.split()[1]: line.split("││")[0].split()[-1] for line in drawn.splitlines() if line.startswith("│  ")
        }
        assert here["collate"] == "timed"
        assert here["transpose"] == "checked"
        assert here["scan"] == "GPU"
        assert "of SOL" not in drawn
        assert "3 of 5 can be timed here" in drawn
        await pilot.press("o")
        await until(pilot, lambda: "only: can be timed here: 3" in screen_text(app))
        assert "transpose" not in screen_text(app)
        assert app.screen.target_id == "ch05:collate"  # type: ignore[attr-defined]
        await pilot.press("escape")
        await until(pilot, lambda: "only:" not in screen_text(app))


async def test_typing_filters_and_escape_brings_everything_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("slash", *"trans")
        await pilot.pause()
        filtered = screen_text(app)
        assert "Targets with “trans”: 1" in filtered
        assert "transpose" in filtered and "collate" not in filtered.split("Targets")[1].split("│ ch")[0]
        assert app.screen.target_id == "ch07:transpose"  # type: ignore[attr-defined]
        await pilot.press("enter", "r")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        await pilot.press("escape")
        await pilot.press("escape")
        await pilot.pause()
        assert "collate" in screen_text(app)


@pytest.mark.parametrize("screen", ["home", "lessons"])
async def test_words_that_come_in_one_piece_with_their_slash_are_all_typed(tmp_path: Path, screen: str) -> None:
    """A slow line, or a person who types ahead: the letters are there before the list has lost the focus."""
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.open_screen(screen)
        await pilot.pause()
        for letter in "/trans":
            app.post_message(events.Key("slash" if letter == "/" else letter, letter))
        await until(pilot, lambda: "“trans”" in screen_text(app))


@pytest.mark.parametrize("screen", ["home", "lessons"])
async def test_while_words_are_typed_the_footer_names_no_letters(tmp_path: Path, screen: str) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.open_screen(screen)
        await pilot.pause()
        before = screen_text(app).splitlines()[-1]
        await pilot.press("slash", "t")
        await until(pilot, lambda: screen_text(app).splitlines()[-1] == " ⏎ keep  ^q quit  ^p menu  esc clear")
        await pilot.press("enter")
        await until(pilot, lambda: "⏎ lesson" in screen_text(app) and "esc clear" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: screen_text(app).splitlines()[-1] == before)


async def test_the_filter_highlights_its_first_match_wherever_the_cursor_was(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("G", "slash", *"ch07")
        await pilot.pause()
        assert app.screen.target_id == "ch07:transpose"  # type: ignore[attr-defined]
        await pilot.press("enter", "j", "escape")
        await pilot.pause()
        assert app.screen.target_id == "ch07:gather"  # type: ignore[attr-defined]
        assert "collate" in screen_text(app)


async def test_not_run_yet_is_not_said_before_the_store_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = asyncio.Event()

    async def slow(self: Workbench) -> None:
        await reading.wait()
        await load(self)

    load = Workbench._load_board
    monkeypatch.setattr(Workbench, "_load_board", slow)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.pause()
        assert "Reading earlier results" in screen_text(app) and "Not run yet" not in screen_text(app)
        reading.set()
        await until(pilot, lambda: "Not run yet" in screen_text(app))


async def test_a_folded_chapter_keeps_its_title_at_80_columns(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("minus")
        await until(pilot, lambda: "▸ ch05 Storage and input (1)" in screen_text(app))


async def test_a_filter_finds_techniques_and_says_when_nothing_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        await pilot.press("slash", *"vector")
        await pilot.pause()
        assert app.screen.target_id == "ch07:gather"  # type: ignore[attr-defined]
        await pilot.press("escape", "slash", *"storage")  # a word of the chapter's title
        await pilot.pause()
        assert app.screen.target_id == "ch05:collate"  # type: ignore[attr-defined]
        await pilot.press(*"zzz")
        await pilot.pause()
        assert "No target is left by" in screen_text(app)


async def test_a_malformed_target_stands_under_problems_with_file_key_and_fix(tmp_path: Path) -> None:
    ids = write_collection(tmp_path / "mine", 4)
    broken = next((tmp_path / "mine").glob("ch02*/*/lesson.md"))
    broken.write_text(broken.read_text().replace("M = ", "M = not_a_number #", 1))
    app = Workbench(tmp_path / "mine", link=make_link(told=False), settings=Settings(graph="braille"))  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.catalog is not None)
        assert app.catalog is not None
        assert len(app.catalog.targets) == len(ids) - 1
        await pilot.press("g")
        await pilot.pause()
        drawn = screen_text(app)
        assert "Problems (1)" in drawn
        await pilot.press("j")
        await pilot.pause()
        drawn = screen_text(app)
        problem = app.catalog.problems[0]
        assert "lesson.md" in drawn and "found" in drawn and "fix" in drawn
        assert problem.fix.split()[0] in drawn


async def test_folding_hides_a_chapter_and_unfolding_shows_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        table = app.screen.table  # type: ignore[attr-defined]
        table.move_to("target ch07:gather")
        await pilot.press("left")
        await pilot.pause()
        assert table.cursor_key == "chapter ch07" and table.row("target ch07:gather") is None
        await pilot.press("right")
        await pilot.pause()
        assert table.row("target ch07:gather") is not None
        await pilot.press("enter")
        await pilot.pause()
        assert table.row("target ch07:gather") is None
        await pilot.press("space", "minus")
        await pilot.pause()
        assert table.row("target ch05:collate") is None
        await pilot.press("minus")
        await pilot.pause()
        assert table.row("target ch05:collate") is not None


async def test_r_and_shift_r_plan_runs_from_the_targets_own_collection(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.screen.table.move_to("target ch07:gather")  # type: ignore[attr-defined]
        await pilot.press("r")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        await pilot.press("escape", "R")
        await until(pilot, lambda: len(link.sent_of(requests.StartRuns)) == 2)
    quick, full = link.sent_of(requests.StartRuns)
    assert (quick.targets, quick.quick, quick.trigger) == (["ch07:gather"], True, "tui")
    assert quick.roots == [str(tmp_path)]
    assert (full.targets, full.quick) == (["ch07:gather"], False)


async def test_r_on_a_chapter_runs_all_its_targets(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.screen.table.move_to("chapter ch07")  # type: ignore[attr-defined]
        await pilot.press("r")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("enter")
        await until(pilot, lambda: link.sent_of(requests.StartRuns))
    assert link.sent_of(requests.StartRuns)[0].targets == ["ch07:transpose", "ch07:gather", "ch07:scan"]


async def test_x_cancels_the_running_run_of_the_target(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.screen.table.move_to("target labs/block_scaling:block_scaling")  # type: ignore[attr-defined]
        await pilot.press("x")
        await until(pilot, lambda: link.sent_of(requests.Cancel))
        app.screen.table.move_to("target ch07:gather")  # type: ignore[attr-defined]
        await pilot.press("x")
        await pilot.pause()
        assert "Nothing of this target" in told(app)
    assert [cancel.run_id for cancel in link.sent_of(requests.Cancel)] == ["01J"]


async def test_a_refused_run_says_why(tmp_path: Path) -> None:
    from aisp.engine.protocol import events

    link = make_link(replies={requests.StartRuns: events.Reply(to=1, error="the queue is full; cancel a run first")})
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: "the queue is full" in told(app))
        assert screen_name(app) == "HomeScreen"


async def test_stored_results_appear_without_an_engine(tmp_path: Path) -> None:
    fill_store("ch07:transpose", runs=4)
    link = make_link(told=False, connected=False)
    app = Workbench(link=link, catalog=make_catalog(tmp_path), settings=Settings(graph="braille"))  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.board)
        drawn = screen_text(app)
        assert "▲ 3.00" in drawn and "82 %" in drawn
        assert "engine connecting" in drawn
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.pause()
        assert "3.00x [2.94..3.06]" in screen_text(app)


async def test_a_run_that_ends_while_one_looks_changes_its_row(tmp_path: Path) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, link=link) as (app, pilot):
        assert "2.31" not in screen_text(app)
        link.push(*quick_run_events(target="ch05:collate", run_id="09A"))
        await until(pilot, lambda: "▲ 2.31" in screen_text(app))


def flowing(app: Workbench) -> str:
    """The screen's text as one line."""
    return " ".join(app.screen.copy_text().split())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "1.5x to 3x on H100: met, 2.00x"),
        ({"environment": {"gpu": "NVIDIA H200"}}, "not measured there; 2.00x on NVIDIA H200"),
        ({"device": "cpu", "case": "cpu"}, "not measured there; 2.00x on a CPU"),
        ({"case": "large"}, "1.5x to 3x on H100: not measured yet"),
    ],
    ids=["met", "another GPU", "the CPU", "another case"],
)
async def test_predictions_are_met_missed_or_not_measured_there(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    keep(tmp_path / "state", **changes)
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await until(pilot, lambda: said in flowing(app))
        assert ("full, cuda, case large" in flowing(app)) is (changes.get("case") == "large")


async def test_a_prediction_is_looked_up_anew_once_a_run_has_ended(tmp_path: Path) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await until(pilot, lambda: "on H100: not measured yet" in flowing(app))
        keep(tmp_path / "state", id="G1")
        link.push(*gpu_run_events())
        await until(pilot, lambda: "on H100: met, 2.00x" in flowing(app))


async def test_a_prediction_of_memory_says_how_much_was_saved(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    goal = {"goal": Goal.MEMORY, "expect": Expectation((0.5, 1.5), "H100", "half of it is kept", (3.0, 10.0))}
    targets = tuple(replace(t, **goal) if t.id == "ch07:transpose" else t for t in catalog.targets)
    base, fast = finished(planned()).arms
    for peak_bytes, said in ((None, "0.800x as predicted, but memory was not measured"), (2**30, "met, 0.800x, 8.00x")):
        arms = (base, replace(fast, peak_bytes=peak_bytes))
        keep(tmp_path / "state", verdict=Verdict.NONE, arms=arms, comparisons=(SLOWER,))
        link = make_link(told=False)
        shown = replace(catalog, targets=targets)
        async with opened(tmp_path, catalog=shown, size=(120, 40), link=link) as (app, pilot):
            app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
            await until(pilot, lambda said=said: said in flowing(app))  # type: ignore[misc]


async def test_a_failed_run_shows_its_reason(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:gather")  # type: ignore[attr-defined]
        await pilot.pause()
        assert "optimized.py line 14 does not compile" in screen_text(app)


async def test_hostile_text_is_neither_markup_nor_escape(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    title = "[@click=app.quit]press[/] [/] \x1b]52;c;aGk=\x07 \x1b[31mred"
    evil = replace(catalog.targets[0], title=title, techniques=("[bold]x[/bold]",))
    catalog = replace(catalog, targets=(evil, *catalog.targets[1:]))
    async with opened(tmp_path, catalog=catalog, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch05:collate")  # type: ignore[attr-defined]
        await pilot.pause()
        drawn = screen_text(app)
        assert "[@click=app.quit]press[/]" in drawn and "[bold]x[/bold]" in drawn
        assert "\x1b" not in drawn
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")


async def test_a_chapters_readme_is_told_as_prose(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    readme = "# Memory\n\nReads **whole**\nlines of `128 B`.\n\n- one\n  more\n- two\n\n| a | b |\n|---|---|\n\nEnd.\n"
    chapters = (catalog.chapters[0], replace(catalog.chapters[1], readme=readme), catalog.chapters[2])
    async with opened(tmp_path, catalog=replace(catalog, chapters=chapters)) as (app, pilot):
        app.screen.table.move_to("chapter ch07")  # type: ignore[attr-defined]
        await pilot.pause()
        told_there = app.screen.copy_text()  # type: ignore[attr-defined]
    assert "3 targets; r runs them one after the other." in told_there
    assert "Reads whole lines of 128 B.\n\n- one more\n- two\n\nEnd." in told_there


def test_a_number_at_the_beginning_of_a_line_is_prose_and_a_numbered_item_is_not() -> None:
    assert paragraphs("Three numbers of an H100:\n132 SMs, 32 blocks.\n\n1. one\n   more\n12. two\n") == (
        "Three numbers of an H100: 132 SMs, 32 blocks.\n\n1. one more\n12. two"
    )


def test_needs_says_which_rungs_have_no_time_without_a_gpu(tmp_path: Path) -> None:
    target = make_catalog(tmp_path).find("ch07:transpose")
    plain, gpu = (replace(target.rungs[0], kind=Kind.TORCH), Needs(sm=80, gpus=1))
    triton = replace(plain, name="optimized", kind=Kind.TRITON)
    cuda = replace(plain, kind=Kind.CUDA, needs=gpu, gpu_only=True)
    assert needs_text(replace(target, rungs=(plain,))) == "nothing but a CPU"
    assert needs_text(replace(target, rungs=(plain, triton))) == "a CPU, which checks Triton and does not time it"
    assert needs_text(replace(target, rungs=(cuda, plain))) == "a CPU; for baseline a GPU, sm_80 or newer"
    assert needs_text(replace(target, rungs=(cuda, cuda, cuda, triton))) == (
        "a CPU, which checks Triton and does not time it; for baseline and 2 other rungs a GPU, sm_80 or newer"
    )
    newer = replace(cuda, name="optimized_newer", needs=Needs(sm=100, gpus=1))
    assert needs_text(replace(target, rungs=(cuda, newer, cuda, newer, plain))) == (
        "a CPU; for baseline and 1 other rung a GPU, sm_80 or newer; for optimized_newer and 1 other rung a GPU, "
        "sm_100 or newer"
    )
    assert needs_text(replace(target, needs=gpu)) == "a GPU, sm_80 or newer"


README = """# First kernels

What a kernel waits for.

| target | the question | limiter |
|---|:---:|---|
| `ch07:transpose` | Reads along **rows**, writes along columns: what does it cost? | HBM |
| `ch07:gather` | Who may [jump](there.md)? | the L2 |

Measured on one GPU.
"""


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
async def test_a_table_of_a_chapters_readme_is_told_row_by_row(size: tuple[int, int], tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    chapters = (catalog.chapters[0], replace(catalog.chapters[1], readme=README), catalog.chapters[2])
    async with opened(tmp_path, size=size, catalog=replace(catalog, chapters=chapters)) as (app, pilot):
        app.screen.table.move_to("chapter ch07")  # type: ignore[attr-defined]
        await pilot.pause()
        assert app.screen.copy_text().endswith(  # type: ignore[attr-defined]
            "What a kernel waits for.\n\n"
            "ch07:transpose\n  Reads along rows, writes along columns: what does it cost?\nlimiter: HBM\n"
            "ch07:gather\n  Who may jump?\nlimiter: the L2\n\n"
            "Measured on one GPU.\n"
        )
        lines = [line.split("││")[-1].strip("│▁▂▃▄▅▆▇█ ") for line in screen_text(app).splitlines()]
        at = lines.index("ch07:transpose")
        assert lines[at + 1].startswith("Reads along rows, writes along")
        assert "limiter: HBM" in lines[at + 2 : at + 5]
        assert "|" not in "".join(lines)


async def test_what_must_be_refused_is_said_to_be_run_by_no_key(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.pause()
        assert "No key runs what must be refused; its lesson says how to see it" in screen_text(app)


async def test_another_theme_draws_verdicts_in_its_own_colours(tmp_path: Path) -> None:
    def colours(app: Workbench) -> set[str]:
        return {
            segment.style.color.name
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.text.startswith("▲") and segment.style and segment.style.color
        }

    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.pause()
        dark = colours(app)
        app.set_theme("aisp-light")
        await until(pilot, lambda: colours(app) and not colours(app) & dark)
