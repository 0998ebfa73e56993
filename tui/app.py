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
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

# A repaint waits for the next frame, and a key's echo with it: 17 ms at most, where 15 frames a second made it 67.
# How often live figures are drawn is decided by the link, so this costs no CPU. Textual reads it when imported.
os.environ.setdefault("TEXTUAL_FPS", "60")

from textual.app import App
from textual.binding import BindingType

from aisp.engine import paths
from aisp.engine.protocol import requests
from aisp.kernels.catalog.model import Role
from aisp.store.record import Quarantine
from aisp.store.results import repeating, standing
from aisp.store.results.overview import Here, best_without_gpu
from aisp.store.results.reading import Bar, Reading
from aisp.store.text import clean_line
from aisp.tui import plain, themes
from aisp.tui.aside import aside, begin, busy
from aisp.tui.copying import Copying
from aisp.tui.endsignal import EndSignals
from aisp.tui.keymap import KEYS, bind, overrides
from aisp.tui.model import BASELINE, NO_GPU, Model, RunView
from aisp.tui.progress import short_words
from aisp.tui.screens import SCREENS, Place, Source
from aisp.tui.settings import Settings, editor_command, load_settings, save_setting, settings_file
from aisp.tui.widgets.glyphs import GraphStyle, detect
from aisp.tui.widgets.sevenbits import SEVEN_BITS

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.driver import Driver
    from textual.filter import LineFilter
    from textual.notifications import SeverityLevel

    from aisp.engine.protocol.events import Device
    from aisp.engine.protocol.events import Reply as EngineReply
    from aisp.kernels.catalog.model import Catalog, Target
    from aisp.store import History
    from aisp.store.results.expected import Shipped
    from aisp.tui.link import EngineLink, ModelChanged
    from aisp.tui.screens.confirm import Rewrite

Result = TypeVar("Result")

EXIT_NOT_POSSIBLE = 3
LOOK_AT_TERMINAL_S = 1.0
# A picture is taken when the screen has been the same for so long; some never rest.
DRAWN_S, MOST_DRAWING_S, LOOK_S = 0.3, 10.0, 0.05
TOLD_CHARACTERS = 600


def _commands() -> type[Provider]:
    from aisp.tui.commands_palette import TargetCommands  # only when the palette opens

    return TargetCommands


class Workbench(App[None]):
    """The app.

    Attributes:
        catalog: what was found under the roots; None until it is loaded.
        model: what the engine told.
        link: the connection to the engine.
        board_read: whether the store was read since the app began: before, nobody knows what is in it.
        board: the last stored result of each target, by target id; empty until it is loaded.
        attempts: newer stored runs that say nothing, by target id.
        shipped: what collections say that their targets came to on other hardware, by target id.
        settings: as read, with the command line's options on top.
        graph_style: which glyphs plots and signs are drawn with.
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
        super().__init__(driver_class=driver_class)
        self.place = place or Place(path, catalog)
        self.path = self.place.folder
        problems: list[str] = []
        if settings is None:
            settings, problems = load_settings()
        self.settings = settings
        self._problems = problems
        themes.register(self)
        self._choose_theme()
        self.graph_style = self._graph_style()
        plain.ascii_only(self.ascii)
        self.catalog = self.place.catalog
        self.board_read = False
        self.board: dict[str, Reading] = {}
        self.attempts: dict[str, Reading] = {}
        self.shipped: dict[str, Shipped] = {}
        self._link = link
        self.model: Model = link.model if link is not None else Model()
        self._settled: set[str] = set()  # runs that had ended when the board was read last
        self.marked: list[str] = []  # runs to compare, by id, marked in any history: the older mark first, at most two
        self._joined: set[str] = set()  # jobs of which was told that they are queued already
        self._leaving = False
        self._signals = EndSignals()
        self._history: History | None = None
        self._history_lock = threading.Lock()
        self.copying = Copying(self)
        self._away: dict[str, str] = {}  # why the target of a run that was opened is not in the catalogue, by its id

    # -- life --------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.open_screen("home")
        if self.place.screen:
            self.open_screen(self.place.screen, **self.place.arguments)
        for problem in self._problems:
            self.notify(problem, title="Settings", severity="warning", timeout=15)
        self.call_after_refresh(self._after_first_frame)
        self.set_interval(LOOK_AT_TERMINAL_S, self._leave_with_terminal)

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

    async def _load_files(self) -> None:
        """The catalogue, then the last results: side by side each holds the other up, and targets come first."""
        await self._load_catalog()
        begin(self, self._load_board, group="board", exclusive=True)
        if (catalog := self.catalog) is not None:
            self.shipped = await aside(_read_shipped, catalog)
            self._forward({"board"})

    async def _load_catalog(self) -> None:
        if self.catalog is None:
            path, copies = self.path, list(self.copying.folders)

            def load() -> Catalog:
                from aisp.kernels import catalog  # parses every lesson: some 0.1 s for 160 targets

                return catalog.load([path if path is not None else catalog.shipped_root(), *copies])

            try:
                self.catalog = await aside(load)
            except Exception as error:
                where = self.path or "the shipped lessons"
                self.notify(
                    f"The catalogue of {where} could not be read: {error}; F5 tries again", severity="error", timeout=30
                )
                return
        self._forward({"catalog"})

    async def _load_board(self) -> None:
        try:
            found = await self.stored(_read_board)
        except Exception as error:
            self.notify(
                f"Earlier results could not be read: {error}; `aisp store` tells where they lie",
                severity="warning",
                timeout=15,
            )
            return
        self.board_read = True
        changed = {"board"}
        if found is not None:
            self.board, self.attempts, held = found
            changed |= self.model.set_quarantines(held)
        self._forward(changed)

    def reload(self) -> None:
        self.catalog = None
        begin(self, self._load_files, group="catalog", exclusive=True)

    async def read_catalog_again(self) -> None:
        """The same, and wait for the catalogue."""
        self.catalog = None
        await self._load_catalog()

    async def stored(self, ask: Callable[[History], Result]) -> Result | None:
        """Ask the store in a thread; None where there is no store yet. Raises what reading raises."""
        path = paths.database_file()

        def read() -> Result | None:
            from aisp.store import upkeep

            if not path.exists() and not upkeep.foreign_file(path).exists():
                return None
            from aisp.store import History  # numpy and sqlite-utils: 0.35 s, in this thread

            with self._history_lock:
                if self._history is None:
                    self._history = History(path)
            return ask(self._history)

        return await aside(read)

    async def read(self, ask: Callable[[History], Result]) -> tuple[Result | None, str]:
        """Ask the store as `stored` does; with the answer why it cannot be read, "" where it can."""
        try:
            return await self.stored(ask), ""
        except Exception as error:  # whatever the store or a run has against it is told
            return None, clean_line(str(error), limit=400)

    # -- what the engine says ----------------------------------------------------------------------------------

    def on_model_changed(self, message: ModelChanged) -> None:
        """Pass on what changed; ask for the machine once connected; read the board again when a run has ended."""
        names = set(message.names)
        if "connection" in names and self.model.status is None and self._link is not None and self._link.connected:
            begin(self, self._link.fetch_status, group="status", exclusive=True)
        if "gaps" in names and self._link is not None:  # one of the events that are lost may have told the queue
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

    def _forward(self, names: set[str]) -> None:
        screens = self.screen_stack
        for screen in reversed(screens):
            refresh = getattr(screen, "refresh_from", None)
            if refresh is not None:
                refresh(names)
            if not screen.is_modal:  # a panel lies over a screen that is still in sight
                return

    @property
    def gpus(self) -> list[Device]:
        """The GPUs that runs can be placed on; none while nobody knows."""
        status = self.model.status
        return [device for device in status.devices if device.index >= 0] if status is not None else []

    @property
    def no_gpu(self) -> str:
        """Why there is no GPU here; "" where there is one, or nobody knows."""
        status = self.model.status
        if status is None or self.gpus:
            return ""
        return f"no GPU here: {clean_line(status.gpu_note)}" if status.gpu_note else "no GPU here"

    @property
    def machine(self) -> str:
        """The GPU that runs are placed on, or why there is none; "" while nobody knows."""
        gpus = self.gpus
        if not gpus:
            return NO_GPU if self.model.status is not None else ""
        return f"{gpus[0].name} ×{len(gpus)}" if len(gpus) > 1 else gpus[0].name

    def missing(self, target: Target) -> str:
        """What this machine lacks for the target ("needs sm_90"); "" where nothing is, or nobody knows."""
        if self.model.status is None:
            return ""
        sms = [device.sm for device in self.gpus if device.sm is not None]
        return target.needs.missing(sm=max(sms, default=None), gpus=len(self.gpus)) or ""

    def here(self, target: Target) -> Here | None:
        """What this machine can do with the target; None while nobody knows."""
        if self.model.status is None:
            return None
        if self.missing(target):
            return Here.NEEDS_GPU
        return Here.TIMED if self.gpus else best_without_gpu(target)

    def last(self, target_id: str, live: Iterable[RunView]) -> tuple[Reading | None, Reading | None]:
        """The last result of a target, and a newer attempt that says nothing, of what the store has and of live runs.

        Args:
            live: runs of the target, oldest first.
        """
        target, boards = self.target(target_id), (self.board, self.attempts)
        found = [board.get(target_id) if target is None else target.known_in(board) for board in boards]
        known = [run for run in found if run is not None]
        known += [run for run in live if run.record.state.final]
        by_id = {run.id: run for run in sorted(known, key=lambda run: run.record.wall)}
        result, attempt = standing.last(run.record for run in by_id.values())
        return by_id[result.id] if result else None, by_id[attempt.id] if attempt else None

    def held(self, target: Target) -> dict[str, Bar]:
        if not self.model.quarantines:
            return {}
        return self.model.held(os.fsencode(target.folder))

    def pair_of(self, target_id: str, rung: str = "") -> tuple[str, str]:
        """What the diff of a target shows: the baseline and the rung; of a cheat its honest twin and the cheat.

        Args:
            rung: the highlighted one; "" (or the baseline) for what the target is about.
        """
        target = self.target(target_id)
        return target.pair(rung) if target is not None else (BASELINE, "optimized")

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

    # -- screens -----------------------------------------------------------------------------------------------

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

    def target(self, target_id: str) -> Target | None:
        """The target of that id, None where it is not (or not yet) in the catalogue."""
        if self.catalog is None:
            return None
        try:
            return self.catalog.find(target_id)
        except LookupError:
            return None

    async def bring(self, target_id: str, folder: Path) -> None:
        """Have a target whose run or watch is looked at in the catalogue as well, from its folder; where that is gone,
        `absent` says so."""
        known, where = self.target(target_id), clean_line(os.fsencode(folder), limit=4096)
        self._away[target_id] = f"{target_id}: {where} is being read; try again in a moment"
        there = folder.is_absolute() and await aside(folder.exists)
        if known is not None:
            if there and known.folder != folder:
                self.notify(f"This is of {where}; the keys are about {known.folder}, which is {target_id} here")
            return
        if there:
            self.copying.folders.append(folder)
            await self.read_catalog_again()
        why = "does not load any more" if there else "is not on this machine"
        self._away[target_id] = f"{target_id}: {where} {why}; d shows the sources that ran"

    def absent(self, target_id: str) -> str:
        """Why nothing can be done with a target now; "" for one in the catalogue."""
        if not target_id:
            return "Highlight a target first"
        if self.catalog is None:
            return "The catalogue is being read; try again in a moment"
        if self.target(target_id) is not None:
            return ""
        other = f"{target_id} is not among the targets that are open; `aisp-tui PATH` opens those of a folder"
        return self._away.get(target_id, other)

    def ready(self, target_id: str) -> bool:
        """Whether a target is in the catalogue; says why where it is not."""
        if why := self.absent(target_id):
            self.notify(why, severity="warning", timeout=8)
        return not why

    def typed(self, verb: str, target_id: str) -> str:
        """What to type in a shell to have a command of `aisp` do its work for a target."""
        target = self.target(target_id)
        if target is None:
            return repeating.shell("aisp", *verb.split(), target_id)
        return repeating.command(verb, target_id, target.folder)

    # -- actions on targets ------------------------------------------------------------------------------------

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

    async def confirmed(self, question: str, detail: str = "", rewrites: Sequence[Rewrite] = ()) -> bool:
        """Ask the person; see `QuestionScreen`. Called by a worker."""
        from aisp.tui.screens.confirm import ConfirmScreen  # a question is rare

        yes: bool | None = await self.push_screen_wait(ConfirmScreen(question, detail, rewrites))
        return bool(yes)

    def run_fields(self, target_id: str) -> dict[str, Any]:
        """Fields of a StartRuns beyond the usual: cheats run too, to see what a naive harness makes of them."""
        target = self.target(target_id)
        cheats = [rung.name for rung in target.rungs if rung.role is Role.CHEAT] if target is not None else []
        if target is None or not cheats:
            return {}
        honest = [rung.name for rung in target.honest_rungs if rung.role is not Role.BASELINE]
        return {"rungs": [*honest, *cheats], "naive": True}

    def cancel_runs(self, target_ids: Iterable[str]) -> None:
        """Cancel what is planned or running for these targets."""
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
        """Let the engine end after its queue; the link starts a new one."""
        begin(self, self._restart)

    async def _restart(self) -> None:
        if self._link is not None:
            self.notify(await self._link.restart_when_idle(), timeout=10)

    def edit(self, target_id: str, rung_name: str = "", file: str = "", line: int | None = None) -> None:
        """Open a file of a target in the person's editor; the terminal is the editor's until it ends. Of a lesson that
        came with aisp a copy is offered first.

        Args:
            rung_name: the rung, or the file, that is highlighted; of "" the person is asked which file is meant.
            file: opened instead of the rung, where it is known that it is meant.
        """
        if not self.ready(target_id):
            return
        if self.copying.offered(target_id, lambda chosen: self._edit(chosen, rung_name, file, line)):
            return
        self._edit(target_id, rung_name, file, line)

    def _edit(self, target_id: str, rung_name: str, file: str, line: int | None) -> None:
        target = self.target(target_id)
        if target is None:
            return
        names = [rung.name for rung in target.rungs]
        if file or rung_name in target.files:
            self.edit_file(target.folder / (file or rung_name), line)
        elif rung_name in names:
            self.edit_file(target.rung(rung_name).path, line)
        else:
            from aisp.tui.screens.picker import PickerScreen, files_of  # only where a list is asked for

            def take(name: str | None) -> None:
                if name is not None:
                    self.edit_file(target.folder / name)

            current = target.rung("optimized" if "optimized" in names else names[0]).path.name
            self.push_screen(PickerScreen(f"Edit a file of {target.id}", files_of(target), current, "file"), take)

    def edit_settings(self) -> None:
        """Open the settings in the person's editor; they are read at the next start."""
        path = settings_file()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            self.notify(f"{path} cannot be made: {error.strerror}", severity="error")
            return
        self.edit_file(path)

    def edit_file(self, path: Path, line: int | None = None) -> None:
        """Open a file in the person's editor, at a line where the editor can be told one."""
        if path.parent.is_file():  # a part of a target that is one file, with that file's line numbers
            path = path.parent
        import subprocess

        from textual.app import SuspendNotSupported

        try:
            command = editor_command(self.settings, path, line)
        except ValueError as error:
            self.notify(
                f"The editor's command is not usable ({error}); correct `editor` in the settings", severity="error"
            )
            return
        try:
            with self.suspend():
                # The editor reads the terminal itself; the app's reader thread is stopped meanwhile.
                status = subprocess.run(command, check=False).returncode
        except SuspendNotSupported:
            self.notify(f"This terminal cannot be handed to an editor; open {path}", severity="warning", timeout=15)
            return
        except OSError as error:
            self.notify(
                f"{command[0]} could not be started ({error.strerror}); set EDITOR or `editor`",
                severity="error",
                timeout=12,
            )
            return
        if status:
            self.notify(f"{command[0]} ended with status {status}", severity="warning")

    # -- actions on the app ------------------------------------------------------------------------------------

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Tell something in a corner, on one line and as text: a path, an error or a link in it is never obeyed."""
        told = clean_line(message, limit=TOLD_CHARACTERS)
        super().notify(told, title=title, severity=severity, timeout=timeout, markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy to the terminal's clipboard, and to a file: tmux and terminals may drop such copies. Say what is so."""
        super().copy_to_clipboard(text)
        begin(self, partial(self._copied, text), group="clipboard")

    async def _copied(self, text: str) -> None:
        from aisp.tui.facts import Health, tmux_check, tmux_clipboard  # once somebody copies

        path = paths.state_dir() / "clipboard.txt"
        size = f"{len(text.splitlines())} lines" if "\n" in text.strip("\n") else "1 line"
        failed = ""
        try:
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            failed = f"{path}: {error.strerror}"
        tmux = tmux_check(os.environ, await aside(tmux_clipboard, os.environ))
        dropped = tmux.verdict is Health.WARNING
        sent = "" if tmux.verdict is Health.OK else f"; of the clipboard, {tmux.value}"
        if failed:
            where = "nowhere" if dropped else "to the terminal only"
            self.notify(f"Copied {size} {where}; {failed}{sent}", severity="error" if dropped else "warning")
        elif sent:
            self.notify(f"Copied {size} to {path}{sent}", severity="warning" if dropped else "information")
        else:
            self.notify(f"Copied {size} to the terminal's clipboard and to {path}")

    def on_diff_view_copied(self, message: Any) -> None:
        self.copy_to_clipboard(message.text)

    def action_next_theme(self) -> None:
        names = list(themes.THEME_NAMES)
        at = names.index(self.theme) if self.theme in names else -1
        self.set_theme(names[(at + 1) % len(names)])

    def set_theme(self, name: str) -> None:
        self.theme = name
        self._remember("theme", name)
        self.notify(f"Theme {name}", timeout=2)

    def set_graph(self, style: str) -> None:
        """Change how plots and signs are drawn: "auto", "braille", "block" or "ascii"; remembered."""
        import msgspec

        self.settings = msgspec.structs.replace(self.settings, graph=style)
        self.graph_style = self._graph_style()
        plain.ascii_only(self.ascii)
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                if hasattr(widget, "graph_style"):
                    widget.graph_style = self.graph_style
                widget.refresh()  # borders and scroll bars too
        self._forward(set())
        self._remember("graph", style)
        self.notify(f"Graphs are drawn with {self.graph_style.value}", timeout=2)

    def _remember(self, key: str, value: str) -> None:
        try:
            save_setting(key, value)
        except OSError as error:
            self.notify(f"Not remembered: {error}", severity="warning")

    def _choose_theme(self) -> None:
        wanted = self.settings.theme
        if wanted in self.available_themes:
            self.theme = wanted
            return
        self._problems.append(f"there is no theme {wanted!r}; there are {', '.join(sorted(self.available_themes))}")
        if themes.THEME_NAMES[0] in self.available_themes:
            self.theme = themes.THEME_NAMES[0]

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and where only 7 bits may be used, the one that draws borders and scroll bars with them."""
        return [*([SEVEN_BITS] if self.ascii else []), *super().get_line_filters()]

    def _graph_style(self) -> GraphStyle:
        if self.settings.graph == "auto":
            return detect(os.environ, getattr(sys.__stdout__, "encoding", "") or "")
        return GraphStyle(self.settings.graph)

    @property
    def ascii(self) -> bool:
        return self.graph_style is GraphStyle.ASCII

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        self.save_picture()

    def save_picture(self, file: Path | None = None) -> Path | None:
        """Write the screen as an SVG; returns where, None after telling that it could not be written."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        file = file or paths.make_private(paths.state_dir() / "screenshots") / f"aisp-{stamp}.svg"
        try:
            file.write_text(self.export_screenshot(), encoding="utf-8")
        except OSError as error:
            self.notify(f"{file} could not be written: {error.strerror}", severity="error")
            return None
        self.notify(f"Saved {file}")
        return file


def _read_board(
    history: History,
) -> tuple[dict[str, Reading], dict[str, Reading], list[Quarantine]]:
    """The last result of every target; newer attempts that say nothing; what is in quarantine."""
    runs, attempts = history.board(all_findings=False).values(), history.attempts().values()
    results, tried = ({run.target: Reading(run) for run in some} for some in (runs, attempts))
    return results, tried, list(history.quarantines())


def _read_shipped(catalog: Catalog) -> dict[str, Shipped]:
    from aisp.kernels.catalog import expected as files  # with 60 KiB of TOML, in a thread
    from aisp.store.results import expected

    return expected.shipped(catalog.targets, files.load(catalog.roots)[0])


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
