"""Asks for the threads that it was given, as a library does that must not leave its mark."""

import torch


def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    given = torch.get_num_threads()
    torch.set_num_threads(given)
    return torch.mm(a, b)
