"""Editing a lesson that came with aisp: a copy in one's own folder is offered first, once for each lesson."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aisp.store.results import repeating
from aisp.tui.aside import aside, begin

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.tui.library import Library


class Copying:
    """Which shipped lessons are edited where they are, and which copies were made, while the app is open.

    Attributes:
        folders: of the copies, and of targets whose runs were opened: the catalogue has them beside its own.
    """

    def __init__(self, app: Library) -> None:
        self._app = app
        self._here: set[str] = set()  # lessons to be edited where they are installed, as the person said
        self.folders: list[Path] = []

    def offered(self, target_id: str, then: Callable[[str], None]) -> bool:
        """Offer a copy before a shipped lesson is edited or watched; whether that was needed.

        Args:
            then: called with the id of the copy, or of the lesson where the person wants to edit that.
        """
        target = self._app.target(target_id)
        watch = self._app.model.watches.get(target_id)
        if target is None or target_id in self._here or (watch is not None and watch.active):
            return False
        from aisp.kernels.catalog import shipped_root  # the loader was read in a thread, with the lessons

        if not target.folder.is_relative_to(shipped_root()):
            return False
        begin(self._app, partial(self._ask, target, then), group="copy", exclusive=True)
        return True

    async def _ask(self, target: Target, then: Callable[[str], None]) -> None:
        from aisp.kernels.catalog import free_name
        from aisp.tui.screens.confirm import CopyScreen  # a question is rare

        into = Path.cwd()
        name = free_name(target.name, into)
        answer = await self._app.push_screen_wait(
            CopyScreen(
                f"{target.id} is a lesson that came with aisp. Edit a copy of it?",
                f"Enter copies its {len(target.files)} files to {into / name} and opens the copy.\n"
                f"p edits the lesson itself, in {target.folder}: an update of aisp overwrites that.",
            )
        )
        if answer == "here":
            self._here.add(target.id)
            then(target.id)
        elif answer == "copy":
            copy = await self._copy(target, name, into)
            if copy is not None:
                then(copy.id)

    async def _copy(self, target: Target, name: str, into: Path) -> Target | None:
        """Make the copy, and read the catalogue with it; None after saying why there is none."""
        from aisp.kernels.catalog import ScaffoldError, copy_target

        try:
            folder = await aside(copy_target, target, name, into)
        except ScaffoldError as error:
            self._app.notify(f"Nothing was copied: {error}", severity="error", timeout=15)
            return None
        self.folders.append(folder)
        await self._app.read_catalog_again()
        catalog = self._app.catalog
        found = next((item for item in catalog.targets if item.folder == folder), None) if catalog else None
        if found is None:
            opens = repeating.shell("aisp-tui", str(into))
            told = f"{folder} was made and cannot be opened beside the shipped lessons; `{opens}` opens it"
            self._app.notify(told, severity="warning", timeout=15)
        else:
            self._app.notify(f"{target.id} was copied to {folder}: it is {found.id}", timeout=8)
        return found
