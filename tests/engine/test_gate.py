"""What a run asks beyond its lesson's cases, what that costs in jobs, and what a run says where it fails."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aisp.checks.oracle import families
from aisp.checks.oracle.calling import keys_before
from aisp.checks.oracle.fixed import Held
from aisp.engine import arena
from aisp.engine.arms import Arm, ArmEnd, ArmProcess
from aisp.engine.gate import Gate
from aisp.engine.protocol import jobs, reports
from aisp.store.outcomes import Correctness, FindingStatus, State, TolerancePolicy, Validity, Verdict
from tests.checks.oracle.targets import target
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

WRONG = "values"
BLOB = jobs.Blob(name="/nowhere")
SHAPE, VALUES = "shape", "values"


@pytest.fixture(autouse=True)
def inputs(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The file of BLOB, sealed as the verifier seals inputs."""
    file = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    monkeypatch.setitem(arena._descriptors, BLOB.name, file)
    yield file
    os.close(file)


class Counting:
    """A verifier and a worker that count what they are asked, and answer as they are told to."""

    def __init__(
        self,
        *,
        wrong: tuple[str, ...] = (),
        failing: str = "",
        judging: str = "",
        held: tuple[Held, ...] = (),
        off: dict[str, float] | None = None,
    ) -> None:
        self.judging = judging
        self.asked: list[jobs.AnyJob] = []
        self.held = held
        self.wrong, self.failing, self.off = wrong, failing, off or {}

    async def judge(self, job: jobs.AnyJob, want: type[Any], whose: str) -> Any:
        self.asked.append(job)
        if isinstance(job, jobs.Pose):
            if self.failing == _what(job):
                raise ArmEnd(State.USER_ERROR, "reference.py: ValueError: no such size")
            return reports.Posed(blob=BLOB)
        if isinstance(job, jobs.Probe):
            return reports.Probed(held=[held.plain() for held in self.held])
        assert isinstance(job, jobs.Judge)
        if self.judging == _what(job):
            raise ArmEnd(State.USER_ERROR, "the verifier: a device assert; a fresh one is ready")
        off = self.off.get(job.rung)
        right = (
            off == 0.0 or (job.case["strategy"] if _what(job) == SHAPE else str(job.case["number"])) not in self.wrong
        )
        finding = "nothing" if right else WRONG
        policy = TolerancePolicy.DERIVED
        return reports.Judged(policy=policy, right=right, finding=finding, detail="y[0]", max_error=off)

    async def ask(self, job: jobs.AnyJob, patience_s: float) -> Any:
        self.asked.append(job)
        if isinstance(job, jobs.Try):
            return reports.Tried(outputs=BLOB, took_ms=1.0)
        return reports.Executed(outputs=BLOB, fingerprint=[])

    def count(self, kind: type[Any], what: str = "") -> int:
        """How many jobs of a kind were asked; with `what`, how many about a shape or about other values."""
        return sum(isinstance(job, kind) and (not what or _what(job) == what) for job in self.asked)


def _what(job: Any) -> str:
    return VALUES if job.case.get("name") else SHAPE


def gate(known: Counting, **other: Any) -> tuple[Gate, list[Arm]]:
    of = target(rungs=("baseline", "optimized"))
    made = Gate(
        target=of, case=of.cases[0], device="cpu", seed=other.get("seed", 9),
        without=frozenset(other.get("without", ())), first_set=1000, ask_judge=known.judge, blob=lambda: BLOB,
    )  # fmt: skip
    return made, [Arm(rung.name, rung, "cpu", True) for rung in of.rungs]


async def through(known: Counting, **other: Any) -> tuple[Gate, list[Arm]]:
    made, arms = gate(known, **other)
    await made.pose([arm.rung for arm in arms])
    for arm in arms:
        await made.enter(ArmProcess(arm, 0, known, BLOB), 1.0)  # type: ignore[arg-type]
    for arm in arms:
        await made.try_values(ArmProcess(arm, 0, known, BLOB), 1.0)  # type: ignore[arg-type]
    return made, arms


async def test_a_run_poses_two_shapes_and_two_sets_of_values_and_each_rung_is_called_once_for_each() -> None:
    known = Counting()
    made, arms = await through(known)
    assert known.count(jobs.Pose, SHAPE) == known.count(jobs.Pose, VALUES) == 2, "once for all arms"
    assert known.count(jobs.Try) == known.count(jobs.Judge, SHAPE) == 2 * len(arms)
    assert known.count(jobs.Execute) == known.count(jobs.Judge, VALUES) == 2 * len(arms)
    assert known.count(jobs.Probe) == 1
    assert len(known.asked) == 5 + 8 * len(arms)
    elements = sum(case.axes["M"] * case.axes["N"] for case, _, _ in made.drawn)
    assert elements <= 2 * families.GATE_ELEMENTS
    assert all(len(arm.families) == 2 and arm.doubt is None for arm in arms)
    last_shape = max(
        place for place, job in enumerate(known.asked) if isinstance(job, jobs.Judge) and _what(job) == SHAPE
    )
    first_values = min(
        place for place, job in enumerate(known.asked) if isinstance(job, jobs.Pose) and _what(job) == VALUES
    )
    assert first_values >= last_shape, "nobody waits for them before the first sample"


async def test_a_set_that_changes_static_inputs_is_called_as_a_drawn_case_is_prepared_anew() -> None:
    known = Counting()
    made, (arm, *_) = gate(known)
    whole = 'x = "int8 [M, N] integers(-128, 128)"\nw = "int8 [N, M] integers(-128, 128) static"'
    made.target = target(whole, 'y = "int32 [M, M]"', axes="{ M = 8, N = 64 }")
    made.case = made.target.cases[0]
    await made.try_values(ArmProcess(arm, 0, known, BLOB), 1.0)  # type: ignore[arg-type]
    (tried,) = [job for job in known.asked if isinstance(job, jobs.Try)]
    assert set(tried.case["values"]) == {"x", "w"}
    assert known.count(jobs.Execute) == len(families.WHOLE_SETS)
    assert any("x, w: in the upper quarter" in said for said in arm.families)


async def test_who_compiles_for_long_is_asked_for_one_shape() -> None:
    known = Counting()
    made, (arm, *_) = gate(known)
    await made.pose([arm.rung])
    await made.enter(ArmProcess(arm, 0, known, BLOB), 1.0, most=1)  # type: ignore[arg-type]
    assert known.count(jobs.Try) == known.count(jobs.Judge) == 1
    assert arm.shapes == [made.drawn[0][0].text]


async def test_what_is_left_out_on_request_costs_nothing() -> None:
    known = Counting()
    await through(known, without=("evaluation.held_out", "evaluation.value_families"))
    assert known.asked == []


async def test_shapes_follow_from_the_runs_own_seed() -> None:
    drawn = [(await through(Counting(), seed=seed))[0].facts().posed for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]


async def test_the_shapes_for_which_a_rung_was_caught_are_posed_again_with_their_values_and_every_rung_is_asked() -> (
    None
):
    (then, _), (now, _) = [await through(Counting(), seed=seed) for seed in (1, 2)]
    known = Counting()
    made, arms = gate(known, seed=2)
    await made.pose([arm.rung for arm in arms], again=[1])
    for arm in arms:
        await made.enter(ArmProcess(arm, 0, known, BLOB), 1.0)  # type: ignore[arg-type]
    earlier = [f"{text}, as when a rung was caught" for text in then.facts().posed]
    assert made.facts().posed == (*now.facts().posed, *earlier)
    assert all(arm.shapes == [*earlier, *now.facts().posed] for arm in arms)
    for kind in (jobs.Pose, jobs.Judge):
        seeds = {job.case["text"]: job.seed for job in known.asked if isinstance(job, kind)}
        assert seeds == dict.fromkeys(then.facts().posed, 1) | dict.fromkeys(now.facts().posed, 2)
    keys = {job.case["text"]: job.others["x"] for job in known.asked if isinstance(job, jobs.Try)}
    drawn = {case.text: list(keys_before(made.target, case, seed)["x"]) for case, seed, _ in made.drawn}
    assert keys == drawn
    assert len({tuple(key) for key in keys.values()}) == len(keys)


async def test_a_wrong_shape_or_promised_value_ends_the_arm_and_another_value_is_a_doubt() -> None:
    with pytest.raises(ArmEnd, match="drawn case M=") as shape:
        await through(Counting(wrong=("boundary",)))
    with pytest.raises(ArmEnd, match="timed shape, x: uniform, sorted and constant rows") as promised:
        await through(Counting(wrong=("1000",)))
    assert [end.value.check for end in (shape, promised)] == ["evaluation.held_out", "evaluation.value_families"]
    assert {end.value.correctness for end in (shape, promised)} == {Correctness.WRONG}
    _, (baseline, rung) = await through(Counting(wrong=("1001",), off={"baseline": 0.0}))
    assert baseline.doubt is None
    assert rung.doubt and rung.doubt.check == "evaluation.value_families"


@pytest.mark.parametrize(
    ("baseline_off", "off", "doubted"),
    [
        (1.07, 1.07, False),
        (1.07, 2.1, False),
        (1.07, 2.2, True),
        (7.0, 13.0, False),
        (7.0, None, True),
        (0.0, 1.07, True),
    ],
)
async def test_on_values_that_nobody_promised_a_rung_may_be_off_as_the_baseline_is(
    baseline_off: float, off: float | None, doubted: bool
) -> None:
    told = {"baseline": baseline_off} | ({} if off is None else {"optimized": off})
    made, (baseline, rung) = await through(Counting(wrong=("1001",), off=told))
    assert (baseline.doubt, rung.doubt is not None) == (None, doubted)
    assert made.facts().why == ()


async def test_values_on_which_the_baseline_is_wrong_say_nothing_of_anybody() -> None:
    for off in ({}, {"baseline": 8.1}):
        known = Counting(wrong=("1001",), off=off)
        made, arms = await through(known)
        assert [arm.doubt for arm in arms] == [None, None]
        assert known.count(jobs.Judge, VALUES) == 2 + 1, "the second arm is asked for the other set alone"
        (why,) = made.facts().why
        assert "left out, the baseline itself is wrong there" in why


async def test_nobody_is_wrong_on_inputs_that_another_could_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    file = os.memfd_create("open", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    monkeypatch.setitem(arena._descriptors, BLOB.name, file)
    for answers in (("boundary",), ("1000",)):
        with pytest.raises(ArmEnd) as end:
            await through(Counting(wrong=answers))
        assert (end.value.state, end.value.correctness, end.value.check) == (State.INFRA_ERROR, None, "")
        assert "nobody is called wrong" in end.value.reason
    os.close(file)


async def test_a_case_of_the_timed_shape_is_left_out_where_its_truth_would_take_too_much() -> None:
    for axes, posed in (("{ N = 1024 }", 1), ("{ N = 33554432 }", 0)):
        fixed = target('x = "float32 [N] normal"', 'y = "float32 [N]"', axes=axes,
                       tables=f"[fuzz]\naxes = {{ N = [{axes.split()[3]}] }}")  # fmt: skip
        known = Counting()
        made = Gate(
            target=fixed, case=fixed.cases[0], device="cpu", seed=9, without=frozenset(), first_set=1000,
            ask_judge=known.judge, blob=lambda: BLOB,
        )  # fmt: skip
        await made.pose(fixed.rungs)
        assert known.count(jobs.Pose) == len(made.facts().posed) == posed
        assert ("its axes leave no shape but the timed one" in made.facts().fixed) is (posed == 0)
        assert made.facts().why == ()


async def test_a_reference_that_fails_on_the_drawn_cases_is_told_and_does_not_end_the_run() -> None:
    made, _ = await through(Counting(failing=SHAPE))
    assert made.facts().posed == ()
    assert any("no such size" in why for why in made.facts().why)


async def test_what_cannot_be_judged_is_dropped_for_all_and_blames_no_rung() -> None:
    for what in (SHAPE, VALUES):
        known = Counting(judging=what)
        made, arms = await through(known)
        assert known.count(jobs.Judge, what) == 2, "no rung after the first is asked for it"
        assert [arm.running and arm.doubt is None for arm in arms] == [True, True]
        assert (made.drawn == []) is (what == SHAPE)
        assert len(made.facts().why) == 2
        assert all("device assert" in why for why in made.facts().why)


async def test_a_fresh_verifier_is_taught_all_that_was_posed_but_what_the_last_one_was_lost_to() -> None:
    made, arms = gate(Counting())
    await made.pose([arm.rung for arm in arms])
    (lost, seed, _), *kept = made.drawn
    fresh = Counting()
    await made.teach(fresh.judge, jobs.Judge(case=lost.plain(), seed=seed, rung="baseline", outputs=BLOB))
    assert [job.case for job in fresh.asked if isinstance(job, jobs.Pose)] == [case.plain() for case, _, _ in kept]


async def test_no_further_case_is_posed_behind_two_lost_verifiers() -> None:
    class Losing(Counting):
        async def judge(self, job: jobs.AnyJob, want: type[Any], whose: str) -> Any:
            if isinstance(job, jobs.Pose):
                await made.teach(self.judge, job)
            return await super().judge(job, want, whose)

    known = Losing(failing=SHAPE)
    made, arms = gate(known)
    await made.pose([arm.rung for arm in arms], again=[1, 2, 3])
    assert known.count(jobs.Pose) == 2
    assert "2 verifiers were lost" in made.facts().why[-1]


@pytest.mark.slow
async def test_a_reference_that_takes_the_verifier_with_it_on_a_drawn_shape_costs_that_shape_alone(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    deadly = (
        "import os\n\ndef run(x):\n    if x.shape[0] not in (16, 64):\n        os.kill(os.getpid(), 9)\n"
        "    return x * 2\n"
    )
    one = write_target(
        tmp_path / "mine",
        {"reference.py": deadly, "optimized.py": "def run(x):\n    return x + x\n"},
        cases='[[cases]]\nname = "cpu"\naxes = { N = 64 }',
    )
    found = await shared.run(tmp_path / "mine", one.id)
    assert {arm.rung: arm.state for arm in found.record.arms if arm.rung in ("baseline", "optimized")} == {
        "baseline": State.OK,
        "optimized": State.OK,
    }, found.record.reason
    assert any(flag.startswith("left out: drawn case N=") for flag in found.record.flags)


async def test_axes_that_the_task_holds_keep_their_values_in_all_drawn_cases_and_are_said_once() -> None:
    known = Counting(held=(Held("N", (64,), "the reference refuses N=3: no"),))
    notes: list[str] = []
    made, arms = gate(known)
    made.note = notes.append
    await made.pose([arm.rung for arm in arms], again=[1])
    assert {case.axes["N"] for case, _, _ in made.drawn} == {64}
    assert len({case.axes["M"] for case, _, _ in made.drawn}) > 1
    assert made.facts().held == ("N is fixed (the reference refuses N=3: no)",)
    assert not made.facts().only_values
    assert notes == ["drawn shapes: N is fixed (the reference refuses N=3: no)"]


@pytest.mark.slow
async def test_a_rung_that_is_wrong_on_outliers_alone_is_suspect_and_has_no_verdict(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    clipped = "def run(x):\n    return x.clamp(-5.5, 5.5) * 2\n"
    root = tmp_path / "mine"
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }'
    one = write_target(root, {"optimized.py": clipped}, cases=cases)
    found = await shared.run(root, one.id)
    assert found.arm("optimized").state is State.OK, found.record.reason
    doubts = [f for f in found.record.findings if f.check == "evaluation.value_families"]
    assert {(f.arm, f.status) for f in doubts} >= {("optimized", FindingStatus.SUSPECT)}
    assert found.record.validity is Validity.SUSPECT
    assert found.record.verdict is Verdict.NONE


@pytest.mark.slow
async def test_the_record_says_which_policy_accepted_how_many_outputs(shared: EngineUnderTest, tmp_path: Path) -> None:
    """Of a run of one replica: two sets, one in other buffers and the last timed call by the stated tolerance;
    two drawn shapes and two sets of other values by the derived bound."""
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }'
    one = write_target(tmp_path / "mine", {"optimized.py": "def run(x):\n    return x + x\n"}, cases=cases)
    found = await shared.run(tmp_path / "mine", one.id)
    quality = found.arm("optimized").quality
    assert quality is not None
    sets = found.record.manifest["stop_rule"]["input_sets"]
    assert quality.right_by_stated == sets + 2
    assert quality.right_by_derived == 4


@pytest.mark.slow
async def test_a_rung_that_was_caught_for_a_drawn_shape_is_not_let_go_for_a_lucky_draw(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root, at = tmp_path / "mine", re.compile(r"\(drawn case N=(\d+)(, as when a rung was caught)?\)")
    odd = "def run(x):\n    return x * (2 if x.numel() % 2 == 0 else 3)\n"
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }'
    one = write_target(root, {"optimized.py": odd}, cases=cases)
    first = at.search((await shared.run(root, one.id)).arm("optimized").reason)
    assert first is not None and first[2] is None
    for edit in range(2):  # wrong at that very size alone, which is hardly ever drawn twice
        rung = f"# {edit}\ndef run(x):\n    return x * (2 if x.numel() != {first[1]} else 3)\n"
        (root / one.name / "optimized.py").write_text(rung)
        again = await shared.run(root, one.id)
        found = at.search(again.arm("optimized").reason)
        assert found is not None and found[1] == first[1] and found[2], again.record.reason
        assert again.arm("optimized").state is State.INCORRECT
        assert again.arm("baseline").state is State.OK
    (root / one.name / "optimized.py").write_text("def run(x):\n    return x + x\n")
    told = []
    for _ in range(2):
        right = await shared.run(root, one.id)
        assert right.arm("optimized").state is State.OK, right.record.reason
        told += [f.evidence for f in right.record.findings if f.check == "evaluation.drawn_cases"]
    assert f"N={first[1]}, as when a rung was caught" in told[0]
    assert f"N={first[1]}, as when" not in told[1], "it was right, and is in quarantine no more"


@pytest.mark.slow
async def test_words_that_spare_a_slow_compiler_do_not_spare_the_drawn_shapes(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    whole = (
        "def run(x):  # torch.compile was no faster\n    y = x * 2\n    y[y.numel() // 64 * 64 :] = 0\n    return y\n"
    )
    root = tmp_path / "mine"
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }'
    one = write_target(root, {"optimized.py": whole}, cases=cases)
    found = await shared.run(root, one.id)
    assert found.arm("optimized").state is State.INCORRECT, found.record.reason
    steps = [step.name for step in found.record.steps if step.arm == "optimized"]
    assert steps.index("warm-up") < steps.index("gate"), "nobody waits for its compiler before the first sample"
    ended = [f for f in found.record.findings if f.arm == "optimized" and f.status is FindingStatus.CAUGHT]
    assert [f.check for f in ended] == ["evaluation.held_out"]


@pytest.mark.slow
async def test_a_rung_that_supports_no_shape_that_was_posed_is_suspect(shared: EngineUnderTest, tmp_path: Path) -> None:
    small = "def run(x):\n    assert x.shape[0] < 4096 or x.shape[0] == 8192, 'no such size'\n    return x * 2\n"
    root = tmp_path / "mine"
    lines = '[[cases]]\nname = "cpu"\naxes = { N = 8192 }\n[rungs.optimized]\nsupports = { N = { multiple = 4096 } }'
    one = write_target(root, {"reference.py": small, "optimized.py": "def run(x):\n    return x + x\n"}, cases=lines)
    found = await shared.run(root, one.id)
    told = {f.arm: f for f in found.record.findings if f.check == "evaluation.held_out"}
    assert told["baseline"].status is FindingStatus.PASSED
    assert told["optimized"].status is FindingStatus.SUSPECT
    assert "`supports` admits none" in told["optimized"].evidence


@pytest.mark.slow
async def test_an_axis_that_the_reference_holds_fixed_is_noted_and_leaves_the_run_valid(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    top = "import torch\n\ndef run(x):\n    return torch.topk(x, 8).values\n"
    one = write_target(
        tmp_path / "mine",
        {"reference.py": top, "baseline.py": top, "optimized.py": top + "# once more\n"},
        axes="{ M = 64, N = 256, K = 8 }",
        inputs='x = "float32 [M, N] normal"',
        outputs='y = "float32 [M, K]"',
        cases='[[cases]]\nname = "cpu"\naxes = { M = 32 }',
    )
    found = await shared.run(tmp_path / "mine", one.id)
    assert found.arm("optimized").state is State.OK, found.record.reason
    (told,) = [f for f in found.record.findings if f.check == "evaluation.drawn_cases"]
    assert told.status is FindingStatus.PASSED
    drawn, _, held = told.evidence.partition("K is fixed (the reference refuses K=")
    assert held
    assert set(re.findall(r"K=(\d+)", drawn)) == {"8"}
    assert any(flag.startswith("drawn shapes: K is fixed") for flag in found.record.flags)
    assert found.record.validity is not Validity.SUSPECT


@pytest.mark.slow
async def test_a_task_that_takes_no_other_shape_gets_other_values(shared: EngineUnderTest, tmp_path: Path) -> None:
    picky = "def run(x):\n    assert x.shape[0] == 64, 'no such size'\n    return x * 2\n"
    root = tmp_path / "mine"
    one = write_target(
        root,
        {"reference.py": picky, "optimized.py": "def run(x):\n    return x + x\n"},
        axes="{ N = 64 }",
        cases='[[cases]]\nname = "cpu"\naxes = { N = 64 }',
    )
    found = await shared.run(root, one.id)
    assert found.arm("optimized").state is State.OK, found.record.reason
    (told,) = [f for f in found.record.findings if f.check == "evaluation.drawn_cases"]
    assert told.status is FindingStatus.PASSED
    assert told.evidence.startswith("1 drawn: N=64; N is fixed (the reference refuses N=")
    assert "no such size" in told.evidence
    assert told.evidence.endswith("no axis is left to draw, so only the values vary")


async def test_what_is_prepared_for_its_buffers_is_asked_for_no_others_wherever_prepare_is_written(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    captures = "def prepare(x):\n    return lambda _: x * 2\n"  # as a captured graph reads the buffers of its capture
    one = write_target(
        tmp_path / "mine",
        {"baseline.py": captures, "optimized.py": "from baseline import prepare\n__all__ = ['prepare']\n"},
        cases='[[cases]]\nname = "cpu"\naxes = { N = 16 }\n',
    )
    found = await shared.run(tmp_path / "mine", one.id, device="cpu")
    assert {arm.rung: (arm.state, arm.reason) for arm in found.record.arms} == {
        "baseline": (State.OK, ""),
        "optimized": (State.OK, ""),
    }


@pytest.mark.parametrize("wrong", [".to(torch.int16).long()", ".clamp(max=32767)"], ids=["wraps", "clamped"])
@pytest.mark.slow
async def test_a_histogram_whose_counts_wrap_or_are_clamped_is_refused_in_a_run(
    shared: EngineUnderTest, tmp_path: Path, wrong: str
) -> None:
    right = "import torch\n\ndef run(x):\n    return torch.bincount(x, minlength=256)\n"
    one = write_target(
        tmp_path / "mine",
        {"reference.py": right, "baseline.py": right, "optimized.py": f"{right.rstrip()}{wrong}\n"},
        axes="{ N = 262144 }",
        inputs='x = "uint8 [N] integers(0, 256)"',
        outputs='y = "int64 [256]"',
        cases='[[cases]]\nname = "cpu"\naxes = { N = 262144 }',
    )
    found = await shared.run(tmp_path / "mine", one.id)
    assert found.arm("baseline").state is State.OK, found.record.reason
    assert found.arm("optimized").state is State.INCORRECT
    ended = [f for f in found.record.findings if f.arm == "optimized" and f.status is FindingStatus.CAUGHT]
    assert [f.check for f in ended] == ["evaluation.value_families"]
