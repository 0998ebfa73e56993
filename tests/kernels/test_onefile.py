"""One Python file as a target: what it is made into, and what it says of a file that cannot be taken apart."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import onefile
from aisp.kernels.catalog.model import Kind, Role, Target
from aisp.store.outcomes import Limiter, Timing
from aisp.store.results.speed_of_light import light

SOFTMAX = '''\
"""Softmax of each row."""

import torch

axes = {"M": 4096, "N": 2**12}


def reference(x: "float32 [M, N] normal") -> "float32 [M, N]":
    return torch.softmax(x, -1)


def baseline(x):
    """Five kernels."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def optimized(x):
    """One kernel."""
    return torch.softmax(x, -1)
'''

TRITON = """\
#!/usr/bin/env python
# -*- coding: latin-1 -*-
from __future__ import annotations

import functools
import torch.nn
import torch.nn.functional

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

title = "Rows summed"
summary = "Said of it all.\\n\\nIn two paragraphs."
flops = "M*N"
bytes = "4*M*N"
tolerance = {"float32": 1e-5}
needs = {"sm": 80, "gpus": 1}
axes: dict[str, int] = {"M": 64, "N": 1024}
cases = [{"name": "ragged", "axes": {"M": 3, "N": 77}, "timed": False}]

BLOCK = 128; SPARE = 1


# what the kernel is told at compile time
@functools.lru_cache
def blocks(n):
    def counted(n):
        return triton.cdiv(n, BLOCK)

    return counted(n)


class Launch:
    block = BLOCK

    def of(self, x):
        import math

        return (math.prod(x.shape[:1]),)


@triton.jit
def rows(x, y, N, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for start in range(0, N, B):
        columns = start + tl.arange(0, B)
        total += tl.load(x + tl.program_id(0) * N + columns, mask=columns < N, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(total))


def reference(x: "float32 [M, N] normal", scale=1.0) -> ("float32 [M]", "float32 [M]"):
    reference_sum = x.sum(-1) * scale
    return reference_sum, torch.nn.functional.relu(reference_sum)


def baseline(x):
    return x.sum(-1), torch.relu(x.sum(-1))


def optimized(x):
    y = x.new_empty(x.shape[0])
    rows[Launch().of(x)](x, y, x.shape[1], Launch.block)
    return y, y.relu()


optimized_compiled = torch.compile(baseline)
wrong_sign = lambda x: (-x.sum(-1), x.sum(-1))  # noqa: E731
optimized_ms = 0.25


if __name__ == "__main__":
    torch.manual_seed(0)
    print(blocks(3))
"""


def made(folder: Path, source: str | bytes, name: str = "softmax.py") -> Target:
    """The target that the file is."""
    found = load(folder, source, name)
    assert found.problems == ()
    (target,) = found.targets
    return target


def load(folder: Path, source: str | bytes, name: str = "softmax.py") -> catalog.Catalog:
    (folder / name).write_bytes(source.encode() if isinstance(source, str) else source)
    return catalog.load([folder / name])


def part(target: Target, name: str) -> str:
    return catalog.read_sources(target)[name].decode()


def test_a_file_with_three_functions_is_a_target_called_after_it(tmp_path: Path) -> None:
    target = made(tmp_path, SOFTMAX)
    assert (target.id, target.folder, target.root) == ("softmax:softmax", tmp_path / "softmax.py", target.folder)
    assert target.title == "Softmax of each row."
    assert [spec.name for spec in target.inputs] == ["x"]
    assert [(spec.name, spec.dims) for spec in target.outputs] == [("out", ("M", "N"))]
    assert target.case("default").axes == {"M": 4096, "N": 4096}
    assert [(rung.name, rung.role, rung.kind, rung.summary) for rung in target.rungs] == [
        ("baseline", Role.BASELINE, Kind.TORCH, "Five kernels."),
        ("optimized", Role.OPTIMIZED, Kind.TORCH, "One kernel."),
    ]
    assert catalog.list_ids([target.folder]) == {target.id: target.folder}
    again = catalog.load_target(target.folder, root=target.root, chapter=target.chapter)
    assert again == target


def test_its_parts_laid_out_as_a_folder_are_the_same_target(tmp_path: Path) -> None:
    target = made(tmp_path, SOFTMAX)
    folder = tmp_path / "laid" / "softmax"
    folder.mkdir(parents=True)
    for name, data in catalog.read_sources(target).items():
        (folder / name).write_bytes(data)
    laid = catalog.load_target(folder, root=target.root, chapter=target.chapter)
    assert isinstance(laid, Target)
    for same in ("id", "title", "inputs", "outputs", "cases", "flops", "files", "tolerance"):
        assert getattr(laid, same) == getattr(target, same)


def test_each_function_stands_alone_in_its_part_on_its_own_line(tmp_path: Path) -> None:
    target = made(tmp_path, SOFTMAX)
    whole = SOFTMAX.split("\n")
    for name in ("reference", "baseline", "optimized"):
        lines = part(target, f"{name}.py").rstrip("\n").split("\n")
        others = {"reference", "baseline", "optimized"} - {name}
        assert not any(f"def {other}" in line for line in lines for other in others)
        for line, was in zip(lines, whole, strict=False):
            assert line in ("", was, was.replace(f"def {name}(", "def run("))
        assert sum(line.startswith("def run(") for line in lines) == 1


def test_without_a_case_for_a_cpu_one_is_made_that_a_cpu_can_hold(tmp_path: Path) -> None:
    target = made(tmp_path, SOFTMAX)
    assert target.case("cpu").axes == {"M": 512, "N": 512}
    small = made(tmp_path, SOFTMAX.replace("4096, ", "16, ").replace("2**12", "16"))
    assert small.case("cpu").axes == {"M": 16, "N": 16}
    own = made(tmp_path, SOFTMAX + '\n\ncases = [{"name": "cpu", "axes": {"M": 3}}]\n')
    assert own.case("cpu").axes == {"M": 3, "N": 4096}
    on_gpu = made(tmp_path, SOFTMAX + '\n\nneeds = {"gpus": 1}\n')
    assert [case.name for case in on_gpu.cases] == ["default"]


def test_operations_that_nobody_counted_are_unknown_and_not_none(tmp_path: Path) -> None:
    target = made(tmp_path, SOFTMAX)
    assert target.flops == "?"
    assert catalog.flops(target, target.case("default")) == 0.0
    counted = made(tmp_path, SOFTMAX + '\nflops = "5*M*N"\n')
    assert catalog.flops(counted, counted.case("default")) == 5 * 4096 * 4096
    known, unknown = (
        light(
            one,
            one.case("default"),
            "NVIDIA H100 80GB HBM3",
            None,
            time_ms=1.0,
            base_ms=2.0,
            timing=Timing.COLD,
        )
        for one in (counted, target)
    )
    assert known is not None and unknown is not None
    assert known.limiter == Limiter.BYTES and known.score is not None
    assert (unknown.limiter, unknown.score, unknown.spec_ms) == (None, None, known.spec_ms)  # its bytes bound it still


def test_helpers_kernels_classes_and_constants_go_where_they_are_needed(tmp_path: Path) -> None:
    target = made(tmp_path, TRITON, "rows.py")
    assert (target.title, target.flops, target.bytes) == ("Rows summed", "M*N", "4*M*N")
    assert target.tolerance["float32"] == 1e-5
    assert (target.needs.sm, target.needs.gpus) == (80, 1)
    assert [spec.name for spec in target.inputs] == ["x"]
    assert [spec.name for spec in target.outputs] == ["out0", "out1"]
    assert [case.name for case in target.cases] == ["default", "ragged"]
    assert "In two paragraphs." in target.lesson
    kinds = {rung.name: rung.kind for rung in target.rungs}
    assert kinds == {
        "baseline": Kind.TORCH,
        "optimized": Kind.TRITON,
        "optimized_compiled": Kind.TORCH,
        "wrong_sign": Kind.TORCH,
    }
    names = {name: defined(part(target, name)) for name in target.files if name.endswith(".py")}
    always = {"annotations"}
    assert names["reference.py"] == {"run", "torch", *always}
    assert names["baseline.py"] == {"run", "torch", *always}
    assert names["optimized.py"] == {"run", "rows", "Launch", "BLOCK", "SPARE", "triton", "tl", *always}
    assert names["optimized_compiled.py"] == {"run", "optimized_compiled", "baseline", "torch", *always}
    assert "latin-1" not in part(target, "optimized.py")
    for name in names:
        compile(part(target, name), name, "exec")
        assert "manual_seed" not in part(target, name)
    assert part(target, "optimized_compiled.py").endswith(
        "optimized_compiled = torch.compile(baseline)\n\n\nrun = optimized_compiled\n"
    )


def defined(source: str) -> set[str]:
    """Names that a module binds at its top."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        inner = [*node.body, *(n for h in node.handlers for n in h.body)] if isinstance(node, ast.Try) else [node]
        for each in inner:
            if isinstance(each, ast.Import | ast.ImportFrom):
                found |= {alias.asname or alias.name.partition(".")[0] for alias in each.names}
            elif isinstance(each, ast.Assign):
                found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
            elif isinstance(each, ast.FunctionDef | ast.ClassDef):
                found.add(each.name)
    return found


def test_a_comment_above_a_function_stays_with_it(tmp_path: Path) -> None:
    source = SOFTMAX.replace("def optimized(", "# x is read once\ndef optimized(")
    target = made(tmp_path, source)
    assert "# x is read once\ndef run(x):" in part(target, "optimized.py")
    assert "read once" not in part(target, "baseline.py")


def test_a_function_that_calls_itself_keeps_its_name(tmp_path: Path) -> None:
    source = SOFTMAX.replace('    """One kernel."""\n', "    if x.ndim > 2:\n        return optimized(x[0])\n")
    text = part(made(tmp_path, source), "optimized.py")
    assert "def optimized(x):" in text and text.endswith("\n\nrun = optimized\n")


def test_marked_functions_are_rungs_without_their_mark(tmp_path: Path) -> None:
    source = SOFTMAX.replace("import torch\n", "import aisp\nimport torch\n")
    source += "\n\n@aisp.rung\ndef two_pass(x):\n    return torch.softmax(x, -1)\n"
    target = made(tmp_path, source)
    assert target.rung("optimized_two_pass").role is Role.OPTIMIZED
    assert "aisp" not in part(target, "optimized_two_pass.py")
    imported = source.replace("import aisp\n", "from aisp import rung\n").replace("@aisp.rung", "@rung()")
    assert "rung" not in part(made(tmp_path, imported), "optimized_two_pass.py")


def test_outputs_may_be_named_and_several_in_one_text(tmp_path: Path) -> None:
    named = made(tmp_path, SOFTMAX.replace('-> "float32 [M, N]"', '-> {"y": "float32 [M, N]"}'))
    assert [spec.name for spec in named.outputs] == ["y"]
    several = made(tmp_path, SOFTMAX.replace('-> "float32 [M, N]"', '-> "float32 [M, N], int64 []"'))
    assert [(spec.name, spec.dtype) for spec in several.outputs] == [("out0", "float32"), ("out1", "int64")]


def test_lines_of_a_file_from_windows_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    target = made(tmp_path, b"\xef\xbb\xbf" + SOFTMAX.replace("\n", "\r\n").encode())
    assert part(target, "optimized.py").split("\n")[17].startswith("def run(x)")


def test_reading_it_runs_nothing_of_it_and_imports_no_torch(tmp_path: Path) -> None:
    source = SOFTMAX.replace("import torch\n", "import torch\n\nHERE = open('was_run', 'w')\n")
    (tmp_path / "softmax.py").write_text(source)
    code = (
        "import sys; from pathlib import Path; from aisp.kernels import catalog\n"
        "found = catalog.load([Path(sys.argv[1])]); assert found.ids == ['softmax:softmax'], found\n"
        "assert catalog.read_sources(found.targets[0]); assert 'torch' not in sys.modules"
    )
    main = Path(__file__).parents[2]
    words = [sys.executable, "-c", code, str(tmp_path / "softmax.py")]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(main)}, check=False)
    assert done.returncode == 0
    assert not (tmp_path / "was_run").exists()


def test_a_file_that_is_saved_broken_still_shows_as_a_change(tmp_path: Path) -> None:
    target = made(tmp_path, SOFTMAX)
    target.folder.write_text(SOFTMAX + "def (\n")
    assert catalog.read_sources(target) == {"softmax.py": (SOFTMAX + "def (\n").encode()}
    target.folder.unlink()
    with pytest.raises(OSError, match=r"softmax\.py"):
        catalog.read_sources(target)


def changed(before: str, after: str) -> str:
    assert before in SOFTMAX
    return SOFTMAX.replace(before, after)


TRUTH = "    return torch.softmax(x, -1)\n\n\ndef baseline"
REFUSED = {
    "syntax": (SOFTMAX + "def (\n", "line 21", "not Python: invalid syntax: def ("),
    "null": (SOFTMAX + "\0", "", "not Python"),
    "empty": ("", "", "has no function reference"),
    "no reference": (changed("def reference", "def refrence"), "", "has no function reference"),
    "no baseline": (changed("def baseline", "def base"), "", "has no function baseline, and reference"),
    "no optimized": (changed("def optimized", "def optimized_one"), "", "rename optimized_one to optimized"),
    "no annotation": (changed('x: "float32 [M, N] normal"', "x"), "line 8", "the input x of reference is not"),
    "torch's annotation": (changed('"float32 [M, N] normal"', "torch.Tensor"), "line 8", "annotated with torch.Tensor"),
    "dtype": (changed('"float32 [M, N] normal"', '"flaot32 [M, N] normal"'), "line 8", "did you mean 'float32'?"),
    "distribution": (changed("N] normal", "N] norml"), "line 8", "did you mean 'normal'?"),
    "made": (changed("float32 [M, N] normal", "made"), "line 8", "takes an inputs.py"),
    "axis": (changed('"M": 4096, ', ""), "line 8", "x: the axis 'M' is used but not defined; add it to axes"),
    "no axes": (changed("axes =", "sizes ="), "line 8", 'write axes = {"M": 4096, "N": 4096}'),
    "axes computed": (changed("2**12", "len(torch.__name__)"), "line 5", "axes is computed"),
    "axes negative": (changed("2**12", "-1"), "line 5", "axes.N: -1 is out of range"),
    "no result": (changed(' -> "float32 [M, N]"', ""), "line 8", "normal') -> \"float32 [M, N]\":"),
    "odd result": (changed('-> "float32 [M, N]"', "-> None"), "line 8", "reference is said to return None"),
    "result's dtype": (changed('-> "float32 [M, N]"', '-> "float33 [M, N]"'), "line 8", "returns: unknown dtype"),
    "by a star": (changed("(x: ", "(*rest, x: "), "line 8", "reference takes x by name"),
    "star import": (changed("import torch\n", "import torch\nfrom math import *\n"), "line 4", "import * hides"),
    "relative import": (changed("import torch\n", "import torch\nfrom . import near\n"), "line 4", "relative import"),
    "seed": (changed("\naxes", "\ntorch.manual_seed(0)\naxes"), "line 5", "torch.manual_seed(0) has an effect"),
    "loop": (changed("\naxes", "\nfor i in range(3):\n    pass\naxes"), "line 5", "for i in range(3): has an effect"),
    "setting": (changed("\naxes", "\ntorch.backends.x = 1\naxes"), "line 5", "torch.backends.x is changed"),
    "effect within": (changed("\naxes", "\nif torch:\n    print()\naxes"), "line 6", "print() has an effect"),
    "twice": (SOFTMAX + "\n\ndef baseline(x):\n    return x\n", "line 23", "baseline is bound again, after line 12"),
    "counted up": (SOFTMAX + "\n\nN = 1\nN += 1\n", "line 24", "N is changed after it was made"),
    "exec": (changed('    """One kernel."""', "    exec('pass')"), "line 19", "exec may use names that cannot be seen"),
    "cheat": (changed(TRUTH, "    return optimized(x)\n\n\ndef baseline"), "line 8", "reference uses optimized"),
    "run": (changed('    """One kernel."""', "    run()") + "\n\nrun = print\n", "line 23", "run is used by optimized"),
    "flops": (SOFTMAX + '\n\nflops = "5*M*K"\n', "line 23", "flops: the axis 'K' is used but not defined"),
    "title": (SOFTMAX + "\n\ntitle = 3\n", "line 23", "title is no text"),
    "cases": (SOFTMAX + '\n\ncases = [{"name": "odd", "axes": {"K": 1}}]\n', "line 23", "not among axes"),
    "tolerance": (SOFTMAX + '\n\ntolerance = {"float32": 7}\n', "line 23", "float32: 7 is no relative tolerance"),
    "not text": (b"x = 1\n# \xff\n", "line 2", "byte 8 is not UTF-8; save the file as UTF-8"),
    "deep": (SOFTMAX + "\n\nassert " + "+".join("x" * 950) + "\n", "", "nested too deeply"),
    "deeper": (SOFTMAX + "\n\nx = " + "-" * 90000 + "1\n", "", "not Python: nested too deeply"),
    "too large": (SOFTMAX + "#" * onefile.MAX_BYTES, "", f"within {onefile.MAX_BYTES:,}"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_taken_apart_is_told_with_its_line_and_what_would_work(what: str, tmp_path: Path) -> None:
    source, line, told = REFUSED[what]
    found = load(tmp_path, source)
    assert found.ids == []
    problems = [problem for problem in found.problems if told in str(problem)]
    assert problems, f"{told!r} is in none of {[*map(str, found.problems)]}"
    assert (problems[0].path, problems[0].key) == (tmp_path / "softmax.py", line)
    assert problems[0].fix and problems[0].target == "softmax:softmax"
    assert "\n" not in str(problems[0])


def test_a_module_beside_the_file_is_refused_because_runs_do_not_have_it(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("")
    found = load(tmp_path, changed('    """One kernel."""', "    from helpers import thing"))
    (problem,) = found.problems
    assert "line 19: helpers lies beside the file" in str(problem)


def test_another_file_is_no_target(tmp_path: Path) -> None:
    assert load(tmp_path, SOFTMAX, "softmax.txt").problems[0].message == "not a folder"
    assert catalog.load([tmp_path / "none.py"]).problems[0].message == "no such folder"
    (tmp_path / "folder.py").mkdir()
    assert catalog.load([tmp_path / "folder.py"]).problems[0].message == "holds no targets"
