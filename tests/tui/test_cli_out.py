"""`-o`, `--out`: what is written, and where, alike in all commands."""

from __future__ import annotations

import warnings
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from aisp.tui.cli import common
from aisp.tui.cli.tree import cli
from tests import reference
from tests.tui.fake_engine import isolate, remember

WRITES = {
    words: command for words, command in reference.commands() if any("--out" in p.opts for p in command.params)
}  # fmt: skip


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def test_what_a_command_writes_is_named_by_o_and_out_and_by_nothing_else() -> None:
    assert len(WRITES) == 8
    for words, command in reference.commands():
        shown = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        assert not {"--into", "--svg", "--png"} & {name for p in shown if p.metavar for name in p.opts}, words
    for command in WRITES.values():
        (out,) = [parameter for parameter in command.params if "--out" in parameter.opts]
        assert out.opts == ["--out", "-o"]


@pytest.mark.parametrize("before", ["-x", "PLACE"])
def test_the_spelling_of_before_names_the_same_file(before: str) -> None:
    @click.command()
    @common.out_option("file", before, "Where to.", type=click.Path())
    def writes(file: str | None) -> None:
        click.echo(f"{file}")

    def said(*words: str) -> str:
        with warnings.catch_warnings(action="error"):
            return CliRunner().invoke(writes, words).output

    old = ("-x", "a.txt") if before.startswith("-") else ("a.txt",)
    assert (said(), said("-o", "a.txt"), said("--out", "a.txt"), said(*old)) == ("None\n", *["a.txt\n"] * 3)
    assert "-x" not in said("--help") and "PLACE" not in said("--help")


def test_a_run_is_exported_into_the_file_that_is_named_either_way(state: Path, tmp_path: Path) -> None:
    run = remember(state, "mine:one").id
    for words in (("-o", "a.json", "--package"), ("--out", "b.json", "--package"), ("c.json", "--json")):
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(tmp_path)
            assert CliRunner().invoke(cli, ["export", run, *words]).exit_code == 0
    texts = {(tmp_path / f"{name}.json").read_text("utf-8").partition('"id"')[0] for name in "abc"}
    assert len(texts) == 1


def test_a_picture_is_named_after_its_form() -> None:
    with pytest.raises(click.UsageError, match=r"ends with \.png or \.svg"):
        common.write_picture("roof.gif", lambda file: None)
