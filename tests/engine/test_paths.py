"""Where the engine keeps its things: the order of precedence, private to the owner, never through a link."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.engine import paths
from aisp.engine.paths import MAX_SOCKET_PATH_BYTES, UnsafePathError, find_socket, make_private, socket_file, state_dir

NAMES = ("AISP_STATE", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME", "TMPDIR")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An environment that says nothing but where temporary things go."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    paths._state.cache_clear()
    yield tmp_path
    paths._state.cache_clear()
    tempfile.tempdir = None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# -- the order ---------------------------------------------------------------------------------------------------------


def test_the_state_is_where_aisp_state_says(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv("XDG_STATE_HOME", str(bare / "b"))
    monkeypatch.setenv("HOME", str(bare / "c"))
    assert state_dir() == bare / "a"
    assert not (bare / "b").exists()
    assert not (bare / "c").exists()
    assert not paths.state_is_temporary()


def test_then_where_xdg_says_then_below_home(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(bare / "c"))
    assert state_dir() == bare / "c/.local/state/aisp"
    monkeypatch.setenv("XDG_STATE_HOME", str(bare / "b"))
    assert state_dir() == bare / "b/aisp"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    assert state_dir() == bare / "c/.local/state/aisp"


def test_without_a_home_the_state_is_temporary_and_says_so(bare: Path) -> None:
    assert state_dir() == bare / "tmp" / f"aisp-{os.getuid()}" / "state"
    assert paths.state_is_temporary()
    assert mode(state_dir()) == 0o700
    assert mode(state_dir().parent) == 0o700


def test_a_home_that_does_not_exist_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/proc/nonexistent")
    assert state_dir().is_relative_to(bare / "tmp")
    assert paths.state_is_temporary()


@pytest.mark.parametrize("variable", ["AISP_STATE", "XDG_STATE_HOME"])
@pytest.mark.parametrize("name", ["taken", "taken/below", "/proc/nope", "x" * 300])
def test_a_state_that_is_set_and_cannot_be_used_is_refused(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    (bare / "taken").write_text("")
    monkeypatch.setenv(variable, str(bare / name))
    monkeypatch.setenv("HOME", str(bare / "home"))  # nothing takes the place of what was named
    said = rf"{variable} is {bare / name}, which cannot be used \(.*\); make or mount it, set {variable} to"
    with pytest.raises(UnsafePathError, match=said):
        state_dir()
    assert (bare / "taken").read_text() == "" and not list((bare / "tmp").iterdir())


def test_a_file_where_the_state_should_be_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / ".local/state").mkdir(parents=True)
    (bare / ".local/state/aisp").write_text("")
    monkeypatch.setenv("HOME", str(bare))
    assert paths.state_is_temporary()
    assert (bare / ".local/state/aisp").read_text() == ""


@pytest.mark.parametrize("variable", ["AISP_STATE", "XDG_STATE_HOME"])
def test_a_store_that_cannot_be_written_any_more_is_not_replaced_by_an_empty_one(
    bare: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (bare / "aisp").mkdir(mode=0o700)
    monkeypatch.setenv(variable, str(bare / "aisp" if variable == "AISP_STATE" else bare))
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as on a file system that became read-only
    with pytest.raises(UnsafePathError, match="it cannot be written"):
        state_dir()
    (bare / "aisp/aisp.db").touch()
    paths._state.cache_clear()
    assert (state_dir(), paths.state_is_temporary()) == (bare / "aisp", False)


@pytest.mark.skipif(os.getuid() == 0, reason="root can write everywhere")
def test_a_read_only_home_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "c").mkdir(mode=0o500)
    monkeypatch.setenv("HOME", str(bare / "c"))
    assert paths.state_is_temporary()


def test_a_relative_aisp_state_is_made_absolute(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bare)
    monkeypatch.setenv("AISP_STATE", "mine")
    assert state_dir() == bare / "mine"


def test_a_relative_xdg_folder_is_ignored(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client and its engine have different working folders; the XDG specification says to ignore such values."""
    monkeypatch.chdir(bare)
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    monkeypatch.setenv("HOME", str(bare / "c"))
    assert state_dir() == bare / "c/.local/state/aisp"
    assert socket_file().is_absolute()
    assert not (bare / "relative").exists()


def test_a_client_and_the_engine_that_it_starts_agree_on_a_relative_state(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's working folder is the root, so what is handed on must not be relative."""
    from aisp.engine import client

    started: list[dict[str, str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: started.append(env))
    monkeypatch.chdir(bare)
    monkeypatch.setenv("AISP_STATE", "mine")
    client.start_engine()
    assert started[0]["AISP_STATE"] == str(bare / "mine")


# -- private -----------------------------------------------------------------------------------------------------------


def test_every_folder_is_private_from_the_beginning(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    old = os.umask(0)
    try:
        made = [state_dir(), paths.snapshots_dir(), paths.journal_dir(), paths.runtime_dir()]
    finally:
        os.umask(old)
    assert [mode(path) for path in made] == [0o700] * 4


def test_a_folder_that_was_open_to_others_is_closed(bare: Path) -> None:
    (bare / "open").mkdir(mode=0o755)
    (bare / "open").chmod(0o777)
    assert mode(make_private(bare / "open")) == 0o700


def test_a_shared_folder_is_refused_and_left_as_it_is(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AISP_STATE=/tmp must not close /tmp to everybody else."""
    (bare / "shared").mkdir()
    (bare / "shared").chmod(0o1777)
    monkeypatch.setenv("AISP_STATE", str(bare / "shared"))
    with pytest.raises(UnsafePathError, match="is shared by all users; set AISP_STATE"):
        state_dir()
    assert mode(bare / "shared") == 0o1777


def test_a_link_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "real").mkdir()
    (bare / "link").symlink_to(bare / "real")
    monkeypatch.setenv("AISP_STATE", str(bare / "link"))
    with pytest.raises(UnsafePathError, match="is a symbolic link; remove it or set AISP_STATE"):
        state_dir()


def test_a_link_planted_in_the_temporary_directory_is_refused(bare: Path) -> None:
    (bare / "victim").mkdir()
    (bare / "tmp" / f"aisp-{os.getuid()}").symlink_to(bare / "victim")
    with pytest.raises(UnsafePathError, match="symbolic link"):
        state_dir()
    assert list((bare / "victim").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder that belongs to somebody else")
def test_a_folder_of_another_user_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "theirs").mkdir()
    os.chown(bare / "theirs", 65534, 65534)
    monkeypatch.setenv("AISP_STATE", str(bare / "theirs"))
    with pytest.raises(UnsafePathError, match="belongs to uid 65534; set AISP_STATE"):
        state_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_cannot_reach_a_socket_even_if_it_is_open_to_all(bare: Path) -> None:
    code = (
        "import os, socket, sys\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
        "except PermissionError: sys.exit(7)\n"
    )
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        base.chmod(0o755)
        folder = make_private(base / "aisp")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "s.sock"))
            server.listen(1)
            (folder / "s.sock").chmod(0o777)
            done = subprocess.run([sys.executable, "-c", code, str(folder / "s.sock")], check=False, timeout=30)
        assert done.returncode == 7
    finally:
        (base / "aisp" / "s.sock").unlink(missing_ok=True)
        (base / "aisp").rmdir()
        base.rmdir()


# -- what another user could exchange ----------------------------------------------------------------------------------


def test_a_parent_that_everybody_may_write_to_is_refused_with_the_way_to_close_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may rename our folder may put another in its place, however private ours is."""
    (bare / "open").mkdir()
    (bare / "open").chmod(0o777)
    monkeypatch.setenv("AISP_STATE", str(bare / "open" / "deep" / "state"))
    with pytest.raises(UnsafePathError) as caught:
        state_dir()
    assert str(caught.value) == (
        f"everybody may exchange what lies in {bare}/open; `chmod o-w {bare}/open`, "
        "or set AISP_STATE (and XDG_RUNTIME_DIR) to a folder of your own elsewhere"
    )
    (bare / "open").chmod(0o775)
    assert state_dir() == bare / "open" / "deep" / "state"


def test_below_a_shared_folder_with_its_sticky_bit_a_folder_of_ones_own_is_fine(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / "shared").mkdir()
    (bare / "shared").chmod(0o1777)
    monkeypatch.setenv("AISP_STATE", str(bare / "shared" / "mine"))
    assert state_dir() == bare / "shared" / "mine"
    assert mode(bare / "shared") == 0o1777


def test_the_same_holds_where_a_link_leads(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "open" / "inner").mkdir(parents=True)
    (bare / "open").chmod(0o777)
    (bare / "link").symlink_to(bare / "open" / "inner")
    monkeypatch.setenv("AISP_STATE", str(bare / "link" / "state"))
    with pytest.raises(UnsafePathError, match=f"everybody may exchange what lies in {bare}/open;"):
        state_dir()
    (bare / "open").chmod(0o755)
    assert state_dir() == bare / "link" / "state"  # a link of one's own above the folder is the owner's affair


def test_the_runtime_folder_is_looked_at_in_the_same_way(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "open").mkdir()
    (bare / "open").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare / "open"))
    with pytest.raises(UnsafePathError, match=r"everybody may exchange .* XDG_RUNTIME_DIR"):
        paths.runtime_dir()


def test_parents_that_are_made_are_not_open_to_others_whatever_the_umask(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(bare / "home"))
    old = os.umask(0)
    try:
        made = state_dir()
    finally:
        os.umask(old)
    assert [mode(path) for path in (made, *list(made.parents)[:3])] == [0o700, 0o755, 0o755, 0o755]


root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can make what belongs to somebody else")


@root_only
def test_a_parent_of_another_user_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "theirs").mkdir()
    os.chown(bare / "theirs", 65534, 65534)
    monkeypatch.setenv("AISP_STATE", str(bare / "theirs" / "state"))
    with pytest.raises(UnsafePathError, match=r"theirs belongs to uid 65534, who could exchange .*; set AISP_STATE"):
        state_dir()


@root_only
def test_a_link_of_another_user_on_the_way_is_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "real").mkdir()
    (bare / "link").symlink_to(bare / "real")
    os.lchown(bare / "link", 65534, 65534)
    monkeypatch.setenv("AISP_STATE", str(bare / "link" / "state"))
    with pytest.raises(UnsafePathError, match=r"link belongs to uid 65534, who could exchange"):
        state_dir()


@root_only
def test_what_others_put_into_a_folder_while_it_was_open_is_named_and_the_folder_left_as_it_is(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare / "open").mkdir()
    (bare / "open").chmod(0o777)
    (bare / "open" / "aisp.db-wal").write_bytes(b"planted")
    os.chown(bare / "open" / "aisp.db-wal", 65534, 65534)
    monkeypatch.setenv("AISP_STATE", str(bare / "open"))
    for _ in range(2):  # it is not forgotten by the next start
        with pytest.raises(UnsafePathError, match=r"was open to others, and 'aisp.db-wal' in it belongs to uid 65534"):
            state_dir()
    (bare / "open" / "aisp.db-wal").unlink()
    assert mode(state_dir()) == 0o700


@root_only
@pytest.mark.parametrize("name", ["log_file", "lock_file", "pointer_file", "database_file"])
def test_a_planted_link_is_followed_by_nobody(bare: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The engine would append its log to whatever file of ours it leads to."""
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    place = getattr(paths, name)()
    (bare / "precious").write_text("precious")
    place.symlink_to(bare / "precious")
    assert getattr(paths, name)() == place  # a link of one's own may lead to a larger disk
    os.lchown(place, 65534, 65534)
    with pytest.raises(UnsafePathError, match=r"belongs to uid 65534; look at it and remove it"):
        getattr(paths, name)()
    assert (bare / "precious").read_text() == "precious"


def test_a_folder_that_is_exchanged_for_a_link_is_not_changed_through_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making and the closing of a folder."""
    (bare / "victim").mkdir()
    (bare / "victim").chmod(0o755)
    make = Path.mkdir

    def exchanged(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        make(path, mode, parents, exist_ok)
        path.rmdir()
        path.symlink_to(bare / "victim")

    monkeypatch.setattr(Path, "mkdir", exchanged)
    with pytest.raises(UnsafePathError, match="is a symbolic link"):
        make_private(bare / "state")
    assert mode(bare / "victim") == 0o755


# -- the socket --------------------------------------------------------------------------------------------------------


def test_the_socket_lies_in_the_runtime_folder_under_a_name_of_its_own(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare))
    first = socket_file()
    assert first.parent == bare / "aisp"
    monkeypatch.setenv("AISP_STATE", str(bare / "b"))
    assert socket_file().parent == first.parent
    assert socket_file() != first


def test_without_a_runtime_folder_it_lies_in_a_private_one_in_the_temporary_directory(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert socket_file().parent == Path("/tmp") / f"aisp-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/proc/nonexistent")
    assert socket_file().parent == Path("/tmp") / f"aisp-{os.getuid()}"


@root_only
def test_where_the_private_folder_is_somebody_elses_the_socket_lies_below_the_state_folder(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may make it before us."""
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    squatted = bare / "tmp" / f"aisp-{os.getuid()}"
    squatted.mkdir()
    os.chown(squatted, 65534, 65534)
    assert socket_file().parent == bare / "a" / "run"
    assert mode(bare / "a" / "run") == 0o700
    assert list(squatted.iterdir()) == []
    monkeypatch.setenv("AISP_STATE", str(bare / ("x" * 200)))
    with pytest.raises(UnsafePathError, match=rf"{squatted} belongs to uid 65534; set XDG_RUNTIME_DIR to a folder"):
        socket_file()


def test_a_copied_folder_has_a_socket_of_its_own_and_a_moved_one_keeps_its(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare))
    bound = socket_file()
    bound.touch()
    paths.pointer_file().write_bytes(os.fsencode(bound))
    shutil.copytree(bare / "a", bare / "copy")
    (bare / "a").rename(bare / "moved")
    monkeypatch.setenv("AISP_STATE", str(bare / "moved"))
    assert find_socket() == bound
    monkeypatch.setenv("AISP_STATE", str(bare / "copy"))
    assert find_socket() is None
    assert list(paths.sockets()) == [bound], "an engine of an older build names it after the path"


@pytest.mark.parametrize("name", ["XDG_RUNTIME_DIR", "TMPDIR", "AISP_STATE"])
def test_a_folder_with_a_very_long_name_still_gets_a_socket_that_can_be_bound(
    bare: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    long = bare / ("x" * 200)
    long.mkdir()
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv(name, str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    path = socket_file()
    assert len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES
    assert mode(path.parent) == 0o700
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    path.unlink()


def test_the_pointer_leads_to_a_socket_that_another_environment_bound(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare / "first"))
    assert find_socket() is None
    bound = socket_file()
    bound.touch()
    paths.pointer_file().write_bytes(os.fsencode(bound))
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert find_socket() == bound


@pytest.mark.parametrize("junk", [b"", b"\x00\x00", b"\xff\xfe/nowhere", b"/nowhere/at/all", b"x" * 5000])
def test_a_pointer_that_leads_nowhere_is_ignored(bare: Path, monkeypatch: pytest.MonkeyPatch, junk: bytes) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare))
    paths.pointer_file().write_bytes(junk)
    assert find_socket() is None
    socket_file().touch()
    assert find_socket() == socket_file()


def test_the_log_tail_is_the_last_lines_whatever_bytes_they_hold(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(bare / "a"))
    assert paths.log_tail(5) == ""
    paths.log_file().write_bytes(b"x" * 200_000 + b"\none\ntwo \xff\nthree\n")
    assert paths.log_tail(2) == "two \\xff\nthree"


@pytest.mark.parametrize(
    ("given", "found"), [("2.5", 2.5), ("1e3", 1000.0), ("", 7.0), ("soon", 7.0), ("0", 7.0), ("-1", 7.0), ("nan", 7.0),
                         ("inf", 7.0)]
)  # fmt: skip
def test_a_setting_that_is_no_number_above_zero_counts_as_not_given(
    monkeypatch: pytest.MonkeyPatch, given: str, found: float
) -> None:
    """A typing error in a shell's profile must not keep the engine from starting."""
    monkeypatch.setenv("AISP_HOUSEKEEPING_S", given)
    assert paths.positive_setting("AISP_HOUSEKEEPING_S", 7.0) == found
    monkeypatch.delenv("AISP_HOUSEKEEPING_S")
    assert paths.positive_setting("AISP_HOUSEKEEPING_S", 7.0) == 7.0


@pytest.mark.parametrize("mode", [0o000, 0o777, 0o070, 0o300])
def test_a_state_folder_whose_modes_were_changed_is_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    folder = paths.state_dir()
    modes = {"aisp.db": 0o777, "engine.log": 0o644, "shut": 0o000, "kept.bak": 0o400}
    for name, of_file in modes.items():
        (folder / name).touch()
        (folder / name).chmod(of_file)
    (folder / "link").symlink_to(tmp_path)
    before = tmp_path.stat().st_mode
    folder.chmod(mode)
    paths.keep_private()
    assert folder.stat().st_mode & 0o777 == 0o700
    found = {name: (folder / name).stat().st_mode & 0o777 for name in modes}
    assert found == {"aisp.db": 0o600, "engine.log": 0o600, "shut": 0o600, "kept.bak": 0o400}
    assert tmp_path.stat().st_mode == before


def test_a_umask_that_shuts_everybody_out_leaves_folders_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "above" / "state"))
    before = os.umask(0o777)
    try:
        folder = paths.state_dir()
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o700 for each in (folder, folder.parent)] == [0o700] * 2
