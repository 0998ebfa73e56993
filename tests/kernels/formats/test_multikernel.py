"""MultiKernelBench's problems: groups of inputs as cases, from lists and from code, and those that cannot be taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Part, kernelbench, multikernel, packed
from tests.kernels.formats import multikernel as text
from tests.kernels.formats.laying import laid_out, loaded, told, used


def test_a_checkout_is_listed_by_category_and_name(tmp_path: Path) -> None:
    problem = text.written(tmp_path)
    text.written(tmp_path, text.LITERAL, None, name="12_two")
    one = text.written(tmp_path, text.ONE, None, name="row_sums")
    (one.parent / "notes.txt").write_text("")
    listed = [(each.number, each.name) for each in multikernel.collection(tmp_path)]
    assert listed == [(None, "powers: row sums"), (4, "powers: scale"), (12, "powers: two")]
    assert list(multikernel.collection(tmp_path)) == list(multikernel.collection(tmp_path / "reference"))
    assert len(list(multikernel.collection(one.parent))) == 3
    assert formats.recognise(problem) == (multikernel, Part.PROBLEM)
    assert formats.recognise(one) == (multikernel, Part.PROBLEM)
    elsewhere = tmp_path / "one.py"
    elsewhere.write_text(text.ONE)
    assert formats.recognise(elsewhere) == (kernelbench, Part.PROBLEM)
    assert formats.answered(one, text.answer(tmp_path, text.ONE_NEW)) is multikernel


def test_each_line_of_a_case_list_is_a_case_and_the_largest_is_timed(tmp_path: Path) -> None:
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.SCALE_NEW), text.written(tmp_path))
    target = loaded(place)
    cases = {case.name: (case.axes["group"], case.timed) for case in target.cases}
    assert cases == {
        "default": (4, True),
        "cpu": (1, True),
        "group0": (0, False),
        "group1": (1, False),
        "group2": (2, False),
        "group3": (3, False),
        "group4": (4, True),  # 2**26 elements: no run judges it unless it is asked for
    }
    assert target.fuzz.axes["group"].values == (0, 1, 2, 3)
    assert [spec.name for spec in target.inputs][:4] == ["call", "x", "power", "mode"]


def test_what_is_no_tensor_is_carried_and_integers_stay_integers(tmp_path: Path) -> None:
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.SCALE_NEW), text.written(tmp_path))
    found = used(place, *({"group": n} for n in range(4)))
    assert [each["optimized"] for each in found] == [None] * 4
    assert [each["inputs"]["x"][:2] for each in found] == [
        ["float32", [3, 5]],
        ["float32", [64, 4096]],
        ["float16", [7, 9]],
        ["int32", [9]],
    ]
    assert found[2]["inputs"]["other"][:2] == ["float16", [9]]
    assert [each["truth"][0][0] for each in found] == ["float64", "float64", "float64", "int32"]
    assert [each["dtypes"] for each in found] == [["float32"], ["float32"], ["float16"], ["int32"]]


def test_code_is_shown_the_line_alone_that_is_posed(tmp_path: Path) -> None:
    counting = text.SCALE.replace("    return groups\n", "    assert len(cases) == 1\n    return groups\n")
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.SCALE_NEW), text.written(tmp_path, counting))
    assert used(place, {"group": 2})[0]["optimized"] is None
    picking = text.SCALE.replace("    return groups\n", "    groups[3]\n    return groups\n")  # it counts them
    other = tmp_path / "other"
    other.mkdir()
    place = laid_out(
        other, multikernel, text.answer(other, text.SCALE_NEW), text.written(other, picking, text.CASES[:4])
    )
    assert used(place, {"group": 2})[0]["inputs"]["x"][1] == [7, 9]


def test_an_answer_that_ignores_an_argument_is_wrong_where_it_matters(tmp_path: Path) -> None:
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.IGNORES_MODE), text.written(tmp_path))
    plain, twice, _, whole = used(place, *({"group": n} for n in range(4)))
    assert plain["optimized"] is None
    assert "output 0 is not within 0.0001" in twice["optimized"]
    assert whole["optimized"] == "output 0 is not equal"


def test_groups_in_the_code_may_hold_lists_of_tensors_and_give_several_outputs(tmp_path: Path) -> None:
    problem = text.written(tmp_path, text.LITERAL, None, name="5_two")
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.LITERAL_NEW), problem)
    target = loaded(place)
    small, large = used(place, {"group": 0}, {"group": 1})
    assert (small["optimized"], large["optimized"]) == (None, None)
    assert large["dtypes"] == ["float32", "int64"]
    assert target.case("cpu").axes == {"group": 1}  # by the numbers in its calls


def test_a_model_that_draws_numbers_is_called_behind_the_seed_of_a_set(tmp_path: Path) -> None:
    problem = text.written(tmp_path, text.DROPS, None, name="5_two")
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.DROPS_NEW), problem)
    (found,) = used(place, {"group": 1})
    assert (found["inputs"]["seed"][1], found["optimized"]) == ([1], None)


def test_a_number_of_groups_that_is_not_written_down_is_guessed_and_told(tmp_path: Path) -> None:
    body = "    return [[torch.randn(n, 8), [torch.randn(n, 4)]] for n in (3, 5)]\n"
    start = text.LITERAL.index("    return [\n")
    computed = text.LITERAL[:start] + body + text.LITERAL[text.LITERAL.index("def get_init_inputs") :]
    problem = text.written(tmp_path, computed, None, name="5_two")
    opened = multikernel.read(problem)
    assert any(f"{multikernel.GUESSED} are taken, counted round" in note for note in opened.notes)
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.LITERAL_NEW), problem)
    assert [each["inputs"]["x"][1] for each in used(place, {"group": 1}, {"group": 2})] == [[5, 8], [3, 8]]


def test_a_problem_with_one_group_is_kernelbenchs_by_a_rule_of_its_own(tmp_path: Path) -> None:
    problem = text.written(tmp_path, text.ONE, None, name="sums")
    place = laid_out(tmp_path, multikernel, text.answer(tmp_path, text.ONE_NEW), problem)
    target = loaded(place)
    assert target.rule is not None
    assert target.rule.name == multikernel.RULE
    assert "A MultiKernelBench problem" in target.lesson


def test_what_is_said_of_kernelbenchs_harness_is_not_said_of_this_one_and_a_path_stays_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "MultiKernelBench"
    folder.mkdir()
    whole = text.ONE.replace(
        "def get_inputs():\n    return [", "def get_inputs():\n    return [torch.randint(0, 9, (3,)), "
    )
    whole = whole.replace("def forward(self, ", "def forward(self, picked, ")
    problem = text.written(folder, whole, None, name="sums")
    opened = multikernel.read(problem)
    assert list(opened.inputs) == ["picked", "x"]
    assert opened.notes == ()
    lesson = loaded(laid_out(tmp_path, multikernel, text.answer(folder, text.ONE_NEW), problem)).lesson
    assert f"`{problem}`" in lesson


REFUSED = {
    "for other hardware": (text.ASCEND, text.CASES, "line 6: torch_npu computes on an Ascend NPU alone"),
    "without its list": (text.SCALE, None, "its case list 4_scale.json is missing"),
    "with an empty list": (text.SCALE, "\n\n", "4_scale.json holds no case"),
    "with a broken line": (text.SCALE, '{"inputs": []}\n{"inputs": [}\n', "4_scale.json, line 2: "),
    "with a line that is no case": (text.SCALE, '{"input": []}\n', "4_scale.json, line 1: it has no list of inputs"),
    "with a nested line": (text.SCALE, "[" * 60_000 + "\n", "4_scale.json, line 1: "),
    "with a long line": (text.SCALE, json.dumps({"inputs": ["x" * 2**17]}), "4_scale.json, line 1: it has 13"),
    "without Model": (text.SCALE.replace("class Model(", "class Other("), text.CASES, "has no class Model"),
    "with an effect": (text.SCALE + "\nprint()\n", text.CASES, "print() has an effect of its own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_problem_that_cannot_be_taken_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    problem, cases, wanted = REFUSED[name]
    said = told(multikernel, text.answer(tmp_path, text.SCALE_NEW), text.written(tmp_path, problem, cases))
    assert said.startswith("4_scale.py: ")
    assert wanted in said


def test_huge_shapes_and_thousands_of_cases_are_counted_and_not_made(tmp_path: Path) -> None:
    huge = [[text.tensor(*[10**18] * 16)], *[[text.tensor(3)]] * 5000]
    opened = multikernel.read(text.written(tmp_path, cases=huge))
    assert opened.axes == {"group": 0}
    assert opened.cpu == {"group": 1}
    assert f"the first {packed.MAX_CASES} of its 5001 groups are taken" in opened.notes


def test_a_list_outside_of_the_checkout_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "checkout"
    problem = text.written(inside)
    (inside / ".git").mkdir()
    place = problem.with_suffix(".json")
    place.rename(tmp_path / "secret.json")
    place.symlink_to(tmp_path / "secret.json")
    assert "4_scale.json leads out of the checkout" in told(multikernel, text.answer(tmp_path, text.SCALE_NEW), problem)
