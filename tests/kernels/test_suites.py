"""Suites as data: the shipped ones mean targets that are there, and a suite with a slip says where it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aisp.kernels import catalog
from aisp.kernels.catalog import Catalog, Suite, suites
from aisp.kernels.catalog.contracts import Layer, Policy
from tests.tui.fake_engine import MAIN, make_target


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return catalog.load()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    for name in ("one", "two", "three"):
        make_target(tmp_path / "mine", name)
    return tmp_path / "mine"


def told(text: str, name: str = "mine.toml") -> list[str]:
    """What is wrong with a suite, without its file's name."""
    found, problems = suites.parse(text.encode(), Path(name))
    assert (found is None) == bool(problems)
    assert all(str(problem).startswith(name) for problem in problems)
    return [f"{problem.key}: {problem.message}; {problem.fix}".removeprefix(": ") for problem in problems]


def suite(text: str) -> Suite:
    found, problems = suites.parse(text.encode(), Path("mine.toml"))
    assert found is not None, problems
    return found


def ids(entries: tuple[suites.Entry, ...]) -> list[str]:
    return [entry.target.id for entry in entries]


# -- what is shipped ---------------------------------------------------------------------------------------------------


def test_every_shipped_suite_means_targets_cases_and_rungs_that_are_there(shipped: Catalog) -> None:
    found, problems = suites.load_suites()
    assert not problems
    assert set(found) == {"all", "smoke", "tier1"}
    for one in found.values():
        entries, gone = one.resolve(shipped)
        assert entries and not gone, one.name


def test_tier1_is_six_targets_of_which_one_is_end_to_end(shipped: Catalog) -> None:
    entries, _ = suites.load_suites()[0]["tier1"].resolve(shipped)
    assert {entry.target.name: entry.layer.value for entry in entries} == {
        "block_scaling": "component",
        "flashattention_alibi": "component",
        "persistent_decode": "component",
        "kv_optimization": "component",
        "gradient_fusion": "micro",
        "real_world_llama_8b": "end-to-end",
    }


def test_smoke_is_one_lesson_of_every_chapter_with_its_main_rung_quickly(shipped: Catalog) -> None:
    smoke = suites.load_suites()[0]["smoke"]
    entries, _ = smoke.resolve(shipped)
    chapters = [chapter.id for chapter in shipped.chapters if chapter.number is not None]
    assert [entry.target.chapter for entry in entries] == chapters
    assert {entry.rungs for entry in entries} == {("optimized",)}
    assert smoke.how.quick
    assert all(entry.target.needs.gpus <= 1 for entry in entries), "it runs on one GPU"


def test_all_is_every_lesson(shipped: Catalog) -> None:
    entries, _ = suites.load_suites()[0]["all"].resolve(shipped)
    assert ids(entries) == shipped.ids


# -- launches ----------------------------------------------------------------------------------------------------------


def test_targets_that_win_by_fewer_launches_are_told_from_those_that_win_by_bytes(shipped: Catalog) -> None:
    counted = {target.id for target in shipped.targets if suites.counts_launches(target)}
    assert counted == {
        "ch04:bucketed_all_reduce",
        "ch04:gradient_fusion",
        "ch09:small_matmuls",
        "ch12:decode_graph",
        "ch12:fewer_nodes",
        "ch13:clip_grad_norm",
        "ch13:fused_adam",
        "ch15:kv_page_send",
        "ch19:bucketed_graphs",
        "labs/persistent_decode:persistent_decode",
    }
    named = {target.id for target in shipped.targets if suites.LAUNCHES in target.techniques}
    by_bytes = {"ch14:rope", "labs/real_world_llama_8b:real_world_llama_8b"}
    assert named - counted == by_bytes, "a fusion that the lesson names first, where host time is kept out"


def test_a_baseline_that_the_host_held_back_on_the_h200_and_that_is_not_counted_names_another_reason(
    shipped: Catalog,
) -> None:
    """The rule reads lessons; what was measured may not speak against it."""
    results = json.loads((MAIN / "docs/results/h200.json").read_text("utf-8"))
    held = {
        entry["target"]
        for entry in results["targets"]
        for run in entry["runs"][:1]
        for rung in run["rungs"]
        if rung["rung"] == "baseline" and rung["limiter"] == "host"
    }
    others = {target.id for target in shipped.targets if target.id in held and not suites.counts_launches(target)}
    reasons = {"host-synchronisation", "host-sync", "host-overhead"}  # a wait, or work of the host's
    assert others == {target.id for target in shipped.targets if target.id in others and reasons & {*target.techniques}}
    assert len(held - others) == 7


# -- resolving ---------------------------------------------------------------------------------------------------------


def test_a_target_that_is_gone_is_told_and_the_rest_goes_on(mine: Path) -> None:
    found = catalog.load([mine])
    entries, gone = suite('title = "t"\ntargets = ["tow", "one", "ch99:*"]').resolve(found)
    assert ids(entries) == ["mine:one"]
    assert [str(problem) for problem in gone] == [
        "mine.toml: targets: no target 'tow'; did you mean mine:two?",
        "mine.toml: targets: no target fits 'ch99:*'; `aisp list` shows all of them",
    ]


def test_a_target_that_is_meant_twice_is_run_once_in_the_suites_order(mine: Path) -> None:
    entries, gone = suite('title = "t"\ntargets = ["two", "mine", "mine:one"]').resolve(catalog.load([mine]))
    assert ids(entries) == ["mine:two", "mine:one", "mine:three"]
    assert not gone


def test_case_and_rungs_are_said_of_some_targets_and_the_later_word_counts(mine: Path) -> None:
    text = (
        'title = "t"\ntargets = ["all"]\n[per.all]\nrungs = ["optimized"]\n[per.two]\ncase = "cpu"\nlayer = "component"'
    )
    entries, gone = suite(text).resolve(catalog.load([mine]))
    assert not gone
    told = {entry.target.name: (entry.case, entry.rungs, entry.layer) for entry in entries}
    assert told["two"] == ("cpu", ("optimized",), Layer.COMPONENT)
    assert told["one"] == ("", ("optimized",), Layer.MICRO)


def test_a_case_that_is_gone_leaves_its_target_out_and_a_rung_only_itself(mine: Path) -> None:
    text = """title = "t"\ntargets = ["mine"]
        per.one = { case = "wide" }
        per.two = { rungs = ["optimised", "baseline"] }
        per.three = { rungs = ["peer_x"] }
        per.four = { case = "cpu" }"""
    entries, gone = suite(text).resolve(catalog.load([mine]))
    assert [(entry.target.id, entry.rungs) for entry in entries] == [("mine:two", ("baseline",))]
    assert [problem.message for problem in gone] == [
        "no target 'four'",
        "mine:one has no case 'wide' and is left out",
        "mine:three has no rung 'peer_x', and is left out",
        "mine:two has no rung 'optimised'",
    ]
    assert gone[-1].fix == "did you mean 'optimized'?"


def test_a_suite_is_cut_by_layer_and_by_bottleneck(shipped: Catalog) -> None:
    text = 'title = "t"\ntargets = ["ch07", "labs/*"]\n[only]\n'
    micro, _ = suite(text + 'layer = ["micro"]').resolve(shipped)
    assert {entry.target.chapter for entry in micro} == {"ch07"}
    by_bytes, unsaid = suite(text + 'bottleneck = ["bytes"]').resolve(shipped)
    assert "ch07:transpose" in ids(by_bytes)
    assert {entry.bottleneck for entry in by_bytes} == {"bytes"}
    assert "ch07:column_sum says no bottleneck, and is left out" in [problem.message for problem in unsaid]
    said, _ = suite(text + 'bottleneck = ["bytes"]\n[per."ch07:column_sum"]\nbottleneck = "bytes"').resolve(shipped)
    assert {*ids(said)} - {*ids(by_bytes)} == {"ch07:column_sum"}


# -- files -------------------------------------------------------------------------------------------------------------


def test_suites_of_a_root_come_beside_the_shipped_ones_and_stand_for_those_of_their_name(mine: Path) -> None:
    folder = mine / "suites"
    folder.mkdir()
    (folder / "nightly.toml").write_text(
        'title = "n"\ntargets = ["all"]\ncontract = "nightly.contract.toml"\n'
        'mode = { replicas = 3, policy = "portable" }'
    )
    (folder / "smoke.toml").write_text('title = "mine"\ntargets = ["one"]')
    (folder / "nightly.contract.toml").write_text("is not read as a suite")
    found, problems = suites.load_suites([mine])
    assert not problems
    assert set(found) == {"all", "nightly", "smoke", "tier1"}
    assert found["smoke"].title == "mine"
    nightly = found["nightly"]
    assert nightly.contract == folder / "nightly.contract.toml"
    assert (nightly.how.quick, nightly.how.replicas, nightly.how.warm) == (False, 3, False)
    assert nightly.how.policy is Policy.PORTABLE
    assert catalog.load([mine]).ids == ["mine:one", "mine:three", "mine:two"], "its folder is no target"


def test_a_suite_with_a_slip_is_told_and_the_others_load(mine: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for root, name, text in (
        (mine, "broken", "title = "),
        (mine, "good", 'title = "g"\ntargets = ["one"]'),
        (other, "good", 'title = "another"\ntargets = ["one"]'),
    ):
        (root / "suites").mkdir(parents=True, exist_ok=True)
        (root / "suites" / f"{name}.toml").write_text(text)
    (other / "suites" / "folder.toml").mkdir()
    found, problems = suites.load_suites([mine, other, tmp_path / "is not there"])
    assert found["good"].title == "g"
    assert "broken" not in found and "tier1" in found
    assert [problem.path.name for problem in problems] == ["broken.toml", "folder.toml", "good.toml"]
    assert "not TOML" in problems[0].message
    assert problems[1].message.startswith("cannot be read")
    assert problems[2].message == f"the name good is taken by {mine / 'suites/good.toml'}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ['title: missing; write title = "what its result says"']),
        ('title = "t"\ntargets = []', ["targets: empty; "]),
        ('title = "t"\ntargets = "all"', ["targets: 'all' is a string, not a list; "]),
        ('title = "t"\ntargets = ["a"]\ntarget = 1', ["target: unknown key; did you mean 'targets'?"]),
        ('title = "t"\ntargets = ["a"]\nmode = { quik = true }', ["mode.quik: unknown key; did you mean 'quick'?"]),
        ('title = "t"\ntargets = ["a"]\nmode = { replicas = 0 }', ["mode.replicas: 0 replicas; write replicas = 5"]),
        ('title = "t"\ntargets = ["a"]\nmode = { policy = "strickt" }', ["mode.policy: unknown policy 'strickt'; did"]),
        ('title = "t"\ntargets = ["a"]\nmode = "quick"', ["mode: 'quick' is a string, not a table; "]),
        ('title = "t"\ntargets = ["a"]\nonly = { layer = ["mico"] }', ["only.layer: unknown layer 'mico'; did you"]),
        ('title = "t"\ntargets = ["a"]\nper = { a = 1 }', ["per.a: 1 is no table; "]),
        ('title = "t"\ntargets = ["a"]\nper.a = { rung = 1 }', ["per.a.rung: unknown key; did you mean 'rungs'?"]),
        (
            'title = "t"\ntargets = ["a"]\nper.a = { bottleneck = "byte" }',
            ["per.a.bottleneck: unknown bottleneck 'byt"],
        ),
        ('title = "t"\ntargets = ["a"]\ncontract = "../x.contract.toml"', ["contract: '../x.contract.toml' is no con"]),
        ('title = "t"\ntargets = ["a"]\ncontract = "x.toml"', ["contract: 'x.toml' is no contract beside the suite"]),
        ("title = 'a\n", ["not TOML: "]),
        ("#" * 70_000, ["the file has 70,000 bytes; "]),
    ],
)
def test_each_slip_is_told_with_its_key_and_what_would_work(text: str, expected: list[str]) -> None:
    found = told(text)
    for beginning in expected:
        assert any(line.startswith(beginning) for line in found), found


def test_a_file_with_bytes_that_are_no_text_is_a_problem() -> None:
    found, problems = suites.parse(b'title = "\xff"', Path("x.toml"))
    assert found is None
    assert [str(problem) for problem in problems] == ["x.toml: byte 9 is not UTF-8; save the file as UTF-8"]


def test_the_page_has_every_key_and_its_example_holds() -> None:
    page = (MAIN / "docs/suites.md").read_text("utf-8").partition("## When")[0]
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found, problems = suites.parse(text.encode(), Path("nightly.toml"))
    assert found is not None, problems
    assert set(re.findall(r"^\| `(\w+)[^`]*` \|", page, re.MULTILINE)) == set(suites.KEYS)
