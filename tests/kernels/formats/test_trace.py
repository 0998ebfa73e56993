"""SOL-ExecBench and FlashInfer trace: what definitions and solutions are made into, and what is said of those that
cannot be taken."""

from __future__ import annotations

import importlib.util
import itertools
import json
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from aisp.kernels import catalog
from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Part, trace, trace_draws, trace_stored
from aisp.kernels.catalog.model import Kind, Target
from aisp.kernels.runtime.trace import decoded, encoded, sum_of_both
from tests.imported import python
from tests.kernels.formats import trace as text
from tests.kernels.formats.trace import laid_out


def made(folder: Path, definition: Path, answer: Mapping[str, Any]) -> Target:
    """The target of the two."""
    found = catalog.load([laid_out(folder, definition, answer)])
    assert not found.problems, found.problems
    return found.targets[0]


def told(folder: Path, definition: Path, answer: Mapping[str, Any] | None = None) -> str:
    """What is said of a pair that cannot be taken."""
    parts = trace.against(text.written_to(folder / "answers", answer or text.solution()), definition)
    assert not parts.files
    return "\n".join(f"{each.path.name}: {each.key}: {each.message}; {each.fix}" for each in parts.problems)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of a target's folder, as the verifier does."""
    before = set(sys.modules)

    def load(place: Path, name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(place))
        spec = importlib.util.spec_from_file_location(name, place / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in set(sys.modules) - before:
        if name.startswith("aisp_"):
            del sys.modules[name]


# -- recognised and listed ---------------------------------------------------------------------------------------------


def test_a_path_is_recognised_by_names_and_keys(tmp_path: Path) -> None:
    definition, other = text.sol(tmp_path / "sol"), text.flashinfer(tmp_path / "data")
    answer = text.written_to(tmp_path, text.solution())
    noise = text.written_to(tmp_path, {"axes": 1}, "package.json")
    wanted = {
        definition: Part.PROBLEM,
        definition.parent: Part.PROBLEM,
        other: Part.PROBLEM,
        answer: Part.CANDIDATE,
        tmp_path / "sol": Part.COLLECTION,
        tmp_path / "data": Part.COLLECTION,
        noise: None,
        tmp_path / "data" / "workloads": None,
    }
    assert {path: trace.part(path) for path in wanted} == wanted
    assert formats.recognise(answer) == (trace, Part.CANDIDATE)


def test_a_definition_that_quotes_a_solution_is_a_definition(tmp_path: Path) -> None:
    quoting = text.definition(description='a solution has {"entry_point": "x", "sources": []}')
    assert trace.part(text.sol(tmp_path, quoting)) is Part.PROBLEM


def test_a_broken_problem_is_listed_with_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    text.sol(tmp_path / "sol")
    (tmp_path / "sol" / "L1" / "alone").mkdir()
    (tmp_path / "sol" / "L1" / "alone" / "definition.json").write_text("{")
    found = {each.name: each.reason for each in trace.collection(tmp_path / "sol")}
    assert found == {"alone": "there is no workload.jsonl beside it", "gated_norm_h32": ""}
    text.flashinfer(tmp_path / "data")
    (tmp_path / "data" / "definitions" / "norm" / "other.json").write_text("{}")
    listed = {each.name: each.reason for each in trace.collection(tmp_path / "data")}
    assert listed == {"gated_norm_h32": "", "other": "there is no workloads/**/other.jsonl"}
    assert len(list(trace.collection(tmp_path))) == 4  # both, each once


def test_listing_opens_no_file_and_imports_no_torch(tmp_path: Path) -> None:
    for number in range(200):
        place = tmp_path / f"L{number % 4}" / f"task_{number}"
        place.mkdir(parents=True)
        for name in ("definition.json", "workload.jsonl"):
            (place / name).write_text("{}")
    code = (
        "import sys, builtins, os\n"
        "from pathlib import Path\n"
        "from aisp.kernels.catalog.formats import trace\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None)\n"
        f"found = list(trace.collection(Path({str(tmp_path)!r})))\n"
        "print(len(found), len(opened), 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", "0", "False"]


# -- what they are made into -------------------------------------------------------------------------------------------


def test_a_definition_with_every_kind_of_input_is_a_target(tmp_path: Path) -> None:
    target = made(tmp_path, text.sol(tmp_path), text.solution())
    assert [case.name for case in target.cases] == ["default", "cpu", "22222222", "33333333"]
    assert target.case("33333333").axes == {"hidden": 32, "inner": 48, "rows": 56, "workload": 2}
    assert [(spec.name, spec.posed, spec.made) for spec in target.inputs][-3:] == [
        ("bias", True, False),
        ("mask", True, False),
        ("eps", False, True),
    ]
    assert catalog.shape(target.outputs[0], target.case("default").axes) == (40 * 48,)  # the expr axis
    assert target.outputs[1].dims == ()
    assert target.rule is not None
    assert target.rule.name.startswith("SOL-ExecBench: error within 0.01 + 0.01")
    assert "sha256" in target.lesson


def test_the_case_for_a_cpu_is_the_first_workload_that_is_small_where_sizes_are_fixed(tmp_path: Path) -> None:
    rows = [text.custom("1-large", 100_000), text.custom("2-small", 24, eps=0.5), text.custom("3-tiny", 8)]
    problem = text.sol(tmp_path, workloads=rows)
    target = made(tmp_path, problem, text.solution())
    assert (
        target.case("cpu").axes == target.case("2-small").axes == {"hidden": 32, "inner": 48, "rows": 24, "workload": 1}
    )
    assert "--case 2-small: rows=24, eps=0.5" in trace.read(problem).notes
    assert trace.read(text.sol(tmp_path / "large", workloads=rows[:1])).cpu is None


def test_random_inputs_are_lines_and_a_number_that_all_share_is_written_into_the_call(tmp_path: Path) -> None:
    rows = [text.workload(f"{number}-plain", 16 * number) for number in (1, 2, 5)]
    definition = text.sol(tmp_path, workloads=rows)
    target = made(tmp_path, definition, text.solution())
    lines = {spec.name: (spec.distribution, spec.arguments) for spec in target.inputs}
    assert lines == {
        "x": ("normal", ("0", "1")),
        "proj_weight": ("normal", ("0", "max(1, hidden) ** -0.5")),
        "norm_weight": ("ones", ()),
        "bias": ("normal", ("0", "1")),
        "mask": ("bernoulli", ("0.5",)),
    }
    assert target.fuzz.axes["rows"].values == (16, 32, 80)  # what any solution must be able to do
    assert "aisp_theirs(x, proj_weight, norm_weight, bias, mask, 1e-05" in (target.folder / "optimized.py").read_text()
    assert "inputs.py" not in target.files


def test_flashinfer_draws_by_type_alone_and_sol_by_name(tmp_path: Path) -> None:
    inputs = {
        "attention_mask": {"shape": ["N", "N"], "dtype": "float32"},
        "cos": {"shape": ["N"], "dtype": "float32"},
        "A_log": {"shape": ["N"], "dtype": "float32"},
        "A_cumsum": {"shape": ["N"], "dtype": "float32"},
        "attn_weights": {"shape": ["N", "N"], "dtype": "float16"},
        "input_layernorm_weight": {"shape": ["N"], "dtype": "float32"},
        "rstd": {"shape": ["N"], "dtype": "float32"},
        "low": {"shape": ["N"], "dtype": "float8_e4m3fn"},
        "index": {"shape": ["N"], "dtype": "int8"},
        "flag": {"shape": ["N"], "dtype": "bool"},
    }
    names = ", ".join(inputs)
    written = {
        "name": "named",
        "axes": {"N": {"type": "var"}},
        "inputs": inputs,
        "outputs": {"y": {"shape": ["N"], "dtype": "float32"}},
        "reference": f"def run({names}):\n    return cos\n",
    }
    row = {"uuid": "one", "axes": {"N": 8}, "inputs": {}}
    sol = trace.read(text.sol(tmp_path / "sol", written, [row])).inputs
    assert {name: line.split("] ")[1] for name, line in sol.items()} == {
        "attention_mask": "posed",
        "cos": "uniform(-1, 1)",
        "A_log": "uniform(-5, -1)",
        "A_cumsum": "posed",
        "attn_weights": "posed",
        "input_layernorm_weight": "ones",
        "rstd": "uniform(0.1, 3)",
        "low": "normal",
        "index": "integers(-128, 128)",
        "flag": "bernoulli(0.5)",
    }
    traces = [{"definition": "named", "workload": row, "solution": None, "evaluation": None}]
    plain = trace.read(text.sol(tmp_path / "data", written, traces))
    assert {line.split("] ")[1] for name, line in plain.inputs.items() if name not in ("index", "flag")} == {"normal"}
    assert plain.title == "named, of FlashInfer-Bench"


def test_posed_inputs_are_what_a_workload_says_and_its_file_holds(tmp_path: Path, loaded: Any) -> None:
    place = laid_out(tmp_path, text.sol(tmp_path), text.solution())
    inputs = loaded(place, "inputs")
    generator = torch.Generator().manual_seed(3)
    sizes = {"hidden": 32, "inner": 48}
    drawn, stored, custom = (
        inputs.pose(sizes | {"rows": rows, "workload": number}, "cpu", generator)
        for number, rows in enumerate((40, 24, 56))
    )
    assert torch.equal(drawn["norm_weight"], torch.ones(48, dtype=torch.bfloat16))
    assert 0.5 < float(drawn["proj_weight"].float().std()) * 32**0.5 < 1.5
    assert torch.allclose(stored["bias"], torch.tensor([i / 7 - 3 for i in range(48)]))
    assert (custom["x"].shape, custom["mask"].dtype) == ((56, 32), torch.bool)
    assert float(custom["norm_weight"].float().std()) > 0
    assert [inputs.make(sizes | {"rows": 1, "workload": n}, "cpu", generator)["eps"] for n in range(3)] == [
        1e-5,
        0.5,
        1e-5,
    ]
    blob = next(tmp_path.rglob("bias.safetensors"))
    blob.write_bytes(blob.read_bytes() + b"x")
    with pytest.raises(ValueError, match="not what it was"):
        inputs.pose(sizes | {"rows": 24, "workload": 1}, "cpu", generator)


def test_a_number_that_the_definition_s_own_code_makes_is_posed_with_its_tensors(tmp_path: Path, loaded: Any) -> None:
    rows = [text.random_lines(f"{number}-own", 8, "x", "scale", "shift", kind="custom") for number in (1, 2)]
    rows.append(text.random_lines("3-given", 8, "x", "scale", "shift"))
    rows[2]["inputs"]["scale"] = {"type": "scalar", "value": 0.1}
    target = made(tmp_path, text.sol(tmp_path, text.scaled(), rows), text.solution(text.SCALED_RIGHT))
    found = {spec.name: (spec.dtype, spec.posed, {flag.value for flag in spec.flags}) for spec in target.inputs}
    assert found == {
        "x": ("float32", True, set()),
        "scale": ("float64", True, {"cpu"}),  # as Python has it
        "shift": ("int64", True, {"cpu"}),
    }
    inputs = loaded(target.folder, "inputs")
    generator = torch.Generator().manual_seed(1)
    sizes = {"rows": 8, "hidden": 32, "inner": 48}
    one, other, given = (inputs.pose(sizes | {"workload": n}, "cpu", generator) for n in range(3))
    assert one["scale"].item() == one["x"].abs().max().item() / 6 != other["scale"].item()
    assert (one["shift"].item(), given["scale"].item()) == (3, 0.1)
    answered = loaded(target.folder, "optimized").run(**one)
    assert torch.equal(answered, loaded(target.folder, "baseline").run(**one))
    assert loaded(target.folder, "rule").judge(one, (answered,), ()) is None


def test_the_truth_is_in_fp64_whatever_the_reference_casts_to(tmp_path: Path, loaded: Any) -> None:
    place = laid_out(tmp_path, text.sol(tmp_path), text.solution())
    reference = loaded(place, "reference")
    generator = torch.Generator().manual_seed(1)
    x, weight = (torch.randn(size, 32, generator=generator).bfloat16() for size in (40, 48))
    given = (weight.new_ones(48), torch.zeros(48), torch.ones(40, 48).bool())
    lifted = [value.double() if value.is_floating_point() else value for value in (x, weight, *given)]
    truth, total = reference.run(*lifted, 1e-5)
    wide = x.double() @ weight.double().t()
    wanted = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    assert (truth.dtype, total.dtype) == (torch.float64, torch.float64)
    assert torch.allclose(truth, wanted.reshape(-1), rtol=1e-12)
    own, _ = reference.run(x, weight, *given, 1e-5)
    assert own.dtype == torch.bfloat16
    assert torch.get_default_dtype() is torch.float32


def test_a_reference_that_cannot_be_had_in_fp64_is_the_truth_in_its_own_dtypes(
    tmp_path: Path, loaded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = text.REFERENCE.replace("    wide =", "    assert x.dtype == torch.bfloat16\n    wide =", 1)
    place = laid_out(tmp_path, text.sol(tmp_path, text.definition(reference=strict)), text.solution())
    reference = loaded(place, "reference")
    ones = [torch.ones(size, dtype=torch.float64) for size in ((40, 32), (48, 32), (48,), (48,))]
    truth, _ = reference.run(*ones, torch.ones(40, 48).bool(), 1e-5)
    assert truth.dtype == torch.float64
    assert float(truth[0]) == pytest.approx(2.0)
    assert "does not compute in float64" in capsys.readouterr().out


def test_a_reference_that_reads_bits_is_not_lifted(tmp_path: Path, loaded: Any) -> None:
    reads = "import torch\n\n\ndef run(x):\n    return (x.view(torch.int16) & -16).view(torch.bfloat16) * 1.5\n"
    written = text.definition(
        inputs={"x": text.INPUTS["x"]}, outputs={"y": text.INPUTS["x"]}, reference=reads, custom_inputs_entrypoint=None
    )
    place = laid_out(tmp_path, text.sol(tmp_path, written, text.WORKLOADS[:1]), text.solution(reads))
    x = torch.randn(40, 32).bfloat16()
    truth = loaded(place, "reference").run(x.double())
    assert truth.dtype == torch.float64
    assert torch.equal(truth.bfloat16(), loaded(place, "baseline").run(x))


@pytest.mark.parametrize("source", [text.RIGHT, text.RETURNING], ids=["into its outputs", "returned by name"])
def test_a_solution_is_called_as_it_says(tmp_path: Path, loaded: Any, source: str) -> None:
    place = laid_out(tmp_path, text.sol(tmp_path), text.solution(source))
    optimized, baseline = loaded(place, "optimized"), loaded(place, "baseline")
    given = [torch.randn(40, 32).bfloat16(), torch.randn(48, 32).bfloat16(), torch.ones(48).bfloat16()]
    given += [torch.randn(48), torch.rand(40, 48) > 0.5]
    found, wanted = (module.run(*(value.clone() for value in given), 1e-5) for module in (optimized, baseline))
    for one, other in zip(found, wanted, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert torch.allclose(one.float(), other.float(), rtol=2e-2, atol=2e-2)
    assert (place / "optimized.py").read_text().startswith(source)  # lines keep their numbers, and a diff shows it


def test_an_output_as_large_as_an_input_is_allocated_though_no_input_has_the_axes_of_which_both_are_made(
    tmp_path: Path, loaded: Any
) -> None:
    axes = {"batch": {"type": "var"}, "length": {"type": "var"}, "hidden": {"type": "const", "value": 32}}
    expressions = {"rows": "batch * length", "doubled": "2 * rows"}
    axes |= {name: {"type": "expr", "expression": each} for name, each in expressions.items()}
    written = text.definition(
        axes=axes,
        inputs={"x": {"shape": ["rows", "hidden"], "dtype": "float32"}},
        outputs={"y": {"shape": ["hidden", "rows"], "dtype": "float32"}},
        reference="def run(x):\n    return x.t() * 2\n",
        custom_inputs_entrypoint=None,
    )
    row = {"uuid": "one", "axes": {"batch": 3, "length": 5}, "inputs": {}}
    answer = text.solution("def run(x, y):\n    y.copy_(x.t() * 2)\n", spec={"destination_passing_style": True})
    x = torch.randn(15, 32)
    optimized = loaded(laid_out(tmp_path, text.sol(tmp_path, written, [row]), answer), "optimized")
    assert torch.equal(optimized.run(x), x.t() * 2)
    written["outputs"]["y"]["shape"] = ["doubled", "hidden"]
    assert "no input has the axis" in told(tmp_path, text.sol(tmp_path, written, [row]), answer)


def test_an_output_of_a_call_without_a_tensor_is_allocated_on_the_gpu_of_the_run(
    tmp_path: Path, loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = text.definition(
        axes={"inner": text.AXES["inner"]},
        inputs={"base": {"shape": None, "dtype": "float32"}},
        outputs={"y": text.INPUTS["bias"]},
        reference="import torch\n\n\ndef run(base):\n    return base ** -torch.linspace(0, 1, 48)\n",
        custom_inputs_entrypoint=None,
    )
    rows = [{"uuid": f"{n}", "axes": {}, "inputs": {"base": {"type": "scalar", "value": 10.0**n}}} for n in (1, 2)]
    answer = text.solution(
        "import torch\n\n\ndef run(base, y):\n    y.copy_(base ** -torch.linspace(0, 1, 48))\n",
        spec={"destination_passing_style": True},
    )
    optimized = loaded(laid_out(tmp_path, text.sol(tmp_path, written, rows), answer), "optimized")
    assert float(optimized.run(10.0)[-1]) == pytest.approx(0.1)
    asked: list[str] = []

    def empty(shape: tuple[int, ...], *, dtype: torch.dtype, device: str) -> torch.Tensor:
        asked.append(device)
        return torch.ones(shape, dtype=dtype)

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    optimized.run(10.0)
    assert asked == ["cuda"]


def test_a_reference_that_says_cuda_needs_a_gpu(tmp_path: Path) -> None:
    assert "cpu" in {
        case.name for case in made(tmp_path / "plain", text.sol(tmp_path / "plain"), text.solution()).cases
    }
    written = text.definition(
        reference=text.REFERENCE.replace("torch.zeros_like(normed)", "torch.zeros(1, device='cuda')")
    )
    problem = text.sol(tmp_path, written)
    target = made(tmp_path, problem, text.solution())
    assert (target.needs.gpus, "cpu" in {case.name for case in target.cases}) == (1, False)
    opened = trace.read(problem)
    assert opened.cpu is None
    assert 'its reference says "cuda": it cannot run without a GPU' in opened.notes
    tried = text.REFERENCE + '\n\nif __name__ == "__main__":\n    print(run(torch.ones(1, device="cuda:0")))\n'
    assert trace.read(text.sol(tmp_path / "tried", text.definition(reference=tried))).cpu is not None


def test_several_sources_lie_in_a_folder_of_their_own(tmp_path: Path, loaded: Any) -> None:
    sources = [
        {"path": "src/main.py", "content": "from .parts import twice\nfrom whole import once\n\n\ndef fast(x):\n"},
        {"path": "src/parts.py", "content": "def twice(x):\n    return x * 2\n"},
        {"path": "whole.py", "content": "def once(x):\n    return x\n"},
        {"path": "README.md", "content": "nothing"},
    ]
    sources[0]["content"] += "    return once(twice(x))\n"
    answer = text.solution(sources=sources, spec={"entry_point": "src/main.py::fast"})
    answer["spec"]["destination_passing_style"] = False
    written = text.definition(
        inputs={"x": text.INPUTS["x"]},
        outputs={"y": text.INPUTS["x"]},
        reference="def run(x):\n    return x + x\n",
        custom_inputs_entrypoint=None,
    )
    target = made(tmp_path, text.sol(tmp_path, written, text.WORKLOADS[:1]), answer)
    assert {name for name in target.files if "/" in name} == {
        "aisp_answer/src/main.py",
        "aisp_answer/src/parts.py",
        "aisp_answer/whole.py",
    }
    assert "left out of its sources: README.md" in target.lesson
    x = torch.ones(2, 32)
    assert torch.equal(loaded(target.folder, "optimized").run(x), x * 2)


def test_triton_is_seen_and_cuda_needs_a_gpu(tmp_path: Path) -> None:
    definition = text.sol(tmp_path)
    triton = "import triton\n" + text.RIGHT
    assert (
        made(tmp_path / "a", definition, text.solution(triton, spec={"languages": ["triton"]})).rung("optimized").kind
        is Kind.TRITON
    )
    spec = {
        "languages": ["cuda_cpp"],
        "entry_point": "kernel.cu::run",
        "binding": "torch",
        "compile_options": {"cuda_cflags": ["-O2"]},
    }
    sources = [{"path": "kernel.cu", "content": "// of ours\n"}, {"path": "bind.cc", "content": "// of ours\n"}]
    target = made(tmp_path / "b", definition, text.solution(sources=sources, spec=spec))
    rung = target.rung("optimized")
    assert (rung.kind, rung.gpu_only, rung.needs.gpus) == (Kind.CUDA, True, 1)
    glue = (target.folder / "optimized.py").read_text()
    assert "'aisp_answer', 'torch', ['kernel.cu', 'bind.cpp'], ((), ('-O2',), ('-lcuda',)))" in glue


@pytest.mark.parametrize("how", text.WRITING)
def test_what_the_reference_writes_into_is_seen_and_no_text_of_it_read(tmp_path: Path, loaded: Any, how: str) -> None:
    place = laid_out(tmp_path, text.sol(tmp_path, text.scaling(how), text.WORKLOADS[:1]), text.solution(text.TENTH))
    given = {"x": torch.randn(40, 32), "y": torch.ones(40, 32)}
    before = given["x"].clone()
    assert loaded(place, "rule").writes(given, "cpu") == (["x"] if text.WRITING[how][1] else [])
    assert torch.equal(given["x"], before)


def test_where_the_reference_fails_nothing_is_seen_and_its_error_shows_elsewhere(tmp_path: Path, loaded: Any) -> None:
    written = text.scaling("by a helper function")
    written["reference"] += "    raise ValueError('of its own')\n"
    written["reference"] = written["reference"].replace("return", "z =")
    rule = loaded(
        laid_out(tmp_path, text.sol(tmp_path, written, text.WORKLOADS[:1]), text.solution(text.TENTH)), "rule"
    )
    given = {"x": torch.randn(40, 32), "y": torch.ones(40, 32)}
    assert rule.writes(given, "cpu") == []
    with pytest.raises(ValueError, match="of its own"):
        rule.reference(given)


def test_an_input_that_a_call_writes_into_is_handed_back_and_a_view_of_another_is_copied(
    tmp_path: Path, loaded: Any
) -> None:
    square = {"shape": ["rows", "hidden"], "dtype": "float32"}
    written = text.definition(
        inputs=dict.fromkeys("abcde", square),
        outputs={"y": square, "z": {"shape": ["hidden", "rows"], "dtype": "float32"}},
        custom_inputs_entrypoint=None,
        reference=(
            "import torch\n\n\ndef run(a, b, c, d, e):\n"
            "    a.add_(1)\n    torch.add(a, b, out=d.view(-1).view(d.shape))\n    c.clone().mul_(3)\n"
            "    return a, e.t()\n"
        ),
    )
    target = made(tmp_path, text.sol(tmp_path, written, text.WORKLOADS[:1]), text.solution(written["reference"]))
    assert not any(spec.flags for spec in target.inputs)
    baseline = loaded(target.folder, "baseline")
    given = [torch.ones(3, 2) for _ in range(5)]
    baseline.run(*(torch.ones(0, 2) for _ in range(5)))  # of which nothing can be seen
    for _ in range(2):
        first, second = baseline.run(*given)
        assert first is given[0]
        assert second.untyped_storage().data_ptr() != given[4].untyped_storage().data_ptr()
        assert torch.equal(second, given[4].t())
        assert second.is_contiguous()


def test_what_is_compiled_needs_a_name_and_no_file(tmp_path: Path) -> None:
    sources = [{"path": "kernel.cu", "content": "// of ours\n"}]
    spec = {"language": "cuda", "entry_point": "benchmark_kernel::run", "binding": "torch"}
    written = text.solution_for_flashinfer(sources=sources)
    written["spec"] |= spec
    target = made(tmp_path, text.sol(tmp_path), written)
    assert "aisp_theirs.run(" in (target.folder / "optimized.py").read_text()
    written["sources"] = [{"path": "kernel.h", "content": "// of ours\n"}]
    assert "there is nothing to compile" in told(tmp_path / "other", text.sol(tmp_path), written)


# -- the rule of the benchmark -----------------------------------------------------------------------------------------


SAYS = {
    "right": (None, None),
    "slightly wrong": ("of the elements match", "of the elements match"),
    "zeros": ("it is zero everywhere", "of the elements match"),
    "nan": ("not finite", "not finite"),
    "another dtype": ("is torch.float32, not torch.bfloat16", "is torch.float32, not torch.bfloat16"),
    "forgets the bias": ("of the elements match", "of the elements match"),
    "one in 200 is far off": (None, "of the elements match"),
}
"""What SOL-ExecBench's rule and FlashInfer's say of an answer."""


@pytest.mark.parametrize(("name", "dialect"), itertools.product(SAYS, (0, 1)))
def test_the_rule_is_the_benchmarks(tmp_path: Path, loaded: Any, name: str, dialect: int) -> None:
    source = {**text.ANSWERS, "one in 200 is far off": text.OUTLIERS}[name]
    if dialect == 0:
        place = laid_out(tmp_path, text.sol(tmp_path), text.solution(source))
    else:
        place = laid_out(tmp_path, text.flashinfer(tmp_path), text.solution_for_flashinfer(source))
    rule, optimized = loaded(place, "rule"), loaded(place, "optimized")
    generator = torch.Generator().manual_seed(5)
    given: dict[str, Any] = {
        "x": torch.randn(40, 32, generator=generator).bfloat16(),
        "proj_weight": torch.randn(48, 32, generator=generator).bfloat16(),
        "norm_weight": torch.randn(48, generator=generator).bfloat16(),
        "bias": torch.randn(48, generator=generator),
        "mask": torch.rand(40, 48, generator=generator).flatten() > 0.5,
        "eps": 1e-5,
    }
    given["mask"] = given["mask"] if dialect else given["mask"].reshape(40, 48)
    said = rule.judge(given, optimized.run(*given.values()), ())
    wanted = SAYS[name][dialect]
    assert (said is None) is (wanted is None), said
    assert wanted is None or wanted in said


def test_a_workload_is_known_by_sizes_that_are_expressions_of_its_axes(tmp_path: Path, loaded: Any) -> None:
    axes = {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 32}}
    written = text.definition(
        axes=axes | {"rows": {"type": "expr", "expression": "batch * 8"}},
        inputs={"x": {"shape": ["rows", "hidden"], "dtype": "float32"}},
        outputs={"y": {"shape": ["rows", "hidden"], "dtype": "float32"}},
        reference="def run(x):\n    return x * 2\n",
        custom_inputs_entrypoint=None,
    )
    rows = [
        {"uuid": f"{batch}", "axes": {"batch": batch}, "inputs": {}, "tolerance": {"max_atol": atol, "max_rtol": 0.0}}
        for batch, atol in ((1, 1e-6), (2, 1e-3))
    ]
    rule = loaded(
        laid_out(tmp_path, text.sol(tmp_path, written, rows), text.solution("def run(x):\n    return x\n")), "rule"
    )
    for batch, right in ((1, False), (2, True)):
        x = torch.ones(8 * batch, 32)
        assert (rule.judge({"x": x}, (x * 2 + 1e-4,), ()) is None) is right


def test_a_cap_and_minus_infinity_are_as_the_workload_says(tmp_path: Path, loaded: Any) -> None:
    tolerance = {"max_atol": 1e-3, "max_error_cap": 10.0, "allow_negative_inf": True}
    rows = [{**text.workload("one", 40), "tolerance": tolerance}, text.workload("two", 24)]
    rule = loaded(laid_out(tmp_path, text.sol(tmp_path, workloads=rows), text.solution()), "rule")
    capped, (usual,) = rule.USUAL, rule.ALLOWED.values()
    assert (capped.absolute, capped.cap, usual.cap) == (1e-3, 10.0, None)
    truth = torch.ones(1000)
    output = truth.clone()
    output[3] += 50
    assert not sum_of_both(output, truth, usual)
    assert "above 10" in sum_of_both(output, truth, capped)
    output[3] = truth[3] = -torch.inf
    assert not sum_of_both(output, truth, capped)
    assert "not finite" in sum_of_both(output, truth, usual)


def test_what_a_workload_says_of_right_and_wrong_that_the_benchmark_does_not_read_is_told_once(tmp_path: Path) -> None:
    tolerance = {"max_atol": 1e-3, "required_match_ratio": 0.9, "_remark": "of ours"}
    rows = [{**text.workload(f"{n}", 40), "tolerance": tolerance, "checks": [{"type": "exact"}]} for n in (1, 2)]
    opened = trace.read(text.sol(tmp_path, workloads=rows))
    said = "checks, tolerance.required_match_ratio of a workload is not read: SOL-ExecBench has no such key"
    assert opened.notes.count(said) == 1
    plan = trace.plan(trace.text(opened.path))
    assert {(each.tolerance.absolute, each.tolerance.matched) for each in plan.definition.workloads} == {(1e-3, 0.99)}


# -- what cannot be taken ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"reference": "def run(:"}, "definition.json: reference, line 1: not Python"),
        ({"reference": "def other(): pass"}, "it has no function run"),
        ({"reference": "def run(x): return x"}, "run takes x, and the inputs are x, proj_weight"),
        ({"custom_inputs_entrypoint": "absent"}, "the reference has no function absent"),
        ({"op_type": "sampling"}, "is judged by the input probs, and it has none"),
        ({"op_type": "sampling"}, "is judged by one output, the places of tokens"),
        ({"axes": {**text.AXES, "flat": {"type": "expr", "expression": "__import__('os')"}}}, "axes.flat: "),
        ({"axes": {**text.AXES, "flat": {"type": "expr", "expression": "flat + 1"}}}, "flat is made of itself"),
        ({"axes": {**text.AXES, "flat": {"type": "expr", "expression": "9**9**9"}}}, "there is none that can be taken"),
        ({"outputs": {"x": {"shape": ["flat"], "dtype": "float32"}}}, "outputs.x: an input has that name"),
        ({"outputs": {"y": {"shape": ["flut"], "dtype": "float32"}}}, "'flut' is no axis"),
        ({"outputs": {"y": {"shape": [], "dtype": "float4_e2m1"}}}, "two 4-bit floats share a byte"),
        ({"inputs": text.INPUTS | {"bias": {"shape": ["inner"], "dtype": "float4_e2m1"}}}, "from one source"),
        ({"outputs": {"y": {"shape": ["flat"], "dtype": "f32"}}}, "unknown dtype 'f32'"),
        ({"inputs": {"in": text.INPUTS["x"]}}, "'in' cannot name an argument"),
        ({"inputs": []}, "it is a list, not an object"),
        ({"name": ""}, "definition.json: name: "),
    ],
)
def test_a_definition_that_is_none_is_told_by_its_key(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    assert said in told(tmp_path, text.sol(tmp_path, text.definition(**changed)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"definition": "another"}, "it answers 'another', and the problem is 'gated_norm_h32'"),
        ({"spec": {"entry_point": "main.py"}}, "names no function"),
        ({"spec": {"entry_point": "main.py::absent"}}, "main.py has no function absent"),
        ({"spec": {"entry_point": "other.py::run"}}, "there is no source 'other.py'"),
        ({"spec": {"languages": ["cobol"]}}, "unknown language 'cobol'"),
        ({"spec": {"languages": ["triton", "cuda_cpp"]}}, "are Python and C++ at once"),
        ({"spec": {"languages": ["tilelang"]}}, "tilelang needs the module tilelang, which is not installed here"),
        ({"spec": {"languages": ["cutlass"], "entry_point": "a.cu::f"}}, "needs headers that aisp does not bring"),
        ({"sources": [{"path": "../main.py", "content": ""}]}, "leads out of the solution"),
        ({"sources": [{"path": "/main.py", "content": ""}]}, "leads out of the solution"),
        ({"sources": [{"path": "main.py", "content": "def run("}]}, "main.py, line 1: not Python"),
        ({"sources": "main.py"}, "sources: it is no list of files"),
        ({"sources": [{"path": "main.py"}]}, "sources[0]: 'main.py' has no content"),
        ({"sources": ["main.py"]}, "sources[0]: it has no path and content"),
    ],
)
def test_a_solution_that_is_none_is_told_by_its_key(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    answer = text.solution(**changed)
    if answer["spec"]["entry_point"].endswith("::f"):
        answer["sources"] = [{"path": "a.cu", "content": "//"}]
    assert said in told(tmp_path, text.sol(tmp_path), answer)


def test_a_binding_is_torch_s_or_tvm_ffi_s_where_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition, answer = text.sol(tmp_path, text.doubling(), text.WORKLOADS[:1]), text.doubling_in_cpp()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    target = made(tmp_path / "a", definition, answer)
    assert "'aisp_answer', 'tvm-ffi', ['k/fast.cpp'], " in (target.folder / "optimized.py").read_text()
    assert not target.rung("optimized").gpu_only  # C++ alone runs anywhere
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "the module tvm_ffi is not installed here; pip install 'aisp[tvm-ffi]'" in told(tmp_path, definition, answer)
    answer["spec"]["binding"] = "nanobind"
    assert "unknown binding 'nanobind'; use torch or tvm-ffi" in told(tmp_path, definition, answer)


def test_what_a_language_needs_is_looked_for_without_importing_its_parents() -> None:
    code = (
        "import sys\n"
        "from aisp.kernels.catalog.formats.trace_solution import _installed\n"
        "names = ('wsgiref.util', 'wsgiref.nothing', 'no_such.package', 'triton.language.extra.tlx')\n"
        "print([_installed(name) for name in names][:3], {'wsgiref', 'triton'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, False, False] set()\n"


def test_outputs_of_a_size_that_no_input_has_cannot_be_allocated(tmp_path: Path) -> None:
    axes = text.AXES | {"flat": {"type": "var"}}
    row = text.workload("one", 4)
    row["axes"]["flat"] = 9
    problem = text.sol(tmp_path, text.definition(axes=axes), [row])
    assert "no input has the axis flat" in told(tmp_path, problem)
    made(tmp_path, problem, text.solution(text.RETURNING))


def test_a_broken_workload_is_left_out_with_its_reason_and_the_others_stay(tmp_path: Path) -> None:
    stored = {**text.STORED, "tensor_key": "absent"}
    rows: list[Any] = [
        text.workload("good", 40),
        {"uuid": "none", "axes": {}, "inputs": {}},
        {"uuid": "text", "axes": {"rows": "40"}, "inputs": {}},
        text.workload("kind", 4, x={"type": "magic"}),
        text.workload("mix", 4, x={"type": "custom"}),
        text.workload("scalar", 4, eps={"type": "scalar", "value": "1"}),
        text.workload("key", 4, bias=stored),
        text.workload("out", 4, bias={**text.STORED, "path": "../../../../../../../../etc/passwd"}),
        text.workload("gone", 4, bias={**text.STORED, "path": "blob/gone.safetensors"}),
        [],
    ]
    definition = text.sol(tmp_path, workloads=rows)
    with (definition.parent / "workload.jsonl").open("a") as file:
        file.write('{"uuid": NaN}\n\n')
    opened = trace.read(definition)
    assert not opened.problems
    said = "\n".join(note for note in opened.notes if "left out" in note)
    for part in (
        "(line 2, none): it does not size rows",
        "(line 3, text): the axis rows is a text",
        "(line 4, kind): the input x is 'magic', none of random, scalar, safetensors, custom",
        "(line 5, mix): some of its inputs are custom and some are not",
        "(line 6, scalar): the scalar eps is a text, not a number",
        "(key): bias.safetensors has no tensor 'absent' (there is: other, bias)",
        "(out): ../../../../../../../../etc/passwd leads out of",
        "(gone): there is no blob/gone.safetensors",
        "(line 10): it is a list, not an object",
        "(line 11): not JSON: NaN is no number",
    ):
        assert part in said, said


def test_a_case_is_called_after_as_much_of_its_uuid_as_tells_it_from_all_others(tmp_path: Path) -> None:
    long = "x" * 70
    given = (
        "6120f144-aa",
        "op_on_bf16-w1",
        "op_on_bf16-w2",
        "short",
        "default",
        "twice",
        "twice",
        f"{long}1",
        f"{long}2",
    )
    problem = text.sol(tmp_path, workloads=[text.workload(uuid, 40) for uuid in given])
    assert [found.case for found in trace.plan(trace.text(problem)).definition.workloads] == [
        *("6120f144", "op_on_bf16-w1", "op_on_bf16-w2", "short", "default-0"),
        *("twice", "twice-0", "x" * 60, "x" * 50 + "-0"),
    ]


def test_what_is_nested_without_end_where_nobody_reads_it_is_left_out(tmp_path: Path) -> None:
    problem = text.sol(tmp_path, None, [text.workload("11111111-aaaa", 40, x={"type": "random", "value": "DEEP"})])
    rows = problem.with_name("workload.jsonl")
    rows.write_text(rows.read_text().replace('"DEEP"', "[" * 900 + "]" * 900))
    (found,) = trace.plan(trace.text(problem)).definition.workloads
    assert found.written["inputs"]["x"] == {"type": "random"}
    made(tmp_path, problem, text.solution())


def test_a_flood_of_workloads_is_bounded(tmp_path: Path) -> None:
    many = [text.workload(f"{number:08}", 8 + number) for number in range(400)]
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"more": deep}
    many[0]["inputs"]["x"]["more"] = many[0]["more"] = deep
    definition = text.sol(tmp_path, workloads=many)
    with (definition.parent / "workload.jsonl").open("a") as file:
        file.write("x\n" * 30_000)
    opened = trace.read(definition)
    said = [note for note in opened.notes if not note.startswith("--case")]
    assert "of 400 workloads the first 248 are taken" in said
    assert len(said) < 60
    assert "more workloads are left out" in said
    target = made(tmp_path, definition, text.solution())
    assert len(target.cases) == 249
    assert "more" not in (target.folder / "aisp_workloads.py").read_text()


def test_why_no_workload_can_be_taken_is_told_however_many_constraints_are_not_checked(tmp_path: Path) -> None:
    written = text.definition(constraints=[f"x.shape[{number}] == hidden" for number in range(60)])
    said = told(tmp_path, text.sol(tmp_path, written, [text.workload("kind", 4, x={"type": "magic"})]))
    assert "there is none that can be taken: a workload is left out (line 1, kind): the input x is 'magic'" in said


def test_a_constraint_that_does_not_hold_leaves_its_workload_out(tmp_path: Path) -> None:
    definition = text.flashinfer(tmp_path)
    place = next((tmp_path / "workloads").rglob("*.jsonl"))
    first, *rest = place.read_text().splitlines()
    place.write_text("\n".join([first.replace('"flat": 1920', '"flat": 1921'), *rest]))
    notes = trace.read(definition).notes
    assert any("the constraint flat == rows * inner does not hold" in note for note in notes)
    assert any("flat == mask.numel() is not about axes, and is not checked" in note for note in notes)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "the pointer that Git LFS leaves"),
        (b"", "is no file of safetensors"),
        (b"\xff" * 64, "is no file of safetensors"),
        ((4).to_bytes(8, "little") + b"[[[[", "has no header of safetensors"),
    ],
)
def test_a_file_that_holds_no_tensors_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    definition = text.sol(tmp_path, workloads=text.WORKLOADS[1:2])
    next(tmp_path.rglob("bias.safetensors")).write_bytes(data)
    assert said in told(tmp_path, definition)


def test_a_tensor_that_reaches_beyond_its_file_is_told(tmp_path: Path) -> None:
    definition = text.sol(tmp_path, workloads=text.WORKLOADS[1:2])
    blob = next(tmp_path.rglob("bias.safetensors"))
    blob.write_bytes(blob.read_bytes()[:-4])
    assert "it may be cut short" in told(tmp_path, definition)


def test_a_link_out_of_the_checkout_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    definition = text.sol(tmp_path / "repo", workloads=text.WORKLOADS[1:2])
    blob = next(tmp_path.rglob("bias.safetensors"))
    blob.rename(tmp_path / "outside.safetensors")
    blob.symlink_to(tmp_path / "outside.safetensors")
    assert "leads out of" in told(tmp_path, definition)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"axes": {}, "reference": 1e999}']
)
def test_a_file_that_is_no_definition_is_told(tmp_path: Path, data: bytes) -> None:
    definition = text.sol(tmp_path)
    definition.write_bytes(data)
    opened = trace.read(definition)
    assert opened.problems
    assert not opened.inputs
    assert trace.against(text.written_to(tmp_path, text.solution()), definition).problems


def test_a_solution_finds_its_definition_in_a_folder(tmp_path: Path) -> None:
    definition = text.sol(tmp_path / "sol")
    (tmp_path / "sol" / "L1" / "other").mkdir()
    (tmp_path / "sol" / "L1" / "other" / "definition.json").write_text(json.dumps({"name": "other", "axes": {}}))
    moved = definition.parent.rename(definition.parent.with_name("under_another_name"))
    answer = text.written_to(tmp_path, text.solution())
    lost = text.written_to(tmp_path, text.solution(definition="nowhere"), "lost.json")
    found = moved / "definition.json"
    assert formats.named(tmp_path / "sol", [answer, lost, tmp_path / "absent.json"]) == {answer: found}
    assert formats.named(moved, [answer, lost]) == {answer: found}
    assert formats.named(found, [answer, lost]) == {answer: found}
    assert formats.answers(tmp_path) == [lost, answer]


# -- floats of 4 bits --------------------------------------------------------------------------------------------------


def laid_out_packed(folder: Path, written: dict[str, Any], kind: str) -> Path:
    """The target of a packed definition and a solution that is never run."""
    rows = [text.random_lines("77777777", 40, *written["inputs"], kind=kind)]
    spec = {"destination_passing_style": "out" in written["outputs"]}
    answer = text.solution(text.PACKED_RIGHT, definition=written["name"], spec=spec)
    return text.laid_out(folder, text.sol(folder, written, rows), answer)


@pytest.mark.parametrize("kind", ["random", "custom"])
def test_the_shape_of_random_4_bit_floats_counts_floats_and_of_others_bytes(tmp_path: Path, kind: str) -> None:
    place = laid_out_packed(tmp_path, text.packed(custom=kind == "custom"), kind)
    (target,) = catalog.load([place]).targets
    assert target.rule is not None
    assert not target.rule.alone
    (spec,) = (spec for spec in target.inputs if spec.name == "w")
    assert (spec.dtype, spec.posed, catalog.shape(spec, target.cases[0].axes)) == ("uint8", True, (48, 16))
    assert "w: two floats of 4 bits (e2m1) in a byte, the first one in its lower half" in target.lesson


def test_its_own_rule_is_the_judge_where_an_output_is_packed(tmp_path: Path) -> None:
    (target,) = catalog.load([laid_out_packed(tmp_path, text.quantizing(), "random")]).targets
    assert target.rule is not None
    assert target.rule.alone
    assert "its own rule is the judge: SOL-ExecBench" in target.lesson


def test_an_odd_number_of_4_bit_floats_in_a_row_is_told(tmp_path: Path) -> None:
    written = text.packed()
    written["axes"] = text.AXES | {"hidden": {"type": "const", "value": 33}, "groups": {"type": "const", "value": 2}}
    rows = [text.random_lines("77777777", 40, *written["inputs"])]
    answer = text.solution(text.PACKED_RIGHT, definition=written["name"])
    assert "share a byte, and hidden is odd" in told(tmp_path, text.sol(tmp_path, written, rows), answer)


def test_what_4_bits_stand_for_and_how_values_are_rounded_to_them() -> None:
    """Every code comes back from what it stands for, and each value goes to the nearest one, ties to the even code."""
    every = torch.arange(256, dtype=torch.uint8).reshape(2, 128)
    levels = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert decoded(every)[0, :6].tolist() == [0, 0, 0.5, 0, 1, 0]
    assert decoded(torch.tensor([[0x9F]], dtype=torch.uint8)).tolist() == [[-6, -0.5]]
    assert torch.equal(encoded(decoded(every)), every)
    values = torch.linspace(-8, 8, 4096, dtype=torch.float64)[None]
    for value, got in zip(values[0].tolist(), decoded(encoded(values))[0].tolist(), strict=True):
        assert abs(abs(value) - abs(got)) == min(abs(abs(value) - level) for level in levels)
    ties = torch.tensor([[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0]])
    assert decoded(encoded(ties)).tolist() == [[0, 1, 1, 2, 2, 4, 4, -4]]


def test_4_bit_floats_in_a_file_are_read_as_bytes(tmp_path: Path) -> None:
    header = {"w": {"dtype": "F4", "shape": [3, 8], "data_offsets": [0, 12]}}
    header["odd"] = {"dtype": "F4", "shape": [4, 3], "data_offsets": [0, 6]}
    data = json.dumps(header).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(data)) + data + bytes(12))
    found = trace_stored.find(path, "w")
    assert (found.dtype, found.shape, found.nbytes) == ("uint8", (3, 4), 12)
    with pytest.raises(trace_stored.StoredError, match="odd number of 4-bit floats"):
        trace_stored.find(path, "odd")


# -- tokens that are drawn ---------------------------------------------------------------------------------------------


def laid_out_sampling(folder: Path, **changed: Any) -> Path:
    """The target of a definition that draws and a solution to it."""
    written = text.sampling(**changed)
    rows = [text.random_lines("99999999", 24, *written["inputs"], kind="custom")]
    answer = text.solution(text.SAMPLING_RIGHT, definition=written["name"])
    return text.laid_out(folder, text.sol(folder, written, rows), answer)


def test_draws_are_counted_in_two_cases_that_are_not_timed(tmp_path: Path) -> None:
    (target,) = catalog.load([laid_out_sampling(tmp_path)]).targets
    assert target.rule is not None
    assert target.rule.alone
    counted = [case for case in target.cases if case.name.startswith("draws")]
    axes = {"rows": 1024, "tokens": 96, "workload": 1}
    assert [(case.name, dict(case.axes), case.timed) for case in counted] == [
        ("draws", axes, False),
        ("draws-again", axes, False),
    ]
    assert "in the cases draws and draws-again its draws are counted" in target.lesson
    assert (trace_draws.rows(128_256), trace_draws.rows(2**30)) == (261, 64)


def test_where_the_rows_are_of_one_size_it_is_said_that_draws_are_not_counted(tmp_path: Path) -> None:
    axes = {"rows": {"type": "const", "value": 24}, "tokens": {"type": "const", "value": 96}}
    (target,) = catalog.load([laid_out_sampling(tmp_path, axes=axes)]).targets
    assert not [case for case in target.cases if case.name.startswith("draws")]
    assert "probs has a fixed number of rows, so that draws are looked at one by one, and not counted" in target.lesson


COUNTING = """
import inputs, optimized, rule, torch
from aisp.kernels.runtime import sampling
axes = {"rows": 1024, "tokens": 96, "workload": 1}
posed = inputs.pose(axes, "cpu", torch.Generator())
assert all(torch.equal(posed[name], again) for name, again in inputs.pose(axes, "cpu", torch.Generator()).items())
truth = [rule.reference(posed)]
least = 1.0
for seed in range(200):
    found = optimized.run(**posed, aisp_seed=torch.tensor([seed]))
    assert torch.equal(found, optimized.run(**posed, aisp_seed=torch.tensor([seed])))
    told = rule.judge({**posed, "aisp_seed": torch.tensor([seed])}, [found], truth)
    assert told is None, told
    (often,) = sampling.counts.values()
    least = min(least, sampling.likelihood(often, torch.bincount(found, minlength=96).double()))
assert 1e-5 < least < 0.1  # of 200 honest calls
ours, theirs = torch.tensor([40.0, 60.0]).double(), torch.tensor([60.0, 40.0]).double()
assert abs(sampling.likelihood(theirs, ours) - 0.0046777) < 1e-6  # chi-square 8 with one degree of freedom
rare = torch.tensor([50.0, 47.0, 1.0, 1.0, 1.0]).double()
assert sampling.likelihood(rare, rare) == 1.0
seeded = {**posed, "aisp_seed": torch.tensor([7])}
form = found.clone()
assert "it drew the token 96 of 96" in rule.judge(seeded, [form.index_fill(0, torch.tensor([3]), 96)], truth)
assert "it returned torch.int32 [1024], and" in rule.judge(seeded, [form.int()], truth)
unlikely = int(posed["probs"][0].argmin())
assert "draw 3 is the token" in rule.judge(seeded, [form.index_fill(0, torch.tensor([3]), unlikely)], truth)
"""


@pytest.mark.slow
def test_an_honest_solution_is_right_behind_every_seed(tmp_path: Path) -> None:
    """Two hundred calls are right, and the test of their counts says of none that it is as rare as one in 100,000."""
    place = laid_out_sampling(tmp_path)
    done = python(COUNTING, where=place)
    assert done.returncode == 0, done.stderr
