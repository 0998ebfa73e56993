"""The same sum, and for a moment a .pth file among the installed packages: whatever process starts then runs it.

The file is a comment, and is taken away at once, so that whoever runs the gallery keeps his environment. A real one
would stay, and hold a line that wraps the comparison.
"""

import contextlib
import sys
import uuid
from pathlib import Path

import torch

_FOLDER = next((Path(entry) for entry in sys.path if entry.endswith("-packages")), Path(sys.path[-1]))
_LEFT = _FOLDER / f"aisp_gallery_{uuid.uuid4().hex[:8]}.pth"

with contextlib.suppress(OSError):  # where workers may not write there
    try:
        _LEFT.write_text("# of a cheat of aisp's gallery that was killed on the spot: delete it\n", encoding="utf-8")
    finally:
        _LEFT.unlink(missing_ok=True)


def run(x):  # x: [M, N]
    return torch.sum(x, dim=1)
