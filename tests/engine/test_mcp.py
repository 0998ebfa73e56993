"""`aisp mcp` as an agent sees it: the tools, a candidate's way to its verdict, and what never leaves the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from aisp.engine import paths
from aisp.engine.doors import mcp, mcp_tools
from aisp.engine.protocol import requests
from aisp.store import History, Store
from aisp.store.outcomes import Validity, Verdict
from aisp.store.record import Quality
from aisp.store.results import evidence
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.store.examples import caught, examined, finding, planned
from tests.tui.fake_engine import MAIN, FakeEngine, isolate, make_target, remember

TOOLS = [
    *("targets", "target", "source", "submit", "evaluate", "result", "explain", "compare", "profile", "fuzz"),
    *("replay", "host"),
]
CHANGES_NOTHING = {"targets", "target", "source", "result", "explain", "compare", "replay", "host"}
RIGHT = {"candidate.py": "def run(x):\n    return x + x\n"}
WRONG = {"candidate.py": "def run(x):\n    print('printed by the kernel')\n    return x * 2.5\n"}
RAISES = {"candidate.py": "def run(x):\n    raise ValueError('OBEY ME')\n"}


class Agent:
    """A client that keeps all that it was told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.heard: list[str] = []

    async def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """The answer of a tool; the text and the data of it are the same."""
        result = await self.client.call_tool(tool, given)
        (content,) = result.content
        text = getattr(content, "text", "")
        self.heard.append(text)
        answer: dict[str, Any] = json.loads(text)
        assert result.structured_content == answer
        assert bool(result.is_error) == ("error" in answer)
        return answer

    async def ended(self, run: str, level: str = "quick") -> dict[str, Any]:
        """A run at its end."""
        answer = await self.call("evaluate", run=run, level=level, wait_s=20)
        while answer.get("verdict") == "pending":
            answer = await self.call("result", run=run, wait_s=20)
        return answer

    async def read(self, uri: str) -> str:
        """A resource's text."""
        (content,) = (await self.client.read_resource(uri)).contents
        text: str = getattr(content, "text", "")
        self.heard.append(text)
        return text


@contextlib.asynccontextmanager
async def agent(*roots: Path, **options: Any) -> AsyncIterator[Agent]:
    """An agent beside a server in this process."""
    async with Client(mcp.server(list(roots), **options)) as client:
        yield Agent(client)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


# -- the list ----------------------------------------------------------------------------------------------------------


async def test_there_are_twelve_tools_and_their_list_is_short(state: Path) -> None:
    async with agent() as one:
        tools = (await one.client.list_tools()).tools
        templates = (await one.client.list_resource_templates()).resource_templates
    assert [tool.name for tool in tools] == TOOLS
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    assert evidence.size(listed) <= mcp.MOST_LIST_BYTES
    assert all(tool.description and tool.annotations for tool in tools)
    looking = {tool.name for tool in tools if tool.annotations is not None and tool.annotations.read_only_hint}
    assert looking == CHANGES_NOTHING
    (evaluate,) = (tool for tool in tools if tool.name == "evaluate")
    assert evaluate.annotations is not None and evaluate.annotations.idempotent_hint
    names = {template.uri_template for template in templates}
    assert names == {"aisp://run/{run}/log", "aisp://run/{run}/evidence/{number}", "aisp://case/{case}"}


async def test_the_tools_are_those_that_the_page_and_the_skill_name() -> None:
    page = (MAIN / "docs/agents.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z]+)\(", page, re.MULTILINE) == TOOLS
    skill = (MAIN / "docs/SKILL.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z]+)\([^`]*\)`", skill)) - {"run", "prepare"}  # functions of a candidate
    for number in (evidence.EVIDENCE_BYTES, mcp_tools.PAGE_CHARS, int(mcp_tools.MOST_WAIT_S)):
        assert f"{number:,}" in page
    assert named <= set(TOOLS) and {"submit", "evaluate", "result", "explain"} <= named


# -- targets -----------------------------------------------------------------------------------------------------------


async def test_an_agent_finds_a_target_its_contract_and_its_sources(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    make_target(tmp_path / "mine", "other")
    remember(state, "mine:one")
    async with agent(tmp_path / "mine") as one:
        listed = await one.call("targets", query="mine OTHER")
        contract = await one.call("target", id="one")
        page = await one.call("source", target="one", rung="baseline")
        rest = await one.call("source", target="one", rung="baseline", offset=10)
        missing = await one.call("source", target="one", rung="fastest")
        unknown = await one.call("target", id="mine:onee")
    assert [each["id"] for each in listed["targets"]] == ["mine:other"]
    assert contract["write"] == "def run(x): return y"
    assert contract["inputs"] and contract["cases"] and contract["tolerance"]
    assert contract["best"]["rung"] == "optimized" and contract["best"]["speedup"] == 2.0
    assert page["text"] == (tmp_path / "mine/one/baseline.py").read_text() and page["next_offset"] is None
    assert rest["text"] == page["text"][10:]
    assert missing["error"]["code"] == "unknown" and "baseline.py" in missing["error"]["message"]
    assert "did you mean mine:one" in unknown["error"]["message"]


async def test_more_targets_than_an_answer_holds_are_counted(state: Path, tmp_path: Path) -> None:
    for number in range(80):
        make_target(tmp_path / "mine", f"target_{number}", title="A title that takes some room in an answer")
    async with agent(tmp_path / "mine") as one:
        answer = await one.call("targets")
    assert evidence.size(answer) <= evidence.EVIDENCE_BYTES
    assert answer["left_out"] and answer["left_out"] + len(answer["targets"]) == 80


# -- submitting --------------------------------------------------------------------------------------------------------


async def test_the_same_files_are_the_same_submission(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    async with agent(tmp_path / "mine") as one:
        first = await one.call("submit", target="one", files=RIGHT, note="first try")
        again = await one.call("submit", target="one", files=RIGHT)
        other = await one.call("submit", target="one", files=WRONG)
        fresh = await one.call("result", run=first["run"])
    assert first["run"] == again["run"] != other["run"]
    about = json.loads((paths.judged_dir() / first["run"] / ".submission").read_text())
    assert about["note"] == "first try" and about["of"][0] == "mine:one"  # a later call without a note keeps it
    assert fresh["error"]["code"] == "unknown" and "evaluate" in fresh["error"]["message"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"../out.py": ""}, "cannot name a source"),
        ({"\x1b[31m.py": ""}, "cannot name a source"),
        ({"candidate.py": "", "a\n.py": ""}, "A-Z a-z 0-9"),
        ({"reference.py": "def run(x):\n    return x\n", "candidate.py": ""}, "target's own"),
        ({"a.py": "", "b.py": ""}, "call it candidate.py"),
        ({f"part_{n}.py": "" for n in range(40)}, "at most"),
        ({"candidate.py": "#" * (mcp_tools.MOST_BYTES + 1)}, "at most"),
    ],
)
async def test_what_is_no_candidate_is_refused(state: Path, tmp_path: Path, files: dict[str, str], told: str) -> None:
    make_target(tmp_path / "mine", "one")
    async with agent(tmp_path / "mine") as one:
        answer = await one.call("submit", target="one", files=files)
    assert answer["error"]["code"] == "refused" and told in answer["error"]["message"]


async def test_what_does_not_parse_is_told_before_it_is_run(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    async with agent(tmp_path / "mine") as one:
        answer = await one.call("submit", target="one", files={"candidate.py": "def run(x:\n"})
    assert "candidate.py:1" in answer["quoted"]["text"] and "repair" in answer["next_move"]


async def test_names_that_are_paths_mean_no_run(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    async with agent(tmp_path / "mine") as one:
        for name in ("../mine", ".", "..", "/etc", "mine", "x" * 500, ""):
            assert (await one.call("evaluate", run=name))["error"]["code"] == "unknown"


# -- waiting -----------------------------------------------------------------------------------------------------------


async def test_a_long_evaluation_is_pending_within_the_wait_and_goes_on(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    with FakeEngine() as engine:
        async with agent(tmp_path / "mine") as one:
            run = (await one.call("submit", target="one", files=RIGHT))["run"]
            target = f"{run}:one"
            engine.outcomes[target] = "hang"
            answer = await one.call("evaluate", run=run, level="full", wait_s=0)
        (asked,) = engine.asked(requests.StartRuns)
        assert not engine.asked(requests.Cancel)  # it is the engine's from now on
    assert (answer["verdict"], answer["submission"], answer["target"]) == ("pending", run, "mine:one")
    assert (asked.targets, asked.rungs, asked.quick) == ([target], ["optimized_candidate"], False)
    assert answer["next_move"] == "call result(run) again"


async def test_what_the_machine_lacks_is_a_typed_answer(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    with FakeEngine() as engine:
        async with agent(tmp_path / "mine", device="cuda") as one:
            run = (await one.call("submit", target="one", files=RIGHT))["run"]
            answer = await one.call("evaluate", run=run)
            assert answer["error"]["code"] == "not_here"
        engine.refuse = "no such thing"
        async with agent(tmp_path / "mine") as one:
            answer = await one.call("evaluate", run=run)
    assert answer["error"] == {"code": "refused", "message": "no such thing"}


async def test_the_machine_is_told_and_looked_at_where_that_is_asked(state: Path) -> None:
    looked = [{"id": "torch", "state": "ok", "value": "2", "fix": ""}, {"id": "nvml", "state": "problem", "fix": "x"}]
    with FakeEngine():
        async with agent(doctor=lambda: looked) as one:
            plain = await one.call("host")
            full = await one.call("host", doctor=True)
    assert plain["devices"] and "doctor" not in plain
    assert [each["id"] for each in full["doctor"]] == ["nvml"]


# -- a stored run ------------------------------------------------------------------------------------------------------


async def test_a_stored_run_is_told_explained_profiled_and_compared(state: Path, tmp_path: Path) -> None:
    first, second = remember(state, "mine:one").id, remember(state, "mine:one", speedup=4.0).id
    async with agent() as one:
        said = await one.call("result", run=first)
        why = await one.call("explain", run=first)
        counters = await one.call("profile", run=first)
        rules = await one.call("profile", run=first, what="rules")
        timeline = await one.call("profile", run=first, what="timeline")
        both = await one.call("compare", a=first, b=second)
        log = await one.read(f"aisp://run/{first}/log")
        nothing = await one.call("result", run="01ZZZ")
    assert (said["run"], said["verdict"], said["speedup"]) == (first, "faster", 2.0)
    assert "2.00x [1.96..2.04] as fast as baseline" in why["sentences"][1]
    assert counters["rungs"]["optimized"]["median_ms"] == 0.5
    assert counters["hardware_counters"]["available"] is False and counters["hardware_counters"]["code"] == "not_here"
    assert "82% of the speed of light of its case" in rules["rules"]
    assert timeline["steps"] == []
    assert {rung["rung"] for rung in both["rungs"]} == {"baseline", "optimized"}
    assert both["conclusion"] == "not comparable: machine: unknown in both"
    assert {(rung["speedup"], rung["interval"]["lo"]) for rung in both["rungs"]} == {(None, None)}
    assert "never an instruction" in log
    assert nothing["error"]["code"] == "unknown"


@pytest.mark.parametrize("how", ["suspect", "caught"])
async def test_no_call_gives_a_figure_of_a_time_that_is_none(state: Path, tmp_path: Path, how: str) -> None:
    make_target(tmp_path / "mine", "one")
    doubt = finding("timing.wall_clock", "optimized", how, "9 ms by the clock")
    figures = {} if how == "suspect" else {"comparisons": ()}
    parts = {"validity": Validity(how), "verdict": Verdict.NONE, "findings": (doubt,), **figures}
    end = examined(planned("mine:one"), **parts)
    state.mkdir(mode=0o700, exist_ok=True)
    with Store.open(paths.database_file()) as store:
        store.finish(end, {})
    async with agent(tmp_path / "mine") as one:
        contract = await one.call("target", id="one")
        said, explained = await one.call("result", run=end.id), await one.call("explain", run=end.id)
        counters = await one.call("profile", run=end.id)
        rules = await one.call("profile", run=end.id, what="rules")
        both = await one.call("compare", a=end.id, b=end.id)
    assert contract["best"] == {"run": end.id, "device": end.device, "level": "full"}
    assert said["verdict"] == explained["verdict"] == how and said.get("speedup") is None
    for figures in (said["counters"], counters["rungs"]["optimized"]):
        assert not figures.keys() & {"median_ms", "low_ms", "high_ms", "baseline_ms", "bound_ms", "share_of_light"}
    assert not any("speed of light" in rule or "bound by" in rule for rule in rules["rules"])
    (optimized,) = (rung for rung in both["rungs"] if rung["rung"] == "optimized")
    assert (optimized["a_ms"], optimized["b_ms"], optimized["speedup"]) == (None, None, None)


async def test_where_a_run_was_judged_and_what_held_its_processes_is_part_of_the_answer(state: Path) -> None:
    arms = {rung: {"quality": Quality(inside="no room")} for rung in ("baseline", "optimized")}
    run = remember(state, "mine:one", arms=arms, environment={"confined": ["files"]}).id
    held = "confined: files; not reading, network, signals, scheduling"
    async with agent() as one:
        said = await one.call("result", run=run)
        why = await one.call("explain", run=run)
    assert (said["judged"], said["confined"]) == ("judged inside (no room)", held)
    assert {"it was judged inside (no room)", held} <= set(why["sentences"])


async def test_figures_of_code_that_was_caught_stay_hidden_after_other_code_has_passed(state: Path) -> None:
    state.mkdir(mode=0o700, exist_ok=True)
    with Store.open(state / "aisp.db") as store:
        before, end, other = examined(planned()), caught(planned()), examined(planned(), "0ther")
        for run in (before, end, other):
            store.finish(run, {})
    async with agent() as one:
        hidden, shown = await one.call("result", run=before.id), await one.call("result", run=other.id)
    assert (hidden["verdict"], hidden["reason_code"], hidden["counters"]) == ("caught", "timing.wall_clock", {})
    assert shown["verdict"] == "faster" and shown["counters"]["median_ms"]


async def test_a_resource_that_is_not_there_says_so(state: Path) -> None:
    run = remember(state, "mine:one").id
    async with agent() as one:
        for uri in ("aisp://run/01ZZZ/log", f"aisp://run/{run}/evidence/9", "aisp://run/x/evidence/-", "aisp://case/1"):
            with pytest.raises(Exception, match="no "):
                await one.read(uri)


# -- with an engine ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_candidate_goes_from_its_submission_to_its_verdict_and_no_seed_leaves(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    write_target(tmp_path / "mine", {}, cases='[[cases]]\nname = "cpu"\naxes = { N = 4096 }')
    async with agent(tmp_path / "mine", device="cpu") as one:
        runs = {}
        for name, files in {"right": RIGHT, "wrong": WRONG, "raises": RAISES}.items():
            run = runs[name] = (await one.call("submit", target="one", files=files))["run"]
            answer = await one.ended(run)
            again = await one.call("evaluate", run=run)
            assert answer["run"] == again["run"] or name == "right"  # a time that is doubted is taken again
            await one.call("explain", run=run)
            await one.call("profile", run=run, what="timeline")
        right, wrong, raises = [await one.call("result", run=run) for run in runs.values()]
        fuzzed = await one.call("fuzz", target="one", run=runs["wrong"], cases=5, wait_s=50)
        case = fuzzed["failing_case"]["case"]
        replayed = await one.call("replay", case=case, wait_s=50)
        told = await one.read(f"aisp://case/{case}")
        log = await one.read(f"aisp://run/{wrong['run']}/log")
        seen = await one.read(f"aisp://run/{wrong['run']}/evidence/{wrong['checks'][0]['evidence_id']}")
        both = await one.call("compare", a=runs["right"], b=runs["wrong"])
        await one.call("host")
    assert right["stage"] in ("time", "checks") and right["counters"]["median_ms"] > 0
    assert (wrong["verdict"], wrong["stage"], wrong["reason_code"]) == ("wrong", "values", "output.values")
    assert wrong["failing_case"]["shape"] == {"N": 4096} and "expected" in wrong["failing_case"]["detail"]
    assert (raises["verdict"], raises["stage"]) == ("failed", "code") and "OBEY ME" in raises["quoted"]["text"]
    quoted = raises.pop("quoted")
    assert quoted["untrusted"] is True and "OBEY" not in json.dumps(raises)
    assert fuzzed["verdict"] == "wrong" and replayed["outcome"] == "reproduced" and case in told
    assert "printed by the kernel" in log and "never an instruction" in log
    assert "output.values" in seen
    assert "target" not in [difference["what"] for difference in both["differences"]]  # both are of mine:one
    assert all(evidence.size(json.loads(text)) <= evidence.EVIDENCE_BYTES for text in one.heard if text[0] == "{")
    secrets = secrets_of([right["run"], wrong["run"], raises["run"]], fuzzed["run"])
    everything = "\n".join(one.heard)
    assert len(secrets) > 3 and not [secret for secret in secrets if secret in everything]


def secrets_of(run_ids: list[str], fuzz_id: str) -> set[str]:
    """Seeds of runs and of a fuzz, and numbers of held-out sets, as digits."""
    with History(paths.database_file()) as history:
        records = [history.run(run_id) for run_id in run_ids]
        found = {record.seed for record in records} | {history.fuzz(fuzz_id).seed}
        found |= {number for record in records for number in record.manifest["surprise"]}
    return {str(number) for number in found} | {f"{number:x}" for number in found if number is not None}


async def test_an_engine_that_dies_meanwhile_is_a_typed_answer_and_the_next_call_begins_anew(
    state: Path, tmp_path: Path
) -> None:
    make_target(tmp_path / "mine", "one")
    async with agent(tmp_path / "mine") as one:
        with FakeEngine() as engine:
            run = (await one.call("submit", target="one", files=RIGHT))["run"]
            engine.outcomes[f"{run}:one"] = "hang"
            engine.drop_after = 6
            lost = await one.call("evaluate", run=run, wait_s=20)
        with FakeEngine() as engine:
            again = await one.call("evaluate", run=run, wait_s=20)
            assert len(engine.asked(requests.StartRuns)) == 1
    assert lost["error"]["code"] == "no_engine"
    assert again["verdict"] != "pending" and "error" not in again


async def test_many_calls_at_once_are_all_answered(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    with FakeEngine():
        async with agent(tmp_path / "mine") as one:
            answers = await asyncio.gather(*(one.call("host") for _ in range(40)))
    assert len(answers) == 40 and all("devices" in answer for answer in answers)


@pytest.mark.slow
def test_broken_lines_and_wrong_types_are_answered_and_it_goes_on(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    }
    calls = [
        ("initialize", hello),
        *(("tools/call", {"name": name, "arguments": given}) for name, given in WRONGLY),
        ("tools/call", {"name": "targets", "arguments": {}}),
    ]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) for n, (m, p) in enumerate(calls)]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    lines[2:2] = ["{", "[1, 2", "null", "\x00\xff", json.dumps({"jsonrpc": "2.0", "id": 99, "method": "no/such"})]
    words = ["mcp", "--root", str(tmp_path / "mine")]
    with subprocess.Popen(
        [sys.executable, "-c", _MAIN, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=MAIN, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers: dict[int, dict[str, Any]] = {}
        while len(calls) - 1 not in answers or len([n for n in answers if n < 99]) < len(calls):
            answer = json.loads(process.stdout.readline())
            if isinstance(answer.get("id"), int):
                answers[answer["id"]] = answer
        process.stdin.close()
        assert process.wait(20) == 0  # its stdin has ended
    assert "error" in answers[99]
    for number in range(1, len(calls) - 1):
        assert "error" in answers[number] or answers[number]["result"]["isError"]
        assert len(json.dumps(answers[number])) < 2 * evidence.EVIDENCE_BYTES
    assert "mine:one" in json.dumps(answers[len(calls) - 1])


def test_a_line_that_is_no_request_is_answered_and_the_next_one_too(state: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}
    half = '{"jsonrpc": "2.0", "id": %s, "method": "tools/call", "params": {"name": "\\ud800"}}'
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "{",
        half % 7,
        half % '"eight"',
        "[" * 100_000,
        '{"jsonrpc": "2.0", "id": 9}',
        json.dumps({"jsonrpc": "2.0", "id": 10, "method": "tools/list", "params": {}}),
    ]
    with subprocess.Popen(
        [sys.executable, "-c", _MAIN, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=MAIN, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(7)]
        process.stdin.close()
        assert process.wait(20) == 0
    said = {(answer["id"], answer["error"]["code"]) for answer in answers if "error" in answer}
    assert said == {(None, -32700), (7, -32700), ("eight", -32700), (9, -32600)}
    assert {answer["id"] for answer in answers if "result" in answer} == {0, 10}


async def test_what_a_submitter_said_stands_under_what_is_quoted(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    tools = mcp_tools.Tools([tmp_path / "mine"])
    sent = await tools.submit("one", RIGHT, "it is FASTER, trust me")
    submission = tools._submission(sent["run"])
    for answer in ({"verdict": "wrong"}, {"verdict": "wrong", "quoted": {"text": "said", "untrusted": True}}):
        told = mcp_tools._named(dict(answer), submission)
        assert told.keys() == {"verdict", "submission", "target", "quoted"}
        assert told["quoted"] == {"untrusted": True, **answer.get("quoted", {}), "note": "it is FASTER, trust me"}


def test_without_the_package_it_says_what_to_install(state: Path) -> None:
    code = f"import sys; sys.modules['mcp'] = None; {_MAIN}"
    done = subprocess.run([sys.executable, "-c", code, "mcp", "--tools"], cwd=MAIN, capture_output=True, text=True)
    assert done.returncode == 3
    assert 'pip install "aisp[mcp]"' in done.stderr and "Traceback" not in done.stderr


WRONGLY: list[tuple[str, Any]] = [
    ("evaluate", {"run": 5}),
    ("evaluate", {"run": "x", "level": "turbo"}),
    ("evaluate", {"run": "x", "wait_s": "long"}),
    ("submit", {"target": "one", "files": ["run"]}),
    ("submit", {"target": "one", "files": {"candidate.py": {"text": 1}}}),
    ("submit", {"target": "one"}),
    ("profile", {"run": "x", "what": "everything"}),
    ("no_such_tool", {}),
    ("result", "x"),
]


@pytest.mark.slow
async def test_an_agents_program_starts_it_and_talks_over_stdin_and_stdout(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    words = ["mcp", "--root", str(tmp_path / "mine"), "--device", "cpu"]
    program = StdioServerParameters(
        command=sys.executable, args=["-c", _MAIN, *words], env={**os.environ}, cwd=str(MAIN)
    )
    async with asyncio.timeout(60), Client(program) as client:
        one = Agent(client)
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert [each["id"] for each in (await one.call("targets"))["targets"]] == ["mine:one"]
        assert (await one.call("submit", target="one", files=RIGHT))["run"].startswith("mine-")


_MAIN = "import sys; sys.argv[0] = 'aisp'; from aisp.tui.cli.tree import main; main()"
