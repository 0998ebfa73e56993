"""What every check said of a run, and what a naive harness said of an arm: kept whole, small and sealed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.store import ContradictionError, History, Store, content, rows, seal
from aisp.store.outcomes import FindingStatus, State
from aisp.store.record import Finding, Naive, Run
from tests.replacing import replace
from tests.store.examples import caught, examined, finding, finished, planned


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "aisp.db") as opened:
        yield opened


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "aisp.db") as opened:
        yield opened


def judged(count: int = 400) -> Run:
    """A run of which `count` findings were made, some of them worth a look."""
    found = []
    for number in range(count):
        status = ("passed", "not_applicable", "unavailable", "suspect")[number % 4 if number % 40 == 3 else number % 3]
        arm = ("", "baseline", "baseline (A/A)", "optimized")[number % 4]
        found.append(finding(f"timing.check_{number // 4}", arm, status, f"{number / 7:.3f} ms – é"))
    return examined(planned(), findings=tuple(found))


def test_hundreds_of_findings_come_back_in_their_order(store: Store, history: History) -> None:
    run = judged()
    store.finish(run, {})
    assert history.run(run.id) == run
    assert len(history.run(run.id).findings) == 400
    assert history.newest() == history.history("ch07:transpose") == [run]
    assert history.board() == {"ch07:transpose": run}
    assert history.verify(run.id)


def test_a_list_that_asks_for_less_gets_what_is_worth_a_look(store: Store, history: History) -> None:
    run = judged()
    store.finish(run, {})
    notable = tuple(f for f in run.findings if f.status in (FindingStatus.CAUGHT, FindingStatus.SUSPECT))
    assert len(notable) == 10
    short = replace(run, findings=notable)
    assert history.newest(all_findings=False) == [short]
    assert history.history("ch07:transpose", all_findings=False) == [short]
    assert history.board(all_findings=False) == {"ch07:transpose": short}


def test_a_run_without_findings_leaves_no_row_and_the_hash_that_it_always_had(store: Store, history: History) -> None:
    run = finished(planned())
    store.finish(run, {})
    assert store._db.conn.execute("SELECT count(*) FROM findings").fetchone() == (0,)
    assert history.run(run.id).findings == ()
    plain, told = rows.RunRows.of(run), rows.RunRows.of(replace(run, findings=(finding("output.values"),)))
    assert plain.digest({}, "") != told.digest({}, "")
    told.findings = None
    assert plain.digest({}, "") == told.digest({}, "")


def test_findings_of_a_run_stand_in_one_small_row(store: Store) -> None:
    store.finish(judged(), {})
    count, notable, others = store._db.conn.execute("SELECT count, notable, others FROM findings").fetchone()
    assert count == 400
    assert notable.count("suspect") == 10
    assert len(others) < 8000


def test_the_hash_does_not_depend_on_the_compressor() -> None:
    run = rows.RunRows.of(judged(9))
    assert run.findings is not None
    digest = run.digest({}, "")
    plain = zlib.decompress(run.findings["others"])
    run.findings["others"] = zlib.compress(plain, 0)
    assert run.digest({}, "") == digest


def test_evidence_without_end_is_cut_and_findings_without_end_are_refused(
    store: Store, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = examined(planned(), findings=(finding("output.values", evidence="x" * 10_000), finding("output.form")))
    store.finish(long, {})
    first, second = history.run(long.id).findings
    assert first.evidence == "x" * (rows.EVIDENCE_CHARS - 1) + "…"
    assert second == finding("output.form")
    assert history.verify(long.id)
    store.finish(long, {})  # again with equal content: nothing happens

    monkeypatch.setattr(content, "FINDINGS_BYTES", 1000)
    with pytest.raises(ContradictionError, match="400 findings take more than 1000 bytes"):
        store.finish(judged(), {})


def test_evidence_that_is_no_text_for_sqlite_is_kept_readable(store: Store, history: History) -> None:
    run = examined(planned(), findings=(finding("output.values", "bad_\udcff", "suspect", "NUL \0 and \udcff"),))
    store.finish(run, {})
    assert history.run(run.id).findings == (finding("output.values", "bad_\\udcff", "suspect", "NUL \0 and \\udcff"),)
    assert history.verify(run.id)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE findings SET notable = '[]'",
        "UPDATE findings SET notable = replace(notable, 'suspect', 'passed')",
        "UPDATE findings SET count = 399",
        "UPDATE findings SET others = x'00'",
        "UPDATE findings SET others = substr(others, 1, length(others) - 6)",
        "UPDATE findings SET others = CAST(others || x'00' AS BLOB)",
        "DELETE FROM findings",
        "UPDATE arms SET naive = json_set(naive, '$.accepts', json('false'))",
        "UPDATE arms SET naive = NULL",
        "UPDATE arms SET naive = '{\"accepts\":1}'",
    ],
)
def test_any_change_of_what_was_found_is_found(store: Store, history: History, change: str) -> None:
    run = judged()
    baseline, optimized = run.arms
    run = replace(run, arms=(baseline, replace(optimized, naive=Naive(2.0, 0.5, True))))
    store.finish(run, {})
    assert history.verify(run.id)
    assert store._db.conn.execute(change).rowcount > 0
    assert not history.verify(run.id)


@pytest.mark.parametrize("others", [b"", b"x", zlib.compress(b"{"), zlib.compress(b"[[0]]"), zlib.compress(b"7")])
def test_damaged_findings_are_named_and_never_answered(store: Store, history: History, others: bytes) -> None:
    good, bad = judged(8), judged(8)
    for run in (good, bad):
        store.finish(run, {})
    number = store._db.conn.execute("SELECT number FROM runs WHERE id = ?", [bad.id]).fetchone()[0]
    store._db.conn.execute("UPDATE findings SET others = ? WHERE run = ?", [others, number])
    assert history.newest() == [good]
    assert "cannot all be true" in history.damaged[bad.id]
    with pytest.raises(ContradictionError, match="changed after they were written"):
        history.run(bad.id)
    assert not history.verify(bad.id)


def test_a_small_row_cannot_fill_the_memory(store: Store, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judged()
    store.finish(run, {})
    monkeypatch.setattr(seal, "FINDINGS_BYTES", 5000)
    with pytest.raises(ContradictionError, match="do not end where they should"):
        history.run(run.id)


def test_what_the_naive_harness_says_comes_back(store: Store, history: History) -> None:
    said = [
        Naive(base_ms=1.5, time_ms=0.1 + 0.2, accepts=True),
        Naive(base_ms=1.5, time_ms=None, accepts=False, note="the rung raised: é\udcff"),
        Naive(),
        None,
    ]
    for naive in said:
        run = examined(planned())
        run = replace(run, arms=(run.arms[0], replace(run.arms[1], naive=naive)))
        store.finish(run, {})
        read = history.run(run.id).arms[1].naive
        wanted = naive and replace(naive, note=naive.note.replace("\udcff", "\\udcff"))
        assert read == wanted
        assert history.verify(run.id)
    assert said[0] is not None
    assert said[0].speedup == pytest.approx(5.0)


def test_a_run_that_is_lost_or_replanned_keeps_no_findings_of_others(store: Store, history: History) -> None:
    run = planned()
    store.plan([run])
    assert store.mark_lost("a new engine") == [run.id]
    assert history.run(run.id).findings == ()
    assert history.run(run.id).state is State.ENGINE_LOST


def test_a_finding_without_evidence_must_have_passed() -> None:
    assert Finding("output.form", "", FindingStatus.PASSED, "").evidence == ""
    with pytest.raises(ContradictionError, match="suspect without a word of evidence"):
        Finding("output.form", "", FindingStatus.SUSPECT, "")


def test_no_record_gives_a_speedup_of_an_arm_that_was_caught() -> None:
    run = caught(planned())
    assert run.caught("optimized") == run.findings[-1]
    assert run.caught("baseline") is None
    ratio = examined(planned()).comparisons
    with pytest.raises(ContradictionError, match="a speed-up of optimized, which was caught"):
        replace(run, comparisons=ratio)
