"""docs/audit.md from what the audits left in docs/audit/.

`python -m tests.proofs audit NAME DATABASE ...` reads the newest run of every fixture from stores that
`aisp dev audit` filled, and writes docs/audit/gallery_NAME.json. Proofs come from `python -m tests.proofs cheats`,
runs of lessons from `python -m tests.proofs honest`; both write their files there as well.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aisp.checks import registry
from aisp.engine import trust
from aisp.store.outcomes import State
from aisp.store.reader import History
from aisp.store.record import Run
from aisp.store.results.audit import judge, rungs_of
from aisp.store.results.reading import Reading
from aisp.tui import plain
from tests import recordings
from tests.proofs.audit.cheats import fixtures

DOCS = Path(__file__).resolve().parents[3] / "docs"
DATA = DOCS / "audit"
OUTCOMES = ("caught", "useless", "missed", "passed", "flagged", "unavailable")


def rows_of(fixture: str, record: Run) -> list[dict[str, Any]]:
    """One row for every rung of a fixture's run, the baseline only where something was held against it."""
    view = next(view for view in trust.fixtures() if view.target_id.replace(":", "/") == fixture)
    reading = Reading(record)
    rows = judge(view, {rung: reading for rung in rungs_of(view) if reading.arm(rung) is not None})
    return [
        {
            "fixture": fixture,
            "rung": row.rung,
            "kind": str(row.kind),
            "outcome": str(row.outcome),
            "checks": list(row.findings),
            "naive": row.naive_speedup,
            "accepts": row.naive_accepts,
            "ours": row.speedup,
            "why": row.evidence,
        }
        for row in rows
        if reading.arm(row.rung) is not None
    ]


def collect(databases: Sequence[Path]) -> list[dict[str, Any]]:
    """Rows of the newest finished run of every rung; later databases count as newer."""
    newest: dict[tuple[str, str], dict[str, Any] | None] = {}
    known = set(fixtures())
    for path in databases:
        for record in reversed(History(path).newest(2000)):
            fixture = record.target.replace(":", "/")
            if fixture not in known or not record.state.final or record.state in (State.CANCELLED, State.ENGINE_LOST):
                continue
            rows = {row["rung"]: row for row in rows_of(fixture, record)}
            newest |= {(fixture, arm.rung): rows.get(arm.rung) for arm in record.arms}
    told = [row for row in newest.values() if row is not None]
    return sorted(told, key=lambda row: (registry.CATEGORIES.index(row["fixture"].partition("/")[0]), row["fixture"]))


def _not_yet(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Fixtures that did not run, most of them as they were written since; a paragraph."""
    since = [f"`{fixture}`" for fixture in fixtures() if fixture not in {row["fixture"] for row in rows}]
    return [f"Not run there: {', '.join(since)}.", ""] if since else []


def _tally(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(row["outcome"] for row in rows)


def _matrix(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"| category | {' | '.join(OUTCOMES)} |", "|---|" + "---:|" * len(OUTCOMES)]
    for category in registry.CATEGORIES:
        tally = _tally([row for row in rows if row["fixture"].startswith(f"{category}/")])
        lines.append(f"| {category} | {' | '.join(str(tally[name]) for name in OUTCOMES)} |")
    tally = _tally(rows)
    return [*lines, f"| **all** | {' | '.join(f'**{tally[name]}**' for name in OUTCOMES)} |"]


def _times(value: float | None) -> str:
    return "–" if value is None else f"{plain.number(value, 3)}x"


def _cheats(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["| fixture | cheat | outcome | by | naive harness says | accepts |", "|---|---|---|---|---:|---|"]
    for row in rows:
        if row["kind"] == "cheat" and row["outcome"] != "unavailable":
            accepts = {True: "yes", False: "no", None: "–"}[row["accepts"]]
            by = ", ".join(f"`{name}`" for name in row["checks"]) or _times(row["ours"])
            cells = (f"`{row['fixture']}`", f"`{row['rung']}`", row["outcome"], by, _times(row["naive"]), accepts)
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _others(rows: Sequence[dict[str, Any]]) -> list[str]:
    told = [row for row in rows if row["outcome"] in ("missed", "flagged", "unavailable")]
    if not told:
        return ["Nothing was missed, flagged or unavailable."]
    lines = ["| fixture | rung | outcome | why |", "|---|---|---|---|"]
    return lines + [
        f"| `{row['fixture']}` | `{row['rung']}` | {row['outcome']} | {row['why'].replace('|', '/')[:160]} |"
        for row in told
    ]


def _load(name: str) -> Any:
    path = DATA / name
    return json.loads(path.read_text()) if path.exists() else None


def page() -> str:
    """The whole page."""
    lines = [
        "# How the audit came out",
        "",
        "This page is written by `python -m tests.proofs pages audit` from the files in `docs/audit/`, which the",
        "commands named below have left. A cheat is *caught* where a finding or the arm's end says so, *useless* where",
        "it passes and is no faster than its twin deserves, by its verdict or by its ratio, *missed* otherwise; a twin",
        "is *passed* or *flagged*. The naive harness is one pair of events around ten calls in one process, with",
        "`torch.allclose` at 1e-2 on one shape.",
        "",
    ]
    for name, title in (("h100", "On an H100"), ("cpu", "Without a GPU")):
        rows = _load(f"gallery_{name}.json")
        if rows is None:
            continue
        tally = _tally(rows)
        caught, cheats = tally["caught"], tally["caught"] + tally["useless"] + tally["missed"]
        were = "was" if tally["useless"] == 1 else "were"
        lines += [
            f"## {title}",
            "",
            f"`aisp dev audit`: {caught} of {cheats} cheats that ran were caught, {tally['useless']} {were} useless, "
            f"{tally['missed']} missed;",
            f"of {tally['passed'] + tally['flagged']} honest rungs {tally['flagged']} were flagged.",
            "",
            *_matrix(rows),
            "",
            *_not_yet(rows),
            "What was missed, flagged or could not run:",
            "",
            *_others(rows),
            "",
            "Every cheat that ran:",
            "",
            *_cheats(rows),
            "",
        ]
    for name, title in (("h100", "on an H100"), ("cpu", "without a GPU")):
        told = _load(f"honest_{name}.json")
        if told is None:
            continue
        lines += [
            f"## Shipped lessons, {title}",
            "",
            "`python -m tests.proofs honest`: every lesson again and again. What was held against any of its rungs:",
            "",
            "| lesson | runs | ended | against it |",
            "|---|---:|---|---|",
        ]
        for entry in told["targets"]:
            states = ", ".join(f"{count} {state}" for state, count in entry["states"].items())
            against = "; ".join(f"{count} x {what}" for what, count in entry["against"].items()) or "nothing"
            lines.append(f"| `{entry['target']}` | {entry['runs']} | {states} | {against} |")
        lines += [""]
    for name, title in (("cpu", "without a GPU"), ("h100", "on an H100")):
        told = _load(f"proofs_{name}.json")
        if told is None:
            continue
        lines += [
            f"## Each check by its cheat, {title}",
            "",
            "`python -m tests.proofs cheats`: with all the checks that catch it left out the cheat passes; with this",
            "one put back it is caught by it alone. `make audit` repeats it.",
            "",
            f"{len(told['proofs'])} checks are proven so. The cheats, and what it took to let them pass:",
            "",
            "| check | cheat | left out beside it |",
            "|---|---|---|",
        ]
        for proof in told["proofs"]:
            others = ", ".join(f"`{other}`" for other in proof["others"]) or "nothing"
            lines.append(f"| `{proof['check']}` | `{proof['fixture']}` `{proof['cheat']}` | {others} |")
        lines += ["", "Not proven here, and why:", "", "| check | why |", "|---|---|"]
        lines += [f"| `{check}` | {why.replace('|', '/')[:200]} |" for check, why in told["unproven"].items()]
        lines += [""]
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs audit")
    parser.add_argument("name", metavar="NAME", help="of the machine's kind, as in gallery_NAME.json")
    parser.add_argument("databases", nargs="+", type=Path, metavar="DATABASE")
    arguments = parser.parse_args()
    recordings.write(DATA / f"gallery_{arguments.name}.json", collect(arguments.databases))


if __name__ == "__main__":
    main()
