"""`aisp`: everything that the app can do, for scripts and plain terminals.

`_TABLE` is the one table of commands: words, module, one line of help, two calls. A command's module is imported when
the command is used and not before, so that `aisp --help` and `aisp list` answer at once. What was typed in the version
before (`OLD`) is put into today's words before anything is parsed.

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

from aisp.store.text import clean
from aisp.tui import plain

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_GOOD = 0
EXIT_NO = 1
EXIT_NOT_HERE = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

SCHEMA = 1
"""Of every JSON document but a run's, which counts its own (`engine.documents`); docs/commands.md says what changed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: one line about it, where it stands as "module:attribute", or the commands below it.

    Attributes:
        section: head in `aisp --help` that it stands below; what has none is documented, and in no help.
        examples: arguments of two calls, for its help.
    """

    summary: str
    at: str = ""
    section: str = ""
    examples: tuple[str, ...] = ()
    below: dict[str, Entry] = field(default_factory=dict)


_TABLE = """
Start here
run | run | Check and time a target | transpose --quick | ch07 --json
watch | watch | Time it after each save | transpose | transpose --device cpu
judge | judge | Check and time solutions | softmax.py --quick | solutions --against ch07:transpose
diff | diff | Show how rungs differ | transpose | transpose baseline optimized -y
restore | restore | Bring an edit back | transpose best | transpose 01JZ0 --yes
list | list_targets | List targets and results | --chapter ch07 | --predictions --sort speed-up
new | new | Make a target of your own | my_kernel | --from ch09:gemm_ladder
open | open | Open the app on a target | transpose | 01JZ0

Results
history | history | Show earlier runs | transpose --limit 5 | 01JZ0 --json
compare | compare | Put two runs side by side | 01JZ0 01JZ1 | 01JZ0 01JZ1 --json
checks | checks | Show what was checked | transpose | --issues
export | export:export | Write a run for others | transpose | 01JZ0 --html -o run.html
import | export:import_ | Take in others' runs | run.json | monday.json tuesday.json
score | suite | Sum up many targets | ch07 | all --on h100
suite | suite_run | Measure many, find slowdowns | smoke --quick | --history smoke

Look deeper
fuzz | fuzz | Try many drawn inputs | transpose --cases 1000 | --replay 01JZ0F0OPTIMIZED
lint | lint | Find what a task lets pass | transpose | transpose --device cpu
tune | tune | Search launch parameters | rows optimized --param BLOCK=64,128 | rows optimized --grid
bisect | bisect | Find the edit that slowed it | rows --good 01A --bad 01B | rows --good 01A --bad 01B --quick
roofline | roofline | Show rungs under the roof | transpose | transpose -o roof.png

This machine
doctor | doctor | Check this machine | | --accept
peak | peak | Measure what the GPU can do | | --stored
jobs | jobs | List, move and end jobs | --up 01JZ0 | --cancel 01JZ0
engine | engine | Show, start, stop the engine | | --stop --when-idle
store | store | Examine and copy the store | --verify | --backup -o copy.db

Programs
serve | serve | Answer programs over HTTP | | --port 8000 --problems traces
mcp | mcp | Serve agents over MCP | | --tools
fleet | fleet | Judge on a Ray cluster | new --against rows | --agents
contract | contract | Say what a run must keep | a.contract.toml 01JZ0 | --new -o mine.contract.toml

Hidden
completion | completion | Complete words in a shell | bash | fish
dev | | Try aisp itself, and keep its lessons
dev audit | audit | Run every cheat and its honest twin through the engine | | timing
dev expectations | expectations | Show what was predicted beside what was measured | ch07 | --refresh --hardware h100
dev results | results | Write a page of all results on one kind of hardware | --on h100 | --on cpu --json
dev schema | schema | Print the JSON Schema of a run's record | | > run.schema.json
dev selftest | selftest | Try the statistics on streams whose truth is known | | --trials 10 --seed 1
"""
"""A line per command: its words, its module (and attribute, else `command`), what it does, and two calls."""


def _tree() -> dict[str, Entry]:
    tree: dict[str, Entry] = {}
    for section in _TABLE.strip().split("\n\n"):
        head, *lines = section.splitlines()
        for line in lines:
            words, at, summary, *examples = (cell.strip() for cell in line.split("|"))
            module, _, attribute = at.partition(":")
            *groups, name = words.split()
            (tree[groups[0]].below if groups else tree)[name] = Entry(
                summary,
                at and f"aisp.tui.cli.{module}:{attribute or 'command'}",
                "" if head == "Hidden" else head,
                tuple(f"aisp {words} {example}".rstrip() for example in examples),
            )
    return tree


TREE = _tree()

_ACTIONS = {
    "contract": ("diff", "new"),
    "engine": ("logs", "start", "stop"),
    "fleet": ("agents",),
    "store": ("backup", "recover", "vacuum", "verify"),
    "suite": ("compare", "history"),
}
"""Words that were commands of a group, and are flags of its one command now."""
_FOLDED: Mapping[str, str] = {
    **{f"{group} {action}": f"{group} --{action}" for group, actions in _ACTIONS.items() for action in actions},
    "cancel": "jobs --cancel",
    "contract check": "contract",
    "engine status": "engine",
    **dict.fromkeys(("fleet run", "fleet status"), "fleet"),
    "lessons": "list --predictions",
    "replay": "fuzz --replay",
    "store info": "store",
    "store restore": "store --recover",
    **dict.fromkeys(("suite list", "suite run"), "suite"),
}

OLD: Mapping[str, str] = {
    "bench": "",
    **{f"bench {name}": name for name in TREE},
    "bench list-targets": "list",
    "bench run-tier1": "suite tier1",
    "bench suite": "score",
    **{f"bench {name}": f"dev {name}" for name in TREE["dev"].below},
    "schema": "dev schema",
    **_FOLDED,
    **{f"bench {old}": new for old, new in _FOLDED.items()},
}
"""Spellings of the version before, which go on to work in this one, and what is typed now."""


def renamed(args: list[str]) -> tuple[int, list[str]]:
    """How many words of an old spelling `args` begin with, and the words in their place."""
    for count in range(min(3, len(args)), 0, -1):
        new = OLD.get(" ".join(args[:count]))
        if new is not None:
            return count, new.split()
    return 0, []


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
        if entry.below:
            return LazyGroup(cmd_name, entries=entry.below, help=entry.summary, short_help=entry.summary)
        module, _, attribute = entry.at.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.short_help = entry.summary
        command.epilog = "\n".join(["\b", "Examples:", *(f"  {example}" for example in entry.examples)])
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

        known = self.entries.items()
        names = [CompletionItem(name, help=entry.summary) for name, entry in known if name.startswith(incomplete)]
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
            near = [f"{group} {name}" for group in TREE if name in TREE[group].below] or near
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self.entries)}"
            raise MeantError(f"no command {name!r}; {hint}", near, ctx=ctx)
        return super().resolve_command(ctx, args)


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

    def main(self, args: Sequence[str] | None = None, *more: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run as a program; a command returns its exit status, None for 0. Messages are cleaned before they are shown:
        they may quote a path or a kernel."""
        run: Any = super().main
        if not standalone_mode:
            return run(args, *more, standalone_mode=False, **extra)
        try:
            status = run(args, *more, standalone_mode=False, **extra)
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
    """`aisp` itself. Its help is one screen of 80 by 24: two commands a line, below the heads of the table."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put what is typed now in the place of an old spelling, and say so."""
        count, new = renamed(args)
        if count and not ctx.resilient_parsing:
            told = " ".join(["aisp", *args[:count]]), " ".join(["aisp", *new])
            click.echo(f"aisp: `{told[0]}` is `{told[1]}` now; the old spelling goes with the next version", err=True)
        return super().parse_args(ctx, [*new, *args[count:]])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below their heads, without importing one."""
        self.format_usage(ctx, formatter)
        across = 2 if formatter.width >= 78 else 1
        heads = dict.fromkeys(entry.section for entry in self.entries.values() if entry.section)
        formatter.write_paragraph()
        for head in heads:
            formatter.write(f"{head}\n")
            cells = [f"  {name:<9}{entry.summary:<28}" for name, entry in self.entries.items() if entry.section == head]
            for row in range(0, len(cells), across):
                formatter.write("".join(cells[row : row + across]).rstrip() + "\n")
        formatter.write("`aisp COMMAND --help` has options and examples, `aisp-tui` is the app. --version\n")


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
    # engine.client costs 50 ms to import: it is looked at only where a command used it already.
    for module, name in (("aisp.engine.client", "EngineUnavailableError"), ("aisp.engine.paths", "UnsafePathError")):
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
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
    told = {"kind": kind, "text": clean(error.format_message()), "try": list(getattr(error, "near", ()))}
    return {"schema": SCHEMA, "error": told}


def _print_json(error: click.ClickException) -> None:
    click.echo(plain.json_line(error_document(error)))  # one line, which fits behind lines that were printed before it
    sys.stdout.flush()


def _show(error: click.ClickException) -> None:
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is not None:
        click.echo(ctx.get_usage(), err=True)
    click.echo(f"aisp: {clean(error.format_message())}", err=True)
    if ctx is not None:
        click.echo(f"`{ctx.command_path} --help` shows how it is used", err=True)


def _mute() -> None:
    """Send what is still buffered nowhere, so that the interpreter's exit does not complain about the pipe."""
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
