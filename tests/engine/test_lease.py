"""One engine of the machine on a GPU at a time: who waits, for whom, how long, and what cannot be locked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aisp.engine import lease
from aisp.engine.lease import leased
from tests.proofs.evil.stage import eventually

MAIN = Path(__file__).parents[2]
HOLDER = """
import asyncio, sys
from pathlib import Path
from aisp.engine import lease
lease.PLACE = Path(sys.argv[1])

async def main():
    async with lease.leased(sys.argv[2:], lambda text: print(text, flush=True)):
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for the one that all users share."""
    monkeypatch.setattr(lease, "PLACE", tmp_path)
    return tmp_path


@pytest.fixture
def other(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another engine's process, which uses GPU-a."""
    words = [sys.executable, "-c", HOLDER, str(place), "GPU-a"]
    with subprocess.Popen(words, cwd=MAIN, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


async def test_whoever_wants_a_gpu_in_use_waits_and_is_told_for_whom(other: subprocess.Popen[str]) -> None:
    told: list[str] = []
    entered = asyncio.Event()

    async def use() -> None:
        async with leased(["GPU-a"], told.append):
            entered.set()

    using = asyncio.create_task(use())
    await eventually(lambda: bool(told), "it waits")
    assert told == [f"GPU-a is in use by the engine with pid {other.pid}; runs on it wait until it is free"]
    async with leased(["GPU-b"], told.append):  # another GPU is free
        assert not entered.is_set()
    other.send_signal(signal.SIGKILL)
    await asyncio.wait_for(using, 10)
    assert told[1:] == [""], "the banner is taken back"


async def test_a_gpu_that_nobody_uses_is_taken_without_a_word_and_given_back(place: Path) -> None:
    told: list[str] = []
    for _ in range(3):
        async with leased(["GPU-a", "GPU-b", "GPU-a"], told.append):
            assert (place / "aisp-GPU-a.lock").read_text() == str(os.getpid())
    assert told == []
    assert sorted(path.name for path in place.iterdir()) == [
        "aisp-GPU-a.lock", "aisp-GPU-a.turn", "aisp-GPU-b.lock", "aisp-GPU-b.turn",
    ]  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o666}, "engines of other users lock them too"


async def test_waiting_can_be_cancelled_and_holds_nothing_afterwards(place: Path, other: subprocess.Popen[str]) -> None:
    told: list[str] = []

    async def use() -> None:
        async with leased(["GPU-a"], told.append):
            pytest.fail("the GPU was in use")

    before = len(list(Path("/proc/self/fd").iterdir()))
    using = asyncio.create_task(use())
    await eventually(lambda: bool(told), "it waits")
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert told[1:] == [""]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_an_engine_with_a_long_queue_does_not_pass_by_one_that_waits(place: Path) -> None:
    order: list[str] = []

    async def use(name: str, times: int) -> None:
        for _ in range(times):
            async with leased(["GPU-a"], lambda text: None):
                order.append(name)
                await asyncio.sleep(3 * lease.PERIOD_S)

    busy = asyncio.create_task(use("busy", 4))
    await eventually(lambda: bool(order), "the GPU is in use")
    await asyncio.gather(busy, use("waits", 1))
    assert order.index("waits") <= 2, order


def a_link(path: Path) -> None:
    (path.parent / "precious").write_text("precious")
    path.symlink_to(path.parent / "precious")


def a_second_name(path: Path) -> None:
    (path.parent / "precious").write_text("precious")
    path.hardlink_to(path.parent / "precious")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("put", [a_link, a_second_name, a_pipe, a_folder])
@pytest.mark.parametrize("which", ["lock", "turn"])
async def test_what_cannot_be_a_lock_keeps_nobody_from_the_gpu_and_is_named(
    place: Path, put: object, which: str
) -> None:
    """Anybody may put it there; nothing is written through it."""
    assert callable(put)
    put(place / f"aisp-GPU-a.{which}")
    told: list[str] = []
    async with leased(["GPU-a"], told.append):
        assert len(told) == 1
        assert f"{place}/aisp-GPU-a.{which}" in told[0]
        assert "remove it, for another engine may use GPU-a at the same time" in told[0]
    assert told[1:] == [""]
    if (place / "precious").exists():
        assert (place / "precious").read_text() == "precious"


async def test_a_name_that_the_driver_makes_up_stays_in_the_folder(place: Path) -> None:
    async with leased(["../../etc/GPU a"], lambda text: pytest.fail(text)):
        assert sorted(path.name for path in place.iterdir()) == [
            "aisp-______etc_GPU_a.lock", "aisp-______etc_GPU_a.turn",
        ]  # fmt: skip


async def test_what_somebody_wrote_into_the_file_is_not_shown(place: Path, other: subprocess.Popen[str]) -> None:
    (place / "aisp-GPU-a.lock").write_text("\x1b]0;x\x07")
    told: list[str] = []
    with ExitStack() as held:
        waiting = asyncio.create_task(lease._take("GPU-a", held, told.append))
        await eventually(lambda: bool(told), "it waits")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert told[0].startswith("GPU-a is in use by another engine;")
