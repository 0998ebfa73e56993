"""What all of the app's screens share: header row, banner row, key row, the keys that work everywhere.

A screen of the app subclasses `WorkScreen`, yields its panes in `compose_body` and, where it is about one
target, says which by `target_id`; then run, edit, cancel and the screens about a target work on it by TARGET's keys.
`refresh_from(names)` is called with what changed in the model, at most ten times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.scalar import Scalar
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from aisp.engine.protocol import requests
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.aside import begin
from aisp.tui.keymap import EVERYWHERE, bind, bindings_of
from aisp.tui.screens import SCREENS
from aisp.tui.widgets.finding import WordsInput
from aisp.tui.widgets.table import LiveTable
from aisp.tui.widgets.textrows import TextRows

if TYPE_CHECKING:
    from aisp.tui.app import Workbench

Sizes: TypeAlias = Mapping[str, Callable[[Size], bool]]

LEAST_COLUMNS = 40
LEAST_ROWS = 10
GENERAL = (*EVERYWHERE, "find", "quit")  # of a footer, what comes after the screen's own
WORDY_COLUMNS = 100  # from here on the header has room for "running" rather than "run"


def entitle(pane: Widget, title: str) -> None:
    """Give a pane its border title. Setting one repaints the whole pane, so the title that it has is left alone."""
    content = Content(title)
    if pane.border_title != content.markup:
        pane.border_title = content


def subtitle(pane: Widget, text: str) -> None:
    """Give a pane its text in the lower border, likewise."""
    content = Content(text)
    if (pane.border_subtitle or "") != content.markup:
        pane.border_subtitle = content


class ScrollPane(VerticalScroll):
    """A pane of prose that scrolls."""

    can_focus = True
    ALLOW_MAXIMIZE = True


class OneRow(TextRows):
    """A row of text that hangs on how things stand."""

    DEFAULT_CSS = "OneRow { background: $panel; color: $foreground; }"

    def row(self, width: int) -> Text:
        raise NotImplementedError

    def renew(self) -> None:
        if self.size.width:
            self.show([self.row(self.size.width)])

    def on_resize(self, _event: events.Resize) -> None:
        self.renew()


class HeaderLine(OneRow):
    """Where one is on the left, the machine and the engine on the right."""

    def row(self, width: int) -> Text:
        screen, app = self.screen, cast("Workbench", self.app)
        left = Text(" aisp ", style="bold reverse")
        title = screen.header_title if isinstance(screen, WorkScreen) else str(screen.title or "")
        left.append(f" {clean_line(title)}", style="bold")
        right = machine_line(app, short=width < WORDY_COLUMNS)
        whole = machine_line(app, short=width < WORDY_COLUMNS, strip=True)
        if cell_len(left.plain) + cell_len(whole.plain) + 3 <= width:
            right = whole  # only where the strip hides nothing else
        room = width - cell_len(right.plain) - 2
        if room < 16:
            right.truncate(max(0, width - 16 - 2), overflow="ellipsis")
            room = width - cell_len(right.plain) - 2
        left.truncate(max(0, room), overflow="ellipsis")
        gap = width - cell_len(left.plain) - cell_len(right.plain) - 1
        return Text.assemble(left, " " * max(1, gap), right)


def machine_line(app: Workbench, *, short: bool = False, strip: bool = False) -> Text:
    """The machine's GPU and what the engine does, for the header; in `short` words where room is scarce, with the strip
    of the GPU's state where there is plenty."""
    running, waiting, watches = app.work_counts()
    words = ("run", "wait") if short else ("running", "waiting")
    parts = [Text(f"{n} {word}", "bold") for n, word in zip((running, waiting), words, strict=True) if n]
    if watches:
        parts.append(Text(f"watch {watches}" if short else f"watching {watches}"))
    if app.far:
        parts.append(Text(app.far))
    state = app.link.state if app.link is not None else "connecting"
    if state == "connected":
        if not running and not waiting and not watches:
            parts.append(Text("engine ready"))
    elif state.startswith("mismatch"):
        parts.append(Text("engine is of another version", style="bold"))
    elif state.startswith("lost"):
        parts.append(Text("engine lost", style="bold"))
    else:
        parts.append(Text(f"engine {state.partition(':')[0]}"))  # the banner says what is waited for
    if app.machine:
        at = len(parts) if short else 0  # what is cut off is at the end
        parts[at:at] = [Text(app.machine[:48]), *([device_strip(app)] if strip and app.gpus else [])]
    return Text(" · ").join(parts)


def device_strip(app: Workbench) -> Text:
    """Who else is on the GPUs, and the clock and the power of the first, as far as the driver says."""
    model = app.model
    if model.status is None:
        return Text("")
    there = model.connection.state == "connected"
    gpus = [model.gpus[index] for index in sorted(model.gpus)] if there else []
    counts, sizes = [gpu.others for gpu in gpus], [gpu.others_bytes for gpu in gpus]
    others = plain.DASH if None in counts or not counts else str(sum(filter(None, counts)))
    if others not in (plain.DASH, "0"):
        others += f", {plain.DASH if None in sizes else plain.quantity(sum(filter(None, sizes)), 'bytes')}"
    clock, power = (gpus[0].sm_clock_mhz, gpus[0].power_w) if gpus else (None, None)
    watts = plain.DASH if power is None else f"{power:.0f}"
    strip = f"others {others} · {plain.megahertz(clock)} MHz · {watts} W"
    return Text(strip, "dim" if others in ("0", plain.DASH) else "bold")


class BannerLine(TextRows):
    """The gravest thing that the person must know, or nothing: it takes no row while there is nothing to say."""

    DEFAULT_CSS = """
    BannerLine { display: none; background: $warning; color: $background; text-style: bold; }
    BannerLine.-shown { display: block; }
    """

    def say(self, text: str) -> None:
        self.set_class(bool(text), "-shown")
        self.show([Text(f" ! {text}")])


class TopLines(Vertical):
    """The header and, below it, the banner. Docked together: two docked rows would lie on each other."""

    DEFAULT_CSS = "TopLines { dock: top; height: auto; }"

    def compose(self) -> ComposeResult:
        yield HeaderLine()
        yield BannerLine()


class KeyLine(OneRow):
    """The keys that do something here, as many as fit; help, menu and the way out always."""

    DEFAULT_CSS = "KeyLine { dock: bottom; }"
    LAST: ClassVar[tuple[str, ...]] = ("help", "palette", "back", "leave")

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.renew())
        self._where: list[tuple[int, int, str]] = []

    @property
    def _asked(self) -> Screen[Any]:
        """The screen whose keys work now: a question or a list that lies over this one, else this one."""
        top = self.app.screen
        return top if top.is_modal else self.screen

    def shown(self) -> list[Binding]:
        """The bindings that have a place in the footer, in order, each action once."""
        screen = self._asked
        found: dict[str, Binding] = {}
        own = bindings_of(screen)
        typing = isinstance(screen.focused, WordsInput)
        # A table's own enter says what enter does in this screen: the screen's words for it come first.
        found.update(
            {
                binding.action: binding
                for binding in own
                if binding.key == "enter" and binding.show and not typing and _label(binding, screen)
            }
        )
        for active in screen.active_bindings.values():
            binding = active.binding
            if typing and binding.key not in ("enter", "escape") and not binding.key.startswith("ctrl+"):
                continue  # a letter of a word
            if binding.show and active.enabled and binding.action not in found and _label(binding, screen):
                found[binding.action] = binding
        if any(binding.id == "leave" for binding in found.values()):
            found.pop("quit", None)  # the same under another key
        order = {binding.action: at for at, binding in reversed(list(enumerate(own)))}
        # A key that a person gave comes last of all: it takes the place of the one that it stands for.
        declared = iter(sorted((action for action in found if action in order), key=order.__getitem__))
        found = {name: found[name] for name in [next(declared) if name in order else name for name in found]}
        if getattr(screen, "own_keys_first", False):
            found = dict(sorted(found.items(), key=lambda item: order.get(item[0], len(own))))
        last = [b for b in found.values() if b.id in self.LAST]
        last.sort(key=lambda b: self.LAST.index(cast(str, b.id)))
        # What works everywhere comes after what is this screen's own.
        rest = sorted(
            (b for b in found.values() if b.id not in self.LAST), key=lambda b: (b.id in GENERAL, b.id != "quit")
        )
        return rest + last

    def row(self, width: int) -> Text:
        bindings = self.shown()
        enter = "enter" if getattr(self.app, "ascii", False) else "⏎"
        words = [
            (binding, self.app.get_key_display(binding).replace("⏎", enter), _label(binding, self._asked))
            for binding in bindings
        ]
        last = [word for word in words if word[0].id in self.LAST]
        first = [word for word in words if word[0].id not in self.LAST]

        def span(some: Iterable[tuple[Binding, str, str]]) -> int:
            return sum(cell_len(key) + cell_len(label) + 3 for _, key, label in some)

        while last and span(last) > width and len(last) > 1:
            last.pop(1 if len(last) > 2 else 0)
        kept: list[tuple[Binding, str, str]] = []
        for word in first:
            if span([*kept, word, *last]) <= width:
                kept.append(word)
        text = Text()
        self._where = []
        for binding, key, label in [*kept, *last]:
            start = cell_len(text.plain)
            text.append(" ")
            text.append(key, style="bold")
            text.append(f" {label} ")
            self._where.append((start, cell_len(text.plain), binding.key))
        text.truncate(width)
        return text

    def on_click(self, event: events.Click) -> None:
        for start, end, key in self._where:
            if start <= event.x < end:
                self.app.simulate_key(key)
                return


def _label(binding: Binding, screen: Screen[Any]) -> str:
    label = screen.key_label(binding) if isinstance(screen, WorkScreen) else binding.description
    return label[:1].lower() + label[1:]


class TooSmall(Static):
    """What a terminal of 20x5 shows: how much room is needed."""

    DEFAULT_CSS = """
    TooSmall { display: none; width: 100%; height: 100%; content-align: center middle; text-align: center; }
    """

    def on_resize(self, event: events.Resize) -> None:
        size = self.app.size
        self.update(
            Text(f"aisp needs {LEAST_COLUMNS}x{LEAST_ROWS},\nthis is {size.width}x{size.height}:\nmake more room")
        )


class Paced:
    """Draws at most once in `period_s`: now, or when that has passed since it drew."""

    def __init__(self, screen: Screen[Any], draw: Callable[[], None], period_s: float) -> None:
        self._screen, self._draw, self._period_s = screen, draw, period_s
        self._drawn_s = float("-inf")  # when, on the monotonic clock
        self._timer: Timer | None = None  # draws what is not shown yet

    @property
    def late(self) -> bool:
        """Whether something is not drawn yet."""
        return self._timer is not None

    def soon(self) -> None:
        """Draw now, or as soon as it may be."""
        left_s = self._drawn_s + self._period_s - time.monotonic()
        if left_s <= 0:
            self.now()
        elif self._timer is None:
            self._timer = self._screen.set_timer(left_s, self.now)

    def now(self) -> None:
        """Draw all that came."""
        self._drawn_s = time.monotonic()
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._screen.is_mounted:
            self._draw()


class WorkScreen(Screen[None]):
    """Base of the app's screens.

    Attributes:
        heading: what the header says: where one is; "{}" stands for the target.
        shown: names of what, once it changed in the model, makes the screen draw anew.
        redrawn: whether it is drawn anew when its size changes.
        sizes: classes that it has while its size is so.
        main_table: id of the table that the screen is about; "" for its first one.
        chooses: the action that choosing a row of that table starts.
        of_rows: the screen's own keys that have no word in the footer while it has nothing to show.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(*EVERYWHERE)
    DEFAULT_CSS = """
    WorkScreen { layout: vertical; background: $background; }
    WorkScreen.-tiny > * { display: none; }
    WorkScreen.-tiny > TooSmall { display: block; }
    WorkScreen #title { background: $surface; text-style: bold; }
    WorkScreen #state { background: $surface; }
    WorkScreen #panes { height: 1fr; layout: vertical; }
    WorkScreen #empty { display: none; height: 1fr; padding: 1 2; }
    WorkScreen.-empty #empty { display: block; }
    WorkScreen.-empty #panes { display: none; }
    WorkScreen.-wide #panes { layout: horizontal; }
    """
    heading: ClassVar[str] = ""
    shown: ClassVar[frozenset[str]] = frozenset()
    redrawn: ClassVar[bool] = False
    sizes: ClassVar[Sizes] = {}
    main_table: ClassVar[str] = ""
    chooses: ClassVar[str] = ""
    of_rows: ClassVar[frozenset[str]] = frozenset()
    ALLOW_IN_MAXIMIZED_VIEW = "TopLines, KeyLine, FindLine"
    # Escape is ours: it leaves the zoom first, then the screen.
    ESCAPE_TO_MINIMIZE = False
    back_label = "back"
    no_target = "Highlight a target first"  # said where a key needs one
    words: ClassVar[tuple[str, ...]] = ()  # of the glossary, those that its help begins with
    _height_before: Scalar | None = None  # of the zoomed pane
    _focused_before: Widget | None = None  # while the window is too small
    own_keys_first = False  # whether the key row begins with the screen's keys rather than the focused pane's

    def __init__(self, target_id: str = "") -> None:
        super().__init__()
        self._target_id = target_id

    @property
    def workbench(self) -> Workbench:
        return cast("Workbench", self.app)

    @property
    def header_title(self) -> str:
        return self.heading.format(self.target_id).rstrip()

    @property
    def target_id(self) -> str:
        """The target that run, diff, watch, history and edit are about; "" where there is none."""
        return self._target_id

    @property
    def target_ids(self) -> list[str]:
        """The targets that a run is about: several where a whole chapter is highlighted."""
        return [self.target_id] if self.target_id else []

    @property
    def rung_name(self) -> str:
        """The rung that edit opens; "" for the best known guess."""
        return ""

    @property
    def table(self) -> LiveTable:
        return self.query_one(f"#{self.main_table}" if self.main_table else "LiveTable", LiveTable)

    @property
    def chosen_key(self) -> str:
        """The key of its highlighted row; "" for none."""
        return (self.table.cursor_key or "") if self.is_mounted else ""

    def key_label(self, binding: Binding) -> str:
        """What the footer calls a key, as things stand; "" leaves it out."""
        entry = SCREENS.get(binding.id or "")
        if entry is not None and entry.class_name == type(self).__name__:
            return ""  # one is there already
        if binding.id in self.of_rows and self.has_class("-empty"):
            return ""
        return self.back_label if binding.id == "back" else binding.description

    def compose(self) -> ComposeResult:
        yield TopLines()
        yield from self.compose_body()
        yield TooSmall()
        yield KeyLine()

    def compose_body(self) -> ComposeResult:
        yield from ()

    def draw(self) -> None:
        """Draw everything."""

    def row_changed(self) -> None:
        """Say all about the row that is highlighted now."""

    def refresh_from(self, names: set[str]) -> None:
        """Draw what changed in the model; everything for no names."""
        if not self.is_mounted:
            return
        self.renew_header(banner=not names or "banners" in names or "connection" in names)
        if not names:
            self._renew_keys()
        if self.shown and (not names or names & self.shown):
            self.draw()

    def renew_header(self, *, banner: bool = False) -> None:
        """Draw the header again where it would read differently; with the banner's text from the app."""
        for header in self.query(HeaderLine):
            header.renew()
        if banner:
            for line in self.query(BannerLine):
                line.say(self.workbench.banner_text())

    def say_empty(self, text: str) -> None:
        """Say this where the panes stand, for which there is nothing; "" for the panes."""
        self.set_class(bool(text), "-empty")
        if text:
            self.query_one("#empty", Static).update(Text(text))
            # A hidden pane must not keep the focus: its keys would do nothing that can be seen.
            self.set_focus(None)

    def on_live_table_highlighted(self, message: LiveTable.Highlighted) -> None:
        message.stop()
        if not self.main_table or message.table is self.table:
            self.row_changed()
            self.refresh_bindings()

    async def on_live_table_chosen(self, message: LiveTable.Chosen) -> None:
        message.stop()
        if not self.main_table or message.table is self.table:
            await self.run_action(self.chooses)

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.theme_changed())

    def say(self, pane: str, *rows: Text) -> None:
        self.query_one(f"#{pane}", TextRows).show(rows)

    def theme_changed(self) -> None:
        self.refresh_from(set())
        if not self.shown:
            self._draw_again()

    def on_screen_resume(self) -> None:
        """The model went on while another screen was on top."""
        self.refresh_from(set())

    def on_screen_suspend(self) -> None:
        self.call_after_refresh(self._renew_keys)

    def _renew_keys(self) -> None:
        for keys in self.query(KeyLine):
            keys.renew()

    def watch_maximized(self, before: Widget | None, now: Widget | None) -> None:
        """A zoomed pane takes all rows, also where it was given a number of them; they come back with the zoom."""
        if before is not None:
            before.styles.height = self._height_before
        if now is not None:
            self._height_before = now.styles.inline.get_rules().get("height")
            now.styles.height = None

    def give_rows(self, pane: Widget, rows: int) -> None:
        """Give a pane a height in rows; while it is zoomed, for the time after."""
        if pane is self.maximized:
            self._height_before = Scalar.from_number(rows)
        else:
            pane.styles.height = rows

    def on_resize(self, event: events.Resize) -> None:
        """Below the least size only the request for more room is shown; then the focus is where it was."""
        tiny = event.size.width < LEAST_COLUMNS or event.size.height < LEAST_ROWS
        if tiny and not self.has_class("-tiny"):
            self._focused_before = self.focused  # what is hidden loses it
        elif not tiny and self.has_class("-tiny"):
            self.call_after_refresh(self._focus_again)
        self.set_class(tiny, "-tiny")
        for name, holds in self.sizes.items():
            self.set_class(holds(event.size), name)
        if self.redrawn:
            self.call_after_refresh(self._draw_again)

    def _draw_again(self) -> None:
        if self.is_mounted:
            self.draw()

    def _focus_again(self) -> None:
        before, self._focused_before = self._focused_before, None
        if self.focused is None:
            if before is None or not before.is_attached:  # it began too small
                before = next(iter(self.focus_chain), None)
            self.set_focus(before, scroll_visible=False)

    async def action_back(self) -> None:
        """Leave the zoomed pane, else the screen, else the app."""
        if self.maximized is not None:
            self.minimize()
        elif len(self.app.screen_stack) > 2:
            await self.app.pop_screen()

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused, container=False)

    def action_focus_next_pane(self) -> None:
        self.focus_next()

    def action_focus_previous_pane(self) -> None:
        self.focus_previous()

    def copy_text(self) -> str:
        """What `y` copies here: "" for nothing."""
        return self.target_id

    def action_copy(self) -> None:
        text = self.copy_text()
        if text:
            self.workbench.copy_to_clipboard(text)
        else:
            self.notify("There is nothing to copy here", severity="warning")

    def action_accept_installed(self) -> None:
        banner = self.workbench.model.banners.get("installed")
        if banner is None or banner.severity != "error":
            self.notify("Nothing on the import path is held against a run", timeout=4)
            return
        begin(self, partial(self._accept_installed, banner.text), group="accept", exclusive=True)

    async def _accept_installed(self, evidence: str) -> None:
        if await self.workbench.confirmed("Was that you, and should processes import it?", evidence):
            reply = await self.workbench.ask_engine("Not accepted", requests.AcceptInstalled)
            if reply is not None:
                self.notify(reply.detail, timeout=8)

    def action_run_quick(self) -> None:
        self._run_targets(quick=True)

    def action_run_full(self) -> None:
        self._run_targets(quick=False)

    def _run_targets(self, *, quick: bool) -> None:
        targets = self.target_ids
        if len(targets) > 1:
            begin(self, partial(self._run_several, targets, quick), group="ask", exclusive=True)
        elif targets:
            self.workbench.start_runs(targets, quick=quick, show=self.show_run)
        else:
            self.notify(self.no_target, severity="warning")

    async def _run_several(self, targets: list[str], quick: bool) -> None:
        question = f"Queue {len(targets)} {'quick' if quick else 'full'} runs?"
        if await self.workbench.confirmed(question, await self.workbench.expected_text(targets, quick)):
            self.workbench.start_runs(targets, quick=quick, show=self.show_run)

    def show_run(self, run_id: str) -> None:
        self.workbench.open_screen("run", run_id=run_id)

    def action_open_running(self) -> None:
        run = self.workbench.model.active_run(self.target_id)
        if run is not None:
            self.workbench.open_screen("run", run_id=run.id)
        elif self.target_id:
            self.notify(f"No run of {self.target_id} is under way or waits")
        else:
            self.notify(self.no_target, severity="warning")

    def action_cancel(self) -> None:
        self.workbench.cancel_runs(self.target_ids)

    def opened_about(self, name: str) -> dict[str, Any] | None:
        """What a screen of SCREENS is opened about from here; None after saying why it cannot be opened."""
        if name in ("help", "jump"):
            return {"subject": self}
        if not SCREENS[name].of_target:
            return {}
        if not self.target_id:
            self.notify(self.no_target, severity="warning")
            return None
        return {"target_id": self.target_id}

    def action_open(self, name: str) -> None:
        about = self.opened_about(name)
        if about is not None:
            self.workbench.open_screen(name, **about)

    def action_edit(self) -> None:
        self.workbench.edit(self.target_id, self.rung_name)
