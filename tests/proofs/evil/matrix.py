"""The fault matrix: what can go wrong, what must come of it, and a scene that makes it happen.

A scene is an async function that gets a `Stage`, makes its fault happen to the real engine, asserts what must come of
it and returns in one sentence what was seen. What must hold after *every* fault (siblings unharmed, the next run
starts at once, nothing left behind) is asserted by the stage and not by the scene.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.proofs.evil import scenes

if TYPE_CHECKING:
    from tests.proofs.evil.stage import Stage

    Scene = Callable[[Stage], Awaitable[str]]

ROWS = 89


@dataclass(frozen=True)
class Fault:
    """One way to inject one row of the matrix.

    Attributes:
        row: its number in the matrix, 1 to ROWS.
        name: the scene's name, unique; words of it tell rows with several scenes apart.
        what: the fault, in words.
        expected: what must come of it, in words.
        scene: makes it happen and asserts.
        gpu: whether it needs a GPU with a driver.
        own: whether it starts engines of its own; else it shares one with other scenes and must leave it alive.
        batch: the batch of tests.proofs.evil.corpus that the scene looks at and does nothing else: what must hold after
            the fault is then asserted once, around the batch's run.
        stubbed: what of the fault is pretended, and why it cannot be made to happen; "" where nothing is.
    """

    row: int
    name: str
    what: str
    expected: str
    scene: Scene
    gpu: bool = False
    own: bool = False
    batch: str = ""
    stubbed: str = ""

    @property
    def id(self) -> str:
        """For test ids and tables: "07_deaf_to_signals"."""
        return f"{self.row:02d}_{self.name}"


FAULTS: dict[str, Fault] = {}
"""Every fault by its id, once `load` was called."""


def fault(
    row: int,
    what: str,
    expected: str,
    *,
    gpu: bool = False,
    own: bool = False,
    batch: str = "",
    stubbed: str = "",
) -> Callable[[Scene], Scene]:
    """Register a scene; its function's name is the fault's."""

    def register(scene: Scene) -> Scene:
        found = Fault(row, scene.__name__, what, expected, scene, gpu, own, batch, stubbed)
        if found.id in FAULTS or not 1 <= row <= ROWS:
            raise ValueError(f"two scenes are named {found.id}, or there is no row {row}")
        FAULTS[found.id] = found
        return scene

    return register


def load() -> list[Fault]:
    """All faults, in the order of their rows."""
    for module in pkgutil.iter_modules(scenes.__path__):
        importlib.import_module(f"{scenes.__name__}.{module.name}")
    return [FAULTS[name] for name in sorted(FAULTS)]
