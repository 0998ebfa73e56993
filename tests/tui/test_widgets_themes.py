"""Themes, verdict signs and the choice of glyphs."""

from __future__ import annotations

import pytest
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.theme import Theme

from aisp.store.outcomes import Verdict
from aisp.tui import themes
from aisp.tui.widgets import glyphs
from aisp.tui.widgets.glyphs import GraphStyle, detect


def luminance(colour: Color) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [value / 255 for value in (colour.r, colour.g, colour.b)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    a, b = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))), reverse=True)
    return (a + 0.05) / (b + 0.05)


@pytest.mark.parametrize("theme", themes.themes(), ids=lambda theme: theme.name)
def test_everything_can_be_read_in_every_theme(theme: Theme) -> None:
    background = theme.background or ""
    own = theme.variables
    text = {name: getattr(theme, name) for name in ("foreground", "success", "error", "warning")}
    text |= {name: colour for name, colour in own.items() if name.startswith(("verdict-", "code-"))}
    for name, colour in text.items():
        assert contrast(colour or "", background) >= 4.5, name
    for name in (n for n in own if n.startswith("series-")):
        assert contrast(own[name], background) >= 3, name
    for behind in ("diff-add", "diff-del", "diff-add-strong", "diff-del-strong"):
        assert contrast(theme.foreground or "", own[behind]) >= 4.5, behind
        assert own[behind] != background
    assert own["diff-add"] != own["diff-add-strong"]


def test_there_are_a_dark_a_light_and_a_safe_theme_with_the_same_variables() -> None:
    ours = themes.themes()
    assert themes.THEME_NAMES == ("aisp-dark", "aisp-light", "aisp-safe")
    assert tuple(theme.name for theme in ours) == themes.THEME_NAMES
    assert [theme.dark for theme in ours] == [True, False, True]
    assert len({frozenset(theme.variables) for theme in ours}) == 1


def test_the_safe_theme_tells_better_from_worse_by_blue_and_orange() -> None:
    safe = themes.themes()[2].variables
    better, worse = Color.parse(safe["verdict-faster"]), Color.parse(safe["verdict-slower"])
    assert better.b > better.r and worse.r > worse.b
    added, removed = Color.parse(safe["diff-add"]), Color.parse(safe["diff-del"])
    assert added.b > added.r and removed.r > removed.b


def test_every_verdict_has_a_sign_of_its_own_with_and_without_unicode() -> None:
    for signs in (themes.VERDICT_SIGNS, themes.VERDICT_SIGNS_ASCII):
        assert set(signs) == {verdict.value for verdict in Verdict}
        assert len(set(signs.values())) == len(signs)
    assert all(sign.isascii() for sign in themes.VERDICT_SIGNS_ASCII.values())


@pytest.mark.parametrize(
    ("verdict", "speedup", "ascii_only", "expected"),
    [
        ("faster", 1.834, False, "▲ 1.83×"),
        ("faster", 12.44, False, "▲ 12.4×"),
        ("faster", 137.2, False, "▲ 137×"),
        ("slower", 0.5, False, "▼ 0.50×"),
        ("same", 1.001, False, "= 1.00×"),
        ("undecided", 1.04, False, "? 1.04×"),
        ("none", None, False, "–"),
        ("none", 1.5, False, "–"),
        ("faster", None, False, "▲"),
        ("faster", 1.834, True, "^ 1.83x"),
        ("slower", 0.5, True, "v 0.50x"),
        ("none", None, True, "-"),
        ("a new one", 2.0, False, "? 2.00×"),
    ],
)
def test_a_verdict_in_words_of_one_sign(verdict: str, speedup: float | None, ascii_only: bool, expected: str) -> None:
    assert themes.verdict_text(verdict, speedup, ascii_only).plain == expected


async def test_styles_follow_the_theme_and_foreign_themes_have_an_answer() -> None:
    app: App[None] = App()
    themes.register(app)
    async with app.run_test():
        app.theme = "aisp-dark"
        assert themes.style_of(app, "bold $series-2") == Style.parse("bold #f2a65a")
        assert themes.style_of(app, "on $diff-add") == Style.parse("on #16301f")
        assert themes.verdict_text("faster", 2.0).style == Style.parse("bold #7ecb78")
        app.theme = "aisp-light"
        assert themes.style_of(app, "bold $series-2") == Style.parse("bold #b05400")
        for theme in ("textual-dark", "textual-light", "nord", "ansi-dark"):
            app.theme = theme
            for name in (*themes.themes()[0].variables, "no-such-variable"):
                style = themes.style_of(app, f"bold ${name}")
                assert style.bold
                themes.style_of(app, f"on ${name}")
            assert themes.style_of(app, "$no-such-variable") == Style()
        app.theme = "textual-dark"
        assert themes.style_of(app, "$series-1").color is not None
        assert themes.style_of(app, "on $diff-del").bgcolor is not None
        app.theme = "ansi-dark"
        # What lies behind 16 colours is not known, so nothing is mixed.
        assert themes.style_of(app, "on $diff-del").bgcolor is None


def test_without_an_app_verdicts_use_the_terminals_own_colours() -> None:
    assert themes.verdict_style("faster") == Style.parse("bold green")


@pytest.mark.parametrize(
    ("environment", "encoding", "expected"),
    [
        ({"LANG": "en_US.UTF-8", "TERM": "xterm-256color"}, "utf-8", GraphStyle.BRAILLE),
        ({"TERM": "xterm-256color"}, "utf-8", GraphStyle.BRAILLE),
        ({"LANG": "C.UTF-8"}, "UTF-8", GraphStyle.BRAILLE),
        ({"LANG": "C.utf8"}, "utf-8", GraphStyle.BRAILLE),
        ({"LANG": "de_DE.UTF-8@euro"}, "utf-8", GraphStyle.BRAILLE),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1", GraphStyle.ASCII),
        ({"LANG": "de_DE.ISO-8859-1"}, "utf-8", GraphStyle.ASCII),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, "ascii", GraphStyle.ASCII),
        ({"LC_ALL": "en_US.ISO-8859-15", "LANG": "en_US.UTF-8"}, "utf-8", GraphStyle.ASCII),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, "utf-8", GraphStyle.BRAILLE),
        ({"LANG": "en_US.UTF-8"}, "", GraphStyle.BRAILLE),
        ({}, "", GraphStyle.ASCII),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, "utf-8", GraphStyle.BLOCK),
        ({"LANG": "en_US.UTF-8", "TERM": "dumb"}, "utf-8", GraphStyle.ASCII),
        ({"AISP_GRAPH": "block", "LANG": "C", "TERM": "dumb"}, "ascii", GraphStyle.BLOCK),
        ({"AISP_GRAPH": " ASCII ", "LANG": "en_US.UTF-8"}, "utf-8", GraphStyle.ASCII),
        ({"AISP_GRAPH": "braille", "TERM": "linux"}, "utf-8", GraphStyle.BRAILLE),
        ({"AISP_GRAPH": "pixels", "LANG": "en_US.UTF-8"}, "utf-8", GraphStyle.BRAILLE),
    ],
)
def test_the_richest_glyphs_that_are_safe(environment: dict[str, str], encoding: str, expected: GraphStyle) -> None:
    assert detect(environment, encoding) is expected


def test_an_app_that_chose_a_style_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Chosen(App[None]):
        graph_style = GraphStyle.BLOCK

    assert glyphs.of(Chosen()) is GraphStyle.BLOCK
    monkeypatch.setenv("AISP_GRAPH", "ascii")
    assert glyphs.of(App()) is GraphStyle.ASCII
