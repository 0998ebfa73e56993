"""Memory: inputs keep their bits, margins stay, outputs are written by the call; the flush is larger than the L2."""

from __future__ import annotations

import mmap
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aisp.checks import memory, registry
from aisp.checks.registry import ArmFacts, Call, Need, RunFacts, Site, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Flag, Target
from aisp.store.outcomes import State, Timing
from tests.checks.sensed import plain, replica
from tests.replacing import replace

ROOT = Path(memory.__file__).parents[2]
GALLERY = ROOT / "checks" / "gallery"


def fixture(name: str) -> Target:
    loaded = catalog.load_target(GALLERY / name, root=GALLERY, chapter=name.partition("/")[0])
    assert isinstance(loaded, Target), loaded
    return loaded


TARGET = fixture("memory/inputs_overwritten")
CASE = TARGET.cases[0]
SITE = Site("cpu", TARGET.folder, TARGET, TARGET.rung("cheat"), frozenset())
MUTABLE = replace(TARGET, inputs=tuple(replace(spec, flags=frozenset({Flag.MUTABLE})) for spec in TARGET.inputs))


def arm(sensor: str, *replicas: dict[str, Any], rung: str = "cheat", timing: Timing = Timing.HOST) -> ArmFacts:
    sensed = tuple(replica(**{sensor: facts}) for facts in replicas)
    return ArmFacts(rung, TARGET.rung(rung), "cpu", True, State.OK, timing, sensed=sensed)


def run_of(*arms: ArmFacts, target: Target = TARGET, device: str = "cpu") -> RunFacts:
    return RunFacts(target, CASE, device, quick=True, arms=arms)


def with_margins(values: torch.Tensor, margin_bytes: int = 256) -> torch.Tensor:
    nbytes = values.numel() * values.element_size()
    raw = torch.zeros(nbytes + 2 * margin_bytes, dtype=torch.uint8)
    return raw[margin_bytes : margin_bytes + nbytes].view(values.dtype).view(values.shape).copy_(values)


def call(stage: str, *buffers: object, outputs: Sequence[torch.Tensor] = ()) -> Call:
    return Call(stage, CASE, [buffers], [tuple(outputs)], SimpleNamespace(device_ms=1.0, host_ms=1.0))


def test_every_row_has_a_fixture_or_says_which_test_proves_its_answer() -> None:
    rows = {issue.id.partition(".")[2] for issue in memory.ISSUES if issue.listed}
    assert rows == {
        "pre_allocated_output",
        "input_output_aliasing",
        "pinned_memory_timing",
        "memory_pool_reuse",
        "fragmentation_effects",
        "page_fault_timing",
        "swap_interference",
    }
    for issue in memory.ISSUES:
        if issue.fixture:
            rungs = {rung.name: rung for rung in fixture(issue.fixture).rungs}
            assert "cheat" in rungs and rungs["optimized"].summary.startswith("twin: ")
        else:
            assert "test_memory.py" in issue.answer


# -- inputs keep their bits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.float64])
def test_a_fingerprint_follows_every_bit_and_every_place(dtype: torch.dtype) -> None:
    values = (torch.arange(1003) % 7 > 2).to(dtype)
    kept = memory.bits(values)
    assert memory.bits(values.clone()) == kept and len(kept) == 32
    for place in (0, 501, 1002):
        other = values.clone()
        other.view(torch.uint8)[place * values.element_size()] ^= 1
        assert memory.bits(other) != kept
    assert memory.bits(values.roll(1)) != kept
    # Words that changed places: the plain sum is the same, the other is not.
    words = torch.arange(8, dtype=torch.int64)
    assert memory.bits(words)[:16] == memory.bits(words.flip(0))[:16] and memory.bits(words) != memory.bits(
        words.flip(0)
    )


def test_a_fingerprint_takes_large_and_empty_tensors_and_views() -> None:
    large = torch.arange(memory.WORDS * 2 + 5, dtype=torch.int64)
    other = large.clone()
    other[memory.WORDS + 3], other[3] = large[3], large[memory.WORDS + 3]
    assert memory.bits(other) != memory.bits(large)
    assert memory.bits(torch.empty(0)) == "0" * 32
    odd = torch.arange(9, dtype=torch.uint8)
    assert memory.bits(odd[1:]) == memory.bits(odd[1:].clone())
    assert memory.bits(with_margins(torch.ones(3, 5))) == memory.bits(torch.ones(3, 5))


def left(work: Any, site: Site = SITE) -> dict[str, Any]:
    """Facts of a rung that does `work` on each of two sets of values."""
    sensor = memory.InputBits(site)
    buffer = torch.ones(16, 16)
    sensor.after_prepare(call("verify", buffer).case, [buffer])
    for number in (1, 2):
        buffer.fill_(number)
        work(buffer)
        sensor.after_call(call("verify", buffer))

    def once() -> None:
        buffer.fill_(1)
        work(buffer)

    site.call_once = once
    sensor.after_timing()
    site.call_once = None
    return plain(sensor.facts())


def test_a_rung_that_leaves_other_bits_than_the_baseline_is_caught() -> None:
    honest = left(lambda x: x + 1)
    cheating = left(lambda x: x.add_(1))
    base = arm("input_bits", honest, rung="baseline")
    twin = arm("input_bits", honest, rung="optimized")
    cheat = arm("input_bits", cheating, rung="cheat")
    run = run_of(base, twin, cheat)
    status, evidence = memory.inputs_intact(cheat, run)
    assert status is Status.CAUGHT and evidence.startswith("x: other bits")
    assert memory.inputs_intact(twin, run)[0] is Status.PASSED
    assert memory.inputs_intact(base, run)[0] is Status.PASSED


@pytest.mark.parametrize(
    ("work", "status", "words"),
    [
        (lambda x: x + 1, Status.PASSED, "x: as it arrived after its calls; it is the baseline that writes there"),
        (lambda x: x.mul_(3), Status.SUSPECT, "which writes there as well; call the input mutable"),
        (lambda x: x.add_(1), Status.PASSED, "the same bits after its calls"),
    ],
)
def test_where_the_baseline_writes_a_rung_that_leaves_its_input_alone_is_honest(
    work: Any, status: Status, words: str
) -> None:
    base = arm("input_bits", left(lambda x: x.add_(1)), rung="baseline")
    ours = arm("input_bits", left(work), rung="optimized")
    found, evidence = memory.inputs_intact(ours, run_of(base, ours))
    assert (found, words in evidence) == (status, True), evidence
    assert memory.inputs_intact(base, run_of(base, ours))[0] is Status.PASSED


def test_a_rung_whose_own_prepare_writes_into_its_input_has_no_alibi() -> None:
    facts = left(lambda x: x.fill_(9))
    own = facts.get("input_bits", facts)
    own["before"] = {case: {name: found[0] for name, found in kept.items()} for case, kept in own["after"].items()}
    base = arm("input_bits", left(lambda x: x + 1), rung="baseline")
    cheat = arm("input_bits", facts, rung="cheat")
    assert memory.inputs_intact(cheat, run_of(base, cheat))[0] is Status.CAUGHT


def test_a_rung_that_is_careful_until_it_is_timed_is_caught_by_one_call_more() -> None:
    calls: list[int] = []

    def sly(x: torch.Tensor) -> None:
        calls.append(1)
        if len(calls) > 2:
            x.zero_()

    base = arm("input_bits", left(lambda x: None), rung="baseline")
    cheat = arm("input_bits", left(sly), rung="cheat")
    assert memory.inputs_intact(cheat, run_of(base, cheat))[0] is Status.CAUGHT


def test_mutable_inputs_may_change_and_without_another_rung_nothing_is_known() -> None:
    facts = left(lambda x: x.add_(1), replace_site(MUTABLE))
    cheat = arm("input_bits", facts)
    assert memory.inputs_intact(cheat, run_of(cheat))[0] is Status.NOT_APPLICABLE
    alone = arm("input_bits", left(lambda x: x.add_(1)))
    assert memory.inputs_intact(alone, run_of(alone))[0] is Status.UNAVAILABLE
    ended = replace(arm("input_bits", left(lambda x: None), rung="baseline"), ended_well=False)
    assert memory.inputs_intact(alone, run_of(ended, alone))[0] is Status.UNAVAILABLE


def replace_site(target: Target) -> Site:
    return Site("cpu", target.folder, target, target.rung("cheat"), frozenset())


# -- margins -----------------------------------------------------------------------------------------------------------


def around(work: Any, buffer: torch.Tensor) -> dict[str, Any]:
    sensor = memory.Canaries(SITE)
    for stage in ("verify", "timed", "held_out"):
        sensor.before_call(call(stage, buffer))
        work(buffer)
        sensor.after_call(call(stage, buffer))
    return plain(sensor.facts())


def test_a_write_past_either_end_is_seen_byte_by_byte() -> None:
    buffer = with_margins(torch.ones(8, 8))

    def behind(x: torch.Tensor) -> None:
        x.as_strided((1,), (1,), x.storage_offset() + x.numel()).zero_()

    def before(x: torch.Tensor) -> None:
        x.as_strided((2,), (1,), x.storage_offset() - 2).zero_()

    for work, count in ((behind, 4), (before, 8)):
        facts = around(work, buffer)
        assert facts == {"looks": 3, "watched_bytes": 512, "hit_bytes": {"x": count}}
        status, evidence = memory.canaries(arm("canaries", facts), run_of())
        assert status is Status.CAUGHT and f"x ({count} bytes)" in evidence


def test_writes_inside_are_nobodys_concern_and_a_buffer_without_margins_cannot_be_watched() -> None:
    inside = around(lambda x: x.fill_(3), with_margins(torch.ones(8, 8)))
    assert memory.canaries(arm("canaries", inside), run_of())[0] is Status.PASSED
    bare = around(lambda x: x.fill_(3), torch.ones(8, 8))
    assert memory.canaries(arm("canaries", bare), run_of())[0] is Status.UNAVAILABLE


# -- aliasing ----------------------------------------------------------------------------------------------------------


def test_an_output_in_an_inputs_memory_is_caught_unless_that_is_mutable() -> None:
    x = with_margins(torch.ones(8, 8))
    for target, output, status in (
        (TARGET, x.view(64).view(8, 8), Status.CAUGHT),
        (TARGET, x.clone(), Status.PASSED),
        (MUTABLE, x, Status.PASSED),
    ):
        sensor = memory.Aliases(replace_site(target))
        sensor.after_call(call("timed", x, outputs=[output]))
        facts = plain(sensor.facts())
        assert facts["calls"] == 1
        assert memory.aliasing(arm("aliases", facts), run_of(target=target))[0] is status


# -- pages -------------------------------------------------------------------------------------------------------------


def mapped(nbytes: int) -> torch.Tensor:
    new = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    new.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(new, dtype=torch.float32)


def test_memory_that_was_only_read_was_not_written() -> None:
    size = 8 << 20
    untouched = mapped(size)
    assert float(untouched.sum()) == 0.0  # reading maps the one page of zeros
    assert memory.untouched_bytes(untouched) > 0.9 * size
    written = mapped(size).fill_(1.0)
    assert memory.untouched_bytes(written) < 0.1 * size and float(written.mean()) == 1.0


def paged(make: Any) -> dict[str, Any]:
    sensor = memory.Pages(SITE)
    sensor.before_timing()
    for _ in range(5):
        sensor.before_call(call("timed"))
        sensor.after_call(call("timed", outputs=[make()]))
    sensor.after_timing()
    return plain(sensor.facts())


def test_outputs_that_the_reader_has_to_fill_are_caught_and_written_ones_pass() -> None:
    facts = paged(lambda: mapped(8 << 20))
    assert facts["looks"] == 2 and facts["samples"] == 5 and facts["output_bytes"] == 8 << 20
    status, evidence = memory.pages(arm("pages", facts), run_of())
    assert status is Status.CAUGHT and "8.39 MB" in evidence
    assert memory.pages(arm("pages", paged(lambda: mapped(8 << 20).zero_())), run_of())[0] is Status.PASSED
    assert memory.pages(arm("pages", facts, paged(lambda: torch.ones(9))), run_of())[0] is Status.PASSED


def test_samples_that_waited_for_the_disk_or_went_to_swap_are_suspect() -> None:
    quiet = {"samples": 40, "faults": 0, "looks": 0, "untouched_bytes": 0, "output_bytes": 0, "swapped_bytes": 0}
    assert memory.pages(arm("pages", quiet), run_of())[0] is Status.PASSED
    slow = quiet | {"faults": 400}
    assert memory.pages(arm("pages", slow, slow), run_of())[0] is Status.SUSPECT
    assert memory.pages(arm("pages", slow, quiet), run_of())[0] is Status.PASSED
    gone = quiet | {"swapped_bytes": 64 << 20}
    assert memory.pages(arm("pages", gone), run_of())[0] is Status.SUSPECT
    assert memory.swapped_bytes() >= 0 and memory.resident_bytes() > 1 << 20


# -- the GPU's allocator and cache -------------------------------------------------------------------------------------


def test_an_allocator_that_was_switched_off_or_asks_in_every_call_is_told() -> None:
    quiet = {"samples": 50, "asking": 2, "retries": 0, "off": False}
    assert memory.allocator(arm("allocator", quiet), run_of())[0] is Status.PASSED
    assert memory.allocator(arm("allocator", quiet | {"off": True}), run_of())[0] is Status.CAUGHT
    assert memory.allocator(arm("allocator", quiet | {"asking": 49}), run_of())[0] is Status.SUSPECT
    assert memory.allocator(arm("allocator", quiet | {"samples": 0}), run_of())[0] is Status.NOT_APPLICABLE


def test_an_allocator_without_its_cache_counts_nothing() -> None:
    for step, off in ((1, False), (0, True)):
        counted = {"allocation.all.allocated": 7}

        def empty(*_: object, counted: dict[str, int] = counted, step: int = step, **__: object) -> object:
            counted["allocation.all.allocated"] += step
            return object()

        cuda = SimpleNamespace(memory_stats=lambda counted=counted: dict(counted))
        assert memory.caching_off(SimpleNamespace(cuda=cuda, empty=empty)) is off


def test_a_part_of_the_l2_that_is_set_aside_is_caught() -> None:
    none = {"before_bytes": 0, "most_bytes": 0, "after_bytes": 0}
    assert memory.persisting_l2(arm("persisting_l2", none), run_of())[0] is Status.PASSED
    status, evidence = memory.persisting_l2(arm("persisting_l2", none | {"most_bytes": 32_000_000}), run_of())
    assert status is Status.CAUGHT and evidence.startswith("32 MB")
    there_before = {"before_bytes": 5, "most_bytes": 5, "after_bytes": 5}  # by whoever set up the machine
    assert memory.persisting_l2(arm("persisting_l2", there_before), run_of())[0] is Status.PASSED


@pytest.mark.parametrize(("l2_bytes", "least"), [(50 << 20, 100 << 20), (0, 64 << 20), (126 << 20, 252 << 20)])
def test_the_flush_is_at_least_twice_the_l2(monkeypatch: pytest.MonkeyPatch, l2_bytes: int, least: int) -> None:
    from aisp.engine.worker import timers
    from aisp.engine.worker.probe import Span

    asked: list[int] = []

    def empty(count: int, dtype: torch.dtype, device: str) -> object:
        asked.append(count * dtype.itemsize)
        return object()

    class Nothing:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: 1.0

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: object())
    probe = SimpleNamespace(before=lambda: None, after=lambda: None, read=Span, step_ms=None)
    handles: Any = SimpleNamespace(torch=Nothing(), probe=probe, hold=Nothing())
    timers.CudaTimer(l2_bytes, handles=handles)
    assert asked[0] >= least


@pytest.mark.slow
def test_every_arm_and_replica_finds_its_memory_as_a_new_process_has_it() -> None:
    """Holes that one process leaves in its memory are not there in the next, which the engine starts for each."""
    code = (
        "import torch, aisp.checks.memory as m; before = m.resident_bytes(); "
        "kept = [torch.ones(1 << 18) for _ in range(64)][::2] if {} else []; print(m.resident_bytes() - before)"
    )
    said = [
        int(
            subprocess.run([sys.executable, "-c", code.format(holes)], cwd=ROOT, capture_output=True, check=True).stdout
        )
        for holes in (False, True, False)
    ]
    assert said[1] > 24 << 20
    assert said[0] < 8 << 20 and said[2] < 8 << 20


# -- data --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("distribution", "status"), [("zeros", "suspect"), ("ones", "suspect"), ("normal", "passed")])
def test_a_lesson_that_declares_constant_data_is_told(distribution: str, status: str) -> None:
    spec = replace(TARGET.inputs[0], distribution=distribution)
    found = memory.constant_data(run_of(target=replace(TARGET, inputs=(spec,))))
    assert found[0] is Status(status)
    scalar = replace(spec, dims=())  # a step count, a flag: too small to change a clock
    assert memory.constant_data(run_of(target=replace(TARGET, inputs=(scalar,))))[0] is Status.PASSED


@pytest.mark.parametrize("check", [c for c in memory.CHECKS if c.sensor is not None], ids=lambda check: check.id)
def test_a_check_whose_sensor_failed_is_unavailable(check: registry.Check) -> None:
    assert check.sensor is not None
    failed = arm(check.sensor.name, {"failed": "it stumbled"})
    device = "cuda" if Need.GPU in check.needs else "cpu"
    found = registry.examine(run_of(failed, device=device))
    mine = next(finding for finding in found if finding.check == check.id)
    assert (mine.status, mine.evidence) == (Status.UNAVAILABLE, "it stumbled")
