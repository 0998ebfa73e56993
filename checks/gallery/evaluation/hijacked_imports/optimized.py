"""The same sum; it looks at what is installed, imports a package late, and leaves no module anywhere."""

import sysconfig
import tempfile
from pathlib import Path

import torch

_INSTALLED = [found.name for found in Path(sysconfig.get_paths()["purelib"]).glob("*.dist-info")]

with tempfile.TemporaryFile("w", encoding="utf-8") as _note:
    _note.write("\n".join(_INSTALLED))


def run(x):  # x: [M, N]
    import numpy  # an installed package, imported when it is needed

    return torch.sum(x, dim=int(numpy.int64(1)))
