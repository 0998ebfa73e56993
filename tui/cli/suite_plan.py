"""What a run of a suite is to measure. Its targets' runs are planned as one batch, which their manifests name, so that
a run of a suite that was killed goes on: the runs of that batch count for it.

Beside the packages stands in `over` which run of the suite was the last to be finished or given up. One process at a
time works on a suite (`held`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from aisp.engine import paths
from aisp.engine.protocol.requests import Batch, StartRuns
from aisp.store.given import write_whole
from aisp.store.text import clean_line
from aisp.store.ulid import made_s
from aisp.tui.cli import common
from aisp.tui.cli.tree import NotHereError

LOCK, OVER = "lock", "over"


class Wanted(msgspec.Struct, frozen=True):
    """One target: its id, its case, "" for the usual one, and rungs beside the baseline, none for all honest ones."""

    target: str
    case: str = ""
    rungs: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """What a run of a suite is to measure, where its package goes, and how; two that are equal are the same work."""

    suite: str
    targets: tuple[Wanted, ...]
    base: str
    how: StartRuns


class Plan(msgspec.Struct, frozen=True):
    """A run of a suite that has begun; `id` will be its package's name."""

    id: str
    asked: Asked

    @property
    def batch(self) -> Batch:
        """What its runs are part of."""
        asked = hashlib.sha256(msgspec.json.encode(self.asked, order="sorted")).hexdigest()
        return Batch(id=self.id, suite=self.asked.suite, sha256=asked)

    @property
    def wall(self) -> str:
        """When it began, in UTC."""
        return datetime.fromtimestamp(made_s(self.id), UTC).isoformat(timespec="milliseconds")

    def drop(self) -> None:
        """Note that it is over: its package is written, or nobody wants it."""
        write_whole(folder(self.asked.suite) / OVER, self.id.encode())


def folder(suite: str) -> Path:
    """Where a suite's lock and, unless they go elsewhere, its packages lie."""
    return paths.make_private(paths.suites_dir() / suite)


def unfinished(suite: str) -> tuple[str, str] | None:
    """The run of a suite that is not over: its id and the digest of what was asked; None where there is none."""
    with common.history() as opened:
        found = opened.last_batch(suite)
    with contextlib.suppress(FileNotFoundError):
        if found is not None and found[0] <= (folder(suite) / OVER).read_text("utf-8", "replace"):
            return None
    return found


@contextlib.contextmanager
def held(suite: str) -> Iterator[None]:
    """Work on a suite alone. NotHereError where another process does already."""
    with (folder(suite) / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = clean_line(file.read(20).strip())
            told = f"suite {suite} is being measured already" + (f" by process {who}" if who else "")
            raise NotHereError(f"{told}; wait for it, or end that one: what it has measured is kept") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
