"""Ids sort by creation, whatever the clock does."""

from __future__ import annotations

import threading

import pytest

from aisp.store.ulid import ALPHABET, UlidMaker, made_s, new_ulid


def ulid_wall_ms(ulid: str) -> int:
    """Milliseconds since 1970 in the first ten of 26 digits, five bits each."""
    assert len(ulid) == 26
    return sum(ALPHABET.index(digit) << 5 * place for place, digit in enumerate(reversed(ulid[:10])))


def test_ids_of_one_millisecond_ascend() -> None:
    maker = UlidMaker(wall_ms=lambda: 1_700_000_000_000)
    made = [maker.new() for _ in range(1000)]
    assert made == sorted(set(made))
    assert {ulid_wall_ms(one) for one in made} == {1_700_000_000_000}


def test_ids_ascend_while_the_clock_steps_back() -> None:
    clock = iter([1000, 2000, 500, 600, 3000])
    maker = UlidMaker(wall_ms=lambda: next(clock))
    made = [maker.new() for _ in range(5)]
    assert made == sorted(set(made))
    assert [ulid_wall_ms(one) for one in made] == [1000, 2000, 2000, 2000, 3000]


def test_a_full_random_part_runs_over_into_the_next_millisecond() -> None:
    maker = UlidMaker(wall_ms=lambda: 7, random=lambda: 2**80 - 1)
    first, second = maker.new(), maker.new()
    assert first < second
    assert ulid_wall_ms(second) == 8
    assert second.endswith("0" * 16)


def test_known_values() -> None:
    assert UlidMaker(wall_ms=lambda: 0, random=lambda: 0).new() == "0" * 26
    assert UlidMaker(wall_ms=lambda: 2**48 - 1, random=lambda: 2**80 - 1).new() == "7" + "Z" * 25
    made = UlidMaker(wall_ms=lambda: 1469922850259).new()
    assert made.startswith("01ARZ3NDEK") and ulid_wall_ms(made) == 1469922850259  # the example of the specification


def test_the_clock_may_not_outgrow_its_bits() -> None:
    with pytest.raises(OverflowError, match="48 bits"):
        UlidMaker(wall_ms=lambda: 2**48).new()


def test_threads_never_make_the_same_id() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(new_ulid() for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2000
    assert all(len(one) == 26 and set(one) <= set(ALPHABET) for one in made)


def test_an_id_says_when_it_was_made() -> None:
    assert made_s(UlidMaker(wall_ms=lambda: 1_700_000_000_123).new()) == 1_700_000_000.123
    for wrong in ("", "01JZ", "U" * 26):
        with pytest.raises(ValueError):
            made_s(wrong)
