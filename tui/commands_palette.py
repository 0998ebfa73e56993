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
from aisp.tui.keymap import KEYS, TARGET, key_names
from aisp.tui.screens import SCREENS

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
        return Content(f"{self.title}  ({self.key})" if self.key else self.title)

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
        row = KEYS.get(name)
        return (row.display or key_names(row.keys)[0]) if row is not None else ""

    whose = target_id or "the highlighted target"
    tell = partial(app.notify, "Highlight a target first", severity="warning")

    def about_target(title: str, name: str, run: Callable[[], Any]) -> Command:
        # Without a target still found, so that a person learns what it needs.
        return Command(f"{title} {whose}", KEYS[name].sentence, run if target_id else tell, key(name))

    yield about_target("Run", "run_quick", partial(app.start_runs, [target_id], quick=True))
    yield about_target("Full run of", "run_full", partial(app.start_runs, [target_id], quick=False))
    for name in ("lesson", *TARGET):
        if name in SCREENS and SCREENS[name].of_target:
            opening = partial(app.open_screen, name, target_id=target_id)
            yield about_target(f"{SCREENS[name].title} of", name, opening)
    yield about_target("Edit", "edit", getattr(screen, "action_edit", partial(app.edit, target_id)))
    yield about_target("Cancel the run of", "cancel", partial(app.cancel_runs, [target_id]))
    if len(app.marked) == 2:
        yield Command("Compare the two marked runs", "Figures, differences, checks.", app.compare_marked, "C")
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
    for name, entry in SCREENS.items():
        if entry.sentence and not entry.of_target:
            opening = partial(later, app, app.open_help) if name == "help" else partial(app.open_screen, name)
            yield Command(entry.command or entry.title, entry.sentence, opening, key(name))
    yield Command("Measure the ceilings of this GPU", KEYS["measure"].sentence, app.measure_ceilings)
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
