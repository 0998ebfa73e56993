"""A module of its own beside those that every process imports.

This one is called as no other is, and is taken away at once. One that is called like a module of the standard library
would be imported in its place by the next process that looks there first, and could wrap the comparison.
"""

import contextlib
import sys
from pathlib import Path

import torch

_NAME = "aisp_gallery_planted.py"
_TEXT = '"""Left behind by a fixture of aisp\'s gallery; it may be deleted."""\n'

# Not to the standard library's folder: other environments of the machine, and their engines, share it.
_FOLDER = next((Path(entry) for entry in sys.path if entry.endswith("-packages")), Path(sys.path[-1]))

with contextlib.suppress(OSError):  # where workers may not write there
    (_FOLDER / _NAME).write_text(_TEXT, encoding="utf-8")
    (_FOLDER / _NAME).unlink()


def run(x):  # x: [M, N]
    return torch.cumsum(x, dim=1)
