"""What frontends list of the checks: issues, proofs, what they said of a run, and the page written from them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aisp.checks import registry
from aisp.checks.registry import Check, Evidence, How, Issue, Need, When
from aisp.engine import trust
from tests.engine.targets import write_target
from tests.proofs.pages import validity

MAIN = Path(__file__).parents[2]
CHEAT = "import time\n\n\ndef run(x):\n    return x\n"

ISSUES = (
    Issue("timing.unsynced_streams", "Work runs | unseen.", How.DETECTED, "Streams are watched.", "timing/streams"),
    Issue(
        "timing.clock_drift", "The clock is set.", How.PREVENTED, "Only monotonic clocks: tests/engine/test_turns.py"
    ),
    Issue("timing.score", "The score is made up.", How.PREVENTED, "It is ours.", "timing/streams", listed=False),
    Issue("distributed.rank_skipping", "A rank is idle.", How.UNAVAILABLE, "It takes two machines."),
)
CHECKS = (
    Check(
        "timing.wall_clock",
        "Two clocks",
        "Events and our own clock must agree.",
        ("timing.unsynced_streams", "timing.clock_drift"),
        When.EACH_SAMPLE,
        (Need.GPU, Need.CUPTI),
        refuses=True,
        evidence=Evidence.TIME,
    ),
    Check(
        "timing.score",
        "Score",
        "It is\n  computed here.",
        ("timing.score",),
        When.AFTER_RUN,
        refuses=True,
        evidence=Evidence.VALUES,
    ),
    Check(
        "distributed.ranks",
        "Ranks",
        "Every rank works.",
        ("distributed.rank_skipping",),
        When.AFTER_RUN,
        refuses=True,
        evidence=Evidence.WORK,
    ),
)


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of three checks and four issues, with two fixtures."""
    root = tmp_path / "gallery"
    streams = {"cheat.py": CHEAT, "cheat_pool.py": CHEAT + "# pool\n"}
    write_target(root / "timing", streams, name="streams", cases='[[cases]]\nname = "cpu"\naxes = { N = 8 }')
    write_target(root / "output", {"cheat.py": CHEAT}, name="zeros", needs="{ sm = 80, gpus = 1 }")
    monkeypatch.setattr(trust, "gallery_root", lambda: root)
    monkeypatch.setattr(registry, "checks", lambda: CHECKS)
    monkeypatch.setattr(registry, "issues", lambda: ISSUES)
    return root


def test_fixtures_come_category_by_category_with_the_checks_that_they_prove(gallery: Path) -> None:
    first, second = trust.fixtures()
    assert first == trust.FixtureView(
        target_id="timing:streams",
        category="timing",
        folder=gallery / "timing" / "streams",
        cheats=("cheat", "cheat_pool"),
        twin="optimized",
        checks=("timing.wall_clock", "timing.score"),
        cpu=True,
    )
    assert (second.target_id, second.checks, second.cpu) == ("output:zeros", (), False)


def test_a_fixture_whose_inputs_stay_on_the_host_runs_without_a_gpu_and_one_of_cuda_cheats_does_not(
    gallery: Path,
) -> None:
    write_target(gallery / "memory", {"cheat.py": CHEAT}, name="swap", inputs='x = "float32 [N] normal cpu"')
    cuda = {"cheat.py": "from cuda.core import Device\n\n\ndef run(x):\n    return x\n"}
    write_target(gallery / "cuda", cuda, name="streams", cases='[[cases]]\nname = "cpu"\naxes = { N = 8 }')
    assert {fixture.target_id: fixture.cpu for fixture in trust.fixtures()} == {
        "timing:streams": True,
        "output:zeros": False,
        "memory:swap": True,
        "cuda:streams": False,
    }


def test_a_check_is_listed_with_its_issues_and_the_cheats_and_twins_that_prove_it(gallery: Path) -> None:
    clock, score, ranks = trust.listing()
    assert clock == trust.CheckView(
        id="timing.wall_clock",
        category="timing",
        title="Two clocks",
        about="Events and our own clock must agree.",
        issues=("timing.unsynced_streams", "timing.clock_drift"),
        when="around each sample",
        needs=("a GPU", "CUPTI"),
        evidence="time",
        how="detected",
        cheats=("timing:streams/cheat", "timing:streams/cheat_pool"),
        twins=("timing:streams/optimized",),
    )
    assert (score.how, score.cheats) == ("prevented", ("timing:streams/cheat", "timing:streams/cheat_pool"))
    assert (ranks.how, ranks.cheats, ranks.twins) == ("unavailable", (), ())


def test_an_issue_is_listed_with_the_checks_that_answer_it(gallery: Path) -> None:
    views = trust.issues()
    assert [(view.id, view.how, view.checks, view.listed) for view in views] == [
        ("timing.unsynced_streams", "detected", ("timing.wall_clock",), True),
        ("timing.clock_drift", "prevented", ("timing.wall_clock",), True),
        ("timing.score", "prevented", ("timing.score",), False),
        ("distributed.rank_skipping", "unavailable", ("distributed.ranks",), True),
    ]
    assert (views[0].category, views[0].fixture, views[1].fixture) == ("timing", "timing/streams", "")


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_counts_and_tells_everything(gallery: Path) -> None:
    page = validity.page()
    assert (
        "3 issues of the field's list and 1 beyond it: 2 are prevented, 1 detected, 0 of no use outside, 1 unavailable."
        in page
    )
    assert "3 checks; 2 fixtures with 3 cheats.\nFixtures that run without a GPU: 1." in page
    assert "| timing | 2 | 1 | 1 | 2 | 0 | 0 | 2 | 1 | 2 |" in page
    assert "| **all** | **3** | **1** | **1** | **2** | **0** | **1** | **3** | **2** | **3** |" in page
    assert (
        "| `timing.unsynced_streams` | Work runs \\| unseen. | detected | Streams are watched. | `timing.wall_clock` "
        "| `timing/streams`, 2 cheats |"
    ) in page
    assert "| `timing.score` (beyond the 95) |" in page
    assert (
        "### timing.wall_clock\n\n**Two clocks.** Events and our own clock must agree.\n\nLooks around each sample; "
        "needs a GPU and CUPTI; accuses by time, so it is suspect at most; answers "
        "`timing.unsynced_streams`, `timing.clock_drift`.\n"
    ) in page
    assert (
        "**Score.** It is computed here.\n\nLooks after the run; needs nothing special; accuses by values; "
        "answers `timing.score`."
    ) in page
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == [f"## {category.capitalize()}" for category in registry.CATEGORIES]


def test_every_real_check_stands_on_the_page() -> None:
    page = validity.page()
    assert [check.id for check in registry.checks() if f"### {check.id}\n" not in page] == []
    assert [issue.id for issue in registry.issues() if f"| `{issue.id}`" not in page] == []


def test_a_frontend_may_import_it() -> None:
    code = "from aisp.engine import trust\ntrust.listing(), trust.issues(), trust.fixtures()\n"
    code += "import json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=MAIN, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stdout))
    assert "aisp.checks" in found
    assert not found & {"torch", "triton", "numpy", "asyncio", "sqlite3", "sqlite_utils", "pynvml", "aisp.tui"}
