"""Two versions of one rung as a target: every shipped lesson, and the names of companions that differ."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog.between import BetweenError, between, reached
from aisp.kernels.catalog.model import Goal, Target

LESSON = b"""+++
title = "A sum"
techniques = ["none"]
goal = "memory"
axes = { N = 64, M = 8 }
flops = "N"
expect = { speedup = [1.5, 3.0], on = "CPU", why = "with a \\"quote\\", a \\\\ and a dot." }
tolerance = { float32 = 1e-5 }
[inputs]
x = "float32 [N] normal"
[outputs]
y = "float32 [N]"
[[cases]]
name = "cpu"
axes = { N = 16 }
[rungs.optimized_wide]
summary = "wide"
needs = { sm = 80 }
inexact = true
formerly = "optimized_old"
expect = { ms = [0.1, 0.2] }
supports = { N = { multiple = 16 } }
[rungs.optimized]
summary = "plain"
+++

# A sum
"""


def target(**files: str) -> dict[str, bytes]:
    """Sources of a target; `a__b` is the file a.b, and what is not given is there."""
    plain = "def run(x):\n    return 0\n"
    given = {name.replace("__", "."): text.encode() for name, text in files.items()}
    some = {f"{name}.py": plain.encode() for name in ("reference", "baseline", "optimized", "optimized_wide")}
    return {"lesson.md": LESSON, **some, **given}


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def loaded(folder: Path, files: Mapping[str, bytes]) -> Target:
    found = catalog.load_target(written(folder, files), root=folder.parent, chapter="turns")
    assert isinstance(found, Target), "; ".join(map(str, found))
    assert not found.left_out
    return found


def called(folder: Path, files: Mapping[str, bytes], module: str) -> str:
    """What run(0) of a module returns, imported with the folder first on the path, as a worker does."""
    written(folder, files)
    words = f"import sys; sys.path.insert(0, {str(folder)!r}); import {module}; print({module}.run(0))"
    return subprocess.run(
        [sys.executable, "-P", "-c", words], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


@pytest.mark.slow
def test_every_rung_of_every_shipped_lesson_loads_beside_an_edit_of_itself(tmp_path: Path) -> None:
    count = 0
    for shipped in catalog.load().targets:
        files = catalog.read_sources(shipped)
        for rung in shipped.rungs:
            edited = {**files, rung.path.name: files[rung.path.name] + b"\n# an edit\n"}
            made = loaded(tmp_path / f"t{count}", between(files, edited, rung.name, shipped.name))
            assert [one.name for one in made.rungs] == ["baseline", "optimized"], shipped.id
            assert {one.kind for one in made.rungs} == {rung.kind}, shipped.id
            assert [one.needs for one in made.rungs] == [rung.needs, rung.needs], shipped.id
            assert (made.cases, made.inputs, made.outputs) == (shipped.cases, shipped.inputs, shipped.outputs)
            assert (made.tolerance, made.fuzz, made.judged) == (shipped.tolerance, shipped.fuzz, shipped.judged)
            assert (made.flops, made.bytes, made.ranks) == (shipped.flops, shipped.bytes, shipped.ranks)
            count += 1
    assert count > 300


def test_a_companion_that_both_versions_share_is_there_once_and_nothing_is_renamed() -> None:
    old = target(optimized__py="import tiles\nrun = tiles.run\n", tiles__py="def run(x):\n    return 1\n")
    new = {**old, "optimized.py": old["optimized.py"] + b"# faster\n"}
    files = between(old, new, "optimized", "sum")
    assert files.keys() == {"lesson.md", "reference.py", "baseline.py", "optimized.py", "tiles.py"}
    assert (files["baseline.py"], files["optimized.py"]) == (old["optimized.py"], new["optimized.py"])


@pytest.mark.parametrize(
    "text",
    [
        "from tiles import value\n\ndef run(x):\n    return value\n",
        "import tiles\n\ndef run(x):\n    return tiles.value\n",
        "import math, tiles as t, sys\n\ndef run(x):\n    return t.value\n",
        "def run(x):\n    µ = 'é'; from \\\n  tiles import (\n        value)\n    return value\n",
        "# tiles\r\nimport tiles\r\n\r\ndef run(x):\r\n    return tiles.value\r\n",
        "\ufeffimport tiles\n\ndef run(x):\n    return tiles.value\n",
    ],
)
def test_each_version_gets_the_module_that_it_had(text: str, tmp_path: Path) -> None:
    old = target(optimized_wide__py=text, tiles__py="value = 'then'\n")
    new = {**old, "tiles.py": b"value = 'now'\n"}
    files = between(old, new, "optimized_wide", "sum")
    assert called(tmp_path / "x", files, "baseline") == "then"
    assert called(tmp_path / "x", files, "optimized") == "now"
    assert files["optimized.py"] == text.encode()  # the new one's names stand


def test_what_only_looks_like_an_import_is_left_as_it_is() -> None:
    text = '"""import tiles"""\nimport tiles  # import tiles\nsaid = "import tiles; tiles.py is it"\nrun = tiles.run\n'
    old = target(optimized__py=text, tiles__py="run = 1\n")
    files = between(old, {**old, "tiles.py": b"run = 2\n"}, "optimized", "sum")
    assert files["baseline.py"].decode() == text.replace("\nimport tiles ", "\nimport then_tiles as tiles ")


def test_a_cuda_file_that_changed_is_named_anew_in_the_old_source_alone() -> None:
    text = 'from pathlib import Path\n\nname = Path(__file__).with_name("sum.cu")\nsaid = "see sum.cu"\n'
    old = target(optimized__py=text, sum__cu='#include "tile.cuh"\nold();\n', tile__cuh="tile();\n")
    new = {**old, "sum.cu": b'#include "tile.cuh"\nnew();\n'}
    files = between(old, new, "optimized", "sum")
    assert files["baseline.py"].decode() == text.replace('"sum.cu")', "'then_sum.cu')")
    assert (files["then_sum.cu"], files["sum.cu"]) == (old["sum.cu"], new["sum.cu"])
    assert "then_tile.cuh" not in files


def test_what_includes_a_changed_header_is_of_its_version_too() -> None:
    old = target(optimized__py='NAME = "sum.cu"\n', sum__cu='  # include "tile.cuh"\n', tile__cuh="then();\n")
    files = between(old, {**old, "tile.cuh": b"now();\n"}, "optimized", "sum")
    assert files["baseline.py"] == b"NAME = 'then_sum.cu'\n"
    assert files["then_sum.cu"] == b'  # include "then_tile.cuh"\n'
    assert files["then_tile.cuh"] == b"then();\n"


def test_a_rung_that_imports_another_rung_takes_it_along_under_a_name_that_is_no_rung(tmp_path: Path) -> None:
    old = target(
        optimized_wide__py="from baseline import value\n\ndef run(x):\n    return value\n",
        baseline__py="value = 'then'\n",
    )
    new = {**old, "baseline.py": b"value = 'now'\n"}
    files = between(old, new, "optimized_wide", "sum")
    assert [rung.name for rung in loaded(tmp_path / "x", files).rungs] == ["baseline", "optimized"]
    assert called(tmp_path / "x", files, "baseline") == "then"
    assert called(tmp_path / "x", files, "optimized") == "now"


def test_a_module_that_imports_the_rung_itself_belongs_to_its_version(tmp_path: Path) -> None:
    """Also where the rung is the baseline, whose old source keeps its name."""
    rung = "value = 'then'\n\ndef run(x):\n    import shared\n    return shared.value\n"
    old = target(baseline__py=rung, shared__py="from baseline import value\n")
    new = {**old, "baseline.py": rung.replace("then", "now").encode()}
    files = between(old, new, "baseline", "sum")
    assert called(tmp_path / "x", files, "baseline") == "then"
    assert called(tmp_path / "x", files, "optimized") == "now"


def test_a_folder_of_modules_moves_as_a_whole(tmp_path: Path) -> None:
    body = "def run(x):\n    return common.tiles.value + r.value + tiles.value\n"
    text = f"import common.tiles, common.rows as r\nfrom common import tiles\n\n{body}"
    old = {**target(optimized__py=text), "common/tiles.py": b"value = 'a'\n", "common/rows.py": b"value = 'b'\n"}
    files = between(old, {**old, "common/rows.py": b"value = 'c'\n"}, "optimized", "sum")
    assert called(tmp_path / "x", files, "baseline") == "aba"
    assert called(tmp_path / "x", files, "optimized") == "aca"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import importlib\nm = importlib.import_module('tiles')\nimport tiles\n", "import_module"),
        ("import tiles\nname = f'{tiles}.cu'\n", "'.cu'"),
        ("import tiles\nfor file in tiles.glob('*'): pass\n", "glob"),
        ("# coding: latin-1\nimport tiles\n", "cannot be changed safely"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_line(text: str, told: str) -> None:
    old = target(optimized__py=text, tiles__py="a = 1\n")
    with pytest.raises(BetweenError, match=rf"old optimized .*line \d.*{told}|old optimized .*line \d+ .*{told}"):
        between(old, {**old, "tiles.py": b"a = 2\n"}, "optimized", "sum")


def test_a_computed_name_is_no_obstacle_where_the_rungs_own_file_is_all_that_differs() -> None:
    old = target(optimized__py="import importlib\nm = importlib.import_module('tiles')\n", tiles__py="a = 1\n")
    files = between(old, {**old, "optimized.py": old["optimized.py"] + b"#\n"}, "optimized", "sum")
    assert files["tiles.py"] == b"a = 1\n"


def test_a_file_that_is_named_after_the_rungs_own_file_is_refused() -> None:
    text = "from pathlib import Path\nname = Path(__file__).with_suffix('.cu')\n"
    old = target(optimized_wide__py=text, optimized_wide__cu="old();\n")
    with pytest.raises(BetweenError, match=r"computes which file it reads \(line 2 of optimized_wide\.py"):
        between(old, {**old, "optimized_wide.py": b"# \n" + old["optimized_wide.py"]}, "optimized_wide", "sum")


def test_the_lesson_is_of_the_task_without_what_it_says_of_other_rungs(tmp_path: Path) -> None:
    old = target()
    made = loaded(tmp_path / "x", between(old, old, "optimized_wide", "mine:sum"))
    assert made.expect is None
    assert (made.goal, made.title) == (
        Goal.SPEED,
        "mine:sum: optimized_wide as it was, beside optimized_wide as it became",
    )
    assert [case.name for case in made.cases] == ["default", "cpu"]
    assert made.tolerance["float32"] == 1e-5
    for rung in made.rungs:
        assert (rung.needs.sm, rung.inexact, rung.formerly, rung.expect) == (80, True, "", None)
        assert rung.unsupported({"N": 17, "M": 8})


def test_each_version_has_the_needs_that_its_own_lesson_gave_it(tmp_path: Path) -> None:
    old = target()
    new = {**old, "lesson.md": LESSON.replace(b"sm = 80", b"sm = 90")}
    rungs = loaded(tmp_path / "x", between(old, new, "optimized_wide", "sum")).rungs
    assert [rung.needs.sm for rung in rungs] == [80, 90]


def test_a_third_version_can_give_the_task(tmp_path: Path) -> None:
    base = target(
        optimized__py="from size import value\n\ndef run(x):\n    return value\n",
        reference__py="from size import value\n\ndef run(x):\n    return value\n",
        size__py="value = 'task'\n",
    )
    old, new = {**base, "size.py": b"value = 'then'\n"}, {**base, "size.py": b"value = 'now'\n"}
    files = between(old, new, "optimized", "sum", task=base)
    assert [called(tmp_path / "x", files, name) for name in ("reference", "baseline", "optimized")] == [
        "task",
        "then",
        "now",
    ]


def test_a_version_without_the_rung_or_with_a_broken_lesson_is_refused() -> None:
    whole = target()
    with pytest.raises(BetweenError, match="the old sources have no rung optimized_wide; there is baseline, optimized"):
        between({k: v for k, v in whole.items() if "wide" not in k}, whole, "optimized_wide", "sum")
    with pytest.raises(BetweenError, match=r"lesson\.md is not valid: .*axes"):
        between(whole, {**whole, "lesson.md": LESSON.replace(b"{ N = 64, M = 8 }", b"3")}, "optimized", "sum")
    with pytest.raises(BetweenError, match=r"there is no reference\.py"):
        between(whole, {k: v for k, v in whole.items() if k != "reference.py"}, "optimized", "sum")


def test_a_rung_is_made_of_its_file_and_what_it_reaches() -> None:
    files = target(
        optimized__py='import tiles\nname = "sum.cu"\n',
        tiles__py="import rows\n",
        rows__py="",
        sum__cu="",
        other__py="",
    )
    assert reached(files, "optimized").keys() == {"optimized.py", "tiles.py", "rows.py", "sum.cu"}
