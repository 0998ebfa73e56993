"""`aisp-tui` with a folder, a target or a run: where the app begins, and what is said of a name that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.tui import app as app_module
from aisp.tui.app import Workbench
from aisp.tui.cli.tree import cli
from aisp.tui.screens import Place
from aisp.tui.settings import Settings
from aisp.tui.start import app
from tests.tui.app_support import fill_store, make_catalog, make_link, screen_name, screen_text, until


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def start(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Place | None, Result]:
    """What the app is opened with (None where it is not), and what was said."""
    places: list[Place] = []

    def run(place: Place, **_: object) -> int:
        places.append(place)
        return 0

    monkeypatch.setattr(app_module, "run", run)
    monkeypatch.setattr(app_module, "refusal", lambda: "")
    said = CliRunner().invoke(app, list(words))
    return (places[0] if places else None), said


@pytest.mark.parametrize("name", ["ch07:transpose", "transpose"])
def test_a_target_opens_by_its_id_and_by_a_name_that_only_it_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, said = start(monkeypatch, name)
    assert said.exit_code == 0, said.output
    assert place is not None and (place.screen, place.arguments) == ("lesson", {"target_id": "ch07:transpose"})
    assert place.catalog is not None and place.folder is None  # not read a second time


def test_a_target_comes_before_a_folder_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("transpose").mkdir()
    for word in ("./transpose", "transpose/"):
        place, _ = start(monkeypatch, word)
        assert place == Place(folder=Path("transpose").absolute())
    place, _ = start(monkeypatch, "transpose")
    assert place is not None and place.screen == "lesson"
    said = CliRunner().invoke(app, ["--help"])
    assert "It comes before a folder of that name, which is ./transpose" in " ".join(said.output.split())


def test_a_chapter_opens_with_its_lessons_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    place, said = start(monkeypatch, "ch01")
    assert place is not None and place.folder is not None, said.output
    assert place.folder.name.startswith("ch01_")


def test_piped_it_prints_the_list_with_last_results(tmp_path: Path) -> None:
    fill_store(runs=1)
    said = CliRunner().invoke(app, [])
    assert said.exit_code == 3
    (row,) = (line for line in said.stdout.splitlines() if line.startswith("ch07:transpose\t"))
    listed = CliRunner().invoke(cli, ["list"]).stdout.splitlines()
    assert "faster 1.50x" in row and row in listed


@pytest.mark.parametrize("words", [(), ("run",)])
def test_a_run_opens_by_the_beginning_of_its_id(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    ids = fill_store(runs=1)
    place, said = start(monkeypatch, *words, ids[0][:-4])
    assert said.exit_code == 0, said.output
    assert place == Place(screen="run", arguments={"run_id": ids[0]})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("trnspose",), "no target 'trnspose'; did you mean ch07:transpose"),
        (("run", "01NOSUCHRUN"), "no run '01NOSUCHRUN'"),
        (("run",), "which run? `aisp history` lists them"),
        (("transpose", "gather"), "one place at a time"),
        (("a_file.txt",), "a_file.txt: not a folder; give the folder"),
        (("--theme", "nope"), "no theme 'nope'; there are aisp-dark, aisp-light, aisp-safe,"),
        (("--theme", "aisp-drak"), "no theme 'aisp-drak'"),
    ],
    ids=str,
)
def test_a_name_that_is_not_known_is_told_before_the_app_opens(
    words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_store(runs=1)
    Path("a_file.txt").write_text("")
    place, said = start(monkeypatch, *words)
    assert place is None and said.exit_code == 2
    assert told in said.output


async def test_the_app_begins_on_the_lesson_with_the_catalogue_behind_it(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    place = Place(catalog=catalog, screen="lesson", arguments={"target_id": "ch07:transpose"})
    app = Workbench(place=place, link=make_link(), settings=Settings(graph="braille"))  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "touches 32 cache lines" in screen_text(app))
        assert screen_name(app) == "LessonScreen"
        await pilot.press("escape")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
        assert app.screen.target_id == "ch07:transpose"  # type: ignore[attr-defined]


async def test_the_app_begins_on_a_stored_run(tmp_path: Path) -> None:
    (run_id,) = fill_store(runs=1)
    place = Place(catalog=make_catalog(tmp_path), screen="run", arguments={"run_id": run_id})
    app = Workbench(place=place, link=make_link(told=False), settings=Settings(graph="braille"))  # type: ignore[arg-type]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "1.50" in screen_text(app) and screen_name(app) == "RunScreen")
        await pilot.press("q")
        await until(pilot, lambda: screen_name(app) == "HomeScreen")
