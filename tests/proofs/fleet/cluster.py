"""A Ray cluster of one host for tests and proofs: small, on a free port, and gone with whoever started it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

STORE_BYTES = 80_000_000  # the least that Ray takes
PATIENCE_S = 60.0
SCRIPT = "from ray.scripts.scripts import main; main()"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """One head with its raylet, started by `start` and ended by `close`.

    Attributes:
        address: of the head.
        home: where it keeps its sockets and logs; short, since the path of a socket must be.
    """

    def __init__(self, environment: Mapping[str, str], *, cpus: int = 2, gpus: int = 0, port: int = 0) -> None:
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._environment = {**os.environ, **environment, "RAY_USAGE_STATS_ENABLED": "0"}
        self._cpus, self._gpus = cpus, gpus
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0
        self.home = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [
            *("start", "--head", "--block", f"--port={self.port}", "--node-ip-address=127.0.0.1"),
            *(
                "--include-dashboard=false",
                "--disable-usage-stats",
                f"--num-cpus={self._cpus}",
                f"--num-gpus={self._gpus}",
            ),
            *("--disable-usage-stats", f"--object-store-memory={STORE_BYTES}", f"--temp-dir={self.home}"),
        ]
        log = (self.home / "start.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT, *words],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while "Ray runtime started" not in self.said():
            assert self._process.poll() is None, f"Ray ended at once: {self.said()[-2000:]}"
            assert time.monotonic() < deadline, f"Ray did not start: {self.said()[-2000:]}"
            time.sleep(0.05)

    def said(self) -> str:
        """What `ray start` has printed."""
        return (self.home / "start.log").read_text("utf-8", "replace")

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Those of this cluster, agents among them; with a word, those whose command has it."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = str(self.home) in " ".join(process.cmdline()) or self._is_worker(process)
                if ours and word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def _is_worker(self, process: psutil.Process) -> bool:
        """Workers have other names than they were started with; their parent is the raylet."""
        parent = process.parent()
        return parent is not None and str(self.home) in " ".join(parent.cmdline()) and "raylet" in parent.name()

    def agents(self) -> list[psutil.Process]:
        """The processes of agents."""
        return self.processes("ray::HostAgent")

    def kill_head(self) -> None:
        """SIGKILL to what the cluster cannot do without."""
        for process in self.processes("gcs_server"):
            process.kill()

    def close(self) -> None:
        """End every process of it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
        left = self.processes()
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=10)
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None


@contextlib.contextmanager
def cluster(environment: Mapping[str, str], *, cpus: int = 2, gpus: int = 0) -> Iterator[Cluster]:
    """A cluster that has gone when the block is left."""
    import shutil

    made = Cluster(environment, cpus=cpus, gpus=gpus)
    try:
        made.start()
        yield made
    finally:
        made.close()
        shutil.rmtree(made.home, ignore_errors=True)
