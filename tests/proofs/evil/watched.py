"""A target under watch, as a test or a scene looks at it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aisp.engine.protocol import events, requests
from tests.engine.harness import EngineUnderTest, Stream
from tests.proofs.evil import corpus

NAME = "doubling"
TARGET = f"mine:{NAME}"
UNRUNNABLE = corpus.LESSON.replace("[inputs]", "needs = { gpus = 64 }\n[inputs]")
"""For what is planned, not how it runs: no machine has what this target needs, so its runs end at once."""


def variant(number: int) -> str:
    """A right rung, another one for every number."""
    return f"# {number}\n" + corpus.OPTIMIZED


def planned_only(home: Path) -> Path:
    """A collection with one target of which runs are planned and end at once as unavailable."""
    corpus.write(home / "mine" / NAME, lesson=UNRUNNABLE)
    return home / "mine"


@dataclass
class Watched:
    """A target under watch, and what the watch says."""

    engine: EngineUnderTest
    stream: Stream
    folder: Path
    target: str = TARGET
    edits: list[events.WatchEdit] = field(default_factory=list)

    async def edit(self) -> events.WatchEdit:
        """The next edit that the watch tells."""
        found = await self.stream.until(events.WatchEdit, lambda edit: edit.target == self.target)
        self.edits.append(found)
        return found

    async def save(self, name: str, text: str) -> events.WatchEdit:
        """Save a file, and the edit that comes of it: of that file alone, as it was saved, without an error."""
        (self.folder / name).write_text(text)
        return await self.saved(name, text)

    async def saved(self, name: str, text: str) -> events.WatchEdit:
        """The next edit, which must be of that file alone, as it was saved, without an error."""
        found = await self.edit()
        assert (found.files, found.error) == ([name], ""), found
        assert self.source(found, name) == text.encode()
        return found

    async def run_of(self, edit: events.WatchEdit) -> str:
        """The state that the edit's run ended in."""
        assert edit.run_id, edit.error
        return (await self.stream.finish(edit.run_id)).state

    def planned(self) -> list[str]:
        """Runs that were planned so far."""
        return [e.run_id for e in self.stream.seen if isinstance(e, events.RunPlanned)]

    async def settle(self) -> None:
        """Make one more edit and wait for it: whatever came before it has been told by then."""
        (self.folder / "marker.h").write_text(f"// {len(self.edits)}\n")
        while True:
            if (await self.edit()).files == ["marker.h"]:
                return

    def source(self, edit: events.WatchEdit, name: str) -> bytes:
        """A file as the edit's snapshot has it."""
        with self.engine.history() as history:
            return history.snapshot(edit.snapshot)[name]


@contextlib.asynccontextmanager
async def watching(engine: EngineUnderTest, root: Path, target: str = TARGET) -> AsyncIterator[Watched]:
    """Watch the target; its first state has been told, and its run has been cancelled."""
    async with engine.stream() as stream:
        await stream.ask(requests.StartWatch(seq=stream.connection.next_seq(), root=str(root), target=target))
        watched = Watched(engine, stream, root / target.rpartition(":")[2], target)
        try:
            first = await watched.edit()
            assert first.files == []
            if first.run_id:
                await stream.connection.request(requests.Cancel(seq=stream.connection.next_seq(), run_id=first.run_id))
                await stream.finish(first.run_id)
            yield watched
        finally:
            await stream.ask(requests.StopWatch(seq=stream.connection.next_seq(), target=target))
            await stream.connection.request(requests.Cancel(seq=stream.connection.next_seq()))
            for run_id in watched.planned():
                await stream.finish(run_id)
