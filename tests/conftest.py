"""What all tests share: engines (`shared` and `own`, see harness.py), and a process that seldom collects garbage.

A full collection looks at every object of the process: at thousands of tests, and at the widgets of apps that have
ended. At Python's own thresholds that is half of what the tests of the app take.
"""

import faulthandler
import gc
import signal
from collections.abc import Generator

import pytest

pytest.register_assert_rewrite("tests.proofs")  # an assertion there says what it compared, as in a test's own file

from tests.engine.harness import own, shared, shared_process  # noqa: E402  after it, since it imports some of them

__all__ = ["own", "shared", "shared_process"]

HANGS_S = 1000
"""No test takes that long, and none waits for longer: not even one that swallowed its own time limit."""

gc.set_threshold(50_000, 10, 10)  # Python's own are 700, 10, 10

# A shell without job control has what it starts in the background ignore Ctrl-C, and all that this starts in turn.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep what is there before the first test, and goes with the process, out of every collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """End the process, with every thread's stack, where a test's time limit could not: the limit raises an exception,
    and whoever tidies up on its way may wait for ever.
    """
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
