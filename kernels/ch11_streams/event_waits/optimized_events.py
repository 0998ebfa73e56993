"""Two streams kept in order by events: the GPU waits where it must, the host nowhere."""

from collections.abc import Callable

import torch
from chain import advance, energy_of, walk


def prepare(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> Callable[..., tuple[torch.Tensor, ...]]:
    if not x.is_cuda:
        return walk  # no streams, nothing to wait for
    device = x.device
    side = torch.cuda.Stream(device)

    def step(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
        main = torch.cuda.current_stream(device)
        side.wait_stream(main)
        scales, energies, states = [], [], []
        for drive in x.unbind():
            h, scale = advance(w, h, drive)
            h = h / scale
            side.wait_event(main.record_event())  # the side stream waits for the state, nobody else does
            with torch.cuda.stream(side):
                energies.append(energy_of(h))
            scales.append(scale)
            # Kept until the join: memory that Python lets go is used again by the main stream, and the side stream may
            # still be reading it.
            states.append(h)
        main.wait_stream(side)
        return h, torch.stack(scales), torch.stack(energies)

    return step


def run(w: torch.Tensor, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return prepare(w, x, h)(w, x, h)
