"""`aisp contract`: a person writes one, asks whether a run keeps it, and compares two."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from aisp.store import Store
from aisp.store.outcomes import State
from aisp.tui.cli.tree import cli
from tests.replacing import replace
from tests.store.examples import planned
from tests.tui.fake_engine import aisp as started
from tests.tui.fake_engine import isolate, remember

SOURCES = {
    "baseline.py": "import torch\n\n\ndef run(x):\n    return x + 1\n",
    "optimized.py": "import torch\nimport triton.language as tl\n\n\ndef run(x):\n    return x + 1\n",
}
H100: dict[str, object] = {"gpu": "NVIDIA H100 80GB HBM3", "driver": "580.159.04"}


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    found = isolate(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    return found


def aisp(*words: str) -> Result:
    return CliRunner().invoke(cli, ["contract", *words])


def written(name: str = "contract.toml", **changes: str) -> str:
    """A new contract of mine:one in which lines were edited: key, and what stands behind the sign."""
    assert aisp("--new", name).exit_code == 0
    lines = Path(name).read_text().splitlines()
    for key, value in {"workload": '["mine:one"]', **changes}.items():
        (at,) = [n for n, line in enumerate(lines) if line.removeprefix("# ").startswith(f"{key} = ")]
        lines[at] = f"{key} = {value}"
    Path(name).write_text("\n".join(lines))
    return name


def line_of(name: str, key: str) -> int:
    lines = Path(name).read_text().splitlines()
    return next(n for n, line in enumerate(lines, start=1) if line.startswith(f"{key} = "))


def ran(state: Path, **changes: Any) -> str:
    """Id of a stored run on a GPU, with its sources."""
    told = {"device": "cuda", "sources": SOURCES, "environment": H100, "sm_clock_mhz": 60.0, **changes}
    return remember(state, "mine:one", **told).id


def loose(name: str = "contract.toml", **changes: str) -> str:
    """The same without what a remembered run, which has no manifest, does not say."""
    written(name, **changes)
    text = Path(name).read_text().replace('cache = "cold"', '# cache = "cold"')
    Path(name).write_text(text)
    return name


def test_a_new_contract_holds_and_is_never_written_over(state: Path) -> None:
    first = aisp("--new")
    assert first.exit_code == 0
    assert first.output.splitlines() == ["wrote contract.toml; next:", "  aisp contract contract.toml RUN"]
    text = Path("contract.toml").read_text()
    checked = aisp("contract.toml")
    assert checked.exit_code == 0
    assert checked.output.startswith("contract.toml: A transpose (sha256 ")
    again = aisp("--new")
    assert again.exit_code == 2
    assert "contract.toml is there already" in again.output
    assert Path("contract.toml").read_text() == text


def test_a_name_that_would_be_taken_for_a_suite_and_a_place_that_is_not_there_are_refused() -> None:
    named = aisp("--new", "tier1.toml")
    assert named.exit_code == 2
    assert "a contract's name ends with contract.toml" in named.output
    nowhere = aisp("--new", "nowhere/contract.toml")
    assert nowhere.exit_code == 3
    assert "nowhere/contract.toml cannot be written: No such file or directory" in nowhere.output


def test_a_run_that_keeps_the_contract_is_a_result_of_it(state: Path) -> None:
    file = loose(gpu='"H100"', driver='"580"', temperature_c="60.0")
    checked = aisp(file, ran(state))
    assert checked.exit_code == 0, checked.output
    assert "of mine:one keeps it" in checked.output
    assert "speedup: 2" in checked.output


def test_a_run_that_breaks_it_is_told_line_by_line(state: Path) -> None:
    file = loose(gpu='"H200"', imports='["torch"]', temperature_c="59.0")
    run = ran(state)
    checked = aisp(file, run[:20])
    assert checked.exit_code == 1
    assert checked.output.splitlines()[:4] == [
        f'contract.toml:{line_of(file, "imports")} imports = ["torch"]: the run has optimized, which imports '
        "triton.language",
        f'contract.toml:{line_of(file, "gpu")} environment.gpu = "H200": the run has NVIDIA H100 80GB HBM3',
        f"contract.toml:{line_of(file, 'temperature_c')} environment.temperature_c = 59.0: the run has up to 60 °C",
        f"run {run} of mine:one breaks 3 lines of it and is no result of it",
    ]
    document = json.loads(aisp(file, run, "--json").stdout)
    assert (document["schema"], document["name"]) == (1, "contract")
    assert document["run"]["kept"] is False
    assert [one["key"] for one in document["run"]["breaches"]] == [
        "imports",
        "environment.gpu",
        "environment.temperature_c",
    ]
    assert document["run"]["kpi"]["value"] == 2.0


def test_a_run_whose_sources_or_machine_were_not_kept_does_not_keep_demands_on_them(state: Path) -> None:
    file = loose(gpu='"H100"')
    checked = aisp(file, ran(state, sources="", environment=None))
    assert checked.exit_code == 1
    assert "imports of baseline that are not known: its sources were not kept" in checked.output
    assert "the run has a GPU that is not known" in checked.output


def test_a_run_that_misses_the_wanted_value_keeps_it_and_the_answer_is_no(state: Path) -> None:
    file = loose(target="3.0")
    missed = aisp(file, ran(state))
    assert missed.exit_code == 1
    assert "keeps it\n" in missed.output
    assert "speedup: 2.000, wanted 3.000, missed" in missed.output
    met = aisp(file, ran(state, speedup=4.0))
    assert met.exit_code == 0
    assert ", met" in met.output


def test_a_run_that_was_started_under_another_contract_says_so(state: Path) -> None:
    file = loose()
    before = json.loads(aisp(file, "--json").stdout)
    frozen = {"name": "before", "sha256": before["sha256"], "document": before["document"]}
    same, other = (
        planned_under(state, {**frozen, "document": {**before["document"], "title": title}})
        for title in (before["document"]["title"], "Another")
    )
    quiet = aisp(file, same)
    assert "another" not in quiet.output
    assert json.loads(aisp(file, same, "--json").stdout)["run"]["frozen_sha256"] == before["sha256"]
    told = aisp(file, other)
    assert "the run was started under the contract before (sha256 " in told.output


def planned_under(state: Path, contract: dict[str, Any]) -> str:
    """Id of a stored run that failed, in whose manifest this contract stands."""
    run = planned("mine:one", manifest={"contract": contract})
    state.mkdir(mode=0o700, exist_ok=True)
    with Store.open(state / "aisp.db") as store:
        store.plan([run])
        store.finish(replace(run, state=State.USER_ERROR, reason="a slip", duration_ms=1.0), {})
    return run.id


def test_what_is_no_contract_is_told_with_all_that_is_wrong() -> None:
    text = Path(written()).read_text().replace('layer = "micro"', 'layr = "micro"')
    Path("contract.toml").write_text(text.replace('"speedup"', '"speed"'))
    checked = aisp("contract.toml")
    assert checked.exit_code == 2
    assert "contract.toml: layr: unknown key; did you mean 'layer'?" in checked.output
    assert "contract.toml: layer: missing" in checked.output
    assert "contract.toml: kpi.metric: unknown metric 'speed'; did you mean 'speedup'?" in checked.output
    error = json.loads(started("contract", str(Path("contract.toml").absolute()), "--json").stdout)["error"]
    assert error["kind"] == "usage" and "did you mean 'layer'?" in error["text"]


def test_a_run_that_is_not_there_or_goes_on_is_wrong_usage(state: Path) -> None:
    file = loose()
    ran(state)
    assert aisp(file, "0NOSUCH").exit_code == 2
    waiting = planned("mine:one")
    with Store.open(state / "aisp.db") as store:
        store.plan([waiting])
    asked = aisp(file, waiting.id)
    assert asked.exit_code == 2
    assert "is still planned; ask again when it has ended" in asked.output


def test_two_contracts_differ_by_their_keys_and_not_by_comments(state: Path) -> None:
    a, b = loose("a.contract.toml"), loose("b.contract.toml", title='"Another"', cases='["default"]')
    Path("c.contract.toml").write_text("# a word\n" + Path(a).read_text().replace("# what a result", "# what else"))
    differ = aisp("--diff", a, b)
    assert differ.exit_code == 1
    assert [line.split("\t") for line in differ.output.splitlines()] == [
        ["key", a, b],
        ["title", '"A transpose"', '"Another"'],
        ["cases", "-", '["default"]'],
    ]
    assert aisp("--diff", a, "c.contract.toml").output == "alike\n"
    document = json.loads(aisp("--diff", a, b, "--json").stdout)
    assert document["alike"] is False
    assert document["changed"][1] == {"key": "cases", "a": None, "b": ["default"]}
    assert aisp("--diff", a, "c.contract.toml", "--json").exit_code == 0
    Path(b).write_text("title = ")
    assert aisp("--diff", a, b).exit_code == 2


def test_a_contract_goes_out_as_a_benchmark_run_and_comes_back(state: Path) -> None:
    file = loose(target="1.5")
    out = aisp(file, ran(state), "--yaml")
    assert out.exit_code == 0
    document = yaml.safe_load(out.output)
    assert (document["kind"], document["spec"]["workload"]["targets"]) == ("BenchmarkRun", ["mine:one"])
    (result,) = document["results"]
    assert (result["target"], result["speedup"], result["kept"], result["kpi"]["met"]) == ("mine:one", 2.0, True, True)
    Path("run.yaml").write_text(out.output)
    back = aisp("--new", "back.contract.toml", "--from", "run.yaml")
    assert back.exit_code == 0, back.output
    assert aisp("--diff", file, "back.contract.toml").output == "alike\n"
    alone = yaml.safe_load(aisp(file, "--yaml").output)
    assert "results" not in alone
    assert aisp(file, "--yaml", "--json").exit_code == 2


def test_a_document_that_says_no_contract_writes_none() -> None:
    Path("run.yaml").write_text("apiVersion: aisp/v1\nkind: Benchmark\n")
    made = aisp("--new", "--from", "run.yaml")
    assert made.exit_code == 2
    assert "run.yaml: kind: 'Benchmark' is not known; write kind: BenchmarkRun" in made.output
    assert not Path("contract.toml").exists()


def test_without_pyyaml_documents_cannot_be_had_here(monkeypatch: pytest.MonkeyPatch) -> None:
    file = loose()
    Path("run.yaml").write_text(aisp(file, "--yaml").output)
    monkeypatch.setitem(sys.modules, "yaml", None)
    for words in ((file, "--yaml"), ("--new", "b.contract.toml", "--from", "run.yaml")):
        told = aisp(*words)
        assert told.exit_code == 3
        assert "pip install 'aisp[yaml]'" in told.output
    assert aisp(file).exit_code == 0, "nothing else needs it"
