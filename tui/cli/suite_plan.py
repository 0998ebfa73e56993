"""The plan of one run of a suite, kept in a file from its start to its package, so that a run that was killed goes on.

It lies beside the suite's packages as `<ULID>.plan.json` and is written whole. Where it is there when the suite is
started again, runs of the same request and the same sources that were planned since count for it (`answers`). One
process at a time works on a suite (`held`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.engine import paths
from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.model import Role
from aisp.store.given import regular_bytes
from aisp.store.outcomes import Trigger
from aisp.store.results.reading import cache_of
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid
from aisp.store.upkeep import settle
from aisp.tui.cli.tree import NotHereError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Run

SCHEMA = 1
SUFFIX = ".plan.json"
LOCK = "lock"
MOST_BYTES = 4 * 2**20


class Wanted(msgspec.Struct, frozen=True):
    """One target: its id, its case, "" for the usual one, and rungs beside the baseline, none for all honest ones."""

    target: str
    case: str = ""
    rungs: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """What a run of a suite is to measure, and how; two of these that are equal are the same work."""

    suite: str
    targets: tuple[Wanted, ...]
    roots: tuple[str, ...] = ()
    device: str = "auto"
    quick: bool = False
    replicas: int = 0
    warm: bool = False
    policy: str = "strict"
    contract: dict[str, Any] | None = None  # as runs have it in their manifest


class Plan(msgspec.Struct, frozen=True):
    """A run of a suite that has begun; `id` will be its package's name."""

    id: str
    wall: str
    asked: Asked
    schema: int = SCHEMA

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return folder(self.asked.suite) / f"{self.id}{SUFFIX}"

    def keep(self) -> None:
        """Write it."""
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=SUFFIX, dir=self.file.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self)))
            settle(Path(name), self.file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def drop(self) -> None:
        """Forget it: its package is written, or nobody wants it."""
        self.file.unlink(missing_ok=True)


def begin(asked: Asked) -> Plan:
    """A new plan, kept."""
    plan = Plan(new_ulid(), datetime.now(UTC).isoformat(timespec="milliseconds"), asked)
    plan.keep()
    return plan


def folder(suite: str) -> Path:
    """Where a suite's plan and, unless they go elsewhere, its packages lie."""
    return paths.make_private(paths.suites_dir() / suite)


def unfinished(suite: str) -> tuple[list[Plan], list[str]]:
    """The plans of a suite that have no package yet, newest first; and a sentence for each that cannot be read."""
    plans: list[Plan] = []
    told: list[str] = []
    for path in sorted(folder(suite).glob(f"[!.]*{SUFFIX}"), reverse=True):
        why = ""
        try:
            plan = msgspec.json.decode(regular_bytes(path, MOST_BYTES), type=Plan)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            why = f"is no plan of a run of a suite ({clean_line(str(error))})"
        except OSError as error:
            why = f"cannot be read: {clean_line(error.strerror or str(error))}"
        else:
            if plan.schema > SCHEMA:
                why = f"has schema {plan.schema}, a newer aisp wrote it; this one reads up to {SCHEMA}"
            elif plan.file != path:
                why = "is of another run than its name says"
        if why:
            told.append(f"{clean_line(os.fsencode(path))} {why}; remove it")
        else:
            plans.append(plan)
    return plans, told


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


def answers(plan: Plan, wanted: Wanted, target: Target, snapshot: str, run: Run) -> bool:
    """Whether a stored run, ended or not, is what the plan wants of this target.

    Args:
        snapshot: hash of the target's sources as they are now.
    """
    asked = plan.asked
    rule = _mapping(run.manifest.get("stop_rule"))
    same = (
        run.id > plan.id,  # ids sort by creation
        run.target == target.id,
        run.folder == os.fsencode(target.folder),
        run.snapshot == snapshot,
        run.trigger is not Trigger.WATCH,
        run.quick is asked.quick,
        asked.device in ("auto", run.device),
        run.case == target.case_on(run.device, wanted.case).name,
        run.policy == asked.policy,
        not run.without,
        (cache_of(rule) is Cache.WARM) is asked.warm,
        not asked.replicas or rule.get("replicas") == asked.replicas,
        _mapping(run.manifest.get("contract")).get("sha256") == _mapping(asked.contract).get("sha256"),
        _same_rungs(run, wanted, target),
    )
    return all(same)


def _same_rungs(run: Run, wanted: Wanted, target: Target) -> bool:
    """Whether the run has the rungs that are wanted and beside them baselines alone."""
    found = run.manifest.get("rungs")
    ran = {str(name) for name in found} if isinstance(found, (list, tuple)) else set()
    if not wanted.rungs:
        return ran == {rung.name for rung in target.honest_rungs}
    return ran >= set(wanted.rungs) and all(Role.of(name) is Role.BASELINE for name in ran - set(wanted.rungs))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
