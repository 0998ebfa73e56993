"""Records to rows and back, and the hash over the rows of a run or a peak. The one place that knows both shapes.

A value that SQLite cannot hold is made one that it can, before it is hashed: NaN becomes NULL (unknown), half
of a surrogate pair an escape, -0.0 becomes 0.0, and evidence beyond `EVIDENCE_CHARS` is cut. Everything else comes back
equal, bit for bit. `light`, `quality`, `naive`, `rule` and `ranks` are JSON objects without what is unknown, so that a
member added later does not change older hashes; JSON has no infinity, which becomes unknown there. In a fuzz and its
failures, where an infinite error is an answer, what is not finite is kept as a text instead.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from aisp.store import seal
from aisp.store.content import canonical_json, label, pack_findings, unpack_findings
from aisp.store.migrations import HIDDEN
from aisp.store.migrations import version as schema_version
from aisp.store.outcomes import (
    CHANGED_REASON,
    Correctness,
    FindingStatus,
    Limiter,
    State,
    Timing,
    Trigger,
    Validity,
    Verdict,
)
from aisp.store.record import (
    Arm,
    Ceiling,
    Comparison,
    ContradictionError,
    Failure,
    Finding,
    Fuzz,
    LinkUse,
    Naive,
    Peak,
    Quality,
    Quarantine,
    Rank,
    Ranks,
    RooflineBound,
    RuleSaid,
    Run,
    Step,
)
from aisp.store.seal import FINDINGS_SINCE, Row, chunks, sealed, sha256, without_nulls

RUN_COLUMNS = (
    *(
        "id",
        "target",
        "folder",
        "title",
        "device",
        "case",
        "quick",
        "trigger",
        "seed",
        "epoch",
        "seq",
        "wall",
    ),
    *("snapshot", "state", "correctness", "validity", "verdict", "attempt", "start_ns", "duration_ms"),
    *("reason", "environment", "manifest", "flags"),
)
ARM_COLUMNS = tuple(name for name in Arm.__struct_fields__ if name not in ("role", "twin"))  # which its name says
COMPARISON_COLUMNS = Comparison.__struct_fields__
STEP_COLUMNS = tuple(name for name in Step.__struct_fields__ if name != "detail")
CEILING_COLUMNS = Ceiling.__struct_fields__
PEAK_COLUMNS = ("id", "gpu", "gpu_uuid", "wall", "environment")
LIGHT_MEMBERS = RooflineBound.__struct_fields__
LINK_MEMBERS = LinkUse.__struct_fields__
QUALITY_MEMBERS = Quality.__struct_fields__
NAIVE_MEMBERS = Naive.__struct_fields__
RULE_MEMBERS = RuleSaid.__struct_fields__
RANKS_MEMBERS, RANK_MEMBERS = Ranks.__struct_fields__, Rank.__struct_fields__
FINDINGS_COLUMNS = ("run", "count", "notable", "others")
FUZZ_COLUMNS = ("id", "target", "folder", "device", "wall", "state", "content", "sha256")
FAILURE_COLUMNS = ("id", "target", "rung", "wall", "content", "sha256")
QUARANTINE_COLUMNS = ("folder", "rung", "code", "target", "run", "check", "evidence", "wall")

NO_SEED = "-"
"""In the column of a run that has not ended, or whose engine was lost: its seed is not known here."""
EVIDENCE_CHARS = 2000
"""Longest evidence of a finding; what goes beyond is cut, with an ellipsis."""
NOTABLE = frozenset({FindingStatus.CAUGHT.value, FindingStatus.SUSPECT.value})
"""Findings that every list carries; the others are read where all are asked for."""

PEAKS_SINCE = 3
"""Schema version from which there are the tables peaks and ceilings."""
IN_FORCE = "ended_by IS NULL"
"""Condition of a quarantine that has neither been lifted nor given way to a newer one."""
FUZZES_SINCE = 5
"""Schema version from which there are the tables fuzzes and failures."""
_SINCE: Mapping[str, tuple[tuple[int, frozenset[str]], ...]] = {
    "arms": (
        (3, frozenset({"calls", "sm_clock_mhz", "light", "quality"})),
        (4, frozenset({"naive"})),
        (8, frozenset({"launches"})),
        (9, frozenset({"rule"})),
        (10, frozenset({"ranks"})),
        (11, frozenset({"failing_case"})),
    ),
    "comparisons": ((3, frozenset({"cycles", "cycles_low", "cycles_high", "p_value"})),),
}
"""Columns that an older file lacks, by table, with the schema version that brought them."""

NEEDED_COLUMNS: Mapping[str, frozenset[str]] = {
    "runs": frozenset({"number", "sha256", *RUN_COLUMNS}),
    "manifests": frozenset({"hash", "content"}),
    "environments": frozenset({"hash", "content"}),
    "arms": frozenset({"run", "position", *ARM_COLUMNS}),
    "comparisons": frozenset({"run", "position", *COMPARISON_COLUMNS}),
    "steps": frozenset({"run", "position", *STEP_COLUMNS}),
    "findings": frozenset(FINDINGS_COLUMNS),
    "quarantines": frozenset({"number", "ended_by", *QUARANTINE_COLUMNS}),
    "snapshot_files": frozenset({"snapshot", "name", "source"}),
    "snapshots": frozenset({"hash"}),
    "sources": frozenset({"sha256", "content"}),
    "samples": frozenset({"run", "rung", "count", "sha256"}),
    "telemetry": frozenset({"run", "count", "sha256"}),
    "peaks": frozenset({"number", "sha256", *PEAK_COLUMNS}),
    "ceilings": frozenset({"peak", "position", *CEILING_COLUMNS}),
    "fuzzes": frozenset({"number", *FUZZ_COLUMNS}),
    "failures": frozenset({"number", "fuzz", *FAILURE_COLUMNS}),
}
"""What a reader needs to find in a file, whatever its schema version."""

_REAL = frozenset(
    {
        *("duration_ms", "median_ms", "low_ms", "high_ms", "sm_clock_mhz", "sol", "max_error"),
        *("speedup", "low", "high", "floor", "cycles", "cycles_low", "cycles_high", "p_value"),
        *("value", "memory_clock_mhz"),
    }
)


def _column(name: str, value: object) -> int | float | str | bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return label(value)
    if isinstance(value, RooflineBound | Quality | Naive | RuleSaid | Ranks):
        return _json(value)
    if name in _REAL:
        number = float(value)  # type: ignore[arg-type]
        return None if math.isnan(number) else number + 0.0
    whole = _whole(name, value)
    if not -(2**63) <= whole < 2**63:
        raise ContradictionError(f"{name} must fit into 64 bits, {whole} does not")
    return whole


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ContradictionError(f"{name} must be a whole number, a text or None, not {value!r}") from None


def _json(record: RooflineBound | Quality | Naive | RuleSaid | Ranks) -> str:
    return json.dumps(_members_of(record), sort_keys=True, separators=(",", ":"))


def _members_of(record: msgspec.Struct) -> dict[str, Any]:
    """The members of a record without what is unknown."""
    members: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(record).items():
        if isinstance(value, str):
            if value:
                members[name] = label(str(value))
        elif isinstance(value, bool):
            members[name] = value
        elif isinstance(value, msgspec.Struct):
            members[name] = _members_of(value)
        elif isinstance(value, tuple):
            members[name] = [_members_of(each) for each in value]
        elif value is not None and math.isfinite(value):
            members[name] = float(value)
    return members


def _members(text: str, names: Sequence[str]) -> dict[str, Any]:
    return _made(json.loads(text), names)


def _made(document: object, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError(f"{document!r} is no JSON object")
    made: dict[str, Callable[[Any], Any]] = {"limiter": Limiter, "accepts": _truth, "note": str}  # others are numbers
    made |= dict.fromkeys(("right_by_stated", "right_by_derived", "outside_read", "outside_sets", "cores"), int)
    made |= {"link": _link, "over": Limiter, "each": _each}
    made |= dict.fromkeys(("right", "alone", "measured"), _truth) | dict.fromkeys(
        ("name", "detail", "ours", "inside"), str
    )
    return {name: made.get(name, float)(document[name]) for name in names if name in document}


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _light(text: str | None) -> RooflineBound | None:
    return None if text is None else RooflineBound(**_members(text, LIGHT_MEMBERS))


def _link(document: object) -> LinkUse:
    return LinkUse(**_made(document, LINK_MEMBERS))


def _quality(text: str | None) -> Quality | None:
    return None if text is None else Quality(**_members(text, QUALITY_MEMBERS))


def _naive(text: str | None) -> Naive | None:
    return None if text is None else Naive(**_members(text, NAIVE_MEMBERS))


def _rule(text: str | None) -> RuleSaid | None:
    return None if text is None else RuleSaid(**_members(text, RULE_MEMBERS))


def _ranks(text: str | None) -> Ranks | None:
    return None if text is None else Ranks(**_members(text, RANKS_MEMBERS))


def _each(document: object) -> tuple[Rank, ...]:
    if not isinstance(document, list):
        raise ValueError(f"{document!r} is no list of ranks")
    return tuple(Rank(**_made(rank, RANK_MEMBERS)) for rank in document)


def _findings(findings: Sequence[Finding]) -> Row | None:
    items = [[label(f.check), label(f.arm), f.status.value, label(_cut(f.evidence))] for f in findings]
    return pack_findings(items, NOTABLE) if items else None


def _cut(evidence: str) -> str:
    return evidence if len(evidence) <= EVIDENCE_CHARS else evidence[: EVIDENCE_CHARS - 1] + "…"


# Most of what checks say is the same in run after run, and a record is frozen: one may stand in many.
@functools.lru_cache(maxsize=4096)
def _finding(check: str, arm: str, status: str, evidence: str) -> Finding:
    return Finding(check, arm, FindingStatus(status), evidence)


def _rows(records: Iterable[Any], columns: Sequence[str]) -> list[Row]:
    return [
        {"position": position} | {name: _column(name, getattr(record, name)) for name in columns}
        for position, record in enumerate(records)
    ]


@dataclass(slots=True)
class RunRows:
    """A run as it lies in the tables; `run` has RUN_COLUMNS, `manifest` is the JSON that its hash names.

    `findings` is None where there are none; `sealed` is the digest that was written with the run, None before its end.
    """

    run: Row
    manifest: str
    arms: list[Row]
    comparisons: list[Row]
    steps: list[Row]
    findings: Row | None = None
    sealed: str | None = None

    @classmethod
    def of(cls, record: Run) -> RunRows:
        """The rows of a record.

        Raises ContradictionError for two arms of one name, or for comparisons of a run that goes on, which are
        preliminary; ValueError for a manifest that JSON cannot say.
        """
        if not record.state.final and record.comparisons:
            raise ContradictionError(f"run {record.id}: results before its end")
        rungs = [label(arm.rung) for arm in record.arms]
        twice = sorted({rung for rung in rungs if rungs.count(rung) > 1})
        if twice:
            raise ContradictionError(f"run {record.id}: more than one arm is called {', '.join(twice)}")
        manifest = canonical_json(record.manifest, f"the manifest of run {record.id}")
        special: Row = {
            # Text: a seed may need all 64 bits.
            "seed": NO_SEED if record.seed is None else str(_whole("seed", record.seed)),
            "manifest": sha256(manifest.encode("ascii")),
            "flags": json.dumps(list(record.flags)),
        }
        run = {name: special[name] if name in special else _column(name, getattr(record, name)) for name in RUN_COLUMNS}
        return cls(
            run=run,
            manifest=manifest,
            arms=_rows(record.arms, ARM_COLUMNS),
            comparisons=_rows(record.comparisons, COMPARISON_COLUMNS),
            steps=_rows(record.steps, STEP_COLUMNS),
            findings=_findings(record.findings),
        )

    def record(self, *, all_findings: bool = True) -> Run:
        """The record, with the notable findings alone unless all are wanted.

        Raises ContradictionError where the rows cannot all be true.
        """
        run, findings = self.run, self.findings
        if findings and not all_findings:
            findings = {**findings, "others": None}
        try:
            if sha256(self.manifest.encode("utf-8")) != run["manifest"]:
                raise ContradictionError("its manifest is not the one it was planned with")
            return Run(
                **{
                    **{name: run[name] for name in RUN_COLUMNS},
                    "quick": bool(run["quick"]),
                    "seed": None if run["seed"] == NO_SEED else int(run["seed"]),
                    "trigger": Trigger(run["trigger"]),
                    "state": State(run["state"]),
                    "correctness": Correctness(run["correctness"]),
                    "validity": Validity(run["validity"]),
                    "verdict": Verdict(run["verdict"]),
                    "manifest": json.loads(self.manifest),
                    "flags": tuple(json.loads(run["flags"])),
                },
                arms=tuple(_arm(row) for row in self.arms),
                comparisons=tuple(_comparison(row) for row in self.comparisons),
                steps=tuple(Step(**{name: row[name] for name in STEP_COLUMNS}) for row in self.steps),
                findings=tuple(_finding(*item) for item in unpack_findings(findings)) if findings else (),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ContradictionError(
                f"the rows of run {run.get('id')} cannot all be true ({error}): "
                "they were changed after they were written"
            ) from error

    def digest(self, samples: Mapping[str, str], telemetry: str) -> str:
        """sha256 over the run's content.

        NULL, empty text and findings that there are not are left out, so that what is added later does not change
        older hashes. Raises ValueError for findings that do not unpack.

        Args:
            samples: sha256 of the arrays by rung.
            telemetry: sha256 of the arrays, "" where there are none.
        """
        findings = seal.findings_hash(self.findings) if self.findings else ""
        return seal.digest(self.run, self.arms, self.comparisons, self.steps, samples, telemetry, findings)

    def fits(self, samples: Mapping[str, str], telemetry: str) -> bool:
        """Whether the run is the one that was sealed; one that has not ended has no seal to fit."""
        try:
            return self.sealed is None or self.sealed == self.digest(samples, telemetry)
        except (ValueError, TypeError):  # findings that do not unpack, a value that no record has
            return False


@dataclass(slots=True)
class PeakRows:
    """A peak as it lies in the tables; `peak` has PEAK_COLUMNS."""

    peak: Row
    ceilings: list[Row]

    @classmethod
    def of(cls, record: Peak) -> PeakRows:
        """The rows of a peak."""
        peak = {name: _column(name, getattr(record, name)) for name in PEAK_COLUMNS}
        return cls(peak, _rows(record.ceilings, CEILING_COLUMNS))

    def record(self, sealed: str) -> Peak:
        """The peak. Raises ContradictionError where it is not the one that `sealed`, its sha256, was made over."""
        if self.digest() != sealed:
            raise ContradictionError(f"peak {self.peak['id']} is not what was written: measure it again")
        return Peak(
            **self.peak,
            ceilings=tuple(Ceiling(**{name: row[name] for name in CEILING_COLUMNS}) for row in self.ceilings),
        )

    def digest(self) -> str:
        """sha256 over the content; NULL and empty text are left out, as in a run's."""
        return sealed({"peak": without_nulls(self.peak), "ceilings": [without_nulls(row) for row in self.ceilings]})


def _arm(row: Row) -> Arm:
    return Arm(
        **{
            **{name: row[name] for name in ARM_COLUMNS},
            "state": State(row["state"]),
            "correctness": Correctness(row["correctness"]),
            "timing": Timing(row["timing"]),
            "light": _light(row["light"]),
            "quality": _quality(row["quality"]),
            "naive": _naive(row["naive"]),
            "rule": _rule(row["rule"]),
            "ranks": _ranks(row["ranks"]),
            "signal_sent_by_us": bool(row["signal_sent_by_us"]),
            "dirty_exit": bool(row["dirty_exit"]),
        }
    )


def _comparison(row: Row) -> Comparison:
    return Comparison(**{**{name: row[name] for name in COMPARISON_COLUMNS}, "verdict": Verdict(row["verdict"])})


def fetch(connection: sqlite3.Connection, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
    """All rows of a query, by column name."""
    cursor = connection.execute(sql, tuple(parameters))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]


def load_runs(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, RunRows]:
    """The rows of the runs with these numbers, in the order of `numbers`; unknown numbers are left out.

    Call it inside a transaction, so that all tables are seen at one moment. What an older file has no
    column for is None.
    """
    runs: dict[int, RunRows] = {}
    version = schema_version(connection)
    columns = ", ".join(f'runs."{name}" AS "{name}"' for name in RUN_COLUMNS)
    for chunk, marks in chunks(numbers):
        for row in fetch(
            connection,
            f"SELECT runs.number AS number, {columns}, sha256, coalesce(manifests.content, '') AS content FROM runs "
            f"LEFT JOIN manifests ON manifests.hash = runs.manifest WHERE runs.number IN ({marks})",
            chunk,
        ):
            number, content, sealed = row.pop("number"), row.pop("content"), row.pop("sha256")
            runs[number] = RunRows(row, content, [], [], [], sealed=sealed)
        for table, kept in (
            ("arms", ARM_COLUMNS),
            ("comparisons", COMPARISON_COLUMNS),
            ("steps", STEP_COLUMNS),
        ):
            lacking: Row = {}
            for since, added in _SINCE.get(table, ()):
                lacking |= dict.fromkeys(added if version < since else ())
            names = ", ".join(f'"{name}"' for name in ("run", "position", *kept) if name not in lacking)
            for row in fetch(
                connection,
                f"SELECT {names} FROM {table} WHERE run IN ({marks}) ORDER BY run, position",
                chunk,
            ):
                number = row.pop("run")
                if number in runs:  # a child without its run is damage that quick_check does not look for
                    getattr(runs[number], table).append(row | lacking)
        if version < FINDINGS_SINCE:
            continue
        for row in fetch(connection, f"SELECT run, count, notable, others FROM findings WHERE run IN ({marks})", chunk):
            number = row.pop("run")
            if number in runs:
                runs[number].findings = row
    return {number: runs[number] for number in numbers if number in runs}


def load_hidden(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, dict[int, str]]:
    """Comparisons whose figures may not be shown: by run and position, with what to say instead."""
    hidden: dict[int, dict[int, str]] = {}
    if schema_version(connection) < FINDINGS_SINCE or not fetch(connection, "SELECT 1 FROM quarantines LIMIT 1"):
        return hidden
    for chunk, marks in chunks(numbers):
        sql = f"SELECT * FROM ({HIDDEN}) WHERE run IN ({marks}) ORDER BY run, position, rung"
        for row in fetch(connection, sql, chunk):
            sentence = f"quarantined: {row['check']}: {row['evidence']}"
            hidden.setdefault(row["run"], {}).setdefault(row["position"], sentence)
    return hidden


def without_figures(record: Run) -> Run:
    """What may be shown of a run that is not what was written: its name, and that it was changed."""
    return msgspec.structs.replace(
        record,
        state=State.CHANGED,
        correctness=Correctness.UNKNOWN,
        validity=Validity.UNKNOWN,
        verdict=Verdict.NONE,
        start_ns=None,
        duration_ms=None,
        reason=CHANGED_REASON,
        flags=(),
        arms=(),
        comparisons=(),
        steps=(),
        findings=(),
    )


def masked(record: Run, hidden: Mapping[int, str]) -> Run:
    """The record without the figures that may not be shown, and then without a verdict.

    Args:
        record: as it was written.
        hidden: positions of comparisons and what to say instead, see `load_hidden`.
    """
    if not hidden:
        return record
    comparisons = tuple(
        ratio.without_figures(hidden[position]) if position in hidden else ratio
        for position, ratio in enumerate(record.comparisons)
    )
    return msgspec.structs.replace(record, comparisons=comparisons, verdict=Verdict.NONE)


def load_quarantines(connection: sqlite3.Connection, condition: str, parameters: Sequence[object]) -> list[Quarantine]:
    """Quarantines for which the SQL condition holds, newest first; none in a file from before there were any."""
    if schema_version(connection) < FINDINGS_SINCE:
        return []
    columns = ", ".join(f'"{name}"' for name in QUARANTINE_COLUMNS)
    rows = fetch(connection, f"SELECT {columns} FROM quarantines WHERE {condition} ORDER BY number DESC", parameters)
    return [Quarantine(**{"run_id" if name == "run" else name: value for name, value in row.items()}) for row in rows]


def load_peaks(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[PeakRows, str]]:
    """The rows of the peaks with these numbers, each with the sha256 that seals it, in the order of `numbers`."""
    columns = ", ".join(f'"{name}"' for name in PEAK_COLUMNS)
    members = ", ".join(f'"{name}"' for name in ("position", *CEILING_COLUMNS))
    for number in numbers:
        peak = fetch(connection, f"SELECT {columns}, sha256 FROM peaks WHERE number = ?", [number])[0]
        sealed = str(peak.pop("sha256"))
        ceilings = fetch(connection, f"SELECT {members} FROM ceilings WHERE peak = ? ORDER BY position", [number])
        yield PeakRows(peak, ceilings), sealed


# -- fuzzes ------------------------------------------------------------------------------------------------------------

_CHANGED = (ContradictionError, KeyError, TypeError, ValueError, AttributeError)
"""What `of` raises for data that no `plain` has made."""


def fuzz_row(record: Fuzz) -> Row:
    """A fuzz as it lies in its table, FUZZ_COLUMNS. Raises ValueError for what JSON cannot say."""
    text = canonical_json(_spelled(record.plain()), f"fuzz {record.id}")
    return {**_fuzz_columns(record), "content": text, "sha256": sha256(text.encode("ascii"))}


def failure_row(record: Failure) -> Row:
    """A failing case as it lies in its table, FAILURE_COLUMNS. Raises ValueError for what JSON cannot say."""
    text = canonical_json(_spelled(record.plain()), f"failure {record.id}")
    return {**_failure_columns(record), "content": text, "sha256": sha256(text.encode("ascii"))}


def fuzz_of(row: Row) -> Fuzz:
    """The inverse of `fuzz_row`. Raises ContradictionError where it is not what was written."""
    try:
        data = _unchanged(row)
        for rung in data["rungs"]:
            rung["max_error"], rung["took_ms"] = _float(rung["max_error"]), float(rung["took_ms"])
        record = Fuzz.of({**data, "duration_ms": _float(data["duration_ms"])})
        _same(row, _fuzz_columns(record))
        return record
    except _CHANGED as error:
        raise ContradictionError(
            f"fuzz {row['id']} is not what was written ({error}): `aisp fuzz` makes another"
        ) from error


def failure_of(row: Row) -> Failure:
    """The inverse of `failure_row`. Raises ContradictionError where it is not what was written."""
    try:
        data = _unchanged(row)
        figures = {name: float(value) for name, value in data["statistics"].items()}
        record = Failure.of({**data, "statistics": figures})
        _same(row, _failure_columns(record))
        return record
    except _CHANGED as error:
        raise ContradictionError(
            f"failure {row['id']} is not what was written ({error}): `aisp fuzz` with its seed finds it again"
        ) from error


def load_fuzzes(connection: sqlite3.Connection, condition: str, parameters: Sequence[object]) -> list[Row]:
    """Rows of fuzzes, FUZZ_COLUMNS, for an SQL condition with its order; none in a file from before there were any."""
    if schema_version(connection) < FUZZES_SINCE:
        return []
    return fetch(connection, f"SELECT {', '.join(FUZZ_COLUMNS)} FROM fuzzes {condition}", parameters)


def load_failures(connection: sqlite3.Connection, condition: str, parameters: Sequence[object]) -> list[Row]:
    """Likewise for failures, FAILURE_COLUMNS."""
    if schema_version(connection) < FUZZES_SINCE:
        return []
    return fetch(connection, f"SELECT {', '.join(FAILURE_COLUMNS)} FROM failures {condition}", parameters)


def _fuzz_columns(record: Fuzz) -> Row:
    texts = {name: label(getattr(record, name)) for name in ("id", "target", "device", "wall", "state")}
    return {**texts, "folder": record.folder}


def _failure_columns(record: Failure) -> Row:
    return {name: label(getattr(record, name)) for name in ("id", "target", "rung", "wall")}


def _same(row: Row, expected: Row) -> None:
    """Refuse a row whose columns are not what its content says."""
    differ = [name for name, value in expected.items() if row[name] != value]
    if differ:
        raise ContradictionError(f"its {', '.join(differ)} is not what its content says")


def _spelled(value: Any) -> Any:
    """Plain data with "inf", "-inf" and "nan" in the place of what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _spelled(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return value


def _float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]  # a number or one of _spelled's texts


def _unchanged(row: Row) -> dict[str, Any]:
    if sha256(row["content"].encode("utf-8")) != row["sha256"]:
        raise ContradictionError("its hash differs")
    data = json.loads(row["content"])
    if not isinstance(data, dict):
        raise ContradictionError("its content is no JSON object")
    return data
