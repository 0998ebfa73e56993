"""The page says what the recorded figures give, they are counted right, and a slip is the one that its rule names."""

from __future__ import annotations

import argparse
import ast
import difflib
from pathlib import Path
from typing import Any

import pytest

from aisp.engine import corpus
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Role
from tests.proofs.oracle import asking, mutants, report, sources
from tests.proofs.oracle.__main__ import _lessons, by_statement, device_name, operator_figures, renewed, verdict_of
from tests.proofs.oracle.mutants import RULES, SURVIVORS, Fate, Mutant
from tests.proofs.oracle.waiting import Answers, ask

KERNEL = '''"""A row's sum of positive values, minus one."""
import triton
import triton.language as tl

@triton.jit
def sums(y_ptr, x_ptr, count, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, N, BLOCK):
        i = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + rows * N + i, mask=(i < N) & (rows < M), other=float("-inf"))
        acc += tl.where(x > 0.0, x, 0.0)
    tl.store(y_ptr + rows, tl.max(acc) - 2.5)

def run(x):
    sums[(triton.cdiv(x.numel(), 1024),)](x, x, 1, 2, 3, 4)
'''
SLIPS = {
    "bound_loosened": ("i < N", "i <= N"),
    "bound_tightened": ("i < N", "i < N - 1"),
    "narrowed": ("tl.zeros((BLOCK,), dtype=tl.float32)", "tl.zeros((BLOCK,), dtype=tl.float16)"),
    "constant_changed": ("2.5", "2.525"),
    "loop_ends_early": ("range(0, N, BLOCK)", "range(0, N - 1, BLOCK)"),
    "difference_swapped": ("tl.max(acc) - 2.5", "(2.5 - tl.max(acc))"),
    "grid_rounded_down": ("triton.cdiv(x.numel(), 1024)", "max(1, x.numel() // (1024))"),
    "branches_swapped": ("tl.where(x > 0.0, x, 0.0)", "tl.where(x > 0.0, 0.0, x)"),
    "padding_changed": ("float('-inf')", "0.0"),
    "offset_narrowed": ("tl.int64", "tl.int32"),
    "mask_removed": ("(i < N) & (rows < M)", "((i < N) & ((rows < M) | True))"),
    "tie_moved": ("x > 0.0", "x >= 0.0"),
    "maximum_turned": ("tl.max(acc)", "tl.min(acc)"),
    "place_shifted": ("tl.arange(0, BLOCK)", "(tl.arange(0, BLOCK) + 1)"),
}


BOTH = {"allclose": True, "assert_close": True}
NEITHER = {"allclose": False, "assert_close": False}


def operator(target: str, right: bool, verdict: str, **more: Any) -> dict[str, Any]:
    """Figures of one operator as they are recorded."""
    plain: dict[str, Any] = {
        "target": target, "rung": "optimized" if right else "wrong_sign", "right": right, "verdict": verdict,
        "verdict_by_seed": {"1": verdict}, "strategies": {"boundary": [6, 0], "adversarial": [6, 0]}, "skipped": [],
        "alarms": [], "smallest": {}, "naive": {"float32": BOTH}, "replayed": 0,
        "reproduced": 0, "not_reproduced": [], "digests": {"1": "aa"}, "verdicts": {"1": "rrrr"}, "cases_per_s": 10.0,
        "max_error": 0.25,
        "problem": "",
    }  # fmt: skip
    return plain | more


def corpus_of(device: str, *operators: dict[str, Any]) -> dict[str, Any]:
    """A recording."""
    versions = {"device": device, "torch": "2.13.0", "triton": "3.7.1"}
    return {"versions": versions, "seeds": [1], "cases": 30, "operators": operators, "small": True, "code": "c"}


# -- both policies -----------------------------------------------------------------------------------------------------


def by_both(target: str, right: bool, stated: tuple[int, int], derived: tuple[int, int]) -> dict[str, Any]:
    """An operator of which so many of 10 boundary and of 10 adversarial cases fail by each policy."""
    one, other = ({"boundary": [10, gate], "adversarial": [10, triage]} for gate, triage in (stated, derived))
    more = {"stated": {"verdict": verdict_of(one), "strategies": one}, "strategies": other}
    return operator(target, right, verdict_of(other), **more)


def test_misses_and_false_alarms_of_both_policies_are_counted_on_the_same_outputs() -> None:
    given = corpus_of(
        "cpu",
        by_both("a:missed", False, stated=(0, 2), derived=(4, 5)),
        by_both("a:found", False, stated=(6, 0), derived=(8, 0)),
        by_both("a:doubted", True, stated=(0, 3), derived=(0, 0)),
        by_both("a:right", True, stated=(0, 0), derived=(0, 0)),
    )
    told = report.page({"corpus_cpu": given}, {})
    assert "| stated | 1 of 2 | 70 % (14 of 20) | 0 of 2 | 1 of 2 | 8 % (3 of 40) |" in told
    assert "| derived | 0 of 2 | 40 % (8 of 20) | 0 of 2 | 0 of 2 | 0 % (0 of 40) |" in told
    assert "- `a:missed` `wrong_sign` is wrong; stated: doubted, derived: wrong" in told
    assert "- `a:doubted` `optimized` is right; stated: doubted, derived: right" in told
    assert "`a:found` `wrong_sign` is wrong;" not in told
    assert "| boundary | gate | 60 % (12 of 20) | 30 % (6 of 20) | 78 % |" in told


def test_a_recording_of_before_both_were_asked_tells_of_one() -> None:
    told = report.page({"corpus_cpu": corpus_of("cpu", operator("a:b", True, "right"))}, {})
    assert "Both policies" not in told
    assert "| boundary | gate | – | – | 78 % | 0 % (0 of 6) | – | 0 % |" in told


def test_wrong_rungs_that_could_not_be_asked_are_counted_apart() -> None:
    asked = by_both("ch01:one", False, stated=(1, 0), derived=(2, 0)) | {"source": "s"}
    rungs = [
        asked,
        {"target": "ch01:two", "rung": "wrong_x", "right": False, "source": "s", "unavailable": "needs a GPU"},
    ]
    versions = {"device": "cpu", "torch": "2.13.0", "triton": "3.7.1"}
    given = {"versions": versions, "seed": 1, "cases": 30, "budget_s": 20.0, "rungs": rungs, "small": True}
    told = report.page({"wrong_cpu": given}, {"ch01:one": "s", "ch01:two": "s"})
    assert "for each of 1 rungs; 1 more cannot be asked here." in told
    assert "| stated | 0 of 1 | 90 % (9 of 10) | – | – | – |" in told
    assert "They agree on every one." in told
    assert "Not asked: needs a GPU (1)." in told


def test_a_policy_is_told_by_its_own_verdicts_and_a_death_is_one_by_either() -> None:
    lines = [
        {"case": {"strategy": "boundary"}, "verdict": "wrong", "stated": "right"},
        {"case": {"strategy": "boundary"}, "verdict": "crashed"},
        {"case": {"strategy": "mixed"}, "verdict": "right", "stated": "wrong"},
    ]
    told = by_statement(lines)
    assert told == {"verdict": "wrong", "strategies": {"boundary": [2, 1], "mixed": [1, 1]}}


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_recorded_corpus_has_every_operator_and_as_many_cases_as_it_says() -> None:
    data = report.load()
    assert "corpus_cpu" in data
    known = {target.id: corpus.operator(target) for target in corpus.load().targets}
    for name in (name for name in data if name.startswith("corpus_")):
        told = data[name]["operators"]
        assert {o["target"]: (o["rung"], o["right"]) for o in told} == {
            target: (rung.name, rung.role is not Role.WRONG) for target, rung in known.items()
        }
        every = len(data[name]["seeds"]) * data[name]["cases"]
        assert {sum(cases for cases, _ in o["strategies"].values()) for o in told} == {every}


def test_a_rate_is_counted_over_all_operators_and_its_ends_are_exact() -> None:
    found = report.rates(
        [
            operator("a:b", False, "wrong", strategies={"boundary": [6, 3], "regular": [6, 0]}),
            operator("a:c", False, "wrong", strategies={"boundary": [4, 4]}),
        ]
    )
    assert found == {"boundary": (10, 7), "regular": (6, 0)}
    assert [report.percent(*pair) for pair in ((0, 7), (1, 300), (7, 10), (299, 300), (5, 5), (0, 0))] == [
        "0 %", "0.3 %", "70 %", "99.7 %", "100 %", "–",
    ]  # fmt: skip


def test_the_page_tells_who_was_refused_and_what_the_careless_test_let_through() -> None:
    alarm = {
        "seed": 3, "number": 7, "strategy": "boundary", "case": "M=1", "verdict": "wrong", "detail": "y[0]: got 1",
    }  # fmt: skip
    figures = corpus_of(
        "cpu",
        operator("g:bad", False, "wrong", strategies={"boundary": [6, 3]}, smallest={"smallest": "M=1 N=2"}),
        operator("g:sly", False, "doubted", naive={"float32": NEITHER}),
        operator("g:good", True, "right", naive={"float32": BOTH, "bfloat16": NEITHER}),
        operator("g:odd", True, "wrong", alarms=[alarm], replayed=2, reproduced=1, not_reproduced=["M=1"]),
    )
    told = report.page({"corpus_cpu": figures}, {})
    assert "**1 of 2 wrong operators are refused by the gate**" in told
    assert "**1 of 2 right operators are refused**" in told
    assert "- 1 of 2 failures came again" in told
    assert "| boundary | gate | 25 % (3 of 12) | – | 78 % | 0 % (0 of 12) | – | 0 % |" in told
    assert "| `allclose`, own dtype | 1 of 2 | 0 of 2 | 3 of 4 |" in told
    assert "| `torch.testing.assert_close`, each dtype | 1 of 2 | 1 of 2 | 2 of 4 |" in told
    assert "| – | accepts | accepts |" in told and "| – | refuses bfloat16 | refuses bfloat16 |" in told
    assert "| this oracle | 1 of 2 | 1 of 2 | 2 of 4 |" in told
    assert "| `g:bad` `wrong_sign` | wrong | wrong | 50 % |" in told
    assert "M=1 N=2 | accepts | accepts |" in told
    assert "- `g:odd`: M=1 (seed 3, boundary 7): y[0]: got 1" in told
    assert "- `g:sly`: doubted" in told


def test_two_devices_agree_only_on_what_is_alike() -> None:
    here = corpus_of("cpu", operator("g:a", True, "right"), operator("g:b", False, "wrong"))
    there = corpus_of(
        "NVIDIA H100",
        operator("g:a", True, "right", digests={"1": "bb"}),
        operator("g:b", False, "doubted", verdicts={"1": "rwrr"}),
    )
    told = report.page({"corpus_cpu": here, "corpus_h100": there}, {})
    assert "the verdict is the same for 1 of 2 operators" in told
    assert "the same hashes in 1 of 2 fuzzes (operator and seed); of 8 single cases 7 end alike" in told
    assert "Cases that end otherwise: `g:b` 1." in told
    there["code"] = "d"
    assert "Cases are not compared one by one: the oracle's code was another" in report.page(
        {"corpus_cpu": here, "corpus_h100": there}, {}
    )


def lesson(rung: str, verdict: str, **more: Any) -> dict[str, Any]:
    """Figures of one rung of a lesson as they are recorded."""
    failing = 0 if verdict == "right" else 2
    plain: dict[str, Any] = {
        "target": "ch03:normalize_on_gpu", "rung": rung, "source": "aa", "right": not rung.startswith("wrong"),
        "verdict": verdict, "cases": 45, "unsupported": 5, "failing": failing, "failures": [], "skipped": [],
        "problem": "",
    }  # fmt: skip
    return plain | more


def lessons_of(*rungs: dict[str, Any]) -> dict[str, Any]:
    """A recording."""
    return {
        "versions": {"device": "NVIDIA H200", "torch": "2.11.0", "triton": "3.6.0"}, "seed": 1, "cases": 200,
        "budget_s": 15.0, "jobs": 14, "rungs": rungs,
    }  # fmt: skip


def test_the_page_tells_a_lesson_in_a_line_and_every_refusal_of_an_honest_rung() -> None:
    fault = {
        "seed": 1, "number": 20, "strategy": "boundary", "case": "B=1", "verdict": "error", "detail": "no such method",
    }  # fmt: skip
    rungs = [
        lesson("baseline", "right"),
        lesson("optimized", "wrong", cases=12, failures=[fault]),
        lesson("wrong_view", "wrong"),
        lesson("wrong_late", "right", cases=8),
        lesson("optimized_narrow", "right", cases=5),
        lesson("peer_x", "right") | {"unavailable": "needs a GPU"},
    ]
    told = report.page({"lessons_h200": lessons_of(*rungs)}, {"ch03:normalize_on_gpu": "aa"})
    assert "1 of 3 honest rungs have no failing case\nin 47, and the gate refuses 1." in told
    assert "1 of 2 are refused by the gate" in told
    assert "| `ch03:normalize_on_gpu` | 3 | 47 | 2 | 0 | 1 of 2 |" in told
    assert "- `ch03:normalize_on_gpu` `optimized`: B=1 (boundary 20): no such method" in told
    assert "- `ch03:normalize_on_gpu` `wrong_late`: right" in told
    assert "- needs a GPU: `ch03:normalize_on_gpu` `peer_x`." in told


def test_the_page_names_a_lesson_of_which_any_rung_was_asked_with_other_files() -> None:
    rungs = [
        lesson("baseline", "right", target="ch01:same"),
        lesson("baseline", "right", target="ch01:half", source="aa"),
        lesson("peer_x", "right", target="ch01:half", source="bb") | {"unavailable": "needs a GPU"},
        lesson("baseline", "right", target="ch01:gone"),
    ]
    told = report.page({"lessons_h200": lessons_of(*rungs)}, {"ch01:same": "aa", "ch01:half": "aa", "ch01:new": "cc"})
    assert "\nChanged since they were asked here: `ch01:half`, `ch01:gone`.\n" in told
    told = report.page({"lessons_h200": lessons_of(*rungs)}, {"ch01:same": "aa", "ch01:half": "bb", "ch01:gone": "aa"})
    assert "\nChanged since they were asked here: `ch01:half`.\n" in told
    told = report.page({"lessons_h200": lessons_of(*rungs[:1])}, {"ch01:same": "aa"})
    assert "Changed since" not in told and "\nNo lesson has changed since in what can decide an answer.\n" in told


def test_on_every_device_the_gate_refused_no_honest_rung_of_a_lesson_and_all_wrong_ones() -> None:
    data = {name: figures for name, figures in report.load().items() if name.startswith("lessons_")}
    assert len(data) >= 2
    rungs = [(target.id, rung) for target in catalog.load().targets for rung in target.rungs]
    shipped = {(target, rung.name): rung.role for target, rung in rungs}
    renamed = {(target, rung.formerly): (target, rung.name) for target, rung in rungs if rung.formerly}
    for name, figures in data.items():
        keys = [(r["target"], r["rung"]) for r in figures["rungs"]]
        told = {renamed.get(key, key): r for key, r in zip(keys, figures["rungs"], strict=True)}
        assert {key: r["right"] for key, r in told.items()} == {
            key: role is not Role.WRONG for key, role in shipped.items()
        }
        asked = [r for r in figures["rungs"] if "unavailable" not in r]
        other = [f"{r['target']} {r['rung']}: {r['verdict']}" for r in asked if r["right"] is (r["verdict"] == "wrong")]
        assert other == [], name


def test_lessons_that_are_asked_again_take_their_places_in_a_recording_of_the_same_kind() -> None:
    def sitting(*rungs: dict[str, Any], took_s: float) -> dict[str, Any]:
        made = {"versions": {"torch": "2.11.0"}, "seed": 1, "cases": 200, "budget_s": 15.0, "small": True, "code": "c"}
        return made | {"rungs": list(rungs), "took_s": took_s, "jobs": 14}

    before, after = lesson("optimized", "wrong"), lesson("optimized", "right")
    first, last, new = lesson("baseline", "right"), lesson("wrong_view", "wrong"), lesson("peer_x", "right")
    recorded = sitting(first, before, last, took_s=90.0)
    told = renewed(recorded, sitting(after, new, took_s=10.0) | {"jobs": 1})
    assert told == recorded | {"rungs": [first, after, last, new], "took_s": 100.0}
    with pytest.raises(ValueError, match="it has code c, not d; ask all lessons again"):
        renewed(recorded, sitting(after, took_s=1.0) | {"code": "d"})


def test_a_verdict_is_the_gates_before_it_is_triages() -> None:
    assert verdict_of({"adversarial": [6, 2], "boundary": [6, 0]}) == "doubted"
    assert verdict_of({"adversarial": [6, 2], "mixed": [6, 1]}) == "wrong"
    assert verdict_of({"nonfinite": [6, 0]}) == "right"
    assert verdict_of({}) == "undecided"


def test_a_device_is_named_after_its_model() -> None:
    names = {"cpu": "cpu", "NVIDIA H100 80GB HBM3": "h100", "NVIDIA A100-SXM4-40GB": "a100", "Tesla T4": "t4"}
    assert {name: device_name({"device": name}) for name in names} == names


# -- asking ------------------------------------------------------------------------------------------------------------

RIGHT = "def run(x):\n    return x * 2\n"
DIES = "import os\n\ndef run(x):\n    if x.shape[0] == 3:\n        os._exit(7)\n    return x + x\n"
LESSON = """+++
title = "Twice"
techniques = ["fusion"]
goal = "speed"
axes = { M = 4 }
flops = "M"
[inputs]
x = "float32 [M] normal"
[outputs]
y = "float32 [M]"
[fuzz]
axes = { M = [2, 3] }
[rungs.baseline]
summary = "x * 2"
[rungs.optimized]
summary = "x + x"
+++
# Twice
"""


def twice(root: Path) -> Path:
    """The folder of a lesson whose optimized rung dies of every third row."""
    folder = root / "mine" / "twice"
    folder.mkdir(parents=True)
    for name, text in {"baseline": RIGHT, "reference": RIGHT, "optimized": DIES}.items():
        (folder / f"{name}.py").write_text(f'"""Twice."""\n\n{text}', "utf-8")
    (folder / "lesson.md").write_text(LESSON, "utf-8")
    return folder


@pytest.mark.slow
def test_a_rung_that_kills_its_process_is_asked_on_in_another(tmp_path: Path) -> None:
    folder = twice(tmp_path)
    job = asking.Job(str(folder), str(tmp_path), "mine", "optimized", "cpu", "", seeds=(2,), cases=3)
    answers = ask(job)
    assert [line["verdict"] for line in answers.cases] == [
        "crashed" if line["case"]["axes"]["M"] == 3 else "right" for line in answers.cases
    ]
    assert [line["index"] for line in answers.cases] == [0, 1, 2]
    assert {line["case"]["axes"]["M"] for line in answers.cases} == {2, 3}, "this seed draws both"
    assert answers.problem == ""


def test_a_lessons_hash_follows_what_can_decide_an_answer_and_not_its_words(tmp_path: Path) -> None:
    folder = twice(tmp_path)

    def hashed() -> str:
        return sources.now([tmp_path])["mine:twice"]

    def after(name: str, old: str, new: str) -> str:
        """The hash while `old` is `new` in that file."""
        path = folder / name
        text = path.read_text("utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), "utf-8")
        try:
            return hashed()
        finally:
            path.write_text(text, "utf-8")

    before = hashed()
    assert len(before) == 16 and int(before, 16) >= 0
    (folder / "lesson.md").write_text(LESSON, "utf-8-sig")
    assert hashed() == before
    (folder / "lesson.md").write_text(LESSON, "utf-8")
    expect = '[expect]\nspeedup = [1, 2]\non = "any"\nwhy = "none"\n[inputs]'
    for old, new in {
        'title = "Twice"': 'title = "Two"', '["fusion"]': '["tiling"]', '"speed"': '"memory"', "[inputs]": expect,
        '"x * 2"': '"twice"', '\n[rungs.baseline]\nsummary = "x * 2"': "", "# Twice": "# Twice\n\nMore.",
        "axes = { M = 4 }": "axes = { M = 4 }  # few",
    }.items():  # fmt: skip
        assert after("lesson.md", old, new) == before, new
    supports = 'summary = "x + x"\nsupports = { M = [2] }'
    changed = [
        after("optimized.py", "== 3", "== 4"),
        after("reference.py", "x * 2", "x * 3"),
        after("optimized.py", "import os", "import os  # kernels.cuda"),  # and all of that module
        after("lesson.md", "[2, 3]", "[2, 5]"),
        after("lesson.md", "normal", "uniform"),
        after("lesson.md", "[fuzz]", "[fuzz]\nlinear = ['x']"),
        after("lesson.md", 'summary = "x + x"', supports),
    ]
    (folder / "kernel.cu").write_text("__global__ void f() {}\n", "utf-8")
    changed.append(hashed())
    assert len({before, *changed}) == len(changed) + 1


def test_a_module_that_lessons_share_is_part_of_those_that_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = twice(tmp_path / "lessons")
    kernels = tmp_path / "kernels"
    (kernels / "ch01_x").mkdir(parents=True)
    for name in ("cuda.py", "other.py", "ch01_x/parts.py"):
        (kernels / name).write_text("A = 1\n", "utf-8")
    monkeypatch.setattr(catalog, "shipped_root", lambda: kernels)
    for line, named in {
        "import math": set(),
        "from aisp.kernels import cuda": {"cuda.py"},
        "from aisp.kernels.cuda import launch": {"cuda.py"},
        "import aisp.kernels.ch01_x.parts": {"ch01_x/parts.py"},
    }.items():
        (folder / "optimized.py").write_text(f"{line}\n\ndef run(x):\n    return x\n", "utf-8")
        found = set()
        for name in ("cuda.py", "other.py", "ch01_x/parts.py"):
            before = sources.now([tmp_path / "lessons"])
            with (kernels / name).open("a", encoding="utf-8") as file:
                file.write("B = 2\n")
            found |= {name} if sources.now([tmp_path / "lessons"]) != before else set()
        assert found == named, line


def test_a_rung_that_cannot_be_asked_here_is_recorded_with_its_lessons_hash_all_the_same(tmp_path: Path) -> None:
    folder = twice(tmp_path)
    text = LESSON.replace('"x + x"', '"x + x"\nneeds = { gpus = 1 }')
    (folder / "lesson.md").write_text(text, "utf-8")
    given = argparse.Namespace(
        device="cpu", cases=0, seeds=[1], root=[tmp_path], only=[], rungs=["optimized"], budget=1.0, jobs=1
    )
    [told] = _lessons(given)["rungs"]
    assert list(told) == ["target", "rung", "source", "right", "unavailable"]
    assert (told["source"], told["unavailable"]) == (sources.now([tmp_path])["mine:twice"], "needs a GPU")


def test_what_was_asked_becomes_figures() -> None:
    def line(number: int, strategy: str, verdict: str) -> dict[str, Any]:
        case = {"number": number, "strategy": strategy, "axes": {"M": 2}}
        return {
            "index": number, "seed": 1, "case": case, "took_s": 0.5, "verdict": verdict, "finding": "", "detail": "d",
            "hashes": {"x": "ab", "changed/x": "cd"}, "sha256": "", "max_error": 0.25,
        }  # fmt: skip

    asked = Answers([line(0, "boundary", "right"), line(1, "regular", "error")], {"naive": [{"naive": None}]})
    again = Answers([], {"replayed": [{"replayed": True, "case": "M=2"}]})
    target = corpus.load().targets[0]
    told = operator_figures(target.id, corpus.operator(target), asked, again)
    assert told["strategies"] == {"boundary": [1, 0], "regular": [1, 1]}
    assert (told["verdict"], told["verdicts"], told["findings"]) == ("wrong", {"1": "re"}, {"error": 1})
    assert (told["cases_per_s"], told["max_error"], told["naive"]) == (2.0, 0.25, None)
    assert (told["replayed"], told["reproduced"]) == (1, 1)
    assert asking.digest({"x": "ab", "changed/x": "cd"}) == asking.digest({"x": "ab"}) != asking.digest({"x": "cd"})


# -- mutants -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [rule.__name__ for rule in RULES])
def test_a_rule_makes_the_slip_that_it_names_and_no_other(rule: str) -> None:
    made = _every(rule)
    old, new = SLIPS[rule]
    chosen = [mutant for mutant in made if (mutant.old, mutant.new) == (old, new)]
    assert chosen, [mutant.name for mutant in made]
    for mutant in made:
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(KERNEL))
        before, after = KERNEL.splitlines(), mutant.source.splitlines()
        changed = [text for text in difflib.ndiff(before, after) if text[0] in "+-"]
        assert [text[2:].strip() for text in changed] == [mutant.before, mutant.after]


def _every(rule: str) -> list[Mutant]:
    """All slips of one rule in KERNEL."""
    tree = ast.parse(KERNEL)
    return list(mutants.places(tree, KERNEL, next(r for r in RULES if r.__name__ == rule), "g:sums"))


def test_every_right_operator_gets_its_five_slips_and_always_the_same() -> None:
    right = [t for t in corpus.load().targets if corpus.operator(t).role is not Role.WRONG]
    rules = set()
    for index, target in enumerate(right):
        source = corpus.operator(target).path.read_text("utf-8")
        made = mutants.mutants(source, target.id, index)
        assert made == mutants.mutants(source, target.id, index)
        assert len({mutant.source for mutant in made}) == len(made) == mutants.EACH
        rules |= {mutant.rule for mutant in made}
    assert rules == {rule.__name__ for rule in RULES}


def test_too_few_places_for_slips_are_an_error_and_not_fewer_mutants() -> None:
    with pytest.raises(ValueError, match="1 slips are possible, not 5"):
        mutants.mutants("def run(x):\n    return x - 1\n", "g:small", 0)


def test_every_mutant_that_lives_is_explained_and_no_explanation_is_of_none() -> None:
    told = report.load()["mutants_cpu"]["mutants"]
    names = {mutant["name"] for mutant in told}
    living = {mutant["name"] for mutant in told if mutant["verdict"] not in ("wrong", "doubted")}
    # What overwrites memory dies of it on some days and lives on others: more may be explained than live.
    assert living <= set(SURVIVORS) <= names
    assert not [name for name, (fate, why) in SURVIVORS.items() if fate is Fate.UNEXPLAINED or len(why) < 20]
