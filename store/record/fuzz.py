"""What the store remembers of a fuzz: one record a fuzz, one a failing case, frozen, with their form as plain data.

Plain data is what travels in events and is kept as JSON; `of` reads what `plain` wrote, now or in an older version.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import force_setattr

from aisp.store.outcomes import CaseVerdict, FuzzVerdict
from aisp.store.record.run import REASON_CHARS, ContradictionError, clean_lines
from aisp.store.text import clean, clean_line

ERROR_BINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4, math.inf)
"""Lower ends of a histogram's bins, in units of the error allowed; the last bin holds what is not finite."""

DETAIL_CHARS, SCRIPT_CHARS = 8_000, 200_000


class Tally(msgspec.Struct, frozen=True):
    """How many cases of one strategy there were, and how many of them failed."""

    cases: int = 0
    failing: int = 0
    unsupported: int = 0


class NaiveOpinion(msgspec.Struct, frozen=True):
    """What a naive oracle says of a rung: one shape, each dtype once. None where it could not be asked."""

    allclose: bool | None = None  # 1e-4 for fp32, 1e-2 for fp16 and bf16, against eager PyTorch
    assert_close: bool | None = None  # torch.testing.assert_close as it comes

    @property
    def accepts(self) -> bool | None:
        """Whether both do."""
        return None if self.allclose is None or self.assert_close is None else self.allclose and self.assert_close


class RungFuzz(msgspec.Struct, frozen=True):
    """What a fuzz says of one rung.

    Attributes:
        by_strategy: in the order in which strategies were dealt.
        failures: ids of the failures that were kept, the smallest case first.
        reason: why it is undecided, or what stopped it.
    """

    rung: str
    verdict: FuzzVerdict
    cases: int
    failing: int
    unsupported: int = 0
    by_strategy: Mapping[str, Tally] = msgspec.field(default_factory=dict)
    failures: tuple[str, ...] = ()
    naive: NaiveOpinion | None = None
    max_error: float | None = None  # worst of the right cases, in units of what is allowed
    took_ms: float = 0.0  # in the rung's calls and their judgement
    reason: str = ""

    def __post_init__(self) -> None:
        clean_lines(self, "rung")
        clean_lines(self, "reason", limit=REASON_CHARS)
        if self.failing + self.unsupported > self.cases:
            raise ContradictionError(f"{self.rung}: {self.failing} of {self.cases} cases failed")
        if (self.failing > 0) != (self.verdict in (FuzzVerdict.WRONG, FuzzVerdict.DOUBTED)):
            raise ContradictionError(f"{self.rung}: {self.verdict} with {self.failing} failing cases")

    def stopped(self) -> RungFuzz:
        """Verdict of a fuzz that did not reach its end: it cannot say that a rung is right, only how far it was."""
        if self.verdict is not FuzzVerdict.RIGHT:
            return self
        reason = self.reason or f"right so far: the fuzz was stopped after {self.cases} of this rung's cases"
        return msgspec.structs.replace(self, verdict=FuzzVerdict.UNDECIDED, reason=reason)


class Fuzz(msgspec.Struct, frozen=True):
    """One fuzz of one target, after its end.

    Attributes:
        state: "done", "cancelled", "failed" or "unavailable"; `reason` says why it is not done.
        rungs: those that were tried.
        snapshot: hash of the sources.
    """

    id: str  # ULID
    target: str
    folder: bytes
    title: str
    device: str
    seed: int
    cases: int  # asked for
    strategies: tuple[str, ...]
    snapshot: str
    wall: str
    state: str
    reason: str = ""
    rungs: tuple[RungFuzz, ...] = ()
    duration_ms: float | None = None
    environment: str = ""
    notes: tuple[str, ...] = ()  # "the reference was computed on the CPU: ..."

    def __post_init__(self) -> None:
        clean_lines(self, "id", "target", "title", "device", "wall")
        clean_lines(self, "reason", limit=REASON_CHARS)
        for name in ("strategies", "notes"):
            force_setattr(self, name, tuple(clean_line(text, limit=REASON_CHARS) for text in getattr(self, name)))
        if self.state not in ("done", "cancelled", "failed", "unavailable"):
            raise ContradictionError(f"fuzz {self.id}: no state {self.state!r}")
        if (self.state == "done") != (not self.reason):
            raise ContradictionError(f"fuzz {self.id}: {self.state} with the reason {self.reason!r}")
        right = [rung.rung for rung in self.rungs if rung.verdict is FuzzVerdict.RIGHT]
        if self.state != "done" and right:
            raise ContradictionError(f"fuzz {self.id} ended {self.state} and says that {', '.join(right)} is right")

    def plain(self) -> dict[str, Any]:
        """Plain data for JSON; the folder as text with surrogate escapes."""
        document: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(bytes,))
        document["folder"] = self.folder.decode("utf-8", "backslashreplace")
        document["folder_hex"] = self.folder.hex()
        return document

    @staticmethod
    def of(data: Mapping[str, Any]) -> Fuzz:
        """The inverse of `plain`. Raises ContradictionError, KeyError or ValueError on what is no such record."""
        kept = {name: value for name, value in data.items() if name not in ("folder_hex", "rungs")}
        rungs = tuple(_read(rung, RungFuzz) for rung in data["rungs"])
        if kept["state"] != "done":  # one that was stored before a stopped rung was refused the word "right"
            rungs = tuple(rung.stopped() for rung in rungs)
        return _read({**kept, "folder": bytes.fromhex(data["folder_hex"]), "rungs": rungs}, Fuzz)


class Failure(msgspec.Struct, frozen=True):
    """One failing case, with all that is needed to do it again and to look at it.

    Attributes:
        case: the case to replay, as checks.oracle.schema.Case.plain(): the smallest that was found.
        drawn: the case as it was drawn, likewise; the same where nothing smaller fails.
        input_hashes: sha256 of every input's values, by name.
        output_hash: sha256 of the wrong output's values; "" where there is none (a crash).
        finding: checks.oracle.comparator.Mismatch.
        statistics: figures of the errors, see checks.oracle.comparator.ComparisonResult.
        histogram: elements by error, ERROR_BINS.
        region: a picture of where the wrong elements stand, a text line per row.
        script: Python that shows the failure.
        versions: of Python, torch, triton and aisp, and the device's name.
    """

    id: str  # ULID
    fuzz: str
    target: str
    rung: str
    device: str
    seed: int | None  # None until the end of a fuzz whose seed the engine drew
    stage: str
    strategy: str
    case: Mapping[str, Any]
    drawn: Mapping[str, Any]
    verdict: CaseVerdict
    snapshot: str
    wall: str
    output: str = ""  # name of the output that is wrong
    finding: str = ""
    detail: str = ""
    input_hashes: Mapping[str, str] = msgspec.field(default_factory=dict)
    output_hash: str = ""
    statistics: Mapping[str, float] = msgspec.field(default_factory=dict)
    histogram: tuple[int, ...] = ()
    region: tuple[str, ...] = ()
    script: str = ""
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    tried: int = 0  # smaller cases that were tried on the way

    def __post_init__(self) -> None:
        clean_lines(self, "id", "target", "rung", "device", "stage", "strategy", "wall", "output", "finding")
        force_setattr(self, "detail", clean(self.detail, limit=DETAIL_CHARS))
        force_setattr(self, "script", clean(self.script, limit=SCRIPT_CHARS))
        # A picture keeps its blanks: only what a terminal acts upon is taken out.
        region = tuple(clean(row, limit=DETAIL_CHARS).replace("\n", " ") for row in self.region)
        force_setattr(self, "region", region)
        if not self.verdict.failing:
            raise ContradictionError(f"failure {self.id}: {self.verdict} is none")
        if self.histogram and len(self.histogram) != len(ERROR_BINS):
            raise ContradictionError(f"failure {self.id}: {len(self.histogram)} bins, not {len(ERROR_BINS)}")

    def unseeded(self) -> Self:
        """Without what would let anybody foresee the cases that come."""
        return msgspec.structs.replace(self, seed=None, script="")

    def plain(self) -> dict[str, Any]:
        """Plain data for JSON."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document

    @staticmethod
    def of(data: Mapping[str, Any]) -> Failure:
        """The inverse of `plain`. Raises ContradictionError on what is no such record."""
        return _read(data, Failure)


RecordT = TypeVar("RecordT", bound=msgspec.Struct)


def _read(data: Mapping[str, Any], kind: type[RecordT]) -> RecordT:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ContradictionError(str(error)) from None
