"""Rows 1 to 5, 7, 9 to 13, 42, 43 and 51: what a worker can do to itself, to its siblings and to the engine.

What can be seen of a batch of tests.proofs.evil.corpus is looked at there; tests/engine/test_faults.py holds every row
of a batch against what it must come to, to the last field.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from aisp.engine.telemetry import Nvml
from aisp.store.outcomes import FindingStatus, State, Verdict
from aisp.store.record import Arm
from tests.engine.harness import OUTPUT_LIMIT_BYTES, Result
from tests.proofs.evil import corpus
from tests.proofs.evil.corpus import Row
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, assert_timed

# A worker with a CUDA context holds some 0.5 GiB of memory of its own, one without 0.2; seven are there at times.
LIMIT_BYTES = (6 if Nvml().count else 2) << 30
GROWS = Row(
    "grows",
    # Touches every page, and stops at twice the limit: then nobody came.
    corpus.on_call(
        corpus.VERIFIED,
        f"kept = [bytearray(b'x') * (64 << 20) for _ in range({2 * LIMIT_BYTES >> 26})]\ntime.sleep(600)",
        imports="import time",
    ),
    State.OOM_KILLED,
)


async def ended(stage: Stage, batch: str, rung: str, state: State) -> tuple[Result, Arm]:
    """The batch's run and one evil arm of it, which has ended so and left the honest ones alone."""
    result = await stage.batch(batch)
    arm = result.arm(f"optimized_{rung}")
    assert arm.state is state, f"{arm.state}: {arm.reason}"
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    return result, arm


# -- rows 1 to 5: deaths -----------------------------------------------------------------------------------------------


@fault(1, "a worker dies of SIGSEGV", "crashed(SIGSEGV), the trace kept, siblings untouched", batch="deaths")
async def segfault(stage: Stage) -> str:
    _, arm = await ended(stage, "deaths", "segfault", State.CRASHED)
    assert (arm.signal, arm.signal_sent_by_us) == (11, False)
    assert "optimized_segfault.py" in arm.detail
    return arm.reason


@fault(2, "a worker aborts", "crashed(SIGABRT)", batch="deaths")
async def abort(stage: Stage) -> str:
    _, arm = await ended(stage, "deaths", "abort", State.CRASHED)
    assert (arm.signal, arm.signal_sent_by_us) == (6, False)
    assert "optimized_abort.py" in arm.detail
    return arm.reason


@fault(3, "a worker fills the memory", "oom_killed before the machine is full; the engine survives", own=True)
async def grows(stage: Stage) -> str:
    engine = await stage.started(AISP_MEMORY_LIMIT_BYTES=str(LIMIT_BYTES), AISP_PROGRESS_LIMIT_S="60")
    result = await engine.run(stage.target("memory", GROWS), "mine:memory")
    arm = result.arm(GROWS.rung)
    assert (arm.state, arm.signal, arm.signal_sent_by_us) == (State.OOM_KILLED, 9, True), arm.reason
    assert f"{LIMIT_BYTES / (1 << 30):.2f} GiB is the limit" in arm.reason
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    return arm.reason


def memory_groups() -> Path | None:
    """Where this process may make a control group that limits memory; None where it may not."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        below = Path("/sys/fs/cgroup", *(["memory"] if names else []), path.strip("/"))
        limits = "memory" in names.split(",") or (below / "memory.max").exists()
        if limits and os.access(below, os.W_OK) and os.access(below / "cgroup.procs", os.W_OK):
            return below
    return None


@contextmanager
def moved_to_group(processes: Callable[[], list[psutil.Process]], limit_bytes: int) -> Iterator[None]:
    """These processes, and what they start, in a control group of so much memory; afterwards as before."""
    above = memory_groups()
    assert above is not None
    group = above / f"aisp-{os.getpid()}"
    group.mkdir()
    try:
        limit = next(group / name for name in ("memory.max", "memory.limit_in_bytes") if (group / name).exists())
        limit.write_text(str(limit_bytes))
        for process in processes():
            (group / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                (above / "cgroup.procs").write_text(pid)
        group.rmdir()


if memory_groups() is not None:

    @fault(3, "the kernel kills a worker for memory", "oom_killed; the engine and the siblings survive", own=True)
    async def killed_by_the_kernel(stage: Stage) -> str:
        engine = await stage.started(AISP_PROGRESS_LIMIT_S="60")
        await engine.steady()
        with moved_to_group(lambda: [engine.ps, *engine.ps.children(recursive=True)], LIMIT_BYTES):
            result = await engine.run(stage.target("memory", GROWS), "mine:memory")
            await engine.steady()
        arm = result.arm(GROWS.rung)
        assert (arm.state, arm.signal, arm.signal_sent_by_us) == (State.OOM_KILLED, 9, False), arm.reason
        assert_timed(result, "baseline")
        assert_timed(result, "optimized")
        return arm.reason


@fault(4, "the GPU's memory is full", "user_error(OutOfMemoryError), the worker is discarded", batch="errors")
async def gpu_memory_full(stage: Stage) -> str:
    _, arm = await ended(stage, "errors", "out_of_memory", State.USER_ERROR)
    assert "ran out of memory" in arm.reason and "use smaller axes" in arm.reason
    assert arm.signal_sent_by_us
    return arm.reason


@fault(5, "a CUDA error that stays", "cuda_poisoned, the process is ended and never used again", batch="errors")
async def poisoned(stage: Stage) -> str:
    _, arm = await ended(stage, "errors", "poisoned", State.CUDA_POISONED)
    assert (arm.signal, arm.signal_sent_by_us) == (15, True)
    return arm.reason


# -- rows 7 and 9: what does not end -----------------------------------------------------------------------------------


@fault(7, "a hang that ignores signals", "timeout_progress, SIGKILL after a grace", batch="floods")
async def deaf_to_signals(stage: Stage) -> str:
    _, arm = await ended(stage, "floods", "deaf_to_signals", State.TIMEOUT_PROGRESS)
    assert (arm.signal, arm.signal_sent_by_us) == (9, True)
    return f"{arm.reason} (SIGTERM was not enough, SIGKILL was)"


@fault(9, "output without end", "output_limit over the limit, the run is stopped", batch="floods")
async def prints_without_end(stage: Stage) -> str:
    _, arm = await ended(stage, "floods", "prints_without_end", State.OUTPUT_LIMIT)
    assert f"printed over {OUTPUT_LIMIT_BYTES >> 20} MiB" in arm.reason
    return arm.reason


@fault(9, "a line of 100 MB, and bytes that are no text", "kept in part and cleaned; the run is ok", batch="floods")
async def garbage(stage: Stage) -> str:
    result, _ = await ended(stage, "floods", "one_endless_line", State.OK)
    await ended(stage, "floods", "garbage", State.OK)
    kept = sum(len(line) for line in result.printed("optimized_one_endless_line"))
    printed = result.printed("optimized_garbage")
    assert 0 < kept < 2_000_000
    assert len(printed) > 10 and not any(ord(sign) < 32 for line in printed for sign in line if sign != "\t")
    return f"{kept:,} characters of 100,000,000 were told, and {len(printed):,} lines of garbage, cleaned"


@fault(9, "output at a steady rate that disturbs", "output_limit after some seconds", own=True)
async def prints_too_fast(stage: Stage) -> str:
    engine = await stage.started(AISP_OUTPUT_RATE_BYTES_PER_S="2000000", AISP_OUTPUT_RATE_PATIENCE_S="1")
    body = "while True:\n    os.write(1, b'y' * 99_999 + b'\\n')\n    time.sleep(0.01)"
    row = Row("fast", corpus.on_call(corpus.VERIFIED, body, imports="import os\nimport time"), State.OUTPUT_LIMIT)
    result = await engine.run(stage.target("flood", row), "mine:flood")
    arm = result.arm(row.rung)
    assert (arm.state, arm.signal_sent_by_us) == (State.OUTPUT_LIMIT, True), arm.reason
    assert "printed over 2 MB/s for 1 s" in arm.reason
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    return arm.reason


# -- rows 10 to 13: leaving, and what stays behind ---------------------------------------------------------------------


@fault(10, "a worker leaves before it is done", "premature_exit, whatever its status says", batch="deaths")
async def leaves_early(stage: Stage) -> str:
    codes = {}
    for rung in ("os_exit", "sys_exit", "close_descriptors"):
        _, arm = await ended(stage, "deaths", rung, State.PREMATURE_EXIT)
        assert arm.signal_sent_by_us is False, f"{rung}: {arm.reason}"
        codes[rung] = arm.exit_code
    assert codes == {"os_exit": 0, "sys_exit": 0, "close_descriptors": 1}
    return f"premature_exit each: {', '.join(f'{rung} with status {code}' for rung, code in codes.items())}"


@fault(
    11,
    "a worker leaves badly, or not at all",
    "the result is kept, flagged dirty_exit, ended after 2 s",
    batch="deaths",
)
async def leaves_badly(stage: Stage) -> str:
    result, bad = await ended(stage, "deaths", "bad_leaving", State.OK)
    _, never = await ended(stage, "deaths", "never_leaving", State.OK)
    assert bad.dirty_exit and never.dirty_exit and "dirty_exit" in result.record.flags
    assert (bad.exit_code, bad.signal) == (9, None)
    assert (never.signal, never.signal_sent_by_us) == (15, True)
    assert_timed(result, bad.rung)
    assert_timed(result, never.rung)
    return "both results kept and flagged: one left with status 9, the other was ended by SIGTERM"


def left_behind(result: Result, rung: str) -> list[int]:
    """Processes that a rung started and said so."""
    return [int(line.split()[-1]) for line in result.printed(f"optimized_{rung}") if "left behind" in line]


@fault(12, "forks, daemons in sessions of their own", "swept when the worker has ended, and counted", batch="families")
async def forks(stage: Stage) -> str:
    result, _ = await ended(stage, "families", "fork_bomb", State.OK)
    await ended(stage, "families", "daemon", State.OK)
    pids = left_behind(result, "fork_bomb") + left_behind(result, "daemon")
    assert len(pids) == 32
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    log = (stage.engine.home / "state" / "engine.log").read_text("utf-8")
    told = [int(line.split(" process(es)")[0].split()[-1]) for line in log.splitlines() if "were left behind" in line]
    assert sum(told) >= len(pids), "the engine's log does not count them"
    return f"{len(pids)} processes were left behind in sessions of their own, none is there; the log counts them"


@fault(12, "processes that double themselves", "halted and killed whole when there are too many", batch="families")
async def doubles_itself(stage: Stage) -> str:
    _, arm = await ended(stage, "families", "exponential_bomb", State.USER_ERROR)
    assert (arm.signal, arm.signal_sent_by_us) == (9, True)
    assert f"{stage.engine.environment['AISP_PROCESS_LIMIT']} are allowed" in arm.reason
    return arm.reason


@fault(13, "a grandchild keeps stdout open", "it is not waited for", batch="families")
async def holds_the_line(stage: Stage) -> str:
    result, arm = await ended(stage, "families", "holds_the_line", State.OK)
    (pid,) = left_behind(result, "holds_the_line")
    assert not psutil.pid_exists(pid)
    duration_ms = result.record.duration_ms
    assert duration_ms is not None and duration_ms < 300_000, "somebody waited for what sleeps for ten minutes"
    assert_timed(result, arm.rung)
    return "a process that would have held the line for ten minutes was swept, the arm ended well"


# -- rows 42, 43 and 51 ------------------------------------------------------------------------------------------------

NO_TIMES: dict[str, object] = {
    "0": 0.0,
    "-1": -1.0,
    "NaN": float("nan"),
    "Inf": float("inf"),
    "-Inf": float("-inf"),
    "1e12": 1e12,
    "text": "abc",
    "nothing": b"",
}


@fault(42, "a time that is none is written to the store", "the table refuses it", batch="deaths")
async def written_to_the_store(stage: Stage) -> str:
    copy, source = stage.home / "copy.db", stage.engine.home / "state" / "aisp.db"
    change = "UPDATE arms SET median_ms = ? WHERE rung = 'baseline' AND low_ms IS NOT NULL"
    refused = []
    with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as ours, closing(sqlite3.connect(copy)) as made:
        ours.backup(made)
        assert made.execute(change, (1.5,)).rowcount > 0, "a true time is taken"
        for name, value in NO_TIMES.items():
            try:
                made.execute(change, (value,))
            except sqlite3.IntegrityError:
                refused.append(name)
    assert refused == list(NO_TIMES)
    return f"refused: {', '.join(refused)}"


@fault(42, "a worker whose clock gives no times", "the engine refuses the samples; no number", batch="forgeries")
async def no_times(stage: Stage) -> str:
    names = ("times_of_zero", "times_below_zero", "times_that_are_no_number", "times_without_end")
    for rung in names:
        result, arm = await ended(stage, "forgeries", rung, State.INFRA_ERROR)
        assert "zero, negative or not a number" in arm.reason
        assert (arm.median_ms, arm.sample_count) == (None, 0)
        assert "timing.clock_sanity" in caught(result, arm.rung)
    return f"refused from workers with {', '.join(names)}; none has a number"


def caught(result: Result, rung: str) -> list[str]:
    """Checks that caught a rung."""
    found = [f for f in result.record.findings if f.arm == rung and f.status is FindingStatus.CAUGHT]
    return sorted(finding.check for finding in found)


@fault(43, "times that are too good", "suspect by the engine's own clock: no verdict, and kept", batch="forgeries")
async def too_good(stage: Stage) -> str:
    result, arm = await ended(stage, "forgeries", "a_thirtieth_of_the_time", State.OK)
    (finding,) = [f for f in result.record.findings if (f.arm, f.check) == (arm.rung, "timing.wall_clock")]
    assert finding.status is FindingStatus.SUSPECT
    assert result.record.verdict is Verdict.NONE
    assert arm.sample_count > 0, "what is suspect is never deleted"
    return f"timing.wall_clock: {finding.evidence}"


@fault(43, "more time than there was, and a report of its own", "infra_error, caught", batch="forgeries")
async def forged(stage: Stage) -> str:
    result, more = await ended(stage, "forgeries", "more_time_than_there_was", State.INFRA_ERROR)
    _, report = await ended(stage, "forgeries", "report_of_its_own", State.INFRA_ERROR)
    assert "timing.clock_sanity" in caught(result, more.rung)
    assert "evaluation.result_channel" in caught(result, report.rung)
    assert (report.signal, report.signal_sent_by_us) == (9, True)
    _, sealed = await ended(stage, "forgeries", "report_with_a_made_up_seal", State.INFRA_ERROR)
    assert "bears a seal that is not made with this channel's key" in sealed.reason, sealed.reason
    return f"{more.reason}; {report.reason}; with a made-up seal: {sealed.reason}"


@fault(43, "the clock is turned back, or stopped", "no number changes", batch="answers")
async def clock_replaced(stage: Stage) -> str:
    for rung in ("clock_turned_back", "clock_stopped"):
        result, arm = await ended(stage, "answers", rung, State.OK)
        assert_timed(result, arm.rung)
    return "the times of both are those of the true clock"


@fault(51, "recursion without a limit", "ended for its memory or for no progress, without a crash", own=True)
async def endless_recursion(stage: Stage) -> str:
    engine = await stage.started(AISP_MEMORY_LIMIT_BYTES=str(LIMIT_BYTES), AISP_PROGRESS_LIMIT_S="15")
    source = "import sys\n\nsys.setrecursionlimit(10**9)\n\n\ndef run(x):\n    return run(x)\n"
    row = Row("recursion", source, State.OOM_KILLED)
    result = await engine.run(stage.target("deep", row), "mine:deep")
    arm = result.arm(row.rung)
    assert arm.state in (State.OOM_KILLED, State.TIMEOUT_PROGRESS), arm.reason
    assert arm.signal_sent_by_us
    assert_timed(result, "baseline")
    assert_timed(result, "optimized")
    return f"{arm.state}: {arm.reason}"
