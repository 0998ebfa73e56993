"""A target as a JSON document, as far as the catalogue knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aisp.store.results.numbers import DASH
from aisp.store.results.tables import Column, as_json, at, attributes

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Needs, Rung, Target


def needs_json(needs: Needs) -> dict[str, int | None]:
    """`needs` for JSON."""
    return {"sm": needs.sm, "gpus": needs.gpus}


def needs_text(needs: Needs) -> str:
    """The hardware that something needs, on one line: "sm_90", "2 GPUs, sm_80", "GPU", or a dash for none."""
    parts = [f"{needs.gpus} GPUs"] if needs.gpus > 1 else []
    if needs.sm is not None:
        parts.append(f"sm_{needs.sm}")
    elif needs.gpus == 1:
        parts.append("GPU")
    return ", ".join(parts) or DASH


def _rung(rung: Rung) -> dict[str, Any]:
    own = attributes(rung, "name", "role", "kind")
    return {**own, "needs": needs_json(rung.needs), "summary": rung.summary}


COLUMNS: tuple[Column[Target], ...] = (
    Column("id", "the target", at("id"), "target"),
    Column("chapter", "the chapter that it stands in", at("chapter")),
    Column("title", "one sentence about it", at("title"), "title", drop=3, shrink=True),
    Column("goal", "`speed`, `memory`, `latency`, `refusal`, or `null`: that the technique does not help", at("goal")),
    Column("rungs", "each with `name`, `role`, `kind`, `needs` and `summary`",
           lambda one: [_rung(rung) for rung in one.rungs], "rungs", lambda one: str(len(one.honest_rungs)),
           right=True, drop=1),
    Column("needs", "the hardware that it needs: `sm` and `gpus`", lambda one: needs_json(one.needs),
           "needs", lambda one: needs_text(one.needs), drop=2),
    Column("techniques", "what it uses", lambda one: list(one.techniques)),
    Column("folder", "where its files are", lambda one: bytes(one.folder).decode("utf-8", "backslashreplace")),
    Column("cases", "each with `name`, `axes` and whether it is `timed`",
           lambda one: [{"name": case.name, "axes": dict(case.axes), "timed": case.timed} for case in one.cases]),
)  # fmt: skip


def target_json(target: Target) -> dict[str, Any]:
    """A target for JSON, without what was measured of it."""
    return as_json(COLUMNS, target)
