"""What is served: targets, read from disk again when somebody asks and the last look is some seconds old, and the
definitions of data sets beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aisp.engine.doors.serve import definitions
from aisp.engine.doors.serve.definitions import Definition, OfTarget
from aisp.engine.doors.serve.problems import Problems, closed
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Catalog, Target
from aisp.store.text import clean_line

FRESH_S = 2.0


class Shelf:
    """The catalogue of some collections, and the definitions of some data sets.

    Args:
        roots: folders of targets; the shipped collection where there is none.
        problems: none of which has a target's name.
    """

    def __init__(self, roots: Sequence[Path] = (), problems: Problems | None = None) -> None:
        self.roots = tuple(roots)
        self.problems = problems or Problems()
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

    async def find(self, word: str, *, status: int = 404, among: str = "targets") -> Target:
        """The target of that id, or of that name where no other has it. Raises RefusalError of that status, which names
        the route that lists them."""
        try:
            return (await self.look()).find(word)
        except catalog.TargetError as error:
            told = clean_line(str(error), limit=500)
            raise RefusalError(Kind.UNKNOWN, told, f"GET /{among} lists what there is", status=status) from None

    async def summaries(self) -> list[dict[str, Any]]:
        """Every definition, the data sets' behind the targets."""
        of_targets = [OfTarget(target).summary() for target in (await self.look()).targets]
        return of_targets + [found.summary() for found in self.problems.found.values()]

    async def digest(self) -> str:
        """Tells one set of definitions and workloads from another."""
        others = [found.digest for found in self.problems.found.values()]
        return definitions.digest((await self.look()).targets, others)

    async def definition(self, word: str, *, status: int = 404) -> Definition:
        """A data set's of that name, else that of the target which `find` finds. Raises RefusalError: of that status
        where there is none, with its reason where it cannot be opened."""
        if (found := self.problems.found.get(word)) is not None:
            return found
        try:
            return OfTarget(await self.find(word, status=status, among="definitions"))
        except RefusalError:
            if word in self.problems.left_out:
                raise closed(word, self.problems.left_out[word]) from None
            raise

    async def workload(self, uuid: str) -> dict[str, Any] | None:
        """The workload of that uuid; None for none."""
        definition: Definition | None = self.problems.found.get(self.problems.uuids.get(uuid, ""))
        for target in (await self.look()).targets:
            if definitions.case_of(target, uuid):
                definition = OfTarget(target)
                break
        known = [] if definition is None else await asyncio.to_thread(definition.workloads)
        return next((one for one in known if one["uuid"] == uuid), None)
