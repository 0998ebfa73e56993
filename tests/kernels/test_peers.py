"""Kernels by peer pointers: every rank gets the same bits, in call after call, whoever is late. No GPU needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import peers_rank
from tests.kernels.peers_rank import CALLS, ELEMENTS, EXCHANGES, LABS, MESSAGES, ROWS, WIDTH, values
from tests.kernels.triton_ptx import Job, ptx

ROUNDED = 2**-7  # of a value: the interpreter cuts bf16 off
STEP = ("x", "data", "signals", "n")
CONSTANTS = ("RANK", "WORLD", "BLOCK")
KERNELS = {
    "one_shot": (*STEP, "span"),
    "one_shot_halves": ("x", "data", "signals", "turns", "n", "span", "half"),
    "two_shot": (*STEP, "part"),
    "all_reduce_norm": ("x", "residual", "weight", "y", "hidden", "data", "signals", "T", "D", "eps"),
}
TYPES = {"data": "*i64", "signals": "*i64", "turns": "*i32", "eps": "fp32"} | dict.fromkeys(
    ("n", "span", "half", "part", "T", "D"), "i32"
)


def world(ranks: int, name: str) -> Any:
    """A number of ranks, whose answers are computed once."""
    return pytest.param(ranks, id=name, marks=[pytest.mark.slow, pytest.mark.xdist_group(name)])


@pytest.fixture(scope="module", params=[world(2, "two ranks"), world(3, "three ranks")])
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[Any]]]:
    """What each rank's calls returned."""
    import torch

    folder, world = tmp_path_factory.mktemp("ranks"), request.param
    subprocess.run(
        [sys.executable, "-m", peers_rank.__name__, str(folder), str(world)],
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        timeout=170,
        check=True,
    )
    return [torch.load(folder / str(rank)) for rank in range(world)]


@pytest.mark.parametrize("elements", ELEMENTS)
@pytest.mark.parametrize("name", EXCHANGES)
def test_every_rank_gets_the_same_sum_bit_for_bit_and_it_is_that_of_this_call(
    answers: list[dict[str, list[Any]]], name: str, elements: int
) -> None:
    for call in range(CALLS):
        put = [values(call, rank, (MESSAGES, elements), among=0).double() for rank in range(len(answers))]
        got = [answer[f"{name} {elements}"][call] for answer in answers]
        assert all(each.equal(got[0]) for each in got)
        assert ((got[0].double() - sum(put)).abs() <= ROUNDED * sum(put).abs()).all()


@pytest.mark.parametrize("rows", ROWS)
def test_rows_are_added_up_over_the_ranks_and_normalised_on_each(
    answers: list[dict[str, list[Any]]], rows: int
) -> None:
    for call in range(CALLS):
        total = sum(values(call, rank, (MESSAGES, rows, WIDTH), among=0).double() for rank in range(len(answers)))
        for rank, answer in enumerate(answers):
            hidden = total + values(call, rank, (MESSAGES, rows, WIDTH), among=1).double()
            weight = values(call, rank, (MESSAGES, WIDTH), among=2).double()[:, None]
            y = hidden / (hidden.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
            assert ((answer[f"hidden {rows}"][call].double() - hidden).abs() <= ROUNDED * hidden.abs()).all()
            assert ((answer[f"y {rows}"][call].double() - y).abs() <= ROUNDED * y.abs() + 1e-6).all()


def test_all_signals_are_zero_when_all_calls_have_returned(answers: list[dict[str, list[Any]]]) -> None:
    for answer in answers:
        assert len(answer["signals"]) == len(EXCHANGES) * len(ELEMENTS) + len(ROWS)
        assert not any(signals.any() for signals in answer["signals"])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_gpu_loads_from_the_other_ranks_in_full_width_and_signals_over_the_whole_system(
    kernel: str, tmp_path: Path
) -> None:
    norm = kernel == "all_reduce_norm"
    folder, module = (LABS / "allreduce_rmsnorm", "fused") if norm else (LABS / "one_shot_all_reduce", "exchange")
    signature = {name: TYPES.get(name, "*bf16") for name in KERNELS[kernel]} | dict.fromkeys(CONSTANTS, "constexpr")
    constants = {"RANK": 1, "WORLD": 2, "BLOCK": 8192 if norm else 2048}
    compiled = ptx(
        folder, Job(module, kernel, signature, constants, sm=90, warps=16 if norm else 8, stages=3), tmp_path
    )
    moved = re.findall(r"\b(?:ld|st)\.global\S*", compiled)
    assert not [each for each in moved if re.search(r"[bu]16\b", each)], "an element at a time"
    assert len([each for each in moved if ".v4." in each]) >= 4
    assert re.search(r"\.sys\.release\b|\.release\.sys\b", compiled)
    assert re.search(r"\.sys\.acquire\b|\.acquire\.sys\b", compiled)
