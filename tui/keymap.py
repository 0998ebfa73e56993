"""Every key of the app's own screens, in one table: the action, its keys, and what they do in a sentence.

Screens take their bindings from here with `bind("run_quick", "diff", ...)`; the footer, the help panel and
docs/keys.md are made from those bindings, so they cannot tell anything else. Widgets keep their own keys with
their code. `python -m aisp.tui.keymap docs/keys.md` writes the tables of that page anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """One action and the keys that start it.

    Attributes:
        action: name of the screen's or app's `action_` method, with arguments where it takes any.
        keys: Textual key names, comma-separated; the first is shown in the footer.
        label: a word or two for the footer.
        sentence: what it does, for the help panel and the documentation.
        footer: whether the footer shows it.
        display: how the footer writes the key, where its name is not good enough.
        priority: whether it works even where the focused pane uses the key for itself.
    """

    action: str
    keys: str
    label: str
    sentence: str
    footer: bool = True
    display: str = ""
    priority: bool = False


KEYS: Mapping[str, Key] = {
    # on every screen
    "back": Key(
        "back", "escape,q", "back", "Go back to where you came from; leaves a zoomed pane first.", display="esc"
    ),
    "leave": Key("leave", "q", "quit", "Leave the app; runs and watches go on in the engine."),
    "quit": Key("quit", "ctrl+q", "quit", "Leave the app; runs and watches go on in the engine.", footer=False),
    "help": Key("help", "question_mark", "help", "List the keys of the focused pane.", display="?"),
    "palette": Key(
        "app.command_palette", "ctrl+p", "menu", "Find any command by a few letters.", display="^p", priority=True
    ),
    "zoom": Key("zoom", "z", "zoom", "Give the focused pane the whole screen, and back.", footer=False),
    "next_pane": Key("focus_next_pane", "tab", "next pane", "Move to the next pane.", footer=False),
    "previous_pane": Key("focus_previous_pane", "shift+tab", "previous pane", "Move to the pane before.", footer=False),
    "copy": Key(
        "copy", "y", "copy", "Copy what is highlighted: to the terminal's clipboard, and to a file.", footer=False
    ),
    "log": Key(
        "engine_log",
        "l,L",
        "engine log",
        "Show the engine's own log; `L` where the pane scrolls with `l`.",
        footer=False,
    ),
    "accept_installed": Key(
        "accept_installed",
        "A",
        "accept",
        "Accept what appeared on the import path while a run went on, after a question: it was you.",
        footer=False,
    ),
    "theme": Key(
        "app.next_theme",
        "T",
        "theme",
        "Change to the next theme: dark, light, safe for colour-blind people.",
        footer=False,
    ),
    "screenshot": Key(
        "app.screenshot", "ctrl+s", "screenshot", "Save the screen as an SVG in the state folder.", footer=False
    ),
    "suspend": Key("app.suspend_process", "ctrl+z", "to the shell", "Go to the shell; `fg` comes back.", footer=False),
    # wherever a target is highlighted
    "run_quick": Key("run_quick", "r", "run", "Run the target quickly (one replica) and watch it."),
    "run_full": Key("run_full", "R", "full", "Run the target in full: as many replicas as the verdict asks for."),
    "cancel": Key("cancel", "x", "cancel", "Cancel the target's planned or running run.", footer=False),
    "diff": Key("diff", "d", "diff", "Compare the baseline's source with the optimized one's, side by side."),
    "watch": Key("watch", "w", "watch", "Run the target again after each save of its files."),
    "history": Key("history", "t", "history", "Show every stored run of the target."),
    "edit": Key("edit", "e", "edit", "Open the rung's file in your editor; the app comes back when it ends."),
    "roofline": Key("roofline", "f", "roofline", "Show the rungs of the last run under the roofs of its GPU."),
    "ceilings": Key(
        "ceilings",
        "c",
        "ceilings",
        "Show what this GPU was measured to do at most, beside its datasheet.",
        footer=False,
    ),
    "trust": Key(
        "trust", "v", "trust", "Show whether the last run may be believed: a careless timer's number, and every check."
    ),
    "fuzz": Key(
        "app.fuzz",
        "F",
        "fuzz",
        "Show whether the rungs are right on every input: the target's newest fuzz.",
        footer=False,
    ),
    "checks": Key("checks", "V", "checks", "List every check, with what it did in the last run.", footer=False),
    # catalogue
    "lesson": Key(
        "lesson", "enter", "lesson", "Read the target's lesson; on a chapter, fold or unfold it.", display="⏎"
    ),
    "filter": Key(
        "filter", "slash", "filter", "Show only what contains the words you type; escape clears.", display="/"
    ),
    "fold": Key("fold", "left,h", "fold", "Fold the chapter.", footer=False),
    "unfold": Key("unfold", "right", "unfold", "Unfold the chapter.", footer=False),
    "toggle_fold": Key("toggle_fold", "space", "fold or unfold", "Fold or unfold the chapter.", footer=False),
    "fold_all": Key(
        "fold_all", "minus", "fold all", "Fold every chapter, or unfold them all.", footer=False, display="-"
    ),
    "reload": Key("reload", "f5", "reload", "Read the catalogue and the last results again.", footer=False),
    # lesson
    "source": Key("source", "enter,s", "source", "Show the highlighted rung's source beside the lesson.", display="⏎"),
    "lesson_text": Key("lesson_text", "m", "text", "Show the lesson's text in the place of the source, and back."),
    "next_rung": Key("next_rung", "right_square_bracket", "rung", "Go to the next rung.", display="[ ]"),
    "previous_rung": Key(
        "previous_rung", "left_square_bracket", "rung before", "Go to the rung before.", display="[", footer=False
    ),
    "lesson_samples": Key(
        "samples", "i", "samples", "Show what the last run's samples say of the highlighted rung, and back."
    ),
    # trust and checks
    "evidence": Key(
        "evidence",
        "enter",
        "evidence",
        "Read all about the highlighted row, and go back; fold or unfold a category.",
        display="⏎",
    ),
    "only": Key(
        "only", "o", "only", "Show every check, only what is not passed, or only what was caught or is suspect."
    ),
    "issues": Key("issues", "i", "issues", "List the issues with what answers them, or the checks again."),
    "proof": Key("proof", "p", "proof", "Open the lesson of the cheat that proves the highlighted check."),
    "next_check": Key("step_check(1)", "right_square_bracket", "check", "Go to the next check.", display="[ ]"),
    "previous_check": Key(
        "step_check(-1)", "left_square_bracket", "check before", "Go to the check before.", display="[", footer=False
    ),
    "fold_category": Key("fold", "left,h", "fold", "Fold the category.", footer=False),
    "unfold_category": Key("unfold", "right", "unfold", "Unfold the category.", footer=False),
    "toggle_category": Key("toggle_fold", "space", "fold or unfold", "Fold or unfold the category.", footer=False),
    "fold_categories": Key(
        "fold_all", "minus", "fold all", "Fold every category, or unfold them all.", footer=False, display="-"
    ),
    "run_trust": Key(
        "trust", "v", "trust", "Show whether this run may be believed: a careless timer's number, and every check."
    ),
    "diff_twin": Key(
        "diff",
        "d",
        "diff",
        "Compare the baseline (of a cheat: its honest twin) with the highlighted rung, as they ran.",
    ),
    # fuzz
    "fuzz_start": Key(
        "start", "r", "fuzz", "Try the chosen rung, or all of them, on 200 drawn cases against the fp64 reference."
    ),
    "fuzz_stop": Key("stop", "x", "stop", "Stop the fuzz; what was judged is kept."),
    "failure": Key("failure", "enter", "read", "Read all about the highlighted failure, and go back.", display="⏎"),
    "script": Key("script", "s", "script", "Show the highlighted failure's script whole, and go back."),
    "copy_script": Key(
        "copy", "y", "copy", "Copy the highlighted failure's script; what was found, where nothing failed."
    ),
    "replay": Key(
        "replay", "p", "replay", "Do the highlighted failure again from its stored sources, and say what became of it."
    ),
    "fuzz_rung": Key(
        "pick_rung(1)", "right_square_bracket", "rung", "Show the next rung alone, after the last all.", display="[ ]"
    ),
    "fuzz_rung_before": Key(
        "pick_rung(-1)",
        "left_square_bracket",
        "rung before",
        "Show the rung before alone, before the first all.",
        display="[",
        footer=False,
    ),
    "fuzz_only": Key("only", "o", "failing", "Show only the failing cases, or every case."),
    "next_failure": Key("step_failure(1)", "n", "next failure", "Go to the next failure.", footer=False),
    "previous_failure": Key("step_failure(-1)", "N", "failure before", "Go to the failure before.", footer=False),
    "fuzz_earlier": Key(
        "pick_fuzz(1)", "left_curly_bracket", "earlier fuzz", "Show the fuzz before this one.", display="{ }"
    ),
    "fuzz_later": Key(
        "pick_fuzz(-1)", "right_curly_bracket", "later fuzz", "Show the fuzz after this one.", display="}", footer=False
    ),
    # roofline and ceilings
    "open_last_run": Key("open_run", "enter", "open run", "Open the run whose rungs are shown.", display="⏎"),
    "measure": Key("measure", "r", "measure", "Measure the ceilings of this GPU once it is free."),
    # diff
    "left_previous": Key(
        "pick(0, -1)", "left_square_bracket", "left", "Put the source before into the left half.", display="[ ]"
    ),
    "left_next": Key(
        "pick(0, 1)",
        "right_square_bracket",
        "left",
        "Put the next source into the left half.",
        display="]",
        footer=False,
    ),
    "right_previous": Key(
        "pick(1, -1)", "left_curly_bracket", "right", "Put the source before into the right half.", display="{ }"
    ),
    "right_next": Key(
        "pick(1, 1)",
        "right_curly_bracket",
        "right",
        "Put the next source into the right half.",
        display="}",
        footer=False,
    ),
    "left_list": Key(
        "choose(0)", "o", "pick left", "Pick the left source from a list: rungs now, and every earlier run."
    ),
    "right_list": Key("choose(1)", "p", "pick right", "Pick the right source from a list.", footer=False),
    "swap": Key("swap", "s", "swap", "Swap left and right.", footer=False),
    # history
    "open_run": Key("open_run", "enter", "open run", "Open the stored run.", display="⏎"),
    "mark": Key("mark", "m,space", "mark", "Mark a run; the diff compares the sources of the two marked last."),
    "diff_runs": Key(
        "diff_runs", "d", "diff", "Compare the sources of the two marked runs, or of the highlighted run with now."
    ),
    "next_rung_plot": Key("plot_rung(1)", "right_square_bracket", "rung", "Plot the next rung.", display="[ ]"),
    "previous_rung_plot": Key(
        "plot_rung(-1)", "left_square_bracket", "rung", "Plot the rung before.", display="[", footer=False
    ),
    # help and questions
    "close": Key("dismiss_panel", "escape,q,question_mark", "close", "Close this panel.", display="esc"),
    "yes": Key("answer(True)", "y", "yes", "Do it."),
    "no": Key("answer(False)", "n,escape,q", "no", "Leave everything as it is."),
}

EVERYWHERE = (
    "back",
    "help",
    "palette",
    "zoom",
    "copy",
    "log",
    "accept_installed",
    "theme",
    "screenshot",
    "suspend",
    "next_pane",
    "previous_pane",
)
TARGET = (
    "run_quick",
    "run_full",
    "cancel",
    "diff",
    "watch",
    "history",
    "trust",
    "edit",
    "roofline",
    "ceilings",
    "checks",
    "fuzz",
)


def bind(*names: str) -> list[BindingType]:
    """Bindings of the named rows of KEYS, in that order; a name may stand for a set (see EVERYWHERE, TARGET)."""
    return [_binding(name, KEYS[name]) for name in names]


def _binding(name: str, key: Key) -> Binding:
    return Binding(
        key.keys,
        key.action,
        key.label,
        show=key.footer,
        key_display=key.display or None,
        tooltip=key.sentence,
        priority=key.priority,
        id=name,
    )


_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "minus": "-",
    "plus": "+",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "equals_sign": "=",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "colon": ":",
    "pagedown": "page down",
    "pageup": "page up",
}


def key_names(keys: str) -> list[str]:
    """Textual's key names as a person writes them: "question_mark,ctrl+p" -> ["?", "ctrl+p"]."""
    out = []
    for key in keys.split(","):
        *modifiers, name = key.strip().split("+") if key.strip() != "+" else ["+"]
        out.append("+".join([*modifiers, _NAMES.get(name, name)]))
    return out


# What stands in docs/keys.md: the title of a table, and the class whose own bindings it lists.
DOCUMENTED: tuple[tuple[str, str, str], ...] = (
    ("Everywhere", "aisp.tui.screens.base", "WorkScreen"),
    ("The app", "aisp.tui.app", "Workbench"),
    ("Catalogue", "aisp.tui.screens.home", "HomeScreen"),
    ("Lesson", "aisp.tui.screens.lesson", "LessonScreen"),
    ("Diff", "aisp.tui.screens.diff", "DiffScreen"),
    ("History", "aisp.tui.screens.history", "HistoryScreen"),
    ("Run", "aisp.tui.screens.run", "RunScreen"),
    ("Trust", "aisp.tui.screens.trust", "TrustScreen"),
    ("Checks", "aisp.tui.screens.checks", "ChecksScreen"),
    ("Fuzz", "aisp.tui.screens.fuzz", "FuzzScreen"),
    ("Roofline", "aisp.tui.screens.roofline", "RooflineScreen"),
    ("Ceilings", "aisp.tui.screens.ceilings", "CeilingsScreen"),
    ("Watch", "aisp.tui.screens.watch", "WatchScreen"),
    ("Engine log", "aisp.tui.screens.enginelog", "EngineLogScreen"),
    ("Help", "aisp.tui.screens.help", "HelpScreen"),
    ("Questions", "aisp.tui.screens.confirm", "ConfirmScreen"),
    ("Lists to pick from", "aisp.tui.screens.picker", "PickerScreen"),
    ("Pane: table", "aisp.tui.widgets.table", "LiveTable"),
    ("Pane: source", "aisp.tui.screens.source", "SourceView"),
    ("Pane: side-by-side diff", "aisp.tui.widgets.diffview", "DiffView"),
    ("Pane: log", "aisp.tui.widgets.logpane", "LogPane"),
    ("Pane: live plot", "aisp.tui.widgets.plot", "LivePlot"),
    ("Pane: history plot", "aisp.tui.screens.history_plot", "HistoryPlot"),
)

BEGIN = "<!-- keys: begin -->"
END = "<!-- keys: end -->"


def tables() -> str:
    """Markdown tables of every key, made from the classes of DOCUMENTED."""
    import importlib

    parts = []
    for title, module, name in DOCUMENTED:
        found: Any = getattr(importlib.import_module(module), name)
        rows: dict[str, tuple[list[str], str]] = {}
        for binding in Binding.make_bindings(found.__dict__.get("BINDINGS", [])):
            text = binding.tooltip or binding.description
            if binding.system or not text:
                continue
            keys, _ = rows.setdefault(binding.action, ([], text if text.endswith(".") else text + "."))
            key = key_names(binding.key)[0]
            if key not in keys:
                keys.append(key)
        if rows:
            lines = [f"## {title}", "", "| keys | what it does |", "|---|---|"]
            lines += ["| " + " ".join(f"`{key}`" for key in keys) + f" | {text} |" for keys, text in rows.values()]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def documented(page: str) -> str:
    """`page` with the tables between the markers made anew. Raises ValueError where a marker is missing."""
    if BEGIN not in page or END not in page:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


def write(path: Path) -> None:
    """Write the tables of a page anew."""
    path.write_text(documented(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    import sys

    # Under its own name, so that the classes of the screens are the ones that everybody else sees.
    from aisp.tui.keymap import write as write_page

    write_page(Path(sys.argv[1]))
