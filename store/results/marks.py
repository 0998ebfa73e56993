"""What is held against rungs: which of them were caught, by what, and whether the code that ran is the code that was
caught.

A quarantine is in force until other code of that rung passes, and the figures of the code that was caught stay hidden
for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from aisp.store.results.reading import Bar, of_quarantine

if TYPE_CHECKING:
    from aisp.store.record import Quarantine


class Marks:
    """Every quarantine of a store, by folder of the target.

    Args:
        caught: every one there ever was, newest first.
        in_force: those of them that hold today.
    """

    def __init__(self, caught: Iterable[Quarantine] = (), in_force: Iterable[Quarantine] = ()) -> None:
        self._of_code: dict[tuple[bytes, str], dict[str, Bar]] = {}
        self._in_force: dict[bytes, dict[str, Bar]] = {}
        for one in caught:
            if one.code:
                self._of_code.setdefault((one.folder, one.code), {}).setdefault(one.rung, of_quarantine(one))
        for one in in_force:
            self._in_force.setdefault(one.folder, {}).setdefault(one.rung, of_quarantine(one))

    def of_code(self, folder: bytes, manifest: Mapping[str, object]) -> dict[str, Bar]:
        """Rungs whose figures in a run with this manifest nobody may be shown."""
        return self._of_code.get((folder, str(manifest.get("code") or "")), {})

    def in_force(self, folder: bytes) -> dict[str, Bar]:
        """Rungs of the target in `folder` that are marked today."""
        return self._in_force.get(folder, {})
