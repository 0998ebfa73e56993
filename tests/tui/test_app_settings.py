"""Settings: typed, forgiving, remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine.protocol import requests
from aisp.tui.app import Workbench
from aisp.tui.keymap import overrides
from aisp.tui.settings import Settings, editor_command, load_settings, save_setting, settings_file
from tests.tui.app_support import make_catalog, make_link, opened, screen_name, screen_text, told, until


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "settings.toml"))


def test_settings_are_read_and_the_rest_are_defaults(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('theme = "aisp-light"\nmouse = false\n')
    assert load_settings() == (Settings(theme="aisp-light", mouse=False), [])


def test_no_file_is_no_problem() -> None:
    assert load_settings() == (Settings(), [])


def test_a_folder_or_a_name_without_suffix_means_settings_toml_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISP_CONFIG", str(tmp_path / "conf"))
    assert settings_file() == tmp_path / "conf" / "settings.toml"
    monkeypatch.delenv("AISP_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert settings_file() == tmp_path / "xdg" / "aisp" / "settings.toml"


@pytest.mark.parametrize(
    ("line", "named", "fix"),
    [
        ('graph = "fancy"', "graph = 'fancy'", '"braille"'),
        ('mouse = "no"', "mouse = 'no'", "mouse = false"),
        ("theme = 3", "theme = 3", 'theme = "aisp-light"'),
        ("colour = 1", "colour is not a setting", "theme, graph, mouse, editor"),
    ],
)
def test_a_bad_value_is_named_with_its_fix_and_the_others_are_used(
    line: str, named: str, fix: str, tmp_path: Path
) -> None:
    (tmp_path / "settings.toml").write_text(f'{line}\neditor = "nano -w"\n')
    settings, problems = load_settings()
    assert settings == Settings(editor="nano -w")
    assert len(problems) == 1 and named in problems[0] and fix in problems[0]


@pytest.mark.parametrize("content", [b"theme = ", b"\xff\xfe\x00", b"[[["])
def test_a_broken_file_gives_the_defaults_and_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_bytes(content)
    settings, problems = load_settings()
    assert settings == Settings()
    assert len(problems) == 1 and "settings.toml" in problems[0] and "default settings" in problems[0]


def test_saving_one_setting_keeps_comments_and_other_lines(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('# mine\ntheme = "aisp-dark" # dark\neditor = "vim"\n[later]\nx = 1')
    save_setting("theme", "aisp-light")
    save_setting("graph", "block")
    text = file.read_text()
    assert text == '# mine\ntheme = "aisp-light"\neditor = "vim"\ngraph = "block"\n[later]\nx = 1'
    save_setting("editor", 'my "editor" \\x')
    assert load_settings()[0].editor == 'my "editor" \\x'
    with pytest.raises(KeyError, match="theme, graph, mouse, editor"):
        save_setting("colour", "red")


def test_the_editor_is_the_setting_then_visual_then_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "nano -w")
    monkeypatch.setenv("VISUAL", "")
    file = Path("k.py")
    assert editor_command(Settings(), file) == ["nano", "-w", "k.py"]
    monkeypatch.setenv("VISUAL", "emacs")
    assert editor_command(Settings(), file) == ["emacs", "k.py"]
    assert editor_command(Settings(editor="'/opt/my editor/ed' --wait"), file) == [
        "/opt/my editor/ed",
        "--wait",
        "k.py",
    ]


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        *((name, [name, "+14", "/k/a b.py"]) for name in ("vi", "vim", "nvim", "nano", "emacs", "emacsclient")),
        *(
            (name, [name, "--wait", "--goto", "/k/a b.py:14"])
            for name in ("code", "code-insiders", "codium", "cursor", "windsurf")
        ),
        ("/usr/bin/vim -p", ["/usr/bin/vim", "-p", "+14", "/k/a b.py"]),
        ("code -w", ["code", "-w", "--goto", "/k/a b.py:14"]),
        ("code --wait --new-window", ["code", "--wait", "--new-window", "--goto", "/k/a b.py:14"]),
        ("gvim", ["gvim", "--nofork", "+14", "/k/a b.py"]),
        ("gedit", ["gedit", "--wait", "+14", "/k/a b.py"]),
        ("hx", ["hx", "/k/a b.py:14"]),
        ("subl -w", ["subl", "-w", "/k/a b.py:14"]),
        ("zed", ["zed", "--wait", "/k/a b.py:14"]),
        ("kate", ["kate", "--block", "--line", "14", "/k/a b.py"]),
        ("ed", ["ed", "/k/a b.py"]),
    ],
)
def test_an_editor_is_told_the_line_in_its_own_words_and_waited_for(editor: str, words: list[str]) -> None:
    assert editor_command(Settings(editor=editor), Path("/k/a b.py"), 14) == words
    place = [word for word in words if "14" in word or word in ("--goto", "--line", "/k/a b.py")]
    assert editor_command(Settings(editor=editor), Path("/k/a b.py")) == [
        *(word for word in words if word not in place),
        "/k/a b.py",
    ]


def test_an_editor_of_blanks_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "  ")
    monkeypatch.setenv("EDITOR", "nano")
    assert editor_command(Settings(editor=" "), Path("k.py")) == ["nano", "k.py"]


async def test_a_persons_own_keys_work_and_help_and_footer_show_them(tmp_path: Path) -> None:
    link = make_link()
    own = Settings(graph="braille", keys={"run_quick": "f9", "zoom": "Z,f8"})
    async with opened(tmp_path, size=(110, 60), link=link, settings=own) as (app, pilot):
        await until(pilot, lambda: "f9 run" in screen_text(app).splitlines()[-1])
        app.screen.table.move_to("target ch07:gather")  # type: ignore[attr-defined]
        await pilot.press("r")  # does nothing any more
        await pilot.press("question_mark")
        await until(pilot, lambda: screen_name(app) == "HelpScreen")
        row = next(line for line in screen_text(app).splitlines() if "Run the target quickly" in line)
        assert "f9" in row and "run_quick" in row
        await pilot.press("escape", "f8")
        await until(pilot, lambda: app.screen.maximized is not None)
        await pilot.press("Z", "f9")
        await until(pilot, lambda: link.sent_of(requests.StartRuns))
        assert len(link.sent_of(requests.StartRuns)) == 1


@pytest.mark.parametrize(
    ("name", "keys", "said"),
    [
        ("run_quik", "f9", "run_quik is no action; did you mean run_quick"),
        ("run_quick", "hyper+q", "there is no key 'hyper+q'"),
        ("run_quick", "t", "that key is history's already"),
        ("run_quick", "j", "already"),  # a table needs it
        ("run_quick", "ctrl+q", "that key is quit's already"),
    ],
)
async def test_a_key_map_that_cannot_be_is_told_and_left_out(name: str, keys: str, said: str, tmp_path: Path) -> None:
    own = Settings(graph="braille", keys={name: keys, "run_full": "f7"})
    async with opened(tmp_path, size=(120, 40), settings=own) as (app, pilot):
        await until(pilot, lambda: said in told(app))
        footer = screen_text(app).splitlines()[-1]
        assert "r run" in footer and "f7 full" in footer


def test_a_key_map_is_read_from_the_file_and_keys_may_change_places(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('[keys]\nrun_quick = "R"\nrun_full = "r"\n')
    settings, problems = load_settings()
    assert settings.keys == {"run_quick": "R", "run_full": "r"} and problems == []
    assert overrides(settings.keys) == (settings.keys, [])
    (tmp_path / "settings.toml").write_text("keys = 3\n")
    settings, problems = load_settings()
    assert settings.keys == {} and "[keys]" in problems[0]


async def test_bad_settings_are_told_in_the_app_and_it_opens(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('theme = "solarised-nowhere"\ngraph = 7\n')
    app = Workbench(link=make_link(), catalog=make_catalog(tmp_path / "k"))  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "graph = 7 is not usable" in told(app)
        assert "there is no theme 'solarised-nowhere'" in told(app) and "aisp-safe" in told(app)
        assert app.theme == "aisp-dark"


async def test_shift_t_changes_the_theme_on_screen_and_remembers_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "k") as (app, pilot):
        seen = []
        for _ in range(3):
            await pilot.press("T")
            await pilot.pause()
            seen.append((app.theme, str(app.screen.styles.background.hex)))
        assert [name for name, _ in seen] == ["aisp-light", "aisp-safe", "aisp-dark"]
        assert seen[0][1] != seen[2][1]  # the light background is another colour
        assert load_settings()[0].theme == "aisp-dark"
        assert 'theme = "aisp-dark"' in (tmp_path / "settings.toml").read_text()


async def test_a_light_theme_draws_the_same_text(tmp_path: Path) -> None:
    async with opened(tmp_path / "dark", settings=Settings(graph="braille")) as (app, _):
        dark, ground = screen_text(app), app.screen.styles.background
    async with opened(tmp_path / "light", settings=Settings(graph="braille", theme="aisp-light")) as (app, _):
        assert screen_text(app) == dark
        assert app.screen.styles.background.brightness > 0.7 > ground.brightness


async def test_ascii_graphs_use_no_sign_beyond_seven_bits(tmp_path: Path) -> None:
    async with opened(tmp_path / "k", settings=Settings(graph="ascii")) as (app, _):
        drawn = screen_text(app)
    assert "^ 2.41" in drawn and "* running" in drawn and drawn.isascii()


@pytest.mark.slow
async def test_no_color_draws_every_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(tmp_path / "k", size=(120, 40)) as (app, pilot):
        assert app.no_color
        app.screen.table.move_to("target ch07:transpose")  # type: ignore[attr-defined]
        for key in ("enter", "d", "t", "r", "w", "l", "question_mark"):
            await pilot.press(key)
            await pilot.pause()
            drawn = screen_text(app)
            assert drawn.startswith(" aisp "), key
            await pilot.press("escape")
            await pilot.pause()
        assert "▲ 2.41" in screen_text(app)  # the sign says without colour what it means
        colours = {
            segment.style.color.triplet
            for strip in app.screen._compositor.render_strips()
            for segment in strip.apply_filter(app._filters[-1], app.screen.styles.background)
            if segment.style and segment.style.color and segment.style.color.triplet
        }
        assert all(len({triplet.red, triplet.green, triplet.blue}) == 1 for triplet in colours)
