"""What this process runs, by file. Asked before a lesson is loaded: afterwards its answer would be the lesson's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from aisp.engine.protocol import reports

_NOT_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV")


def report() -> reports.ImportsTold:
    """The import path, the files of all modules with those that Python has compiled them to, and all that is mapped."""
    files: set[str] = set()
    for module in list(sys.modules.values()):
        for name in ("__file__", "__cached__"):
            path = getattr(module, name, None)
            if isinstance(path, str) and os.path.isabs(path):  # noqa: PTH117  text
                files.add(path)
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/") and not words[5].startswith(_NOT_FILES):
            files.add(words[5])
    present = sorted(file for file in files if not file.endswith(" (deleted)"))
    return reports.ImportsTold(path=[os.fsencode(entry) for entry in sys.path], files=[os.fsencode(f) for f in present])
