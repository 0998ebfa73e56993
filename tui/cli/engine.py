"""`aisp engine`: the background process that measures, seen from outside, started, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.engine import lock, paths
from aisp.store.text import clean_line
from aisp.tui import jobs, plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, AnswerNoError, NotHereError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aisp.engine.client import Connection
    from aisp.engine.protocol.events import Status

STOP_PATIENCE_S = 15.0
TERM_GRACE_S = 2.0
POLL_S = 0.2
OTHER_BUILD = "it is of another build than this program; `aisp engine --stop --when-idle` lets a new one start"
ACTIONS = {"start": (), "stop": ("when_idle", "force"), "logs": ("count", "follow"), "": ()}


@click.command()
@click.option("--start", is_flag=True, help="Start it, if none runs.")
@click.option("--stop", is_flag=True, help="Stop it and wait until it is gone. What it runs ends as cancelled.")
@click.option("--when-idle", is_flag=True, help="With --stop: let the queue run empty first; watches end.")
@click.option("--force", is_flag=True, help="With --stop: kill one that does not answer, found by its lock.")
@click.option("--logs", is_flag=True, help="Show its own log, also of an engine that is gone.")
@click.option(
    "--lines", "count", type=click.IntRange(0), default=50, show_default=True, help="With --logs: so many, the newest."
)
@click.option("--follow", "-f", is_flag=True, help="With --logs: go on printing what is added, until Ctrl-C.")
@common.json_option
def command(when_idle: bool, force: bool, count: int, follow: bool, as_json: bool, **_: bool) -> int:
    """Show what the engine is doing (devices, queue, watches, memory), start it, stop it, or show its log.

    Other commands start it by themselves; --start is for warming it up, and for seeing why it does not start.

    Exit status: 0 it runs; 1 none runs, or there is no log; 3 it runs and does not answer, or could not be started.
    With --stop: 0 no engine runs any more, or none ran; 3 it did not go.
    """
    match common.action(ACTIONS):
        case "start":
            start(as_json)
        case "stop":
            stop(when_idle, force, as_json)
        case "logs":
            logs(count, follow, as_json)
        case _:
            return status(as_json)
    return EXIT_GOOD


def start(as_json: bool) -> None:
    """Start the engine, if none runs."""
    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, connect

    async def go() -> dict[str, Any]:
        started = False
        try:
            connection = await connect(start=False, tell=common.say_waiting)
        except EngineMismatchError:
            raise
        except EngineUnavailableError:
            started, connection = True, await connect(tell=common.say_waiting)
        async with connection:
            return {**_head(connection), "started": started}

    def lines(width: int | None) -> list[str]:
        how = "started" if result["started"] else "already running"
        head = f"engine {how}: pid {result['pid']}, state in {result['state_dir']}"
        return [head] if result["same_build"] else [head, OTHER_BUILD]

    result = asyncio.run(go())
    common.answer(as_json, lambda: result, lines)


def status(as_json: bool) -> int:
    """Show what the engine is doing: devices, queue, watches, memory. The exit status."""
    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, connect

    async def ask() -> tuple[dict[str, Any], Status | None]:
        async with await connect(start=False, accept_mismatch=True, wait=False) as connection:
            welcome = connection.welcome
            head = {**_head(connection), "protocol": welcome.protocol, "compatible": welcome.compatible}
            return head, await connection.status() if welcome.compatible else None

    held = lock.holder()
    try:
        head, answer = asyncio.run(ask())
    except EngineMismatchError:
        raise
    except EngineUnavailableError as error:
        common.none_runs(held, error)
        none = {"running": False, "reason": str(error)}
        common.answer(as_json, lambda: none, lambda width: [f"no engine is running ({none['reason']})"])
        return EXIT_NO
    common.answer(as_json, lambda: {**head, **(_status_json(answer) if answer else {})}, status_lines, head, answer)
    return EXIT_GOOD


def _head(connection: Connection) -> dict[str, Any]:
    from aisp.engine.client import build_id

    welcome = connection.welcome
    return {
        "running": True,
        "pid": welcome.pid,
        "build": welcome.build,
        "same_build": welcome.build == build_id(),
        "state_dir": welcome.state_dir,
        "socket": str(connection.socket),
    }


def _status_json(answer: Status) -> dict[str, Any]:
    from msgspec import to_builtins  # already imported with the client

    told = {name: value for name, value in to_builtins(answer).items() if name not in ("type", "seq", "to", "pid")}
    return told | {"viewers": answer.clients}  # its name of before, for readers of schema 2


def status_lines(head: dict[str, Any], answer: Status | None, *, width: int | None) -> list[str]:
    lines = [f"engine running: pid {head['pid']}, state in {head['state_dir']}"]
    if not head["compatible"]:
        lines.append(
            f"it speaks protocol {head['protocol']} and this program another; "
            "`aisp engine --stop --when-idle` lets a new one start"
        )
    elif not head["same_build"]:
        lines.append(OTHER_BUILD)
    if answer is None:
        return lines
    lines += [f"starting: {answer.starting}"] if answer.starting else []
    lines += [common.started(answer.not_forked)] if answer.not_forked else []
    lines += [answer.store_note] if answer.store_note else []
    lines.append(
        f"up {plain.duration(answer.uptime_s)}, {plain.size(answer.rss_bytes)}, "
        f"{answer.warm_workers} warm workers, {answer.clients} clients, {answer.runs_done} runs done"
    )
    for device in answer.devices:
        facts = [
            f"sm_{device.sm}" if device.sm is not None else "",
            plain.size(device.memory_bytes) if device.memory_bytes is not None else "",
            f"driver {device.driver}" if device.driver else "",
            device.note,
        ]
        place = "CPU" if device.index < 0 else f"GPU {device.index}"
        lines.append(", ".join([f"{place}: {device.name}", *filter(None, facts)]))
    lines += [f"no GPU: {answer.gpu_note}"] if answer.gpu_note else []
    queue = jobs.rows(answer.queue, time.monotonic_ns())
    lines += ["", *plain.listing(jobs.JOBS, queue, width=width, tabs=False)] if queue else ["queue: empty"]
    for watch in answer.watches:
        polling = ", by looking now and then" if watch.polling else ""
        lines.append(f"watching {watch.target}: {watch.edits} edits{polling}, {watch.folder}")
    return lines


def stop(when_idle: bool, force: bool, as_json: bool) -> None:
    """Stop the engine and wait until it is gone. What it runs ends as cancelled."""
    if when_idle and force:
        raise click.UsageError("--when-idle waits and --force does not; give one of them")
    pid = force_stop() if force else asyncio.run(_stop(when_idle))
    told = "no engine was running" if pid is None else f"engine stopped (pid {pid})"
    common.answer(as_json, lambda: {"stopped": pid is not None, "pid": pid, "forced": force}, lambda width: [told])


async def _stop(when_idle: bool) -> int | None:
    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, connect
    from aisp.engine.protocol import requests

    try:
        connection = await connect(start=False, accept_mismatch=True, wait=False)
    except EngineMismatchError:
        raise NotHereError("what runs does not speak aisp's protocol; `aisp engine --stop --force` ends it") from None
    except EngineUnavailableError as error:
        held = lock.holder()
        if held is None:
            return None
        if not held.here:
            raise NotHereError(held.sentence) from None
        raise NotHereError(f"pid {held.pid} does not answer ({error}); `aisp engine --stop --force` ends it") from None
    async with connection:
        pid = connection.welcome.pid
        with _Gone(pid) as gone:
            try:
                reply = await connection.request(
                    requests.Shutdown(seq=connection.next_seq(), when_idle=when_idle), patience_s=10.0
                )
            except EngineUnavailableError:
                # It may leave before its answer does; whether it left is asked below.
                reply = None
            if reply is not None and reply.error:
                raise NotHereError(f"the engine does not stop: {reply.error}")
            deadline = None if when_idle else time.monotonic() + STOP_PATIENCE_S
            progress = common.Progress()
            started = time.monotonic()
            while not gone.within(0):
                if deadline is not None and time.monotonic() > deadline:
                    raise NotHereError(
                        f"the engine (pid {pid}) still runs after {STOP_PATIENCE_S:.0f} s; "
                        "`aisp engine --stop --force` kills it"
                    )
                took = plain.duration(time.monotonic() - started)
                progress.show(f"waiting for the engine (pid {pid}) to end  {took}")
                await asyncio.sleep(0.02)
            progress.clear()
    return pid


class _Gone:
    """Tells whether a process has ended, without mistaking a newer process of the same number for it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle: int | None = None  # None where it had ended before

    def __enter__(self) -> _Gone:
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(self._pid)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def within(self, patience_s: float) -> bool:
        """Whether it ends within so many seconds; 0 asks whether it has ended."""
        if self._handle is None:
            return True
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)  # a pidfd becomes readable when the process has ended
        return bool(poll.poll(patience_s * 1e3))

    def send(self, number: int) -> None:
        """Send a signal to that very process; nothing happens where it has ended."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)


def force_stop() -> int | None:
    """End the holder of the engine's lock: SIGTERM, and SIGKILL after two seconds. Its pid, None where none is."""
    held = lock.holder()
    if held is None:
        return None
    if not held.here:
        raise NotHereError(held.sentence)
    pid = held.pid
    with _Gone(pid) as process:
        # The handle is taken first and the lock looked at again, so that the number cannot have changed
        # hands.
        if lock.holder() != held:
            return None
        process.send(signal.SIGTERM)
        if not process.within(TERM_GRACE_S):
            process.send(signal.SIGKILL)
            if not process.within(STOP_PATIENCE_S):
                raise NotHereError(f"pid {pid} does not die; it may be stuck in the driver, which a reboot ends")
    return pid


def logs(count: int, follow: bool, as_json: bool) -> None:
    """Show the engine's own log, also of an engine that is gone."""
    path = paths.log_file()

    def show(line: str) -> None:
        if as_json:
            common.say_line({"line": line})
        else:
            common.say(clean_line(line, limit=4000))

    if not path.exists() and not follow:
        raise AnswerNoError(f"there is no log yet at {path}; `aisp engine --start` starts an engine")
    # Where following begins is taken first: a line written meanwhile is shown twice rather than never.
    offset = path.stat().st_size if path.exists() else 0
    for line in tail(path, count):
        show(line)
    if follow:
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
            for line in following(path, offset):
                show(line)


def tail(path: Path, count: int) -> list[str]:
    """The newest `count` lines of a file, oldest first; empty where there is none."""
    try:
        with path.open("rb") as source:
            return [line.rstrip(b"\r\n").decode("utf-8", "backslashreplace") for line in deque(source, count)]
    except OSError:
        return []


def following(path: Path, offset: int) -> Iterator[str]:
    """Lines added to a file behind `offset`, for ever; a file that was replaced or cut is read from its start."""
    rest = b""
    inode: int | None = None
    while True:
        try:
            with path.open("rb") as source:
                now = os.fstat(source.fileno())
                if now.st_size < offset or (inode is not None and inode != now.st_ino):
                    offset, rest = 0, b""
                inode = now.st_ino
                source.seek(offset)
                data = source.read()
        except FileNotFoundError:
            data = b""
        offset += len(data)
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "backslashreplace")
        if not data:
            time.sleep(POLL_S)
