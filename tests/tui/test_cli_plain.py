"""Plain text: numbers, intervals, tables, JSON."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aisp.store.outcomes import Verdict
from aisp.store.results.edits import Change
from aisp.tui import plain

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.41234, "0.4123"), (9.99996, "10.00"), (1234.5, "1234"), (12345678.0, "12345678"), (0.0, "0"),
        (1e-7, "1.000e-07"), (-2.5, "-2.500"), (float("inf"), "inf"), (None, "-"), (NAN, "-"),
    ],
)  # fmt: skip
def test_a_number_shows_the_digits_that_count(value: float | None, text: str) -> None:
    assert plain.number(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.02e12, "bytes/s", "3.02 TB/s"), (5.12e10, "bytes/s", "51.2 GB/s"), (8.12e14, "flop/s", "812 TFLOP/s"),
        (1.98e15, "flop/s", "1.98 PFLOP/s"), (1.28e-6, "s", "1.28 µs"), (2.5e-3, "s", "2.50 ms"),
        (3.2e-8, "s", "0.0320 µs"), (5e-4, "s", "0.500 ms"), (9e-5, "s", "90.0 µs"),
        (12.0, "s", "12.0 s"), (1e6, "flop", "1.00 MFLOP"), (999.0, "bytes", "999 B"), (3.0, "apples", "3.00 apples"),
        (None, "s", "-"), (NAN, "bytes/s", "-"),
    ],
)  # fmt: skip
def test_a_ceiling_is_said_in_the_unit_that_people_use(value: float | None, unit: str, text: str) -> None:
    assert plain.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0008, "0.8 ms"), (0.34, "340 ms"), (1.24, "1.2 s"), (59.97, "1 min 00 s"), (184, "3 min 04 s"),
        (3599.7, "1 h 00 min"), (7500, "2 h 05 min"), (97200, "1 d 03 h"), (-1.5, "-1.5 s"), (None, "-"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(seconds: float | None, text: str) -> None:
    assert plain.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "60 s"),
        (61.0, "60 s"),
        (96.6, "95 s"),
        (100.0, "2 min"),
        (597.6, "10 min"),
        (5939.0, "99 min"),
        (5999.0, "1 h 40 min"),
        (7200.0, "2 h 00 min"),
    ],
)
def test_a_span_that_is_about_right_has_no_figures_that_pretend_more(seconds: float | None, text: str) -> None:
    assert plain.about(seconds) == text


@pytest.mark.parametrize(
    ("factor", "text"),
    [(3.7, "3.70x less"), (0.25, "4.00x more"), (1.004, "the same"), (0.996, "the same"), (0.0, "-"), (None, "-")],
)
def test_what_is_saved_is_less_and_what_is_spent_is_more(factor: float | None, text: str) -> None:
    assert plain.saved(factor) == text


def test_unknown_is_a_dash_everywhere_and_never_zero() -> None:
    assert plain.milliseconds(None, 1.0, 2.0) == "-"
    assert plain.speedup(None) == "-"
    assert plain.percent(None) == "-"
    assert plain.percent(NAN) == "-"
    assert plain.size(None) == "-"
    assert plain.count(None) == "-"
    assert plain.change(None) == "-"
    assert plain.local_time("") == "-"
    assert plain.megahertz(None) == "-"
    assert plain.megahertz(NAN) == "-"
    assert plain.megahertz(1754.6) == "1755"


def test_intervals_stand_behind_their_number() -> None:
    assert plain.milliseconds(0.4123, 0.4101, 0.415) == "0.4123 [0.4101..0.4150]"
    assert plain.milliseconds(0.4123) == "0.4123"
    assert plain.speedup(2.314, 2.2, 2.4) == "2.31x [2.20..2.40]"
    assert plain.speedup(0.109, 1e-11, 1e11) == "0.109x [<0.001..>999]", "these ends say no more than anything"
    assert plain.speedup(900.0, 0.5, 999.0) == "900x [0.500..999]"
    assert plain.percent(0.631) == "63 %"
    assert plain.change(Change(-0.03, apart=True)) == "-3.0 %"
    assert plain.change(Change(-0.03, apart=False)) == "~ -3.0 %"
    assert plain.size(1536) == "1.5 KiB"
    assert plain.size(80 * 2**30) == "80.0 GiB"


def test_a_time_label_is_local_and_a_strange_one_is_left_alone() -> None:
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    assert plain.local_time("2026-01-02T03:04:05Z") == f"{at.astimezone():%Y-%m-%d %H:%M}"
    assert plain.local_time("yesterday") == "yesterday"


def test_columns_stay_in_line_behind_wide_and_combining_signs() -> None:
    lines = plain.table(["name", "n"], [["日本", "1"], ["e\u0301te\u0301", "22"]], right=["n"])
    assert lines == ["name   n", "日本   1", "e\u0301te\u0301   22"]
    assert {plain.cells(line) for line in lines} == {8}


def test_a_table_gives_up_one_column_to_fit_and_never_below_eight() -> None:
    rows = [["short", "a title that is much too long for this terminal"]]
    fitted = plain.table(["id", "title"], rows, width=30, shrink="title")
    assert fitted[1] == "short  a title that is much..."
    assert plain.table(["id", "title"], rows, width=5, shrink="title")[1] == "short  a tit..."


def test_a_narrow_table_drops_columns_in_the_order_given_and_only_as_many_as_it_must() -> None:
    heads, rows = ["run", "mode", "on", "outcome"], [["01ABCDEF", "quick", "cuda", "faster"]]

    def shown(width: int | None) -> list[str]:
        return plain.table(heads, rows, width=width, drop=["mode", "on"])[1].split()

    assert shown(None) == ["01ABCDEF", "quick", "cuda", "faster"]
    assert shown(30) == ["01ABCDEF", "quick", "cuda", "faster"]
    assert shown(29) == ["01ABCDEF", "cuda", "faster"]
    assert shown(22) == ["01ABCDEF", "faster"]
    assert shown(5) == ["01ABCDEF", "faster"]


@pytest.mark.parametrize("width", range(0, 12))
def test_fit_keeps_to_its_cells(width: int) -> None:
    assert plain.cells(plain.fit("日本語の長い題", width)) <= width


def test_json_has_no_nan_no_escape_sequences_and_no_enums() -> None:
    given = {
        "nan": NAN,
        "inf": math.inf,
        "path": Path("/x"),
        "verdict": Verdict.FASTER,
        "text": "\x1b[31m\udcff",
        "n": (1, True),
    }
    written = plain.json_document(given)
    assert written.isascii()
    assert "\x1b" not in written
    assert json.loads(written) == {
        "nan": None, "inf": None, "path": "/x", "verdict": "faster", "text": "\x1b[31m\udcff", "n": [1, True]
    }  # fmt: skip
    assert "\n" not in plain.json_line(given)


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ((0.412, 0.41, 0.415), "0.4120 ms [0.4100..0.4150]"),
        ((0.0123, 0.0121, 0.0125), "12.30 µs [12.10..12.50]"),
        ((0.0123,), "12.30 µs"),
        ((None,), "-"),
        ((float("nan"),), "-"),
    ],
)
def test_a_time_below_a_tenth_of_a_millisecond_is_told_in_microseconds(
    times: tuple[float | None, ...], text: str
) -> None:
    assert plain.time_of(*times) == text
    plain.ascii_only(True)
    assert plain.time_of(*times) == text.replace("µ", "u")


@pytest.mark.parametrize(
    ("before", "text"),
    [({"minutes": 0}, "just now"), ({"minutes": 5}, "5 min ago"), ({"hours": 2}, "2 h ago"), ({"days": 3}, "3 d ago")],
)
def test_how_long_ago_is_told_in_one_unit(before: dict[str, int], text: str) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert plain.ago((now - timedelta(**before)).isoformat(), now) == text
    assert plain.ago("", now) == plain.DASH
