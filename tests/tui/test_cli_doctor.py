"""`aisp doctor`: each finding on a machine that the test makes up, and that nothing is changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from aisp.engine import installed, paths
from aisp.store import Store
from aisp.tui.cli import doctor, imports, limits, machine
from aisp.tui.cli.tree import cli
from aisp.tui.facts import Check, Facts, Health
from tests.store.examples import finished, planned
from tests.tui.fake_engine import FakeEngine, isolate


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
    assert {"device_files", "cgroup_memory", "cgroup_processes", "cgroup_cpu", "clock_sync", "braille"} <= set(ids)
    assert sum(told["counts"].values()) == len(ids)
    for check in told["checks"]:
        assert check["state"] in {"ok", "warning", "problem", "unknown"}
        assert check["value"]
        assert check["fix"] or check["state"] != "problem"
    problems = told["counts"]["problem"]
    assert shown.exit_code == (1 if problems else 0)


def test_torch_is_not_imported_and_nothing_in_the_state_folder_changes(state: Path) -> None:
    CliRunner().invoke(cli, ["store"])
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
    [("3.36.0", Health.PROBLEM), ("3.40.1", Health.WARNING), ("3.51.2", Health.WARNING), ("3.51.3", Health.OK)],
)
def test_sqlite_before_3_51_3_has_the_wal_reset_bug(version: str, verdict: Health) -> None:
    assert machine.sqlite_check(version).verdict is verdict


def test_what_processes_are_taken_to_differ_by_is_told_for_each_kind_of_timing(state: Path) -> None:
    known = {"deviation": 0.005, "freedom": 1.0, "source": "shipped"}
    wide = {"deviation": 0.02, "freedom": 6.0, "source": "12 runs"}
    with Store.open(paths.database_file()) as store:
        for device, prior in (
            ("cpu", known),
            ("cuda", {"held": known, "host": wide}),
        ):  # the first as older runs have it
            run = msgspec.structs.replace(finished(planned(device=device)), manifest={"prior": prior})
            store.finish(msgspec.structs.replace(run, environment=store.put_environment({})), {})
    (told,) = machine.processes(Facts())
    assert told.value.split("; ") == [
        "cuda 0.50 %, worth 1.0 degrees of freedom (shipped), "
        "cuda + host 2.00 %, worth 6.0 degrees of freedom (12 runs)",
        "cpu 0.50 %, worth 1.0 degrees of freedom (shipped)",
    ]


@pytest.mark.parametrize(("free", "verdict"), [(2**20, Health.PROBLEM), (2**29, Health.WARNING), (2**31, Health.OK)])
def test_a_full_disk_is_a_problem_before_it_is_full(free: int, verdict: Health) -> None:
    assert machine.disk_check(free).verdict is verdict


@pytest.mark.parametrize(
    ("answer", "expected", "verdict", "words"),
    [
        ('{"cuda": "13.0", "available": true, "devices": 2}', True, Health.OK, "2 device(s)"),
        ('{"cuda": null, "available": false, "devices": 0}', False, Health.WARNING, "built for the CPU"),
        ('{"cuda": null, "available": false, "devices": 0}', True, Health.PROBLEM, "built for the CPU"),
        ('{"cuda": "13.0", "available": false, "devices": 0}', True, Health.PROBLEM, "no usable GPU"),
        (None, True, Health.PROBLEM, "failed"),
        ("garbage", False, Health.PROBLEM, "failed"),
        ('{"cuda": "13.0", "available": true, "devices": 1, "error": "E: no"}', True, Health.PROBLEM, "failed: E: no"),
    ],
)
def test_cuda_is_judged_by_what_a_process_of_its_own_could_do(
    answer: str | None, expected: bool, verdict: Health, words: str
) -> None:
    check = machine.cuda_check(machine.answer(answer), gpu_expected=expected)
    assert check.verdict is verdict
    assert words in check.value


def test_a_torch_that_cannot_be_imported_is_the_problem_and_says_what_python_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "ImportError: libcudart.so.12: cannot open shared object file"
    monkeypatch.setattr(machine, "_run", lambda words, patience_s: json.dumps({"error": said}))
    (check,) = machine.torch(Facts())
    assert check.verdict is Health.PROBLEM
    assert check.value.endswith(f" is installed and cannot be imported: {said}")


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
            nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=4711), SimpleNamespace(pid=4712)],
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
    unasked = ("gpus", "mig", "clocks", "processes")
    assert {found[name].value for name in unasked} == {"- (NVML did not start)"}
    assert {found[name].verdict for name in unasked} == {Health.UNKNOWN}


def test_a_missing_driver_is_a_problem_only_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(failure=(12, "not found")))
    assert by_id(machine.nvml(Facts(root=tmp_path)))["nvml"].verdict is Health.WARNING
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    found = by_id(machine.nvml(Facts(root=tmp_path)))["nvml"]
    assert found.verdict is Health.PROBLEM
    assert "install the NVIDIA driver" in found.fix


def test_gpus_are_shown_with_sm_memory_mig_clocks_and_who_uses_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(mig=1))
    found = by_id(machine.nvml(with_rights(tmp_path, "0000000000000000")))
    assert found["nvml"].value == "driver 580.65.06"
    assert found["gpu0"].value == "NVIDIA H100 80GB HBM3, sm_90, 80.0 GiB"
    assert (found["mig0"].verdict, found["mig0"].value) == (Health.WARNING, "on")
    assert found["clocks0"].verdict is Health.WARNING
    assert found["clocks0"].value == "SM 345 of 1980 MHz, locking them needs CAP_SYS_ADMIN on the host"
    assert found["clocks0"].fix.endswith("sudo nvidia-smi -i 0 --lock-gpu-clocks=1980")
    assert found["processes0"].value == "can be seen: 2 now (pid 4711, 4712)"


@pytest.mark.parametrize(
    ("capabilities", "users", "verdict"),
    [
        ("000001ffffffffff", "0 0 4294967295", Health.OK),  # root of the host
        ("00000000a80425fb", "0 0 4294967295", Health.WARNING),  # root in a container
        ("000001ffffffffff", "0 1000 1", Health.WARNING),  # root of a user namespace
        ("0000000000200000", "0 0 4294967295", Health.OK),  # nobody, with that one capability
        ("", "", Health.UNKNOWN),
    ],
)
def test_who_may_lock_clocks_is_a_capability_of_the_host_and_not_uid_0(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capabilities: str, users: str, verdict: Health
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert by_id(machine.nvml(with_rights(tmp_path, capabilities, users)))["clocks0"].verdict is verdict


def with_rights(root: Path, capabilities: str, users: str = "0 0 4294967295") -> Facts:
    """A machine whose /proc tells these capabilities and this mapping of users; nothing where they are empty."""
    if capabilities:
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/status").write_text(f"Name:\tpython\nCapPrm:\tffffffffffffffff\nCapEff:\t{capabilities}\n")
        (root / "proc/self/uid_map").write_text(f"   {users}\n")
    return Facts(root=root)


def test_a_driver_that_hides_processes_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = FakeNvml()
    del library.nvmlDeviceGetComputeRunningProcesses
    monkeypatch.setitem(sys.modules, "pynvml", library)
    found = by_id(machine.nvml(Facts(root=tmp_path)))["processes0"]
    assert (found.verdict, found.value) == (Health.WARNING, "the driver does not list them")
    assert "--pid=host" in found.fix


def test_device_files_that_this_user_may_not_open_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (none,) = machine.device_files(Facts(root=tmp_path))
    assert (none.verdict, none.value) == (Health.OK, "none: no NVIDIA driver here")
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    (good,) = machine.device_files(Facts(root=tmp_path))
    assert (good.verdict, good.value) == (Health.OK, "nvidia0, nvidiactl, nvidia-uvm can be opened")
    monkeypatch.setattr("os.access", lambda path, mode: path.name != "nvidiactl")
    (shut,) = machine.device_files(Facts(root=tmp_path))
    assert shut.verdict is Health.PROBLEM
    assert shut.value == f"{tmp_path}/dev/nvidiactl cannot be opened by this user"
    assert "usermod -aG" in shut.fix


def in_groups(root: Path, group: str, files: dict[str, str]) -> Facts:
    """A machine on which we are in `group`, with these files of the control groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    for name, text in files.items():
        place = root / "sys/fs/cgroup" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + "\n")
    return Facts(root=root)


def test_the_tightest_control_group_of_all_levels_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    facts = in_groups(
        tmp_path,
        "0::/user.slice/ada.scope\n",
        {
            "cgroup.controllers": "cpu memory pids",
            "user.slice/memory.max": str(2 * 2**30),
            "user.slice/memory.current": str(2**29),
            "user.slice/ada.scope/memory.max": "max",
            "user.slice/ada.scope/pids.max": "100",
            "user.slice/ada.scope/pids.current": "60",
            "user.slice/pids.max": "33000",
            "user.slice/ada.scope/cpu.max": "max 100000",
            "user.slice/cpu.max": "250000 100000",
        },
    )
    found = by_id(limits.cgroups(facts))
    assert found["cgroup_memory"].value == "512.0 MiB used of 2.0 GiB"
    assert found["cgroup_memory"].verdict is Health.WARNING
    assert "systemd-run --user --scope -p MemoryMax=8G" in found["cgroup_memory"].fix
    assert found["cgroup_processes"].value == "60 used of 100 processes and threads"
    assert found["cgroup_processes"].verdict is Health.PROBLEM  # 40 are left
    assert found["cgroup_cpu"].value == "a quota of 2.5 cores, 16 cores to run on"
    assert found["cgroup_cpu"].verdict is Health.WARNING


def test_control_groups_of_the_first_version_are_read_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(2)))
    facts = in_groups(
        tmp_path,
        "8:pids:/\n4:memory:/docker/1234\n1:cpu,cpuacct:/docker/1234\n0::/\n",
        {
            # The group's name is the host's; in the container only its root is there.
            "memory/memory.limit_in_bytes": str(512 * 2**20),
            "memory/memory.usage_in_bytes": str(2**20),
            "pids/pids.max": "max",
            "cpu/cpu.cfs_quota_us": "400000",
            "cpu/cpu.cfs_period_us": "100000",
        },
    )
    found = by_id(limits.cgroups(facts))
    assert (found["cgroup_memory"].verdict, found["cgroup_memory"].value) == (
        Health.PROBLEM,
        "1.0 MiB used of 512.0 MiB",
    )
    assert (found["cgroup_processes"].verdict, found["cgroup_processes"].value) == (Health.OK, "no limit")
    assert (found["cgroup_cpu"].verdict, found["cgroup_cpu"].value) == (
        Health.OK,
        "a quota of 4 cores, 2 cores to run on",
    )


def test_no_limit_is_said_and_an_unreadable_one_is_no_zero(tmp_path: Path) -> None:
    unread = list(limits.cgroups(Facts(root=tmp_path)))
    assert {check.verdict for check in unread} == {Health.UNKNOWN}
    assert {check.value for check in unread} == {"- (/proc/self/cgroup cannot be read)"}
    # The first version writes "no limit" as the largest number of whole pages.
    facts = in_groups(tmp_path, "4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"})
    assert by_id(limits.cgroups(facts))["cgroup_memory"].value == "no limit"


def test_low_inotify_limits_come_with_the_command_that_raises_them(tmp_path: Path) -> None:
    folder = tmp_path / "proc/sys/fs/inotify"
    folder.mkdir(parents=True)
    (folder / "max_user_watches").write_text("1024\n")
    (folder / "max_user_instances").write_text("128\n")
    found = by_id(limits.inotify(Facts(root=tmp_path)))
    assert found["inotify_max_user_watches"].verdict is Health.WARNING
    assert "sysctl fs.inotify.max_user_watches=32768" in found["inotify_max_user_watches"].fix
    assert found["inotify_max_user_watches"].value == "1,024 watches"
    assert found["inotify_max_user_instances"].verdict is Health.OK
    assert by_id(limits.inotify(Facts(root=tmp_path / "none")))["inotify_max_user_watches"].value == (
        "- (/proc/sys/fs/inotify/max_user_watches cannot be read)"
    )


def test_an_ssh_session_whose_logind_kills_is_warned_unless_the_user_lingers(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/logind.conf.d").mkdir(parents=True)
    (tmp_path / "etc/systemd/logind.conf").write_text("[Login]\n#KillUserProcesses=no\nKillUserProcesses=no\n")
    ssh = Facts(env={"SSH_CONNECTION": "a b c d", "USER": "ada"}, root=tmp_path)
    assert by_id(limits.logind(ssh))["logind"].verdict is Health.OK
    (tmp_path / "etc/systemd/logind.conf.d/10.conf").write_text("[Login]\nKillUserProcesses = yes\n")
    found = by_id(limits.logind(ssh))["logind"]
    assert found.verdict is Health.WARNING
    assert "loginctl enable-linger" in found.fix
    assert by_id(limits.logind(Facts(env={}, root=tmp_path)))["logind"].verdict is Health.OK
    (tmp_path / "var/lib/systemd/linger").mkdir(parents=True)
    (tmp_path / "var/lib/systemd/linger/ada").touch()
    assert by_id(limits.logind(ssh))["logind"].verdict is Health.OK


def test_a_setting_that_nobody_tells_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    ssh = Facts(env={"SSH_TTY": "/dev/pts/1", "USER": "ada"}, root=tmp_path)
    assert by_id(limits.logind(ssh))["logind"].verdict is Health.UNKNOWN


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [("on", Health.OK), ("external", Health.WARNING), ("off", Health.WARNING), (None, Health.UNKNOWN)],
)
def test_tmux_must_be_told_to_pass_copies_on(setting: str | None, verdict: Health) -> None:
    found = machine.tmux_check({"TMUX": "/tmp/tmux-0/default,1,0"}, setting)
    assert found.verdict is verdict
    assert ("tmux set -s set-clipboard on" in found.fix) is (verdict is not Health.OK)
    assert machine.tmux_check({}, None).verdict is Health.OK


@pytest.mark.parametrize(
    ("env", "verdict", "value"),
    [
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, Health.OK, "none, as NO_COLOR asks"),
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, Health.OK, "16 million"),
        ({"TERM": "xterm-256color"}, Health.OK, "256"),
        ({"TERM": "vt100"}, Health.WARNING, "16 or fewer, by its name"),
    ],
)
def test_colours_are_told_by_the_terminals_word(env: dict[str, str], verdict: Health, value: str) -> None:
    found = machine.colour_check(env)
    assert (found.verdict, found.value) == (verdict, value)


def test_a_terminal_that_cannot_draw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = by_id(machine.terminal(Facts(env={"TERM": "dumb"})))
    assert found["term"].verdict is Health.WARNING
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="UTF-8"))
    console = by_id(machine.terminal(Facts(env={"TERM": "linux"})))["braille"]
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding="latin-1"))
    latin = by_id(machine.terminal(Facts(env={"TERM": "xterm"})))
    assert "aisp-tui --graph block" in console.fix
    assert "aisp-tui --graph ascii" in latin["braille"].fix
    assert latin["encoding"].verdict is Health.WARNING


def test_a_wall_clock_that_jumps_is_seen() -> None:
    assert limits.drift_check(250_000_000, 250_010_000).verdict is Health.OK
    assert limits.drift_check(1_250_000_000, 250_000_000).verdict is Health.WARNING
    assert limits.drift_check(-750_000_000, 250_000_000).verdict is Health.WARNING


@pytest.mark.parametrize(
    ("told", "verdict", "value"),
    [
        ((0, 655360, 1200), Health.OK, "within 1.2 ms, speed corrected by +10.0 ppm"),
        ((5, 0, 16_000_000), Health.UNKNOWN, "nobody told the kernel that the wall clock is kept"),
        (None, Health.UNKNOWN, "- (the kernel does not say)"),
    ],
)
def test_whether_somebody_keeps_the_wall_clock_is_asked_of_the_kernel(
    told: tuple[int, int, int] | None, verdict: Health, value: str
) -> None:
    found = limits.sync_check(told)
    assert (found.verdict, found.value) == (verdict, value)
    assert bool(found.fix) is (verdict is not Health.OK)


def test_each_line_says_what_was_looked_at_how_it_went_what_was_found_and_the_fix() -> None:
    found = [
        Check("a", "memory", Health.OK, "no limit"),
        Check("b", "disk", Health.PROBLEM, "1.0 MiB free", "free some space"),
        Check("c", "GPUs", Health.UNKNOWN, "- (NVML did not start)"),
    ]
    assert "\n".join(doctor.lines(found)).splitlines() == [
        "ok           memory  no limit",
        "PROBLEM      disk    1.0 MiB free",
        "                     -> free some space",
        "cannot tell  GPUs    - (NVML did not start)",
    ]
    assert doctor.summary(found) == "1 ok, 1 problem, 1 cannot tell"


def test_only_a_problem_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(verdict: Health) -> int:
        monkeypatch.setattr(machine, "CHECKS", (lambda facts: iter([Check("a", "a", verdict, "1 GiB", "buy more")]),))
        return CliRunner().invoke(cli, ["doctor"]).exit_code

    assert {verdict: found(verdict) for verdict in Health} == {
        Health.OK: 0,
        Health.WARNING: 0,
        Health.PROBLEM: 1,
        Health.UNKNOWN: 0,
    }


def test_triton_without_a_gpu_wants_an_older_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    versions = {"triton": "3.7.1", "numpy": "2.4.0"}
    monkeypatch.setattr(machine, "_version", versions.get)
    found = by_id(machine.triton(Facts(root=tmp_path)))["numpy"]
    assert found.verdict is Health.WARNING
    assert 'pip install "numpy<2.4"' in found.fix
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert by_id(machine.triton(Facts(root=tmp_path)))["numpy"].verdict is Health.OK
    versions["numpy"] = "2.3.5"
    assert by_id(machine.triton(Facts(root=tmp_path / "none")))["numpy"].verdict is Health.OK


def test_how_much_compilers_made_is_told_with_the_way_to_clear_it(state: Path) -> None:
    (nothing,) = machine.compiled_files(Facts())
    assert nothing.value == "none"
    folder = paths.compiled_dir() / "ab"
    folder.mkdir(parents=True)
    (folder / "code").write_bytes(b"x" * 3 * 2**20)
    (told,) = machine.compiled_files(Facts())
    assert told.value == f"3.0 MiB of 1 rungs; to clear: rm -r {paths.compiled_dir()}"


def test_the_state_folder_that_others_could_take_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "link"))
    found = by_id(machine.state_folder(Facts()))["state"]
    assert found.verdict is Health.PROBLEM
    assert "symbolic link" in found.value


def test_a_state_folder_that_does_not_last_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisp.engine.paths.state_is_temporary", lambda: True)
    found = by_id(machine.state_folder(Facts()))["state"]
    assert found.verdict is Health.WARNING
    assert "gone after a reboot" in found.value


def test_the_engine_is_compared_with_this_program() -> None:
    assert "not running" in by_id(machine.engine(Facts()))["engine"].value
    with FakeEngine() as fake:
        assert by_id(machine.engine(Facts()))["engine"].verdict is Health.OK
        fake.build = "000000000000"
        older = by_id(machine.engine(Facts()))["engine"]
        fake.protocol += 1
        other = by_id(machine.engine(Facts()))["engine"]
    assert older.verdict is Health.WARNING
    assert "is build 000000000000, this program" in older.value
    assert "aisp engine --stop --when-idle" in older.fix
    assert other.verdict is Health.PROBLEM


def test_what_confinement_means_is_said_for_every_kernel() -> None:
    """A kernel without, an old version, today's, one where it was switched off, and a container without filters."""
    found = [
        machine.landlock_check(0, filtered=False, off=False),
        machine.landlock_check(1, filtered=True, off=False),
        machine.landlock_check(7, filtered=True, off=False),
        machine.landlock_check(7, filtered=True, off=True),
        machine.landlock_check(7, filtered=False, off=False),
    ]
    ok, warning = Health.OK, Health.WARNING
    assert [check.verdict for check in found] == [warning, ok, ok, warning, warning]
    assert [check.value for check in found] == [
        "no Landlock, no seccomp: kernels reach whatever this account can",
        "Landlock 1: workers are held from files, reading, network, scheduling; not from signals",
        "Landlock 7: workers are held from files, reading, network, signals, scheduling",
        "Landlock 7, switched off",
        "Landlock 7, no seccomp: workers are held from files, reading, network, signals; not from scheduling",
    ]
    assert "Linux 5.13" in found[0].fix and "seccomp" in found[0].fix
    assert "unset AISP_LANDLOCK" in found[3].fix


def test_a_file_that_shadows_a_module_is_a_problem_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert by_id(imports.import_path(Facts()))["imports"].verdict is Health.OK
    path = installed.import_path()
    (tmp_path / "ctypes.py").write_text("")
    monkeypatch.setattr(installed, "import_path", lambda: [str(tmp_path), *path])
    found = by_id(imports.import_path(Facts()))["imports"]
    assert found.verdict is Health.PROBLEM
    assert found.value.startswith(f"{tmp_path}/ctypes.py is imported in the place of ")
    assert found.fix == f"remove or rename {tmp_path}/ctypes.py"


def held_against_a_run() -> str:
    """As an engine leaves it."""
    (folder := paths.state_dir() / "site-packages").mkdir()
    engine = installed.Installation(installed.state_file(), path=[str(folder)], own=False)
    engine.begin()
    engine.before("R1")
    (folder / "evil.pth").write_text("")
    engine.after("R1")
    engine.close()
    return str(folder / "evil.pth")


def test_what_appeared_during_a_run_is_a_problem_until_it_is_accepted() -> None:
    assert by_id(imports.import_path(Facts()))["installed"].verdict is Health.OK
    file = held_against_a_run()
    found = by_id(imports.import_path(Facts()))["installed"]
    assert found.verdict is Health.PROBLEM
    assert f"{file} appeared while run R1 went on" in found.value
    assert "aisp doctor --accept" in found.fix
    shown = CliRunner().invoke(cli, ["doctor", "--accept"])
    assert (shown.exit_code, shown.stdout) == (0, f"accepted: {file} appeared\n")
    assert by_id(imports.import_path(Facts()))["installed"].verdict is Health.OK
    again = CliRunner().invoke(cli, ["doctor", "--accept", "--json"])
    assert json.loads(again.stdout) == {"schema": 1, "accepted": "nothing was held against a run"}


def test_an_engine_that_runs_is_asked_to_accept() -> None:
    held_against_a_run()
    with FakeEngine() as fake:
        fake.detail = "accepted: evil.pth appeared"
        shown = CliRunner().invoke(cli, ["doctor", "--accept"])
        assert [type(request).__name__ for request in fake.requests] == ["AcceptInstalled"]
    assert shown.stdout == "accepted: evil.pth appeared\n"
    assert by_id(imports.import_path(Facts()))["installed"].verdict is Health.PROBLEM  # it is the engine's to write
