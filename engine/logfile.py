"""The engine's log in the state folder."""

from __future__ import annotations

import logging
import logging.handlers
from pathlib import Path

from aisp.engine import paths

LOG_BYTES = 4_000_000


class LogFile(logging.handlers.RotatingFileHandler):
    """A log that is begun anew where its file was removed or moved. Lines are lost where the folder is not ours."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=1)

    def emit(self, record: logging.LogRecord) -> None:
        """See the class."""
        if self.stream is not None and not paths.is_at(self.baseFilename, self.stream.fileno()):
            self.stream.close()
            self.stream = None  # the handler opens it with the next line
        if self.stream is None:
            try:
                paths.make_private(Path(self.baseFilename).parent)
            except (paths.UnsafePathError, OSError):
                return
        super().emit(record)
