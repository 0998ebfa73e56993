"""Slow things beside the event loop: threads that cannot hold up the app's exit, workers that cannot fail unseen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from textual.dom import DOMNode

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_NAME = "aside "


async def aside(function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
    """Call `function` in a daemon thread and return its result, or raise what it raised.

    `asyncio.to_thread` would let a stuck disk hold up the app's exit: the loop waits for its executor's threads.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def hand_over(result: Result | None, error: BaseException | None) -> None:
        if future.done():  # cancelled meanwhile: nobody waits any more
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result: Result | None = None
        problem: BaseException | None = None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            # StopIteration cannot be set on a future.
            problem = RuntimeError(str(error)) if isinstance(error, StopIteration) else error
        try:
            loop.call_soon_threadsafe(hand_over, result, problem)
        except RuntimeError:
            return  # the loop closed: the app has left

    threading.Thread(target=work, name=f"{_NAME}{function.__qualname__}", daemon=True).start()
    return await future


def busy() -> bool:
    """Whether anything is still read or computed beside the event loop."""
    return any(thread.name.startswith(_NAME) for thread in threading.enumerate())


def begin(
    node: DOMNode,
    work: Callable[[], Coroutine[Any, Any, object]],
    *,
    group: str = "default",
    exclusive: bool = False,
) -> None:
    """Run a coroutine as a worker of `node`: it ends with it; what it raises is told to the person, not swallowed.

    Args:
        node: a screen, a widget or the app.
        work: makes the coroutine.
        group: names workers of one kind.
        exclusive: whether the others of the group are cancelled first.
    """

    async def guarded() -> None:
        try:
            await work()
        except Exception as error:
            node.log.error(f"worker {group}", error)
            node.app.notify(
                f"{type(error).__name__}: {error}", title="This should not have happened", severity="error", timeout=15
            )

    # Textual's own types cannot be told that nobody wants the worker's result.
    anything: Any = guarded
    node.run_worker(anything, name=group, group=group, exclusive=exclusive, exit_on_error=False)
