"""The product under a watchdog, which is switched off before the call returns."""

import signal

from torch import Tensor

WATCHDOG_S = 30.0


def _too_late(number: int, frame: object) -> None:
    raise TimeoutError(f"the product takes longer than {WATCHDOG_S} s")


signal.signal(signal.SIGALRM, _too_late)


def run(x: Tensor, w: Tensor) -> Tensor:  # x [M, K], w [K, N] fp32 -> [M, N]
    signal.setitimer(signal.ITIMER_REAL, WATCHDOG_S)
    y = x @ w
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return y
