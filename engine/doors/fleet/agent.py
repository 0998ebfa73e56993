"""The agent: a Ray actor that has one row at a time run by the engine of its host. This module does not import Ray.

It measures nothing itself, so that a crash, a hang or a poisoned CUDA context ends a worker of the engine, and the
agent tells how. What it takes from Ray is which GPU it holds, so that nobody else is given that one meanwhile.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aisp.engine import client, paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors.fleet import work
from aisp.engine.doors.fleet.messages import Agent, Ended, Give, Lost, Result
from aisp.store.text import clean_line

_RAYS_OWN = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONBREAKPOINT", "PYTHONUNBUFFERED")
"""What Ray sets for a process of its own, beside RAY_*."""
HEAVY = ("torch", "triton", "cuda")


class HostAgent:
    """Runs rows on its host, one after the other.

    Args:
        name: what it is called where it has no GPU.
        node: Ray's id of the host.
        on_gpu: it was given one.
    """

    def __init__(self, name: str, node: str, on_gpu: bool) -> None:
        self._node = node
        self._gpus = gpus_of(os.environ.get("CUDA_VISIBLE_DEVICES", "")) if on_gpu else ()
        self._name = f"{clean_line(platform.node())}/{self._gpus[0]}" if self._gpus else name

    def describe(self) -> bytes:
        """Who it is, as an Agent, before its host's engine was asked for anything."""
        return self._encoded(self._agent())

    def open(self, gpus: Sequence[str]) -> bytes:
        """Have the host's engine run, on these GPUs where it has to be started; as an Agent."""
        try:
            return self._encoded(self._agent(devices=work.open_engine(self._environment(gpus))))
        except (EngineUnavailableError, OSError, paths.UnsafePathError) as error:
            return self._encoded(self._agent(note=clean_line(str(error), limit=work.REASON_CHARS)))

    def judge(self, row: bytes, gpus: Sequence[str]) -> bytes:
        """Have a row run, and wait for its end; as a Result. `gpus` as of `open`."""
        given = msgspec.msgpack.decode(row, type=Give)
        result: Result = work.judge(given, self._environment(gpus))
        if isinstance(result, Ended):
            result = msgspec.structs.replace(result, where=result.where | {"agent": self._name})
        if found := [name for name in HEAVY if name in sys.modules]:
            result = Lost(number=given.number, reason=f"the agent has imported {found[0]}, which is a mistake in aisp")
        return self._encoded(result)

    def _agent(self, *, devices: Sequence[str] = (), note: str = "") -> Agent:
        return Agent(
            name=self._name,
            host=clean_line(platform.node()),
            node=self._node,
            gpus=list(self._gpus),
            build=client.build_id(),
            state=clean_line(os.fsencode(paths.state_dir())),
            pid=os.getpid(),
            devices=list(devices),
            note=note,
        )

    def _environment(self, gpus: Sequence[str]) -> dict[str, str]:
        given = _raylets_environment()
        return environment(os.environ if given is None else given, gpus, guessed=given is None)

    @staticmethod
    def _encoded(message: Agent | Result) -> bytes:
        return msgspec.msgpack.encode(message)


def gpus_of(visible: str) -> tuple[str, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES names; Ray sets it for each process by what that was given."""
    return tuple(word for part in visible.split(",") if (word := part.strip()) and word != "-1")


def environment(given: Mapping[str, str], gpus: Sequence[str], *, guessed: bool = False) -> dict[str, str]:
    """The environment of an engine that is started on a host.

    Args:
        given: that of the host's raylet, which is the one that `ray start` had.
        gpus: those that the fleet's agents hold there; the engine uses no others. None of them: it uses the CPU alone.
        guessed: `given` is a worker's own, with what Ray has set for it.
    """
    left_out = _RAYS_OWN if guessed else ()
    kept = {name: value for name, value in given.items() if not name.startswith("RAY_") and name not in left_out}
    return kept | {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def _raylets_environment() -> dict[str, str] | None:
    """None where it cannot be read."""
    try:
        text = Path(f"/proc/{os.environ.get('RAY_RAYLET_PID', 'self')}/environ").read_bytes()
    except OSError:
        return None
    if "RAY_RAYLET_PID" not in os.environ:
        return None
    pairs = (os.fsdecode(entry).partition("=") for entry in text.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}
