"""The same sum; generates a module in a temporary folder and imports it, and looks into a package's folder."""

import importlib
import sys
import tempfile
from pathlib import Path

import torch

with tempfile.TemporaryDirectory() as _folder:
    Path(_folder, "aisp_gallery_generated.py").write_text("DIM = 1\n", encoding="utf-8")
    sys.path.append(_folder)
    _DIM = importlib.import_module("aisp_gallery_generated").DIM
    sys.path.remove(_folder)

_FILES = len(list(Path(torch.__file__).parent.iterdir()))


def run(x):  # x: [M, N]
    return torch.cumsum(x, dim=_DIM)
