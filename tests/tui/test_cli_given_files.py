"""Every command that takes a file's name ends with a sentence, whatever lies under that name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aisp.engine import environment
from aisp.tui.cli.tree import cli
from aisp.tui.settings import Settings, load_settings
from tests.tui.fake_engine import isolate

PATIENCE_S = 60
DEEP = b"[" * 100_000
HALF = b'{"kind": "aisp run", "schema": 1, "hashes": {"package": "\\ud800"}}'
DIGITS = b"a = " + b"9" * 5000
DOORS = (
    "bench import FILE",
    "bench results --from FILE",
    "bench results --beside FILE",
    "bench expectations --from FILE",
    "store --verify FILE",
    "store --recover FILE --yes",
    "contract FILE",
    "contract --diff FILE FILE",
    "judge FILE",
    "judge CANDIDATE --against FILE",
    "judge FILE --against CANDIDATE",
    "run FILE",
    "watch FILE",
    "diff FILE",
    "lint FILE",
    "tune FILE",
    "fuzz FILE",
    "checks FILE",
    "roofline FILE",
    "bisect FILE",
    "export FILE",
    "compare FILE FILE",
    "restore FILE",
    "list --root FILE",
    "score FILE",
    "suite FILE",
    "fleet FILE --against CANDIDATE",
)


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    def late(*_: Any) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE_S)
    yield isolate(monkeypatch, tmp_path)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def lay(kind: str, path: Path) -> None:
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "deep":
            path.write_bytes(DEEP)
        case "half":
            path.write_bytes(HALF)
        case "digits":
            path.write_bytes(DIGITS)
        case "bytes":
            path.write_bytes(b"\xff\xfe\x00")


@pytest.mark.parametrize("suffix", [".json", ".py"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "deep", "half", "digits", "bytes"])
def test_a_command_that_takes_a_file_ends_with_a_sentence(tmp_path: Path, kind: str, suffix: str) -> None:
    path, candidate = tmp_path / f"given{suffix}", tmp_path / "candidate.py"
    lay(kind, path)
    candidate.write_text("def run(x):\n    return x\n")
    for door in DOORS:
        words = door.replace("FILE", str(path)).replace("CANDIDATE", str(candidate)).split()
        shown = CliRunner().invoke(cli, words)
        assert isinstance(shown.exception, SystemExit | None), (door, shown.exception)
        assert shown.exit_code in (1, 2, 3), (door, shown.output)
        assert "mistake in aisp" not in shown.output, (door, shown.output)
        assert len(shown.stderr.splitlines() + shown.stdout.splitlines()) >= 1, door


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "deep", "half", "bytes"])
def test_a_package_of_a_suite_with_such_a_file_is_told_and_the_rest_is_listed(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "packages" / "tier1" / "01J00000000000000000000000"
    folder.mkdir(parents=True)
    lay(kind, folder / "summary.json")
    shown = CliRunner().invoke(cli, ["suite", "--history", "tier1", "--from", str(folder.parents[1])])
    assert isinstance(shown.exception, SystemExit | None), shown.exception
    assert "summary.json" in shown.output


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "deep", "digits", "bytes"])
def test_settings_that_are_no_settings_are_the_default_ones_and_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "settings.toml"
    lay(kind, path)
    assert load_settings(path)[0] == Settings()
    assert len(load_settings(path)[1]) == 1


def test_a_checkout_whose_git_files_are_pipes_is_looked_at_without_waiting(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("HEAD", "index", "packed-refs", "commondir"):
        os.mkfifo(tmp_path / ".git" / name)
    assert environment.git_changed(tmp_path) is None
    (tmp_path / "inner").mkdir()
    os.mkfifo(tmp_path / "inner" / ".git")
    assert environment.git_changed(tmp_path / "inner") is None


@pytest.mark.parametrize("name", ["KernelBench/level1/2_Passwd.py", "task.yml", "softmax.py", "set/definition.json"])
def test_a_link_that_leads_out_of_a_checkout_is_refused_and_says_nothing_of_what_it_leads_to(
    tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the_key = hunter2!\n")
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    link = tmp_path / "checkout" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(secret)
    for path in (link, link.parent):
        shown = CliRunner().invoke(cli, ["judge", str(path)])
        assert shown.exit_code in (1, 2, 3) or "1 problem" in shown.output
        assert "hunter2" not in shown.output
    if name.endswith(".py"):
        shown = CliRunner().invoke(cli, ["judge", str(link)])
        assert "is a link that leads out of its checkout; name the file that it stands for" in shown.output
