"""From the programs' JSON to tables: for a terminal, and for docs/measurement.md between its markers.

`python -m tests.proofs agreement FOLDER` copies the results in FOLDER to docs/measurement/.

What was not measured is a dash; a missed aim is called missed.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from tests.proofs.agreement.common import DASH, ROOT, Document, median, taken, variation
from tests.proofs.pages.markers import put

DATA = ROOT / "docs" / "measurement"
FILES = ("timers.json", "aa*.json", "slowed*.json", "cost.json", "spread*.json", "quick_*.json")
NOT_YET = "Not measured yet."
REFERENCE, DIRTY_REFERENCE = "profiler", "profiler_dirty"
TITLES = {
    "aisp": "aisp",
    "aisp_dirty": "aisp dirty",
    "nvbench": "NVBench",
    "do_bench": "do_bench",
    REFERENCE: "profiler",
    DIRTY_REFERENCE: "profiler dirty",
}
WITHIN = 0.02  # of the profiler, over LONG_US
LONG_US = 20.0
PERCENTS = {
    "optimized": "1 %",
    "optimized_2_percent": "2 %",
    "optimized_5_percent": "5 %",
    "optimized_10_percent": "10 %",
}

Table = list[list[str]]


# -- cells -------------------------------------------------------------------------------------------------------------


def us(ms: float | None) -> str:
    """Microseconds, four significant digits."""
    if ms is None:
        return DASH
    value = ms * 1e3
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def percent(ratio: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """A part of one as per cent."""
    if ratio is None or not math.isfinite(ratio):
        return DASH
    return f"{ratio * 100:+.{digits}f} %" if sign else f"{ratio * 100:.{digits}f} %"


def seconds(value: float | None) -> str:
    """Seconds, three significant digits."""
    return DASH if value is None else f"{value:.3g} s"


def ratio(value: float | None) -> str:
    """A speed-up, four decimals: a tenth of a per cent is what this page is about."""
    return DASH if value is None else f"{value:.4f}"


def markdown(table: Table) -> str:
    """The first row is the head."""
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def plain(table: Table) -> str:
    """For a terminal."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table)


def machine_line(document: Document) -> str:
    """Where and when."""
    machine = document.get("machine")
    if not machine:
        return ""
    return (
        f"{machine['gpu']}; {machine['cpu']}, {machine['cores']} cores; Python {machine['python']}, torch "
        f"{machine['torch']}; {machine['wall']}; took {document.get('took_s', 0):.0f} s."
    )


# -- timers ------------------------------------------------------------------------------------------------------------


def times_ms(row: Document, timer: str) -> list[float]:
    """The known times of a timer's repeats."""
    return [ms for ms in row["timers"].get(timer, {}).get("ms", ()) if ms is not None]


def typical_ms(row: Document, timer: str) -> float | None:
    """Median of a timer's repeats."""
    return median(times_ms(row, timer))


def deviation(row: Document, timer: str) -> float | None:
    """How far a timer's time lies from the profiler's behind the same flush, as a part of that. All but aisp's usual
    samples have what the flush wrote written back beside them; sittings before there were two flushes know that one.
    """
    reference = typical_ms(
        row, REFERENCE if timer == "aisp" or DIRTY_REFERENCE not in row["timers"] else DIRTY_REFERENCE
    )
    found = typical_ms(row, timer)
    return None if reference is None or found is None else found / reference - 1


def one(value: object) -> float | None:
    """A field that may be one value or one per repeat, as one number."""
    if isinstance(value, list):
        return median(value)
    return float(value) if isinstance(value, (int, float)) else None


def how_of(row: Document) -> str:
    """How aisp took its samples."""
    how = row["timers"].get("aisp", {}).get("how", "")
    return str(how[0] if isinstance(how, list) else how) or DASH


def timers_table(document: Document) -> Table:
    """Time and deviation from the profiler's, by timer."""
    present = [timer for timer in TITLES if any(timer in row["timers"] for row in document["rows"])]
    references = [timer for timer in present if timer in (REFERENCE, DIRTY_REFERENCE)]
    others = [timer for timer in present if timer not in references]
    head = ["callable", "bound", "by", *(f"{TITLES[timer]} us" for timer in references)]
    for timer in others:
        head += [f"{TITLES[timer]} us", "off"]
    table = [[*head, "aisp's sample", "SM MHz aisp", "SM MHz NVBench"]]
    for row in document["rows"]:
        kernels = one(row["timers"].get(REFERENCE, {}).get("kernels"))
        several = f" ({kernels:.0f} kernels)" if kernels is not None and kernels > 1 else ""
        cells = [row["name"] + several, row["bound"], row["language"]]
        cells += [us(typical_ms(row, timer)) for timer in references]
        for timer in others:
            cells += [us(typical_ms(row, timer)), percent(deviation(row, timer), sign=True)]
        clocks = [one(row["timers"].get(timer, {}).get("sm_clock_mhz")) for timer in ("aisp", "nvbench")]
        table.append([*cells, how_of(row), *(DASH if clock is None else f"{clock:.0f}" for clock in clocks)])
    return table


def variation_table(document: Document) -> Table:
    """Run-to-run coefficient of variation, by timer, and the wall time that a repeat took."""
    present = [timer for timer in TITLES if any(timer in row["timers"] for row in document["rows"])]
    table = [["callable", *(f"{TITLES[timer]}" for timer in present), *(f"{TITLES[timer]} wall" for timer in present)]]
    for row in document["rows"]:
        spread = [percent(variation(times_ms(row, timer)), 3) for timer in present]
        walls = [seconds(one(row["timers"].get(timer, {}).get("wall_s"))) for timer in present]
        table.append([row["name"], *spread, *walls])
    return table


def timers_findings(document: Document) -> list[str]:
    """The aims, and which callables missed them."""
    rows = [row for row in document["rows"] if deviation(row, "aisp") is not None]
    long = [row for row in rows if (typical_ms(row, REFERENCE) or 0) * 1e3 > LONG_US]
    off = [
        f"{row['name']} {percent(deviation(row, 'aisp'), sign=True)}"
        for row in long
        if abs(deviation(row, "aisp") or 0) > WITHIN
    ]
    lines = [
        f"Over {LONG_US:.0f} us, aisp within {WITHIN * 100:.0f} % of the profiler:"
        f" {len(long) - len(off)} of {len(long)}." + (f" Missed: {', '.join(off)}." if off else "")
    ]
    short = [row for row in rows if row not in long and deviation(row, "do_bench") is not None]
    farther = [
        f"{row['name']} ({percent(deviation(row, 'aisp'), sign=True)} against"
        f" {percent(deviation(row, 'do_bench'), sign=True)})"
        for row in short
        if abs(deviation(row, "aisp") or 0) > abs(deviation(row, "do_bench") or 0)
    ]
    lines.append(
        f"Up to {LONG_US:.0f} us, nearer to the profiler than do_bench: {len(short) - len(farther)} of {len(short)}."
        + (f" Missed: {', '.join(farther)}." if farther else "")
    )
    for other in ("nvbench", "do_bench", "profiler"):
        known = [(row["name"], variation(times_ms(row, "aisp")), variation(times_ms(row, other))) for row in rows]
        pairs = [(name, mine, theirs) for name, mine, theirs in known if mine is not None and theirs is not None]
        worse = [
            f"{name} ({percent(mine, 3)} against {percent(theirs, 3)})" for name, mine, theirs in pairs if mine > theirs
        ]
        if pairs:
            lines.append(
                f"Run-to-run variation no greater than {TITLES[other]}'s: {len(pairs) - len(worse)} of {len(pairs)}"
                f" (medians {percent(median([mine for _, mine, _ in pairs]), 3)}"
                f" and {percent(median([theirs for _, _, theirs in pairs]), 3)})."
                + (f" Greater: {', '.join(worse)}." if worse else "")
            )
    lines += [f"{TITLES[timer]} failed: {problem}." for timer, problem in document.get("problems", {}).items()]
    for row in document["rows"]:
        for timer, told in row["timers"].items():
            errors = told.get("error")
            first = next((e for e in errors if e), "") if isinstance(errors, list) else errors
            if first:
                lines.append(f"{TITLES[timer]} on {row['name']}: {first}.")
    return lines


def timers_text(document: Document) -> str:
    """For a terminal."""
    return "\n".join(
        [plain(timers_table(document)), "", plain(variation_table(document)), "", *timers_findings(document)]
    )


def timers_page(documents: Sequence[Document]) -> str:
    """For the page."""
    (document,) = documents
    return "\n\n".join(
        [
            f"{machine_line(document)} {document['repeats']} repeats of {document['wall_s']} s a timer and callable.",
            markdown(timers_table(document)),
            "Run-to-run coefficient of variation, and the wall time of a repeat:",
            markdown(variation_table(document)),
            bullets(timers_findings(document)),
        ]
    )


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)


# -- A/A ---------------------------------------------------------------------------------------------------------------


def wilson(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a rate by Wilson's score: right for rates near 0, too."""
    if not count:
        return 0.0, 1.0
    z = 1.959964
    middle = (hits + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(hits * (count - hits) / count + z * z / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def timing_of(run: Document) -> str:
    """How the baseline was timed."""
    calls = run.get("calls") or 1
    return f"{run['timing']} x{calls}" if calls > 1 else run["timing"] or DASH


def clocks_table(documents: Sequence[Document]) -> Table:
    """One row per kernel of which the judge has a time: the baseline by the profiler, its own clock and the judge's;
    and how far the judge's clock is from the arms' own, over all arms."""
    table = [["kernel", "by", "profiler us", "own clock", "judge", "judge / own, arms", "judge's error"]]
    for run in (run for document in documents for run in document["runs"]):
        arms = [arm for arm in run.get("arms", ()) if arm["outside_ms"] and arm["median_ms"]]
        if not arms:
            continue
        base = next((arm for arm in arms if arm["rung"] == "baseline"), arms[0])
        truth_ms = run.get("truth_ms", {}).get("baseline")
        ratios = sorted(arm["outside_ms"] / arm["median_ms"] for arm in arms)
        table.append(
            [
                run["name"], run["language"], us(truth_ms),
                *(ratio(base[name] / truth_ms) if truth_ms else DASH for name in ("median_ms", "outside_ms")),
                f"{ratio(ratios[0])}..{ratio(ratios[-1])}, {len(ratios)}",
                percent(max(arm["outside_error"] for arm in arms), 1),
            ]
        )  # fmt: skip
    return table


def clocks_page(documents: Sequence[Document]) -> str:
    """For the page: own clock and judge's as parts of the profiler's kernel time."""
    table = clocks_table(documents)
    if len(table) == 1:
        return NOT_YET
    ratios = [
        arm["outside_ms"] / arm["median_ms"]
        for document in documents
        for run in document["runs"]
        for arm in run.get("arms", ())
        if arm["outside_ms"] and arm["median_ms"]
    ]
    far = sum(abs(math.log(one)) > math.log1p(0.05) for one in ratios)
    found = (
        f"{len(ratios)} arms: the judge's time is {ratio(min(ratios))} to {ratio(max(ratios))} of their own clocks', "
        f"median {ratio(statistics.median(ratios))}; beyond 5 %: {far}."
    )
    about = [machine_line(document) for document in documents if any("arms" in run for run in document["runs"])]
    return "\n\n".join([" ".join(about), markdown(table), bullets([found])])


def aa_table(documents: Sequence[Document]) -> Table:
    """One row per kernel."""
    table = [
        [
            "kernel",
            "by",
            "us",
            "timing",
            "compared",
            "same",
            "undecided",
            "faster",
            "slower",
            "floor",
            "ratio low..high",
            "s",
        ]
    ]
    for document in documents:
        for run in document["runs"]:
            compared = run["comparisons"]
            verdicts = Counter(c["verdict"] for c in compared)
            ratios = [c["speedup"] for c in compared if c["speedup"] is not None]
            floors = [c["floor"] for c in compared if c["floor"] is not None]
            table.append(
                [
                    run["name"], run["language"], us(run["median_ms"]), timing_of(run), str(len(compared)),
                    *(str(verdicts[word]) for word in ("same", "undecided", "faster", "slower")),
                    percent(max(floors), 2) if floors else DASH,
                    f"{min(ratios):.4f}..{max(ratios):.4f}" if ratios else DASH,
                    f"{run['took_s']:.0f}",
                ]
            )  # fmt: skip
    return table


def aa_findings(documents: Sequence[Document]) -> list[str]:
    """How many were compared, how many wrongly told apart, and which."""
    runs = [run for document in documents for run in document["runs"]]
    compared = [(run, c) for run in runs for c in run["comparisons"] if c["verdict"] not in ("none", "")]
    wrong = [(run, c) for run, c in compared if c["verdict"] in ("faster", "slower")]
    undecided = sum(c["verdict"] == "undecided" for _, c in compared)
    low, high = wilson(len(wrong), len(compared))
    rate = len(wrong) / len(compared) if compared else None
    aim = (
        ""
        if rate is None
        else " Aim: at most 1 %, over at least 200; " + ("met." if rate <= 0.01 and len(compared) >= 200 else "MISSED.")
    )
    lines = [
        f"{len(compared)} comparisons of identical kernels, {len(wrong)} called faster or slower: {percent(rate, 2)}"
        f" (95 % interval {percent(low, 2)} to {percent(high, 2)}).{aim}",
        f"Undecided: {undecided} ({percent(undecided / len(compared) if compared else None)}).",
    ]
    widths = sorted((c["high"] - c["low"]) / 2 / c["speedup"] for _, c in compared if c["low"] and c["high"])
    if widths:
        tenth = widths[max(math.ceil(0.9 * len(widths)) - 1, 0)]
        told = f"median {percent(statistics.median(widths), 2)}, nine in ten at most {percent(tenth, 2)}"
        lines.append(f"Intervals, half of each: {told}, widest {percent(widths[-1], 2)}.")
    lines += [
        f"Wrong: {run['name']} {c['rung']} {c['verdict']}, {ratio(c['speedup'])}"
        f" [{ratio(c['low'])}, {ratio(c['high'])}], floor {percent(c['floor'], 2)}."
        for run, c in wrong
    ]
    lines += [f"{run['name']}: {run['problem']}." for run in runs if run["problem"]]
    lines += _left_out(documents)
    return lines


def aa_text(documents: Sequence[Document]) -> str:
    """For a terminal."""
    return "\n".join([plain(aa_table(documents)), "", plain(clocks_table(documents)), "", *aa_findings(documents)])


def aa_page(documents: Sequence[Document]) -> str:
    """For the page."""
    first = documents[0]
    about = [machine_line(document) for document in documents]
    about.append(f"{first['rungs']} rungs per kernel, {taken(first['replicas'], first.get('quick', False))}.")
    return "\n\n".join([" ".join(about), markdown(aa_table(documents)), bullets(aa_findings(documents))])


# -- slowed ------------------------------------------------------------------------------------------------------------


def true_speedup(run: Document, rung: str) -> float | None:
    """Baseline over rung, by the profiler."""
    truth = run.get("truth_ms", {})
    base, slow = truth.get("baseline"), truth.get(rung)
    return base / slow if base and slow else None


def slowed_table(documents: Sequence[Document]) -> Table:
    """One row per kernel and factor."""
    table = [
        ["kernel", "us", "timing", "slowed by", "true speed-up", "found [low, high]", "holds it", "verdict", "floor"]
    ]
    for run in (run for document in documents for run in document["runs"]):
        by_rung = {c["rung"]: c for c in run["comparisons"]}
        for rung, nominal in PERCENTS.items():
            c = by_rung.get(rung, {})
            true = true_speedup(run, rung)
            holds = holds_truth(run, c)
            found = (
                DASH if c.get("speedup") is None else f"{ratio(c['speedup'])} [{ratio(c['low'])}, {ratio(c['high'])}]"
            )
            table.append(
                [
                    run["name"], us(run["median_ms"]), timing_of(run), nominal, ratio(true), found,
                    DASH if holds is None else "yes" if holds else "no",
                    c.get("verdict") or DASH, percent(c.get("floor"), 2),
                ]
            )  # fmt: skip
    return table


def holds_truth(run: Document, comparison: Document) -> bool | None:
    """Whether the interval holds the true speed-up; None where either is not known."""
    true = true_speedup(run, comparison.get("rung", ""))
    low, high = comparison.get("low"), comparison.get("high")
    return None if true is None or low is None or high is None else bool(low <= true <= high)


def slowed_summary(documents: Sequence[Document]) -> Table:
    """One row per factor: what was said, and how often the interval holds the truth."""
    table = [
        ["slowed by", "kernels", "slower", "undecided", "same", "faster", "interval holds the truth", "mean error"]
    ]
    for rung, nominal in PERCENTS.items():
        found = [
            (run, c)
            for document in documents
            for run in document["runs"]
            for c in run["comparisons"]
            if c["rung"] == rung and c["verdict"] not in ("none", "")
        ]
        verdicts = Counter(c["verdict"] for _, c in found)
        holds = [h for run, c in found if (h := holds_truth(run, c)) is not None]
        errors = [c["speedup"] / true - 1 for run, c in found if c["speedup"] and (true := true_speedup(run, rung))]
        table.append(
            [
                nominal, str(len(found)), *(str(verdicts[word]) for word in ("slower", "undecided", "same", "faster")),
                f"{sum(holds)} of {len(holds)}" if holds else DASH,
                percent(statistics.fmean(errors), 2, sign=True) if errors else DASH,
            ]
        )  # fmt: skip
    return table


def slowed_findings(documents: Sequence[Document]) -> list[str]:
    """What went wrong."""
    runs = [run for document in documents for run in document["runs"]]
    lines = [f"{run['name']}: {run['problem']}." for run in runs if run["problem"]]
    lines += [f"No truth: {d['truth_problem']}." for d in documents if d.get("truth_problem")]
    return lines + _left_out(documents)


def _left_out(documents: Sequence[Document]) -> list[str]:
    """A sentence about kernels that no sitting came to; none where there are none."""
    done = {run["name"] for document in documents for run in document["runs"]}
    left = dict.fromkeys(name for document in documents for name in document["left_out"] if name not in done)
    return [f"Not run, for want of time: {', '.join(left)}."] if left else []


def slowed_text(documents: Sequence[Document]) -> str:
    """For a terminal."""
    tables = (slowed_table(documents), slowed_summary(documents), clocks_table(documents))
    return "\n".join([*(f"{plain(table)}\n" for table in tables), *slowed_findings(documents)])


def slowed_page(documents: Sequence[Document]) -> str:
    """For the page."""
    about = [machine_line(document) for document in documents]
    about.append(f"{taken(documents[0]['replicas'], documents[0].get('quick', False))}.")
    parts = [" ".join(about), markdown(slowed_summary(documents)), markdown(slowed_table(documents))]
    findings = slowed_findings(documents)
    return "\n\n".join([*parts, *([bullets(findings)] if findings else [])])


# -- cost --------------------------------------------------------------------------------------------------------------


def cost_table(document: Document) -> Table:
    """One row per pair and way: medians."""
    table = [["pair", "way", "wall time", "of which inside", "times", "speed-up", "verdict"]]
    groups: dict[tuple[str, str], list[Document]] = {}
    for row in document["rows"]:
        groups.setdefault((row["pair"], row["way"]), []).append(row)
    for (pair, way), rows in sorted(groups.items()):
        speedups = [row["speedup"] for row in rows if row.get("speedup") is not None]
        spread = ratio(median(speedups))
        if len(speedups) > 1:
            spread += f" ({min(speedups):.4f}..{max(speedups):.4f})"
        verdicts = sorted({row.get("verdict", "") for row in rows} - {""})
        errors = sorted({row["error"] for row in rows if row["error"]})
        table.append(
            [
                pair, way.replace("kernelbench_style", "KernelBench-style"),
                seconds(median([row["wall_s"] for row in rows])),
                seconds(median([row.get("inside_s") for row in rows])), str(len(rows)), spread,
                "; ".join(errors) or ", ".join(verdicts) or DASH,
            ]
        )  # fmt: skip
    return table


def cost_text(document: Document) -> str:
    """For a terminal."""
    return plain(cost_table(document))


def cost_page(documents: Sequence[Document]) -> str:
    """For the page."""
    (document,) = documents
    return "\n\n".join([machine_line(document), markdown(cost_table(document))])


# -- the page ----------------------------------------------------------------------------------------------------------

# -- spread ------------------------------------------------------------------------------------------------------------


def deviations(row: Document, way: str) -> tuple[float, float] | None:
    """How replicas of one way spread: standard deviations of log median times, and of log ratios to the A/A arm."""
    medians = row[way]["medians_ms"]
    arms = [np.log(medians[arm]) for arm in ("baseline", "baseline (A/A)") if arm in medians]
    if len(arms) < 2 or len(arms[0]) != len(arms[1]) or len(arms[0]) < 3:
        return None
    return float(np.sqrt(np.mean([arm.var(ddof=1) for arm in arms]))), float((arms[0] - arms[1]).std(ddof=1))


def spread_table(documents: Sequence[Document]) -> Table:
    """One row per lesson."""
    table = [["lesson", "on", "times: forked", "started", "ratios: forked", "started", "forked s", "started s"]]
    for device, row in ((one["device"], row) for one in documents for row in one["rows"]):
        found = [deviations(row, way) for way in ("forked", "started")]
        cells = [percent(one[kind], 2) if one else DASH for kind in (0, 1) for one in found]
        table.append([row["target"], device, *cells, *(seconds(row[way]["took_s"]) for way in ("forked", "started"))])
    return table


def spread_findings(documents: Sequence[Document]) -> list[str]:
    """The typical ratio of both spreads, by device, with a bootstrap interval over lessons."""
    lines = []
    for device in sorted({document["device"] for document in documents}):
        rows = [row for document in documents if document["device"] == device for row in document["rows"]]
        pairs = [(deviations(row, "forked"), deviations(row, "started")) for row in rows]
        known = [(one, other) for one, other in pairs if one and other]
        for kind, name in enumerate(("times", "ratios")):
            logs = np.array([math.log(one[kind] / other[kind]) for one, other in known if one[kind] and other[kind]])
            if len(logs) < 3:
                continue
            drawn = np.median(np.random.default_rng(0).choice(logs, (10_000, len(logs))), axis=1)
            low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
            lines.append(
                f"On {device}, {len(logs)} lessons: the {name} of forked replicas spread "
                f"{math.exp(float(np.median(logs))):.2f} times as much as those of started ones (median; 95 % interval "
                f"{low:.2f} to {high:.2f})."
            )
    return lines


def spread_text(documents: Sequence[Document]) -> str:
    """For a terminal."""
    return "\n".join([plain(spread_table(documents)), *spread_findings(documents)])


def spread_page(documents: Sequence[Document]) -> str:
    """For the page."""
    about = " ".join([*(machine_line(one) for one in documents), f"{documents[0]['replicas']} replicas each way."])
    return "\n\n".join([about, markdown(spread_table(documents)), bullets(spread_findings(documents))])


SECTIONS: dict[str, tuple[str, Callable[[Sequence[Document]], str]]] = {
    "timers": ("timers.json", timers_page),
    "aa": ("aa*.json", aa_page),
    "quick": ("quick_aa*.json", aa_page),
    "clocks": ("quick_*.json", clocks_page),
    "slowed": ("slowed*.json", slowed_page),
    "cost": ("cost.json", cost_page),
    "spread": ("spread*.json", spread_page),
}


def content(name: str, data: Path) -> str:
    """What belongs between a section's markers, from the JSON in `data`."""
    pattern, page = SECTIONS[name]
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(data.glob(pattern))]
    return page(documents) if documents else NOT_YET


def written(text: str, data: Path) -> str:
    """The page with every section's tables made anew.

    Raises:
        ValueError: a marker is missing.
    """
    for name in SECTIONS:
        text = put(text, f"agreement {name}", content(name, data))
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    made = argparse.ArgumentParser(prog="python -m tests.proofs agreement", description="Take in results.")
    made.add_argument("folder", type=Path, metavar="FOLDER", help="where the four programs left them")
    folder = made.parse_args(arguments).folder
    taken = [file for pattern in FILES for file in sorted(folder.glob(pattern))]
    if not taken:
        made.error(f"{folder} has none of {', '.join(FILES)}")
    DATA.mkdir(exist_ok=True)
    for file in taken:
        shutil.copyfile(file, DATA / file.name)
        print(f"took {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
