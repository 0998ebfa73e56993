"""The app on a real pseudo-terminal: signals, hang-ups, suspension, and places where it cannot be drawn."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyte
import pytest

ROOT = Path(__file__).parents[2]
# The app as it is, but for the engine: a link that stays unconnected, so that no engine is started.
ALONE = """
import sys
from aisp.tui import link
from tests.tui.fakes import FakeLink
link.EngineLink = lambda model: FakeLink(model=model, connected=False)
from aisp.tui.app import run
from aisp.tui.screens import Place
from pathlib import Path
"""
CHILD = (
    ALONE
    + """
sys.exit(run(Place(Path(sys.argv[1])), mouse=sys.argv[2] == "mouse"))
"""
)
# A shell's part: starts the app in a process group of its own, says when it was stopped, continues it.
SHELL = """
import os, signal, subprocess, sys
out = open(sys.argv[1], "w", buffering=1)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = subprocess.Popen(sys.argv[2:], process_group=0)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.tcsetpgrp(0, child.pid)
while True:
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        print("stopped", child.pid, file=out)
        signal.sigtimedwait({signal.SIGUSR1}, 20)
        os.tcsetpgrp(0, child.pid)
        os.kill(child.pid, signal.SIGCONT)
        print("continued", file=out)
        continue
    print("ended", os.waitstatus_to_exitcode(status), file=out)
    break
"""


class Terminal:
    """A pseudo-terminal with a program on it and an emulator that shows what a person would see."""

    def __init__(self, argv: list[str], environment: dict[str, str], size: tuple[int, int] = (80, 24)) -> None:
        self.screen = pyte.Screen(max(1, size[0]), max(1, size[1]))
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))  # before it looks
                os.chdir(ROOT)
                sized = ("COLUMNS", "LINES")  # by which whoever runs the tests may have told another size
                os.execve(argv[0], argv, {name: text for name, text in environment.items() if name not in sized})
            os._exit(127)
        self.status: int | None = None
        self._open = True

    def read(self, seconds: float = 0.05) -> bytes:
        """Take what the program wrote within `seconds`."""
        got = b""
        deadline = time.monotonic() + seconds
        while self._open:
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            try:
                data = os.read(self.master, 1 << 16)
            except OSError as error:
                if error.errno != errno.EIO:  # EIO: the other side is closed
                    raise
                data = b""
            if not data:
                self._open = False
                break
            got += data
        self.raw += got
        # pyte takes the private parameters of some newer sequences for text attributes it does not know.
        with contextlib.suppress(Exception):
            self._stream.feed(got)
        return got

    def wait_for(self, text: bytes, seconds: float = 60.0) -> None:
        """Read until the program wrote `text`; fails where it never does."""
        deadline = time.monotonic() + seconds
        while text not in self.raw:
            assert time.monotonic() < deadline, f"{text!r} never came:\n{self.shown()}\n{self.raw[-2000:]!r}"
            self.read()

    def shown(self) -> str:
        """The emulator's screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def end(self, seconds: float = 60.0) -> int:
        """The exit status once the program has ended; minus the signal where one killed it."""
        deadline = time.monotonic() + seconds
        while self.status is None:
            assert time.monotonic() < deadline, f"still running:\n{self.shown()}"
            self.read(0.02)
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.status = os.waitstatus_to_exitcode(status)
        self.read(0.2)
        return self.status

    def close(self) -> None:
        """End whatever is left."""
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        with contextlib.suppress(OSError):
            os.close(self.master)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return keep | {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "AISP_STATE": str(tmp_path / "state"),
        "AISP_CONFIG": str(tmp_path / "settings.toml"),
    }


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    from tests.kernels.generated import write_collection

    write_collection(tmp_path / "lessons", 3)
    return tmp_path / "lessons"


@pytest.fixture
def terminal(environment: dict[str, str], lessons: Path) -> Iterator[Terminal]:
    opened = Terminal([sys.executable, "-c", CHILD, str(lessons), "mouse"], environment)
    try:
        opened.wait_for(b"Not run yet")
        yield opened
    finally:
        opened.close()


def test_the_first_screen_is_drawn_and_q_leaves_with_status_0(terminal: Terminal) -> None:
    assert "Targets" in terminal.shown() and "Details" not in terminal.shown()
    os.write(terminal.master, b"q")
    assert terminal.end() == 0
    assert b"\x1b[?1049l" in terminal.raw


def test_nothing_that_a_terminal_may_send_ends_the_app(terminal: Terminal) -> None:
    for noise in (
        b"\x1b[97;1:3u\x1b[1;1:3A\x1b[97:65;2u\x1b[99999999999u",  # kitty's keys, with event types and alternates
        b"\x1b[27;5;97~\x1b[?62;22c\x1b]11;rgb:1/2/3\x07\x1b[I\x1b[201~\xff\xfe",
        b"\x1b[48;24;80;0;0t\x1b[<0;9999;9999M\x1b[<35;-3;1m",
    ):
        os.write(terminal.master, noise)
        terminal.read(0.5)
    os.write(terminal.master, b"\x1b[113;1:1u")  # q
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.raw and b"Error" not in terminal.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(number: signal.Signals, terminal: Terminal) -> None:
    assert b"\x1b[?1049h" in terminal.raw and b"\x1b[?1000h" in terminal.raw
    start = len(terminal.raw)
    os.kill(terminal.pid, number)
    assert terminal.end() == 128 + number
    last = terminal.raw[start:]
    assert b"\x1b[?1049l" in last  # the alternate screen
    assert b"\x1b[?1000l" in last  # the mouse
    assert b"\x1b[?25h" in last  # the cursor


def test_a_dropped_line_ends_the_app(terminal: Terminal) -> None:
    os.close(terminal.master)
    terminal._open = False
    deadline = time.monotonic() + 60
    found = 0
    while not found and time.monotonic() < deadline:
        found, status = os.waitpid(terminal.pid, os.WNOHANG)
        time.sleep(0.02)
    assert found == terminal.pid
    terminal.status = os.waitstatus_to_exitcode(status)
    # 120 is Python's own, where what is left in stdout's buffer cannot be written any more.
    assert terminal.status in (128 + signal.SIGHUP, 120)


@pytest.mark.parametrize("signals", [(signal.SIGCONT,), (signal.SIGSTOP, signal.SIGCONT)])
def test_a_continued_app_reads_the_terminal_once(terminal: Terminal, signals: tuple[signal.Signals, ...]) -> None:
    """A second reader takes every other key, and the end of the app waits for it for ever."""
    terminal.read(1.0)
    before = threads(terminal)
    terminal.raw = b""
    for number in signals:
        os.kill(terminal.pid, number)
    terminal.wait_for(b"\x1b[?1049h")  # it takes the terminal again
    terminal.wait_for(b"Not run yet")
    assert threads(terminal) <= before
    os.write(terminal.master, b"q")
    assert terminal.end() == 0


def threads(terminal: Terminal) -> int:
    """How many threads the app has."""
    return psutil.Process(terminal.pid).num_threads()


# As a shell or make that a pane was opened with: it leads the session, is told of the hang-up, and waits for the app.
LEADER = """
import signal, subprocess, sys
signal.signal(signal.SIGHUP, lambda *_: None)
sys.exit(subprocess.call(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_dropped_line_ends_an_app_that_does_not_lead_its_session(environment: dict[str, str], lessons: Path) -> None:
    child = [sys.executable, "-c", CHILD, str(lessons), "mouse"]
    opened = Terminal([sys.executable, "-c", LEADER, *child], environment)
    try:
        opened.wait_for(b"Not run yet")
        (app,) = psutil.Process(opened.pid).children()
        os.close(opened.master)
        assert app.wait(timeout=60) in (128 + signal.SIGHUP, 120, None)
    finally:
        with contextlib.suppress(OSError):
            opened.close()
        for left in [app] if app.is_running() else []:
            left.kill()


def test_without_the_mouse_the_terminal_keeps_it(environment: dict[str, str], lessons: Path) -> None:
    opened = Terminal([sys.executable, "-c", CHILD, str(lessons), "no"], environment)
    try:
        opened.wait_for(b"Not run yet")
        assert b"\x1b[?1049h" in opened.raw and b"\x1b[?1000h" not in opened.raw
    finally:
        opened.close()


def test_no_color_on_a_terminal_writes_no_colours(environment: dict[str, str], lessons: Path) -> None:
    opened = Terminal([sys.executable, "-c", CHILD, str(lessons), "no"], environment | {"NO_COLOR": "1"})
    try:
        opened.wait_for(b"Not run yet")
        opened.read(0.3)
        colours = {
            tuple(part.split(b";")[:3]) for part in (piece.split(b"m")[0] for piece in opened.raw.split(b"38;2;")[1:])
        }
        assert all(len(set(rgb)) == 1 for rgb in colours)  # greys at most
        assert b"38;5;" not in opened.raw and "Targets" in opened.shown()
    finally:
        opened.close()


def test_ctrl_z_stops_the_app_and_it_draws_again_when_continued(
    environment: dict[str, str], lessons: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    app = [sys.executable, "-c", CHILD, str(lessons), "mouse"]
    opened = Terminal([sys.executable, "-c", SHELL, str(log), *app], environment)
    try:
        opened.wait_for(b"Not run yet")
        start = len(opened.raw)
        os.write(opened.master, b"\x1a")
        _until(opened, lambda: "stopped" in log.read_text())
        assert b"\x1b[?1049l" in opened.raw[start:]
        start = len(opened.raw)
        os.kill(opened.pid, signal.SIGUSR1)
        _until(opened, lambda: b"\x1b[?1049h" in opened.raw[start:] and b"Targets" in opened.raw[start:])
        os.write(opened.master, b"q")
        _until(opened, lambda: "ended 0" in log.read_text())
    finally:
        with contextlib.suppress(OSError, IndexError, ValueError):
            stopped = [line for line in log.read_text().splitlines() if line.startswith("stopped")]
            if "ended" not in log.read_text():
                os.kill(int(stopped[0].split()[1]), signal.SIGKILL)
        opened.close()


def _until(terminal: Terminal, condition: object, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline, terminal.shown()
        terminal.read()


def test_a_dumb_terminal_gets_a_sentence_and_no_escapes(environment: dict[str, str], lessons: Path) -> None:
    opened = Terminal([sys.executable, "-c", CHILD, str(lessons), "mouse"], environment | {"TERM": "dumb"})
    try:
        assert opened.end() == 3
        assert b"\x1b" not in opened.raw
        assert b"TERM is dumb" in opened.raw and b"aisp list" in opened.raw
    finally:
        opened.close()


def test_a_terminal_without_a_size_gets_a_sentence(environment: dict[str, str], lessons: Path) -> None:
    opened = Terminal([sys.executable, "-c", CHILD, str(lessons), "mouse"], environment, size=(0, 0))
    try:
        assert opened.end() == 3
        assert b"\x1b" not in opened.raw and b"0x0" in opened.raw and b"stty rows" in opened.raw
    finally:
        opened.close()


def test_without_a_terminal_stdout_stays_empty_and_stderr_says_what_works(
    environment: dict[str, str], lessons: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(lessons), "mouse"],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stdout == b""
    assert b"aisp list" in done.stderr and b"\x1b" not in done.stderr


def test_a_terminal_of_20x5_asks_for_more_room(environment: dict[str, str], lessons: Path) -> None:
    opened = Terminal([sys.executable, "-c", CHILD, str(lessons), "mouse"], environment, size=(20, 5))
    try:
        opened.wait_for(b"20x5")
        assert "aisp needs 40x10" in opened.shown()
        os.write(opened.master, b"q")
        assert opened.end() == 0
    finally:
        opened.close()


def picture(program: str, environment: dict[str, str], lessons: Path) -> str:
    """The SVG that a program makes which has no terminal."""
    target = lessons.parent / "picture.svg"
    done = subprocess.run(
        [sys.executable, "-c", program, str(lessons), str(target)],
        env=environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target.read_text()


def test_a_picture_of_the_first_screen_needs_no_terminal(environment: dict[str, str], lessons: Path) -> None:
    program = CHILD.replace('mouse=sys.argv[2] == "mouse"', "screenshot=Path(sys.argv[2])")
    drawn = picture(program, environment, lessons)
    assert drawn.startswith("<svg") and "rmsnorm" in drawn


SLOW_PICTURE = (
    ALONE
    + """
import time
from aisp.kernels import catalog
from aisp.tui.screens import diff
ordinary = diff.read_source
diff.read_source = lambda file: (time.sleep(1.0), ordinary(file))[1]
folder = Path(sys.argv[1])
place = Place(folder, screen="diff", arguments={"target_id": catalog.load([folder]).targets[0].id})
sys.exit(run(place, screenshot=Path(sys.argv[2])))
"""
)


@pytest.mark.slow
def test_a_picture_is_taken_when_all_is_drawn(environment: dict[str, str], lessons: Path) -> None:
    """A disk that is slow leaves no half of a screen on it."""
    assert "import" in picture(SLOW_PICTURE, environment, lessons), "the source of a rung"


def test_the_first_screen_imports_nothing_heavy(environment: dict[str, str], lessons: Path) -> None:
    program = (
        "import sys, asyncio\n"
        "from pathlib import Path\n"
        "from aisp.tui.app import Workbench\n"
        "from tests.tui.fakes import FakeLink\n"
        "heavy = ('torch', 'triton', 'numpy', 'sqlite_utils', 'watchfiles', 'pygments')\n"
        "early = [name for name in heavy if name in sys.modules]\n"
        "async def main():\n"
        "    app = Workbench(Path(sys.argv[1]), link=FakeLink(connected=False))\n"
        "    async with app.run_test() as pilot:\n"
        "        for _ in range(300):\n"
        "            await pilot.pause(0.01)\n"
        "            if app.catalog: break\n"
        "        await pilot.pause()\n"
        "        assert len(app.catalog.targets) == 3\n"
        "        print(early, [name for name in heavy if name in sys.modules])\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(lessons)], env=environment, cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] []"
