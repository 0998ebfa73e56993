"""docs/engine.md against the code: every variable, state, step, file, limit and module that it must name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aisp.engine import (
    answers,
    arms,
    caches,
    connections,
    environment,
    guard,
    journal,
    outside,
    paths,
    pool,
    server,
    slots,
    snapshots,
    spawner,
    statistics,
    telemetry,
    turns,
    watch,
    watches,
)
from aisp.engine.protocol import framing
from aisp.kernels.catalog import sources
from aisp.store.outcomes import State, Timing, Verdict
from aisp.store.writer import MOST_SPREADS

MAIN = Path(__file__).parents[2]
PAGE = (MAIN / "docs/engine.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CODE = [
    path for folder in ("engine", "checks", "store", "kernels", "tui") for path in sorted((MAIN / folder).rglob("*.py"))
]


def named(section: str) -> set[str]:
    """Everything between backticks in a section."""
    return set(re.findall(r"`([^`\n]+)`", SECTIONS[section]))


def row(section: str, begins: str) -> list[str]:
    """The cells of the table row that begins so."""
    (line,) = re.findall(rf"^\| {re.escape(begins)}[^|]*\|.*$", SECTIONS[section], re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_every_variable_of_ours_that_the_code_reads_is_documented_and_no_other() -> None:
    read = {name for path in CODE for name in re.findall(r"\bAISP_[A-Z_]+\b", path.read_text("utf-8"))}
    assert "AISP_STATE" in read
    assert {name for name in named("Environment variables") if name.startswith("AISP_")} == read


def test_the_lists_of_variables_that_workers_see_and_runs_record_are_the_codes() -> None:
    seen, recorded = re.findall(r"```text\n(.*?)```", SECTIONS["Environment variables"], re.DOTALL)
    assert sorted(seen.split()) == sorted(paths.ENVIRONMENT_NAMES)
    assert sorted(recorded.split()) == sorted(environment.VARIABLE_NAMES)


def test_every_state_verdict_and_way_of_timing_is_explained() -> None:
    states = {
        name
        for line in re.findall(r"^\| (`.*?) \|", SECTIONS["The life of a run"], re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    assert states == {state.value for state in State if state.stored}
    verdicts = set(re.findall(r"^\| `(\w+)` \|", SECTIONS["What is measured, and how"], re.MULTILINE))
    assert verdicts == {verdict.value for verdict in Verdict}
    assert {timing.value for timing in Timing} - {"none"} <= named("What is measured, and how")


def test_every_step_that_frontends_show_is_named() -> None:
    source = "".join(path.read_text("utf-8") for path in (MAIN / "engine").glob("*.py"))
    steps = set(re.findall(r'\bstep\(\s*"([^"]+)"', source)) | set(re.findall(r'Step\("([^"]+)"', source))
    assert {"warm worker", "measure", "verdict"} <= steps
    assert steps <= named("The life of a run")


@pytest.mark.parametrize(("mode", "quick"), [("full", False), ("quick", True)])
def test_the_stop_rule_is_the_codes(mode: str, quick: bool) -> None:
    rule = turns.StopRule.of(quick=quick, replicas=0)
    assert row("What is measured, and how", mode)[1:] == [
        f"{', '.join(str(look.replicas) for look in rule.looks[:-1])} or {rule.replicas}"
        if rule.looks
        else str(rule.replicas),
        f"{rule.least_rounds} to {rule.most_rounds}",
        f"{rule.budget_s:.0f} s",
        f"{rule.turn_ms:.0f} ms",
        f"{turns.LEAST_SAMPLES} to {rule.turn_samples}",
        str(rule.input_sets),
        f"{rule.warm_up_ms:.0f} ms",
        f"{rule.cooling_s:.0f} s a run",
    ]


def test_the_rules_for_short_calls_and_low_clocks_are_the_codes() -> None:
    section = " ".join(SECTIONS["What is measured, and how"].split())
    short, batched = f"{turns.SHORT_MS * 1e3:.0f} µs", f"{turns.BATCH_BELOW_MS * 1e3:.0f} µs"
    assert f"under {short} a call, all arms under {batched}" in section
    assert f"graph of {turns.CALLS[0]} to {turns.CALLS[1]} calls" in section
    assert f"below {turns.THROTTLED_BELOW * 100:.0f} % of it" in section
    assert f"no wider than {turns.StopRule.of(quick=False, replicas=0).half_width * 100:.0f} %" in section


def test_when_a_quick_run_makes_a_second_pair_of_batches_is_the_codes() -> None:
    section = " ".join(SECTIONS["The life of a run"].split())
    assert f"where it is {outside.AGREE} times what the samples say" in section
    assert f"a baseline that is not {outside.CLEAR} times as slow by the judge's clock" in section


def test_the_statistics_numbers_are_the_codes() -> None:
    section = " ".join(SECTIONS["What is measured, and how"].split())
    spent = [f"{look.level:.3%}".replace("%", " %") for look in statistics.LOOKS]
    assert f"they spend {', '.join(spent[:-1])} and {spent[-1]} " in section
    assert f"at most {statistics.CLAIM:.0%} are to be called different, of those of a quick run " in section.replace(
        " %", "%"
    )
    assert f"of those of a quick run {statistics.QUICK_CLAIM * 100:.0f} %" in section
    two, three = (f"{look.margin * 100:.0f} %" for look in statistics.LOOKS[:2])
    assert f"Two replicas claim nothing below {two}, three nothing below {three}:" in section
    without, with_it = (f"{statistics.PRIORS['cuda'][kind].deviation * 100:g} %" for kind in ("held", "host"))
    assert f"{without} without host time and {with_it} with it, each worth one degree of freedom" in section
    assert f"newest {MOST_SPREADS} good runs" in section
    assert (statistics.FEWEST_RUNS, statistics.MOST_FREEDOM) == (10, 6.0)
    assert "worth at most six degrees of freedom; where they are fewer than ten" in section
    assert {prior.freedom for kinds in statistics.PRIORS.values() for prior in kinds.values()} == {1.0}
    assert f"F test at {statistics.APART * 100:.0f} %" in section
    assert f"reach beyond {statistics.WIDEST:.0f} times its middle" in section
    assert (
        f"at least {statistics.LEAST_FLOOR:.1%} ({statistics.QUICK_FLOOR:.0%} when quick)".replace("%", " %") in section
    )
    assert f"within {statistics.EQUIVALENCE * 100:.0f} % of 1" in section
    assert f"{arms.FINGERPRINT_TOLERANCE:.0e}".replace("e-0", "e-") in section
    assert f"{arms.INEXACT_TOLERANCE:.0e}".replace("e-0", "e-") in section
    assert f"read {1 / telemetry.PERIOD_S:.0f} times a second" in section


def test_the_limits_are_the_codes() -> None:
    limits = arms.Limits()
    told = {
        "torch, imported": f"{spawner.READY_LIMIT_S:.0f} s",
        "importing": f"{limits.compile_s:.0f} s",
        "any other": f"{limits.progress_s:.0f} s",
        "a whole run": f"{limits.total_s:.0f} s",
        "leaving": f"{limits.finish_s:.0f} s",
        "printed": f"{spawner.OUTPUT_LIMIT_BYTES >> 30} GiB, or {spawner.OUTPUT_RATE_BYTES_PER_S // 10**6} MB/s for "
        f"{spawner.OUTPUT_RATE_PATIENCE_S:.0f} s",
        "memory of": f"{guard.MEMORY_SHARE * 100:.0f} % of the machine's, or of what a control group leaves",
        "compiled files": f"{caches.MOST_FILES}, and {caches.MOST_BYTES >> 20} MiB",
        "all compiled": f"{caches.MOST_ENTRIES} keys, and {caches.MOST_STORED_BYTES >> 30} GiB",
        "processes of": str(guard.PROCESS_LIMIT),
        "a frame": f"{framing.MAX_FRAME_BYTES >> 20} MiB",
        "a client's": f"{journal.CLIENT_QUEUE_BYTES >> 20} MiB",
        "a request": f"{framing.MAX_REQUEST_BYTES >> 10} KiB",
        "connections that have said": str(connections.MOST_CONNECTIONS),
        "connections that have not": str(connections.MOST_GREETING),
        "the hello": f"{connections.HANDSHAKE_LIMIT_S:g} s",
        "answers that": str(connections.MOST_UNREAD),
        "unread answers": str(journal.MOST_REPLIES),
        "the journal": f"two files of {journal.KEPT_BYTES >> 20} MiB",
        "planned runs": str(answers.MOST_PLANNED),
        "watched": str(watches.MOST_WATCHES),
        "folders of": str(watch.MOST_PLACES),
        "a source": f"{sources.MAX_FILE_BYTES >> 20} MiB",
        "sources of": f"{sources.MAX_FILES}, and {sources.MAX_BYTES >> 20} MiB",
        "names in": str(sources.MAX_ENTRIES),
        "names behind": str(sources.MAX_SURVEYED),
        "remembered": str(connections.REMEMBERED_REPLIES),
    }
    assert {name: row("Limits", name)[1] for name in told} == told
    assert f"told every {pool.TELL_AFTER_S:.0f} s until then" in row("Limits", "torch, imported")[2]
    assert f"the last {snapshots.KEPT_LAYOUTS} source snapshots" in SECTIONS["Files"]
    assert f"{server.HOUSEKEEPING_S:g}" in row("Environment variables", "`AISP_HOUSEKEEPING_S`")[1]


def test_every_file_of_the_state_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    files = [paths.database_file(), paths.lock_file(), paths.pointer_file(), paths.log_file()]
    folders = [paths.journal_dir(), paths.snapshots_dir(), paths.work_dir(), paths.compiled_dir()]
    folders.append(paths.cache_links_dir())
    assert {path.name for path in files} | {f"{path.name}/" for path in folders} <= named("Files")
    assert paths.socket_file().suffix == ".sock"


def test_every_module_of_the_engine_has_its_place_on_the_page() -> None:
    modules = {path.name for path in (MAIN / "engine").glob("*.py")} - {"__init__.py"}
    on_page = {Path(n).name for n in named("Processes") if n.endswith(".py") and not n.startswith("store/")}
    assert on_page == modules
    assert {"engine/protocol/", "engine/worker/"} <= named("Processes")


def test_the_number_of_standbys_is_the_codes() -> None:
    words = {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
    assert f"**Standbys.** {words[slots.WARM_PROCESSES]} processes" in PAGE
    assert server.WARM_IDLE_S == 600
    assert "ten minutes" in SECTIONS["Processes"]
    assert pool.Pool(interpret=False).warm == 0


def test_every_file_that_the_page_names_is_there() -> None:
    files = set(re.findall(r"`((?:engine|tests|checks|kernels|protocol|store)/[\w/.]+)`", PAGE))
    missing = [name for name in sorted(files) if not (MAIN / name).exists() and not (MAIN / "engine" / name).exists()]
    assert len(files) > 20
    assert missing == []
    links = re.findall(r"\]\(([\w.]+)\)", PAGE)
    assert all((MAIN / "docs" / link).exists() for link in links)
