"""`aisp fuzz ID --replay`: a stored failing case once more, from the stored sources and its seed: is it the same, byte
for byte?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aisp.store.results.fuzz import REPLAY_WORDS, case_text
from aisp.store.results.tables import attributes
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.fuzz import Ask, Following, apart
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_NO, EXIT_NOT_HERE

if TYPE_CHECKING:
    from aisp.engine.protocol import events
    from aisp.store.record import Failure

REPRODUCED, IMPOSSIBLE = "reproduced", "impossible"


def replay(failure_id: str, *, again: bool, as_json: bool) -> int:
    """Do the failing case of that id, or of the one that begins so, again and compare every byte; the exit status."""
    from aisp.engine.protocol import events, requests  # msgspec: only once there is something to send

    with common.history() as opened:
        failure = opened.failure(failure_id)
    ask = Ask(requests.ReplayFailure(seq=0, failure=failure.id, again=again))  # the connection numbers it
    interrupted = asyncio.run(Following([ask]).run())
    end = ask.end
    if interrupted or not isinstance(end, events.ReplayFinished):
        return EXIT_INTERRUPTED
    if as_json:
        common.say_document(_as_json(end, failure))
    else:
        common.say_result(lines(end, failure), "ok" if end.outcome == REPRODUCED else end.outcome)
    return {REPRODUCED: EXIT_GOOD, IMPOSSIBLE: EXIT_NOT_HERE}.get(end.outcome, EXIT_NO)


def lines(end: events.ReplayFinished, failure: Failure) -> list[str]:
    """A replay for people; the last line is its outcome."""
    found = [
        apart(failure.target, failure.rung, failure.device, f"failure {failure.id}"),
        apart(case_text(failure.case), failure.strategy, plain.local_time(failure.wall)),
        "",
    ]
    if end.detail:
        found += [plain.indent(end.detail), ""]
    found += [f"  {each}" for each in end.differs] + ([""] if end.differs else [])
    return [*found, f"=> {REPLAY_WORDS.get(end.outcome, end.outcome)}"]


def _as_json(end: events.ReplayFinished, failure: Failure) -> dict[str, Any]:
    return {
        "failure": failure.id,
        "fuzz_id": failure.fuzz,
        **attributes(failure, "target", "rung", "device", "seed"),
        "case": case_text(failure.case),
        **attributes(end, "outcome", "differs", "detail"),
    }
