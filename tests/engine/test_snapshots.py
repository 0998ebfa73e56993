"""Sources laid out for workers: complete or not there at all, never outside of their folder, not growing for ever."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine import snapshots
from aisp.engine.snapshots import KEPT_LAYOUTS, intact, lay_out

HASH = "ab" * 32
FILES = {
    "baseline.py": b"def run(): ...\n",
    "deep/er/shared.py": b"A = 1\n",
    "empty.py": b"",
    "bin.cu": b"\x00\xff\r\n",
}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_the_files_lie_under_the_targets_own_name_byte_for_byte(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, HASH, "transpose", FILES)
    assert folder.name == "transpose"
    assert folder.is_relative_to(tmp_path)
    assert tree(folder) == FILES


def test_a_name_that_is_no_utf_8_is_laid_out_too(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    assert tree(lay_out(tmp_path, HASH, os.fsdecode(b"targ\xff"), {name: b"x"})) == {name: b"x"}


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, HASH, "one", FILES)
    inodes = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert lay_out(tmp_path, HASH, "one", FILES) == folder
    assert {path.name: path.stat().st_ino for path in folder.iterdir()} == inodes


def test_two_targets_with_the_same_sources_each_get_a_folder_of_their_name(tmp_path: Path) -> None:
    first, second = lay_out(tmp_path, HASH, "one", FILES), lay_out(tmp_path, HASH, "two", FILES)
    assert (first.name, second.name) == ("one", "two")
    assert tree(first) == tree(second) == FILES


def test_only_the_owner_can_enter(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, HASH, "one", FILES)
    assert folder.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "name", ["../evil.py", "a/../../evil.py", "/etc/evil.py", "deep/../../../evil.py", "x/../../.."]
)
def test_a_file_that_would_lie_outside_is_refused_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    base = tmp_path / "snapshots"
    with pytest.raises(ValueError, match="would lie outside of its snapshot"):
        lay_out(base, HASH, "one", {"good.py": b"", name: b"evil"})
    assert not Path("/etc/evil.py").exists()
    assert tree(tmp_path) == {}
    assert not base.exists() or list(base.iterdir()) == []


def test_a_folder_that_only_begins_alike_is_outside(tmp_path: Path) -> None:
    """`startswith` on text would let this through."""
    with pytest.raises(ValueError, match="would lie outside"):
        lay_out(tmp_path / "s", HASH, "one", {"../one-more/evil.py": b"evil"})


def test_a_layout_that_a_killed_engine_left_half_done_is_not_taken_for_whole(tmp_path: Path) -> None:
    half = tmp_path / f".{HASH[:24]}.{os.getpid()}" / "one"
    half.mkdir(parents=True)
    (half / "stale.py").write_bytes(b"stale")
    assert tree(lay_out(tmp_path, HASH, "one", FILES)) == FILES


def test_the_oldest_layouts_go_and_the_one_in_use_stays(tmp_path: Path) -> None:
    for number in range(KEPT_LAYOUTS + 10):
        folder = lay_out(tmp_path, f"{number:064x}"[::-1], "one", {"n.py": str(number).encode()})
        past = time.time() - 10_000 + number
        os.utime(folder.parent, (past, past))
    first = lay_out(tmp_path, f"{10:064x}"[::-1], "one", {"n.py": b"10"})  # used again: now the newest
    last = lay_out(tmp_path, HASH, "one", FILES)
    homes = list(tmp_path.iterdir())
    assert len(homes) == KEPT_LAYOUTS
    assert tree(last) == FILES
    assert tree(first) == {"n.py": b"10"}
    kept = {int((home / "one" / "n.py").read_bytes()) for home in homes if (home / "one" / "n.py").exists()}
    assert min(kept - {10}) == 12
    assert max(kept) == KEPT_LAYOUTS + 9


def test_a_disk_that_is_full_leaves_nothing_that_looks_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "empty.py":
            raise OSError(28, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        lay_out(tmp_path, HASH, "one", FILES)
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert tree(lay_out(tmp_path, HASH, "one", FILES)) == FILES


def test_two_processes_at_once_both_get_the_whole(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom aisp.engine.snapshots import lay_out\n"
        "for n in range(60):\n"
        "    files = {f'{i}.py': b'x' * 100 for i in range(20)}\n"
        "    folder = lay_out(Path(sys.argv[1]), f'{n:064x}'[::-1], 'one', files)\n"
        "    assert len(list(folder.iterdir())) == 20, n\n"
    )
    main = Path(snapshots.__file__).parents[2]
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=main, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
    assert all(not home.name.startswith(".") for home in tmp_path.iterdir())


def test_two_threads_at_once_both_get_the_whole(tmp_path: Path) -> None:
    """A run and an edit of the watch may lay out the same sources in two threads of the engine."""
    files = {f"{i}.py": b"x" * 100 for i in range(30)}
    wrong: list[str] = []

    def work(barrier: threading.Barrier, number: int) -> None:
        barrier.wait()
        try:
            if tree(lay_out(tmp_path, f"{number:064x}"[::-1], "one", files)) != files:
                wrong.append(f"{number}: incomplete")
        except OSError as error:
            wrong.append(f"{number}: {error}")

    for number in range(20):
        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=work, args=(barrier, number)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


# -- what a kernel may have done to them -------------------------------------------------------------------------------


def rewrite(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def link(path: Path) -> None:
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "rewritten": lambda folder: rewrite(folder / "baseline.py", b"def run(): 1/0\n"),
    "rewritten to the same length": lambda folder: rewrite(folder / "baseline.py", b"def run(): \\\n1\n"),
    "removed": lambda folder: (folder / "empty.py").unlink(),
    "a new module": lambda folder: (folder / "numpy.py").write_bytes(b""),
    "a new module below": lambda folder: (folder / "deep" / "torch.py").write_bytes(b""),
    "a link to the same bytes": lambda folder: link(folder / "bin.cu"),
    "a folder instead of a file": lambda folder: make_folder(folder / "empty.py"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_layout_that_was_changed_is_not_intact_and_is_laid_out_anew(tmp_path: Path, change: str) -> None:
    folder = lay_out(tmp_path, HASH, "one", FILES)
    assert intact(folder, FILES)
    CHANGES[change](folder)
    assert not intact(folder, FILES)
    assert lay_out(tmp_path, HASH, "one", FILES) == folder
    assert tree(folder) == FILES
    assert intact(folder, FILES)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_layout_behind_a_link_is_not_used(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "s", HASH, "one", FILES)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert lay_out(tmp_path / "s", HASH, "one", FILES) == folder
    assert not folder.is_symlink()
    assert tree(folder) == FILES


def test_compiled_files_of_other_processes_are_no_change_but_are_not_reused(tmp_path: Path) -> None:
    """A stale .pyc with the right time stamp would be imported instead of its source."""
    folder = lay_out(tmp_path, HASH, "one", FILES)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "baseline.cpython-311.pyc").write_bytes(b"evil")
    (folder / "result.bin").write_bytes(b"data")
    assert intact(folder, FILES)
    lay_out(tmp_path, HASH, "one", FILES)
    assert tree(folder) == FILES
    assert not (folder / "__pycache__").exists()


def test_files_are_read_only_and_the_state_can_be_removed(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "s", HASH, "one", FILES)
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o400}
    shutil.rmtree(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_nothing_is_intact_where_nothing_is(tmp_path: Path) -> None:
    assert not intact(tmp_path / "none", FILES)
    assert not intact(tmp_path, FILES)
