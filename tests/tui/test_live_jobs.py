"""The screen of jobs: what runs, what waits, what is watched, and the keys that change that; the header's counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import State
from aisp.tui.jobs import all_done_s, batch_text
from aisp.tui.screens.base import KeyLine
from aisp.tui.widgets.table import LiveTable
from tests.tui.app_support import keep, make_link, opened, screen_name, screen_text, told, until
from tests.tui.fakes import NOW_NS, FakeLink, gpu_run_events, numbered, queue_item, status_event, watch_events
from tests.tui.live_support import SIZES, check_snapshot, isolate


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def after_s(seconds: float) -> int:
    """A moment on the clock of the fakes, so many seconds from now."""
    return NOW_NS + int(seconds * 1e9)


def queue(*order: str) -> events.QueueChanged:
    """One run under way and four jobs that wait, in this order."""
    known = {
        "G1": queue_item(
            "G1",
            "ch07:transpose",
            "running",
            title="A transpose that reads and writes whole cache lines",
            quick=False,
            device="cuda",
            began_ns=after_s(-12),
            expected_s=48.0,
        ),
        "P1": queue_item("P1", "ch07:gather", trigger="cli", device="cuda", expected_s=20.0, starts_ns=after_s(36)),
        "P2": queue_item("P2", "ch07:scan", quick=False, device="cuda", expected_s=200.0, starts_ns=after_s(56)),
        "P3": queue_item("P3", "ch05:collate", device="cuda", starts_ns=after_s(256)),
        "F1": queue_item("F1", "ch07:gather", kind="fuzz", device="cuda", quick=False),
        "C1": queue_item("C1", "peak", kind="peak", device="cuda", quick=False, trigger=""),
    }
    return events.QueueChanged(jobs=[known[job] for job in order or ("G1", "P1", "P2", "P3", "F1")])


def busy_link() -> FakeLink:
    """A run under way, four jobs that wait, and a watch."""
    link = FakeLink(numbered([*gpu_run_events(finished=False), *watch_events()]))
    link.engine_status = status_event(gpu=True)
    link.script([queue()])
    return link


def rows(app: object) -> list[list[str]]:
    """The table as words."""
    table = app.screen.query_one("#jobs", LiveTable)  # type: ignore[attr-defined]
    return [[str(cell) for cell in cells] for _, cells in table._rows]


@pytest.mark.parametrize("size", [*SIZES, (40, 12)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screen_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size, link=busy_link()) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: screen_name(app) == "JobsScreen")
        drawn = screen_text(app)
    check_snapshot(request, f"jobs_{size[0]}x{size[1]}", drawn)


async def test_what_runs_stands_first_then_what_waits_with_its_place_then_watches(tmp_path: Path) -> None:
    async with opened(tmp_path, link=busy_link()) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: screen_name(app) == "JobsScreen")
        assert [row[:7] for row in rows(app)] == [
            ["●", "ch07:transpose", "full run", "running", "12 s", "48 s", "██░░░░░░░░"],
            ["1", "ch07:gather", "quick run", "waiting", "", "20 s", "in 36 s"],
            ["2", "ch07:scan", "full run", "waiting", "", "3 min", "in 56 s"],
            ["3", "ch05:collate", "quick run", "waiting", "", "-", "in 4 min"],
            ["4", "ch07:gather", "fuzz", "waiting", "", "-", "-"],
            ["w", "ch05:collate", "watch", "5 edits", "", "", ""],
        ]
        assert "running for 12 s, measure; such a run took 48 s" in screen_text(app)
        await pilot.press("j")
        await until(
            pilot, lambda: "number 1 of those that wait; begins in 36 s; such a run took 20 s" in screen_text(app)
        )
        assert "asked by: command line; on cuda; P1" in screen_text(app)
        await pilot.press("j", "j", "j")
        await until(pilot, lambda: "when it begins cannot be said" in screen_text(app))


async def test_a_job_that_moves_on_is_no_longer_starting_although_the_queue_is_as_it_was(tmp_path: Path) -> None:
    link = busy_link()
    begun = queue_item("G2", "ch07:scan", "planned", device="cuda", began_ns=after_s(-30))
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        link.push(events.QueueChanged(jobs=[begun]))
        await until(pilot, lambda: [row[3] for row in rows(app)][:1] == ["starting"])
        link.push(events.RunState(run_id="G2", state=State.RUNNING, at_ns=after_s(0)))
        await until(pilot, lambda: [row[3] for row in rows(app)][:1] == ["running"])


async def test_the_list_follows_the_engine_without_asking(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 6)
        link.push(queue("G1", "P2"))
        await until(pilot, lambda: [row[1] for row in rows(app)][:2] == ["ch07:transpose", "ch07:scan"])
        link.push(queue("P2"), events.WatchChanged(target="ch05:collate", folder="/f", active=False))
        await until(pilot, lambda: len(rows(app)) == 1)
        link.push(events.QueueChanged(jobs=[]))
        await until(pilot, lambda: "Nothing is under way, waits or is watched" in screen_text(app))
        for key in ("enter", "x", "X", "u"):
            await pilot.press(key)
        await pilot.pause()
        assert "Nothing waits" in told(app)
    assert link.sent == []


@pytest.mark.parametrize(
    ("place", "screen"),
    [(0, "RunScreen"), (2, "RunScreen"), (4, "FuzzScreen"), (5, "CeilingsScreen"), (6, "WatchScreen")],
)
async def test_enter_opens_what_is_highlighted(tmp_path: Path, place: int, screen: str) -> None:
    link = busy_link()
    link.script([queue("G1", "P1", "P2", "P3", "F1", "C1")])
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 7)
        await pilot.press(*["j"] * place, "enter")
        await until(pilot, lambda: screen_name(app) == screen)
        if place == 2:
            assert app.screen.run_id == "P2"  # type: ignore[attr-defined]


async def test_u_moves_a_job_up_and_the_cursor_goes_with_it(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 6)
        await pilot.press("j", "j", "u")
        await until(pilot, lambda: link.sent_of(requests.MoveUp))
        link.push(queue("G1", "P2", "P1", "P3", "F1"))
        await until(pilot, lambda: rows(app)[1][:2] == ["1", "ch07:scan"])
        assert app.screen.query_one("#jobs", LiveTable).cursor_key == "job P2"
    assert [message.run_id for message in link.sent_of(requests.MoveUp)] == ["P2"]


async def test_u_says_why_a_job_cannot_be_moved_up(tmp_path: Path) -> None:
    link = busy_link()
    link.replies[requests.MoveUp] = events.Reply(to=0, error="runs go before fuzzes")
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 6)
        await pilot.press("j", "j", "j", "j", "u")
        await until(pilot, lambda: "Not moved up: runs go before fuzzes" in told(app))
        await pilot.press("j", "u")
        await until(pilot, lambda: "a watch has no place in the queue" in told(app))
    assert [message.run_id for message in link.sent_of(requests.MoveUp)] == ["F1"]


async def test_x_cancels_the_highlighted_job(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 6)
        await pilot.press("j", "x")
        await until(pilot, lambda: link.sent_of(requests.Cancel))
    assert [message.run_id for message in link.sent_of(requests.Cancel)] == ["P1"]


async def test_x_on_a_watch_asks_before_it_is_stopped(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 6)
        await pilot.press("G", "x")
        await until(pilot, lambda: "Stop watching ch05:collate?" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "JobsScreen")
        assert link.sent == []
        await pilot.press("x")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("enter")
        await until(pilot, lambda: link.sent_of(requests.StopWatch))
    assert [message.target for message in link.sent_of(requests.StopWatch)] == ["ch05:collate"]


async def test_X_cancels_what_waits_the_last_first_after_a_question(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: len(rows(app)) == 6)
        await pilot.press("X")
        await until(pilot, lambda: "Cancel all 4 jobs that wait?" in screen_text(app))
        await pilot.press("n")
        await until(pilot, lambda: screen_name(app) == "JobsScreen")
        assert link.sent_of(requests.Cancel) == []
        await pilot.press("X")
        await until(pilot, lambda: screen_name(app) == "ConfirmScreen")
        await pilot.press("y")
        await until(pilot, lambda: len(link.sent_of(requests.Cancel)) == 4)
    assert [message.run_id for message in link.sent_of(requests.Cancel)] == ["F1", "P3", "P2", "P1"]


# -- elsewhere ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "words"), [(80, "1 run · 4 wait · watch 1"), (120, "1 running · 4 waiting · watching 1")]
)
async def test_the_header_tells_jobs_and_watches_on_every_screen(tmp_path: Path, width: int, words: str) -> None:
    async with opened(tmp_path, size=(width, 30), link=busy_link()) as (app, pilot):
        for name, about_ in (("home", {}), ("lesson", {"target_id": "ch07:gather"}), ("jobs", {}), ("enginelog", {})):
            app.open_screen(name, **about_)
            await until(pilot, lambda: words in screen_text(app).splitlines()[0])


async def test_the_footer_names_the_key_where_there_is_room_and_last(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50)) as (app, pilot):
        keys = [binding.key for binding in app.screen.query_one(KeyLine).shown()]
        assert set(keys[keys.index("J") :]) <= {"J", "l", "slash", "question_mark", "ctrl+p", "ctrl+q", "q"}
        assert "J jobs" in screen_text(app).splitlines()[-1]
        await pilot.press("J")
        await until(pilot, lambda: screen_name(app) == "JobsScreen")
        assert "J jobs" not in screen_text(app).splitlines()[-1]


async def test_the_footer_names_what_can_be_done_with_what_is_highlighted(tmp_path: Path) -> None:
    def keys() -> list[str]:
        return [binding.id or "" for binding in app.screen.query_one(KeyLine).shown()][:4]

    link = busy_link()
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        await pilot.press("J")
        await until(pilot, lambda: keys() == ["open_job", "cancel", "cancel_waiting", "history"])  # under way
        await pilot.press("j")
        await until(pilot, lambda: "move_up" not in keys())  # the first that waits
        await pilot.press("j")
        await until(pilot, lambda: keys() == ["open_job", "cancel", "move_up", "cancel_waiting"])
        link.push(events.QueueChanged(jobs=[]))
        await until(pilot, lambda: keys()[:2] == ["open_job", "cancel"] and "cancel_waiting" not in keys())  # a watch
        link.push(events.WatchChanged(target="ch05:collate", folder="/f", active=False))
        await until(pilot, lambda: not {"open_job", "cancel", "move_up", "cancel_waiting"} & set(keys()))


async def test_a_gap_has_the_queue_asked_for(tmp_path: Path) -> None:
    link = busy_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        link.engine_status = status_event(gpu=True, queue=[queue_item("Z9")])
        link.push(events.Gap(first=900, last=950))
        await until(pilot, lambda: [job.run_id for job in app.model.queue] == ["Z9"])


async def test_enter_on_a_running_target_of_the_catalogue_opens_the_run(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=make_link()) as (app, pilot):
        app.screen.table.move_to("target labs/block_scaling:block_scaling")  # type: ignore[attr-defined]
        await until(pilot, lambda: "enter opens the run, x cancels" in screen_text(app))
        assert "⏎ open run" in screen_text(app).splitlines()[-1]
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        assert app.screen.run_id == "01J"  # type: ignore[attr-defined]
        await pilot.press("escape")
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await until(pilot, lambda: "⏎ lesson" in screen_text(app).splitlines()[-1])


async def test_a_full_stop_opens_the_run_under_way_of_the_target(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), link=make_link()) as (app, pilot):
        app.open_screen("lesson", target_id="labs/block_scaling:block_scaling")
        await until(pilot, lambda: "running: . opens the run" in screen_text(app))
        await pilot.press("full_stop")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        assert app.screen.run_id == "01J"  # type: ignore[attr-defined]
        app.open_screen("lesson", target_id="ch07:gather")
        await until(pilot, lambda: "Rungs and files" in screen_text(app))
        assert "opens the run" not in screen_text(app)
        await pilot.press("full_stop")
        await until(pilot, lambda: "No run of ch07:gather is under way or waits" in told(app))


async def test_a_chapter_is_queued_after_a_question_that_says_how_many_runs_and_how_long(tmp_path: Path) -> None:
    keep(tmp_path / "state", "ch07:transpose", folder=tmp_path / "ch07" / "transpose", duration_ms=90_000.0)
    link = make_link()
    async with opened(tmp_path, size=(120, 40), link=link) as (app, pilot):
        app.screen.table.move_to("chapter ch07")  # type: ignore[attr-defined]
        await pilot.press("R")
        await until(pilot, lambda: "Queue 3 full runs?" in screen_text(app))
        assert "About 90 s for 1 of them" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
        assert link.sent_of(requests.StartRuns) == []
        await pilot.press("r")
        await until(pilot, lambda: "Queue 3 quick runs?" in screen_text(app))
        assert "none of them has been run" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: link.sent_of(requests.StartRuns))
    (asked,) = link.sent_of(requests.StartRuns)
    assert (asked.targets, asked.quick) == (["ch07:transpose", "ch07:gather", "ch07:scan"], True)


async def test_one_target_is_run_without_a_question(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.screen.table.move_to("target ch07:gather")  # type: ignore[attr-defined]
        await pilot.press("r")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
    assert len(link.sent_of(requests.StartRuns)) == 1


def test_a_batch_is_said_to_take_as_long_as_its_last_runs_did() -> None:
    assert batch_text([30.0, 45.0]) == "About 75 s, as long as their last runs took."
    assert batch_text([30.0, None, 400.0]) == (
        "About 7 min for 2 of them, as long as their last runs took; nothing is known of the other 1."
    )
    assert batch_text([None]) == "How long that takes is not known: none of them has been run so before."


def test_when_all_is_done_is_known_only_where_every_job_is() -> None:
    assert all_done_s(queue("G1", "P1", "P2").jobs, NOW_NS) == 256.0
    assert all_done_s(queue("G1", "P1", "P2", "P3").jobs, NOW_NS) is None
    assert all_done_s([], NOW_NS) == 0.0
