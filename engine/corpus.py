"""Where the oracle's own operators stand: 26 targets, right and wrong, that show what the oracle can tell. No torch."""

from __future__ import annotations

from pathlib import Path

from aisp.checks.oracle import schema
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Catalog, Role, Rung, Target

NAME = "corpus"
"""What stands for the corpus where a target or a collection is named."""


def root() -> Path:
    """The corpus' folder: a collection like any other."""
    return Path(schema.__file__).resolve().parent / "corpus"


def load() -> Catalog:
    """All operators."""
    return catalog.load([root()])


def operator(target: Target) -> Rung:
    """The rung that the oracle is asked about: right where it is `optimized`, wrong where its name says so."""
    return next(rung for rung in target.rungs if rung.role in (Role.OPTIMIZED, Role.WRONG))
