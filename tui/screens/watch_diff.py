"""An edit's sources against another edit's, or its rung against its baseline, as a pane of the watch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from aisp.store.text import clean, clean_line
from aisp.tui import edits
from aisp.tui.aside import begin
from aisp.tui.edits import Against
from aisp.tui.model import BASELINE, Model, WatchView
from aisp.tui.screens.base import entitle
from aisp.tui.screens.lesson import MAX_FILE_BYTES
from aisp.tui.screens.source import language_of
from aisp.tui.widgets.diffview import DiffView

if TYPE_CHECKING:
    from aisp.engine.protocol.events import WatchEdit
    from aisp.store import History


class Wanted(NamedTuple):
    """What is to be compared: two snapshots, and the rung that is to be held against its baseline or ""."""

    left: str
    right: str
    rung: str
    title: str
    names: tuple[str, str]  # of the two sides


def text_of(content: bytes | None) -> str:
    return clean(content, limit=MAX_FILE_BYTES) if content else ""


class EditDiff(DiffView):
    """The pane. `compare` says what to show; it reads the store beside the loop, and only when that changes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(changes_only=True, **kwargs)
        self._compared: Wanted | str | None = None

    def compare(
        self, model: Model, watch: WatchView, edit: WatchEdit, against: Against, best: WatchEdit | None
    ) -> None:
        """Show the edit against another; a sentence where there is none."""
        other, why = edits.other_of(watch, edit, against, best)
        if other is None:
            self._say(f"edit {edit.number} against the {against}", why)
            return
        rung, names = "", (f"edit {other.number}", f"edit {edit.number}")
        if against is Against.BASELINE:
            run = edits.run_of(model, edit)
            lead = run.lead if run is not None else None
            rung = lead.rung if lead is not None and lead.rung != BASELINE else "optimized"
            names = (BASELINE, rung)
        wanted = Wanted(other.snapshot, edit.snapshot, rung, edits.title_of(edit, other, against), names)
        if wanted == self._compared:
            return
        self._compared = wanted
        entitle(self, wanted.title)
        begin(self, partial(self._load, wanted), group="snapshots", exclusive=True)

    def _say(self, title: str, why: str) -> None:
        self._compared = why
        entitle(self, title)
        self.tell(why)

    async def _load(self, wanted: Wanted) -> None:
        def ask(history: History) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
            return history.snapshot(wanted.left), history.snapshot(wanted.right)

        app: Any = self.app
        try:
            found = await app.stored(ask)
        except Exception as error:
            found, why = None, clean_line(f"the sources cannot be read: {error}")
        else:
            why = "there is no store yet"
        if self._compared != wanted:
            return
        if found is None:
            self.tell(why)
            return
        left, right = found
        if wanted.rung:
            pair = (f"{BASELINE}.py", f"{wanted.rung}.py")
            self._put(wanted, left.get(pair[0]), right.get(pair[1]), pair[1], wanted.title)
            return
        names = edits.differing(left, right)
        if not names:
            self.tell("their sources are the same")
            return
        more = f" and {len(names) - 1} more: d" if len(names) > 1 else ""
        self._put(wanted, left.get(names[0]), right.get(names[0]), names[0], f"{wanted.title} \u00b7 {names[0]}{more}")

    def _put(self, wanted: Wanted, left: bytes | None, right: bytes | None, name: str, title: str) -> None:
        entitle(self, clean_line(title))
        titles = dict(zip(("left_title", "right_title"), wanted.names, strict=True))
        self.show(text_of(left), text_of(right), language=language_of(name), **titles)
