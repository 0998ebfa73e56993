"""Keys: documented, all working, and told by the help panel of whatever has the focus."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual.binding import Binding

from aisp.engine.protocol import requests
from aisp.tui import keymap
from aisp.tui.app import Workbench
from aisp.tui.glossary import WORDS
from aisp.tui.screens import SCREENS
from aisp.tui.screens.base import KeyLine, WorkScreen
from aisp.tui.screens.help import sections
from tests.proofs.pages import keys
from tests.tui.app_support import fill_store, make_link, opened, screen_name, screen_text, told, until
from tests.tui.trust_support import stored_trust

DOC = Path(__file__).parents[2] / "docs" / "keys.md"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.delenv("VISUAL", raising=False)


def test_every_screen_and_every_key_of_it_is_documented() -> None:
    page = DOC.read_text(encoding="utf-8")
    documented = {(module, name) for _, module, name in keys.DOCUMENTED}
    for entry in SCREENS.values():
        assert (entry.module, entry.class_name) in documented, f"{entry.class_name} is missing in keys.DOCUMENTED"
        title = next(title for title, module, _ in keys.DOCUMENTED if module == entry.module)
        section = page.split(f"## {title}\n")[1].split("\n## ")[0]
        own = entry.load().__dict__.get("BINDINGS", [])
        for binding in Binding.make_bindings(own):
            if not binding.system:
                assert f"`{keymap.key_names(binding.key)[0]}`" in section, f"{title}: {binding.key}"


def test_every_action_of_the_table_exists_and_says_what_it_does() -> None:
    for _, module, name in keys.DOCUMENTED:
        found = getattr(importlib.import_module(module), name)
        for binding in Binding.make_bindings(found.__dict__.get("BINDINGS", [])):
            if not module.startswith("aisp.tui.widgets"):
                assert (binding.tooltip or "").endswith("."), f"{name}: {binding.key}"
            owner = Workbench if binding.action.startswith("app.") else found
            method = "action_" + binding.action.removeprefix("app.").partition("(")[0]
            assert hasattr(owner, method), f"{name} has no {method}"


# A program, since the screens of this process have their bindings already.
ONE_MORE = """
import asyncio, sys
from pathlib import Path
from aisp.tui.screens import SCREENS, ScreenEntry

SCREENS["notes"] = ScreenEntry(
    __name__, "NotesScreen", "Notes", "Show what was noted about the target.", "u", "notes", of_target=True
)

from aisp.tui.keymap import Key, bind
from aisp.tui.screens.base import KeyLine, WorkScreen
from tests.tui.app_support import opened, screen_name, screen_text, until

class NotesScreen(WorkScreen):
    BINDINGS = bind(Key("stamp", "s", "stamp", "Put a stamp on the note."), "diff")

    def __init__(self, target_id):
        super().__init__()
        self.stamped = False
        self.about = target_id

    @property
    def target_id(self):
        return self.about

    def action_stamp(self):
        self.stamped = True

async def main(folder):
    async with opened(folder, size=(200, 90)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")
        await pilot.pause()
        print("footer of the catalogue:", "u notes" in screen_text(app).splitlines()[-1])
        await pilot.press("question_mark")
        await pilot.pause()
        print("help of the catalogue:", "Show what was noted about the target." in screen_text(app))
        await pilot.press("escape", "u")
        await until(pilot, lambda: screen_name(app) == "NotesScreen")
        print("opened about:", app.screen.target_id)
        print("footer:", [(key.key, key.description) for key in app.screen.query_one(KeyLine).shown()[:2]])
        await pilot.press("s")
        print("stamped:", app.screen.stamped)
        await pilot.press("question_mark")
        await pilot.pause()
        print("help:", "Put a stamp on the note." in screen_text(app))
        await pilot.press("escape", "escape", "ctrl+p")
        await pilot.pause()
        await pilot.press(*"notes of")
        await until(pilot, lambda: "Notes of ch07:transpose" in screen_text(app))
        print("palette:", "(u)" in screen_text(app))

asyncio.run(main(Path(sys.argv[1])))
from tests.proofs.pages.keys import tables
print("documented:", "## Notes" in tables() and "`s` | Put a stamp on the note." in tables())
"""


@pytest.mark.slow
def test_a_screen_that_is_added_in_one_line_has_its_key_footer_help_palette_and_documentation(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_MORE, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=DOC.parents[1],
    )
    assert done.stdout.splitlines() == [
        "footer of the catalogue: True",
        "help of the catalogue: True",
        "opened about: ch07:transpose",
        "footer: [('s', 'stamp'), ('d', 'diff')]",
        "stamped: True",
        "help: True",
        "palette: True",
        "documented: True",
    ], done.stderr[-2000:]


def test_no_two_actions_of_one_screen_share_a_key() -> None:
    for entry in SCREENS.values():
        seen: dict[str, str] = {}
        for binding in Binding.make_bindings(entry.load().__dict__.get("BINDINGS", [])):
            assert seen.setdefault(binding.key, binding.action) == binding.action, f"{entry.title}: {binding.key}"


OPENED_BY = {
    "lesson": ("enter", "LessonScreen"),
    "diff": ("d", "DiffScreen"),
    "history": ("t", "HistoryScreen"),
    "lessons": ("O", "LessonsScreen"),
    "suite": ("B", "SuiteScreen"),
    "run": ("r", "RunScreen"),
    "watch": ("w", "WatchScreen"),
    "roofline": ("f", "RooflineScreen"),
    "ceilings": ("c", "CeilingsScreen"),
    "trust": ("v", "TrustScreen"),
    "fuzz": ("F", "FuzzScreen"),
    "checks": ("V", "ChecksScreen"),
    "jobs": ("J", "JobsScreen"),
    "enginelog": ("l", "EngineLogScreen"),
    "jump": ("ctrl+o", "JumpScreen"),
    "help": ("question_mark", "HelpScreen"),
}


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["80x24", "200x50"])
@pytest.mark.slow
async def test_every_screen_opens_by_its_key_and_escape_comes_back(tmp_path: Path, size: tuple[int, int]) -> None:
    assert set(OPENED_BY) == set(SCREENS) - {"home", "compare", "problems"}  # of two runs, and of a folder
    async with opened(tmp_path, size=size) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        for name, (key, class_name) in OPENED_BY.items():
            await pilot.press(key)
            await until(pilot, lambda wanted=class_name: screen_name(app) == wanted)  # type: ignore[misc]
            await pilot.pause()
            drawn = screen_text(app)
            assert len(drawn.splitlines()) == size[1]
            if name not in ("help", "jump"):
                assert drawn.startswith(" aisp ") and "back" in drawn.splitlines()[-1]
                assert "NVIDIA H100" in drawn.splitlines()[0]
            await pilot.press("escape")
            await until(pilot, lambda: screen_name(app) == "HomeScreen")


MOST_IMPORTANT = {
    "home": ("⏎ lesson", "r run", "d diff", "w watch"),
    "lesson": ("⏎ source", "r run", "d diff", "v trust"),
    "diff": ("n next change", "c changes", "u unified", "[ ] left"),
    "history": ("⏎ open run", "m mark", "C compare", "d diff"),
    "lessons": ("⏎ lesson", "s sort", "o only", "/ filter", "r run"),
    "suite": ("⏎ lesson", "[ ] suite", "a run suite"),
    "trust": ("⏎ evidence", "o only", "[ ] check", "p proof"),
    "checks": ("⏎ evidence", "o only", "i issues", "p proof"),
    "roofline": ("⏎ open run", "r run", "c ceilings"),
    "ceilings": ("r measure",),
    "fuzz": ("r fuzz",),
    "enginelog": ("S start engine", "U restart when idle"),
}


async def test_every_screens_most_important_keys_stand_in_its_footer_at_80x24(tmp_path: Path) -> None:
    fill_store()
    async with opened(tmp_path) as (app, pilot):
        for name, keys in MOST_IMPORTANT.items():
            app.screen.table.move_to("target ch07:transpose")
            if name != "home":
                app.open_screen(name, **({"target_id": "ch07:transpose"} if SCREENS[name].of_target else {}))
            await until(pilot, lambda keys=keys: all(f" {key} " in _footer(app) for key in keys))  # type: ignore[misc]
            assert _footer(app).endswith("q quit" if name == "home" else "esc back")
            if name != "home":
                app.pop_screen()
                await pilot.pause()


def _footer(app: Any) -> str:
    return screen_text(app).splitlines()[-1]


async def _keys_of_footer(app: Any) -> list[tuple[str, str]]:
    return [(binding.key, binding.action) for binding in app.screen.query_one(KeyLine).shown()]


@pytest.mark.parametrize("name", ["home", "lesson", "diff", "history", "roofline", "ceilings", "trust"])
@pytest.mark.slow
async def test_every_key_of_the_footer_does_something(name: str, tmp_path: Path) -> None:
    fill_store()
    if name == "trust":
        stored_trust(tmp_path)  # a run that its checks said something of
    link = make_link(told=name != "trust")
    async with opened(tmp_path, size=(200, 50), link=link) as (app, pilot):
        for key, action in await _footer_of(app, pilot, name):
            await _show(app, pilot, name)
            before = _state(app)
            await pilot.press(key)
            await until(pilot, lambda before=before: _state(app) != before or not app.is_running)  # type: ignore[misc]
            if not app.is_running:
                assert action in ("leave", "quit")
                return


async def _footer_of(app: Any, pilot: Any, name: str) -> list[tuple[str, str]]:
    await _show(app, pilot, name)
    keys = await _keys_of_footer(app)
    assert len(keys) >= 4
    # What leaves the app comes last.
    return sorted(keys, key=lambda pair: pair[1] in ("leave", "quit"))


async def _show(app: Any, pilot: Any, name: str) -> None:
    """Back to the first screen, then to `name`, with its content drawn."""
    while screen_name(app) != "HomeScreen":
        app.pop_screen()
        await pilot.pause()
    app.clear_notifications()
    app.screen._close_filter()
    app.screen.table.move_to("target ch07:transpose")
    await pilot.pause()
    if name != "home":
        app.open_screen(name, **({} if name == "ceilings" else {"target_id": "ch07:transpose"}))
        await pilot.pause()
        if name == "lesson":
            await pilot.press("tab")
    await pilot.pause()


def _state(app: Any) -> tuple[object, ...]:
    """Whatever a key may change: the screens, what is drawn, what is notified, what the engine was asked."""
    link = app.link
    return len(app.screen_stack), screen_text(app), told(app), len(link.sent), app.screen.focused


async def test_help_begins_with_the_screens_words_and_has_all_others_at_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(119, 60)) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: "Words here" in screen_text(app))
        drawn = screen_text(app)
        assert drawn.index("One version of a lesson's kernel") < drawn.index("Fold the chapter.")
        await pilot.press("end")
        await until(pilot, lambda: "within it is none." in screen_text(app))
        assert len(WORDS) == 10
    for entry in SCREENS.values():
        assert set(getattr(entry.load(), "words", ())) <= set(WORDS)


async def test_from_120_columns_on_help_has_its_words_beside_its_keys(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: "Words here" in screen_text(app))
        first = next(line for line in screen_text(app).splitlines() if "Words here" in line)
        assert "This pane: Targets" in first
        assert "One version of a lesson's kernel" in screen_text(app)


async def test_help_lists_the_focused_panes_keys_and_the_screens(tmp_path: Path) -> None:
    async with opened(tmp_path, size=(119, 60)) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: screen_name(app) == "DiffScreen")
        await pilot.press("question_mark")
        await pilot.pause()
        drawn = screen_text(app)
        assert "Put the next source into the right half." in drawn
        assert "Go to the next change" in drawn  # of the focused pane
        assert "Go back to where you came from" in drawn
        await pilot.press("question_mark")
        await pilot.pause()
        assert screen_name(app) == "DiffScreen"
        await pilot.press("escape", "question_mark")
        await pilot.pause()
        assert "Put the next source" not in screen_text(app)
        assert "Fold the chapter." in screen_text(app)


@pytest.mark.parametrize("name", ["home", *(name for name in OPENED_BY if name not in ("help", "jump"))])
async def test_help_calls_a_pane_by_what_it_shows_and_tells_each_key_once(name: str, tmp_path: Path) -> None:
    fill_store()
    async with opened(tmp_path, size=(120, 60)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        if name != "home":
            key, class_name = OPENED_BY[name]
            await pilot.press(key)
            await until(pilot, lambda: screen_name(app) == class_name)
            await pilot.pause()
        screen = app.screen
        for _ in screen.focus_chain:
            told = sections(screen, screen.focused)
            headings = [title for title, _ in told]
            assert type(screen.focused).__name__ not in " ".join(headings)
            assert headings[0].startswith("This pane: ") or headings[0] == "This screen", screen.focused
            keys = [key for title, rows in told[:2] for keys, *_ in rows for key in keys]
            assert len(keys) == len(set(keys)), [key for key in keys if keys.count(key) > 1]
            await pilot.press("tab")
            await pilot.pause()


async def test_tab_moves_between_panes_and_z_zooms_the_focused_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        assert app.screen.focused is app.screen.table  # type: ignore[attr-defined]
        await pilot.press("tab")
        assert app.screen.focused.id == "details"
        await pilot.press("z")
        await pilot.pause()
        zoomed = screen_text(app)
        assert "Targets" not in zoomed and zoomed.startswith(" aisp ")
        assert zoomed.splitlines()[1].endswith("╮") and len(zoomed.splitlines()[1]) == 80
        assert "help" in zoomed.splitlines()[-1]
        await pilot.press("escape")
        await pilot.pause()
        assert "Targets" in screen_text(app)
        assert screen_name(app) == "HomeScreen"


async def test_vim_keys_and_arrows_move_alike(tmp_path: Path) -> None:
    async with opened(tmp_path) as (app, pilot):
        table = app.screen.table  # type: ignore[attr-defined]
        await pilot.press("g", "j", "j")
        by_vim = table.cursor_key
        await pilot.press("g", "down", "down")
        assert table.cursor_key == by_vim
        await pilot.press("k")
        up_by_vim = table.cursor_key
        await pilot.press("down", "up")
        assert table.cursor_key == up_by_vim != by_vim


async def test_the_palette_finds_commands_for_the_highlighted_target(tmp_path: Path) -> None:
    link = make_link()
    async with opened(tmp_path, link=link) as (app, pilot):
        app.screen.table.move_to("target ch07:gather")  # type: ignore[attr-defined]
        await pilot.pause()
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"full run gather")
        await until(pilot, lambda: "Full run of ch07:gather" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: link.sent_of(requests.StartRuns))
    request = link.sent_of(requests.StartRuns)[0]
    assert (request.targets, request.quick) == (["ch07:gather"], False)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("whole cache lines", "Lesson ch07:transpose: A transpose that reads"),  # a title
        ("vector-loads", "Lesson ch07:gather"),  # a technique
        ("ch05:coll", "Lesson ch05:collate"),  # an id
        ("Run of transpose", "Run of ch07:transpose, ▲ 3.00×, "),  # a stored run
        ("Run of gather", "Run of ch07:gather, error, "),  # one of this session
        ("history", "History of ch07:transpose"),  # a screen
        ("edit settings", "Edit the settings"),
    ],
)
async def test_the_palette_finds_lessons_runs_screens_and_settings(typed: str, found: str, tmp_path: Path) -> None:
    fill_store()
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*typed)
        await until(pilot, lambda: found in screen_text(app))


async def test_the_palette_has_lessons_before_their_runs(tmp_path: Path) -> None:
    fill_store()
    async with opened(tmp_path, size=(120, 40)) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"ch07:transpose")
        await until(pilot, lambda: "Run of ch07:transpose" in screen_text(app))
        drawn = screen_text(app)
        assert drawn.index("Lesson ch07:transpose") < drawn.index("Run of ch07:transpose")


@pytest.mark.slow
async def test_the_palette_opens_the_run_that_is_picked(tmp_path: Path) -> None:
    ids = fill_store()
    async with opened(tmp_path, size=(120, 40), link=make_link(told=False)) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"run of transpose 3.00")
        await until(pilot, lambda: "Run of ch07:transpose, ▲ 3.00×" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: screen_name(app) == "RunScreen")
        assert app.screen.run_id == ids[-1]  # type: ignore[attr-defined]


def test_the_palette_offers_every_action_of_the_table() -> None:
    from aisp.tui.commands_palette import commands
    from aisp.tui.settings import Settings

    class Screen:
        is_modal = False
        target_id = "ch07:gather"
        opened_with: ClassVar[dict[str, str]] = {}

    app = Workbench(link=make_link(told=False), settings=Settings())  # type: ignore[arg-type]
    app._screen_stacks["_default"] = [Screen()]  # type: ignore[list-item]
    titles = [command.title for command in commands(app)]
    for word in (
        "Run ch07:gather",
        "Full run",
        "Diff",
        "Watch",
        "History",
        "Lesson",
        "Edit",
        "Cancel",
        "Engine log",
        "Roofline",
        "Trust",
        "Checks",
    ):
        assert any(title.startswith(word) for title in titles), word
    assert "Ceilings of this GPU" in titles and "Measure the ceilings of this GPU" in titles
    for word in ("Theme aisp-safe", "Graph style ascii", "Export screenshot (SVG)", "Restart engine when idle", "Quit"):
        assert word in titles
    assert len(titles) == len(set(titles))


def test_screens_of_the_app_share_the_keys_that_work_everywhere() -> None:
    for name, entry in SCREENS.items():
        if name not in ("help", "jump"):
            assert issubclass(entry.load(), WorkScreen), name
