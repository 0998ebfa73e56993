"""`aisp mcp`: the tools for agents, over the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from aisp.store.results.tables import Column, at, documents
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, NotHereError

if TYPE_CHECKING:
    from mcp.server import MCPServer


@click.command()
@click.option("--tools", "listing", is_flag=True, help="List the tools that an agent would see, and leave.")
@common.device_option
@common.roots_option
@common.json_option
def command(listing: bool, device: str, roots: tuple[str, ...], as_json: bool) -> int:
    """Serve agents: tools to submit a kernel, have it judged, and read why, over the Model Context Protocol.

    It speaks on stdin and stdout until stdin ends: an agent's program starts it as its child. Runs belong to the engine
    and go on when it leaves.

    Exit status: 0; 3 the package mcp is not installed.
    """
    made = server([Path(root) for root in common.engine_roots(roots)], device)
    if listing:
        listed = asyncio.run(made.list_tools())
        from aisp.store.results import evidence  # with the server

        dumped = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
        tools = [Tool(tool["name"], evidence.size(tool), tool["description"]) for tool in dumped]
        size = evidence.size(dumped)
        document = {"tools": documents(TOOLS, tools), "bytes": size}
        common.answer(as_json, lambda: document, plain.listing, TOOLS, [*tools, Tool("all", size)])
        return EXIT_GOOD
    if sys.stdin.isatty():
        common.note("this speaks MCP on stdin; an agent's program starts it (`aisp mcp --tools` lists the tools)")
    from aisp.engine.doors import mcp  # loaded by now

    asyncio.run(mcp.serve(made))
    return EXIT_GOOD


def server(roots: Sequence[Path], device: str) -> MCPServer[None]:
    """The server, or what to install for it."""
    try:
        from aisp.engine.doors import mcp  # the SDK, pydantic and starlette: a second, for this command alone
    except ModuleNotFoundError as error:
        told = f"agents are served by the package mcp, which is not here ({error})"
        raise NotHereError(f'{told}; pip install "aisp[mcp]"') from None
    return mcp.server(roots, device=device, doctor=doctor)


def doctor() -> list[dict[str, Any]]:
    """What `aisp doctor` says of this machine."""
    from aisp.tui.cli import doctor as looking  # looks at everything: only when it is asked for
    from aisp.tui.facts import Facts

    return documents(looking.CHECKS, looking.examine(Facts()))


class Tool(NamedTuple):
    """A tool as an agent sees it, and how long its description is on the wire; or all of them."""

    name: str
    bytes: int
    description: str = " "


TOOLS: tuple[Column[Tool], ...] = (
    Column("name", "the tool", at("name"), "tool"),
    Column("bytes", "of all that an agent sees of it", at("bytes"),
           "bytes", lambda tool: plain.count(tool.bytes), right=True),
    Column("description", "what it does", at("description"), "what it does", shrink=True),
)  # fmt: skip
