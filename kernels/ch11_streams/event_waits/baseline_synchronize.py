"""Two streams kept in order by the host: it waits for the whole device after each stage."""

from collections.abc import Callable

import torch
from chain import advance, energy_of, walk


def prepare(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
    if not x.is_cuda:
        return walk  # no streams, nothing to wait for
    device = x.device
    side = torch.cuda.Stream(device)

    def step(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
        side.wait_stream(torch.cuda.current_stream(device))
        scales, energies, states = [], [], []
        for drive in x.unbind():
            h, scale = advance(w, h, drive)
            h = h / scale
            torch.cuda.synchronize(device)  # the side stream must not start before the state is there
            with torch.cuda.stream(side):
                energies.append(energy_of(h))
            torch.cuda.synchronize(device)  # nor the main stream go on before it has been read
            scales.append(scale)
            states.append(h)
        return h, torch.stack(scales), torch.stack(energies)

    return step


def run(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(w, x, h)(w, x, h)
