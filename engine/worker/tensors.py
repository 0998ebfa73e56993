"""Tensors in shared memory: raw bytes with name, shape and dtype, never pickles.

A file that is used again stays mapped, and beside a GPU it is page-locked from then on: of a 256 MB output the first
way to the host takes 0.2 s, most of it for the pages, the second one 0.08 s, and every one after that 5 ms.
"""

from __future__ import annotations

import collections
import contextlib
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
    blob = Blob(name=name, slots=slots)
    for view, tensor in zip(read(blob, size=offset), tensors.values(), strict=True):
        (view if ranks == 1 else view[rank]).copy_(tensor)
    return blob


def read(blob: Blob, *, size: int | None = None) -> Sequence[torch.Tensor]:
    """CPU tensors over the shared file's own bytes, in the order of its slots; they keep the mapping alive.

    Args:
        blob: what lies where.
        size: make the file at least this large first (the writer's side). Without it, it can no longer shrink.

    Raises:
        ValueError: the file did not come with the job, a slot reaches beyond the file or does not fit its shape.
    """
    import torch

    fd = descriptor(blob.name)
    if size is not None:
        os.ftruncate(fd, max(size, os.fstat(fd).st_size, mmap.PAGESIZE))
    else:
        # Whoever wrote it could cut it off while it is read, which would be a SIGBUS here.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    mapping = _mapped(fd)
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


class _Kept:
    """A mapping of a whole shared file that is kept for the next use."""

    def __init__(self, fd: int, length: int) -> None:
        self.mapping = mmap.mmap(fd, length)
        self._locked = 0  # the address, once it is page-locked
        self._asked = False

    def lock(self) -> None:
        """Let the GPU copy to and from it directly. Where the driver will not, copies go through a staging buffer."""
        import torch

        if self._asked or len(self.mapping) < LEAST_LOCKED_BYTES or not torch.cuda.is_initialized():
            return
        self._asked = True
        driver: Any = torch.cuda.cudart()
        address = torch.frombuffer(self.mapping, dtype=torch.uint8).data_ptr()
        if driver.cudaHostRegister(address, len(self.mapping), 0) == driver.cudaError.success:
            self._locked = address
            return
        with contextlib.suppress(RuntimeError):
            torch.zeros(1, device="cuda")  # takes the error along, which else the next launch of a rung would be told

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
    found = os.fstat(fd)
    identity = found.st_dev, found.st_ino  # of no other file, as long as the mapping holds this one
    kept = _kept.pop(identity, None)
    if kept is not None and len(kept.mapping) == found.st_size:
        kept.lock()
    else:
        if kept is not None:
            kept.forget()
        kept = _Kept(fd, found.st_size)
    _kept[identity] = kept
    while len(_kept) > KEPT:
        _kept.popitem(last=False)[1].forget()
    return kept.mapping
