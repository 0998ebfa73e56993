"""The engine's part of guarding the installation: when to look, and what becomes of what is found.

`engine.installed` knows what there is and what has changed. This module decides who hears of it: the pool (standbys
have imported what was there before), clients (a banner), the run (facts for a check), the store (rungs leave quarantine
when a person accepts).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aisp.engine.installed import Installation, News, listed
from aisp.engine.pool import Pool
from aisp.engine.protocol import jobs, reports
from aisp.engine.spawner import Child

log = logging.getLogger("aisp.installed")

BANNER = "installed"
TELL_PATIENCE_S = 10.0


class Guarding:
    """Looks before a run, after it, and between runs; never while something is measured."""

    def __init__(
        self,
        installation: Installation,
        pools: Sequence[Pool],
        banner: Callable[[str, str, str], None],
        release: Callable[[], Awaitable[Any]],
    ) -> None:
        """`banner` takes key, text and severity; `release` ends the quarantines that a look has caused."""
        self._installation = installation
        self._pools = pools
        self._banner = banner
        self._release = release
        self._lock = asyncio.Lock()
        self._shown = ""
        self._after: dict[str, list[str]] = {}  # by run that was looked after and is not over: what was found
        for pool in pools:
            pool.greet = self.greet

    async def begin(self, lost: Sequence[str]) -> None:
        """The first look; before any process is started."""
        news = await asyncio.to_thread(self._installation.begin, lost)
        if self._installation.accepted_before:
            await self._release()
            await asyncio.to_thread(self._installation.released)
        self._report(news)

    async def before(self, whose: str) -> str:
        """Look before a run begins. Why it may not, or ""."""
        async with self._lock:
            self._report(await asyncio.to_thread(self._installation.before, whose))
            return self._installation.reason

    async def between(self, busy: Callable[[], bool]) -> None:
        """Look while nobody waits for anything."""
        async with self._lock:
            if not busy():
                self._report(await asyncio.to_thread(self._installation.glance))

    async def after(self, whose: str) -> Mapping[str, Any]:
        """Look after a run, once: its facts for the check. Its processes have ended."""
        async with self._lock:
            if whose not in self._after:
                changes = await asyncio.to_thread(self._installation.after, whose)
                self._after[whose] = [change.text for change in changes]
                if changes:
                    log.warning("while run %s went on: %s", whose, listed(changes))
                self._report(News())  # forbids first: whoever would be started now would import it
                if changes:
                    self.renew()
            return {**self._installation.state(), "changes": list(self._after[whose])}

    async def over(self, whose: str) -> None:
        """The end of a job that was looked at before: look after it, unless somebody has."""
        await self.after(whose)
        del self._after[whose]

    def renew(self) -> None:
        """Replace all that stand by: what they imported, or where they lie, is not what it was."""
        for pool in self._pools:
            pool.renew()

    async def accept(self) -> str:
        """A person says that it was his own doing; what was accepted."""
        async with self._lock:
            accepted = await asyncio.to_thread(self._installation.accept)
            await self._release()
            self.renew()
            self._report(News())
            if not accepted:
                return "nothing was held against a run; rungs that were quarantined for it are free"
            log.warning("accepted: %s", listed(accepted))
            return f"accepted: {listed(accepted)}"

    async def greet(self, child: Child) -> None:
        """Ask the first process of each kind what it imports from. Raises as Child.ask does."""
        kind = "compiler" if child.compiler else "plain"
        if self._installation.knows(kind):
            return
        report = await child.ask(jobs.TellImports(), TELL_PATIENCE_S)
        if isinstance(report, reports.ImportsTold):
            path, files = ([os.fsdecode(name) for name in names] for names in (report.path, report.files))
            await asyncio.to_thread(self._installation.learn, kind, path, files)

    def _report(self, news: News) -> None:
        reason = self._installation.reason
        if news.noted:
            log.info("processes start anew: %s", listed(news.noted))
            self.renew()
        if news.released:
            log.info("what was held against a run is gone; processes are started again")
        for pool in self._pools:
            pool.forbid(reason)
        text = reason or (f"{listed(news.noted)}; standing processes start anew" if news.noted else "")
        if text != self._shown:
            self._shown = text
            self._banner(BANNER, text, "error" if reason else "info")
