"""What a result depends on beside the sources: enough to understand it later, and nothing that is nobody's business."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from engine import environment
from engine.environment import VARIABLE_NAMES, describe, git_revision
from engine.protocol.reports import Ready

READY = Ready(
    pid=1,
    torch="2.11.0+cu130",
    cuda="13.0",
    gpu_name="NVIDIA H100 80GB HBM3",
    gpu_uuid="GPU-1",
    sm=90,
    memory_bytes=85_000_000_000,
    l2_bytes=52_428_800,
    versions={"torch": "2.11.0+cu130", "triton": "3.6.0"},
)


def git(folder: Path, *words: str) -> str:
    """Run git in a repository of the test's own, without anybody's configuration."""
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(folder),
        },
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "deep" / "er").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    (made / "file").write_text("1")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "one")
    return made


# -- git ---------------------------------------------------------------------------------------------------------------


def test_the_revision_of_a_checkout_is_found_from_any_folder_in_it(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert len(head) == 40
    assert git_revision(repository) == head
    assert git_revision(repository / "deep" / "er") == head


def test_a_detached_head_is_its_commit(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert git_revision(repository) != first
    git(repository, "checkout", "-q", first)
    assert git_revision(repository) == first


def test_packed_refs_are_read(repository: Path) -> None:
    git(repository, "branch", "other-main")  # its name ends like the one that is looked for
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert git_revision(repository) == git(repository, "rev-parse", "HEAD")


def test_a_work_tree_of_its_own_has_its_own_revision(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(tmp_path / "side", "commit", "-q", "--allow-empty", "-m", "side")
    side = git(tmp_path / "side", "rev-parse", "HEAD")
    assert git_revision(tmp_path / "side") == side != git_revision(repository)
    git(repository, "pack-refs", "--all")
    assert git_revision(tmp_path / "side") == side


def test_a_repository_with_long_hashes_gives_the_whole_hash(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert len(head) == 64
    assert git_revision(tmp_path) == head
    git(tmp_path, "checkout", "-q", head)
    assert git_revision(tmp_path) == head


def test_outside_of_a_checkout_and_before_the_first_commit_there_is_none(tmp_path: Path) -> None:
    assert git_revision(tmp_path) == ""
    git(tmp_path, "init", "-q")
    assert git_revision(tmp_path) == ""


def test_names_that_are_no_utf_8_do_no_harm(repository: Path) -> None:
    """Somebody else's branch in packed-refs must not fail a run."""
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    packed = repository / ".git/packed-refs"
    packed.write_bytes(b"1" * 40 + b" refs/heads/caf\xe9\n" + packed.read_bytes())
    assert git_revision(repository) == head
    (repository / ".git/HEAD").write_bytes(b"ref: refs/heads/caf\xe9\n")
    assert git_revision(repository) == "1" * 40


@pytest.mark.parametrize(
    "head",
    [b"", b"\xff\xfe\x00", b"ref:", b"ref: \x00", b"ref: ../secret", b"ref: refs/heads/../../../secret", b"nonsense"],
)
def test_a_head_that_leads_elsewhere_gives_nothing(repository: Path, head: bytes) -> None:
    """A checkout from a stranger must not choose which file's first words end in the store."""
    (repository / "secret").write_text("a private key, line one")
    (repository / ".git/HEAD").write_bytes(head)
    assert git_revision(repository) == ""


def test_a_git_file_that_leads_nowhere_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert git_revision(tmp_path) == ""


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_no_variable_beyond_the_list_is_recorded_neither_name_nor_value(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("AWS_SECRET_ACCESS_KEY", "CUDA_VISIBLE_DEVICES_TOKEN", "HF_TOKEN", "PATH_TO_SECRETS"):
        monkeypatch.setenv(name, "s3cr3t")
    found = describe(READY, "580.1", tmp_path)
    variables = found["variables"]
    assert isinstance(variables, dict)
    assert variables["OMP_NUM_THREADS"] == "3"
    assert set(variables) <= set(VARIABLE_NAMES)
    assert "CUDA_VISIBLE_DEVICES" not in variables  # unset is not the same as empty
    text = json.dumps(found)
    assert "s3cr3t" not in text
    assert "TOKEN" not in text


def test_a_recorded_value_is_clean_and_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1\x1b]0;x\x07" + "y" * 10_000)
    variables = describe(READY, "", tmp_path)["variables"]
    assert isinstance(variables, dict)
    assert "\x1b" not in variables["OMP_NUM_THREADS"]
    assert len(variables["OMP_NUM_THREADS"]) < 600


def test_gpu_driver_and_versions_are_recorded_as_they_were_told(tmp_path: Path) -> None:
    found = describe(READY, "580.65.06", tmp_path)
    assert (found["gpu"], found["gpu_uuid"], found["sm"]) == ("NVIDIA H100 80GB HBM3", "GPU-1", 90)
    assert (found["driver"], found["cuda"], found["l2_bytes"]) == ("580.65.06", "13.0", 52_428_800)
    assert found["versions"] == {"torch": "2.11.0+cu130", "triton": "3.6.0"}
    assert found["git"] == ""
    assert found["host"]
    assert found["kernel"]
    json.dumps(found)  # the store keeps it as JSON


def test_what_is_unknown_is_none_and_not_zero(tmp_path: Path) -> None:
    found = describe(Ready(pid=1, torch="2.13.0+cpu", cuda=""), "", tmp_path)
    assert found["sm"] is None
    assert found["gpu_memory_bytes"] is None
    assert found["l2_bytes"] is None


def test_a_machine_without_proc_has_no_cpu_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "Path", lambda name: Path("/nowhere") / str(name).lstrip("/"))
    assert environment._cpu_name() == ""
