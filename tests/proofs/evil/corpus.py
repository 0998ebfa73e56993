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

from aisp.store.outcomes import Correctness, State

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
# Long enough for what lies between two calls of the judge's to be little: one of two microseconds takes fourteen times
# its samples there, and is nothing to hold a rung against.
MILLISECOND = "import time\n\n\ndef run(x):\n    time.sleep(0.001)\n    return x + x\n"


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
        suspect: the check that must suspect it; likewise.
        began: whether it had a process at all: what is no Python is told before any starts.
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
    suspect: str = ""
    began: bool = True

    @property
    def rung(self) -> str:
        """The rung's name."""
        return f"optimized_{self.name}"

    @property
    def last_signal(self) -> int | None:
        """What its process died of: a rung that only told of its failure is alive, and asked to leave."""
        told = (State.USER_ERROR, State.INCORRECT, State.CUDA_POISONED, State.INFRA_ERROR)
        return signal.SIGTERM if self.began and self.state in told and self.signal is None else self.signal


def write(folder: Path, rows: Sequence[Row] = (), *, reference: str = REFERENCE, lesson: str = LESSON) -> Path:
    """Make the target folder `folder` with these rows as rungs; the folder."""
    folder.mkdir(parents=True)
    baseline = MILLISECOND if any(row.suspect for row in rows) else BASELINE
    files = {"lesson.md": lesson, "reference.py": reference, "baseline.py": baseline, "optimized.py": OPTIMIZED}
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
        says=("died of SIGSEGV; the trace below begins where it happened",),
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
        says=("died of SIGABRT; the trace below begins where it happened",),
        detail=("Aborted", "optimized_abort.py"),
        signal=signal.SIGABRT,
        sent_by_us=False,
    ),
    Row(
        "killed",
        on_call(VERIFIED, "os.kill(os.getpid(), 9)"),
        State.CRASHED,
        says=("died of SIGKILL; the engine did not send it: look for who did",),
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
    ),
    Row(
        "clock_stopped",
        "import time\n\n\ndef run(x):\n    time.perf_counter_ns = lambda: 7\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
    ),
)

TO_MEND = "the trace below ends at the line to fix"
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
        began=False,
    ),
    Row(
        "no_run",
        "def walk(x):\n    return x * 2\n",
        State.USER_ERROR,
        says=("optimized_no_run.py has neither run(...) nor prepare(...)",),
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

# What an exception says is the lesson's to make: each must arrive as the rung's error, with its place.
TEXTS = (
    Row(
        "surrogate",
        on_call(VERIFIED, "raise RuntimeError('bad \\udc80 name')"),
        State.USER_ERROR,
        says=("RuntimeError: bad \\udc80 name", TO_MEND),
        detail=("optimized_surrogate.py:10 in run", "RuntimeError: bad \\udc80 name"),
    ),
    Row(
        "dumb",
        on_call(
            VERIFIED,
            "class Dumb(ValueError):\n    def __str__(self):\n        raise SystemExit(0)\n"
            "    __repr__ = __str__\nraise Dumb",
        ),
        State.USER_ERROR,
        says=("Dumb: (what it says could not be read: its __str__ raised SystemExit)", TO_MEND),
        detail=("optimized_dumb.py:14 in run", "raise Dumb"),
    ),
    Row(
        "says_a_number",
        on_call(VERIFIED, "class Odd(ValueError):\n    def __str__(self):\n        return 7\nraise Odd"),
        State.USER_ERROR,
        says=("Odd: (what it says could not be read: its __str__ raised TypeError)", TO_MEND),
        detail=("optimized_says_a_number.py:13 in run",),
    ),
    Row(
        "enormous",
        on_call(VERIFIED, "raise KeyError('much ' * 20_000_000)"),
        State.USER_ERROR,
        says=("KeyError: 'much much", TO_MEND),
        detail=("optimized_enormous.py:10 in run", "much ..."),
    ),
    Row(
        "group",
        on_call(
            VERIFIED,
            "raise BaseExceptionGroup('two', [KeyboardInterrupt('a \\udc81'), ExceptionGroup('b', [OSError(5)])])",
        ),
        State.USER_ERROR,
        says=("BaseExceptionGroup: two (2 sub-exceptions)", TO_MEND),
        detail=("optimized_group.py:10 in run", "KeyboardInterrupt: a \\udc81", "ExceptionGroup: b", "OSError: 5"),
    ),
    Row(
        "odd_class",
        on_call(VERIFIED, "raise type('A\\x1b]2;title\\x07\\nB', (Exception,), {'__module__': 7})('x')"),
        State.USER_ERROR,
        says=("A\u241b]2;title\u2407 B: x", TO_MEND),
        detail=("optimized_odd_class.py:10 in run",),
    ),
    Row(
        "no_frames",
        on_call(
            VERIFIED,
            "class Bare(ExceptionGroup):\n    exceptions = property(lambda self: 1 / 0)\nraise Bare('b', [OSError()])",
        ),
        State.USER_ERROR,
        says=("Bare; what it says could not be read (ZeroDivisionError)",),
    ),
    Row(
        "masked",
        on_call(
            VERIFIED,
            "class Mask(Exception):\n    __cause__ = __traceback__ = property(lambda self: 1 / 0)\nraise Mask('kept')",
        ),
        State.USER_ERROR,
        says=("Mask: kept", TO_MEND),
        detail=("optimized_masked.py:12 in run",),
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
        "exponential_bomb",
        # At most 512 processes in all, of which each sleeps once it has doubled itself often enough.
        on_call(
            VERIFIED,
            "for _ in range(9):\n    os.fork()\ntime.sleep(600)",
            imports="import os\nimport time",
        ),
        State.USER_ERROR,
        says=("are allowed", "all were killed"),
        signal=signal.SIGKILL,
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

# Reaches into our own code for the clock that was taken before it was imported.
OWN_CLOCK = "import sys\n\ntimers = sys.modules['aisp.engine.worker.timers']\ntrue_ns = timers._perf_counter_ns\n"
HONEST = "\n\ndef run(x):\n    return x * 2\n"
NO_TIME = "a time that is zero, negative or not a number was reported"

FORGERIES = (
    *(
        Row(
            name,
            OWN_CLOCK + f"timers._perf_counter_ns = {clock}\n" + HONEST,
            State.INFRA_ERROR,
            says=(NO_TIME,),
            correctness=Correctness.CORRECT,
            caught="timing.clock_sanity",
        )
        for name, clock in (
            ("times_of_zero", "lambda: 7"),
            ("times_below_zero", "lambda: -true_ns()"),
            ("times_that_are_no_number", "lambda: float('nan')"),
            ("times_without_end", "__import__('itertools').cycle((0, float('inf'))).__next__"),
        )
    ),
    Row(
        "a_thirtieth_of_the_time",
        OWN_CLOCK + "import time\n\ntimers._perf_counter_ns = lambda: true_ns() // 30\n\n\n"
        "def run(x):\n    time.sleep(0.002)\n    return x * 2\n",
        State.OK,
        correctness=Correctness.CORRECT,
        suspect="timing.wall_clock",
    ),
    Row(
        "more_time_than_there_was",
        OWN_CLOCK + "timers._perf_counter_ns = lambda: true_ns() * 100_000\n" + HONEST,
        State.INFRA_ERROR,
        says=("of samples within", "of wall clock"),
        correctness=Correctness.CORRECT,
        caught="timing.clock_sanity",
    ),
    Row(
        "report_of_its_own",
        # {"type": "sustained", "calls": 1} in msgpack behind its length, for every socket.
        on_call(
            VERIFIED,
            "body = b'\\x82\\xa4type\\xa9sustained\\xa5calls\\x01'\n"
            "for fd in range(3, 64):\n"
            "    try:\n"
            "        if stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
            "            os.write(fd, struct.pack('>I', len(body)) + body)\n"
            "    except OSError:\n"
            "        continue",
            imports="import os\nimport stat\nimport struct",
        ),
        State.INFRA_ERROR,
        says=("wrote to the engine's line what it was not asked for", "forged or torn"),
        signal=signal.SIGKILL,
        caught="evaluation.result_channel",
    ),
    Row(
        "report_with_a_made_up_seal",
        # The same whole frame, with the number that is due; only the key cannot be had.
        on_call(
            VERIFIED,
            "frame = sys._getframe()\n"
            "while 'channel' not in frame.f_locals:\n"
            "    frame = frame.f_back\n"
            "seal = frame.f_locals['channel']._encoder._seal\n"
            "number = dict(zip(seal.__code__.co_freevars, seal.__closure__))['number'].cell_contents\n"
            "body = struct.pack('>Q', number) + bytes(16) + b'\\x82\\xa4type\\xa9sustained\\xa5calls\\x01'\n"
            "for fd in range(3, 64):\n"
            "    try:\n"
            "        if stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
            "            os.write(fd, struct.pack('>I', len(body)) + body)\n"
            "    except OSError:\n"
            "        continue",
            imports="import os\nimport stat\nimport struct\nimport sys",
        ),
        State.INFRA_ERROR,
        says=("bears a seal that is not made with this channel's key",),
        signal=signal.SIGKILL,
        caught="evaluation.result_channel",
    ),
)

GPU_LESSON = LESSON.replace('goal = "speed"', 'goal = "speed"\nneeds = { gpus = 1 }')
"""One whose inputs stay in host memory: also for a stand-in of a GPU."""
DEVICE_LESSON = GPU_LESSON.replace(" cpu", "").replace("N = 256", "N = 1048576")
OUT_OF_BOUNDS = """import triton
import triton.language as tl


@triton.jit
def stray(x_ptr, far):
    tl.store(x_ptr + far, 1.0)


def run(x):
    stray[(1,)](x, 1 << 40)
    return x * 2
"""
# The load is volatile: no compiler may take the loop away. No value of x reaches the bound.
LOOP = """import triton
import triton.language as tl

calls = 0


@triton.jit
def loop(x_ptr):
    value = tl.load(x_ptr, volatile=True)
    while value < 1e30:
        value = tl.load(x_ptr, volatile=True)
    tl.store(x_ptr, value)


def run(x):
    global calls
    calls += 1
    if calls == 2:
        loop[(1,)](x)
    return x * 2
"""
LEAVES_IN_A_KERNEL = """import atexit

import torch


def spin():
    torch.cuda._sleep(1 << 62)
    torch.cuda.synchronize()


atexit.register(spin)


def run(x):
    return x * 2
"""
DEVICE = (
    Row("out_of_bounds", OUT_OF_BOUNDS, State.CUDA_POISONED, says=("the CUDA context is lost",)),
    Row(
        "device_assert",
        on_call(
            VERIFIED,
            "torch._assert_async(torch.zeros((), dtype=torch.bool, device='cuda'))",
            imports="import torch",
        ),
        State.CUDA_POISONED,
        says=("the CUDA context is lost",),
    ),
    Row(
        "spin",
        on_call(VERIFIED, "torch.cuda._sleep(1 << 62)", imports="import torch"),
        State.TIMEOUT_PROGRESS,
        says=("no sign of progress",),
    ),
    Row("loop", LOOP, State.TIMEOUT_PROGRESS, says=("no sign of progress",)),
    Row(
        "too_large",
        on_call(VERIFIED, "torch.empty(1 << 44, device='cuda')", imports="import torch"),
        State.USER_ERROR,
        says=("ran out of memory",),
    ),
    Row(
        "segfault",
        on_call(VERIFIED, "ctypes.string_at(0)", imports="import ctypes"),
        State.CRASHED,
        says=("died of SIGSEGV",),
    ),
    Row("teardown", LEAVES_IN_A_KERNEL, State.OK, correctness=Correctness.CORRECT, dirty_exit=True),
)

BATCHES: dict[str, tuple[Row, ...]] = {
    "deaths": DEATHS,
    "answers": ANSWERS,
    "errors": ERRORS,
    "texts": TEXTS,
    "floods": FLOODS,
    "families": FAMILIES,
    "forgeries": FORGERIES,
}
"""Rows that run side by side in one run, each a rung of one target."""


def batch(name: str) -> tuple[tuple[Row, ...], str]:
    """Rows and lesson of a batch; "device" is the one that needs a GPU."""
    return (DEVICE, DEVICE_LESSON) if name == "device" else (BATCHES[name], LESSON)
