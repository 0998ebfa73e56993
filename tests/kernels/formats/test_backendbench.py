"""BackendBench's operators: folders and traces, what a line of a trace may say, and the cases that come of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Part, backendbench
from tests.imported import python
from tests.kernels.formats import backendbench as text
from tests.kernels.formats.laying import laid_out, loaded, told, used


def test_folders_of_operators_and_traces_are_listed_and_broken_ones_with_their_reason(tmp_path: Path) -> None:
    add = text.operator(tmp_path, "add__Tensor", _v2=text.ADD, _v1=text.ADD)
    text.operator(tmp_path, "relu___default", plain=text.RELU)
    text.operator(tmp_path, "split__Tensor", plain="")
    text.operator(tmp_path, "empty__default")
    text.operator(tmp_path, "notes")
    trace = text.trace(tmp_path)
    text.trace(tmp_path, "nothing of that kind", "readme.txt")
    found = [(each.name, each.reason) for each in backendbench.collection(tmp_path)]
    assert found == [
        ("aten.add.Tensor", ""),
        ("aten.empty.default", "has no file empty__default_implementation*.py"),
        ("aten.relu_.default", ""),
        ("aten.split.Tensor", ""),
        ("trace models", ""),
    ]
    assert formats.recognise(add) == (backendbench, Part.PROBLEM)
    assert formats.recognise(trace) == (backendbench, Part.PROBLEM)
    assert formats.recognise(tmp_path) == (backendbench, Part.COLLECTION)
    assert formats.recognise(add / "add__Tensor_implementation_v1.py") == (backendbench, Part.CANDIDATE)
    opened = backendbench.read(add)
    assert opened.title == "aten.add.Tensor"
    assert "2 implementations, of which add__Tensor_implementation_v1.py counts" in opened.notes
    assert "4 operators in 10 lines, each a case of its operator" in backendbench.read(trace).notes


@pytest.mark.parametrize("name", text.HOSTILE)
def test_a_line_that_says_more_than_data_is_refused_and_never_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"."):
        backendbench.call(text.HOSTILE[name])
    assert not list(tmp_path.iterdir())


def test_a_line_is_data() -> None:
    found = backendbench.call(
        "((T([2, 3], bf16, [1, 2]), [T((0,), 'i64'), None], -inf, torch.bfloat16, 'mean', (True, 2)), "
        "{'device': torch.device('cuda'), 'memory_format': torch.channels_last, 'eps': 1e-05})"
    )
    assert found.args == [
        {"tensor": [[2, 3], "bfloat16", [1, 2]]},
        {"list": [{"tensor": [[0], "int64", None]}, None]},
        {"float": "-inf"},
        {"torch": "bfloat16"},
        "mean",
        {"tuple": [True, 2]},
    ]
    assert found.kwargs == {"device": {"device": True}, "memory_format": {"torch": "channels_last"}, "eps": 1e-5}
    assert (found.tensors, found.elements) == (2, 6)
    assert backendbench.call("(T([4], f32), 2)").args == [{"tensor": [[4], "float32", None]}, 2]  # without keywords


def test_a_line_may_name_strides_and_a_device() -> None:
    found = backendbench.call("((T([2, 3], f16, stride=(1, 2), device='cuda'),), {'device': 'cuda', 'size': 'cuda'})")
    assert found.args == [{"tensor": [[2, 3], "float16", [1, 2]]}]
    assert found.kwargs == {"device": {"device": True}, "size": "cuda"}
    for wrong in ("T([2], f16, [1], stride=[1])", "T([2], f16, size=[1])", "T([2], f16, **{})", "T([2], stride=[1])"):
        with pytest.raises(ValueError, match="not on the list of what a line may say"):
            backendbench.call(f"(({wrong},), {{}})")


def test_lines_of_a_trace_are_cases_with_their_dtypes_and_strides(tmp_path: Path) -> None:
    folder = text.operator(tmp_path, "add__Tensor", plain=text.ADD)
    place = laid_out(tmp_path, backendbench, folder, text.trace(tmp_path))
    target = loaded(place)
    lines = ["line2", "line3", "line4", "line5", "line7"]  # each once
    assert [case.name for case in target.cases] == ["default", "cpu", *lines]
    assert target.case("default").axes == {"line": 1}  # the largest
    found = used(place, *({"line": n} for n in range(5)))
    assert [each["optimized"] for each in found] == [None] * 5
    assert found[1]["inputs"]["t0"][:2] == ["bfloat16", [2048]]  # the stretch that it lies in
    assert found[3]["inputs"]["t1"][:2] == ["float32", [1]]  # a stride of 0
    assert found[3]["truth"][0][:2] == ["float64", [16, 4, 9]]
    assert [each["dtypes"] for each in found] == [["float32"], ["bfloat16"], ["float32"], ["float32"], ["int64"]]
    low, high = min(found[4]["inputs"]["t0"][2]), max(found[4]["inputs"]["t0"][2])
    assert -9 <= low <= high <= 9


def test_an_implementation_that_ignores_a_keyword_is_wrong_where_it_matters(tmp_path: Path) -> None:
    folder = text.operator(tmp_path, "add__Tensor", plain=text.IGNORES_ALPHA)
    place = laid_out(tmp_path, backendbench, folder / "add__Tensor_implementation.py", text.trace(tmp_path))
    without, doubled, *_, whole = used(place, *({"line": n} for n in range(5)))
    assert without["optimized"] is None
    assert "output 0 is not within 0.01" in doubled["optimized"]
    assert whole["optimized"] == "output 0 is not equal"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("add_", "aten.add_ has no overload default; an overload is named as in add___Tensor"),
        ("no_such", "aten has no operator no_such"),
    ],
)
def test_a_folder_that_names_no_operator_is_told_how_one_is_named(tmp_path: Path, name: str, told: str) -> None:
    folder = text.operator(tmp_path, name, plain=f"def {name}_kernel_impl(*args):\n    return args[0]\n")
    place = laid_out(tmp_path, backendbench, folder, folder)
    done = python("import reference", where=place)
    assert done.stderr.strip().endswith(f"LookupError: {told}")


def test_an_operator_that_writes_into_its_argument_gets_a_copy(tmp_path: Path) -> None:
    folder = text.operator(tmp_path, "relu___default", plain=text.RELU)
    signed = text.TRACE.replace("T([33, 5], f32)", "T([8], i64)")
    place = laid_out(tmp_path, backendbench, folder, text.trace(tmp_path, signed))
    (found,) = used(place, {"line": 0})
    given, wanted = found["inputs"]["t0"][2], found["truth"][0][2]
    assert found["optimized"] is None
    assert wanted == [max(value, 0) for value in given]
    assert given != wanted  # shown after the calls


def test_lists_of_tensors_are_carried(tmp_path: Path) -> None:
    cat = (
        "import torch\n\n\ndef cat__default_kernel_impl(tensors, dim=0):\n    return torch.concat(list(tensors), dim)\n"
    )
    folder = text.operator(tmp_path, "cat__default", plain=cat)
    place = laid_out(tmp_path, backendbench, folder, text.trace(tmp_path))
    two, three = used(place, {"line": 0}, {"line": 1})
    assert (two["truth"][0][1], three["truth"][0][1]) == ([6, 3], [2, 8])
    assert (two["optimized"], three["optimized"]) == (None, None)


def test_hostile_lines_are_left_out_with_their_reasons_and_the_others_go_on(tmp_path: Path) -> None:
    lines = "".join(f"cnt: 1, {line}\n" for line in text.HOSTILE.values())
    trace = text.trace(tmp_path, f"Operator: aten.add.Tensor\n{lines}cnt: 1, ((T([2], f32), 1), {{}})\n")
    folder = text.operator(tmp_path, "add__Tensor", plain=text.ADD)
    target = loaded(laid_out(tmp_path, backendbench, folder, trace))
    assert [case.name for case in target.cases] == ["default", "cpu", f"line{len(text.HOSTILE) + 2}"]
    assert "left out: " in target.lesson
    bad = text.trace(tmp_path, f"Operator: aten.add.Tensor\n{lines}", "bad.txt")
    said = told(backendbench, folder, bad)
    assert "bad.txt: : aten.add.Tensor: left out: " in said
    assert "take a trace with a call of the operator" in said


REFUSED = {
    "an operator that is not in the trace": ("mul__Tensor", "aten.mul.Tensor: has no line of it"),
    "one that writes into out": ("add__out", "aten.add.out writes into `out`"),
    "a random one": ("dropout__default", "aten.dropout.default is random"),
    "one without values": ("empty_like__default", "aten.empty_like.default returns memory that nobody has written"),
    "one that grows without values": ("resize___default", "aten.resize_.default returns memory that nobody has"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_operator_that_cannot_be_judged_is_refused(tmp_path: Path, name: str) -> None:
    operator, wanted = REFUSED[name]
    folder = text.operator(tmp_path, operator, plain=f"def {operator}_kernel_impl(): ...\n")
    assert wanted in told(backendbench, folder, text.trace(tmp_path))


def test_a_candidate_that_cannot_be_taken_is_refused(tmp_path: Path) -> None:
    folder = text.operator(tmp_path, "add__Tensor", plain="def add(a, b): ...\n")
    trace = text.trace(tmp_path)
    assert "has no function add__Tensor_kernel_impl" in told(backendbench, folder, trace)
    assert "has no file empty__default_implementation*.py" in told(
        backendbench, text.operator(tmp_path, "empty__default"), trace
    )
    other = text.operator(tmp_path, "relu___default", plain=text.RELU)
    right = text.operator(tmp_path, "add__Tensor", plain=text.ADD)
    said = told(backendbench, right, other)
    assert "is aten.relu_.default, and add__Tensor_implementation.py is aten.add.Tensor" in said


def test_a_trace_of_a_gigabyte_of_one_line_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backendbench, "MAX_TRACE_BYTES", 2**16)
    filler = "cnt: 1, " + "x" * (2**17) + "\n"
    trace = text.trace(tmp_path, "Operator: aten.add.Tensor\n" + filler * 3 + "cnt: 1, ((1,), {})\n")
    opened = backendbench.read(trace)
    assert any("left out: all behind line" in note for note in opened.notes)


# -- what torch says ---------------------------------------------------------------------------------------------------


def test_operators_that_are_refused_for_being_random_are_there() -> None:
    done = python("import torch\nprint(*(each.name for each in torch._C._jit_get_all_schemas()))")
    assert done.returncode == 0, done.stderr
    assert {f"aten::{name}" for name in backendbench.RANDOM} <= set(done.stdout.split())


def test_an_operator_that_returns_a_list_is_judged_as_long_as_it_is(tmp_path: Path) -> None:
    lines = "Operator: aten.split.Tensor\ncnt: 1, ((T([5, 4], f32), 2), {})\ncnt: 1, ((T([4, 4], f32), 2), {})\n"
    folder = text.operator(tmp_path, "split__Tensor", plain=text.SPLIT)
    place = laid_out(tmp_path, backendbench, folder, text.trace(tmp_path, lines))
    three, two = used(place, {"line": 0}, {"line": 1})
    assert [each[1] for each in three["truth"]] == [[2, 4], [2, 4], [1, 4]]
    assert [len(each["truth"]) for each in (three, two)] == [3, 2]
    assert (three["optimized"], two["optimized"]) == (None, None)
    program = "import inputs, baseline, torch\ngiven = inputs.pose({'line': 0}, 'cpu', torch.Generator())\n"
    program += "outputs = baseline.prepare(*given.values())(*given.values())\n"
    program += "print({each.untyped_storage().data_ptr() for each in given.values()}\n"
    program += "      & {each.untyped_storage().data_ptr() for each in outputs})\n"
    assert python(program, where=place).stdout.strip() == "set()", "the operator's are views"


def test_a_running_state_that_an_operator_writes_is_the_same_in_every_call(tmp_path: Path) -> None:
    """Its name does not say that it writes into its arguments; its schema does."""
    line = "(T([4, 3], f32), T([3], f32), T([3], f32), T([3], f32), T([3], f32), True, 0.5, 1e-05)"
    folder = text.operator(tmp_path, "native_batch_norm__default", plain=text.BATCH_NORM)
    trace = text.trace(tmp_path, f"Operator: aten.native_batch_norm.default\ncnt: 1, ({line}, {{}})\n")
    place = laid_out(tmp_path, backendbench, folder, trace)
    program = "import inputs, baseline, torch\ngiven = inputs.pose({'line': 0}, 'cpu', torch.Generator())\n"
    program += "before = given['t3'].clone()\nbaseline.prepare(*given.values())(*given.values())\n"
    done = python(f"{program}print(torch.equal(before, given['t3']))", where=place)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.slow
def test_samples_of_opinfo_are_cases_the_largest_first(tmp_path: Path) -> None:
    folder = text.operator(tmp_path, "max__dim", plain=text.MAXIMA)
    place = laid_out(tmp_path, backendbench, folder, folder)
    target = loaded(place)
    assert len(target.cases) == 2 + backendbench.SAMPLES
    assert len(target.inputs) == 1 + backendbench.SAMPLE_SLOTS
    found = used(place, *({"sample": n} for n in range(6)))
    assert [each["optimized"] for each in found] == [None] * 6
    assert {each["dtypes"][0] for each in found} == {"bfloat16", "float32"}
    assert found[0]["inputs"]["t0"][1] == [5, 5, 5]  # the largest first


def test_listing_operators_imports_nothing_heavy(tmp_path: Path) -> None:
    ops = tmp_path / "ops"
    for number in range(200):
        text.operator(tmp_path, f"op{number}__Tensor", plain="")
    code = (
        "import json, sys\nfrom pathlib import Path\nfrom aisp.kernels.catalog import formats\n"
        "found = list(formats.listed(Path(sys.argv[1])))\n"
        "heavy = [name for name in ('torch', 'numpy', 'msgspec') if name in sys.modules]\n"
        "print(json.dumps([len(found), heavy]))"
    )
    done = subprocess.run([sys.executable, "-c", code, os.fspath(ops)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [200, []]


def test_an_operator_that_draws_without_its_name_saying_so_is_refused_when_it_is_called(tmp_path: Path) -> None:
    answer = "def feature_dropout__default_kernel_impl(*args):\n    return args[0]\n"
    folder = text.operator(tmp_path, "feature_dropout__default", plain=answer)
    line = "Operator: aten.feature_dropout.default\ncnt: 1, ((T([64, 8], f32), 0.5, True), {})\n"
    place = laid_out(tmp_path, backendbench, folder, text.trace(tmp_path, line))
    program = "import inputs, torch\ninputs.pose({'line': 0}, 'cpu', torch.Generator())\n"
    said = python(program, where=place).stderr.strip()
    assert said.endswith("dropout.default draws its values: there is no one right answer; take another operator")
