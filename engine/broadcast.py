"""What all clients hear: events, banners, and the lines of the engine's own log."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from aisp.engine.journal import Journal
from aisp.engine.protocol import events
from aisp.store.text import clean_line

log = logging.getLogger("aisp.engine")

LOG_LINES = 2000


class Broadcast(logging.Handler):
    """Publishes in the journal's order. As a handler of the log it sends the engine's own lines too.

    Attributes:
        lines: the newest of these lines, the oldest first.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=LOG_LINES)
        self._journal = journal
        self._shown: set[str] = set()  # keys of banners that may be cleared

    def publish(self, event: events.Event) -> None:
        """Send an event to everybody."""
        self._journal.publish(event)

    def banner(self, key: str, text: str, severity: str = "warning") -> None:
        """Show a sentence until the same key brings another one, or "", which takes it back."""
        if text:
            log.warning("%s", text)
        self.publish(events.Banner(key=key, text=text, severity=severity))

    def passing(self, key: str, text: str) -> None:
        """A banner that comes and goes by itself: taken back only where it was shown."""
        if text or key in self._shown:
            self.banner(key, text)
        (self._shown.add if text else self._shown.discard)(key)

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # from a thread: it is in the file
        text = clean_line(record.getMessage(), limit=2000)
        loop.call_soon(self._publish_line, record.levelname, text)

    def _publish_line(self, level: str, text: str) -> None:
        self.lines.append(f"{level:7} {text}")
        self.publish(events.LogLine(level=level, text=text))
