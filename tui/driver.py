"""A terminal driver that tells how far the terminal is behind, so that live screens can skip a frame.

Textual writes through a queue of 30 texts; when the terminal (an SSH line, mostly) takes them more slowly
than they are drawn, the queue fills and then every write blocks the event loop. A live screen asks
`has_backlog(app)` before it draws and leaves out that tick.

The queue is only the last part of the way: kernel, SSH and the line hold much more, and a key's echo waits behind all
of it. So each live frame ends with a question that every terminal answers (where its cursor is), and the next one is
drawn when the answer has come, after a rest in proportion to how long it took, and a longer one while somebody types
(`Pace`). What a key changes is drawn at once. Styles are sent as differences (`tui.sgr`).

A terminal that is gone (SIGHUP, a closed pty) makes every write fail; Textual's writer thread dies of the
first one and the 31st write blocks for ever. Here the failure is noted in `lost` and what is drawn
afterwards goes nowhere, so that the app can still leave in order. SIGHUP reaches the leader of a session and
not what it started (`make run` in a pane that is closed): `hung_up` asks the terminal itself.

What the terminal sends is cut into sequences before Textual reads it (`tui.terminal_input`).
"""

from __future__ import annotations

import math
import os
import select
import selectors
import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Mapping
from threading import Event
from typing import IO, TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition, Key

from aisp.tui.endsignal import RESTORE_TITLE, SAVE_TITLE, notice_sequence, title_sequence
from aisp.tui.sgr import StyleDelta
from aisp.tui.terminal_input import TerminalInput
from aisp.tui.widgets.glyphs import GraphStyle, detect

if TYPE_CHECKING:
    from textual.app import App
    from textual.message import Message

QUESTION = "\x1b[6n"
PATIENCE_S = 2.0  # an answer that takes longer is not waited for
LOST_S = 10.0  # an answer that takes longer never comes, and the next is to the next question
TRIES = 3  # a terminal that left so many questions unanswered, and never answered one, is not asked again
ORDINARY_S = 0.03  # a round trip on a good line, the interpretation of the frame included
# For each second of a round trip beyond that, so many without a live frame. While keys come, one in some forty finds a
# frame under way; while none do, nobody waits.
RESTS, RESTS_TYPED = 6.0, 40.0
TRIPS = 3  # of which the middle one counts: a slow line is slow each time, a machine that was busy once is no slow line
TYPED_S = 2.0  # since the last key: somebody types
LONGEST_REST_S, LONGEST_TYPED_S = 4.5, 12.0
READ_S = 0.1  # between two looks whether the app leaves
LAST_ANSWER_S = 1.0  # how long the end waits for an answer under way, which would be typed into the shell


class _Outlet:
    """The part of a text file that the writer thread uses; knows when it is inside a write."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.writing = False
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        return self._guarded(lambda: self._file.write(text)) or 0

    def flush(self) -> None:
        self._guarded(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _guarded(self, action: Any) -> int | None:
        if self.lost is not None:
            return None
        self.writing = True
        try:
            return cast("int | None", action())
        except OSError as error:  # EIO: the terminal was hung up; EPIPE: a pipe's reader left
            self.lost = error
            return None
        finally:
            self.writing = False


class Pace:
    """When the next live frame may be drawn, judged by how long the terminal takes to answer.

    Questions are asked in the event loop and answered in the driver's reader thread. A terminal answers in order.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._asked_s: deque[float] = deque()  # of the questions not answered yet, the oldest first
        self._trips_s: deque[float] = deque(maxlen=TRIPS)
        self._answered_s = -math.inf  # when the last answer came
        self._beyond_s = 0.0  # how much longer round trips take than on a good line
        self._typed_s = -math.inf  # when the last key came
        self._answers = False  # whether it ever answered
        self._asked = 0  # how many questions there were
        self._settled = Event()  # nothing is under way
        self._settled.set()

    @property
    def waiting(self) -> bool:
        """Whether the terminal has not shown the last live frame yet, or rests."""
        now_s = self._clock_s()
        unanswered = list(self._asked_s)
        under_way = bool(unanswered) and now_s - unanswered[-1] < PATIENCE_S
        return under_way or now_s < self._answered_s + self._rest_s(now_s)

    def _rest_s(self, now_s: float) -> float:
        """How long no live frame follows an answer, as things are now: somebody may have begun to type, or left off."""
        if now_s - self._typed_s < TYPED_S:
            return min(RESTS_TYPED * self._beyond_s, LONGEST_TYPED_S)
        return min(RESTS * self._beyond_s, LONGEST_REST_S)

    @property
    def may_ask(self) -> bool:
        """Whether the terminal answers such questions, as far as is known."""
        return self._answers or self._asked < TRIES

    def ask(self) -> str:
        """What to write behind a live frame: the question, or "" for a terminal that does not answer."""
        if not self.may_ask:
            return ""
        now_s = self._clock_s()
        if self._asked_s and now_s - self._asked_s[-1] > LOST_S:
            self._asked_s.clear()
        self._settled.clear()
        self._asked += 1
        self._asked_s.append(now_s)
        return QUESTION

    def answered(self) -> None:
        """The terminal answered the oldest question."""
        self._answers = True
        try:
            asked_s = self._asked_s.popleft()
        except IndexError:
            return  # asked by nobody, or before `forget`
        now_s = self._clock_s()
        self._trips_s.append(now_s - asked_s)
        self._answered_s = now_s
        self._beyond_s = max(0.0, sorted(self._trips_s)[(len(self._trips_s) - 1) // 2] - ORDINARY_S)
        if not self._asked_s:
            self._settled.set()

    def typed(self) -> None:
        """A key came."""
        self._typed_s = self._clock_s()

    def forget(self) -> None:
        """Nothing is awaited any more: the terminal was another program's meanwhile."""
        self._asked_s.clear()
        self._beyond_s = 0.0
        self._settled.set()

    def settle(self, seconds: float) -> None:
        """Block until no answer is under way, `seconds` at most; not at all for a terminal that never answered."""
        if self._answers:
            self._settled.wait(seconds)


@runtime_checkable
class PacedDriver(Protocol):
    """What a driver must tell for live screens to keep to the terminal's pace."""

    @property
    def behind(self) -> bool:
        """Whether a live frame drawn now would wait behind what was drawn before."""

    def expect_frame(self) -> None:
        """The next frame is a live one."""


class BackloggedDriver(LinuxDriver):
    """Textual's driver with a public `backlog`, a pace, and styles sent as differences."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._outlet = _Outlet(cast("IO[str]", self._file))
        self._file = cast("Any", self._outlet)
        self._styles = StyleDelta()
        self._pace = Pace()
        self._frame_expected = False
        self._title = ""  # that the window is to have; "" leaves its own
        self._title_saved = False

    @property
    def backlog(self) -> int:
        """Texts that the terminal has not taken yet: those queued and the one being written."""
        writer = self._writer_thread
        if writer is None:
            return 0
        return writer._queue.qsize() + int(self._outlet.writing)

    @property
    def behind(self) -> bool:
        """Whether the terminal has not taken, or not answered, what was drawn before; or rests after it."""
        return self.backlog > 0 or self._pace.waiting

    @property
    def lost(self) -> OSError | None:
        """Why the terminal can no longer be written to, or None."""
        return self._outlet.lost

    @property
    def hung_up(self) -> bool:
        """Whether the terminal is gone."""
        poll = select.poll()
        poll.register(self.fileno, 0)  # a hang-up and an error are told unasked
        return bool(poll.poll(0))

    def write(self, data: str) -> None:
        """Queue `data` for the terminal, with no more style sequences than its look needs."""
        text = self._styles.feed(data)
        if text:
            super().write(text)

    def set_title(self, text: str) -> None:
        """Give the window this title; its own comes back when the terminal is handed back. A console has none."""
        if text == self._title or not windowed(os.environ):
            return
        self._title = text
        if not self._title_saved:
            self._title_saved = True
            super().write(SAVE_TITLE)
        super().write(title_sequence(text))  # no style is in it

    def tell_end(self, how: str, text: str) -> None:
        """Ring, or notify, as the setting `notify` says."""
        if sent := notice_sequence(how, text, os.environ):
            super().write(sent)

    def expect_frame(self) -> None:
        """Ask the terminal for an answer behind the next frame. A change that draws nothing asks nothing."""
        self._frame_expected = True

    def flush(self) -> None:
        """Textual calls this behind each frame."""
        super().flush()
        if self._frame_expected:
            self._frame_expected = False
            question = self._pace.ask()
            if question:
                self.write(question)

    def run_input_thread(self) -> None:
        """Read the terminal until the app leaves, and once more: an answer may be under way."""
        source = TerminalInput(self._debug)
        decode = getincrementaldecoder("utf-8")("surrogateescape").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            leaves = False
            while not leaves:
                leaves = self.exit_event.is_set()
                if selector.select(READ_S):
                    data = os.read(self.fileno, 4096)
                    if not data:  # the terminal is gone, or input is a pipe at its end
                        self.exit_event.wait(READ_S)
                    for message in source.feed(decode(data)):
                        self.process_message(message)
                for message in source.tick():
                    self.process_message(message)

    def process_message(self, message: Message) -> None:
        """Answers about the cursor are ours; the app asks for none outside Textual's inline mode."""
        if isinstance(message, CursorPosition):
            self._pace.answered()
            return
        if isinstance(message, Key):
            self._pace.typed()
        super().process_message(message)

    def start_application_mode(self) -> None:
        """Take the terminal, at the start and after it was an editor's."""
        self._pace.forget()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        title, self._title = self._title, ""
        if title:
            self.set_title(title)

    def stop_application_mode(self) -> None:
        """Hand the terminal back as it was, with no answer of its left to come."""
        self._frame_expected = False
        if self.lost is None:
            self._pace.settle(LAST_ANSWER_S)
        if self._title_saved:
            self._title_saved = False
            super().write(RESTORE_TITLE)
        super().stop_application_mode()

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again after a stop.

        SIGCONT also comes with the SIGHUP of a line that dropped, where nothing is left to be taken, and after a
        SIGSTOP, which no program can prepare for: the reader of before still runs then, and a second one beside it
        would share its keys and outlive the app.
        """
        if self.hung_up:
            return
        if self._auto_restart and self._key_thread is not None and self._key_thread.is_alive():
            self.suspend_application_mode()
            self._must_signal_resume = True  # the app draws anew, as after its own ctrl+z
        super()._sigcont_application()

    def close(self) -> None:
        """Write what is left and end the writer."""
        if self._writer_thread is not None and (rest := self._styles.rest()):
            super().write(rest)
        super().close()


def windowed(env: Mapping[str, str]) -> bool:
    """Whether the terminal has a window with a title. A console would print what sets one."""
    return detect({"TERM": env.get("TERM", "")}, "utf-8") is GraphStyle.BRAILLE


def has_backlog(app: App[Any]) -> bool:
    """Whether the terminal is behind, so that a live frame should wait. False where the driver cannot tell."""
    driver: object = app._driver
    return isinstance(driver, PacedDriver) and driver.behind


def expect_frame(app: App[Any]) -> None:
    """Tell the driver that a live frame is on its way."""
    driver: object = app._driver
    if isinstance(driver, PacedDriver):
        driver.expect_frame()
