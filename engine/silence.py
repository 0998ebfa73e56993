"""Naming a process that gives no sign while there is time to look: whose it is, in which step, and when it is ended.

A banner says so after `TELL_AFTER_S`, again after twice that, and so on, and is taken back when an answer comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from aisp.engine import paths
from aisp.store.results.progress import step_words

TELL_AFTER_S = paths.positive_setting("AISP_TELL_AFTER_S", 10.0)

banner: ContextVar[Callable[[str, str], None]] = ContextVar("banner", default=lambda key, text: None)
"""banner(key, text): where a job tells it; an empty text takes it back."""
step: ContextVar[str] = ContextVar("step", default="")
"""The step of a run that is under way in this task; "" where there are no steps."""


class Limit(float):
    """Seconds of patience, with the variable that sets them."""

    setting: str

    def __new__(cls, seconds: float, setting: str) -> Limit:
        """`setting` is the variable's name."""
        limit = super().__new__(cls, seconds)
        limit.setting = setting
        return limit

    @staticmethod
    def of(setting: str, default: float) -> Limit:
        """The seconds that the variable sets, or so many."""
        return Limit(paths.positive_setting(setting, default), setting)


@contextlib.contextmanager
def awaiting(whose: str, patience_s: float, doing: str = "") -> Iterator[None]:
    """Tell while this lasts that `whose` process gives no sign, and that it is ended at `patience_s`. The figures come
    first: a row of 80 columns has no room for all.

    Args:
        doing: what it was asked for, where that says more than the step.
    """
    tell, where = banner.get(), doing or (step_words(name) if (name := step.get()) else "")
    key = f"silent: {whose}"
    setting = f" ({patience_s.setting})" if isinstance(patience_s, Limit) else ""
    end = f"of {patience_s:g} s{f' ({where})' if where else ''}; it is ended then{setting}"
    reported = False

    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def wait(silent_s: float, next_s: float) -> None:
        nonlocal timer
        timer = loop.call_later(next_s - silent_s, say, next_s)

    def say(silent_s: float) -> None:
        nonlocal reported
        reported = True
        tell(key, f"{whose}: no sign for {silent_s:g} {end}")
        wait(silent_s, 2 * silent_s)

    wait(0.0, TELL_AFTER_S)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
        if reported:
            tell(key, "")
