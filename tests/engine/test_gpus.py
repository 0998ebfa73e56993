"""What is pending of a GPU, and the flags that say under which conditions numbers came about."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest

from aisp.engine import gpus, silence
from aisp.engine.gpus import LEAK_BYTES, GpuOwnership, WallClock, conditions, neighbours
from aisp.engine.telemetry import Readings, User

CONTEXT = 500 << 20
BASE = 700 << 20
GONE = 1 << 30  # no such process: numbers end at 2**22
HERE = os.getpid()


class Driver:
    """A GPU with these users, and this much memory in nobody's name; None where it does not say."""

    def __init__(self, *users: User, nobodys: int | None = BASE) -> None:
        self.listed: list[User] | None = list(users)
        self.nobodys = nobodys
        self.words = ""

    def users(self, gpu: int) -> list[User] | None:
        return self.listed

    def used_bytes(self, gpu: int) -> int | None:
        if self.nobodys is None:
            return None
        return self.nobodys + sum(user.memory_bytes or 0 for user in self.listed or ())

    def lost(self, gpu: int) -> str:
        return self.words


class Drivers:
    """Several GPUs."""

    def __init__(self, *gpus: Driver) -> None:
        self.gpus = gpus

    def users(self, gpu: int) -> list[User] | None:
        return self.gpus[gpu].users(gpu)

    def used_bytes(self, gpu: int) -> int | None:
        return self.gpus[gpu].used_bytes(gpu)

    def lost(self, gpu: int) -> str:
        return self.gpus[gpu].words


class Idle(Driver):
    """One GPU of a machine at rest."""

    count = 1

    def read(self, gpu: int, into: Readings) -> bool:
        into.sm_clock_mhz.append(345.0)
        into.power_w.append(math.nan)
        return True


@pytest.mark.parametrize(
    ("users", "others", "their_bytes"),
    [
        ([], 0, 0),
        ([User(HERE, CONTEXT)], 0, 0),
        ([User(HERE, CONTEXT), User(1, 3 * CONTEXT)], 1, 3 * CONTEXT),
        ([User(1, None)], 1, None),
        ([User(1, CONTEXT), User(GONE, CONTEXT)], None, None),
    ],
)
def test_who_else_is_on_a_gpu_is_counted_where_the_driver_numbers_processes_as_we_do(
    users: list[User], others: int | None, their_bytes: int | None
) -> None:
    (found,) = gpus.use(Idle(*users))  # type: ignore[arg-type]
    assert (found.others, found.others_bytes) == (others, their_bytes)
    assert (found.sm_clock_mhz, found.power_w) == (345.0, None), "what the driver does not say is not known"


async def test_of_several_gpus_the_one_that_something_is_wrong_with_is_known() -> None:
    one, two = Driver(User(HERE, CONTEXT)), Driver(User(HERE, CONTEXT))
    keeper = GpuOwnership(Drivers(one, two), 0, 1)  # type: ignore[arg-type]
    await keeper.begin({HERE})
    assert (await keeper.settled(), keeper.bad) == ("", set())
    assert two.listed is not None
    two.listed = [*two.listed, User(GONE, CONTEXT)]
    assert await keeper.ended(GONE) == f"the GPU still holds memory of process {GONE}, which is gone"
    assert keeper.bad == {1}
    keeper.bad.clear()
    one.words = "NVML 15: GPU is lost"
    assert await keeper.lost() == "GPU 0 is lost (NVML 15: GPU is lost)"
    assert keeper.bad == {0}


async def test_what_is_waited_for_is_told_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "TELL_AFTER_S", 0.0)
    told: list[tuple[str, str]] = []
    silence.banner.set(lambda key, text: told.append((key, text)))
    words = await ownership(Driver(User(GONE, CONTEXT))).ended(GONE)
    assert told == [("give back", f"{words}; it is waited for, 0.1 s at most (AISP_GIVE_BACK_S)"), ("give back", "")]


async def test_a_gpu_is_back_when_nobody_that_was_killed_is_on_it_any_more() -> None:
    driver = Driver(User(HERE, CONTEXT))
    keeper = ownership(driver)
    stuck = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=subprocess.PIPE)
    keeper.cannot_kill(stuck.pid)
    assert not await keeper.back()
    stuck.kill()
    await stuck.wait()
    assert await keeper.back()
    driver.listed = [User(HERE, CONTEXT), User(GONE, CONTEXT)]
    assert await keeper.ended(GONE)
    assert (await keeper.back(), keeper.bad) == (False, {0})
    driver.listed = [User(HERE, CONTEXT)]
    assert (await keeper.back(), keeper.bad) == (True, set())
    driver.words = "NVML 15: GPU is lost"
    assert not await keeper.back()


def ownership(driver: Driver) -> GpuOwnership:
    return GpuOwnership(driver, 0)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "GIVE_BACK_S", 0.1)


async def test_a_process_that_the_driver_does_not_forget_is_owed() -> None:
    driver = Driver(User(HERE, CONTEXT), User(GONE, CONTEXT))
    keeper = ownership(driver)
    words = f"the GPU still holds memory of process {GONE}, which is gone"
    assert await keeper.ended(GONE) == words
    assert await keeper.settled() == words
    driver.listed = [User(HERE, CONTEXT)]
    assert await keeper.settled() == ""
    driver.listed = [User(HERE, CONTEXT), User(GONE, CONTEXT)]  # the number is another process's now
    assert await keeper.settled() == ""


@pytest.mark.parametrize("more", [0, LEAK_BYTES])
async def test_memory_within_the_allowance_is_no_leak(more: int) -> None:
    driver = Driver(User(HERE, CONTEXT))
    keeper = ownership(driver)
    await keeper.begin({HERE})
    driver.nobodys = BASE + more
    driver.listed = [User(HERE, 3 * CONTEXT), User(os.getppid(), CONTEXT)]  # what living processes have is theirs
    assert await keeper.settled() == ""


async def test_a_context_has_some_memory_in_nobodys_name_and_many_have_more_than_a_leak() -> None:
    """On an H100: 488 MiB beside one context, 587 beside eighteen, 480 again when they were gone."""
    driver = Driver(User(HERE, CONTEXT), nobodys=488 << 20)
    keeper = ownership(driver)
    await keeper.begin({HERE})
    driver.listed = [User(HERE, CONTEXT)] * 18
    driver.nobodys = 587 << 20
    assert await keeper.settled() == ""
    driver.listed = [User(HERE, CONTEXT)]
    assert await keeper.settled() == "99 MiB of the GPU's memory were left behind: no process that runs has them"


async def test_memory_in_nobodys_name_is_a_leak_also_where_a_dead_process_is_listed_with_it() -> None:
    driver = Driver(User(HERE, CONTEXT))
    keeper = ownership(driver)
    await keeper.begin({HERE})
    driver.nobodys = BASE + LEAK_BYTES + (1 << 20)
    assert await keeper.settled() == "65 MiB of the GPU's memory were left behind: no process that runs has them"
    driver.nobodys = BASE
    assert await keeper.settled() == ""
    driver.listed = [User(HERE, CONTEXT), User(GONE, CONTEXT)]
    assert "500 MiB" in await keeper.settled()


async def test_memory_that_moves_while_it_is_noted_is_noted_another_time() -> None:
    """A process that takes memory between two answers of the driver would hide a leak of as much, or make one."""
    driver = Driver(User(HERE, CONTEXT))
    keeper = ownership(driver)
    amounts = iter([BASE + (2 << 30), BASE])
    with mock.patch.object(driver, "used_bytes", lambda gpu: next(amounts) + CONTEXT):
        await keeper.begin({HERE})
    driver.nobodys = BASE + LEAK_BYTES + (1 << 20)
    assert await keeper.settled() == "", "nothing is known yet that it could be held against"
    driver.nobodys = BASE
    await keeper.begin({HERE})
    driver.nobodys = BASE + LEAK_BYTES + (1 << 20)
    assert "65 MiB" in await keeper.settled()


@pytest.mark.parametrize(
    "seen",
    [
        Driver(User(GONE, CONTEXT)),  # numbers of another namespace
        Driver(User(HERE, None)),  # memory of processes is not told
        Driver(User(HERE, CONTEXT), nobodys=None),
    ],
)
async def test_where_the_driver_does_not_tell_enough_nothing_is_taken_for_a_leak(seen: Driver) -> None:
    keeper = ownership(seen)
    await keeper.begin({HERE})
    seen.nobodys = 100 * BASE
    assert await keeper.settled() == ""


async def test_a_driver_that_lists_nobody_and_tells_nothing_owes_nothing() -> None:
    driver = Driver()
    driver.listed = None
    keeper = ownership(driver)
    await keeper.begin({HERE})
    assert await keeper.ended(GONE) == ""
    assert await keeper.settled() == ""


async def test_a_lost_gpu_is_told_at_once_in_the_drivers_words() -> None:
    driver = Driver(User(GONE, CONTEXT))
    driver.words = "NVML 15: GPU is lost"
    assert await ownership(driver).ended(GONE) == "GPU 0 is lost (NVML 15: GPU is lost)"


def seen(pids: Sequence[int] = (), *, here: bool = True, **gpu: Any) -> dict[str, Any]:
    return {"gpu": gpu, "gpu_processes": [{"pid": pid, "here": here} for pid in pids]}


def test_a_quiet_run_on_a_gpu_says_of_its_clocks_alone() -> None:
    calm = seen(ecc_errors=3, remapped_rows=1, energy_j=10.0)
    later = seen(ecc_errors=3, remapped_rows=1, energy_j=11.0)
    assert conditions(calm, later, [0, 0x1, 0x4, 0x100, -1]) == ["clocks=unlocked"]


@pytest.mark.parametrize(
    ("throttle", "after", "reasons"),
    [
        ([0, 0x8], {}, "slowed"),
        ([0x20, 0x40], {}, "hot,hot_hardware"),
        ([0x84, -1], {}, "power_brake"),
        ([0], {"ecc_errors": 1}, "ecc_errors"),
        ([0], {"remapped_rows": 1}, "remapped_rows"),
        ([0], {"energy_j": 0.5}, "reset"),
        ([0x20], {"ecc_errors": 2}, "hot,ecc_errors"),
    ],
)
def test_what_made_times_unsteady_is_named(throttle: list[int], after: dict[str, Any], reasons: str) -> None:
    calm: dict[str, Any] = {"ecc_errors": 0, "remapped_rows": 0, "energy_j": 10.0}
    assert conditions(seen(**calm), seen(**calm | after), throttle)[1:] == [f"unstable={reasons}"]


def test_what_is_not_told_is_no_reason() -> None:
    assert conditions({}, {"gpu": {"ecc_errors": 5}, "gpu_processes": None}, [-1]) == ["clocks=unlocked"]
    assert conditions(seen(ecc_errors=None), seen(ecc_errors=4), []) == ["clocks=unlocked"]


def test_neighbours_before_and_after_are_named_and_those_of_another_namespace_are_not() -> None:
    assert conditions(seen([7]), seen([5, 7]), [])[1:] == ["contended=5,7"]
    assert conditions(seen(range(9)), seen(), [])[1:] == ["contended=0,1,2,3,..."]
    assert neighbours(seen([7], here=False)) == []


def test_a_wall_clock_that_was_set_is_flagged_and_one_that_goes_on_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WallClock()
    assert clock.flags() == []
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 90_000_000_000)
    assert clock.flags() == ["wall_jump=+90.0s"]
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600_000_000_000)
    assert clock.flags() == ["wall_jump=-3600.0s"]
