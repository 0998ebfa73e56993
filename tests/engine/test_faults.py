"""Evil targets through the real engine: every fault ends in its own typed state and harms nobody else.

The rows of `tests.proofs.evil.corpus` run in batches, each row a rung of one target, next to an honest baseline and an
honest rung; every row is a test. What must hold after a batch is asserted by tests/proofs/evil/stage.py, around it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.engine.protocol import events
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Verdict
from aisp.store.text import clean, clean_line
from tests.engine.harness import OUTPUT_LIMIT_BYTES, EngineUnderTest
from tests.engine.targets import write_target
from tests.proofs.evil import corpus
from tests.proofs.evil.corpus import BATCHES, Row
from tests.proofs.evil.stage import BESIDE_OTHERS_S, Stage, assert_timed

pytestmark = [pytest.mark.xdist_group("engine"), pytest.mark.timeout(300)]

ROWS = [pytest.param(batch, row, id=row.name) for batch, rows in BATCHES.items() for row in rows]


@pytest.fixture
def stage(shared: EngineUnderTest, own: Callable[..., EngineUnderTest], tmp_path: Path) -> Stage:
    """What the fault matrix plays on: a batch that a scene has looked at is not run again."""
    return Stage(tmp_path, shared, own, patience_s=BESIDE_OTHERS_S)


@pytest.mark.evil
@pytest.mark.parametrize(("batch", "row"), ROWS)
async def test_an_evil_rung_ends_in_its_own_state_and_leaves_its_siblings_alone(
    stage: Stage,
    batch: str,
    row: Row,
) -> None:
    result = await stage.batch(batch)
    arm = result.arm(row.rung)
    assert arm.state is row.state, f"{arm.state}: {arm.reason}\n{arm.detail}"
    for words in row.says:
        assert words in arm.reason
    for words in row.detail:
        assert words in arm.detail
    assert arm.correctness is row.correctness
    assert arm.signal == row.last_signal
    assert arm.exit_code == row.exit_code
    assert arm.dirty_exit == row.dirty_exit
    assert arm.signal_sent_by_us == (row.last_signal is not None if row.sent_by_us is None else row.sent_by_us)
    if row.state is State.OK:
        assert_timed(result, row.rung)
    else:
        # Neither a time nor a comparison, however many samples it took before it failed.
        assert (arm.median_ms, arm.low_ms, arm.high_ms, arm.sol) == (None, None, None, None)
        assert arm.timing is Timing.NONE
        against = [c for c in result.record.comparisons if row.rung in (c.rung, c.baseline)]
        assert {c.verdict for c in against} == {Verdict.NONE}
        assert all(c.speedup is None for c in against)
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    caught = [f.check for f in result.record.findings if f.arm == row.rung and f.status is FindingStatus.CAUGHT]
    assert not row.caught or row.caught in caught
    suspected = [f.check for f in result.record.findings if f.arm == row.rung and f.status is FindingStatus.SUSPECT]
    assert not row.suspect or row.suspect in suspected
    if caught:
        assert all(c.speedup is None for c in result.record.comparisons if row.rung in (c.rung, c.baseline))
    assert result.finished.arm(row.rung) == arm, "clients are told what is stored"


@pytest.mark.evil
@pytest.mark.parametrize("batch", BATCHES)
async def test_a_run_takes_the_state_of_its_first_failed_arm(stage: Stage, batch: str) -> None:
    result = await stage.batch(batch)
    # Rungs run in the order of their names; the two honest ones come first.
    failed = [row for row in sorted(BATCHES[batch], key=lambda row: row.rung) if row.state is not State.OK]
    record = result.record
    assert record.state is (failed[0].state if failed else State.OK)
    if failed:
        assert record.reason.startswith(failed[0].rung)
        assert not record.reason.startswith(f"{failed[0].rung}: {failed[0].rung}")
        assert all(words in record.reason for words in failed[0].says)
    else:
        assert record.reason == ""
    assert (result.finished.state, result.finished.reason) == (record.state.value, record.reason)
    wrong = any(row.correctness is Correctness.WRONG for row in BATCHES[batch])
    unknown = any(row.correctness is Correctness.UNKNOWN for row in BATCHES[batch])
    expected = Correctness.WRONG if wrong else Correctness.UNKNOWN if unknown else Correctness.CORRECT
    assert record.correctness is expected
    assert ("dirty_exit" in record.flags) == any(row.dirty_exit for row in BATCHES[batch])


@pytest.mark.evil
@pytest.mark.parametrize("batch", BATCHES)
async def test_no_stored_sample_is_anything_but_a_positive_number(
    stage: Stage,
    batch: str,
) -> None:
    result = await stage.batch(batch)
    with stage.engine.history() as history:
        stored = history.samples(result.record.id)
    assert {"baseline", "optimized"} <= stored.keys()
    for samples in stored.values():
        assert all(math.isfinite(ms) and ms > 0 for ms in samples.device_ms)
    for event in result.of(events.SampleBatch):
        assert all(math.isfinite(ms) and ms > 0 for ms in event.device_ms)


@pytest.mark.evil
async def test_tracebacks_show_the_users_frames_with_relative_paths(stage: Stage) -> None:
    result = await stage.batch("errors")
    assert result.arm("optimized_exception").detail.splitlines()[:4] == [
        "  optimized_exception.py:6 in run",
        "      return helper(x)",
        "  optimized_exception.py:2 in helper",
        "      return x.reshape(3, 3)",
    ]
    for row in corpus.ERRORS:
        detail = result.arm(row.rung).detail
        assert str(stage.engine.home) not in detail
        assert "engine/worker" not in detail


@pytest.mark.evil
async def test_a_flood_of_output_is_thinned_and_says_by_how_much(stage: Stage) -> None:
    result = await stage.batch("floods")
    for arm in ("optimized_one_endless_line", "optimized_prints_without_end", "optimized_garbage"):
        told = [event for event in result.of(events.Output) if event.arm == arm]
        kept = sum(len(line) for event in told for line in event.lines)
        assert kept > 0
        assert all(len(line) <= 2000 for event in told for line in event.lines)
        assert all(len(event.lines) <= 200 for event in told)
    endless = [event for event in result.of(events.Output) if event.arm == "optimized_one_endless_line"]
    assert sum(event.dropped for event in endless) > 90_000_000
    assert f"printed over {OUTPUT_LIMIT_BYTES >> 20} MiB" in result.arm("optimized_prints_without_end").reason
    assert sum(len(e.lines) for e in result.of(events.Output)) < 100_000


@pytest.mark.evil
async def test_no_byte_that_a_terminal_would_act_upon_reaches_a_client(stage: Stage) -> None:
    result = await stage.batch("floods")
    printed = result.printed("optimized_garbage")
    assert len(printed) > 10
    assert all(line == clean(line) for line in printed)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(printed))


@pytest.mark.parametrize(
    ("reference", "state", "says", "signal"),
    [
        pytest.param(
            "def run(x):\n    raise ValueError('no truth today')\n",
            State.USER_ERROR,
            "reference.py: ValueError: no truth today; the trace below ends at the line to fix",
            15,
            id="raises",
        ),
        pytest.param(
            "def run(x):\n    return x[:3]\n",
            State.USER_ERROR,
            "reference.py: y is [3], lesson.md declares [256]",
            15,
            id="wrong shape",
        ),
        pytest.param(
            "import ctypes\n\n\ndef run(x):\n    ctypes.string_at(0)\n",
            State.CRASHED,
            "reference.py died of SIGSEGV",
            11,
            id="crashes",
        ),
    ],
)
async def test_a_reference_that_fails_ends_the_run_and_no_arm_has_a_number(
    shared: EngineUnderTest,
    tmp_path: Path,
    reference: str,
    state: State,
    says: str,
    signal: int | None,
) -> None:
    corpus.write(tmp_path / "mine" / "doubling", reference=reference)
    result = await shared.run(tmp_path / "mine", "mine:doubling", rungs=["baseline"])
    assert result.record.state is state
    assert says in result.record.reason
    (arm,) = result.record.arms
    assert (arm.state, arm.signal, arm.median_ms, arm.sample_count) == (state, signal, None, 0)
    assert result.record.verdict is Verdict.NONE


@pytest.mark.parametrize(
    ("name", "label"),
    [
        pytest.param(b"bad_\xff", "bad_\\xff", id="not UTF-8"),
        pytest.param("тест🚀".encode(), "тест🚀", id="emoji"),
        pytest.param("abc\u202edef".encode(), "abc\\u202edef", id="right-to-left override"),
        pytest.param(b"two\nlines", "two\\nlines", id="newline"),
    ],
)
async def test_any_name_that_a_folder_or_file_can_have_runs(
    shared: EngineUnderTest,
    tmp_path: Path,
    name: bytes,
    label: str,
) -> None:
    root = tmp_path / "mine"
    folder = corpus.write(root / os.fsdecode(name))
    rung = b"optimized_" + name
    (folder / os.fsdecode(rung + b".py")).write_text(corpus.OPTIMIZED)
    result = await shared.run(root, f"mine:{label}", rungs=["baseline"])
    assert result.record.state is State.OK, result.record.reason
    assert_timed(result, "baseline")
    assert result.record.folder == os.fsencode(folder)
    assert result.record.target == f"mine:{label}"
    with shared.history() as history:
        assert os.fsdecode(rung + b".py") in history.snapshot(result.record.snapshot)
    (planned,) = result.of(events.RunPlanned)
    assert planned.run.code == result.record.code != ""
    assert planned.run.folder == os.fsencode(folder)
    for told in (planned.run.target, planned.run.title):
        assert told == clean(told)
        assert "\n" not in told


@pytest.mark.slow
async def test_a_rung_whose_name_cannot_be_drawn_is_called_the_same_everywhere(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    folder = corpus.write(tmp_path / "mine" / "doubling")
    rung = "optimized_\u202e\x1b\n  e\u0301"
    (folder / f"{rung}.py").write_text(corpus.OPTIMIZED)
    result = await shared.run(tmp_path / "mine", "mine:doubling", rungs=["baseline", rung])
    assert result.record.state is State.OK, result.record.reason
    name = clean_line(rung)
    assert name != rung
    assert_timed(result, name)
    assert {event.arm for event in result.of(events.SampleBatch)} == {"baseline", name}
    assert name in {finding.arm for finding in result.record.findings}
    with shared.history() as history:
        assert len(history.samples(result.record.id)[name]) == result.arm(name).sample_count


@pytest.mark.slow
async def test_a_peer_whose_package_is_missing_is_no_failure_and_says_what_is_missing(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    folder = corpus.write(tmp_path / "mine" / "doubling")
    (folder / "peer_elsewhere.py").write_text("import nobody_has_this\n\n\ndef run(x):\n    return x * 2\n")
    result = await shared.run(tmp_path / "mine", "mine:doubling", rungs=["baseline", "peer_elsewhere"])
    assert result.record.state is State.OK, result.record.reason
    assert_timed(result, "baseline")
    arm = result.arm("peer_elsewhere")
    assert (arm.state, arm.median_ms) == (State.UNAVAILABLE, None)
    assert "nobody_has_this is not installed here; pip install 'aisp[peers]' may bring it" in arm.reason


@pytest.mark.slow
async def test_a_state_directory_whose_name_is_not_utf8_works(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    engine = own(AISP_STATE=os.fsdecode(os.fsencode(tmp_path) + b"/st\xffate"))
    await engine.start()
    corpus.write(tmp_path / "mine" / "doubling")
    result = await engine.run(tmp_path / "mine", "mine:doubling", rungs=["baseline"])
    assert result.record.state is State.OK, result.record.reason
    assert "dirty_exit" not in result.record.flags, "its workers are no forks, and take all modules down as they leave"


@pytest.mark.slow
async def test_a_rung_that_compiles_finds_the_compiler_imported_whichever_process_it_gets(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    """What it puts into the environment for the compiler's import comes too late in every replica, not in some."""
    asks = (
        "import sys\n\n"
        "if 'torch._inductor.compile_fx' not in sys.modules:  # as torch.compile imports it\n"
        "    raise KeyError('not yet')\n\n\n"
        "def run(x):\n    return x * 2\n"
    )
    on_cpu = '[[cases]]\nname = "cpu"\naxes = { N = 64 }'
    write_target(tmp_path / "mine", {"optimized.py": asks}, cases=on_cpu)
    result = await shared.run(tmp_path / "mine", "mine:one")
    assert result.arm("optimized").state is State.OK, result.arm("optimized").detail
