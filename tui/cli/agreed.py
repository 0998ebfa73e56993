"""What `aisp dev expectations` says of a GPU: what lies below a least speed-up, what is no longer as it was agreed to
be, and new ranges to agree to. The rules are in store.results.expected, the files in kernels.catalog.expected.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from aisp.kernels.catalog import expected as files
from aisp.kernels.catalog import sources
from aisp.kernels.catalog.expected import Agreed, AgreedTarget, Scope
from aisp.store.given import regular_bytes, write_whole
from aisp.store.results import expected, hardware, suite
from aisp.store.results.expected import GAINS, Answered, HeldTarget, Met, Part, Sighting
from aisp.store.results.prediction import LOOK_BACK_RUNS, PORTABLE
from aisp.store.results.tables import documents, printed
from aisp.store.results.tables.agreed import HELD, LEAST, Least
from aisp.store.text import clean, clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_NO, NotHereError

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Catalog, Target
    from aisp.store.record import Run
    from aisp.tui.cli.results import Document
    from aisp.tui.cli.stored import Opened

MOST_OF_A_DIFF = 10_000_000
"""Characters; a difference is agreed to whole, and so shown whole."""

MOST_NAMED = 3
"""Targets that one warning names."""


# -- where runs come from ----------------------------------------------------------------------------------------------


class Known(Protocol):
    """Runs that may answer: those of the store, or of documents that were kept."""

    def newest(self, targets: Sequence[Target]) -> str:
        """The hardware of the newest full run, "" without one."""

    def answer(self, target: Target, meant: str, *, exactly: bool = False) -> Answered:
        """The run that answers for a target on the hardware meant; `exactly`: called this and nothing else."""

    def sightings(self, target: Target, meant: str, *, accept_portable: bool) -> list[Sighting]:
        """The runs that ranges may be made of, newest first; on any GPU where `meant` is ""."""


@dataclass(frozen=True, slots=True)
class OfStore:
    """The runs of the store."""

    opened: Opened
    _runs: dict[str, list[Run]] = field(default_factory=dict)

    def newest(self, targets: Sequence[Target]) -> str:
        by_id = {target.id: target for target in targets}
        for run in self.opened.newest(LOOK_BACK_RUNS, all_findings=False):
            if (target := by_id.get(run.target)) is not None:
                full = suite.full_runs([run], self.opened.read, self.opened.facts, on_host=target.on_host)
                if full:
                    return full[0].names[0]
        return ""

    def answer(self, target: Target, meant: str, *, exactly: bool = False) -> Answered:
        runs = [run for run in self._of(target) if not exactly or self._names(run, target)[0] == meant]
        marked = self._marked(target)
        return expected.answering(runs, target, meant, self.opened.read, self.opened.facts, quarantined=marked)

    def sightings(self, target: Target, meant: str, *, accept_portable: bool) -> list[Sighting]:
        if self._marked(target):
            return []
        return [
            expected.of_run(self.opened.read(run), self.opened.facts(run), target)
            for run in self._of(target)
            if expected.counts(run, target, accept_portable=accept_portable)
            and (
                hardware.is_meant(meant, self._names(run, target))
                if meant
                else target.on_host or run.device.startswith("cuda")
            )
        ]

    def _of(self, target: Target) -> list[Run]:
        if target.id not in self._runs:
            self._runs[target.id] = self.opened.newest(LOOK_BACK_RUNS, target.id, all_findings=False)
        return self._runs[target.id]

    def _names(self, run: Run, target: Target) -> list[str]:
        return hardware.names(run.device, self.opened.facts(run), on_host=target.on_host)

    def _marked(self, target: Target) -> bool:
        return bool(self.opened.marks.in_force(bytes(target.folder)))


@dataclass(frozen=True, slots=True)
class OfDocuments:
    """The runs of documents that `aisp dev results --json` gave, a sitting each."""

    documents: Sequence[Document]

    def newest(self, targets: Sequence[Target]) -> str:
        return str(self.documents[0]["on"] or "")

    def answer(self, target: Target, meant: str, *, exactly: bool = False) -> Answered:
        from aisp.tui.cli.results import kept  # with the documents

        there = [one for one in self.documents if not exactly or one["on"] == meant]
        found = [kept(one, target) for one in there if hardware.is_meant(meant, [str(one["on"] or "")])]
        return max(found, key=lambda one: one.seen.run_id if one.seen else "", default=Answered())

    def sightings(self, target: Target, meant: str, *, accept_portable: bool) -> list[Sighting]:
        from aisp.tui.cli.results import kept

        there = [one for one in self.documents if not meant or hardware.is_meant(meant, [str(one["on"] or "")])]
        found = [kept(one, target, accept_portable=accept_portable) for one in there]
        seen = [one.seen for one in found if one.met is Met.MET and one.seen is not None]
        return sorted(seen, key=lambda one: one.run_id, reverse=True)


def meant_hardware(known: Known, targets: Sequence[Target], asked: str | None) -> str:
    """The hardware that was asked for, else the newest run's; NotHereError where there is none."""
    found = asked or known.newest(targets)
    if not found:
        raise NotHereError("no full run is stored, so that no hardware can be meant; give --hardware NAME")
    return found


# -- below a least speed-up --------------------------------------------------------------------------------------------


def least(known: Known, targets: Sequence[Target], meant: str, speedup: float) -> list[Least]:
    """Each target's best speed-up on that hardware beside the least one."""
    found = []
    for target in targets:
        answered = known.answer(target, meant)
        best = answered.seen.best.speedup if answered.met is Met.MET and answered.seen is not None else None
        found.append(Least(target, answered, best is not None and best < speedup and target.goal in GAINS))
    return found


def least_lines(found: Sequence[Least], meant: str, speedup: float, *, width: int | None) -> list[str]:
    """What lies below, and how many targets were asked."""
    below = [one for one in found if one.below]
    counts = Counter(one.answered.met for one in found)
    others = sum(one.target.goal not in GAINS for one in found if one.answered.met is Met.MET)
    asked = counts.pop(Met.MET, 0) - others
    told = f"{len(below)} of {plain.counted(asked, 'target')} below {speedup:g}x on {clean_line(meant)}"
    left = [f"{count} {met.value}" for met, count in counts.items()]
    left += [f"{others} not about a gain of time"] if others else []
    told += f"; not asked: {', '.join(left)}" if left else ""
    return [*plain.listing(LEAST, below, width=width), "", told] if below else [told]


# -- held against what was agreed to -----------------------------------------------------------------------------------


def hold(
    known: Known, targets: Sequence[Target], meant: str, found: Sequence[Agreed], scopes: Collection[Scope]
) -> list[tuple[Agreed, list[HeldTarget]]]:
    """Each file that speaks of the hardware meant, with what its targets came to there."""
    held: list[tuple[Agreed, list[HeldTarget]]] = []
    for one in found:
        if one.scope in scopes and (one.scope is Scope.PORTABLE or hardware.is_meant(meant, [one.hardware])):
            there = [target for target in targets if target.id in one.targets]
            answers = [known.answer(each, one.hardware or meant, exactly=bool(one.hardware)) for each in there]
            both = zip(there, answers, strict=True)
            held.append((one, [expected.hold(each, one.scope, one.targets[each.id], said) for each, said in both]))
    return held


def held_lines(found: Sequence[tuple[Agreed, list[HeldTarget]]], *, width: int | None) -> list[str]:
    """What is not as agreed to, with what else changed; and what everything came to."""
    lines: list[str] = []
    for one, targets in found:
        rows = []
        for held in targets:
            for rung in held.rungs:
                if rung.met.missed or rung.met is Met.UNDECIDED:
                    figures = [*map(_figure, rung.apart), *([rung.note] if rung.note else [])]
                    rows.append((held.target, rung.rung, rung.met.value, "; ".join(figures)))
            if held.order is not None and held.order.met.missed:
                pairs = ", ".join(f"{slow} before {fast}" for fast, slow in held.order.broken)
                rows.append((held.target, "order", held.order.met.value, pairs))
        lines += [*plain.listing(MISSED, rows, width=width), ""] if rows else []
        for held in targets:
            if held.met.missed and held.differs:
                causes = ", ".join(f"{d.what} {d.a} then, {d.b or 'unknown'} now" for d in held.differs)
                lines.append(clean_line(f"{held.target}: look at first: {causes}"))
        apart = [held for held in targets if held.met is Met.APART and held.rungs]
        lines += common.by_reason((held.target, f"not comparable, {held.rungs[0].note}") for held in apart)
        counts = Counter(rung.met.value for held in targets for rung in held.rungs)
        told = ", ".join(f"{count} {word}" for word, count in counts.items()) or "no target of it was asked for"
        about = f" on {one.hardware}" if one.hardware else ""
        lines.append(clean_line(f"{one.scope}{about} ({one.path.name}), rungs: {told}"))
    return lines


MISSED = (
    printed("target", itemgetter(0)),
    printed("rung", itemgetter(1)),
    printed("as agreed", itemgetter(2)),
    printed("measured [low..high], agreed", itemgetter(3), shrink=True),
)


def _figure(part: Part) -> str:
    if isinstance(part.agreed, str):
        return f"{part.what} {part.measured or plain.DASH}, {part.agreed}"
    value = part.measured if isinstance(part.measured, float) else None
    low, high = (plain.number(end, 3) for end in part.agreed)
    return f"{part.what} {plain.number(value, 3)}{plain.bounds(part.low, part.high, 3)}, {low}..{high}"


def held_json(found: Sequence[tuple[Agreed, list[HeldTarget]]], meant: str) -> dict[str, Any]:
    return {
        "hardware": meant,
        "files": [
            {
                "file": str(one.path),
                "scope": one.scope,
                "hardware": one.hardware or None,
                "targets": documents(HELD, targets),
            }
            for one, targets in found
        ],
    }


def read_files(roots: Sequence[str], catalog: Catalog | None) -> list[Agreed]:
    """The files of these collections; what is wrong with any is told on stderr, and with a catalogue, which targets
    they name that are not there."""
    found, problems = files.load([Path(root).absolute() for root in roots] or None)
    common.warn(problems)
    if catalog is None:
        return found
    there = {*catalog.ids, *catalog.broken}
    for one in found:
        if gone := [name for name in one.targets if name not in there]:
            more = f" and {len(gone) - MOST_NAMED} more" if len(gone) > MOST_NAMED else ""
            told = f"there is no such target (any more): {', '.join(gone[:MOST_NAMED])}{more}"
            common.warn([f"{one.path}: {told}; `aisp dev expectations --refresh` takes them out"])
    return found


# -- new ranges to agree to --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a refresh would write.

    Attributes:
        before: the file as it is, "" where there is none.
        now: what it says, and without a file an empty one.
        targets: new ranges, by target, where they are not what the file says.
        gone: targets of the file that are not there any more.
        silent: why other targets bring nothing, by target.
    """

    before: str
    now: Agreed
    targets: Mapping[str, AgreedTarget]
    gone: tuple[str, ...]
    silent: Mapping[str, str]

    @property
    def changes(self) -> list[str]:
        """Targets that would be written or taken out."""
        return [*self.targets, *self.gone]

    def taking(self, names: Iterable[str]) -> Agreed:
        """The file with these changes."""
        told = dict(self.now.targets)
        for name in names:
            if name in self.gone:
                told.pop(name, None)
            else:
                told[name] = self.targets[name]
        return replace(self.now, targets=told)


def refresh(
    known: Known,
    catalog: Catalog,
    targets: Sequence[Target],
    asked: str | None,
    *,
    scope: Scope,
    roots: Sequence[str],
    into: Path | None,
    accept_portable: bool,
) -> Fresh:
    """New ranges out of these runs, beside what the file says.

    Raises:
        UsageError: several models of hardware are meant, or the file is another's, or cannot be read.
        NotHereError: nothing says which hardware is meant.
    """
    meant = "" if scope is Scope.PORTABLE and asked is None else meant_hardware(known, targets, asked)
    seen = {target.id: known.sightings(target, meant, accept_portable=accept_portable) for target in targets}
    models = sorted({one.on for runs in seen.values() for one in runs})
    if scope is Scope.STRICT and len(models) > 1:
        raise click.UsageError(f"{meant} means {' and '.join(models)}; give one's whole name")
    name = models[0] if scope is Scope.STRICT and models else ""
    before, now = _present(scope, name or meant, roots, into)
    fresh = {key: _made(scope, runs) for key, runs in seen.items() if runs}
    whole = {target.id for target in targets} == set(catalog.ids)
    return Fresh(
        before,
        now,
        {key: made for key, made in fresh.items() if now.targets.get(key) != made},
        tuple(sorted(now.targets.keys() - {*catalog.ids, *catalog.broken})) if whole else (),
        {target.id: _why(known, target, meant) for target in targets if not seen[target.id]},
    )


def _made(scope: Scope, runs: Sequence[Sighting]) -> AgreedTarget:
    if scope is Scope.STRICT:
        return expected.strict(expected.sittings(runs))
    models = dict.fromkeys(one.on for one in runs)
    return expected.portable([expected.sittings([one for one in runs if one.on == model]) for model in models])


def _why(known: Known, target: Target, meant: str) -> str:
    met = known.answer(target, meant).met if meant else Met.NOTHING
    if met is Met.PORTABLE:
        return f"its run has the policy {PORTABLE}; --accept-portable takes it"
    return "no full run that counts" if met is Met.MET else met.value


def _present(scope: Scope, name: str, roots: Sequence[str], into: Path | None) -> tuple[str, Agreed]:
    """The file that speaks of this hardware, or would, as text and read."""
    given = [Path(root).absolute() for root in roots] or None
    slug = "portable" if scope is Scope.PORTABLE else re.sub(r"\W", "_", hardware.short(name).lower())
    path = into or next(
        (one.path for one in files.load(given)[0] if one.scope is scope and one.hardware in ("", name)),
        files.folders(given)[0] / f"{slug}.toml",
    )
    try:
        before = _text(path)
    except FileNotFoundError:
        return "", Agreed(scope, "" if scope is Scope.PORTABLE else name, {}, path)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from None
    now, problems = files.parse(path, before)
    common.warn(problems)
    if now is None:
        raise click.UsageError(f"{path} is no file of expectations; move it away, or give --out FILE")
    if now.scope is not scope or (scope is Scope.STRICT and now.hardware != name):
        told = f"speaks of {now.hardware or 'any GPU'}, not of {name or 'any GPU'}"
        raise click.UsageError(f"{path} {told}; give --out FILE with another name")
    return before, now


def _text(path: Path) -> str:
    return regular_bytes(path, sources.MAX_FILE_BYTES, follow=True).decode("utf-8")


def difference(before: str, after: str, path: Path) -> str:
    """What a change of the file comes to, as a unified diff; "" where it is none."""
    import difflib  # only for a refresh

    told = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(path), f"{path} (new)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in told)


def agree(fresh: Fresh, *, yes: bool, as_json: bool) -> list[str] | None:
    """The changes that a person agrees to, each shown before it is asked for; all of them with --yes. None where nobody
    can be asked."""
    if yes:
        return fresh.changes
    if as_json or not sys.stdin.isatty():
        return None
    taken: list[str] = []
    for place, name in enumerate(fresh.changes):
        shown = difference(files.text(fresh.taking(taken)), files.text(fresh.taking([*taken, name])), fresh.now.path)
        common.say(clean(shown, limit=MOST_OF_A_DIFF))
        word = click.prompt(
            f"Agree to {clean_line(name)}? (yes, no, all, quit)",
            type=click.Choice(["y", "n", "a", "q"]),
            show_choices=False,
            err=True,
        )
        if word == "a":
            return [*taken, *fresh.changes[place:]]
        if word == "q":
            break
        taken += [name] if word == "y" else []
    return taken


def write(fresh: Fresh, taken: Sequence[str]) -> None:
    """Write what was agreed to, whole or not at all. NotHereError where it cannot be, or the file changed meanwhile."""
    path = fresh.now.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = _text(path) if path.exists() else ""
        if there != fresh.before:
            raise NotHereError(f"{path} has changed meanwhile; nothing was written, ask again")
        write_whole(path, files.text(fresh.taking(taken)).encode())
    except OSError as error:
        raise NotHereError(common.cannot("written", path, error)) from None


def tell_refresh(fresh: Fresh, scope: Scope, *, yes: bool, as_json: bool) -> int:
    """Show what a refresh comes to, have it agreed to, write it; the exit status."""
    path = fresh.now.path
    shown = difference(fresh.before, files.text(fresh.taking(fresh.changes)), path) if fresh.changes else ""
    interactive = not yes and not as_json and sys.stdin.isatty()
    if not as_json:
        if shown and not interactive:
            common.say(clean(shown, limit=MOST_OF_A_DIFF).rstrip("\n"))
        for target, why in fresh.silent.items():
            common.note(f"{target}: {why}")
    taken = agree(fresh, yes=yes, as_json=as_json) if fresh.changes else []
    if taken:
        write(fresh, taken)
    if as_json:
        common.say_document(
            {
                "scope": scope,
                "hardware": fresh.now.hardware or None,
                "file": str(path),
                "changed": list(fresh.targets),
                "removed": list(fresh.gone),
                "left_out": [{"target": target, "reason": why} for target, why in fresh.silent.items()],
                "diff": shown,
                "written": bool(taken),
            }
        )
    elif taken:
        common.say(f"{plain.counted(len(taken), 'target')} written into {common.path_text(path)}")
    elif not fresh.changes:
        common.note("nothing changes" if fresh.now.targets else "no run that counts; `aisp run all` makes some")
    elif interactive:
        common.note("nothing was agreed to, and nothing written")
    else:
        common.note("nothing was written; --yes agrees to all")
    if not fresh.changes:
        return 0 if fresh.now.targets else EXIT_NO
    return 0 if taken else EXIT_NO
