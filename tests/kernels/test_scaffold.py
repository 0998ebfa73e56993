"""`aisp new my_kernel` makes a target that loads, as does the guide's example; tests/engine/test_guide.py runs both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import Kind, ScaffoldError, Target, copy_target, free_name, scaffold

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "lessons.md"


def fences(text: str) -> list[tuple[str, str]]:
    """Each fenced block as (language, content)."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def only_target(root: Path) -> Target:
    found = catalog.load([root])
    assert [str(problem) for problem in found.problems] == []
    (target,) = found.targets
    return target


def test_a_new_target_loads_at_once(tmp_path: Path) -> None:
    folder = scaffold("my_kernel", tmp_path / "my_kernels")
    assert folder == tmp_path / "my_kernels" / "my_kernel"
    target = only_target(tmp_path / "my_kernels")
    assert target.id == "my_kernels:my_kernel"
    assert target.title.startswith("my_kernel: ")
    assert [case.name for case in target.cases] == ["default", "cpu", "ragged"]
    assert target.case("ragged").timed is False
    assert [rung.name for rung in target.rungs] == ["baseline", "optimized", "wrong_half", "wrong_tail"]
    assert {rung.kind for rung in target.rungs} == {Kind.TORCH}
    assert all(rung.summary for rung in target.rungs)
    assert target.needs.missing(sm=None, gpus=0) is None
    assert sorted(path.name for path in (tmp_path / "my_kernels").iterdir()) == ["my_kernel"]


def test_the_lesson_of_a_new_target_says_what_to_change(tmp_path: Path) -> None:
    scaffold("my_kernel", tmp_path)
    lesson = only_target(tmp_path).lesson
    for file in ("lesson.md", "reference.py", "baseline.py", "optimized.py", "wrong_*.py", "optimized_triton.py"):
        assert f"{file}" in lesson
    assert "NAME" not in lesson


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("", "for example my_kernel"),
        ("My Kernel", "for example my_kernel"),
        ("softmax-v2", "for example softmax_v2"),
        ("2fast", "for example my_kernel"),
        ("../escape", "for example escape"),
        ("a/b", "for example a_b"),
        (".hidden", "for example hidden"),
        ("new\nline", "for example new_line"),
        ("x" * 61, "for example " + "x" * 60),
        ("lambda", "for example lambda_kernel"),
        ("ch07_mine", "begin with what the kernel does"),
        ("labs", "begin with what the kernel does"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_with_one_that_does(tmp_path: Path, name: str, fix: str) -> None:
    with pytest.raises(ScaffoldError) as caught:
        scaffold(name, tmp_path / "into")
    assert caught.value.fix.endswith(fix)
    assert repr(name) in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "optimized.py").write_text("precious\n")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("mine", "dangling"):
        with pytest.raises(ScaffoldError, match=f"{name} is already there; choose another name, for example {name}_2"):
            scaffold(name, tmp_path)
    assert (tmp_path / "mine" / "optimized.py").read_text() == "precious\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "mine"]


def test_targets_do_not_nest(tmp_path: Path) -> None:
    folder = scaffold("outer", tmp_path)
    with pytest.raises(ScaffoldError, match="is itself a target; targets do not nest: use its parent"):
        scaffold("inner", folder)


def test_a_folder_that_cannot_be_written_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ScaffoldError, match="cannot be written"):
        scaffold("mine", tmp_path / "file" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_new_target_has_the_permissions_of_any_new_folder(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    folder = scaffold("mine", tmp_path)
    assert folder.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_copy_has_every_file_and_says_where_it_comes_from(tmp_path: Path) -> None:
    shipped = catalog.load([catalog.shipped_root() / "ch09_arithmetic_intensity"]).find("ch09:gemm_ladder")
    folder = copy_target(shipped, "my_gemm", tmp_path / "mine")
    copy = only_target(tmp_path / "mine")
    assert (copy.id, copy.folder) == ("mine:my_gemm", folder)
    assert copy.files == shipped.files and "gemm.cu" in copy.files
    assert [(rung.name, rung.kind) for rung in copy.rungs] == [(rung.name, rung.kind) for rung in shipped.rungs]
    assert any(rung.name.startswith("wrong_") for rung in copy.rungs)
    assert copy.lesson == f"A copy of `ch09:gemm_ladder`, made to be changed.\n\n{shipped.lesson}"
    for name in shipped.files:
        if name != "lesson.md":
            assert (folder / name).read_bytes() == (shipped.folder / name).read_bytes()


def test_every_shipped_lesson_can_be_copied_and_loads(tmp_path: Path) -> None:
    for shipped in catalog.load().targets:
        name = free_name(shipped.name, tmp_path)
        copy_target(shipped, name, tmp_path)
    found = catalog.load([tmp_path])
    assert [str(problem) for problem in found.problems] == []
    assert len(found.targets) == len(catalog.load().targets)


def test_a_copy_never_touches_what_is_there_and_names_what_is_free(tmp_path: Path) -> None:
    first = only_target(scaffold("mine", tmp_path))
    copy_target(first, "mine_2", tmp_path)
    with pytest.raises(ScaffoldError, match="mine is already there; choose another name, for example mine_3"):
        copy_target(first, "mine", tmp_path)
    assert free_name("mine", tmp_path) == "mine_3"
    assert free_name("yours", tmp_path) == "yours"


# The guide


def guide_files() -> dict[str, str]:
    """The files of the guide's example: each fenced block is that which the line above it names."""
    block = r"^`scaled_rows/([\w.]+)`:\n\n(?:```|~~~)\w*\n(.*?)^(?:```|~~~)$"
    return dict(re.findall(block, GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def guide_target(root: Path) -> Target:
    """Write the guide's example, which tests/engine/test_guide.py runs."""
    folder = root / "scaled_rows"
    folder.mkdir()
    for name, content in guide_files().items():
        (folder / name).write_text(content, encoding="utf-8")
    return only_target(root)


def test_the_guides_example_loads_as_the_guide_says(tmp_path: Path) -> None:
    target = guide_target(tmp_path)
    assert [rung.name for rung in target.rungs] == [
        *("baseline", "baseline_compile", "optimized", "optimized_triton", "wrong_order"),
    ]
    assert target.rung("optimized_triton").kind is Kind.TRITON
    assert [spec.name for spec in target.inputs] == ["x", "scale", "order"]
    assert catalog.bytes_moved(target, target.case("cpu")) == 2 * 64 * 1000 * 4 + 64 * 4 + 64 * 8
    assert target.expect is not None
    assert target.expect.on == "H100"


@pytest.mark.parametrize("group", ["DTYPES", "DISTRIBUTIONS", "Flag", "Goal", "keys", "functions"])
def test_the_guide_names_everything_that_the_grammar_knows(group: str) -> None:
    from aisp.kernels.catalog import frontmatter, grammar

    known: Iterable[str] = {
        "DTYPES": tuple(catalog.DTYPES),
        "DISTRIBUTIONS": tuple(catalog.DISTRIBUTIONS),
        "Flag": tuple(catalog.Flag),
        "Goal": tuple(catalog.Goal),
        "keys": (*frontmatter.KEYS, "sm", "gpus", "speedup", "on", "why", "name", "timed", "summary", "inexact"),
        "functions": grammar.FUNCTIONS,
    }[group]
    text = GUIDE.read_text(encoding="utf-8")
    assert [str(word) for word in known if f"`{word}" not in text] == []


def test_the_guides_expressions_have_the_values_it_states() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| ([0-9.]+) \|$", text, re.MULTILINE)
    assert len(rows) >= 5
    for expression, value in rows:
        assert catalog.evaluate(expression, {"M": 1000, "N": 517, "K": 64}) == float(value), expression
