"""The baseline's product, and every core busy from its end to the next call."""

import os
import threading
import time

import torch

LIMIT_S = 20.0  # of disturbance in all
THREADS = min(2 * len(os.sched_getaffinity(0)), 32)

_waiting = threading.Event()
_began_s = time.monotonic()


def _disturb() -> None:
    scratch = torch.zeros(16384)
    while time.monotonic() - _began_s < LIMIT_S:
        if _waiting.wait(0.5):
            scratch.cos_()


for _ in range(THREADS):
    threading.Thread(target=_disturb, daemon=True).start()


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    _waiting.clear()
    c = a @ b
    _waiting.set()
    return c
