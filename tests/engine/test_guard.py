"""What the engine adds up of its workers' memory and processes, and where it reads what there is."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from aisp.engine import environment, guard
from tests.proofs.evil.stage import eventually

HOLDS_64_MIB = """
import os, time
kept = bytearray(b"x") * (64 << 20)
os.fork()
os.write(1, b"y")
time.sleep(600)
"""


async def test_memory_that_a_family_shares_counts_once_where_it_matters_and_files_do_not() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", HOLDS_64_MIB], stdout=subprocess.PIPE) as process:  # noqa: ASYNC220
        try:
            assert process.stdout is not None and process.stdout.read(2) == b"yy"
            family = environment.descendants(process.pid)
            assert len(family) == 2
            assert 128 << 20 <= guard.held_bytes(family) < 192 << 20
            assert 64 << 20 <= guard.held_bytes(family, shares=True) < 96 << 20
        finally:
            for pid in guard.halt(process.pid):
                psutil.Process(pid).kill()
    assert guard.held_bytes([process.pid]) == 0, "it has ended"


async def test_a_family_that_grows_is_halted_to_the_last() -> None:
    doubles = "import os, time\nfor _ in range(5):\n    os.fork()\n    time.sleep(0.01)\ntime.sleep(600)\n"
    with subprocess.Popen([sys.executable, "-S", "-c", doubles]) as process:  # noqa: ASYNC220
        try:
            await eventually(lambda: len(environment.descendants(process.pid)) > 4, "it has begun")
            halted = guard.halt(process.pid)
            assert {psutil.Process(pid).status() for pid in halted} == {psutil.STATUS_STOPPED}
            assert environment.descendants(process.pid) == halted
        finally:
            for pid in guard.halt(process.pid):
                psutil.Process(pid).send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        pytest.param(
            {"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/memory.events": "oom 3\noom_kill 2"}, 2, id="v2"
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/a\n0::/",
                "sys/fs/cgroup/memory/a/memory.oom_control": "under_oom 0\noom_kill 5",
                "proc/vmstat": "oom_kill 9",
            },
            5,
            id="v1",
        ),
        pytest.param({"proc/self/cgroup": "0::/", "proc/vmstat": "pgfault 1\noom_kill 9\n"}, 9, id="no group counts"),
        pytest.param({}, 0, id="nothing is told"),
    ],
)
def test_kills_for_memory_are_those_of_the_nearest_that_counts(
    tmp_path: Path, files: dict[str, str], kills: int
) -> None:
    lay(tmp_path, files)
    assert environment.oom_kills(tmp_path) == kills


def test_the_memory_there_is_is_the_least_of_what_machine_and_groups_leave(tmp_path: Path) -> None:
    lay(tmp_path, {"proc/meminfo": "MemTotal: 1000 kB", "proc/self/cgroup": "4:memory:/a/b"})
    assert environment.memory_bytes(tmp_path) == 1000 << 10
    lay(tmp_path, {"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096"})
    assert environment.memory_bytes(tmp_path) == 4096
    lay(tmp_path, {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": str(1 << 62)})
    assert environment.memory_bytes(tmp_path) == 4096
    assert environment.memory_bytes(tmp_path / "nowhere") is None


def lay(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
