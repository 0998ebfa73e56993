"""The vocabulary of outcomes: every way a run can end, as values. Nothing is ever told by a message's text."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """Where a run or one of its arms is. The first three are on the way, all others are final."""

    PLANNED = "planned"
    STARTING = "starting"
    RUNNING = "running"
    OK = "ok"
    INCORRECT = "incorrect"  # the outputs differ from the reference's
    USER_ERROR = "user_error"  # an exception, a compile error, a missing file: the target's own doing
    UNAVAILABLE = "unavailable"  # the machine lacks what the target needs ("needs sm_90"): not an error
    CRASHED = "crashed"  # died by a signal that we did not send
    PREMATURE_EXIT = "premature_exit"  # left without the frame that says done
    OOM_KILLED = "oom_killed"
    CUDA_POISONED = "cuda_poisoned"  # a sticky CUDA error: the process can never be used again
    TIMEOUT_PROGRESS = "timeout_progress"
    TIMEOUT_TOTAL = "timeout_total"
    OUTPUT_LIMIT = "output_limit"
    CANCELLED = "cancelled"
    ENGINE_LOST = "engine_lost"  # the engine died while this was on the way
    INFRA_ERROR = "infra_error"  # our own fault, or the machine's

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (State.PLANNED, State.STARTING, State.RUNNING)


class Correctness(enum.StrEnum):
    """What the verifier found."""

    UNKNOWN = "unknown"  # not reached
    CORRECT = "correct"
    WRONG = "wrong"


class Validity(enum.StrEnum):
    """Whether a time may be believed."""

    UNKNOWN = "unknown"
    VALID = "valid"
    SUSPECT = "suspect"  # kept and shown, never deleted, never a verdict
    CAUGHT = "caught"


class Verdict(enum.StrEnum):
    """What a comparison says."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"
    NONE = "none"  # there is nothing to compare: a dash, and the run says why


class Trigger(enum.StrEnum):
    """Who asked for a run."""

    CLI = "cli"
    TUI = "tui"
    WATCH = "watch"


class Timing(enum.StrEnum):
    """How one sample was taken; a number never stands without it."""

    COLD = "cold"  # L2 flushed, the stream held until the host was done: one event pair around one call
    COLD_SYNC = "cold+host"  # L2 flushed, stream not held: a latency lesson, or a call that waits for the GPU
    HOST = "host"  # CPU target: the monotonic clock around one call
    NONE = "none"  # checked, not timed (Triton's interpreter)
