"""What ranks say to one another, as it is noted beside them, and what the judges make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aisp.checks import distributed
from aisp.checks.distributed import Operation, traffic, unfinished
from aisp.checks.registry import ArmFacts, RunFacts, Site, Status, Unavailable
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
from tests.checks.sensed import replica

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("distributed")]  # two ranks are asked once for all of them

MAIN = Path(__file__).resolve().parents[2]
GALLERY = MAIN / "checks" / "gallery"
N = 1000

# -- the sensor, in two real processes ---------------------------------------------------------------------------------

CALLS = 3
SCRIPT = """
import json, sys, types
from pathlib import Path
import msgspec
import torch
import torch.distributed as dist

from aisp.checks.distributed import Collectives
from aisp.checks.registry import Call, Site
from aisp.engine.worker.group import Ranks
from aisp.kernels import catalog

rank, rendezvous, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
target = catalog.load_target(folder, root=folder.parent.parent, chapter="distributed")
site = Site("cpu", folder, target, target.rung("optimized"), frozenset())
case = target.case("cpu")


first = Collectives(site)
first.before_import()
ranks = Ranks(rank, 2, rendezvous, "cpu")  # as an arm does: between before_import and the import
from torch.distributed import all_reduce as bound_at_import

N = 1000
other = 1 - rank
alone = [dist.new_group([each]) for each in (0, 1)][rank]
pair = dist.new_group([0, 1])


def ones(count=N):
    return torch.ones(count)


def nothing():
    pass


def reduced():
    dist.all_reduce(ones())


def bound():
    bound_at_import(ones())


def in_two_halves():
    for handle in [dist.all_reduce(half, async_op=True) for half in ones().chunk(2)]:
        handle.wait()


def dropped():
    dist.all_reduce(ones(), async_op=True)


def polled():
    handle = dist.all_reduce(ones(), async_op=True)
    while not handle.is_completed():
        pass


def of_a_future():
    dist.all_reduce(ones(), async_op=True).get_future().wait()


def gathered():
    dist.all_gather([ones(), ones()], ones())


def told():
    dist.broadcast(ones(), 0)


def halved():
    dist.all_reduce(ones().bfloat16())


def barrier_dropped():
    dist.barrier(async_op=True)


def one_way():
    dist.send(ones(), 1) if rank == 0 else dist.recv(ones(), 0)


KEPT = []


def answered():
    if rank == 0:
        KEPT.append(ones())
        KEPT.append(dist.isend(KEPT[-1], 1))  # gloo forgets a message whose handle is gone
        dist.recv(ones(1), 1)
    else:
        dist.recv(ones(), 0)
        dist.send(ones(1), 0)


def sent_and_left():
    KEPT.append(ones())
    if rank == 0:
        KEPT.append(dist.isend(KEPT[-1], 1))
    else:
        dist.recv(KEPT[-1], 0)


def batched():
    both = [dist.P2POp(dist.isend, ones(), other), dist.P2POp(dist.irecv, ones(), other)]
    for handle in dist.batch_isend_irecv(both):
        handle.wait()


def apart():
    dist.all_reduce(ones(), group=alone)


def paired():
    dist.all_reduce(ones(), group=pair)


def past_python():
    import torch.distributed._functional_collectives as functional
    functional.all_reduce(ones(), "sum", dist.group.WORLD).wait()


def shared():
    import torch.distributed._symmetric_memory as symm_mem  # as a lesson does, long after the sensor stands there
    try:
        symm_mem.empty(N, dtype=torch.uint8, device="cpu")
    except RuntimeError:
        pass  # there is none on a CPU; asking for it is what is noted


found = {}
for scenario in (nothing, reduced, bound, in_two_halves, dropped, polled, of_a_future, gathered, told, halved,
                 barrier_dropped, one_way, answered, sent_and_left, batched, apart, paired, past_python, shared):
    watching = Collectives(site)
    watching.listeners = first.listeners
    for number in range(3):
        scenario()  # outside of a timed call it does not count
        watching.before_call(Call("timed", case, [[]]))
        ranks.meet()
        scenario()
        sample = types.SimpleNamespace(device_ms=2.0 + rank, host_ms=1.0 + rank)
        watching.after_call(Call("timed", case, [[]], [()], sample))
        dist.barrier()
    found[scenario.__name__] = msgspec.to_builtins(watching.facts())
first.listeners.leave()
found["left"] = {"restored": dist.ProcessGroup.allreduce.__name__ == "allreduce" and not first.listeners._originals}
print(json.dumps(found))
ranks.leave()
"""


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What the sensors of ranks 0 and 1 noted, by scenario."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "script.py").write_text(SCRIPT)
    fixture = GALLERY / "distributed" / "collective_short_circuit"
    processes = [
        subprocess.Popen(
            [sys.executable, str(folder / "script.py"), str(rank), str(folder / "rendezvous"), str(fixture)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(MAIN), "OMP_NUM_THREADS": "1", "PATH": ""},
        )
        for rank in (0, 1)
    ]
    try:
        told = [process.communicate(timeout=90) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, told, strict=True):
        assert process.returncode == 0, errors
    facts = [json.loads(output.splitlines()[-1]) for output, _ in told]
    return {name: [each[name] for each in facts] for name in facts[0]}


def test_a_call_that_says_nothing_has_moved_nothing(noted: dict[str, Any]) -> None:
    for facts in noted["nothing"]:
        assert (facts["calls"], facts["elements"], facts["operations"]) == (CALLS, 0, {})
        assert (facts["groups"], facts["worlds"], facts["open_calls"], facts["unseen"]) == ([], [2], 0, 0)


def test_ranks_that_meet_between_calls_have_said_nothing(noted: dict[str, Any]) -> None:
    # Both meet in every call of every scenario, in a group of the engine's own.
    assert [facts["operations"] for facts in noted["reduced"]] == [{"all_reduce": 1.0}] * 2


def test_each_rank_tells_its_own_times(noted: dict[str, Any]) -> None:
    assert [(facts["wall_ms"], facts["busy_ms"]) for facts in noted["reduced"]] == [(2.0, 1.0), (3.0, 2.0)]


@pytest.mark.parametrize(
    ("scenario", "elements", "nbytes", "operations"),
    [
        ("reduced", N, 4 * N, {"all_reduce": 1.0}),
        ("bound", N, 4 * N, {"all_reduce": 1.0}),
        ("in_two_halves", N, 4 * N, {"all_reduce": 2.0}),
        ("halved", N, 2 * N, {"all_reduce": 1.0}),
        ("gathered", N, 4 * N, {"all_gather": 1.0}),
        ("told", N, 4 * N, {"broadcast": 1.0}),
        ("paired", N, 4 * N, {"all_reduce": 1.0}),
        ("batched", 2 * N, 8 * N, {"send": 1.0, "recv": 1.0}),
        ("apart", 0, 0, {"all_reduce": 1.0}),
    ],
)
def test_what_a_rank_moves_is_counted_in_elements_and_bytes(
    noted: dict[str, Any], scenario: str, elements: int, nbytes: int, operations: dict[str, float]
) -> None:
    for facts in noted[scenario]:
        assert (facts["elements"], facts["most_elements"], facts["nbytes"]) == (elements, elements, nbytes)
        assert facts["operations"] == operations
        assert (facts["open_calls"], facts["unseen"], facts["symmetric"]) == (0, 0, False)


def test_memory_that_ranks_share_is_noted_of_whoever_asks_for_it(noted: dict[str, Any]) -> None:
    assert [facts["symmetric"] for facts in noted["past_python"] + noted["shared"]] == [False, False, True, True]


def test_a_message_counts_for_who_sends_and_who_receives(noted: dict[str, Any]) -> None:
    assert [facts["operations"] for facts in noted["one_way"]] == [{"send": 1.0}, {"recv": 1.0}]
    assert [facts["elements"] for facts in noted["one_way"]] == [N, N]
    assert [facts["groups"] for facts in noted["one_way"]] == [[[0, 1]]] * 2


def test_the_members_of_every_group_that_carries_data_are_noted(noted: dict[str, Any]) -> None:
    assert [facts["groups"] for facts in noted["paired"]] == [[[0, 1]]] * 2
    assert [facts["groups"] for facts in noted["apart"]] == [[[0]], [[1]]]


def test_a_handle_that_nobody_asked_is_open(noted: dict[str, Any]) -> None:
    for facts in noted["dropped"]:
        assert (facts["open_calls"], facts["left_open"]) == (CALLS, {"all_reduce": 1.0})
    for facts in noted["barrier_dropped"]:
        assert (facts["open_calls"], facts["left_open"]) == (CALLS, {"barrier": 1.0})
    assert [facts["open_calls"] for facts in noted["sent_and_left"]] == [CALLS, 0]


@pytest.mark.parametrize("scenario", ["reduced", "in_two_halves", "polled", "of_a_future", "answered", "batched"])
def test_whoever_waits_in_whatever_way_leaves_nothing_open(noted: dict[str, Any], scenario: str) -> None:
    assert [facts["open_calls"] for facts in noted[scenario]] == [0, 0]


def test_a_collective_that_passes_python_by_is_known_by_its_number(noted: dict[str, Any]) -> None:
    for facts in noted["past_python"]:
        assert (facts["operations"], facts["elements"], facts["unseen"]) == ({}, 0, 1)


def test_the_methods_get_their_places_back(noted: dict[str, Any]) -> None:
    assert [facts["restored"] for facts in noted["left"]] == [True, True]


def test_a_lesson_of_one_rank_is_not_listened_to() -> None:
    target = target_of(MAIN / "kernels" / "ch07_memory_access" / "transpose", "ch07")
    sensor = distributed.Collectives(Site("cpu", target.folder, target, target.rung("optimized"), frozenset()))
    sensor.before_import()
    assert sensor.listeners is None
    assert sensor.facts().calls == 0


# -- the arithmetic ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "members", "moved"),
    [
        ("all_reduce", 2, 100.0), ("all_reduce", 4, 150.0), ("all_gather", 2, 50.0), ("reduce_scatter", 4, 75.0),
        ("all_to_all", 2, 50.0), ("broadcast", 2, 100.0), ("send", 2, 100.0), ("barrier", 2, 0.0),
        ("all_reduce", 1, 0.0), ("broadcast", 1, 0.0),
    ],
)  # fmt: skip
def test_a_ring_of_ranks_moves_its_share(kind: str, members: int, moved: float) -> None:
    assert traffic(kind, 100, members) == moved


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    for members in (2, 3, 8):
        parts = traffic("reduce_scatter", 96, members) + traffic("all_gather", 96, members)
        assert traffic("all_reduce", 96, members) == parts


def operation(kind: str, *, awaited: bool = False, apart: bool = False, handle: object = True) -> Operation:
    return Operation(kind, (0, 1), 10, 40, handle, awaited, apart)


def test_what_is_unfinished_is_what_has_a_handle_that_nobody_asked() -> None:
    reduce, barrier = operation("all_reduce"), operation("barrier")
    assert unfinished([reduce, operation("all_gather", awaited=True), barrier]) == [reduce, barrier]
    assert unfinished([operation("all_reduce", handle=None), operation("send", apart=True)]) == []


def test_a_message_that_was_answered_has_arrived() -> None:
    send = operation("send")
    assert unfinished([send, operation("recv", awaited=True)]) == []
    assert unfinished([operation("recv", awaited=True), send]) == [send]
    assert unfinished([send, operation("recv")])[0] is send


# -- the judges --------------------------------------------------------------------------------------------------------


def target_of(folder: Path, chapter: str) -> Target:
    found = catalog.load_target(folder, root=folder.parents[1], chapter=chapter)
    assert isinstance(found, Target), [str(problem) for problem in found]
    return found


TARGET = target_of(GALLERY / "distributed" / "collective_short_circuit", "distributed")
BARRIER = target_of(GALLERY / "distributed" / "barrier_timing", "distributed")  # no exchange among its techniques
ALONE = target_of(MAIN / "kernels" / "ch07_memory_access" / "transpose", "ch07")
EMPTY: dict[str, float] = {}


def facts(elements: float = N, busy_ms: float = 5.0, **given: Any) -> dict[str, Any]:
    """What the sensor of one rank says of an honest rung."""
    known = {
        "calls": 40,
        "elements": elements,
        "most_elements": elements,
        "nbytes": 4 * elements,
        "operations": {"all_reduce": 1.0} if elements else {},
        "groups": [[0, 1]] if elements else [],
        "worlds": [2],
        "open_calls": 0,
        "left_open": {},
        "unseen": 0.0,
        "symmetric": False,
        "wall_ms": 6.0,
        "busy_ms": busy_ms,
    }
    return known | given


def arm_of(rung: str, *ranks: dict[str, Any], compared: Sequence[dict[str, float]] = (), **given: Any) -> ArmFacts:
    """An arm whose sensors said this: two entries are one replica of two ranks."""
    known: dict[str, Any] = {"device": "cpu", "ended_well": True, "state": State.OK, "timing": Timing.HOST}
    sensed = tuple(replica(collectives=each) for each in ranks)
    target = given.pop("target", TARGET)
    name = rung.removesuffix(" (A/A)")
    return ArmFacts(rung, target.rung(name), sensed=sensed, compared=tuple(compared), **known | given)


BASE = arm_of("baseline", facts(), facts())


def judged(judge: Any, *ranks: dict[str, Any], base: ArmFacts = BASE, target: Target = TARGET, **given: Any) -> Any:
    rung = arm_of("optimized", *ranks, target=target, **given)
    return judge(rung, RunFacts(target, target.case("cpu"), rung.device, False, (base, rung)))


JUDGES = (distributed.every_rank, distributed.exchange, distributed.awaited, distributed.topology)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_lesson_of_one_rank_has_nothing_to_ask(judge: Any) -> None:
    rung = ArmFacts("optimized", ALONE.rung("optimized"), "cpu", ended_well=True, state=State.OK, timing=Timing.HOST)
    found = judge(rung, RunFacts(ALONE, ALONE.case("cpu"), "cpu", False, (rung,)))
    assert found == (Status.NOT_APPLICABLE, "the lesson has one rank")


@pytest.mark.parametrize("judge", JUDGES)
def test_what_was_not_timed_or_not_told_is_not_judged(judge: Any) -> None:
    assert judged(judge, timing=Timing.NONE)[0] is Status.NOT_APPLICABLE
    with pytest.raises(Unavailable):
        judged(judge)
    for told in ([facts()], [facts(), facts(calls=0)], [facts(), facts(), facts()]):
        with pytest.raises(Unavailable, match="not all of its 2 ranks reported"):
            judged(judge, *told)
    with pytest.raises(Unavailable, match="no group"):
        judged(judge, {"failed": "RuntimeError: no group"}, facts())


@pytest.mark.parametrize("judge", JUDGES)
def test_an_honest_rung_its_baseline_and_the_baseline_again_pass(judge: Any) -> None:
    assert judged(judge, facts(), facts(), facts(), facts())[0] is Status.PASSED
    for name in ("baseline", "baseline (A/A)"):
        arm = arm_of(name, facts(), facts())
        run = RunFacts(TARGET, TARGET.case("cpu"), "cpu", False, (BASE, arm))
        assert judge(arm, run)[0] is Status.PASSED


@pytest.mark.parametrize("judge", JUDGES)
def test_a_rung_beside_which_no_baseline_was_timed_is_not_compared(judge: Any) -> None:
    base = arm_of("baseline", timing=Timing.NONE)
    assert judged(judge, facts(0), facts(0), base=base)[0] is Status.PASSED


# every_rank


def test_a_rank_that_hardly_works_is_caught() -> None:
    status, evidence = judged(distributed.every_rank, facts(), facts(busy_ms=0.05))
    assert status is Status.CAUGHT
    assert "rank 1 works 0.05 ms of processor time a call and 5 ms in the baseline" in evidence
    assert judged(distributed.every_rank, facts(busy_ms=0.05), facts(), device="cuda")[1].startswith(
        "rank 0 works 0.05 ms of device time"
    )


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([facts(busy_ms=0.05), facts(busy_ms=0.05)], "both became faster"),
        ([facts(busy_ms=5.0), facts(busy_ms=0.6)], "it still does a ninth"),
        ([facts(), facts(3 * N, busy_ms=0.05)], "the other rank did it and sent the result"),
        ([facts(), facts(busy_ms=0.05), facts(), facts()], "one replica of two"),
        ([facts(), facts(busy_ms=0.05, unseen=2)], "it may have received more"),
        ([facts(), facts(busy_ms=0.05, symmetric=True)], "it may have received more"),
    ],
)
def test_a_rank_that_works_less_for_a_reason_passes(told: list[dict[str, Any]], why: str) -> None:
    assert judged(distributed.every_rank, *told)[0] is Status.PASSED, why


def test_a_rank_that_does_little_in_the_baseline_may_do_nothing() -> None:
    for little_ms in (0.4, 2.0):  # too short to tell; far less than the other's
        base = arm_of("baseline", facts(), facts(busy_ms=little_ms))
        assert judged(distributed.every_rank, facts(), facts(busy_ms=0.01), base=base)[0] is Status.PASSED


def test_the_time_of_each_rank_is_told() -> None:
    evidence = judged(distributed.every_rank, facts(wall_ms=0.3), facts(wall_ms=9.0))[1]
    assert evidence == "rank 0 0.3 ms, rank 1 9 ms a call; the slowest counts"


# exchange

WRONG = [{"y.rms_error": 7e-4}]
RIGHT = [{"y.rms_error": 1e-7}]


def test_a_rank_that_moves_nothing_in_a_lesson_about_an_exchange_is_caught_though_its_outputs_are_right() -> None:
    status, evidence = judged(distributed.exchange, facts(), facts(0), compared=RIGHT)
    assert status is Status.CAUGHT
    assert "rank 1 sends and receives nothing in 40 timed calls" in evidence
    assert "all-reduce" in evidence


def test_in_a_lesson_about_something_else_right_outputs_need_no_exchange() -> None:
    base = arm_of("baseline", facts(), facts(), target=BARRIER)
    for compared, status in ((RIGHT, Status.PASSED), (WRONG, Status.CAUGHT)):
        found = judged(distributed.exchange, facts(0), facts(0), base=base, target=BARRIER, compared=compared)
        assert found[0] is status


@pytest.mark.parametrize("share", [0.125, 0.5, 0.7])
def test_less_than_the_baseline_is_caught_where_the_outputs_are_wrong(share: float) -> None:
    less = facts(share * N)
    status, evidence = judged(distributed.exchange, less, less, compared=WRONG)
    assert status is Status.CAUGHT
    assert f"{share:.0%} of the baseline's 1000" in evidence
    assert "the RMS error of y is 0.0007 of its RMS where 1e-05 is allowed" in evidence
    assert judged(distributed.exchange, less, less, compared=RIGHT)[0] is Status.PASSED
    assert judged(distributed.exchange, less, less, compared=[{"y.rms_error": 1.4e-5}])[0] is Status.PASSED


def test_other_collectives_with_as_much_in_them_pass() -> None:
    fewer = facts(operations={"all_reduce": 0.125})
    both = facts(operations={"reduce_scatter": 1.0, "all_gather": 1.0})
    for told in (fewer, both, facts(0.8 * N), facts(4 * N)):
        assert judged(distributed.exchange, told, told, compared=WRONG)[0] is Status.PASSED


def test_what_may_have_been_exchanged_out_of_sight_is_not_judged() -> None:
    for hidden, words in (({"unseen": 1}, "past Python"), ({"symmetric": True}, "symmetric memory")):
        status, evidence = judged(distributed.exchange, facts(0, **hidden), facts(0, **hidden), compared=WRONG)
        assert (status, words in evidence) == (Status.UNAVAILABLE, True)


def test_where_the_baseline_exchanges_nothing_nobody_must() -> None:
    base = arm_of("baseline", facts(0), facts(0))
    assert judged(distributed.exchange, facts(0), facts(0), base=base, compared=WRONG)[0] is Status.PASSED


def test_a_rank_that_exchanges_in_one_call_is_not_one_that_never_does() -> None:
    rare = facts(0, most_elements=N)
    assert judged(distributed.exchange, rare, rare, compared=RIGHT)[0] is Status.PASSED


# awaited


def test_calls_that_return_while_something_is_under_way_are_caught() -> None:
    status, evidence = judged(distributed.awaited, facts(), facts(open_calls=40, left_open={"all_reduce": 1.0}))
    assert status is Status.CAUGHT
    assert evidence == ("rank 1 returned from 40 of 40 timed calls with all_reduce under way that it never waited for")


def test_a_few_such_calls_are_suspect() -> None:
    told = facts(open_calls=3, left_open={"send": 0.075})
    assert judged(distributed.awaited, told, facts())[0] is Status.SUSPECT
    most = facts(open_calls=40, left_open={"send": 1.0})
    assert judged(distributed.awaited, most, facts(), told, facts())[0] is Status.SUSPECT


# topology


def test_groups_that_leave_ranks_alone_are_caught_where_the_baseline_joins_them() -> None:
    apart = [facts(0, groups=[[0]]), facts(0, groups=[[1]])]
    status, evidence = judged(distributed.topology, *apart)
    assert (status, "never join the ranks 0 | 1" in evidence) == (Status.CAUGHT, True)
    base = arm_of("baseline", *apart)
    assert judged(distributed.topology, *apart, base=base)[0] is Status.PASSED
    assert judged(distributed.topology, *apart, facts(), facts())[0] is Status.PASSED


def test_small_groups_beside_one_that_joins_all_pass() -> None:
    both = [facts(groups=[[0], [0, 1]]), facts(groups=[[0, 1], [1]])]
    status, evidence = judged(distributed.topology, *both)
    assert (status, evidence) == (Status.PASSED, "a world of 2; data went through the groups 0; 0, 1; 1")


def test_a_world_of_another_size_is_caught() -> None:
    for worlds in ([1], [1, 2], [0]):
        status, evidence = judged(distributed.topology, facts(), facts(worlds=worlds))
        assert (status, evidence.startswith("the lesson says 2 ranks")) == (Status.CAUGHT, True)
