"""Standby processes: a run should never wait for `import torch`.

A standby has torch imported and a CUDA context, and no role. It serves one run and is thrown away. It is forked by a
nursery (engine.nursery), of which there is one for each kind: Triton decides at its import whether kernels are compiled
or interpreted. Where no nursery can fork, processes are started.

Between a run's plan and its last sample only that run's processes are made. Those of its later replicas are made while
the arms of the first compile and are verified, and nothing is made while something is measured. Standbys for the next
job follow behind the last sample. Some of them have imported torch's compiler too, for rungs that use it.

Each slot has a pool, whose processes run on the slot's cores and see its GPU alone. Pools of slots that share cores
keep quiet together. Those of slots with cores of their own do not: a fork takes some milliseconds of its own slot's
cores, and on a machine that always measures somewhere a slot that waited for all others would never have a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import TypeAlias

from aisp.engine import paths, spawner, workplaces
from aisp.engine.environment import oom_kills
from aisp.engine.nursery import SWITCH, Nursery, NurseryError
from aisp.engine.spawner import WHOLE, Child, ChildGoneError, ChildTimeoutError, Share
from aisp.store.text import clean

log = logging.getLogger("aisp.pool")

MOST_FAILED_STARTS = 2  # in a row
# After which a slow start is reported, and between reports.
TELL_AFTER_S = paths.positive_setting("AISP_TELL_AFTER_S", 15.0)
AHEAD_EACH = 2  # processes that each spare processor starts ahead: in about the time that the arms of a replica compile


class Pool:
    """Keeps `target` processes standing by.

    Standbys interpret on a machine without a GPU and compile on any other. A run that needs the other kind has its own
    processes made.
    """

    def __init__(
        self, *, interpret: bool, open_nursery: Callable[..., Nursery] | None = None, share: Share = WHOLE
    ) -> None:
        """`open_nursery`: see spawner.open_nursery; without it processes are started. `share`: what they all have."""
        self.interpret = interpret
        self.share = share
        self.beside: list[Pool] = [self]  # itself, and those whose processes run on the same cores
        self.not_forked = "" if open_nursery else f"{SWITCH} is 0"  # why processes are started
        self._open_nursery = open_nursery
        self._nurseries: dict[bool, Nursery] = {}  # by whether they interpret
        self._failed_nurseries = 0  # in a row
        self.target = 0
        self._wanted = 0  # the target, unless so many starts failed that it was given up
        self._expected = 0
        self._expected_compilers = 0  # of these
        self._idle: list[Child] = []
        self._coming: dict[_Coming, bool] = {}  # those that are not among the idle yet, and whether with the compiler
        self._making: set[_Coming] = set()  # these, and those that nobody waits for any more
        self._starting: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._measuring = 0
        self._serving = False  # a run takes what there is, and has not taken its last sample
        self._closed = False
        self._failed_starts = 0  # in a row
        self._forbidden = ""  # why none may be started
        self.last_ready: Child | None = None
        self.greet: Callable[[Child], Awaitable[None]] | None = None  # talks to a taken process before anybody else
        self.report: Callable[[str], None] = lambda text: None  # what is waited for; "" when it is over
        self._reports = False

    @property
    def forbidden(self) -> str:
        """Why no process may be started at present; "" where one may."""
        return self._forbidden

    @property
    def warm(self) -> int:
        """How many stand ready now."""
        return sum(child.ready is not None and child.alive for child in self._idle)

    def keep(self, count: int) -> None:
        """Have `count` standing by from now on."""
        self.target = self._wanted = count
        if not count:
            self._close_nurseries()
        self._fill()

    def begin_run(self) -> None:
        """Until `end_run`, start only what is expected and end no standby: somebody waits for a sample."""
        self._serving = True

    def end_run(self) -> None:
        """The last sample is taken: replace the standbys that were used. It may be called twice."""
        self._serving = False
        self._fill_all()

    def expect(self, count: int, compilers: int = 0) -> None:
        """Say how many processes will be taken soon, standbys included.

        Missing ones are made now, and stand by until fewer are expected. Where they are started, and not forked, it is
        two for each spare processor; two processors are left to the engine and its clients.

        Args:
            count: how many.
            compilers: how many of them are for a rung that uses torch's compiler.
        """
        self._expected_compilers = compilers
        spare = len(self.share.cores) or max(0, (os.cpu_count() or 1) - 2)
        most = AHEAD_EACH * spare if self.not_forked else count
        self._expected = min(count, most)
        self._fill()

    def renew(self) -> None:
        """Replace all standbys: what they imported is not what lies on disk now."""
        idle, self._idle = self._idle, []
        for child in idle:
            self._begin(self._end(child), self._ending)
        self._drop_coming()
        self._close_nurseries()
        self._failed_nurseries = 0
        if self._open_nursery:
            self.not_forked = ""
        self._fill()

    def forbid(self, reason: str) -> None:
        """Make no process and end all standbys while there is a `reason`; "" allows them again."""
        if reason != self._forbidden:
            self._forbidden = reason
            self.renew()

    async def settled(self) -> None:
        """Wait until no process is being made: that disturbs what is measured."""
        while busy := {task for pool in self.beside for task in (*pool._starting, *pool._coming)}:
            await asyncio.wait(busy)

    async def take(self, *, interpret: bool, compiler: bool = False, reads: bool = False) -> Child:
        """A ready process: a standby, one that is being made, or a new one. The caller ends it.

        A standby that died or was stopped is replaced by a fresh process, once. One that was not ready in time is not:
        the next one would wait for the same thing.

        Args:
            interpret: Triton kernels will run in its interpreter (a run on the CPU that has such kernels).
            compiler: prefer one that has imported torch's compiler; any other imports it with its rung.
            reads: it is to read files wherever they lie, those that were made a moment ago among them.

        Raises:
            ChildGoneError, ChildTimeoutError: it could not be made ready.
        """
        if self._forbidden:
            raise ChildGoneError(self._forbidden)
        self._drop_dead()
        if self.interpret or not interpret:
            with contextlib.suppress(ChildGoneError):
                if (child := await self._standby(compiler=compiler)) is not None:
                    if not reads or child.reads_what_is_new:
                        return await self._made_ready(child)
                    self._idle.append(child)
        return await self._made_ready(await self._make(interpret=interpret or self.interpret, compiler=compiler))

    async def _standby(self, *, compiler: bool) -> Child | None:
        """One that stands by or is coming, and now nobody else's; None where a new one is better."""
        fit = [child for child in self._idle if child.compiler == compiler]
        if not compiler or self.not_forked:
            fit += self._idle  # a fork with the compiler is there sooner than a standby without it has imported it
        if fit:
            # Several that are made at once wait for one another: the first of them is seldom the first to be ready.
            first = min(fit, key=lambda child: (child.compiler != compiler, child.ready is None))
            self._idle.remove(first)
            return first
        coming = next((task for task, has in self._coming.items() if has or not compiler), None)
        if coming is None:
            return None
        del self._coming[coming]
        try:
            return await asyncio.shield(coming)
        except asyncio.CancelledError:
            coming.add_done_callback(self._end_unwanted)
            raise

    async def _make(self, *, interpret: bool, compiler: bool) -> Child:
        """A process that becomes ready: forked, or started where nothing can fork. Raises ChildGoneError."""
        try:
            while (nursery := self._nursery(interpret=interpret)) is not None:
                try:
                    async with self._reporting(nursery.pid, ready=nursery.ready):
                        if compiler:
                            await nursery.import_compiler()
                        child = await spawner.spawn(
                            interpret=interpret, compiler=nursery.compiler, nursery=nursery, share=self.share
                        )
                except NurseryError as error:
                    self._give_up(nursery, str(error))
                else:
                    self._failed_nurseries = 0
                    return child
            return await spawner.spawn(interpret=interpret, compiler=compiler, share=self.share)
        except OSError as error:
            raise ChildGoneError(f"no process can be started: {error}") from None

    def _nursery(self, *, interpret: bool) -> Nursery | None:
        """What forks processes of this kind; None where nothing can."""
        if self.not_forked or self._open_nursery is None:
            return None
        if interpret not in self._nurseries:
            self._nurseries[interpret] = self._open_nursery(interpret=interpret)
        return self._nurseries[interpret]

    def _give_up(self, nursery: Nursery, reason: str) -> None:
        """End one that did not do what was asked, unless somebody else has. After several in a row none is asked."""
        if nursery in self._nurseries.values():
            log.warning("a nursery is given up: %s", reason)
            self._nurseries = {kind: other for kind, other in self._nurseries.items() if other is not nursery}
            spawner.close_nursery(nursery)
            self._failed_nurseries += 1
            if self._failed_nurseries >= MOST_FAILED_STARTS:
                self.not_forked = reason

    def _close_nurseries(self) -> None:
        while self._nurseries:
            spawner.close_nursery(self._nurseries.popitem()[1])

    async def _made_ready(self, child: Child) -> Child:
        """The child, once it is ready; it is ended where it does not become so. Raises as `take` does."""
        try:
            async with self._reporting(child.pid, ready=child.ready is not None):
                await spawner.until_ready(child)
            if not child.alive:
                raise ChildGoneError("it died while it stood by")
            if spawner.is_stopped(child.pid):
                raise ChildGoneError("it was stopped while it stood by")
            if misplaced := self.share.misplaced(child.ready):
                raise ChildGoneError(misplaced)
            if self.greet is not None:
                await self.greet(child)
        except BaseException:
            await child.end(gently=False)
            raise
        self.target, self._failed_starts = self._wanted, 0  # processes can be started, whatever there was
        self.last_ready = child
        child.oom_kills = oom_kills()
        return child

    @contextlib.asynccontextmanager
    async def _reporting(self, pid: int, *, ready: bool) -> AsyncIterator[None]:
        """Report now and then that a process is waited for, one at a time: an import may hang for any time."""
        if self._reports or ready:
            yield
            return
        self._reports = True
        reporting = asyncio.create_task(self._report_again(pid))
        try:
            yield
        finally:
            self._reports = False
            reporting.cancel()
            self.report("")

    async def _report_again(self, pid: int) -> None:
        waited_s = 0.0
        while True:
            await asyncio.sleep(TELL_AFTER_S)
            waited_s += TELL_AFTER_S
            self.report(
                f"waiting for process {pid} to import torch, for {waited_s:.0f} s now of at most "
                f"{spawner.READY_LIMIT_S:.0f}: {spawner.doing(pid)}"
            )

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No process is made while this lasts: something is being measured."""
        self._measuring += 1
        try:
            with workplaces.held():
                yield
        finally:
            self._measuring -= 1
            self._fill_all()

    def _fill_all(self) -> None:
        for pool in self.beside:
            pool._fill()

    @property
    def _disturbs(self) -> bool:
        """Whether a process that is made now disturbs what is measured on the same cores, or delays its beginning."""
        return any(pool._measuring or (pool._serving and pool is not self) for pool in self.beside)

    def _fill(self) -> None:
        if self._closed or self._forbidden or self._disturbs:
            return
        self._drop_dead()
        wanted = self._sought
        compilers = sum(child.compiler for child in self._idle) + sum(self._coming.values())
        for _ in range(wanted - len(self._idle) - len(self._coming)):
            compiler = compilers < self._expected_compilers
            compilers += compiler
            task = asyncio.get_running_loop().create_task(self._make(interpret=self.interpret, compiler=compiler))
            self._coming[task] = compiler
            self._making.add(task)
            task.add_done_callback(self._making.discard)
            task.add_done_callback(self._arrived)
        self._trim()

    @property
    def _sought(self) -> int:
        return self._expected if self._serving else max(self.target, self._expected)

    def _trim(self) -> None:
        """End standbys that are too many, unless a run takes what there is."""
        while len(self._idle) > self._sought and not self._serving:
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

    def _arrived(self, task: _Coming) -> None:
        """Let a process that was made stand by, unless somebody waits for it or nobody wants it any more."""
        if self._coming.pop(task, None) is None or task.cancelled():
            return
        if task.exception() is None:
            self._idle.append(task.result())
            self._trim()  # fewer may be wanted than when it was asked for
        self._begin(self._look_after(task), self._starting)

    def _drop_coming(self) -> None:
        for task in self._coming:
            task.cancel()
            task.add_done_callback(self._end_unwanted)
        self._coming.clear()

    def _end_unwanted(self, task: _Coming) -> None:
        if not task.cancelled() and task.exception() is None:
            self._begin(self._end(task.result()), self._ending)

    async def _look_after(self, task: _Coming) -> None:
        """Wait until a standby is ready; drop one that does not become so."""
        child: Child | None = None
        try:
            child = task.result()
            await spawner.until_ready(child)
            self._failed_starts = 0
        except (ChildGoneError, ChildTimeoutError) as error:
            if child is not None:
                if child not in self._idle:
                    return  # taken: its user ends it
                self._idle.remove(child)
                await child.end(gently=False)
            log.warning("a standby did not come up (%s): %s", error, _last_words(child) if child else "")
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                # No endless retries: the next run has its own made, and says what is wrong or ends this.
                self.target = self._expected = 0

    async def close(self) -> None:
        """End all standbys and the nurseries."""
        self._closed = True
        self._drop_coming()
        for task in (*self._making, *self._starting):
            if not task.cancelling():
                task.cancel()
        while left := {*self._making, *self._starting, *self._ending}:
            await asyncio.wait(left)
        for child in self._idle:
            await child.end(gently=False)
        self._idle.clear()
        self._close_nurseries()


_Coming: TypeAlias = asyncio.Task[Child]


def _last_words(child: Child) -> str:
    return clean(child.stderr.text()[-2000:]).strip()
