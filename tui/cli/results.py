"""`aisp dev results`: a page of everything that was measured on one kind of hardware, in Markdown, from the store.

Of every target and case the newest full run counts. A page is made of the document that `--json` gives, and of nothing
else: kept beside the page, the document shows that no figure was typed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.chain import SHORT
from aisp.store.given import json_of, regular_bytes
from aisp.store.outcomes import CHANGED_REASON, Limiter, State, Verdict
from aisp.store.results import by_class, expected
from aisp.store.results.expected import Answered, Seen, Sighting, packages, today
from aisp.store.results.prediction import LOOK_BACK_RUNS, Measured, answer, measured
from aisp.store.results.reading import Reading
from aisp.store.results.speed_of_light import at_fast_host_ms
from aisp.store.results.suite import Full, full_runs, newest_hardware, on_hardware
from aisp.store.results.tables import attributes
from aisp.store.suites import MOST_BYTES
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_NO
from aisp.tui.earlier import newest_first

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Chapter, Target
    from aisp.store.results.beside import Counted
    from aisp.store.results.marks import Marks
    from aisp.tui.cli.stored import Opened

BASELINE, OPTIMIZED = "baseline", "optimized"
SUMMARY_HEADS = [
    *("target", "goal", "own rung", "vs baseline", "vs opponent", "of light", "peak memory", "predicted", "met"),
]
CLASS_HEADS = [
    *("class", "lessons", "vs baseline", "faster, same, slower, undecided"),
    *("opponents", "vs opponent", "faster, same, slower, undecided", "of light"),
]
Document = dict[str, Any]


@click.command()
@common.hardware_option
@click.option(
    "--from",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The page of this document, which an earlier --json gave. Of several of one hardware the last one counts that "
    "has a target. Repeatable.",
)
@click.option(
    "--beside",
    "other",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Set them beside those of this document, which an earlier --json gave of another hardware.",
)
@common.roots_option
@common.json_option
def command(
    hardware: str | None,
    files: tuple[Path, ...],
    other: Path | None,
    roots: tuple[str, ...],
    as_json: bool,
) -> int:
    """Write a page of the newest full run of every target and case: times, speed-ups, predictions.

    Exit status: 0; 1 no full run is stored, or nothing of the two documents can be compared; 2 a document cannot be
    read, or documents cannot be one page.
    """
    if files:
        document = joined([read(file) for file in files])
    else:
        catalog = common.load_catalog(roots)
        with common.history() as opened:
            document = gather(opened, catalog.chapters, catalog.targets, hardware)
    if other is not None:
        from aisp.tui.cli import beside  # the page of two documents only where it is asked for

        return beside.tell(document, read(other), as_json=as_json)
    if as_json:
        common.say_document(document)
    elif document["targets"]:
        common.say(page(document).rstrip("\n"))
    else:
        common.note("no full run is stored; `aisp run all` makes some")
    return 0 if document["targets"] else EXIT_NO


# -- from the store ----------------------------------------------------------------------------------------------------


def gather(opened: Opened, chapters: Sequence[Chapter], targets: Sequence[Target], hardware: str | None) -> Document:
    """What the store knows of these targets on that hardware, as plain data."""
    found = {
        one.id: full_runs(
            newest_first(opened, one.names, LOOK_BACK_RUNS), opened.read, opened.facts, on_host=one.on_host
        )
        for one in targets
    }
    named = hardware or newest_hardware(one for runs in found.values() for one in runs)
    versions: dict[str, set[str]] = {}
    told, missing = [], []
    for target in targets:
        by_case: dict[str, Full] = {}
        for one in on_hardware(found[target.id], hardware, named):
            by_case.setdefault(one.run.record.case, one)
        if not by_case:
            missing.append(target.id)
            continue
        order = {case.name: place for place, case in enumerate(target.cases)}
        chosen = [by_case[case] for case in sorted(by_case, key=lambda case: order.get(case, len(order)))]
        for one in chosen:
            for key, version in packages(one.facts, one.run.method).items():
                versions.setdefault(key, set()).add(version)
            if one.facts.get("gpu") and hardware is not None:
                named = str(one.facts["gpu"])
        told.append(_target(target, [one.run for one in chosen], _met(target, chosen, opened.marks)))
    return {
        "on": named or None,
        "versions": {key: sorted(values) for key, values in versions.items()},
        "chapters": [{"id": chapter.id, "title": chapter.title} for chapter in chapters],
        "targets": told,
        "without": missing,
        "chain": head.plain() if (head := opened.head()) else None,
    }


def _met(target: Target, chosen: Sequence[Full], kept: Marks) -> bool | None:
    if target.expect is None:
        return None
    facts = {one.run.id: one.facts for one in chosen}
    marked = bool(kept.in_force(bytes(target.folder)))
    return answer([one.run.record for one in chosen], target, lambda run: facts[run.id], quarantined=marked).met


def _target(target: Target, runs: Sequence[Reading], met: bool | None) -> Document:
    expect = target.expect
    predicted = None
    if expect is not None:
        predicted = attributes(expect, "speedup", "memory", "on", "why") | {"memory": expect.memory or None}
    summaries = {name: rung.summary for rung in target.rungs for name in (rung.formerly, rung.name) if name}
    told = [_run(run, summaries, target) for run in runs]
    if met is not None:  # this run speaks of the prediction, and so of each rung's
        expected = {rung.name: rung.expect for rung in target.rungs if rung.expect}
        for rung in told[0]["rungs"]:
            if (own := expected.get(rung["rung"])) is not None:
                judged = own.judged(ms=rung["median_ms"], limiter=rung["limiter"] if rung["median_ms"] else "")
                rung["expect"] = {"ms": own.ms or None, "limiter": own.limiter, "met": judged}
    head = {"target": target.id, **attributes(target, "chapter", "title", "goal")}
    return {**head, "predicted": predicted, "met": met, "runs": told}


def _run(run: Reading, summaries: Mapping[str, str], target: Target) -> Document:
    rungs = []
    for known in run.record.arms:
        if known.twin:
            continue
        against, mark = run.comparison(known.rung), run.bar(known.rung)
        timed, light = None if mark else known, None if mark else known.light
        rungs.append(
            {
                **attributes(known, "rung", "state", "timing", "peak_bytes"),
                "summary": summaries.get(known.rung, ""),
                **{name: getattr(timed, name, None) for name in ("median_ms", "low_ms", "high_ms", "sol")},
                **{name: getattr(against, name, None) for name in ("speedup", "low", "high", "floor", "verdict")},
                "sol_of": known.light.basis if known.light else "",
                "judged": run.judged(against) if against else "",
                "limiter": (known.light.limiter or "") if known.light else "",
                "launch_eager_ms": getattr(light, "launch_eager_ms", None),
                "fast_host_ms": None if mark else at_fast_host_ms(known.median_ms, known.light),
                "note": mark.sentence if mark else clean_line(known.reason, limit=300),
            }
        )
    found = measured(run.record.arms, run.comparisons, target.goal, run.hidden)
    return {
        "run_id": run.id,
        **attributes(run.record, "wall", "case", "state", "validity", "policy"),
        "best": found.rung or None,
        "speedup": found.speedup,
        "memory": found.memory,
        "rungs": rungs,
    }


# -- out of a document that was kept -----------------------------------------------------------------------------------


def read(path: Path) -> Document:
    """A document that an earlier --json gave; wrong usage where the file is none."""
    try:
        document = json_of(regular_bytes(path, MOST_BYTES, follow=True))
        page(document)  # everything that is read of it anywhere
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise click.UsageError(f"{path} is no document of `dev results --json`: {error}") from None
    return dict(document)


def joined(documents: Sequence[Document]) -> Document:
    """Documents of several sittings on one kind of hardware as one, in the order of chapters; of a target the last
    one's. Wrong usage where hardware or timing method differ: their times cannot stand on one page."""
    first, *others = documents
    if not others:
        return first
    methods = [one["versions"].get(expected.METHOD, ["1"]) for one in documents]
    for key, values in (("hardware", [[str(one["on"])] for one in documents]), ("timing method", methods)):
        if len(found := {" and ".join(value) for value in values}) > 1:
            raise click.UsageError(f"not comparable: {key}: {clean_line(', '.join(sorted(found)))}")
    chapters = {chapter["id"]: chapter for one in documents for chapter in one["chapters"]}
    places = {name: place for place, name in enumerate(chapters)}
    targets = {target["target"]: target for one in documents for target in one["targets"]}
    versions: dict[str, set[str]] = {}
    for one in documents:
        for name, values in one["versions"].items():
            versions.setdefault(name, set()).update(values)

    def ordered(names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: (places.get(name.rpartition(":")[0], len(places)), name))

    return {
        "on": first["on"],
        "versions": {name: sorted(values) for name, values in versions.items()},
        "chapters": list(chapters.values()),
        "targets": [targets[name] for name in ordered(targets)],
        "without": ordered({name for one in documents for name in one["without"]} - set(targets)),
        "chain": None,
    }


def kept(document: Document, target: Target, *, accept_portable: bool = False) -> Answered:
    """The run of a kept document that says what the target's rungs come to, by the rule of the store's runs: of the
    usual case, timed, valid, and portable only where that is accepted. What is in quarantine has no figures there."""
    runs: list[Document] = next((entry["runs"] for entry in document["targets"] if entry["target"] == target.id), [])
    usual = {target.usual_case(device).name for device in ("cuda", "cpu")}
    run = next((run for run in runs if run["case"] in usual and run["state"] == State.OK and run["speedup"]), None)
    if run is None:
        return Answered()
    return expected.kept(sighting(document, run, today(target)), accept_portable=accept_portable)


def sighting(document: Document, run: Document, names: Mapping[str, str]) -> Sighting:
    """A run of a kept document as far as expectations speak of it. `names`: of rungs of before, as they are today."""
    versions = {key: clean_line(" and ".join(values)) for key, values in document["versions"].items()}
    rungs = {}
    for rung in run["rungs"]:
        name = clean_line(names.get(rung["rung"], rung["rung"]))
        rungs[name] = Seen(
            name,
            clean_line(rung["timing"]),
            ms=rung["median_ms"],
            floor=rung.get("floor"),
            verdict=clean_line(rung["verdict"] or Verdict.NONE),
            **{key: rung[key] for key in ("low_ms", "high_ms", "speedup", "low", "high")},
            **({"sol": rung["sol"], "limiter": clean_line(rung["limiter"])} if _measured(rung) else {}),
        )
    best = names.get(run["best"], run["best"]) or ""
    speaks = rungs.get(best, Seen(best))
    return Sighting(
        clean_line(run["run_id"]),
        clean_line(run["wall"]),
        run["case"],
        clean_line(document["on"] or ""),
        run["policy"],
        Measured(best, run["speedup"], speaks.low, speaks.high, run["memory"], speaks.verdict),
        rungs,
        driver=versions.pop("driver", ""),
        versions=versions,
        state=run["state"],
        validity=run["validity"],
    )


def _measured(rung: Document) -> bool:
    """Whether its share is one of ceilings that were measured on its GPU, as far as the document knows."""
    return bool(rung.get("sol_of", "measured") == "measured")


# -- the page ----------------------------------------------------------------------------------------------------------


def _totals(targets: Sequence[Document], versions: str) -> str:
    found = f"{plain.counted(len(targets), 'target')}, {plain.counted(sum(len(t['runs']) for t in targets), 'run')}"
    answered = [target["met"] for target in targets if target["met"] is not None]
    were = "was" if sum(answered) == 1 else "were"
    told = f"Of {plain.counted(len(answered), 'prediction')} {sum(answered)} {were} met"
    if any(rung.get("expect") for target in targets for rung in target["runs"][0]["rungs"]):
        told += f", {by_class.blind(targets)} with the times of baseline and best rung in their own ranges too"
    return f"{found}{f'; {versions}' if versions else ''}. {told if answered else 'No prediction is answered by it'}."


def page(document: Document) -> str:
    """The document as Markdown: predictions first, then every rung."""
    targets: list[Document] = document["targets"]
    titles = {chapter["id"]: chapter["title"] for chapter in document["chapters"]}
    versions = ", ".join(f"{key} {' and '.join(values)}" for key, values in document["versions"].items())
    every = [rung for target in targets for run in target["runs"] for rung in run["rungs"]]
    by_sheet = any(rung["sol"] is not None and not _measured(rung) for rung in every)
    lines = [
        f"# Results on {cell(document['on'] or 'unknown hardware')}",
        "",
        "Generated by `aisp dev results` from the store, not edited by hand. Each row is a rung of the newest full"
        " run: its median time with a 95 % interval, its speed-up over the first baseline with a 95 % interval and the"
        " verdict beyond the noise floor, and its share of the speed of light. How all of it is measured:"
        " [measurement.md](../measurement.md).",
        "",
        "A lesson's own rung is the fastest `optimized` one that is neither a compiler's nor a library's, the leanest"
        " where memory is the lesson. Its opponent is the fastest rung of others in the same run, where a library's, a"
        " compiler's or a peer's is among them: a plain baseline is none. A prediction speaks of the fastest"
        " `optimized` rung of all, which stands beside `met` where it is another one. Beside a rung that its host"
        " limits stands what an eager launch costs it (`launch eager`), and what is derived for one that needs 5 µs."
        + (" Shares of light are of the datasheet where no ceilings were measured there." if by_sheet else ""),
        "",
        _totals(targets, versions),
        "",
        *_judged(every),
        *_classes(targets),
        *table_lines(SUMMARY_HEADS, [_summary(target) for target in targets]),
    ]
    chapter = None
    for target in targets:
        if target["chapter"] != chapter:
            chapter = target["chapter"]
            lines += ["", f"## {cell(titles.get(chapter) or chapter)}"]
        lines += ["", f"### {cell(target['target'])}", "", f"{cell(target['title'])}."]
        if target["predicted"]:
            met = {True: "was met", False: "was missed"}.get(target["met"], "was not put to the test here")
            said = f"The prediction, {_range(target['predicted'])}, {met}."
            lines += ["", f"{said} Because {cell(target['predicted']['why'])}."]
        for run in target["runs"]:
            lines += ["", *_run_lines(run)]
    if document.get("chain"):  # a document of before there was one has none
        kept = document["chain"]
        lines += [
            "",
            f"The store's head was `{kept['head'][:SHORT]}`, with {plain.count(kept['entries'])} entries:"
            f" `aisp store --verify --head {kept['head'][:SHORT]}` says whether a store goes on from there.",
        ]
    if document["without"]:
        lines += ["", f"No full run is stored of {', '.join(map(cell, document['without']))}."]
    return "\n".join(lines) + "\n"


def _summary(target: Document) -> list[str]:
    run = target["runs"][0]
    own, other = by_class.ranked(run, target["goal"])
    predicted = target["predicted"]
    met = {True: "yes", False: "no"}.get(target["met"], plain.DASH)
    if target["met"] is not None and own is not None and run["best"] != own["rung"]:
        best: Document = next((rung for rung in run["rungs"] if rung["rung"] == run["best"]), {})
        said = plain.speedup(run["speedup"], verdict=best.get("verdict") or Verdict.NONE)
        met += f", {said} `{cell(run['best'])}`"
    rival = plain.DASH
    if own is not None and other is not None:
        ratio = by_class.against(other, own)
        rival = f"{plain.speedup(ratio.speedup, ratio.low, ratio.high, verdict=ratio.verdict)} `{cell(other['rung'])}`"
    against = plain.DASH
    if own is not None:
        against = plain.speedup(own["speedup"], own["low"], own["high"], verdict=own["verdict"] or Verdict.NONE)
    base = next((rung for rung in run["rungs"] if rung["rung"] == BASELINE), None)
    against += _at_fast_host(base, own) if own else ""
    peaks = [rung["peak_bytes"] for rung in (base, own) if rung is not None and rung["peak_bytes"]]
    return [
        f"`{cell(target['target'])}`",
        target["goal"],
        f"`{cell(own['rung'])}`" if own else plain.DASH,
        against if run["state"] == State.OK else run["state"],
        rival,
        plain.percent(own["sol"]) if own else plain.DASH,
        plain.saved(peaks[0] / peaks[1]) if len(peaks) == 2 else plain.DASH,
        _range(predicted) if predicted else plain.DASH,
        met,
    ]


def _range(predicted: Document) -> str:
    also = f", {plain.factors(predicted['memory'])} less memory" if predicted["memory"] else ""
    return f"{plain.factors(predicted['speedup'])}{also} on {cell(predicted['on'])}"


def _run_lines(run: Document) -> list[str]:
    timings = sorted({rung["timing"] for rung in run["rungs"] if rung["median_ms"] is not None})
    said = [f"Case `{cell(run['case'])}`", *(f"timed {timing}" for timing in timings)]
    said += [f"times {run['validity']}"] if run["validity"] != "valid" else []
    said += [f"policy {run['policy']}"] if run["policy"] != "strict" else []
    told = f"{', '.join(said)}; run {cell(run['run_id'])}, {cell(run['wall'][:10])}"
    if run["state"] == State.CHANGED:
        return [f"{told}: {run['state']}, {CHANGED_REASON}."]
    predicted = any(rung.get("expect") for rung in run["rungs"])
    rows = [
        [
            f"`{cell(rung['rung'])}`",
            plain.milliseconds(rung["median_ms"], rung["low_ms"], rung["high_ms"]),
            plain.speedup(rung["speedup"], rung["low"], rung["high"]),
            plain.percent(rung["sol"]),
            *([_expected(rung)] if predicted else []),
            _limiter(rung),
            plain.size(rung["peak_bytes"]),
            _verdict(rung),
            cell(rung["summary"]),
        ]
        for rung in run["rungs"]
    ]
    heads = ["rung", "ms [95 %]", "speed-up [95 %]", "of light", "limiter", "peak memory", "verdict", "what it changes"]
    if predicted:
        heads.insert(heads.index("limiter"), "predicted ms, limiter")
    return [f"{told}.", "", *table_lines(heads, rows)]


def _expected(rung: Document) -> str:
    if not (expect := rung.get("expect")):
        return plain.DASH
    ends = "..".join(plain.number(end, 3) for end in expect["ms"] or [])
    words = {True: " met", False: " missed", None: ""}
    parts = [(ends, expect["met"].get("ms")), (expect["limiter"], expect["met"].get("limiter"))]
    return ", ".join(f"{text}{words[met]}" for text, met in parts if text)


def _judged(rungs: Sequence[Document]) -> list[str]:
    """How many of the predicted times and limiters of rungs were met; nothing where none was predicted."""
    predicted = [rung["expect"] for rung in rungs if rung.get("expect")]
    met = [one["met"] for one in predicted]
    widths = [one["ms"][1] / one["ms"][0] for one in predicted if one["ms"]]
    times, limiters = ([one[key] for one in met if key in one] for key in ("ms", "limiter"))
    if not met:
        return []
    return [
        f"Of {len(times)} times that were predicted of a rung {sum(times)} lay in its range,"
        f" and {sum(limiters)} of {len(limiters)} limiters."
        + (f" The middle range ends at {statistics.median(widths):.2f} times its lower end." if widths else ""),
        "",
    ]


def _classes(targets: Sequence[Document]) -> list[str]:
    """What own rungs came to by what limits them, and the lessons without an opponent; nothing where none counts."""
    if not (every := by_class.lessons(targets)):
        return []
    rows = []
    for kind in (*dict.fromkeys(by_class.CLASSES.values()), ""):
        if not (some := [one for one in every if one.kind == kind or not kind]):
            continue
        opponents = [one.opponent for one in some if one.opponent]
        lights = [one.light for one in some if one.light is not None]
        cells = [kind or "all", plain.count(len(some)), *_summed([one.baseline for one in some])]
        cells += [plain.count(len(opponents)), *_summed(opponents)]
        rows.append([*cells, plain.percent(statistics.median(lights) if lights else None)])
    alone = ", ".join(f"`{cell(one.target)}`" for one in every if one.opponent is None)
    absent = ", ".join(
        f"`{cell(rung['rung'])}` of `{cell(target['target'])}`"
        for target in targets
        for rung in target["runs"][0]["rungs"]
        if rung["state"] == State.UNAVAILABLE
    )
    return [
        "Own rungs by what limits them: geometric means with 95 % intervals, verdicts, and the median share of light.",
        "",
        *table_lines(CLASS_HEADS, rows),
        "",
        "Lessons about memory, null results and refusals are not counted."
        + (f" No opponent ran in {alone}." if alone else "")
        + (f" Unavailable were {absent}." if absent else ""),
        "",
    ]


def _summed(chosen: Sequence[Counted]) -> list[str]:
    score, counts = by_class.summed(chosen)
    return [plain.speedup(score.geometric_mean, score.low, score.high), ", ".join(map(plain.count, counts))]


def _limiter(rung: Document) -> str:
    """What limits it; for the host also what a launch costs there, and the time with a host of 5 µs, derived."""
    if rung["limiter"] != Limiter.HOST or rung["median_ms"] is None:
        return rung["limiter"] or plain.DASH
    eager_ms = rung.get("launch_eager_ms")
    if not eager_ms:
        return f"host: {plain.DASH} a launch"
    launch = plain.quantity(eager_ms / 1e3, "s")
    return f"host: {launch} a launch, {plain.milliseconds(rung['fast_host_ms'])} ms with 5 {plain.micro()}"


def _at_fast_host(base: Document | None, own: by_class.Rung) -> str:
    """The speed-up with a host of 5 µs a launch, derived; "" where the host limits neither, or its price is unknown."""
    pair = [rung for rung in (base, own) if rung is not None]
    times = [rung.get("fast_host_ms") or rung["median_ms"] for rung in pair]
    if len(pair) < 2 or None in times or not any(rung.get("fast_host_ms") for rung in pair):
        return ""
    return f", {plain.speedup(times[0] / times[1])} with a 5 {plain.micro()} host"


def _verdict(rung: Document) -> str:
    if rung["state"] != State.OK:
        return f"{rung['state']}: {cell(rung['note'])}" if rung["note"] else rung["state"]
    if rung["verdict"] in (None, "none"):
        return cell(rung["note"]) or plain.DASH
    return ", ".join(filter(None, (str(rung["verdict"]), cell(rung.get("judged") or ""))))


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown; what stands in its cells was made fit for one."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def cell(text: str) -> str:
    """Text that stays in its cell."""
    return clean_line(str(text), limit=400).replace("|", "\\|")
