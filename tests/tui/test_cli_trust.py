"""`aisp checks | audit`, what a run says of its checks, and marks on rungs wherever a speed-up would stand."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from aisp.engine import trust
from aisp.engine.documents import run_json
from aisp.engine.protocol import events, requests
from aisp.engine.trust import FixtureView
from aisp.kernels import catalog
from aisp.store import Store, new_ulid
from aisp.store import record as records
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing, Trigger, Validity, Verdict
from aisp.store.results.audit import Kind, Outcome, Row
from aisp.store.results.reading import Bar, Reading
from aisp.store.results.trust import by_check, counts
from aisp.tui.cli import audit
from aisp.tui.cli.follow import Followed, Follower, result_lines, summary
from aisp.tui.cli.restore import choose
from aisp.tui.cli.stored import history
from aisp.tui.cli.tree import cli
from aisp.tui.sharing import FORMS
from aisp.tui.stored import Stored
from tests import heard
from tests.replacing import replace
from tests.tui.fake_engine import FakeEngine, hear, isolate, make_target, start_aisp

GPU = "NVIDIA H100 80GB HBM3"
H100: dict[str, object] = {"host": "atlas", "gpu": GPU, "gpu_uuid": "GPU-1"}
EVIDENCE = "0.41 ms by events, 9.8 ms by the engine's clock"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return isolate(monkeypatch, tmp_path)


def bench(*words: str) -> Result:
    return CliRunner().invoke(cli, [*words])


def cells(text: str) -> list[list[str]]:
    """The cells of each line of a table, or of a list."""
    return [re.split(r"\s{2,}|\t", line.strip()) for line in text.splitlines()]


# -- a store with runs that were checked -------------------------------------------------------------------------------


def keep(
    state: Path,
    target: str,
    *,
    code: str = "code-1",
    folder: bytes = b"/somewhere",
    findings: Sequence[tuple[str, str, str, str]] = (),
    speedups: Mapping[str, float] | None = None,
    validity: Validity | None = None,
    naive: records.Naive | None = None,
    policy: str = "strict",
    without: Sequence[str] = (),
    quick: bool = False,
    device: str = "cuda",
    case: str = "default",
    wall: str = "2026-01-02T03:04:05+00:00",
    sources: str = "",
) -> records.Run:
    """Put a run into the store as the engine would: what was caught has no speed-up."""
    state.mkdir(mode=0o700, exist_ok=True)
    told = tuple(records.Finding(check, arm, FindingStatus(status), text) for check, arm, status, text in findings)
    caught = {f.arm for f in told if f.status is FindingStatus.CAUGHT}
    faster = speedups or {"optimized": 2.0}
    if validity is None:
        doubted = any(f.status is FindingStatus.SUSPECT for f in told) or bool(without)
        validity = Validity.CAUGHT if caught else Validity.SUSPECT if doubted else Validity.VALID
    shown = {name: ratio for name, ratio in faster.items() if not {name, "baseline", ""} & caught}
    verdict = Verdict.FASTER if shown and validity is Validity.VALID else Verdict.NONE
    times = {"baseline": 1.0} | {name: 1.0 / ratio for name, ratio in faster.items()}
    with Store.open(state / "aisp.db") as store:
        run = records.Run(
            id=new_ulid(),
            target=target,
            folder=folder,
            title=f"About {target}",
            device=device,
            case=case,
            quick=quick,
            trigger=Trigger.CLI,
            seed=1,
            epoch="EPOCH",
            seq=1,
            wall=wall,
            snapshot=store.put_snapshot({"optimized.py": (sources or code).encode()}),
            environment=store.put_environment(H100),
            state=State.OK,
            correctness=Correctness.CORRECT,
            validity=validity,
            verdict=verdict,
            duration_ms=1500.0,
            manifest={"code": code, "validity": policy, "without": list(without)},
            arms=tuple(
                records.Arm(
                    rung=rung,
                    state=State.OK,
                    correctness=Correctness.CORRECT,
                    timing=Timing.COLD,
                    median_ms=ms,
                    low_ms=0.99 * ms,
                    high_ms=1.01 * ms,
                    sample_count=20,
                    sm_clock_mhz=1980.0,
                    naive=naive if rung != "baseline" else None,
                )
                for rung, ms in times.items()
            ),
            comparisons=tuple(
                records.Comparison(name, "baseline", verdict, ratio, ratio * 0.98, ratio * 1.02, 0.005, p_value=0.0001)
                if name in shown
                else records.Comparison(name, "baseline", Verdict.NONE, note="caught")
                for name, ratio in faster.items()
            ),
            findings=told,
        )
        store.finish(run, {})
    return run


CAUGHT = [("timing.wall_clock", "optimized", "caught", EVIDENCE)]
CLEAR = [
    ("timing.wall_clock", "baseline", "passed", ""),
    ("timing.wall_clock", "optimized", "passed", "0.50 ms by both clocks"),
    ("cuda.streams", "optimized", "not_applicable", "there is no GPU in this run"),
    ("environment.governor", "", "unavailable", "no frequency driver is to be seen"),
]


# -- aisp checks -------------------------------------------------------------------------------------------------


def test_every_check_of_the_registry_is_listed_under_its_category() -> None:
    shown = bench("checks")
    assert shown.exit_code == 0
    found = cells(shown.stdout)
    heads = [row[0] for row in found if row[1:3] == ["what", "how"]]
    assert heads == list(dict.fromkeys(check.category for check in trust.listing()))
    listed = json.loads(bench("checks", "--json").stdout)["checks"]
    assert [item["id"] for item in listed] == [check.id for check in trust.listing()]
    for item in listed:
        assert item["id"].partition(".")[0] == item["category"]
        assert item["how"] in ("prevented", "detected", "outside", "unavailable")
        assert item["last"] is None
    assert shown.stdout.splitlines()[-1] == f"=> {len(listed)} checks; no run that was checked is stored yet"


def test_what_each_check_said_of_the_newest_checked_run_stands_beside_it(state: Path) -> None:
    keep(state, "mine:old", findings=CAUGHT)
    run = keep(state, "mine:one", findings=CLEAR)
    keep(state, "mine:two")  # newer, and from before there were checks
    listed = {item["id"]: item for item in json.loads(bench("checks", "--json").stdout)["checks"]}
    last = listed["timing.wall_clock"]["last"]
    assert (last["run_id"], last["target"], last["status"]) == (run.id, "mine:one", "passed")
    assert last["said"] == [
        {"arm": "baseline", "status": "passed", "evidence": ""},
        {"arm": "optimized", "status": "passed", "evidence": "0.50 ms by both clocks"},
    ]
    assert listed["environment.governor"]["last"]["status"] == "unavailable"
    assert listed["timing.physics"]["last"] is None
    shown = bench("checks").stdout
    rows = {row[0]: row for row in cells(shown)}
    assert rows["wall_clock"][-1] == "passed"
    assert rows["governor"][-1] == "unavailable"
    assert rows["physics"][-1] == "-"
    assert "environment.governor: unavailable, the run: no frequency driver is to be seen" in shown
    assert f"run {run.id} of mine:one" in shown
    assert "1 unavailable, 1 passed, 1 n/a" in shown


def test_the_run_may_be_named_by_its_id_or_its_target(state: Path) -> None:
    old = keep(state, "mine:one", findings=CAUGHT)
    keep(state, "mine:two", findings=CLEAR)
    for wanted in (old.id, old.id[:20], "mine:one"):
        shown = bench("checks", wanted).stdout
        assert f"timing.wall_clock: CAUGHT, optimized: {EVIDENCE}" in shown
        assert f"run {old.id} of mine:one" in shown
    for wanted, told in (("mine:three", "no target 'mine:three'; did you mean mine:"), ("01C", "no run")):
        missing = bench("checks", wanted)
        assert (missing.exit_code, missing.stdout) == (2, "")
        assert told in missing.stderr


def test_every_issue_is_listed_with_its_answer() -> None:
    listed = json.loads(bench("checks", "--issues", "--json").stdout)["issues"]
    assert [(item["id"], item["how"], item["checks"]) for item in listed] == [
        (issue.id, issue.how, list(issue.checks)) for issue in trust.issues()
    ]
    assert all(item["answer"] for item in listed)
    lines = bench("checks", "--issues").stdout.splitlines()
    assert lines[-1].startswith(f"=> {len(listed)} issues, {sum(not item['listed'] for item in listed)} of them (*)")
    assert bench("checks", "--issues", "mine:one").exit_code == 2


# -- aisp dev audit --------------------------------------------------------------------------------------------------


@dataclass
class Arm:
    """How an arm of a scripted run ends."""

    state: str = "ok"
    speedup: float | None = None
    naive: float | None = None
    accepts: bool = True
    reason: str = ""
    verdict: str = "none"


@dataclass
class Script:
    """How the runs of a fixture end: arms by name, and findings as (check, arm, status)."""

    arms: dict[str, Arm] = field(default_factory=dict)
    findings: list[tuple[str, str, str]] = field(default_factory=list)
    state: str = "ok"
    reason: str = ""


class Gallery(FakeEngine):
    """Plays fixtures by `scripts`: what a target's run with these rungs comes to."""

    def __init__(self, scripts: Callable[[str, list[str]], Script | None]) -> None:
        super().__init__()
        self.scripts = scripts
        self.wanted: dict[str, list[str]] = {}
        self.refused: set[str] = set()

    async def _start_runs(self, request: requests.StartRuns) -> events.Event:
        if self.refused & set(request.targets):
            return events.Reply(to=request.seq, error="no case to run it on")
        before = set(self._runs)
        reply = await super()._start_runs(request)
        self.wanted |= {run_id: list(request.rungs) for run_id in set(self._runs) - before}
        return reply

    def _play(self, run_id: str, target: str) -> None:
        script = self.scripts(target, self.wanted[run_id])
        if script is None:
            return  # it goes on until it is cancelled
        for name in ["baseline", *self.wanted[run_id]]:
            arm = script.arms.get(name)
            if arm is None:
                continue
            naive = None if arm.naive is None else heard.naive(speedup=arm.naive, accepts=arm.accepts)
            self._broadcast(
                heard.arm(
                    run_id=run_id,
                    arm=name,
                    state=arm.state,
                    reason=arm.reason,
                    naive=naive,
                )
            )
            if arm.speedup is not None:
                self._broadcast(
                    heard.comparison(
                        run_id=run_id,
                        rung=name,
                        baseline="baseline",
                        verdict=arm.verdict,
                        speedup=arm.speedup,
                        low=arm.speedup * 0.9,
                        high=arm.speedup * 1.1,
                    )
                )
        told = [
            heard.finding(check=check, arm=arm, status=status, evidence=f"{check} saw {arm or 'the run'}")
            for check, arm, status in script.findings
            if arm in ("", "baseline", *self.wanted[run_id])
        ]
        self._runs.pop(run_id)
        self._broadcast(
            heard.finished(
                run_id=run_id,
                target=target,
                state=script.state,
                duration_ms=5.0,
                reason=script.reason,
                findings=told,
            )
        )


def honest(speedup: float = 1.0) -> dict[str, Arm]:
    """A baseline and a twin that end well."""
    return {"baseline": Arm(), "optimized": Arm(speedup=speedup, naive=1.0)}


def fixture(name: str, *cheats: str, checks: tuple[str, ...] = ()) -> FixtureView:
    category = name.partition(":")[0]
    return FixtureView(name, category, Path("/gallery"), cheats or ("cheat",), "optimized", checks, True)


SCRIPTS: dict[str, Script] = {
    "timing:hidden": Script(
        honest() | {"cheat": Arm(speedup=20.0, naive=40.0)}, [("timing.wall_clock", "cheat", "caught")]
    ),
    "timing:slow": Script(honest(2.0) | {"cheat": Arm(speedup=2.3, naive=9.0)}),
    "output:wrong": Script(
        honest() | {"cheat": Arm("incorrect", naive=3.0, accepts=False, reason="y differs by 41.5 tolerances")}
    ),
    "output:lucky": Script(honest(2.0) | {"cheat": Arm(speedup=2.5, naive=9.0)}),
    "memory:accused": Script(
        honest() | {"cheat": Arm(speedup=1.0)},
        [("output.poison", "optimized", "suspect"), ("memory.margins", "cheat", "caught")],
    ),
    "cuda:elsewhere": Script({}, state="unavailable", reason="needs sm_80"),
}


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[FixtureView]]:
    """The fixtures of SCRIPTS in the place of the shipped gallery."""
    shown = [fixture(name) for name in SCRIPTS]
    monkeypatch.setattr(trust, "fixtures", lambda: shown)
    monkeypatch.setattr(trust, "gallery_root", lambda: tmp_path / "gallery")
    monkeypatch.setattr(trust, "gallery", lambda: catalog.load([tmp_path / "gallery"]))
    (tmp_path / "gallery").mkdir()
    yield shown


def play(target: str, rungs: list[str]) -> Script:
    return SCRIPTS[target]


def test_an_audit_tells_caught_useless_and_missed_cheats_and_passed_and_flagged_twins(
    gallery: list[FixtureView],
) -> None:
    with Gallery(play):
        shown = bench("dev", "audit", "--json")
    assert shown.exit_code == 1
    found = json.loads(shown.stdout)
    told = {(row["id"], row["rung"]): row for row in found["fixtures"]}
    assert {key: row["outcome"] for key, row in told.items()} == {
        ("timing:hidden", "optimized"): "passed",
        ("timing:hidden", "cheat"): "caught",
        ("timing:slow", "optimized"): "passed",
        ("timing:slow", "cheat"): "useless",  # 2.3 is within 1.1 times the twin's upper bound of 2.2
        ("output:wrong", "optimized"): "passed",
        ("output:wrong", "cheat"): "caught",
        ("output:lucky", "optimized"): "passed",
        ("output:lucky", "cheat"): "missed",  # 2.5 is beyond 1.1 * 2.2
        ("memory:accused", "optimized"): "flagged",
        ("memory:accused", "cheat"): "caught",
        ("cuda:elsewhere", "optimized"): "unavailable",
        ("cuda:elsewhere", "cheat"): "unavailable",
    }
    hidden = told["timing:hidden", "cheat"]
    assert (hidden["kind"], hidden["finding"], hidden["naive_speedup"], hidden["naive_accepts"]) == (
        "cheat", "timing.wall_clock", 40.0, True
    )  # fmt: skip
    assert (hidden["speedup"], hidden["evidence"]) == (None, "timing.wall_clock saw cheat")
    wrong = told["output:wrong", "cheat"]
    assert (wrong["finding"], wrong["naive_accepts"]) == (None, False)
    assert wrong["evidence"] == "incorrect: y differs by 41.5 tolerances"
    assert told["output:lucky", "cheat"]["speedup"] == 2.5
    assert told["memory:accused", "optimized"]["finding"] == "output.poison"
    assert told["cuda:elsewhere", "cheat"]["evidence"] == "needs sm_80"
    keys = ("category", "caught", "useless", "missed", "passed", "flagged", "unavailable")
    assert [tuple(row[key] for key in keys) for row in found["categories"]] == [
        ("timing", 1, 1, 0, 2, 0, 0),
        ("output", 1, 0, 1, 2, 0, 0),
        ("memory", 1, 0, 0, 0, 1, 0),
        ("cuda", 0, 0, 0, 0, 0, 2),
    ]
    assert found["device"] == "cpu"


def test_an_audit_for_people_prints_both_numbers_the_matrix_and_why(gallery: list[FixtureView]) -> None:
    with Gallery(play):
        shown = bench("dev", "audit")
    rows = cells(shown.stdout)
    assert ["timing:hidden", "cheat", "caught", "timing.wall_clock", "40.0x accepted", "-"] in rows
    assert ["timing:slow", "cheat", "useless", "-", "9.00x accepted", "2.30x [2.07..2.53]"] in rows
    assert ["output:wrong", "cheat", "caught", "-", "3.00x refused", "-"] in rows
    assert ["category", "caught", "useless", "missed", "passed", "flagged", "unavailable"] in rows
    assert ["all", "3", "1", "1", "4", "1", "2"] in rows
    assert "output:lucky cheat: missed: 2.50x, an honest one has up to 2.20x" in shown.stdout
    assert "memory:accused optimized: flagged by output.poison: output.poison saw optimized" in shown.stdout
    assert "unavailable, needs sm_80: cuda:elsewhere optimized, cuda:elsewhere cheat" in shown.stdout
    assert shown.stdout.splitlines()[-1] == (
        "=> on cpu: 6 cheats: 3 caught, 1 useless, 1 missed, 1 unavailable; "
        "6 twins: 4 passed, 1 flagged, 1 unavailable; a naive harness takes 3 of 4 cheats for faster and right"
    )
    assert "[6/6] cuda:elsewhere: optimized unavailable, cheat unavailable" in shown.stderr


def test_a_fixture_is_one_quick_portable_run_of_its_twin_and_all_its_cheats(
    gallery: list[FixtureView], tmp_path: Path
) -> None:
    gallery[:] = [fixture("timing:hidden", "cheat", "cheat_twice")]
    arms = honest() | {"cheat": Arm(speedup=1.0), "cheat_twice": Arm(speedup=1.0)}
    with Gallery(lambda target, rungs: Script(arms)) as engine:
        assert bench("dev", "audit", "--device", "cpu").exit_code == 0
    (asked,) = engine.asked(requests.StartRuns)
    assert (asked.targets, asked.rungs) == (["timing:hidden"], ["optimized", "cheat", "cheat_twice"])
    assert asked.roots == [str(tmp_path / "gallery")]
    assert (asked.quick, asked.naive, asked.validity, asked.device, asked.without) == (
        True, True, "portable", "cpu", []
    )  # fmt: skip


def test_what_is_said_of_the_run_as_a_whole_is_asked_again_of_each_rung_alone(gallery: list[FixtureView]) -> None:
    gallery[:] = [fixture("evaluation:edits", "cheat", "cheat_named", checks=("evaluation.files",))]
    arms = honest() | {"cheat": Arm(speedup=9.0, naive=9.0), "cheat_named": Arm(speedup=9.0)}

    def scripts(target: str, rungs: list[str]) -> Script:
        findings = [("evaluation.names", "cheat_named", "caught")]
        if "cheat" in rungs:
            findings.append(("evaluation.files", "", "caught"))
        return Script(arms, findings)

    with Gallery(scripts) as engine:
        found = json.loads(bench("dev", "audit", "--json").stdout)
    assert [request.rungs for request in engine.asked(requests.StartRuns)] == [
        ["optimized", "cheat", "cheat_named"],
        ["optimized"],
        ["cheat"],
    ]
    assert [(row["rung"], row["outcome"], row["finding"]) for row in found["fixtures"]] == [
        ("optimized", "passed", None),
        ("cheat", "caught", "evaluation.files"),
        ("cheat_named", "caught", "evaluation.names"),
    ]
    assert [row["speedup"] for row in found["fixtures"]] == [1.0, None, None]


def test_a_rung_that_a_cheat_kept_from_running_runs_alone(gallery: list[FixtureView]) -> None:
    gallery[:] = [fixture("evaluation:exit")]

    def scripts(target: str, rungs: list[str]) -> Script:
        if rungs == ["optimized"]:
            return Script(honest())
        return Script({"cheat": Arm("premature_exit", reason="it left")}, state="premature_exit", reason="it left")

    with Gallery(scripts) as engine:
        found = json.loads(bench("dev", "audit", "--json").stdout)
    assert [request.rungs for request in engine.asked(requests.StartRuns)][1:] == [["optimized"]]
    assert [(row["rung"], row["outcome"], row["evidence"]) for row in found["fixtures"]] == [
        ("optimized", "passed", ""),
        ("cheat", "caught", "premature_exit: it left"),
    ]


@pytest.mark.parametrize(
    ("cheat", "outcome"),
    [
        (Arm("user_error", reason="ImportError: no module named secret"), "unavailable"),
        (Arm("crashed", reason="died of SIGSEGV"), "unavailable"),
        (Arm(speedup=None), "unavailable"),
        (Arm("timeout_progress", reason="no sign of life for 60 s"), "caught"),
        (Arm("output_limit", reason="it printed 64 MB"), "caught"),
        (Arm(speedup=1.2), "useless"),
        (Arm(speedup=1.25), "missed"),
        (Arm(speedup=1.25, verdict="faster"), "missed"),
        (Arm(speedup=1.25, verdict="undecided"), "useless"),
    ],
    ids=lambda value: f"{value.state} {value.speedup} {value.verdict}" if isinstance(value, Arm) else value,
)
def test_a_cheat_that_broke_has_not_been_caught_and_one_that_claims_nothing_is_not_missed(
    gallery: list[FixtureView], cheat: Arm, outcome: str
) -> None:
    gallery[:] = [fixture("timing:one")]
    with Gallery(lambda target, rungs: Script(honest() | {"cheat": cheat})):
        found = json.loads(bench("dev", "audit", "--json").stdout)
    assert {row["rung"]: row["outcome"] for row in found["fixtures"]} == {"optimized": "passed", "cheat": outcome}


def test_a_cheat_that_another_check_suspects_is_missed_and_the_doubt_is_told(gallery: list[FixtureView]) -> None:
    gallery[:] = [fixture("timing:one", checks=("timing.wall_clock",))]
    script = Script(honest() | {"cheat": Arm(speedup=5.0)}, [("timing.boost", "cheat", "suspect")])
    with Gallery(lambda target, rungs: script):
        row = json.loads(bench("dev", "audit", "--json").stdout)["fixtures"][1]
    assert (row["outcome"], row["finding"]) == ("missed", "timing.boost")
    assert row["evidence"].endswith("; suspect by timing.boost: timing.boost saw cheat")


@pytest.mark.parametrize("checks", [("timing.wall_clock",), ()], ids=["its own", "it has none"])
def test_a_cheat_that_its_own_check_suspects_has_no_verdict_and_counts_as_caught(
    gallery: list[FixtureView], checks: tuple[str, ...]
) -> None:
    """One that only the judge outside answers has no check of its own: whoever doubts it withholds its verdict."""
    gallery[:] = [fixture("timing:one", checks=checks)]
    script = Script(honest() | {"cheat": Arm(speedup=5.0)}, [("timing.wall_clock", "cheat", "suspect")])
    with Gallery(lambda target, rungs: script):
        row = json.loads(bench("dev", "audit", "--json").stdout)["fixtures"][1]
    assert (row["outcome"], row["finding"], row["speedup"]) == ("caught", "timing.wall_clock", None)


@pytest.mark.parametrize(
    ("baseline", "findings", "finding"),
    [
        (Arm(), [("output.values", "baseline", "caught")], "output.values"),
        (Arm("user_error", reason="a mistake"), [], None),
    ],
    ids=["accused", "broken"],
)
def test_a_baseline_is_honest_code_too_and_listed_where_it_is_flagged(
    gallery: list[FixtureView], baseline: Arm, findings: list[tuple[str, str, str]], finding: str | None
) -> None:
    gallery[:] = [fixture("timing:one")]
    script = Script(honest() | {"baseline": baseline, "cheat": Arm(speedup=1.0)}, findings)
    with Gallery(lambda target, rungs: script):
        shown = bench("dev", "audit", "--json")
    assert shown.exit_code == 1
    row = json.loads(shown.stdout)["fixtures"][0]
    assert (row["rung"], row["kind"], row["outcome"], row["finding"]) == ("baseline", "twin", "flagged", finding)


@pytest.mark.parametrize(
    ("words", "status"),
    [(["timing"], 0), (["timing:hidden", "output/wrong"], 0), (["output"], 1), (["memory"], 1), (["cuda"], 3)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_the_exit_status_of_an_audit_says_whether_anybody_got_it_wrong(
    gallery: list[FixtureView], words: list[str], status: int
) -> None:
    with Gallery(play) as engine:
        assert bench("dev", "audit", *words).exit_code == status
    asked = [request.targets[0] for request in engine.asked(requests.StartRuns)]
    wanted = [name for name in SCRIPTS if any(name.startswith(w.replace("/", ":")) for w in words)]
    assert asked == wanted


def test_a_fixture_that_is_not_there_is_wrong_usage_with_the_nearest(gallery: list[FixtureView], state: Path) -> None:
    shown = bench("dev", "audit", "timing:hiden")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "no fixture or category 'timing:hiden' in the gallery; did you mean timing:hidden" in shown.stderr
    assert not (state / "engine.log").exists()


def test_an_audit_goes_on_after_a_miss_unless_it_is_told_not_to(
    gallery: list[FixtureView], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "AT_A_TIME", 1)
    gallery[:] = [fixture("output:lucky"), fixture("timing:hidden")]
    with Gallery(play) as engine:
        assert bench("dev", "audit", "--no-keep-going").exit_code == 1
        assert len(engine.asked(requests.StartRuns)) == 1
        assert bench("dev", "audit").exit_code == 1
        assert len(engine.asked(requests.StartRuns)) == 3


def test_a_fixture_that_the_engine_does_not_take_is_unavailable_in_its_words(gallery: list[FixtureView]) -> None:
    engine = Gallery(play)
    engine.refused = {"timing:slow"}
    with engine:
        shown = bench("dev", "audit", "timing", "--json")
    rows = [row for row in json.loads(shown.stdout)["fixtures"] if row["id"] == "timing:slow"]
    assert [(row["outcome"], row["evidence"]) for row in rows] == [("unavailable", "no case to run it on")] * 2
    assert shown.exit_code == 0


def test_many_fixtures_are_asked_for_a_few_at_a_time_and_told_in_the_gallerys_order(
    gallery: list[FixtureView],
) -> None:
    gallery[:] = [fixture(f"timing:number_{number}") for number in range(11)]
    with Gallery(lambda target, rungs: Script(honest() | {"cheat": Arm(speedup=1.0)})):
        found = json.loads(bench("dev", "audit", "--json").stdout)
    assert [row["id"] for row in found["fixtures"] if row["kind"] == "cheat"] == [f.target_id for f in gallery]


def test_ctrl_c_cancels_what_runs_and_asks_for_no_more() -> None:
    names = [view.target_id for view in trust.fixtures()]
    with Gallery(lambda target, rungs: None if target == names[1] else Script(honest())) as engine:
        process = start_aisp("dev", "audit", names[0], names[1], "--json")
        hear(process, names[0])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "aisp: cancelled" in err
    assert len(engine.asked(requests.Cancel)) >= 1
    assert {row["id"] for row in json.loads(out)["fixtures"] if row["outcome"] != "unavailable"} <= {names[0]}


# -- aisp run ----------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> str:
    make_target(tmp_path / "mine", "one")
    return str(tmp_path / "mine")


def test_the_options_about_trust_reach_the_engine(root: str) -> None:
    first, second = (check.id for check in trust.listing()[:2])
    with FakeEngine() as engine:
        for words in (["--validity", "portable", "--without", first, "--without", second], ["--naive"], ["--no-naive"]):
            bench("run", "--targets", "mine:one", "--root", root, *words)
        bench("run", "--targets", "mine:one", "--root", root)
    asked = [(r.validity, r.without, r.naive) for r in engine.asked(requests.StartRuns)]
    assert asked == [
        ("portable", [first, second], None),
        ("strict", [], True),
        ("strict", [], False),
        ("strict", [], None),
    ]


def test_a_check_that_is_not_there_is_wrong_usage_with_the_nearest(root: str, state: Path) -> None:
    known = trust.listing()[0].id
    shown = bench("run", "--targets", "mine:one", "--root", root, "--without", known[:-1] + "x")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert f"did you mean {known}" in shown.stderr
    assert not (state / "engine.log").exists()


def test_a_run_tells_its_policy_and_what_was_left_out(root: str) -> None:
    known = trust.listing()[0].id
    words = ["--targets", "mine:one", "--root", root, "--validity", "portable", "--without", known]
    with FakeEngine():
        shown = bench("run", *words)
        told = json.loads(bench("run", *words, "--json").stdout)
    assert f"left out on request, so without a verdict: {known}" in shown.stdout
    assert "times valid, portable, 1.5 s" in shown.stdout
    assert (told["policy"], told["without"]) == ("portable", [known])


def checked(*findings: tuple[str, str, str, str], naive: records.Naive | None = None) -> Followed:
    """A live run of a baseline and two rungs, as the stream tells it: comparisons, then findings, its end last."""
    follower = Follower(["01"])
    happened: list[events.Event] = [
        heard.arm(
            run_id="01", arm=arm, state="ok", correctness="correct", timing="host", median_ms=ms, samples=9,
            naive=naive if arm == "optimized" else None,
        )
        for arm, ms in (("baseline", 4.0), ("optimized", 1.0), ("optimized_wide", 2.0))
    ]  # fmt: skip
    happened += [
        heard.comparison(
            run_id="01", rung=rung, baseline="baseline", verdict="faster", speedup=ratio, low=ratio, high=ratio
        )
        for rung, ratio in (("optimized", 4.0), ("optimized_wide", 2.0))
    ]
    items = [heard.finding(check=c, arm=a, status=s, evidence=e) for c, a, s, e in findings]
    caught = any(item.status == "caught" for item in items)
    happened.append(
        heard.finished(
            run_id="01", target="mine:one", state="ok", correctness="correct",
            validity="caught" if caught else "valid", verdict="faster", duration_ms=9.0, findings=items,
        )
    )  # fmt: skip
    for event in heard.whole(happened):
        follower.apply(event)
    return follower.runs["01"]


def test_what_a_run_was_held_from_stands_below_its_checks() -> None:
    run = checked(("timing.wall_clock", "optimized", "caught", EVIDENCE))
    lines = result_lines(run, {"confined": ["files", "reading"]})
    assert "confined: files, reading; not network, signals, scheduling" in lines
    assert not [line for line in result_lines(run) if "confined" in line]


def test_where_rungs_were_judged_stands_among_the_notes_of_a_run() -> None:
    run = checked()
    arms = tuple(replace(arm, quality=records.Quality(inside="no room")) for arm in run.record.arms)
    told = Reading(replace(run.record, arms=arms))
    assert [line for line in result_lines(told) if line.endswith(": judged inside (no room)")]
    assert not [line for line in result_lines(run) if "judged" in line]


def test_a_rung_that_was_caught_never_shows_the_speed_up_that_was_streamed_before() -> None:
    run = checked(("timing.wall_clock", "optimized", "caught", EVIDENCE))
    lines = result_lines(run)
    rows = {row[0]: row for row in cells("\n".join(lines))}
    assert rows["optimized"][4:6] == ["-", "caught"]
    assert rows["optimized_wide"][4:6] == ["2.00x [2.00..2.00]", "faster"]
    assert f"optimized: caught by timing.wall_clock: {EVIDENCE}" in lines
    assert "4.00x" not in "\n".join(lines)
    assert summary(run) == (
        f"optimized: caught by timing.wall_clock: {EVIDENCE}; not a verdict: 2.00x [2.00..2.00] by optimized_wide"
    )
    told = run_json(run)
    ours = {item["rung"]: item["speedup"] for item in told["comparisons"]}
    assert ours == {"optimized": None, "optimized_wide": 2.0}
    assert list(told["findings"]) == [
        {"check": "timing.wall_clock", "arm": "optimized", "status": "caught", "evidence": EVIDENCE}
    ]
    assert run.best_ms == 2.0


@pytest.mark.parametrize("arm", ["baseline", "baseline (A/A)", ""], ids=["baseline", "second baseline", "the run"])
def test_a_caught_baseline_or_run_leaves_no_speed_up_at_all(arm: str) -> None:
    run = checked(("evaluation.files", arm, "caught", "two files differ"))
    assert (run.best, [c.speedup for c in run.comparisons]) == (None, [None, None])
    assert "x [" not in "\n".join(result_lines(run))
    assert "caught by evaluation.files: two files differ" in summary(run)


def test_what_each_rank_did_stands_below_the_rungs() -> None:
    each = (records.Rank(0.4, 0.08, 12.0, 1980.0), records.Rank(0.45, 0.92, 0.0, 1965.0))
    run = checked()
    ranks = records.Ranks(each=each, skew_us=12.0, skew_most_us=40.0)
    arms = tuple(replace(arm, ranks=ranks) if arm.rung == "optimized" else arm for arm in run.record.arms)
    told = result_lines(Reading(replace(run.record, arms=arms)))
    rows = cells("\n".join(told))
    assert ["optimized", "0", "0.4000", "8 %", "12", "1980"] in rows
    assert ["optimized", "1", "0.4500", "92 %", "0", "1965"] in rows
    assert "optimized: rank 1 takes 12.5 % longer than the fastest; they begin 12 us apart (95 %: 40)" in told
    assert not [line for line in result_lines(run) if "slowest in" in line]


def test_the_naive_harness_number_stands_beside_ours() -> None:
    naive = records.Naive(base_ms=4.0, time_ms=0.1, accepts=True)
    rows = cells("\n".join(result_lines(checked(naive=naive))))
    assert ["rung", "a naive harness says", "outputs accepted", "we say"] in rows
    assert ["optimized", "40.0x", "yes", "4.00x [4.00..4.00]"] in rows
    caught = checked(("timing.wall_clock", "optimized", "caught", EVIDENCE), naive=naive)
    assert ["optimized", "40.0x", "yes", "caught"] in cells("\n".join(result_lines(caught)))
    arm = next(arm for arm in run_json(caught)["arms"] if arm["rung"] == "optimized")
    assert arm["naive"] == {"base_ms": 4.0, "time_ms": 0.1, "speedup": 40.0, "accepts": True, "note": ""}
    assert not any("naive harness" in line for line in result_lines(checked()))


def test_checks_are_counted_once_each_by_the_gravest_thing_they_said() -> None:
    run = checked(
        ("timing.wall_clock", "baseline", "passed", ""),
        ("timing.wall_clock", "optimized", "suspect", "1.4 times as long"),
        ("cuda.streams", "optimized", "not_applicable", "no GPU"),
        ("environment.numa", "", "passed", ""),
        ("environment.governor", "", "unavailable", "nothing to be seen"),
    )
    counted = counts(by_check(run.record.findings).values())
    assert counted == {"caught": 0, "suspect": 1, "unavailable": 1, "passed": 1, "not_applicable": 1}
    lines = result_lines(run)
    assert "checks: 1 suspect, 1 unavailable, 1 passed, 1 not applicable" in lines
    assert "optimized: suspect by timing.wall_clock: 1.4 times as long" in lines


def test_a_live_run_of_code_that_was_caught_before_is_marked_and_ends_with_1(
    root: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = Bar("optimized", "timing.wall_clock", EVIDENCE, "01OLD", "2026-01-02T03:04:05+00:00")
    monkeypatch.setattr(Stored, "run", lambda stored, run_id: None)
    monkeypatch.setattr(Stored, "read", lambda stored, record: Reading(record, {"optimized": mark}))
    with FakeEngine():
        shown = bench("run", "--targets", "mine:one", "--root", root)
        told = json.loads(bench("run", "--targets", "mine:one", "--root", root, "--json").stdout)
    assert shown.exit_code == 1
    assert f"=> optimized: quarantined by timing.wall_clock: {EVIDENCE}" in shown.stdout
    assert "2.00x" not in shown.stdout
    assert told["quarantined"][0]["run_id"] == "01OLD"
    assert [item["speedup"] for item in told["comparisons"]] == [None]


# -- marks -------------------------------------------------------------------------------------------------------------


def test_the_marks_of_a_run_are_those_of_its_code(state: Path) -> None:
    clean = keep(state, "mine:one")
    keep(state, "mine:one", findings=CAUGHT)
    other = keep(state, "mine:one", code="code-2", speedups={"optimized": 3.0}, validity=Validity.SUSPECT)
    with Stored(state / "aisp.db") as opened:
        assert opened.read(opened.run(clean.id)).quarantined["optimized"].evidence == EVIDENCE
        assert opened.read(opened.run(other.id)).quarantined == {}
        held = opened.marks
    assert list(held.in_force(b"/somewhere")) == ["optimized"]
    assert held.in_force(b"/elsewhere") == {}


def test_a_quarantined_rung_is_marked_in_the_list_of_targets_and_has_no_speed_up(tmp_path: Path, state: Path) -> None:
    folder = bytes(make_target(tmp_path / "mine", "one").absolute())
    words = ("list", "--root", str(tmp_path / "mine"))
    keep(state, "mine:one", folder=folder, speedups={"optimized": 9.0})
    assert "faster 9.00x" in bench(*words).stdout
    caught = keep(state, "mine:one", folder=folder, findings=CAUGHT)
    keep(state, "mine:one", folder=folder, speedups={"optimized": 9.0}, findings=CLEAR)  # the same code once more
    shown = bench(*words).stdout
    assert "quarantined" in shown.splitlines()[1]
    assert f"mine:one: optimized: quarantined by timing.wall_clock: {EVIDENCE}" in shown
    assert "9.00x" not in shown
    (told,) = json.loads(bench(*words, "--json").stdout)["targets"]
    assert [(mark["rung"], mark["check"]) for mark in told["quarantined"]] == [("optimized", "timing.wall_clock")]
    assert (told["last"]["speedup"], told["last"]["median_ms"], told["last"]["verdict"]) == (None, None, "none")
    assert told["quarantined"][0]["run_id"] == caught.id
    keep(state, "mine:one", folder=folder, code="code-2", speedups={"optimized": 1.5}, findings=CLEAR)
    assert "faster 1.50x" in bench(*words).stdout
    assert "quarantined" not in bench(*words).stdout


def test_history_masks_the_runs_of_the_code_that_was_caught_and_says_why(state: Path) -> None:
    keep(state, "mine:one", code="honest", speedups={"optimized": 1.5})
    earlier = keep(state, "mine:one", speedups={"optimized": 9.0})
    caught = keep(state, "mine:one", findings=CAUGHT, speedups={"optimized": 9.0})
    shown = bench("history", "mine:one").stdout
    rows = {row[1]: row for row in cells(shown) if len(row) > 3}
    assert rows[earlier.id][4:] == ["quarantined", "-", "-", "-"]
    assert rows[caught.id][4:] == ["caught", "-", "-", "-"]
    assert "1.50x" in shown
    assert "9.00x" not in shown
    assert f"mine:one: optimized: quarantined by timing.wall_clock: {EVIDENCE}" in shown
    assert f"mine:one: optimized: caught by timing.wall_clock: {EVIDENCE}" in shown
    told = json.loads(bench("history", earlier.id, "--json").stdout)
    assert [mark["run_id"] for mark in told["quarantined"]] == [caught.id]
    assert told["comparisons"][0]["speedup"] is None
    whole = bench("history", earlier.id).stdout
    assert f"=> optimized: quarantined by timing.wall_clock: {EVIDENCE}" in whole


@pytest.mark.parametrize("form", ["md", "html", "svg", "kernelbench", "trace", "smaller-is-better"])
def test_no_export_of_a_run_has_a_figure_of_code_that_another_run_caught(state: Path, form: str) -> None:
    earlier = keep(state, "mine:one", speedups={"optimized": 9.0})
    with Stored(state / "aisp.db") as opened:
        before = FORMS[form][1](opened, earlier.id)
    keep(state, "mine:one", findings=CAUGHT, speedups={"optimized": 9.0})
    shown = bench("export", earlier.id, "--" + form).stdout
    median = earlier.arms[1].median_ms
    assert median is not None
    figures = {
        "9.00x",
        '"speedup": 9.0',
        f"{median:.4g}",
        f'"value": {median}',
        f'"latency_ms":{median}',
        f'"latency_ms": {median}',
    }
    assert any(figure in before for figure in figures), before
    assert not any(figure in shown for figure in figures), shown


def test_an_exported_row_says_what_became_of_the_rung_and_not_what_its_samples_said(state: Path) -> None:
    doubts = [("timing.wall_clock", "optimized", "suspect", "1.4 times as long")]
    doubted = keep(state, "mine:one", speedups={"optimized": 9.0}, findings=doubts)
    rows = [line for line in bench("export", doubted.id).stdout.splitlines() if line.startswith("| optimized |")]
    assert [row.split("|")[-2].strip() for row in rows] == ["suspect"]


def test_history_of_a_run_names_the_checks_that_could_not_be_asked(state: Path) -> None:
    run = keep(state, "mine:one", findings=CLEAR, naive=records.Naive(4.0, 0.1, True))
    shown = bench("history", run.id).stdout
    assert ["environment.governor", "no frequency driver is to be seen"] in cells(shown)
    assert "checks: 1 unavailable, 1 passed, 1 not applicable" in shown
    assert ["optimized", "40.0x", "yes", "2.00x [1.96..2.04]"] in cells(shown)
    told = json.loads(bench("history", run.id, "--json").stdout)
    assert len(told["findings"]) == len(CLEAR)
    assert told["arms"][1]["naive"]["speedup"] == 40.0


def test_compare_gives_no_ratio_of_a_rung_that_was_caught(state: Path) -> None:
    a = keep(state, "mine:one", code="honest", speedups={"optimized": 2.0, "optimized_wide": 2.0})
    b = keep(state, "mine:one", findings=CAUGHT, speedups={"optimized": 9.0, "optimized_wide": 4.0})
    again = keep(state, "mine:one", speedups={"optimized": 9.0, "optimized_wide": 4.0})
    told = json.loads(bench("compare", a.id, b.id, "--json").stdout)
    rungs = {row["rung"]: row for row in told["rungs"]}
    assert (rungs["optimized"]["speedup"], rungs["optimized"]["verdict"]) == (None, "none")
    assert rungs["optimized"]["note"] == f"caught in B by timing.wall_clock: {EVIDENCE}"
    assert rungs["optimized_wide"]["speedup"] is None, "its run is not valid, and the two are not comparable"
    told = json.loads(bench("compare", a.id, again.id, "--json").stdout)
    speedups = {row["rung"]: row["speedup"] for row in told["rungs"]}
    assert speedups == {"baseline": pytest.approx(1.0), "optimized": None, "optimized_wide": pytest.approx(2.0)}
    shown = bench("compare", a.id, again.id)
    assert shown.exit_code == 0  # the run itself is valid; the one rung in it is not
    assert f"quarantined in B by timing.wall_clock: {EVIDENCE}" in shown.stdout
    assert "4.50x" not in shown.stdout


def test_compare_tells_that_one_of_the_runs_was_portable(state: Path) -> None:
    a, b = (keep(state, "mine:one", policy=policy) for policy in ("strict", "portable"))
    told = json.loads(bench("compare", a.id, b.id, "--json").stdout)
    assert {"what": "policy", "a": "strict", "b": "portable", "refuses": False} in told["differences"]
    assert told["comparable"] is True


def test_a_suite_leaves_out_a_target_whose_rung_is_in_quarantine_and_says_why(state: Path) -> None:
    keep(state, "mine:one", speedups={"optimized": 2.0})
    keep(state, "mine:two", folder=b"/two", findings=CAUGHT)
    keep(state, "mine:two", folder=b"/two", speedups={"optimized": 9.0})
    found = json.loads(bench("score", "--json").stdout)
    assert (found["count"], found["geometric_mean"]) == (1, pytest.approx(2.0))
    assert found["left_out"] == [
        {"target": "mine:two", "reason": f"optimized: quarantined by timing.wall_clock: {EVIDENCE}"}
    ]
    keep(state, "mine:two", folder=b"/two", speedups={"optimized": 9.0, "optimized_wide": 8.0})
    results = {r["target"]: r for r in json.loads(bench("score", "--json").stdout)["results"]}
    assert (results["mine:two"]["rung"], results["mine:two"]["speedup"]) == ("optimized_wide", 8.0)


def test_a_prediction_is_not_answered_by_a_portable_run_nor_while_a_rung_is_in_quarantine(
    tmp_path: Path, state: Path
) -> None:
    folders = {name: bytes(make_target(tmp_path / "mine", name, on="H100")) for name in ("one", "two", "three")}
    keep(state, "mine:one", folder=folders["one"], speedups={"optimized": 9.0}, policy="portable")
    keep(state, "mine:two", folder=folders["two"], speedups={"optimized": 2.0})
    keep(state, "mine:two", folder=folders["two"], speedups={"optimized": 9.0}, policy="portable")
    keep(state, "mine:three", folder=folders["three"], code="honest", speedups={"optimized": 2.0})
    keep(state, "mine:three", folder=folders["three"], findings=CAUGHT)
    shown = bench("dev", "expectations", "--root", str(tmp_path / "mine"))
    assert shown.exit_code == 0
    rows = {row[0]: row[-1] for row in cells(shown.stdout)}
    assert (rows["mine:one"], rows["mine:two"], rows["mine:three"]) == ("portable", "met", "quarantined")
    assert f"mine:three: optimized: quarantined by timing.wall_clock: {EVIDENCE}" in shown.stdout
    told = {
        item["target"]: item
        for item in json.loads(bench("dev", "expectations", "--root", str(tmp_path / "mine"), "--json").stdout)[
            "targets"
        ]
    }
    assert {name: item["met"] for name, item in told.items()} == {
        "mine:one": None, "mine:two": True, "mine:three": None
    }  # fmt: skip
    assert told["mine:one"]["measured"]["policy"] == "portable"
    assert [mark["check"] for mark in told["mine:three"]["quarantined"]] == ["timing.wall_clock"]


def test_a_rung_that_was_caught_stands_nowhere_under_a_roof(tmp_path: Path, state: Path) -> None:
    folder = bytes(make_target(tmp_path / "mine", "one"))
    both = {"optimized": 9.0, "optimized_wide": 4.0}
    keep(state, "mine:one", folder=folder, findings=CAUGHT, speedups=both)
    found = json.loads(bench("roofline", "mine:one", "--root", str(tmp_path / "mine"), "--json").stdout)
    assert [point["rung"] for point in found["points"]] == ["baseline", "optimized_wide"]
    assert [(mark["rung"], mark["evidence"]) for mark in found["quarantined"]] == [("optimized", EVIDENCE)]
    shown = bench("roofline", "mine:one", "--root", str(tmp_path / "mine")).stdout
    assert f"optimized: caught by timing.wall_clock: {EVIDENCE}" in shown


def test_an_audit_fits_80_columns(gallery: list[FixtureView]) -> None:
    rows = [
        Row(
            "evaluation:self_modifying_tests", "evaluation", "cheat_environment", Kind.CHEAT, outcome,
            ("evaluation.result_channel",), "it did", 78.7, True, 1.234, 1.1, 1.3,
        )
        for outcome in (Outcome.CAUGHT, Outcome.UNAVAILABLE)
    ]  # fmt: skip
    tables = [
        line for line in audit.lines("cpu", rows, width=80) if line.startswith("evaluat") and "it did" not in line
    ]
    assert len(tables) == 3
    assert max(len(line) for line in tables) <= 80
    assert "78.7x accepted  1.23x" in tables[0]


def test_best_never_restores_a_version_that_was_caught(state: Path) -> None:
    honest_run = keep(state, "mine:one", code="honest", speedups={"optimized": 2.0}, device="cpu", case="cpu")
    keep(state, "mine:one", speedups={"optimized": 9.0}, device="cpu", case="cpu")
    keep(state, "mine:one", findings=CAUGHT, speedups={"optimized": 9.0}, device="cpu", case="cpu")
    with history() as opened:
        runs = [opened.read(record) for record in opened.newest(10, "mine:one")]
    assert choose(runs, "mine:one", "best").id == honest_run.id


def test_a_result_of_the_app_has_no_speed_up_of_a_rung_that_was_caught(state: Path) -> None:
    caught = keep(state, "mine:one", findings=CAUGHT, speedups={"optimized": 9.0, "optimized_wide": 4.0})
    with history() as opened:
        result = Reading(opened.run(caught.id))
    assert result.hidden == {"optimized"}
    assert result.lead is not None
    assert (result.lead.rung, result.speedup) == ("optimized_wide", 4.0)
    held = Bar("optimized", "timing.wall_clock", EVIDENCE, "01OLD")  # by another run of the same code
    clean = keep(state, "mine:one", speedups={"optimized": 9.0})
    live = Reading(clean, {"optimized": held})
    assert (live.lead and live.lead.rung, live.speedup) == ("optimized", None)
