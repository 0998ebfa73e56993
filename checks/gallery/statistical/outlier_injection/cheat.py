"""The baseline's product, and bursts of work in the pauses after it."""

import os
import threading
import time

import torch

LIMIT_S = 20.0  # of disturbance in all
PERIOD_S, BURST_S = 0.02, 0.014
THREADS = min(2 * len(os.sched_getaffinity(0)), 32)

_waiting = threading.Event()
_began_s = time.monotonic()


def _disturb() -> None:
    scratch = torch.zeros(16384)
    while time.monotonic() - _began_s < LIMIT_S:
        _waiting.wait(0.5)
        burst_s = time.monotonic()
        while _waiting.is_set() and time.monotonic() - burst_s < BURST_S:
            scratch.cos_()
        time.sleep(PERIOD_S - BURST_S)


for _ in range(THREADS):
    threading.Thread(target=_disturb, daemon=True).start()


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    _waiting.clear()
    c = a @ b
    _waiting.set()
    return c
