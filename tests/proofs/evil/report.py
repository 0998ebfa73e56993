"""docs/reliability.md, from what `python -m tests.proofs evil`, `tests.proofs.chaos` and `tests.proofs.fuzz` measured.

Nothing on the page is typed but the sentences. A part that was not measured says so.
"""

from __future__ import annotations

import json
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import recordings

MAIN = Path(__file__).parents[3]
DATA = MAIN / "docs" / "reliability"

UNITS = {"bytes_per_s": "bytes/s", "bytes": "bytes", "kib": "KiB", "mib": "MiB", "ms": "ms", "us": "us", "s": "s"}
NONE = "–"


def write(folder: Path, name: str, data: dict[str, Any]) -> Path:
    """Put figures into FOLDER/NAME.json with the versions that they hold for."""
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "system": platform.system()}
    path = folder / f"{name}.json"
    recordings.write(path, {"versions": versions} | data)
    return path


def load(folder: Path) -> dict[str, Any]:
    """Every file of figures by its name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


def page(data: Mapping[str, Any]) -> str:
    """The whole page."""
    told = [
        "# What it survives",
        "",
        "This page is written by `python -m tests.proofs pages reliability` from the files in `docs/reliability/`.",
        "They are left by programs that do to the real engine what they say: nothing is simulated unless it says so.",
        "",
        "What is promised:",
        "",
        "- Every run that was planned has one end, of a kind that has a name, and a reason in words.",
        "- Success is a done frame with count and hash, times that are finite, above zero and no more than the wall",
        "  clock saw, and an exit of its own. Everything else is a failure with a name.",
        "- What was stored stays, bit for bit, whoever is killed, and when.",
        "- No lesson harms its siblings, the engine, or the next run, which is under way within a second.",
        "- Nothing of ours is left behind: no process, descriptor, socket, shared memory or temporary file. What a",
        "  kernel gives a name in `/dev/shm` stays.",
        "- What could not be had (clocks, inotify, a disk with room) is told where the numbers are shown.",
        "",
        *_repeating(),
        *_matrix(data, "cpu", "The fault matrix"),
        *_matrix(data, "gpu", "The fault matrix on a GPU"),
        *_part(
            data, "chaos", "Killed at any moment", "python -m tests.proofs chaos --record docs/reliability/chaos.json"
        ),
        *_part(
            data, "longlife", "A long life", "python -m tests.proofs chaos life --record docs/reliability/longlife.json"
        ),
        *_part(data, "fuzz", "Nonsense on the line and in lessons", "python -m tests.proofs fuzz"),
        *_protections(data),
        *_stubbed(data),
    ]
    return "\n".join(told).rstrip() + "\n"


def _repeating() -> list[str]:
    return [
        "## How to repeat it",
        "",
        "```sh",
        "python -m tests.proofs evil matrix                # every fault that needs no GPU, one after the other",
        "python -m tests.proofs evil matrix --only 7 12    # some rows of it, shown and not recorded",
        "python -m tests.proofs evil matrix --gpu          # those that need one",
        "python -m tests.proofs evil protections           # protections taken out in a copy: which scenes notice",
        "make chaos                                 # the kill loop",
        "python -m tests.proofs pages reliability          # this page",
        "```",
        "",
    ]


# -- the matrix --------------------------------------------------------------------------------------------------------


def _matrix(data: Mapping[str, Any], name: str, title: str) -> list[str]:
    figures = data.get(f"matrix_{name}")
    flag = " --gpu" if name == "gpu" else ""
    if figures is None:
        return [f"## {title}", "", f"Not measured: `python -m tests.proofs evil matrix{flag}` was not recorded.", ""]
    rows: Sequence[Mapping[str, Any]] = figures["rows"]
    passed = sum(row["passed"] for row in rows)
    kinds = len({row["row"] for row in rows})
    starts_s = sorted(row["next_run_s"] for row in rows if row.get("next_run_s") is not None)
    growth_bytes = [row["growth_bytes"] for row in rows if row.get("growth_bytes") is not None]
    told = [
        f"## {title}",
        "",
        f"{figures['device']}, {_versions(figures)}: **{passed} of {len(rows)} scenes of {kinds} faults ended as they "
        f"must**, in {value('took_s', figures['took_s'])}.",
    ]
    if starts_s:
        told.append(
            f"The next run was under way after {starts_s[len(starts_s) // 2]:.2f} s in the middle and "
            f"{starts_s[-1]:.2f} s at most"
            + (f"; the engine grew by {max(growth_bytes) / 2**20:.1f} MiB at most." if growth_bytes else ".")
        )
    if again := figures.get("again"):
        told.append(f"Played again after the others, and recorded in place of what there was: {', '.join(again)}.")
    told += [
        "",
        "| row | fault | what must come of it | what was seen | | next run | growth |",
        "|---:|---|---|---|---|---:|---:|",
    ]
    for row in rows:
        start, growth = row.get("next_run_s"), row.get("growth_bytes")
        cells = [
            str(row["row"]),
            row["what"],
            row["expected"],
            row["seen"] + ("; in part a stub" if row.get("stubbed") else ""),
            "held" if row["passed"] else "**BROKEN**",
            NONE if start is None else f"{start:.2f} s",
            NONE if growth is None else f"{growth / 2**20:.1f} MiB",
        ]
        told.append(_line(cells))
    return [*told, ""]


def _stubbed(data: Mapping[str, Any]) -> list[str]:
    """Scenes that had to pretend, and rows that no recording has."""
    rows = [row for name in ("matrix_cpu", "matrix_gpu") for row in data.get(name, {}).get("rows", [])]
    told = ["## What could not be injected", ""]
    stubs = [f"- Row {row['row']}, {row['what']}: {row['stubbed']}" for row in rows if row.get("stubbed")]
    if not rows:
        return [*told, "Not measured: no matrix was recorded.", ""]
    return [*told, *(stubs or ["Every fault was made to happen; no scene pretends."]), ""]


# -- protections -------------------------------------------------------------------------------------------------------


def _protections(data: Mapping[str, Any]) -> list[str]:
    told = ["## Protections taken out", ""]
    figures = data.get("protections")
    if figures is None:
        return [*told, "Not measured: `python -m tests.proofs evil protections` was not recorded.", ""]
    idle = [item["name"] for item in figures["protections"] if not item["noticed"]]
    told += [
        f"Each in a copy of the sources that lacks it, {_versions(figures)}. A protection that nobody misses is none,",
        "or is not tested; "
        + (f"**nobody missed: {', '.join(idle)}**." if idle else "each was missed by at least one scene."),
        "",
        "| protection | without it | scenes that broke | what they saw | scenes that held |",
        "|---|---|---|---|---|",
    ]
    for item in figures["protections"]:
        broke = [f"`{scene['id']}`" for scene in item["noticed"]]
        saw = [scene["seen"] for scene in item["noticed"]]
        held = [f"`{name}`" for name in item["held"]]
        cells = [item["name"], item["what"], ", ".join(broke) or "**none**", "; ".join(saw), ", ".join(held) or NONE]
        told.append(_line(cells))
    return [*told, ""]


# -- parts that are told as they are -----------------------------------------------------------------------------------


def _part(data: Mapping[str, Any], name: str, title: str, command: str) -> list[str]:
    figures = data.get(name)
    if figures is None:
        return [f"## {title}", "", f"Not measured: `{command}` was not recorded.", ""]
    versions = f"{_versions(figures)}." if "versions" in figures else ""
    return [f"## {title}", "", *([versions, ""] if versions else []), *tables(figures, 3)]


def tables(figures: Mapping[str, Any], level: int) -> list[str]:
    """Any figures as tables: plain values by name, lists of records with a column per key, the rest below headings."""
    plain = {key: found for key, found in figures.items() if key != "versions" and not _is_table(found)}
    told: list[str] = []
    flat = dict(_flat(plain))
    if flat:
        told += ["| what | figure |", "|---|---|"]
        told += [_line([label(key), value(key, found)]) for key, found in flat.items()]
        told.append("")
    for key, found in figures.items():
        if key == "versions" or not _is_table(found):
            continue
        told += [f"{'#' * min(level, 6)} {label(key).capitalize()}", ""]
        if isinstance(found, Mapping):
            told += tables(found, level + 1)
            continue
        columns = list(dict.fromkeys(column for record in found for column in record))
        told += [_line([_heading(column) for column in columns]), "|" + "---:|" * len(columns)]
        told += [_line([value(c, record.get(c), unit=False) for c in columns]) for record in found]
        told.append("")
    return told


def _is_table(found: Any) -> bool:
    """Whether it gets a heading: a list of records, or something with such a list or with much in it."""
    if isinstance(found, Mapping):
        return any(_is_table(inner) for inner in found.values()) or len(found) > 8
    return isinstance(found, list) and bool(found) and all(isinstance(record, Mapping) for record in found)


def _flat(figures: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, inner in figures.items():
        name = f"{label(above)}: {key}" if above else key
        if above and _unit(above) and not _unit(key):
            name += f"_{_unit(above)}"  # "restart_s": {"median": 0.4}
        found += _flat(inner, name) if isinstance(inner, Mapping) else [(name, inner)]
    return found


def _unit(key: str) -> str:
    """The unit that a name ends with, "" where it ends with none."""
    for suffix in UNITS:
        if key.endswith(f"_{suffix}"):
            return suffix
    return ""


def label(key: str) -> str:
    """A key as words, without its unit: "peak_traced_bytes" is "peak traced"."""
    suffix = _unit(key)
    return (key[: -len(suffix) - 1] if suffix else key).replace("_", " ")


def _heading(key: str) -> str:
    suffix = _unit(key)
    unit = "MiB" if suffix == "bytes" else UNITS.get(suffix, "")
    return f"{label(key)} ({unit})" if unit else label(key)


def value(key: str, found: Any, *, unit: bool = True) -> str:
    """A figure in the unit that its name carries."""
    suffix = _unit(key)
    if found is None:
        return NONE
    if isinstance(found, list):
        return "; ".join(str(item) for item in found) or "none"
    if isinstance(found, bool) or not isinstance(found, int | float):
        return str(found)
    if suffix == "bytes":
        return f"{found / 2**20:,.1f}" + (" MiB" if unit else "")
    number = f"{found:,}" if isinstance(found, int) else f"{found:,.4g}" if abs(found) < 1000 else f"{found:,.0f}"
    return number + (f" {UNITS[suffix]}" if suffix and unit else "")


# -- parts -------------------------------------------------------------------------------------------------------------


def _versions(figures: Mapping[str, Any]) -> str:
    versions = figures["versions"]
    return f"Python {versions['python']}, SQLite {versions['sqlite']}, {versions['system']}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
