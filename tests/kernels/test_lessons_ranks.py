"""What the lessons of several ranks claim of any number of them, played by one process.

`test_lessons` judges their rungs with as many processes as they have ranks. Here stand claims about three and more: who
does how much, where rows end up, and what many steps of a rounded exchange add up to.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from aisp.engine.worker.loading import import_module
from aisp.kernels import catalog

CATALOG = catalog.load()

Load = Callable[[str, str], ModuleType]


@pytest.fixture
def load() -> Iterator[Load]:
    """Import a file of a target as a worker does, and forget it and its siblings afterwards."""
    path, touched = list(sys.path), set[str]()

    def importing(target_id: str, name: str) -> ModuleType:
        folder: Path = CATALOG.find(target_id).folder
        touched.add(str(folder))
        return import_module(folder, name)

    yield importing
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if any(str(getattr(module, "__file__", "")).startswith(folder) for folder in touched):
            del sys.modules[name]


class Ranks:
    """Ranks that run one after the other: what they send is handed over when all have run."""

    def __init__(self, patch: pytest.MonkeyPatch, ranks: int) -> None:
        self.ranks = ranks
        self.rank = 0
        self._sent: dict[tuple[int, int], deque[torch.Tensor]] = {}
        self._wanted: list[tuple[int, int, torch.Tensor]] = []
        patch.setattr(dist, "get_world_size", lambda: self.ranks)
        patch.setattr(dist, "get_rank", lambda: self.rank)
        patch.setattr(dist, "P2POp", lambda op, tensor, peer: SimpleNamespace(op=op, tensor=tensor, peer=peer))
        patch.setattr(dist, "batch_isend_irecv", self._batch)

    def each(self, run: Callable[[int], Any]) -> list[Any]:
        """The results of all ranks, with what they received."""
        results = []
        for rank in range(self.ranks):
            self.rank = rank
            results.append(run(rank))
        for source, to, tensor in self._wanted:
            tensor.copy_(self._sent[source, to].popleft())
        assert not any(self._sent.values()), "a message was sent that nobody received"
        self._wanted.clear()
        return results

    def _batch(self, messages: list[Any]) -> list[Any]:
        for message in messages:
            assert message.peer != self.rank
            if message.op is dist.isend:
                self._sent.setdefault((self.rank, message.peer), deque()).append(message.tensor)
            else:
                self._wanted.append((message.peer, self.rank, message.tensor))
        return []


@pytest.mark.parametrize("rows", [2, 7])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_rows_dealt_from_both_ends_ascend_in_each_rank_and_find_their_way_back(
    load: Load, monkeypatch: pytest.MonkeyPatch, ranks: int, rows: int
) -> None:
    zigzag = load("ch13:ring_attention", "zigzag")
    together = Ranks(monkeypatch, ranks)
    given = [torch.arange(rank * rows, (rank + 1) * rows) for rank in range(ranks)]
    dealt = [part for (part,) in together.each(lambda rank: zigzag.deal(given[rank]))]
    chunks = [half for part in given for half in (part[: rows // 2], part[rows // 2 :])]
    assert [part.tolist() for part in dealt] == [
        [*chunks[rank].tolist(), *chunks[2 * ranks - 1 - rank].tolist()] for rank in range(ranks)
    ]
    assert [zigzag.front_rows(rows, rank) for rank in range(ranks)] == [len(chunks[rank]) for rank in range(ranks)]
    back = [part for (part,) in together.each(lambda rank: zigzag.undeal(dealt[rank]))]
    assert [part.tolist() for part in back] == [part.tolist() for part in given]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_rank_works_half_a_block_a_round_where_rows_are_dealt_and_the_last_one_most_where_they_are_not(
    load: Load, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    rows = 16

    def blocks(rung: str) -> list[float]:
        module = load("ch13:ring_attention", rung)
        worked = [0.0] * ranks

        def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, ...]:
            worked[dist.get_rank()] += len(q) * len(k) / rows**2 / (2 if causal else 1)
            return q, q

        monkeypatch.setattr(module, "attend", attend)
        monkeypatch.setattr(module, "merge", lambda *parts: None)
        monkeypatch.setattr(
            module, "rounds", lambda k, v: [((dist.get_rank() - step) % ranks, k, v) for step in range(ranks)]
        )
        x = torch.zeros(rows, 1, 1)
        Ranks(monkeypatch, ranks).each(lambda rank: module.run(x, x, x))
        return worked

    assert blocks("optimized") == [ranks / 2] * ranks
    assert blocks("optimized_contiguous") == [rank + 0.5 for rank in range(ranks)]


def test_parts_of_the_keys_merged_by_their_sums_are_attention_to_all_of_them(load: Load) -> None:
    blocks = load("ch13:ring_attention", "blocks")
    q, k, v = torch.randn(3, 12, 2, 8, generator=torch.Generator().manual_seed(1)).unbind()
    k[:5] *= 4  # the sums differ
    whole, lse = blocks.attend(q, k, v, causal=False)
    merged, its_lse = blocks.attend(q, k[:5], v[:5], causal=False)
    blocks.merge(merged, its_lse, *blocks.attend(q, k[5:7], v[5:7], causal=False))
    blocks.merge(merged, its_lse, *blocks.attend(q, k[7:], v[7:], causal=False))
    torch.testing.assert_close(merged, whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(its_lse, lse, rtol=1e-5, atol=1e-6)


@pytest.fixture
def group_of_one() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.usefixtures("group_of_one")
@pytest.mark.slow
def test_gradients_too_small_for_fp8_arrive_in_the_end_where_what_rounding_took_is_kept(load: Load) -> None:
    steps = 4000
    gradient = torch.full((256,), 1e-6)  # less than half of the least step beside a 1
    gradient[0] = 1.0

    def arrived(rung: str) -> torch.Tensor:
        run = load("ch04:fp8_compression", rung).run
        total, residual = torch.zeros(256, dtype=torch.float64), torch.zeros(256)
        for _ in range(steps):
            mean, residual = run(gradient.clone(), residual)
            total += mean
        return total / steps

    kept, dropped = arrived("optimized_eager"), arrived("wrong_no_feedback")
    least = 2**-9 / 448  # the step between numbers: no more than that is still owed
    assert (kept[1:] - 1e-6).abs().max() <= least / steps
    assert dropped[1:].abs().max() == 0
    assert kept[0] == dropped[0] == 1


def test_the_tolerance_of_gradients_in_bf16_holds_what_three_roundings_make_of_the_worst_pair() -> None:
    """Near a = 4.89, b = -3.48 standard deviations, where the lesson's derivation puts it."""
    deviation = 1e-7
    a = torch.linspace(4.85, 4.92, 2000)[:, None] * deviation
    b = -torch.linspace(3.44, 3.52, 2000)[None, :] * deviation
    mean = (a.double() + b.double()) / 2
    summed = ((a / 2).bfloat16().float() + (b / 2).bfloat16().float()).bfloat16().double()
    worst = ((summed - mean).abs() / mean.abs().clamp(min=deviation * 0.5**0.5)).max()
    tolerance = CATALOG.find("ch04:bf16_compression").tolerance["float32"]
    assert tolerance / 2 < worst <= tolerance, f"{worst:.2%} of {tolerance:.2%}"
