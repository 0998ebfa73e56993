"""The reference of commands, docs/commands/reference.md, as the programs say it.

`python -m tests.reference` writes it anew.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from aisp.tui.cli.tree import LazyGroup, cli
from aisp.tui.start import app

PAGE = Path(__file__).parent.parent / "docs/commands/reference.md"
HEAD = """# Reference

Every command with its options, exit statuses and two calls, written by `python -m tests.reference` from the programs.
All have `--help`. [What all commands share](../commands.md#what-all-commands-share).
"""


def commands(group: click.Group = cli, before: str = "aisp") -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed, with its words."""
    context = click.Context(group, info_name=before)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, LazyGroup):
            yield from commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def everything() -> dict[str, click.Command]:
    """The commands of both programs."""
    return {**dict(commands()), "aisp-tui": app}


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *(line for words, command in everything().items() for line in _section(words, command))])


def _section(words: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=words)
    yield f"## {words}\n"
    yield f"    {' '.join([words, *command.collect_usage_pieces(context)]).rstrip()}\n"
    rows = list(_options(command, context))
    if rows:
        yield from ["| option | meaning |", "|---|---|", *rows, ""]
    told = inspect.cleandoc(command.help or "")
    status = re.search(r"^Exit status: (.*?)(?=\n\n|\Z)", told, re.MULTILINE | re.DOTALL)
    if status:
        yield f"Exit status: {' '.join(status[1].split())}\n"
    calls = re.findall(r"^  (aisp.*)$", command.epilog or "", re.MULTILINE)
    if calls:
        yield "\n".join(f"    {call}" for call in calls) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and "--help" not in parameter.opts:
            names, meaning = (" ".join(part.split()).replace("|", "\\|") for part in record)
            yield f"| `{names}` | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
