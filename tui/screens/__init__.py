"""The table of screens: a new screen is one module and one line here. Screens are imported when first opened.

`Workbench.open_screen(name, **arguments)` builds `class_name(**arguments)`; what each takes stands beside it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True, slots=True)
class Source:
    """A text to compare: a file of a target, now or as it ran.

    Attributes:
        name: a rung ("optimized_swizzled") or a file relative to the target's folder ("transpose.cu").
        snapshot: hash of a stored snapshot; "" for the file as it is now.
    """

    name: str
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """Where a screen lives and how it is told to a person."""

    module: str
    class_name: str
    title: str
    key: str  # the key that opens it from the catalogue; "" where an argument decides
    help: str  # one sentence

    def load(self) -> type[Screen[Any]]:
        """The screen's class; imports its module."""
        found: type[Screen[Any]] = getattr(importlib.import_module(self.module), self.class_name)
        return found


SCREENS: Mapping[str, ScreenEntry] = {
    # no arguments
    "home": ScreenEntry(
        "aisp.tui.screens.home", "HomeScreen", "Catalogue", "", "Chapters, targets and their last results."
    ),
    # target_id
    "lesson": ScreenEntry(
        "aisp.tui.screens.lesson", "LessonScreen", "Lesson", "enter", "What a target teaches, and its sources."
    ),
    # target_id, left: Source | None, right: Source | None
    "diff": ScreenEntry(
        "aisp.tui.screens.diff", "DiffScreen", "Diff", "d", "Two rungs side by side, now or as they ran earlier."
    ),
    # target_id
    "history": ScreenEntry(
        "aisp.tui.screens.history", "HistoryScreen", "History", "t", "Every stored run of a target, with intervals."
    ),
    # run_id
    "run": ScreenEntry(
        "aisp.tui.screens.run", "RunScreen", "Run", "r", "One run: every iteration's time, clocks and the verdict."
    ),
    # target_id, run_id: str = "" for the newest run on a GPU
    "roofline": ScreenEntry(
        "aisp.tui.screens.roofline", "RooflineScreen", "Roofline", "f", "The rungs of a run under the roofs of its GPU."
    ),
    # target_id: str = "", run_id: str = "" for the target's newest run
    "trust": ScreenEntry(
        "aisp.tui.screens.trust",
        "TrustScreen",
        "Trust",
        "v",
        "What a careless timer says, what we say, and every check.",
    ),
    # run_id: str = "" for the newest run that has findings
    "checks": ScreenEntry(
        "aisp.tui.screens.checks", "ChecksScreen", "Checks", "V", "Every check by category, with what it did last."
    ),
    # target_id, fuzz_id: str = "" for the target's newest
    "fuzz": ScreenEntry(
        "aisp.tui.screens.fuzz", "FuzzScreen", "Fuzz", "F", "Whether rungs are right on every input, case by case."
    ),
    # no arguments
    "ceilings": ScreenEntry(
        "aisp.tui.screens.ceilings", "CeilingsScreen", "Ceilings", "c", "What this GPU does at most, and its datasheet."
    ),
    # target_id
    "watch": ScreenEntry(
        "aisp.tui.screens.watch", "WatchScreen", "Watch", "w", "Runs a target again after each save of its files."
    ),
    # no arguments
    "enginelog": ScreenEntry(
        "aisp.tui.screens.enginelog", "EngineLogScreen", "Engine log", "l", "What the engine says about itself."
    ),
    # subject: Screen
    "help": ScreenEntry(
        "aisp.tui.screens.help", "HelpScreen", "Help", "?", "The keys of the focused pane, each with a sentence."
    ),
}
