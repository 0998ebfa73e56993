"""Facts for judges, written as a worker sends them: plain data, decoded as the struct of their sensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from aisp.checks import registry
from aisp.checks.registry import Facts, Sensed


def replica(**given: Mapping[str, Any] | Facts) -> Sensed:
    """What one process told, by sensor's name; {"failed": why} for a sensor that failed.

    Raises AssertionError for facts that their sensor does not note: a test must not judge those by mistake.
    """
    failed = {
        name: facts["failed"] for name, facts in given.items() if isinstance(facts, Mapping) and "failed" in facts
    }
    told = {name: msgspec.Raw(msgspec.msgpack.encode(facts)) for name, facts in given.items() if name not in failed}
    found = registry.received(told, failed)
    assert found.malformed == {}
    return found


def plain(facts: Facts) -> dict[str, Any]:
    """Facts as plain data."""
    found: dict[str, Any] = msgspec.to_builtins(facts)
    return found
