"""Targets that do evil things, one row per fault, and what must come of each.

A row is a rung's source and its verdict. `write` makes a target folder that holds an honest baseline, an honest
optimized rung and any number of rows, one rung each, so that a run of it also shows that the honest siblings of an
evil rung are unharmed. Every target doubles N float32 values in host memory, so that it is timed on any machine.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from store.outcomes import Correctness, State

LESSON = """\
+++
title = "Doubling"
techniques = ["none"]
goal = "speed"
axes = { N = 256 }
flops = "N"
[inputs]
x = "float32 [N] normal cpu"
[outputs]
y = "float32 [N]"
+++

# Doubling

y is twice x.
"""
REFERENCE = "def run(x):\n    return x + x\n"
BASELINE = "def run(x):\n    return x + x\n"
OPTIMIZED = "def run(x):\n    return x * 2\n"


@dataclass(frozen=True)
class Row:
    """One fault.

    Attributes:
        name: the rung is `optimized_NAME`.
        source: its file.
        state: how its arm must end.
        says: what the arm's reason must hold: what happened, and the next move.
        detail: what the arm's detail must hold.
        correctness: what the verifier must have found.
        signal, sent_by_us, exit_code, dirty_exit: how its process must have ended.
        caught: the check that must have caught it though it ended well; "" where it needs none.
    """

    name: str
    source: str
    state: State
    says: tuple[str, ...] = ()
    detail: tuple[str, ...] = ()
    correctness: Correctness = Correctness.UNKNOWN
    signal: int | None = None
    sent_by_us: bool | None = None
    exit_code: int | None = None
    dirty_exit: bool = False
    caught: str = ""

    @property
    def rung(self) -> str:
        """The rung's name."""
        return f"optimized_{self.name}"

    @property
    def last_signal(self) -> int | None:
        """What its process died of: a rung that only told of its failure is alive, and asked to leave."""
        told = (State.USER_ERROR, State.INCORRECT, State.CUDA_POISONED, State.INFRA_ERROR)
        return signal.SIGTERM if self.state in told else self.signal


def write(folder: Path, rows: Sequence[Row] = (), *, reference: str = REFERENCE, lesson: str = LESSON) -> Path:
    """Make the target folder `folder` with these rows as rungs; the folder."""
    folder.mkdir(parents=True)
    files = {"lesson.md": lesson, "reference.py": reference, "baseline.py": BASELINE, "optimized.py": OPTIMIZED}
    files |= {f"{row.rung}.py": row.source for row in rows}
    for name, text in files.items():
        (folder / name).write_bytes(os.fsencode(text))
    return folder


def on_call(number: int, body: str, *, imports: str = "import os") -> str:
    """A variant that is honest but for its call `number` (0 is the first, which compiles), where it does `body`."""
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        f"{imports}\n\ncalls = 0\n\n\ndef run(x):\n    global calls\n    calls += 1\n"
        f"    if calls == {number + 1}:\n{indented}\n    return x * 2\n"
    )


def when_timed(body: str, *, imports: str = "import os") -> str:
    """A variant that is honest until it is timed, where it does `body`: collection is off during a turn alone."""
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    return f"import gc\n{imports}\n\n\ndef run(x):\n    if not gc.isenabled():\n{indented}\n    return x * 2\n"


# Calls of a run: 0 compiles, the next ones are verified. How many warm up depends on the machine.
VERIFIED = 1

DEATHS = (
    Row(
        "segfault",
        on_call(0, "ctypes.string_at(0)", imports="import ctypes"),
        State.CRASHED,
        says=("died of SIGSEGV", "the trace below ends where"),
        detail=("Fatal Python error: Segmentation fault", "optimized_segfault.py", "in run"),
        signal=signal.SIGSEGV,
        sent_by_us=False,
    ),
    Row(
        "segfault_while_timed",
        when_timed("ctypes.string_at(0)", imports="import ctypes"),
        State.CRASHED,
        says=("died of SIGSEGV",),
        detail=("Segmentation fault",),
        correctness=Correctness.CORRECT,
        signal=signal.SIGSEGV,
        sent_by_us=False,
    ),
    Row(
        "abort",
        on_call(VERIFIED, "os.abort()"),
        State.CRASHED,
        says=("died of SIGABRT",),
        detail=("Aborted", "optimized_abort.py"),
        signal=signal.SIGABRT,
        sent_by_us=False,
    ),
    Row(
        "killed",
        on_call(VERIFIED, "os.kill(os.getpid(), 9)"),
        State.CRASHED,
        says=("died of SIGKILL",),
        signal=signal.SIGKILL,
        sent_by_us=False,
    ),
    Row(
        "os_exit",
        on_call(VERIFIED, "os._exit(0)"),
        State.PREMATURE_EXIT,
        says=("left with status 0", "must return, not exit"),
        exit_code=0,
        sent_by_us=False,
    ),
    Row(
        "sys_exit",
        when_timed("sys.exit(0)", imports="import sys"),
        State.PREMATURE_EXIT,
        says=("left with status 0", "must return, not exit"),
        correctness=Correctness.CORRECT,
        exit_code=0,
        sent_by_us=False,
    ),
    Row(
        "close_descriptors",
        on_call(VERIFIED, "os.closerange(0, 100)"),
        State.PREMATURE_EXIT,
        says=("must return, not exit",),
        exit_code=1,
        sent_by_us=False,
    ),
    Row(
        "bad_leaving",
        "import atexit\nimport os\n\natexit.register(lambda: os._exit(9))\n\n\ndef run(x):\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
        exit_code=9,
        dirty_exit=True,
    ),
    Row(
        "never_leaving",
        "import threading\nimport time\n\nthreading.Thread(target=time.sleep, args=(600,)).start()\n\n\n"
        "def run(x):\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
        dirty_exit=True,
        signal=signal.SIGTERM,
        sent_by_us=True,
    ),
)

WRONG = Correctness.WRONG
ANSWERS = (
    Row(
        "wrong_shape",
        "def run(x):\n    return (x * 2)[:-1]\n",
        State.INCORRECT,
        says=("y: shape [255]", "lesson.md declares [256]"),
        correctness=WRONG,
    ),
    Row(
        "wrong_dtype",
        "def run(x):\n    return (x * 2).double()\n",
        State.INCORRECT,
        says=("y: dtype float64", "lesson.md declares float32"),
        correctness=WRONG,
    ),
    Row(
        "wrong_count",
        "def run(x):\n    return x * 2, x\n",
        State.INCORRECT,
        says=("2 outputs", "lesson.md declares 1 (y)"),
        correctness=WRONG,
    ),
    Row(
        "no_tensor",
        "def run(x):\n    return (x * 2).numpy()\n",
        State.INCORRECT,
        says=("y: ndarray, not a plain torch.Tensor",),
        correctness=WRONG,
    ),
    Row(
        "nothing",
        "def run(x):\n    y = x * 2\n",
        State.INCORRECT,
        says=("y: NoneType, not a plain torch.Tensor",),
        correctness=WRONG,
    ),
    Row(
        "nan",
        "def run(x):\n    y = x * 2\n    y[7] = float('nan')\n    return y\n",
        State.INCORRECT,
        says=("wrong nan", "y[7]", "got nan", "1 of 256"),
        correctness=WRONG,
    ),
    Row(
        "one_element",
        "def run(x):\n    y = x * 2\n    y[-1] = 0\n    return y\n",
        State.INCORRECT,
        says=("wrong values", "y[255]: got 0", "1 of 256"),
        correctness=WRONG,
    ),
    Row(
        "first_answer_for_all",
        "kept = []\n\n\ndef run(x):\n    if not kept:\n        kept.append(x * 2)\n    return kept[0]\n",
        State.INCORRECT,
        says=("wrong nan",),
        correctness=WRONG,
    ),
    Row(
        "answers_from_cache",
        "calls = 0\nkept = None\n\n\ndef run(x):\n    global calls, kept\n    calls += 1\n"
        "    if calls < 40:\n        kept = x * 2\n    return kept\n",
        State.INCORRECT,
        says=("differs from the verified one for the same input", "done in every call"),
        detail=("fingerprint",),
        correctness=WRONG,
    ),
    Row(
        "lazy_once_verified",
        "import torch\n\ncalls = 0\n\n\ndef run(x):\n    global calls\n    calls += 1\n"
        "    return x * 2 if calls < 40 else torch.empty_like(x)\n",
        State.INCORRECT,
        says=("differs from the verified one for the same input", "done in every call"),
        correctness=WRONG,
    ),
    Row(
        "clock_turned_back",
        "import time\n\nnow = 10**18\n\n\ndef backwards():\n    global now\n    now -= 1000\n    return now\n\n\n"
        "def run(x):\n    time.perf_counter_ns = backwards\n    return x * 2\n",
        State.OK,  # our clock is one that was taken before the lesson was imported
        correctness=Correctness.CORRECT,
        caught="timing.tampering",
    ),
    Row(
        "clock_stopped",
        "import time\n\n\ndef run(x):\n    time.perf_counter_ns = lambda: 7\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
        caught="timing.tampering",
    ),
)

TO_MEND = "the trace below ends at the line to mend"
ERRORS = (
    Row(
        "exception",
        "def helper(x):\n    return x.reshape(3, 3)\n\n\ndef run(x):\n    return helper(x)\n",
        State.USER_ERROR,
        says=("RuntimeError", "invalid for input of size 256", TO_MEND),
        detail=("optimized_exception.py:6 in run", "optimized_exception.py:2 in helper", "return x.reshape(3, 3)"),
    ),
    Row(
        "late_exception",
        when_timed("{}['missing']"),
        State.USER_ERROR,
        says=("KeyError: 'missing'", TO_MEND),
        detail=("optimized_late_exception.py:7 in run",),
        correctness=Correctness.CORRECT,
    ),
    Row(
        "import_error",
        "import no_such_module_anywhere\n\n\ndef run(x):\n    return x * 2\n",
        State.USER_ERROR,
        says=("ModuleNotFoundError: No module named 'no_such_module_anywhere'", TO_MEND),
        detail=("optimized_import_error.py:1 in <module>",),
    ),
    Row(
        "syntax_error",
        "def run(x):\n    return x * \n",
        State.USER_ERROR,
        says=("SyntaxError: invalid syntax (optimized_syntax_error.py, line 2)", TO_MEND),
        detail=("optimized_syntax_error.py:2", "return x *"),
    ),
    Row(
        "no_run",
        "def walk(x):\n    return x * 2\n",
        State.USER_ERROR,
        says=("optimized_no_run.py has no function run(...)",),
    ),
    Row(
        "prepare_gives_no_callable",
        "def prepare(x):\n    return x * 2\n\n\ndef run(x):\n    return x * 2\n",
        State.USER_ERROR,
        says=("prepare() returned Tensor", "must return the callable to time"),
    ),
    Row(
        "wrong_arguments",
        "def run(x, y):\n    return x * y\n",
        State.USER_ERROR,
        says=("run() cannot take the 1 inputs of lesson.md (x)", "missing a required argument: 'y'"),
    ),
    Row(
        "endless_recursion",
        "def run(x):\n    return run(x)\n",
        State.USER_ERROR,
        says=("RecursionError", TO_MEND),
        detail=("optimized_endless_recursion.py:2 in run",),
    ),
    Row(
        "out_of_memory",
        on_call(
            VERIFIED,
            "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 3.64 TiB')",
            imports="import torch",
        ),
        State.USER_ERROR,
        says=("ran out of memory", "Tried to allocate 3.64 TiB", "use smaller axes"),
        detail=("optimized_out_of_memory.py:10 in run",),
    ),
    Row(
        "poisoned",
        on_call(
            VERIFIED,
            "raise torch.AcceleratorError('CUDA error: an illegal memory access was encountered')",
            imports="import torch",
        ),
        State.CUDA_POISONED,
        says=("an illegal memory access", "the CUDA context is lost", "the next run is fresh"),
        detail=("optimized_poisoned.py:10 in run",),
    ),
)

FLOODS = (
    Row(
        "holds_the_gil",
        on_call(VERIFIED, "sum(range(10**12))"),
        State.TIMEOUT_PROGRESS,
        says=("no sign of progress", "killed", "Look for a loop or a barrier that never ends"),
        signal=signal.SIGTERM,
        sent_by_us=True,
    ),
    Row(
        "deaf_to_signals",
        on_call(
            VERIFIED,
            "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
            "    signal.signal(number, signal.SIG_IGN)\n"
            "while True:\n    time.sleep(0.05)",
            imports="import signal\nimport time",
        ),
        State.TIMEOUT_PROGRESS,
        says=("no sign of progress", "killed"),
        signal=signal.SIGKILL,
        sent_by_us=True,
    ),
    Row(
        "prints_without_end",
        on_call(VERIFIED, "while True:\n    os.write(1, b'y\\n' * 32768)"),
        State.OUTPUT_LIMIT,
        says=("printed over", "killed", "Print less"),
        signal=signal.SIGKILL,
        sent_by_us=True,
    ),
    Row(
        "one_endless_line",
        "import os\n\nfor _ in range(100):\n    os.write(1, b'x' * 1_000_000)\n\n\ndef run(x):\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
    ),
    Row(
        "garbage",
        "import os\n\nos.write(1, os.urandom(1 << 20))\nos.write(2, bytes(range(256)) * 8)\n"
        "os.write(1, b'\\n\\x1b]52;c;aGk=\\x07\\x1b[2J[@click=app.quit]\\n')\n\n\ndef run(x):\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
    ),
)

FAMILIES = (
    Row(
        "daemon",
        on_call(
            VERIFIED,
            "if os.fork() == 0:\n"
            "    os.setsid()\n"
            "    if os.fork() == 0:\n"
            "        os.write(1, b'left behind: %d\\n' % os.getpid())\n"
            "        time.sleep(600)\n"
            "    os._exit(0)",
            imports="import os\nimport time",
        ),
        State.OK,
        correctness=Correctness.CORRECT,
    ),
    Row(
        "fork_bomb",
        # 31 processes, each in a session of its own, so that no signal to a group reaches them.
        on_call(
            VERIFIED,
            "me = os.getpid()\n"
            "for _ in range(5):\n"
            "    if os.fork() == 0:\n"
            "        os.setsid()\n"
            "if os.getpid() != me:\n"
            "    os.write(1, b'left behind: %d\\n' % os.getpid())\n"
            "    time.sleep(600)",
            imports="import os\nimport time",
        ),
        State.OK,
        correctness=Correctness.CORRECT,
    ),
    Row(
        "holds_the_line",
        # Keeps stdout, stderr and the line to the engine open when its parent is gone.
        on_call(
            VERIFIED,
            "if os.fork() == 0:\n    os.write(1, b'left behind: %d\\n' % os.getpid())\n    time.sleep(600)",
            imports="import os\nimport time",
        ),
        State.OK,
        correctness=Correctness.CORRECT,
    ),
)

BATCHES: dict[str, tuple[Row, ...]] = {
    "deaths": DEATHS,
    "answers": ANSWERS,
    "errors": ERRORS,
    "floods": FLOODS,
    "families": FAMILIES,
}
"""Rows that run side by side in one run, each a rung of one target."""
