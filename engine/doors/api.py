"""`aisp.compare` and `aisp.evaluate`: two functions, or a candidate for a target, measured by the engine like any.

    import aisp
    from kernels import fast, slow

    found = aisp.compare(slow, fast, inputs={"x": "float32 [M, N] normal"}, axes={"M": 4096, "N": 4096})
    found.faster, found.speedup, found.interval

Both block until there is a verdict. What comes back holds the record that the store has and the command line prints.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from aisp.engine import paths, written
from aisp.engine.doors import asking, functions
from aisp.engine.doors.asking import Answer, NotHereError, RefusedError
from aisp.engine.protocol import requests
from aisp.kernels import catalog
from aisp.kernels.catalog import choosing, sources
from aisp.kernels.catalog.choosing import TargetError
from aisp.kernels.catalog.loader import rungs_among
from aisp.store.outcomes import Verdict
from aisp.store.results import evidence, numbers, outcome, telling
from aisp.store.results.reading import Reading
from aisp.store.text import clean_line

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target
    from aisp.store.record import Arm, Comparison, Run

__all__ = ["Compared", "NotHereError", "RefusedError", "compare", "evaluate"]

CANDIDATE = "optimized_candidate"
"""The rung that a candidate is, beside the target's own."""
_ENTRIES = (f"{CANDIDATE}.py", "optimized.py", "candidate.py")
"""Which of several Python files of a candidate is the one with `run`."""
_TRUSTED = ("reference.py", "inputs.py", "rule.py", sources.LESSON)
"""What the verifier reads, and no candidate brings."""


@dataclass(frozen=True, slots=True, repr=False)
class Compared:
    """What a run says of one rung against the baseline.

    Attributes:
        answer: the run as it is read, and what it ran on.
        rung: the one that was asked about.
        names: what the rungs were called by whoever asked.
        notes: what was taken for granted, in sentences.
    """

    answer: Answer
    rung: str
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def reading(self) -> Reading:
        """The run as it is read, with all its rungs."""
        return self.answer.reading

    @property
    def record(self) -> Run:
        """The record of the run, as the store has it."""
        return self.reading.record

    @property
    def run_id(self) -> str:
        """The run's id, which `aisp history` and `aisp compare` take."""
        return self.record.id

    @property
    def comparison(self) -> Comparison | None:
        """The comparison that the verdict is of; None where there is none."""
        return _verdict_on(self.reading, self.rung)

    @property
    def verdict(self) -> Verdict:
        """FASTER, SLOWER, SAME or UNDECIDED; NONE where outputs are wrong or times are not to be believed."""
        return outcome.of(self.reading, self.rung).verdict

    @property
    def faster(self) -> bool:
        """Whether it is right, and faster by more than the noise floor."""
        return outcome.of(self.reading, self.rung).faster

    @property
    def why(self) -> str:
        """Why there is no verdict, or what is told beside it; "" for nothing."""
        item = self.comparison
        return self.reading.why(self.rung) if item is None else item.note

    @property
    def speedup(self) -> float | None:
        """Baseline time over its time; None where it has none that may be shown."""
        item = self.comparison
        return None if item is None else item.speedup

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the speed-up."""
        item = self.comparison
        return None if item is None or item.low is None or item.high is None else (item.low, item.high)

    def __repr__(self) -> str:
        return telling.line(self.reading, self.answer.facts, self.answer.processes, rung=self.rung)

    def _repr_html_(self) -> str:
        """A small table for a notebook. All that came from outside is escaped."""
        heads = ("rung", "ms [95 %]", "speed-up [95 %]", "verdict")
        rows = [self._row(arm) for arm in self.record.arms if not arm.twin]
        said = [*([self.why] if self.why else []), *self.notes]
        return "".join(
            [
                f"<div><p><b>{html.escape(repr(self))}</b></p><table><thead><tr>",
                *(f"<th>{html.escape(head)}</th>" for head in heads),
                "</tr></thead><tbody>",
                *(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows),
                "</tbody></table>",
                f"<ul>{''.join(f'<li>{html.escape(clean_line(line, limit=1000))}</li>' for line in said)}</ul>"
                if said
                else "",
                "</div>",
            ]
        )

    def _row(self, arm: Arm) -> list[str]:
        """Cells of one rung; no figure of one that was caught."""
        run, rung, item = self.reading, arm.rung, _verdict_on(self.reading, arm.rung)
        shown = f"{rung}: {self.names[rung]}" if rung in self.names else rung
        times = numbers.DASH if run.bar(rung) else numbers.milliseconds(arm.median_ms, arm.low_ms, arm.high_ms)
        ratio = numbers.DASH if item is None else numbers.speedup(item.speedup, item.low, item.high)
        said = run.why(rung) if item is None else item.verdict.value
        said = "the baseline" if rung == run.baseline else said
        return [clean_line(cell, limit=300) for cell in (shown, times, ratio, said or numbers.DASH)]


def _verdict_on(run: Reading, rung: str) -> Comparison | None:
    """A rung's comparison with the baseline; None without a verdict."""
    ended = outcome.of(run, rung)
    return ended.item if ended.outcome.compared else None


def compare(
    baseline: Callable[..., Any],
    optimized: Callable[..., Any],
    *,
    inputs: functions.Given,
    axes: Mapping[str, int] | None = None,
    outputs: functions.Given | None = None,
    reference: Callable[..., Any] | None = None,
    tolerance: Mapping[str, float] | None = None,
    device: str = "auto",
    quick: bool = False,
    replicas: int = 0,
    again: bool = False,
) -> Compared:
    """Whether `optimized` is right, and faster than `baseline`. Blocks until the engine knows; Ctrl-C cancels the run.

    Functions travel by their source files and names. They must stand at the top level of a file, with all that they
    need in it or installed.

    Args:
        inputs: by parameter, or in their order: a tensor line ("bfloat16 [M, N] normal"), or an example, of which type
            and shape are taken and values are drawn anew.
        axes: sizes of the names in tensor lines.
        outputs: what they return, as tensor lines without a distribution; asked of the truth where left out.
        reference: the truth, run in fp64; `baseline` where left out.
        tolerance: by dtype, relative to the reference's RMS; the house's own where left out.
        device: "auto" (a GPU if there is one), "cuda" or "cpu".
        quick: two replicas and fewer samples.
        replicas: fresh processes for each function; 0 for as many as the mode has.
        again: measure once more, though the same waits or is under way; else that is followed.

    Raises:
        RefusedError: it cannot be measured, and what would work.
        NotHereError: `device` is "cuda" and there is no GPU.
        EngineUnavailableError: no engine could be started, or it went away (aisp.engine.client).
    """
    made = functions.make(
        baseline,
        optimized,
        inputs=inputs,
        axes=axes or {},
        outputs=outputs,
        reference=reference,
        tolerance=tolerance,
        on_host=device == "cpu",
    )
    target = written_target(made.stem, made.name, made.files)
    request = request_of(target, device=device, quick=quick, replicas=replicas, again=again)
    answer = asking.ask(request)
    notes = made.notes
    usual = target.case(answer.reading.record.case or "default").axes
    if dict(usual) != dict(made.axes):
        sizes = ", ".join(f"{name}={size}" for name, size in usual.items())
        notes += (f'there is no GPU here, so the sizes are smaller: {sizes}; device="cpu" keeps those that were given',)
    return Compared(answer, "optimized", made.names, notes)


def evaluate(
    files: Mapping[str, str] | str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    device: str = "auto",
    quick: bool = False,
    replicas: int = 0,
    again: bool = False,
) -> Compared:
    """Whether a candidate is right and faster than the baseline of an existing target. Blocks as `compare` does.

    Args:
        files: the candidate: a Python file with `run(...)`, a folder of sources, or texts by file name. Of several
            Python files the one with `run` is called optimized.py or candidate.py.
        target: an id or a unique name ("ch07:transpose", "transpose"), or the path of a target's folder or file.
        device, quick, replicas, again: as of `compare`.

    Raises:
        RefusedError: there is no such target, the candidate is none, or the target cannot run here.
        NotHereError, EngineUnavailableError: as of `compare`.
    """
    made = beside(target_of(target), candidate(files))
    request = request_of(made, [CANDIDATE], device=device, quick=quick, replicas=replicas, again=again)
    return Compared(asking.ask(request), CANDIDATE, {CANDIDATE: "the candidate"})


def beside(against: Target, theirs: Mapping[str, bytes]) -> Target:
    """A target with the files of a candidate beside its own, written where the engine finds it.

    Raises:
        RefusedError: a file would take the place of the target's own, or what comes of it is no target.
    """
    own = sources.read_sources(against)
    if why := taken(theirs, own):
        raise RefusedError(why)
    return written_target(against.chapter.rpartition("/")[2], against.name, own | dict(theirs))


def taken(theirs: Mapping[str, bytes], own: Mapping[str, bytes]) -> str:
    """Why files of a candidate cannot stand beside a target's own; "" where they can."""
    others = {f"{rung}.py" for rung in rungs_among(tuple(theirs)) if rung != CANDIDATE}
    names = sorted(name for name in theirs if name in own or name in others or name in _TRUSTED)
    return f"{clean_line(names[0])} would take the place of the target's own; give it another name" if names else ""


def request_of(target: Target, rungs: Sequence[str] = (), **options: Any) -> requests.StartRuns:
    """The request for one run of a target that lies in a folder; `options` are those of requests.StartRuns."""
    return requests.StartRuns(seq=0, roots=[str(target.folder)], targets=[target.id], rungs=list(rungs), **options)


def once(target: Target, rung: str, *, device: str = "auto", quick: bool = True) -> Reading:
    """The run of a target that lies in a folder of its own: one that is stored, where a further one could not better
    it, else a new one. Blocks, and raises, as `compare` does."""
    with asking.opened() as store:
        known = asking.known(store, target.id, [rung], quick=quick, device=device)
    if known is not None and evidence.of_run(known, rung).verdict.settled:
        return known
    return asking.ask(request_of(target, [rung], device=device, quick=quick)).reading


def written_target(stem: str, name: str, files: Mapping[str, bytes]) -> Target:
    """The target of these files, in a folder that is named after them. Raises RefusedError where they are none."""
    try:
        return _one(written.keep(paths.judged_dir(), stem, name, files, most=written.JUDGED))
    except written.TakenError as error:
        raise RefusedError(clean_line(str(error), limit=1000)) from None


def _one(path: Path) -> Target:
    """The one target at a path. Raises RefusedError."""
    found = catalog.load([path])
    if len(found.targets) != 1:
        told = [clean_line(str(problem), limit=1000) for problem in found.problems[: functions.MOST_TOLD]]
        raise RefusedError("\n".join(told) or f"{clean_line(str(path))} holds {len(found.targets)} targets; name one")
    return found.targets[0]


def target_of(named: str | os.PathLike[str]) -> Target:
    """The target of an id, a name or a path. Raises RefusedError."""
    if not isinstance(named, str) or choosing.is_path(named) or (os.sep in named and ":" not in named):
        return _one(Path(named).absolute())
    try:
        return catalog.load().find(str(named))
    except TargetError as error:
        raise RefusedError(clean_line(str(error), limit=1000)) from None


def candidate(files: Mapping[str, str] | str | os.PathLike[str]) -> dict[str, bytes]:
    """The files of a candidate, the one with `run` under the name of its rung. Raises RefusedError."""
    found = _texts(files) if isinstance(files, Mapping) else _read(Path(files))
    modules = [name for name in found if name.endswith(".py") and "/" not in name]
    entry = modules[0] if len(modules) == 1 else next((name for name in _ENTRIES if name in modules), "")
    if not entry:
        given = ", ".join(modules) or "none"
        raise RefusedError(f"which Python file has run(...) is not known (there is: {given}); call it candidate.py")
    return {f"{CANDIDATE}.py" if name == entry else name: data for name, data in found.items()}


SOURCE_NAMES = (
    f"use relative names {' '.join(f'*{suffix}' for suffix in sources.SUFFIXES)} of A-Z a-z 0-9 _ + -, "
    f"at most {sources.MAX_SUBFOLDERS - 1} folders deep"
)
"""What `names_source` lets through, as advice."""
_SOURCE_NAME = re.compile(r"[A-Za-z0-9_+./-]+")


def names_source(name: str) -> bool:
    """Whether a file that somebody sends in may be called so: a relative name of plain signs, of our kinds."""
    path = PurePosixPath(name)
    return (
        str(path) == name
        and not path.is_absolute()
        and not any(part.startswith(".") for part in path.parts)
        and path.name.endswith(sources.SUFFIXES)
        and len(path.parts) <= sources.MAX_SUBFOLDERS
        and _SOURCE_NAME.fullmatch(name) is not None
    )


def _texts(files: Mapping[str, str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, text in files.items():
        if not names_source(name):
            raise RefusedError(f"{clean_line(str(name))!r} cannot name a source of a candidate; {SOURCE_NAMES}")
        try:
            found[name] = text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise RefusedError(f"{name}: sign {error.start} is half of a surrogate pair, and no text") from None
    for name, data in found.items():
        if len(data) > sources.MAX_FILE_BYTES:
            raise RefusedError(f"{name} has {len(data):,} bytes; a source has at most {sources.MAX_FILE_BYTES:,}")
    return found


def _read(path: Path) -> dict[str, bytes]:
    """The sources at a path: one file, or a folder without its lesson."""
    try:
        if not path.is_dir():
            return {path.name: sources.read_bytes(str(path.absolute()))}
        listing = sources.list_files(path.absolute())
        if listing.excess is not None:
            raise RefusedError(clean_line(str(listing.excess), limit=1000))
        return {
            name: sources.read_bytes(str(path.absolute() / name)) for name in listing.files if name != sources.LESSON
        }
    except OSError as error:
        raise RefusedError(f"{clean_line(str(path))} cannot be read: {sources.reason(error)}") from None
