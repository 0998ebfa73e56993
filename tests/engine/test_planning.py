"""From a request to a plan: which case, device and rungs, on which machine, and why not."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aisp.engine import planning
from aisp.engine.affected import affected
from aisp.engine.plan import Plan
from aisp.engine.planning import Hardware, PlanError, plan
from aisp.engine.protocol import events, requests
from aisp.engine.turns import METHODS
from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Trigger
from tests.engine.targets import write_target

NO_CASE = (
    "no case `cpu`, a small one that runs without a GPU: a lesson has it in lesson.md, a problem of others where its "
    "sizes can be made small"
)
CPU_CASE = '\n[[cases]]\nname = "cpu"\naxes = { N = 4 }\n'
LARGE = '\n[[cases]]\nname = "large"\naxes = { N = 4096 }\n'
RAGGED = '\n[[cases]]\nname = "ragged"\naxes = { N = 17 }\ntimed = false\n'
ON_HOST = 'x = "float32 [N] normal cpu"'
HOSTS = "its inputs stay in host memory, and it does not say needs = { gpus = 1 }"
CUDA = "import cuda.core\n\n\ndef run(x):\n    return x * 2\n"
TRITON = "import triton\n\n\ndef run(x):\n    return x * 2\n"


def machine(*sms: int, note: str = "") -> Hardware:
    """A machine with GPUs of these compute capabilities."""
    devices = tuple(events.Device(index=i, name=f"GPU {i}", sm=sm) for i, sm in enumerate(sms))
    return Hardware(devices, len(sms), sms[0] if sms else None, note or ("" if sms else "NVML 12: not found"), 0)


def planned(target: Target, hardware: Hardware, **options: Any) -> Plan:
    return plan(target, {"baseline.py": b""}, "ab" * 32, hardware, epoch="E", seq=3, **options)


# -- where and which case ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "inputs", "cases", "hardware", "device", "expected"),
    [
        # a target for a GPU, with a small case for the CPU
        ("{ }", "", CPU_CASE, machine(90), "auto", ("cuda", "default", "")),
        ("{ }", "", CPU_CASE, machine(), "auto", ("cpu", "cpu", "")),
        ("{ }", "", CPU_CASE, machine(90), "cpu", ("cpu", "cpu", "")),
        ("{ }", "", CPU_CASE, machine(), "cuda", ("cuda", "default", "needs a GPU: NVML 12: not found")),
        # without a small case
        ("{ }", "", "", machine(90), "auto", ("cuda", "default", "")),
        ("{ }", "", "", machine(), "auto", ("cpu", "default", NO_CASE)),
        ("{ }", "", "", machine(90), "cpu", ("cpu", "default", NO_CASE)),
        ("{ gpus = 1 }", "", "", machine(), "auto", ("cpu", "default", "needs a GPU")),
        ("{ sm = 90 }", "", "", machine(), "auto", ("cpu", "default", "needs sm_90")),
        # a GPU that is too small, or too few of them
        ("{ sm = 90 }", "", "", machine(90), "auto", ("cuda", "default", "")),
        ("{ sm = 90, gpus = 1 }", "", "", machine(80), "auto", ("cuda", "default", "needs sm_90")),
        ("{ sm = 80, gpus = 1 }", "", CPU_CASE, machine(75), "auto", ("cuda", "default", "needs sm_80")),
        ("{ gpus = 2 }", "", "", machine(90), "auto", ("cuda", "default", "needs 2 GPUs")),
        ("{ gpus = 2 }", "", "", machine(90, 90), "auto", ("cuda", "default", "")),
        # a target that stays in host memory runs on the CPU everywhere
        ("{ }", ON_HOST, "", machine(90), "auto", ("cpu", "default", "")),
        ("{ }", ON_HOST, "", machine(), "auto", ("cpu", "default", "")),
        ("{ }", ON_HOST, CPU_CASE, machine(), "auto", ("cpu", "default", "")),
        ("{ }", ON_HOST, "", machine(90), "cuda", ("cuda", "default", HOSTS)),
        ("{ gpus = 1 }", ON_HOST, "", machine(90), "cuda", ("cuda", "default", "")),
        ("{ gpus = 1 }", ON_HOST, "", machine(90), "auto", ("cuda", "default", "")),
    ],
)
def test_device_and_case_follow_from_target_and_machine(
    tmp_path: Path,
    needs: str,
    inputs: str,
    cases: str,
    hardware: Hardware,
    device: str,
    expected: tuple[str, str, str],
) -> None:
    target = write_target(tmp_path / "mine", {}, needs=needs, cases=cases, inputs=inputs or 'x = "float32 [N] normal"')
    made = planned(target, hardware, device=device)
    assert (made.record.device, made.case.name, made.problem) == expected
    assert dict(made.obstacles) == {}  # the run's own problem says more
    assert made.record.case == made.case.name


def test_a_case_that_is_named_is_taken_on_either_device(tmp_path: Path) -> None:
    target = write_target(tmp_path / "mine", {}, cases=CPU_CASE + RAGGED)
    assert planned(target, machine(90), case="ragged").case.axes == {"N": 17}
    assert planned(target, machine(), case="default").case.axes == {"N": 16}
    assert planned(target, machine(90), case="cpu").case.axes == {"N": 4}


SIZED = (
    '\n[[cases]]\nname = "small"\naxes = { N = 65536 }\n'
    '\n[[cases]]\nname = "many_steps"\naxes = { N = 65536, STEPS = 4096 }\n'
    '\n[[cases]]\nname = "ragged"\naxes = { N = 262147 }\ntimed = false\n'
)
CPU = '\n[[cases]]\nname = "cpu"\naxes = {{ N = {} }}\n'


@pytest.mark.parametrize(
    ("inputs", "cases", "hardware", "device", "expected"),
    [
        ("", CPU_CASE + LARGE, machine(90), "auto", "large"),
        ("", CPU_CASE + LARGE, machine(90), "cpu", "cpu"),
        ("", CPU_CASE + LARGE, machine(), "auto", "cpu"),
        ("", LARGE, machine(), "auto", "large"),
        (ON_HOST, CPU_CASE + LARGE, machine(), "auto", "large"),
    ],
)
def test_a_case_that_a_suite_names_is_for_gpus(
    tmp_path: Path, inputs: str, cases: str, hardware: Hardware, device: str, expected: str
) -> None:
    made = write_target(tmp_path, {}, inputs=inputs or 'x = "float32 [N] normal"', cases=cases)
    request = requests.StartRuns(seq=1, targets=[made.id], device=device, case="large", gpu_case=True)
    assert planning.case_of(made, hardware, request) == expected
    plain = msgspec.structs.replace(request, gpu_case=False)
    assert planning.case_of(made, hardware, plain) == "large"
    with pytest.raises(LookupError):
        planning.case_of(made, machine(90), msgspec.structs.replace(request, device="auto", case="lagre"))


def test_a_timed_case_that_is_sized_for_a_gpu_is_refused_on_a_cpu_with_what_would_work(tmp_path: Path) -> None:
    target = write_target(
        tmp_path / "mine", {}, axes="{ N = 134217728, STEPS = 2 }", flops="2*STEPS*N", cases=SIZED + CPU.format(1024)
    )
    sized = "case {} is sized for a GPU; on a CPU, --case small or ragged or cpu"
    for case in ("default", "many_steps"):  # by its elements, by its arithmetic
        made = planned(target, machine(), case=case)
        assert (made.record.device, made.case.name, made.problem) == ("cpu", case, sized.format(case))
        assert planned(target, machine(90), case=case).problem == ""
        assert planned(target, machine(90), case=case, device="cpu").problem == sized.format(case)
    for case in ("small", "ragged", "cpu"):
        assert planned(target, machine(), case=case).problem == ""


def test_a_case_near_the_one_that_its_author_wrote_for_a_cpu_runs_there(tmp_path: Path) -> None:
    near = '\n[[cases]]\nname = "near"\naxes = { N = 2000000 }\n'
    far = '\n[[cases]]\nname = "far"\naxes = { N = 200000000 }\n'
    target = write_target(tmp_path / "mine", {}, flops="N", cases=near + far + CPU.format(1_000_000))
    assert planned(target, machine(), case="near").problem == ""
    assert "sized for a GPU" in planned(target, machine(), case="far").problem


def test_a_target_in_host_memory_runs_any_case_on_a_cpu(tmp_path: Path) -> None:
    target = write_target(tmp_path / "mine", {}, axes="{ N = 134217728 }", inputs=ON_HOST, cases=CPU.format(16))
    assert planned(target, machine(), case="default").problem == ""


@pytest.mark.parametrize(
    ("needs", "cases", "hardware", "device", "told"),
    [
        ("{ }", CPU_CASE, machine(), "cuda", "needs a GPU: NVML 12: not found; --device cpu runs it here"),
        ("{ }", CPU_CASE, machine(), "auto", ""),
        ("{ }", "", machine(), "auto", f"{NO_CASE}; there is no GPU here: NVML 12: not found"),
        ("{ sm = 90 }", "", machine(), "auto", "needs sm_90; there is no GPU here: NVML 12: not found"),
        ("{ sm = 90, gpus = 1 }", "", machine(80), "auto", "needs sm_90; here is GPU 0 (sm_80)"),
        ("{ gpus = 1 }", "", machine(90), "cpu", "needs a GPU; here is GPU 0 (sm_90); --device cuda runs it here"),
        ("{ sm = 80 }", CPU_CASE, machine(75), "auto", "needs sm_80; here is GPU 0 (sm_75); --device cpu runs it here"),
        ("{ sm = 80 }", CPU_CASE, machine(80), "auto", ""),
    ],
)
def test_what_cannot_run_here_is_told_with_what_is_there_and_what_would_work(
    tmp_path: Path, needs: str, cases: str, hardware: Hardware, device: str, told: str
) -> None:
    target = write_target(tmp_path / "mine", {}, needs=needs, cases=cases)
    assert planning.cannot_run(target, hardware, device=device) == told


# -- rungs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ladder(tmp_path: Path) -> Target:
    run = "def run(x):\n    return x * 2\n"
    files = dict.fromkeys(("baseline_other.py", "optimized_wide.py", "peer_lib.py", "wrong_sign.py"), run)
    files |= {
        "optimized_cuda.py": CUDA,
        "optimized_triton.py": TRITON,
        "scale.cu": "// nothing\n",
        "shared.py": "A = 1\n",
    }
    files |= {"optimized_late.py": "from optimized_wide import run as wide\n\n\ndef run(x):\n    return wide(x)\n"}
    more = "[rungs.optimized_wide]\nneeds = { sm = 100 }\n"
    return write_target(tmp_path / "mine", files, cases=CPU_CASE + more)


def names(made: Plan) -> list[str]:
    return [rung.name for rung in made.rungs]


def test_all_honest_rungs_run_where_none_is_named(ladder: Target) -> None:
    assert names(planned(ladder, machine(90))) == [
        *("baseline", "baseline_other", "optimized", "optimized_cuda", "optimized_late", "optimized_triton"),
        *("optimized_wide", "peer_lib"),
    ]


def test_named_rungs_run_beside_the_baseline_in_the_targets_order(ladder: Target) -> None:
    made = planned(ladder, machine(90), rungs=["wrong_sign", "optimized", "optimized"])
    assert names(made) == ["baseline", "optimized", "wrong_sign"]
    assert names(planned(ladder, machine(90), rungs=["baseline"])) == ["baseline"]


def test_a_rung_that_cannot_run_here_is_an_obstacle_and_not_a_problem(ladder: Target) -> None:
    there = planned(ladder, machine(100))
    assert (there.problem, dict(there.obstacles)) == ("", {})
    older = planned(ladder, machine(90))
    assert (older.problem, dict(older.obstacles)) == ("", {"optimized_wide": "needs sm_100"})
    without = planned(ladder, machine())
    assert without.problem == ""
    assert dict(without.obstacles) == {"optimized_cuda": "needs a GPU"}


def test_sm_without_gpus_speaks_of_every_rung_that_runs_on_a_gpu(tmp_path: Path) -> None:
    """A CPU is enough for such a target, but a GPU that is too old is not."""
    own = "[rungs.optimized]\nneeds = { }\n"
    target = write_target(tmp_path / "mine", {"optimized_triton.py": TRITON}, needs="{ sm = 80 }", cases=CPU_CASE + own)
    older = planned(target, machine(75))
    assert (older.record.device, older.problem) == ("cuda", "")
    assert dict(older.obstacles) == {"baseline": "needs sm_80", "optimized_triton": "needs sm_80"}
    assert dict(planned(target, machine(80)).obstacles) == {}
    assert dict(planned(target, machine()).obstacles) == {}


# -- the record --------------------------------------------------------------------------------------------------------


def test_the_record_is_journalled_with_the_stop_rule_before_anything_runs(ladder: Target) -> None:
    record = planned(ladder, machine(90), quick=True, trigger=Trigger.WATCH, rungs=["optimized"]).record
    assert record.state is State.PLANNED
    assert (record.target, record.epoch, record.seq, record.quick, record.trigger) == (
        *("mine:one", "E", 3, True),
        Trigger.WATCH,
    )
    rule = record.manifest["stop_rule"]
    assert isinstance(rule, dict)
    assert (rule["replicas"], rule["least_rounds"], rule["half_width"]) == (2, 4, 0.01)
    assert (rule["cache"], rule["interleaved"], rule["method"]) == ("cold", True, METHODS[record.device])
    assert record.manifest["axes"] == {"N": 16}
    assert record.manifest["tolerance"] == {"float32": 1e-5}
    assert record.manifest["rungs"] == ["baseline", "optimized"]


def test_arms_that_use_two_gpus_are_measured_one_after_the_other(tmp_path: Path) -> None:
    alone = write_target(tmp_path / "a", {}, needs="{ gpus = 1 }")
    both = write_target(tmp_path / "b", {}, needs="{ gpus = 2 }")
    assert planned(alone, machine(90, 90)).rule.interleaved
    assert not planned(both, machine(90, 90)).rule.interleaved
    assert not planned(alone, machine(90, 90), interleave=False).rule.interleaved
    assert planned(alone, machine(90), cache=Cache.WARM).rule.cache is Cache.WARM


@pytest.mark.parametrize(
    ("quick", "replicas", "expected"), [(True, 0, 2), (True, 3, 3), (False, 0, 5), (False, 9, 9), (False, 1, 1)]
)
def test_the_number_of_replicas_is_the_modes_unless_it_was_given(
    ladder: Target, quick: bool, replicas: int, expected: int
) -> None:
    rule = planned(ladder, machine(90), quick=quick, replicas=replicas).rule
    assert rule.replicas == expected
    looked = [look.replicas for look in rule.looks]
    assert looked == ([] if quick or replicas else [2, 3, 5]), "who asks for a number gets it"


@pytest.mark.parametrize(
    ("file", "before", "after", "same"),
    [
        ("lesson.md", "Twice as fast.", "Three times as fast.", True),  # prose
        ("lesson.md", "+++\ntol", "\ufeff+++\ntol", True),  # an editor's mark
        ("lesson.md", "float32 = 1e-5", "float32 = 1e-2", False),  # what is right
        ("baseline.py", "x * 2", "x + x", False),
        ("shared.cuh", "32", "64", False),
    ],
)
def test_what_is_run_and_what_is_right_make_other_code_and_prose_does_not(
    ladder: Target, file: str, before: str, after: str, same: bool
) -> None:
    lesson = b"+++\ntolerance = { float32 = 1e-5 }\n+++\n\n# Twice\n\nTwice as fast.\n"
    files = {"baseline.py": b"def run(x):\n    return x * 2\n", "lesson.md": lesson, "shared.cuh": b"#define N 32\n"}
    edited = {**files, file: files[file].replace(before.encode(), after.encode())}
    assert edited != files
    first, second = (
        plan(ladder, content, "ab" * 32, machine(90), epoch="E", seq=3).record.manifest["code"]
        for content in (files, edited)
    )
    assert (first == second) is same


def test_a_run_of_a_suite_names_its_batch_and_is_the_job_that_it_would_be_without(ladder: Target) -> None:
    batch = requests.Batch(id="01JZ", suite="mine", sha256="ab")
    part = planned(ladder, machine(90), batch=batch)
    assert part.record.manifest["batch"] == {"id": "01JZ", "suite": "mine", "sha256": "ab"}
    assert (part.record.batch, part.sought) == ("01JZ", planned(ladder, machine(90)).sought)


def test_prose_behind_an_editors_mark_is_prose(ladder: Target) -> None:
    matter = "\ufeff+++\ntolerance = { float32 = 1e-5 }\n+++\n\n"
    codes = {
        plan(ladder, {"lesson.md": f"{matter}{prose}".encode()}, "ab" * 32, machine(90), epoch="E", seq=3)
        .record.manifest["code"]
        for prose in ("Twice as fast.", "Three times as fast.")
    }  # fmt: skip
    assert len(codes) == 1


def test_no_two_runs_have_the_same_seed_or_id(ladder: Target) -> None:
    plans = [planned(ladder, machine(90)) for _ in range(20)]
    made = [plan.record for plan in plans]
    assert {record.seed for record in made} == {None}, "nobody but the engine knows it before the end"
    assert len({plan.seed for plan in plans}) == 20
    assert len({number for plan in plans for number in plan.held_out}) == sum(len(plan.held_out) for plan in plans)
    assert all(plan.secrets.commitment == plan.record.manifest["commitment"] for plan in plans)
    assert len({record.id for record in made}) == 20


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"device": "tpu"}, "no device 'tpu'; auto, cuda or cpu"),
        ({"device": "\x1b]0;x"}, "no device '␛]0;x'"),
        ({"replicas": -1}, "-1 replicas; 1 to 100, or 0 for the usual number"),
        ({"patience_s": 0.5}, "0.5 s of patience; 1 to 3600, or 0 for the engine's limits"),
        ({"replicas": 101}, "101 replicas"),
        ({"rungs": ["optimised"]}, "mine:one has no rung 'optimised'; it has baseline, "),
        ({"case": "huge"}, "mine:one has no case 'huge'; it has default, cpu"),
    ],
)
def test_what_cannot_be_planned_is_told_with_what_would_work(
    ladder: Target, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(ladder, machine(90), **options)
    assert str(error.value).startswith(told)


# -- after an edit -----------------------------------------------------------------------------------------------------

ALL: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"optimized.py"}, ("optimized",)),
        ({"peer_lib.py", "optimized.py"}, ("optimized", "peer_lib")),
        ({"wrong_sign.py"}, ("wrong_sign",)),
        ({"scale.cu"}, ("optimized_cuda",)),
        ({"scale.cu", "optimized.py"}, ("optimized", "optimized_cuda")),
        ({"baseline.py"}, ALL),
        ({"baseline.py", "optimized.py"}, ALL),
        ({"reference.py"}, ALL),
        ({"lesson.md"}, ALL),
        ({"shared.py", "optimized.py"}, ALL),
        ({"optimized_deleted.py"}, ALL),
    ],
)
def test_an_edit_runs_what_it_affects(ladder: Target, changed: set[str], expected: tuple[str, ...]) -> None:
    assert affected(ladder, changed) == expected


def test_an_edit_of_a_rung_that_another_rung_imports_runs_both(ladder: Target) -> None:
    assert affected(ladder, {"optimized_wide.py"}) == ("optimized_late", "optimized_wide")
    assert affected(ladder, {"optimized_late.py"}) == ("optimized_late",)


def test_a_wrong_rung_is_not_run_for_what_it_imports(ladder: Target) -> None:
    (ladder.folder / "wrong_sign.py").write_text("from optimized import run as right\n")
    assert affected(ladder, {"optimized.py"}) == ("optimized",)


def test_an_edit_of_a_rung_that_a_shared_module_imports_runs_all(ladder: Target) -> None:
    (ladder.folder / "shared.py").write_text("import optimized\n")
    assert affected(ladder, {"optimized.py"}) == ALL


def test_in_the_shipped_lessons_a_rung_that_builds_on_another_is_run_with_it() -> None:
    rmsnorm = planning.load_catalog([]).find("ch14:rmsnorm")
    assert "optimized_compiled" in affected(rmsnorm, {"baseline_chain.py"})


# -- the machine -------------------------------------------------------------------------------------------------------


class FakeNvml:
    """What Hardware.find asks of the driver."""

    def __init__(self, *devices: events.Device, note: str = "") -> None:
        self.note = note
        self._devices = list(devices)

    def devices(self) -> list[events.Device]:
        return self._devices


def gpu(index: int, sm: int = 90, note: str = "") -> events.Device:
    return events.Device(index=index, name="NVIDIA H100", uuid=f"GPU-{index}{index}{index}-abc", sm=sm, note=note)


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hardware]:
    """Look at a machine with these GPUs and this CUDA_VISIBLE_DEVICES, where torch has CUDA."""

    def found(
        *devices: events.Device, visible: str | None = None, note: str = "", torch: str = "2.11.0+cu130"
    ) -> Hardware:
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setattr(importlib.metadata, "version", lambda name: torch)
        return Hardware.find(FakeNvml(*devices, note=note))  # type: ignore[arg-type]

    return found


def test_the_first_gpu_is_taken_where_nothing_else_is_said(find: Callable[..., Hardware]) -> None:
    found = find(gpu(0, 80), gpu(1, 90))
    assert (found.gpus, found.sm, found.index, found.note) == (2, 80, 0, "")


@pytest.mark.parametrize(
    ("visible", "gpus", "index", "sm"),
    [
        ("1", 1, 1, 90),
        ("1,0", 2, 1, 90),
        (" 1 , 0 ", 2, 1, 90),
        ("GPU-111", 1, 1, 90),
        ("GPU-111,GPU-000", 2, 1, 90),
        ("1,7,0", 1, 1, 90),  # CUDA stops at the first that is not there
        ("1,-1,0", 1, 1, 90),
    ],
)
def test_cuda_visible_devices_says_which_and_how_many(
    find: Callable[..., Hardware], visible: str, gpus: int, index: int, sm: int
) -> None:
    found = find(gpu(0, 80), gpu(1, 90), visible=visible)
    assert (found.gpus, found.index, found.sm, found.note) == (gpus, index, sm, "")


@pytest.mark.parametrize(
    ("visible", "note"),
    [
        ("", "CUDA_VISIBLE_DEVICES hides every GPU"),
        ("-1", "CUDA_VISIBLE_DEVICES hides every GPU"),
        ("7", "CUDA_VISIBLE_DEVICES names GPU 7, there are 2"),
        ("GPU-999", "CUDA_VISIBLE_DEVICES names GPU-999, which is none of 2"),
        ("nonsense", "CUDA_VISIBLE_DEVICES names nonsense, which is none of 2"),
    ],
)
def test_a_value_that_hides_every_gpu_is_told(find: Callable[..., Hardware], visible: str, note: str) -> None:
    found = find(gpu(0), gpu(1), visible=visible)
    assert (found.gpus, found.sm, found.note) == (0, None, note)
    assert len(found.devices) == 2


def test_the_drivers_own_words_come_first(find: Callable[..., Hardware]) -> None:
    assert find(note="NVML 12: NVML Shared Library Not Found", visible="7").note.startswith("NVML 12")


def test_a_lost_gpu_is_not_used_and_its_note_says_why(find: Callable[..., Hardware]) -> None:
    lost = gpu(0, note="NVML 15: GPU is lost")
    assert find(lost).note == find(lost, gpu(1), visible="0").note == "NVML 15: GPU is lost"
    for visible in ("1", None):
        healthy = find(lost, gpu(1), visible=visible)
        assert (healthy.gpus, healthy.index, healthy.note) == (1, 1, "")


def test_each_gpu_that_may_be_used_is_named_as_cuda_knows_it(find: Callable[..., Hardware]) -> None:
    one, two = gpu(0), gpu(1)
    assert find(one, two).usable == ((0, one.uuid), (1, two.uuid))
    assert find(one, two, visible="1,0,1").usable == ((1, two.uuid), (0, one.uuid))
    assert find(one, two, visible="MIG-1,MIG-2").usable == ((0, "MIG-1"),)  # parts of a GPU take turns on it
    assert find().usable == ()


def test_a_torch_without_cuda_is_told_with_the_command_that_keeps_one_that_has_it(
    find: Callable[..., Hardware],
) -> None:
    found = find(gpu(0), torch="2.13.0+cpu")
    assert found.gpus == 0
    assert found.note == "torch was built without CUDA; `make run TORCH=system` keeps a torch that has it"


def test_no_torch_at_all_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    found = Hardware.find(FakeNvml(gpu(0)))  # type: ignore[arg-type]
    assert (found.gpus, found.note) == (0, "torch is not installed; `make run` installs it")
