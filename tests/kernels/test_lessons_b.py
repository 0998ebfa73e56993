"""What the lessons on batching, collate, overlap, graphs, the optimizer and the key/value cache claim of themselves.

`test_lessons` judges every rung against its reference. Here stand the claims in the lessons' own words: how many calls
a rung makes, what is ordered after what, which mistake hides where. What needs a GPU is run on stand-ins that keep the
rules of the real thing: streams that only promise the order that events give, and graphs that replay what was
recorded on the addresses it was recorded with.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from aisp.checks.oracle import comparator
from aisp.checks.oracle.comparator import Expected
from aisp.checks.oracle.schema import Case
from aisp.checks.oracle.values import inputs_of, made_inputs
from aisp.engine.worker.loading import import_module
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target

CATALOG = catalog.load()
SEED = 5
VIEWS = {
    "view",
    "_unsafe_view",
    "expand",
    "slice",
    "select",
    "t",
    "transpose",
    "unsqueeze",
    "squeeze",
    "split",
    "detach",
}
VIEWS |= {"alias", "unbind", "as_strided", "permute", "reshape", "_reshape_alias"}

Load = Callable[[str, str], ModuleType]


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def load() -> Iterator[Load]:
    """Import a file of a target as a worker does, and forget it and its siblings afterwards."""
    path, touched = list(sys.path), set[str]()

    def forget() -> None:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if any(str(getattr(module, "__file__", "")).startswith(folder) for folder in touched):
                del sys.modules[name]

    def importing(target_id: str, name: str) -> ModuleType:
        forget()
        folder: Path = CATALOG.find(target_id).folder
        touched.add(str(folder))
        return import_module(folder, name)

    yield importing
    forget()


def arguments(target: Target, case: str, number: int, load: Load) -> list[Any]:
    """The inputs of run() on a CPU."""
    given: dict[str, Any] = dict(inputs_of(target, Case.of_set(target.case(case), number), SEED))
    if any(spec.made for spec in target.inputs):
        make = load(target.id, "inputs").make
        given.update(made_inputs(target, Case.of_set(target.case(case)), SEED, "cpu", make))
    return [given[spec.name] for spec in target.inputs]


def expected(target: Target, inputs: list[Any], load: Load) -> tuple[torch.Tensor, ...]:
    """The reference's answer."""
    exact = [copy.deepcopy(value) for value in inputs]
    found = load(target.id, "reference").run(
        *(v.double() if isinstance(v, torch.nn.Module) or v.is_floating_point() else v for v in exact)
    )
    return found if isinstance(found, tuple) else (found,)


def refill(target: Target, buffers: list[Any], values: list[Any]) -> None:
    for spec, buffer, value in zip(target.inputs, buffers, values, strict=True):
        if spec.refilled:
            buffer.copy_(value)


def refusals(target: Target, outputs: Any, truth: tuple[torch.Tensor, ...]) -> list[str]:
    """Sentences on each output that is wrong."""
    given = outputs if isinstance(outputs, tuple) else (outputs,)
    pairs = zip(target.outputs, truth, strict=True)
    known = comparator.stated(target, [Expected(spec.name, want, spec.dtype, None) for spec, want in pairs])
    judged = [
        comparator.form(one.name, output, one.value.shape, one.dtype) or comparator.compare(one, output, full=False)
        for one, output in zip(known, given, strict=True)
    ]
    return [found.detail for found in judged if not found.right]


class Calls(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Counts operator calls by name, views left out: each is one launch or more on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()
        self.cat_elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        result = func(*args, **(kwargs or {}))
        if name not in VIEWS:
            self.names[name] += 1
        if name == "cat":
            self.cat_elements += result.numel()
        return result


def calls_of(step: Callable[[], object]) -> Calls:
    found = Calls()
    with found:
        step()
    return found


# -- ch01:batching ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rung", "products"), [("baseline", 128), ("optimized_by_eight", 16), ("optimized", 2)])
def test_a_batch_passes_over_the_weights_as_often_as_the_lesson_says(rung: str, products: int, load: Load) -> None:
    inputs = arguments(CATALOG.find("ch01:batching"), "cpu", 0, load)
    run = load("ch01:batching", rung).run
    names = calls_of(lambda: run(*inputs)).names
    assert sum(names[name] for name in ("mm", "mv", "addmm", "addmv", "bmm")) == products


def test_requests_that_do_not_fill_a_batch_are_why_there_is_a_ragged_case(load: Load) -> None:
    target = CATALOG.find("ch01:batching")
    verdicts = {}
    for case in ("cpu", "ragged"):
        inputs = arguments(target, case, 0, load)
        outputs = load(target.id, "wrong_drops_remainder").run(*inputs)
        verdicts[case] = bool(refusals(target, outputs, expected(target, inputs, load)))
    assert verdicts == {"cpu": False, "ragged": True}


# -- ch05:collate ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rung", ["reference", "baseline", "baseline_pad_sequence", "optimized", "optimized_gather"])
def test_the_rectangle_of_the_lesson_comes_out(rung: str, load: Load) -> None:
    # What lies behind the last sample (the sevens) must not show.
    tokens = torch.tensor([5, 7, 2, 9, 4, 4, 8, 1, 7, 7, 7, 7])
    batch, mask = load("ch05:collate", rung).run(tokens, torch.tensor([3, 1, 4]))
    assert batch.tolist() == [[5, 7, 2, 0], [9, 0, 0, 0], [4, 4, 8, 1]]
    assert mask.int().tolist() == [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize("rung", ["baseline", "baseline_pad_sequence", "optimized", "optimized_gather"])
def test_samples_that_leave_the_longest_row_unused_are_padded_to_the_full_width(rung: str, load: Load) -> None:
    batch, mask = load("ch05:collate", rung).run(torch.arange(1, 11), torch.tensor([1, 2]))
    assert batch.tolist() == [[1, 0, 0, 0, 0], [2, 3, 0, 0, 0]]
    assert mask.sum(dim=1).tolist() == [1, 2]


def test_vectorised_collate_makes_no_more_calls_for_more_samples(load: Load) -> None:
    counts = {}
    for rung in ("baseline", "optimized", "optimized_gather"):
        run = load("ch05:collate", rung).run
        counts[rung] = [
            calls_of(lambda b=b, run=run: run(torch.arange(1, 8 * b + 1), torch.full((b,), 5))).names.total()  # type: ignore[misc]
            for b in (4, 64)
        ]
    assert counts["baseline"][1] > 10 * counts["baseline"][0]
    assert counts["optimized"][0] == counts["optimized"][1] < 10
    assert counts["optimized_gather"][0] == counts["optimized_gather"][1] < 15


def test_a_single_sample_hides_that_starts_were_mistaken_for_ends(load: Load) -> None:
    target = CATALOG.find("ch05:collate")
    verdicts = {}
    for case in ("single", "ragged"):
        inputs = arguments(target, case, 0, load)
        outputs = load(target.id, "wrong_start_is_end").run(*inputs)
        verdicts[case] = bool(refusals(target, outputs, expected(target, inputs, load)))
    assert verdicts == {"single": False, "ragged": True}


# -- ch11:h2d_overlap ------------------------------------------------------------------------------------------


class Queue:
    """A stand-in for a CUDA stream: every piece of work in it knows what must have happened before it."""

    def __init__(self, *_: object) -> None:
        self.before: frozenset[int] = frozenset()

    def wait_event(self, event: frozenset[int]) -> None:
        self.before |= event

    def wait_stream(self, other: Queue) -> None:
        self.before |= other.before

    def record_event(self) -> frozenset[int]:
        return self.before


class Order(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """Files every copy and product under the stream that is current, with the set of what is ordered before it."""

    def __init__(self) -> None:
        super().__init__()
        self.default = Queue()
        self.current = self.default
        self.work: list[tuple[str, Queue, frozenset[int], int]] = []  # kind, queue, what is before, address written

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("copy_", "mm"):
            queue = self.current
            self.work.append((name, queue, queue.before, result.data_ptr()))
            queue.before |= {len(self.work) - 1}
        return result

    @contextlib.contextmanager
    def on(self, queue: Queue) -> Iterator[None]:
        outer, self.current = self.current, queue
        yield
        self.current = outer


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> Order:
    mode = Order()
    monkeypatch.setattr(torch.cuda, "Stream", Queue)
    monkeypatch.setattr(torch.cuda, "stream", mode.on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: mode.current)
    return mode


def overlapped(load: Load, order: Order, case: str) -> tuple[list[Any], torch.Tensor, frozenset[int]]:
    """Run the pipeline on stand-in streams: inputs, output, and what is ordered before the caller's next work."""
    target = CATALOG.find("ch11:h2d_overlap")
    inputs = arguments(target, case, 0, load)
    step = load(target.id, "optimized").prepare(*inputs)
    with order:
        y = step(*inputs)
    return inputs, y, order.default.before


@pytest.mark.parametrize("case", ["cpu", "ragged"])
def test_each_chunk_is_copied_in_then_multiplied_then_copied_out(case: str, load: Load, order: Order) -> None:
    inputs, y, _ = overlapped(load, order, case)
    target = CATALOG.find("ch11:h2d_overlap")
    assert refusals(target, y, expected(target, inputs, load)) == []
    products = [i for i, (kind, *_) in enumerate(order.work) if kind == "mm"]
    assert len(products) == 8
    for product in products:
        arrive, leave = product - 1, product + 1
        assert order.work[arrive][0] == order.work[leave][0] == "copy_"
        assert arrive in order.work[product][2]
        assert product in order.work[leave][2]


def test_copies_and_products_of_different_chunks_may_overlap(load: Load, order: Order) -> None:
    overlapped(load, order, "cpu")
    ins, products, outs = (list(range(first, 24, 3)) for first in range(3))
    queues = {
        kind: {id(order.work[i][1]) for i in each} for kind, each in zip("ipo", (ins, products, outs), strict=True)
    }
    assert {len(each) for each in queues.values()} == {1}
    assert len(set.union(*queues.values())) == 3
    for later in range(1, 8):
        assert not set(products + outs) & order.work[ins[later]][2], "a copy in waits for nothing but copies in"
        assert not set(outs) & order.work[products[later]][2], "a product does not wait for copies out"
        assert ins[later] not in order.work[outs[later - 1]][2], "a copy out does not wait for later chunks"


def test_whatever_follows_on_the_callers_stream_comes_after_the_last_copy(load: Load, order: Order) -> None:
    _, _, before_next = overlapped(load, order, "ragged")
    assert before_next == frozenset(range(24))


def test_a_second_call_waits_for_the_caller_who_still_reads_the_first_result(load: Load, order: Order) -> None:
    target = CATALOG.find("ch11:h2d_overlap")
    inputs = arguments(target, "ragged", 0, load)
    step = load(target.id, "optimized").prepare(*inputs)
    with order:
        y = step(*inputs)
        y.clone().copy_(y)  # the caller's own work on the current stream
        mine = len(order.work) - 1
        step(*inputs)
    assert all(mine in before for _, _, before, _ in order.work[mine + 1 :])


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64, 1003])
def test_chunks_cover_every_row_once(rows: int, load: Load) -> None:
    staging = load("ch11:h2d_overlap", "staging")
    x = torch.zeros(rows, 3)
    chunks = x.split(staging.rows_per_chunk(x))
    assert sum(chunk.shape[0] for chunk in chunks) == rows
    assert len(chunks) <= staging.CHUNKS


@pytest.mark.parametrize("rung", ["baseline", "baseline_chunked"])
def test_the_result_lands_in_the_same_host_memory_every_time(rung: str, load: Load) -> None:
    target = CATALOG.find("ch11:h2d_overlap")
    buffers = arguments(target, "ragged", 0, load)
    step = load(target.id, rung).prepare(*buffers)
    first = step(*buffers)
    address, before = first.data_ptr(), first.clone()
    later = arguments(target, "ragged", 1, load)
    refill(target, buffers, later)
    second = step(*buffers)
    assert second.data_ptr() == address
    assert not torch.equal(second, before)
    assert refusals(target, second, expected(target, later, load)) == []


def test_one_staging_buffer_gives_every_chunk_the_last_ones_rows(load: Load) -> None:
    target = CATALOG.find("ch11:h2d_overlap")
    inputs = arguments(target, "cpu", 0, load)
    outputs = load(target.id, "wrong_one_staging_buffer").run(*inputs)
    chunks = outputs.chunk(8)
    for chunk in chunks[:-1]:
        torch.testing.assert_close(chunk, chunks[-1])
    assert refusals(target, outputs, expected(target, inputs, load))


def test_rows_that_eight_does_not_divide_never_leave_in_the_wrong_pipeline(load: Load, order: Order) -> None:
    target = CATALOG.find("ch11:h2d_overlap")
    inputs = arguments(target, "ragged", 0, load)
    step = load(target.id, "wrong_drops_last_chunk").prepare(*inputs)
    with order:
        y = step(*inputs)
    assert refusals(target, y, expected(target, inputs, load))
    assert (y[-(1003 % 8) :] == 0).all()


# -- ch12:decode_graph and the graph rung of ch16 ----------------------------------------------------------------


class Tape(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    """A stand-in for a CUDA graph: replays the operators that it saw, on the tensors that it saw, into the same memory.

    As in a capture, numbers that Python computed are frozen, and reading a tensor's value on the host is refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("_local_scalar_dense", "item", "nonzero", "is_nonzero"):
            raise RuntimeError("a captured graph cannot wait for the GPU")
        result = func(*args, **(kwargs or {}))
        self.steps.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        for func, args, kwargs, recorded in self.steps:
            again = func(*args, **kwargs)
            for old, new in zip(_tensors(recorded), _tensors(again), strict=True):
                if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                    old.copy_(new)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, (tuple, list)) else []


@pytest.fixture
def tapes(monkeypatch: pytest.MonkeyPatch) -> list[Tape]:
    """Patch torch.cuda's graphs and streams; every capture made is in the list."""
    made: list[Tape] = []

    def graph() -> Tape:
        made.append(Tape())
        return made[-1]

    monkeypatch.setattr(torch.cuda, "CUDAGraph", graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda tape: tape)
    monkeypatch.setattr(torch.cuda, "Stream", Queue)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: Queue())
    return made


@pytest.mark.parametrize(
    ("target_id", "rung"), [("ch12:decode_graph", "optimized"), ("ch16:kv_static_cache", "optimized_graph")]
)
@pytest.mark.parametrize("case", ["cpu", "ragged"])
def test_a_replay_follows_inputs_that_were_refilled_in_place(
    target_id: str, rung: str, case: str, load: Load, tapes: list[Tape]
) -> None:
    target = CATALOG.find(target_id)
    buffers = arguments(target, case, 0, load)
    for tensor, spec in zip(buffers, target.inputs, strict=True):
        if not spec.made:
            assert tensor.is_contiguous()
    step = load(target_id, rung).prepare(*buffers)
    for number in (1, 2, 1):
        values = arguments(target, case, number, load)
        refill(target, buffers, values)
        assert refusals(target, step(*buffers), expected(target, values, load)) == []
    assert len(tapes) == 1, "captured once, replayed for all"


def test_a_step_that_reads_its_position_on_the_host_cannot_be_captured(load: Load, tapes: list[Tape]) -> None:
    inputs = arguments(CATALOG.find("ch12:decode_graph"), "ragged", 0, load)
    module = load("ch12:decode_graph", "optimized")
    block: Any = vars(module)["decode"]

    def reading(x: torch.Tensor, position: torch.Tensor, *rest: torch.Tensor) -> Any:
        return block(x, torch.tensor([int(position)]), *rest)

    vars(module)["decode"] = reading
    with pytest.raises(RuntimeError, match="cannot wait"):
        module.prepare(*inputs)


def test_a_position_baked_in_is_right_for_the_first_token_and_wrong_for_the_next(load: Load) -> None:
    target = CATALOG.find("ch12:decode_graph")
    buffers = arguments(target, "cpu", 0, load)
    step = load(target.id, "wrong_position_at_capture").prepare(*buffers)
    verdicts = []
    for number in (0, 1):
        values = arguments(target, "cpu", number, load)
        refill(target, buffers, values)
        verdicts.append(bool(refusals(target, step(*buffers), expected(target, values, load))))
    assert int(arguments(target, "cpu", 0, load)[1]) != int(arguments(target, "cpu", 1, load)[1])
    assert verdicts == [False, True]


@pytest.mark.parametrize(("rung", "products"), [("baseline", 7), ("optimized_stacked_weights", 4)])
def test_a_token_writes_one_slot_of_each_cache_and_no_other(rung: str, products: int, load: Load) -> None:
    target = CATALOG.find("ch12:decode_graph")
    inputs = arguments(target, "ragged", 0, load)
    keys, values, position = inputs[2].clone(), inputs[3].clone(), int(inputs[1])
    module = load(target.id, rung)
    step = module.prepare(*inputs) if hasattr(module, "prepare") else module.run
    names = calls_of(lambda: step(*inputs)).names
    for old, new in ((keys, inputs[2]), (values, inputs[3])):
        changed = (old != new).any(dim=-1).any(dim=0).any(dim=0)
        assert changed.nonzero().flatten().tolist() == [position]
    assert names["mm"] + names["addmm"] == products


def test_the_block_has_about_as_many_kernels_as_the_lesson_says(load: Load) -> None:
    inputs = arguments(CATALOG.find("ch12:decode_graph"), "cpu", 0, load)
    run = load("ch12:decode_graph", "baseline").run
    assert 28 <= calls_of(lambda: run(*inputs)).names.total() <= 45


# -- ch13:fused_adam ---------------------------------------------------------------------------------------------


ADAM_RUNGS = ["baseline", "optimized_foreach", "optimized", "optimized_flat"]


@pytest.mark.parametrize("rung", ADAM_RUNGS)
def test_a_step_is_the_one_that_torch_optim_takes(rung: str, load: Load) -> None:
    target = CATALOG.find("ch13:fused_adam")
    params, grads, exp_avg, exp_avg_sq = arguments(target, "ragged", 0, load)
    weight = torch.nn.Parameter(params.double())
    weight.grad = grads.double()
    optimizer = torch.optim.AdamW([weight], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, foreach=False)
    optimizer.state[weight] = {
        "step": torch.tensor(9.0),  # the optimizer adds one before it steps
        "exp_avg": exp_avg.double(),
        "exp_avg_sq": exp_avg_sq.double(),
    }
    optimizer.step()
    state = optimizer.state[weight]
    truth = (weight.detach(), state["exp_avg"], state["exp_avg_sq"])
    outputs = load(target.id, rung).run(params, grads, exp_avg, exp_avg_sq)
    assert refusals(target, outputs, truth) == []


@pytest.mark.parametrize("rung", ADAM_RUNGS)
def test_a_step_overwrites_parameters_and_moments_and_leaves_gradients_alone(rung: str, load: Load) -> None:
    inputs = arguments(CATALOG.find("ch13:fused_adam"), "ragged", 0, load)
    before = [tensor.clone() for tensor in inputs]
    module = load("ch13:fused_adam", rung)
    step = module.prepare(*inputs) if hasattr(module, "prepare") else module.run
    outputs = step(*inputs)
    assert [t.data_ptr() for t in outputs] == [inputs[i].data_ptr() for i in (0, 2, 3)]
    assert [torch.equal(old, new) for old, new in zip(before, inputs, strict=True)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("rung", "calls"), [("baseline", 8 * 64), ("optimized_foreach", 8), ("optimized", 1), ("optimized_flat", 8)]
)
def test_a_step_makes_as_many_calls_as_the_lesson_counts(rung: str, calls: int, load: Load) -> None:
    inputs = arguments(CATALOG.find("ch13:fused_adam"), "cpu", 0, load)
    module = load("ch13:fused_adam", rung)
    step = module.prepare(*inputs) if hasattr(module, "prepare") else module.run
    assert calls_of(lambda: step(*inputs)).names.total() == calls


def test_epsilon_inside_the_root_shows_only_where_gradients_are_small(load: Load) -> None:
    target = CATALOG.find("ch13:fused_adam")
    verdicts = {}
    for scale in (1e-4, 1.0):
        generator = torch.Generator().manual_seed(SEED)
        inputs = [
            torch.randn(3, 501, generator=generator),
            torch.randn(3, 501, generator=generator) * scale,
            torch.randn(3, 501, generator=generator) * scale,
            (torch.rand(3, 501, generator=generator) + 0.5) * scale**2,
        ]
        truth = expected(target, inputs, load)
        outputs = load(target.id, "wrong_eps_inside_root").run(*inputs)
        verdicts[scale] = bool(refusals(target, outputs, truth))
    assert verdicts == {1e-4: True, 1.0: False}


# -- ch16:kv_static_cache ------------------------------------------------------------------------------------------


def test_every_process_builds_the_same_decoder(load: Load) -> None:
    target = CATALOG.find("ch16:kv_static_cache")
    first, second = (arguments(target, "ragged", 0, load)[0].state_dict() for _ in range(2))
    torch.manual_seed(99)  # the global generator has no say
    third = arguments(target, "ragged", 0, load)[0].state_dict()
    assert first.keys() == second.keys() == third.keys()
    assert all(torch.equal(first[k], second[k]) and torch.equal(first[k], third[k]) for k in first)
    assert len({float(tensor.sum()) for name, tensor in first.items() if "norm" not in name}) == 4 * 3


def test_the_growing_cache_copies_what_the_lesson_counts_and_the_static_one_does_not(load: Load) -> None:
    target = CATALOG.find("ch16:kv_static_cache")
    axes = target.case("ragged").axes
    inputs = arguments(target, "ragged", 0, load)
    grown = load(target.id, "baseline").run
    cat_elements = calls_of(lambda: grown(*inputs)).cat_elements
    per_token = axes["B"] * axes["A"] * axes["E"]
    tokens_copied = sum(axes["P"] + i + 1 for i in range(axes["G"]))
    answers = axes["G"] * per_token
    assert cat_elements == 2 * axes["Y"] * per_token * tokens_copied + answers
    step = load(target.id, "optimized").prepare(*inputs)
    assert calls_of(lambda: step(*inputs)).cat_elements == answers


def test_a_static_cache_keeps_nothing_from_the_request_before(load: Load) -> None:
    target = CATALOG.find("ch16:kv_static_cache")
    buffers = arguments(target, "ragged", 0, load)
    step = load(target.id, "optimized").prepare(*buffers)
    for number in (1, 2, 1):
        values = arguments(target, "ragged", number, load)
        refill(target, buffers, values)
        assert refusals(target, step(*buffers), expected(target, values, load)) == []


# -- on a GPU ------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU here")
@pytest.mark.parametrize("rung", ["baseline", "baseline_chunked", "optimized"])
def test_the_copied_out_result_is_complete_once_the_callers_stream_is(rung: str, load: Load) -> None:
    target = CATALOG.find("ch11:h2d_overlap")
    axes = {"N": 4099, "D": 1024}
    x = torch.randn(axes["N"], axes["D"]).pin_memory()
    w = (torch.randn(axes["D"], axes["D"]) * axes["D"] ** -0.5).cuda()
    step = load(target.id, rung).prepare(x, w)
    for _ in range(5):
        x.normal_()
        y = step(x, w)
        torch.cuda.current_stream().synchronize()  # this stream alone, not the device
        truth = (x.cuda().double() @ w.double()).cpu()
        assert refusals(target, y, (truth,)) == []
