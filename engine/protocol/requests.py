"""What a client may ask of the engine. Every request but `Hello` carries `seq`, a number that the client counts up.

What would do the same as a job that waits or is under way joins that one (events.Reply.joined), unless the request says
`again`. A save's run is joined by nobody: the next save ends it. What one request names twice is done twice.

The engine answers each request with `events.Reply(seq=...)`; a request repeated with the same client and seq
(after a reconnect) is answered again but not carried out twice.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from aisp.kernels.catalog.contracts import Cache


class Request(msgspec.Struct, tag_field="type", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all requests."""


class Hello(Request, tag="hello", frozen=True, kw_only=True):
    """First frame of a connection.

    Attributes:
        protocol: PROTOCOL of the client; where it differs the engine sends Welcome and accepts only Shutdown.
        build: hash of the installed sources, shown when it differs from the engine's.
        client: a random id that the client keeps over reconnects.
        subscribe_from: send events from this seq on (of `epoch`), 0 for all that is kept; None for none.
        epoch: the engine's life that subscribe_from counts in; another epoch starts with a snapshot.
        warm: keep workers warm as long as this client is connected.
    """

    protocol: int
    build: str
    client: str
    subscribe_from: int | None = None
    epoch: str = ""
    warm: bool = False


class FrozenContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contract (kernels.catalog.contracts) as a run's manifest keeps it.

    Attributes:
        name: of its file.
        sha256: of the document in canonical form; one that does not fit is refused.
        document: the contract as plain data.
    """

    name: str
    sha256: str
    document: dict[str, Any]


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs that were asked for as one run of a suite, as their manifests keep it.

    Attributes:
        id: ULID of the suite's run.
        sha256: of all that was asked for; a batch that was cut short goes on where it is the same.
    """

    id: str
    suite: str
    sha256: str


class StartRuns(Request, tag="start_runs", frozen=True, kw_only=True):
    """Plan one run per target, in this order, and start them as GPUs get free.

    Attributes:
        roots: collections to look in; empty for the shipped one.
        targets: target ids.
        rungs: rung names to run beside the baseline; empty for all honest ones.
        device: "auto", "cuda" or "cpu".
        case: a case's name; "" for the device's timed one.
        gpu_case: `case` is meant for GPUs: on a CPU the one that the author made for a CPU is timed, if any.
        quick: two replicas, fewer samples.
        replicas: fresh processes per arm; 0 for the default of the mode.
        cache: what the L2 holds before a sample.
        interleave: arms take turns; else one arm is measured after the other, as where they share a resource.
        trigger: "cli" or "tui".
        validity: "strict" or "portable": what an environment that is not fit for measuring does (checks.environment).
        without: ids of checks to leave out, to see what they are good for; such a run is SUSPECT and has no verdict.
        naive: also ask what the naive harness would say; None for "in full runs".
        contract: what the runs are meant to keep; it stands in their manifests, and changes nothing of how they run.
        batch: what they are part of; it stands in their manifests, and changes nothing of how they run.
        patience_s: how long the process of a rung may give no sign of progress, where that is less than the engine's
            limits; 0 for these. Where many are tried, one that hangs keeps the others waiting for so long.
    """

    seq: int
    roots: list[str] = []
    targets: list[str]
    rungs: list[str] = []
    device: str = "auto"
    case: str = ""
    gpu_case: bool = False
    quick: bool = False
    replicas: int = 0
    cache: Cache = Cache.COLD
    interleave: bool = True
    trigger: str = "cli"
    validity: str = "strict"
    without: list[str] = []
    naive: bool | None = None
    contract: FrozenContract | None = None
    batch: Batch | None = None
    patience_s: float = 0.0
    again: bool = False


class MeasurePeak(Request, tag="measure_peak", frozen=True, kw_only=True):
    """Measure the ceilings of the GPU that runs are placed on, once it is free. Answered at once, with the peak's id as
    Reply.run_ids[0]; PeakCeiling and PeakFinished follow. A GPU is needed: else the reply says why there is none."""

    seq: int
    again: bool = False


class FuzzTarget(Request, tag="fuzz", frozen=True, kw_only=True):
    """Try rungs of one target on many drawn cases against the fp64 reference, once the device is free. Answered at
    once, with the fuzz's id as Reply.run_ids[0]; FuzzPlanned, FuzzCase ..., FuzzFinished follow.

    Attributes:
        root: collection to look in; "" for the shipped one, "corpus" for the oracle's own.
        rungs: names; empty for all honest ones (of the corpus: all but the baseline).
        cases: how many, dealt out over the strategies in turn; numbers count from 0.
        seed: master seed; None for one that nobody can foresee.
        strategies: checks.oracle.schema.Strategy names; empty for the usual ones.
        case_s: patience with one case, 0 for the usual.
        naive: also ask what a naive oracle would say (one shape, allclose).
        lint: lint the task instead: cases measure how good right implementations are. `cases` still counts.
    """

    seq: int
    root: str = ""
    target: str
    rungs: list[str] = []
    device: str = "auto"
    cases: int = 200
    seed: int | None = None
    strategies: list[str] = []
    case_s: float = 0.0
    naive: bool = False
    lint: bool = False
    trigger: str = "cli"
    again: bool = False


class ReplayFailure(Request, tag="replay", frozen=True, kw_only=True):
    """Do a stored failure again, from the stored sources. Answered as FuzzTarget is; ReplayFinished follows."""

    seq: int
    failure: str  # its id, or the beginning of it
    again: bool = False


class Cancel(Request, tag="cancel", frozen=True, kw_only=True):
    """End a run or fuzz, planned or running; an empty run_id ends all of them."""

    seq: int
    run_id: str = ""


class MoveUp(Request, tag="move_up", frozen=True, kw_only=True):
    """Let a job that waits go before the one that waits before it. Refused where that one is of a kind that goes first;
    Reply.detail says where it stands now."""

    seq: int
    run_id: str


class StartWatch(Request, tag="start_watch", frozen=True, kw_only=True):
    """Run the target again, quickly, after each save of any file in its folder, until StopWatch."""

    seq: int
    root: str = ""  # "" for the shipped collection
    target: str
    device: str = "auto"


class StopWatch(Request, tag="stop_watch", frozen=True, kw_only=True):
    """Stop watching. Unknown targets are fine."""

    seq: int
    target: str


class Restore(Request, tag="restore", frozen=True, kw_only=True):
    """Write the sources of an earlier snapshot back into the target's folder; what stands there is kept in the
    store first, so that nothing is lost. Reply.detail names the snapshot of what was there."""

    seq: int
    root: str = ""
    target: str
    snapshot: str


class GetStatus(Request, tag="get_status", frozen=True, kw_only=True):
    """Ask for an events.Status."""

    seq: int


class GetLog(Request, tag="get_log", frozen=True, kw_only=True):
    """Ask for the engine's own newest log lines, as an events.EngineLog."""

    seq: int
    lines: int = 200


class AcceptInstalled(Request, tag="accept_installed", frozen=True, kw_only=True):
    """What appeared or changed on an import path while a run went on is the person's own doing: let processes be
    started again, and take the rungs of that run out of quarantine. Reply.detail says what was accepted."""

    seq: int


class Shutdown(Request, tag="shutdown", frozen=True, kw_only=True):
    """Stop the engine: at once (runs become `cancelled`) or when the queue is empty."""

    seq: int
    when_idle: bool = False


AnyRequest: TypeAlias = (
    Hello
    | StartRuns
    | MeasurePeak
    | FuzzTarget
    | ReplayFailure
    | Cancel
    | MoveUp
    | StartWatch
    | StopWatch
    | Restore
    | GetStatus
    | GetLog
    | AcceptInstalled
    | Shutdown
)
