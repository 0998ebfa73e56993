"""Memory that every rank of this machine sees: the host's, and where there are GPUs each other's.

Both classes have two slots for each rank, taken in turns. So one wait a call is enough: whoever has passed the wait of
this call knows that all others are through with the call before, and that one's slot is written next.
"""

import os
import tempfile
import weakref
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch import Tensor

HOSTS = dist.new_group(backend="gloo")  # in which processes wait for one another, whatever their GPUs do
SLOTS = 2
IN_MEMORY = "/dev/shm"  # what a GPU is to read and write must lie in no file of a disk


def host_slots(x: Tensor) -> Tensor:
    """Slots of host memory for all ranks, [ranks, SLOTS, *x.shape], the same in every process.

    Raises:
        OSError: the machine gives that folder less memory than this needs.
    """
    shape = (dist.get_world_size(), SLOTS, *x.shape)
    nbytes = max(1, SLOTS * dist.get_world_size() * x.nbytes)
    name = [""]
    if dist.get_rank() == 0:
        file, name[0] = tempfile.mkstemp(dir=IN_MEMORY if x.is_cuda else None)
        try:
            os.posix_fallocate(file, 0, nbytes)
        except OSError:
            Path(name[0]).unlink()
            raise
        finally:
            os.close(file)
    dist.broadcast_object_list(name, src=0, group=HOSTS)
    flat = torch.from_file(name[0], shared=True, size=nbytes, dtype=torch.uint8)
    dist.barrier(group=HOSTS)
    if dist.get_rank() == 0:
        Path(name[0]).unlink()  # the mappings hold it
    return flat[: SLOTS * dist.get_world_size() * x.nbytes].view(x.dtype).view(shape)


class Staging:
    """Slots in host memory, page-locked where there are GPUs, so that their copy engines read and write them."""

    def __init__(self, x: Tensor) -> None:
        self._slots = host_slots(x)
        self._device = x.device
        self._calls = 0
        if x.is_cuda:
            runtime = torch.cuda.cudart()
            address = self._slots.data_ptr()
            torch.cuda.check_error(int(runtime.cudaHostRegister(address, self._slots.nbytes, 0)))
            weakref.finalize(self, runtime.cudaHostUnregister, address).atexit = False

    def turn(self) -> tuple[Tensor, Tensor]:
        """Slots of this call: the one that this rank fills, and the one that the rank before it fills."""
        self._calls += 1
        rank, slot = dist.get_rank(), self._calls % SLOTS
        return self._slots[rank, slot], self._slots[rank - 1, slot]

    def meet(self) -> None:
        """Wait on the host until every rank has filled its slot."""
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        dist.barrier(group=HOSTS)


class Window:
    """Slots of this rank that the rank before it writes into, and the next rank's, mapped into this process.

    On GPUs they are symmetric memory: an address of the next GPU, reached over NVLink. On a CPU they are host memory.
    """

    def __init__(self, x: Tensor) -> None:
        rank, following = dist.get_rank(), (dist.get_rank() + 1) % dist.get_world_size()
        self._calls = 0
        if x.is_cuda:
            self._here = symm_mem.empty(SLOTS, *x.shape, dtype=x.dtype, device=x.device).zero_()
            handle = symm_mem.rendezvous(self._here, dist.group.WORLD.group_name)
            self._there = handle.get_remote_tensor(following, self._here.shape, x.dtype)
            self._barrier = handle.barrier
            handle.barrier()  # nobody writes before all have zeroed
        else:
            slots = host_slots(x)
            self._here, self._there = slots[rank], slots[following]
            self._barrier = _hosts_meet

    def turn(self) -> tuple[Tensor, Tensor]:
        """Slots of this call: this rank's own, and the next rank's, which it fills."""
        self._calls += 1
        slot = self._calls % SLOTS
        return self._here[slot], self._there[slot]

    def last(self) -> Tensor:
        """The own slot of the call before."""
        return self._here[(self._calls - 1) % SLOTS]

    def meet(self) -> None:
        """Wait until every rank has filled the next one's slot: the stream waits where there is a GPU, or the host."""
        self._barrier()


def _hosts_meet() -> None:
    dist.barrier(group=HOSTS)
