"""Checks of outputs: what the verifier finds out about outputs and tasks, and what the judges make of facts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from aisp.checks import output, registry
from aisp.checks.registry import TIMED, ArmFacts, RunFacts, Status, TaskFacts
from aisp.engine.worker.verifier import LOOKED_AT, figures
from aisp.kernels.catalog.model import OwnRule, Target
from aisp.store.outcomes import State, Timing
from tests.checks.sensed import replica
from tests.engine.targets import write_target
from tests.replacing import replace


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return write_target(tmp_path_factory.mktemp("output"), {}, more='[rungs.optimized]\nsummary = "another way"\n')


def arm(target: Target, name: str = "optimized", **facts: Any) -> ArmFacts:
    """What is known of an arm that ended well."""
    known: dict[str, Any] = {"device": "cpu", "ended_well": True, "state": State.OK, "timing": Timing.COLD}
    return ArmFacts(name, target.rung(name), **(known | facts))


def run(target: Target, *arms: ArmFacts, **facts: Any) -> RunFacts:
    """What is known of a run."""
    known: dict[str, Any] = {"device": "cpu", "quick": False}
    return RunFacts(target, target.case("default"), arms=arms, **(known | facts))


def ask(check: str, found: RunFacts, name: str = "optimized") -> tuple[Status, str]:
    """What one check says of one arm, or of the run."""
    answers = [f for f in registry.examine(found) if f.check == check and f.arm in (name, "")]
    assert len(answers) == 1
    return answers[0].status, answers[0].evidence


# -- figures -----------------------------------------------------------------------------------------------------------


def test_an_output_that_was_rounded_to_a_narrower_dtype_shows_it_where_the_truth_does_not() -> None:
    truth = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    honest, narrow = figures("y", truth.float(), truth), figures("y", truth.half().float(), truth)
    assert narrow["y.fp16"] == 1.0
    assert honest["y.fp16"] < 0.01
    assert honest["y.fp16_truth"] == narrow["y.fp16_truth"] < 0.01
    assert figures("y", truth.bfloat16().float(), truth)["y.bf16"] == 1.0
    wide = figures("y", truth.float().double(), truth)
    assert (wide["y.fp32"], wide["y.fp32_truth"]) == (1.0, 0.0)
    assert 1e-4 < narrow["y.rms_error"] < 4e-4
    assert honest["y.rms_error"] < 1e-7
    assert {name.partition(".")[2] for name in wide} == set(get_args(output.Figure)), "what judges may ask for"


def test_shares_are_those_of_the_elements_named() -> None:
    truth = torch.ones(1000, dtype=torch.float64)
    truth[:100] = 1e-40
    truth[100:150] = math.nan
    given = truth.float()
    assert figures("y", given, truth)["y.subnormal"] == pytest.approx(0.1)
    given[:100] = 0.0
    given[900:] = 0.0
    found = figures("y", given, truth)
    assert found["y.subnormal"] == 0.0
    assert found["y.subnormal_truth"] == pytest.approx(0.1)
    assert found["y.zero"] == pytest.approx(0.2)
    assert found["y.zero_truth"] == 0.0
    assert found["y.nan"] == found["y.nan_truth"] == pytest.approx(0.05)
    assert found["y.dropped"] == pytest.approx(0.1)  # what is subnormal may be flushed without being dropped


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "bool"])
def test_every_dtype_has_figures_and_none_of_them_is_infinite(dtype: str) -> None:
    truth = torch.tensor([0.0, 1.0, 1.0, 0.0] * 100, dtype=torch.float64)
    found = figures("y", truth.to(getattr(torch, dtype)), truth)
    assert found["y.zero"] == found["y.zero_truth"] == 0.5
    assert all(math.isfinite(value) for value in found.values())


def test_an_empty_output_has_no_figures_and_a_large_one_is_sampled() -> None:
    assert figures("y", torch.empty(0), torch.empty(0, dtype=torch.float64)) == {}
    large = torch.ones(4 * LOOKED_AT, dtype=torch.float64)
    assert figures("y", large.float(), large)["y.count"] == LOOKED_AT


TASKS = {
    "plain": ("def run(x):\n    return x * 2\n", ""),
    "zeros": ("def run(x):\n    return x * 0\n", ""),
    "constant": ("import torch\ndef run(x):\n    return torch.full_like(x, 3) + 0 * x.clamp(0, 0)\n", ""),
    "half": ("def run(x):\n    y = x * 2\n    y[(len(y) + 1) // 2 :] = 0\n    return y\n", ""),
    "chance": ("import torch\ndef run(x):\n    return x + torch.rand_like(x)\n", ""),
    "number": ("def run(x):\n    return x.square().sum()\n", "", 'y = "float32 []"'),
    "steady number": ("def run(x):\n    return (1e6 + x.sum() / 1e3).reshape(1)\n", "", 'y = "float32 [1]"'),
    "no number": ("def run(x):\n    return x.sum() * 0\n", "", 'y = "float32 []"'),
    "number beside half": (
        "def run(x):\n    y = x * 2\n    y[(len(y) + 1) // 2 :] = 0\n    return y, x.sum()\n",
        "",
        'y = "float32 [N]"\ns = "float32 []"',
    ),
    "constant beside number": (
        "def run(x):\n    return x * 0 + 3, x.square().sum()\n",
        "",
        'y = "float32 [N]"\ns = "float32 []"',
    ),
}

INSPECT = """
import json, os, sys
from pathlib import Path
import msgspec
from aisp.checks.oracle.schema import Case
from aisp.engine.protocol import jobs
from aisp.engine.worker.verifier import Verifier
from tests.engine.roles import blob, SEED
from tests.engine.targets import write_target

root, told = Path(sys.argv[1]), {}
for name, (reference, inputs, *outputs) in json.loads(sys.argv[2]).items():
    more = {"inputs": inputs} if inputs else {}
    more |= {"outputs": outputs[0]} if outputs else {}
    target = write_target(root, {"reference.py": reference}, name=name.replace(" ", "_"), axes="{ N = 512 }", **more)
    sys.modules.pop("reference", None)
    load = jobs.Load(folder=os.fsencode(target.folder), root=os.fsencode(root), chapter=target.chapter,
                     target_id=target.id, module="reference", device="cpu")
    verifier = Verifier(load, target)
    before = msgspec.to_builtins(verifier.task_facts())
    for number in range(2):
        posed = Case.of_set(target.case("default"), number).plain()
        verifier.pose(jobs.Pose(case=posed, seed=SEED, blob=blob()))
    told[name] = [before, msgspec.to_builtins(verifier.task_facts())]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What a verifier says of each of TASKS, before it knows anything and afterwards; a process of its own."""
    two = (
        'x = "float32 [N] normal"\nz = "float32 [N] normal"\nw = "float32 [N] normal static"\nones = "float32 [N] ones"'
    )
    tasks = {**TASKS, "unused": ("def run(x, z, w, ones):\n    return x * w\n", two)}
    done = subprocess.run(
        [sys.executable, "-c", INSPECT, str(tmp_path_factory.mktemp("tasks")), json.dumps(tasks)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_the_verifier_says_what_a_task_would_let_pass(inspected: dict[str, list[dict[str, Any]]]) -> None:
    facts = {name: after for name, (_, after) in inspected.items()}
    passing = ("zeros_pass", "constant_pass", "half_pass")
    assert [facts["plain"][name] for name in passing] == [False, False, False]
    assert [facts["zeros"][name] for name in passing] == [True, True, True]
    assert [facts["constant"][name] for name in passing] == [False, True, False]
    assert [facts["half"][name] for name in passing] == [False, False, True]


@pytest.mark.slow
def test_a_single_number_has_no_half_and_a_constant_must_fit_all_input_sets(
    inspected: dict[str, list[dict[str, Any]]],
) -> None:
    facts = {name: after for name, (_, after) in inspected.items()}
    asked = ("zeros_pass", "constant_pass", "half_pass")
    assert [facts["number"].get(name) for name in asked] == [False, False, None]
    assert [facts["steady number"].get(name) for name in asked] == [False, True, None]
    assert [facts["no number"].get(name) for name in asked] == [True, True, None]
    assert [facts["number beside half"].get(name) for name in asked] == [False, False, True]
    assert [facts["constant beside number"].get(name) for name in asked] == [False, False, False]


def test_the_verifier_finds_inputs_that_do_not_matter_and_references_that_roll_dice(
    inspected: dict[str, list[dict[str, Any]]],
) -> None:
    facts = {name: after for name, (_, after) in inspected.items()}
    assert facts["plain"]["unused_inputs"] == []
    assert facts["unused"]["unused_inputs"] == ["z"]  # ones can be nothing else, and w does matter
    assert facts["plain"]["reference_repeats"] is True
    assert facts["chance"]["reference_repeats"] is False
    assert facts["chance"]["unused_inputs"] is None  # there every change makes a difference
    assert all(set(before.values()) == {None} for before, _ in inspected.values())


# -- judges ------------------------------------------------------------------------------------------------------------


def test_memory_that_was_never_written_shows_the_poison_of_the_call_before(target: Target) -> None:
    told = (replica(poison={"calls": 90, "kept": 88}),)
    wrong = {"y.count": 4096.0, "y.nan": 0.4, "y.nan_truth": 0.0}
    status, evidence = ask("output.poison", run(target, arm(target, sensed=told, compared=(wrong,))))
    assert status is Status.CAUGHT
    assert "40.0% of y is NaN" in evidence
    right = {**wrong, "y.nan_truth": 0.4}
    status, evidence = ask("output.poison", run(target, arm(target, sensed=told, compared=(right,))))
    assert (status, "88 used that memory again" in evidence) == (Status.PASSED, True)
    fresh = (replica(poison={"calls": 90, "kept": 0}),)
    assert ask("output.poison", run(target, arm(target, sensed=fresh, compared=(wrong,))))[0] is Status.PASSED
    assert ask("output.poison", run(target, arm(target)))[0] is Status.UNAVAILABLE
    never = (replica(poison={"calls": 0, "kept": 0}),)
    assert ask("output.poison", run(target, arm(target, sensed=never)))[0] is Status.NOT_APPLICABLE


def test_flushed_subnormals_are_caught_unless_the_lesson_or_the_baseline_flushes_too(
    target: Target, tmp_path: Path
) -> None:
    flushed = {"y.count": 4096.0, "y.subnormal": 0.0, "y.subnormal_truth": 0.3}
    kept = {**flushed, "y.subnormal": 0.29}
    base = arm(target, "baseline", compared=(kept,))
    cheat = arm(target, compared=(flushed,))
    status, evidence = ask("output.subnormals", run(target, base, cheat))
    assert (status, "30.0% of the truth of y is subnormal" in evidence) == (Status.CAUGHT, True)
    assert ask("output.subnormals", run(target, base, cheat), "baseline")[0] is Status.PASSED
    lazy = arm(target, "baseline", compared=(flushed,))
    assert ask("output.subnormals", run(target, lazy, cheat))[0] is Status.PASSED
    says_so = write_target(tmp_path, {}, more='[rungs.optimized]\nsummary = "flushes denormals to zero"\n')
    said = run(says_so, arm(says_so, "baseline", compared=(kept,)), arm(says_so, compared=(flushed,)))
    assert ask("output.subnormals", said)[0] is Status.PASSED
    on_gpu = run(target, base, cheat, device="cuda")
    assert ask("output.subnormals", on_gpu)[0] is Status.NOT_APPLICABLE


def test_who_flushes_subnormals_where_nothing_is_timed_is_not_accused(target: Target) -> None:
    """As a rung does that torch's compiler has made for a CPU: in a case of extreme values, which is not timed."""
    usual = {"y.count": 4096.0, "y.subnormal": 0.0, "y.subnormal_truth": 0.0}
    extreme = {**usual, "y.subnormal_truth": 0.3}
    for rung in ("baseline", "optimized"):
        honest = arm(target, rung, compared=({**usual, TIMED: 1.0}, {**extreme, TIMED: 0.0}))
        assert ask("output.subnormals", run(target, honest), rung)[0] is Status.PASSED
        timed = arm(target, rung, compared=({**usual, TIMED: 0.0}, {**extreme, TIMED: 1.0}))
        assert ask("output.subnormals", run(target, timed), rung)[0] in (Status.CAUGHT, Status.SUSPECT)
    alone = arm(target, compared=({**extreme, TIMED: 0.0},))
    assert ask("output.subnormals", run(target, alone))[0] is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("fact", "word"), [("zeros_pass", "zeros"), ("half_pass", "half"), ("constant_pass", "constant")]
)
def test_a_task_that_takes_anything_is_said_to_be_weak(target: Target, fact: str, word: str) -> None:
    strong: dict[str, Any] = {"zeros_pass": False, "constant_pass": False, "half_pass": False, "unused_inputs": []}
    assert ask("output.weak_task", run(target, arm(target), task=TaskFacts(**strong)))[0] is Status.PASSED
    status, evidence = ask("output.weak_task", run(target, arm(target), task=TaskFacts(**{**strong, fact: True})))
    assert (status, word in evidence) == (Status.SUSPECT, True)
    without = {name: value for name, value in strong.items() if name != fact}
    _, evidence = ask("output.weak_task", run(target, arm(target), task=TaskFacts(**without)))
    assert word not in evidence
    status, evidence = ask(
        "output.weak_task", run(target, arm(target), task=TaskFacts(**{**strong, "unused_inputs": ["z"]}))
    )
    assert (status, "nothing of z" in evidence) == (Status.SUSPECT, True)
    posed = replace(target, rule=OwnRule("KernelBench: allclose"))
    status, told = ask("output.weak_task", run(posed, arm(posed), task=TaskFacts(**{**strong, "unused_inputs": ["z"]})))
    assert status is Status.PASSED and "nothing of z reaches the outputs" in told, "others posed it so"
    assert ask("output.weak_task", run(target, arm(target)))[0] is Status.UNAVAILABLE


def test_a_reference_that_does_not_repeat_itself_is_no_truth(target: Target) -> None:
    assert (
        ask("output.ground_truth", run(target, arm(target), task=TaskFacts(reference_repeats=True)))[0] is Status.PASSED
    )
    assert (
        ask("output.ground_truth", run(target, arm(target), task=TaskFacts(reference_repeats=False)))[0]
        is Status.SUSPECT
    )
    assert ask("output.ground_truth", run(target, arm(target)))[0] is Status.UNAVAILABLE


def test_the_engines_refusals_are_told_in_the_name_of_their_check(target: Target) -> None:
    refused = arm(
        target, ended_well=False, state=State.INCORRECT, refusal=registry.Refusal("output.values", "y[3]: got 1")
    )
    found = run(target, refused)
    assert ask("output.values", found) == (Status.CAUGHT, "y[3]: got 1")
    assert ask("output.last_call", found)[0] is Status.NOT_APPLICABLE
    assert ask("output.last_call", run(target, arm(target)))[0] is Status.PASSED
    named = {check.id for check in output.CHECKS if check.refuses}
    assert named == {
        f"output.{name}"
        for name in ("form", "values", "nonfinite", "timed_calls", "last_call", "fresh_values", "moved_buffers")
    }
