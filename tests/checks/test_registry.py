"""The registry keeps its promises: every issue answered once, every check with its fixture, none passing by failing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from aisp.checks import registry
from aisp.checks.registry import (
    ArmFacts,
    Check,
    Evidence,
    Facts,
    Finding,
    How,
    Need,
    Refusal,
    RunFacts,
    Sensor,
    Status,
    Unavailable,
    When,
)
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case, Kind, Needs, Role, Rung, Target
from aisp.store.outcomes import State, Timing
from tests.replacing import replace

MAIN = Path(__file__).parents[2]
GALLERY = MAIN / "checks" / "gallery"

# The ids that results are checked for in the field, by category.
LISTED: dict[str, str] = {
    "timing": """
        unsynced_streams incomplete_async_ops event_timing_gaps timer_granularity warmup_bleed clock_drift
        profiler_overhead
    """,
    "output": """
        constant_output stale_cache approximation_drift invalid_values_nan invalid_values_inf
        invalid_ground_truth shape_mismatch dtype_mismatch denormalized_values uninitialized_memory
    """,
    "workload": """
        precision_mismatch backend_precision_policy_drift undeclared_shortcuts early_exit batch_shrinking
        sequence_truncation hidden_downsampling sparsity_mismatch attention_mask_mismatch kv_cache_size_mismatch
        train_test_overlap
    """,
    "location": """
        cpu_spillover setup_pre_computation graph_capture_cheat warmup_computation background_thread
        lazy_evaluation_skip jit_compilation_timing
    """,
    "memory": """
        pre_allocated_output input_output_aliasing pinned_memory_timing memory_pool_reuse fragmentation_effects
        page_fault_timing swap_interference
    """,
    "cuda": """
        host_callback_escape async_memcpy_incomplete workspace_pre_compute persistent_kernel
        undeclared_multi_gpu context_switch_overhead driver_overhead cooperative_launch_abuse
        dynamic_parallelism_hidden unified_memory_faults
    """,
    "compile": """
        compilation_cache_hit trace_reuse mode_inconsistency inductor_asymmetry guard_failure_hidden
        autotuning_variance symbolic_shape_exploit
    """,
    "distributed": """
        rank_skipping collective_short_circuit topology_mismatch barrier_timing gradient_bucketing_mismatch
        async_gradient_timing pipeline_bubble_hiding shard_size_mismatch
    """,
    "environment": """
        device_mismatch frequency_boost priority_elevation memory_overcommit numa_inconsistency
        cpu_governor_mismatch thermal_throttling power_limit_difference driver_version_mismatch
        library_version_mismatch container_resource_limits virtualization_overhead
    """,
    "statistical": """
        cherry_picking outlier_injection variance_gaming percentile_selection insufficient_samples
        cold_start_inclusion gc_interference background_process_noise
    """,
    "evaluation": """
        eval_code_exploitation timeout_manipulation metric_definition_gaming test_data_leakage
        benchmark_overfitting self_modifying_tests benchmark_memorization missing_holdout_sets
    """,
}
THE_95 = {f"{category}.{name}" for category, names in LISTED.items() for name in names.split()}


# -- what is declared --------------------------------------------------------------------------------------------------


def test_the_list_has_95_ids() -> None:
    assert len(THE_95) == sum(len(names.split()) for names in LISTED.values()) == 95
    assert tuple(LISTED) == (
        "timing",
        "output",
        "workload",
        "location",
        "memory",
        "cuda",
        "compile",
        "distributed",
        *("environment", "statistical", "evaluation"),
    )
    assert set(LISTED) == set(registry.CATEGORIES)


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_every_listed_issue_of_a_category_is_answered_once(category: str) -> None:
    listed = Counter(issue.id for issue in registry.issues() if issue.listed and issue.category == category)
    assert listed == Counter(name for name in THE_95 if name.startswith(f"{category}."))


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_a_category_file_holds_its_own_category_alone(category: str) -> None:
    module = registry._module(category)
    assert {item.category for item in (*module.CHECKS, *module.ISSUES)} <= {category}


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_every_issue_says_what_happens_and_how_it_is_answered(category: str) -> None:
    for issue in registry.issues():
        if issue.category == category:
            assert re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", issue.id)
            assert issue.what.strip() == issue.what != ""
            assert len(issue.answer) >= 20, f"{issue.id}: {issue.answer!r} is no answer"


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_every_check_answers_an_issue_that_there_is(category: str) -> None:
    known = {issue.id for issue in registry.issues()}
    for check in registry.checks():
        if check.category == category:
            assert check.issues, f"{check.id} answers nothing"
            assert set(check.issues) <= known, f"{check.id} answers {set(check.issues) - known}, which are no issues"
            assert len(check.issues) == len(set(check.issues))
            assert re.fullmatch(r"[a-z_]+\.[a-z0-9_]+", check.id)
            assert check.title
            assert len(check.about) >= 40, f"{check.id}: {check.about!r} explains nothing"


@pytest.mark.parametrize(
    "name",
    [
        *("output.form", "output.values", "output.nonfinite", "output.timed_calls", "output.last_call"),
        *("output.fresh_values", "output.moved_buffers", "timing.clock_sanity", "evaluation.result_channel"),
    ],
)
def test_what_the_engine_refuses_by_itself_is_a_check_that_can_be_listed(name: str) -> None:
    assert [check.refuses for check in registry.checks() if check.id == name] == [True]


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_every_issue_that_is_detected_is_answered_by_a_check(category: str) -> None:
    answered = {issue for check in registry.checks() for issue in check.issues}
    detected = {i.id for i in registry.issues() if i.category == category and i.how is How.DETECTED}
    assert detected <= answered


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_an_issue_that_gains_nothing_outside_has_a_fixture_that_shows_it(category: str) -> None:
    for issue in registry.issues():
        if issue.category == category and issue.how is How.OUTSIDE:
            assert issue.fixture, issue.id


@pytest.mark.parametrize("category", registry.CATEGORIES)
def test_an_issue_without_a_fixture_names_the_test_that_proves_its_answer(category: str) -> None:
    for issue in registry.issues():
        if issue.category == category and not issue.fixture and issue.how is not How.UNAVAILABLE:
            named = re.findall(r"tests/[\w/]+\.py", issue.answer)
            assert named, f"{issue.id} has neither a fixture nor a test: {issue.answer}"
            assert [name for name in named if not (MAIN / name).is_file()] == []


# -- the gallery -------------------------------------------------------------------------------------------------------


def gallery_folders() -> list[str]:
    """Fixtures on disk, as "category/name"."""
    return sorted(str(path.parent.relative_to(GALLERY)) for path in GALLERY.glob("*/*/lesson.md"))


def named_folders() -> list[str]:
    return sorted({issue.fixture for issue in registry.issues() if issue.fixture})


def fixture(folder: str) -> Target:
    target = catalog.load_target(GALLERY / folder, root=GALLERY, chapter=folder.partition("/")[0])
    assert isinstance(target, Target), "; ".join(str(problem) for problem in target)
    return target


def test_every_fixture_folder_that_an_issue_names_exists() -> None:
    assert [folder for folder in named_folders() if not (GALLERY / folder / "lesson.md").is_file()] == []


def test_every_fixture_folder_is_named_by_an_issue_of_its_category() -> None:
    assert [folder for folder in gallery_folders() if folder not in named_folders()] == []
    for issue in registry.issues():
        if issue.fixture:
            category, _, name = issue.fixture.partition("/")
            assert category in registry.CATEGORIES
            assert name
            assert "/" not in name


def test_the_gallery_loads_as_a_collection_without_problems() -> None:
    found = catalog.load([GALLERY])
    assert [str(problem) for problem in found.problems] == []
    assert sorted(target.id.replace(":", "/") for target in found.targets) == gallery_folders()
    assert {chapter.id for chapter in found.chapters} <= set(registry.CATEGORIES)


def test_every_category_with_fixtures_has_a_readme() -> None:
    categories = {folder.partition("/")[0] for folder in gallery_folders()}
    assert [name for name in sorted(categories) if not (GALLERY / name / "README.md").is_file()] == []


def test_every_fixture_has_a_cheat_and_an_honest_twin_that_says_so() -> None:
    lacking = []
    for folder in gallery_folders():
        target = fixture(folder)
        roles = Counter(rung.role for rung in target.rungs)
        twin = next(rung for rung in target.rungs if rung.name == "optimized")
        if not (roles[Role.CHEAT] >= 1 and roles[Role.BASELINE] >= 1 and twin.summary.startswith("twin")):
            lacking.append(f"{folder}: {dict(roles)}, twin's summary {twin.summary!r}")
        if len(target.lesson.splitlines()) < 5:
            lacking.append(f"{folder}: the lesson has {len(target.lesson.splitlines())} lines")
    assert lacking == []


def test_every_fixture_can_be_timed_somewhere() -> None:
    for folder in gallery_folders():
        target = fixture(folder)
        assert target.needs.gpus > 0 or target.on_host or "cpu" in {case.name for case in target.cases}, folder


def test_the_twin_and_the_cheats_of_a_fixture_differ_from_each_other_and_from_the_baseline() -> None:
    for folder in gallery_folders():
        sources = [rung.path.read_text("utf-8") for rung in fixture(folder).rungs]
        assert len(set(sources)) == len(sources), folder


def test_fixtures_share_nothing() -> None:
    for path in GALLERY.glob("*/*/*.py"):
        assert "checks" not in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text("utf-8"), re.MULTILINE), path


def test_no_fixture_changes_the_settings_of_a_gpu() -> None:
    words = ("nvidia-smi", "nvmlDeviceSet", "nvmlDeviceReset", "cudaMallocManaged", "managedMemory")
    found = [
        f"{path.relative_to(GALLERY)}: {word}"
        for path in sorted(GALLERY.glob("*/*/*"))
        if path.suffix in (".py", ".cu")
        for word in words
        if word in path.read_text("utf-8")
    ]
    assert found == []


# -- imports -----------------------------------------------------------------------------------------------------------


def test_importing_the_registry_and_every_category_imports_no_torch() -> None:
    code = (
        "import sys\nfrom aisp.checks import registry\nregistry.checks(), registry.issues(), list(registry.sensors())\n"
    )
    code += "import json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=MAIN, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stdout))
    assert "aisp.checks" in found
    assert not found & {"torch", "triton", "numpy", "cuda", "pynvml", "aisp.engine", "aisp.tui"}


def test_sensors_have_names_of_their_own() -> None:
    by_name: dict[str, set[type[Sensor[Facts]]]] = {}
    for check in registry.checks():
        if check.sensor is not None:
            by_name.setdefault(check.sensor.name, set()).add(check.sensor)
    assert {name: found for name, found in by_name.items() if len(found) > 1} == {}
    assert [sensor.name for _, sensor in registry.sensors()] == list(by_name)


# -- asking ------------------------------------------------------------------------------------------------------------


def check(**given: Any) -> Check:
    named: dict[str, Any] = {"id": "timing.example", "title": "An example", "about": "What is looked at."}
    more: dict[str, Any] = {"evidence": Evidence.WORK, **given}
    return Check(**{**named, "issues": ("timing.warmup_bleed",), "when": When.AFTER_RUN, **more})


def arm(**given: Any) -> ArmFacts:
    rung = Rung("optimized", Role.OPTIMIZED, Kind.TORCH, Path("optimized.py"), Needs())
    facts: dict[str, Any] = {"arm": "optimized", "rung": rung, "device": "cpu", "ended_well": True, "state": State.OK}
    return ArmFacts(**{**facts, "timing": Timing.HOST, **given})


def run(*arms: ArmFacts, device: str = "cpu") -> RunFacts:
    target: Any = SimpleNamespace(id="ch00:nothing", ranks=1)
    return RunFacts(target, Case("cpu", {}), device, quick=False, arms=arms or (arm(),))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """examine() with these checks alone."""

    def examine(*checks: Check, facts: RunFacts | None = None, without: frozenset[str] = frozenset()) -> list[Finding]:
        monkeypatch.setattr(registry, "checks", lambda: checks)
        return registry.examine(facts or run(), without=without)

    return examine


def raising(error: Exception) -> Any:
    def judge(*_: object) -> registry.Answer:
        raise error

    return judge


FAILURES = (ValueError("odd"), ZeroDivisionError("by zero"), AssertionError("no"), OSError(28), KeyError("lag_msec"))


@pytest.mark.parametrize("error", [*FAILURES, AttributeError("lag_msec"), IndexError("of nothing"), LookupError("odd")])
def test_a_judge_that_raises_has_not_judged(asked: Any, error: Exception) -> None:
    for judge in ({"arm": raising(error)}, {"run": raising(error)}):
        (finding,) = asked(check(**judge))
        assert finding.status is Status.SUSPECT
        assert finding.evidence.startswith(f"the check itself failed ({type(error).__name__}: ")


def test_what_a_worker_said_reaches_nobody_raw(asked: Any) -> None:
    dirty = check(arm=lambda *_: registry.caught("\x1b]0;owned\x07 got \x1b[31m1\n2" + "x" * 9000))
    (found,) = asked(dirty)
    assert "\x1b" not in found.evidence and "\n" not in found.evidence
    assert len(found.evidence) <= registry.EVIDENCE_CHARS + 50  # and how much was left out
    (empty,) = asked(check(arm=lambda *_: registry.unavailable("")))
    assert empty.evidence == "no evidence was given"


def test_a_judge_whose_facts_did_not_come_says_which(asked: Any) -> None:
    (finding,) = asked(check(arm=raising(Unavailable("its process ended before it could tell"))))
    assert (finding.status, finding.evidence) == (Status.UNAVAILABLE, "its process ended before it could tell")


class WatcherFacts(Facts, frozen=True, kw_only=True):
    streams: int


class Watcher(Sensor[WatcherFacts]):
    name = "watcher"

    def facts(self) -> WatcherFacts:
        return WatcherFacts(streams=1)


def by_watcher(facts: ArmFacts, _: RunFacts) -> registry.Answer:
    seen = sum(told.streams for told in facts.facts(Watcher))
    return registry.passed(f"{seen} streams")


def test_a_sensor_that_raised_or_never_told_makes_its_check_unavailable(asked: Any) -> None:
    watched = check(arm=by_watcher, sensor=Watcher)
    one, two = ({"watcher": msgspec.Raw(msgspec.msgpack.encode(WatcherFacts(streams=count)))} for count in (1, 2))
    torn = {"watcher": msgspec.Raw(msgspec.msgpack.encode({"stream": 1}))}
    failure = {"watcher": "RuntimeError: no CUPTI"}
    for sent, status, evidence in (
        (((one, {}), (two, {})), Status.PASSED, "3 streams"),
        (((one, {}), ({}, failure)), Status.UNAVAILABLE, "RuntimeError: no CUPTI"),
        ((), Status.UNAVAILABLE, "its process ended before it could tell"),
        ((({}, {}),), Status.SUSPECT, "nothing was sent of it"),
        (((one, {}), (torn, {})), Status.SUSPECT, "`stream`"),
        ((({}, failure), (torn, {})), Status.SUSPECT, "`stream`"),  # whoever fails hides nothing
    ):
        asked(watched)  # from here on there is this check alone
        sensed = tuple(registry.received(*each) for each in sent)
        (finding,) = asked(watched, facts=run(arm(sensed=sensed)))
        assert finding.status is status
        assert evidence in finding.evidence


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("ended_well", [False, True])
def test_every_real_judge_survives_facts_that_say_nothing_and_catches_nobody(device: str, ended_well: bool) -> None:
    target = catalog.load_target(MAIN / "kernels/ch07_memory_access/transpose", root=MAIN / "kernels", chapter="ch07")
    assert isinstance(target, Target)
    state = "ok" if ended_well else "crashed"
    arms = [
        arm(arm=name, rung=target.rung(name.removesuffix(" (A/A)")), device=device, ended_well=ended_well, state=state)
        for name in ("baseline", "baseline (A/A)", "optimized")
    ]
    facts = replace(run(*(replace(one, timing=Timing.NONE) for one in arms), device=device), target=target)
    for finding in registry.examine(facts):
        assert finding.status not in (Status.CAUGHT, Status.SUSPECT), finding
        assert finding.evidence or finding.status is Status.PASSED
        assert "the check itself failed" not in finding.evidence, finding


def test_a_refusal_is_the_finding_of_the_check_that_it_names_and_of_no_other(asked: Any) -> None:
    refused = arm(refusal=Refusal("timing.example", "a time of 0 ms"), ended_well=False, state=State.INCORRECT)
    other = check(id="timing.other", refuses=True)
    found = asked(check(refuses=True), other, facts=run(refused))
    assert [(f.status, f.evidence) for f in found] == [
        (Status.CAUGHT, "a time of 0 ms"),
        (Status.NOT_APPLICABLE, "the arm ended before this could be said"),
    ]


def test_a_defence_that_had_nothing_to_refuse_has_passed(asked: Any) -> None:
    (finding,) = asked(check(refuses=True))
    assert finding.status is Status.PASSED


def test_a_check_is_asked_of_every_arm_or_once_of_the_run(asked: Any) -> None:
    facts = run(arm(), arm(arm="baseline (A/A)"))
    found = asked(
        check(arm=lambda facts, _: registry.passed(facts.arm)),
        check(id="timing.whole", run=lambda facts: registry.suspect(f"{len(facts.arms)} arms")),
        facts=facts,
    )
    assert [(f.check, f.arm, f.status, f.evidence) for f in found] == [
        ("timing.example", "optimized", Status.PASSED, "optimized"),
        ("timing.example", "baseline (A/A)", Status.PASSED, "baseline (A/A)"),
        ("timing.whole", "", Status.SUSPECT, "2 arms"),
    ]


SEEN = "2.25 us by the samples, 65.6 us by the engine's clock"


@pytest.mark.parametrize(
    ("name", "evidence", "status", "before"),
    [
        ("optimized", Evidence.VALUES, Status.CAUGHT, ""),
        ("optimized", Evidence.WORK, Status.CAUGHT, ""),
        ("optimized", Evidence.TIME, Status.SUSPECT, "by time alone, "),
        ("baseline", Evidence.VALUES, Status.SUSPECT, "a baseline claims nothing, "),
        ("baseline", Evidence.TIME, Status.SUSPECT, "a baseline claims nothing, "),
        ("baseline (A/A)", Evidence.WORK, Status.SUSPECT, "a baseline claims nothing, "),
    ],
)
def test_a_baseline_and_what_rests_on_time_alone_are_suspect_at_most(
    asked: Any, name: str, evidence: Evidence, status: Status, before: str
) -> None:
    role = Role.BASELINE if name.startswith("baseline") else Role.OPTIMIZED
    rung = Rung(name.partition(" ")[0], role, Kind.TORCH, Path("it.py"), Needs())
    judged = check(arm=lambda *_: registry.caught(SEEN), evidence=evidence)
    (finding,) = asked(judged, facts=run(arm(arm=name, rung=rung)))
    assert finding.status is status
    assert finding.evidence.startswith(before) and finding.evidence.endswith(SEEN)


def test_a_refused_baseline_is_suspect_and_a_whole_run_may_be_caught(asked: Any) -> None:
    rung = Rung("baseline", Role.BASELINE, Kind.TORCH, Path("it.py"), Needs())
    refused = arm(arm="baseline", rung=rung, refusal=Refusal("timing.example", "other values"), state=State.INCORRECT)
    (finding,) = asked(check(refuses=True, evidence=Evidence.VALUES), facts=run(refused))
    assert (finding.status, finding.evidence.endswith("task: other values")) == (Status.SUSPECT, True)
    (finding,) = asked(check(run=lambda _: registry.caught("files were changed")))
    assert finding.status is Status.CAUGHT


def test_what_is_left_out_or_cannot_be_here_says_so(asked: Any) -> None:
    judge = lambda *_: registry.caught("never asked")  # noqa: E731 - one expression, used three times
    (left_out,) = asked(check(arm=judge), without=frozenset({"timing.example"}))
    (no_gpu,) = asked(check(arm=judge, needs=(Need.GPU,)))
    (not_run,) = asked(check(arm=judge), facts=run(arm(state=State.UNAVAILABLE)))
    assert [(f.status, f.evidence) for f in (left_out, no_gpu, not_run)] == [
        (Status.NOT_APPLICABLE, "left out on request"),
        (Status.NOT_APPLICABLE, "there is no GPU in this run"),
        (Status.NOT_APPLICABLE, "this rung did not run"),
    ]


# -- declaring ---------------------------------------------------------------------------------------------------------


def test_a_check_must_judge_one_thing_in_a_category_that_there_is() -> None:
    judge = raising(ValueError())
    for given, told in (
        ({"id": "luck.example", "arm": judge}, "must be one of timing, output"),
        ({}, "judges nothing"),
        ({"arm": judge, "run": judge}, "arms or runs, not both"),
    ):
        with pytest.raises(ValueError, match=told):
            check(**given)


def test_two_checks_or_issues_of_one_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = check(refuses=True)
    issue = registry.Issue("timing.warmup_bleed", "Work is done in the warm-up.", How.PREVENTED, "By new values.")
    modules = {
        "timing": SimpleNamespace(CHECKS=(one, replace(one, title="Twice")), ISSUES=(issue, issue)),
    }
    empty = SimpleNamespace(CHECKS=(), ISSUES=())
    monkeypatch.setattr(registry, "_module", lambda category: modules.get(category, empty))
    with pytest.raises(ValueError, match=r"ids that stand twice: timing\.example"):
        registry.checks.__wrapped__()
    with pytest.raises(ValueError, match=r"ids that stand twice: timing\.warmup_bleed"):
        registry.issues.__wrapped__()
    modules["timing"] = SimpleNamespace(CHECKS=(one,), ISSUES=(issue,))
    assert registry.checks.__wrapped__() == (one,)
    assert registry.issues.__wrapped__() == (issue,)
