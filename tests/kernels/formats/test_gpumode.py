"""gpu-mode's tasks and submissions: what they are made into, and what is said of those that cannot be taken."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import formats
from aisp.kernels.catalog.formats import Opened, Part, gpumode, packed
from aisp.kernels.catalog.model import Case, Flag, Target
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


def test_a_target_has_the_same_inputs_and_outputs_whatever_the_task_is(tmp_path: Path) -> None:
    for name, submission in (("blend_py", text.BLEND_RIGHT), ("cache_py", text.CACHE_RIGHT)):
        target, _ = made(tmp_path, name, submission)
        assert [(spec.name, Flag.MUTABLE in spec.flags) for spec in target.inputs] == [
            ("call", False),
            ("held", False),
            ("room", True),
        ]
        assert len(target.outputs) == packed.MAX_OUTPUTS
        assert all(spec.open for spec in target.outputs)
        assert [spec.name for spec in target.outputs_of(2)] == ["out0", "out1"]
        assert replace(target, rule=None).outputs_of(2) == target.outputs


def test_words_and_truth_values_are_numbers_into_a_table(tmp_path: Path) -> None:
    found = opened(tmp_path, text.GATE_YML, text.GATE)
    assert found.axes == {"rows": 256, "width": 64, "halved": 1, "shape": 0}
    assert "shape: 0 is 'flat', 1 is 'peaked'" in found.notes
    _, place = made(tmp_path, "gate_py", text.GATE_RIGHT)
    assert "choices={'halved': [False, True], 'shape': ['flat', 'peaked']}" in (place / "inputs.py").read_text()


def test_the_classes_that_data_may_hold_come_along_and_what_draws_values_does_not(tmp_path: Path) -> None:
    _, place = made(tmp_path, "cache_py", text.CACHE_RIGHT)
    classes = (place / "aisp_classes.py").read_text()
    assert all(f"class {name}" in classes for name in ("Cache", "Config", "Mode"))
    assert "LONGEST = 16" in classes
    assert "generate_input" not in classes
    assert "randn" not in classes


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


# -- arguments ---------------------------------------------------------------------------------------------------------

KERNEL = """
def ref_kernel(data):
    return data


def check_implementation(data, output):
    return ""
"""
SMALL_YML = f"{text.FILES}tests: [{{m: 8, k: 16, seed: 1}}]\n"

REFUSED = {
    "def generate_input(m, seed):\n    return torch.rand(m)": "generate_input takes no k; it takes m, seed",
    "def generate_input(m, k, n, seed):\n    return torch.rand(m)": "generate_input takes n, which is not given",
    "def generate_input(m, k, *, n):\n    return torch.rand(m)": "generate_input takes n, which is not given",
    "def generate_input(m, k, seed): return (": "not Python",
    "def generate_input(m, k, seed):\n    return " + "-" * 3000 + "torch.rand(m)": "recursion depth",
    "run = 1\ndef generate_input(m, k, seed): ...": "run is a name that is written behind the file",
}


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_called_is_refused_with_its_reason(tmp_path: Path, body: str) -> None:
    told = said(opened(tmp_path, SMALL_YML, body + KERNEL))
    assert REFUSED[body] in told
    assert told.partition(": ")[0] in ("reference.py", "task.yml")


@pytest.mark.parametrize(
    "body",
    [
        "def generate_input(m, k, seed=1, n=3, *, device, eps=1e-5): ...",
        "def generate_input(**case): ...",
        "generate_input = torch.rand",
        "from utils import closeness as generate_input",
    ],
)
def test_arguments_that_cases_need_not_give_are_not_asked_for(tmp_path: Path, body: str) -> None:
    told = said(opened(tmp_path, SMALL_YML, body + KERNEL))
    assert bool(told) is ("closeness" in body)
    assert not told or "generate_input takes got, which is not given" in told


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
