"""Checks of workloads: the sensors in a process of their own, and what the judges make of facts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from aisp.checks import libraries, registry, workload
from aisp.checks.registry import Sensed, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Kind, Role, Target
from tests.checks.sensed import replica
from tests.checks.test_output import arm, ask, run
from tests.engine.targets import write_target

KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def twice(y_ptr, x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at))
"""
OWN = KERNEL + "def run(x):\n    y = torch.empty_like(x)\n    twice[(1,)](y, x, 16)\n    return y\n"
LIBRARY = KERNEL + "def run(x):\n    return x * 2\n"
FAILING = (
    KERNEL
    + """
def run(x):
    try:
        twice[(1,)](x, nothing=1)
    except Exception:
        return x * 2
    return x
"""
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return write_target(tmp_path_factory.mktemp("workload"), {"optimized_own.py": OWN})


@pytest.fixture(scope="module")
def declaring(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A target whose rung says that it lowers the precision and is sparse."""
    more = '[rungs.optimized]\nsummary = "products in TF32, pruned"\n'
    return write_target(tmp_path_factory.mktemp("declaring"), {}, more=more)


# -- digits ------------------------------------------------------------------------------------------------------------

WIDE = {"y.count": 4096.0, "y.fp16": 0.001, "y.fp16_truth": 0.001, "y.bf16": 0.0, "y.bf16_truth": 0.0}
HALF = {**WIDE, "y.fp16": 1.0}


def test_outputs_that_fit_a_narrower_dtype_were_computed_in_it(target: Target, declaring: Target) -> None:
    base = arm(target, "baseline", compared=(WIDE, WIDE))
    status, evidence = ask("workload.precision", run(target, base, arm(target, compared=(HALF, HALF))))
    assert status is Status.CAUGHT
    assert "100.0% of y is exactly representable in fp16, where 0.1% of the truth is" in evidence
    assert ask("workload.precision", run(target, base), "baseline")[0] is Status.PASSED
    said = run(declaring, arm(declaring, "baseline", compared=(WIDE,)), arm(declaring, compared=(HALF,)))
    assert ask("workload.precision", said)[0] is Status.NOT_APPLICABLE


def test_outputs_that_are_narrow_by_nature_are_honest(target: Target) -> None:
    whole = {**HALF, "y.fp16_truth": 1.0}
    assert ask("workload.precision", run(target, arm(target, compared=(whole,))))[0] is Status.PASSED
    both = run(target, arm(target, "baseline", compared=(HALF,)), arm(target, compared=(HALF,)))
    assert ask("workload.precision", both)[0] is Status.PASSED
    small = {**HALF, "y.count": 8.0}
    assert ask("workload.precision", run(target, arm(target, compared=(small,))))[0] is Status.PASSED


def test_an_error_of_the_size_of_a_lower_precision_is_suspect(target: Target) -> None:
    base = arm(target, "baseline", compared=({**WIDE, "y.rms_error": 2e-7},))
    blurred = arm(target, compared=({**WIDE, "y.rms_error": 4e-4},))
    status, evidence = ask("workload.precision", run(target, base, blurred))
    assert (status, "0.0004 of its RMS, the baseline's 2e-07" in evidence) == (Status.SUSPECT, True)
    fair = arm(target, compared=({**WIDE, "y.rms_error": 4e-6},))
    assert ask("workload.precision", run(target, base, fair))[0] is Status.PASSED


def test_results_left_out_within_the_tolerance_are_counted(target: Target, declaring: Target) -> None:
    full, thin = {"y.count": 4096.0, "y.dropped": 0.0}, {"y.count": 4096.0, "y.dropped": 0.12}
    base = arm(target, "baseline", compared=(full,))
    status, evidence = ask("workload.dropped", run(target, base, arm(target, compared=(full, thin))))
    assert (status, "12.0% of y is exactly zero" in evidence) == (Status.CAUGHT, True)
    assert ask("workload.dropped", run(target, base, arm(target, compared=(full,))))[0] is Status.PASSED
    too = arm(target, "baseline", compared=(thin,))
    assert ask("workload.dropped", run(target, too, arm(target, compared=(thin,))))[0] is Status.PASSED
    said = run(declaring, arm(declaring, compared=(thin,)))
    assert ask("workload.dropped", said)[0] is Status.PASSED


# -- switches ----------------------------------------------------------------------------------------------------------

STATES = {"matmul tf32": "False", "threads": "4", "flushed denormals": "False"}


def policy(**changed: Any) -> tuple[Sensed]:
    """One replica's facts: changed states by stage, and turns."""
    turned = changed.pop("turned", {})
    states = {stage: {**STATES, **changed.get(stage, {})} for stage in ("before", "prepared", "verified", "timed")}
    return (replica(policy={**states, "turned": turned}),)


def test_a_switch_that_moves_between_verification_and_timing_is_caught(target: Target, declaring: Target) -> None:
    for name, value in (("matmul tf32", "True"), ("threads", "1"), ("flushed denormals", "True")):
        facts = policy(timed={name: value})
        status, evidence = ask("workload.policy", run(target, arm(target, sensed=facts)))
        assert status is Status.CAUGHT
        assert f"{name} went from {STATES[name]} to {value}" in evidence
        # To say so does not help: what was verified is not what was timed.
        assert ask("workload.policy", run(declaring, arm(declaring, sensed=facts)))[0] is Status.CAUGHT


def test_a_lesson_may_lower_the_precision_if_it_says_so(target: Target, declaring: Target) -> None:
    lowered = {"matmul tf32": "True"}
    facts = policy(verified=lowered, timed=lowered)
    assert ask("workload.policy", run(target, arm(target, sensed=facts)))[0] is Status.SUSPECT
    assert ask("workload.policy", run(declaring, arm(declaring, sensed=facts)))[0] is Status.PASSED
    inside = policy(turned={"cublas_allow_tf32": 40})
    status, evidence = ask("workload.policy", run(target, arm(target, sensed=inside)))
    assert (status, "cublas_allow_tf32 40 times" in evidence) == (Status.CAUGHT, True)
    assert ask("workload.policy", run(declaring, arm(declaring, sensed=inside)))[0] is Status.PASSED


def test_whoever_asks_for_more_digits_than_torch_does_is_not_suspected(target: Target) -> None:
    loose, exact = {"cudnn tf32": "True", "cudnn conv fp32 precision": "tf32"}, {"cudnn tf32": "False"}
    facts = policy(before=loose, verified=exact, timed=exact)
    assert ask("workload.policy", run(target, arm(target, sensed=facts)))[0] is Status.PASSED
    wider = {"default dtype": "torch.float16"}
    facts = policy(before={"default dtype": "torch.float32"}, verified=wider, timed=wider)
    assert ask("workload.policy", run(target, arm(target, sensed=facts)))[0] is Status.SUSPECT


def test_switches_that_decide_speed_alone_may_be_set_once(target: Target) -> None:
    fewer = {"threads": "1"}
    facts = policy(verified=fewer, timed=fewer)
    assert ask("workload.policy", run(target, arm(target, sensed=facts)))[0] is Status.PASSED
    assert ask("workload.policy", run(target, arm(target)))[0] is Status.UNAVAILABLE


SENSE = """
import json, os, sys
from pathlib import Path
os.environ["TRITON_INTERPRET"] = "1"
import msgspec, torch
from aisp.checks.registry import Call, Site
from aisp.checks.workload import Launches, Policy
from aisp.engine.worker.loading import import_module
from aisp.kernels import catalog

folder, kind, told = Path(sys.argv[1]), {"policy": Policy, "launches": Launches}[sys.argv[2]], {}
target = catalog.load_target(folder, root=folder.parent, chapter="x")
for name in sys.argv[3:]:
    site = Site("cpu", folder, target, target.rung(name), frozenset())
    sensor = kind(site)
    sensor.before_import()
    run = import_module(folder, name).run
    sensor.after_import()
    case = target.case("default")
    x = torch.ones(16)
    sensor.after_prepare(case, [x])
    def call(stage):
        seen = Call(stage, case, [[x]])
        sensor.before_call(seen)
        y = run(x)
        sensor.after_call(Call(stage, case, [[x]], [(y,)]))
        return y
    assert call("verify").tolist() == [2.0] * 16, name
    call("verify")
    sensor.before_timing()
    for _ in range(3):
        call("timed")
    def once(number=0):
        x.fill_(1.0 + number)
        return run(x)
    sensor.site.call_once = sensor.site.launch_once = once
    sensor.after_timing()
    told[name] = msgspec.to_builtins(sensor.facts())
print(json.dumps(told))
"""


def sense(folder: Path, kind: str, *names: str) -> dict[str, dict[str, Any]]:
    """What a sensor notes of rungs, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SENSE, str(folder), kind, *names],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_the_sensor_sees_switches_move_at_import_and_inside_calls(tmp_path: Path) -> None:
    late = "import torch\nn = 0\ndef run(x):\n    global n\n    n += 1\n"
    rungs = {
        "optimized.py": "def run(x):\n    return x * 2\n",
        "cheat_import.py": "import torch\ntorch.set_float32_matmul_precision('high')\ndef run(x):\n    return x * 2\n",
        "cheat_late.py": late + "    if n > 3:\n        torch.set_flush_denormal(True)\n    return x * 2\n",
        "optimized_exact.py": "import torch\ntorch.backends.cudnn.benchmark = True\ndef run(x):\n"
        "    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):\n        return x * 2\n",
        "cheat_inside.py": "import torch\ndef run(x):\n    torch.backends.cuda.matmul.allow_tf32 = True\n"
        "    torch.backends.cuda.matmul.fp32_precision = 'tf32'\n    y = x * 2\n"
        "    torch.backends.cuda.matmul.fp32_precision = 'none'\n"
        "    torch.backends.cuda.matmul.allow_tf32 = False\n    return y\n",
    }
    target = write_target(tmp_path, rungs)
    found = {name: sense(target.folder, "policy", name)[name] for name in (Path(file).stem for file in rungs)}
    answers = {
        name: ask("workload.policy", run(target, arm(target, name, sensed=(replica(policy=facts),))), name)
        for name, facts in found.items()
    }
    assert answers["optimized"][0] is answers["optimized_exact"][0] is Status.PASSED
    assert found["cheat_inside"]["turned"] == {"cublas_allow_tf32": 3, "fp32_precision_setter": 3}
    assert answers["cheat_inside"][0] is Status.CAUGHT
    assert answers["cheat_import"][0] is Status.SUSPECT
    assert "matmul precision went from highest to high" in answers["cheat_import"][1]
    assert answers["cheat_late"][0] is Status.CAUGHT
    assert "flushed denormals went from False to True" in answers["cheat_late"][1]
    assert found["cheat_late"]["turned"] == {"flush_denormal": 2}


# -- own kernels -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_sensor_counts_launches_of_own_kernels_and_those_that_fail(tmp_path: Path) -> None:
    decoy = KERNEL + "def run(x):\n    twice[(1,)](torch.empty_like(x), x, 16)\n    return x * 2\n"
    staged = "parts = torch.empty(16)\ndef run(x):\n    twice[(1,)](parts, x, 16)\n    return parts.clone()\n"
    rungs = {
        "optimized.py": OWN,
        "optimized_staged.py": KERNEL + staged,
        "cheat_library.py": LIBRARY,
        "cheat_failing.py": FAILING,
        "cheat_decoy.py": decoy,
        "cheat_stops.py": KERNEL
        + "n = 0\ndef run(x):\n    global n\n    n += 1\n    if n > 2:\n        return x * 2\n"
        + "    y = torch.empty_like(x)\n    twice[(1,)](y, x, 16)\n    return y\n",
    }
    target = write_target(tmp_path, rungs)
    names = [rung.name for rung in target.rungs if rung.kind is Kind.TRITON]
    assert len(names) == 6
    found = sense(target.folder, "launches", *names)
    assert found["optimized"] == {
        "tried": 4,  # two verified calls, one afterwards, and that one again with its launches held back
        "done": 4,
        "verified": {"calls": 2, "launches": 2},
        "later": {"launches": 1, "replays": 0},
        "without": False,
        "recorded": None,
        "compiled": False,
    }
    assert found["optimized_staged"]["without"] is False, "what it left in its workspace is not the answer"
    assert found["cheat_decoy"]["without"] is True
    answers = {
        name: ask("workload.own_kernels", run(target, arm(target, name, sensed=(replica(launches=facts),))), name)
        for name, facts in found.items()
    }
    assert answers["optimized"] == (Status.PASSED, "2 launches of its own Triton kernels in 2 verified calls, 4 in all")
    assert {name for name, (status, _) in answers.items() if status is Status.CAUGHT} == set(names) - {
        "optimized",
        "optimized_staged",
    }
    assert "none of its kernels in 2 verified calls" in answers["cheat_library"][1]
    assert "launches of its Triton kernels failed" in answers["cheat_failing"][1]
    assert "decoys" in answers["cheat_decoy"][1]
    assert "none in a call after the timing" in answers["cheat_stops"][1]


def launches(**changed: Any) -> tuple[Sensed]:
    """One replica's facts."""
    facts = {"tried": 2, "done": 2, "verified": {"calls": 2, "launches": 2}, "later": None, "without": None}
    return (replica(launches={**facts, "recorded": None, "compiled": False, **changed}),)


def test_a_graph_launches_nothing_while_it_replays_and_is_honest(target: Target) -> None:
    captured = launches(verified={"calls": 2, "launches": 0}, later={"launches": 0, "replays": 1})
    answer = ask("workload.own_kernels", run(target, arm(target, "optimized_own", sensed=captured)), "optimized_own")
    assert answer[0] is Status.PASSED
    lazily = launches(verified={"calls": 2, "launches": 1}, later={"launches": 0, "replays": 1})
    answer = ask("workload.own_kernels", run(target, arm(target, "optimized_own", sensed=lazily)), "optimized_own")
    assert answer[0] is Status.PASSED


def test_what_claims_no_kernel_or_runs_elsewhere_is_not_asked(target: Target) -> None:
    assert ask("workload.own_kernels", run(target, arm(target)))[0] is Status.NOT_APPLICABLE
    none = launches(tried=0, done=0, verified={"calls": 2, "launches": 0})
    code = {"optimized_own.py": b"import triton\ndef run(x):\n    return k(x) if x.is_cuda else x * 2\n"}
    found = run(target, arm(target, "optimized_own", sensed=none), files=code)
    assert ask("workload.own_kernels", found, "optimized_own")[0] is Status.NOT_APPLICABLE
    on_gpu = run(target, arm(target, "optimized_own", sensed=none), files=code, device="cuda")
    assert ask("workload.own_kernels", on_gpu, "optimized_own")[0] is Status.CAUGHT


# TorchScript's interpreter calls operators from C++, as an extension does, and needs no compiler.
HIDDEN = """
import torch  # and not torch.utils.cpp_extension
big = torch.ones(700, 700)
@torch.jit.script
def hidden(a):
    return torch.mm(a, a)
"""


@pytest.mark.slow
def test_a_library_called_from_compiled_code_is_told_from_one_that_python_calls(tmp_path: Path) -> None:
    rungs = {
        "cheat_hidden.py": HIDDEN + "def run(x):\n    hidden(big)\n    return x * 2\n",
        "optimized_shown.py": HIDDEN + "def run(x):\n    torch.mm(big, big)\n    return x * 2\n",
        "optimized_neither.py": "def run(x):\n    return x * 2\n",
        "optimized_helped.py": "from helper import hidden, big\ndef run(x):\n    hidden(big)\n    return x * 2\n",
        "helper.py": HIDDEN,
    }
    says = '[rungs.optimized_helped]\nsummary = "calls the library from C++"\n'
    target = write_target(tmp_path, rungs, more=says)
    names = ["cheat_hidden", "optimized_shown", "optimized_neither", "optimized_helped"]
    found = sense(target.folder, "launches", *names)
    assert found["optimized_neither"]["recorded"] is None, "no word of its source opens compiled code"
    assert found["cheat_hidden"]["recorded"]["hidden"] > 0.0
    assert found["cheat_hidden"]["recorded"]["library"][0] == "aten::mm (torch)"
    assert found["optimized_shown"]["recorded"]["hidden"] == 0.0
    assert found["optimized_shown"]["recorded"]["shown"] > 0.0
    assert found["optimized_helped"]["recorded"]["hidden"] > 0.0, "what it imports counts as its own"
    for name in ("cheat_hidden", "optimized_helped"):
        found[name]["recorded"]["hidden"] = 0.97  # how large the share is, a busy machine decides
    answers = {
        name: ask("workload.own_kernels", run(target, arm(target, name, sensed=(replica(launches=facts),))), name)
        for name, facts in found.items()
    }
    assert answers["cheat_hidden"][0] is Status.CAUGHT
    assert "aten::mm" in answers["cheat_hidden"][1]
    assert answers["optimized_shown"][0] is Status.PASSED
    assert answers["optimized_neither"][0] is Status.NOT_APPLICABLE
    assert answers["optimized_helped"][0] is Status.PASSED
    assert "the lesson says so (library)" in answers["optimized_helped"][1]


def recorded(hidden: float, **changed: Any) -> tuple[Sensed]:
    """One replica's facts, with a recorded call."""
    told = {"how": "CUPTI", "hidden": hidden, "shown": 0.0, "library": ["nvjet_tst_128 (cuBLAS)"], "total_ms": 1.0}
    return launches(recorded={**told, "cost_ms": 1.0}, compiled=True, **changed)


def test_a_part_of_the_work_is_told_and_a_decoy_of_triton_is_no_cover(target: Target) -> None:
    none = {"tried": 0, "done": 0, "verified": {"calls": 2, "launches": 0}}
    answer = ask("workload.own_kernels", run(target, arm(target, sensed=recorded(0.5, **none))))
    assert answer[0] is Status.PASSED
    assert "50% of a recorded call of 1 ms" in answer[1]
    whole = arm(target, "optimized_own", sensed=recorded(0.97))
    assert ask("workload.own_kernels", run(target, whole), "optimized_own")[0] is Status.CAUGHT
    decoy = arm(target, "optimized_own", sensed=recorded(0.0, without=True))
    assert "decoys" in ask("workload.own_kernels", run(target, decoy), "optimized_own")[1]
    baseline = arm(target, "baseline", sensed=recorded(0.97, **none))
    assert ask("workload.own_kernels", run(target, baseline), "baseline")[0] is Status.PASSED


@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NNT", "cuBLAS"),
        ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64", "cuBLAS"),
        ("ampere_sgemm_128x64_nn", "cuBLAS"),
        ("void gemv2T_kernel_val<int, int, float, float>(float)", "cuBLAS"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(Params)", "CUTLASS"),
        ("void implicit_convolve_sgemm<float, float, 128, 5, 5>(int)", "cuDNN"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob", "cuDNN"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float)", "torch"),
        ("tiled_gemm(float*, float const*, float const*, int)", ""),
        ("my_conv_kernel", ""),
        ("gemm_kernel_sm90", ""),
        ("_ZN5mine13softmax_dgradEPf", ""),
    ],
)
def test_kernels_are_known_by_their_names_and_an_authors_own_are_not(kernel: str, family: str) -> None:
    assert libraries.family_of(kernel) == family


@pytest.mark.parametrize(
    ("kernels_ns", "how", "hidden"),
    [(0, "the host's", 1.0), (4_000, "the host's", 1.0), (20_000, "CUPTI", 0.0), (900_000, "CUPTI", 0.0)],
)
def test_a_call_whose_kernels_took_nothing_of_its_time_is_recorded_on_the_host(
    monkeypatch: pytest.MonkeyPatch, kernels_ns: int, how: str, hidden: float
) -> None:
    on_host = libraries.Piece("aten::mm", "torch", 990_000)
    monkeypatch.setattr(
        libraries, "_on_gpu", lambda _: ([libraries.Piece("decoy", "", kernels_ns)], kernels_ns, "CUPTI")
    )
    monkeypatch.setattr(libraries, "_on_cpu", lambda _: ([on_host], 990_000, "the host's"))
    monkeypatch.setattr(libraries, "_finished_ns", lambda _: 1_000_000)
    recorded = libraries.record("cuda", lambda: None)
    assert (recorded.how, recorded.hidden) == (how, hidden)


def test_a_short_call_is_a_librarys_whatever_the_record_itself_takes() -> None:
    with torch.library._scoped_library("aisp_short", "DEF") as library:
        library.define("product(Tensor x, Tensor w) -> Tensor")
        library.impl("product", torch.matmul, "CompositeImplicitAutograd")
        x, w = torch.randn(64, 512), torch.randn(512, 256)
        found: list[libraries.Recorded] = []
        while not found or (found[-1].hidden < libraries.LAUNDERED and len(found) < 50):  # a busy machine interrupts
            found.append(libraries.record("cpu", lambda: torch.ops.aisp_short.product(x, w)))
    assert found[-1].hidden >= libraries.LAUNDERED
    assert {recorded.shown for recorded in found} == {0.0}


# -- the gallery -------------------------------------------------------------------------------------------------------

GALLERY = Path(workload.__file__).parent / "gallery"


@pytest.mark.parametrize("category", ["output", "workload"])
def test_every_issue_that_a_kernel_can_attack_has_a_cheat_and_a_twin_of_its_own(category: str) -> None:
    issues = [issue for issue in registry.issues() if issue.category == category]
    fixtures = {issue.fixture for issue in issues if issue.fixture}
    folders = {f"{category}/{path.name}" for path in (GALLERY / category).iterdir() if path.is_dir()}
    assert fixtures == {name for name in folders if not name.endswith("__pycache__")}
    for fixture in fixtures:
        loaded = catalog.load_target(GALLERY / fixture, root=GALLERY, chapter=category)
        assert isinstance(loaded, Target), "; ".join(map(str, loaded))
        assert [rung.role.value for rung in loaded.rungs if rung.role is Role.CHEAT], fixture
        assert loaded.rung("optimized").summary.startswith("twin: ")
        assert len(loaded.lesson.strip().splitlines()) >= 5, fixture
