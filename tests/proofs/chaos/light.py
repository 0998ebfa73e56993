"""Engine, app and nursery with stand-ins for workers: `python -m tests.proofs.chaos.light engine`, `... app WORDS`.

All run the product's own `main`. What differs is what their processes start, for `engine.server` an engine that does
the same, and that a nursery imports nothing and forks stand-ins. Nothing of the product knows of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import metadata
from unittest import mock

from tests.engine import started

INSTEAD = {
    "aisp.engine.worker": ["tests.proofs.chaos.stand_in"],
    "aisp.engine.worker.nursery": ["tests.proofs.chaos.light", "nursery"],
    "aisp.engine.server": ["tests.proofs.chaos.light", "engine"],
}


def stand_ins() -> contextlib.AbstractContextManager[None]:
    """Whatever this process starts meanwhile has stand-ins for workers."""
    return started.programs(INSTEAD)


class Nothing:
    """Of torch there is nothing that a fork would have to give back."""

    def give_back(self) -> None:
        """Nothing."""


def fork_stand_ins() -> int:
    """The product's nursery but for what it imports and what its forks do."""
    from aisp.engine.worker import nursery
    from tests.proofs.chaos import stand_in

    def import_all() -> None:
        import numpy  # noqa: F401  which a fork seeds

    with mock.patch.multiple(nursery, import_all=import_all, Availability=Nothing, Threads=Nothing, live=stand_in.live):
        return nursery.main()


_version = metadata.version


def _torch_with_cuda(name: str) -> str:
    """What an engine with a fake driver takes torch for: stand-ins need none of it."""
    return _version(name).removesuffix("+cpu")


def main() -> int:
    """See the module."""
    what = sys.argv.pop(1)
    if what == "nursery":
        return fork_stand_ins()
    with stand_ins():
        if what == "engine":
            from aisp.engine import server

            if "AISP_FAKE_NVML" in os.environ:
                metadata.version = _torch_with_cuda
            return server.main()
        from aisp.tui import start

        return start.main()


if __name__ == "__main__":
    sys.exit(main())
