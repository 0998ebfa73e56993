"""`aisp`: everything that the app can do, for scripts and plain terminals.

`TREE` is the one table of commands: name, module, one line of help. A command's module is imported when the
command is used and not before, so that `aisp --help` and `aisp bench list-targets` answer at once.

What is done all day (`EVERY_DAY`) stands under `aisp` itself as well as under `aisp bench`: one declaration, two
places.

Exit statuses: 0 good, 1 the answer is no, 2 wrong usage, 3 could not be done here, 130 left by Ctrl-C, 141
the reader of our output went away. Results go to stdout, progress and errors to stderr; with --json an error is an
object on stdout too. People never see a traceback of ours: what was not foreseen is written to `crash.log` in the
state directory and told in one line; AISP_DEBUG=1 shows it.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import click

from aisp.tui import plain

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_GOOD = 0
EXIT_NO = 1
EXIT_USAGE = 2
EXIT_NOT_HERE = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

SCHEMA = 1
"""Of every JSON document but a run's, which counts its own (`engine.documents`); docs/commands.md says what changed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: where it stands as "module:attribute", the commands below it, or both; and one line about it."""

    summary: str
    at: str = ""
    below: Mapping[str, Entry] = field(default_factory=dict)


EVERY_DAY = ("run", "watch", "history", "diff", "compare", "jobs", "cancel", "open", "export")
"""Commands below `bench` that stand beside it too, where there is one of that name."""

_GROUPED: Mapping[str, Entry] = {
    "bench": Entry(
        "Measure, compare and list targets.",
        below={
            "list-targets": Entry("List targets with their last results.", "aisp.tui.cli.list_targets:command"),
            "run": Entry("Check and time targets, live.", "aisp.tui.cli.run:command"),
            "judge": Entry(
                "Check and time one Python file: reference, baseline, optimized.", "aisp.tui.cli.judge:command"
            ),
            "tune": Entry("Search the launch parameters of a rung.", "aisp.tui.cli.tune:command"),
            "watch": Entry("Check and time a target again after each save.", "aisp.tui.cli.watch:command"),
            "open": Entry("Open the app on a target or a run.", "aisp.tui.cli.open:command"),
            "diff": Entry("Show how two rungs, or two runs' sources, differ.", "aisp.tui.cli.diff:command"),
            "jobs": Entry("List what is queued or under way, and for how long.", "aisp.tui.cli.jobs:jobs"),
            "cancel": Entry("End jobs that are queued or under way.", "aisp.tui.cli.jobs:cancel"),
            "compare": Entry("Put two stored runs side by side.", "aisp.tui.cli.compare:command"),
            "history": Entry("Show a target's earlier runs.", "aisp.tui.cli.history:command"),
            "bisect": Entry("Find the edit that made a rung slower.", "aisp.tui.cli.bisect:command"),
            "expectations": Entry(
                "Show what was predicted beside what was measured.", "aisp.tui.cli.expectations:command"
            ),
            "lessons": Entry("Show all lessons beside what was predicted of them.", "aisp.tui.cli.lessons:command"),
            "suite": Entry(
                "Put many targets' results together; measure a suite and hold it against earlier ones.",
                "aisp.tui.cli.suite:command",
                below={
                    "list": Entry("List the suites that there are.", "aisp.tui.cli.suite_history:listing"),
                    "run": Entry("Measure a suite: is anything slower than before?", "aisp.tui.cli.suite_run:command"),
                    "compare": Entry(
                        "Put two runs of suites side by side, of other machines too.",
                        "aisp.tui.cli.suite_compare:command",
                    ),
                    "history": Entry("Show the runs of a suite.", "aisp.tui.cli.suite_history:command"),
                },
            ),
            "run-tier1": Entry("Measure the suite tier1: `suite run tier1`.", "aisp.tui.cli.suite_run:tier1"),
            "results": Entry("Write a page of all results on one kind of hardware.", "aisp.tui.cli.results:command"),
            "export": Entry("Write a run for somebody else.", "aisp.tui.cli.export:export"),
            "import": Entry("Take in a run of another machine.", "aisp.tui.cli.export:import_"),
            "peak": Entry("Measure what this GPU can do at most.", "aisp.tui.cli.peak:command"),
            "roofline": Entry("Show a target's rungs under the GPU's ceilings.", "aisp.tui.cli.roofline:command"),
            "checks": Entry("List what is checked, and what each check said last.", "aisp.tui.cli.checks:command"),
            "audit": Entry("Run every cheat and its honest twin through the engine.", "aisp.tui.cli.audit:command"),
            "fuzz": Entry("Try rungs on many drawn cases against the fp64 reference.", "aisp.tui.cli.fuzz:command"),
            "lint": Entry("Ask whether a target's task could be passed carelessly.", "aisp.tui.cli.lint:command"),
            "replay": Entry("Do a stored failing case again, byte for byte.", "aisp.tui.cli.replay:command"),
            "selftest": Entry("Try the statistics on streams whose truth is known.", "aisp.tui.cli.selftest:command"),
        },
    ),
    "serve": Entry("Answer programs over HTTP, on this machine, with a token.", "aisp.tui.cli.serve:command"),
    "fleet": Entry(
        "Judge many candidates over the GPUs of a Ray cluster.",
        below={
            "run": Entry("Judge every candidate in a folder, each on one GPU.", "aisp.tui.cli.fleet:run"),
            "status": Entry("Show how many candidates wait and how many have ended.", "aisp.tui.cli.fleet:status"),
            "agents": Entry("Show who of a cluster takes rows, and why others do not.", "aisp.tui.cli.fleet:agents"),
        },
    ),
    "restore": Entry("Write an earlier version of a target's sources back.", "aisp.tui.cli.restore:command"),
    "engine": Entry(
        "Start, stop and ask the background process that measures.",
        below={
            "start": Entry("Start the engine, if none runs.", "aisp.tui.cli.engine:start"),
            "status": Entry("Show what the engine is doing.", "aisp.tui.cli.engine:status"),
            "stop": Entry("Stop the engine and wait until it is gone.", "aisp.tui.cli.engine:stop"),
            "logs": Entry("Show the engine's own log.", "aisp.tui.cli.engine:logs"),
        },
    ),
    "mcp": Entry("Serve agents over the Model Context Protocol.", "aisp.tui.cli.mcp:command"),
    "doctor": Entry("Check this machine and say how to fix what is not right.", "aisp.tui.cli.doctor:command"),
    "schema": Entry("Print the JSON Schema of a run's record.", "aisp.tui.cli.schema:command"),
    "new": Entry("Make a new target that runs, to start from.", "aisp.tui.cli.new:command"),
    "contract": Entry(
        "Say what a run must keep to count, and whether one does.",
        below={
            "new": Entry("Write a commented contract to start from.", "aisp.tui.cli.contract:new"),
            "check": Entry(
                "Say whether a run keeps a contract, and which lines it breaks.", "aisp.tui.cli.contract:check"
            ),
            "diff": Entry("Show in which keys two contracts differ.", "aisp.tui.cli.contract:diff"),
        },
    ),
    "completion": Entry(
        "Print what makes a shell complete commands, targets, rungs and runs.", "aisp.tui.cli.completion:command"
    ),
    "store": Entry(
        "Look at the database of results, examine it and keep copies.",
        below={
            "info": Entry("Show where results are kept and how many.", "aisp.tui.cli.store:info"),
            "verify": Entry("Compare everything stored with the hash written with it.", "aisp.tui.cli.store:verify"),
            "backup": Entry("Copy the store while it is in use.", "aisp.tui.cli.store:backup"),
            "restore": Entry("Put a backup into the place of the store.", "aisp.tui.cli.store:restore"),
            "vacuum": Entry("Rewrite the store without unused room.", "aisp.tui.cli.store:vacuum"),
        },
    ),
}

_BENCH = _GROUPED["bench"].below
TREE: Mapping[str, Entry] = {**{name: _BENCH[name] for name in EVERY_DAY if name in _BENCH}, **_GROUPED}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used; help shows the table's summaries instead."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the table's order."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name; None where there is none."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        if entry.below and entry.at:
            return GroupWithOwn(cmd_name, entry=entry)
        if entry.below:
            return LazyGroup(cmd_name, entries=entry.below, help=entry.summary, short_help=entry.summary)
        return self.load(entry)

    @staticmethod
    def load(entry: Entry) -> click.Command:
        """Import the command itself."""
        module, _, attribute = entry.at.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.summary
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a word, show the help: nothing was asked for that could be wrong."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit(EXIT_GOOD)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names with the table's summaries, and the options; click's own would import every command."""
        from click.shell_completion import CompletionItem  # only where a shell asks

        names = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest names."""
        name = args[0]
        if name not in self.entries and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, self.entries, n=2, cutoff=0.5)
            if not near and name in (deeper := {word: group for group in TREE for word in TREE[group].below}):
                near = [f"{deeper[name]} {name}"]
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self.entries)}"
            raise MeantError(f"no command {name!r}; {hint}", near, ctx=ctx)
        return super().resolve_command(ctx, args)


class GroupWithOwn(LazyGroup):
    """A group that is a command as well: words that do not begin with the name of a command below are its own."""

    def __init__(self, *args: Any, entry: Entry, **kwargs: Any) -> None:
        super().__init__(*args, entries=entry.below, help=entry.summary, short_help=entry.summary, **kwargs)
        self._entry = entry

    @property
    def own(self) -> click.Command:
        """The command itself. Its help ends with those below."""
        command = self.load(self._entry)
        room = max(map(len, self.entries))
        below = (f"  {name:<{room}}  {entry.summary}" for name, entry in self.entries.items())
        command.epilog = "\n".join(["\b", "Commands:", *below])
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Of the group where a command below is named, or a shell asks what could be; else of its own command."""
        if args[0] in self.entries if args else extra.get("resilient_parsing"):
            return super().make_context(info_name, args, parent, **extra)
        return self.own.make_context(info_name, args, parent, **extra)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names below, and what the own command takes."""
        own = self.own
        arguments = [parameter for parameter in own.params if isinstance(parameter, click.Argument)]
        return [
            *(item for item in super().shell_complete(ctx, incomplete) if item.value in self.entries),
            *own.shell_complete(ctx, incomplete),
            *(item for argument in arguments for item in argument.shell_complete(ctx, incomplete)),
        ]


class Polite(click.Command):
    """The one place where exceptions become messages and exit statuses; both programs are of this class."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever it raises ends as one line on stderr and a documented status."""
        # Rich terminals only: NO_COLOR (any value but empty) and TERM=dumb leave plain text.
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            ctx.color = False
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except UnwritableError as error:
            raise _unwritable(error) from None
        except BrokenPipeError:
            _mute()
            ctx.exit(EXIT_BROKEN_PIPE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("\naisp: interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except Exception as error:
            if os.environ.get("AISP_DEBUG"):
                raise
            raise _told(error) from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as a program. Messages are cleaned before they are shown: they may quote a path or a kernel."""
        if not standalone_mode:
            return super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        try:
            status = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except BrokenPipeError:  # the reader of --help or --version
            _mute()
            sys.exit(EXIT_BROKEN_PIPE)
        except (click.ClickException, UnwritableError) as error:
            told = _unwritable(error) if isinstance(error, UnwritableError) else error
            asked = told is error and json_asked(sys.argv[1:] if args is None else args)
            for say in (_print_json, _show) if asked else (_show,):
                try:
                    say(told)
                except OSError:  # it takes nothing either: the status says it
                    _mute()
            sys.exit(told.exit_code)
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        sys.exit(status if isinstance(status, int) else EXIT_GOOD)


class Root(Polite, LazyGroup):
    """`aisp` itself."""


class MeantError(click.UsageError):
    """A word that means nothing, or too much: exit status 2.

    Attributes:
        near: words that would work in its place; empty where none comes near.
        kind: "unknown", "ambiguous", or "broken" for what is there and does not load.
    """

    def __init__(
        self, message: str, near: Sequence[str] = (), *, kind: str = "unknown", ctx: click.Context | None = None
    ) -> None:
        super().__init__(message, ctx)
        self.near = tuple(near)
        self.kind = kind


class NotHereError(click.ClickException):
    """What was asked for cannot be done on this machine or at this time: exit status 3."""

    exit_code = EXIT_NOT_HERE
    kind: ClassVar[str] = "not_here"


class AnswerNoError(click.ClickException):
    """There is nothing to show: exit status 1."""

    exit_code = EXIT_NO
    kind: ClassVar[str] = "no"


class UnwritableError(OSError):
    """stdout takes nothing: it is closed, or its disk is full."""


class _Stdout(io.FileIO):
    """stdout, whose errors are told from those of any other file. A reader that went away is no error of ours."""

    def write(self, data: Any, /) -> int:
        """Raises BrokenPipeError, and UnwritableError for all else."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UnwritableError(error.errno, error.strerror) from None


def _unwritable(error: UnwritableError) -> NotHereError:
    _mute()
    return NotHereError(f"cannot write to stdout: {error.strerror}; give it a place that can be written")


def _told(error: Exception) -> click.ClickException:
    """The message for an exception that a command did not handle."""
    # engine.client costs 50 ms to import: only where something went wrong, and only if a command used it
    # already.
    client = sys.modules.get("aisp.engine.client")
    paths = sys.modules.get("aisp.engine.paths")
    if client is not None and isinstance(error, client.EngineUnavailableError):
        return NotHereError(str(error))
    if paths is not None and isinstance(error, paths.UnsafePathError):
        return NotHereError(str(error))
    import traceback  # only where something went wrong

    place = "AISP_DEBUG=1 shows where"
    with contextlib.suppress(Exception):
        from aisp.engine.paths import state_dir  # makes the state directory, which a crash of --help need not

        log = state_dir() / "crash.log"
        log.write_text("".join(traceback.format_exception(error)), "utf-8", "backslashreplace")
        place = f"the traceback is in {log}"
    kind = type(error).__name__
    if isinstance(error, ImportError):
        from aisp.engine.start import import_failure

        return NotHereError(f"{import_failure(error)}; {place}")
    if isinstance(error, OSError):
        return NotHereError(f"{error} ({kind}); {place}")
    return NotHereError(f"this is a mistake in aisp itself: {kind}: {error}; {place}")


def json_asked(args: Sequence[str]) -> bool:
    """Whether these arguments ask for JSON; before they are parsed, since what is wrong with them is told so too."""
    args = list(args)
    return "--json" in (args[: args.index("--")] if "--" in args else args)


def error_document(error: click.ClickException) -> dict[str, Any]:
    """An error for programs; the schema is in docs/commands.md."""
    kind = getattr(error, "kind", "usage" if isinstance(error, click.UsageError) else "not_here")
    told = {"kind": kind, "text": error.format_message(), "try": list(getattr(error, "near", ()))}
    return {"schema": SCHEMA, "error": told}


def _print_json(error: click.ClickException) -> None:
    from aisp.tui.plain import json_line  # one line, which fits behind lines that were printed before it

    click.echo(json_line(error_document(error)))
    sys.stdout.flush()


def _show(error: click.ClickException) -> None:
    from aisp.store.text import clean  # a message may quote anything

    ctx = getattr(error, "ctx", None)
    if isinstance(error, click.UsageError) and ctx is not None:
        click.echo(ctx.get_usage(), err=True)
    click.echo(f"aisp: {clean(error.format_message())}", err=True)
    if isinstance(error, click.UsageError) and ctx is not None:
        click.echo(f"`{ctx.command_path} --help` shows how it is used", err=True)


def _mute() -> None:
    """Send what is still buffered nowhere, so that the interpreter's exit does not complain about the
    pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
            # Only a stream that cannot be flushed is redirected: stderr may be a good terminal still.
            try:
                stream.flush()
            except OSError:
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def tolerant_streams() -> None:
    """Where the terminal's encoding lacks a character, print its escape instead of failing.

    A standard stream that is closed is opened again, so that no file of ours gets its number: nothing can be written
    to stdout then, and what is written to stderr goes nowhere.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  for as long as this process lives
    given = sys.stdout
    raw = _Stdout(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), getattr(given, "encoding", "utf-8"), line_buffering=raw.isatty()
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    plain.ascii_only("utf" not in str(sys.stdout.encoding).lower())


@click.command(cls=Root, entries=TREE, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aisp", message="aisp %(version)s")
def cli() -> None:
    """A terminal workbench for people who make GPU code fast, and that cannot be fooled.

    `aisp-tui` opens the app. Every command here has --json, a meaning for its exit status (0 good, 1 the
    answer is no, 2 wrong usage, 3 could not be done here) and its progress on stderr.
    """


def main() -> NoReturn:
    """Entry point of `aisp`."""
    tolerant_streams()
    os.umask(os.umask(0o077) & 0o077)  # one that shuts us out of what we write would leave a store that nobody can read
    if "_AISP_COMPLETE" in os.environ:  # click's name for it
        import aisp.tui.cli.completion  # noqa: F401  how a shell is answered
    cli.main(prog_name="aisp")
    raise AssertionError("click's main ends the process")
