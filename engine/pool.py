"""Standby processes: a run should never wait for `import torch`.

A standby has torch imported and a CUDA context, and no role. It serves one run and is thrown away. A start takes two
CPU-seconds, so between a run's plan and its last sample only that run's processes are started. Those of its later
replicas start while the arms of the first compile and are verified, as many as the processors can start in that time.
Standbys for the next job start behind the last sample. Some of them import torch's compiler too, for rungs that use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator

from aisp.engine import paths, spawner, workplaces
from aisp.engine.spawner import Child, ChildGoneError, ChildTimeoutError
from aisp.store.text import clean

log = logging.getLogger("aisp.pool")

MOST_FAILED_STARTS = 2  # in a row
# After which a slow start is reported, and between reports.
TELL_AFTER_S = paths.positive_setting("AISP_TELL_AFTER_S", 15.0)
AHEAD_EACH = 2  # processes that each spare processor starts ahead: in about the time that the arms of a replica compile


class Pool:
    """Keeps `target` processes standing by.

    Triton decides at its import whether kernels are compiled or interpreted. Standbys interpret on a machine without a
    GPU and compile on any other. A run that needs the other kind starts its own processes.
    """

    def __init__(self, *, interpret: bool) -> None:
        self.interpret = interpret
        self.target = 0
        self._wanted = 0  # the target, unless so many starts failed that it was given up
        self._expected = 0
        self._expected_compilers = 0  # of these
        self._idle: list[Child] = []
        self._spawning: list[bool] = []  # whether with the compiler, of each that is not among the idle yet
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._measuring = 0
        self._serving = False  # a run takes what there is, and has not taken its last sample
        self._closed = False
        self._failed_starts = 0  # in a row
        self._forbidden = ""  # why none may be started
        self._generation = 0  # standbys of an earlier one are not used
        self.last_ready: Child | None = None
        self.greet: Callable[[Child], Awaitable[None]] | None = None  # talks to a taken process before anybody else
        self.report: Callable[[str], None] = lambda text: None  # what is waited for; "" when it is over
        self._reports = False

    @property
    def warm(self) -> int:
        """How many stand ready now."""
        return sum(child.ready is not None and child.alive for child in self._idle)

    def keep(self, count: int) -> None:
        """Have `count` standing by from now on."""
        self.target = self._wanted = count
        self._fill()

    def begin_run(self) -> None:
        """Until `end_run`, start only what is expected and end no standby: somebody waits for a sample."""
        self._serving = True

    def end_run(self) -> None:
        """The last sample is taken: replace the standbys that were used. It may be called twice."""
        self._serving = False
        self._fill()

    def expect(self, count: int, compilers: int = 0) -> None:
        """Say how many processes will be taken soon, standbys included.

        Missing ones start now, two for each spare processor, and stand by until fewer are expected. Two processors are
        left to the engine and its clients.

        Args:
            count: how many.
            compilers: how many of them are for a rung that uses torch's compiler.
        """
        self._expected_compilers = compilers
        self._expected = min(count, AHEAD_EACH * max(0, (os.cpu_count() or 1) - 2))
        self._fill()

    def renew(self) -> None:
        """Replace all standbys: what they imported is not what lies on disk now."""
        self._generation += 1
        idle, self._idle = self._idle, []
        for child in idle:
            self._begin(self._end(child), self._ending)
        self._fill()

    def forbid(self, reason: str) -> None:
        """Start no process and end all standbys while there is a `reason`; "" allows them again."""
        if reason != self._forbidden:
            self._forbidden = reason
            self.renew()

    async def settled(self) -> None:
        """Wait until no process is starting: a start disturbs what is measured."""
        while self._starting:
            await asyncio.wait(self._starting)

    async def take(self, *, interpret: bool, compiler: bool = False) -> Child:
        """A ready process: a standby, one that is starting, or a new one. The caller ends it.

        A standby that died or was stopped is replaced by a fresh process, once. One that was not ready in time is not:
        the next one would wait for the same thing.

        Args:
            interpret: Triton kernels will run in its interpreter (a run on the CPU that has such kernels).
            compiler: prefer one that has imported torch's compiler; any other imports it with its rung.

        Raises:
            ChildGoneError, ChildTimeoutError: it could not be made ready.
        """
        if self._forbidden:
            raise ChildGoneError(self._forbidden)
        self._drop_dead()
        if self._idle and (self.interpret or not interpret):
            with contextlib.suppress(ChildGoneError):
                wanted = next((child for child in self._idle if child.compiler == compiler), self._idle[0])
                self._idle.remove(wanted)
                return await self._made_ready(wanted)
        return await self._made_ready(await spawner.spawn(interpret=interpret or self.interpret))

    async def _made_ready(self, child: Child) -> Child:
        """The child, once it is ready; it is ended where it does not become so. Raises as `take` does."""
        try:
            async with self._reporting(child):
                await spawner.until_ready(child)
            if not child.alive:
                raise ChildGoneError("it died while it stood by")
            if spawner.is_stopped(child.pid):
                raise ChildGoneError("it was stopped while it stood by")
            if self.greet is not None:
                await self.greet(child)
        except BaseException:
            await child.end(gently=False)
            raise
        self.target, self._failed_starts = self._wanted, 0  # processes can be started, whatever there was
        self.last_ready = child
        return child

    @contextlib.asynccontextmanager
    async def _reporting(self, child: Child) -> AsyncIterator[None]:
        """Report now and then that a child is waited for, one child at a time: an import may hang for any time."""
        if self._reports or child.ready:
            yield
            return
        self._reports = True
        reporting = asyncio.create_task(self._report_again(child))
        try:
            yield
        finally:
            self._reports = False
            reporting.cancel()
            self.report("")

    async def _report_again(self, child: Child) -> None:
        waited_s = 0.0
        while True:
            await asyncio.sleep(TELL_AFTER_S)
            waited_s += TELL_AFTER_S
            self.report(
                f"waiting for process {child.pid} to import torch, for {waited_s:.0f} s now of at most "
                f"{spawner.READY_LIMIT_S:.0f}: {spawner.doing(child.pid)}"
            )

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No process is started while this lasts: something is being measured."""
        self._measuring += 1
        try:
            with workplaces.held():
                yield
        finally:
            self._measuring -= 1
            self._fill()

    def _fill(self) -> None:
        if self._closed or self._measuring or self._forbidden:
            return
        self._drop_dead()
        wanted = self._expected if self._serving else max(self.target, self._expected)
        compilers = sum(child.compiler for child in self._idle) + sum(self._spawning)
        for _ in range(wanted - len(self._idle) - len(self._spawning)):
            self._spawning.append(compilers < self._expected_compilers)
            compilers += self._spawning[-1]
            self._begin(self._start_one(compiler=self._spawning[-1]), self._starting)
        while len(self._idle) > wanted and not self._serving:
            self._begin(self._end(self._idle.pop()), self._ending)

    def _drop_dead(self) -> None:
        """Forget standbys that died, and give back what they held here."""
        for child in self._idle:
            if not child.alive:
                log.warning("standby process %d died (%s): %s", child.pid, child.exited.result(), _last_words(child))
                self._begin(self._end(child), self._ending)
        self._idle = [child for child in self._idle if child.alive]

    def _begin(self, work: Coroutine[None, None, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _end(self, child: Child) -> None:
        await child.end(gently=False)

    async def _start_one(self, *, compiler: bool) -> None:
        generation = self._generation
        try:
            child = await spawner.spawn(interpret=self.interpret, compiler=compiler)
        finally:
            self._spawning.remove(compiler)
        if generation != self._generation:
            await child.end(gently=False)
            self._fill()
            return
        self._idle.append(child)
        try:
            await spawner.until_ready(child)
            self._failed_starts = 0
        except (ChildGoneError, ChildTimeoutError) as error:
            if child not in self._idle:
                return  # taken: its user ends it
            self._idle.remove(child)
            await child.end(gently=False)
            log.warning("a standby process did not come up (%s): %s", error, _last_words(child))
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                # No endless retries: the next run starts its own, and says what is wrong or ends this.
                self.target = self._expected = 0

    async def close(self) -> None:
        """End all standbys."""
        self._closed = True
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, *self._ending, return_exceptions=True)
        for child in self._idle:
            await child.end(gently=False)
        self._idle.clear()


def _last_words(child: Child) -> str:
    return clean(child.stderr.text()[-2000:]).strip()
