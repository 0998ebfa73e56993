"""The same sum; the title of the lesson goes into a temporary file that nobody needs."""

import tempfile
from pathlib import Path

import torch

_TITLE = Path(__file__).with_name("lesson.md").read_text(encoding="utf-8").splitlines()[1]

with tempfile.TemporaryFile("w", encoding="utf-8") as _note:
    _note.write(_TITLE)


def run(x):  # x: [M, N]
    return torch.cumsum(x, dim=1)
