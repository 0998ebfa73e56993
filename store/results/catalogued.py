"""A target as a JSON document, as far as the catalogue knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Needs, Target


def needs_json(needs: Needs) -> dict[str, int | None]:
    """`needs` for JSON."""
    return {"sm": needs.sm, "gpus": needs.gpus}


def target_json(target: Target) -> dict[str, Any]:
    """A target for JSON, without what was measured of it; the schema is in docs/commands.md."""
    return {
        "id": target.id,
        "chapter": target.chapter,
        "title": target.title,
        "goal": target.goal,
        "needs": needs_json(target.needs),
        "techniques": list(target.techniques),
        "folder": bytes(target.folder).decode("utf-8", "backslashreplace"),
        "rungs": [
            {
                "name": rung.name,
                "role": rung.role,
                "kind": rung.kind,
                "needs": needs_json(rung.needs),
                "summary": rung.summary,
            }
            for rung in target.rungs
        ],
        "cases": [{"name": case.name, "axes": dict(case.axes), "timed": case.timed} for case in target.cases],
    }
