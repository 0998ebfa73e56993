"""The palette's commands: everything that a key does, for the highlighted target, and what has no key of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from aisp.store.text import clean_line
from aisp.tui import themes
from aisp.tui.keymap import KEYS, key_names

if TYPE_CHECKING:
    from aisp.tui.app import Workbench


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the palette."""

    title: str
    help: str
    run: Callable[[], Any]
    key: str = ""

    @property
    def shown(self) -> Content:
        """Title with its key, as text: the palette takes a string for markup, and ids and titles come from outside."""
        title = clean_line(self.title)
        return Content(f"{title}  ({self.key})" if self.key else title)

    @property
    def told(self) -> str:
        """The help as text; the palette draws a Content as it is, though its type says string."""
        return cast("str", Content(clean_line(self.help)))


def commands(app: Workbench) -> Iterator[Command]:
    """Every command, those about the highlighted target first."""
    screen = app.screen_stack[-1]
    if screen.is_modal and len(app.screen_stack) > 1:
        screen = app.screen_stack[-2]
    target_id = getattr(screen, "target_id", "")

    def key(name: str) -> str:
        row = KEYS[name]
        return row.display or key_names(row.keys)[0]

    if not target_id:
        # Still found, so that a person learns what they need.
        tell = partial(app.notify, "Highlight a target first", severity="warning", markup=False)
        for name in (
            "run_quick",
            "run_full",
            "lesson",
            "diff",
            "watch",
            "history",
            "trust",
            "roofline",
            "fuzz",
            "edit",
            "cancel",
        ):
            yield Command(
                f"{KEYS[name].label.capitalize()} the highlighted target", KEYS[name].sentence, tell, key(name)
            )
    else:
        opening = {"lesson": "Lesson", "diff": "Diff", "watch": "Watch", "history": "History", "trust": "Trust"}
        opening |= {"roofline": "Roofline", "fuzz": "Fuzz"}
        yield Command(
            f"Run {target_id}", KEYS["run_quick"].sentence,
            partial(app.start_runs, [target_id], quick=True), key("run_quick"),
        )  # fmt: skip
        yield Command(
            f"Full run of {target_id}", KEYS["run_full"].sentence,
            partial(app.start_runs, [target_id], quick=False), key("run_full"),
        )  # fmt: skip
        for name, title in opening.items():
            yield Command(
                f"{title} of {target_id}",
                KEYS[name].sentence,
                partial(app.open_screen, name, target_id=target_id),
                key(name),
            )
        yield Command(
            f"Edit {target_id}", KEYS["edit"].sentence,
            getattr(screen, "action_edit", partial(app.edit, target_id)), key("edit"),
        )  # fmt: skip
        yield Command(
            f"Cancel the run of {target_id}", KEYS["cancel"].sentence,
            partial(app.cancel_runs, [target_id]), key("cancel"),
        )  # fmt: skip
    active = [run.record.target for run in app.model.active_runs()]
    if active:
        yield Command("Cancel every run", "Cancel all runs, planned and running.", partial(app.cancel_runs, active))
    for run in list(app.model.runs.values())[:-6:-1]:
        yield Command(
            f"Open run of {run.record.target}",
            f"Run {run.id}, {run.record.state.value}.",
            partial(app.open_screen, "run", run_id=run.id),
        )
    if app.catalog is not None and getattr(screen, "opened_with", None) is not None:
        for target in app.catalog.targets:
            if target.id != target_id:
                yield Command(
                    f"Go to {target.id}", target.title, partial(app.open_screen, "lesson", target_id=target.id)
                )
    yield Command("Catalogue", "Go to the chapters and targets.", partial(app.open_screen, "home"))
    yield Command("Checks", KEYS["checks"].sentence, partial(app.open_screen, "checks"), key("checks"))
    yield Command(
        "Ceilings of this GPU", KEYS["ceilings"].sentence, partial(app.open_screen, "ceilings"), key("ceilings")
    )
    yield Command("Measure the ceilings of this GPU", KEYS["measure"].sentence, app.measure_ceilings)
    yield Command("Engine log", KEYS["log"].sentence, partial(app.open_screen, "enginelog"), key("log"))
    yield Command(
        "Restart engine when idle",
        "Let the engine end after its queue and start a new one.",
        app.restart_engine_when_idle,
    )
    yield Command("Reload catalogue", KEYS["reload"].sentence, app.reload, key("reload"))
    for name in (*themes.THEME_NAMES, *sorted(set(app.available_themes) - set(themes.THEME_NAMES))):
        yield Command(f"Theme {name}", "Change the colours; remembered.", partial(app.set_theme, name))
    for style in ("auto", "braille", "block", "ascii"):
        yield Command(
            f"Graph style {style}", "Change what plots are drawn with; remembered.", partial(app.set_graph, style)
        )
    yield Command(
        "Export screenshot (SVG)", KEYS["screenshot"].sentence, partial(later, app, app.save_picture), key("screenshot")
    )
    yield Command("Help for this pane", KEYS["help"].sentence, partial(later, app, app.open_help), key("help"))
    yield Command("Quit", KEYS["quit"].sentence, partial(app.exit, return_code=0), key("quit"))


def later(app: Workbench, action: Callable[[], object]) -> None:
    """Act when the palette itself is off the screen."""
    app.call_after_refresh(action)


class TargetCommands(Provider):
    """Offers `commands` to the palette."""

    @property
    def _all(self) -> Iterator[Command]:
        return commands(cast("Workbench", self.app))

    async def discover(self) -> Hits:
        for command in self._all:
            if not command.title.startswith(("Go to ", "Theme ", "Graph style ")):
                yield DiscoveryHit(command.shown, command.run, text=command.title, help=command.told)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._all:
            score = matcher.match(command.title)
            if score > 0:
                shown = matcher.highlight(command.shown.plain)
                yield Hit(score, shown, command.run, text=command.title, help=command.told)
