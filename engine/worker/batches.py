"""The worker's side of batches that the judge times: calls on the judge's inputs, whose outputs the judge reads.

On a CPU the inputs of a batch arrive as a file with the word to begin, which calls read in place. All outputs are kept
until the judge has had some of them read, and what this process still does meanwhile counts as time of the batch.

On a GPU all calls of a batch are launched behind a hold before their inputs exist. The judge writes these, comes to the
meeting where the hold waits, and its clock runs until the device is idle. Calls whose host part waits for the GPU, or
is what they are about, are not held: then the inputs are there when the calls begin. Outputs lie where the calls have
put them; those that calls share are copied behind each call, in the batch.

The process is the rung's. Nothing here is trusted: it only makes an honest rung's answer arrive.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from aisp.engine.protocol.batches import (
    Armed,
    Cannot,
    Done,
    Form,
    Forms,
    Layout,
    Line,
    LineError,
    Mapped,
    Over,
    Place,
    Run,
)
from aisp.engine.worker import ipc
from aisp.engine.worker.probe import Hold, Meeting
from aisp.engine.worker.timers import TorchHandles

if TYPE_CHECKING:
    import torch

PATIENCE_S = 600.0  # of the worker: the engine ends it long before

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt()
MADV_POPULATE_READ = 22  # Linux 5.14: all pages at once, and none of them written

_memmove, _collect = ctypes.memmove, gc.collect  # as they were before a lesson was imported


def serve(
    line: Line,
    call: Callable[..., Any],
    buffers: list[Any],
    refilled: Sequence[int],
    outputs_of: Callable[[object], Sequence[torch.Tensor]],
    *,
    own: bool,
    hold: Hold | None = None,
    device: TorchHandles | None = None,
) -> None:
    """Make batches until the judge has had enough.

    Args:
        line: to the judge; closed behind the last batch, and when something fails.
        call: what is timed.
        buffers: its arguments.
        refilled: places of those that are new for each call.
        outputs_of: what a call returned, in the declared form.
        own: the call knows the buffers (prepare()): inputs must be copied into them.
        hold: keeps the device until the judge lets it go; None on a CPU and for calls that cannot be held.
        device: the GPU's functions as they were before a lesson was imported; None on a CPU.

    Raises:
        LineError: the judge is gone.
    """
    batches: _OnHost | _OnGpu | None = None
    try:
        _collect(0)
        first = outputs_of(call(*buffers))
        forms = [Form(dtype=str(o.dtype).removeprefix("torch."), shape=list(o.shape)) for o in first]
        if device is None:
            like = [output.new_empty(output.shape) for output in first]
            del first
            _collect(0)
            line.send(Forms(outputs=forms, copies=own))
            batches = _OnHost(line, call, buffers, refilled, outputs_of, own, like)
        else:
            device.synchronize()
            del first
            line.send(Forms(outputs=forms, copies=own, held=hold is not None))
            batches = _OnGpu(line, call, buffers, refilled, outputs_of, own, hold, device)
        while True:
            order, files = line.receive()
            if isinstance(order, Over):
                return
            if not isinstance(order, Run):
                raise LineError(f"{type(order).__name__} instead of a batch")
            batches.run(order, files)
    except ipc.IpcError:
        line.send(Cannot())
    finally:
        if batches is not None:
            batches.close()
        line.close()


def _layout(line: Line, count: int) -> tuple[Layout, list[int]]:
    """What the judge says of its memory, and so many descriptors that come with it."""
    layout, files = line.receive()
    if not isinstance(layout, Layout) or len(files) != count:
        raise LineError("no layout came")
    return layout, files


def _keep_memory(like: Sequence[torch.Tensor], calls: int) -> None:
    """Have memory at hand for the outputs of so many calls, which a batch keeps. Samples free theirs, and get the same
    pages anew."""
    import torch

    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)  # no block has a mapping to itself, which would go when it is freed
    libc.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
    kept = [torch.zeros_like(output) for _ in range(calls) for output in like]
    del kept


class _OnHost:
    def __init__(
        self,
        line: Line,
        call: Callable[..., Any],
        buffers: list[Any],
        refilled: Sequence[int],
        outputs_of: Callable[[object], Sequence[torch.Tensor]],
        copies: bool,
        like: Sequence[torch.Tensor],
    ) -> None:
        self._line, self._call, self._buffers, self._outputs_of = line, call, buffers, outputs_of
        self._refilled, self._copies = refilled, copies
        self._layout = _layout(line, 0)[0]
        _keep_memory(like, self._layout.most)
        line.send(Mapped())

    def run(self, order: Run, files: Sequence[int]) -> None:
        call, outputs_of = self._call, self._outputs_of
        kept: list[list[torch.Tensor]] = []
        places: list[list[Place]] = []
        sets = self._mapped(order.calls, *files)  # until the judge has read: to unmap it takes a while
        for arguments in self._arguments(sets):
            outputs = list(outputs_of(call(*arguments)))
            kept.append([output.clone() for output in outputs] if order.clones else outputs)
            places.append([Place(handle=0, offset=output.data_ptr()) for output in kept[-1]])
            del outputs, arguments
            _collect(0)  # what a call leaves in a cycle of objects: a microsecond
        self._line.send(Done(places=places))
        self._line.receive()  # the judge has read

    def _arguments(self, sets: torch.Tensor) -> Iterator[list[Any]]:
        """The arguments of each call, in these sets; what writes into them does so in pages of its own."""
        calls = len(sets)
        views: dict[int, tuple[torch.Tensor, ...]] = {}
        for place in self._refilled:
            buffer = self._buffers[place]
            start, size = self._layout.offsets[place], buffer.element_size()
            values = sets[:, start : start + buffer.numel() * size].view(buffer.dtype)
            views[place] = values.view(calls, *buffer.shape).unbind(0)
        for number in range(calls):
            if not self._copies:
                yield [views[place][number] if place in views else b for place, b in enumerate(self._buffers)]
                continue
            for place, each in views.items():
                buffer = self._buffers[place]
                _memmove(buffer.data_ptr(), each[number].data_ptr(), buffer.numel() * buffer.element_size())
            yield self._buffers

    def _mapped(self, calls: int, file: int) -> torch.Tensor:
        """The sets of a batch, as bytes [calls, bytes of a set]. The file is closed, and mapped as long as a tensor of
        it lives."""
        import torch

        nbytes = calls * self._layout.set_bytes
        if not nbytes:
            os.close(file)
            return torch.empty((calls, 0), dtype=torch.uint8)
        memory = mmap.mmap(file, nbytes, flags=mmap.MAP_PRIVATE)
        os.close(file)
        with contextlib.suppress(OSError):  # an older kernel: page by page, as calls come to them
            memory.madvise(MADV_POPULATE_READ)
        return torch.frombuffer(memory, dtype=torch.uint8).view(calls, self._layout.set_bytes)

    def close(self) -> None:
        """Nothing of it outlives a batch."""


class _OnGpu:
    def __init__(
        self,
        line: Line,
        call: Callable[..., Any],
        buffers: list[Any],
        refilled: Sequence[int],
        outputs_of: Callable[[object], Sequence[torch.Tensor]],
        copies: bool,
        hold: Hold | None,
        device: TorchHandles,
    ) -> None:
        self._line, self._call, self._outputs_of = line, call, outputs_of
        self._hold, self._device = hold, device
        layout, (file,) = _layout(line, 1)
        try:
            self._meeting = Meeting(file, 0, 2)
            address, size = ipc.open_shared(layout.handle)
        except (OSError, RuntimeError) as error:  # what a container may forbid; nothing here is the lesson's
            raise ipc.IpcError(str(error)) from None
        finally:
            os.close(file)
        self._opened = address
        memory = ipc.bytes_at(address, size)
        self._arguments: list[list[Any]] = []
        self._copies: list[list[tuple[Any, Any]]] = []  # to, from; by call
        for number in range(layout.most):
            views: dict[int, torch.Tensor] = {}
            for place in refilled:
                buffer = buffers[place]
                start = number * layout.set_bytes + layout.offsets[place]
                raw = memory[start : start + buffer.numel() * buffer.element_size()]
                views[place] = raw.view(buffer.dtype).view(buffer.shape)
            self._copies.append([(buffers[place], view) for place, view in views.items()] if copies else [])
            self._arguments.append(buffers if copies else [views.get(i, b) for i, b in enumerate(buffers)])
        line.send(Mapped())

    def run(self, order: Run, files: Sequence[int]) -> None:
        self._device.settle()
        if order.held and self._hold is not None:
            self._hold.launch(0.0, self._meeting)
        kept: list[list[torch.Tensor]] = []
        addresses: list[list[int]] = []
        for number in range(order.calls):
            for to, values in self._copies[number]:
                to.copy_(values)
            outputs = list(self._outputs_of(self._call(*self._arguments[number])))
            kept.append([output.clone() for output in outputs] if order.clones else outputs)
            addresses.append([output.data_ptr() for output in kept[-1]])  # some cannot be asked behind the next call
        if order.held:
            handles, places = self._placed(addresses)
            self._line.send(Armed(handles=handles, places=places))
            self._device.synchronize()
            self._line.send(Done())
        else:
            self._device.synchronize()
            handles, places = self._placed(addresses)
            self._line.send(Done(handles=handles, places=places))
        self._line.receive()  # the judge has read

    @staticmethod
    def _placed(addresses: list[list[int]]) -> tuple[list[bytes], list[list[Place]]]:
        """Handles, and where each output of each call lies. Raises ipc.IpcError."""
        handles: dict[bytes, int] = {}
        by_address: dict[int, bytes] = {}  # of this batch: what was freed since the last one may lie where that did
        places: list[list[Place]] = []
        for outputs in addresses:
            row: list[Place] = []
            for address in outputs:
                handle, offset = ipc.share(address, by_address)
                row.append(Place(handle=handles.setdefault(handle, len(handles)), offset=offset))
            places.append(row)
        return list(handles), places

    def close(self) -> None:
        """Reach the judge's memory no longer."""
        self._device.synchronize()
        self._arguments.clear()
        self._copies.clear()
        ipc.close_shared(self._opened)
        self._meeting.close()
