"""Targets on disk: found under every shape of root, read without being imported, refused with file, key and fix."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import (
    Case,
    Expectation,
    Flag,
    Goal,
    Kind,
    Link,
    LinkKind,
    Miss,
    Needs,
    Problem,
    Role,
    RungExpectation,
    Target,
    TargetError,
    TensorSpec,
    choosing,
    sources,
)

from .generated import write_collection

LESSON = """\
+++
title      = "A transpose"
techniques = ["coalescing", "shared-memory-tile"]
goal       = "latency"
needs      = { sm = 80, gpus = 1 }
axes       = { M = 8192, N = 4096 }
flops      = "2*M*N"
tolerance  = { float32 = 0 }
expect     = { speedup = [1.5, 3.0], on = "H100", why = "half the bytes" }

[inputs]
x = "float32 [M, N] normal"
state = "float16 [N] zeros mutable"

[outputs]
y = "float32 [N, M]"

[[cases]]
name = "ragged"
axes = { M = 1023 }
timed = false

[[cases]]
name = "cpu"
axes = { M = 64, N = 32 }

[rungs.optimized_swizzled]
summary = "no padding"
needs   = { sm = 90, gpus = 1 }
inexact = true
instructions = ["ld.shared", "bar.sync"]
formerly = "optimized_padded"
expect = { ms = [0.19, 0.23], limiter = "bytes", counters = { "sectors a request" = [4, 4] } }
+++

# A transpose

Text.
"""

RUN = "def run(x, state):\n    return x.t().contiguous()\n"


def write_target(folder: Path, lesson: str | bytes = LESSON, **files: str | bytes | None) -> Path:
    """Write a whole target; `files` adds, replaces or (None) leaves out, with _py, _cu for the suffix."""
    contents: dict[str, str | bytes | None] = {
        "lesson.md": lesson,
        "reference.py": RUN,
        "baseline.py": RUN,
        "optimized.py": RUN,
        "optimized_swizzled.py": RUN,
    }
    contents |= {name[::-1].replace("_", ".", 1)[::-1]: content for name, content in files.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def only_target(root: Path) -> Target:
    found = catalog.load([root])
    assert found.problems == ()
    (target,) = found.targets
    return target


def only_problem(root: Path) -> Problem:
    found = catalog.load([root])
    (problem,) = found.problems
    return problem


# What a whole lesson says


def test_a_lesson_is_read_whole(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "ch07_memory_access" / "transpose")
    target = only_target(tmp_path)
    assert target.id == "ch07:transpose"
    assert (target.chapter, target.name, target.title) == ("ch07", "transpose", "A transpose")
    assert (target.folder, target.root) == (folder, tmp_path)
    assert target.goal is Goal.LATENCY
    assert target.needs == Needs(sm=80, gpus=1)
    assert target.techniques == ("coalescing", "shared-memory-tile")
    assert target.inputs == (
        TensorSpec("x", "float32", ("M", "N"), "normal", ("0", "1")),
        TensorSpec("state", "float16", ("N",), "zeros", (), frozenset({Flag.MUTABLE})),
    )
    assert target.outputs == (TensorSpec("y", "float32", ("N", "M")),)
    assert target.cases == (
        Case("default", {"M": 8192, "N": 4096}),
        Case("ragged", {"M": 1023, "N": 4096}, timed=False),
        Case("cpu", {"M": 64, "N": 32}),
    )
    assert (target.flops, target.bytes) == ("2*M*N", "")
    assert target.tolerance["float32"] == 0
    assert target.tolerance["bfloat16"] == 2e-2
    assert target.expect == Expectation((1.5, 3.0), "H100", "half the bytes")
    assert target.lesson == "# A transpose\n\nText.\n"
    assert target.files == ("baseline.py", "lesson.md", "optimized.py", "optimized_swizzled.py", "reference.py")


def test_a_rung_has_the_targets_needs_unless_its_own_table_says_otherwise(tmp_path: Path) -> None:
    target = only_target(write_target(tmp_path / "t"))
    assert target.rung("baseline").needs == Needs(sm=80, gpus=1)
    assert target.rung("baseline").gpu_only is False
    swizzled = target.rung("optimized_swizzled")
    assert (swizzled.summary, swizzled.needs, swizzled.inexact) == ("no padding", Needs(sm=90, gpus=1), True)
    assert swizzled.instructions == ("ld.shared", "bar.sync")
    assert swizzled.formerly == "optimized_padded"
    assert swizzled.expect == RungExpectation((0.19, 0.23), "bytes", {"sectors a request": (4.0, 4.0)})
    assert swizzled.gpu_only is True


def test_rungs_stand_in_the_order_of_the_ladder(tmp_path: Path) -> None:
    names = ("wrong_tail", "peer_lib", "optimized_a", "baseline_b", "baseline_a", "wrong_half", "helper")
    target = only_target(write_target(tmp_path / "t", **{f"{name}_py": RUN for name in names}))
    assert [(rung.name, rung.role) for rung in target.rungs] == [
        ("baseline", Role.BASELINE),
        ("baseline_a", Role.BASELINE),
        ("baseline_b", Role.BASELINE),
        ("optimized", Role.OPTIMIZED),
        ("optimized_a", Role.OPTIMIZED),
        ("optimized_swizzled", Role.OPTIMIZED),
        ("peer_lib", Role.PEER),
        ("wrong_half", Role.WRONG),
        ("wrong_tail", Role.WRONG),
    ]
    assert target.rungs[0].path == tmp_path / "t" / "baseline.py"


def test_a_cpu_is_enough_unless_the_lesson_says_otherwise(tmp_path: Path) -> None:
    target = only_target(write_target(tmp_path / "t", LESSON.replace("needs      = { sm = 80, gpus = 1 }\n", "")))
    assert target.needs == Needs(sm=None, gpus=0)
    assert target.goal is Goal.LATENCY
    assert target.rung("baseline").needs.missing(sm=None, gpus=0) is None


def test_an_output_may_be_the_mutable_input_after_the_call(tmp_path: Path) -> None:
    target = only_target(write_target(tmp_path / "t", LESSON.replace('y = "float32 [N, M]"', 'state = "float16 [N]"')))
    assert [spec.name for spec in target.outputs] == ["state"]


def test_a_lesson_saved_by_a_windows_editor_reads_the_same(tmp_path: Path) -> None:
    unix = only_target(write_target(tmp_path / "a" / "t"))
    windows = only_target(write_target(tmp_path / "b" / "t", "\ufeff" + LESSON.replace("\n", "\r\n")))
    assert windows.inputs == unix.inputs
    assert windows.cases == unix.cases
    assert windows.lesson == unix.lesson


def test_a_target_survives_pickling(tmp_path: Path) -> None:
    target = only_target(write_target(tmp_path / "t"))
    assert pickle.loads(pickle.dumps(target)) == target


# Bytes and operations


def test_bytes_follow_from_the_tensors(tmp_path: Path) -> None:
    target = only_target(write_target(tmp_path / "t"))
    case = Case("c", {"M": 10, "N": 3})
    # x and y once each, the mutable state once read and once written.
    assert catalog.bytes_moved(target, case) == 2 * 10 * 3 * 4 + 2 * 3 * 2
    assert catalog.flops(target, case) == 60.0


def test_a_mutable_input_that_is_an_output_is_written_once(tmp_path: Path) -> None:
    target = only_target(write_target(tmp_path / "t", LESSON.replace('y = "float32 [N, M]"', 'state = "float16 [N]"')))
    assert catalog.bytes_moved(target, Case("c", {"M": 10, "N": 3})) == 10 * 3 * 4 + 2 * 3 * 2


def test_a_lesson_may_state_its_bytes(tmp_path: Path) -> None:
    lesson = LESSON.replace('flops      = "2*M*N"', 'flops = 0\nbytes = "M*N*0.5 + 0.25"')
    target = only_target(write_target(tmp_path / "t", lesson))
    assert catalog.bytes_moved(target, Case("c", {"M": 10, "N": 3})) == 16
    assert catalog.flops(target, Case("c", {"M": 10, "N": 3})) == 0.0


def test_a_lesson_may_state_what_crosses_a_link(tmp_path: Path) -> None:
    lesson = LESSON.replace("goal  ", 'link = "pcie"\nlink_in = "4*M*N"\ngoal  ')
    target = only_target(write_target(tmp_path / "t", lesson))
    assert target.link == Link(LinkKind.PCIE, into="4*M*N")
    assert catalog.link_bytes(target, Case("c", {"M": 10, "N": 3})) == (120.0, 0.0)
    plain = only_target(write_target(tmp_path / "u", LESSON))
    assert plain.link is None
    assert catalog.link_bytes(plain, Case("c", {"M": 10, "N": 3})) == (0.0, 0.0)


def test_what_was_predicted_of_a_rung_is_met_missed_or_not_said() -> None:
    expected = RungExpectation((0.19, 0.23), "bytes", {"sectors a request": (4.0, 4.0)})
    assert expected.judged(ms=0.2, limiter="bytes") == {"ms": True, "limiter": True}
    assert expected.judged(ms=0.24, limiter="launch") == {"ms": False, "limiter": False}
    assert expected.judged(ms=None, limiter="", counters={"sectors a request": 5.0}) == {"sectors a request": False}
    assert RungExpectation(limiter="bytes").judged(ms=0.2, limiter="") == {}


# What is wrong with a lesson


def change(before: str, after: str) -> str:
    assert before in LESSON
    return LESSON.replace(before, after)


AXES = "axes       = { M = 8192, N = 4096 }"
X = 'x = "float32 [M, N] normal"'
CASELESS = LESSON[: LESSON.index("[[cases]]")].replace("goal ", "cases = 3\ngoal ") + LESSON[LESSON.index("[rungs") :]
MALFORMED: dict[str, tuple[str | bytes, str, str, str]] = {
    "no front matter": ("# A transpose\n", "", "no front matter", "begin the file with a line +++"),
    "empty file": ("", "", "no front matter", "begin the file with a line +++"),
    "not closed": (LESSON.rpartition("+++")[0], "", "not closed", "end it with a line +++"),
    "text above": ("Hello\n" + LESSON, "", "no front matter", "begin the file with a line +++"),
    "no quotes": (change('"A transpose"', "A transpose"), "", "line 2, column", "between quotes"),
    "twice": (change("goal ", "title = 'b'\ngoal "), "", "line 4, column", "a key may stand once"),
    "table over lines": (change(AXES, "axes = {\nM = 1 }"), "", "line 6, column", "must stand on one line"),
    "no value": (change('"latency"', ""), "", "line 4, column", "between quotes"),
    "title missing": (change('title      = "A transpose"\n', ""), "title", "missing", "write title ="),
    "title empty": (change('"A transpose"', '" "'), "title", "empty", "write title ="),
    "title a number": (change('"A transpose"', "7"), "title", "7 is a whole number, not a string", "write title ="),
    "unknown key": (change("techniques", "technics"), "technics", "unknown key", "did you mean 'techniques'?"),
    "techniques mixed": (change('"coalescing"', "1"), "techniques", "something other than words", "write techniques"),
    "unknown goal": (change('"latency"', '"latencie"'), "goal", "unknown goal", "did you mean 'latency'?"),
    "needs a string": (change("{ sm = 80, gpus = 1 }", '"sm_80"'), "needs", "a string, not a table", "write needs ="),
    "needs unknown": (change("sm = 80,", "smm = 80,"), "needs.smm", "unknown key", "did you mean 'sm'?"),
    "sm a float": (change("sm = 80,", "sm = 8.0,"), "needs.sm", "not a whole number", "write 80 for compute"),
    "sm too small": (change("sm = 80,", "sm = 8,"), "needs.sm", "8 is no compute capability", "write 80 for compute"),
    "gpus true": (change("gpus = 1 }\naxes", "gpus = true }\naxes"), "needs.gpus", "not a whole number", "write how"),
    "gpus negative": (change("gpus = 1 }\naxes", "gpus = -1 }\naxes"), "needs.gpus", "no number of GPUs", "0 to 1024"),
    "axes a list": (change(AXES, "axes = [1]\nN = 1").replace("N = 1\n", ""), "axes", "not a table", "write axes ="),
    "axis a string": (change("N = 4096", 'N = "4096"'), "axes.N", "not a whole number", "write axes ="),
    "axis negative": (change("N = 4096", "N = -1"), "axes.N", "-1 is out of range", "use 0 to"),
    "axis a function": (change("N = 4096 }", "N = 4096, min = 1 }"), "axes.min", "cannot name an axis", "ASCII name"),
    "axis a keyword": (change("N = 4096 }", "N = 4096, in = 1 }"), "axes.in", "cannot name an axis", "ASCII name"),
    "flops missing": (change('flops      = "2*M*N"\n', ""), "flops", "missing", 'write flops = "2*M*N"'),
    "flops unknown axis": (change("2*M*N", "2*M*K"), "flops", "'K' is used but not defined", "define it in [axes]"),
    "flops a bomb": (change("2*M*N", "9**9**9"), "flops", "too large", "within 128 bits"),
    "flops code": (change("2*M*N", "exit()"), "flops", "not in the grammar", "use numbers, names of axes"),
    "flops negative": (change("2*M*N", "-M"), "flops", "is -8192", "below 0"),
    "bytes a list": (change("tolerance ", "bytes = []\ntolerance "), "bytes", "a list", "write bytes ="),
    "tolerance dtype": (change("{ float32 = 0 }", "{ fp32 = 0 }"), "tolerance.fp32", "unknown dtype", "float32"),
    "tolerance range": (
        change("{ float32 = 0 }", "{ float32 = 2 }"),
        "tolerance.float32",
        "no relative",
        "less than 1",
    ),
    "tolerance nan": (
        change("{ float32 = 0 }", "{ float32 = nan }"),
        "tolerance.float32",
        "no relative",
        "less than 1",
    ),
    "expect without why": (change(', why = "half the bytes"', ""), "expect.why", "missing", "write expect ="),
    "expect reversed": (change("[1.5, 3.0]", "[3.0, 1.5]"), "expect.speedup", "is no range", "low first"),
    "expect three": (change("[1.5, 3.0]", "[1, 2, 3]"), "expect.speedup", "is no range", "[low, high]"),
    "expect unknown": (change("on =", 'gpu = "H100", on ='), "expect.gpu", "unknown key", "there is: speedup"),
    "unknown dtype": (change("float32 [M, N] n", "float23 [M, N] n"), "inputs.x", "unknown dtype", "'float32'?"),
    "unknown distribution": (change("normal", "norml"), "inputs.x", "unknown distribution", "did you mean 'normal'?"),
    "unknown flag": (change("zeros mutable", "zeros mutabel"), "inputs.state", "unknown flag", "'mutable'?"),
    "input a number": (change(X, "x = 3"), "inputs.x", "not a tensor line", "write [inputs]"),
    "input name": (change("x = ", '"x y" = '), "inputs.x y", "cannot name an argument", "Python name"),
    "axis undefined": (change("float32 [M, N] n", "float32 [M, Q] n"), "inputs.x", "axis 'Q'", "define it in [axes]"),
    "dims a fraction": (change("float32 [M, N] n", "float32 [M/3] n"), "inputs.x", "not a whole number", "//"),
    "bad in one case": (
        *(change("float32 [M, N] n", "float32 [M-1000] n"), "inputs.x"),
        *("in the case 'cpu', the dimension 'M-1000' is -936", "use at least 0"),
    ),
    "integers too wide": (change(X, 'x = "int8 [M] integers(0, 129)"'), "inputs.x", "does not fit int8", "-128 to 127"),
    "integers empty": (change(X, 'x = "int8 [M] integers(3, 3)"'), "inputs.x", "is empty", "exclusive"),
    "bernoulli": (change(X, 'x = "bool [M] bernoulli(1.5)"'), "inputs.x", "probability 1.5", "use 0 to 1"),
    "key below a table": (change("[outputs]", 'bytes = "M"\n[outputs]'), "inputs.bytes", "dtype", "above the first [t"),
    "outputs missing": (change('[outputs]\ny = "float32 [N, M]"', ""), "outputs", "missing", "write [outputs]"),
    "outputs empty": (change('y = "float32 [N, M]"', ""), "outputs", "empty", "write [outputs]"),
    "output distribution": (change("[N, M]", "[N, M] ones"), "outputs.y", "after an output", "only dtype"),
    "output over input": (change('y = "float32 [N, M]"', 'x = "float32 [M, N]"'), "outputs.x", "not mutable", "rename"),
    "output differs": (
        change('y = "float32 [N, M]"', 'state = "float32 [N]"'),
        "outputs.state",
        "differs",
        "float16 [N]",
    ),
    "cases a number": (CASELESS, "cases", "3 is a whole number, not a list", "write [[cases]]"),
    "case without name": (change('name = "cpu"\n', ""), "cases[1].name", "missing", "write [[cases]]"),
    "case name": (change('"cpu"', '"a b"'), "cases.a b", "cannot name a case", "letters, digits"),
    "case default": (change('"cpu"', '"default"'), "cases.default", "the name is taken", "use another name"),
    "case twice": (change('"cpu"', '"ragged"'), "cases.ragged", "two cases", "rename one"),
    "case axis": (change("N = 32 }", "K = 32 }"), "cases.cpu.axes.K", "not among [axes]", "define it in [axes]"),
    "case unknown key": (change("timed = false", "time = false"), "cases.ragged.time", "unknown key", "'timed'?"),
    "case timed": (change("timed = false", "timed = 0"), "cases.ragged.timed", "not true or false", "timed = false"),
    "rung unknown": (
        change("optimized_swizzled", "optimized_swizled"),
        "rungs.optimized_swizled",
        "no file",
        "swizzled",
    ),
    "rung key": (change("summary =", "sumary ="), "rungs.optimized_swizzled.sumary", "unknown key", "'summary'?"),
    "rung inexact": (change("inexact = true", 'inexact = "yes"'), "rungs.optimized_swizzled.inexact", "string", "true"),
    "precision": (change("goal  ", 'precision = "fp23"\ngoal  '), "precision", "unknown precision 'fp23'", "fp32"),
    "link unknown": (change("goal  ", 'link = "pci"\nlink_in = "M"\ngoal  '), "link", "unknown link 'pci'", "'pcie'?"),
    "link a number": (change("goal  ", 'link = 5\nlink_in = "M"\ngoal  '), "link", "not a string", "pcie or nvlink"),
    "link without bytes": (change("goal  ", 'link = "pcie"\ngoal  '), "link", "no bytes", "link_in = "),
    "link bytes alone": (change("goal  ", 'link_out = "M"\ngoal  '), "link_out", "no link", 'write link = "pcie"'),
    "link bytes negative": (
        *(change("goal  ", 'link = "nvlink"\nlink_in = "-M"\ngoal  '), "link_in"),
        *("is -8192", "below 0"),
    ),
    "link bytes unknown axis": (
        *(change("goal  ", 'link = "pcie"\nlink_out = "4*K"\ngoal  '), "link_out"),
        *("'K' is used but not defined", "define it in [axes]"),
    ),
    "rung expect a list": (
        change("expect = { ms = [0.19, 0.23],", "expect = [1] # {"),
        *("rungs.optimized_swizzled.expect", "not a table", "write expect = { ms"),
    ),
    "rung expect empty": (
        change(
            'expect = { ms = [0.19, 0.23], limiter = "bytes", counters = { "sectors a request" = [4, 4] } }',
            "expect = {}",
        ),
        *("rungs.optimized_swizzled.expect", "predicts nothing", "write expect = { ms"),
    ),
    "rung expect ms": (
        change("ms = [0.19, 0.23]", "ms = [0.23, 0.19]"),
        *("rungs.optimized_swizzled.expect.ms", "is no range", "low first"),
    ),
    "rung expect limiter": (
        change('limiter = "bytes"', 'limiter = "byte"'),
        *("rungs.optimized_swizzled.expect.limiter", "unknown limiter 'byte'", "'bytes'?"),
    ),
    "rung expect key": (
        change('limiter = "bytes"', 'limit = "bytes"'),
        *("rungs.optimized_swizzled.expect.limit", "unknown key", "'limiter'?"),
    ),
    "rung expect counter": (
        change("= [4, 4] }", "= 4 }"),
        *("rungs.optimized_swizzled.expect.counters.sectors a request", "not a list", "write counters = "),
    ),
    "rung formerly": (
        change('"optimized_padded"', "3"),
        "rungs.optimized_swizzled.formerly",
        "not a string",
        "from before",
    ),
    "rung instructions": (
        change('["ld.shared", "bar.sync"]', '["ld.shared", 3]'),
        "rungs.optimized_swizzled.instructions",
        "other than words",
        "wgmma",
    ),
    "made without inputs.py": (change(X, 'x = "made"'), "inputs.x", "inputs.py is missing", "make(axes, device, gen"),
    "bytes of latin-1": (LESSON.encode() + b"\xff", "", "is not UTF-8", "save the file as UTF-8"),
}


@pytest.mark.parametrize("slip", MALFORMED)
def test_a_slip_names_the_file_the_key_and_the_fix_and_the_other_targets_load(tmp_path: Path, slip: str) -> None:
    lesson, key, message, fix = MALFORMED[slip]
    write_target(tmp_path / "good")
    bad = write_target(tmp_path / "bad", lesson)
    found = catalog.load([tmp_path])
    assert [target.name for target in found.targets] == ["good"]
    (problem,) = found.problems
    assert problem.path == bad / "lesson.md"
    assert problem.key == key
    assert message in problem.message
    assert fix in problem.fix
    assert str(problem).startswith(str(bad / "lesson.md"))


def test_all_slips_of_a_lesson_are_named_at_once(tmp_path: Path) -> None:
    lesson = change("techniques", "technics").replace('"latency"', '"fast"').replace("zeros", "zeroes")
    write_target(tmp_path / "t", lesson, optimized_py=None)
    found = catalog.load([tmp_path])
    assert [(p.path.name, p.key) for p in found.problems] == [
        ("lesson.md", "technics"),
        ("lesson.md", "goal"),
        ("lesson.md", "inputs.state"),
        ("optimized.py", ""),
    ]


@pytest.mark.parametrize(
    ("missing", "fix"),
    [
        ("reference.py", "write run(...) there in fp64"),
        ("baseline.py", "as a competent engineer would first"),
        ("optimized.py", "with the lesson applied"),
        ("lesson.md", "aisp new NAME"),
    ],
)
def test_a_missing_file_is_named_with_what_belongs_there(tmp_path: Path, missing: str, fix: str) -> None:
    write_target(tmp_path / "good")
    write_target(tmp_path / "bad")
    (tmp_path / "bad" / missing).unlink()
    found = catalog.load([tmp_path])
    assert [target.name for target in found.targets] == ["good"]
    (problem,) = found.problems
    assert (problem.path, problem.message) == (tmp_path / "bad" / missing, "missing")
    assert fix in problem.fix


def test_a_file_of_nearly_the_right_name_is_named(tmp_path: Path) -> None:
    write_target(tmp_path / "t", optimized_py=None, optimised_py=RUN)
    assert only_problem(tmp_path).fix == "rename optimised.py to optimized.py"


def test_a_lesson_that_cannot_be_a_lesson_does_not_stop_the_listing(tmp_path: Path) -> None:
    write_target(tmp_path / "good")
    for name in ("pipe", "folder", "huge"):
        (write_target(tmp_path / name) / "lesson.md").unlink()
    os.mkfifo(tmp_path / "pipe" / "lesson.md")
    (tmp_path / "folder" / "lesson.md").mkdir()
    (tmp_path / "huge" / "lesson.md").write_bytes(b"+++\n" * 400_000)
    found = catalog.load([tmp_path])
    assert [target.name for target in found.targets] == ["good"]
    assert {problem.path.parent.name for problem in found.problems} == {"pipe", "folder", "huge"}


# Kinds of rungs

KINDS: dict[str, tuple[str | bytes, Kind]] = {
    "plain": ("import torch\ndef run(x): return torch.cuda.current_stream()\n", Kind.TORCH),
    "import triton": ("import torch, triton\nimport triton.language as tl\n@triton.jit\ndef f(): ...\n", Kind.TRITON),
    "from triton": ("from triton import jit\ndef run(x): ...\n", Kind.TRITON),
    "late triton": ("def run(x):\n    import triton\n    return x\n", Kind.TRITON),
    "triton in try": (
        "try:\n    import triton\nexcept ImportError:\n    triton = None\ndef run(x): ...\n",
        Kind.TRITON,
    ),
    "continued": ("import torch, \\\n    triton\ndef run(x): ...\n", Kind.TRITON),
    "only in prose": ('"""We do not\nimport triton here, nor from cuda."""\ndef run(x): ...\n', Kind.TORCH),
    "cuda.core": ("from cuda.core import Device\ndef run(x): ...\n", Kind.CUDA),
    "cuda.bindings": ("import cuda.bindings.nvrtc as nvrtc\ndef run(x): ...\n", Kind.CUDA),
    "from cuda": ("from cuda import core\ndef run(x): ...\n", Kind.CUDA),
    "aisp.kernels.cuda": ("from aisp.kernels.cuda import launch\ndef run(x): ...\n", Kind.CUDA),
    "from kernels": ("from aisp.kernels import cuda\ndef run(x): ...\n", Kind.CUDA),
    "a .cu file": ("from pathlib import Path\ndef run(x):\n    return Path('scale.cu')\n", Kind.CUDA),
    "a sentence": ('"""As in scale.cu"""\ndef run(x): ...\n', Kind.TORCH),
    "both": ("import triton\nfrom cuda.core import Device\ndef run(x): ...\n", Kind.CUDA),
    "sibling": ("from helper_triton import f\ndef run(x): ...\n", Kind.TRITON),
    "relative": ("from .helper_triton import f\ndef run(x): ...\n", Kind.TRITON),
    "relative module": ("from . import helper_cuda\ndef run(x): ...\n", Kind.CUDA),
    "full name": ("from aisp.kernels.ch01_x.target.helper_cuda import f\ndef run(x): ...\n", Kind.CUDA),
    "two steps": ("import helper_step\ndef run(x): ...\n", Kind.CUDA),
    "in a circle": ("import helper_circle\ndef run(x): ...\n", Kind.TORCH),
    "syntax error": ("def run(x:\n", Kind.TORCH),
    "error below the head": ("import triton\n\ndef run(x:\n", Kind.TRITON),
    "not UTF-8": (b"import triton\nX = '\xff'\ndef run(x): ...\n", Kind.TORCH),
    "null byte": ("import triton\x00\ndef run(x): ...\n", Kind.TORCH),
    "invalid escape": ('import triton\nX = "\\d"\ndef run(x): ...\n', Kind.TRITON),
    "empty": ("", Kind.TORCH),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("error")
def test_a_rungs_kind_is_what_it_imports(tmp_path: Path, name: str) -> None:
    source, kind = KINDS[name]
    folder = write_target(tmp_path / "target", LESSON.replace("needs      = { sm = 80, gpus = 1 }", ""), peer_py=source)
    (folder / "optimized_it.py").write_bytes(source if isinstance(source, bytes) else source.encode())
    (folder / "helper_triton.py").write_text("import triton\n")
    (folder / "helper_cuda.py").write_text("from cuda.core import Device\n")
    (folder / "helper_step.py").write_text("import helper_cuda\n")
    (folder / "helper_circle.py").write_text("import optimized_it\n")
    rung = only_target(tmp_path).rung("optimized_it")
    assert rung.kind is kind
    assert rung.needs.gpus == (1 if kind is Kind.CUDA else 0)
    assert rung.gpu_only is (kind is Kind.CUDA)


# Where targets are found


def test_a_collection_has_chapters_by_number_then_labs_then_other_folders(tmp_path: Path) -> None:
    for place in ("ch10_pipelining/a", "ch02_hardware/b", "labs/scan/scan", "labs/alone", "mine/k", "ch02_hardware/a"):
        write_target(tmp_path / place)
    (tmp_path / "ch03_empty").mkdir()
    (tmp_path / "ch02_hardware" / "README.md").write_text("Intro.\n\n# Chapter 2: What the hardware does\n")
    found = catalog.load([tmp_path])
    assert [target.id for target in found.targets] == [
        *("ch02:a", "ch02:b", "ch10:a", "labs/alone:alone", "labs/scan:scan", "mine:k"),
    ]
    assert [(chapter.id, chapter.number, chapter.title) for chapter in found.chapters] == [
        ("ch02", 2, "What the hardware does"),
        ("ch03", 3, "Empty"),
        ("ch10", 10, "Pipelining"),
        ("labs/alone", None, "Alone"),
        ("labs/scan", None, "Scan"),
        ("mine", None, "Mine"),
    ]
    assert found.chapters[0].readme.startswith("Intro.")
    assert found.roots == (tmp_path,)
    assert found.problems == ()


def test_a_users_folder_is_a_chapter_of_its_own(tmp_path: Path) -> None:
    write_target(tmp_path / "my_kernels" / "my_kernel")
    found = catalog.load([tmp_path / "my_kernels"])
    assert [target.id for target in found.targets] == ["my_kernels:my_kernel"]
    assert [chapter.id for chapter in found.chapters] == ["my_kernels"]


@pytest.mark.parametrize(
    ("place", "root", "target_id"),
    [
        ("my_kernels/mine", "my_kernels/mine", "my_kernels:mine"),
        ("ch07_memory_access/transpose", "ch07_memory_access", "ch07:transpose"),
        ("ch07_memory_access/transpose", "ch07_memory_access/transpose", "ch07:transpose"),
        ("labs/scan/scan", "labs", "labs/scan:scan"),
        ("labs/scan/scan", "labs/scan", "labs/scan:scan"),
        ("labs/scan/scan", "labs/scan/scan", "labs/scan:scan"),
        ("labs/scan", "labs/scan", "labs/scan:scan"),
        ("labs/scan", "labs", "labs/scan:scan"),
    ],
)
def test_a_target_has_the_same_id_from_wherever_it_is_opened(
    tmp_path: Path, place: str, root: str, target_id: str
) -> None:
    write_target(tmp_path / place)
    target = only_target(tmp_path / root)
    assert target.id == target_id
    # What a frontend hands to the engine (root and id) leads back to the target.
    assert catalog.load([target.root]).find(target.id) == target


def test_a_lab_may_be_a_target_and_hold_targets(tmp_path: Path) -> None:
    write_target(tmp_path / "labs" / "scan")
    write_target(tmp_path / "labs" / "scan" / "inner", extra_cu="// inner")
    for root in (tmp_path, tmp_path / "labs", tmp_path / "labs" / "scan"):
        found = catalog.load([root])
        assert [target.id for target in found.targets] == ["labs/scan:inner", "labs/scan:scan"]
        assert found.problems == ()
        inner, outer = found.targets
        assert "extra.cu" in inner.files
        assert [name for name in outer.files if "inner" in name] == []


def test_a_relative_root_has_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_target(tmp_path / "my_kernels" / "k")
    monkeypatch.chdir(tmp_path / "my_kernels")
    assert only_target(Path()).id == "my_kernels:k"


def test_a_folder_that_two_roots_reach_is_read_once(tmp_path: Path) -> None:
    write_target(tmp_path / "c" / "ch01_x" / "a")
    write_target(tmp_path / "c" / "ch01_x" / "b")
    chapter = tmp_path / "c" / "ch01_x"
    for roots in ([tmp_path / "c", chapter], [chapter / "a", tmp_path / "c"], [chapter, chapter, chapter / "b"]):
        found = catalog.load(roots)
        assert [target.id for target in found.targets] == ["ch01:a", "ch01:b"]
        assert found.problems == ()


def test_two_folders_with_one_id_are_a_problem_and_the_first_stays(tmp_path: Path) -> None:
    first = write_target(tmp_path / "a" / "mine" / "k")
    second = write_target(tmp_path / "b" / "mine" / "k")
    found = catalog.load([tmp_path / "a" / "mine", tmp_path / "b" / "mine"])
    assert [target.folder for target in found.targets] == [first]
    (problem,) = found.problems
    assert problem.path == second
    assert problem.message == f"the id mine:k is taken by {first}"
    assert problem.fix == "rename one of the two folders"


def test_hidden_folders_and_caches_are_no_targets(tmp_path: Path) -> None:
    write_target(tmp_path / "k")
    write_target(tmp_path / ".git")
    write_target(tmp_path / "__pycache__")
    (tmp_path / "notes").mkdir()
    assert only_target(tmp_path).name == "k"


@pytest.mark.parametrize(
    ("make", "message", "fix"),
    [
        (lambda path: None, "no such folder", "check the path"),
        (lambda path: path.write_text("x"), "not a folder", "give the folder that holds it"),
        (lambda path: path.mkdir(), "holds no targets", "aisp new my_kernel"),
    ],
)
def test_a_root_without_targets_says_what_to_do(tmp_path: Path, make: object, message: str, fix: str) -> None:
    assert callable(make)
    make(tmp_path / "root")
    problem = only_problem(tmp_path / "root")
    assert (problem.path, problem.message) == (tmp_path / "root", message)
    assert fix in problem.fix


def test_links_in_a_circle_and_links_to_nothing_do_no_harm(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "root" / "k")
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root", target_is_directory=True)
    (tmp_path / "root" / "self").symlink_to("self")
    (tmp_path / "root" / "again").symlink_to("k")
    (folder / "up").symlink_to("..")
    (folder / "here").symlink_to(".")
    (folder / "broken.py").symlink_to("nowhere.py")
    (folder / "circle.py").symlink_to("circle.py")
    target = only_target(tmp_path / "root")
    assert target.id == "root:k"
    assert target.folder == folder
    assert set(catalog.read_sources(target)) == set(target.files)
    assert "broken.py" not in target.files


def test_a_linked_target_is_found_by_the_links_name_and_followed(tmp_path: Path) -> None:
    real = write_target(tmp_path / "elsewhere" / "v3")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "k").symlink_to(real)
    target = only_target(tmp_path / "root")
    assert target.id == "root:k"
    assert target.folder == tmp_path / "root" / "k"
    assert catalog.load_target(target.folder, root=target.root, chapter=target.chapter) == target
    (real / "optimized.py").write_text("changed = 1\n")
    assert catalog.read_sources(target)["optimized.py"] == b"changed = 1\n"


def test_a_folder_whose_name_is_not_utf_8_loads_and_its_id_can_be_sent(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder = root / os.fsdecode(b"bad_\xff\n\xf0\x9f\x94\xa5")
    write_target(folder)
    target = only_target(root)
    assert target.id == "caf\\xe9:bad_\\xff\\n\U0001f525"
    assert target.id.encode("utf-8").decode() == target.id
    assert target.folder == folder
    assert catalog.read_sources(target)["baseline.py"] == RUN.encode()
    (folder / "baseline.py").unlink()
    assert only_problem(root).path == folder / "baseline.py"


def test_a_folder_that_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    root = tmp_path / "root"
    write_target(root / "k")
    root.chmod(0)
    try:
        assert "cannot be read" in only_problem(root).message
    finally:
        root.chmod(0o700)


# Sources


def test_sources_are_every_file_that_a_run_depends_on(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "k", kernel_cu="// k", common_h="// h", notes_txt="no", data_json="{}")
    for place, content in {
        "csrc/tile.cuh": b"// tile",
        "csrc/deep/util.py": b"X = 1",
        "__pycache__/baseline.py": b"no",
        ".git/hook.py": b"no",
        "csrc/README.md": b"no",
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
    target = only_target(tmp_path)
    sources = catalog.read_sources(target)
    assert list(sources) == list(target.files) == sorted(sources)
    assert set(sources) == {
        *("lesson.md", "reference.py", "baseline.py", "optimized.py", "optimized_swizzled.py"),
        *("kernel.cu", "common.h", "csrc/tile.cuh", "csrc/deep/util.py"),
    }
    assert sources["csrc/tile.cuh"] == b"// tile"
    assert sources["lesson.md"] == LESSON.encode()


def test_a_link_to_a_folder_is_followed_where_it_stays_in_the_targets_folder(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "root" / "k")
    (folder / "csrc").mkdir()
    (folder / "csrc" / "tile.h").write_text("// in")
    (folder / "again").symlink_to("csrc")
    assert {"csrc/tile.h", "again/tile.h"} <= catalog.read_sources(only_target(tmp_path / "root")).keys()


def test_a_link_out_of_the_targets_folder_is_told_and_followed_only_where_the_lesson_names_it(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "root" / "k")
    common = tmp_path / "common"
    (common / "deep").mkdir(parents=True)
    (common / "tile.h").write_bytes(b"/" * 2048)
    (common / "deep" / "util.py").write_text("X = 1")
    (folder / "common").symlink_to(common)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.csv").write_text("1,2")
    (folder / "data").symlink_to(tmp_path / "data")  # nothing that a run would depend on: no word of it
    (found,) = catalog.load([tmp_path / "root"]).targets
    assert "common/tile.h" not in found.files
    problem = only_problem(tmp_path / "root")
    assert problem in found.left_out
    assert str(problem) == (
        f"{folder}/common: is a link out of the folder to {common} and is not followed; "
        'behind it: 2 sources of 2 KiB; where a rung needs it, lesson.md says links = ["common"]'
    )
    (folder / "lesson.md").write_text(LESSON.replace("+++\n", '+++\nlinks = ["common"]\n', 1))
    named = only_target(tmp_path / "root")
    assert named.links == ("common",)
    assert catalog.read_sources(named)["common/deep/util.py"] == b"X = 1"


def test_a_link_to_a_file_elsewhere_is_followed_unless_it_is_too_large(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "root" / "k")
    (tmp_path / "shared.py").write_text("X = 1")
    (folder / "shared.py").symlink_to(tmp_path / "shared.py")
    assert catalog.read_sources(only_target(tmp_path / "root"))["shared.py"] == b"X = 1"
    with (tmp_path / "shared.py").open("r+b") as sink:
        sink.truncate(sources.MAX_FILE_BYTES + 1)
    problem = only_problem(tmp_path / "root")
    assert problem.path == folder / "shared.py"
    assert problem.message == "has 8,388,609 bytes and is left out; a source has at most 8,388,608"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('["/usr"]', "'/usr' names nothing in this folder"),
        ('["../common"]', "'../common' names nothing in this folder"),
        ('["."]', "'.' names nothing in this folder"),
        ('"common"', "'common' is a string, not a list"),
        ('["comon"]', "there is no folder comon"),
        (str([f"l{number}" for number in range(17)]), "17 of them"),
    ],
)
def test_links_that_name_nothing_are_problems(tmp_path: Path, given: str, told: str) -> None:
    write_target(tmp_path / "k", LESSON.replace("+++\n", f"+++\nlinks = {given}\n", 1))
    problem = only_problem(tmp_path)
    assert (problem.path, problem.key) == (tmp_path / "k" / "lesson.md", "links")
    assert told in problem.message


@pytest.mark.parametrize(
    ("bound", "most", "told"),
    [
        ("MAX_FILES", 20, "holds 16 sources of 1.56 KiB among 16 names, as far as it was walked"),
        ("MAX_BYTES", 3125, "holds 22 sources of 2.15 KiB among 22 names, as far as it was walked"),
        ("MAX_ENTRIES", 20, "as far as it was walked"),
    ],
)
def test_a_target_with_too_many_sources_does_not_load_and_names_what_brings_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, told: str
) -> None:
    folder = write_target(tmp_path / "k")
    (folder / "vendor").mkdir()
    for number in range(50):
        (folder / "vendor" / f"{number}.h").write_bytes(b"/" * 100)
    target = only_target(tmp_path)
    monkeypatch.setattr(sources, bound, most)
    problem = only_problem(tmp_path)
    assert problem.path == folder / "vendor"
    assert told in problem.message
    assert not any(name.startswith("vendor/") for name in catalog.read_sources(target))


def test_a_source_of_gigabytes_is_told_and_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_target(tmp_path / "k")
    with (folder / "optimized_big.py").open("wb") as sink:
        sink.truncate(3 << 30)
    asked: list[int] = []
    read = os.read
    monkeypatch.setattr(os, "read", lambda file, nbytes: asked.append(nbytes) or read(file, nbytes))
    (target,) = catalog.load([tmp_path]).targets
    assert "optimized_big.py" not in catalog.read_sources(target)
    assert max(asked) < 1 << 20
    assert only_problem(tmp_path).message == "has 3,221,225,472 bytes and is left out; a source has at most 8,388,608"


def test_a_rung_that_may_not_be_read_is_told_by_its_authors_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_target(tmp_path / "k")
    for name in ("optimized.py", "optimized_swizzled.py"):
        (folder / name).chmod(0)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    found = catalog.load([tmp_path])
    assert found.targets == ()
    assert [str(problem) for problem in found.problems] == [
        f"{folder}/optimized.py: cannot be read: permission denied; give yourself the right: chmod u+r"
    ]
    (folder / "optimized.py").chmod(0o600)
    monkeypatch.setattr(os, "access", lambda path, mode: "swizzled" not in path)
    found = catalog.load([tmp_path])
    assert [target.name for target in found.targets] == ["k"]
    assert [problem.path for problem in found.problems] == [folder / "optimized_swizzled.py"]


def test_a_targets_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_target(tmp_path / "root" / "k")
    write_target(tmp_path / "root" / "other")
    listed = os.scandir

    def scandir(path: str | Path) -> object:
        if str(path).endswith("other"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may read everything
    found = catalog.load([tmp_path / "root"])
    assert [target.id for target in found.targets] == ["root:k"]
    assert [str(problem) for problem in found.problems] == [
        f"{tmp_path}/root/other: cannot be read: permission denied; check its permissions"
    ]


def test_sources_are_read_anew_at_each_call(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "k")
    target = only_target(tmp_path)
    (folder / "optimized.py").write_text("changed = 1\n")
    (folder / "optimized_new.py").write_text("new = 1\n")
    (folder / "optimized_swizzled.py").unlink()
    sources = catalog.read_sources(target)
    assert sources["optimized.py"] == b"changed = 1\n"
    assert sources["optimized_new.py"] == b"new = 1\n"
    assert "optimized_swizzled.py" not in sources


def test_a_reload_sees_what_was_saved(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "k")
    assert only_target(tmp_path).title == "A transpose"
    (folder / "lesson.md").write_text(LESSON.replace('"A transpose"', '"Another"'))
    (folder / "optimized.py").write_text("import triton\n")
    target = only_target(tmp_path)
    assert target.title == "Another"
    assert target.rung("optimized").kind is Kind.TRITON


# Many targets, and what listing them costs


def test_160_generated_targets_load_in_order_without_a_problem(tmp_path: Path) -> None:
    ids = write_collection(tmp_path / "many", 160)
    found = catalog.load([tmp_path / "many"])
    assert found.problems == ()
    assert [target.id for target in found.targets] == ids
    assert len(set(ids)) == 160
    assert len(found.chapters) == 40
    kinds = [rung.kind for target in found.targets for rung in target.rungs]
    assert {kind: kinds.count(kind) for kind in Kind} == {Kind.TORCH: 480, Kind.TRITON: 80, Kind.CUDA: 32}
    assert all(catalog.bytes_moved(target, case) > 0 for target in found.targets for case in target.cases)


def test_listing_imports_neither_torch_nor_numpy_nor_any_lesson(tmp_path: Path) -> None:
    folder = write_target(tmp_path / "k")
    for name in ("baseline", "optimized", "reference"):
        (folder / f"{name}.py").write_text("raise SystemExit('imported')\n")
    program = (
        "import sys; from pathlib import Path; import aisp.kernels.catalog\n"
        "assert 'aisp.kernels.catalog.loader' not in sys.modules, 'importing the package must not import its parts'\n"
        "found = aisp.kernels.catalog.load([Path(sys.argv[1])])\n"
        "dear = ('torch', 'numpy', 'triton', 'aisp.kernels.cuda')\n"
        "print(len(found.targets), [m for m in dear if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "1 []"


def test_every_exported_name_is_there() -> None:
    for name in catalog.__all__:
        assert getattr(catalog, name) is not None
        assert name in dir(catalog)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        catalog.nothing  # noqa: B018


def test_finding_a_target_that_is_not_there_suggests_one(tmp_path: Path) -> None:
    write_target(tmp_path / "ch07_x" / "transpose")
    found = catalog.load([tmp_path])
    assert found.find("ch07:transpose").name == "transpose"
    with pytest.raises(LookupError, match="did you mean ch07:transpose"):
        found.find("ch07:transpos")


def test_the_shipped_collection_loads_without_a_problem() -> None:
    found = catalog.load()
    assert [str(problem) for problem in found.problems] == []
    assert found.roots == (catalog.shipped_root(),)
    assert len(found.targets) >= 9
    for target in found.targets:
        assert any(rung.role is Role.WRONG for rung in target.rungs), f"{target.id} refuses nothing"
        assert catalog.read_sources(target).keys() == set(target.files)


# -- which targets a word means ----------------------------------------------------------------------------------------


def test_the_ids_that_are_listed_without_reading_are_those_that_load() -> None:
    listed = catalog.list_ids()
    loaded = catalog.load()
    assert sorted(listed) == sorted(loaded.ids)
    assert {target.id: target.folder for target in loaded.targets} == listed


IDS = ["ch01:batching", "ch07:copy", "ch07:transpose", "labs/mx:mx", "mine:copy"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("ch07:copy", ["ch07:copy"]), ("batching", ["ch01:batching"]), ("ch07", ["ch07:copy", "ch07:transpose"]),
        ("*:copy", ["ch07:copy", "mine:copy"]), ("trans*", ["ch07:transpose"]), ("all", IDS),
        ("labs/mx", ["labs/mx:mx"]),
    ],
)  # fmt: skip
def test_a_word_means_an_id_a_name_a_chapter_a_glob_or_all(word: str, meant: list[str]) -> None:
    assert choosing.some(word, IDS) == meant


@pytest.mark.parametrize(
    ("word", "kind", "near"),
    [
        ("copy", Miss.AMBIGUOUS, ("ch07:copy", "mine:copy")), ("batchin", Miss.UNKNOWN, ("ch01:batching",)),
        ("x*", Miss.UNKNOWN, ()), ("", Miss.UNKNOWN, ()),
    ],
)  # fmt: skip
def test_a_word_that_means_no_one_target_says_why_and_what_would_work(
    word: str, kind: Miss, near: tuple[str, ...]
) -> None:
    with pytest.raises(TargetError) as found:
        choosing.some(word, IDS)
    assert (found.value.kind, found.value.near) == (kind, near)


def test_all_of_nothing_is_nothing_and_one_of_many_is_none() -> None:
    assert choosing.some("all", []) == []
    with pytest.raises(TargetError, match="'ch07' may be ch07:copy, ch07:transpose; give one of them"):
        choosing.one("ch07", IDS)
