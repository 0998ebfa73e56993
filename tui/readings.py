"""What the live screens say: sentences, table rows and plot series from the model's views.

Unknown is a dash. Texts come from the model, which cleaned them; they are put into `Text`, never parsed as
markup.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping

from rich.text import Text

from aisp.engine.protocol import events
from aisp.kernels.catalog.contracts import Cache
from aisp.store.outcomes import SUPERSEDED, Correctness, Fault, FindingStatus, Limiter, State, Timing, Verdict
from aisp.store.record import Arm, Comparison
from aisp.store.results import outcome
from aisp.store.results.outcome import ENDS, Stage
from aisp.store.results.outside import judged
from aisp.store.results.reading import Bar
from aisp.store.results.speed_of_light import at_fast_host_ms
from aisp.store.results.telling import by_own_rule
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.findings import bar_sentence, bar_text, end_text, interval_text, labelled, missed_text
from aisp.tui.model import (
    BASELINE,
    RunView,
    throttle_words,
)
from aisp.tui.rank_rows import rank_lines
from aisp.tui.results import STATE_WORDS, own_note, quality_notes, run_word, timing_words, with_reason
from aisp.tui.runplot import DISCARDED_WORDS, METRICS, Unit
from aisp.tui.themes import verdict_text
from aisp.tui.widgets.table import GAP, Cell, Column, giving_way

_BEFORE = {
    Cache.COLD: "L2 flushed before, and clean",
    Cache.DIRTY: "L2 flushed before by writing, which waits to be written back",
    Cache.WARM: "the same calls ran just before",
}
_HELD = {
    "": "the stream was held, one event pair around one call",
    " graph": "the stream was held, one event pair around a graph of {calls} calls; the time is per call",
    " batch": "the stream was held, one event pair around {calls} calls launched one by one; the time is per call",
    "+host": "the stream was not held, so time of the host is part of it",
}
# How one sample was taken, for a person who wants to know what a number is worth; {calls} is how many it holds.
TIMING_SENTENCES: Mapping[str, str] = {
    **{f"{cache}{how}": f"{before}; {held}" for cache, before in _BEFORE.items() for how, held in _HELD.items()},
    Timing.HOST: "the monotonic clock of the CPU around one call",
}
LIMITER_WORDS: Mapping[str, str] = {
    "bytes": "bytes: the bandwidth of the device memory",
    "flops": "flops: the rate of the arithmetic",
    "pcie": "pcie: the link between host memory and the GPU",
    "nvlink": "nvlink: the link between GPUs",
    "launch": "launch: the least time of a kernel that does nothing",
    "host": "host: it launches more slowly than the GPU works",
}
CORRECT_WORDS = {Correctness.CORRECT: "yes", Correctness.WRONG: "NO", Correctness.UNKNOWN: plain.DASH}


def title_text(run: RunView, now_ns: int, *, paused: bool = False) -> Text:
    """Target, mode, device, state and how long: the first row."""
    text = Text(run.record.target or "run", style="bold")
    device = (
        f"{run.record.device}, case {run.record.case}"
        if run.record.case and run.record.case != "default"
        else run.record.device
    )
    parts = [run.mode, device or plain.DASH]
    if paused:
        parts.append("drawing paused: p goes on")
    parts.append(run_word(run.record))
    parts.append(plain.duration(run.elapsed_s(now_ns)))
    if run.foreign:
        parts.append(f"imported from {clean_line(run.foreign)}")
    if run.stored:
        parts.append(f"stored {plain.local_time(run.record.wall)}")
    text.append("  " + " \u00b7 ".join(parts))
    return text


def comparison_text(item: Comparison, ascii: bool, *, with_note: bool = True, bar: Bar | None = None) -> Text:
    """A comparison in a sentence: "optimized \u25b2 2.31\u00d7 faster [2.28..2.35], floor 0.5 %".

    With a bar, what it says instead.
    """
    text = Text(f"{item.rung} ", style="bold")
    if bar is not None:
        return text.append_text(bar_text(bar, item.rung, ascii))
    if not item.verdict.known:
        text.append_text(verdict_text("none", None, ascii))
        text.append(f" no verdict{': ' + own_note(item) if item.note and with_note else ''}")
        return text
    text.append_text(verdict_text(item.verdict.value, item.speedup, ascii))
    words = {
        Verdict.FASTER: " faster",
        Verdict.SLOWER: " the baseline's speed: slower",
        Verdict.SAME: " the same speed",
        Verdict.UNDECIDED: " undecided",
    }
    text.append(words[item.verdict], style="bold")
    text.stylize("reverse")  # as loud as a row can be
    text.append(interval_text(item))
    if item.floor is not None:
        text.append(f", floor {plain.percent(item.floor, 1)}")
    return text


def verdict_row(run: RunView, ascii: bool, width: int | None = None) -> Text:
    """The big line: what the run found, or why there is nothing to find yet.

    A note that does not fit into `width` is never cut in the middle: a hint at the key that shows it takes its place.
    """
    text = _verdict(run, ascii, with_note=True)
    item = run.headline
    if width is None or plain.cells(text.plain) <= width or item is None:
        return text
    short = _verdict(run, ascii, with_note=False)
    if short.plain == text.plain:
        return text
    return short.append(" | " if ascii else " \u00b7 ").append("i: note", style="bold reverse")


def _verdict(run: RunView, ascii: bool, *, with_note: bool) -> Text:
    item, bars, ended = run.headline, run.bars, outcome.of_run(run)
    bar = run.barred(item) if item is not None else None
    if run.record.state.void:
        return end_text(run.record)
    if bar is not None or (bars and (item is None or run.record.validity.caught)):
        alone = len(bars) == 1
        text = Text(" | " if ascii else " \u00b7 ", style="bold").join(
            Text(f"{one.rung or 'the run'} ", style="bold").append_text(
                bar_text(one, one.rung, ascii, with_check=alone or not one.mistake)
            )
            for one in bars
        )
        if item is None or bar is not None:
            if not all(one.mistake for one in bars):
                return text.append(": no speed-up of it is one; v says more", "not bold")
            return text if run.record.state.final else text.append("; judged anew when this run ends", "not bold")
        text.append(" | " if ascii else " \u00b7 ", "not bold")
        return text.append_text(comparison_text(item, ascii, with_note=False))
    if run.record.validity.caught:
        return Text(f"caught: {run.record.reason or 'a check refused the times'}; there is no verdict", style="bold")
    if run.record.state.final and run.record.state is not State.OK:
        return end_text(run.record)
    if item is None or (ended.silent and run.record.state.final):
        if ENDS[run.record.state].stage is Stage.QUEUE:
            return Text("waiting for its turn")
        if run.record.state.final:
            return Text(f"{ended.word}, no comparison{': ' + run.record.reason if run.record.reason else ''}")
        return Text("no comparison yet: baseline and rungs are compared as samples come in")
    text = comparison_text(item, ascii, with_note=with_note)
    lead = run.lead
    if lead is not None and lead.rung == item.rung and lead.sol is not None:
        text.append(f", SOL {plain.percent(lead.sol)}")
    if item.note and with_note and item.verdict.known:
        text.append(f", {item.note}" if item.verdict.decided else f": {item.note}")
    if with_note and (where := run.judged(item)):
        text.append(f", {where}")
    if not run.record.state.final:
        text = Text("so far: ").append_text(text)
    elif run.record.validity.suspect:
        text = Text("suspect, not a verdict: ", style="bold").append_text(text)
    return text


def _flags(run: RunView) -> list[str]:
    """Its flags but those that its title tells."""
    return [flag for flag in run.record.flags if flag not in ("quick", SUPERSEDED)]


def note_row(run: RunView) -> Text:
    """What must not be overlooked: missing events, discarded samples, flags; empty where there is nothing."""
    parts = [gap_sentence(first, last) for first, last in run.gaps[-2:]]
    for code, word in DISCARDED_WORDS.items():
        count = sum(drawn.discarded[code] for drawn in run.drawn.values())
        if count:
            parts.append(f"{count} samples discarded: {word}")
    flags = _flags(run)
    if flags:
        parts.append("flags: " + ", ".join(flags))
    suspects = sorted({found.check for found in run.found(FindingStatus.SUSPECT)})
    if suspects:
        more = f" and {len(suspects) - 2} more" if len(suspects) > 2 else ""
        parts.append(f"suspect: {', '.join(suspects[:2])}{more}; v says why")
    return Text(" \u00b7 ".join(parts))


def gap_sentence(first: int, last: int) -> str:
    return f"events {first}..{last} were not received; the stored run is whole"


def _interval_of(arm: Arm, unit: Unit, digits: int) -> str:
    shown = [
        plain.number(None if value is None else value * unit.per_ms, digits)
        for value in (arm.median_ms, arm.low_ms, arm.high_ms)
    ]
    if shown[0] == plain.DASH or plain.DASH in shown[1:]:
        return shown[0]
    return f"{shown[0]} [{shown[1]}..{shown[2]}]"


# A wide screen's columns in order, with a rank: those of the highest rank give way first.
_WIDE_COLUMNS: tuple[tuple[int, Column], ...] = (
    (0, Column("rung", "rung", 20)),
    (0, Column("outcome", "correct", 9)),
    (0, Column("median", "median", 23, "right")),
    (0, Column("speedup", "vs baseline", 20, "right")),
    (0, Column("samples", "n", 6, "right")),
    (0, Column("timing", "timing", 14)),
    (2, Column("clock", "SM MHz", 6, "right")),
    (1, Column("sol", "SOL", 5, "right")),
    (3, Column("limiter", "limit", 6)),
    (4, Column("against", "SOL by", 9)),
    (5, Column("score", "score", 5, "right")),
    (6, Column("error", "error/tol", 9, "right")),
)
_OF_A_GPU = ("clock", "sol", "limiter", "against", "score")
FINE_COLUMNS, WHOLE_COLUMNS = 130, 190  # from here on a digit more, and long names of rungs


def arm_columns(width: int, unit: Unit, *, gpu: bool = True) -> list[Column]:
    """Columns of the arms table for a screen of that width: at 80 the times, on wider ones how they were taken too.

    Args:
        gpu: whether the run is on a GPU; without one there are no clocks and no speed of light.
    """
    if width < 100:
        return [
            Column("rung", "rung", 18),
            Column("outcome", "correct", 9),
            Column("median", f"median {unit.name}", 20, "right"),
            Column("speedup", "vs baseline", 20, "right"),
            Column("samples", "n", 5, "right"),
        ]
    own = {"rung": 28 if width >= WHOLE_COLUMNS else 18, "median": 20 + (width >= FINE_COLUMNS) * 3}
    wanted = [
        (rank, Column(c.key, f"median {unit.name}" if c.key == "median" else c.title, own.get(c.key, c.width), c.align))
        for rank, c in _WIDE_COLUMNS
        if gpu or c.key not in _OF_A_GPU
    ]
    return giving_way(wanted, width, -GAP)[0]


def limiter_word(arm: Arm) -> str:
    """What keeps the arm from being faster than its bound, in a word; a dash where it is not known."""
    return (arm.light.limiter if arm.light is not None else None) or plain.DASH


def score_word(arm: Arm) -> str:
    return plain.DASH if arm.light is None or arm.light.score is None else f"{arm.light.score:.2f}"


def on_gpu(run: RunView) -> bool:
    return not run.record.device.startswith("cpu")


def arm_word(run: RunView, arm: Arm) -> str:
    """The arm's state in a word; a dash for one whose turn never came."""
    if run.record.state.final and not arm.state.final:
        return plain.DASH
    return STATE_WORDS.get(arm.state, arm.state.value)


def arm_rows(run: RunView, width: int, unit: Unit, ascii: bool) -> list[tuple[str, list[Cell]]]:
    """Rows of the arms table, in the run's order, for `arm_columns(width, unit, gpu=on_gpu(run))`."""
    keys = [column.key for column in arm_columns(width, unit, gpu=on_gpu(run))]
    rows: list[tuple[str, list[Cell]]] = []
    for arm in run.record.arms:
        rung = arm.rung
        item = run.comparison(rung)
        speed: Cell = plain.DASH
        if rung == BASELINE and arm.median_ms is not None:
            speed = Text("1", style="dim")
        bar = run.barred(item) if item is not None else run.bar(rung)
        if bar is not None:
            speed = bar_text(bar, rung, ascii, with_check=False)
        elif run.unjudged(rung):
            speed = Text("a cheat", "dim")
        elif run.missed(rung):
            speed = missed_text(run, rung, ascii)
        elif rung != BASELINE and item is not None and item.verdict.known:
            speed = verdict_text(item.verdict.value, item.speedup, ascii)
            speed.append(interval_text(item), style="not bold")
        count = max(arm.sample_count, run.samples(rung).points.count)
        bad = arm.correctness.wrong
        word, correct = arm_word(run, arm), CORRECT_WORDS[arm.correctness]
        failed = arm.state.final and arm.state is not State.OK
        cells: dict[str, Cell] = {
            "rung": Text(rung),
            "outcome": Text(word if failed and not bad else correct, "bold" if failed else ""),
            "median": _interval_of(arm, unit, 3 if width < FINE_COLUMNS else 4),
            "samples": plain.count(count) if count else plain.DASH,
            "speedup": speed,
            "sol": plain.percent(arm.sol),
            "error": plain.number(arm.max_error, 2),
            "timing": timing_words(arm.timing, arm.calls),
            "clock": plain.megahertz(arm.sm_clock_mhz),
            "limiter": limiter_word(arm),
            "against": (arm.light and arm.light.basis) or plain.DASH,
            "score": score_word(arm),
        }
        rows.append((rung, [cells[key] for key in keys]))
    return rows


def no_readings(run: RunView, status: events.Status | None) -> str:
    """Why there are no GPU readings, once; "" where there are some."""
    if len(run.telemetry):
        return ""
    if not on_gpu(run):
        return "no clocks: this run is on the CPU"
    if status is not None and status.gpu_note:
        return f"no GPU: {status.gpu_note}"
    return "no GPU readings yet" if not run.record.state.final else "no GPU readings were taken"


def throttle_now(run: RunView) -> str:
    """What slows the clocks at this moment, in words: "none" where the driver says nothing does."""
    bits = run.telemetry.throttle[-1] if len(run.telemetry.throttle) else -1
    if bits < 0:
        return plain.DASH
    return ", ".join(throttle_words(bits)) or "none"


def reading_row(run: RunView, status: events.Status | None) -> Text:
    missing = no_readings(run, status)
    if missing:
        return Text(missing, style="dim")
    text = Text()
    for metric in METRICS:
        value = run.telemetry.latest(metric.key)
        name = {"memory clock": "mem", "SM clock": "SM", "temperature": "", "power": ""}[metric.name]
        text.append(f"{name} " if name else "", style="dim")
        text.append(plain.DASH if value is None else f"{value:.0f}", style="bold")
        text.append(f" {metric.unit}  ")
    text.append("throttle ", style="dim")
    text.append(throttle_now(run), style="bold")
    return text


def reading_rows(run: RunView, status: events.Status | None, width: int) -> list[Text]:
    missing = no_readings(run, status)
    if missing:
        return [Text(line) for line in textwrap.wrap(missing, max(1, width))]
    rows = []
    for metric in METRICS:
        value = run.telemetry.latest(metric.key)
        shown = plain.DASH if value is None else f"{value:.0f} {metric.unit}"
        rows.append(Text(metric.name + " " * max(1, width - len(metric.name) - len(shown)) + shown))
    word = throttle_now(run)
    rows.append(Text("throttle" + " " * max(1, width - 8 - plain.cells(word)) + word))
    return rows


def sample_lines(run: RunView, ascii: bool, chosen: str | None = None) -> list[str]:
    """What the samples say: per arm the comparison with its note in full, how its samples were taken, the clock, the
    speed of light and the quality in words; the chosen arm first, or the run's lead where none is chosen."""
    lead = run.lead
    first = chosen if chosen is not None else lead.rung if lead is not None else ""
    lines: list[str] = []
    for arm in sorted(run.record.arms, key=lambda arm: arm.rung != first):
        lines += [*arm_lines(run, arm, ascii), ""]
    for code, word in DISCARDED_WORDS.items():
        count = sum(drawn.discarded[code] for drawn in run.drawn.values())
        if count:
            lines.append(f"{plain.count(count)} samples of the run were set aside: {word}")
    flags = _flags(run)
    if flags:
        lines.append("flags: " + ", ".join(flags))
    while lines and not lines[-1]:
        lines.pop()
    return lines or ["no samples yet"]


def arm_lines(run: RunView, arm: Arm, ascii: bool) -> list[str]:
    count = max(arm.sample_count, run.samples(arm.rung).points.count)
    rule = labelled("own rule", [said]) if (said := by_own_rule(arm)) else []
    if arm.median_ms is None:
        reason = f": {arm.reason}" if arm.reason else ""
        return [f"{arm.rung}: no time{reason}", *rule]
    interval = plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms)
    lines = [f"{arm.rung}: {interval} ms, {plain.count(count)} samples"]
    own = [item for item in run.comparisons if item.rung == arm.rung]
    bar = run.bar(arm.rung) or next((found for item in own if (found := run.barred(item)) is not None), None)
    if bar is not None:
        lines += labelled("result", [bar_sentence(bar) if bar.mistake else f"{bar_sentence(bar)}; no speed-up is one"])
    for item in own if bar is None else []:
        lines += comparison_lines(item, ascii)
    sentence = TIMING_SENTENCES.get(arm.timing, "").format(calls=arm.calls or "several")
    lines += labelled("timing", [f"{timing_words(arm.timing, arm.calls)}: {sentence}"])
    if arm.sm_clock_mhz is not None:
        clock = f"{plain.megahertz(arm.sm_clock_mhz)} MHz during the samples, by the GPU's own counters"
        lines += labelled("SM clock", [clock])
    elif arm.timing is not Timing.HOST:
        lines += labelled("SM clock", [f"{plain.DASH} (the GPU's counters gave none)"])
    if arm.launches is not None:
        lines += labelled("launches", [f"{plain.count(arm.launches)} kernel{'' if arm.launches == 1 else 's'} a call"])
    lines += _light_lines(arm)
    if ranks := rank_lines(arm):
        lines += labelled("ranks", ranks)
    if arm.max_error is not None:
        lines += labelled("error", [f"worst {plain.number(arm.max_error, 2)} of the tolerance; above 1 is wrong"])
    if arm.quality is not None and arm.quality.right_by_stated is not None:
        stated, derived = arm.quality.right_by_stated, arm.quality.right_by_derived
        lines += labelled(
            "right", [f"{stated} calls by the stated tolerance, {derived} on drawn cases by the derived bound"]
        )
    if how := judged(arm):
        spent = arm.quality.outside_ms if arm.quality is not None else None
        read = arm.quality.outside_read if arm.quality is not None else None
        clock = "" if spent is None else f": {plain.quantity(spent / 1e3, 's')} a call, {read} outputs read and right"
        lines += labelled("judge", [how + clock])
    lines += rule
    notes = quality_notes(arm.quality, arm.median_ms, arm.calls)
    if arm.quality is not None and arm.quality.overhead_ms is not None:
        overhead = plain.quantity(arm.quality.overhead_ms / 1e3, "s")
        notes.append(f"{overhead} of what an event pair reads were taken off")
    if arm.quality is not None and arm.quality.watch_us is not None:
        watching = plain.quantity(arm.quality.watch_us / 1e6, "s")
        notes.append(f"checks watched for {watching} around each sample, outside of what is timed")
    return lines + labelled("quality", notes or ["nothing to remark" if arm.quality is not None else "not known"])


def comparison_lines(item: Comparison, ascii: bool) -> list[str]:
    text = comparison_text(item, ascii, with_note=False).plain.removeprefix(item.rung).strip()
    texts = [f"{text}, against {item.baseline}"]
    if item.cycles is not None:
        cycles = plain.speedup(item.cycles, item.cycles_low, item.cycles_high)
        texts.append(f"in SM cycles {cycles}, which clocks that differ cannot move")
    if item.p_value is not None:
        texts.append(f"p = {plain.number(item.p_value, 2)} if there were no difference beyond the floor")
    lines = labelled("result", texts)
    return lines + (labelled("note", [item.note]) if item.note else [])


def _light_lines(arm: Arm) -> list[str]:
    light = arm.light
    if light is None:
        if arm.timing is Timing.HOST:
            return []
        return labelled("light", [f"{plain.DASH} (no bound is known: an unknown GPU, or a lesson that counts no work)"])
    bounds = [
        f"{name} {plain.number(value)} ms"
        for name, value in (
            ("measured ceilings", light.measured_ms),
            ("datasheet", light.spec_ms),
            ("datasheet at the clock that ran", light.clock_ms),
        )
        if value is not None
    ]
    basis = {"measured": "the measured ceilings", "datasheet": "the datasheet; `c` measures this GPU's ceilings"}
    share = plain.percent(arm.sol)
    texts = [f"{share} of what is possible by {basis.get(light.basis, plain.DASH)}"]
    if arm.sol is not None and arm.sol > 1.05:
        texts.append("faster than its bound: that is a finding, look at the bytes and flops of the lesson")
    word = limiter_word(arm)
    if word != plain.DASH:
        texts.append(f"limited by {LIMITER_WORDS.get(word, word)}")
    if word == Limiter.HOST:
        texts.append(plain.host_sentence(light.launch_eager_ms, at_fast_host_ms(arm.median_ms, light)))
    if bounds:
        texts.append("least times: " + ", ".join(bounds))
    if light.score is not None:
        texts.append(f"score {score_word(arm)}: 0.50 is the baseline, 1 the bound")
    return labelled("light", texts) + (labelled("link", [plain.link_sentence(light.link)]) if light.link else [])


def detail_lines(run: RunView, chosen: str | None = None) -> list[str]:
    """Why something went wrong: the reason, then each failed arm's traceback or mismatch, the chosen first.

    Empty where nothing did.
    """
    lines: list[str] = []
    # The run's reason repeats that of the arm which decided it: said once, at the arm.
    if run.record.reason and not any(arm.reason and run.record.reason.endswith(arm.reason) for arm in run.record.arms):
        lines += [run.record.reason, ""]

    def rank(arm: Arm) -> tuple[bool, bool]:
        ended_with_another = arm.state is State.CANCELLED and run.record.state is not State.CANCELLED
        return (ended_with_another, arm.rung != chosen)

    for arm in sorted(run.record.arms, key=rank):
        if not arm.reason and not arm.detail:
            continue
        lines.append(f"{arm.rung}: {with_reason(arm_word(run, arm), arm.reason)}")
        if " ".join(arm.detail.split()) not in arm.reason:
            lines += ["  " + line for line in arm.detail.splitlines()]
        lines.append("")
    lines += [gap_sentence(first, last) for first, last in run.gaps]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_PLACE = re.compile(r"^\s*(\S.*?):(\d+)(?: in .+)?$", re.MULTILINE)  # as engine.worker.loading writes a frame


def failed_place(run: RunView, chosen: str, files: Collection[str]) -> tuple[str, str, int | None]:
    """Where to look for what failed: a rung, and the file and line that its error names, "" and None where it names
    none.

    Args:
        chosen: the highlighted rung. With the baseline, which nobody need have chosen, a rung that failed comes first.
        files: those of the target; nothing else is named.
    """
    failed = [arm.rung for arm in run.record.arms if arm.state.fault is Fault.TARGET]
    rung = failed[0] if failed and chosen not in failed and chosen in ("", BASELINE) else chosen
    arm = run.arm(rung)
    detail = arm.detail.partition("\n\n")[0] if arm is not None and rung in failed else ""
    named = [(file, int(line)) for file, line in _PLACE.findall(detail) if file in files]
    return (rung, *named[-1]) if named else (rung, "", None)
