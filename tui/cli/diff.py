"""`aisp diff`: how two rungs differ, or what two runs ran, or what a run ran and what stands there now.

What the app's diff screen shows, for a pipe and for a pager: unified, or side by side.
"""

from __future__ import annotations

import difflib
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aisp.kernels.catalog.model import Role, Target
from aisp.store.text import clean, clean_line
from aisp.tui import plain
from aisp.tui.cli import common, resolve
from aisp.tui.cli.tree import MeantError
from aisp.tui.widgets.alignment import Row, align, hunks_of, split_lines

if TYPE_CHECKING:
    from aisp.store.record import Run

NOW = "now"
MAX_FILE_CHARACTERS = 2**20
MOST_BLANK = 2
SIDE_BY_SIDE_COLUMNS = 120
"""Of the two halves where no terminal says how wide it is."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a diff.

    Attributes:
        at: "now", or the run whose sources these are.
        files: the sources of the target by name, as text.
        only: the one file that is meant; "" for all of them.
        kind: "run", or "commit" where `at` is one.
    """

    at: str
    files: Mapping[str, str]
    only: str = ""
    kind: str = "run"

    def label(self, name: str) -> str:
        """A file of it, as a head of the diff shows it."""
        return f"{clean_line(os.fsencode(name))} ({self.at if self.at == NOW else f'{self.kind} {self.at}'})"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two files that are compared; a text is None where the file is not on that side."""

    left: str
    right: str
    before: list[str] | None
    after: list[str] | None

    @property
    def same(self) -> bool:
        """Whether there is nothing to show."""
        return self.before == self.after


@click.command()
@click.argument("wanted", metavar="TARGET|RUN", shell_complete=common.complete_targets_and_runs)
@click.argument("left", metavar="[LEFT]", default="", shell_complete=common.complete_rungs_and_runs)
@click.argument("right", metavar="[RIGHT]", default="", shell_complete=common.complete_rungs_and_runs)
@click.option("--side-by-side", "-y", is_flag=True, help="Two columns instead of a unified diff.")
@click.option(
    "--context",
    "-U",
    type=click.IntRange(0),
    default=3,
    show_default=True,
    metavar="N",
    help="Equal lines around a change.",
)
@common.root_option
@common.json_option
def command(
    wanted: str, left: str, right: str, side_by_side: bool, context: int, roots: tuple[str, ...], as_json: bool
) -> None:
    """Show how LEFT and RIGHT of TARGET differ: rungs or other files of its folder, or runs.

    Of a rung or a file its text as it stands is meant, of a run all that it ran, and "now" is the folder as it stands.
    Without them the baseline is compared with the optimized rung, with LEFT alone the baseline with that rung, or that
    run with now. A rung beside a run is that rung now and as it ran. `aisp diff RUN [RUN]` needs no target: the run
    knows its folder; where that is gone, its baseline is compared with its optimized rung, as they ran.

    On a terminal $PAGER shows it, in a pipe it is plain text.

    Exit status: 0, whether or not they differ; 2 no such target, rung or run; 3 the store cannot be read.
    """
    target, one, other = sides(resolve.target_or_run(wanted, roots), left, right, roots)
    pairs = list(compared(one, other))
    if as_json:
        common.say_document(_as_json(target, one, other, pairs, context))
        return
    width = common.terminal_width()
    if side_by_side:
        text = "\n\n".join("\n".join(columns(pair, context, width or SIDE_BY_SIDE_COLUMNS)) for pair in pairs)
    else:
        text = "\n".join(line for pair in pairs for line in unified(pair, context))
    if not pairs:
        common.note(f"no difference between {_named(one)} and {_named(other)}")
    elif width is None:
        common.say(text)
    else:
        os.environ.setdefault("LESS", "FRX")  # less leaves a short text on the screen, and lets colours through
        click.echo_via_pager(coloured(text, side_by_side=side_by_side) + "\n", color=True)


def sides(found: Target | Run, left: str, right: str, roots: Sequence[str] = ()) -> tuple[str, Side, Side]:
    """The id of the target that is meant, by itself or by its run, and both sides. MeantError, or click.UsageError,
    where a word means nothing."""
    if not isinstance(found, Target):
        if right:
            raise click.UsageError("two runs at most; put the target before them: aisp diff TARGET LEFT RIGHT")
        record, one = of_run(found.id)
        if left and left != NOW:
            return record.target, one, of_run(left)[1]
        try:
            return record.target, one, now(resolve.of_run(record, roots))
        except MeantError as error:
            if error.kind != "unknown":
                raise
            return record.target, *_within(record, one, left)
    if not left:
        left, right = found.pair()
    elif not right:
        # One word is compared with what it came from: a rung with the baseline, a run with what stands there now.
        rungs = {rung.name for rung in found.rungs}
        left, right = found.pair(left) if left in rungs else (left, NOW)
    one, other = _side(found, left), _side(found, right)
    if bool(one.only) != bool(other.only):
        name = one.only or other.only
        one, other = Side(one.at, one.files, name), Side(other.at, other.files, name)
    return found.id, one, other


def now(target: Target, only: str = "") -> Side:
    """The target's sources as they stand."""
    from aisp.kernels.catalog import read_sources

    return Side(NOW, {name: _text(data) for name, data in read_sources(target).items()}, only)


def _within(record: Run, ran: Side, left: str) -> tuple[Side, Side]:
    """The baseline of a run and its other rung, as they ran: nothing stands there now to compare them with."""
    from aisp.kernels.catalog.loader import rungs_among  # with the catalogue

    where = clean_line(record.folder, limit=4096)
    rungs = rungs_among(tuple(ran.files))
    other = next((name for name, role in rungs.items() if role is not Role.BASELINE), "")
    if left == NOW or "baseline" not in rungs or not other:
        raise click.UsageError(f"{where} is not on this machine, so nothing stands there now; name two runs")
    common.note(f"{where} is not on this machine; this is what the run ran")
    return Side(ran.at, ran.files, "baseline.py"), Side(ran.at, ran.files, f"{other}.py")


def of_run(word: str) -> tuple[Run, Side]:
    """The record and the sources of a stored run. click.UsageError where there is none."""
    with common.history() as opened:
        record = opened.run(word)
        if not record.snapshot:
            raise click.UsageError(f"run {record.id} kept no sources")
        files = opened.snapshot(record.snapshot)
    return record, Side(record.id, {name: _text(data) for name, data in files.items()})


def _side(target: Target, word: str) -> Side:
    if word == NOW:
        return now(target)
    names = {rung.name: rung.path.name for rung in target.rungs} | {name: name for name in target.files}
    if word in names:
        return now(target, names[word])
    try:
        return of_run(word)[1]
    except click.UsageError:
        if resolve.begins_a_run(word):
            raise
        rungs = [rung.name for rung in target.rungs]
        has = f"{target.id} has {', '.join(rungs)}"
        raise common.unknown(f"no rung, file or run {word!r}", word, [*rungs, *target.files], has, most=3) from None


def _text(data: bytes) -> str:
    return clean(data, limit=MAX_FILE_CHARACTERS)


def _named(side: Side) -> str:
    return side.label(side.only or "sources")


def compared(one: Side, other: Side) -> Iterator[Pair]:
    """The files that differ."""
    names = [(one.only, other.only)] if one.only else [(name, name) for name in sorted({*one.files, *other.files})]
    for first, second in names:
        before, after = one.files.get(first), other.files.get(second)
        if before is None and after is None:
            raise MeantError(f"neither {one.label(first)} nor {other.label(second)} is there", sorted(one.files))
        # Two rungs of one file have blank lines in the place of each other; elsewhere hardly any stand together.
        lines_of = split_lines if first == second else _compact
        pair = Pair(
            one.label(first),
            other.label(second),
            None if before is None else lines_of(before),
            None if after is None else lines_of(after),
        )
        if not pair.same:
            yield pair


def _compact(text: str) -> list[str]:
    """The lines of a text, of blank ones in a row the first MOST_BLANK."""
    groups = itertools.groupby(split_lines(text), key=lambda line: not line.strip())
    return [line for blank, lines in groups for line in itertools.islice(lines, MOST_BLANK if blank else None)]


def unified(pair: Pair, context: int) -> list[str]:
    """A pair as `diff -u` writes it."""
    left = pair.left if pair.before is not None else f"/dev/null ({pair.left} is not there)"
    right = pair.right if pair.after is not None else f"/dev/null ({pair.right} is not there)"
    return list(difflib.unified_diff(pair.before or [], pair.after or [], left, right, n=context, lineterm=""))


def columns(pair: Pair, context: int, width: int) -> list[str]:
    """A pair side by side in `width` cells: < and > where a line is on one side alone, | where both differ."""
    room = max(10, (width - 3) // 2)
    before, after = pair.before or [], pair.after or []
    rows = align(before, after)

    def cell(lines: Sequence[str], number: int) -> str:
        text = plain.fit(lines[number].expandtabs(4), room) if number >= 0 else ""
        return text + " " * (room - plain.cells(text))

    def line(row: Row) -> str:
        sign = " " if row.equal else "<" if row.right < 0 else ">" if row.left < 0 else "|"
        return f"{cell(before, row.left)} {sign} {cell(after, row.right)}".rstrip()

    heads = [plain.fit(name, room) for name in (pair.left, pair.right)]
    found = [f"{heads[0]}{' ' * (room - plain.cells(heads[0]))}   {heads[1]}"]
    shown = -1
    for first, end in hunks_of(rows):
        start = max(shown + 1, first - context)
        if start > shown + 1 or shown < 0:
            found.append("")
        stop = min(len(rows), end + context)
        found += [line(row) for row in rows[start:stop]]
        shown = stop - 1
    return found


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def coloured(text: str, *, side_by_side: bool) -> str:
    """The same with colours; the signs stay. NO_COLOR and TERM=dumb leave it plain."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or side_by_side:
        return text
    found = []
    for line in text.split("\n"):
        head, colour = line.startswith(("--- ", "+++ ")), _COLOURS.get(line[:1])
        styled = click.style(line, bold=True) if head else click.style(line, fg=colour) if colour else line
        found.append(styled)
    return "\n".join(found)


def _as_json(target: str, one: Side, other: Side, pairs: Sequence[Pair], context: int) -> dict[str, Any]:

    def counted(pair: Pair) -> dict[str, Any]:
        lines = unified(pair, context)
        signs = Counter(line[0] for line in lines[2:])
        head = {"left": pair.left, "right": pair.right}
        return {**head, "removed": signs["-"], "added": signs["+"], "diff": "\n".join(lines)}

    return {
        "target": target,
        "left": {"at": one.at, "file": one.only or None},
        "right": {"at": other.at, "file": other.only or None},
        "files": [counted(pair) for pair in pairs],
    }
