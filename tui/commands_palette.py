"""The palette's commands: everything that a key does, for the highlighted target, and what has no key of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.fuzzy import Matcher

from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain, themes
from aisp.tui.aside import begin
from aisp.tui.keymap import KEYS, TARGET, key_names
from aisp.tui.results import run_word
from aisp.tui.screens import SCREENS
from aisp.tui.settings import settings_file
from aisp.tui.themes import verdict_text

if TYPE_CHECKING:
    from aisp.store.record import Run
    from aisp.tui.app import Workbench

NEWEST = 5  # runs that are offered of a target, and of all before anything is typed
RUN_WEIGHT = 0.5  # of what is found: a lesson comes before the runs of it
LOOK_BACK_RUNS = 300  # of the store, in which they are looked for


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the palette.

    Attributes:
        wanted: whether it is offered before anything is typed.
        words: what else finds it, beside its title.
    """

    title: str
    help: str
    run: Callable[[], Any]
    key: str = ""
    wanted: bool = True
    words: str = ""
    weight: float = 1.0

    @property
    def shown(self) -> Content:
        """Title with its key, as text: the palette takes a string for markup, and ids and titles come from outside."""
        return Content(f"{self.title}  ({self.key})" if self.key else self.title)

    @property
    def told(self) -> str:
        """The help as text; the palette draws a Content as it is, though its type says string."""
        return cast("str", Content(clean_line(self.help)))


def commands(app: Workbench, stored: Sequence[Run] = ()) -> Iterator[Command]:
    """Every command, those about the highlighted target first.

    Args:
        stored: runs of the store, to be offered beside those of this session.
    """
    screen = app.screen_stack[-1]
    if screen.is_modal and len(app.screen_stack) > 1:
        screen = app.screen_stack[-2]
    target_id = getattr(screen, "target_id", "")

    def key(name: str) -> str:
        return key_names(app.keys_of(name))[0] if name in KEYS else ""

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
    yield from _runs(app, stored)
    if app.catalog is not None:
        for target in app.catalog.targets:
            yield Command(
                f"Lesson {target.id}: {clean_line(target.title)}",
                ", ".join(target.techniques) or "No technique is named.",
                partial(app.open_screen, "lesson", target_id=target.id),
                wanted=False,
                words=" ".join(target.techniques),
            )
    for name, entry in SCREENS.items():
        if entry.sentence and not entry.of_target:
            over = name in ("help", "jump")  # they lie over a screen, which the palette has left by then
            opening = partial(later, app, partial(app.open_over, name)) if over else partial(app.open_screen, name)
            yield Command(entry.command or entry.title, entry.sentence, opening, key(name))
    yield Command("Measure the ceilings of this GPU", KEYS["measure"].sentence, app.measure_ceilings)
    yield Command(
        "Restart engine when idle",
        "Let the engine end after its queue and start a new one.",
        app.restart_engine_when_idle,
    )
    yield Command("Reload catalogue", KEYS["reload"].sentence, app.reload, key("reload"))
    for name in (*themes.THEME_NAMES, *sorted(set(app.available_themes) - set(themes.THEME_NAMES))):
        about = "Change the colours; remembered."
        yield Command(f"Theme {name}", about, partial(app.set_theme, name), wanted=False)
    for style in ("auto", "braille", "block", "ascii"):
        about = "Change what plots are drawn with; remembered."
        yield Command(f"Graph style {style}", about, partial(app.set_graph, style), wanted=False)
    yield Command("Edit the settings", f"Open {settings_file()} in your editor.", app.edit_settings, wanted=False)
    yield Command(
        "Export screenshot (SVG)", KEYS["screenshot"].sentence, partial(later, app, app.save_picture), key("screenshot")
    )
    yield Command("Quit", KEYS["quit"].sentence, partial(app.exit, return_code=0), key("quit"))


def _runs(app: Workbench, stored: Sequence[Run]) -> Iterator[Command]:
    """The newest runs of every target: of the store and of this session."""
    readings = {run.id: Reading(run) for run in stored} | app.model.runs
    newest = sorted((reading.record for reading in readings.values()), key=lambda run: run.wall, reverse=True)
    now = datetime.now(UTC)
    seen: dict[str, int] = {}
    for number, run in enumerate(newest):
        seen[run.target] = seen.get(run.target, 0) + 1
        if seen[run.target] > NEWEST:
            continue
        item = None if run.validity.suspect else readings[run.id].headline
        timed = item is not None and item.speedup is not None
        figure = verdict_text(item.verdict, item.speedup, app.ascii).plain if item and timed else run_word(run)
        yield Command(
            f"Run of {run.target}, {figure}, {plain.ago(run.wall, now)}",
            f"{'Quick' if run.quick else 'Full'} run {run.id} on {run.device}.",
            partial(app.open_screen, "run", run_id=run.id),
            wanted=number < NEWEST,
            weight=RUN_WEIGHT,
        )


def later(app: Workbench, action: Callable[[], object]) -> None:
    """Act when the palette itself is off the screen."""
    app.call_after_refresh(action)


class TargetCommands(Provider):
    """Offers `commands` to the palette."""

    _stored: Sequence[Run] = ()

    async def startup(self) -> None:
        """Ask the store for runs, without waiting: what is typed meanwhile finds all else."""
        begin(self.app, self._read, group="palette", exclusive=True)

    async def _read(self) -> None:
        app = cast("Workbench", self.app)
        found, why = await app.read(lambda history: history.newest(LOOK_BACK_RUNS, all_findings=False))
        if why:
            app.log(f"the palette has no stored runs: {why}")
        self._stored = found or ()

    @property
    def _all(self) -> Iterator[Command]:
        return commands(cast("Workbench", self.app), self._stored)

    async def discover(self) -> Hits:
        for command in self._all:
            if command.wanted:
                yield DiscoveryHit(command.shown, command.run, text=command.title, help=command.told)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._all:
            score = max(matcher.match(command.title), matcher.match(command.words) if command.words else 0.0)
            if score > 0:
                shown = _highlighted(matcher, command.shown)
                yield Hit(score * command.weight, shown, command.run, command.title, command.told)


def _highlighted(matcher: Matcher, shown: Content) -> Content:
    """A title with what was found in it. Textual's own would take brackets in a title for markup."""
    _, offsets = matcher.fuzzy_search.match(matcher.query, shown.plain)
    for offset in offsets:
        shown = shown.stylize(matcher.match_style, offset, offset + 1)
    return shown
