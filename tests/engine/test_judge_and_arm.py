"""The two roles of a worker process, driven without an engine by roles.py in one process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.roles import CHANGES, FORMS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("roles")]  # which are played once for all of them

Told = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What every scenario of roles.py gave."""
    folder = tmp_path_factory.mktemp("roles")
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.roles", str(folder)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    for name, scenario in found.items():
        assert "failed" not in scenario, f"{name}: {scenario['failed']}"
    return found


# -- right and wrong ---------------------------------------------------------------------------------------------------


def test_a_right_rung_is_right_on_every_set_and_a_wrong_one_is_refused_where_it_is_wrong(told: Told) -> None:
    found = told["right_and_wrong"]
    assert found["right"] == [True, True]
    assert found["max_error"] == [0.0, 0.0]
    right, finding, detail = found["refused"]
    assert (right, finding) == (False, "values")
    assert detail.startswith("y[999]: got ")
    assert "1 of 1000 elements are wrong" in detail
    assert found["peak_bytes"] is None  # a CPU has no such count: a dash, not 0


def test_the_verifier_leaves_half_of_the_cores_to_the_rungs_that_compute_beside_it(told: Told) -> None:
    assert told["threads"]["left"] == [[1, 1], [2, 1], [5, 2]]


def test_an_output_is_right_for_its_own_inputs_only(told: Told) -> None:
    found = told["right_and_wrong"]
    assert found["mixed_up"] is False
    assert found["same"] is True
    assert found["sets_differ"] is True
    assert found["width"] == 3


def test_the_verifier_looks_at_form_again_and_has_no_error_for_what_it_could_not_compare(told: Told) -> None:
    assert told["outputs_of_another_form_reach_the_verifier"] == {
        "none": [False, "count", None],
        "two": [False, "count", None],
        "shape": [False, "shape", None],
        "dtype": [False, "dtype", None],
    }


def test_no_other_process_of_the_user_may_read_the_verifiers_memory(told: Told) -> None:
    assert told["the_verifier_is_unreadable"] == {"dumpable": 0}


# -- fingerprints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
def test_a_later_call_that_does_something_else_has_another_fingerprint(told: Told, change: str) -> None:
    honest, changed = told["changes"][change]
    assert honest is False
    assert changed is True


def test_every_element_counts_at_every_size(told: Told) -> None:
    assert len(told["every_single_element"]) == 8
    assert set(map(tuple, told["every_single_element"].values())) == {()}


def test_rows_columns_and_elements_that_changed_places_are_noticed(told: Told) -> None:
    """With weights of plus and minus one, every second pair of rows would go unnoticed."""
    assert told["swaps"] == {"rows": 0, "columns": 0, "elements": 0}


def test_what_is_not_finite_hides_nothing_else(told: Told) -> None:
    """Masked scores hold -inf and empty rows NaN; a call that computes nothing of the rest must still be seen."""
    for name, compared in told["fingerprints_of_what_is_not_finite"].items():
        for what, (same, changed) in compared.items():
            assert same is False, f"{name}: the same output was called different"
            assert changed is True, f"{name}: {what} was not noticed"


def test_every_dtype_has_a_fingerprint_and_the_empty_output_too(told: Told) -> None:
    found = dict(told["fingerprints_of_every_dtype"])
    assert found.pop("empty") == [0.0, 0.0, 0.0]
    assert found.pop("scalar")[2] == 4.0
    assert len(found) == 8
    assert set(found.values()) == {True}


def test_outputs_that_go_side_by_side_have_the_fingerprints_that_each_has_alone(told: Told) -> None:
    found = told["fingerprints_side_by_side"]
    assert len(found) == 9 * 5 + 1
    assert {name: all(right) for name, right in found.items()} == dict.fromkeys(found, True)


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_a_mutable_input_is_restored_before_every_call_timed_or_not(told: Told) -> None:
    assert told["mutable_inputs_are_restored"] == {"right": [True] * 3, "timed": [True] * 4}


def test_a_static_input_is_sent_once_and_never_refilled(told: Told) -> None:
    """So that weights that were packed in place stay packed."""
    assert told["static_inputs_are_left_alone"] == {"right": [True] * 3, "slots": [["x", "w"], ["x"]]}


def test_prepare_and_every_call_see_the_same_addresses(told: Told) -> None:
    assert told["addresses_last"] == {"right": [True] * 5}


def test_what_was_computed_from_data_in_prepare_is_wrong_afterwards(told: Told) -> None:
    assert told["what_was_computed_in_prepare_is_stale"] == {"other_set_right": False}


def test_the_shared_files_may_change_after_they_were_taken(told: Told) -> None:
    found = told["shared_memory_is_not_handed_to_the_rung"]
    assert found == {"right": [True] * 4, "same": True, "tried": True}


def test_each_case_has_buffers_and_a_callable_of_its_own(told: Told) -> None:
    assert told["several_cases"] == {
        "ragged": True,
        "shape": [5],
        "default": True,
        "unprepared": "RuntimeError: case ragged was not prepared",
    }


def test_several_calls_in_a_sample_have_buffers_of_their_own_and_are_checked_one_by_one(told: Told) -> None:
    found = told["batches"]
    assert found["graph"] == [["graph", 6, "cold graph", ""], [6, 2, True, [0, 1, 1, 0, 1, 0] * 2]]
    assert found["own_buffers"] == 6 * 2  # static inputs too: they would be warm for the second call
    assert found["prepared"] == [["graph", 6, "cold graph", ""], [6, 1, True, [0, 1, 1, 0, 1, 0]]]
    assert found["last_right"] is True
    assert found["alone_again"] == ["single", 1, "cold", ""]


def test_with_warm_caches_all_calls_of_a_sample_read_the_same_values(told: Told) -> None:
    assert told["batches"]["warm"] == [["graph", 6, "warm graph", ""], [6, 1, True, [1] * 6]]


@pytest.mark.parametrize("kind", ["keeps", "once"])
def test_a_rung_that_keeps_one_output_or_one_preparation_is_right_alone_and_left_alone(told: Told, kind: str) -> None:
    right, *found = told["batches"][kind]
    assert right
    assert found[:3] == ["single", 1, "cold"]
    assert "share memory" in found[3]


def test_what_cannot_be_batched_says_why(told: Told) -> None:
    found = told["batches"]
    assert found["batch"] == ["batch", 6, "cold batch", "not while capturing"]
    assert found["slow"][::3] == ["single", "there is not enough time for prepare() for 4 sets of buffers"]
    assert found["small"][::3] == ["single", "there is not enough memory for 4 sets of buffers"]
    assert found["cpu"] == ["single", 1, "host", "samples are taken host: one call each"]


def test_made_inputs_are_the_same_in_both_processes_and_reach_the_reference_in_fp64(told: Told) -> None:
    assert told["made_inputs"] == {"right": [True, True, True]}


# -- outputs -----------------------------------------------------------------------------------------------------------

ALLOWED = {"a_list_of_one", "with_grad", "a_named_tuple", "a_dict"}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_are_plain_tensors_of_the_declared_number_shape_and_dtype(told: Told, form: str) -> None:
    found = told["forms"][form]
    if form in ALLOWED:
        assert (found["kind"], found["right"]) == ("none", True)
    else:
        assert found["kind"] == "form"
        words = ("lesson.md declares", "not a plain torch.Tensor", "not contiguous", "of its own", "a negative view")
        assert any(word in found["summary"] for word in words)
        assert found["traceback"] == ""


def test_the_sentence_says_what_came_and_what_is_declared(told: Told) -> None:
    summaries = {name: found["summary"] for name, found in told["forms"].items()}
    assert summaries["too_many"] == "run() returned 2 outputs, lesson.md declares 1 (y)"
    assert summaries["shape"] == "y: shape [4, 4], lesson.md declares [16]"
    assert summaries["dtype"] == "y: dtype float64, lesson.md declares float32"
    assert summaries["a_subclass"] == "y: Lazy, not a plain torch.Tensor"


def test_the_form_is_looked_at_in_timed_calls_too(told: Told) -> None:
    assert told["a_form_that_changes_while_timed"]["summary"] == "y: shape [3], lesson.md declares [16]"


# -- timing ------------------------------------------------------------------------------------------------------------


def test_every_planned_sample_arrives_once_and_the_engine_can_account_for_all(told: Told) -> None:
    found = told["samples"]
    assert found["count"] == [80, 80]
    assert found["positive"] is True
    assert found["sets"] is True
    assert found["rounds"] is True
    assert found["replicas"] is True
    assert found["in_order"] is True
    assert found["discarded"] == 0
    assert found["timing"] == "host"
    assert found["per_call_ms"] > 0
    assert found["calls"] >= 10
    assert found["collecting"] is True  # the collector was off only while it measured


def test_measuring_before_warming_up_is_refused(told: Told) -> None:
    assert told["samples"]["early"] == "RuntimeError: measuring before warm-up"


def test_what_is_fetched_is_the_last_calls_output(told: Told) -> None:
    assert told["samples"]["last_set"] == 1
    assert told["samples"]["last_right"] is True


def test_what_is_fetched_is_the_output_as_it_is_now(told: Told) -> None:
    assert told["the_last_output_as_it_is_now"] == {"set": 1, "right": False}


def test_an_arm_that_timed_nothing_has_nothing_to_fetch(told: Told) -> None:
    assert told["nothing_timed"] == {"set": -1, "samples": 0}


def test_a_turn_ends_with_its_budget_but_not_before_one_sample_and_streams_on_the_way(told: Told) -> None:
    found = told["a_budget"]
    assert found["none"] == [1]
    assert 1 <= found["some"] < 50
    assert found["all"] == 3
    assert all(lasts[-1] is True and not any(lasts[:-1]) for lasts in found["lasts"])
    assert found["batches"] > 1  # 12 calls of 15 ms are not kept back to the end
    assert found["fastest_ms"] >= 15.0


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("no_run", "optimized.py has neither run(...) nor prepare(...)"),
        ("run_is_no_function", "optimized.py has neither run(...) nor prepare(...)"),
        ("prepare_is_no_function", "optimized.py has no function prepare(...)"),
        (
            "prepare_takes_nothing",
            "prepare() cannot take the 1 inputs of lesson.md (x): too many positional arguments",
        ),
        ("missing", "optimized.py could not be read; a rung is a file of at most 8 MiB with run(...) or prepare(...)"),
        ("prepare_returns_nothing", "prepare() returned NoneType; it must return the callable to time"),
        ("too_many_arguments", "run() cannot take the 1 inputs of lesson.md (x): missing a required argument: 'y'"),
        ("too_few_arguments", "run() cannot take the 1 inputs of lesson.md (x): too many positional arguments"),
        ("keyword_only", "run() cannot take the 1 inputs of lesson.md (x): too many positional arguments"),
        ("syntax", "SyntaxError: invalid syntax (optimized.py, line 2)"),
        ("import", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_lesson_that_breaks_the_contract_is_told_which_part(told: Told, name: str, summary: str) -> None:
    found = told["lesson_errors"][name]
    assert (found["kind"], found["summary"]) == ("user", summary)


def test_a_rung_may_take_its_inputs_as_it_likes(told: Told) -> None:
    assert told["lesson_errors"]["any_arguments"]["kind"] == "none"


@pytest.mark.parametrize("name", ["prepare_alone", "prepare_is_none"])
def test_a_rung_needs_one_of_run_and_prepare(told: Told, name: str) -> None:
    assert told["lesson_errors"][name]["kind"] == "none"


def test_running_out_of_memory_is_its_own_kind(told: Told) -> None:
    assert told["lesson_errors"]["memory"]["kind"] == "memory"


def test_a_reference_of_another_form_is_told_as_the_lessons_mistake(told: Told) -> None:
    found = told["reference_errors"]
    assert found["shape"]["summary"] == "reference.py: y is [3], lesson.md declares [16]"
    assert found["count"]["summary"] == "reference.py returned 2 outputs, lesson.md declares 1"
    assert found["type"]["summary"] == "reference.py: y is int, lesson.md declares [16]"
    assert found["raises"]["summary"] == "ArithmeticError: no"
    assert found["raises"]["traceback"].startswith("  reference.py:2 in run\n")


# -- tracebacks --------------------------------------------------------------------------------------------------------


def test_a_traceback_is_cut_to_the_lessons_own_frames_with_relative_paths_and_its_cause(told: Told) -> None:
    lines = told["tracebacks"]["chained"]["traceback"].splitlines()
    assert lines[:3] == [
        "  optimized.py:8 in run",
        '      raise ValueError("the tile does not fit") from error',
        "ValueError: the tile does not fit",
    ]
    assert lines[4:9] == [
        "caused by",
        "  optimized.py:6 in run",
        "      return deep.helper.inner(x)",
        "  deep/helper.py:5 in inner",
        "      return torch.ones(3) @ x",
    ]
    assert lines[9].startswith("RuntimeError: ")


def test_no_path_of_the_machine_is_in_a_lessons_traceback(told: Told) -> None:
    folder = told["tracebacks"]["folder"]
    for scenario in ("lesson_errors", "reference_errors"):
        for found in told[scenario].values():
            assert folder.rsplit("/", 2)[0] not in found["traceback"]
    for name in ("chained",):
        assert folder not in told["tracebacks"][name]["traceback"]


def test_a_syntax_error_shows_its_own_line_and_no_importer(told: Told) -> None:
    assert told["lesson_errors"]["syntax"]["traceback"].splitlines()[0] == "  optimized.py:2"
    assert "importlib" not in told["lesson_errors"]["syntax"]["traceback"]
    assert told["tracebacks"]["syntax"].splitlines()[:4] == [
        "  optimized.py:1 in <module>",
        "      import deep.broken",
        "  deep/broken.py:2",
        "          return x *",
    ]


def test_endless_recursion_is_shown_by_its_beginning_and_its_end(told: Told) -> None:
    lines = told["tracebacks"]["endless"].splitlines()
    assert len(lines) == 2 * 40 + 2
    assert lines[40].endswith(" more frames ...")
    assert lines[-1].startswith("RecursionError: ")


def test_a_hidden_cause_stays_hidden_and_a_circle_of_causes_ends(told: Told) -> None:
    found = told["tracebacks"]
    assert "KeyError" not in found["suppressed"]
    assert found["suppressed"].endswith("ValueError: shown")
    assert found["circular"].count("ValueError: first") == 1
    assert found["circular"].count("ValueError: second") == 1


def test_a_message_of_a_megabyte_is_cut(told: Told) -> None:
    assert told["tracebacks"]["long"] < 5000


def test_where_no_frame_is_the_lessons_the_innermost_three_stay(told: Told) -> None:
    lines = told["tracebacks"]["foreign"].splitlines()
    assert [line.rsplit(" in ", 1)[1] for line in lines[:6:2]] == ["loads", "decode", "raw_decode"]
    assert lines[6].startswith("JSONDecodeError: ")


# -- defences ----------------------------------------------------------------------------------------------------------


def test_what_a_call_returned_is_overwritten_before_the_next(told: Told) -> None:
    """A rung that hands back an old result hands back poison; one that writes into a kept buffer is honest."""
    found = told["poison"]
    assert found["kept"] == [True, False]
    assert found["rewritten"] == [True, True]
    assert found["bool"] == [True, True]
    assert found["kept_facts"] == {"calls": 1, "kept": 1}


def test_the_same_values_elsewhere_must_give_the_same_outputs(told: Told) -> None:
    assert told["moved_buffers"] == {"in_place": True, "moved": False, "sustained": 4}


def test_every_input_has_256_bytes_of_its_own_storage_on_either_side(told: Told) -> None:
    assert told["margins"] == {"right": True}


def test_a_check_that_is_left_out_is_left_out_in_the_worker(told: Told) -> None:
    assert told["left_out"] == {"with": "form", "without": True, "poison": False}


def test_a_sensor_that_raises_is_told_of_and_harms_nobody(told: Told) -> None:
    found = told["a_sensor_that_fails"]
    assert found["right"] is True
    assert found["clumsy"] == "after_call: ValueError: its own fault"


def test_sensors_see_the_import_every_call_and_the_end(told: Told) -> None:
    found = told["a_sensor_that_fails"]
    assert found["first"] == [
        "before_import",
        "after_import",
        "after_prepare",
        "before verify 0",
        "after verify 1 False",
        "before_timing",
    ]
    assert found["timed"] == ["before timed 0", "after timed 1 True", "alone True", "after_timing"]
    assert found["cost_us"].keys() == {"witness"} and found["cost_us"]["witness"] < 0.25e6
