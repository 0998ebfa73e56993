"""docs/keys.md: every key, from the bindings of the classes that have them."""

from __future__ import annotations

import importlib
from typing import Any

from textual.binding import Binding

from aisp.tui.keymap import key_names
from aisp.tui.screens import SCREENS

# What stands in docs/keys.md: the title of a table, and the class whose own bindings it lists.
DOCUMENTED: tuple[tuple[str, str, str], ...] = (
    ("Everywhere", "aisp.tui.screens.base", "WorkScreen"),
    ("The app", "aisp.tui.app", "Workbench"),
    *((entry.title, entry.module, entry.class_name) for entry in SCREENS.values()),
    ("Questions", "aisp.tui.screens.confirm", "ConfirmScreen"),
    ("Questions before files are written", "aisp.tui.screens.confirm", "QuestionScreen"),
    ("The question whether to edit a copy", "aisp.tui.screens.confirm", "CopyScreen"),
    ("Lists to pick from", "aisp.tui.screens.picker", "PickerScreen"),
    ("Pane: table", "aisp.tui.widgets.table", "LiveTable"),
    ("Pane: source", "aisp.tui.screens.source", "SourceView"),
    ("Pane: side-by-side diff", "aisp.tui.widgets.diffview", "DiffView"),
    ("Pane: log", "aisp.tui.widgets.logpane", "LogPane"),
    ("Pane: live plot", "aisp.tui.widgets.plot", "LivePlot"),
    ("Pane: plot of edits or runs", "aisp.tui.widgets.editplot", "EditPlot"),
)


def tables() -> str:
    """Markdown tables of every key, made from the classes of DOCUMENTED."""
    parts = []
    for title, module, name in DOCUMENTED:
        found: Any = getattr(importlib.import_module(module), name)
        rows: dict[str, tuple[list[str], str, str]] = {}
        for binding in Binding.make_bindings(found.__dict__.get("BINDINGS", [])):
            text = binding.tooltip or binding.description
            if binding.system or not text:
                continue
            sentence = text if text.endswith(".") else text + "."
            keys, _, _ = rows.setdefault(binding.action, ([], sentence, f"`{binding.id}`" if binding.id else ""))
            key = key_names(binding.key)[0]
            if key not in keys:
                keys.append(key)
        if rows:
            lines = [f"## {title}", "", "| keys | what it does | name |", "|---|---|---|"]
            lines += [
                "| " + " ".join(f"`{key}`" for key in keys) + f" | {text} | {name} |"
                for keys, text, name in rows.values()
            ]
            parts.append("\n".join(lines))
    return "\n\n".join(parts)
