"""Colours, and signs that say the same without colour.

Three themes: `aisp-dark`, `aisp-light` and `aisp-safe` (Okabe and Ito's blue and orange on dark, which stay
apart with every common form of colour blindness). Besides what Textual asks for, each sets variables of its
own:

    series-1 ... series-6                          a plot's series, in order
    diff-add, diff-add-strong, diff-del, -strong   behind changed lines, and behind what changed in them
    verdict-faster, -slower, -same, -undecided, -none
    code-keyword, -string, -number, -name, -builtin, -comment

`style_of` turns such names into Rich styles and has an answer for Textual's own themes too, those of 16
colours included. Every colour is at least 4.5 : 1 against its background where it carries text, 3 : 1 where
it carries dots.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rich.style import Style
from rich.text import Text
from textual._context import active_app
from textual.app import App
from textual.color import Color, ColorParseError
from textual.theme import Theme

THEME_NAMES = ("aisp-dark", "aisp-light", "aisp-safe")

VERDICT_SIGNS = {"faster": "▲", "slower": "▼", "same": "=", "undecided": "?", "none": "–"}
VERDICT_SIGNS_ASCII = {"faster": "^", "slower": "v", "same": "=", "undecided": "?", "none": "-"}

# Without a running app nothing is known of the background: the terminal's own 16 colours.
_VERDICT_ANSI = {
    "faster": "bold green",
    "slower": "bold red",
    "same": "",
    "undecided": "yellow",
    "none": "dim",
}

# What our variables fall back to in a theme that lacks them: another variable, and how much of it is laid
# over the background (1 for text).
_FALLBACK: dict[str, tuple[str, float]] = {
    "series-1": ("primary", 1.0),
    "series-2": ("warning", 1.0),
    "series-3": ("success", 1.0),
    "series-4": ("accent", 1.0),
    "series-5": ("error", 1.0),
    "series-6": ("secondary", 1.0),
    "diff-add": ("success", 0.2),
    "diff-add-strong": ("success", 0.45),
    "diff-del": ("error", 0.2),
    "diff-del-strong": ("error", 0.45),
    "verdict-faster": ("success", 1.0),
    "verdict-slower": ("error", 1.0),
    "verdict-same": ("foreground", 1.0),
    "verdict-undecided": ("warning", 1.0),
    "verdict-none": ("foreground", 1.0),
    "code-keyword": ("primary", 1.0),
    "code-string": ("success", 1.0),
    "code-number": ("warning", 1.0),
    "code-name": ("accent", 1.0),
    "code-builtin": ("secondary", 1.0),
    "code-comment": ("foreground", 1.0),
}


def _variables(
    series: tuple[str, str, str, str, str, str],
    add: tuple[str, str],
    remove: tuple[str, str],
    verdicts: tuple[str, str, str, str, str],
    code: tuple[str, str, str, str, str, str],
) -> dict[str, str]:
    return {
        **{f"series-{number}": colour for number, colour in enumerate(series, 1)},
        "diff-add": add[0],
        "diff-add-strong": add[1],
        "diff-del": remove[0],
        "diff-del-strong": remove[1],
        **{f"verdict-{verdict}": colour for verdict, colour in zip(VERDICT_SIGNS, verdicts, strict=True)},
        **{
            f"code-{kind}": colour
            for kind, colour in zip(("keyword", "string", "number", "name", "builtin", "comment"), code, strict=True)
        },
    }


@cache
def themes() -> tuple[Theme, ...]:
    return (
        Theme(
            name="aisp-dark",
            dark=True,
            primary="#6cb6ff",
            secondary="#8fb8c9",
            accent="#c79bf0",
            foreground="#d9dee5",
            background="#12151a",
            surface="#181c22",
            panel="#232932",
            success="#7ecb78",
            warning="#e5b45b",
            error="#f47f7f",
            variables=_variables(
                ("#6cb6ff", "#f2a65a", "#7ecb78", "#c79bf0", "#f58fb8", "#53d3c8"),
                ("#16301f", "#235c37"),
                ("#3b1c22", "#7a303b"),
                ("#7ecb78", "#f47f7f", "#d9dee5", "#e5b45b", "#8d97a5"),
                ("#6cb6ff", "#a3d39c", "#f2b37a", "#d8b8f5", "#7fd1c7", "#8d97a5"),
            ),
        ),
        Theme(
            name="aisp-light",
            dark=False,
            primary="#0b5cab",
            secondary="#3f6178",
            accent="#7a3aa3",
            foreground="#1f2429",
            background="#fcfcfa",
            surface="#f4f4ef",
            panel="#e6e7e1",
            success="#1a6e2e",
            warning="#835300",
            error="#b0251d",
            variables=_variables(
                ("#0b5cab", "#b05400", "#1a6e2e", "#7a3aa3", "#ad1f66", "#006d66"),
                ("#def2e0", "#a9dfb1"),
                ("#fbe2e1", "#f3b6b2"),
                ("#1a6e2e", "#b0251d", "#1f2429", "#835300", "#5d6670"),
                ("#0b4f94", "#17622a", "#8a4500", "#6d3391", "#00605a", "#5d6670"),
            ),
        ),
        Theme(
            name="aisp-safe",
            dark=True,
            primary="#56b4e9",
            secondary="#9ac7dd",
            accent="#e69f00",
            foreground="#e2e4e6",
            background="#121417",
            surface="#191c20",
            panel="#252a30",
            success="#56b4e9",
            warning="#f0e442",
            error="#ee8a2f",
            variables=_variables(
                ("#56b4e9", "#e69f00", "#f0e442", "#cc79a7", "#ffffff", "#00b583"),
                ("#0d2c42", "#155a8a"),
                ("#3d2a06", "#755000"),
                ("#56b4e9", "#ee8a2f", "#e2e4e6", "#f0e442", "#97a0a9"),
                ("#56b4e9", "#cfe3a9", "#e8b04a", "#d79bbf", "#9fd0ea", "#97a0a9"),
            ),
        ),
    )


def register(app: App[Any]) -> None:
    for theme in themes():
        app.register_theme(theme)


_styles: dict[tuple[str, str], Style] = {}
_variables_of: dict[str, dict[str, str]] = {}


def style_of(app: App[Any], spec: str) -> Style:
    """Return the Rich style that `spec` means in the app's present theme.

    Args:
        app: whose theme decides.
        spec: a Rich style in which colours may be theme variables: "bold $series-2", "on $diff-add".
            A variable that no theme knows, or that is not a plain colour, leaves the colour as it is.
    """
    key = (app.theme, spec)
    style = _styles.get(key)
    if style is None:
        words = [_word(app, word) if word.startswith("$") else word for word in spec.split()]
        # "on" in front of an unknown colour would not parse.
        kept = [
            word
            for index, word in enumerate(words)
            if word and not (word == "on" and (index + 1 == len(words) or not words[index + 1]))
        ]
        style = _styles[key] = Style.parse(" ".join(kept))
    return style


def _word(app: App[Any], word: str) -> str:
    """A theme variable as a colour that Rich understands, or "" where there is none."""
    # `App.theme_variables` still holds the former theme's for a moment after a change.
    variables = _variables_of.get(app.theme)
    if variables is None:
        variables = _variables_of[app.theme] = app.get_css_variables()
    name, share = word[1:], 1.0
    if name not in variables:
        name, share = _FALLBACK.get(name, (name, 1.0))
    try:
        colour = Color.parse(variables.get(name, ""))
        if colour.ansi is not None:
            # One of the terminal's 16: what it looks like is not known, so nothing can be mixed from it.
            return colour.rich_color.name if share == 1.0 and colour.ansi >= 0 else ""
        if share < 1.0:
            behind = Color.parse(variables.get("background", ""))
            if behind.ansi is not None:
                return ""
            colour = behind.blend(colour, share)
    except ColorParseError:
        return ""
    return colour.hex6.lower()


def verdict_style(verdict: str) -> Style:
    """The colour of a verdict in the running app's theme; of the terminal's 16 where no app is running."""
    app = active_app.get(None)
    if app is None:
        return Style.parse(_VERDICT_ANSI.get(verdict, ""))
    weight = "bold " if verdict in ("faster", "slower") else ""
    return style_of(app, f"{weight}$verdict-{verdict}")


def speedup_text(speedup: float, ascii: bool = False) -> str:
    """A speed-up with three figures: 1.83×, 12.4×, 137×; a power of ten where nobody could read the rest: 3e+43×."""
    if speedup >= 1e5:
        return f"{speedup:.0e}{'x' if ascii else '×'}"
    places = 2 if speedup < 9.995 else 1 if speedup < 99.95 else 0
    return f"{speedup:.{places}f}{'x' if ascii else '×'}"


def verdict_text(verdict: str, speedup: float | None = None, ascii: bool = False) -> Text:
    """Return a verdict's sign, and the speed-up where there is one, in the verdict's colour.

    The sign alone tells the verdict, so nothing is lost without colour.

    Args:
        verdict: a value of `store.outcomes.Verdict`; anything else is shown as undecided.
        speedup: baseline time over this time; None where it was not measured.
        ascii: use characters of 7 bits only.
    """
    signs = VERDICT_SIGNS_ASCII if ascii else VERDICT_SIGNS
    verdict = verdict if verdict in signs else "undecided"
    text = signs[verdict]
    if speedup is not None and verdict != "none":
        text = f"{text} {speedup_text(speedup, ascii)}"
    return Text(text, verdict_style(verdict), no_wrap=True, end="")
