"""`aisp dev schema`: the JSON Schema of a run as `--json` prints it, and of the other records that the store keeps.

It is made from the records themselves, so it cannot say anything else than they do.
"""

from __future__ import annotations

from typing import Any

import click

from aisp.tui.cli import common


@click.command()
def command() -> None:
    """Print the JSON Schema of a run as `--json` prints it, made from the records themselves.

    Under `$defs` stand the other records that the store keeps: ceilings, fuzzes, failing cases.

    Exit status: 0.
    """
    common.say_document(schema())


def schema() -> dict[str, Any]:
    """The schema: a run, with the records that others are made of beside it."""
    import msgspec  # and the record: only here

    from aisp.engine.documents import SCHEMA
    from aisp.store.record import Failure, Fuzz, Peak, Run

    _, components = msgspec.json.schema_components([Run, Peak, Fuzz, Failure], ref_template="#/$defs/{name}")
    for record in components.values():  # a path is bytes, and printed as text
        folder = record.get("properties", {}).get("folder")
        if folder is not None:
            folder.pop("contentEncoding", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run of aisp",
        "schema": SCHEMA,
        "$ref": "#/$defs/Run",
        "$defs": components,
    }
