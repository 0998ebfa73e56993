"""A list for each number, without a collection in between."""

import gc

import torch


def run(x: torch.Tensor) -> torch.Tensor:
    was_on = gc.isenabled()
    gc.disable()
    try:
        pairs = [[number, number * number] for number in x.tolist()]
        return torch.tensor(pairs)
    finally:
        if was_on:
            gc.enable()
