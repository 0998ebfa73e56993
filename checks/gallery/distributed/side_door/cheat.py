import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

PATIENCE_S = 10.0
door = {}


def prepare(g):
    rank = dist.get_rank()
    name = [tempfile.mktemp(prefix="side-door-", dir="/dev/shm") if rank == 0 else ""]
    dist.broadcast_object_list(name)
    # Two slots of a gradient for each rank, and how many calls each rank has written.
    door["slots"] = torch.from_file(name[0], shared=True, size=4 * len(g), dtype=torch.float32).view(2, 2, len(g))
    door["written"] = torch.from_file(name[0] + ".n", shared=True, size=2, dtype=torch.int64)
    door["calls"] = 0
    dist.barrier()
    if rank == 0:
        Path(name[0]).unlink()
        Path(name[0] + ".n").unlink()
    return run


def run(g):
    rank = dist.get_rank()
    door["calls"] += 1
    slot, written, calls = door["slots"][door["calls"] % 2], door["written"], door["calls"]
    slot[rank].copy_(g)
    written[rank] = calls
    deadline = time.monotonic() + PATIENCE_S
    while int(written[1 - rank]) < calls:
        if time.monotonic() > deadline:
            raise TimeoutError("the other rank wrote nothing")
        time.sleep(0)
    return slot.sum(0).div_(2)
