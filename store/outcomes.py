"""The vocabulary of outcomes: every way a run can end, as values. No meaning is ever read from a message's text."""

from __future__ import annotations

import enum
from collections.abc import Iterable

TWIN_SUFFIX = " (A/A)"
"""Ends the name of the arm that runs the baseline against itself."""


class Fault(enum.StrEnum):
    """Whose doing it is that a run or an arm ended as it did."""

    NOBODY = "nobody"  # it ended well, or goes on
    TARGET = "target"  # of the code that ran, or of a limit that it met
    MACHINE = "machine"  # it lacks what the target needs, and will tomorrow
    PERSON = "person"  # somebody wanted no more of it
    ENGINE = "engine"  # ours, or the machine's that failed us
    RECORD = "record"  # of whoever changed what was stored


class State(enum.StrEnum):
    """Where a run or one of its arms is. The first three are on the way, all others are final.

    The last is never stored: it is what a reader says of a run that is not what was written.
    """

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
    CHANGED = "changed since it was written"  # its digest does not fit: no figure of it is shown

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (State.PLANNED, State.STARTING, State.RUNNING)

    @property
    def fault(self) -> Fault:
        """Whose doing it is."""
        match self:
            case State.PLANNED | State.STARTING | State.RUNNING | State.OK:
                return Fault.NOBODY
            case State.UNAVAILABLE:
                return Fault.MACHINE
            case State.CANCELLED:
                return Fault.PERSON
            case State.ENGINE_LOST | State.INFRA_ERROR:
                return Fault.ENGINE
            case State.CHANGED:
                return Fault.RECORD
        return Fault.TARGET

    @property
    def again(self) -> bool:
        """Whether the next attempt may say what this one does not, through no fault of the target's."""
        return self.fault in (Fault.PERSON, Fault.ENGINE, Fault.RECORD)

    @property
    def silent(self) -> bool:
        """Whether it is an end that says nothing of the target; an arm may have been judged before it came to that."""
        return self.again or self.fault is Fault.MACHINE

    @property
    def cut_short(self) -> bool:
        """Whether it is no end of the run's own: whatever had been seen by then, there is no result."""
        return self in (State.CANCELLED, State.ENGINE_LOST)

    @property
    def spares_the_run(self) -> bool:
        """Whether a run with such an arm can be OK: it ended well, or has no place on this machine."""
        return self in (State.OK, State.UNAVAILABLE)

    @property
    def void(self) -> bool:
        """Whether nothing that was seen in such a run decides anything: a person ended it, or its record is not what
        was written."""
        return self.fault in (Fault.PERSON, Fault.RECORD)

    @property
    def timed_out(self) -> bool:
        """Whether it gave no sign for too long, or took too long in all."""
        return self in (State.TIMEOUT_PROGRESS, State.TIMEOUT_TOTAL)

    @property
    def late(self) -> bool:
        """Whether the code had been imported by then, though its outputs may never have been judged."""
        return self.timed_out or self is State.CUDA_POISONED

    @property
    def fatal(self) -> bool:
        """Whether the process is gone after it, or must never be used again."""
        return self.fault is Fault.TARGET and self not in (State.INCORRECT, State.USER_ERROR)

    @property
    def refused(self) -> bool:
        """Whether the engine's own rules stopped it, so that it has no time that anybody could believe."""
        return self.timed_out or self in (State.INCORRECT, State.PREMATURE_EXIT, State.OUTPUT_LIMIT)

    @property
    def stored(self) -> bool:
        """Whether a run can be in it, and not only be read so."""
        return self is not State.CHANGED


def quoted(members: Iterable[enum.StrEnum]) -> str:
    """A list of states, or of other such words, as SQL has it: "('planned', 'starting')"."""
    return f"({', '.join(repr(member.value) for member in members)})"


NOT_ENDED = quoted(state for state in State if not state.final)
"""States of runs that are on the way, as SQL has them."""
CHANGED_REASON = "its digest does not fit what is stored; `aisp store --verify` says more"
"""Why nothing of a run that was changed is shown."""


SUPERSEDED = "superseded"
"""The flag of a cancelled run whose place the run of a later save took. Its reason says of which."""


class Correctness(enum.StrEnum):
    """What the verifier found."""

    UNKNOWN = "unknown"  # not reached
    CORRECT = "correct"
    WRONG = "wrong"

    @property
    def known(self) -> bool:
        """Whether the outputs were judged."""
        return self is not Correctness.UNKNOWN

    @property
    def wrong(self) -> bool:
        """Whether they were refused."""
        return self is Correctness.WRONG


class TolerancePolicy(enum.StrEnum):
    """Whose allowance an output was compared by (checks.oracle.comparator)."""

    STATED = "stated"  # the tolerance of the lesson, or of the output's dtype
    DERIVED = "derived"  # what the computation itself allows, element by element


class Validity(enum.StrEnum):
    """Whether a time may be believed."""

    UNKNOWN = "unknown"
    VALID = "valid"
    SUSPECT = "suspect"  # kept and shown, never deleted, never a verdict
    CAUGHT = "caught"

    @property
    def suspect(self) -> bool:
        """Whether a time is shown and is no verdict."""
        return self is Validity.SUSPECT

    @property
    def caught(self) -> bool:
        """Whether there is no time that could be shown."""
        return self is Validity.CAUGHT

    @property
    def doubted(self) -> bool:
        """Whether a time is not to be believed."""
        return self.suspect or self.caught


class FindingStatus(enum.StrEnum):
    """What one check found in a run."""

    PASSED = "passed"
    CAUGHT = "caught"
    SUSPECT = "suspect"
    NOT_APPLICABLE = "not_applicable"
    UNAVAILABLE = "unavailable"


GRAVEST_FIRST = (
    FindingStatus.CAUGHT,
    FindingStatus.SUSPECT,
    FindingStatus.UNAVAILABLE,
    FindingStatus.PASSED,
    FindingStatus.NOT_APPLICABLE,
)
"""What several answers of one check come down to is the first of these that is among them."""


class CaseVerdict(enum.StrEnum):
    """What one case of a fuzz says of a rung."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"  # the rung declares that it does not take such shapes: not a fault
    ERROR = "error"  # it raised
    CRASHED = "crashed"  # its process died: of a signal, a sticky CUDA error, or by leaving
    TIMEOUT = "timeout"
    MEMORY = "memory"  # it ran out of memory, or the reference did: says nothing about the rung
    SKIPPED = "skipped"  # the case could not be posed (the reference raised)

    @property
    def compared(self) -> bool:
        """Whether its outputs were compared with the reference's, and so have an error."""
        return self in (CaseVerdict.RIGHT, CaseVerdict.WRONG)

    @property
    def failing(self) -> bool:
        """Whether the rung is at fault."""
        return self in (CaseVerdict.WRONG, CaseVerdict.ERROR, CaseVerdict.CRASHED, CaseVerdict.TIMEOUT)


class FuzzVerdict(enum.StrEnum):
    """What a whole fuzz says of a rung."""

    RIGHT = "right"
    WRONG = "wrong"  # a gate case failed
    DOUBTED = "doubted"  # only triage cases failed: look at them
    UNDECIDED = "undecided"  # no case could be judged

    @property
    def wrong(self) -> bool:
        """Whether it is a fault."""
        return self is FuzzVerdict.WRONG


class Verdict(enum.StrEnum):
    """What a comparison says."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNDECIDED = "undecided"
    NONE = "none"  # there is nothing to compare: a dash, and the run says why

    @property
    def known(self) -> bool:
        """Whether there is something to compare."""
        return self is not Verdict.NONE

    @property
    def decided(self) -> bool:
        """Whether more replicas are not needed to say it."""
        return self.known and self is not Verdict.UNDECIDED


class Held(enum.StrEnum):
    """What the machine's kernel keeps a process that runs a rung from. The words follow "confined:"."""

    FILES = "files"  # writing elsewhere than to its own
    READING = "reading"  # what is neither installed nor its own: the store, the home folder
    NETWORK = "network"
    SIGNALS = "signals"  # to processes that it has not started
    SCHEDULING = "scheduling"  # of other processes: cores, priorities, limits; and their memory


class Trigger(enum.StrEnum):
    """Who asked for a run."""

    CLI = "cli"
    TUI = "tui"
    WATCH = "watch"


class Timing(enum.StrEnum):
    """How one sample was taken; a number never stands without it.

    `cold`: the L2 was flushed before, and read until nothing in it waited to be written back. `dirty`: it was flushed
    by writing and no more, so that a call also waits for the flush. `warm`: the same call ran just before, untimed.
    Held means that a blocking kernel kept the stream until the host had launched everything, so that no host time is in
    the number.
    """

    COLD = "cold"  # held, one event pair around one call
    COLD_GRAPH = "cold graph"  # held, one event pair around a graph of several calls, each on buffers of its own
    COLD_BATCH = "cold batch"  # the same, launched one by one: not every arm could be captured
    COLD_SYNC = "cold+host"  # not held: a latency lesson, or a call that waits for the GPU itself
    DIRTY = "dirty"
    DIRTY_GRAPH = "dirty graph"
    DIRTY_BATCH = "dirty batch"
    DIRTY_SYNC = "dirty+host"
    WARM = "warm"
    WARM_GRAPH = "warm graph"
    WARM_BATCH = "warm batch"
    WARM_SYNC = "warm+host"
    HOST = "host"  # CPU target: the monotonic clock around one call
    NONE = "none"  # checked, not timed (Triton's interpreter)

    @property
    def held(self) -> bool:
        """Whether host time was kept out of the samples."""
        return self not in (Timing.HOST, Timing.NONE) and not self.endswith("+host")

    @property
    def warm(self) -> bool:
        """Whether its samples find in the cache what the call before left there."""
        return self.startswith("warm")

    @property
    def in_graph(self) -> bool:
        """Whether a sample is a replay of a graph of several calls."""
        return self.endswith(" graph")

    @property
    def together(self) -> bool:
        """Whether a sample is of several calls."""
        return self.in_graph or self.endswith(" batch")


class Limiter(enum.StrEnum):
    """What keeps a call from being faster than its bound."""

    BYTES = "bytes"  # device memory bandwidth
    FLOPS = "flops"  # arithmetic
    PCIE = "pcie"  # the link between host memory and the GPU
    NVLINK = "nvlink"  # the link between GPUs
    LAUNCH = "launch"  # the least time of a kernel that does nothing
    HOST = "host"  # the host launches more slowly than the GPU works
