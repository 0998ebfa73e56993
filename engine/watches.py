"""Targets under watch: a save becomes a run, which ends the runs of the saves before it."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections import Counter
from collections.abc import Iterator

from aisp.engine.affected import affected
from aisp.engine.broadcast import Broadcast
from aisp.engine.job import RunJob
from aisp.engine.planning import PlanError
from aisp.engine.protocol import events
from aisp.engine.queue import Queue
from aisp.engine.store_writer import StoreWriter
from aisp.engine.watch import Announce, Watch
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import Trigger
from aisp.store.text import clean_line

log = logging.getLogger("aisp.engine")

MOST_CUT = 3  # runs of a watch in a row that later saves may end where rungs can write into the folder
MOST_WATCHES = 32  # each holds a thread that waits, of the 40 that the watcher may have, and an inotify instance


class Watches:
    """All watches of an engine."""

    def __init__(self, broadcast: Broadcast, writer: StoreWriter, queue: Queue) -> None:
        self._broadcast, self._writer, self._queue = broadcast, writer, queue
        self._watches: dict[str, tuple[Watch, asyncio.Task[None]]] = {}
        self._cut: Counter[str] = Counter()  # by target: runs in a row that a later save has ended
        queue.run_ended = self._run_ended

    def __contains__(self, target_id: str) -> bool:
        return target_id in self._watches

    def items(self) -> Iterator[events.WatchItem]:
        """Items for clients."""
        for name, (watch, _) in self._watches.items():
            yield events.WatchItem(
                target=name,
                folder=clean_line(os.fsencode(watch.target.folder)),
                edits=watch.count,
                polling=watch.polling,
            )

    def start(self, target: Target, device: str, last_edit: int | None = None) -> None:
        """Watch a target that is not watched; its edits go on after `last_edit`. Raises PlanError where there are too
        many.
        """
        if len(self._watches) >= MOST_WATCHES:
            raise PlanError(f"{len(self._watches)} targets are watched already, which is the most; end a watch first")

        def running() -> bool:
            return any(job.task is not None and job.plan.record.target == target.id for job in self._queue.runs)

        watch = Watch(
            target, self._broadcast.publish, functools.partial(self._run_edit, device=device), running, last_edit
        )
        task = asyncio.create_task(watch.run())
        self._watches[target.id] = (watch, task)
        task.add_done_callback(lambda done: self._watch_ended(target.id, done))
        self._queue.slots.stand_by()
        self._broadcast.publish(watch.changed(active=True))

    def stop(self, target_id: str) -> None:
        """Watch it no more, if it is watched."""
        if target_id in self._watches:
            _, task = self._watches[target_id]
            task.cancel()
            self._forget(target_id)

    async def close(self) -> None:
        """End all, without a word."""
        tasks = [task for _, task in self._watches.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _watch_ended(self, target_id: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the watch of %s ended: %s", target_id, error, exc_info=error)
            self._forget(target_id)

    def _forget(self, target_id: str) -> None:
        watch, _ = self._watches.pop(target_id)
        self._broadcast.publish(watch.changed(active=False))
        if not self._watches:
            self._queue.slots.rest()

    async def _run_edit(
        self,
        target: Target,
        files: dict[str, bytes],
        number: int,
        changed: set[str] | None,
        announce: Announce,
        device: str,
    ) -> tuple[str, str]:
        """Store an edit's sources and plan its run. It ends those of the watch's earlier saves, waiting or running, and
        takes over their rungs. What people asked for goes on.

        A run that writes a source itself would end itself for ever where nothing keeps rungs from writing there: of
        MOST_CUT in a row the next one comes to its end, and says what it wrote.

        `number`, `changed`, `announce`: see watch.RunIt.
        """
        snapshot = await self._writer.call(lambda store: store.put_snapshot(files))
        if changed is None:
            return snapshot, ""
        rungs = await asyncio.to_thread(affected, target, changed) if changed else ()
        names = {rung.name for rung in target.rungs}
        earlier = self._edits_of(target)
        if rungs:
            rungs += tuple(rung.name for job in earlier for rung in job.plan.rungs if rung.name in names)
        try:
            plan = self._queue.plan(
                target,
                files,
                snapshot,
                rungs=rungs,
                device=device,
                quick=True,
                trigger=Trigger.WATCH,
                edit={"number": number, "files": sorted(clean_line(os.fsencode(name)) for name in changed)},
            )
        except PlanError as error:
            return snapshot, str(error)
        reason = f"superseded by edit {number}" if changed else "superseded by a watch that began anew"
        for job in earlier:
            if job.task is None:
                job.supersede(reason)
                await self._queue.cancel(job, reason)
            elif not job.superseded and not (job.may_write and self._cut[target.id] >= MOST_CUT):
                job.supersede(reason)
        await self._queue.enqueue([plan], self._writer.call, lambda: announce(snapshot, plan.id))
        return snapshot, ""

    def _edits_of(self, target: Target) -> list[RunJob]:
        """Runs of a target that its watch has planned and that have not ended."""
        ours = [job for job in self._queue.runs if job.plan.record.trigger is Trigger.WATCH]
        return [job for job in ours if (job.plan.target.id, job.plan.target.folder) == (target.id, target.folder)]

    async def _run_ended(self, ended: RunJob) -> None:
        """Report a run's end to the watch of its target. Drops runs that were planned only for files that this run
        wrote.
        """
        target, were = ended.plan.target, ended.plan.files
        self._cut[target.id] = self._cut[target.id] + 1 if ended.cut else 0
        entry = self._watches.get(target.id)
        if entry is None:
            return
        entry[0].run_ended(ended.written)
        for job in self._edits_of(target):
            files = job.plan.files
            changed = {name for name in files.keys() | were.keys() if files.get(name) != were.get(name)}
            if changed and changed <= ended.written.keys():
                names = ", ".join(clean_line(os.fsencode(name)) for name in sorted(changed))
                await self._queue.cancel(job, f"{names} was written by the run before, not by a save")
