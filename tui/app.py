"""The app `aisp-tui`: draws its first frame before anything heavy, then loads what the frame needs beside the loop.

The catalogue and the store are read in threads, the engine is connected to in the background; neither numpy nor
torch nor the store is imported before the first frame. The app owns what screens share (catalogue, model, link,
settings, stored results) and the actions on targets; screens draw. Leaving the app leaves the engine and its
runs alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

# A repaint waits for the next frame, and a key's echo with it: 17 ms at most, where 15 frames a second made it 67.
# How often live figures are drawn is decided by the link, so this costs no CPU. Textual reads it when imported.
os.environ.setdefault("TEXTUAL_FPS", "60")

from textual.binding import BindingType
from textual.events import Event, Key

from aisp.engine.protocol import requests
from aisp.kernels.catalog.model import Role
from aisp.tui import themes
from aisp.tui.aside import aside, begin, busy
from aisp.tui.endsignal import EndSignals
from aisp.tui.keymap import KEYS, bind, overrides
from aisp.tui.library import Library
from aisp.tui.model import Model
from aisp.tui.progress import short_words
from aisp.tui.screens import SCREENS, Place, Source
from aisp.tui.settings import Settings, load_settings

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.driver import Driver
    from textual.widget import Widget

    from aisp.engine.protocol.events import Reply as EngineReply
    from aisp.kernels.catalog.model import Catalog
    from aisp.tui.link import EngineLink, ModelChanged

EXIT_NOT_POSSIBLE = 3
LOOK_AT_TERMINAL_S = 1.0
# A picture is taken when the screen has been the same for so long; some never rest.
DRAWN_S, MOST_DRAWING_S, LOOK_S = 0.3, 10.0, 0.05


def _commands() -> type[Provider]:
    from aisp.tui.commands_palette import TargetCommands  # only when the palette opens

    return TargetCommands


class Workbench(Library):
    """The app.

    Attributes:
        link: the connection to the engine.
    """

    TITLE = "aisp"
    BINDINGS: ClassVar[list[BindingType]] = bind("quit")
    COMMANDS: ClassVar[set[Any]] = {_commands}
    CSS = """
    .pane { border: round $panel; border-title-color: $foreground; scrollbar-size-vertical: 1; }
    .pane:focus, .pane:focus-within { border: round $accent; border-title-style: bold; }
    .ruled { border-top: solid $panel; border-title-color: $text; }
    .ruled:focus { border-top: solid $accent; }
    .-maximized { width: 1fr; height: 1fr; max-height: 100%; }
    Screen.-maximized-view { hatch: none; }
    ToastRack { dock: top; align: right top; margin: 0; scrollbar-size: 0 0; }
    Toast { width: auto; max-width: 100%; margin: 0; padding: 0 1; max-height: 2; }
    Toast.-error, Toast.-warning { max-height: 6; }
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        place: Place | None = None,
        link: EngineLink | None = None,
        catalog: Catalog | None = None,
        settings: Settings | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        model = link.model if link is not None else Model()
        super().__init__(place or Place(path, catalog), model, settings, driver_class)
        self._link = link
        self._settled: set[str] = set()  # runs that had ended when the board was read last
        self.marked: list[str] = []  # runs to compare, by id, marked in any history: the older mark first, at most two
        self._joined: set[str] = set()  # jobs of which was told that they are queued already
        self._leaving = False
        self._typed_at: WeakKeyDictionary[Key, Widget | None] = WeakKeyDictionary()  # where each key was sent last
        self._signals = EndSignals()

    def on_mount(self) -> None:
        self.open_screen("home")
        if self.place.screen:
            self.open_screen(self.place.screen, **self.place.arguments)
        for problem in self._problems:
            self.notify(problem, title="Settings", severity="warning", timeout=15)
        self.call_after_refresh(self._after_first_frame)
        self.set_interval(LOOK_AT_TERMINAL_S, self._leave_with_terminal)

    async def on_event(self, event: Event) -> None:
        """Give a key to the widget that has the focus when its turn comes.

        Textual gives it to the one that had it when it came, and asks for bindings when it has gone through all above.
        Of "/soft" in one piece, as a slow line brings it, the letters would be lost.
        """
        if isinstance(event, Key):
            before, self._typed_at[event] = self._typed_at.get(event), self.focused
            if event.is_forwarded and self.focused not in (None, before):
                self.focused.post_message(event)
                return
        await super().on_event(event)

    def _leave_with_terminal(self) -> None:
        if getattr(self._driver, "hung_up", False):  # only a terminal's driver knows
            self.leave(signal.SIGHUP)

    def _after_first_frame(self) -> None:
        begin(self, self._load_files, group="catalog", exclusive=True)
        if self.settings.keys:
            begin(self, self._map_keys, group="keys")
        if self._leaving:
            return
        if self._link is None:
            from aisp.tui.link import EngineLink  # after the first frame: asyncio's streams and the engine's client

            self._link = EngineLink(self.model)
        self._link.start(self)

    async def _map_keys(self) -> None:
        """Give actions the keys that the settings say; what of it cannot be is told and left out."""
        found, problems = await aside(overrides, self.settings.keys)
        self.set_keymap(found)
        for problem in problems:
            self.notify(problem, title="Settings", severity="warning", timeout=15)

    def keys_of(self, name: str) -> str:
        return self._keymap.get(name, KEYS[name].keys)

    async def on_unmount(self) -> None:
        if self._link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await self._link.stop()

    def leave(self, signum: int) -> None:
        """End the app because of a signal; the engine and its runs go on."""
        self._leaving = True
        self.exit(return_code=128 + signum)

    @property
    def link(self) -> EngineLink | None:
        return self._link

    def on_model_changed(self, message: ModelChanged) -> None:
        """Pass on what changed; ask for the machine once connected; read the board again when a run has ended."""
        names = set(message.names)
        begun = "connection" in names and self.model.status is None and self._link is not None and self._link.connected
        # One of the events that are lost may have told the queue.
        if self._link is not None and (begun or "gaps" in names):
            begin(self, self._link.fetch_status, group="status", exclusive=True)
        if "runs" in names:
            ended = {run.id for run in self.model.runs.values() if run.record.state.final}
            if ended - self._settled:
                self._settled = ended
                begin(self, self._load_board, group="board", exclusive=True)
        if any(name.startswith(("run", "fuzz")) for name in names):
            self._tell_outside()
        self._forward(names)

    def _tell_outside(self) -> None:
        """The terminal's title says what runs, and the terminal what has ended, where its driver can."""
        title, ended = self._signals.look(self.model)
        driver: Any = self._driver
        if hasattr(driver, "set_title"):
            if title:
                driver.set_title(title)
            for text in ended:
                driver.tell_end(self.settings.notify, text)

    def work_counts(self) -> tuple[int, int, int]:
        """Jobs under way, jobs that wait, and watches that are on."""
        waiting = sum(job.began_ns is None for job in self.model.queue)
        return len(self.model.queue) - waiting, waiting, len(self.model.active_watches())

    @property
    def far(self) -> str:
        """How far the run is that goes on, in few words; "" where none does, or several do."""
        going = [run for run in self.model.active_runs() if run.record.start_ns is not None]
        return short_words(going[0].progress(self.model.now_ns())) if len(going) == 1 else ""

    def banner_text(self) -> str:
        """The gravest banner's text, "" for none."""
        ranks = {"error": 0, "warning": 1}
        banners = sorted(self.model.banners.values(), key=lambda banner: ranks.get(banner.severity, 2))
        if not banners:
            return ""
        more = f" (and {len(banners) - 1} more: l)" if len(banners) > 1 else ""
        return banners[0].text + more

    def open_screen(self, name: str, **arguments: Any) -> None:
        """Open a screen of SCREENS with its arguments; one that is open already comes back to the top.

        Before a lesson that came with aisp is watched, a copy of it is offered.
        """
        if name == "watch":
            target_id = arguments["target_id"]
            watch = self.model.watches.get(target_id)
            if watch is not None and self.target(target_id) is None:
                begin(self, partial(self.bring, target_id, Path(watch.folder)), group="bring")
            elif not self.ready(target_id) or self.copying.offered(
                target_id, lambda copy: self._open_screen(name, arguments | {"target_id": copy})
            ):
                return
        self._open_screen(name, arguments)

    def _open_screen(self, name: str, arguments: dict[str, Any]) -> None:
        screen_class = SCREENS[name].load()
        for depth, screen in enumerate(self.screen_stack):
            if type(screen) is screen_class and getattr(screen, "opened_with", None) == arguments:
                for _ in range(len(self.screen_stack) - 1 - depth):
                    self.pop_screen()
                return
        screen = screen_class(**arguments)
        screen.opened_with = arguments  # type: ignore[attr-defined]
        self.push_screen(screen)

    def open_over(self, name: str) -> None:
        """Open a screen of SCREENS that lies over the present one and is about its focused pane."""
        if not isinstance(self.screen, SCREENS[name].load()):
            self.open_screen(name, subject=self.screen)

    def open_diff(self, target_id: str, left: Source, right: Source) -> None:
        self.open_screen("diff", target_id=target_id, left=left, right=right)

    def compare_marked(self) -> None:
        """Compare the two marked runs, the older one as A."""
        if len(self.marked) == 2:
            a, b = sorted(self.marked)
            self.open_screen("compare", a=a, b=b)
        else:
            self.notify("Mark two runs with m, here or in another target's history; C then compares them")

    def start_runs(
        self,
        target_ids: Sequence[str],
        *,
        quick: bool,
        show: Callable[[str], None] | None = None,
        fields: Callable[[str], dict[str, Any]] | None = None,
    ) -> None:
        """Plan a run per target and show the first: by its id with `show`, else on a screen of its own.

        Args:
            show: `stay` shows none.
            fields: of a StartRuns beyond the usual, by target; `run_fields` by default.
        """
        here = [target_id for target_id in target_ids if self.ready(target_id)]
        if here:
            begin(self, partial(self._start_runs, here, quick, show, fields or self.run_fields))

    async def _start_runs(
        self,
        target_ids: list[str],
        quick: bool,
        show: Callable[[str], None] | None,
        fields_of: Callable[[str], dict[str, Any]],
        again: bool = False,
    ) -> None:
        found = [target for target_id in target_ids if (target := self.target(target_id)) is not None]
        roots = list(dict.fromkeys(str(target.root) for target in found))
        run_ids: list[str] = []
        joined: dict[str, str] = {}  # target by run
        # Neighbours that run the same rungs go into one request: lessons all together, targets with cheats by those.
        for fields, some in groupby(target_ids, fields_of):
            targets = list(some)
            reply = await self.ask_engine(
                "The run was not started",
                requests.StartRuns,
                roots=roots,
                targets=targets,
                quick=quick,
                trigger="tui",
                again=again,
                **fields,
            )
            if reply is None:
                break
            for target_id, why in reply.refused.items():
                self.notify(f"{target_id} is not run: {why}", severity="warning", timeout=12)
            if not run_ids and reply.run_ids:
                first = reply.run_ids[0]
                show(first) if show is not None else self.open_screen("run", run_id=first)
            run_ids += reply.run_ids
            planned = zip(reply.run_ids, (name for name in targets if name not in reply.refused), strict=False)
            joined |= {run_id: target for run_id, target in planned if run_id in reply.joined}
        if len(run_ids) > max(1, len(joined)):
            told = f"{len(run_ids)} runs are planned"
            self.notify(told if show is Workbench.stay else f"{told}; this is the first")
        if joined and await self.wants_another(", ".join(joined.values()), joined):
            await self._start_runs(list(joined.values()), quick, show, fields_of, again=True)

    @staticmethod
    def stay(run_id: str) -> None:
        """Show no run: the person stays where the runs were started from."""

    async def expected_text(self, target_ids: Sequence[str], quick: bool) -> str:
        """How long runs of these targets may be expected to take one after the other, in a sentence."""
        from aisp.tui.jobs import batch_text  # only for a question

        try:
            known = await self.stored(lambda history: history.durations_s(quick=quick)) or {}
        except Exception as error:
            return f"How long they take cannot be read: {error}"
        found = [target for target_id in target_ids if (target := self.target(target_id)) is not None]
        return batch_text([known.get((target.id, os.fsencode(target.folder))) for target in found])

    async def wants_another(self, what: str, joined: Collection[str]) -> bool:
        """Tell that jobs for `what` are queued already. Asked for once more: whether the person wants another."""
        known = self._joined.issuperset(joined)
        self._joined.update(joined)
        if not known:
            self.notify(f"{what}: already queued: following it; ask once more for another", timeout=6)
            return False
        return await self.confirmed(f"Queue it once more? {what}", "The same is queued or under way already.")

    def run_fields(self, target_id: str) -> dict[str, Any]:
        """Fields of a StartRuns beyond the usual: cheats run too, to see what a naive harness makes of them."""
        target = self.target(target_id)
        cheats = [rung.name for rung in target.rungs if rung.role is Role.CHEAT] if target is not None else []
        if target is None or not cheats:
            return {}
        honest = [rung.name for rung in target.honest_rungs if rung.role is not Role.BASELINE]
        return {"rungs": [*honest, *cheats], "naive": True}

    def cancel_runs(self, target_ids: Iterable[str]) -> None:
        wanted = set(target_ids)
        active = [run for run in self.model.active_runs() if run.record.target in wanted]
        if not active:
            self.notify("Nothing of this target is planned or running")
            return
        self.cancel([run.id for run in active])

    def cancel(self, run_ids: Sequence[str]) -> None:
        begin(self, partial(self._cancel, run_ids))

    async def _cancel(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            reply = await self.ask_engine("The run was not cancelled", requests.Cancel, run_id=run_id)
            if reply is None:
                return
        self.notify("Cancelling" if len(run_ids) == 1 else f"Cancelling {len(run_ids)} jobs")

    def measure_ceilings(self) -> None:
        begin(self, self._measure_ceilings, group="ceilings", exclusive=True)

    async def _measure_ceilings(self, again: bool = False) -> None:
        self.open_screen("ceilings")
        failure = "The ceilings are not measured"
        reply = await self.ask_engine(failure, requests.MeasurePeak, refused=self._peak_refused, again=again)
        if reply is not None and not reply.joined:
            self.notify("The ceilings are measured once the GPU is free", timeout=4)
        elif reply is not None and await self.wants_another("the ceilings", reply.joined):
            await self._measure_ceilings(again=True)

    def _peak_refused(self, why: str) -> None:
        for screen in self.screen_stack:
            if (tell := getattr(screen, "say_refused", None)) is not None:
                tell(why)

    async def ask_engine(
        self,
        failure: str,
        kind: type[requests.Request],
        /,
        *,
        refused: Callable[[str], None] | None = None,
        **fields: Any,
    ) -> EngineReply | None:
        """Send a request; returns the Reply, or None after telling why it was refused, `refused` too."""
        if self._link is None:
            problem = "the engine is not connected yet; try again in a moment"
        else:
            reply = await self._link.request(kind, **fields)
            if not reply.error:
                return reply
            problem = reply.error
        if refused is not None:
            refused(problem)
        self.notify(f"{failure}: {problem}", severity="error", timeout=12)
        return None

    def tell_engine(self, failure: str, kind: type[requests.Request], /, *, done: str = "", **fields: Any) -> None:
        """Send a request beside the loop, and say `done` once it was taken."""

        async def send() -> None:
            if await self.ask_engine(failure, kind, **fields) is not None and done:
                self.notify(done, timeout=4)

        begin(self, send, group=kind.__name__)

    def restart_engine_when_idle(self) -> None:
        begin(self, self._restart)

    async def _restart(self) -> None:
        if self._link is not None:
            self.notify(await self._link.restart_when_idle(), timeout=10)


def refusal() -> str:
    """Why the app cannot be drawn here, in a sentence with the next move; "" where it can."""
    instead = "`aisp list` and the other commands of `aisp` work anywhere"
    for stream, name in ((sys.__stdin__, "input"), (sys.__stdout__, "output"), (sys.__stderr__, "error output")):
        if stream is None or not stream.isatty():
            return f"aisp-tui draws on a terminal, and its standard {name} is none; {instead}"
    term = os.environ.get("TERM", "")
    if term in ("", "dumb"):
        return (
            f"aisp-tui needs a terminal that can move the cursor, and TERM is {term or 'not set'}; "
            f"try TERM=xterm-256color aisp-tui, or: {instead}"
        )
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except OSError:
        return ""
    if size.columns == 0 or size.lines == 0:
        return (
            f"this terminal says that it is {size.columns}x{size.lines}; `stty rows 24 cols 80` corrects it, "
            f"or: {instead}"
        )
    return ""


def theme_names() -> list[str]:
    """Names of all themes: ours first, then Textual's."""
    from textual.theme import BUILTIN_THEMES

    return [*themes.THEME_NAMES, *sorted(BUILTIN_THEMES)]


def run(
    place: Place,
    *,
    theme: str | None = None,
    graph: str | None = None,
    mouse: bool = True,
    screenshot: Path | None = None,
) -> int:
    """Open the app and return its exit status: 0, 3 where it cannot be drawn here, 128 + n after signal n.

    Args:
        place: where it begins.
        theme, graph: override the settings for this start.
        mouse: False leaves the mouse to the terminal.
        screenshot: draw the first screen with its results, write it there as an SVG, and end; needs no terminal.
    """
    reason = "" if screenshot is not None else refusal()
    if reason:
        sys.stderr.write(reason + "\n")
        return EXIT_NOT_POSSIBLE
    import msgspec

    settings, problems = load_settings()
    if theme is not None:
        settings = msgspec.structs.replace(settings, theme=theme)
    if graph is not None:
        settings = msgspec.structs.replace(settings, graph=graph)
    driver: type[Driver] | None = None
    if screenshot is None:
        from aisp.tui.driver import BackloggedDriver

        driver = BackloggedDriver
    app = Workbench(place=place, settings=settings, driver_class=driver)
    app._problems[:0] = problems
    asyncio.run(_session(app, mouse=mouse and settings.mouse, screenshot=screenshot))
    return app.return_code or 0


async def _session(app: Workbench, *, mouse: bool, screenshot: Path | None) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Without these SIGTERM leaves the alternate screen and the mouse on, and SIGHUP spins.
        loop.add_signal_handler(number, app.leave, number)
    if screenshot is None:
        await app.run_async(mouse=mouse)
        return

    async def picture(pilot: Any) -> None:
        shown, since = "", loop.time()
        until = since + MOST_DRAWING_S
        while loop.time() < min(since + DRAWN_S, until):
            await pilot.pause(LOOK_S)
            now = app.export_screenshot()
            if now != shown or app.catalog is None or busy():
                shown, since = now, loop.time()
        saved = app.save_picture(screenshot)
        app.exit(return_code=0 if saved else 1)

    await app.run_async(headless=True, size=(120, 40), auto_pilot=picture)
