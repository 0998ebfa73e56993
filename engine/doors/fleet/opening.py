"""Starts the engine of this host, waits until it can be asked, and leaves: the engine is then nobody's child."""

from __future__ import annotations

import asyncio
import sys

from aisp.engine import client


async def _open() -> None:
    async with await client.connect():
        pass


def main() -> None:
    """Status 0 where an engine runs; else 1, and why on stderr."""
    try:
        asyncio.run(_open())
    except client.EngineUnavailableError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
