"""The table of screens, one line each: where a screen lives, what opens it, and what that is called.

A new screen is its module and its line here. Footer, help panel, palette and docs/keys.md follow from the line and from
the screen's own BINDINGS. What stands here is what is needed before a screen is imported: a screen is imported when it
is first opened. `Workbench.open_screen(name, **arguments)` builds `class_name(**arguments)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.screen import Screen

    from aisp.kernels.catalog.model import Catalog
    from aisp.store.record import Run


@dataclass(frozen=True, slots=True)
class Source:
    """A text to compare: a file of a target, now or as it ran.

    Attributes:
        name: a rung ("optimized_swizzled") or a file relative to the target's folder ("transpose.cu").
        snapshot: hash of a stored snapshot; "" for the file as it is now.
        wall: when the run began that is meant, of several that ran the same; "" for the newest.
    """

    name: str
    snapshot: str = ""
    wall: str = ""

    @classmethod
    def ran(cls, name: str, run: Run) -> Source:
        """It as a run had it."""
        return cls(name, run.snapshot, run.wall)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the app begins.

    Attributes:
        folder: of targets, instead of the shipped lessons.
        catalog: what was found there, where that was looked for already.
        screen: of SCREENS, opened over the catalogue with `arguments`; "" for the catalogue itself.
    """

    folder: Path | None = None
    catalog: Catalog | None = None
    screen: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """A screen as it is known before it is imported.

    Attributes:
        place: its module, with a dot in front where that is one of this folder.
        sentence: what opening it does, for help, palette and docs/keys.md; "" where only an argument can say.
        keys: what opens it wherever a target is highlighted, as Textual names keys; "" where no key does.
        label: a word or two for the footer; "" keeps it out of the footer.
        display: how the footer writes the key, where its name is not good enough.
        of_target: whether it takes a `target_id`.
        command: its row of the palette, where that is not its title.
    """

    place: str
    class_name: str
    title: str
    sentence: str = ""
    keys: str = ""
    label: str = ""
    display: str = ""
    of_target: bool = False
    command: str = ""

    @property
    def module(self) -> str:
        return f"{__name__}{self.place}" if self.place.startswith(".") else self.place

    def load(self) -> type[Screen[Any]]:
        found: type[Screen[Any]] = getattr(importlib.import_module(self.module), self.class_name)
        return found


# In the order of docs/keys.md. Further arguments that a screen takes stand with its class.
SCREENS: dict[str, ScreenEntry] = {
    "home": ScreenEntry(".home", "HomeScreen", "Catalogue", "Go to the chapters and targets."),
    "lesson": ScreenEntry(
        ".lesson", "LessonScreen", "Lesson", "Read the target's lesson; on a chapter, fold or unfold it.",
        "enter", "lesson", "⏎", of_target=True,
    ),
    "diff": ScreenEntry(
        ".diff", "DiffScreen", "Diff", "Compare the baseline's source with the optimized one's, side by side.",
        "d", "diff", of_target=True,
    ),
    "history": ScreenEntry(
        ".history", "HistoryScreen", "History", "Show every stored run of the target.", "t", "history", of_target=True
    ),
    "compare": ScreenEntry(".compare", "CompareScreen", "Compare two runs"),
    "lessons": ScreenEntry(
        ".lessons", "LessonsScreen", "All lessons",
        "Show all lessons on one page: speed-ups beside what was predicted, sorted and filtered.", "O",
    ),
    "suite": ScreenEntry(
        ".suite", "SuiteScreen", "Suite",
        "Show whether the targets of a suite are still as fast as they were: history, change, cause.", "B",
    ),
    "run": ScreenEntry(".run", "RunScreen", "Run"),
    "problems": ScreenEntry(".problems", "ProblemsScreen", "Problems of others"),
    "trust": ScreenEntry(
        ".trust", "TrustScreen", "Trust",
        "Show whether the last run may be believed: a naive harness's number, and every check.",
        "v", "trust", of_target=True,
    ),
    "checks": ScreenEntry(
        ".checks", "ChecksScreen", "Checks", "List every check, with what it did in the last run.", "V", "checks"
    ),
    "fuzz": ScreenEntry(
        ".fuzz", "FuzzScreen", "Fuzz", "Show whether the rungs are right on every input: the target's newest fuzz.",
        "F", "fuzz", of_target=True,
    ),
    "roofline": ScreenEntry(
        ".roofline", "RooflineScreen", "Roofline", "Show the rungs of the last run under the roofs of its GPU.",
        "f", "roofline", of_target=True,
    ),
    "ceilings": ScreenEntry(
        ".ceilings", "CeilingsScreen", "Ceilings",
        "Show what this GPU was measured to do at most, beside its datasheet.",
        "c", "ceilings", command="Ceilings of this GPU",
    ),
    "watch": ScreenEntry(
        ".watch", "WatchScreen", "Watch", "Run the target again after each save of its files.",
        "w", "watch", of_target=True,
    ),
    "jobs": ScreenEntry(
        ".jobs", "JobsScreen", "Jobs", "Show what runs, what waits for it in which order, and what is watched.",
        "J", "jobs",
    ),
    "enginelog": ScreenEntry(
        ".enginelog", "EngineLogScreen", "Engine log",
        "Show the engine's own log; `L` where the pane scrolls with `l`.", "l,L", "log",
    ),
    "jump": ScreenEntry(
        ".jump", "JumpScreen", "Jump", "Put a letter on every pane and row, and go to the one that is pressed.",
        "ctrl+o",
    ),
    "help": ScreenEntry(
        ".help", "HelpScreen", "Help", "List the keys of the focused pane.",
        "question_mark", "help", "?", command="Help for this pane",
    ),
}  # fmt: skip
