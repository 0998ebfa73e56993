"""The screen of problems in formats of others, opened by a path: listed, read, filtered, and an answer to one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from aisp.tui import app as app_module
from aisp.tui.app import Workbench
from aisp.tui.screens import Place
from aisp.tui.settings import Settings
from aisp.tui.start import app as command
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.table import LiveTable
from tests.kernels.formats import gpumode, kernelbench
from tests.tui.app_support import make_catalog, make_link, screen_name, screen_text, until
from tests.tui.live_support import isolate


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Place]:
    """Where the app was begun."""
    places: list[Place] = []

    def run(place: Place, **_: object) -> int:
        places.append(place)
        return 0

    monkeypatch.setattr(app_module, "run", run)
    monkeypatch.setattr(app_module, "refusal", lambda: "")
    return places


def opened_on(tmp_path: Path, place: Place) -> Workbench:
    begins = Place(catalog=make_catalog(tmp_path), screen=place.screen, arguments=place.arguments)
    return Workbench(place=begins, link=make_link(), settings=Settings(graph="braille"))  # type: ignore[arg-type]


def rows(app: Workbench) -> list[str]:
    """The problems that are shown, by the last parts of their paths."""
    return [Path(key).name for key, _ in app.screen.query_one("#table", LiveTable)._rows]


@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=["80x24", "140x40"])
async def test_a_checkout_is_listed_read_and_filtered(
    size: tuple[int, int], tmp_path: Path, begun: list[Place]
) -> None:
    place = gpumode.checkout(tmp_path / "kernels")
    assert CliRunner().invoke(command, [str(place)]).exit_code == 0
    assert (begun[0].screen, begun[0].arguments) == ("problems", {"folder": place})
    app = opened_on(tmp_path, begun[0])
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: len(gpumode.TASKS) == len(rows(app)))
        assert f"{len(gpumode.TASKS)} problems, gpu-mode {len(gpumode.TASKS)}" in screen_text(app)
        pane = app.screen.query_one("#about", LogPane)
        await until(pilot, lambda: "aisp judge CANDIDATE" in screen_text(app))
        await pilot.press("slash", *"gate", "enter")
        await until(pilot, lambda: rows(app) == ["gate_py"])
        await until(pilot, lambda: "judge: the task's own check_implementation" in pane.text)
        assert f"aisp judge CANDIDATE --against {place / 'problems' / 'ours' / 'gate_py'}" in pane.text.replace(
            "\n", ""
        ).replace("  ", "")
        await pilot.press("escape")
        await until(pilot, lambda: len(rows(app)) == len(gpumode.TASKS))
        await pilot.press("s", "s")
        await until(pilot, lambda: "sorted: cannot be judged" in screen_text(app))
        broken = app.screen.query_one("#table", LiveTable)._rows[0][1][-1]
        assert str(broken), "those with a reason stand first"
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")


async def test_one_problem_is_shown_alone_and_the_command_can_be_copied(tmp_path: Path, begun: list[Place]) -> None:
    answer, problem = kernelbench.written(tmp_path / "kb", kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    CliRunner().invoke(command, [str(problem)])
    app = opened_on(tmp_path, begun[0])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: rows(app) == [problem.name])
        screen = app.screen
        await until(pilot, lambda: "what get_inputs makes" in screen.query_one("#about", LogPane).text)
        assert screen.copy_text() == f"aisp judge CANDIDATE --against {problem}"  # type: ignore[attr-defined]
        problem.write_text("print(")
        await pilot.press("escape")
    assert answer.exists()


def test_an_answer_opens_as_a_target_against_its_problem(tmp_path: Path, begun: list[Place]) -> None:
    answer, problem = kernelbench.written(tmp_path / "kb", kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    said = CliRunner().invoke(command, [str(answer), "--against", str(problem)])
    assert said.exit_code == 0, said.output
    folder = begun[0].folder
    assert folder is not None and (folder / "optimized.py").read_text().startswith(kernelbench.MATMUL_NEW)
    alone = CliRunner().invoke(command, [str(answer)])
    assert (alone.exit_code, " --against PROBLEM`" in alone.output) == (2, True)
    gone = CliRunner().invoke(command, [str(answer), "--against", "nowhere.py"])
    assert (gone.exit_code, "there is no folder or file" in gone.output) == (2, True)
    assert len(begun) == 1


def test_a_folder_of_targets_is_one_whatever_else_lies_in_it(tmp_path: Path, begun: list[Place]) -> None:
    kernelbench.written(tmp_path / "both", kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    (tmp_path / "both" / "mine").mkdir()
    (tmp_path / "both" / "mine" / "lesson.md").write_text("")
    CliRunner().invoke(command, [str(tmp_path / "both")])
    assert begun == [Place(folder=tmp_path / "both")]


async def test_a_problem_that_cannot_be_judged_says_why(tmp_path: Path, begun: list[Place]) -> None:
    _, problem = kernelbench.written(tmp_path / "kb", kernelbench.SIDE_EFFECT, kernelbench.MATMUL_NEW)
    CliRunner().invoke(command, [str(problem.parent.parent)])
    app = opened_on(tmp_path, begun[0])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: rows(app) == [problem.name])
        screen = app.screen
        await until(pilot, lambda: "cannot be judged:" in screen.query_one("#about", LogPane).text)
        assert screen.copy_text() == ""  # type: ignore[attr-defined]
