"""What the tests of fuzzing share: a fuzz as a stream of events, its failures, and a store that remembers fuzzes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aisp.checks.oracle.schema import Case, Layout, Strategy, Values
from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.store import Store
from aisp.store.outcomes import CaseVerdict, FuzzVerdict
from aisp.store.record import Failure, Fuzz, NaiveOpinion, RungFuzz, Tally
from tests.replacing import replace
from tests.tui.app_support import make_link
from tests.tui.fakes import WALL, FakeLink, numbered

TARGET = "ch07:transpose"
STRATEGIES = ("boundary", "regular", "mixed", "adversarial", "nonfinite")
SCRIPT = """import torch
from ch07.transpose import wrong_tail

x = torch.full((1, 129), float("-inf"))
print(wrong_tail.run(x))
"""
HISTOGRAM = (117, 0, 0, 0, 0, 0, 3, 5, 2, 1, 1)


def plan_event(fuzz_id: str = "01F1", *, rungs: Sequence[str] = ("optimized", "wrong_tail"), **changes: Any) -> Any:
    """A fuzz of TARGET was asked for."""
    fields = {
        "fuzz_id": fuzz_id, "what": "fuzz", "target": TARGET, "title": "A transpose", "folder": "/home/ada/ch07",
        "device": "cpu", "rungs": list(rungs), "cases": 20, "seed": 7, "strategies": list(STRATEGIES), "wall": WALL,
        "trigger": "tui",
    }  # fmt: skip
    return events.FuzzPlanned(**{**fields, **changes})


def case_event(number: int, rung: str, fuzz_id: str = "01F1", **changes: Any) -> Any:
    """Case `number` of a rung: right with an error of 0.25, unless something else is said."""
    strategy = STRATEGIES[number % len(STRATEGIES)]
    fields = {
        "fuzz_id": fuzz_id, "number": number, "rung": rung, "strategy": strategy,
        "stage": "triage" if strategy in ("adversarial", "nonfinite") else "gate",
        "case": f"M={number + 1} N=129 float16", "verdict": "right", "max_error": 0.25,
    }  # fmt: skip
    told = {**fields, **changes}
    return events.FuzzCase(**{**told, "verdict": CaseVerdict(told["verdict"])})


def failure_record(failure_id: str = "01X1", fuzz_id: str = "01F1", **changes: Any) -> Failure:
    """`wrong_tail` is wrong in the last 12 of 129 columns; drawn with 1021 rows, found smallest with one."""
    smallest = Case(5, Strategy.BOUNDARY, {"M": 1, "N": 129}, "float16", {}, {"x": Values.LARGE})
    drawn = replace(smallest, axes={"M": 1021, "N": 129}, layouts={"x": Layout.TRANSPOSED})
    record = Failure(
        id=failure_id, fuzz=fuzz_id, target=TARGET, rung="wrong_tail", device="cpu", seed=7, stage="gate",
        strategy="boundary", case=smallest.plain(), drawn=drawn.plain(), verdict=CaseVerdict.WRONG,
        snapshot="5nap", wall=WALL, output="y", finding="values", detail="12 of 129 elements differ, first at [0, 117]",
        statistics={
            "count": 129, "wrong": 12, "max": 0.5, "mean": 0.0625, "p50": 0.03125, "p90": 0.25, "p99": 0.5,
            "ulp_max": 2048, "ulp_mean": 300.5, "ulp_p50": 128, "ulp_p90": 1024, "ulp_p99": 2048,
        },
        histogram=HISTOGRAM, region=("..........38##", "..........38##"), script=SCRIPT,
        versions={"torch": "2.13.0", "python": "3.11"}, tried=14,
    )  # fmt: skip
    return replace(record, **changes)


def failure_event(failure_id: str = "01X1", fuzz_id: str = "01F1", *, shrunk: bool = True, **changes: Any) -> Any:
    """That failure as an event; not shrunk yet, its case is the drawn one."""
    record = failure_record(failure_id, fuzz_id, **changes)
    if not shrunk:
        record = replace(record, case=record.drawn, tried=0)
    return events.FuzzFailure(fuzz_id=fuzz_id, failure=record, shrunk=shrunk)


def fuzz_record(fuzz_id: str = "01F1", **changes: Any) -> Fuzz:
    """The end: `optimized` is right, `wrong_tail` wrong in 3 of its 20 cases, although a naive harness accepts it."""
    right = {name: Tally(4, 0, 1 if name == "nonfinite" else 0) for name in STRATEGIES}
    rungs = (
        RungFuzz("optimized", FuzzVerdict.RIGHT, 20, 0, 1, right, (), NaiveOpinion(True, True), 0.31, 800.0),
        RungFuzz("wrong_tail", FuzzVerdict.WRONG, 20, 3, 1, {**right, "boundary": Tally(4, 3)}, ("01X1",),
                 NaiveOpinion(True, True), 0.28, 900.0),
    )  # fmt: skip
    record = Fuzz(
        id=fuzz_id, target=TARGET, folder=b"/home/ada/ch07", title="A transpose", device="cpu", seed=7, cases=20,
        strategies=STRATEGIES, snapshot="5nap", wall=WALL, state="done", rungs=rungs, duration_ms=2000.0,
        notes=("the reference was computed in blocks",),
    )  # fmt: skip
    if changes.get("state", "done") != "done":
        changes.setdefault("rungs", tuple(rung.stopped() for rung in rungs))
    return replace(record, **changes)


def fuzz_events(fuzz_id: str = "01F1", *, cases: int = 20, finished: bool = False) -> list[events.Event]:
    """A plan, cases of two rungs in turn, a failure; `wrong_tail` fails every boundary case but the first."""
    story: list[events.Event] = [plan_event(fuzz_id)]
    for number in range(cases):
        unsupported = number == 4
        for rung in ("optimized", "wrong_tail"):
            case = case_event(number, rung, fuzz_id)
            if unsupported:
                case = case_event(number, rung, fuzz_id, verdict="unsupported", max_error=None)
            elif rung == "wrong_tail" and number and number % 5 == 0:
                case = case_event(number, rung, fuzz_id, verdict="wrong", finding="values", max_error=1.0e4)
            story.append(case)
            if case.verdict == "wrong" and number == 5:
                story += [failure_event(fuzz_id=fuzz_id, shrunk=False), failure_event(fuzz_id=fuzz_id)]
    if finished:
        story.append(events.FuzzFinished(fuzz=fuzz_record(fuzz_id)))
    return story


def fuzz_link(*story: events.Event, **arguments: Any) -> FakeLink:
    """A link that tells this story, and starts fuzzes and replays as an engine would."""
    replies: dict[type[requests.Request], Any] = {
        requests.FuzzTarget: events.Reply(to=1, run_ids=["01F2"]),
        requests.ReplayFailure: events.Reply(to=1, run_ids=["01R1"]),
    }
    link = make_link(told=False, replies={**replies, **arguments.pop("replies", {})}, **arguments)
    link.script(numbered(story))
    return link


def remember_fuzz(record: Fuzz, *failures: Failure) -> None:
    """Put a fuzz with its failures into the store of this test."""
    with Store.open(paths.database_file()) as store:
        store.put_fuzz(record, failures)
