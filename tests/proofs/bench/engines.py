"""The real engine for a benchmark: started over a state folder of its own, asked, and ended with all its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from unittest import mock

import psutil

from aisp.engine import client
from aisp.engine.client import Connection, EngineUnavailableError
from aisp.engine.protocol import requests
from aisp.engine.telemetry import Nvml
from tests.proofs.bench.terminal import environment

STANDBYS = 3
PATIENCE_S = 120.0


@contextlib.contextmanager
def looking_at(environ: Mapping[str, str]) -> Iterator[None]:
    """Have this process look for the engine of that environment."""
    with mock.patch.dict(os.environ, dict(environ)):
        yield


@contextlib.contextmanager
def real_engine(environ: Mapping[str, str]) -> Iterator[psutil.Process]:
    """A running engine without standbys; ended at the end."""
    with looking_at(environ):
        pid = asyncio.run(_start())
    try:
        yield psutil.Process(pid)
    finally:
        stop_engine(environ)


async def _start() -> int:
    async with await client.connect(start=True) as connection:
        return connection.welcome.pid


def stop_engine(environ: Mapping[str, str]) -> None:
    """End the engine of that environment, if one runs, and wait until its processes are gone."""
    with looking_at(environ):
        try:
            pid = asyncio.run(_stop())
        except EngineUnavailableError:
            return
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        _, alive = psutil.wait_procs(family, timeout=15)
        for left in alive:
            left.kill()


async def _stop() -> int:
    connection = await client.connect(start=False, accept_mismatch=True)
    async with connection:
        with contextlib.suppress(EngineUnavailableError):
            await connection.request(requests.Shutdown(seq=connection.next_seq()))
        return connection.welcome.pid


@contextlib.asynccontextmanager
async def connected(environ: Mapping[str, str], *, warm: bool = False) -> AsyncIterator[Connection]:
    """A connection that receives everything from now on."""
    with looking_at(environ):
        async with await client.connect(start=False) as probe:
            start_at = probe.welcome.next_seq
        connection = await client.connect(start=False, subscribe_from=start_at, warm=warm)
        async with connection:
            yield connection


async def settled(connection: Connection, standbys: int = STANDBYS) -> None:
    """Wait until nothing runs and so many processes stand by.

    Raises:
        TimeoutError: they never did.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status = await connection.status()
        if not status.queue and status.warm_workers >= standbys:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{status.warm_workers} of {standbys} processes stand by after {PATIENCE_S:.0f} s")
        await asyncio.sleep(0.05)


async def until_warm(environ: Mapping[str, str]) -> None:
    """Ask for standbys and wait until they are ready; they stay when this connection has gone."""
    async with connected(environ, warm=True) as connection:
        await settled(connection)


def devices() -> Iterator[tuple[str, str, str]]:
    """Where something can be measured: device, its word for rows, and why it cannot ("" where it can)."""
    nvml = Nvml()
    yield "cpu", "CPU", ""
    yield "cuda", "GPU", "" if nvml.count else f"no GPU: {nvml.note}"


@contextlib.contextmanager
def temporary() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and the environment of an engine whose state lies there; gone at the end."""
    with tempfile.TemporaryDirectory(prefix="aisp-bench-") as folder:
        yield Path(folder), environment(Path(folder))
