"""What all formats share: a folder with several, where a source comes from, and what stays unread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import kernelbench, shared
from tests.kernels.formats.kernelbench import MATMUL, MATMUL_NEW, written

HASH = "0123456789abcdef0123456789abcdef01234567"


def repository(folder: Path, **files: str) -> Path:
    """A checkout with these files in its .git."""
    for name, text in {"HEAD": "ref: refs/heads/main\n", **files}.items():
        path = folder / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_folder_of_checkouts_lists_what_each_holds_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        written(repository(tmp_path / name), MATMUL, MATMUL_NEW)
    written(tmp_path / "no_checkout", MATMUL, MATMUL_NEW)
    found = [(dialect.NAME, each.path.relative_to(tmp_path).parts[0]) for dialect, each in formats.listed(tmp_path)]
    assert found == [("kernelbench", "one"), ("kernelbench", "two")]
    assert formats.recognise(tmp_path) == (kernelbench, formats.Part.COLLECTION)
    (tmp_path / "KernelBench").symlink_to(tmp_path / "one" / "KernelBench")
    assert len(list(formats.listed(tmp_path))) == 3


def test_the_problem_decides_in_which_format_a_candidate_is_judged(tmp_path: Path) -> None:
    answer, problem = written(tmp_path, MATMUL, MATMUL_NEW)
    assert formats.answered(problem, answer) is kernelbench
    assert formats.answered(problem, tmp_path) is kernelbench  # which says itself why a folder is no answer
    assert formats.answered(answer, problem) is None


def test_a_target_says_where_its_problem_comes_from(tmp_path: Path) -> None:
    answer, problem = written(tmp_path, MATMUL, MATMUL_NEW)
    repository(tmp_path, **{"refs/heads/main": HASH})
    (tmp_path / "LICENSE.txt").write_text("do as you like")
    lesson = kernelbench.against(answer, problem).files["lesson.md"].decode()
    assert f"commit {HASH}, licence file `LICENSE.txt`" in lesson
    assert f"- problem: `{problem}`, sha256 " in lesson


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"HEAD": HASH}, HASH),
        ({"refs/heads/main": HASH}, HASH),
        ({"packed-refs": f"# pack-refs\n{HASH} refs/heads/main\n"}, HASH),
        ({"packed-refs": f"{HASH} refs/heads/other\n"}, ""),
        ({"HEAD": "ref: ../../../secret"}, ""),
        ({"HEAD": "ref: refs/../../secret"}, ""),
        ({"refs/heads/main": "no hash"}, ""),
    ],
)
def test_the_commit_is_read_from_the_repositorys_files(tmp_path: Path, files: dict[str, str], wanted: str) -> None:
    (tmp_path / "secret").write_text(HASH)
    assert shared.commit(repository(tmp_path / "checkout", **files)) == wanted


def test_the_commit_of_a_worktree_is_that_of_its_branch(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", **{"refs/heads/side": HASH, "worktrees/side/commondir": "../..\n"})
    (main / ".git/worktrees/side/HEAD").write_text("ref: refs/heads/side\n")
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / ".git").write_text(f"gitdir: {main}/.git/worktrees/side\n")
    assert shared.commit(tmp_path / "side") == HASH
    assert shared.commit(tmp_path) == ""


def test_a_checkout_holds_what_lies_below_it_and_no_link_leads_out(tmp_path: Path) -> None:
    root = repository(tmp_path / "checkout")
    inner = root / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "outside.py").write_text("")
    (inner / "link.py").symlink_to(tmp_path / "outside.py")
    (inner / "circle").symlink_to(inner / "circle")
    assert shared.checkout(inner / "x.py") == root
    assert shared.checkout(tmp_path / "outside.py") == tmp_path
    assert shared.contained(inner / ".." / "x.py", root)
    assert not shared.contained(inner / "link.py", root)
    assert not shared.contained(inner / "../../../outside.py", root)
    assert not shared.contained(inner / "\0", root)


def test_a_link_of_a_checkout_to_a_file_elsewhere_is_not_read(tmp_path: Path) -> None:
    answer, problem = written(tmp_path / "elsewhere", MATMUL, MATMUL_NEW)
    (tmp_path / "checkout").mkdir()
    link = tmp_path / "checkout" / "12_Of_ours_.py"
    link.symlink_to(problem)
    assert not kernelbench.read(link).problems  # no checkout yet: a folder of one's own
    repository(tmp_path / "checkout")
    for read in (kernelbench.read, lambda path: kernelbench.against(answer, path)):
        with pytest.raises(OSError, match="leads out of its checkout"):
            read(link)


def test_what_is_not_small_or_not_a_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_bytes(b"x" * (shared.MAX_BYTES + 1))
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "fits.py").write_bytes(b"x = 1\n")
    assert shared.small(tmp_path / "fits.py", ".py") == b"x = 1\n"
    for name in ("large.py", "pipe.py", "gone.py", "."):
        assert shared.small(tmp_path / name) == b""
    assert shared.small(tmp_path / "fits.py", ".json") == b""


def test_a_path_cannot_write_lines_of_its_own_into_a_lesson(tmp_path: Path) -> None:
    said = shared.provenance("problem", tmp_path / "a`\n# forged\x1b[31m.py", b"")
    assert "\n" not in said
    assert "\x1b" not in said
    assert said.count("`") == 2
