"""The GPUs of a slot, as the engine sees them: are they there, is their memory back, who else is on them.

A process that is gone may leave its memory on the GPU, and a GPU may fall off the bus. The next user waits for the
reclaim that is pending, longer than a machine is likely to stand still; then the GPU is set aside, until nothing is
wrong with it any more. Only what the driver says for certain counts against a GPU: in a container it may number
processes as the host does, and then a leak looks like a neighbour.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aisp.engine import paths, silence
from aisp.engine.environment import descendants
from aisp.engine.protocol import events
from aisp.engine.telemetry import Nvml, Readings, User

# A machine may stand still for 20 s while its host finds it more memory.
GIVE_BACK_S = paths.positive_setting("AISP_GIVE_BACK_S", 30.0)
TELL_AFTER_S = 5.0
LEAK_BYTES = 64 << 20  # more than this, in nobody's name, is a leak
NAMELESS_BYTES = 8 << 20  # at most of a context are in nobody's name: 5.8 MiB on an H100 with driver 580
LOOK_S = 0.05
JUMP_S = 1.0  # of the wall clock against the monotonic one during a run
MOST_NAMED = 4  # processes in a flag

SLOWDOWNS = {0x8: "slowed", 0x20: "hot", 0x40: "hot_hardware", 0x80: "power_brake"}
"""NVML's clocks-event reasons that make times unsteady, by bit, as the flag `unstable` names them."""


class GpuOwnership:
    """Our use of the GPUs of one slot, and the reclaim of their memory that is pending.

    Every method asks the driver, which takes microseconds, or seconds if the GPU is lost.

    Attributes:
        bad: NVML's indices of the GPUs with which something was wrong.

    Args:
        nvml: the driver.
        gpus: NVML's indices.
    """

    def __init__(self, nvml: Nvml, *gpus: int) -> None:
        self.bad: set[int] = set()
        self._nvml = nvml
        self._gpus = gpus
        self._gone: set[int] = set()  # processes of ours that have ended and may not be forgotten yet
        self._unkillable: set[int] = set()
        # As it was when all was well, with how many users; see _nobodys.
        self._noted: dict[int, tuple[int, int] | None] = dict.fromkeys(gpus)

    async def begin(self, pids: Collection[int]) -> None:
        """Note that processes of ours use the GPUs from now on, and once the memory that is in nobody's name.

        It is noted the first time that none of them is taking memory or giving it back.
        """
        self._gone.difference_update(pids)  # numbers come back
        for gpu, noted in self._noted.items():
            if noted is None:
                self._noted[gpu] = await asyncio.to_thread(self._note, gpu, pids)

    async def ended(self, pid: int) -> str:
        """Wait until the driver has forgotten a process of ours that is gone; why that took too long, or ""."""
        self._gone.add(pid)
        return await self._patiently(memory=False)

    def cannot_kill(self, pid: int) -> None:
        """Note a process of ours that does not end: what it holds is not back before it does."""
        self._unkillable.add(pid)

    async def back(self) -> bool:
        """Whether nothing is wrong with the GPUs any more, of which something was; `bad` is empty then."""
        self._unkillable = {pid for pid in self._unkillable if Path(f"/proc/{pid}").exists()}
        if self._unkillable or await self.lost():
            return False
        pending = await asyncio.to_thread(self._pending_reclaim, memory=True)
        if not pending:
            self.bad.clear()
        return not pending

    async def settled(self) -> str:
        """Wait until the GPUs are as they were before our last processes; what is wrong with one, or ""."""
        return await self._patiently(memory=True)

    async def lost(self) -> str:
        """Why a GPU does not come back by itself, in the driver's words; "" where all are there."""
        for gpu in self._gpus:
            if why := self.why_lost(await asyncio.to_thread(self._nvml.lost, gpu), gpu):
                return why
        return ""

    def why_lost(self, words: str, gpu: int | None = None) -> str:
        """A sentence with the driver's error for a lost GPU, by default the first; "" where `words` is empty."""
        gpu = self._gpus[0] if gpu is None else gpu
        if not words:
            return ""
        self.bad.add(gpu)
        return f"GPU {gpu} is lost ({words})"

    async def _patiently(self, *, memory: bool) -> str:
        began, reporting, tell = time.monotonic(), False, silence.banner.get()
        try:
            while not (words := await self.lost()):
                pending = await asyncio.to_thread(self._pending_reclaim, memory=memory)
                words, waited_s = next(iter(pending.values()), ""), time.monotonic() - began
                if not pending or waited_s > GIVE_BACK_S:
                    self.bad.update(pending)
                    break
                if waited_s > TELL_AFTER_S and not reporting:
                    reporting = True
                    tell("give back", f"{words}; it is waited for, {GIVE_BACK_S:g} s at most (AISP_GIVE_BACK_S)")
                await asyncio.sleep(LOOK_S)
            return words
        finally:
            if reporting:
                tell("give back", "")

    def _pending_reclaim(self, *, memory: bool) -> dict[int, str]:
        """By GPU: what it has not been given back."""
        users = {gpu: self._nvml.users(gpu) for gpu in self._gpus}
        if any(on_gpu is not None for on_gpu in users.values()):
            self._gone.intersection_update(user.pid for on_gpu in users.values() for user in on_gpu or ())
        pending: dict[int, str] = {}
        for gpu, on_gpu in users.items():
            if on_gpu is None:
                continue
            if held := self._gone.intersection(user.pid for user in on_gpu):
                pending[gpu] = f"the GPU still holds memory of process {min(held)}, which is gone"
            elif memory and (noted := self._noted[gpu]) is not None:
                now, (then, users_then) = self._nobodys(gpu, on_gpu), noted
                nameless_bytes = NAMELESS_BYTES * max(len(on_gpu) - users_then, 0)
                if now is not None and now > then + LEAK_BYTES + nameless_bytes:
                    leaked = (now - then) >> 20
                    pending[gpu] = f"{leaked} MiB of the GPU's memory were left behind: no process that runs has them"
        return pending

    def _note(self, gpu: int, pids: Collection[int]) -> tuple[int, int] | None:
        """Memory in nobody's name, and how many use the GPU; None where it cannot be known.

        That is where the driver does not count our processes by our numbers, and where its two answers (of them, and of
        all) move: answers of different moments would make a leak of the difference.
        """
        users = self._nvml.users(gpu)
        if users is None or not any(user.pid in pids for user in users):
            return None
        first = self._nobodys(gpu, users)
        time.sleep(LOOK_S)
        again = self._nobodys(gpu, self._nvml.users(gpu) or ())
        return None if first is None or again != first else (first, len(users))

    def _nobodys(self, gpu: int, users: Iterable[User]) -> int | None:
        """Memory that no living process has; None where the driver does not tell all of it."""
        used = self._nvml.used_bytes(gpu)
        if used is None:
            return None
        for user in users:
            if Path(f"/proc/{user.pid}").exists():
                if user.memory_bytes is None:
                    return None
                used -= user.memory_bytes
        return used


def use(nvml: Nvml) -> list[events.GpuUse]:
    """Every GPU as it is now. Whose processes are on it is not known where the driver numbers them as a host does."""
    ours, uses = descendants(os.getpid()), []
    for gpu in range(nvml.count):
        users, now = nvml.users(gpu), Readings()
        nvml.read(gpu, now)
        strange = users is None or any(not Path(f"/proc/{user.pid}").exists() for user in users)
        others = None if strange else [user.memory_bytes for user in users or () if user.pid not in ours]
        sizes = [size for size in others or () if size is not None]
        readings = (now.sm_clock_mhz, now.power_w)
        clock, power = (next((one for one in read if not math.isnan(one)), None) for read in readings)
        uses.append(
            events.GpuUse(
                index=gpu,
                others=None if others is None else len(others),
                others_bytes=sum(sizes) if others is not None and len(sizes) == len(others) else None,
                sm_clock_mhz=clock,
                power_w=power,
            )
        )
    return uses


def neighbours(seen: Mapping[str, Any]) -> list[int]:
    """Processes on the GPU that are not ours and run on this machine, of one engine.environment.observe."""
    return sorted(one["pid"] for one in seen.get("gpu_processes") or () if one["here"])


def conditions(before: Mapping[str, Any], after: Mapping[str, Any], throttle: Sequence[int]) -> list[str]:
    """Flags of a run on the GPU: under which conditions its numbers came about.

    Args:
        before, after: engine.environment.observe.
        throttle: the clocks-event reasons of every reading in between, -1 where the driver does not report them.
    """
    # The engine sets no clock, and no driver tells whether somebody else has.
    flags = ["clocks=unlocked"]
    others = sorted({*neighbours(before), *neighbours(after)})
    if others:
        more = ",..." if len(others) > MOST_NAMED else ""
        flags.append(f"contended={','.join(map(str, others[:MOST_NAMED]))}{more}")
    reasons = [word for bit, word in SLOWDOWNS.items() if any(bits > 0 and bits & bit for bits in throttle)]
    then, now = before.get("gpu") or {}, after.get("gpu") or {}
    grown = {name: _grown(then.get(name), now.get(name)) for name in ("ecc_errors", "remapped_rows")}
    reasons += [name for name, growth in grown.items() if growth is not None and growth > 0]
    energy_j = _grown(then.get("energy_j"), now.get("energy_j"))
    if energy_j is not None and energy_j < 0:
        reasons.append("reset")  # this counter begins anew with the driver alone
    if reasons:
        flags.append(f"unstable={','.join(reasons)}")
    return flags


def _grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


class WallClock:
    """How far the wall clock has moved against the monotonic one since this was made."""

    def __init__(self) -> None:
        self._ahead_ns = time.time_ns() - time.monotonic_ns()

    def flags(self) -> list[str]:
        """`wall_jump` where it was set, or the machine slept."""
        jump_s = (time.time_ns() - time.monotonic_ns() - self._ahead_ns) / 1e9
        return [f"wall_jump={jump_s:+.1f}s"] if abs(jump_s) > JUMP_S else []
