"""The engine and the app with stand-ins for workers: `python -m tests.chaos.light engine`, `... app WORDS`.

Both run the product's own `main`. What differs is what their processes start: for `engine.worker` a stand-in, for
`engine.server` an engine that does the same. Nothing of the product knows of it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

INSTEAD = {"engine.worker": ["tests.chaos.stand_in"], "engine.server": ["tests.chaos.light", "engine"]}


class _Popen(subprocess.Popen[bytes]):
    """Starts `python -m` what stands in for a module."""

    def __init__(self, words: Sequence[str], **rest: Any) -> None:
        super().__init__([new for word in words for new in INSTEAD.get(word, [word])], **rest)


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    """Whatever this process starts meanwhile has stand-ins for workers."""
    with mock.patch.object(subprocess, "Popen", _Popen):
        yield


def main() -> int:
    """See the module."""
    what = sys.argv.pop(1)
    with stand_ins():
        if what == "engine":
            from engine import server

            return server.main()
        from tui import cli

        return cli.main_tui()


if __name__ == "__main__":
    sys.exit(main())
