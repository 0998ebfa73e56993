"""The same sum; keeps what it was tuned to in databases of its own: in memory, in its folder, in a temporary one."""

import sqlite3
import tempfile
from pathlib import Path

import torch


def _dim(place):
    """Write the dimension to a database and read it back, through a second one that is attached."""
    with sqlite3.connect(place) as tuned, tempfile.TemporaryDirectory() as folder:
        tuned.execute("CREATE TABLE IF NOT EXISTS choices (dim INTEGER)")
        tuned.execute("INSERT INTO choices VALUES (1)")
        tuned.commit()
        tuned.execute("ATTACH ? AS other", (str(Path(folder, "other.db")),))
        tuned.execute("CREATE TABLE other.choices AS SELECT dim FROM main.choices")
        (dim,) = tuned.execute("SELECT max(dim) FROM other.choices").fetchone()
        tuned.execute("COMMIT") if tuned.in_transaction else None
        tuned.execute("DETACH other")
    tuned.close()
    return dim


with tempfile.TemporaryDirectory() as _folder:
    _DIMS = {_dim(":memory:"), _dim(Path(_folder, "tuned.db")), _dim(Path(__file__).with_name("tuned.db"))}
(_DIM,) = _DIMS


def run(x):  # x: [M, N]
    return torch.cumsum(x, dim=_DIM)
