"""What processes import: found when it appears, changes or goes, by whoever and whenever, and never for nothing."""

from __future__ import annotations

import errno
import os
import py_compile
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import installed, spawner
from aisp.engine.installed import Change, Installation, What, accept_without_engine, recall, shadows, top_level


class Machine:
    """A site folder with a package and a module, and engines that look at it one after the other."""

    def __init__(self, home: Path) -> None:
        self.site = home / "lib" / "site-packages"
        self.file = home / "installed.json"
        (self.site / "torch").mkdir(parents=True)
        (self.site / "torch" / "__init__.py").write_text("A = 1\n")
        (self.site / "torch" / "functional.py").write_text("B = 1\n")
        (self.site / "six.py").write_text("C = 1\n")
        (self.site / "old.pth").write_text("# nothing\n")

    def engine(self, *lost: str) -> Installation:
        """The next engine, after its first look."""
        made = Installation(self.file, path=[str(self.site)], own=False)
        made.begin(lost)
        return made

    def put(self, name: str, text: str = "import os\n") -> str:
        """A file of the site folder, as whoever installs or cheats writes it."""
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def read_all(engine: Installation) -> None:
    """Wait until every file is known by content."""
    engine.read_in_background(lambda: False)
    deadline = time.monotonic() + 20
    while any(not e.sha256 and e.stat[0] and not path.endswith(os.sep) for path, e in engine._entries.items()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- between runs ------------------------------------------------------------------------------------------------------


def test_nothing_is_told_where_nothing_has_changed(machine: Machine) -> None:
    engine = machine.engine()
    assert engine.before("r1").noted == ()
    assert engine.after("r1") == []
    assert engine.glance().noted == ()
    assert engine.reason == ""


def test_what_somebody_installs_between_runs_is_noted_once_and_keeps_nobody_from_running(machine: Machine) -> None:
    engine = machine.engine()
    file = machine.put("new.pth")
    news = engine.glance()
    assert news.noted == (Change(file, What.APPEARED),)
    assert engine.reason == ""
    assert engine.before("r1").noted == ()
    assert engine.after("r1") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.pth", "import os\n"),
        ("ctypes.py", ""),
        ("sitecustomize.py", ""),
        ("module.cpython-311-x86_64-linux-gnu.so", "ELF"),
        ("package/__init__.py", ""),
        ("plugin-1.0.dist-info/entry_points.txt", "[torch.backends]\nx = y\n"),
        ("sourceless.pyc", "x"),
    ],
)
def test_whatever_an_interpreter_or_torch_would_import_is_found_when_it_appears_during_a_run(
    machine: Machine, name: str, text: str
) -> None:
    engine = machine.engine()
    engine.before("r1")
    file = machine.put(name, text)
    assert any(change.path == file and change.what is What.APPEARED for change in engine.after("r1"))
    assert file in engine.reason


def test_a_rewritten_file_is_found_though_its_times_were_set_back(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    at = (machine.site / "six.py").stat()
    file = machine.put("six.py", "C = 2\n")
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert Change(file, What.CHANGED) in engine.after("r1")


def test_a_file_that_was_removed_is_found(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    (machine.site / "old.pth").unlink()
    assert engine.after("r1") == [Change(str(machine.site / "old.pth"), What.GONE)]


def test_data_beside_the_packages_is_nothing_that_is_imported_but_its_coming_shows_on_the_folder(
    machine: Machine,
) -> None:
    assert str(machine.site / "table.bin") not in top_level([str(machine.site)])
    engine = machine.engine()
    engine.before("r1")
    machine.put("table.bin")
    assert [change.what for change in engine.after("r1")] == [What.PASSED]


# -- during a run ------------------------------------------------------------------------------------------------------


def test_what_appears_during_a_run_keeps_everything_from_starting_until_it_is_gone(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    file = machine.put("evil.pth")
    assert engine.after("r1") == [Change(file, What.APPEARED)]
    assert "run r1" in engine.reason
    assert "aisp doctor --accept" in engine.reason
    assert engine.before("r2") == installed.News()
    assert engine.reason
    Path(file).unlink()
    assert engine.before("r2") == installed.News(released=True)
    assert engine.reason == ""


def test_what_appears_while_several_runs_go_on_is_held_against_all_of_them_and_no_other(machine: Machine) -> None:
    engine = machine.engine()
    for run in ("r1", "r2"):
        assert engine.before(run) == installed.News()
    file = machine.put("evil.pth")
    engine.before("r3")
    assert "run r1 and run r2" in engine.reason, "it may not begin"
    assert engine.after("r1") == [Change(file, What.APPEARED)]
    Path(file).unlink()
    engine.before("r3")
    assert [change.path for change in engine.after("r2")].count(file) == 1, "though it is gone"
    assert engine.before("r4") == installed.News(released=True)
    assert engine.after("r4") == []


def test_an_engine_that_is_lost_leaves_a_word_of_every_run_that_went_on(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    engine.before("r2")
    engine.before("r3")
    assert engine.after("r2") == []
    machine.put("evil.pth")
    assert "run r1, in which the engine was lost" in machine.engine().reason
    assert not list(machine.file.parent.glob("*.run"))


def test_a_file_that_was_there_for_a_moment_makes_the_run_suspect_and_blocks_nothing(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    Path(machine.put("evil.pth")).unlink()
    assert [change.what for change in engine.after("r1")] == [What.PASSED]
    assert engine.reason == ""
    assert engine.before("r2").noted == ()
    assert engine.after("r2") == []


def test_a_changed_file_is_as_it_was_when_its_content_is(machine: Machine) -> None:
    engine = machine.engine()
    read_all(engine)
    engine.before("r1")
    file = machine.put("six.py", "C = 666\n")
    assert engine.after("r1") == [Change(file, What.CHANGED)]
    machine.put("six.py", "C = 1\n")
    assert engine.before("r2").released
    engine.close()


def test_a_file_that_is_written_again_with_the_same_content_is_no_change(machine: Machine) -> None:
    engine = machine.engine()
    read_all(engine)
    engine.before("r1")
    machine.put("six.py", "C = 1\n")
    assert engine.after("r1") == []
    engine.close()


def test_what_a_person_accepts_is_known_from_then_on(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    file = machine.put("pandas/__init__.py")
    engine.after("r1")
    assert file in [change.path for change in engine.accept()]
    assert engine.reason == ""
    assert engine.before("r2") == installed.News()
    assert engine.after("r2") == []
    assert machine.engine().reason == ""  # and after a restart


def test_to_accept_while_a_run_goes_on_accepts_nothing_of_that_run(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    file = machine.put("evil.pth")
    assert engine.accept() == []
    assert engine.after("r1") == [Change(file, What.APPEARED)]


# -- one engine after the other ----------------------------------------------------------------------------------------


def test_what_was_installed_while_there_was_no_engine_is_noted(machine: Machine) -> None:
    machine.engine().close()
    file = machine.put("new.pth")
    again = Installation(machine.file, path=[str(machine.site)], own=False)
    assert again.begin().noted == (Change(file, What.APPEARED),)
    assert again.reason == ""


def test_an_engine_that_is_killed_during_a_run_leaves_the_next_one_what_appeared(machine: Machine) -> None:
    machine.engine().before("r7")
    file = machine.put("evil.pth")  # and then the engine is killed
    again = machine.engine()
    assert file in again.reason
    assert "run r7, in which the engine was lost," in again.reason
    Path(file).unlink()
    assert again.before().released


def test_runs_that_the_store_found_lost_do_for_a_mark_that_somebody_has_removed(machine: Machine) -> None:
    machine.engine().before("r7")
    machine.file.with_suffix(".run").unlink()
    file = machine.put("evil.pth")
    assert file in machine.engine("r7").reason


def test_an_engine_that_is_killed_between_runs_blames_no_run(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r7")
    engine.after("r7")
    machine.put("new.pth")
    assert machine.engine().reason == ""


def test_what_is_held_against_a_run_outlasts_the_engine(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    file = machine.put("evil.pth")
    engine.after("r1")
    engine.close()
    again = machine.engine()
    assert file in again.reason
    assert again.before("r2") == installed.News()
    Path(file).unlink()
    assert again.before("r2").released


def test_without_an_engine_it_is_accepted_for_the_next_one(machine: Machine) -> None:
    engine = machine.engine()
    engine.before("r1")
    file = machine.put("evil.pth")
    engine.after("r1")
    engine.close()
    assert accept_without_engine(machine.file) == [Change(file, What.APPEARED)]
    assert accept_without_engine(machine.file) == []
    again = machine.engine()
    assert again.accepted_before  # the rungs leave quarantine
    assert again.reason == ""
    assert machine.engine().accepted_before  # so long as nobody has done it
    again.released()
    assert not machine.engine().accepted_before


def test_a_memory_that_cannot_be_read_is_as_none(machine: Machine) -> None:
    machine.engine()
    machine.file.write_bytes(b"{")
    assert recall(machine.file) is None
    assert machine.engine().reason == ""


# -- what processes have imported --------------------------------------------------------------------------------------


def test_a_file_that_a_process_has_imported_is_looked_at_too(machine: Machine) -> None:
    engine = machine.engine()
    deep = str(machine.site / "torch" / "functional.py")
    assert not engine.knows("plain")
    engine.learn("plain", [str(machine.site)], [deep])
    assert engine.knows("plain")
    engine.before("r1")
    Path(deep).write_text("B = 2\n")
    assert engine.after("r1") == [Change(deep, What.CHANGED)]
    assert deep in machine.engine().reason  # the next engine knows of it before any process has said so


def test_a_folder_that_only_processes_import_from_is_looked_at_too(machine: Machine, tmp_path: Path) -> None:
    engine = machine.engine()
    other = tmp_path / "other"
    other.mkdir()
    engine.learn("plain", ["", str(other)], [])
    engine.before("r1")
    (other / "torch.py").write_text("")
    assert engine.after("r1") == [Change(str(other / "torch.py"), What.APPEARED)]


def compiled(source: Path) -> Path:
    """What Python would write beside a source that it imports."""
    return Path(py_compile.compile(str(source), doraise=True))


def test_a_compiled_file_that_python_writes_is_no_change_and_one_that_holds_other_code_is(machine: Machine) -> None:
    source = machine.site / "torch" / "functional.py"
    at = Path(py_compile.compile(str(source), doraise=True))
    at.unlink()
    engine = machine.engine()
    engine.learn("plain", [], [str(source), str(at)])
    engine.before("r1")
    compiled(source)
    assert engine.after("r1") == []
    honest = at.read_bytes()
    evil = machine.site.parent / "evil.py"
    evil.write_text("B = 666\n")
    at.write_bytes(honest[:16] + compiled(evil).read_bytes()[16:])  # Python takes it for the source
    engine.before("r2")
    at.write_bytes(honest[:16] + compiled(evil).read_bytes()[16:] + b" ")
    assert engine.after("r2") == [Change(str(at), What.CHANGED)]


def test_a_compiled_file_that_crashes_its_reader_costs_a_process_and_not_the_engine(machine: Machine) -> None:
    source = machine.site / "torch" / "functional.py"
    at = compiled(source)
    at.write_bytes(at.read_bytes()[:16] + b"\xdb" + b"\xff" * 64)
    honest = compiled(machine.site / "torch" / "__init__.py")
    assert installed.faithful([str(at), str(honest)]) == [str(honest)], "those behind it are looked at all the same"


def test_a_process_that_could_not_look_is_no_witness_against_a_compiled_file(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = compiled(machine.site / "torch" / "functional.py")
    helped = spawner.helped
    busy = [OSError(errno.EAGAIN, "Resource temporarily unavailable")]

    def refused_once(*words: Any) -> Any:
        if busy:
            raise busy.pop()
        return helped(*words)

    monkeypatch.setattr(spawner, "helped", refused_once)
    assert installed.faithful([str(at)]) == [str(at)]
    assert not busy


# -- cost --------------------------------------------------------------------------------------------------------------


def test_a_look_where_nothing_has_changed_starts_no_process_and_opens_no_file(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = machine.engine()
    engine.learn("plain", [str(machine.site)], [str(machine.site / "torch" / "functional.py")])
    seen: list[str] = []
    watching = [True]

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if watching and event in ("open", "subprocess.Popen", "os.fork", "os.posix_spawn"):
            seen.append(f"{event} {args[0]}")

    sys.addaudithook(hook)
    try:
        assert engine.after("r1") == []
        engine.glance()
    finally:
        watching.clear()
    assert seen == []


def test_nothing_is_read_while_something_is_measured(machine: Machine) -> None:
    engine = machine.engine()
    engine.read_in_background(lambda: True)
    time.sleep(0.3)
    assert engine.hashed_bytes == 0
    engine.close()
    assert engine.state()["hashed"] == 0


def test_every_file_is_read_once(machine: Machine) -> None:
    engine = machine.engine()
    read_all(engine)
    state = engine.state()
    files = [entry for path, entry in engine._entries.items() if entry.stat[0] and not path.endswith(os.sep)]
    assert state["hashed"] == state["files"] == len(files)
    assert engine.hashed_bytes == sum(entry.stat[1] for entry in files)
    engine.close()


# -- shadows -----------------------------------------------------------------------------------------------------------


def test_a_lone_file_in_the_place_of_a_package_or_of_the_standard_library_is_named(
    machine: Machine, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    first.mkdir()
    path = installed.import_path()
    assert shadows([str(first), str(machine.site), *path]) == {}
    (first / "torch.py").write_text("")
    (first / "ctypes.py").write_text("")
    found = shadows([str(first), str(machine.site), *path])
    assert found[str(first / "torch.py")] == str(machine.site / "torch" / "__init__.py")
    assert found[str(first / "ctypes.py")].endswith("/ctypes/__init__.py")
    assert len(found) == 2


def test_a_package_that_is_installed_twice_shadows_nothing(machine: Machine, tmp_path: Path) -> None:
    again = tmp_path / "again" / "site-packages" / "torch"
    again.mkdir(parents=True)
    (again / "__init__.py").write_text("")
    assert shadows([str(again.parent), str(machine.site)]) == {}


def test_the_import_path_is_that_of_a_process_that_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    path = installed.import_path()
    assert "/somewhere/else" not in path
    plain = [sys.executable, "-I", "-c", "import sys; print(*sys.path, sep='\\n')"]
    wanted = subprocess.run(plain, capture_output=True, text=True, check=True, cwd="/").stdout.splitlines()
    assert path == [entry for entry in wanted if entry.startswith(os.sep)]


# -- our own sources ---------------------------------------------------------------------------------------------------


def test_our_own_sources_are_looked_at_and_lessons_and_tests_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "package"
    for name in ("engine/worker/arm.py", "checks/registry.py", "kernels/catalog/model.py", "kernels/cuda.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("A = 1\n")
    monkeypatch.setattr(installed, "__file__", str(root / "engine" / "installed.py"))
    engine = Installation(tmp_path / "state.json", path=[])
    engine.begin()
    engine.before("r1")
    for name in ("checks/gallery/x/cheat.py", "engine/__pycache__/a.py", "kernels/ch07/baseline.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("B = 2\n")
    assert engine.after("r1") == []
    arm = root / "engine/worker/arm.py"
    before = arm.stat()
    arm.write_text("A = 2\n")
    os.utime(arm, ns=(before.st_atime_ns, before.st_mtime_ns))  # as somebody would who wants it unnoticed
    (root / "engine/new.py").write_text("")
    assert engine.after("r2") == [
        Change(str(root / "engine/new.py"), What.APPEARED),
        Change(str(arm), What.CHANGED),
    ]


def test_the_own_files_are_what_judges_measures_and_stores() -> None:
    root = Path(installed.__file__).parents[1]
    covered = {str(Path(path).relative_to(root)) for path in installed.own_files()}
    wanted = {"engine/worker/arm.py", "checks/oracle/comparator.py", "kernels/cuda.py", "kernels/catalog/loader.py"}
    assert (
        wanted
        | {
            "kernels/peers.py",
            "kernels/runtime/packing.py",
            "store/writer.py",
            "engine/verdicts.py",
            "store/results/datasheets.toml",
        }
        <= covered
    )
    assert not [name for name in covered if "gallery" in name or not name.endswith((".py", ".toml"))]


def test_what_a_full_disk_cut_off_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "installed.json"
    remembered = installed.Remembered("python3.11")
    installed.keep(file, remembered)
    before = file.read_bytes()

    asked: list[Path] = []

    def full(source: Path, target: Path, **_: object) -> None:
        asked.append(target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    installed.keep(file, remembered)
    assert asked == [file]
    assert [(left.name, left.read_bytes()) for left in tmp_path.iterdir()] == [("installed.json", before)]


def test_what_is_remembered_never_goes_to_a_folder_that_was_put_in_its_place(machine: Machine, tmp_path: Path) -> None:
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    state.mkdir()
    engine = Installation(state / "installed.json", path=[str(machine.site)], own=False)
    engine.begin()
    before = (state / "installed.json").read_bytes()
    state.rename(elsewhere)
    state.mkdir()
    machine.put("sitecustomize.py")
    engine.before("R1")
    assert sorted(path.name for path in elsewhere.iterdir()) == ["installed.json", "installed.run"]
    engine.close()
    assert list(state.iterdir()) == []
    assert [path.name for path in elsewhere.iterdir()] == ["installed.json"]
    assert (elsewhere / "installed.json").read_bytes() != before
