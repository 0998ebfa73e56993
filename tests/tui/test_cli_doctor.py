"""`aisp doctor`: each finding on a machine that the test makes up, and that nothing is changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from tests.tui.fake_engine import FakeEngine, isolate
from tui.cli import cli
from tui.commands import machine
from tui.commands.machine import Check, Facts, Verdict


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    # Asking torch takes seconds and says nothing about the other checks.
    monkeypatch.setattr(machine, "_run", lambda words, patience_s: None)
    return isolate(monkeypatch, tmp_path)


def by_id(found: Any) -> dict[str, Check]:
    return {check.id: check for check in found}


def test_every_check_is_a_value_with_a_fix_where_one_is_needed() -> None:
    shown = CliRunner().invoke(cli, ["doctor", "--json"])
    told = json.loads(shown.stdout)
    ids = [check["id"] for check in told["checks"]]
    assert len(ids) == len(set(ids))
    assert {"python", "torch", "cuda", "triton", "numpy", "nvrtc", "nvml", "sqlite", "state", "disk", "socket"} <= set(
        ids
    )
    assert {"engine", "inotify_max_user_watches", "clock", "logind", "term", "encoding", "clipboard"} <= set(ids)
    assert sum(told["counts"].values()) == len(ids)
    for check in told["checks"]:
        assert check["state"] in {"ok", "warning", "problem", "unknown"}
        assert check["value"]
        assert check["fix"] or check["state"] != "problem"
    problems = told["counts"]["problem"]
    assert shown.exit_code == (1 if problems else 0)


def test_torch_is_not_imported_and_nothing_in_the_state_folder_changes(state: Path) -> None:
    CliRunner().invoke(cli, ["store", "info"])
    (state / "aisp.db").write_bytes(b"anything")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in [state, *state.rglob("*")]}
    modules = set(sys.modules)
    CliRunner().invoke(cli, ["doctor"])
    assert {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in [state, *state.rglob("*")]} == before
    assert not {"torch", "triton"} & (set(sys.modules) - modules)


def test_a_check_that_falls_over_is_unknown_and_the_others_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fall(facts: Facts) -> Any:
        raise OSError("a strange\x1b[2J machine")

    monkeypatch.setattr(machine, "CHECKS", (fall, machine.python))
    shown = CliRunner().invoke(cli, ["doctor"])
    assert shown.exit_code == 0
    assert "could not be looked at: OSError: a strange␛[2J machine" in shown.stdout
    assert "Python" in shown.stdout


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("3.36.0", Verdict.PROBLEM), ("3.40.1", Verdict.WARNING), ("3.51.2", Verdict.WARNING), ("3.51.3", Verdict.OK)],
)
def test_sqlite_before_3_51_3_has_the_wal_reset_bug(version: str, verdict: Verdict) -> None:
    assert machine.sqlite_check(version).verdict is verdict


@pytest.mark.parametrize(("free", "verdict"), [(2**20, Verdict.PROBLEM), (2**29, Verdict.WARNING), (2**31, Verdict.OK)])
def test_a_full_disk_is_a_problem_before_it_is_full(free: int, verdict: Verdict) -> None:
    assert machine.disk_check(free).verdict is verdict


@pytest.mark.parametrize(
    ("answer", "expected", "verdict", "words"),
    [
        ('{"cuda": "13.0", "available": true, "devices": 2}', True, Verdict.OK, "2 device(s)"),
        ('{"cuda": null, "available": false, "devices": 0}', False, Verdict.WARNING, "built for the CPU"),
        ('{"cuda": null, "available": false, "devices": 0}', True, Verdict.PROBLEM, "built for the CPU"),
        ('{"cuda": "13.0", "available": false, "devices": 0}', True, Verdict.PROBLEM, "no usable GPU"),
        (None, True, Verdict.PROBLEM, "failed"),
        ("garbage", False, Verdict.PROBLEM, "failed"),
    ],
)
def test_cuda_is_judged_by_what_a_process_of_its_own_could_do(
    answer: str | None, expected: bool, verdict: Verdict, words: str
) -> None:
    check = machine.cuda_check(answer, gpu_expected=expected)
    assert check.verdict is verdict
    assert words in check.value


class FakeNvml(SimpleNamespace):
    """The parts of pynvml that are read, for a machine with one GPU; `failure` is what nvmlInit raises."""

    class NVMLError(Exception):
        def __init__(self, value: int, text: str) -> None:
            super().__init__(text)
            self.value = value

    NVML_CLOCK_SM = 1

    def __init__(self, failure: tuple[int, str] | None = None, mig: int = 0) -> None:
        def init() -> None:
            if failure:
                raise self.NVMLError(*failure)

        super().__init__(
            nvmlInit=init,
            nvmlShutdown=lambda: None,
            nvmlSystemGetDriverVersion=lambda: "580.65.06",
            nvmlDeviceGetCount=lambda: 1,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetName=lambda handle: b"NVIDIA H100 80GB HBM3",
            nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
            nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80 * 2**30),
            nvmlDeviceGetMigMode=lambda handle: [mig, mig],
            nvmlDeviceGetClockInfo=lambda handle, kind: 345,
            nvmlDeviceGetMaxClockInfo=lambda handle, kind: 1980,
        )


@pytest.mark.parametrize(
    ("code", "said", "fix"),
    [
        (12, "NVML Shared Library Not Found", "PyTorch pairs are timed on the CPU"),
        (9, "Driver Not Loaded", "modprobe nvidia"),
        (18, "Driver/library version mismatch", "reboot, or reload the module"),
    ],
)
def test_a_missing_driver_is_told_in_its_own_words_and_the_gpu_values_are_dashes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, said: str, fix: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(failure=(code, said)))
    found = by_id(machine.nvml(Facts(root=tmp_path)))
    assert found["nvml"].value == f"{said} (NVML {code})"
    assert fix in found["nvml"].fix
    assert {found[name].value for name in ("gpus", "mig", "clocks")} == {"-"}
    assert {found[name].verdict for name in ("gpus", "mig", "clocks")} == {Verdict.UNKNOWN}


def test_a_missing_driver_is_a_problem_only_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(failure=(12, "not found")))
    assert by_id(machine.nvml(Facts(root=tmp_path)))["nvml"].verdict is Verdict.WARNING
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    found = by_id(machine.nvml(Facts(root=tmp_path)))["nvml"]
    assert found.verdict is Verdict.PROBLEM
    assert "install the NVIDIA driver" in found.fix


def test_gpus_are_shown_with_sm_memory_mig_and_whether_clocks_may_be_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(mig=1))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = by_id(machine.nvml(Facts()))
    assert found["nvml"].value == "driver 580.65.06"
    assert found["gpu0"].value == "NVIDIA H100 80GB HBM3, sm_90, 80.0 GiB"
    assert (found["mig0"].verdict, found["mig0"].value) == (Verdict.WARNING, "on")
    assert found["clocks0"].verdict is Verdict.WARNING
    assert found["clocks0"].value == "SM 345 of 1980 MHz, only root may lock them"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert by_id(machine.nvml(Facts()))["clocks0"].verdict is Verdict.OK


def test_low_inotify_limits_come_with_the_command_that_raises_them(tmp_path: Path) -> None:
    folder = tmp_path / "proc/sys/fs/inotify"
    folder.mkdir(parents=True)
    (folder / "max_user_watches").write_text("1024\n")
    (folder / "max_user_instances").write_text("128\n")
    found = by_id(machine.inotify(Facts(root=tmp_path)))
    assert found["inotify_max_user_watches"].verdict is Verdict.WARNING
    assert "sysctl fs.inotify.max_user_watches=32768" in found["inotify_max_user_watches"].fix
    assert found["inotify_max_user_instances"].verdict is Verdict.OK
    assert by_id(machine.inotify(Facts(root=tmp_path / "none")))["inotify_max_user_watches"].value == "-"


def test_an_ssh_session_whose_logind_kills_is_warned_unless_the_user_lingers(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/logind.conf.d").mkdir(parents=True)
    (tmp_path / "etc/systemd/logind.conf").write_text("[Login]\n#KillUserProcesses=no\nKillUserProcesses=no\n")
    ssh = Facts(env={"SSH_CONNECTION": "a b c d", "USER": "ada"}, root=tmp_path)
    assert by_id(machine.logind(ssh))["logind"].verdict is Verdict.OK
    (tmp_path / "etc/systemd/logind.conf.d/10.conf").write_text("[Login]\nKillUserProcesses = yes\n")
    found = by_id(machine.logind(ssh))["logind"]
    assert found.verdict is Verdict.WARNING
    assert "loginctl enable-linger" in found.fix
    assert by_id(machine.logind(Facts(env={}, root=tmp_path)))["logind"].verdict is Verdict.OK
    (tmp_path / "var/lib/systemd/linger").mkdir(parents=True)
    (tmp_path / "var/lib/systemd/linger/ada").touch()
    assert by_id(machine.logind(ssh))["logind"].verdict is Verdict.OK


def test_a_setting_that_nobody_tells_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    ssh = Facts(env={"SSH_TTY": "/dev/pts/1", "USER": "ada"}, root=tmp_path)
    assert by_id(machine.logind(ssh))["logind"].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [("on", Verdict.OK), ("external", Verdict.WARNING), ("off", Verdict.WARNING), (None, Verdict.UNKNOWN)],
)
def test_tmux_must_be_told_to_pass_copies_on(setting: str | None, verdict: Verdict) -> None:
    found = machine.tmux_check({"TMUX": "/tmp/tmux-0/default,1,0"}, setting)
    assert found.verdict is verdict
    assert ("tmux set -s set-clipboard on" in found.fix) is (verdict is not Verdict.OK)
    assert machine.tmux_check({}, None).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("env", "verdict", "value"),
    [
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, Verdict.OK, "none, as NO_COLOR asks"),
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, Verdict.OK, "16 million"),
        ({"TERM": "xterm-256color"}, Verdict.OK, "256"),
        ({"TERM": "vt100"}, Verdict.WARNING, "16 or fewer, by its name"),
    ],
)
def test_colours_are_told_by_the_terminals_word(env: dict[str, str], verdict: Verdict, value: str) -> None:
    found = machine.colour_check(env)
    assert (found.verdict, found.value) == (verdict, value)


def test_a_terminal_that_cannot_draw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_id(machine.terminal(Facts(env={"TERM": "dumb"})))
    assert found["term"].verdict is Verdict.WARNING
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="UTF-8"))
    console = by_id(machine.terminal(Facts(env={"TERM": "linux"})))["braille"]
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="latin-1"))
    latin = by_id(machine.terminal(Facts(env={"TERM": "xterm"})))
    assert "aisp-tui --graph block" in console.fix
    assert "aisp-tui --graph ascii" in latin["braille"].fix
    assert latin["encoding"].verdict is Verdict.WARNING


def test_a_wall_clock_that_jumps_is_seen() -> None:
    assert machine.drift_check(250_000_000, 250_010_000).verdict is Verdict.OK
    assert machine.drift_check(1_250_000_000, 250_000_000).verdict is Verdict.WARNING
    assert machine.drift_check(-750_000_000, 250_000_000).verdict is Verdict.WARNING


def test_triton_without_a_gpu_wants_an_older_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    versions = {"triton": "3.7.1", "numpy": "2.4.0"}
    monkeypatch.setattr(machine, "_version", versions.get)
    found = by_id(machine.triton(Facts(root=tmp_path)))["numpy"]
    assert found.verdict is Verdict.WARNING
    assert 'pip install "numpy<2.4"' in found.fix
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert by_id(machine.triton(Facts(root=tmp_path)))["numpy"].verdict is Verdict.OK
    versions["numpy"] = "2.3.5"
    assert by_id(machine.triton(Facts(root=tmp_path / "none")))["numpy"].verdict is Verdict.OK


def test_the_state_folder_that_others_could_take_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "link"))
    found = by_id(machine.state_folder(Facts()))["state"]
    assert found.verdict is Verdict.PROBLEM
    assert "symbolic link" in found.value


def test_a_state_folder_that_does_not_last_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.paths.state_is_temporary", lambda: True)
    found = by_id(machine.state_folder(Facts()))["state"]
    assert found.verdict is Verdict.WARNING
    assert "gone after a reboot" in found.value


def test_the_engine_is_compared_with_this_program() -> None:
    assert "not running" in by_id(machine.engine(Facts()))["engine"].value
    with FakeEngine() as fake:
        assert by_id(machine.engine(Facts()))["engine"].verdict is Verdict.OK
        fake.build = "000000000000"
        older = by_id(machine.engine(Facts()))["engine"]
        fake.protocol += 1
        other = by_id(machine.engine(Facts()))["engine"]
    assert older.verdict is Verdict.WARNING
    assert "is build 000000000000, this program" in older.value
    assert "aisp engine stop --when-idle" in older.fix
    assert other.verdict is Verdict.PROBLEM
