"""What the screens of a run and of a history share: `E` writes the run for somebody else, `y` copies it on one line."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.engine import paths
from aisp.store.text import clean_line
from aisp.tui import sharing
from aisp.tui.aside import aside, begin
from aisp.tui.keymap import Key
from aisp.tui.screens.base import WorkScreen
from aisp.tui.screens.picker import PickerScreen
from aisp.tui.sharing import FORMS, Shared

if TYPE_CHECKING:
    from aisp.store import History

EXPORT = Key(
    "export", "E", "export", "Write the run for somebody else: Markdown, a page, a picture, or a package to import."
)
COPY = "copy"
"""The row of the list that writes no file."""


class ExportingScreen(WorkScreen):
    @property
    def shared_run(self) -> str:
        """The id of the run that is written or copied; "" for none."""
        raise NotImplementedError

    def action_export(self) -> None:
        run_id = self.shared_run
        if not run_id:
            self.notify("Highlight a run first", severity="warning")
            return
        rows = [(COPY, "Markdown to the clipboard"), *((form, f"{form}: {what}") for form, (what, _) in FORMS.items())]

        def take(picked: str | None) -> None:
            if picked is not None:
                begin(self, partial(self._export, run_id, picked), group="export", exclusive=True)

        self.app.push_screen(PickerScreen("Write this run as", rows, COPY, head="form"), take)

    async def _export(self, run_id: str, picked: str) -> None:
        form = "md" if picked == COPY else picked

        def write(history: History) -> tuple[str, str]:
            return history.run(run_id).target, FORMS[form][1](history, run_id)

        found, why = await self.workbench.read(write)
        if found is None:
            reason = why or "the run is not in the store yet"
            self.notify(f"Not written: {reason}", severity="error" if why else "warning", timeout=12)
            return
        target, text = found
        if picked == COPY:
            self.workbench.copy_to_clipboard(text)
            return
        name = sharing.file_name(target, run_id, form)
        try:
            file = await aside(_put, name, text)
        except OSError as error:
            self.notify(f"{name} could not be written: {error.strerror or error}", severity="error", timeout=12)
            return
        self.notify(f"Wrote {file}", timeout=8)

    def action_copy(self) -> None:
        run_id = self.shared_run
        if (text := self.copy_text()) or not run_id:
            self.workbench.copy_to_clipboard(text) if text else super().action_copy()
        else:
            begin(self, partial(self._copy_line, run_id), group="copy", exclusive=True)

    async def _copy_line(self, run_id: str) -> None:
        try:
            shared = await self.workbench.stored(partial(sharing.read, run_id=run_id))
        except LookupError:
            shared = None
        except Exception as error:
            self.notify(f"Not copied: {clean_line(str(error), limit=400)}", severity="error", timeout=12)
            return
        live = self.workbench.model.runs.get(run_id)
        if shared is None and live is not None:  # it goes on, or the store was taken away
            shared = Shared(live)
        if shared is None:
            self.notify("There is nothing to copy here", severity="warning")
            return
        self.workbench.copy_to_clipboard(sharing.line(shared))

    def copy_text(self) -> str:
        return ""


def _put(name: str, text: str) -> Path:
    """Write a file into the folder that one stands in, or where that cannot be, into the state folder. Returns it.

    A file of that name is never written over. Raises OSError.
    """
    here = Path.cwd()
    folder = here if os.access(here, os.W_OK) else paths.make_private(paths.state_dir() / "exports")
    file, number = folder / name, 1
    while True:
        try:
            with file.open("x", encoding="utf-8") as sink:
                sink.write(text)
            return file
        except FileExistsError:
            number += 1
            file = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
