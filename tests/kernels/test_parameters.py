"""Launch parameters: constants of a rung's file found by its syntax tree, and other values put in their place."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisp.kernels import catalog
from aisp.kernels.catalog import parameters
from aisp.kernels.catalog.parameters import Parameter, ParameterError
from tests.engine.targets import write_target

SOURCE = '''\
"""BLOCK = 1 is said here too."""
import triton.language as tl

ÄHNLICH = "é"; BLOCK = 64  # BLOCK = 64
WARPS: tl.constexpr = 4
STAGES = tl.constexpr(2)
SHIFT = -1
RATE = 0.5
FAST = True
MODE = "row"
TWICE = 1
TWICE = 2
BOTH, OTHER = 1, 2
TABLE = [1]
CHANGED = 1


def run(x):
    global CHANGED
    CHANGED = 2
    BLOCK = 8
    return x
'''.encode()


def test_the_constants_of_a_file_are_those_with_a_literal_and_one_value() -> None:
    found = {name: constant.value for name, constant in parameters.constants(SOURCE).items()}
    assert found == {
        **{"ÄHNLICH": "é", "WARPS": 4, "STAGES": 2, "SHIFT": -1, "RATE": 0.5, "FAST": True, "MODE": "row"},
        "BLOCK": 64,
    }
    assert parameters.constants(SOURCE)["WARPS"].line == 5


def test_only_the_literal_changes() -> None:
    values = {"BLOCK": 128, "STAGES": 3, "SHIFT": 2, "MODE": "column", "FAST": False, "RATE": 1}
    changed = parameters.put(SOURCE, values)
    expected = SOURCE.decode()
    for old, new in (
        ("; BLOCK = 64 ", "; BLOCK = 128 "),
        ("constexpr(2)", "constexpr(3)"),
        ("SHIFT = -1", "SHIFT = 2"),
        ('MODE = "row"', "MODE = 'column'"),
        ("FAST = True", "FAST = False"),
        ("RATE = 0.5", "RATE = 1.0"),
    ):
        assert old in expected
        expected = expected.replace(old, new)
    assert changed.decode() == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_they_like(end: str) -> None:
    source = f"# one{end}A = 1{end}B = 2{end}".encode()
    assert parameters.put(source, {"B": 7}) == f"# one{end}A = 1{end}B = 7{end}".encode()


def test_a_file_may_begin_with_the_mark_of_its_encoding_and_must_be_utf_8() -> None:
    source = codecs.BOM_UTF8 + b"A = 1\nB = 2\n"
    assert parameters.put(source, {"A": 5, "B": 7}) == codecs.BOM_UTF8 + b"A = 5\nB = 7\n"
    with pytest.raises(ParameterError, match="does not parse"):
        parameters.put(b"# coding: latin-1\nS = '\xe9'; A = 1\n", {"A": 2})


def test_a_literal_may_stand_in_parentheses_of_several_lines() -> None:
    assert parameters.put(b"N = (\n  1\n)\nM = 2", {"N": 10, "M": 20}) == b"N = (\n  10\n)\nM = 20"


def test_a_name_that_is_imported_too_is_no_constant() -> None:
    assert list(parameters.constants(b"A = 1\nB = 2\nfrom m import A\nimport B.c\n")) == []


def test_every_combination_is_a_file_and_there_are_not_too_many() -> None:
    made = list(parameters.variants(b"A = 1\nB = 2\n", [Parameter("A", (1, 3)), Parameter("B", (2, 4))]))
    assert [source for _, source in made] == [
        b"A = 1\nB = 2\n",
        b"A = 1\nB = 4\n",
        b"A = 3\nB = 2\n",
        b"A = 3\nB = 4\n",
    ]
    many = [Parameter("A", tuple(range(100))), Parameter("B", tuple(range(100)))]
    with pytest.raises(ParameterError, match="10,000 combinations"):
        list(parameters.variants(b"A = 1\nB = 2\n", many))


def test_a_file_at_its_own_values_is_the_file() -> None:
    own = {name: constant.value for name, constant in parameters.constants(SOURCE).items()}
    assert parameters.put(SOURCE, own) == SOURCE


@given(st.integers(-(10**9), 10**9), st.text(max_size=40))
def test_what_is_put_is_what_is_read(number: int, text: str) -> None:
    changed = parameters.put(SOURCE, {"BLOCK": number, "MODE": text})
    found = parameters.constants(changed)
    assert (found["BLOCK"].value, found["MODE"].value) == (number, text)
    assert found["WARPS"].value == 4


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"BLOK": 1}, "no constant BLOK"),
        ({"TWICE": 1}, "no constant TWICE"),
        ({"CHANGED": 3}, "no constant CHANGED"),
        ({"TABLE": 1}, "no constant TABLE"),
        ({"OTHER": 1}, "no constant OTHER"),
        ({"BLOCK": "wide"}, "give whole numbers"),
        ({"BLOCK": True}, "give whole numbers"),
        ({"BLOCK": 0.5}, "give whole numbers"),
        ({"FAST": 1}, "give True or False"),
        ({"RATE": True}, "give numbers"),
    ],
)
def test_what_cannot_be_set_is_refused_with_what_would_work(values: dict[str, parameters.Value], told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        parameters.put(SOURCE, values, "optimized.py")


def test_a_file_that_is_no_python_has_no_parameters() -> None:
    with pytest.raises(ParameterError, match="does not parse"):
        parameters.put(b"BLOCK = (\n", {"BLOCK": 1})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("BLOCK=16,32", (16, 32)),
        (" BLOCK = 1 , -2 ", (1, -2)),
        ("M=0.5,1e-3", (0.5, 0.001)),
        ("M=row,'a'", ("row", "a")),
        ("M=True,False", (True, False)),
    ],
)
def test_a_parameter_is_typed_as_name_and_values(text: str, values: tuple[parameters.Value, ...]) -> None:
    assert parameters.read(text).values == values


@pytest.mark.parametrize(
    "text",
    [
        *("BLOCK", "BLOCK=", "=1", "BLOCK=1,,2", "BLOCK=1,1", "A B=1", "A=1e999", "M=True,1", "M=1,1.0"),
        *(f"M={'x' * 300}", "1=2"),
    ],
)
def test_what_is_no_parameter_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        parameters.read(text)


def test_a_grid_has_every_combination_once() -> None:
    given = [Parameter("A", (1, 2)), Parameter("B", ("x", "y", "z"))]
    found = list(parameters.grid(given))
    assert len(found) == parameters.count(given) == 6
    assert found[:2] == [{"A": 1, "B": "x"}, {"A": 1, "B": "y"}]
    assert parameters.words(found[0]) == "A=1 B='x'"


def test_a_lesson_declares_the_parameters_of_a_rung(tmp_path: Path) -> None:
    notes = "[rungs.optimized]\nparameters = { BLOCK = [16, 32], MODE = ['a'] }\n"
    target = write_target(
        tmp_path / "mine", {"optimized.py": "BLOCK = 16\n\ndef run(x):\n    return x * 2\n"}, cases=notes
    )
    assert target.rung("optimized").parameters == (Parameter("BLOCK", (16, 32)), Parameter("MODE", ("a",)))
    assert target.rung("baseline").parameters == ()


@pytest.mark.parametrize(
    "given", ["{ BLOCK = 16 }", "{ BLOCK = [] }", "{ BLOCK = [1, 1] }", "{ BLOCK = [[1]] }", "[1]"]
)
def test_a_lesson_that_declares_them_wrongly_is_told(tmp_path: Path, given: str) -> None:
    target = write_target(tmp_path / "mine", {})
    lesson = target.folder / "lesson.md"
    text = lesson.read_text()
    lesson.write_text(text.replace("+++\n\n#", f"[rungs.optimized]\nparameters = {given}\n+++\n\n#"))
    found = catalog.load([tmp_path / "mine"])
    assert not found.targets
    assert any(problem.key.startswith("rungs.optimized.parameters") for problem in found.problems)
