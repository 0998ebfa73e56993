"""A suite on one page, driven by keys over a fake engine and a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from aisp.engine import paths
from aisp.engine.protocol import requests
from aisp.kernels.catalog import contracts
from aisp.kernels.catalog.model import Catalog
from aisp.store import new_ulid, suites
from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.record import Comparison
from aisp.store.results import regression, suite_documents
from aisp.store.results.comparison import side
from aisp.store.results.suite_documents import Pass
from aisp.tui.app import Workbench
from aisp.tui.cli.stored import Opened
from aisp.tui.screens.suite import SuiteScreen
from aisp.tui.settings import Settings
from tests.replacing import replace
from tests.store.examples import beside_others, finding, finished, planned
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
from tests.tui.fakes import FakeLink, numbered, quick_run_events
from tests.tui.live_support import check_snapshot, isolate

TRANSPOSE, GATHER, COLLATE = "ch07:transpose", "ch07:gather", "ch05:collate"
BLOCK = "labs/block_scaling:block_scaling"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def ran(catalog: Catalog, target_id: str, speedup: float, day: int, **changes: Any) -> str:
    """A run of a day in May whose baseline is the control, by its id."""
    like = finished(planned(target_id), speedup=speedup)
    base, best = (replace(arm, sm_clock_mhz=1755.0) for arm in like.arms)
    base = replace(base, sources="b" * 64)
    best = replace(best, sources=changes.pop("code", "c1") * 32, low_ms=0.998 / speedup, high_ms=1.002 / speedup)
    ratio = Comparison("optimized", "baseline", Verdict.FASTER, speedup, speedup * 0.998, speedup * 1.002, floor=0.004)
    run = keep(
        paths.state_dir(), target_id, folder=catalog.find(target_id).folder, device="cuda", case="default",
        wall=f"2026-05-{day:02d}T10:20:30+00:00",
        **{"arms": (base, best), "comparisons": (ratio,), "manifest": {"code": str(best.sources)}, **changes},
    )  # fmt: skip
    return run.id


def filled(root: Path) -> Catalog:
    """A catalogue with two suites, of whose targets one became slower, one faster, one was caught and one never ran."""
    catalog = make_catalog(root, problems=False)
    (root / "suites").mkdir()
    (root / "suites" / "mine.toml").write_text(
        'title = "What we ship"\n'
        f'targets = ["{TRANSPOSE}", "{GATHER}", "{COLLATE}", "{BLOCK}", "ch07:scan"]\n'
        "mode = { replicas = 7 }\n"
        f'[per."{GATHER}"]\ncase = "default"\nrungs = ["optimized"]\n',
        "utf-8",
    )
    (root / "suites" / "quickly.toml").write_text(
        f'title = "A look"\ntargets = ["{TRANSPOSE}", "ch07:gone"]\nmode = {{ quick = true }}\n', "utf-8"
    )
    for day, speedup in enumerate((2.0, 2.004, 1.998, 2.001), 1):
        ran(catalog, TRANSPOSE, speedup, day)
    ran(catalog, TRANSPOSE, 1.94, 5, code="c2")
    ran(catalog, GATHER, 1.5, 1)
    ran(catalog, GATHER, 1.6, 2, code="c3")
    caught = finding("timing.wall_clock", "optimized", "caught", "0.4 ms by events, 9 ms by the clock")
    ran(catalog, COLLATE, 1.2, 1)
    ran(
        catalog, COLLATE, 9.9, 2, validity=Validity.CAUGHT, verdict=Verdict.NONE, comparisons=(), findings=(caught,),
        manifest={"code": "c0de"},
    )  # fmt: skip
    ran(catalog, BLOCK, 1.7, 1)
    ran(catalog, BLOCK, 1.7, 2, environment={"gpu": "NVIDIA H200", "cpu": "a CPU"})
    return catalog


async def show(pilot: Pilot[None], app: Workbench, suite: str = "mine") -> SuiteScreen:
    """The screen with a suite, all of it read."""
    await until(pilot, lambda: app.board_read)
    await pilot.press("B")
    await until(pilot, lambda: screen_name(app) == "SuiteScreen")
    screen = app.screen
    assert isinstance(screen, SuiteScreen)
    await until(pilot, lambda: screen.entries)
    for _ in range(5):
        if f"Suite {suite}" in screen_text(app):
            break
        await pilot.press("right_square_bracket")
        await pilot.pause()
    await until(pilot, lambda: "reading" not in screen_text(app))
    return screen


def rows_of(app: Workbench) -> dict[str, str]:
    """The rows of targets by their ids; of a lab by its chapter, since its id may be cut."""
    rows = [line[1:] for line in screen_text(app).splitlines() if line[1:].startswith(("ch0", "labs/"))]
    return {row.split()[0].partition(":")[0] if row.startswith("labs") else row.split()[0]: row for row in rows}


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_page_looks_the_same_at_every_size(
    size: tuple[int, int], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with opened(tmp_path, size=size, catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        drawn = screen_text(app)
    check_snapshot(request, f"suite_{size[0]}x{size[1]}", drawn)


async def test_a_row_says_what_became_of_its_target(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        rows = rows_of(app)
        assert "▲ faster" in rows[TRANSPOSE] and "1.94x" in rows[TRANSPOSE] and "▼ 3.1 %" in rows[TRANSPOSE]
        assert rows[TRANSPOSE].count("▼") == 2  # against the last, and against the best
        assert "▲ 6.7 %" in rows[GATHER]
        assert "not comparable" in rows["labs/block_scaling"] and "·" in rows["labs/block_scaling"]
        assert "sm_100" in rows["ch07:scan"]
        assert "1 worse   1 better   1 not comparable   1 left out   1 not run" in screen_text(app)
        screen.table.move_to(TRANSPOSE)
        await pilot.pause()
        told_of = " ".join(screen_text(app).replace("│", " ").split())
        assert "3.1 % slower than on 4 May" in told_of
        assert "not measured in turns; look first: the source of optimized" in told_of
        screen.table.move_to(BLOCK)
        await pilot.pause()
        assert "NVIDIA H100 80GB HBM3 then, NVIDIA H200 now" in screen_text(app)


async def test_the_highlighted_rows_history_is_not_turned_upside_down(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        screen.table.move_to(TRANSPOSE)
        await pilot.pause()
        line = screen.table.render_line(1)
        heights = [part for part in line if set(part.text) & set("▁▂▃▄▅▆▇█")]
        names = [part for part in line if TRANSPOSE in part.text]
        assert heights and not any(part.style and part.style.reverse for part in heights)
        assert names and all(part.style and part.style.reverse for part in names)


async def test_a_figure_that_may_not_be_shown_is_not_drawn(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(200, 50), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        row = rows_of(app)[COLLATE].split("││")[0]
        assert "⊘ caught" in row
        assert "x" not in row and "%" not in row and "first" not in row
        screen.table.move_to(COLLATE)
        await pilot.pause()
        drawn = screen_text(app)
        assert "timing.wall_clock: 0.4 ms by events" in " ".join(drawn.split())
        assert "9.9" not in drawn.replace("9 ms by the clock", "") and "1.20x" not in drawn
        assert "over 3 of 5" not in drawn  # another GPU's run is in no mean with the others


async def test_the_mean_is_of_the_newest_runs_hardware_and_told_without_launch_counts(tmp_path: Path) -> None:
    root = tmp_path
    catalog = make_catalog(root, problems=False)
    saver = write_target(root, "ch12", "fewer", techniques=("launch-overhead",))
    catalog = replace(catalog, targets=(*catalog.targets, saver))
    (root / "suites").mkdir()
    targets = f'["{TRANSPOSE}", "{GATHER}", "{saver.id}", "{BLOCK}"]'
    (root / "suites" / "mine.toml").write_text(f'title = "Ours"\ntargets = {targets}\n', "utf-8")
    ran(catalog, BLOCK, 30.0, 1, environment={"gpu": "NVIDIA H200", "cpu": "a CPU"})
    ran(catalog, saver.id, 8.0, 2)
    ran(catalog, TRANSPOSE, 2.0, 2)
    ran(catalog, GATHER, 4.0, 2)
    async with opened(root, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        line = screen_text(app).splitlines()[1]
    assert "geometric mean 4.00x" in line and "over 3 of 4" in line
    assert "on H100 (1 elsewhere)" in line
    assert "; 2.83x" in line and "over 2 without launch counts" in line


async def test_the_top_counts_the_targets_that_ran_on_a_busy_machine(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    async with opened(tmp_path, size=(200, 50), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        assert "on a busy machine" not in screen_text(app)
    ran(catalog, GATHER, 1.6, 3, code="c3", arms=beside_others(finished(planned(GATHER))).arms)
    async with opened(tmp_path, size=(200, 50), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        assert "1 on a busy machine" in screen_text(app)


async def test_o_chooses_s_sorts_and_the_title_says_both(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        seen = []
        for _ in range(7):
            await pilot.press("o")
            await pilot.pause()
            seen.append((screen_text(app).split("Last full runs")[1].split(" ─")[0], list(rows_of(app))))
        assert seen == [
            (", only: worse: 1 of 5", [TRANSPOSE]),
            (", only: better: 1 of 5", [GATHER]),
            (", only: undecided: 0 of 5", []),
            (", only: not comparable: 1 of 5", ["labs/block_scaling"]),
            (", only: left out: 1 of 5", [COLLATE]),
            (", only: not run: 1 of 5", ["ch07:scan"]),
            (": 5", [TRANSPOSE, GATHER, COLLATE, "labs/block_scaling", "ch07:scan"]),
        ]
        await pilot.press("s")
        await pilot.pause()
        assert "Last full runs by change: 5" in screen_text(app) and screen.target_id == TRANSPOSE
        await pilot.press("s")
        await pilot.pause()
        assert list(rows_of(app))[:3] == [TRANSPOSE, "labs/block_scaling", GATHER]


async def test_words_filter_and_escape_brings_all_back_before_it_leaves(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        await pilot.press("slash", *"slower source")
        await pilot.pause()
        assert "with “slower source”: 1 of 5" in screen_text(app)
        await pilot.press("enter")
        assert screen.target_id == TRANSPOSE
        await pilot.press("slash", *"zzz")
        await pilot.pause()
        assert "No target is left by “zzz”; escape clears the words" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "Last full runs: 5" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")


async def test_the_next_suite_has_runs_of_its_own_mode_and_says_what_of_it_is_gone(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    ran(catalog, TRANSPOSE, 3.0, 9, quick=True)
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        assert "1.94x" in rows_of(app)[TRANSPOSE]
        await show(pilot, app, "quickly")
        await until(pilot, lambda: "3.00x" in rows_of(app)[TRANSPOSE])
        drawn = screen_text(app)
        assert "Last quick runs: 1" in drawn and "first run" in rows_of(app)[TRANSPOSE]
        await until(pilot, lambda: "ch07:gone" in screen_text(app).split("Last quick runs")[0])
        await pilot.press("left_square_bracket")
        await pilot.pause()
        assert "Suite mine" in screen_text(app) and "ch07:gone" not in screen_text(app)


@pytest.mark.parametrize(
    ("key", "screen"),
    [
        ("enter", "LessonScreen"),
        ("h", "HistoryScreen"),
        ("t", "HistoryScreen"),
        ("d", "DiffScreen"),
        ("v", "TrustScreen"),
    ],
)
async def test_keys_about_a_target_work_as_everywhere(tmp_path: Path, key: str, screen: str) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        (await show(pilot, app)).table.move_to(TRANSPOSE)
        await pilot.press(key)
        await until(pilot, lambda: screen_name(app) == screen)
        await until(pilot, lambda: getattr(app.screen, "target_id", "") == TRANSPOSE)


@pytest.mark.parametrize(("key", "quick", "replicas"), [("r", True, 0), ("R", False, 7)])
async def test_r_and_R_run_the_highlighted_target_as_the_suite_does(
    tmp_path: Path, key: str, quick: bool, replicas: int
) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=link) as (app, pilot):
        (await show(pilot, app)).table.move_to(GATHER)
        await pilot.press(key)
        await until(pilot, lambda: screen_name(app) == "RunScreen")
    (sent,) = link.sent_of(requests.StartRuns)
    assert (sent.targets, sent.quick, sent.replicas) == ([GATHER], quick, replicas)
    assert (sent.case, sent.rungs, sent.validity) == ("default", ["optimized"], "strict")


async def test_a_runs_the_whole_suite_after_a_question_and_stays(tmp_path: Path) -> None:
    link = make_link(told=False)
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=link) as (app, pilot):
        await show(pilot, app)
        await pilot.press("a")
        await until(pilot, lambda: "Queue 5 full runs, all of mine?" in screen_text(app))
        await pilot.press("escape")
        await pilot.pause()
        assert link.sent_of(requests.StartRuns) == []
        await pilot.press("a")
        await until(pilot, lambda: "Queue 5 full runs" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "5 runs are planned" in told(app))
        assert screen_name(app) == "SuiteScreen" and "this is the first" not in told(app)
    sent = link.sent_of(requests.StartRuns)
    assert [name for one in sent for name in one.targets] == [TRANSPOSE, GATHER, COLLATE, BLOCK, "ch07:scan"]
    assert {one.replicas for one in sent} == {7} and not any(one.quick for one in sent)
    assert [one.rungs for one in sent if GATHER in one.targets] == [["optimized"]]
    assert {one.naive for one in sent} == {False}


async def test_a_suite_with_a_contract_sends_it_along_and_one_that_cannot_be_read_runs_nothing(tmp_path: Path) -> None:
    catalog, link = filled(tmp_path), make_link(told=False)
    suite = tmp_path / "suites" / "quickly.toml"
    suite.write_text(f'title = "A look"\ntargets = ["{TRANSPOSE}"]\ncontract = "our.contract.toml"\n', "utf-8")
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=link) as (app, pilot):
        await show(pilot, app, "quickly")
        await pilot.press("a")
        await until(pilot, lambda: "quickly is not run" in told(app))
        assert link.sent_of(requests.StartRuns) == []
        (tmp_path / "suites" / "our.contract.toml").write_text(contracts.render(contracts.example()), "utf-8")
        await pilot.press("a")
        await until(pilot, lambda: "keep the contract our" in " ".join(screen_text(app).replace("│", " ").split()))
        await pilot.press("enter")
        await until(pilot, lambda: link.sent_of(requests.StartRuns))
    (sent,) = link.sent_of(requests.StartRuns)
    assert sent.contract is not None and sent.contract.name == "our"
    assert sent.contract.sha256 == contracts.digest(sent.contract.document)


async def test_a_run_that_breaks_the_suites_contract_is_left_out_and_has_no_figure(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    suite = tmp_path / "suites" / "quickly.toml"
    suite.write_text(f'title = "A look"\ntargets = ["{TRANSPOSE}"]\ncontract = "our.contract.toml"\n', "utf-8")
    asks = contracts.render(replace(contracts.example(), values=contracts.example().values | {"workload": ("ch01",)}))
    (tmp_path / "suites" / "our.contract.toml").write_text(asks, "utf-8")
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app, "quickly")
        drawn = screen_text(app)
        row = rows_of(app)[TRANSPOSE]
    assert "1 left out" in drawn and "no geometric mean yet" in drawn
    assert "no result of contract our: " in " ".join(drawn.replace("│", " ").split())
    assert "left out" in row and "x" not in row and "%" not in row


@pytest.mark.parametrize(
    ("said", "figures", "row_says", "sentence"),
    [
        (Verdict.SLOWER, (0.97, 0.968, 0.972), "▼ 3.1 %", "confirmed in turns: the source of optimized"),
        (
            Verdict.SAME,
            (1.0, 0.998, 1.002),
            "= same",
            "in turns the new source is same (0.0 % faster [-0.2..0.2]): the",
        ),
    ],
)
async def test_what_was_measured_in_turns_by_a_run_of_a_suite_has_the_last_word(
    said: Verdict, figures: tuple[float, float, float], row_says: str, sentence: str, tmp_path: Path
) -> None:
    catalog = filled(tmp_path)
    turned = Comparison("optimized", "baseline", said, *figures, floor=0.004)
    run = keep(paths.state_dir(), "suite-01X:ch07_transpose_last", verdict=said, comparisons=(turned,))
    with Opened(paths.database_file()) as store:
        sides = [side(store.read(one), store.facts(one)) for one in store.newest(5, TRANSPOSE)]
        row = regression.with_turns(regression.row(TRANSPOSE, sides), "last", store.read(store.run(run.id)))
    package = Pass("tier1", new_ulid(), "2026-05-06T00:00:00+00:00", {"host": "", "gpu": "", "gpu_uuid": "", "cpu": ""})
    suites.write(paths.suites_dir() / "tier1" / package.id, suite_documents.package(package, [row]))
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        (await show(pilot, app)).table.move_to(TRANSPOSE)
        await pilot.pause()
        assert rows_of(app)[TRANSPOSE].split("]")[1].count(row_says) >= 1
        assert sentence in " ".join(screen_text(app).replace("│", " ").split())


async def test_what_goes_on_is_said_in_its_row_and_its_end_computes_the_row_anew(tmp_path: Path) -> None:
    catalog, link = filled(tmp_path), FakeLink()
    link.engine_status = make_link().engine_status
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=link) as (app, pilot):
        screen = await show(pilot, app)
        screen.table.move_to(GATHER)
        link.push(*numbered(quick_run_events(target=GATHER, run_id="01G", finished=False)))
        await until(pilot, lambda: "● running" in rows_of(app)[GATHER])
        await pilot.press("enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "SuiteScreen")
        ran(catalog, GATHER, 1.2, 6, code="c4")
        others = {name: row for name, row in rows_of(app).items() if name != GATHER}
        link.push(*numbered(quick_run_events(target=GATHER, run_id="01G"))[-1:])
        await until(pilot, lambda: "1.20x" in rows_of(app)[GATHER])
        rows = rows_of(app)
        assert "▼ 33.3 %" in rows[GATHER] and "running" not in rows[GATHER]
        assert {name: row for name, row in rows.items() if name != GATHER} == others


async def test_only_what_is_not_known_is_asked_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import aisp.tui.suites as module

    asked: list[tuple[str, bool]] = []
    reading = module._found

    def counted(wanted: Any, *more: Any) -> Any:
        asked.append((wanted.entry.target.id, wanted.loaded.suite.how.quick))
        return reading(wanted, *more)

    monkeypatch.setattr(module, "_found", counted)
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        targets = (TRANSPOSE, GATHER, COLLATE, BLOCK, "ch07:scan")
        assert sorted(one for one in asked if not one[1]) == sorted((name, False) for name in targets)
        asked.clear()
        screen.refresh_from({"runs"})
        await pilot.press("s", "o", "o", "G")
        await show(pilot, app, "quickly")
        await show(pilot, app)
        assert (TRANSPOSE, True) in asked and (TRANSPOSE, False) not in asked


async def test_f5_reads_catalogue_suites_and_runs_again(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        await pilot.press("f5")  # the small catalogue is given; what lies on disk is that of the shipped lessons
        await until(pilot, lambda: "Suite tier1" in screen_text(app))
        await until(pilot, lambda: "ch04:gradient_fusion" in rows_of(app) and "5 not run" in screen_text(app))


async def test_a_rung_in_quarantine_has_no_figure_and_no_history(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    # The next run of the target that was caught is other code, and no check of it passed: it stays held.
    ran(catalog, COLLATE, 1.3, 3, code="c9", validity=Validity.UNKNOWN)
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        screen = await show(pilot, app)
        assert "⊘ held" in rows_of(app)[COLLATE]
        row = rows_of(app)[COLLATE]
        assert "1.3" not in row and not set("▁▂▃▄▅▆▇█") & set(row)
        screen.table.move_to(COLLATE)
        await pilot.pause()
        assert "quarantined by timing.wall_clock" in screen_text(app)


async def test_a_broken_suite_is_told_and_the_others_stand(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    (tmp_path / "suites" / "broken.toml").write_text("title = 3\n", "utf-8")
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        drawn = screen_text(app)
    assert "broken.toml" in drawn.split("Last full runs")[0] and TRANSPOSE in drawn


async def test_without_a_store_every_target_is_not_run(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path, problems=False)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "mine.toml").write_text(f'title = "Ours"\ntargets = ["{TRANSPOSE}"]\n', "utf-8")
    async with opened(tmp_path, size=(80, 24), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        drawn = " ".join(screen_text(app).replace("│", " ").split())
    assert "1 not run" in drawn and "no geometric mean yet" in drawn
    assert "R runs it in full, a runs the whole suite" in drawn


async def test_y_copies_the_rows_that_are_shown(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(80, 24), catalog=filled(tmp_path), link=make_link(told=False)) as (app, pilot):
        await show(pilot, app)
        await pilot.press("o", "y")
        await until(pilot, lambda: "Copied 1 line" in told(app))
    copied = (paths.state_dir() / "clipboard.txt").read_text("utf-8")
    assert copied.startswith(f"{TRANSPOSE}  faster  1.94x [1.94..1.94]  -3.1 % worse  ")
    assert "  3.1 % slower than on 4 May" in copied


async def test_ascii_and_no_colour_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    catalog, link = filled(tmp_path), make_link(told=False)
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=link, settings=Settings(graph="ascii")) as (
        app,
        pilot,
    ):
        await show(pilot, app)
        rows = rows_of(app)
        assert screen_text(app).replace("⏎", "").isascii()
    assert "v 3.1 %" in rows[TRANSPOSE] and "^ faster" in rows[TRANSPOSE] and "%" in rows[TRANSPOSE].split("[")[1]
    assert "- not comparable" in rows["labs/block_scaling"] and "# caught" in rows[COLLATE]


async def test_a_failed_run_says_how_and_has_no_change(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    ran(
        catalog, GATHER, 1.6, 7, state=State.USER_ERROR, reason="'(' was never closed", verdict=Verdict.NONE,
        comparisons=(), arms=(),
    )  # fmt: skip
    async with opened(tmp_path, size=(120, 40), catalog=catalog, link=make_link(told=False)) as (app, pilot):
        (await show(pilot, app)).table.move_to(GATHER)
        await pilot.pause()
        assert "! error" in rows_of(app)[GATHER] and "▲" not in rows_of(app)[GATHER]
        assert "'(' was never closed" in screen_text(app)
