"""A run as one shows it to somebody: on one line, as Markdown for a pull request, as a picture, a page or a package.

Markdown and the page begin with the one line (`store.results.telling`). All that came from outside is cleaned, and
escaped for the form that it goes into. No Textual and no click; what reads the store belongs into a thread.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from aisp.engine.stored import environment, marked, marks_of
from aisp.store.outcomes import FindingStatus
from aisp.store.results import busy, hardware, outcome, repeating, telling, trust
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.earlier import foreign_machine
from aisp.tui.results import timing_words

if TYPE_CHECKING:
    from aisp.store import History
    from aisp.store.record import Arm
    from aisp.store.samples import Samples

MOST_RUNGS = 8  # rows of a table in Markdown: what is pasted into a pull request must stay short
SHORT_HASH = 12
# What Markdown acts upon; an underscore within a word and a bracket without a link behind it are plain.
_MARKUP = re.compile(r"[\\`*<>|#]|(?<![^\W_])_|_(?![^\W_])|\](?=[\[(])")
_CHECKS: Mapping[FindingStatus, str] = {
    FindingStatus.CAUGHT: "caught",
    FindingStatus.SUSPECT: "suspect",
    FindingStatus.UNAVAILABLE: "without an answer",
    FindingStatus.PASSED: "passed",
    FindingStatus.NOT_APPLICABLE: "not applicable",
}


@dataclass(frozen=True, slots=True)
class Shared:
    """A run with all that is told of it.

    Attributes:
        facts: what it ran on; empty where that was not kept.
        samples: by rung, of those whose figures may be shown.
        seal: the hash over the record and what it left; "" where there is none.
        foreign: the machine that it was imported from; "" for one of this machine.
    """

    run: Reading
    facts: Mapping[str, object] = field(default_factory=dict)
    samples: Mapping[str, Samples] = field(default_factory=dict)
    seal: str = ""
    foreign: str = ""

    @property
    def machine(self) -> str:
        """ "H100 · gpu-box": the model, and the host where that is known."""
        return hardware.machine(self.run.record.device, self.facts)

    @property
    def processes(self) -> int:
        """In how many fresh processes samples were taken."""
        return max((taken.processes for taken in self.samples.values()), default=0)


def read(history: History, run_id: str) -> Shared:
    """All that is told of a stored run. Raises LookupError, StoreError, ContradictionError."""
    kept = history.kept(run_id)
    record = history.run(str(kept.rows.run["id"]))
    run = marked(record, marks_of(history))
    taken = {rung: some for rung, some in history.samples(record.id).items() if run.bar(rung) is None}
    return Shared(run, environment(history, record), taken, kept.rows.sealed or "", foreign_machine(history, record))


def line(shared: Shared) -> str:
    return telling.line(shared.run, shared.facts, shared.processes)


def timed_what(shared: Shared) -> str:
    """The case with its shapes, how often, and when."""
    record = shared.run.record
    axes = record.manifest.get("axes")
    shapes = ", ".join(f"{name}={size}" for name, size in axes.items()) if isinstance(axes, Mapping) else ""
    parts = [f"case {record.case or plain.DASH}{f' ({shapes})' if shapes else ''}", f"on {record.device}"]
    parts += [shared.run.mode, plain.local_time(record.wall)]
    return clean_line(", ".join(parts))


def ran_on(shared: Shared) -> list[tuple[str, str]]:
    """What it ran on, as labels and values; a dash for what is not known."""
    facts, record = shared.facts, shared.run.record
    given = facts.get("versions")
    versions = {**(given if isinstance(given, Mapping) else {}), "cuda": facts.get("cuda")}
    clocks = sorted({plain.megahertz(arm.sm_clock_mhz) for arm in record.arms if arm.sm_clock_mhz is not None})
    found = [("machine", shared.machine), ("GPU", facts.get("gpu")), ("driver", facts.get("driver"))]
    found += [("CPU", facts.get("cpu")), ("SM clock", f"{', '.join(clocks)} MHz" if clocks else "")]
    found += [("versions", ", ".join(f"{name} {value}" for name, value in versions.items() if value))]
    held = hardware.confined(facts)
    found += [("processes", held)] if held else []
    flags = ", ".join(record.flags)
    found += [("flags", flags)] if flags else []
    return [(label, clean_line(str(value or "")) or plain.DASH) for label, value in found]


def checks(shared: Shared) -> str:
    """How many checks came to what, and which did not pass."""
    said = trust.by_check(shared.run.record.findings)
    if not said:
        return "no check was asked"
    told = ", ".join(f"{count} {_CHECKS[status]}" for status, count in trust.counts(said.values()).items() if count)
    named = [f"{one.check} {_CHECKS[one.status]}" for one in said.values() if one.status in trust.TOLD_FIRST]
    told += f" ({', '.join(named)})" if named else ""
    met = busy.of_run(shared.run.record)
    return clean_line(f"{busy.sentence(met)}; {told}" if met is not None else told, limit=1000)


def hashes(shared: Shared, length: int = 64) -> list[tuple[str, str]]:
    """The hashes that stand for the run, its sources and its environment."""
    record = shared.run.record
    named = (("run", shared.seal), ("sources", record.snapshot), ("environment", record.environment))
    return [(label, value[:length]) for label, value in named if value]


def commit(shared: Shared) -> str:
    return clean_line(str(shared.facts.get("git") or ""))


HEADS = ("rung", "ms [95 %]", "speed-up [95 %]", "of light", "samples", "timed", "verdict")


def rungs(shared: Shared) -> list[list[str]]:
    """A row for each rung, as HEADS names its cells; no figure of one that was caught."""
    run = shared.run
    return [_rung(run, arm) for arm in run.record.arms if not arm.twin]


def _rung(run: Reading, arm: Arm) -> list[str]:
    bar, ended = run.bar(arm.rung), outcome.of(run, arm.rung)
    item, barred = ended.item, ended.bar is not None and not ended.outcome.right
    verdict = ended.bar.sentence if ended.bar and barred else telling.with_reason(ended.word, arm.reason)
    if arm.rung == run.baseline and ended.outcome is outcome.Outcome.RIGHT:
        verdict = "the baseline"
    cells = [
        arm.rung,
        plain.DASH if bar else plain.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms),
        plain.speedup(item.speedup, item.low, item.high) if item is not None else plain.DASH,
        plain.DASH if bar else plain.percent(arm.sol),
        plain.count(arm.sample_count),
        timing_words(arm.timing, arm.calls),
        verdict or plain.DASH,
    ]
    return [clean_line(cell, limit=300) for cell in cells]


def markdown(shared: Shared) -> str:
    every = rungs(shared)
    rows = [[_prose(cell) for cell in row] for row in every[:MOST_RUNGS]]
    more = [f"and {len(every) - MOST_RUNGS} more rungs", ""] if len(every) > MOST_RUNGS else []
    where = ", ".join(f"{label} {value}" for label, value in ran_on(shared) if value != plain.DASH)
    sealed = ", ".join(f"{label} `{value}`" for label, value in hashes(shared, SHORT_HASH))
    record = shared.run.record
    typed, at = repeating.again(record), f" at commit `{commit(shared)[:SHORT_HASH]}`" if commit(shared) else ""
    lines = [
        f"**{_prose(line(shared))}**",
        "",
        f"{_prose(record.title)}: {_prose(timed_what(shared))}.",
        "",
        *(f"| {' | '.join(cells)} |" for cells in (list(HEADS), ["---"] * len(HEADS), *rows)),
        "",
        *more,
        f"- ran on: {_prose(where)}",
        f"- checks: {_prose(checks(shared))}",
        f"- hashes: {sealed or plain.DASH}",
        f"- again: {f'{_code(typed)}{at}' if typed else _prose(repeating.gone(record))}",
        *(["- imported from another machine"] if shared.foreign else []),
    ]
    return "\n".join(lines) + "\n"


def _prose(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def _code(text: str) -> str:
    """Text as code: between more backticks than it has in a row."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if len(fence) > 1 else ""
    return f"{fence}{space}{text}{space}{fence}"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a;
  background: #fff; }
h1 { font-size: 1.25rem; } h2 { font-size: 1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #d9d9d9; vertical-align: top; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { background: #f4f4f1; padding: .7rem; overflow-x: auto; }
svg { max-width: 100%; height: auto; } .muted { color: #6b6b6b; }
"""


def page(shared: Shared) -> str:
    """One HTML file: no script, nothing that is fetched from elsewhere, all that came from outside escaped."""
    from aisp.tui.run_picture import picture  # numpy

    record = shared.run.record
    told = _text(line(shared))
    findings = [
        [found.check, found.arm or "the run", _CHECKS[found.status], found.evidence]
        for status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT, FindingStatus.UNAVAILABLE)
        for found in shared.run.found(status)
    ]
    ran = [[label, value] for label, value in ran_on(shared)]
    sealed = [[label, value] for label, value in hashes(shared)]
    typed = repeating.again(record)
    again = f"{typed}   # at commit {commit(shared)}" if typed and commit(shared) else typed or repeating.gone(record)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_text(record.target)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{told}</h1>",
        f'<p>{_text(record.title)}<br><span class="muted">{_text(timed_what(shared))}</span></p>',
        '<p class="muted">Imported from another machine.</p>' if shared.foreign else "",
        picture(shared, titled=False),
        "<h2>Rungs</h2>",
        _table(HEADS, rungs(shared)),
        "<h2>Checks</h2>",
        f"<p>{_text(checks(shared))}</p>",
        _table(("check", "of", "said", "evidence"), findings) if findings else "",
        "<h2>Ran on</h2>",
        _table((), ran),
        "<h2>Hashes</h2>",
        _table((), sealed),
        "<h2>Again</h2>",
        f"<pre>{_text(again)}</pre>",
        f'<p class="muted">Written by aisp {_text(made_by())}.</p>',
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _text(text: str) -> str:
    return html.escape(clean_line(text, limit=4000))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = f"<tr>{''.join(f'<th>{_text(cell)}</th>' for cell in heads)}</tr>" if heads else ""
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{head}{body}</table>"


def made_by() -> str:
    try:
        return version("aisp")
    except PackageNotFoundError:  # a checkout that was not installed
        return ""


def _picture(history: History, run_id: str) -> str:
    from aisp.tui.run_picture import picture  # numpy

    return picture(read(history, run_id))


def _package(history: History, run_id: str) -> str:
    from aisp.store import packages  # numpy

    return packages.write(history, run_id, made_by())


def _kernelbench(history: History, run_id: str) -> str:
    from aisp.store.results import kernelbench

    shared = read(history, run_id)
    stats = {
        rung: {name: float(getattr(times_ms, name)()) for name in ("mean", "std", "min", "max")}
        | {"num_trials": len(times_ms)}
        for rung, taken in shared.samples.items()
        if len(times_ms := taken.kept_ms)
    }
    return plain.json_document(kernelbench.document(shared.run, stats, shared.machine)) + "\n"


def _traces(history: History, run_id: str) -> str:
    from aisp.store.results import traces  # reads sources by their syntax trees

    shared = read(history, run_id)
    record = shared.run.record
    try:
        sources = history.snapshot(record.snapshot) if record.snapshot else {}
    except LookupError:  # they were not kept
        sources = {}
    rows = traces.lines(shared.run, traces.asked(shared.run, sources), shared.facts)
    return "".join(f"{json.dumps(row, allow_nan=False)}\n" for row in rows)


def _smaller(history: History, run_id: str) -> str:
    from aisp.store.results import dashboards

    shared = read(history, run_id)
    return json.dumps(dashboards.smaller_is_better(shared.run, shared.machine), indent=1, allow_nan=False) + "\n"


FORMS: Mapping[str, tuple[str, Callable[[History, str], str]]] = {
    "md": ("Markdown, to paste into a pull request", lambda history, run_id: markdown(read(history, run_id))),
    "html": ("a page with plot, checks and machine, in one file", lambda history, run_id: page(read(history, run_id))),
    "svg": ("a picture of samples and distribution", _picture),
    "json": ("a package that another aisp imports: record, sources, samples", _package),
    "kernelbench": ("its rungs as samples of KernelBench's eval_results.json", _kernelbench),
    "trace": ("its rungs as Trace lines of FlashInfer-Bench or SOL-ExecBench", _traces),
    "smaller-is-better": ("its times as customSmallerIsBetter data, for dashboards of CI", _smaller),
}
"""What a run can be written as: what that is, and what writes it. All raise LookupError for no such run."""


ENDINGS = {"kernelbench": "eval_results.json", "trace": "jsonl", "smaller-is-better": "bench.json"}
"""How a file's name ends where that is not the form's own name."""


def file_name(target: str, run_id: str, form: str) -> str:
    """A name for the file: "ch07-transpose-01jz0000.md"."""
    stem = "".join(sign if sign.isalnum() or sign in "_." else "-" for sign in target) or "run"
    return f"{stem}-{run_id[-8:].lower()}.{ENDINGS.get(form, form)}"
