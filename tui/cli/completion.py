"""`aisp completion`: the script that makes a shell complete commands, options, targets, rungs and runs.

The scripts and the protocol are click's; what is offered stands beside the arguments and in `tui.cli.completing`.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from aisp.tui.cli import common

PROGRAMS = {"aisp": "_AISP_COMPLETE", "aisp-tui": "_AISP_TUI_COMPLETE"}
"""Each with what the shell's function sets: what it wants, as "bash_complete"."""
SHELLS = ("bash", "zsh", "fish")


@add_completion_class
class Bash(BashComplete):
    """Bash, which cuts words at colons: the line is read as it was typed, and of an id the part behind its last colon
    is offered, which is what readline puts in."""

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' response type value
    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
%(complete_var)s=bash_complete $1)
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        begun = words.pop() if words and not line[-1:].isspace() else ""
        self._shown = begun.rpartition("=")[2] if begun.startswith("-") else begun
        return words[1:], begun

    def format_completion(self, item: CompletionItem[str]) -> str:
        """One line of the answer."""
        before = self._shown.rpartition(":")[0]
        there = f"{before}:" if ":" in self._shown and ":" in os.environ.get("COMP_WORDBREAKS", ":") else ""
        return f"{item.type},{item.value.removeprefix(there)}"


@add_completion_class
class Fish(FishComplete):
    """Fish, whose script cuts an answer at every comma: here at the first, since a description may have some."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@common.json_option
@click.pass_context
def command(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the script that makes SHELL complete commands, options, targets, rungs and runs of `aisp` and `aisp-tui`.

    \b
    bash, in ~/.bashrc:                  source <(aisp completion bash)
    zsh, in ~/.zshrc below compinit:     source <(aisp completion zsh)
    fish, in ~/.config/fish/config.fish: aisp completion fish | source

    Exit status: 0.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None  # SHELLS are click's
    root = ctx.find_root().command
    script = "\n".join(shell_class(root, {}, *program).source().strip("\n") for program in PROGRAMS.items())
    common.answer(as_json, lambda: {"shell": shell, "script": script}, lambda *, width: [script])
