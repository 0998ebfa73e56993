"""gpu-mode's tasks and submissions: what they are made into, and what is said of those that cannot be taken."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Opened, Part, gpumode
from aisp.kernels.catalog.model import Case, Flag, Target
from tests.imported import python
from tests.kernels.formats import gpumode as text


def opened(folder: Path, yml: str = text.BLEND_YML, reference: str = text.BLEND, types: str = text.TASK_PY) -> Opened:
    """What is read of a task with these files, in a checkout of its own."""
    (folder / ".git").mkdir(exist_ok=True)
    place = folder / "set" / "our_py"
    shutil.rmtree(place, ignore_errors=True)
    return gpumode.read(text.task(place, yml, reference, types))


def said(found: Opened) -> str:
    """Its problems, in words."""
    return "\n".join(f"{each.path.name}: {each.key}: {each.message}; {each.fix}" for each in found.problems)


def made(folder: Path, name: str, submission: str) -> tuple[Target, Path]:
    """The target of the two, and where it lies."""
    place = text.laid_out(folder, name, submission)
    found = catalog.load([place])
    assert not found.problems
    return found.targets[0], place


def refused(folder: Path, submission: str, yml: str = text.BLEND_YML) -> str:
    """What is said of a submission that cannot be taken."""
    (folder / ".git").mkdir(exist_ok=True)
    answer = folder / "answer.py"
    answer.write_text(submission)
    parts = gpumode.against(answer, text.task(folder / "set" / "our_py", yml))
    assert not parts.files
    return "\n".join(f"{each.path.name}: {each.key}: {each.message}; {each.fix}" for each in parts.problems)


# -- listing -----------------------------------------------------------------------------------------------------------

LISTED = {
    "apart_py": "",
    "blend_py": "",
    "bomb_py": "",
    "cache_py": "",
    "climbing_py": "",
    "columns_py": "",
    "frame_py": "",
    "gate_py": "",
    "groups_py": "",
    "house_py": "",
    "huge_py": "task.yml has 66,127 bytes; the most that is read is 65,536",
    "of_cuda": 'lang is "cu"',
    "on_cuda_py": "",
    "ranks_py": "runs on several GPUs",
    "spectrum_py": "",
    "stateful_py": "",
}


def test_a_checkout_its_problems_and_one_set_list_the_same_tasks_with_what_cannot_run(tmp_path: Path) -> None:
    place = text.checkout(tmp_path / "kernels")
    for folder in (place, place / "problems", place / "problems" / "ours"):
        found = list(gpumode.collection(folder))
        assert [each.name for each in found] == [f"ours/{name}" for name in sorted(text.TASKS)]
        for each, reason in zip(found, LISTED.values(), strict=True):
            assert each.reason.startswith(reason)
            assert bool(each.reason) == bool(reason)


def test_the_file_of_a_set_lists_its_tasks_in_its_order_and_what_is_not_there(tmp_path: Path) -> None:
    place = text.checkout(tmp_path / "kernels")
    names = place / "problems" / "ours.yaml"
    assert formats.recognise(names) == (gpumode, Part.COLLECTION)
    found = [each for dialect, each in formats.listed(names)]
    assert [each.number for each in found[:2]] == [1, 2]
    assert [each.name for each in found[:2]] == ["blend", "frame"]
    assert found[0].path == place / "problems" / "ours" / "blend_py"
    assert found[-1].reason == "there is no task.yml"


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ("  - directory: ../../outside\n", "leads out of"),
        ("  - name: nowhere\n  - directory: x\n", "it names no directory"),
        ("  - &a {directory: x}\n  - *a\n", "alias at line 3"),
        ("  - directory: [unclosed\n", "not YAML at line"),
    ],
)
def test_a_set_with_a_bad_entry_is_listed_with_its_reason(tmp_path: Path, entries: str, reason: str) -> None:
    place = tmp_path / "checkout"
    (place / ".git").mkdir(parents=True)
    names = place / "set.yaml"
    names.write_text(f"problems:\n{entries}")
    assert any(reason in each.reason for each in gpumode.collection(names))


def test_tasks_are_listed_without_one_being_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        folder = tmp_path / "problems" / f"set{number % 4}" / f"task{number}"
        folder.mkdir(parents=True)
        (folder / "task.yml").write_text(text.BLEND_YML)
    monkeypatch.setitem(sys.modules, "yaml", None)  # asking for it fails
    monkeypatch.setattr(ast, "parse", lambda *_, **__: pytest.fail("parsed"))
    assert len(list(gpumode.collection(tmp_path))) == 100


def test_links_are_not_followed(tmp_path: Path) -> None:
    place = text.checkout(tmp_path / "kernels")
    before = len(list(gpumode.collection(place)))
    (place / "problems" / "round").symlink_to(place)
    assert len(list(gpumode.collection(place))) == before


def test_paths_are_recognised_by_names_and_by_what_stands_at_the_left_edge(tmp_path: Path) -> None:
    place = text.checkout(tmp_path / "kernels")
    task = place / "problems" / "ours" / "blend_py"
    answer = tmp_path / "submission.py"
    answer.write_text(text.BLEND_RIGHT)
    ours = tmp_path / "ours.py"
    ours.write_text("def reference(x): ...\n\n\ndef custom_kernel(x): ...\n")
    assert formats.recognise(task) == (gpumode, Part.PROBLEM)
    assert formats.recognise(task / "task.yml") == (gpumode, Part.PROBLEM)
    assert formats.recognise(place) == (gpumode, Part.COLLECTION)
    assert formats.recognise(answer) == (gpumode, Part.CANDIDATE)
    assert formats.recognise(ours) is None
    assert formats.recognise(task / "reference.py") is None
    assert formats.answered(task, answer) is gpumode


# -- what they are made into -------------------------------------------------------------------------------------------


def test_a_task_and_a_submission_are_a_target_judged_by_the_tasks_own_check(tmp_path: Path) -> None:
    target, place = made(tmp_path, "blend_py", text.BLEND_RIGHT)
    assert target.id == "blend_py:submission"
    assert [rung.name for rung in target.rungs] == ["baseline", "optimized"]
    assert target.rule is not None
    assert target.rule.alone
    assert target.rule.name == "gpu-mode: check_implementation"
    assert "check_implementation, make_match_reference(ref_kernel, rtol=0.0001, atol=1e-05)" in target.lesson
    for part, source in (("reference", text.BLEND), ("baseline", text.BLEND), ("optimized", text.BLEND_RIGHT)):
        assert (place / f"{part}.py").read_text().startswith(source)  # lines keep their numbers
    names = {path.name for path in place.iterdir()}
    assert {"task.py", "utils.py"} <= names
    assert not {"eval.py", "submission.py"} & names  # the harness, and the submission under its own name


def test_benchmarks_are_timed_tests_are_not_and_the_seed_is_no_axis(tmp_path: Path) -> None:
    target, _ = made(tmp_path, "blend_py", text.BLEND_RIGHT)
    assert target.cases == (
        Case("default", {"size": 65536}),
        Case("cpu", {"size": 128}),
        Case("benchmark-2", {"size": 32768}),
        Case("test-1", {"size": 127}, timed=False),
        Case("test-2", {"size": 128}, timed=False),  # and a third one that differs in the seed alone
    )


def test_a_buffer_that_the_tasks_kernel_writes_into_may_be_written_into(tmp_path: Path) -> None:
    target, _ = made(tmp_path, "blend_py", text.BLEND_RIGHT)
    assert {spec.name: Flag.MUTABLE in spec.flags for spec in target.inputs} == {
        "left": False,
        "right": False,
        "out_in": True,
    }
    assert all(spec.posed and spec.open and spec.dtype == "any" for spec in target.inputs)


BUFFERS = {
    "made empty, and not read": (("return 0.25 * a + 0.75 * b", "a, b, out = data"), True),
    "without a name": (("return 0.25 * a + 0.75 * b", "a, b, _ = data"), True),
    "read": (("return 0.25 * a + 0.75 * b + 0 * out", "a, b, out = data"), False),
    "read by its place": (("return 0.25 * a + 0.75 * b + 0 * data[2]", "a, b, out = data"), False),
}


@pytest.mark.parametrize("name", BUFFERS)
def test_a_buffer_that_the_tasks_kernel_ignores_may_be_written_into(tmp_path: Path, name: str) -> None:
    (computed, taken), mutable = BUFFERS[name]
    own = text.BLEND.replace("    out[...] = 0.25 * a + 0.75 * b\n    return out", f"    {computed}")
    own = own.replace("a, b, out = data", taken)
    lines = list(opened(tmp_path, reference=own).inputs.values())
    assert [line.endswith("mutable") for line in lines] == [False, False, mutable]
    kept = own.replace("torch.empty_like(left)", "torch.randn(size)")  # it holds values: it is no buffer
    assert not any(line.endswith("mutable") for line in opened(tmp_path, reference=kept).inputs.values())


def test_words_and_truth_values_are_numbers_into_a_table(tmp_path: Path) -> None:
    found = opened(tmp_path, text.GATE_YML, text.GATE)
    assert found.axes == {"rows": 256, "width": 64, "halved": 1, "shape": 0}
    assert "shape: 0 is 'flat', 1 is 'peaked'" in found.notes
    _, place = made(tmp_path, "gate_py", text.GATE_RIGHT)
    assert "CHOICES = {'halved': (False, True), 'shape': ('flat', 'peaked')}" in (place / "aisp_data.py").read_text()


def test_tensors_of_a_dictionary_are_posed_and_plain_values_computed_from_the_case(tmp_path: Path) -> None:
    target, place = made(tmp_path, "gate_py", text.GATE_RIGHT)
    assert [(spec.name, spec.posed) for spec in target.inputs] == [
        ("x", True),
        ("weights_gate_weight", True),
        ("weights_gate_bias", True),
        ("config", False),
        ("plan", False),
    ]
    values = (place / "aisp_values.py").read_text()
    assert "class Plan" in values
    assert "def padded_to" in values
    assert "seed" not in values
    assert "randn" not in values


def test_a_task_whose_code_says_cuda_needs_a_gpu(tmp_path: Path) -> None:
    target, _ = made(tmp_path, "on_cuda_py", text.BLEND_RIGHT)
    assert target.needs.gpus == 1
    assert all(case.name != "cpu" for case in target.cases)
    found = opened(tmp_path, reference=text.ON_CUDA)
    assert found.cpu is None
    assert 'its code says "cuda": it cannot run without a GPU' in found.notes
    assert opened(tmp_path, reference=text.ON_EITHER).cpu == {"size": 128}


HARNESS_ONLY = "\n\ndef flush():\n    torch.empty(1024, device='cuda').fill_(1)\n"


@pytest.mark.parametrize(
    ("utils", "reference", "needs"),
    [
        pytest.param(text.UTILS + HARNESS_ONLY, text.BLEND, False, id="what the harness alone calls"),
        pytest.param(
            text.UTILS.replace("    off =", "    flush()\n    off =") + HARNESS_ONLY,
            text.BLEND,
            True,
            id="called in turn",
        ),
        pytest.param(text.UTILS + "\nDEVICE = 'cuda'\n", text.BLEND, True, id="outside of functions"),
        pytest.param(text.UTILS + HARNESS_ONLY, f"import utils\n{text.BLEND}", True, id="the module as a whole"),
        pytest.param(text.UTILS + HARNESS_ONLY, f"from utils import *\n{text.BLEND}", True, id="all of its names"),
    ],
)
def test_a_helper_that_says_cuda_counts_where_the_tasks_functions_reach_it(
    tmp_path: Path, utils: str, reference: str, needs: bool
) -> None:
    (tmp_path / ".git").mkdir()
    task = text.task(tmp_path / "set" / "our_py", reference=reference)
    (task.parent / "utils.py").write_text(utils)
    found = gpumode.read(task)
    assert not said(found)
    assert (found.cpu is None) is needs


def test_the_case_for_a_cpu_is_small_where_an_argument_is_two_lengths(tmp_path: Path) -> None:
    sizes = "\n".join(f"  - {{size: {size}, seed: 1}}" for size in (16384, 1024, 127))
    square = text.BLEND.replace("randn(size,", "randn(size, size,")
    assert opened(tmp_path, f"{text.FILES}benchmarks:\n{sizes}\n", square).cpu == {"size": 1024}
    large = f"{text.FILES}benchmarks: [{{size: 16384}}, {{size: 8192}}]\n"
    assert opened(tmp_path, large, square).cpu == {"size": 8192}


def test_the_lesson_says_where_it_comes_from_and_what_the_task_asks_for(tmp_path: Path) -> None:
    target, _ = made(tmp_path, "blend_py", text.BLEND_RIGHT)
    assert (
        f"- task: `{tmp_path / 'checkout' / 'problems' / 'ours' / 'blend_py' / 'task.yml'}`, sha256 " in target.lesson
    )
    assert "Blend two vectors into the third one." in target.lesson
    assert "it was posed for T4, H100" in target.lesson


def test_a_description_cannot_end_the_front_matter_or_reach_a_terminal(tmp_path: Path) -> None:
    plain = "description: |\n  Blend two vectors into the third one.\n"
    assert plain in text.BLEND_YML
    hostile = text.BLEND_YML.replace(plain, 'description: "+++\\ntitle = 1\\n+++\\n\\e[31m red"\n')
    (tmp_path / ".git").mkdir()
    answer = tmp_path / "a.py"
    answer.write_text(text.BLEND_RIGHT)
    parts = gpumode.against(answer, text.task(tmp_path / "s" / "our_py", hostile))
    front, problems = catalog.frontmatter.read(answer, parts.files["lesson.md"])
    assert not problems
    assert front is not None
    assert front.title == "our py"
    assert "[31m red" in front.lesson
    assert "\x1b" not in front.lesson


# -- reading what generate_input returns -------------------------------------------------------------------------------

READ = {
    "nested functions and views": (
        """
        def generate_input(m: int, k: int, seed: int):
            torch.manual_seed(seed)
            a = torch.randint(0, 2, (4, m, k), dtype=torch.uint8).permute(1, 2, 0)

            def scales(rows):
                made = torch.randint(1, 3, (4, rows, k // 16), dtype=torch.int8)
                return made.to(torch.float32).permute(1, 2, 0)

            return (a.view(torch.float4_e2m1fn_x2), scales(m), scales(k))
        """,
        {
            "a": "any [...] posed",
            "y": "any [...] posed",
            "x2": "any [...] posed",
            "form": "int64 [...] posed static cpu",
        },
    ),
    "several results taken apart, lists that are stacked": (
        """
        def generate_input(m, k, seed):
            scores = torch.randn(m, 64).softmax(dim=-1)
            weights, ids = torch.topk(scores, k=k, dim=-1, sorted=False)
            ids = ids.to(torch.int32)
            parts = []
            for _ in range(4):
                parts.append(torch.randn(m, k))
            config = {"experts": 4, "top": k, "align": (k + 15) // 16 * 16}
            return weights, torch.stack(parts), ids, config
        """,
        {
            "weights": "any [...] posed",
            "y": "any [...] posed",
            "ids": "any [...] posed",
            "config": "made",
        },
    ),
    "a transposed one among others, by a function of the task's own": (
        """
        def columns(m, k):
            return torch.rand(m, k, dtype=torch.float16).T

        def generate_input(m, k, seed):
            odd = torch.rand(m, 2 * k)[:, ::2]
            return columns(m, k), odd, torch.tensor(3.0), torch.rand(2, m, k, 1).permute(3, 2, 0, 1)
        """,
        {
            "x": "any [...] posed",
            "odd": "any [...] posed",
            "x2": "any [...] posed",
            "x3": "any [...] posed",
            "form": "int64 [...] posed static cpu",
        },
    ),
    "own functions that return several": (
        """
        def both(x, eps):
            y = x.float() * eps
            return y.to(x.dtype), y.sum(dim=-1)

        def generate_input(m: int, k: int, seed: int):
            device = torch.device("cpu")
            x = F.normalize(torch.randn(m, k, device=device), p=2, dim=-1)
            y, total = both(x, eps=1e-3)
            return x.contiguous(), y.contiguous(), total.contiguous()
        """,
        {"x": "any [...] posed", "y": "any [...] posed", "total": "any [...] posed"},
    ),
    "one tensor, by a name": (
        """
        def generate_input(m, k, seed):
            data = torch.distributions.Cauchy(0.0, 2.0).sample((m, k)).contiguous()
            return data
        """,
        {"data": "any [...] posed"},
    ),
    "numbers beside tensors, fixed and from the case": (
        """
        def generate_input(m, k, seed, eps=1e-5):
            n = m * 2
            return torch.rand(n, k), n, 1e-3, k
        """,
        {"x": "any [...] posed", "n": "made", "k_2": "made"},
    ),
    "a branch, and a name bound again": (
        """
        def generate_input(m, k, seed):
            if m > 4:
                mask = torch.ones(m, k)
            else:
                mask = torch.randint(0, 2, (m, k))
            mask = mask * 2
            data = (mask, {"w": torch.zeros(k), "b": None})
            return data
        """,
        {"mask": "any [...] posed", "y_w": "any [...] posed"},
    ),
}
KERNEL = """
def ref_kernel(data):
    x, y, *_ = data
    return x


def check_implementation(data, output):
    return ""
"""
SMALL_YML = f"{text.FILES}tests: [{{m: 8, k: 16, seed: 1}}]\n"
HEAD = "import torch\nimport torch.nn.functional as F\nfrom task import input_t, output_t\n"


def reference(body: str) -> str:
    """A reference.py with this generate_input."""
    return f"{HEAD}\n\n{textwrap.dedent(body).strip()}\n{KERNEL}"


@pytest.mark.parametrize("name", READ)
def test_what_generate_input_returns_is_read_from_its_source(tmp_path: Path, name: str) -> None:
    body, wanted = READ[name]
    found = opened(tmp_path, SMALL_YML, reference(body), "input_t = object\noutput_t = object\n")
    assert not said(found)
    assert {key: line.removesuffix(" mutable") for key, line in found.inputs.items()} == wanted


@pytest.mark.parametrize("name", READ)
def test_what_was_read_is_what_generate_input_makes(tmp_path: Path, name: str) -> None:
    """The parts that are posed and computed make the same data again."""
    body, wanted = READ[name]
    (tmp_path / ".git").mkdir()
    answer = tmp_path / "answer.py"
    answer.write_text("def custom_kernel(data):\n    return data\n")
    task = text.task(tmp_path / "s" / "our_py", SMALL_YML, reference(body), "input_t = object\noutput_t = object\n")
    parts = gpumode.against(answer, task)
    assert not parts.problems
    place = tmp_path / "laid out"
    place.mkdir()
    for relative, data in parts.files.items():
        (place / relative).write_bytes(data)
    program = """
import json, torch, inputs, aisp_data, reference
axes = json.loads(AXES)
posed = inputs.pose(axes, "cpu", torch.Generator().manual_seed(3))
made = inputs.make(axes, "cpu", None) if hasattr(inputs, "make") else {}
data = aisp_data.packed(**posed, **made)
again = reference.generate_input(**aisp_data.case(axes), seed=1)
def form(part):
    if isinstance(part, torch.Tensor):
        gaps = part.numel() != 1 + sum(s * (n - 1) for s, n in zip(part.stride(), part.shape))
        return [str(part.dtype), list(part.shape), list(part.contiguous().stride() if gaps else part.stride())]
    if isinstance(part, (tuple, list)):
        return [type(part).__name__, *map(form, part)]
    return {key: form(value) for key, value in part.items()} if isinstance(part, dict) else repr(part)
print(json.dumps([sorted(posed), sorted(made), form(data) == form(again)]))
""".replace("AXES", repr(json.dumps({"m": 8, "k": 16})))
    done = python(program, where=place)
    assert done.returncode == 0, done.stderr
    posed, computed, same = json.loads(done.stdout)
    assert same
    assert sorted(name for name, line in wanted.items() if line != "made") == posed
    assert sorted(name for name, line in wanted.items() if line == "made") == computed


CARRIED = {
    "a list that a loop makes": "return [torch.rand(m) for _ in range(k)]",
    "a tuple of lists, filled in a loop": """
        found = []
        for i in range(k):
            found.append([torch.rand(i + 1), torch.full((1,), i)])
        return tuple(found), float("inf"), None
    """,
    "a dictionary with computed keys": """
        found = {}
        for i in range(k):
            found[f"experts.{i}.weight"] = torch.rand(m, k).T
        return torch.rand(m, 4)[:, 1:3], found
    """,
    "a list in a dictionary": """
        found = {"all": [], "width": m}
        for i in range(k):
            found["all"].append(torch.rand(m).to(torch.float8_e4m3fn))
        return found, torch.rand(k), torch.Size([m, k])
    """,
    "as many as a tensor is split into": "return torch.rand(m, 2).split(3)",
    "the same one many times": "return [torch.rand(m)] * k, torch.rand(0, 3)",
    "packed numbers of 4 bits in a loop": """
        made = [torch.randint(0, 256, (1, k, m), dtype=torch.uint8).permute(2, 1, 0) for _ in range(3)]
        made.append(torch.randint(0, 256, (1, k, m), dtype=torch.uint8).permute(1, 2, 0))
        return [each.view(torch.float4_e2m1fn_x2) for each in made], m
    """,
    "numbers that follow from a shape": """
        x = torch.rand(m, k)
        return x, x.shape[0], x.size(1) * x.numel(), (x.dtype, x.stride())
    """,
    "numbers that follow from values without chance": """
        lengths = torch.full((k,), m)
        longest = math.ceil(lengths.max().item() / 3) * 3
        return torch.rand(k, longest), lengths, longest, int(lengths[0])
    """,
    "a tensor in some cases, none in others": """
        bias = None
        if m < k:
            bias = torch.rand(k)
        return torch.rand(m, k), bias, None if m < k else torch.rand(m), torch.rand(k) if m < k else None
    """,
    "another form for other cases": """
        if m > k:
            return torch.rand(m), k
        return {"x": torch.rand(m), "y": torch.rand(k)}
    """,
    "modules, with a state of their own": """
        layers = torch.nn.ModuleList([torch.nn.Linear(m, k), torch.nn.LayerNorm(k)]).eval()
        layers[0].weight.requires_grad = False
        return torch.rand(2, m), layers
    """,
    "objects of the task's own classes": """
        plan = Plan(torch.rand(m), Size(k, torch.rand(k)), [torch.float16, Mode.FAST])
        return plan, torch.rand(3)


    class Mode(enum.Enum):
        FAST = 1


    class Size(typing.NamedTuple):
        k: int
        scale: torch.Tensor


    @dataclasses.dataclass(frozen=True, slots=True)
    class Plan:
        weight: torch.Tensor
        size: Size
        rest: list
    """,
}

ROUND = """
import collections, enum, inputs, aisp_classes, aisp_data, reference, torch
axes = {"m": 8, "k": 16}
posed = inputs.pose(axes, "cpu", torch.Generator().manual_seed(3))
assert sorted(posed) == ["call", "held"] and posed["held"].dtype is torch.uint8
data = aisp_data.packed(posed["call"], posed["held"], vars(reference))
seed = aisp_data.seed(torch.Generator().manual_seed(3))
again = reference.generate_input(**aisp_data.case(axes), seed=seed)
def form(part):
    if isinstance(part, torch.Tensor):
        raw = part.detach().contiguous().view(torch.uint8) if part.dim() and part.numel() else part
        return [type(part).__name__, part.dtype, part.shape, part.stride(), part.requires_grad, raw.tolist()]
    if isinstance(part, torch.nn.Module):
        assert part.state_dict().keys() == dict(part.named_parameters()).keys()
        return [part.training, repr(part), form(dict(part.state_dict(keep_vars=True)))]
    if isinstance(part, (tuple, list)):
        return [type(part), *map(form, part)]
    if isinstance(part, dict):
        return [type(part), *((key, form(value)) for key, value in part.items())]
    if hasattr(type(part), "__dataclass_fields__"):
        return [type(part), *(form(getattr(part, name)) for name in part.__dataclass_fields__)]
    return part
assert form(data) == form(again), (form(data), form(again))
other = aisp_data.reader(posed["call"], aisp_classes.run())
assert repr(other(posed["held"])) != "" and other(posed["held"]) is not other(posed["held"])
"""


def carried(folder: Path, body: str, yml: str = SMALL_YML) -> tuple[Path, Opened]:
    """A folder with the files of a task whose generate_input has this body, and what is read of it."""
    (folder / ".git").mkdir()
    answer = folder / "answer.py"
    answer.write_text("def custom_kernel(data):\n    return data\n")
    inner = textwrap.dedent(body).strip("\n")
    function, _, classes = inner.partition("\n\n\n")
    made = f"import dataclasses\nimport enum\nimport math\nimport typing\n\n{classes}\n\n\n"
    made += "def generate_input(m, k, seed):\n"
    made += f"    torch.manual_seed(seed)\n{textwrap.indent(textwrap.dedent(function), '    ')}"
    task = text.task(folder / "s" / "our_py", yml, reference(made), "input_t = object\noutput_t = object\n")
    parts = gpumode.against(answer, task)
    assert not parts.problems, parts.problems
    place = folder / "laid out"
    place.mkdir()
    for relative, data in parts.files.items():
        (place / relative).write_bytes(data)
    return place, gpumode.read(task)


@pytest.mark.parametrize("name", CARRIED)
def test_what_the_source_does_not_show_is_carried_whole_as_it_was_made(tmp_path: Path, name: str) -> None:
    place, found = carried(tmp_path, CARRIED[name])
    assert found.inputs == {"call": "uint8 [...] posed static cpu", "held": "any [...] posed"}
    done = python(ROUND, where=place)
    assert done.returncode == 0, done.stderr


NOT_CARRIED = {
    "a number that follows from the seed": ("return [torch.rand(m)] * k, {'a': torch.rand(2).argmax().item()}", "seed"),
    "a number that follows from drawn values": ("x = torch.rand(m)\nreturn x, float(x.sum())", "only the values of"),
    "a length that does": ("return [torch.rand(m) for _ in range(seed % 7)]", "only the values of tensors may follow"),
    "a generator": (
        "return [torch.rand(m)] * k, [torch.Generator() for _ in range(2)]",
        "Generator, whose state cannot be seen",
    ),
    "an empty list": ("return [torch.rand(m) for _ in range(m - 8)]", "generate_input made no tensor"),
    "a hook": (
        """
        made = torch.nn.Linear(m, k)
        made.register_forward_hook(print)
        return torch.rand(m), made
        """,
        "a Linear with hooks",
    ),
}


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_what_cannot_be_carried_is_an_error_of_the_task(tmp_path: Path, name: str) -> None:
    body, reason = NOT_CARRIED[name]
    place, _ = carried(tmp_path, body)
    done = python(
        "import inputs, torch\nfor n in range(9): inputs.pose({'m': 8, 'k': 2}, 'cpu', torch.manual_seed(n))",
        where=place,
    )
    assert reason in done.stderr


def test_a_task_whose_kernel_writes_carries_what_may_be_written_into(tmp_path: Path) -> None:
    for name, submission in (("groups_py", text.GROUPS_RIGHT), ("cache_py", text.CACHE_RIGHT)):
        target, _ = made(tmp_path, name, submission)
        assert [(spec.name, Flag.MUTABLE in spec.flags) for spec in target.inputs] == [("call", False), ("held", True)]
    found = opened(tmp_path / "checkout", text.BLEND_YML, text.STATEFUL)
    assert not said(found)


def test_a_list_of_outputs_has_any_length_up_to_a_bound(tmp_path: Path) -> None:
    target, place = made(tmp_path, "groups_py", text.GROUPS_RIGHT)
    assert len(target.outputs) == gpumode.MAX_OUTPUTS
    done = python(
        "import aisp_data, torch\n"
        "found = aisp_data.outputs([torch.ones(2), torch.ones(0)])\n"
        "assert len(found) == 32 and [len(each) for each in aisp_data.returned(found)] == [2, 0]\n"
        "aisp_data.outputs([torch.ones(2)] * 33)\n",
        where=place,
    )
    assert "the kernel returned 33 tensors; at most 32 are judged" in done.stderr


REFUSED = {
    "def generate_input(m, k, seed):\n    return torch.rand(m), torch.cuda.Stream()": "is what torch.cuda.Stream()",
    "def generate_input(m, k, seed):\n    return torch.rand(m), seed": "depends on the seed",
    "def generate_input(m, k, seed):\n    return m, k": "returns no tensor",
    "def generate_input(m, k, seed):\n    pass": "generate_input returns nothing",
    "def generate_input(m, seed):\n    return torch.rand(m)": "generate_input takes no k; it takes m, seed",
    "def generate_input(m, k, n, seed):\n    return torch.rand(m)": "generate_input takes n, which is not given",
    "def generate_input(m, k, seed):\n    x = x\n    return x": "stands for itself",
    "def again(x):\n    return again(x)\n\n\ndef generate_input(m, k, seed):\n    return again(m)": "stands for itself",
    "def generate_input(m, k, seed):\n    x = {}\n    x['a'] = x\n    return x": "too many steps",
    "generate_input = torch.rand": "generate_input is no function",
    "def generate_input(m, k, seed): return (": "not Python",
    "def generate_input(m, k, seed):\n    return " + "-" * 3000 + "torch.rand(m)": "recursion depth",
}


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_read_is_refused_with_its_reason(tmp_path: Path, body: str) -> None:
    told = said(opened(tmp_path, SMALL_YML, reference(body), "input_t = object\noutput_t = object\n"))
    assert REFUSED[body] in told
    assert told.partition(": ")[0] in ("reference.py", "task.yml")


def test_what_a_function_of_torch_gives_is_counted(tmp_path: Path) -> None:
    for call, count in (
        ("torch.geqrf(data)", 2),
        ("torch.linalg.cholesky_ex(data)", 2),
        ("torch.linalg.lu_factor_ex(data)", 3),
        ("torch.linalg.lstsq(data, data)", 4),
        ("torch.cholesky(data)", 1),
    ):
        own = text.SPECTRUM.replace("torch.linalg.eigh(data)", call)
        found = opened(tmp_path, text.SPECTRUM_YML, own, text.FRAME_TASK_PY)  # an output_t that may be wrong
        assert not said(found)
        assert len(found.outputs) == count, call


def test_values_that_are_drawn_without_the_seed_follow_from_the_set(tmp_path: Path) -> None:
    """generate_input without a seed of its own, and with one that it gives to a part of what it draws."""
    for body in (
        "return torch.rand(m, k), torch.tensor(random.random())",
        "return torch.rand(m, generator=torch.Generator().manual_seed(1)), torch.tensor(random.random())",
    ):
        folder = tmp_path / str(len(body))
        (folder / ".git").mkdir(parents=True)
        answer = folder / "answer.py"
        answer.write_text("def custom_kernel(data):\n    return data[0]\n")
        own = reference(f"import random\n\n\ndef generate_input(m, k):\n    {body}")
        task = text.task(folder / "s" / "our_py", f"{text.FILES}tests: [{{m: 8, k: 16}}]\n", own)
        parts = gpumode.against(answer, task)
        assert not parts.problems
        for name, data in parts.files.items():
            (folder / name).write_bytes(data)
        done = python(
            "import inputs, random, torch\n"
            "def posed(word):\n"
            "    torch.rand(3), random.random()\n"
            "    made = inputs.pose({'m': 8, 'k': 16}, 'cpu', torch.Generator().manual_seed(word))\n"
            "    return [each.tolist() for each in made.values()]\n"
            "assert posed(3) == posed(3) and posed(3)[1] != posed(4)[1]\n",
            where=folder,
        )
        assert done.returncode == 0, done.stderr


def test_a_check_that_breaks_down_says_where(tmp_path: Path) -> None:
    own = text.BLEND.replace(
        "check_implementation = make_match_reference(ref_kernel, rtol=1e-4, atol=1e-5)\n",
        "def check_implementation(data, output):\n    return data.numel() == output.numel()\n",
    )
    (tmp_path / ".git").mkdir()
    answer = tmp_path / "answer.py"
    answer.write_text(text.BLEND_OWN_OUTPUT)
    parts = gpumode.against(answer, text.task(tmp_path / "s" / "our_py", reference=own))
    place = tmp_path / "laid out"
    place.mkdir()
    for name, data in parts.files.items():
        (place / name).write_bytes(data)
    line = 1 + own.splitlines().index("    return data.numel() == output.numel()")
    done = python(
        "import rule, torch\nx = torch.ones(4)\nfor returned in (x, x.double()):\n"
        "    try:\n        print(rule.judge(dict(left=x, right=x, out_in=x), (returned,), (x,)))\n"
        "    except rule.aisp_data.CheckError as error:\n        print(error)\n",
        where=place,
    )
    told = f"check_implementation of the task raises AttributeError at line {line} of reference.py: 'tuple' object has"
    assert done.stdout.count(told) == 2, "what breaks on ref_kernel's own result is no fault of another form"


def test_the_type_alias_decides_where_the_source_does_not_show(tmp_path: Path) -> None:
    body = "def generate_input(m, k, seed):\n    import others\n    return others.load(m), others.load(k)"
    types = "from typing import TypeVar, Tuple\nimport torch\n" + (
        'input_t = TypeVar("input_t", bound=Tuple[torch.Tensor, "torch.Tensor"])\noutput_t = torch.Tensor\n'
    )
    assert len(opened(tmp_path, SMALL_YML, reference(body), types).inputs) == 2
    wrong = types.replace('"torch.Tensor"', "int")
    assert "is made by others.load()" in said(opened(tmp_path, SMALL_YML, reference(body), wrong))


def test_a_tensor_that_is_there_in_some_cases_is_no_tensor_whatever_the_type_alias_says(tmp_path: Path) -> None:
    types = "import torch\ninput_t = tuple[torch.Tensor, torch.Tensor]\noutput_t = torch.Tensor\n"
    for body, whole in (
        ("return torch.rand(m), torch.rand(k) if m > k else None", True),
        ("bias = None\n    if m > k:\n        bias = torch.rand(k)\n    return torch.rand(m), bias", True),
        ("return torch.rand(m), torch.rand(k) if m > k else torch.zeros(k)", False),
        ("return torch.rand(m), torch.zeros(m), m if m > k else k", False),
    ):
        found = opened(tmp_path, SMALL_YML, reference(f"def generate_input(m, k, seed):\n    {body}"), types)
        assert not said(found)
        assert ("held" in found.inputs) is whole, body


def test_many_names_that_stand_for_others_are_followed(tmp_path: Path) -> None:
    lines = [
        "    x0 = torch.rand(m, k)",
        *(f"    x{n} = (x{n - 1} + x{n - 1}).to(x{n - 1}.dtype)" for n in range(1, 30)),
    ]
    body = "def generate_input(m, k, seed):\n" + "\n".join(lines) + "\n    return x29, x28"
    found = opened(tmp_path, SMALL_YML, reference(body), "input_t = object\noutput_t = object\n")
    assert list(found.inputs) == ["x29", "x28"]


def test_a_type_alias_that_the_code_contradicts_is_not_followed(tmp_path: Path) -> None:
    body = "def generate_input(m, k, seed):\n    return torch.rand(m), torch.rand(k)"
    types = "import torch\ninput_t = tuple[torch.Tensor, torch.Tensor, int]\noutput_t = torch.Tensor\n"
    assert len(opened(tmp_path, SMALL_YML, reference(body), types).inputs) == 2


# -- hostile and broken tasks ------------------------------------------------------------------------------------------

BROKEN = {
    "climbing": (text.CLIMBING_YML, "leads out of"),
    "absolute": (text.BLEND_YML.replace("../utils.py", "/etc/passwd"), "/etc/passwd leads out of"),
    "a name that climbs": (text.BLEND_YML.replace('"name": "utils.py"', '"name": "../utils.py"'), "cannot name a file"),
    "a name of ours": (text.BLEND_YML.replace('"name": "utils.py"', '"name": "rule.py"'), "a name of aisp's own"),
    "a name of a rung": (text.BLEND_YML.replace('"name": "utils.py"', '"name": "wrong_a.py"'), "a name of aisp's own"),
    "twice": (text.BLEND_YML.replace('"name": "utils.py"', '"name": "task.py"'), "task.py is listed twice"),
    "a file that is not there": (text.BLEND_YML.replace("../utils.py", "../nowhere.py"), "cannot be read"),
    "no reference": (text.BLEND_YML.replace('"name": "reference.py"', '"name": "ref.py"'), "is not among them"),
    "no submission": (text.BLEND_YML.replace("@SUBMISSION@", "task.py"), "none of them is @SUBMISSION@"),
    "aliases": (text.BOMB_YML, "alias at line"),
    "huge": (text.TASKS["huge_py"][0], "the document has 66,127 bytes"),
    "deep": ("tests: " + "[" * 5000 + "]" * 5000, "nested more than"),
    "no YAML": ("tests: [1", "not YAML at line"),
    "no table": ("- 1\n", "holds no keys"),
    "an object of Python": ("tests: !!python/object/apply:os.system [ls]\n", "not YAML"),
    "several GPUs": (text.OF_RANKS_YML, "multi_gpu is not run here yet"),
    "CUDA": (text.OF_CUDA_YML, 'lang is "cu"'),
    "no cases": (text.FILES, "neither tests nor benchmarks"),
    "a case that is none": (text.FILES + "tests: [1]\n", "is no table of arguments"),
    "a value that is none": (text.FILES + "tests: [{size: {a: 1}}]\n", "use numbers, true, false, text and lists"),
    "a value that was left out": (
        text.FILES + "tests: [{size: , seed: 1}]\n",
        "size has no value, and generate_input takes it as int",
    ),
    "an argument that is none": (text.FILES + 'tests: [{"a b": 1}]\n', "cannot name an argument"),
    "many cases": (text.FILES + "tests:\n" + "  - {size: 1}\n" * 300, "keep to 256"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_or_hostile_task_is_refused_with_its_reason(tmp_path: Path, name: str) -> None:
    yml, reason = BROKEN[name]
    found = opened(tmp_path, yml)
    assert reason in said(found)
    assert not found.inputs


def test_a_file_that_a_link_leads_out_to_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("KEY = 1\n")
    (tmp_path / "kernels" / ".git").mkdir(parents=True)
    task = text.task(tmp_path / "kernels" / "set" / "our_py")
    (task / "task.py").unlink()
    (task / "task.py").symlink_to(secret)
    assert "files[1]: task.py leads out of" in said(gpumode.read(task))


def test_without_a_checkout_nothing_above_the_task_is_read(tmp_path: Path) -> None:
    found = gpumode.read(text.task(tmp_path / "set" / "our_py"))
    assert "../utils.py leads out of" in said(found)
    assert "git init" in said(found)


def test_without_pyyaml_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install 'aisp[yaml]'" in said(opened(tmp_path))


def test_a_task_without_its_functions_says_which(tmp_path: Path) -> None:
    found = opened(tmp_path, reference=text.BLEND.replace("check_implementation", "check"))
    assert said(found) == "reference.py: : has no check_implementation; write def check_implementation there"
    scripted = text.BLEND_YML + "validation: {version: 1, script: validation.py}\n"
    found = opened(tmp_path, scripted, text.BLEND.replace("check_implementation", "check"))
    assert "task.yml: validation: it is judged by a validation script of its own" in said(found)


# -- submissions -------------------------------------------------------------------------------------------------------

NO_SUBMISSION = {
    "def kernel(data):\n    return data\n": "has no custom_kernel",
    "def custom_kernel(data: return data\n": "not Python",
    "from reference import ref_kernel as custom_kernel\n": "reference is the task's judge",
    "def custom_kernel(data):\n    import eval\n    return eval.run(data)\n": "eval is the task's judge",
    "def run(x): ...\n\n\ndef custom_kernel(data): ...\n": "run is a name that is written behind the file",
    "from . import other\n\n\ndef custom_kernel(data): ...\n": "a relative import needs a package",
}


@pytest.mark.parametrize("submission", NO_SUBMISSION, ids=range(len(NO_SUBMISSION)))
def test_a_submission_that_cannot_be_taken_is_refused_with_its_reason(tmp_path: Path, submission: str) -> None:
    told = refused(tmp_path, submission)
    assert NO_SUBMISSION[submission] in told
    assert told.startswith("answer.py: ")


def test_a_submission_that_imports_classes_of_the_judge_is_told_where_they_are(tmp_path: Path) -> None:
    task = text.checkout(tmp_path / "checkout") / "problems" / "ours" / "cache_py"
    answer = tmp_path / "answer.py"
    answer.write_text("from reference import Cache\n\n\ndef custom_kernel(data): ...\n")
    (problem,) = gpumode.against(answer, task).problems
    assert problem.fix == "write out what is needed of it, or import Cache and Config and Mode from aisp_classes"


def test_a_submission_may_import_the_listed_files_alone(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("X = 1\n")
    submission = "import task, utils, torch\nimport beside\n\n\ndef custom_kernel(data):\n    return beside.X\n"
    told = refused(tmp_path, submission)
    assert told == (
        "answer.py: line 2: beside lies beside the file, and task.yml does not list it; "
        "move what is needed into the file"
    )


# -- imports -----------------------------------------------------------------------------------------------------------


def test_listing_and_reading_import_neither_torch_nor_the_task(tmp_path: Path) -> None:
    place = text.checkout(tmp_path / "kernels")
    program = (
        "import sys\nfrom pathlib import Path\nfrom aisp.kernels.catalog.formats import gpumode\n"
        "for each in gpumode.collection(Path(sys.argv[1])): gpumode.read(each.path)\n"
        "print(sorted({'torch', 'numpy', 'reference', 'task', 'utils'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, os.fspath(place)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
