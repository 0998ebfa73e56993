"""Whether a run keeps a contract: each demand is kept by one run and broken by another, and a breach names its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisp.kernels.catalog import contracts
from aisp.kernels.catalog.contracts import FIELDS, Contract
from aisp.store.outcomes import TWIN_SUFFIX, State, Validity, Verdict
from aisp.store.record import Quality, Run
from aisp.store.results import contract as results
from aisp.store.results.reading import Reading
from tests.replacing import replace
from tests.store.examples import finding, finished, planned

FACTS: dict[str, object] = {"gpu": "NVIDIA H100 80GB HBM3", "driver": "580.159.04", "temperature_c": 61.0}
IMPORTS = {"baseline": {"torch"}, "optimized": {"torch.nn.functional", "triton"}}
MANIFEST: dict[str, Any] = {
    "stop_rule": {"replicas": 5, "warm": False, "looks": [{"replicas": n, "level": 0.02} for n in (2, 3, 5)]},
    "tolerance": {"float32": 1e-5},
    "validity": "strict",
}
LEAST = """\
title = "A transpose"
workload = ["ch07:transpose"]
layer = "micro"
variable = "rung"
owners = ["ada"]
kpi.metric = "speedup"
"""


def contract(more: str = "", least: str = LEAST) -> Contract:
    found, problems = contracts.parse(f"{least}{more}\n".encode(), Path("contract.toml"))
    assert found is not None, [str(problem) for problem in problems]
    return found


def run(*, arms: dict[str, Any] | None = None, manifest: dict[str, Any] | None = None, **changes: Any) -> Run:
    """A good run of a baseline and a rung twice as fast, both judged by the stated tolerance."""
    end = finished(planned(manifest=MANIFEST | (manifest or {})))
    told = {"quality": Quality(right_by_stated=3, right_by_derived=0), "launches": 2, **(arms or {})}
    known = tuple(replace(arm, **told) for arm in end.arms)
    return replace(end, arms=known, flags=("clocks=unlocked",), **changes)


def breaches(
    more: str, ran: Run, facts: dict[str, object] = FACTS, imports: dict[str, set[str]] = IMPORTS, least: str = LEAST
) -> list[str]:
    return [str(one) for one in results.breaches(contract(more, least), ran, facts, imports)]


def test_a_run_that_does_all_that_is_demanded_keeps_its_contract() -> None:
    more = """
        cases = ["default", "wide"]
        precision = ["float32", "float16"]
        imports = ["torch", "triton"]
        tolerance = { rule = "stated", float32 = 1e-5, float16 = 0.01 }
        measuring = { cache = "cold", mode = "full", replicas = 5, looks = [2, 3, 5], policy = "strict" }
        environment = { gpu = "H100", driver = "580.159", clocks = "unlocked", temperature_c = 61 }
        """
    assert breaches(more, run()) == []


def test_a_contract_that_demands_the_judges_clock_is_kept_by_a_run_whose_timed_rungs_have_it() -> None:
    outside = run(arms={"quality": Quality(outside_ms=0.5, outside_error=0.01, outside_read=6)})
    assert breaches('measuring.judged = "outside"', outside) == []
    baseline, optimized = outside.arms
    mixed = replace(outside, arms=(baseline, replace(optimized, quality=Quality(inside="no room"))))
    (told,) = breaches('measuring.judged = "outside"', mixed)
    assert told.endswith("the run has optimized judged inside (no room)")
    untimed = replace(optimized, rung="cheat", median_ms=None, low_ms=None, high_ms=None, quality=None)
    assert breaches('measuring.judged = "outside"', replace(outside, arms=(*outside.arms, untimed))) == []


def twin(ran: Run) -> Run:
    arm = replace(ran.arms[0], rung=f"baseline{TWIN_SUFFIX}", twin=True)
    return replace(ran, arms=(ran.arms[0], arm), comparisons=())


@pytest.mark.parametrize(
    ("demand", "changes", "facts", "has"),
    [
        ('cases = ["wide"]', {}, {}, "case default"),
        ('precision = ["float16"]', {}, {}, "outputs of float32"),
        ('precision = ["float16"]', {"manifest": {"tolerance": None}}, {}, "outputs of a dtype that is not known"),
        ('tolerance.rule = "derived"', {}, {}, "no call of baseline, optimized that was judged so"),
        (
            'tolerance.rule = "stated"',
            {"arms": {"quality": None}},
            {},
            "no call of baseline, optimized that was judged",
        ),
        ("tolerance.float32 = 0", {}, {}, "tolerance 1e-05"),
        ("tolerance.float32 = 0", {"manifest": {"tolerance": {}}}, {}, "a tolerance that is not known"),
        ('measuring.cache = "warm"', {}, {}, "a cold cache"),
        ('measuring.cache = "warm"', {"manifest": {"stop_rule": None}}, {}, "a cache of which nothing is known"),
        ('measuring.mode = "full"', {"quick": True}, {}, "mode quick"),
        ("measuring.replicas = 6", {}, {}, "at most 5"),
        ("measuring.looks = [2, 5]", {}, {}, "looks [2, 3, 5]"),
        ("measuring.looks = []", {}, {}, "looks [2, 3, 5]"),
        ('measuring.policy = "strict"', {"manifest": {"validity": "portable"}}, {}, "policy portable"),
        (
            'measuring.judged = "outside"',
            {"arms": {"quality": Quality(inside="its rungs are several processes each")}},
            {},
            "judged inside (its rungs are several processes each)",
        ),
        (
            'measuring.judged = "outside"',
            {},
            {},
            "rungs of which it is not known where they were judged",
        ),
        ('measuring.judged = "outside"', {"arms": {"median_ms": None, "low_ms": None}}, {}, "no rung that was timed"),
        ('environment.gpu = "H200"', {}, {}, "NVIDIA H100 80GB HBM3"),
        ('environment.gpu = "H100"', {}, {"gpu": ""}, "a GPU that is not known"),
        ('environment.gpu = "H100"', {"device": "cpu"}, {}, "device cpu"),
        ('environment.driver = "580.159.5"', {}, {}, "driver 580.159.04"),
        ('environment.driver = "550"', {}, {"driver": None}, "a driver that is not known"),
        ('environment.clocks = "locked"', {}, {}, "clocks unlocked"),
        ("environment.temperature_c = 60", {}, {}, "up to 61 °C"),
        ("environment.temperature_c = 60", {}, {"temperature_c": None}, "a temperature that is not known"),
    ],
)
def test_each_demand_that_is_not_kept_is_told_with_its_line_and_what_the_run_has(
    demand: str, changes: dict[str, Any], facts: dict[str, object], has: str
) -> None:
    (told,) = breaches(demand, run(**changes), FACTS | facts)
    key, _, value = demand.partition(" = ")
    assert told.startswith(f"contract.toml:7 {key} = ")
    assert value.strip('"[]').split(",")[0] in told
    assert f": the run has {has}" in told


def test_the_table_has_a_demand_for_every_key_that_a_run_can_break() -> None:
    said = {"title", "layer", "bottleneck", "owners", "kpi.direction", "kpi.target"}  # what a contract says of itself
    held = {one.key for one in FIELDS if not one.key.startswith("tolerance.")} - said - {"kpi.metric"}
    assert set(results._CHECKS) == held


def test_another_target_is_not_the_workload_and_a_chapter_means_all_of_its() -> None:
    other = replace(run(), target="ch08:small_rows")
    assert breaches("", other) == ['contract.toml:2 workload = ["ch07:transpose"]: the run has target ch08:small_rows']
    for words in ('["ch08"]', '["ch0*"]', '["all"]', '["small_rows"]', '["ch01", "ch08:small_rows"]'):
        assert breaches("", other, least=LEAST.replace('["ch07:transpose"]', words)) == []


def test_where_the_rung_is_the_variable_one_rung_alone_is_no_comparison() -> None:
    told = breaches("", twin(run()))
    assert told[0].startswith('contract.toml:4 variable = "rung": the run has one rung alone')
    assert told[1] == 'contract.toml:6 kpi.metric = "speedup": the run has no speedup'


@pytest.mark.parametrize(
    ("changes", "has"),
    [
        ({"validity": Validity.SUSPECT}, "no speedup: its times are suspect"),
        ({"state": State.CANCELLED, "reason": "by hand", "comparisons": ()}, "no speedup: it ended cancelled, by hand"),
    ],
)
def test_a_run_without_the_figure_that_counts_is_no_result(changes: dict[str, Any], has: str) -> None:
    ran = replace(run(), **changes)
    assert breaches("", ran) == [f'contract.toml:6 kpi.metric = "speedup": the run has {has}']


def test_a_rung_that_was_caught_has_no_figure() -> None:
    ran = run()
    bare = tuple(one.without_figures("caught") for one in ran.comparisons)
    seen = finding("output.values", "optimized", "caught")
    caught = replace(ran, comparisons=bare, findings=(seen,), validity=Validity.CAUGHT, verdict=Verdict.NONE)
    (told,) = breaches("", caught)
    assert "kpi.metric" in told and "caught by output.values" in told


@pytest.mark.parametrize(
    ("metric", "value", "reached", "missed"),
    [
        ("speedup", 2.0, 2.0, 2.1),
        ("median_ms", 0.5, 0.5, 0.4),
        ("share_of_light", 0.82, 0.8, 0.9),
        ("peak_bytes", 2**20, 2**20, 2**19),
        ("launches", 2, 3, 1),
    ],
)
def test_the_wanted_value_is_met_or_missed_and_a_miss_breaks_nothing(
    metric: str, value: float, reached: float, missed: float
) -> None:
    ran = run(arms={"peak_bytes": 2**20})
    least = LEAST.replace('"speedup"', f'"{metric}"')
    found = [results.figure(contract(more, least), Reading(ran)) for more in ("", f"kpi.target = {reached}")]
    assert [(one.value, one.met) for one in found] == [(value, None), (value, True)]
    assert results.figure(contract(f"kpi.target = {missed}", least), Reading(ran)).met is False
    assert breaches(f"kpi.target = {missed}", ran, least=least) == []


def test_a_contract_that_was_frozen_into_a_run_is_held_against_it_without_a_file() -> None:
    ran = run(manifest={"contract": contract("measuring.replicas = 9").frozen()})
    frozen, why = results.frozen_in(ran)
    assert frozen is not None and why == ""
    assert [str(one) for one in results.breaches(frozen, ran, FACTS, IMPORTS)] == [
        "contract contract measuring.replicas = 9: the run has at most 5"
    ]
    assert ran.verdict == run().verdict, "its own verdict stays what it is"


def test_a_run_without_a_contract_has_none_and_one_that_cannot_be_read_says_why() -> None:
    assert results.frozen_in(run()) == (None, "")
    document = contract().document() | {"newer": 1}
    for held, why in (
        ({"name": "n", "document": document}, "n: newer: unknown key"),
        ({"name": "n"}, "the contract that it was started under is not one"),
        ("text", "the contract that it was started under is not one"),
    ):
        found, told = results.frozen_in(run(manifest={"contract": held}))
        assert found is None
        assert told.startswith(why)


# -- imports -----------------------------------------------------------------------------------------------------------


def imports(**files: str) -> dict[str, set[str]]:
    return results.imports_of(run(), {f"{name}.py": text.encode() for name, text in files.items()})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\nimport torch.nn.functional as F", {"torch", "torch.nn.functional"}),
        ("from __future__ import annotations\nfrom triton import language", {"triton"}),
        ("def run(x):\n    import ctypes\n    return x", {"ctypes"}),
        ("if False:\n    from os import path", {"os"}),
        ("m = __import__('socket')", {"socket"}),
        ("import importlib\nm = importlib.import_module('ctypes')", {"importlib", "ctypes"}),
        ("def run(name):\n    return __import__(name)", {"__import__"}),
        ("", set()),
    ],
)
def test_what_a_rung_imports_is_read_from_its_source(source: str, expected: set[str]) -> None:
    assert imports(optimized=source) == {"optimized": expected}


def test_files_of_the_folder_are_followed_and_not_named() -> None:
    found = imports(
        baseline="from . import steps\nfrom .shared import tile",
        optimized="import baseline\nfrom aisp.kernels.ch07_memory_access.transpose.late import f",
        steps="import numpy\nimport optimized",
        shared="import math",
        late="from aisp.kernels.ch08_warps_ilp.small_rows.shared import g",
    )
    of_lesson = "aisp.kernels.ch08_warps_ilp.small_rows.shared"
    assert found["baseline"] == {"numpy", "math", of_lesson}
    assert found["optimized"] == found["baseline"], "another lesson's file is not the folder's own"


def test_what_is_not_allowed_is_told_by_rung_and_what_is_not_known_is_not_kept() -> None:
    allowed = 'imports = ["torch"]'
    assert breaches(allowed, run()) == [
        'contract.toml:7 imports = ["torch"]: the run has optimized, which imports triton'
    ]
    assert breaches(allowed, run(), imports={"baseline": {"torch", "torchvision"}}) == [
        'contract.toml:7 imports = ["torch"]: the run has baseline, which imports torchvision; '
        "imports of optimized that are not known: its sources were not kept"
    ]
    assert breaches("imports = []", run(), imports={"baseline": set(), "optimized": set()}) == []
    broken = imports(baseline="import torch", optimized="def run(:")
    assert "something that cannot be told: a source does not parse" in breaches(allowed, run(), imports=broken)[0]


def test_the_baselines_twin_needs_no_sources_of_its_own() -> None:
    ran = run()
    both = replace(ran, arms=(*ran.arms, replace(ran.arms[0], rung=f"baseline{TWIN_SUFFIX}", twin=True)))
    assert breaches('imports = ["torch", "triton"]', both) == []
