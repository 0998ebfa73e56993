"""What a person fuzzes, lints and replays through the engine: every way in which a case can end, and what is kept."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aisp.checks.oracle.schema import Case
from aisp.engine import corpus
from aisp.engine.protocol import events, requests
from aisp.store.outcomes import CaseVerdict, Correctness, FuzzVerdict, State
from aisp.store.record import Failure, Fuzz, RungFuzz
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target

pytestmark = pytest.mark.xdist_group("fuzzing")  # one engine of its own, beside that of the other tests

DOUBLED = "def run(x):\n    return x * 2\n"
LAST_LEFT_OUT = """
import torch

def run(x):
    y = torch.zeros_like(x)
    whole = x.numel() // 16 * 16
    y[:whole] = x[:whole] * 2
    return y
"""


@dataclass
class Fuzzed:
    """Everything that one fuzz left."""

    told: list[events.Event]
    record: Fuzz
    failures: list[Failure]

    @property
    def cases(self) -> list[events.FuzzCase]:
        return [event for event in self.told if isinstance(event, events.FuzzCase)]

    def rung(self, name: str) -> RungFuzz:
        return next(rung for rung in self.record.rungs if rung.rung == name)


async def fuzz(engine: EngineUnderTest, root: Path, target: str, **options: Any) -> Fuzzed:
    """One fuzz from its request to what the store holds of it."""
    async with engine.stream() as stream:
        options = {"cases": 20, "seed": 5} | options
        request = requests.FuzzTarget(seq=stream.connection.next_seq(), root=str(root), target=target, **options)
        (fuzz_id,) = (await stream.ask(request)).run_ids
        finished = await stream.until(events.FuzzFinished, lambda e: e.fuzz_id == fuzz_id)
        told = [event for event in stream.seen if getattr(event, "fuzz_id", "") == fuzz_id]
    with engine.history() as history:
        record, failures = history.fuzz(fuzz_id), history.failures(fuzz_id)
    assert finished.fuzz == record
    return Fuzzed(told, record, failures)


async def replay(engine: EngineUnderTest, failure: str) -> events.ReplayFinished:
    async with engine.stream() as stream:
        await stream.ask(requests.ReplayFailure(seq=stream.connection.next_seq(), failure=failure))
        return await stream.until(events.ReplayFinished)


async def lint(engine: EngineUnderTest, root: Path, target: str, **options: Any) -> dict[str, tuple[str, str]]:
    async with engine.stream() as stream:
        options = {"cases": 9, "seed": 3} | options
        request = requests.FuzzTarget(
            seq=stream.connection.next_seq(), root=str(root), target=target, lint=True, **options
        )
        await stream.ask(request)
        finished = await stream.until(events.LintFinished)
    assert finished.reason == ""
    return {item["name"]: (item["status"], item["detail"]) for item in finished.items}


@pytest.mark.slow
async def test_a_right_rung_stays_right_and_the_same_seed_gives_the_same_cases(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    target = write_target(tmp_path / "mine", {"optimized.py": DOUBLED})
    one = await fuzz(shared, tmp_path / "mine", target.id)
    two = await fuzz(shared, tmp_path / "mine", target.id)
    assert one.record.state == "done"
    assert one.rung("optimized").verdict is FuzzVerdict.RIGHT
    assert one.rung("optimized").cases == 20
    assert [(c.case, c.max_error) for c in one.cases] == [(c.case, c.max_error) for c in two.cases]
    assert {c.strategy for c in one.cases} == {"boundary", "regular", "mixed", "adversarial", "nonfinite"}


async def test_an_axis_that_the_code_holds_fixed_is_not_drawn_and_said_to_be_fixed(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    eight = "import torch\n\ndef run(x):\n    return torch.topk(x, 8).values\n"
    target = write_target(
        tmp_path / "mine",
        dict.fromkeys(("reference.py", "baseline.py", "optimized.py"), eight),
        axes="{ M = 16, N = 64, K = 8 }",
        inputs='x = "float32 [M, N] normal"',
        outputs='y = "float32 [M, K]"',
        more="[fuzz]\naxes = { N = { least = 8 } }\n",
    )
    found = await fuzz(shared, tmp_path / "mine", target.id, rungs=["optimized"])
    assert {case.verdict for case in found.cases} == {CaseVerdict.RIGHT}
    assert len({case.case for case in found.cases}) > 5
    assert all("K=8" in case.case for case in found.cases)
    assert any(note.startswith("K is fixed (the reference refuses K=") for note in found.record.notes)


@pytest.mark.slow
async def test_a_tail_left_undone_is_found_shrunk_replayed_and_shown_by_its_script(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = tmp_path / "mine"
    target = write_target(root, {"optimized.py": DOUBLED, "wrong_tail.py": LAST_LEFT_OUT})
    found = await fuzz(shared, root, target.id, rungs=["wrong_tail"])
    wrong = found.rung("wrong_tail")
    assert wrong.verdict is FuzzVerdict.WRONG
    smallest = next(f for f in found.failures if f.id == wrong.failures[0])
    assert smallest.case["axes"] == {"N": 1}, "one element is the least that has a tail"
    assert smallest.finding == "values"
    assert smallest.region == ("#",)
    assert smallest.statistics["wrong"] == 1
    told = [e for e in found.told if isinstance(e, events.FuzzFailure) and e.shrunk]
    assert told[-1].failure.id == smallest.id
    replayed = await replay(shared, smallest.id)
    assert (replayed.outcome, replayed.differs) == ("reproduced", [])
    script = tmp_path / "case.py"
    script.write_text(smallest.script)
    repository = str(Path(__file__).parents[2])
    shown = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": repository},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "y[0]: got 0" in shown.stdout


async def test_a_failure_that_was_mended_in_the_folder_is_replayed_from_the_sources_that_failed(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = tmp_path / "mine"
    target = write_target(root, {"optimized.py": LAST_LEFT_OUT})
    found = await fuzz(shared, root, target.id, cases=5, rungs=["optimized"])
    (root / "one" / "optimized.py").write_text(DOUBLED)
    assert (await replay(shared, found.rung("optimized").failures[0])).outcome == "reproduced"
    async with shared.stream() as stream:
        reply = await stream.connection.request(
            requests.ReplayFailure(seq=stream.connection.next_seq(), failure="01NOSUCHFAILURE")
        )
    assert "01NOSUCHFAILURE" in reply.error


@pytest.mark.slow
async def test_a_rung_that_dies_of_one_case_has_it_as_its_finding_and_goes_on(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    dies = "import os\n\ndef run(x):\n    if x.numel() == 3:\n        os.kill(os.getpid(), 11)\n    return x * 2\n"
    raises = "def run(x):\n    if x.numel() == 3:\n        raise ValueError('three is too many')\n    return x * 2\n"
    root = tmp_path / "mine"
    more = "[fuzz]\naxes = { N = [2, 3] }"
    target = write_target(
        root, {"optimized.py": DOUBLED, "optimized_dies.py": dies, "optimized_raises.py": raises}, more=more
    )
    found = await fuzz(shared, root, target.id, cases=8, strategies=["boundary"])
    by_rung = {
        name: {c.case: c.verdict for c in found.cases if c.rung == name}
        for name in ("optimized", "optimized_dies", "optimized_raises")
    }
    assert set(by_rung["optimized"].values()) == {CaseVerdict.RIGHT}
    for name, verdict in (("optimized_dies", CaseVerdict.CRASHED), ("optimized_raises", CaseVerdict.ERROR)):
        assert by_rung[name]["N=3"] == verdict
        assert by_rung[name]["N=2"] == CaseVerdict.RIGHT
        assert found.rung(name).verdict is FuzzVerdict.WRONG
    assert "SIGSEGV" in next(f for f in found.failures if f.rung == "optimized_dies").detail
    assert "three is too many" in next(f for f in found.failures if f.rung == "optimized_raises").detail


async def test_a_case_that_never_ends_is_cut_off(shared: EngineUnderTest, tmp_path: Path) -> None:
    hangs = "import time\n\ndef run(x):\n    if x.numel() == 3:\n        time.sleep(3600)\n    return x * 2\n"
    root = tmp_path / "mine"
    target = write_target(root, {"optimized.py": hangs}, more="[fuzz]\naxes = { N = [2, 3] }")
    found = await fuzz(
        shared, root, target.id, cases=2, strategies=["boundary"], rungs=["optimized"], case_s=0.5, seed=1
    )
    verdicts = {c.case: c.verdict for c in found.cases if c.rung == "optimized"}
    assert verdicts.get("N=3") == CaseVerdict.TIMEOUT
    assert found.rung("optimized").verdict is FuzzVerdict.WRONG


async def test_shapes_that_a_rung_does_not_take_are_unsupported_and_no_fault(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = tmp_path / "mine"
    picky = "def run(x):\n    assert x.numel() % 4 == 0\n    return x * 2\n"
    target = write_target(root, {"optimized.py": picky}, cases="[rungs.optimized]\nsupports = { N = { multiple = 4 } }")
    found = await fuzz(shared, root, target.id)
    assert found.rung("optimized").verdict is FuzzVerdict.RIGHT
    assert 0 < found.rung("optimized").unsupported < 20
    assert found.rung("baseline").unsupported == 0
    told = next(c for c in found.cases if c.verdict == CaseVerdict.UNSUPPORTED)
    assert "supports N multiples of 4" in told.detail


@pytest.mark.slow
async def test_a_run_spares_a_rung_the_untimed_cases_that_it_does_not_take_and_says_so(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = tmp_path / "mine"
    picky = "def run(x):\n    assert x.numel() % 4 == 0\n    return x * 2\n"
    cases = """
[[cases]]
name = "cpu"
axes = { N = 16 }
[[cases]]
name = "ragged"
axes = { N = 13 }
timed = false
[[cases]]
name = "odd"
axes = { N = 17 }
[rungs.optimized]
supports = { N = { multiple = 4 } }
"""
    target = write_target(root, {"optimized.py": picky}, cases=cases)
    spared = (await shared.run(root, target.id)).record
    assert spared.state is State.OK, spared.reason
    told = "optimized supports N multiples of 4, at least 1, not N = 13: not asked for case ragged"
    assert [flag for flag in spared.flags if "supports" in flag] == [told]
    beyond = (await shared.run(root, target.id, case="odd")).record
    states = {arm.rung: (arm.state, arm.reason) for arm in beyond.arms}
    assert states["baseline"][0] is State.OK
    assert states["optimized"] == (
        State.UNAVAILABLE, "optimized supports N multiples of 4, at least 1, not N = 17"
    )  # fmt: skip


async def test_memory_that_runs_out_says_nothing_of_a_rung(shared: EngineUnderTest, tmp_path: Path) -> None:
    root = tmp_path / "mine"
    greedy = "def run(x):\n    if x.numel() > 2:\n        raise MemoryError('no more')\n    return x * 2\n"
    target = write_target(root, {"optimized.py": greedy}, more="[fuzz]\naxes = { N = [2, 3] }")
    found = await fuzz(shared, root, target.id, cases=10, rungs=["optimized"])
    assert found.rung("optimized").verdict is FuzzVerdict.RIGHT
    assert CaseVerdict.MEMORY in {c.verdict for c in found.cases if c.rung == "optimized"}


async def test_a_reference_that_raises_or_throws_dice_ends_the_fuzz_with_the_reason(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    for reference, said in (
        ("def run(x):\n    raise RuntimeError('I do not know')\n", "I do not know"),
        ("import torch\n\ndef run(x):\n    return x + torch.rand_like(x)\n", "other values for the same inputs"),
    ):
        root = tmp_path / str(len(said)) / "mine"
        target = write_target(root, {"reference.py": reference})
        found = await fuzz(shared, root, target.id, cases=16)
        if said == "I do not know":
            assert found.record.state == "failed"
            assert said in found.record.reason
        skipped = [c for c in found.cases if c.verdict == CaseVerdict.SKIPPED]
        assert any(said in case.detail for case in skipped)
        assert not found.failures or said != "I do not know"


async def test_a_schema_with_an_unknown_axis_is_refused_with_the_names_there_are(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = tmp_path / "mine"
    target = write_target(root, {})
    lesson = root / "one" / "lesson.md"
    lesson.write_text(lesson.read_text().replace("[inputs]", "[fuzz]\naxes = { M = [1] }\n[inputs]"))
    async with shared.stream() as stream:
        reply = await stream.connection.request(
            requests.FuzzTarget(seq=stream.connection.next_seq(), root=str(root), target=target.id)
        )
        unknown = await stream.connection.request(
            requests.FuzzTarget(
                seq=stream.connection.next_seq(), root="corpus", target="rows:l2norm", strategies=["wild"]
            )
        )
    assert target.id in reply.error
    assert "there are boundary, regular" in unknown.error


async def test_a_fuzz_that_is_stopped_keeps_what_it_found(shared: EngineUnderTest, tmp_path: Path) -> None:
    root = tmp_path / "mine"
    target = write_target(root, {"optimized.py": LAST_LEFT_OUT})
    async with shared.stream() as stream:
        request = requests.FuzzTarget(
            seq=stream.connection.next_seq(), root=str(root), target=target.id, cases=100_000, seed=2
        )
        (fuzz_id,) = (await stream.ask(request)).run_ids
        await stream.until(events.FuzzFailure)
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=fuzz_id))
        await stream.until(events.FuzzFinished)
    with shared.history() as history:
        record, failures = history.fuzz(fuzz_id), history.failures(fuzz_id)
    assert record.state == "cancelled"
    assert failures
    assert Case.of(failures[0].case).axes["N"] > 0


async def test_a_fuzz_that_is_stopped_says_of_no_rung_that_it_is_right(shared: EngineUnderTest, tmp_path: Path) -> None:
    target = write_target(tmp_path, {"optimized.py": DOUBLED})
    async with shared.stream() as stream:
        request = requests.FuzzTarget(
            seq=stream.connection.next_seq(), root=str(tmp_path), target=target.id, cases=100_000
        )
        (fuzz_id,) = (await stream.ask(request)).run_ids
        await stream.until(events.FuzzCase)
        await stream.ask(requests.Cancel(seq=stream.connection.next_seq(), run_id=fuzz_id))
        await stream.until(events.FuzzFinished)
    with shared.history() as history:
        record = history.fuzz(fuzz_id)
    said = {rung.verdict for rung in record.rungs}
    assert FuzzVerdict.UNDECIDED in said and FuzzVerdict.RIGHT not in said
    assert any(rung.reason.startswith("right so far: the fuzz was stopped after ") for rung in record.rungs)


@pytest.mark.slow
async def test_the_linter_tells_a_weak_task_from_a_good_one(shared: EngineUnderTest, tmp_path: Path) -> None:
    good = write_target(tmp_path / "good", {"optimized.py": DOUBLED})
    found = await lint(shared, tmp_path / "good", good.id)
    assert {status for status, _ in found.values()} == {"ok"}, found
    assert found["axes"] == ("ok", "sizes that vary: N")
    weak = write_target(
        tmp_path / "weak",
        {
            "reference.py": "def run(x, z):\n    return x * 0 + 1e-9\n",
            "baseline.py": "def run(x, z):\n    return x * 0 + 1e-9\n",
        },
        inputs='x = "float32 [N] normal"\nz = "float32 [N] normal"',
        more="tolerance = { float32 = 0.5 }",
    )
    found = await lint(shared, tmp_path / "weak", weak.id)
    assert found["constant"][0] == "weak"
    assert found["inputs"][0] == "weak"
    assert "x, z" in found["inputs"][1]
    assert found["tolerance float32"][0] == "weak"


@pytest.mark.slow
async def test_gradients_that_forget_a_factor_are_found(shared: EngineUnderTest, tmp_path: Path) -> None:
    right = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return FACTOR * x * gradient

def run(x):
    return Square.apply(x)
"""
    root = tmp_path / "mine"
    target = write_target(
        root,
        {
            "reference.py": "def run(x):\n    return x * x\n",
            "baseline.py": "def run(x):\n    return x * x\n",
            "optimized.py": right.replace("FACTOR", "2"),
            "wrong_gradient.py": right.replace("FACTOR", "1"),
        },
        more="[fuzz]\nbackward = true",
    )
    found = await fuzz(shared, root, target.id, rungs=["optimized", "wrong_gradient"])
    assert found.rung("optimized").verdict is FuzzVerdict.RIGHT
    assert found.rung("wrong_gradient").verdict is FuzzVerdict.WRONG
    assert {f.output for f in found.failures} == {"d_x"}


async def test_a_preparation_that_remembers_its_inputs_is_wrong_on_the_first_case(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    remembers = "def prepare(x):\n    y = x * 2\n    return lambda x: y\n\ndef run(x):\n    return x * 2\n"
    root = tmp_path / "mine"
    target = write_target(root, {"optimized.py": remembers})
    found = await fuzz(shared, root, target.id, cases=1, rungs=["optimized"])
    assert found.rung("optimized").verdict is FuzzVerdict.WRONG


@pytest.mark.slow
async def test_a_rung_that_is_right_on_every_declared_case_only_is_refused_before_it_is_timed(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    fitted = "def run(x):\n    return x * 2 if x.shape[0] in (16, 64) else x * 3\n"
    root = tmp_path / "mine"
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 64 }'
    target = write_target(root, {"optimized.py": DOUBLED, "optimized_fitted.py": fitted}, cases=cases)
    found = await shared.run(root, target.id)
    assert found.arm("optimized").state is State.OK
    assert found.arm("optimized_fitted").state is State.INCORRECT
    assert "drawn case N=" in found.arm("optimized_fitted").reason
    assert [f.check for f in found.record.findings if f.arm == "optimized_fitted" and f.status == "caught"] == [
        "evaluation.held_out"
    ]


GAUSSIAN_TOP = """import torch

def run(x):
    if x.shape[1] < 64:
        return torch.topk(x, 4, dim=1).values
    above = x > x.mean(1, keepdim=True) + x.std(1, keepdim=True) / 2
    return torch.topk(torch.where(above, x, float("-inf")), 4, dim=1).values
"""


@pytest.mark.slow
async def test_a_selection_that_fits_one_distribution_alone_is_wrong_at_the_gate_of_a_fuzz(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = tmp_path / "mine"
    top = "import torch\n\ndef run(x):\n    return torch.topk(x, 4, dim=1).values\n"
    target = write_target(
        root,
        {"reference.py": top, "baseline.py": top, "optimized.py": top, "optimized_gaussian.py": GAUSSIAN_TOP},
        axes="{ B = 8, N = 256 }",
        inputs='x = "float32 [B, N] normal"',
        outputs='y = "float32 [B, 4]"',
        more="[fuzz]\naxes = { N = { least = 4 } }",
    )
    found = await fuzz(shared, root, target.id, cases=200, rungs=["optimized", "optimized_gaussian"])
    assert found.rung("optimized").verdict is FuzzVerdict.RIGHT
    assert found.rung("optimized_gaussian").verdict is FuzzVerdict.WRONG
    kinds = [set(failure.case["values"].values()) for failure in found.failures]
    assert {"rows"} in kinds
    assert all(kinds), "it is right on what is declared"


@pytest.mark.slow
async def test_positions_of_ties_and_random_choices_are_judged_in_runs_as_their_lessons_say(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    root = corpus.root()
    for target in ("rows:topk", "pointwise:dropout"):
        found = await shared.run(root, target, device="cpu")
        assert found.record.correctness is Correctness.CORRECT, found.record.reason
