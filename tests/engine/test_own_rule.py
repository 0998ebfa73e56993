"""A problem that brings its own inputs and its own rule: what the verifier makes of it, by the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine.protocol import events, requests
from aisp.store.outcomes import Correctness, State
from aisp.store.record import RuleSaid
from aisp.store.results.reading import Reading
from aisp.tui.cli.follow import rule_lines

from .harness import EngineUnderTest, Result
from .targets import write_target

POSE = """\
import torch


def pose(axes, device, generator):
    print("posed")
    n = axes["N"]
    return {"x": torch.randn(n, n, generator=generator), "i": torch.randint(n, (n,), generator=generator)}
"""
INPUTS = 'x = "any [...] posed"\ni = "int64 [N] posed"'
REFERENCE = "def run(x, i):\n    return x[i] * 2\n"
PICKS = {"reference.py": REFERENCE, "baseline.py": REFERENCE}
LOOSE = """\
def judge(inputs, outputs, expected):
    assert inputs["i"].dtype.is_floating_point is False and inputs["x"].shape == inputs["x"].T.shape
    far = (outputs[0] - expected[0]).abs().max().item()
    return None if far < 0.5 else f"as much as {far:.2f} apart"
"""


async def judged(
    engine: EngineUnderTest, folder: Path, files: dict[str, str], *, rule: str = "", **more: str
) -> Result:
    named = '[[cases]]\nname = "cpu"\n' + (f"[rule]\n{rule}" if rule else "")
    given = {"inputs": INPUTS, "outputs": 'y = "any [...]"', "cases": named} | more
    target = write_target(folder, files, **given)
    return await engine.run(folder, target.id, device="cpu", quick=True)


def said(result: Result) -> RuleSaid:
    rule = result.arm("optimized").rule
    assert rule is not None
    return rule


@pytest.mark.slow
async def test_posed_inputs_are_made_by_the_verifier_alone_and_anew_for_every_set(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    remembers = "seen = {}\n\n\ndef run(x, i):\n    seen.setdefault('y', x[i] * 2)\n    return seen['y'] + 0\n"
    files = PICKS | {"inputs.py": POSE, "optimized.py": REFERENCE}
    result = await judged(shared, tmp_path / "a", files)
    assert result.record.state is State.OK, [(arm.reason, arm.detail) for arm in result.record.arms]
    assert result.arm("optimized").correctness is Correctness.CORRECT
    posed = [event.arm for event in result.of(events.Output) for line in event.lines if line == "posed"]
    assert posed.count("verifier") == len(posed) >= 2  # several sets
    result = await judged(shared, tmp_path / "b", files | {"optimized.py": remembers})
    assert result.arm("optimized").correctness is Correctness.WRONG


@pytest.mark.parametrize(
    ("pose", "told"),
    [
        ('{"x": [1.0], "i": i}', "pose() made x a list; it must be a dense tensor"),
        ('{"x": torch.zeros(2)}', "pose() returned ['x']; it must return a dict of ['i', 'x']"),
        ('{"x": torch.zeros(2, 2), "i": i.int()}', "pose() made i int32 [16]; it is declared int64 [16]"),
        ('{"x": torch.zeros(next(n), 2), "i": i}', "pose() made x in two forms for one case"),
    ],
)
async def test_what_pose_makes_is_held_against_what_is_declared(
    shared: EngineUnderTest, tmp_path: Path, pose: str, told: str
) -> None:
    made = "import itertools\n\nimport torch\n\nn = itertools.count(16)\n\n\ndef pose(axes, device, generator):\n"
    made += f"    i = torch.zeros(16, dtype=torch.int64)\n    return {pose}\n"
    result = await judged(shared, tmp_path, PICKS | {"inputs.py": made, "optimized.py": REFERENCE})
    assert result.record.state is not State.OK
    assert told in result.record.reason + "".join(arm.reason + arm.detail for arm in result.record.arms)


@pytest.mark.parametrize(
    ("optimized", "ours", "theirs", "words"),
    [
        ("x[i] * 2", Correctness.CORRECT, True, "right by its own rule too (within a half)"),
        ("x[i] * 2 + 0.1", Correctness.WRONG, True, "right by its own rule (within a half), which we do not share"),
        ("x[i] * 2 + 1", Correctness.WRONG, False, "wrong by its own rule too (within a half)"),
    ],
)
@pytest.mark.slow
async def test_its_own_rule_is_told_beside_ours_and_decides_nothing(
    shared: EngineUnderTest, tmp_path: Path, optimized: str, ours: Correctness, theirs: bool, words: str
) -> None:
    files = {"inputs.py": POSE, "rule.py": LOOSE}
    files |= PICKS | {"optimized.py": f"def run(x, i):\n    return {optimized}\n"}
    result = await judged(shared, tmp_path, files, rule='name = "within a half"')
    assert result.arm("optimized").correctness is ours, [(a.reason, a.detail) for a in result.record.arms]
    assert (said(result).right, said(result).alone) == (theirs, False)
    assert said(result) == next(arm.rule for arm in result.finished.arms if arm.rung == "optimized")
    assert f"optimized: {words}" in rule_lines(Reading(result.record))


@pytest.mark.slow
async def test_an_element_may_be_as_far_off_as_the_problems_own_reference_is_in_its_own_dtype(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    """In bfloat16 most digits of this difference are gone. Whoever poses it means what it gives there."""
    ways = {
        "baseline": "(x * 1.01) - x",
        "optimized": "(x.float() * 1.01 - x.float()).bfloat16()",
        "optimized_zeros": "x * 0",
        "optimized_other": "(x * 1.02) - x",
    }
    files = {f"{name}.py": f"def run(x):\n    return {way}\n" for name, way in ways.items()}
    files["reference.py"] = files["baseline.py"]
    rule = "def judge(inputs, outputs, expected):\n    return None\n"
    declared = {"inputs": 'x = "bfloat16 [N, N] normal"', "outputs": 'y = "bfloat16 [N, N]"'}
    result = await judged(shared, tmp_path / "a", {**files, "rule.py": rule}, rule='name = "anything"', **declared)
    found = {name: result.arm(name).correctness for name in ways}
    assert found == dict(zip(ways, [Correctness.CORRECT] * 2 + [Correctness.WRONG] * 2, strict=True))
    mine = await judged(shared, tmp_path / "b", files, **declared)
    assert mine.arm("baseline").correctness is Correctness.WRONG, "a lesson of our own states what it allows"


@pytest.mark.slow
async def test_a_rule_that_breaks_down_is_told_and_ours_stands(shared: EngineUnderTest, tmp_path: Path) -> None:
    files = PICKS | {"inputs.py": POSE, "optimized.py": REFERENCE}
    for rule, told in (("raise ValueError('no')", "ValueError: no"), ("return 1", "judge() returned int")):
        broken = {"rule.py": f"def judge(inputs, outputs, expected):\n    {rule}\n"}
        result = await judged(shared, tmp_path / rule[:5], files | broken, rule='name = "broken"')
        assert result.arm("optimized").correctness is Correctness.CORRECT
        assert said(result).right is None
        assert told in said(result).detail
        alone = await judged(shared, tmp_path / f"{rule[:5]}1", files | broken, rule='name = "broken"\nalone = true')
        assert alone.arm("optimized").correctness is not Correctness.CORRECT
        assert told in alone.record.reason + "".join(arm.reason + arm.detail for arm in alone.record.arms)


FACTORS = """\
def judge(inputs, outputs, expected):
    q, r = outputs
    x = inputs["x"]
    if (q.T @ q - q.new_ones(q.shape[1]).diag()).abs().max() > 1e-4:
        return "q is not orthogonal"
    if r.tril(-1).abs().max() > 0:
        return "r is not upper triangular"
    return None if (q @ r - x).abs().max() < 1e-4 * x.abs().max() else "q r is not x"
"""


@pytest.mark.parametrize(
    ("optimized", "right", "words"),
    [
        ("q, r", True, "judged by its own rule alone (a factorization)"),
        ("-q, -r", True, "compared with the reference it would be wrong"),
        ("q, r * 1.01", False, "q r is not x (by a factorization)"),
        ("x, torch.eye(x.shape[1])", False, "q is not orthogonal"),
    ],
)
@pytest.mark.slow
async def test_a_rule_alone_judges_what_no_comparison_can(
    shared: EngineUnderTest, tmp_path: Path, optimized: str, right: bool, words: str
) -> None:
    code = "import torch\n\n\ndef run(x):\n    q, r = (part.contiguous() for part in torch.linalg.qr(x))\n    "
    files = dict.fromkeys(("reference.py", "baseline.py"), f"{code}return q, r\n")
    files |= {"optimized.py": f"{code}return {optimized}\n", "rule.py": FACTORS}
    result = await judged(
        shared,
        tmp_path,
        files,
        rule='name = "a factorization"\nalone = true',
        inputs='x = "float32 [N, N] normal"',
        outputs='q = "float32 [N, N]"\nr = "float32 [N, N]"',
    )
    assert result.arm("optimized").correctness is (Correctness.CORRECT if right else Correctness.WRONG)
    told = " ".join(
        [*rule_lines(Reading(result.record)), result.arm("optimized").reason, result.arm("optimized").detail]
    )
    assert words in told


@pytest.mark.slow
async def test_where_a_rule_alone_judges_outputs_have_the_dtype_that_the_reference_gives_them(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    """Not the one that it would give without its author's casts: nothing is held against who casts as it does."""
    code = "import torch\n\n\ndef run(x):\n    return x.cumsum(0, dtype=torch.float64).to(torch.float64)\n"
    files = dict.fromkeys(("reference.py", "baseline.py", "optimized.py"), code)
    files["rule.py"] = "def judge(inputs, outputs, expected):\n    return None\n"
    rule = 'name = "anything"\nalone = true'
    result = await judged(shared, tmp_path, files, rule=rule, inputs='x = "float32 [N] normal"')
    assert result.arm("optimized").correctness is Correctness.CORRECT
    told = " ".join(rule_lines(Reading(result.record)))
    assert "judged by its own rule alone" in told and "compared with" not in told


@pytest.mark.slow
async def test_a_rung_that_reads_the_rule_is_caught(shared: EngineUnderTest, tmp_path: Path) -> None:
    reads = "import pathlib\n\n\ndef run(x, i):\n    (pathlib.Path(__file__).parent / 'rule.py').read_text()\n"
    files = {"inputs.py": POSE, "rule.py": LOOSE}
    files |= PICKS | {"optimized.py": f"{reads}    return x[i] * 2\n"}
    result = await judged(shared, tmp_path, files, rule='name = "within a half"')
    assert not any(item.verdict.known for item in result.record.comparisons if item.rung == "optimized")


async def test_a_rule_alone_is_not_fuzzed_with_a_reason(shared: EngineUnderTest, tmp_path: Path) -> None:
    named = '[[cases]]\nname = "cpu"\n[rule]\nname = "a factorization"\nalone = true\n'
    target = write_target(tmp_path, {"rule.py": FACTORS}, cases=named)
    async with shared.stream() as stream:
        request = requests.FuzzTarget(
            seq=stream.connection.next_seq(), root=str(tmp_path), target=target.id, device="cpu", cases=4
        )
        (fuzz_id,) = (await stream.ask(request)).run_ids
        finished = await stream.until(events.FuzzFinished, lambda e: e.fuzz_id == fuzz_id)
    assert finished.fuzz.state == State.UNAVAILABLE
    assert "a factorization is its judge" in finished.fuzz.reason
