"""What a run hands on of what its processes print."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, patch

import pytest

from aisp.engine import statistics
from aisp.engine.arms import TWIN_SUFFIX
from aisp.engine.protocol import events
from aisp.engine.ranks import Ranks
from aisp.engine.reporting import LINE_CHARS, Reporter
from aisp.store.outcomes import State
from tests.engine.test_verdicts import arm


class Scene:
    """A reporter, and a process that prints."""

    def __init__(self, ranks: int = 0) -> None:
        self.told: list[Any] = []
        services = MagicMock(publish=self.told.append)
        self.reporter = Reporter(MagicMock(id="R"), services, [])
        self.processes = [MagicMock() for _ in range(ranks or 1)]
        self.reporter.listen(Ranks(self.processes) if ranks else self.processes[0], "optimized")

    def prints(self, text: bytes, stream: str = "stdout", rank: int = 0) -> None:
        self.processes[rank].on_output(stream, text)

    def looks(self, *, last: bool = False) -> list[str]:
        """The lines that this look hands on."""
        self.told.clear()
        self.reporter.flush(last=last)
        return [line for event in self.told if isinstance(event, events.Output) for line in event.lines]


def test_a_line_is_handed_on_whole_however_the_looks_fall() -> None:
    scene = Scene()
    scene.prints(b"one\ntwo, be")
    assert scene.looks() == ["one"]
    scene.prints(b"gun and ended\nthree\n")
    assert scene.looks() == ["two, begun and ended", "three"]
    assert scene.looks() == []


def test_a_line_without_an_end_waits_for_one_look_and_no_longer_at_the_end_of_a_run() -> None:
    scene = Scene()
    scene.prints(b"compiling ...")
    assert scene.looks() == []
    assert scene.looks() == ["compiling ..."], "a prompt"
    scene.prints(b"goodbye")
    assert scene.looks(last=True) == ["goodbye"]


@pytest.mark.parametrize("text", [b"10 %\r20 %\r", b"x" * LINE_CHARS])
def test_a_line_that_goes_on_for_ever_is_shown_as_it_grows(text: bytes) -> None:
    scene = Scene()
    scene.prints(text)
    assert scene.looks()
    scene.prints(text)
    assert scene.looks()


def test_streams_do_not_mix_in_a_line() -> None:
    scene = Scene()
    scene.prints(b"out")
    scene.prints(b"error\n", "stderr")
    assert scene.looks() == ["error"]
    scene.prints(b"put\n")
    assert scene.looks() == ["output"]


def test_ranks_do_not_mix_in_a_line_and_each_is_named() -> None:
    scene = Scene(ranks=2)
    scene.prints(b"half a ")
    scene.prints(b"whole\n", rank=1)
    scene.prints(b"line\n")
    assert sorted(scene.looks()) == ["[rank 0] half a line", "[rank 1] whole"]


def test_the_figures_of_a_run_make_each_arms_turns_once_and_its_end_has_the_spread_of_processes() -> None:
    """In ms and in cycles for the comparisons, and for the arm's own interval; the spread costs nothing on top."""
    arms = [arm(name) for name in ("baseline", "optimized", "baseline" + TWIN_SUFFIX)]
    plan = MagicMock(id="R", priors=statistics.PRIORS["cuda"], **{"rule.looks": (), "source.return_value": b""})
    reporter = Reporter(plan, MagicMock(), arms)
    made = statistics.by_round
    with patch.object(statistics, "by_round", side_effect=made) as counted:
        (base, *_), _ = reporter.figures()
    assert counted.call_count == 3 * len(arms)
    assert base.quality is not None and base.quality.between_freedom == 2.0
    arms[0].state = State.RUNNING
    (base, *_), _ = reporter.figures()
    assert base.quality is not None and base.quality.between is None, "no run has ended"
