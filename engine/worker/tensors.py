"""Tensors in shared memory: raw bytes with name, shape and dtype, never pickles.

Inputs are written once and sealed: from then on no process can write into their file, and whoever reads them has pages
of its own where it writes. Outputs are written by the process of a rung, again and again.

A file that is used again stays mapped, and beside a GPU it is page-locked from then on: of a 256 MB output the first
way to the host takes 0.2 s, most of it for the pages, the second one 0.08 s, and every one after that 5 ms.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aisp.engine.protocol.jobs import Blob, Slot

if TYPE_CHECKING:
    import torch

ALIGNMENT_BYTES = 256
KEPT = 12  # files that stay mapped: one for each arm of a wide run, so that none is mapped anew in every round
LEAST_LOCKED_BYTES = 1 << 20
MIXTURE = 4099  # a prime: the pattern of which elements come from which set repeats in no row
STAGED_BYTES = 64 << 20  # of a GPU's memory, on its way into a file
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class UnsealedError(Exception):
    """Another process has an input's file mapped, and could still write into it."""


_held: dict[str, int] = {}  # descriptors of the shared files that came with the job of now, by their name


def hold(files: Mapping[str, int]) -> None:
    """Take the shared files that came with a job, and close those of the job before."""
    for fd in _held.values():
        os.close(fd)
    _held.clear()
    _held.update(files)


def descriptor(name: str) -> int:
    """The open shared file of that name. Raises ValueError where it did not come with the job."""
    if name not in _held:
        raise ValueError(f"the shared file {name!r} did not come with this job")
    return _held[name]


def write(name: str, tensors: Mapping[str, torch.Tensor], *, rank: int = 0, ranks: int = 1) -> Blob:
    """Size the shared file to hold `tensors`, copy them in (from any device), and describe what lies where.

    With several ranks the file has room for a tensor of each, stacked, and only this one's are copied in.
    """
    slots, size = _laid_out(tensors, ranks)
    blob = Blob(name=name, slots=slots)
    for view, tensor in zip(read(blob, size=size), tensors.values(), strict=True):
        (view if ranks == 1 else view[rank]).copy_(tensor)
    return blob


def write_sealed(name: str, tensors: Mapping[str, torch.Tensor]) -> Blob:
    """Write inputs into an empty file and seal it: nobody can change what lies there afterwards, nor can this process.

    Raises:
        UnsealedError: another process has it mapped.
    """
    fd = descriptor(name)
    slots, size = _laid_out(tensors, 1)
    os.ftruncate(fd, max(size, mmap.PAGESIZE))
    for slot, tensor in zip(slots, tensors.values(), strict=True):
        _put(fd, slot.offset, tensor)
    try:
        # Written by calls and never mapped here: the kernel refuses this seal while a mapping could still write.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    except OSError as error:
        raise UnsealedError(
            f"the file of the inputs could not be sealed ({os.strerror(error.errno or 0)}): another process has it "
            "mapped and could write into it"
        ) from None
    return Blob(name=name, slots=slots)


def _put(fd: int, offset: int, tensor: torch.Tensor) -> None:
    """Write a tensor's bytes at an offset, those of a GPU in stretches."""
    import torch

    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    for start in range(0, flat.numel(), STAGED_BYTES):
        here = flat[start : start + STAGED_BYTES].cpu()
        left = memoryview((ctypes.c_char * here.numel()).from_address(here.data_ptr()))
        while left:
            written = os.pwrite(fd, left, offset)
            offset, left = offset + written, left[written:]


def _laid_out(tensors: Mapping[str, torch.Tensor], ranks: int) -> tuple[list[Slot], int]:
    """What lies where in a file that holds these of so many ranks, and how large it is."""
    slots: list[Slot] = []
    offset = 0
    for slot, tensor in tensors.items():
        nbytes = tensor.numel() * tensor.element_size() * ranks
        slots.append(
            Slot(
                name=slot,
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=list(tensor.shape) if ranks == 1 else [ranks, *tensor.shape],
                offset=offset,
                nbytes=nbytes,
            )
        )
        offset += -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return slots, offset


def read(blob: Blob, *, size: int | None = None) -> Sequence[torch.Tensor]:
    """CPU tensors over the shared file's own bytes, in the order of its slots; they keep the mapping alive.

    Over a sealed file they can be written to, and that is seen nowhere else.

    Args:
        blob: what lies where.
        size: make the file at least this large first (the writer's side). Without it, it can no longer shrink.

    Raises:
        ValueError: the file did not come with the job, a slot reaches beyond the file or does not fit its shape.
    """
    import torch

    fd = descriptor(blob.name)
    seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    if size is not None:
        os.ftruncate(fd, max(size, os.fstat(fd).st_size, mmap.PAGESIZE))
    elif not seals & fcntl.F_SEAL_SHRINK:
        # Whoever wrote it could cut it off while it is read, which would be a SIGBUS here.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    # A private mapping: before Linux 6.7 there is no shared one of a file that is sealed against writing.
    mapping = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) if seals & fcntl.F_SEAL_WRITE else _mapped(fd)
    length = len(mapping)
    views: list[torch.Tensor] = []
    for slot in blob.slots:
        dtype: torch.dtype = getattr(torch, slot.dtype)
        count = 1
        for extent in slot.shape:
            count *= extent
        if count * dtype.itemsize != slot.nbytes or slot.offset < 0 or slot.offset + slot.nbytes > length:
            raise ValueError(f"slot {slot.name} does not fit its file of {length} bytes")
        if count == 0:
            views.append(torch.empty(slot.shape, dtype=dtype))
            continue
        flat = torch.frombuffer(mapping, dtype=torch.uint8, count=slot.nbytes, offset=slot.offset)
        views.append(flat.view(dtype).view(slot.shape))
    return views


def mixed(one: torch.Tensor, other: torch.Tensor, seed: int) -> torch.Tensor:
    """A tensor whose elements come from either of two of one shape, as `seed` decides."""
    import torch

    generator = torch.Generator(one.device).manual_seed(seed)  # nothing waits for a GPU that is kept busy
    pattern = torch.rand(MIXTURE, generator=generator, device=one.device) < 0.5
    ours = pattern.repeat(-(-one.numel() // MIXTURE))[: one.numel()].reshape(one.shape)
    return torch.where(ours, one, other)


class _Kept:
    """A mapping of a whole shared file that is kept for the next use."""

    def __init__(self, fd: int, length: int) -> None:
        self.mapping = mmap.mmap(fd, length)
        self._locked = 0  # the address, once it is page-locked
        self._tried = False

    def lock(self) -> None:
        """Let the GPU copy to and from it directly. Where the driver will not, copies go through a staging buffer."""
        import torch

        if self._tried or len(self.mapping) < LEAST_LOCKED_BYTES or not torch.cuda.is_initialized():
            return
        self._tried = True
        driver: Any = torch.cuda.cudart()
        address = torch.frombuffer(self.mapping, dtype=torch.uint8).data_ptr()
        if driver.cudaHostRegister(address, len(self.mapping), 0) == driver.cudaError.success:
            self._locked = address
            return
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device="cuda")  # takes the error along, which else the next launch of a rung would get

    def forget(self) -> None:
        """Give the pages free. The mapping itself lasts as long as a tensor over it."""
        if self._locked:
            import torch

            driver: Any = torch.cuda.cudart()
            driver.cudaHostUnregister(self._locked)
            self._locked = 0


_kept: collections.OrderedDict[tuple[int, int], _Kept] = collections.OrderedDict()  # by device and inode


def _mapped(fd: int) -> mmap.mmap:
    """The whole file, mapped now or earlier."""
    status = os.fstat(fd)
    identity = status.st_dev, status.st_ino  # of no other file, as long as the mapping holds this one
    kept = _kept.pop(identity, None)
    if kept is not None and len(kept.mapping) == status.st_size:
        kept.lock()
    else:
        if kept is not None:
            kept.forget()
        kept = _Kept(fd, status.st_size)
    _kept[identity] = kept
    while len(_kept) > KEPT:
        _kept.popitem(last=False)[1].forget()
    return kept.mapping
