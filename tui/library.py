"""What the app knows of targets: the catalogue, the last results and the machine, read in threads beside the loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from aisp.engine import paths
from aisp.store.record import Quarantine
from aisp.store.results import repeating, standing
from aisp.store.results.overview import Here, best_without_gpu
from aisp.store.results.reading import Bar, Reading
from aisp.store.text import clean_line
from aisp.tui.aside import aside, begin
from aisp.tui.copying import Copying
from aisp.tui.desk import Desk
from aisp.tui.model import BASELINE, NO_GPU, Model, RunView
from aisp.tui.screens import Place
from aisp.tui.settings import Settings

if TYPE_CHECKING:
    from textual.driver import Driver

    from aisp.engine.protocol.events import Device
    from aisp.kernels.catalog.model import Catalog, Target
    from aisp.store import History
    from aisp.store.results.expected import Shipped

Result = TypeVar("Result")


class Library(Desk):
    """The app as far as that goes.

    Attributes:
        catalog: what was found under the roots; None until it is loaded.
        model: what the engine told.
        board_read: whether the store was read since the app began: before, nobody knows what is in it.
        board: the last stored result of each target, by target id; empty until it is loaded.
        attempts: newer stored runs that say nothing, by target id.
        shipped: what collections say that their targets came to on other hardware, by target id.
    """

    def __init__(
        self, place: Place, model: Model, settings: Settings | None, driver_class: type[Driver] | None
    ) -> None:
        super().__init__(settings, driver_class)
        self.place, self.path, self.catalog = place, place.folder, place.catalog
        self.model = model
        self.board_read = False
        self.board: dict[str, Reading] = {}
        self.attempts: dict[str, Reading] = {}
        self.shipped: dict[str, Shipped] = {}
        self._history: History | None = None
        self._history_lock = threading.Lock()
        self.copying = Copying(self)
        self._away: dict[str, str] = {}  # why the target of a run that was opened is not in the catalogue, by its id

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
