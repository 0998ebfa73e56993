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
from contextlib import AbstractContextManager
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
    from aisp.kernels.catalog.model import Catalog
    from aisp.store.candidates import Candidates
    from aisp.store.results.reading import Reading
    from aisp.tui.cli.stored import Opened

Function = TypeVar("Function", bound=Callable[..., Any])


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; docs/commands/json.md has its keys.")
again_option = click.option(
    "--again", is_flag=True, help="Queue it though the same is queued or under way; by default that is followed."
)
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

device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Where to run; auto takes a GPU if there is one.",
)
hardware_option = click.option(
    "--on", "hardware", metavar="NAME", help="Hardware whose runs count (H100, CPU); that of the newest full run else."
)
roots_option = click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True),
    help="Look for targets there instead of among the shipped ones. Repeatable.",
)
root_option = click.option("--root", "roots", multiple=True, type=click.Path(exists=True), hidden=True)
"""`--root PATH` where TARGET may be a path itself: goes on to work."""

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
    return f"workers are started, which takes seconds, and not forked: {why}"


def joined(what: str, job: str) -> None:
    """Say that what was asked for is on its way already."""
    note(f"{what}: already queued: following it ({job}); --again queues one more")


def selectors_argument(function: Function) -> Function:
    """TARGET..., as the argument `selectors`; `--targets A,B`, which it was before, goes on to work."""

    def together(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        return (*(ctx.params.pop("targets_option", None) or ()), *(value or ()))

    old = click.option("--targets", "targets_option", multiple=True, metavar="ID[,ID...]", hidden=True, is_eager=True)
    argument = click.argument(
        "selectors", metavar="[TARGET]...", nargs=-1, callback=together, shell_complete=complete_groups
    )
    return old(argument(function))


def load_catalog(roots: Sequence[str]) -> Catalog:
    """The catalogue of `roots`, the shipped one if empty. What could not be loaded is told on stderr."""
    from aisp.kernels.catalog import load  # parses every lesson: only for commands that need targets

    # Absolute, but links stay as they were named: the name of the folder is part of the targets' ids.
    catalog = load([Path(root).absolute() for root in roots] or None)
    warn(catalog.problems)
    return catalog


def meant_error(error: TargetError) -> MeantError:
    """What the catalogue says of a word, as wrong usage."""
    return MeantError(str(error), error.near, kind=error.kind)


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

rungs_option = click.option(
    "--rungs",
    metavar="A,B",
    help="Rungs to run beside the baseline; all honest ones by default.",
    shell_complete=complete_rungs,
)
target_argument = click.argument("target_id", metavar="TARGET", shell_complete=complete_targets)


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
    tell(f"\r\x1b[K{text}" if Progress().live else text)


async def connect_from_now() -> Connection:
    """See `client.connect_from_now`; what is waited for is said on stderr."""
    from aisp.engine import client  # asyncio and msgspec, 50 ms

    return await client.connect_from_now(say_waiting)


def history() -> AbstractContextManager[Opened]:
    """The store, open for reading; see `stored.history`."""
    from aisp.tui.cli import stored  # the store: only where an earlier run is asked for

    return stored.history()


def candidates() -> Candidates:
    """The table of candidates of this machine's state folder."""
    from aisp.engine import filesystem, paths  # here and below: only where something is judged against a target
    from aisp.store.candidates import Candidates

    return Candidates(paths.candidates_file(), wal=not filesystem.network(paths.state_dir()))


def mark(run: Reading) -> Mapping[str, object]:
    """Put the marks of earlier runs on a run that has just ended: the engine tells of an end when it is stored. What it
    ran on; empty where it cannot be read, or was not kept."""
    from aisp.engine import paths  # here and below: the store, only where there is a run to tell of
    from aisp.store.errors import StoreError
    from aisp.tui.stored import Stored

    try:
        with Stored(paths.database_file()) as opened:
            with contextlib.suppress(LookupError):
                run.quarantined = opened.read(opened.run(run.id)).quarantined
            return opened.facts(run.record)
    except StoreError as error:
        warn([f"whether a rung is in quarantine cannot be read: {error}"])
        return {}


def confirmed(does: str, what: str, question: str, *, yes: bool, as_json: bool) -> bool:
    """Whether a person agrees to what is about to be overwritten. Wrong usage where nobody can be asked."""
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise click.UsageError(f"this {does}; give --yes where nobody can be asked")
    tell(what)
    return click.confirm(question, err=True)


def terminal_width() -> int | None:
    """Cells that a line on stdout may take; None where it is not a terminal, so that nothing is cut in a
    file."""
    if not sys.stdout.isatty():
        return None
    columns = shutil.get_terminal_size((80, 24)).columns
    return columns if columns >= 20 else 80  # a terminal that says 0 or 1 does not know its size


def by_reason(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """A line per reason, with the targets that have it; of pairs of target and reason."""
    found: dict[str, list[str]] = {}
    for target, reason in pairs:
        found.setdefault(clean_line(reason, limit=2000), []).append(clean_line(target))
    return [f"{reason}: {', '.join(targets)}" for reason, targets in found.items()]


def path_text(path: object) -> str:
    """A path for people."""
    return clean_line(os.fsencode(str(path)), limit=4096)


def cannot(done: str, path: object, error: OSError) -> str:
    """That a file cannot be "read" or "written", and why."""
    return f"{path_text(path)} cannot be {done}: {error.strerror or error}"


def say(text: str = "") -> None:
    """Print a result. `text` was cleaned by whoever put foreign words into it."""
    click.echo(text)


def tell(text: str) -> None:
    """Print a line that is clean beside the result, on stderr."""
    click.echo(text, err=True)


def note(sentence: object) -> None:
    """Print a sentence of any words beside the result, on one line of stderr."""
    tell(f"aisp: {clean_line(str(sentence), limit=4096)}")


def warn(problems: Iterable[object]) -> None:
    """Name on stderr what is not as it should be."""
    for problem in problems:
        note(f"warning: {problem}")


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
        raise click.UsageError(f"{file}: a picture's name ends with .png or .svg")
    try:
        draw(file)
    except ModuleNotFoundError:
        raise NotHereError("a picture needs matplotlib; `pip install matplotlib`, or leave --out out") from None
    except OSError as error:
        raise click.UsageError(cannot("written", file, error)) from None


async def running(*, wait: bool = True) -> Connection | None:
    """A connection to the engine that runs; None where none does. With `wait`, not before it takes requests.

    Raises:
        NotHereError: one runs here or on another host, and could not be reached.
        EngineMismatchError: it speaks another protocol version.
    """
    from aisp.engine import lock  # here and below: asyncio and msgspec, only where an engine is asked
    from aisp.engine.client import EngineMismatchError, EngineUnavailableError, connect

    held = lock.holder()
    try:
        return await connect(start=False, wait=wait)
    except EngineMismatchError:
        raise
    except EngineUnavailableError as error:
        none_runs(held, error)
        return None


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
    room. By their names `lines` and `*_lines` are for people; `_as_json`, `*_json` and `*_document` for JSON, and
    docs/commands/json.md has the keys."""
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


def say_result(lines: Iterable[str], outcome: str) -> None:
    """Print a result for people, its outcome (`=> `) in the colour of its verdict or state."""
    for line in lines:
        say_outcome(line, outcome if line.startswith("=> ") else "ok")


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
            note(f"{banner.severity}: {banner.text}" if banner.text else f"over: {known}")

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
