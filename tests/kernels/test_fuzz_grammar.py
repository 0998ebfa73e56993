"""`[fuzz]`, `[judged]` and `supports` in a lesson: what an author may declare, and each slip with its fix."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from aisp.checks.oracle.schema import Layout
from aisp.kernels import catalog
from aisp.kernels.catalog import Extent, Fuzz, Judged, JudgedAs, Problem, Target
from aisp.kernels.catalog.frontmatter import LAYOUTS

LESSON = """\
+++
title = "The largest of each row"
techniques = ["selection"]
axes = { M = 8, N = 64, K = 4, KEEP = 90 }
flops = "0"

[inputs]
x = "float32 [M, N] normal"
w = "float16 [N] normal"
seed = "int64 [1] integers(0, 9)"

[outputs]
values = "float32 [M, K]"
indices = "int64 [M, K]"

[[cases]]
name = "cpu"
axes = { KEEP = 50 }

"""


def load(folder: Path, tables: str) -> Target | tuple[Problem, ...]:
    (folder / "lesson.md").write_text(f"{LESSON}{tables}\n+++\n\n# One\n")
    for name in ("reference", "baseline", "optimized"):
        (folder / f"{name}.py").write_text("def run(x, w, seed):\n    return x\n")
    found = catalog.load_target(folder, root=folder, chapter="mine")
    return found if isinstance(found, Target) else tuple(found)


def good(folder: Path, tables: str) -> Target:
    found = load(folder, tables)
    assert isinstance(found, Target), "; ".join(map(str, found))
    return found


# -- good ones -----------------------------------------------------------------------------------------------------


def test_a_lesson_that_says_nothing_promises_nothing(tmp_path: Path) -> None:
    found = good(tmp_path, "")
    assert found.fuzz == Fuzz()
    assert found.judged == {}
    assert all(rung.supports == {} for rung in found.rungs)


def test_everything_that_fuzz_can_say_is_read(tmp_path: Path) -> None:
    tables = """
[fuzz]
axes        = { M = { least = 0 }, N = { multiple = 16, least = 32, most = 512 }, K = [1, 4] }
dtypes      = ["float32", "float16", "bfloat16"]
layouts     = ["transposed", "sliced", "offset", "expanded"]
independent = "M"
linear      = ["x", "w"]
shift       = ["x"]
finite      = ["w"]
backward    = true
"""
    assert good(tmp_path, tables).fuzz == Fuzz(
        axes={"M": Extent(least=0), "N": Extent(least=32, most=512, multiple=16), "K": Extent(values=(1, 4))},
        dtypes=("float32", "float16", "bfloat16"),
        layouts=("transposed", "sliced", "offset", "expanded"),
        independent="M",
        linear=("x", "w"),
        shift=("x",),
        finite=("w",),
        backward=True,
    )


def test_axes_may_stand_in_a_table_of_their_own(tmp_path: Path) -> None:
    found = good(tmp_path, "[fuzz.axes]\nM = { most = 2 }\nK = [1, 4]")
    assert found.fuzz.axes == {"M": Extent(most=2), "K": Extent(values=(1, 4))}


def test_what_one_rung_supports_is_its_own(tmp_path: Path) -> None:
    found = good(tmp_path, "[rungs.optimized]\nsupports = { N = { multiple = 16, most = 512 }, K = [4] }")
    assert found.rung("optimized").supports == {"N": Extent(multiple=16, most=512), "K": Extent(values=(4,))}
    assert found.rung("baseline").supports == {}


def test_outputs_that_are_judged_otherwise_are_read(tmp_path: Path) -> None:
    tables = """
[judged]
indices = { as = "indices", of = "x", values = "values" }
values = { as = "dropout", keep = "KEEP/100", seed = "seed" }
"""
    assert good(tmp_path, tables).judged == {
        "indices": Judged(JudgedAs.INDICES, of="x", values="values"),
        "values": Judged(JudgedAs.DROPOUT, keep="KEEP/100", seed="seed"),
    }


@pytest.mark.parametrize(
    ("extent", "admitted"),
    [
        (Extent(), {1, 2, 3, 4, 5, 6, 7, 8}),
        (Extent(least=0), {0, 1, 2, 3, 4, 5, 6, 7, 8}),
        (Extent(least=3, most=5), {3, 4, 5}),
        (Extent(multiple=4), {4, 8}),
        (Extent(multiple=4, least=0, most=4), {0, 4}),
        (Extent(values=(0, 7)), {0, 7}),
    ],
)
def test_an_extent_admits_what_it_says(extent: Extent, admitted: set[int]) -> None:
    assert {value for value in range(9) if extent.admits(value)} == admitted


def test_every_layout_of_the_grammar_is_one_that_the_oracle_knows() -> None:
    assert {*LAYOUTS} == {layout.value for layout in Layout} - {"contiguous"}


# -- slips ---------------------------------------------------------------------------------------------------------

AXES = "write axes = { N = { multiple = 16, most = 512 }, D = [32, 64] }"
SUPPORTS = "write supports = { N = { multiple = 16, most = 512 }, D = [32, 64] }"
JUDGED = 'write [judged], then indices = { as = "indices", of = "x", values = "values" }'
NOTHING = "least at most most, multiple at least 1"
SLIPS: list[tuple[str, str, str, str]] = [
    ("[fuzz]\nlinaer = ['x']", "fuzz.linaer", "unknown key", "did you mean 'linear'?"),
    ("[fuzz]\naxes = { P = [1] }", "fuzz.axes.P", "not among [axes]", "name an axis"),
    ("[fuzz]\naxes = { M = 4 }", "fuzz.axes.M", "4 is a whole number, neither a list nor a table", AXES),
    ("[fuzz]\naxes = { M = [] }", "fuzz.axes.M", "[] is no list of whole numbers", AXES),
    ("[fuzz]\naxes = { M = [1.5] }", "fuzz.axes.M", "[1.5] is no list of whole numbers", AXES),
    ("[fuzz]\naxes = { M = [true] }", "fuzz.axes.M", "[True] is no list of whole numbers", AXES),
    ("[fuzz]\naxes = { M = [-1] }", "fuzz.axes.M", "[-1] is no list of whole numbers", AXES),
    ("[fuzz]\naxes = { M = { least = 9, most = 3 } }", "fuzz.axes.M", "allows nothing", NOTHING),
    ("[fuzz]\naxes = { M = { least = -1 } }", "fuzz.axes.M", "{'least': -1} allows nothing", NOTHING),
    ("[fuzz]\naxes = { M = { multiple = 0 } }", "fuzz.axes.M", "{'multiple': 0} allows nothing", NOTHING),
    ("[fuzz]\naxes = { M = { max = 3 } }", "fuzz.axes.M.max", "unknown key", "most"),
    ("[fuzz]\naxes = { M = { most = '3' } }", "fuzz.axes.M.most", "'3' is a string, not a whole number", AXES),
    ("[fuzz]\naxes = [1]", "fuzz.axes", "[1] is a list, not a table", AXES),
    ("[fuzz]\ndtypes = ['float33']", "fuzz.dtypes", "unknown 'float33'", "did you mean 'float32'?"),
    ("[fuzz]\ndtypes = ['int64']", "fuzz.dtypes", "unknown 'int64'", ""),
    (
        "[fuzz]\ndtypes = 'float32'",
        "fuzz.dtypes",
        "'float32' is a string, not a list",
        "write dtypes = ['float32', 'float16']",
    ),
    ("[fuzz]\nlayouts = ['transposd']", "fuzz.layouts", "unknown 'transposd'", "did you mean 'transposed'?"),
    ("[fuzz]\nindependent = 'B'", "fuzz.independent", "unknown axis 'B'", "name an axis"),
    ("[fuzz]\nindependent = ['M']", "fuzz.independent", "['M'] is a list, not a string", 'write independent = "M"'),
    ("[fuzz]\nlinear = ['y']", "fuzz.linear", "unknown 'y'", ""),
    ("[fuzz]\nlinear = ['seed']", "fuzz.linear", "unknown 'seed'", ""),
    ("[fuzz]\nshift = ['seed']", "fuzz.shift", "unknown 'seed'", ""),
    ("[fuzz]\nfinite = [3]", "fuzz.finite", "unknown 3", ""),
    (
        "[fuzz]\nbackward = 'yes'",
        "fuzz.backward",
        "'yes' is a string, not true or false",
        "write backward = true, or leave it out",
    ),
    ("[judged]\nindex = { as = 'indices' }", "judged.index", "no output has that name", "did you mean 'indices'?"),
    ("[judged]\nindices = 'indices'", "judged.indices", "'indices' is no table of texts", JUDGED),
    ("[judged]\nvalues = { as = 'dropout', keep = 0.5 }", "judged.values", "is no table of texts", JUDGED),
    (
        "[judged]\nindices = { as = 'indexes', of = 'x', values = 'values' }",
        "judged.indices.as",
        "unknown way 'indexes'",
        "did you mean 'indices'?",
    ),
    ("[judged]\nindices = { of = 'x', values = 'values' }", "judged.indices.as", "unknown way ''", "use a known one"),
    (
        "[judged]\nindices = { as = 'indices', of = 'q', values = 'values' }",
        "judged.indices.of",
        "'q' is not there",
        "name one of x, w, seed",
    ),
    (
        "[judged]\nindices = { as = 'indices', of = 'x' }",
        "judged.indices.values",
        "'' is not there",
        "name one of values, indices",
    ),
    (
        "[judged]\nindices = { as = 'indices', of = 'x', values = 'values', from = 'x' }",
        "judged.indices.from",
        "unknown key",
        "",
    ),
    (
        "[judged]\nvalues = { as = 'dropout', keep = '0.5' }",
        "judged.values.seed",
        "'' is not there",
        "name one of x, w, seed",
    ),
    (
        "[judged]\nvalues = { as = 'dropout', keep = 'KEEP', seed = 'seed' }",
        "judged.values.keep",
        "keep is 90",
        "it is a share, 0 to 1",
    ),
    ("[judged]\nvalues = { as = 'dropout', keep = 'P/100', seed = 'seed' }", "judged.values.keep", "P", ""),
    ("[judged]\nvalues = { as = 'dropout', seed = 'seed' }", "judged.values.keep", "", ""),
    ("[rungs.optimized]\nsupports = { P = [1] }", "rungs.optimized.supports.P", "not among [axes]", "name an axis"),
    ("[rungs.optimized]\nsupports = 'N'", "rungs.optimized.supports", "'N' is a string, not a table", SUPPORTS),
    (
        "[rungs.optimized]\nsupports = { N = [] }",
        "rungs.optimized.supports.N",
        "[] is no list of whole numbers",
        SUPPORTS,
    ),
    ("[rungs.optimized]\nsuports = { N = [1] }", "rungs.optimized.suports", "unknown key", "did you mean 'supports'?"),
]


@pytest.mark.parametrize(("tables", "key", "message", "fix"), SLIPS)
def test_a_slip_is_named_with_its_key_and_what_would_work(
    tables: str, key: str, message: str, fix: str, tmp_path: Path
) -> None:
    found = load(tmp_path, tables)
    assert not isinstance(found, Target)
    (one,) = found
    assert one.key == key
    assert message in one.message
    assert fix in one.fix
    assert one.fix


@pytest.mark.parametrize(("line", "key"), [("independent = 'M'", "independent"), ("backward = true", "backward")])
def test_an_open_output_is_along_no_axis_and_has_no_gradient(
    line: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "LESSON", LESSON.replace("float32 [M, K]", "float32 [...]"))
    assert good(tmp_path, "").outputs[0].open
    found = load(tmp_path, f"[fuzz]\n{line}")
    assert not isinstance(found, Target)
    (one,) = found
    assert (one.key, one.message) == (f"fuzz.{key}", "the shape of values is not written down")


def test_several_slips_are_told_at_once(tmp_path: Path) -> None:
    found = load(tmp_path, "[fuzz]\naxes = { P = [1], M = [] }\nlinear = ['y']\n[judged]\nz = { as = 'dropout' }")
    assert not isinstance(found, Target)
    assert {problem.key for problem in found} == {"fuzz.axes.P", "fuzz.axes.M", "fuzz.linear", "judged.z"}


# -- the guide -----------------------------------------------------------------------------------------------------

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "lessons.md").read_text(encoding="utf-8")
EXAMPLE = """\
+++
title = "As in the guide"
techniques = ["none"]
axes = { M = 8, N = 64, D = 64, KEEP = 90 }
flops = "0"
[inputs]
scores = "float32 [M, N] normal"
v = "float32 [N, D] normal"
state = "float32 [M] normal"
seed = "int64 [1] integers(0, 9)"
[outputs]
y = "float32 [M, D]"
best = "float32 [M, 4]"
indices = "int64 [M, 4]"
"""


def test_the_guides_examples_load_and_use_every_key(tmp_path: Path) -> None:
    blocks = re.findall(r"^~~~toml\n(.*?)^~~~$", GUIDE, re.MULTILINE | re.DOTALL)
    assert [block.splitlines()[0] for block in blocks] == ["[fuzz]", "[judged]"]
    (tmp_path / "lesson.md").write_text(EXAMPLE + "".join(blocks) + "+++\n\n# One\n")
    for name in ("reference", "baseline", "optimized"):
        (tmp_path / f"{name}.py").write_text("def run(*inputs):\n    return inputs\n")
    found = catalog.load_target(tmp_path, root=tmp_path, chapter="mine")
    assert isinstance(found, Target), "; ".join(map(str, found))
    assert all(getattr(found.fuzz, field.name) for field in dataclasses.fields(Fuzz))
    assert {judged.how for judged in found.judged.values()} == {*JudgedAs}


def test_the_guide_describes_every_key_of_fuzz_and_of_an_extent() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", GUIDE.partition("| key of `[fuzz]` |")[2].partition("\n\n")[0], re.MULTILINE)
    assert rows == [field.name for field in dataclasses.fields(Fuzz)]
    assert all(f"`{key}`" in GUIDE for key in ("supports", "least", "most", "multiple", "judged"))
