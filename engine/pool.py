"""Standby processes: a run should never wait for `import torch`.

A standby has torch imported and a CUDA context, and no role. It serves one run and is thrown away. New ones are
started only while nothing is being measured, since starting one takes two CPU-seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from engine import spawner
from engine.spawner import Child

log = logging.getLogger("aisp.pool")


class Pool:
    """Keeps `target` processes standing by.

    Triton decides when it is imported whether kernels are compiled or interpreted. A machine without a GPU has
    interpreting standbys, any other has compiling ones; the rare run that wants what is not in stock starts its own.
    """

    def __init__(self, *, interpret: bool) -> None:
        self.interpret = interpret
        self.target = 0
        self._idle: list[Child] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._measuring = 0
        self._closed = False
        self.last_ready: Child | None = None

    @property
    def warm(self) -> int:
        """How many stand ready now."""
        return sum(child.ready is not None and child.alive for child in self._idle)

    def keep(self, count: int) -> None:
        """Have `count` standing by from now on."""
        self.target = count
        self._fill()

    async def take(self, *, interpret: bool) -> Child:
        """A ready process; waits for one that is on its way, else starts one. The caller ends it.

        Args:
            interpret: Triton kernels will run in its interpreter (a run on the CPU that has such kernels).

        Raises:
            ChildGoneError, ChildTimeoutError: it could not be made ready.
        """
        self._idle = [child for child in self._idle if child.alive]
        if interpret and not self.interpret:
            child = await spawner.spawn(interpret=True)
        else:
            child = self._idle.pop(0) if self._idle else await spawner.spawn(interpret=self.interpret)
        try:
            await spawner.until_ready(child)
        except BaseException:
            await child.end(gently=False)
            raise
        self.last_ready = child
        return child

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No process is started while this lasts: something is being measured."""
        self._measuring += 1
        try:
            yield
        finally:
            self._measuring -= 1
            self._fill()

    def _fill(self) -> None:
        if self._closed or self._measuring:
            return
        missing = self.target - len(self._idle) - len(self._starting)
        for _ in range(missing):
            task = asyncio.get_running_loop().create_task(self._start_one())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
        while len(self._idle) > max(self.target, 0):
            surplus = self._idle.pop()
            task = asyncio.get_running_loop().create_task(self._end(surplus))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _end(self, child: Child) -> None:
        await child.end(gently=False)

    async def _start_one(self) -> None:
        child = await spawner.spawn(interpret=self.interpret)
        self._idle.append(child)
        try:
            await spawner.until_ready(child)
        except (spawner.ChildGoneError, spawner.ChildTimeoutError) as error:
            if child in self._idle:
                self._idle.remove(child)
            await child.end(gently=False)
            log.warning("a standby process did not come up (%s): %s", error, child.stderr.text()[-500:])
            self.target = 0  # no endless retries: the next run starts its own and reports what is wrong

    async def close(self) -> None:
        """End all standbys."""
        self._closed = True
        for task in list(self._starting):
            task.cancel()
        for task in list(self._starting):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for child in self._idle:
            await child.end(gently=False)
        self._idle.clear()
