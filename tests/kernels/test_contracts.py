"""Contracts as files: validated key by key, hashed whatever their comments and order, and as BenchmarkRun documents."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisp.kernels.catalog import benchmark_run, contracts, yaml_text
from aisp.kernels.catalog.contracts import FIELDS, KEYS, Contract, Metric, ToleranceRule
from aisp.kernels.catalog.model import LIMITERS
from aisp.store.outcomes import Limiter, TolerancePolicy
from tests.tui.fake_engine import MAIN

LEAST = """\
title    = "A transpose"
workload = ["ch07:transpose"]
layer    = "micro"
variable = "rung"
owners   = ["ada"]
[kpi]
metric = "speedup"
"""
EVERY = "".join(f"{one.key} = {one.example}\n" for one in FIELDS)


def parsed(text: str) -> Contract:
    found, problems = contracts.parse(text.encode(), Path("contract.toml"))
    assert found is not None, [str(problem) for problem in problems]
    return found


def told(text: str) -> list[str]:
    found, problems = contracts.parse(text.encode(), Path("contract.toml"))
    assert (found is None) == bool(problems)
    return [f"{problem.key}: {problem.message}; {problem.fix}" for problem in problems]


# -- what holds --------------------------------------------------------------------------------------------------------


def test_every_key_may_stand_and_few_must() -> None:
    assert list(parsed(EVERY).values) == [one.key for one in FIELDS]
    least = parsed(LEAST)
    assert set(least.values) == {one.key for one in FIELDS if one.needed}
    assert (least.layer, least.variable, least.metric, least.target) == ("micro", "rung", Metric.SPEEDUP, None)


def test_the_hash_does_not_see_comments_order_and_repetition_and_sees_every_value() -> None:
    first = parsed(LEAST + 'direction = "higher"\n[measuring]\nreplicas = 3\ncache = "cold"')
    other = parsed(
        """# a comment
        measuring = { cache = "cold", replicas = 3 }
        kpi = { direction = "higher", metric = "speedup" }
        owners = ["ada", "ada"]
        variable = "rung"
        layer = "micro"
        workload = ["ch07:transpose"]
        title = "A transpose"
        """
    )
    assert first.sha256 == other.sha256
    assert parsed(LEAST).sha256 != first.sha256
    hashes = {parsed(LEAST.replace("A transpose", title)).sha256 for title in ("A", "B", "C")}
    assert len(hashes) == 3


def test_names_have_no_order_and_numbers_no_spelling() -> None:
    def with_(imports: str, target: str) -> str:
        return parsed(f"imports = {imports}\n{LEAST}target = {target}\n").sha256

    assert with_('["torch", "triton"]', "2") == with_('["triton", "torch"]', "2.0")
    assert with_('["torch"]', "2") != with_('["torch", "triton"]', "2")


def test_a_contract_is_the_same_after_it_was_frozen_into_a_run_and_read_again() -> None:
    contract = parsed(EVERY)
    frozen = contract.frozen()
    assert set(frozen) == {"name", "sha256", "document"}
    document = frozen["document"]
    assert isinstance(document, dict)
    again, why = contracts.of_document(document, "contract")
    assert (again, why) == (contract, "")
    assert again is not None and again.sha256 == frozen["sha256"] == contracts.digest(document)


@pytest.mark.parametrize("contract", [contracts.example(), parsed(LEAST), parsed(EVERY)], ids=["new", "least", "every"])
def test_what_is_written_is_commented_and_reads_as_what_it_was(contract: Contract) -> None:
    text = contracts.render(contract)
    again = parsed(text)
    assert again.values == contract.values
    for key in again.values:
        line = text.split("\n")[again.lines[key] - 1]
        assert line.startswith(f"{key.rpartition('.')[2]} = "), "each value has a line of its own that is found"
        assert text.split("\n")[again.lines[key] - 2].startswith("# ")


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40).filter(str.strip))
def test_any_title_survives_being_written(title: str) -> None:
    contract = Contract("x", {**parsed(LEAST).values, "title": title.strip()})
    assert parsed(contracts.render(contract)).title == title.strip()


def test_the_vocabulary_is_the_runs_own() -> None:
    assert {rule.value for rule in ToleranceRule} == {policy.value for policy in TolerancePolicy}
    assert set(contracts.BOTTLENECKS) == set(LIMITERS) == {limiter.value for limiter in Limiter}


# -- what does not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layr = 1\n" + LEAST, "layr: unknown key; did you mean 'layer'?"),
        (LEAST + "metrik = 1", "kpi.metrik: unknown key; did you mean 'metric'?"),
        (LEAST.replace('"micro"', '"mikro"'), "layer: unknown layer 'mikro'; did you mean 'micro'?"),
        (LEAST.replace('"micro"', "1"), "layer: 1 is a whole number, not a string; use one of micro"),
        (LEAST.replace("layer ", "# "), 'layer: missing; write layer = "micro"'),
        (LEAST.replace("metric =", "#"), 'kpi.metric: missing; write metric = "speedup" below [kpi]'),
        (LEAST.replace("[kpi]\nmetric", "kpi"), "kpi: 'speedup' is a string, not a table; write a table [kpi]"),
        (LEAST.replace('["ch07:transpose"]', "[]"), "workload: empty; "),
        (LEAST.replace('["ada"]', "[1]"), "owners: [1] holds something other than words; "),
        ('precision = ["float31"]\n' + LEAST, "precision: unknown precision 'float31'; did you mean 'float32'?"),
        (LEAST + "[tolerance]\nfloat31 = 0", "tolerance.float31: unknown key; did you mean 'float32'?"),
        (LEAST + "[tolerance]\nfloat32 = 1", "tolerance.float32: 1 is out of range; "),
        (LEAST + "[tolerance]\nfloat32 = nan", "tolerance.float32: nan is out of range; "),
        (LEAST + "[measuring]\nreplicas = 0", "measuring.replicas: 0 is out of range; "),
        (LEAST + "[measuring]\nreplicas = true", "measuring.replicas: True is true or false, not a whole number; "),
        (LEAST + "[measuring]\nlooks = [3, 2]", "measuring.looks: [3, 2] are no looks; "),
        (LEAST + '[environment]\ndriver = "new"', "environment.driver: 'new' is no version; "),
        (LEAST + "target = inf", "kpi.target: inf is out of range; "),
        ("title = ", ": not TOML: "),
        ("a." * 200 + "b = 1", ": a line has more than 100 dots; "),
        # what cannot be kept together
        (LEAST + 'direction = "lower"', 'kpi.direction: a lower speedup is not better; write direction = "higher"'),
        (
            LEAST.replace('"rung"', '"gpu"') + '[environment]\ngpu = "H100"',
            "environment.gpu: holds the gpu, which is the variable; ",
        ),
        (
            'cases = ["a"]\n' + LEAST.replace('"rung"', '"case"'),
            "cases: allows one case alone, which is the variable; ",
        ),
        (LEAST + "[measuring]\nlooks = [2, 3]\nreplicas = 5", "measuring.replicas: 5 replicas can never be had: "),
    ],
)
def test_each_slip_is_told_with_its_key_and_what_would_work(text: str, expected: str) -> None:
    found = told(text)
    assert any(line.startswith(expected) for line in found), found


def test_all_slips_of_a_file_are_told_at_once() -> None:
    assert len(told("a = 1\nb = 2")) == 2 + sum(one.needed for one in FIELDS)
    assert len(told("\n".join(f"x{n} = 1" for n in range(500)))) == 101, "and no more than anybody repairs"


def test_lines_are_found_in_tables_in_dotted_keys_and_not_within_texts() -> None:
    text = (
        'title = """\nlayer = "no"\n"""\nlayer = "micro"\nenvironment.gpu = "x"\n\n[ kpi ] # so\n  metric="speedup"\n'
    )
    assert contracts.lines_of(text) == {"title": 1, "layer": 4, "environment.gpu": 5, "kpi": 7, "kpi.metric": 8}


def test_a_key_in_an_inline_table_is_told_by_the_tables_line() -> None:
    contract = parsed(LEAST.replace('[kpi]\nmetric = "speedup"', 'kpi = { metric = "speedup" }'))
    assert contract.place("kpi.metric") == "contract.toml:6"
    frozen, _ = contracts.of_document(contract.document(), "nightly")
    assert frozen is not None
    assert frozen.place("kpi.metric") == "contract nightly", "there is no file"


def test_two_contracts_differ_key_by_key() -> None:
    other = parsed('cases = ["default"]\n' + LEAST.replace("ada", "bob"))
    changed = contracts.diff(parsed(LEAST), other)
    assert [(one.key, one.a, one.b) for one in changed] == [
        ("cases", None, ("default",)),
        ("owners", ("ada",), ("bob",)),
    ]
    assert contracts.diff(other, other) == []


# -- as YAML -----------------------------------------------------------------------------------------------------------


def of_yaml(text: str) -> list[str]:
    found, problems = benchmark_run.parse(text.encode(), Path("run.yaml"))
    assert (found is None) == bool(problems)
    return [f"{problem.key}: {problem.message}; {problem.fix}" for problem in problems]


@pytest.mark.parametrize("contract", [contracts.example(), parsed(LEAST), parsed(EVERY)], ids=["new", "least", "every"])
def test_a_contract_written_as_a_benchmark_run_reads_as_what_it_was(contract: Contract) -> None:
    text = benchmark_run.write(contract, [{"run": "01X", "speedup": 2.0}])
    assert text.startswith("apiVersion: aisp/v1\nkind: BenchmarkRun\nmetadata:\n")
    again, problems = benchmark_run.parse(text.encode(), Path("run.yaml"))
    assert not problems
    assert again == contract


DOCUMENT = benchmark_run.write(parsed(LEAST))
NESTED = "apiVersion: " + "[" * 30 + "]" * 30
BOMB = "a: &a [x]\n" + "".join(f"{name}: [*a, *a]\n" for name in "bcdef")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DOCUMENT.replace("layer: micro", "layr: micro"), "spec.layr: unknown key; did you mean 'layer'?"),
        (DOCUMENT.replace("layer: micro", "layer: mikro"), "spec.layer: unknown layer 'mikro'; did you mean 'micro'?"),
        (DOCUMENT.replace("layer: micro", ""), "spec.layer: missing; "),
        (DOCUMENT.replace("targets:", "target:"), "spec.workload.target: unknown key; did you mean 'targets'?"),
        (DOCUMENT.replace("aisp/v1", "v9"), "apiVersion: 'v9' is not known; write apiVersion: aisp/v1"),
        (DOCUMENT.replace("kind: BenchmarkRun", ""), "kind: missing; write kind: BenchmarkRun"),
        ("spec: 3", "spec: 3 is no table; "),
        ("- 1\n- 2", ": [1, 2] is no document; "),
        ("", ": None is no document; "),
        ("a: b: c", ": not YAML at line 1: mapping values are not allowed here; "),
        ("!!python/object/apply:os.system ['true']", ": not YAML at line 1: could not determine a constructor"),
        (BOMB, ": it has an alias at line 2; "),
        (NESTED, ": it is nested more than 20 deep; "),
        ("a: [" + "1," * 20_000 + "]", ": it has more than 10,000 values; "),
        ("a: " + "x" * 70_000, ": the document has 70,003 bytes; "),
    ],
    ids=lambda given: given[:40],
)
def test_a_document_with_a_slip_or_too_much_in_it_is_told(text: str, expected: str) -> None:
    found = of_yaml(text)
    assert any(line.startswith(expected) for line in found), found


@pytest.mark.parametrize(
    "use", [lambda: benchmark_run.write(parsed(LEAST)), lambda: benchmark_run.parse(b"", Path("x.yaml"))]
)
def test_without_pyyaml_it_is_said_how_to_get_it(use: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(yaml_text.MissingYamlError, match=r"pip install 'aisp\[yaml\]'"):
        use()


# -- as the page says it -----------------------------------------------------------------------------------------------

PAGE = (MAIN / "docs/contracts.md").read_text("utf-8")


def test_the_page_has_every_key_and_its_example_holds() -> None:
    rows = set(re.findall(r"^\| `([a-z_.0-9]+)`[^|]*\|", PAGE, re.MULTILINE))
    assert rows == {key for key in KEYS if not key.startswith("tolerance.")} | {"tolerance.rule", "tolerance.float32"}
    (document,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert of_yaml(document) == []
