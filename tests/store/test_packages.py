"""A run as a package, and what becomes of it on another machine."""

from __future__ import annotations

import base64
import json
import math
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aisp.store import ContradictionError, History, Store, migrations, packages, snapshot_hash, upkeep
from aisp.store.outcomes import Correctness, State, Validity, Verdict
from aisp.store.packages import PackageError
from aisp.store.record import Arm, Run
from aisp.store.rows import RunRows
from aisp.store.upkeep import verify
from tests.replacing import replace
from tests.store.examples import finding, finished, measured, planned, samples_of, telemetry_of

BOX: dict[str, object] = {"host": "gpu-box", "gpu": "NVIDIA H100 80GB HBM3", "driver": "580.1"}
SOURCES = {"baseline.py": b"def run(x):\n    return x\n", "sub/table.bin": b"\xff\x00\xfe"}


def put(path: Path, run: Run | None = None, **changes: Any) -> Run:
    """Put a run with samples, telemetry, sources and environment into a store."""
    with Store.open(path) as store:
        environment, snapshot = store.put_environment(BOX), store.put_snapshot(SOURCES)
        plan = planned("ch07:transpose", environment=environment, snapshot=snapshot, device="cuda")
        end = replace(run or measured(plan, flags=()), environment=environment, snapshot=snapshot, **changes)
        store.finish(end, {arm.rung: samples_of(50) for arm in end.arms if arm.median_ms}, telemetry_of(20))
    return end


@pytest.fixture
def made(tmp_path: Path) -> tuple[Run, bytes]:
    """A run, and its package as its machine wrote it."""
    path = tmp_path / "there" / "aisp.db"
    path.parent.mkdir()
    run = put(path)
    with History(path) as history:
        return run, packages.write(history, run.id, "0.1.0").encode()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The path of another machine's store, with a run of its own of the same target."""
    path = tmp_path / "here" / "aisp.db"
    path.parent.mkdir()
    put(path, finished(planned("ch07:transpose", id="01HERE"), speedup=1.5, flags=()))
    return path


def resealed(document: dict[str, Any]) -> bytes:
    """What somebody writes who changes a package and computes the outer hash anew."""
    document["hashes"]["package"] = packages._whole_hash(document)
    return json.dumps(document).encode()


def test_a_package_comes_back_whole(made: tuple[Run, bytes]) -> None:
    run, data = made
    found = packages.read(data)
    assert found.run == run
    assert (found.environment, found.sources, found.made_by) == (BOX, SOURCES, "0.1.0")
    assert {rung: len(samples) for rung, samples in found.samples.items()} == {"baseline": 50, "optimized": 50}
    assert list(found.samples["optimized"].device_ms) == list(samples_of(50).device_ms)
    assert found.telemetry is not None
    assert len(found.telemetry.at_ns) == 20
    document = json.loads(data)
    assert (document["kind"], document["schema"]) == ("aisp run", 1)
    assert document["sources"]["baseline.py"] == {"text": "def run(x):\n    return x\n"}


def test_what_json_has_no_number_for_survives(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    arms = (Arm("baseline", State.OK, Correctness.CORRECT), Arm("optimized", State.INCORRECT, Correctness.WRONG,
            max_error=math.inf, reason="infinitely wrong"))  # fmt: skip
    end = finished(planned("t:t"), arms=arms, comparisons=(), state=State.INCORRECT, correctness=Correctness.WRONG,
                   verdict=Verdict.NONE, reason="wrong")  # fmt: skip
    run = put(path, end)
    with History(path) as history:
        assert packages.read(packages.write(history, run.id, "").encode()).run.arms[1].max_error == math.inf


def test_a_foreign_run_is_found_by_its_id_and_listed_as_foreign_alone(made: tuple[Run, bytes], here: Path) -> None:
    run, data = made
    with History(here) as history:
        before = (history.count(), history.board(), history.history("ch07:transpose"), history.head())
        assert packages.take_in(here, packages.read(data))
        assert [one.id for one in history.foreign("ch07:transpose")] == [run.id]
        assert history.foreign("ch05:collate") == []
        assert history.run(run.id[:12]) == run
        assert history.environment(run.environment) == BOX
        assert history.snapshot(run.snapshot) == SOURCES
        assert len(history.samples(run.id)["optimized"]) == 50
        assert history.telemetry(run.id) is not None
        assert (history.count(), history.board(), history.history("ch07:transpose"), history.head()) == before
        assert run.id not in [one.id for one in history.newest()]
    for path in (here, upkeep.foreign_file(here)):
        assert verify(path).whole


def test_a_foreign_run_that_was_caught_puts_nothing_here_into_quarantine(tmp_path: Path, here: Path) -> None:
    there = tmp_path / "there.db"
    caught = finding("timing.wall_clock", "optimized", "caught", "9 ms by the clock")
    end = finished(planned("ch07:transpose", manifest={"code": "c0de"}), findings=(caught,), comparisons=(),
                   validity=Validity.CAUGHT, verdict=Verdict.NONE)  # fmt: skip
    run = put(there, end)
    with History(there) as history:
        data = packages.write(history, run.id, "").encode()
    packages.take_in(here, packages.read(data))
    with History(here) as history, Store.open(here) as store:
        assert history.quarantines() == []
        assert store.quarantines(run.folder, "c0de") == {}
        assert history.run(run.id).validity is Validity.CAUGHT


def test_importing_twice_changes_nothing(made: tuple[Run, bytes], here: Path) -> None:
    package = packages.read(made[1])
    assert packages.take_in(here, package)
    with History(upkeep.foreign_file(here)) as foreign:
        head = foreign.head()
        assert not packages.take_in(here, package)
        assert foreign.head() == head
        assert foreign.count() == 1


@pytest.mark.parametrize("version", range(1, migrations.LATEST))
def test_runs_of_older_stores_are_packed_with_the_seal_that_they_have(tmp_path: Path, version: int) -> None:
    old, here = tmp_path / "old.db", tmp_path / "aisp.db"
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript((Path(__file__).parent / f"schema_v{version}.sql").read_text("utf-8"))
    with History(old) as history:
        ended = [run for run in history.newest() if run.state.final]
        assert ended
        for run in ended:
            assert packages.take_in(here, packages.read(packages.write(history, run.id, "").encode()))
            assert not packages.take_in(here, packages.read(packages.write(history, run.id, "").encode()))
    assert verify(upkeep.foreign_file(here)).whole


def test_one_s_own_run_is_not_foreign(made: tuple[Run, bytes], tmp_path: Path) -> None:
    run, data = made
    with pytest.raises(PackageError, match=f"run {run.id} was made by this store"):
        packages.take_in(tmp_path / "there" / "aisp.db", packages.read(data))


def test_another_run_of_the_same_id_is_refused(made: tuple[Run, bytes], here: Path) -> None:
    run, data = made
    packages.take_in(here, packages.read(data))
    other = here.with_name("other.db")
    put(other, replace(run, title="Another"))
    with History(other) as history:
        package = packages.read(packages.write(history, run.id, "").encode())
    with pytest.raises(PackageError, match=f"another run {run.id} was imported before"):
        packages.take_in(here, package)


def test_a_machine_that_has_no_store_yet_takes_one_in(made: tuple[Run, bytes], tmp_path: Path) -> None:
    empty = tmp_path / "fresh" / "aisp.db"
    empty.parent.mkdir()
    assert packages.take_in(empty, packages.read(made[1]))
    with History(empty) as history:
        assert [run.id for run in history.foreign()] == [made[0].id]
        assert history.newest() == []
    assert not empty.exists()


def test_a_foreign_run_can_be_packed_again_to_the_same_package(made: tuple[Run, bytes], here: Path) -> None:
    run, data = made
    packages.take_in(here, packages.read(data))
    with History(here) as history:
        assert packages.write(history, run.id, "0.1.0").encode() == data


def change(document: dict[str, Any], *where: Any, to: Any) -> None:
    for step in where[:-1]:
        document = document[step]
    document[where[-1]] = to


@pytest.mark.parametrize(
    ("where", "to", "wrong"),
    [
        (("run", "comparisons", 0, "speedup"), 2.01, "its run is not the one that was sealed"),
        (("run", "title"), "Another title", "its run is not the one that was sealed"),
        (("run", "arms", 1, "median_ms"), 0.1, "its run is not the one that was sealed"),
        (("environment", "host"), "mine", "its environment is not the one that the run names"),
        (("sources", "baseline.py", "text"), "pass", "its sources are not those that the run names"),
        (("sources",), {"../x": {"text": "a"}}, "its sources have an impossible name"),
        (("samples", "optimized", "sha256"), "0" * 64, "it contradicts itself|was sealed"),
        (("samples", "peer_x"), {"count": 0, "sha256": "", "arrays": {}}, "which is none of the run's rungs"),
        (("samples", "optimized", "count"), 51, "it contradicts itself"),
        (("samples", "optimized", "count"), -1, "it has arrays that no run has"),
        (("samples", "optimized", "count"), 2**40, "its arrays would take"),
        (("samples", "optimized", "arrays", "device_ms"), "no base64!", "an array of it does not unpack"),
        (("samples", "optimized", "arrays"), {}, "it lacks the arrays"),
        (("run", "state"), "running", "results before its end"),
        (("run", "state"), "splendid", "it is no whole package"),
        (("run", "arms", 0, "sample_count"), "many", "it is no whole package"),
        (("run", "comparisons", 0, "verdict"), "slower", "slower, but the interval"),
        (("run",), None, "it is no whole package"),
        (("telemetry",), [], "it is no whole package"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_package_that_was_changed_is_refused_even_with_its_outer_hash_made_anew(
    made: tuple[Run, bytes], where: tuple[Any, ...], to: Any, wrong: str
) -> None:
    document = json.loads(made[1])
    change(document, *where, to=to)
    with pytest.raises(PackageError, match="its hash does not fit"):
        packages.read(json.dumps(document).encode())
    with pytest.raises(PackageError, match=wrong):
        packages.read(resealed(document))


@pytest.mark.parametrize(
    ("made_of", "wrong"),
    [
        (lambda data: b"", "it is empty"),
        (lambda data: data[: len(data) // 2], "it ends too early, as half a file does"),
        (lambda data: b"\xff\xfe" + data, "no text in UTF-8"),
        (lambda data: b"[1, 2]", "no package of a run"),
        (lambda data: b'{"kind": "aisp run", "schema": 2}', "its schema is 2, and this aisp knows 1: update aisp"),
        (lambda data: b'{"kind": "aisp run", "schema": "one"}', "its schema is one, where a whole number"),
        (lambda data: b'{"kind": "aisp run", "schema": true}', "its schema is True"),
        (lambda data: b'{"kind": "aisp run", "schema": 1}', "it has no hash over the whole of it"),
        (lambda data: b'{"kind": NaN}', "NaN is no number in JSON"),
        (lambda data: b"[" * 200_000, "nested too deeply|no JSON"),
        (lambda data: b" " * (packages.PACKAGE_BYTES + 1), "larger than 64 MiB"),
    ],
    ids=["empty", "half", "binary", "list", "newer", "text", "true", "no hash", "nan", "deep", "large"],
)
def test_what_is_no_package_is_refused_in_a_sentence(
    made: tuple[Run, bytes], made_of: Callable[[bytes], bytes], wrong: str
) -> None:
    with pytest.raises(PackageError, match=wrong):
        packages.read(made_of(made[1]))


def sealed_anew(document: dict[str, Any], **changes: Any) -> bytes:
    """What somebody writes who changes a run and computes every seal anew."""
    document["run"] |= changes
    run = RunRows.of(msgspec.convert(document["run"], Run, strict=False))
    samples = {rung: some["sha256"] for rung, some in document["samples"].items()}
    document["hashes"]["run"] = run.digest(samples, document["telemetry"]["sha256"])
    return resealed(document)


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"id": "../../../x"}, "two ULIDs"),
        ({"id": "\x1b[31m"}, "a text that no record has"),
        ({"id": "01J0000000ENG1NE000000000"}, "two ULIDs"),
        ({"epoch": "x"}, "two ULIDs"),
        ({"wall": "9999-99-99"}, "its time is '9999-99-99'"),
        ({"wall": "9999-12-31T00:00:00+00:00"}, "its time is"),
        ({"wall": "yesterday"}, "its time is 'yesterday'"),
        ({"duration_ms": -1}, "its run took -1.0 ms"),
        ({"duration_ms": 1e30}, "its run took"),
        ({"seed": 10**30}, "its seed is"),
        ({"seed": -1}, "its seed is -1"),
        ({"seq": -1}, "below zero"),
        ({"seq": 10**30}, "it contradicts itself"),
        ({"start_ns": -5}, "below zero"),
        ({"title": "\x1b]0;mine\x07"}, "a text that no record has"),
        ({"target": "ch07:\u202eesopsnart"}, "a text that no record has"),
        ({"reason": "\ud800"}, "half of a surrogate pair"),
        ({"flags": ["\x9b31m"]}, "a text that no record has"),
    ],
)
def test_a_run_that_no_engine_has_written_is_refused_with_every_seal_made_anew(
    made: tuple[Run, bytes], changes: dict[str, Any], wrong: str
) -> None:
    document = json.loads(made[1])
    try:
        data = sealed_anew(document, **changes)
    except (ContradictionError, UnicodeEncodeError):
        data = resealed(document)
    with pytest.raises(PackageError, match=wrong):
        packages.read(data)


@pytest.mark.parametrize("name", ["a\nb.py", "\x1b[31m.py", "a\tb.py", "\u200bbaseline.py"])
def test_a_source_whose_name_is_not_one_printable_line_is_refused(made: tuple[Run, bytes], name: str) -> None:
    document = json.loads(made[1])
    document["sources"] = {name: {"text": "pass"}}
    with pytest.raises(PackageError, match="not one line of plain signs"):
        packages.read(sealed_anew(document, snapshot=snapshot_hash({name: b"pass"})))


def test_a_package_of_a_run_of_this_store_with_other_content_is_told_apart(
    made: tuple[Run, bytes], tmp_path: Path
) -> None:
    run, data = made
    other = packages.read(sealed_anew(json.loads(data), title="Another"))
    with pytest.raises(PackageError, match=f"run {run.id} was made by this store, and is another there"):
        packages.take_in(tmp_path / "there" / "aisp.db", other)


def test_an_array_is_never_inflated_beyond_what_its_count_says(made: tuple[Run, bytes]) -> None:
    document = json.loads(made[1])
    bomb = base64.b64encode(zlib.compress(bytes(2**26), 9)).decode()
    document["samples"]["optimized"]["arrays"]["device_ms"] = bomb
    data = resealed(document)
    tracemalloc.start()
    with pytest.raises(PackageError):
        packages.read(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**25


def test_a_run_that_goes_on_or_is_hidden_or_was_changed_is_not_packed(tmp_path: Path) -> None:
    path = tmp_path / "aisp.db"
    caught = finding("timing.wall_clock", "optimized", "caught", "9 ms by the clock")
    code = {"manifest": {"code": "c0de"}}
    good = put(path, finished(planned("t:t", id="01A", **code)))
    put(path, finished(planned("t:t", id="01B", **code), findings=(caught,), comparisons=(),
                       validity=Validity.CAUGHT, verdict=Verdict.NONE))  # fmt: skip
    with Store.open(path) as store:
        store.plan([planned("t:t", id="01C")])
        changed = put_other(store)
    with History(path) as history:
        for run_id, wrong in ((good.id, "a rung in quarantine"), ("01C", "has not ended"), (changed, "store --verify")):
            with pytest.raises(PackageError, match=wrong):
                packages.write(history, run_id, "")
        with pytest.raises(LookupError):
            packages.write(history, "01NONE", "")


def put_other(store: Store) -> str:
    """A run whose title was changed behind the store's back."""
    store.finish(finished(planned("t:u", id="01D")), {})
    store._db.execute("UPDATE runs SET title = 'forged' WHERE id = '01D'")
    return "01D"
