"""robust-kbench's tasks: their cases, forward and backward, and what is said of those that cannot be taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Part, packed, robust
from aisp.kernels.catalog.formats.shared import NEEDS_GPU
from tests.kernels.formats import robust as text
from tests.kernels.formats.laying import laid_out, loaded, told, used


def test_a_task_is_a_problem_in_each_direction(tmp_path: Path) -> None:
    task = text.task(tmp_path)
    text.task(tmp_path, "12_other")
    (tmp_path / "tasks" / "12_other" / "config_backward.json").unlink()
    text.task(tmp_path, "kernelbench/level_2/7_deep_one")
    found = [(each.level, each.number, each.name, each.reason) for each in robust.collection(tmp_path)]
    assert found == [
        (None, None, "scaled layer forward", ""),
        (None, None, "scaled layer backward", ""),
        (None, 12, "other forward", ""),
        (None, 12, "other backward", "config_backward.json is missing"),
        (2, 7, "deep one forward", ""),
        (2, 7, "deep one backward", ""),
    ]
    assert [each.path for each in robust.collection(task)] == [task / "func_forward.py", task / "func_backward.py"]
    assert formats.recognise(tmp_path) == (robust, Part.COLLECTION)
    assert formats.recognise(task / "func_backward.py") == (robust, Part.PROBLEM)
    assert robust.part(text.answer(tmp_path, text.RIGHT)) is Part.CANDIDATE
    assert robust.part(text.answer(tmp_path, text.GRADIENTS)) is Part.CANDIDATE
    assert robust.part(text.answer(tmp_path, text.CUDA, "forward.cu")) is Part.CANDIDATE
    assert robust.part(text.answer(tmp_path, "__global__ void f() {}", "device.cu")) is None


def test_cases_are_the_products_of_the_configurations_and_the_single_one_is_timed(tmp_path: Path) -> None:
    problem = text.task(tmp_path) / "func_forward.py"
    target = loaded(laid_out(tmp_path, robust, text.answer(tmp_path, text.RIGHT), problem))
    assert target.title == "A scaled layer without a bias. (forward)"
    assert [case.name for case in target.cases] == ["default", "cpu", *(f"config{n}" for n in range(text.CASES))]
    assert target.case("default").axes == {"config": 0}
    assert not any(case.timed for case in target.cases if case.name.startswith("config"))  # judged in every run
    assert target.fuzz.axes["config"].values == tuple(range(text.CASES))
    assert target.rule is not None
    assert (target.rule.name, target.rule.alone) == (robust.RULE, False)


def test_shared_settings_override_and_each_case_has_its_own_weights(tmp_path: Path) -> None:
    overriding = {**text.CONFIG, "single_input_configs": [{"rows": 3, "features": 1}]}
    problem = text.task(tmp_path, config=overriding) / "func_forward.py"
    place = laid_out(tmp_path, robust, text.answer(tmp_path, text.RIGHT), problem)
    first, second, uniform = used(place, {"config": 0}, {"config": 2}, {"config": 5})
    assert first["inputs"]["x"][:2] == ["float32", [3, 64]]  # features is that of the shared ones
    assert second["inputs"]["x"][:2] == ["float32", [7, 33]]
    assert [each["optimized"] for each in (first, second, uniform)] == [None, None, None]
    assert first["truth"][0][:2] == ["float64", [3, 64]]


def test_an_answer_that_is_right_in_the_timed_case_alone_is_wrong_by_its_own_rule_too(tmp_path: Path) -> None:
    problem = text.task(tmp_path) / "func_forward.py"
    place = laid_out(tmp_path, robust, text.answer(tmp_path, text.WRONG), problem)
    timed, scaled = used(place, {"config": 0}, {"config": 5})
    assert (timed["optimized"], scaled["baseline"]) == (None, None)
    assert "output 0 is not within 1e-05" in scaled["optimized"]


def test_backward_judges_a_gradient_for_each_that_the_task_gives(tmp_path: Path) -> None:
    problem = text.task(tmp_path) / "func_backward.py"
    place = laid_out(tmp_path, robust, text.answer(tmp_path, text.GRADIENTS), problem)
    target = loaded(place)
    assert [spec.name for spec in target.outputs] == ["d_x", "d_weight"]
    assert [spec.name for spec in target.inputs][:3] == ["call", "x", "grad"]
    first, other = used(place, {"config": 0}, {"config": 6})
    assert [found[1] for found in first["truth"]] == [[512, 64], [64, 64]]
    assert (first["inputs"]["grad"][1], first["dtypes"]) == ([512, 64], ["float32", "float32"])
    assert [first["baseline"], first["optimized"], other["baseline"], other["optimized"]] == [None] * 4


def test_a_backward_pass_that_forgets_a_factor_is_wrong(tmp_path: Path) -> None:
    problem = text.task(tmp_path) / "func_backward.py"
    place = laid_out(tmp_path, robust, text.answer(tmp_path, text.WITHOUT_RELU), problem)
    (found,) = used(place, {"config": 0})
    assert found["baseline"] is None
    assert "output 0 is not within 1e-05" in found["optimized"]


def test_a_task_that_is_too_large_for_a_cpu_gets_a_case_of_its_inputs_alone(tmp_path: Path) -> None:
    large: dict[str, Any] = {"single_input_configs": [{"rows": 1 << 20}], "single_init_configs": [{"features": 64}]}
    opened = robust.read(text.task(tmp_path, config=large) / "func_forward.py")
    assert opened.cpu == {"config": 1}
    assert "the case cpu is not the task's own: its first configuration with rows=32768" in opened.notes
    fixed = {"single_shared_configs": [{"features": 1 << 21}], "single_input_configs": [{"rows": 1}]}
    assert robust.read(text.task(tmp_path, config=fixed) / "func_forward.py").cpu is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('init_method: str = "normal"):', 'init_method: str = "normal", device: str = "cuda"):'),
        ("    return torch.relu(x", "    assert x.is_cuda\n    return torch.relu(x"),
        ("    return [torch.randn(rows, features)]", "    return [torch.randn(rows, features).cuda()]"),
    ],
    ids=["by name", "asserted", "moved there"],
)
def test_a_task_whose_code_asks_for_a_gpu_has_no_case_for_a_cpu_and_says_so(
    tmp_path: Path, before: str, after: str
) -> None:
    assert before in text.FORWARD
    opened = robust.read(text.task(tmp_path, func_forward=text.FORWARD.replace(before, after)) / "func_forward.py")
    assert opened.cpu is None and NEEDS_GPU in opened.notes
    assert NEEDS_GPU not in robust.read(text.task(tmp_path, name="plain") / "func_forward.py").notes


def test_the_product_of_the_configurations_is_bounded(tmp_path: Path) -> None:
    side = [{"rows": n} for n in range(1, 1000)]
    huge = {"multi_input_configs": side, "multi_init_configs": [{"scale": n / 2} for n in range(1000)]}
    opened = robust.read(text.task(tmp_path, config=huge) / "func_forward.py")
    most = packed.MAX_CASES - 1
    assert f"the first {most} of its 999,000 configurations are taken" in opened.notes


REFUSED = {
    "no configurations": ({"config": "{}"}, "config_forward.json has no configurations"),
    "a list": ({"config": "[]"}, "config_forward.json: it is no table"),
    "no JSON": ({"config": "{"}, "config_forward.json: "),
    "nested": ({"config": "[" * 100_000}, "config_forward.json: "),
    "not a number": ({"config": '{"single_input_configs": [{"rows": NaN}]}'}, "NaN is no number"),
    "a table in it": ({"config": {"single_input_configs": [{"rows": {}}]}}, "rows is neither a number"),
    "a name that is none": ({"config": {"single_input_configs": [{"a b": 1}]}}, "'a b' cannot name an argument"),
    "an unknown setting": (
        {"config": {"single_input_configs": [{"columns": 1}]}},
        "line 27: config_forward.json gives get_inputs columns, which it does not take",
    ),
    "an unknown argument": (
        {"config": {"single_init_configs": [{"seed": 1}]}},
        "line 13: config_forward.json gives Model seed, which it does not take",
    ),
    "no fn": (
        {"func_forward": text.FORWARD.replace(", fn=forward_fn", "").replace("fn(x,", "forward_fn(x,")},
        "line 23: Model.forward takes no fn",
    ),
    "no forward_fn": (
        {"func_forward": text.FORWARD.replace("forward_fn(x: ", "other(x: ")},
        "has no function forward_fn",
    ),
    "an effect": ({"func_forward": text.FORWARD + "\nprint(1)\n"}, "print(1) has an effect of its own"),
    "no Python": ({"func_forward": text.FORWARD + "\ndef (\n"}, "not Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_task_that_cannot_be_taken_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    given, wanted = REFUSED[name]
    problem = text.task(tmp_path, **given) / "func_forward.py"  # type: ignore[arg-type]
    said = told(robust, text.answer(tmp_path, text.RIGHT), problem)
    assert said.startswith("func_forward.py: ")
    assert wanted in said


def test_a_backward_task_without_its_function_is_refused(tmp_path: Path) -> None:
    without = text.task(tmp_path, func_backward=text.FORWARD) / "func_backward.py"
    assert "has no class AutogradFunction" in told(robust, text.answer(tmp_path, text.GRADIENTS), without)
    four = text.BACKWARD.replace("return grad_x, grad_weight, None", "return grad_x, grad_weight, None, grad_x")
    many = text.task(tmp_path, func_backward=four) / "func_backward.py"
    said = told(robust, text.answer(tmp_path, text.GRADIENTS), many)
    assert "backward returns 4 gradients, and forward_fn takes 3 arguments" in said


def test_a_candidate_that_cannot_be_taken_is_refused(tmp_path: Path) -> None:
    problem = text.task(tmp_path) / "func_backward.py"
    assert "answer.py: : has no function backward_fn" in told(robust, text.answer(tmp_path, text.RIGHT), problem)
    broken = text.answer(tmp_path, "def backward_fn(:\n")
    assert "answer.py: line 1: not Python" in told(robust, broken, problem)


def test_cuda_source_is_taken_where_there_is_a_compiler_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = text.task(tmp_path) / "func_forward.py"
    candidate = text.answer(tmp_path, text.CUDA, "forward.cu")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "forward.cu: : needs nvcc, and there is none here" in told(robust, candidate, problem)
    compiler = tmp_path / "bin" / "nvcc"
    compiler.parent.mkdir()
    compiler.write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    place = laid_out(tmp_path, robust, candidate, problem)
    target = loaded(place)
    assert target.rung("optimized").gpu_only
    assert "candidate.cu" in target.files
    assert "forward_fn = aisp_robust.compiled(__file__).forward" in (place / "optimized.py").read_text()
    bare = text.answer(tmp_path, "// nothing", "bare.cu")
    assert "has no PYBIND11_MODULE" in told(robust, bare, problem)


def test_a_configuration_outside_of_the_checkout_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "checkout"
    problem = text.task(inside) / "func_forward.py"
    (inside / ".git").mkdir()
    outside = tmp_path / "secret.json"
    outside.write_text(json.dumps(text.CONFIG))
    config = problem.parent / "config_forward.json"
    config.unlink()
    config.symlink_to(outside)
    assert "leads out of the checkout" in told(robust, text.answer(tmp_path, text.RIGHT), problem)
