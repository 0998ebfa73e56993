"""What the screen of a watch does with the sources of its edits: compare them, mark one, write the best one's back."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.engine.protocol import requests
from aisp.engine.protocol.events import WatchEdit
from aisp.kernels.catalog.sources import not_restorable
from aisp.store.text import clean_line
from aisp.tui import edits, plain
from aisp.tui.aside import aside, begin
from aisp.tui.model import WatchView
from aisp.tui.screens import Source
from aisp.tui.screens.base import WorkScreen
from aisp.tui.screens.watch_diff import text_of

if TYPE_CHECKING:
    from aisp.tui.screens.confirm import Rewrite

FILES_NAMED = 8  # in the question before they are overwritten


class EditSourcesScreen(WorkScreen):
    """Base of that screen: the rows of its table are edits, by number."""

    main_table = "edits"

    def __init__(self, target_id: str) -> None:
        super().__init__(target_id)
        self.marked: int | None = None
        self._known: edits.Known = {}

    @property
    def watch_view(self) -> WatchView | None:
        return self.workbench.model.watches.get(self._target_id)

    def _root(self) -> str:
        target = self.workbench.target(self._target_id)
        return str(target.root) if target is not None else ""

    @property
    def chosen(self) -> WatchEdit | None:
        return self._edit(int(self.chosen_key)) if self.chosen_key else None

    def _edit(self, number: int) -> WatchEdit | None:
        watch = self.watch_view
        return edits.by_number(watch, number) if watch else None

    def _say(self, text: str) -> None:
        self.notify(text, severity="warning")

    def action_diff(self) -> None:
        watch, edit = self.watch_view, self.chosen
        if watch is None or edit is None:
            self._say("There is no edit yet: save a file of the target")
            return
        other = self._edit(self.marked) if self.marked is not None and self.marked != edit.number else None
        other = other or edits.edit_before(watch, edit)
        if other is None:
            self._say("This is the state when the watch began; there is nothing before it")
            return
        self._compare(other, edit)

    def action_diff_best(self) -> None:
        watch, edit = self.watch_view, self.chosen
        best = edits.best_edit(self.workbench.model, watch, self._known) if watch is not None else None
        if edit is None or best is None:
            self._say("No edit was correct and timed yet, so there is no best one")
        elif best is edit:
            self._say("This is the best edit")
        else:
            self._compare(best, edit)

    def _compare(self, one: WatchEdit, other: WatchEdit) -> None:
        """The older on the left."""
        older, newer = sorted((one, other), key=lambda edit: edit.number)
        name = self._changed_file(older, newer)
        self.workbench.open_diff(self._target_id, Source(name, older.snapshot), Source(name, newer.snapshot))

    def _changed_file(self, older: WatchEdit, newer: WatchEdit) -> str:
        """What to open the diff on: a file that changed between the two, else the fastest rung."""
        watch = self.watch_view
        for edit in reversed(watch.edits if watch is not None else []):
            if older.number < edit.number <= newer.number and edit.files:
                name = edit.files[0]
                return name.removesuffix(".py") if "/" not in name else name
        run = edits.run_of(self.workbench.model, newer)
        return run.lead.rung if run is not None and run.lead is not None else "optimized"

    def action_mark(self) -> None:
        edit = self.chosen
        if edit is not None:
            self.marked = None if self.marked == edit.number else edit.number
            self.draw()

    def action_restore_best(self) -> None:
        watch = self.watch_view
        best = edits.best_edit(self.workbench.model, watch, self._known) if watch is not None else None
        if watch is None or best is None:
            self._say("No edit was correct and timed yet, so there is nothing to restore")
        else:
            begin(self, partial(self._restore, watch, best), group="restore")

    async def _restore(self, watch: WatchView, best: WatchEdit) -> None:
        if why := await aside(not_restorable, self._folder(watch)):
            self.notify(clean_line(os.fsencode(why)), severity="warning", timeout=12)
            return
        rewrites = await self._rewrites(watch, best)
        if rewrites is None:
            return
        if not rewrites:
            self.notify(f"The folder holds edit {best.number}, the best, already")
            return
        median = plain.number(edits.median_ms(self.workbench.model, best))
        names = [file.name for file in rewrites]
        more = f" and {len(names) - FILES_NAMED} more" if len(names) > FILES_NAMED else ""
        yes = await self.workbench.confirmed(
            f"Restore edit {best.number}, the best so far ({median} ms)?",
            f"Overwritten in {watch.folder}: {', '.join(names[:FILES_NAMED])}{more}.\n"
            "What stands there now is first kept in the store as a snapshot, so nothing is lost.",
            rewrites,
        )
        if not yes:
            return
        reply = await self.workbench.ask_engine(
            "Nothing was restored",
            requests.Restore,
            root=self._root(),
            target=self._target_id,
            snapshot=best.snapshot,
        )
        if reply is not None:
            kept = reply.detail[:12]
            self.notify(f"Edit {best.number} is restored; what was there is kept as snapshot {kept}", timeout=12)

    def _folder(self, watch: WatchView) -> Path:
        target = self.workbench.target(self._target_id)
        return target.folder if target is not None else Path(watch.folder)

    async def _rewrites(self, watch: WatchView, edit: WatchEdit) -> list[Rewrite] | None:
        from aisp.tui.screens.confirm import Rewrite

        folder = self._folder(watch)

        def compare(snapshot: dict[str, bytes]) -> list[Rewrite]:
            found = []
            for name, content in sorted(snapshot.items()):
                path = folder / name
                now = path.read_bytes() if path.is_file() else b""
                if now != content or not path.is_file():
                    found.append(Rewrite(name, text_of(now), text_of(content)))
            return found

        found, why = await self.workbench.read(lambda history: compare(history.snapshot(edit.snapshot)))
        if found is None:
            why = f"what edit {edit.number} was cannot be read: {why}" if why else "there is no store yet"
            self._say(f"Nothing was restored: {why}")
        return found
