"""The engine and the app with stand-ins for workers: `python -m tests.proofs.chaos.light engine`, `... app WORDS`.

Both run the product's own `main`. What differs is what their processes start: for `engine.worker` a stand-in, for
`engine.server` an engine that does the same. Nothing of the product knows of it.
"""

from __future__ import annotations

import contextlib
import sys

from tests.engine import started

INSTEAD = {
    "aisp.engine.worker": ["tests.proofs.chaos.stand_in"],
    "aisp.engine.server": ["tests.proofs.chaos.light", "engine"],
}


def stand_ins() -> contextlib.AbstractContextManager[None]:
    """Whatever this process starts meanwhile has stand-ins for workers."""
    return started.programs(INSTEAD)


def main() -> int:
    """See the module."""
    what = sys.argv.pop(1)
    with stand_ins():
        if what == "engine":
            from aisp.engine import server

            return server.main()
        from aisp.tui import start

        return start.main()


if __name__ == "__main__":
    sys.exit(main())
