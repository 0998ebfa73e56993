"""The targets that are served, read from disk again when somebody asks and the last look is some seconds old."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Catalog, Target
from aisp.store.text import clean_line

FRESH_S = 2.0


class Shelf:
    """The catalogue of some collections.

    Args:
        roots: folders of targets; the shipped collection where there is none.
    """

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self.roots = tuple(roots)
        self._catalog: Catalog | None = None
        self._read_s = 0.0
        self._reading = asyncio.Lock()

    async def look(self) -> Catalog:
        """What there is now."""
        async with self._reading:
            if self._catalog is None or time.monotonic() - self._read_s > FRESH_S:
                self._catalog = await asyncio.to_thread(catalog.load, list(self.roots) or None)
                self._read_s = time.monotonic()
            return self._catalog

    async def find(self, word: str, *, status: int = 404) -> Target:
        """The target of that id, or of that name where no other has it. Raises RefusalError of that status."""
        try:
            return (await self.look()).find(word)
        except catalog.TargetError as error:
            told = clean_line(str(error), limit=500)
            raise RefusalError(Kind.UNKNOWN, told, "GET /targets lists what there is", status=status) from None
