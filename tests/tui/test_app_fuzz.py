"""The fuzz screen, driven by keys: cases as they stream, failures and all about them, start, stop, replay, store."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine.protocol import events, requests
from aisp.tui.app import Workbench
from aisp.tui.screens.fuzz import FuzzScreen
from aisp.tui.settings import Settings
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import LiveTable
from tests.tui.app_support import opened, screen_name, screen_text, told, until
from tests.tui.fakes import FakeLink, welcome_event
from tests.tui.fuzz_support import (
    SCRIPT,
    TARGET,
    case_event,
    failure_event,
    failure_record,
    fuzz_events,
    fuzz_link,
    fuzz_record,
    plan_event,
    remember_fuzz,
)
from tests.tui.live_support import check_snapshot, isolate


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.delenv("VISUAL", raising=False)


def tally(app: Workbench, rung: str) -> dict[str, str]:
    """A row of the tally by its columns' keys."""
    table = app.screen.query_one("#tally", LiveTable)
    return {column.key: str(cell) for column, cell in zip(table.columns, table.row(rung) or [], strict=True)}


def failures(app: Workbench) -> list[str]:
    """Ids of the failures in the list, as they stand."""
    table = app.screen.query_one("#failures", LiveTable)
    return [key for key, _ in table._rows]


def highlighted(app: Workbench) -> str | None:
    return app.screen.query_one("#failures", LiveTable).cursor_key


def text_of(app: Workbench, pane: str) -> str:
    """All lines of a pane, in sight or not."""
    return app.screen.query_one(pane, LogPane).text


async def show(app: Workbench, pilot: object, what: str = "right so far") -> FuzzScreen:
    """Open the screen of TARGET and wait until it says something."""
    app.open_screen("fuzz", target_id=TARGET)
    await until(pilot, lambda: what in screen_text(app))  # type: ignore[arg-type]
    assert isinstance(app.screen, FuzzScreen)
    return app.screen


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
async def test_capital_f_shows_the_fuzz_as_it_goes_on(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size, link=fuzz_link(*fuzz_events())) as (app, pilot):
        app.screen.table.move_to(f"target {TARGET}")  # type: ignore[attr-defined]
        await pilot.press("F")
        await until(pilot, lambda: "M=20" in screen_text(app) and "Failures" in screen_text(app))
        if size[0] == 200:
            await until(pilot, lambda: "not finite" in text_of(app, "#detail"))
        drawn = screen_text(app)
        wrong = tally(app, "wrong_tail")
        assert "1 run" in drawn.splitlines()[0]
        assert "2 rungs · cpu · seed 7" in drawn and "40 of 40 cases · 3 failing · 2 unsupported" in drawn
        assert (wrong["verdict"], wrong["failing"], wrong["by_strategy"]) == ("✗ wrong", "3", "boundary 3/4")
        assert tally(app, "optimized")["verdict"] == "right so far"
        assert text_of(app, "#cases").splitlines()[11] == (
            "✗     10000  boundary    wrong_tail       M=6 N=129 float16  values"
        )
        assert failures(app) == ["01X1"] and highlighted(app) == "01X1"
    check_snapshot(request, f"fuzz_{size[0]}x{size[1]}", drawn)


async def test_f_opens_it_from_the_lesson_too(tmp_path: Path) -> None:
    async with opened(tmp_path, link=fuzz_link(*fuzz_events())) as (app, pilot):
        app.open_screen("lesson", target_id=TARGET)
        await pilot.pause()
        await pilot.press("F")
        await until(pilot, lambda: screen_name(app) == "FuzzScreen" and "wrong_tail" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "LessonScreen")


async def test_cases_stream_in_and_the_newest_stay_in_sight(tmp_path: Path) -> None:
    link = fuzz_link(plan_event(cases=500))
    async with opened(tmp_path, link=link) as (app, pilot):
        await show(app, pilot, "waiting for cpu")
        assert "no case to show" in screen_text(app)
        link.push(*(case_event(number, "optimized") for number in range(300)))
        await until(pilot, lambda: "M=300 " in screen_text(app))
        assert "300 of 1,000 cases" in screen_text(app)
        # Two ticks draw each case once.
        link.push(*(case_event(number, "optimized") for number in range(300, 400)))
        await until(pilot, lambda: "M=400 " in screen_text(app))
        assert text_of(app, "#cases").count("M=350 ") == 1
        assert len(text_of(app, "#cases").splitlines()) == 400


async def test_the_newest_failure_is_highlighted_until_one_goes_to_another(tmp_path: Path) -> None:
    link = fuzz_link(*fuzz_events())
    async with opened(tmp_path, size=(200, 50), link=link) as (app, pilot):
        await show(app, pilot)
        link.push(failure_event("01X2", detail="the second"))
        await until(pilot, lambda: highlighted(app) == "01X2")
        assert failures(app) == ["01X2", "01X1"]
        assert "the second" in text_of(app, "#detail")
        await pilot.press("down")
        await until(pilot, lambda: "the second" not in text_of(app, "#detail"))
        link.push(failure_event("01X3"))
        await until(pilot, lambda: len(failures(app)) == 3)
        assert highlighted(app) == "01X1"
        await pilot.press("N")
        assert highlighted(app) == "01X2"
        await pilot.press("n")
        assert highlighted(app) == "01X1"


async def test_on_a_narrow_terminal_enter_puts_the_failure_in_the_place_of_the_cases(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, link=fuzz_link(*fuzz_events(finished=True))) as (app, pilot):
        await show(app, pilot, "done in 2.0 s")
        await pilot.press("enter")
        await until(pilot, lambda: "smallest M=1 N=129 float16 x:large" in screen_text(app))
        drawn = screen_text(app)
        assert "drawn    M=1021 N=129 float16 x:transposed,large" in drawn and "..........38##" in drawn
        assert "Cases" not in drawn and "the reference was computed in blocks" in drawn
        assert tally(app, "wrong_tail")["allclose"] == "accepts"
        await pilot.press("G")
        await until(pilot, lambda: "print(wrong_tail.run(x))" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "Cases" in screen_text(app))
        assert screen_name(app) == "FuzzScreen" and app.screen.focused is app.screen.query_one("#failures")
    check_snapshot(request, "fuzz_failure_80x24", drawn)


async def test_y_copies_the_script_and_s_shows_it_whole(tmp_path: Path) -> None:
    async with opened(tmp_path, link=fuzz_link(*fuzz_events())) as (app, pilot):
        await show(app, pilot)
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == SCRIPT
        await pilot.press("s")
        await until(pilot, lambda: "5 print(wrong_tail.run(x))" in screen_text(app))
        assert "Script of wrong_tail, M=1 N=129 float16 x:large" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "Cases" in screen_text(app))
        assert screen_name(app) == "FuzzScreen"


async def test_brackets_leave_one_rung_and_o_only_what_fails(tmp_path: Path) -> None:
    async with opened(tmp_path, link=fuzz_link(*fuzz_events())) as (app, pilot):
        await show(app, pilot)
        await pilot.press("o")
        await until(pilot, lambda: "Failing cases" in screen_text(app))
        assert len(text_of(app, "#cases").splitlines()) == 3
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "Failing cases of optimized" in screen_text(app))
        assert text_of(app, "#cases") == "" and failures(app) == []
        await pilot.press("y")  # nothing of this rung has failed: what is said of all
        assert "x wrong: wrong_tail" in app.clipboard and "+ right so far" not in app.clipboard
        await pilot.press("right_square_bracket", "o")
        await until(pilot, lambda: "Cases of wrong_tail" in screen_text(app))
        assert len(text_of(app, "#cases").splitlines()) == 20 and failures(app) == ["01X1"]
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: len(text_of(app, "#cases").splitlines()) == 40)


async def test_r_fuzzes_what_is_shown_and_x_stops_it(tmp_path: Path) -> None:
    link = fuzz_link(*fuzz_events(finished=True))
    async with opened(tmp_path, link=link) as (app, pilot):
        await show(app, pilot, "done in 2.0 s")
        assert "x stop" not in screen_text(app)
        await pilot.press("x", "r")
        await until(pilot, lambda: link.sent_of(requests.FuzzTarget))
        await pilot.press("left_square_bracket", "r")
        await until(pilot, lambda: len(link.sent_of(requests.FuzzTarget)) == 2)
        first, second = link.sent_of(requests.FuzzTarget)
        assert (first.target, first.cases, first.trigger, first.rungs) == (TARGET, 200, "tui", [])
        assert first.root == str(tmp_path) and second.rungs == ["wrong_tail"]
        link.push(*fuzz_events("01F2", cases=3))
        await until(pilot, lambda: "fuzz 2 of 2" in screen_text(app) and "running" in screen_text(app))
        assert "x stop" in screen_text(app)
        assert not link.sent_of(requests.Cancel)
        await pilot.press("x")
        await until(pilot, lambda: link.sent_of(requests.Cancel))
        assert link.sent_of(requests.Cancel)[0].run_id == "01F2"
        record = fuzz_record("01F2", state="cancelled", reason="asked for")
        link.push(events.FuzzFinished(fuzz=record))
        await until(pilot, lambda: "cancelled: asked for" in screen_text(app))
        assert "? stopped" in screen_text(app) and "✓ right" not in screen_text(app)
        assert "✗ wrong" in screen_text(app)  # that stays certain


async def test_a_fuzz_that_is_queued_already_is_followed_and_one_more_starts_after_a_question(tmp_path: Path) -> None:
    def reply(request: requests.FuzzTarget) -> events.Reply:
        return events.Reply(to=1, run_ids=["01F9"], joined=[] if request.again else ["01F9"])

    link = fuzz_link(*fuzz_events(cases=3), replies={requests.FuzzTarget: reply})
    async with opened(tmp_path, link=link) as (app, pilot):
        await show(app, pilot, "running")
        await pilot.press("r")
        await until(pilot, lambda: f"{TARGET}: already queued: following it" in told(app))
        assert "starts once its device is free" not in told(app)
        await pilot.press("r")
        await until(pilot, lambda: "Queue it once more?" in screen_text(app))
        await pilot.press("y")
        await until(pilot, lambda: "starts once its device is free" in told(app))
    assert [sent.again for sent in link.sent_of(requests.FuzzTarget)] == [False, False, True]


async def test_a_refused_fuzz_says_why_until_the_next(tmp_path: Path) -> None:
    refusal = events.Reply(to=1, error="ch07:transpose has no reference.py; write one")
    link = fuzz_link(replies={requests.FuzzTarget: refusal})
    async with opened(tmp_path, link=link) as (app, pilot):
        await show(app, pilot, "No fuzz of this target is stored yet")
        await pilot.press("r")
        await until(pilot, lambda: "The engine refused: ch07:transpose has no reference.py" in screen_text(app))
        link.push(*fuzz_events())
        await until(pilot, lambda: "not started: ch07:transpose has no reference.py" in screen_text(app))


async def test_p_does_the_failure_again_and_says_what_became_of_it(tmp_path: Path) -> None:
    link = fuzz_link(*fuzz_events(finished=True))
    async with opened(tmp_path, size=(200, 50), link=link) as (app, pilot):
        await show(app, pilot, "done in 2.0 s")
        await pilot.press("p")
        await until(pilot, lambda: "replay   waiting for the device" in text_of(app, "#detail"))
        assert link.sent_of(requests.ReplayFailure)[0].failure == "01X1"
        link.push(plan_event("01R1", what="replay", rungs=["wrong_tail"], cases=1))
        link.push(events.ReplayFinished(fuzz_id="01R1", failure="01X1", outcome="reproduced"))
        await until(pilot, lambda: "replay   reproduced: the same inputs" in text_of(app, "#detail"))
        assert "byte for byte" in told(app)
        assert "fuzz 2 of" not in screen_text(app)  # a replay is no fuzz
        # Once more, elsewhere: what is newest is told.
        link.replies[requests.ReplayFailure] = events.Reply(to=1, run_ids=["01R2"])
        await pilot.press("p")
        await until(pilot, lambda: "replay   waiting" in text_of(app, "#detail"))
        link.push(events.ReplayFinished(fuzz_id="01R2", failure="01X1", outcome="passes", differs=["triton 3.7"]))
        await until(pilot, lambda: "it passes now, on the same inputs (triton 3.7)" in text_of(app, "#detail"))
        # A replay that dies with the engine does not wait for ever.
        link.replies[requests.ReplayFailure] = events.Reply(to=1, run_ids=["01R3"])
        await pilot.press("p")
        link.push(plan_event("01R3", what="replay", rungs=["wrong_tail"], cases=1))
        link.push(welcome_event("ANOTHER"))
        await until(pilot, lambda: "it did not come to its end: the engine ended" in told(app))
        assert "it passes now" in text_of(app, "#detail")
        link.replies[requests.ReplayFailure] = events.Reply(to=1, error="no such failure")
        await pilot.press("p")
        await until(pilot, lambda: "The failure was not replayed: no such failure" in told(app))
        assert "waiting for the device" not in text_of(app, "#detail")


async def test_stored_fuzzes_are_shown_and_braces_go_through_them(tmp_path: Path) -> None:
    clean_rungs = tuple(rung for rung in fuzz_record().rungs if rung.rung == "optimized")
    newer = fuzz_record("01F5", seed=8, rungs=clean_rungs, notes=())
    remember_fuzz(fuzz_record(), failure_record())
    remember_fuzz(newer)
    async with opened(tmp_path, link=fuzz_link()) as (app, pilot):
        await show(app, pilot, "fuzz 2 of 2")
        assert "optimized · cpu · seed 8" in screen_text(app) and failures(app) == []
        assert "the store keeps the failing ones alone" in screen_text(app)
        await pilot.press("left_curly_bracket")
        await until(pilot, lambda: failures(app) == ["01X1"])
        assert "fuzz 1 of 2" in screen_text(app) and "seed 7" in screen_text(app)
        await pilot.press("left_curly_bracket")
        assert "There is no other fuzz on that side" in told(app)
        await pilot.press("right_curly_bracket")
        await until(pilot, lambda: "seed 8" in screen_text(app))


async def test_a_fuzz_whose_events_were_missed_gives_way_to_its_record(tmp_path: Path) -> None:
    link = fuzz_link(*fuzz_events(cases=5))
    async with opened(tmp_path, link=link) as (app, pilot):
        await show(app, pilot)
        link.push(events.Gap(first=10, last=90))
        await until(pilot, lambda: "events missed" in screen_text(app))
        assert failures(app) == []
        remember_fuzz(fuzz_record(), failure_record(detail="from the store"))
        link.push(events.FuzzFinished(fuzz=fuzz_record()))
        await until(pilot, lambda: failures(app) == ["01X1"])
        assert "from the store" in text_of(app, "#detail") and "done in 2.0 s" in screen_text(app)


async def test_a_target_that_was_never_fuzzed_says_what_to_press(tmp_path: Path) -> None:
    async with opened(tmp_path, link=fuzz_link()) as (app, pilot):
        await show(app, pilot, "r  tries all its rungs on 200 drawn cases")
        assert "aispfuzz/" in "".join(screen_text(app).split())
        footer = screen_text(app).splitlines()[-1]
        assert "r fuzz" in footer and not {"read", "script", "replay", "failing"} & set(footer.split())
        for key in ("enter", "s", "y", "p", "o", "n", "right_square_bracket", "left_curly_bracket"):
            await pilot.press(key)
        assert screen_name(app) == "FuzzScreen" and "There is no fuzz yet" in told(app)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")


async def test_a_terminal_of_7_bits_shows_all_of_it(tmp_path: Path) -> None:
    link = fuzz_link(*fuzz_events(finished=True))
    async with opened(tmp_path, size=(200, 50), link=link, settings=Settings(graph="ascii")) as (app, pilot):
        await show(app, pilot, "done in 2.0 s")
        await until(pilot, lambda: "not finite" in text_of(app, "#detail"))
        assert text_of(app, "#cases").isascii() and text_of(app, "#detail").isascii()
        assert tally(app, "wrong_tail")["verdict"] == "x wrong" and "2 rungs | cpu | seed 7" in screen_text(app)


EVIL = "\x1b]52;c;aGk=\x07[@click=app.quit]x[/] [bold"


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
async def test_what_a_kernel_says_is_drawn_as_text(size: tuple[int, int], tmp_path: Path) -> None:
    story = [
        plan_event(rungs=[EVIL], device=EVIL, strategies=[EVIL]),
        case_event(0, EVIL, strategy=EVIL, case=EVIL, verdict="wrong", finding=EVIL, max_error=None),
        failure_event(rung=EVIL, detail=EVIL, finding=EVIL, output=EVIL, region=(EVIL,), script=EVIL),
        events.FuzzFinished(fuzz=fuzz_record(notes=(EVIL,), device=EVIL)),
    ]
    async with opened(tmp_path, size=size, link=fuzz_link(*story)) as (app, pilot):
        await show(app, pilot, "\u241b]52")
        drawn = screen_text(app)
        for key in ("enter", "s", "y"):
            await pilot.press(key)
            await pilot.pause(0.05)
            drawn += screen_text(app)
        assert app.is_running and "[@click=app.quit]x[/]" in drawn
        assert not [sign for sign in ("\x1b", "\x07") if sign in drawn + app.clipboard + told(app)]


async def test_without_colour_every_verdict_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    verdicts = ["right", "wrong", "unsupported", "error", "crashed", "timeout", "memory", "skipped"]
    story = [plan_event(), *(case_event(n, "optimized", verdict=word) for n, word in enumerate(verdicts))]
    async with opened(tmp_path, size=(120, 40), link=fuzz_link(*story)) as (app, pilot):
        await show(app, pilot, "skipped")
        lines = text_of(app, "#cases").splitlines()
        assert [line.split()[:2] for line in lines] == [
            ["✓", "0.250"], ["✗", "0.250"], ["–", "n/a"], ["!", "error"], ["!", "crashed"], ["!", "timeout"],
            ["?", "memory"], ["?", "skipped"],
        ]  # fmt: skip


@pytest.mark.slow
async def test_every_key_of_the_footer_does_something(tmp_path: Path) -> None:
    link: FakeLink = fuzz_link(*fuzz_events(finished=True))
    async with opened(tmp_path, size=(200, 50), link=link) as (app, pilot):
        from aisp.tui.screens.base import KeyLine

        await show(app, pilot, "done in 2.0 s")
        keys = [
            binding.key
            for binding in app.screen.query_one(KeyLine).shown()
            if binding.key not in ("escape", "q", "ctrl+q")
        ]
        assert "x" not in keys
        assert {"r", "p", "s", "y", "o", "enter", "right_square_bracket", "left_curly_bracket"} <= set(keys)

        def state() -> tuple[object, ...]:
            return len(app.screen_stack), screen_text(app), told(app), len(link.sent), app.screen.focused

        for key in keys:
            if screen_name(app) != "FuzzScreen" or app.screen.has_class("-script"):
                await pilot.press("escape")
            app.clear_notifications()
            await pilot.pause()
            before = state()
            await pilot.press("L" if key == "l" else key)  # where l scrolls the footer says L
            await until(pilot, lambda before=before: state() != before)  # type: ignore[misc]
            if key == "slash":
                await pilot.press("escape")
