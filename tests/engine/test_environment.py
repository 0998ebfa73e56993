"""What a result depends on beside the sources: enough to understand it later, and nothing that is nobody's business."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from aisp.checks import registry
from aisp.engine import environment
from aisp.engine.environment import VARIABLE_NAMES, describe, git_changed, git_revision, observe
from aisp.engine.protocol.reports import Ready
from aisp.engine.telemetry import Nvml, User
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import Held

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


def test_several_ranks_are_not_said_to_be_held_from_the_network(tmp_path: Path) -> None:
    ready = structs.replace(READY, held=[Held.FILES, Held.NETWORK])
    assert [describe(ready, "", tmp_path, ranks=ranks)["confined"] for ranks in (1, 2)] == [
        ["files", "network"],
        ["files"],
    ]


def test_what_is_unknown_is_none_and_not_zero(tmp_path: Path) -> None:
    found = describe(Ready(pid=1, torch="2.13.0+cpu", cuda=""), "", tmp_path)
    assert found["sm"] is None
    assert found["gpu_memory_bytes"] is None
    assert found["l2_bytes"] is None


def test_a_machine_without_proc_has_no_cpu_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "Path", lambda name: Path("/nowhere") / str(name).lstrip("/"))
    assert environment._cpu_name() == ""


# -- changes of a checkout ---------------------------------------------------------------------------------------------


def test_a_clean_checkout_an_edited_file_and_a_touched_one(repository: Path) -> None:
    assert git_changed(repository / "deep") is False
    file = repository / "file"
    os.utime(file, ns=(1, 1))  # another time, the same text
    assert git_changed(repository) is False
    file.write_text("2")
    assert git_changed(repository) is True
    file.unlink()
    assert git_changed(repository) is True


def test_a_file_that_git_does_not_know_changes_nothing_and_a_staged_one_is_not_judged(repository: Path) -> None:
    (repository / "deep" / "new").write_text("1")
    assert git_changed(repository) is False
    git(repository, "add", "-A")
    assert git_changed(repository) is None


def test_an_index_that_cannot_be_read_gives_no_answer(repository: Path, tmp_path: Path) -> None:
    index = repository / ".git" / "index"
    whole = index.read_bytes()
    for broken in (b"", b"nonsense" * 20, whole[:40], whole.replace(b"\0\0\0\2", b"\0\0\0\4", 1)):
        index.write_bytes(broken)
        assert git_changed(repository) is None
    (tmp_path / "elsewhere").mkdir()
    assert git_changed(tmp_path / "elsewhere") is None


# -- what can change while a run lasts ---------------------------------------------------------------------------------


class FakeDriver:
    """Answers as engine.telemetry.Nvml does."""

    note, count = "", 1

    def __init__(self, state: Mapping[str, object], users: list[User] | None) -> None:
        self._state, self._users = state, users

    def state(self, gpu: int) -> dict[str, object]:
        return dict(self._state) if gpu == 0 else {}

    def users(self, gpu: int) -> list[User] | None:
        return self._users if gpu == 0 else None


CHILD, NEIGHBOUR, NAMELESS = (os.getpid() + step for step in (1, 2, 3))  # any but the number of this process
NO_DRIVER = cast(Nvml, FakeDriver({}, None))


def lay(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A server with two nodes, a container of control group version 2, and some load."""
    pid = os.getpid()
    own = f"{pid} (a ) name) R 1 1 1 0 -1 0 0 0 0 0 100 50 30 20 0 0 0 0"
    child = f"{CHILD} (worker) S {pid} 1 1 0 -1 0 0 0 0 0 300 100 7 7 0 0 0 0"
    files = {
        f"proc/{pid}/stat": own,
        f"proc/{pid}/task/{pid}/children": f"{CHILD}",
        f"proc/{CHILD}/stat": child,
        f"proc/{CHILD}/task/{CHILD}/children": "",
        f"proc/{NEIGHBOUR}/stat": f"{NEIGHBOUR} (other) R 1",
        "proc/stat": "cpu  1000 200 300 4000 500 10 20 700 0 0\ncpu0 1 2 3\n",
        "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 64 kB\nSwapFree: 48 kB\nHugePages: 0\n",
        "proc/vmstat": "pswpin 12\npswpout 34\noom_kill 1\n",
        "proc/loadavg": "1.50 0.75 0.25 2/100 4\n",
        "proc/pressure/cpu": "some avg10=3.50 avg60=1.00 avg300=0.10 total=2500000\n",
        "proc/sys/vm/overcommit_memory": "1\n",
        "proc/self/cgroup": "0::/pod/one\n",
        "proc/cpuinfo": "processor : 0\nflags : fpu hypervisor sse\n",
        "proc/1/cgroup": "0::/kubepods/pod1\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\n",
        "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
        "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/pod/cpu.stat": "nr_periods 50\nnr_throttled 7\nthrottled_usec 2500000\n",
        "sys/fs/cgroup/pod/one/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pod/one/memory.max": "1048576\n",
        "sys/fs/cgroup/pod/memory.max": "max\n",
        "sys/fs/cgroup/pod/one/cpuset.cpus.effective": "0-3\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "sys/devices/system/cpu/smt/active": "1\n",
        "sys/devices/system/cpu/isolated": "\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node1/cpulist": "2-3\n",
        "sys/devices/system/node/possible": "0-1\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/bus/pci/devices/0000:17:00.0/numa_node": "1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        "tmp/nvidia-mps/control": "",
    }
    for core in os.sched_getaffinity(0):
        files[f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"] = "powersave\n"
        files[f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_max_freq"] = "3500000\n"
    return lay(tmp_path / "machine", files)


def test_the_machine_is_told_as_it_is(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    users = [User(CHILD, 5), User(NEIGHBOUR, 7, 900, 30), User(NAMELESS, None)]
    driver = cast(Nvml, FakeDriver({"uuid": "GPU-1", "pci": "00000000:17:00.0"}, users))
    found: dict[str, Any] = observe(driver, 0, root=machine)
    json.dumps(found)
    assert found["gpu"]["uuid"] == "GPU-1"
    assert found["gpu_processes"] == [
        {"pid": NEIGHBOUR, "here": True, "memory_bytes": 7, "sm_share_pct": 30, "busy_at_us": 900},
        {"pid": NAMELESS, "here": False, "memory_bytes": None, "sm_share_pct": None, "busy_at_us": None},
    ]
    assert found["gpu_pids_are_ours"] is True
    assert (found["gpu_numa_node"], found["driver_module"]) == (1, "580.65.06")
    assert found["mps"] is not None
    cores = environment._ranges(sorted(os.sched_getaffinity(0)))
    assert (found["governors"], found["cpu_most_khz"]) == ({"powersave": cores}, {"3500000": cores})
    assert (found["turbo"], found["smt"], found["isolated_cores"], found["clocksource"]) == (False, True, "", "tsc")
    assert (found["numa"], found["huge_pages"]) == ({"0": "0-1", "1": "2-3"}, "madvise")
    assert found["load"] == [1.5, 0.75, 0.25]
    assert found["pressure"] == {"cpu": {"some_avg10_pct": 3.5, "total_s": 2.5}, "memory": None, "io": None}
    assert (found["memory_total_bytes"], found["memory_available_bytes"]) == (1024000, 409600)
    assert (found["swap_bytes"], found["swap_used_bytes"], found["overcommit"]) == (65536, 16384, "always")
    assert (found["swapped_in_pages"], found["swapped_out_pages"], found["oom_kills"]) == (12, 34, 1)
    assert found["limits"] == {
        "cpus": 1.5, "memory_bytes": 1048576, "cores": "0-3", "periods": 50, "throttled_periods": 7, "throttled_s": 2.5,
    }  # fmt: skip
    assert found["virtual"] == {"hypervisor": True, "vendor": "Amazon EC2", "product": None, "type": None}
    assert found["container"] == "kubepods in /proc/1/cgroup"


def test_cores_are_told_with_their_hardware_threads_and_memory_nodes(machine: Path) -> None:
    lay(machine, {"sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "1,3\n"})
    assert environment.hardware_threads(1, machine) == {1, 3}
    assert environment.hardware_threads(0, machine) == {0}, "not told"
    assert environment.node_of_cores(machine) == {0: 0, 1: 0, 2: 1, 3: 1}
    assert environment.node_of_gpu(cast(Nvml, FakeDriver({"pci": "00000000:17:00.0"}, None)), 0, machine) == 1
    assert environment.node_of_gpu(NO_DRIVER, 0, machine) is None


def test_a_slot_with_cores_of_its_own_sees_these_and_their_time_alone(machine: Path) -> None:
    lines = ["cpu  900 0 0 0 0 0 0 0", "cpu0 100 0 0 0 0 0 0 1", "cpu1 200 0 0 0 0 0 0 2", "cpu11 9 9 9 9 9 9 9 9"]
    lay(machine, {"proc/stat": "\n".join(lines)})
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    told = environment.processor_time(machine / "proc")
    assert told is not None and told.busy_s == 900 * tick_s
    token = environment.slot_cores.set(frozenset({0, 1}))
    try:
        told = environment.processor_time(machine / "proc")
        assert told is not None
        assert (told.busy_s, told.stolen_s) == (pytest.approx(300 * tick_s), pytest.approx(3 * tick_s))
        assert observe(NO_DRIVER, 0, root=machine)["allowed_cores"] == "0-1"
        environment.slot_cores.set(frozenset({7}))
        assert environment.processor_time(machine / "proc") is None, "not told"
    finally:
        environment.slot_cores.reset(token)


class Told(dict[str, Any]):
    """An observation that whoever asks it for what nobody observes fails on."""

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def __missing__(self, name: str) -> Any:
        raise AssertionError(f"no observation has {name!r}")


def strict(plain: Any) -> Any:
    return Told({name: strict(value) for name, value in plain.items()}) if isinstance(plain, dict) else plain


@pytest.mark.parametrize("known", [True, False])
def test_judges_ask_of_a_machine_only_what_is_observed(machine: Path, known: bool) -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Nvml.state)))
    keys = [key for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys]
    names = [key.value for key in keys if isinstance(key, ast.Constant)]
    assert {"uuid", "driver", "power_limit_w", "mig"} <= set(names)
    state: dict[str, object] = {str(name): 1 if known and str(name)[-2:] in ("hz", "_w") else None for name in names}
    state |= {"uuid": "GPU-1", "driver": "580.65.06", "pci": "00000000:17:00.0"} if known else {}
    driver = cast(Nvml, FakeDriver(state, [User(NEIGHBOUR, 7, 900, 30)] if known else None))
    before, after = (strict(observe(driver, 0, root=machine)) for _ in range(2))
    after["installed"] = None  # engine.runs adds it
    folder = Path(__file__).parents[2] / "kernels/ch07_memory_access/transpose"
    target = catalog.load_target(folder, root=folder.parent.parent, chapter="ch07")
    assert isinstance(target, Target)
    run = registry.RunFacts(target, target.cases[0], "cuda", False, (), before=before, after=after)
    found = [finding for finding in registry.examine(run) if "the check itself failed" in finding.evidence]
    assert found == []


def test_processor_time_is_raw_and_ours_is_that_of_all_our_children(machine: Path) -> None:
    found: dict[str, Any] = observe(NO_DRIVER, 0, root=machine)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert found["busy_s"] == pytest.approx(1530 * tick_s)
    assert (found["idle_s"], found["steal_s"]) == (pytest.approx(4500 * tick_s), pytest.approx(700 * tick_s))
    assert found["own_s"] == pytest.approx((100 + 50 + 30 + 20 + 300 + 100) * tick_s)


def test_limits_of_version_1_are_read_where_the_group_is_named_from_outside(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/host/name\n2:cpu,cpuacct:/host/name\n3:cpuset:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 1500000000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-1\n",
        },
    )
    assert observe(NO_DRIVER, 0, root=tmp_path)["limits"] == {
        "cpus": 2.0, "memory_bytes": None, "cores": "0-1", "periods": 9, "throttled_periods": 3, "throttled_s": 1.5,
    }  # fmt: skip


def test_a_machine_that_tells_nothing_gives_none_and_no_zero(tmp_path: Path) -> None:
    found = observe(NO_DRIVER, 0, root=tmp_path)
    known = {"at_ns", "wall_us", "gpu_count", "allowed_cores", "nice", "policy", "kernel", "python", "variables"}
    for name, value in found.items():
        if name not in known | {"variable_names", "gpu", "virtual", "limits", "pressure"}:
            assert value is None, name
    for name in ("virtual", "limits", "pressure"):
        group = found[name]
        assert isinstance(group, dict)
        assert set(group.values()) == {None}, name


def test_of_variables_that_matter_only_the_names_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_TOKEN", "s3cr3t")
    monkeypatch.setenv("SOMEBODYS_SECRET", "s3cr3t")
    found = observe(NO_DRIVER, 0, root=tmp_path)
    assert "TRITON_TOKEN" in cast(list[str], found["variable_names"])
    assert "s3cr3t" not in json.dumps(found)
    assert "SOMEBODYS_SECRET" not in json.dumps(found)


def test_this_machine_is_observed_and_nothing_of_it_is_changed() -> None:
    nice, cores = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
    first: dict[str, Any] = observe(Nvml(), 0, folder=Path(__file__).parent)
    time.sleep(0.01)
    second: dict[str, Any] = observe(Nvml(), 0)
    assert second["at_ns"] > first["at_ns"]
    assert second["busy_s"] >= first["busy_s"] > 0
    assert second["own_s"] >= first["own_s"]
    assert (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)) == (nice, cores)
    assert first["git"] == (git_revision(Path(__file__).parent) or None)


@pytest.mark.parametrize(("cores", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8")])
def test_cores_are_written_as_ranges(cores: list[int], text: str) -> None:
    assert environment._ranges(cores) == text
