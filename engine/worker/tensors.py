"""Tensors in shared memory: raw bytes with name, shape and dtype, never pickles."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engine.protocol.jobs import Blob, Slot

if TYPE_CHECKING:
    import torch

ALIGNMENT_BYTES = 256


def write(path: str, tensors: Mapping[str, torch.Tensor], *, rank: int = 0, ranks: int = 1) -> Blob:
    """Size the shared file to hold `tensors`, copy them in (from any device), and describe what lies where.

    With several ranks the file has room for a tensor of each, stacked, and only this one's are copied in.
    """
    slots: list[Slot] = []
    offset = 0
    for name, tensor in tensors.items():
        nbytes = tensor.numel() * tensor.element_size() * ranks
        slots.append(
            Slot(
                name=name,
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=list(tensor.shape) if ranks == 1 else [ranks, *tensor.shape],
                offset=offset,
                nbytes=nbytes,
            )
        )
        offset += -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    blob = Blob(path=path, slots=slots)
    for view, tensor in zip(read(blob, size=offset), tensors.values(), strict=True):
        (view if ranks == 1 else view[rank]).copy_(tensor)
    return blob


def read(blob: Blob, *, size: int | None = None) -> Sequence[torch.Tensor]:
    """CPU tensors over the shared file's own bytes, in the order of its slots; they keep the mapping alive.

    Args:
        blob: what lies where.
        size: make the file at least this large first (the writer's side). Without it, it can no longer shrink.

    Raises:
        ValueError: a slot reaches beyond the file or does not fit its shape.
    """
    import torch

    fd = os.open(blob.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if size is not None:
            os.ftruncate(fd, max(size, os.fstat(fd).st_size, mmap.PAGESIZE))
        else:
            # Whoever wrote it could cut it off while it is read, which would be a SIGBUS here.
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        length = os.fstat(fd).st_size
        mapping = mmap.mmap(fd, length)
    finally:
        os.close(fd)
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
