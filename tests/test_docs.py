"""Pages against the programs: every command, every option, the keys of every JSON example, and every link."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aisp.engine import trust
from aisp.engine.doors.fleet import messages, running
from aisp.engine.protocol import requests
from aisp.kernels import catalog
from aisp.store import Store
from aisp.store.record import Quality, RooflineBound
from aisp.tui.cli.tree import TREE, Entry, cli, renamed
from tests import recordings, reference
from tests.engine import fleet_support
from tests.kernels.formats import kernelbench
from tests.tui.fake_engine import MAIN, FakeEngine, fuzzed, isolate, make_target, remember, start_aisp, wait_for

PAGES = MAIN / "docs/commands"
ALL = reference.everything()


def sections(*pages: Path) -> list[tuple[str, str]]:
    """The sections of pages, each with its head."""
    found = (re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.M | re.S) for page in pages)
    return [section for page in found for section in page]


JSON = dict(sections(PAGES / "json.md"))


def test_each_command_has_a_section_on_one_page_which_the_index_names_and_nothing_else_has() -> None:
    written = {"json.md", "reference.md"}
    pages = [page for page in sorted(PAGES.iterdir()) if page.name not in written]
    told = [words for words, _ in sections(*pages)]
    assert sorted(told) == sorted(ALL)
    index = (MAIN / "docs/commands.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| \[.*\]\(commands/(.*)\) \| (.*) \|$", index, re.MULTILINE))
    assert set(rows) == written | {page.name for page in pages}
    for page in pages:
        for words, _ in sections(page):
            *groups, name = words.split()[-2:]
            assert f"`{words.removeprefix('aisp ')}`" in rows[page.name] or f"`{groups[0]}`" in rows[page.name], name


def test_the_reference_is_what_the_programs_say() -> None:
    assert reference.PAGE.read_text("utf-8") == reference.text(), "write it anew with `python -m tests.reference`"


@pytest.mark.parametrize("words", [words for words in ALL if words != "aisp-tui"])
def test_every_command_says_its_exit_statuses_and_has_json(words: str) -> None:
    (section,) = [text for head, text in sections(reference.PAGE) if head == words]
    assert "Exit status:" in section
    assert "| `--json` |" in section or words in ("aisp export", "aisp dev schema")


def test_the_pages_of_commands_are_short_and_the_readme_is() -> None:
    def words(page: Path) -> int:
        prose = re.sub(r"```.*?```|^    [^\n]*$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        return len(prose.split())

    written = [page for page in PAGES.iterdir() if page != reference.PAGE]
    assert sum(map(words, [*written, MAIN / "docs/commands.md"])) <= 9200
    assert words(MAIN / "README.md") <= 600


def test_the_index_names_every_page() -> None:
    """By what one wants to do; commands and findings have their own lists."""
    index = (MAIN / "docs/README.md").read_text("utf-8")
    for page in sorted((MAIN / "docs").glob("*.md")):
        assert page.name == "README.md" or f"({page.name})" in index, page.name


@pytest.mark.parametrize(
    "page", [*sorted(MAIN.glob("*.md")), *sorted((MAIN / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """To a file that is there, and in it to a head."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for path, head in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        if head:
            told = target.read_text("utf-8")
            named = set(re.findall(r'<a id="([^"]+)">', told))
            heads = re.findall(r"^#+ (.*)$", told, re.MULTILINE)
            named |= {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in heads}
            assert head in named, f"{page.name}: #{head}"


def test_the_readers_of_a_message_can_type_the_command_that_it_names() -> None:
    """Every `aisp ...` in a message, a docstring or a page exists, as it is spelled today. What dated notes and figures
    were made by is named as it was typed then."""
    folders = ("tui", "engine", "store", "kernels", "checks", "docs")
    files = [path for folder in folders for path in sorted((MAIN / folder).rglob("*")) if path.suffix in (".py", ".md")]
    named = {
        (str(path.relative_to(MAIN)), words, options)
        for path in files
        for words, options in re.findall(
            r"`aisp ([a-z][a-z0-9-]*(?: [a-z][a-z0-9-]*)*)([^`\n]*)", path.read_text("utf-8")
        )
    }
    assert ("engine/client.py", "engine", " --logs") in named
    then = ("docs/findings/", "docs/speed.md", "docs/reliability.md", "docs/commands.md")
    old = {(path, words) for path, words, _ in named if renamed(words.split())[0]}
    assert [f"{path}: aisp {words}" for path, words in sorted(old) if not path.startswith(then)] == []
    now = sorted(one for one in named if one[:2] not in old)
    wrong = [f"{path}: aisp {words}" for path, words, _ in now if not exists(words.split(), TREE)]
    assert not wrong, "no such command: " + "; ".join(wrong)
    unknown = [f"{path}: aisp {words} {one}" for path, words, options in now for one in strange(words, options)]
    assert not unknown, "no such option: " + "; ".join(unknown)


def strange(words: str, options: str) -> list[str]:
    """What begins like an option, in a call, and is none of the command's."""
    command = next((one for name, one in ALL.items() if f"aisp {words} ".startswith(f"{name} ")), None)
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} if command else {"--help"}
    return [one for one in re.findall(r"(?<= )--?[a-z][a-z-]*", options) if one not in {*known, "--help"}]


def exists(words: list[str], entries: Mapping[str, Entry]) -> bool:
    """Whether the words begin with a command, or are one of its groups."""
    if not words:
        return True
    entry = entries.get(words[0])
    return entry is not None and (not entry.below or exists(words[1:], entry.below))


def same_keys(documented: Any, printed: Any, where: str = "$") -> None:
    """Assert that two JSON values have the same keys all the way down; null and empty lists fit anything."""
    if documented is None or printed is None:
        return
    assert type(documented) is type(printed) or {type(documented), type(printed)} == {int, float}, where
    if isinstance(documented, dict):
        if where.endswith(".axes"):  # its keys are the target's
            return
        assert documented.keys() == printed.keys(), where
        for key in documented:
            same_keys(documented[key], printed[key], f"{where}.{key}")
    elif isinstance(documented, list) and documented and printed:
        same_keys(documented[0], printed[0], f"{where}[0]")


def example(words: str) -> Any:
    """The JSON example of a command."""
    (block,) = re.findall(r"```json\n(.*?)```", JSON[words], re.DOTALL)
    return json.loads(block)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("aisp.tui.cli.machine._run", lambda words, patience_s: None)
    return isolate(monkeypatch, tmp_path)


H100: dict[str, object] = {
    "host": "atlas",
    "gpu": "NVIDIA H100 80GB HBM3",
    "driver": "580.159.04",
    "versions": {"torch": "2.11.0+cu130", "triton": "3.6.0"},
}


@pytest.mark.slow
def test_the_json_examples_have_the_keys_that_the_commands_print(state: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "mine")
    make_target(tmp_path / "mine", "one", on="H100")
    arms = {"optimized": {"light": RooflineBound(spec_ms=0.1), "quality": Quality(drift=0.0)}}
    common: dict[str, Any] = {"device": "cuda", "sm_clock_mhz": 1980.0, "sources": "x", "arms": arms}
    a = remember(state, "mine:one", environment=H100, **common)
    b = remember(state, "mine:one", environment={**H100, "git": "abc"}, **common)

    def printed(words: str, *arguments: str) -> Any:
        shown = CliRunner().invoke(cli, [*(w for w in words.split()[1:] if not w.isupper()), *arguments, "--json"])
        assert shown.stdout, shown.output
        return json.loads(shown.stdout)

    checked = set()

    def check(words: str, *arguments: str) -> None:
        same_keys(example(words), printed(words, *arguments))
        checked.add(words)

    check("aisp list", "--root", root)
    check("aisp compare", a.id, b.id)
    check("aisp bisect", "mine:one", "--good", a.id, "--bad", b.id, "--rung", "optimized")
    check("aisp diff", "mine:one", "baseline", "wrong_sign", "--root", root)
    check("aisp open", "mine:one", "--root", root)
    check("aisp completion", "bash")
    check("aisp dev expectations", "--root", root)
    check("aisp store --backup")
    check("aisp store")
    check("aisp store --verify")
    check("aisp store --vacuum")
    check("aisp store --recover", "--yes")
    check("aisp doctor")
    check("aisp mcp", "--tools")
    check("aisp new", "fresh", "--into", str(tmp_path / "other"))
    contracts = [str(tmp_path / f"{name}.contract.toml") for name in ("a", "b")]
    check("aisp contract --new", contracts[0])
    check("aisp contract FILE", contracts[0], a.id)
    text = Path(contracts[0]).read_text("utf-8")
    Path(contracts[1]).write_text(text.replace('cache = "cold"', 'cache = "warm"'), "utf-8")
    check("aisp contract --diff", *contracts)
    check("aisp engine --stop")
    (state / "engine.log").write_text("a line\n")
    check("aisp engine --logs")
    same_keys({"schema": 1, "runs": [example("aisp run")]}, printed("aisp history"))
    whole = printed("aisp history", a.id)
    same_keys(example("aisp run") | {"manifest": None, "commitment_kept": None, "environment": None}, whole)
    check("aisp list --predictions", "--root", root)
    check("aisp score")
    _, problem = kernelbench.written(tmp_path, kernelbench.MATMUL, kernelbench.MATMUL_NEW)
    check("aisp judge", str(tmp_path / "KernelBench"))
    told = JSON["aisp judge"].partition("Of one problem:")[2].partition("\n\n")[0]
    shown = printed("aisp judge", str(problem))
    assert all(f"`{key}`" in told for key in shown if key != "schema")
    package = tmp_path / "run.json"
    CliRunner().invoke(cli, ["export", a.id, str(package), "--json"])
    check("aisp import", str(package))
    check("aisp dev results", "--root", root)
    check("aisp roofline", "mine:one", "--root", root)
    check("aisp dev selftest", "--trials", "1")
    check("aisp checks", a.id)
    with FakeEngine() as fake:
        fake.watched["mine:one"] = root
        fake._runs["01RUN"] = "mine:one"
        fake.detail = "ab" * 32
        check("aisp jobs")
        check("aisp jobs --cancel", "--all")
        fake._runs["01RUN"] = "mine:one"
        check("aisp peak")
        check("aisp run", "mine:one", "--root", root)
        check_suites(Path(root), check, checked)
        fake.fuzzes["mine:one"] = "wrong"
        check("aisp fuzz", "mine:one", "--root", root, "--naive")
        tuned = make_target(tmp_path / "mine", "tuned")
        (tuned / "optimized.py").write_text("BLOCK = 64\n\n\ndef run(x):\n    return x + 1\n")
        fake.stores_in = state / "aisp.db"  # a search reads each trial from there
        check("aisp tune", "mine:tuned", "optimized", "--param", "BLOCK=64,128", "--root", root)
        fake.stores_in = None
        check("aisp lint", "mine:one", "--root", root)
        with Store.open(state / "aisp.db") as store:
            store.put_fuzz(*fuzzed("01FUZZ", requests.FuzzTarget(seq=0, target="mine:one"), "wrong"))
        check("aisp fuzz --replay", "01FUZZF0OPTIMIZED")
        check("aisp dev audit", trust.fixtures()[0].target_id)
        check("aisp engine --start")
        check("aisp engine")
        check("aisp restore", "mine:one", "best", "--root", root, "--yes")
        process = start_aisp("watch", "mine:one", "--root", root, "--json")
        wait_for(lambda: bool(fake.asked(requests.StartWatch)), "the watch")
        fake.edit("mine:one", 1, files=["optimized.py"])
        assert process.stdout is not None
        same_keys(example("aisp watch"), json.loads(process.stdout.readline()))
        checked.add("aisp watch")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        process = start_aisp("serve", "--port", "0", "--root", root, "--json")
        assert process.stdout is not None
        same_keys(example("aisp serve"), json.loads(process.stdout.readline()))
        checked.add("aisp serve")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0
    with pytest.MonkeyPatch.context() as patched:
        check_fleet(tmp_path, patched, check)
    assert checked == {words for words in JSON if "```json" in JSON[words]}


def check_fleet(tmp_path: Path, patched: pytest.MonkeyPatch, check: Callable[..., None]) -> None:
    """What `aisp fleet` prints, with a driver of a script and one row that is given up."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    (folder / "fused.py").write_text("def run(x):\n    return x + 1\n")
    words = [str(folder), "--against", str(tmp_path / "mine" / "one")]

    async def losing(rows: Any, tell: Callable[[Any], None]) -> None:
        tell(fleet_support.HERE)
        while True:
            tell(messages.Lost(number=(await rows.get()).number, reason="the host burnt down"))

    async def found(address: str, *, patience_s: float) -> list[messages.Agent]:
        return [messages.Agent(name="one", node="1", gpus=["0"], devices=["CPU"])]

    patched.setattr(running, "agents", found)
    check("aisp fleet --agents")
    fleet_support.put(patched, losing)
    CliRunner().invoke(cli, ["fleet", *words])
    check("aisp fleet")
    fleet_support.put(patched, fleet_support.serve)
    check("aisp fleet FOLDER", *words)


def check_suites(root: Path, check: Callable[..., None], checked: set[str]) -> None:
    """The documents about suites, of one that was measured twice."""
    (root / "suites").mkdir()
    (root / "suites" / "mine.toml").write_text('title = "Mine"\ntargets = ["mine:one"]\n')
    for words in (("suite", "mine"), ("suite", "mine")):
        shown = CliRunner().invoke(cli, [*words, "--root", str(root), "--json"])
        assert shown.exit_code == 0, shown.output
    last = json.loads(shown.stdout.splitlines()[-1])
    same_keys(example("aisp suite NAME"), last)
    checked.add("aisp suite NAME")
    ids = sorted(path.name for path in Path(last["package"]).parent.iterdir() if path.is_dir())
    check("aisp suite", "--root", str(root))
    check("aisp suite --history", "mine", "--root", str(root))
    check("aisp suite --compare", *ids)


# -- recordings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kept", sorted((MAIN / "docs").rglob("*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_a_recording_has_a_line_for_each_entry(kept: Path) -> None:
    told = kept.read_text("utf-8")
    assert told == recordings.text(json.loads(told)), "write it anew with `python -m tests.recordings`"


def test_what_a_recording_says_does_not_depend_on_how_it_is_laid_out() -> None:
    document = {"rows": [{"a": [1, {}]}, []], "by": {"x": {"y": 1}, "z": None}, "n": 1.5, "none": [], "text": "é\n"}
    told = recordings.text(document)
    assert json.loads(told) == document
    assert [line.strip() for line in told.splitlines()][1:4] == ['"rows": [', '{"a": [1, {}]},', "[]"]


# -- results ---------------------------------------------------------------------------------------------------------

RESULTS = sorted((MAIN / "docs/results").glob("*.json"))


@pytest.mark.parametrize("kept", RESULTS, ids=lambda path: path.stem)
def test_a_page_of_results_is_what_its_document_says_of_lessons_that_exist(kept: Path) -> None:
    again = CliRunner().invoke(cli, ["dev", "results", "--from", str(kept)])
    assert again.exit_code == 0
    assert again.output == kept.with_suffix(".md").read_text("utf-8"), "a figure was typed; write the page from it anew"
    lessons = {target.id: target for target in catalog.load().targets}
    for told in json.loads(kept.read_text("utf-8"))["targets"]:
        lesson = lessons[told["target"]]
        predicted = lesson.expect and list(lesson.expect.speedup)
        assert predicted == (told["predicted"] and told["predicted"]["speedup"]), f"{lesson.id} was predicted anew"
        names = {name for rung in lesson.rungs for name in (rung.name, rung.formerly)}
        assert names >= {rung["rung"] for run in told["runs"] for rung in run["rungs"]}


def test_every_page_of_results_has_its_document_and_is_linked_from_the_readme() -> None:
    pages = sorted((MAIN / "docs/results").glob("*.md"))
    assert [page.stem for page in pages] == [kept.stem for kept in RESULTS]
    readme = (MAIN / "README.md").read_text("utf-8")
    assert all(f"(docs/results/{page.name})" in readme for page in pages)


@pytest.mark.parametrize("kept", RESULTS, ids=lambda path: path.stem)
def test_a_lesson_says_what_was_measured_and_whether_it_met_its_prediction(kept: Path) -> None:
    lessons = {target.id: (target.folder / "lesson.md").read_text("utf-8") for target in catalog.load().targets}
    for entry in json.loads(kept.read_text("utf-8"))["targets"]:
        text, target = lessons[entry["target"]], entry["target"]
        words = re.findall(r"\*\*(?:The|Both) predictions?[^*]*?\b(missed|met)\b", text)
        assert words or "**What an H200 said" in text, target
        assert entry["met"] is not False or "missed" in words, f"{target} missed its prediction"
        assert entry["met"] is not True or "missed" not in words, f"{target} met its prediction"
        assert re.search(r"(?<![\w/])20\d\d-\d\d-\d\d(?![-\w])", text), f"{target} does not say when it was measured"
