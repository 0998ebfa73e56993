"""`aisp bench compare`: two stored runs side by side, with a verdict only where one can be had.

Two runs were not measured in the same rounds, so the rule is stricter than the engine's within a run:

* both runs ended well, and their times are valid;
* the same target, case, device and mode, the same host and hardware, SM clocks within `results.CLOCK_BAND`, the same
  timing. Two quick runs are compared with a caveat: one process says little about the next;
* the ratio's interval is the widest that both intervals allow, A.low / B.high to A.high / B.low, and it must
  clear the larger of the two runs' noise floors. Where no floor is known there is no verdict. What lies within the
  floor is the same only where the floor is at most EQUIVALENCE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aisp.store.outcomes import TWIN_SUFFIX, State, Validity, Verdict
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.quarantine import Marks
from aisp.tui.results import clocks_differ

if TYPE_CHECKING:
    from aisp.store import History
    from aisp.store.record import Run


ROOMY_COLUMNS = 110
EQUIVALENCE = 0.02  # engine.statistics' own, which no face imports: behind more noise anything would be the same


@dataclass(frozen=True, slots=True)
class Difference:
    """Something in which two runs differ or that stands against both; `refuses`: no verdict because of it."""

    what: str
    a: str
    b: str
    refuses: bool


@dataclass(frozen=True, slots=True)
class Side:
    """A stored run with what it ran on. `sm_clock_mhz` is the median over its arms, of the clocks during their samples;
    else the driver's readings while it ran; None where neither was had."""

    run: Reading
    environment: Mapping[str, object]
    sm_clock_mhz: float | None


@dataclass(frozen=True, slots=True)
class Pair:
    """One rung in both runs. `speedup` is the time in A over the time in B: above one, B is faster."""

    rung: str
    a_ms: tuple[float | None, float | None, float | None]  # median, low, high
    b_ms: tuple[float | None, float | None, float | None]
    speedup: float | None
    low: float | None
    high: float | None
    floor: float | None
    verdict: Verdict
    note: str


@click.command()
@click.argument("first", metavar="RUN_A")
@click.argument("second", metavar="RUN_B")
@common.json_option
@click.pass_context
def command(ctx: click.Context, first: str, second: str, as_json: bool) -> None:
    """Put the stored runs RUN_A and RUN_B side by side; how much faster is B?

    A run is named by its id or the beginning of it. There is no verdict where devices, clocks or hosts
    differ, for a quick run beside a full one, and for runs that did not end well. Of two quick runs it
    is said what they cannot show.

    Exit status: 0 they can be compared; 1 they cannot; 2 no such run.
    """
    from aisp.tui.cli import stored  # the store and numpy

    with stored.history() as opened:
        kept = stored.marks()
        a, b = (_side(opened, opened.run(run_id), kept) for run_id in (first, second))
    differences = differing(a, b)
    refused = any(difference.refuses for difference in differences)
    pairs = compare(a.run, b.run, refused=refused)
    if as_json:
        common.say_document(as_document(a, b, differences, pairs))
    else:
        common.say("\n".join(lines(a, b, differences, pairs, width=common.terminal_width())))
    ctx.exit(1 if refused else 0)


def _side(opened: History, record: Run, kept: Marks) -> Side:
    import numpy as np  # the store has it imported already

    from aisp.tui.cli import stored

    clocks = [arm.sm_clock_mhz for arm in record.arms if arm.sm_clock_mhz is not None]
    clock = float(np.median(clocks)) if clocks else None
    telemetry = None if clocks else opened.telemetry(record.id)
    if telemetry is not None and np.isfinite(telemetry.sm_clock_mhz).any():
        clock = float(np.nanmedian(telemetry.sm_clock_mhz))
    return Side(stored.view(record, kept), stored.environment(opened, record), clock)


# Words in the keys of an environment that say on which machine, and how it was set up.
_MACHINE = ("host", "gpu", "cpu", "cores", "driver", "variables")


def differing(a: Side, b: Side) -> list[Difference]:
    """What differs between two runs, what refuses a verdict first."""
    from aisp.tui.cli.stored import flat

    found: list[Difference] = []

    def add(what: str, left: object, right: object, *, refuses: bool) -> None:
        if left != right:
            texts = [plain.DASH if value in (None, "") else clean_line(str(value)) for value in (left, right)]
            found.append(Difference(what, texts[0], texts[1], refuses))

    for name in ("target", "device", "case"):
        add(name, getattr(a.run.record, name), getattr(b.run.record, name), refuses=True)
    add("mode", plain.run_mode(a.run.record.quick), plain.run_mode(b.run.record.quick), refuses=True)
    runs = a.run, b.run
    if any(run.record.state != State.OK for run in runs):
        found.append(Difference("outcome", a.run.record.state, b.run.record.state, refuses=True))
    if any(run.record.state == State.OK and run.record.validity != Validity.VALID for run in runs):
        found.append(Difference("validity", a.run.record.validity, b.run.record.validity, refuses=True))
    add("policy", a.run.record.policy, b.run.record.policy, refuses=False)
    add("clocks", _clock_flags(a.run), _clock_flags(b.run), refuses=True)
    if a.run.record.device.startswith("cuda") and b.run.record.device.startswith("cuda"):
        clocks = a.sm_clock_mhz, b.sm_clock_mhz
        if None in clocks or clocks_differ(*clocks):
            found.append(Difference("SM clock", _mhz(clocks[0]), _mhz(clocks[1]), refuses=True))
    left, right = flat(a.environment), flat(b.environment)
    if not left or not right:
        known = ["known" if side else "unknown" for side in (left, right)]
        found.append(Difference("machine", known[0], known[1], refuses=True))
    else:
        for key in sorted({*left, *right}):
            machine = any(word in key.lower() for word in _MACHINE)
            add(clean_line(key), left.get(key), right.get(key), refuses=machine)
    return sorted(found, key=lambda difference: not difference.refuses)


def _clock_flags(run: Reading) -> str:
    return ", ".join(sorted(flag for flag in run.record.flags if flag.startswith("clocks=")))


def _mhz(clock: float | None) -> str:
    return plain.DASH if clock is None else f"{clock:.0f} MHz"


def compare(a: Reading, b: Reading, *, refused: bool) -> list[Pair]:
    """The rungs of both runs side by side, in A's order and then B's."""
    floors = [_floor(a), _floor(b)]
    floor = max(floors) if None not in floors else None  # type: ignore[type-var]
    pairs = []
    for rung in dict.fromkeys([*a.rungs, *b.rungs]):
        if rung.endswith(TWIN_SUFFIX):
            continue
        left, right = (run.arm(rung) for run in (a, b))
        a_ms = (left.median_ms, left.low_ms, left.high_ms) if left else (None, None, None)
        b_ms = (right.median_ms, right.low_ms, right.high_ms) if right else (None, None, None)
        speedup = a_ms[0] / b_ms[0] if a_ms[0] and b_ms[0] else None
        low = a_ms[1] / b_ms[2] if a_ms[1] and b_ms[2] else None
        high = a_ms[2] / b_ms[1] if a_ms[2] and b_ms[1] else None
        verdict, note = Verdict.NONE, ""
        marked = [(name, mark) for name, run in (("A", a), ("B", b)) if (mark := run.bar(rung)) is not None]
        if marked:
            speedup = low = high = None
            note = "; ".join(f"{mark.word} in {name} by {mark.check}: {mark.evidence}" for name, mark in marked)
        elif speedup is None:
            note = "not timed in both"
        elif left is not None and right is not None and left.timing != right.timing:
            speedup = low = high = None
            note = f"timed as {left.timing} and {right.timing}, which cannot be compared"
        elif not refused:
            verdict, note = judge(low, high, floor)
        pairs.append(Pair(rung, a_ms, b_ms, speedup, low, high, floor, verdict, note))
    return pairs


def _floor(run: Reading) -> float | None:
    return max((c.floor for c in run.comparisons if c.floor is not None), default=None)


def judge(low: float | None, high: float | None, floor: float | None) -> tuple[Verdict, str]:
    """The verdict for a ratio's interval, and why it is undecided where it is."""
    if low is None or high is None:
        return Verdict.UNDECIDED, "a time without an interval"
    if floor is None:
        return Verdict.UNDECIDED, "the noise floor of one of the runs is not known"
    if low > 1 + floor:
        return Verdict.FASTER, ""
    if high < 1 / (1 + floor):
        return Verdict.SLOWER, ""
    if floor <= EQUIVALENCE and low >= 1 / (1 + floor) and high <= 1 + floor:
        return Verdict.SAME, ""
    return (
        Verdict.UNDECIDED,
        "the interval does not clear the noise floor; run both again, side by side in one run",
    )


def lines(a: Side, b: Side, differences: list[Difference], pairs: list[Pair], *, width: int | None) -> list[str]:
    """Both runs for people; the intervals of the two times only where a line has room for them."""
    found = []
    roomy = width is None or width >= ROOMY_COLUMNS
    for name, side in (("A", a), ("B", b)):
        run = side.run
        facts = [
            run.id,
            run.record.target,
            run.record.device,
            run.record.case,
            "quick" if run.record.quick else "",
            plain.local_time(run.record.wall),
            _mhz(side.sm_clock_mhz),
        ]
        found.append(f"{name}  " + clean_line("  ".join(fact for fact in facts if fact and fact != plain.DASH)))
    rows = [
        [
            clean_line(pair.rung),
            *(plain.milliseconds(*(ms if roomy else ms[:1])) for ms in (pair.a_ms, pair.b_ms)),
            _as_fast(pair),
            plain.DASH if pair.verdict is Verdict.NONE else pair.verdict,
            clean_line(pair.note, limit=2000),
        ]
        for pair in pairs
    ]
    times = [f"{side} ms [low..high]" if roomy else f"{side} ms" for side in "AB"]
    heads = ["rung", *times, "B is", "verdict", ""]
    found += ["", *plain.table(heads, rows, width=width, shrink="rung", drop=[""])]
    if differences:
        table = plain.table(
            ["what", "A", "B", ""],
            [[d.what, d.a, d.b, "no verdict because of it" if d.refuses else ""] for d in differences],
            width=width,
            shrink="B",
        )
        found += ["", *table]
    if any(difference.refuses for difference in differences):
        found += ["", "=> no verdict: these two runs cannot be compared"]
    elif a.run.record.quick and b.run.record.quick:
        caveat = "both runs were quick: one process each cannot show how processes differ; compare two full runs"
        found += ["", f"=> {caveat} before you rely on it"]
    return found


def _as_fast(pair: Pair) -> str:
    """ "2.00x as fast as A [1.96..2.04]"."""
    ratio, *interval = plain.speedup(pair.speedup, pair.low, pair.high).split(" ")
    return ratio if pair.speedup is None else " ".join([ratio, "as fast as A", *interval])


def as_document(a: Side, b: Side, differences: list[Difference], pairs: list[Pair]) -> dict[str, Any]:
    """Both runs for JSON; the schema is in docs/commands.md."""

    def head(side: Side) -> dict[str, Any]:
        run = side.run
        return {
            "run_id": run.id,
            "target": run.record.target,
            "device": run.record.device,
            "case": run.record.case,
            "quick": run.record.quick,
            "wall": run.record.wall,
            "status": run.record.state,
            "snapshot": run.record.snapshot,
            "sm_clock_mhz": side.sm_clock_mhz,
        }

    def times(values: tuple[float | None, float | None, float | None]) -> dict[str, float | None]:
        return dict(zip(("median_ms", "low_ms", "high_ms"), values, strict=True))

    return {
        "a": head(a),
        "b": head(b),
        "comparable": not any(difference.refuses for difference in differences),
        "differences": [{"what": d.what, "a": d.a, "b": d.b, "refuses": d.refuses} for d in differences],
        "rungs": [
            {
                "rung": pair.rung,
                "a": times(pair.a_ms),
                "b": times(pair.b_ms),
                "speedup": pair.speedup,
                "low": pair.low,
                "high": pair.high,
                "floor": pair.floor,
                "verdict": pair.verdict,
                "note": pair.note,
            }
            for pair in pairs
        ],
    }
