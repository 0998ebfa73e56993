"""`python -m tests.kernels.peers_rank FOLDER WORLD`: ranks that call kernels by peer pointers.

They call those of the labs on fresh values, in Triton's interpreter. What came out on a rank goes to FOLDER/RANK.

Processes of their own: each rank is one, and a kernel is for the interpreter from the moment it is made. They are forks
of one that has imported what takes long.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

LABS = Path(__file__).resolve().parents[2] / "kernels" / "labs"
CALLS, MESSAGES = 3, 3  # an odd number of messages: halves must go on in turn from call to call
# Programs follow one another in the interpreter, so a rank runs ahead of another where there is one alone.
ELEMENTS = (3 * 2048 + 5, 777)  # of a message: four programs, the last of them with next to nothing, and one
ROWS, WIDTH = (3, 1), 200
LATE_S = 0.01  # by which one rank, another in each call, is late whenever it turns to a block
PATIENCE_S = 160
EXCHANGES = ("by_one_shot", "by_halves", "by_two_shot")


def values(call: int, rank: int, shape: tuple[int, ...], *, among: int) -> Any:
    """What a rank puts into a call: bf16, others for each call, rank and argument."""
    import torch

    generator = torch.Generator().manual_seed(1000 * call + 10 * rank + among)
    return torch.randn(shape, generator=generator).to(torch.bfloat16)


def main() -> int:
    """See the module. 0 where every rank has written its answer."""
    folder, world = Path(sys.argv[1]), int(sys.argv[2])
    sys.path[:0] = [str(LABS / "one_shot_all_reduce"), str(LABS / "allreduce_rmsnorm")]
    import exchange  # noqa: F401
    import fused  # noqa: F401

    children = set()
    for rank in range(world):
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE_S)
            try:
                call(folder, rank, world)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.add(child)
    while children:
        ended, status = os.wait()
        children.discard(ended)
        if status:
            for child in children:  # they would wait for it for ever
                os.kill(child, signal.SIGKILL)
            return 1
    return 0


def call(folder: Path, rank: int, world: int) -> None:
    """Be one rank."""
    import exchange
    import fused
    import torch
    import torch.distributed as dist

    from aisp.kernels import peers as module

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
    shared: list[module.Peers] = []

    def share(nbytes: int, device: torch.device) -> module.Peers:
        shared.append(module.share(nbytes, device))
        return shared[-1]

    late = [False]

    def block_of(*given: Any) -> Any:
        time.sleep(LATE_S * late[0])
        return module.block_of(*given)

    exchange.share = fused.share = share
    exchange.block_of = fused.block_of = block_of
    found: dict[str, list[torch.Tensor]] = {}
    for name in EXCHANGES:
        for elements in ELEMENTS:
            step = getattr(exchange, name)(values(0, rank, (MESSAGES, elements), among=0))
            for call in range(CALLS):
                late[0] = call % world == rank
                sums = step(values(call, rank, (MESSAGES, elements), among=0))
                found.setdefault(f"{name} {elements}", []).append(sums)
    for rows in ROWS:
        step = fused.layers(values(0, rank, (MESSAGES, rows, WIDTH), among=0))
        for call in range(CALLS):
            late[0] = call % world == rank
            x, residual = (values(call, rank, (MESSAGES, rows, WIDTH), among=among) for among in (0, 1))
            y, hidden = step(x, residual, values(call, rank, (MESSAGES, WIDTH), among=2))
            found.setdefault(f"y {rows}", []).append(y)
            found.setdefault(f"hidden {rows}", []).append(hidden)
    dist.barrier()  # before it, another rank may still be about to signal
    for peers in shared:
        signals = _signals(peers)
        found.setdefault("signals", []).append(signals)
    torch.save(found, folder / str(rank))
    dist.destroy_process_group()


def _signals(peers: Any) -> Any:
    """A copy of this rank's own signals."""
    import ctypes

    import torch

    from aisp.kernels.peers import PROGRAMS

    count = PROGRAMS * peers.world
    own = (ctypes.c_int32 * count).from_address(int(peers.signals[peers.rank]))
    return torch.tensor(list(own))


if __name__ == "__main__":
    sys.exit(main())
