"""The engine process, started by engine.client. One per user and state directory; it outlives its clients.

It listens as soon as it has the lock. Until the store is known to be whole it only says what it is doing: it writes
nothing and starts no process.

One asyncio loop serves the clients (engine.connections, engine.answers), gives jobs their slots (engine.queue), watches
folders (engine.watches) and owns the one writer of the store (engine.store_writer). This module is their life: it
starts them in order, looks after them every few seconds, and ends them. The engine never imports torch nor a lesson.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import sys

from aisp.engine import gpus, guard, lock, paths, slots, spawner, workplaces
from aisp.engine.answers import Answers
from aisp.engine.broadcast import Broadcast
from aisp.engine.connections import Connections
from aisp.engine.guarding import Guarding
from aisp.engine.installed import Installation, state_file
from aisp.engine.journal import Journal
from aisp.engine.life import Life
from aisp.engine.lock import Lock
from aisp.engine.logfile import LogFile
from aisp.engine.planning import Hardware
from aisp.engine.queue import Queue
from aisp.engine.slots import Machine, Slots
from aisp.engine.store_writer import StoreWriter
from aisp.engine.telemetry import Nvml
from aisp.engine.watches import Watches
from aisp.store import upkeep
from aisp.store.errors import StoreError
from aisp.store.record import INSTALLED_CHECK

log = logging.getLogger("aisp.engine")

WARM_IDLE_S = 600.0
HOUSEKEEPING_S = paths.positive_setting("AISP_HOUSEKEEPING_S", 5.0)  # tests shorten it


class Engine:
    """Everything that one engine process is."""

    def __init__(self, held: Lock) -> None:
        self._held = held
        self._life = Life()
        self._nvml = nvml = Nvml()
        self._hardware = Hardware.find(nvml)
        self._journal = Journal(paths.journal_dir())
        self._broadcast = Broadcast(self._journal)
        self._writer = StoreWriter(held, self._life, self._broadcast)
        machine = Machine.find(nvml, [gpu for gpu, _ in self._hardware.usable])
        self._slots = Slots(self._hardware, machine, slots.least_cores())
        self._installation = Installation(state_file())
        self._guarding = Guarding(
            self._installation,
            self._slots.pools,
            self._broadcast.banner,
            lambda: self._writer.call(lambda store: store.release(INSTALLED_CHECK)),
        )
        self._queue = Queue(
            self._life, self._broadcast, self._writer, self._guarding, self._slots, self._hardware, nvml
        )
        self._watches = Watches(self._broadcast, self._writer, self._queue)
        self._answers = Answers(
            self._life,
            self._journal,
            self._broadcast,
            self._writer,
            self._guarding,
            self._queue,
            self._watches,
            self._hardware,
        )
        self._connections = Connections(held, self._life, self._journal)
        self._connections.now, self._connections.carry_out = self._answers.now, self._answers.carry_out
        self._connections.wanted = self._slots.stand_by
        self._writer.under_way, self._writer.moved = self._queue.under_way, self._moved

    async def serve(self) -> None:
        """Run until asked to stop; leaves no process, socket or lock behind."""
        loop = asyncio.get_running_loop()
        logging.getLogger().addHandler(self._broadcast)
        spawner.become_subreaper()
        await asyncio.to_thread(workplaces.sweep)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._life.stopping.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: log.info("a terminal hung up; the engine goes on"))
        try:
            await self._connections.bind()
            await self._writer.open()
            await self._guarding.begin(await self._writer.take_stock())
            self._installation.read_in_background(lambda: self._queue.busy)
            await self._queue.recall_peaks()
            await self._queue.recall_priors("cpu", "cuda")
        except BaseException as error:
            await self._connections.hang_up()
            self._journal.close()
            if self._life.stopping.is_set() and isinstance(error, StoreError):
                return
            raise
        self._life.is_ready()
        if self._connections.warm:
            self._slots.stand_by()
        log.info(
            "engine %s is up: pid %d, state %s, %s",
            self._life.epoch,
            os.getpid(),
            paths.state_dir(),
            self._hardware.note or f"{self._hardware.gpus} GPU(s)",
        )
        with contextlib.suppress(OSError), paths.log_file().open("ab") as sink:
            os.dup2(sink.fileno(), 2)  # the client that started us read it until now, and may go away
        loops = [loop.create_task(work) for work in (self._queue.work(), self._housekeeping(), guard.watch())]
        try:
            await self._life.stopping.wait()
        finally:
            await self._shut_down(loops)

    async def _shut_down(self, loops: list[asyncio.Task[None]]) -> None:
        log.info("engine %s is stopping", self._life.epoch)
        self._connections.stop_listening()
        for loop in loops:
            loop.cancel()
        await asyncio.gather(self._watches.close(), self._connections.answered(), *loops, return_exceptions=True)
        await self._queue.close()
        await asyncio.gather(*(pool.close() for pool in self._slots.pools))
        await spawner.all_ended()
        await spawner.sweep_orphans()
        await workplaces.cleared()
        if not self._held.lost:  # else another engine's processes work there
            with contextlib.suppress(paths.UnsafePathError, OSError):  # the folder is somebody else's now, or gone
                await asyncio.to_thread(workplaces.sweep)
        await self._connections.hang_up()
        await asyncio.to_thread(self._installation.close)
        await self._writer.close()
        self._journal.close()

    async def _moved(self) -> None:
        """The state folder is another one: be found there."""
        await self._connections.bind_again()
        self._guarding.renew()  # a standby may have lost its folder

    async def _housekeeping(self) -> None:
        """Look every few seconds after lock, store, socket, standbys, backups and orphans.

        An orphan is a process that could not be killed at the time and has ended since.
        """
        chores = upkeep.Upkeep()
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            await spawner.sweep_orphans()
            await self._writer.glance()
            await self._connections.look()
            await self._guarding.between(lambda: self._queue.busy)
            await self._queue.look_again()
            if self._connections.warm and not self._queue.busy and self._nvml.count:
                self._life.gpus = await asyncio.to_thread(gpus.use, self._nvml)
            idle_s = self._life.idle_s
            if not self._connections.warm and not self._queue.busy and idle_s > WARM_IDLE_S:
                for pool in self._slots.pools:
                    if pool.target:
                        pool.keep(0)
            if not self._queue.busy and not self._writer.waits and chores.wanted(idle_s):
                await self._writer.tend(chores, idle_s)
            if self._life.stop_when_idle and not self._queue.busy:
                self._life.stopping.set()


def _say_last(error: Exception) -> None:
    """Tell the program that started us why there is no engine, even where the log could not be written."""
    text = str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        with contextlib.suppress(paths.UnsafePathError):
            text = f"{error.strerror} in {paths.state_dir()}: free some, or set AISP_STATE to a folder on another disk"
    with contextlib.suppress(OSError):
        print(f"aisp engine: {text}", file=sys.stderr)  # noqa: T201  the client that started us reads it


def main() -> int:
    """Be the engine of this state directory, unless there is one."""
    logging.raiseExceptions = False  # a log that cannot be written is no reason to say so line by line
    try:
        descriptor = lock.take()
    except (paths.UnsafePathError, OSError) as error:
        _say_last(error)
        return 1
    if descriptor is None:
        return paths.EXIT_ALREADY_RUNNING
    held = Lock(descriptor)
    handler = LogFile(paths.log_file())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs every change it sees
    try:
        asyncio.run(_serve(held))
    except (StoreError, paths.UnsafePathError, OSError) as error:
        log.error("%s", error)
        _say_last(error)
        return 1
    finally:
        held.close()
    return 0


async def _serve(held: Lock) -> None:
    await Engine(held).serve()


if __name__ == "__main__":
    sys.exit(main())
