"""What several commands share: options, loading the catalogue, talking to the engine, writing results.

Nothing here imports torch, numpy, textual or the store; the engine's client is imported by those who connect.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aisp.store.text import clean, clean_line
from aisp.tui import plain
from aisp.tui.cli.tree import SCHEMA, MeantError, NotHereError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from aisp.engine.client import Connection
    from aisp.engine.lock import Holder
    from aisp.engine.protocol import events
    from aisp.kernels.catalog import TargetError
    from aisp.kernels.catalog.model import Catalog, Problem
    from aisp.store.results.reading import Reading

Function = TypeVar("Function", bound=Callable[..., Any])


def json_option(function: Function) -> Function:
    """`--json`, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON; docs/commands/json.md has its keys.")(
        function
    )


def again_option(function: Function) -> Function:
    """`--again`."""
    told = "Queue it though the same is queued or under way; by default that is followed."
    return click.option("--again", is_flag=True, help=told)(function)


case_option = click.option(
    "--case", metavar="NAME", help="Which case of the target; the device's timed one by default."
)
quick_option = click.option("--quick", is_flag=True, help="Two replicas and fewer samples; says so in the result.")
patience_option = click.option(
    "--patience",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    help="How long a rung may give no sign of progress; the engine's limits else.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="S", help="Draw the cases of this seed again; else a new one."
)

VERBOSE = "aisp.verbose"


def verbose_option(function: Function) -> Function:
    """`-v`, which `Progress` reads."""

    def note_it(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        ctx.meta[VERBOSE] = value

    told = "Tell each step on stderr, a line each."
    option = click.option("--verbose", "-v", is_flag=True, expose_value=False, callback=note_it, help=told)
    return option(function)


def out_option(name: str, before: str, told: str, **kind: Any) -> Callable[[Function], Function]:
    """`-o`, `--out`, as the argument `name`: what is written, and where. The spelling of the version before, an option
    or a word behind the others, works and is in no help; "" for none."""

    def either(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
        ctx.params[name] = ctx.params.get(name) if value is None else value
        return ctx.params[name]

    def decorate(function: Function) -> Function:
        hidden: dict[str, Any] = {"expose_value": False, "callback": either, **kind}
        if before.startswith("-"):
            function = click.option(*before.split(), f"{name}_before", hidden=True, **hidden)(function)
        elif before:
            function = click.argument(f"{name}_before", metavar="", required=False, **hidden)(function)
        metavar = "FILE" if kind["type"].file_okay else "FOLDER"
        return click.option("--out", "-o", name, metavar=metavar, callback=either, help=told, **kind)(function)

    return decorate


def action(own: Mapping[str, Collection[str]]) -> str:
    """What a command is to do, of `own`: the flag that was given, else the argument, else "". Each has the names of
    the parameters that go with it; what none has goes with all.

    Raises:
        UsageError: two flags were given, or what does not go with the one.
    """
    context = click.get_current_context()
    given = {
        parameter.name: parameter
        for parameter in context.command.params
        if parameter.name
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
        and context.params.get(parameter.name) not in (None, ())
    }
    flags = [name for name in own if isinstance(given.get(name), click.Option)]
    if len(flags) > 1:
        raise click.UsageError(f"{' and '.join(map(_spelled, flags))} are two things to do: give one of them")
    chosen = next((name for name in (*flags, *own) if name in given), "")
    bound = {name for names in own.values() for name in names}
    for name in given:
        if name in bound and name not in own[chosen] and name != chosen:
            others = [_spelled(one) for one, names in own.items() if one and name in names]
            how = f"goes with {' or '.join(others)}" if others else f"does not go with {_spelled(chosen)}"
            raise click.UsageError(f"{_spelled(name)} {how}")
    return chosen


def _spelled(name: str) -> str:
    """A parameter of the command as it is typed."""
    (found,) = (one for one in click.get_current_context().command.params if one.name == name)
    return max(found.opts, key=len) if isinstance(found, click.Option) else found.human_readable_name.strip("[].")


def started(why: str) -> str:
    """That an engine starts its workers, and why it cannot fork them."""
    return clean_line(f"workers are started, which takes seconds, and not forked: {why}")


def joined(what: str, job: str) -> None:
    """Say that what was asked for is on its way already."""
    note(f"aisp: {clean_line(what)}: already queued: following it ({job}); --again queues one more")


def roots_option(function: Function) -> Function:
    """`--root PATH`, repeatable, as the argument `roots`."""
    return click.option(
        "--root",
        "roots",
        multiple=True,
        metavar="PATH",
        type=click.Path(exists=True),
        help="Look for targets there instead of among the shipped ones. Repeatable.",
    )(function)


def root_option(function: Function) -> Function:
    """`--root PATH` where TARGET may be a path itself: hidden, and goes on to work."""
    return click.option("--root", "roots", multiple=True, type=click.Path(exists=True), hidden=True)(function)


def target_argument(function: Function) -> Function:
    """TARGET, as the argument `target_id`."""
    return click.argument("target_id", metavar="TARGET", shell_complete=complete_targets)(function)


def selectors_argument(function: Function) -> Function:
    """TARGET..., as the argument `selectors`; `--targets A,B`, which it was before, goes on to work."""

    def together(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        return (*(ctx.params.pop("targets_option", None) or ()), *(value or ()))

    old = click.option("--targets", "targets_option", multiple=True, metavar="ID[,ID...]", hidden=True, is_eager=True)
    argument = click.argument(
        "selectors", metavar="[TARGET]...", nargs=-1, callback=together, shell_complete=complete_groups
    )
    return old(argument(function))


def device_option(function: Function) -> Function:
    """`--device auto|cuda|cpu`, as the argument `device`."""
    return click.option(
        "--device",
        type=click.Choice(["auto", "cuda", "cpu"]),
        default="auto",
        show_default=True,
        help="Where to run; auto takes a GPU if there is one.",
    )(function)


def load_catalog(roots: Sequence[str]) -> Catalog:
    """The catalogue of `roots`, the shipped one if empty. What could not be loaded is told on stderr."""
    from aisp.kernels.catalog import load  # parses every lesson: only for commands that need targets

    # Absolute, but links stay as they were named: the name of the folder is part of the targets' ids.
    catalog = load([Path(root).absolute() for root in roots] or None)
    warn(catalog.problems)
    return catalog


def warn(problems: Iterable[Problem]) -> None:
    """Name what could not be loaded on stderr."""
    for problem in problems:
        note(f"aisp: warning: {clean_line(str(problem), limit=1000)}")


def meant_error(error: TargetError) -> MeantError:
    """What the catalogue says of a word, as wrong usage."""
    return MeantError(clean_line(str(error), limit=2000), error.near, kind=error.kind)


def _offering(*kinds: str, files: bool = False) -> Callable[..., list[CompletionItem]]:
    """What offers a shell these kinds of words (functions of `completing`), and files where none fits."""

    def offered(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # only where a shell asks

        from aisp.tui.cli import completing

        found = [item for kind in kinds for item in getattr(completing, kind)(ctx, incomplete)]
        return found or [CompletionItem(incomplete, type="file")] * files

    return offered


complete_targets = _offering("targets", files=True)
complete_groups = _offering("groups", files=True)
complete_groups_and_runs = _offering("groups", "runs", files=True)
complete_targets_and_runs = _offering("targets", "runs", files=True)
complete_rungs = _offering("rungs")
complete_runs = _offering("runs")
complete_rungs_and_runs = _offering("rungs", "runs")


def unknown(what: str, word: str, names: Sequence[str], otherwise: str, *, most: int = 2) -> MeantError:
    """Wrong usage: there is no such thing; the names that come nearest, or what else to do."""
    import difflib  # only on the error path

    near = difflib.get_close_matches(word, names, n=most, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise
    return MeantError(f"{what}; {hint}", near)


def engine_roots(roots: Iterable[str | Path]) -> list[str]:
    """`roots` as the engine wants them: absolute. Wrong usage where a name is not UTF-8 and cannot be
    sent."""
    absolute = [str(Path(root).absolute()) for root in roots]
    for root in absolute:
        try:
            root.encode("utf-8")
        except UnicodeEncodeError:
            raise click.UsageError(
                f"the folder's name {clean_line(os.fsencode(root))} is not UTF-8 and cannot be sent to the "
                "engine; rename it, or make a link to it with another name"
            ) from None
    return absolute


def say_waiting(sentence: str) -> None:
    """What a connection waits for, on stderr, in the place of a live line."""
    text = f"aisp: {clean_line(sentence, limit=1000)}"
    note(f"\r\x1b[K{text}" if Progress().live else text)


async def connect_from_now() -> Connection:
    """See `client.connect_from_now`; what is waited for is said on stderr."""
    from aisp.engine import client  # asyncio and msgspec, 50 ms

    return await client.connect_from_now(say_waiting)


def mark(run: Reading) -> None:
    """Put the marks of earlier runs on a run that has just ended: the engine tells of an end when it is stored."""
    from aisp.engine import paths  # here and below: the store, only where there is a run to tell of
    from aisp.store.errors import StoreError
    from aisp.tui.stored import Stored

    try:
        with contextlib.suppress(LookupError), Stored(paths.database_file()) as opened:
            run.quarantined = opened.read(opened.run(run.id)).quarantined
    except StoreError as error:
        note(f"aisp: warning: whether a rung is in quarantine cannot be read: {clean_line(str(error))}")


def facts(run: Reading) -> dict[str, object]:
    """What a run that has just ended ran on; empty where it cannot be read, or was not kept."""
    from aisp.engine import paths
    from aisp.store.errors import StoreError
    from aisp.tui.stored import Stored

    try:
        with Stored(paths.database_file()) as opened:
            return opened.facts(run.record)
    except StoreError:
        return {}


def terminal_width() -> int | None:
    """Cells that a line on stdout may take; None where it is not a terminal, so that nothing is cut in a
    file."""
    if not sys.stdout.isatty():
        return None
    columns = shutil.get_terminal_size((80, 24)).columns
    return columns if columns >= 20 else 80  # a terminal that says 0 or 1 does not know its size


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int | None,
    right: Iterable[str] = (),
    shrink: str = "",
    drop: Sequence[str] = (),
) -> list[str]:
    """A list for a terminal of `width` cells, see `plain.table`; without one, the cells with a tab between."""
    if width is None:
        return ["\t".join(row) for row in (heads, *rows)]
    return plain.table(heads, rows, right=right, width=width, shrink=shrink, drop=drop)


def say(text: str = "") -> None:
    """Print a result. `text` was cleaned by whoever put foreign words into it."""
    click.echo(text)


def note(text: str) -> None:
    """Print something beside the result, on stderr."""
    click.echo(text, err=True)


picture_option = out_option(
    "out", "--png --svg", "Draw it into this .png or .svg file too; needs matplotlib.", type=click.Path(dir_okay=False)
)


def write_picture(file: str, draw: Callable[[str], None]) -> None:
    """Have a picture written into `file`.

    Raises:
        NotHereError: without matplotlib.
        UsageError: the file's name says no form, or it cannot be written.
    """
    if not file.endswith((".png", ".svg")):
        raise click.UsageError(f"{clean_line(file)}: a picture's name ends with .png or .svg")
    try:
        draw(file)
    except ModuleNotFoundError:
        raise NotHereError("a picture needs matplotlib; `pip install matplotlib`, or leave --out out") from None
    except OSError as error:
        raise click.UsageError(f"{clean_line(file)} cannot be written: {error.strerror or error}") from None


def none_runs(held: Holder | None, error: Exception) -> None:
    """Return where there is no engine to reach, `held` having been looked at before.

    Raises:
        NotHereError: one runs here or on another host, and could not be reached.
    """
    if held is None:
        return
    if not held.here:
        raise NotHereError(held.sentence) from None
    raise NotHereError(f"{held.what} runs (pid {held.pid}) and cannot be reached: {error}") from None


def say_document(value: Mapping[str, Any]) -> None:
    """Print one JSON document, with the number of its schema unless it has one of its own."""
    click.echo(plain.json_document({"schema": SCHEMA, **value}))


def say_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of its own, with the number of its schema likewise."""
    click.echo(plain.json_line({"schema": SCHEMA, **value}))


def answer(
    as_json: bool, document: Callable[[], Mapping[str, Any]], lines: Callable[..., Iterable[str]], *told: Any
) -> None:
    """Print the one JSON document that is asked for, or for people the lines about what is told, as wide as there is
    room."""
    if as_json:
        say_document(document())
    else:
        say("\n".join(lines(*told, width=terminal_width())))


_COLOURS = {"faster": "blue", "same": "cyan", "undecided": "yellow", "suspect": "yellow", "right": "", "ok": ""}


def say_outcome(text: str, outcome: str) -> None:
    """Print a line in the colour of its verdict or state. The words say it too: colour is never the only
    sign.

    click takes the colour away where stdout is not a terminal, and for NO_COLOR and TERM=dumb.
    """
    colour = _COLOURS.get(outcome, "red")
    click.echo(click.style(text, fg=colour, bold=True) if colour else text)


def _flat(text: str) -> str:
    """Cleaned and on one line, its double spaces kept."""
    return clean(text).replace("\n", " ").replace("\t", " ")


class Progress:
    """What is going on, on stderr: one line rewritten in place on a terminal, else a line for each thing that ended.
    With `-v` each step is a line as well.

    Drawing is limited to `REDRAW_HZ`, because the stream brings thousands of samples a second.
    """

    REDRAW_HZ = 10

    def __init__(self, *, quiet: bool = False) -> None:
        self.live = not quiet and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.quiet = quiet
        context = click.get_current_context(silent=True)
        self.verbose = context is not None and bool(context.meta.get(VERBOSE)) and not quiet
        self._drawn_at = 0.0
        self._shown = ""
        self._banners: dict[str, str] = {}

    def banner(self, banner: events.Banner) -> None:
        """Say a warning of the engine's, and once that it is over."""
        known = self._banners.pop(banner.key, "")
        if banner.text:
            self._banners[banner.key] = banner.text
        if banner.text or known:
            self.clear()
            note(f"aisp: {banner.severity}: {banner.text}" if banner.text else f"aisp: over: {known}")

    def step(self, text: str) -> None:
        """Tell of something that began or is under way, to those who asked for steps."""
        if self.verbose:
            self.clear()
            click.echo(_flat(text), err=True)

    def ended(self, text: str) -> None:
        """Tell of a target or candidate that came to its end. On a terminal the live line shows it."""
        if not self.live and not self.quiet:
            click.echo(_flat(text), err=True)

    def show(self, text: str, *, now: bool = False) -> None:
        """Rewrite the live line."""
        if not self.live:
            return
        at = time.monotonic()
        if not now and at - self._drawn_at < 1 / self.REDRAW_HZ:
            return
        columns = shutil.get_terminal_size((80, 24)).columns or 80
        line = plain.fit(_flat(text), max(10, columns - 1))
        if line != self._shown:
            self._drawn_at = at
            self._shown = line
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Take the live line away, before something else is printed."""
        if self.live and self._shown:
            self._shown = ""
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
