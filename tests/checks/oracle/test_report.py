"""A failure as a script that anybody can run, whatever its sentence holds; and what has changed since."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.checks.oracle import reproduce
from aisp.checks.oracle.report import differs, script
from aisp.checks.oracle.schema import Case, Layout, Strategy, Values

CASE = Case(
    *(4, Strategy.MIXED, {"M": 3, "N": 129}, "float16"),
    layouts={"x": Layout.TRANSPOSED},
    values={"x": Values.LARGE},
    relation="slice",
)
HOSTILE = [
    "y[0]: got \"1\", expected '2'",
    '"""\nimport os; os.abort()\n"""',
    "ends in a quote'",
    'ends in a quote"',
    "ends in a backslash\\",
    "\\N{BULLET} \\x \\u12 \\",
    "line one\nline two\r\nline three\x0b\x0c\x1c\u2028",
    "braces {0} {name} {{ }} %s",
    "",
    "long " * 200,
    "\x1b[2J",
]


def asked(text: str) -> dict[str, Any]:
    """What a script asks of `show`, with nothing else executed than its imports."""
    tree = ast.parse(text)
    assert [type(node) for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)][:1] == [ast.Expr]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [ast.unparse(node.func) for node in calls]
    assert called in (["show"], ["os.environ.setdefault", "show"])
    return {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in calls[-1].keywords}


def made(detail: str, folder: str = "/mine/one", device: str = "cpu") -> str:
    return script(Path(folder), "mine:one", "optimized", device, 2**63, CASE, detail)


@pytest.mark.parametrize("detail", HOSTILE)
def test_no_sentence_can_break_a_script_or_add_to_it(detail: str) -> None:
    found = asked(made(detail))
    assert found["rung"] == "optimized"
    assert found["seed"] == 2**63
    assert Case.of(found["case"]) == CASE
    doc = ast.get_docstring(ast.parse(made(detail)))
    assert doc is not None
    assert doc.startswith("mine:one, optimized:")


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=80) | st.text("\"\\'\n{} ", max_size=30))
def test_any_text_leaves_the_script_as_it_is(detail: str) -> None:
    assert Case.of(asked(made(detail))["case"]) == CASE


@pytest.mark.parametrize("folder", ["/a b/c'd", '/quo"te', "/back\\slash", "/new\nline", '/"""'])
def test_no_folder_name_can_break_a_script(folder: str) -> None:
    assert asked(made("y[0]", folder))["folder"] == folder


def test_triton_is_told_to_interpret_before_anything_is_imported_and_only_without_a_gpu() -> None:
    text = made("y[0]")
    assert text.index("TRITON_INTERPRET") < text.index("from aisp.checks.oracle.reproduce")
    assert "TRITON_INTERPRET" not in made("y[0]", device="cuda")
    assert asked(made("y[0]", device="cuda"))["device"] == "cuda"


def test_a_script_says_what_was_wrong_in_its_first_line() -> None:
    assert made("y[0]: got 0").splitlines()[0] == '"""mine:one, optimized: y[0]: got 0"""'


def test_what_is_plain_is_left_out_of_a_script() -> None:
    plain = Case(1, Strategy.BOUNDARY, {"N": 1})
    found = asked(script(Path("/one"), "mine:one", "optimized", "cpu", 3, plain, ""))["case"]
    assert not {"dtype", "layouts", "values", "relation"} & set(found)
    assert Case.of(found) == plain


LESSON = '+++\ntitle = "Twice"\ntechniques = ["none"]\naxes = { N = 16 }\nflops = "0"\n'
LESSON += '[inputs]\nx = "float32 [N] normal"\n[outputs]\ny = "float32 [N]"\n+++\n'


@pytest.mark.parametrize(("rung", "said"), [("optimized", "y: right\n"), ("wrong_tail", "0, expected ")])
def test_a_script_that_is_run_shows_the_judgement(
    rung: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "lesson.md").write_text(LESSON)
    for name, text in {"reference": "x * 2", "baseline": "x * 2", "optimized": "x + x", "wrong_tail": "x * 0"}.items():
        (tmp_path / f"{name}.py").write_text(f"def run(x):\n    return {text}\n")
    for name in ("reference", rung):  # show() puts them where an import would
        monkeypatch.setitem(sys.modules, name, None)
    small = Case(1, Strategy.BOUNDARY, {"N": 2})
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # as the script does, and taken back after it
    code = script(tmp_path, "mine:one", rung, "cpu", 3, small, "")
    exec(compile(code, "case.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own script
    printed = capsys.readouterr().out
    assert said in printed
    assert ("##" in printed.splitlines()) is (rung == "wrong_tail")


def test_showing_a_folder_that_is_no_target_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "lesson.md").write_text("no front matter")
    with pytest.raises(SystemExit, match="begin the file with a line"):
        reproduce.show(str(tmp_path), "optimized", "cpu", 1, CASE.plain())


def test_what_differs_is_told_with_both_versions() -> None:
    before = {"torch": "2.11.0", "triton": "3.7", "gone": "1"}
    now = {"torch": "2.13.0", "triton": "3.7", "new": "2"}
    assert differs(before, now) == ["gone missing, was 1", "new 2, was missing", "torch 2.13.0, was 2.11.0"]
    assert differs(before, dict(before)) == []
    assert differs({}, {}) == []
