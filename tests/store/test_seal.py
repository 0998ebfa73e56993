"""The quick way to a run's digest is the one that `json` makes: for any row, of any schema, and for its arrays."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.store import Store, content, seal, upkeep
from tests.store.examples import finished, planned, samples_of

SCHEMAS = Path(__file__).parent
TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        ["", "é", "…", "\u2028", "\x7f", "\x00\x1f\b\f\r\n\t", '\\"/</script>', "😀", "\ud800", "1", "null"]
    ),
)
WHOLE = st.integers(-(2**63), 2**63 - 1)
REAL = st.one_of(st.floats(allow_nan=False), st.sampled_from([-0.0, 1e16, 1e-5, 5e-324, 1e22, 0.1, 1.0]))
COLUMNS = [TEXTS, WHOLE, REAL, st.binary(), st.one_of(TEXTS, WHOLE, REAL, st.binary())]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns, each of one type with NULL or of any, and their rows."""
    columns = draw(st.dictionaries(TEXTS, st.sampled_from(COLUMNS), min_size=1, max_size=6))
    names = sorted(columns)
    row = st.tuples(*(st.one_of(st.none(), columns[name]) for name in names))
    return names, draw(st.lists(row, max_size=5))


@given(tables())
@settings(max_examples=400, deadline=None)
@pytest.mark.slow
def test_rows_are_spelled_as_json_spells_them(table: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    names, rows = table
    said = [seal.without_nulls(dict(zip(names, row, strict=True))) for row in rows]
    assert list(seal.solid_json(names, rows)) == [
        json.dumps(row, sort_keys=True, separators=(",", ":")) for row in said
    ]


@pytest.mark.parametrize("schema", range(1, 7))
def test_runs_of_every_schema_fit_the_seal_of_then(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "older.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((SCHEMAS / f"schema_v{schema}.sql").read_text())
        numbers = [row[0] for row in database.execute("SELECT number FROM runs WHERE sha256 IS NOT NULL")]
        runs = seal.raw_runs(database, numbers)
        assert numbers and sorted(runs) == sorted(numbers)
        assert seal.changed(database, numbers) == set()
        database.execute("UPDATE runs SET title = title || ' ' WHERE number = ?", numbers[:1])
        assert seal.changed(database, numbers) == set(numbers[:1])
        database.rollback()
    assert upkeep.verify(path).damage == []


# -- arrays ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Samples of three runs, of which all have some arrays in common."""
    with Store.open(tmp_path / "aisp.db") as store:
        for seed in range(3):
            store.finish(finished(planned()), {"baseline": samples_of(50 + seed // 2, seed, ranks=2)})
    with closing(sqlite3.connect(tmp_path / "aisp.db")) as connection:
        connection.row_factory = sqlite3.Row
        yield [dict(row) for row in connection.execute("SELECT * FROM samples ORDER BY run")]


def test_arrays_that_were_met_before_are_still_told_from_others(rows: list[dict[str, Any]]) -> None:
    first, second, longer = rows
    assert first["inputs"] == second["inputs"] != longer["inputs"]
    assert all(content.samples_fit(row) for row in rows)
    for name in (*content.SAMPLE_FLOATS, *content.SAMPLE_INTS):
        other = longer if name in content.SAMPLE_INTS else second
        assert not content.samples_fit({**first, name: other[name]}), name
        flipped = bytearray(first[name])
        flipped[len(flipped) // 2] ^= 4
        for _ in range(2):
            assert not content.samples_fit({**first, name: bytes(flipped)}), name
    for changed in ({"count": first["count"] + 1}, {"count": 0}, {"sha256": second["sha256"]}):
        assert not content.samples_fit({**first, **changed})


def test_an_array_that_unpacks_to_more_than_its_row_has_is_no_reason_to_unpack_it(rows: list[dict[str, Any]]) -> None:
    bomb = zlib.compress(bytes(10**8), 9)
    assert not content.samples_fit({**rows[0], "end_ns": bomb})
