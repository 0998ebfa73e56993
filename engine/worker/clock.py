"""The judge's clock: batches of a worker's calls, timed, fed and read from another process.

A pair of batches has N and 3N calls on as many different sets of inputs, made for it from bits that exist in this
process alone. The time per call is the slope between the two, so that what a batch costs once goes out of it: the word
to begin, waking up, the word that it is over. Copies that a batch contains (engine.worker.batches) are taken off as
they are measured here, never as the worker says. Behind each batch the outputs of calls that are picked then are read
and compared with the fp64 reference.

What a rung could do about the time: have work done outside of both batches, behind the word that they are over and
before the outputs are read. On a CPU the processor time that its process takes then is counted as time of the batch.
"""

from __future__ import annotations

import fcntl
import itertools
import math
import mmap
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aisp.engine.protocol import reports
from aisp.engine.protocol.batches import (
    AnyMessage,
    Cannot,
    Done,
    Fetch,
    Fetched,
    Form,
    Forms,
    Layout,
    Line,
    LineError,
    Mapped,
    Over,
    Place,
    Placed,
    Read,
    Run,
    overlapping,
    strides,
)
from aisp.engine.worker import ipc
from aisp.engine.worker.probe import LINE_WORDS
from aisp.engine.worker.tensors import mixed
from aisp.engine.worker.timers import CORES
from aisp.kernels.catalog.model import Flag, Target

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

BATCH_MS = 5.0  # what the smaller batch should take
WIDE = 3  # the larger one has so many times its calls
MOST_CALLS = 600  # in the larger one: behind a hold a GPU takes some thousand launches, and a call may be more than one
PICKS = 3  # calls of a batch whose outputs are read, at most: who skips some calls meets one of them
FILL_MS = 120.0  # for making the inputs of a batch
HOST_BYTES = 512 << 20
DEVICE_SHARE = 0.2  # of the free memory
ONCE_MS = 0.3  # what a batch may cost once, and no call: it wakes two processes, and says that it is over
ARMED_S = 0.25  # within which calls are launched behind a hold: one that waits for the GPU never is
FEWER = 4  # a GPU takes some thousand launches ahead of time: where calls are many each, a batch has fewer calls
AWAKE_S = 0.1  # that the end of a batch is waited for without sleeping, where the worker does not need the core
AWAKE_CORES = 4
COPY_TRIES = 5
COPIED_BYTES = {
    "cpu": 1 << 26,
    "cuda": 1 << 28,
}  # in each, at most, where a call copies less: beyond what a cache holds
NO_ROOM = f"there is no memory for {WIDE} sets of its inputs and outputs"
SEAL_FUTURE_WRITE = 0x0010  # Linux 5.1: who has it mapped may write, nobody else from then on

Inputs = dict[str, "torch.Tensor"]


class CannotError(Exception):
    """Batches cannot be judged from outside. The message is a clause that says why.

    Attributes:
        task: it is so of the task, whatever a rung does.
    """

    def __init__(self, message: str, *, task: bool = False) -> None:
        super().__init__(message)
        self.task = task


class FreshSets:
    """Sets of inputs that nobody has seen: one is drawn, and mixed with a known one, element by element.

    Where the task poses inputs itself, whose values may hang together, each set is drawn.

    Args:
        draw: makes a set from a number, in host memory.
        names: of the inputs that are refilled.
        base_set: a set that rungs may know; each new set mixes it with one that nobody has seen.
    """

    def __init__(
        self,
        target: Target,
        draw: Callable[[int], Mapping[str, torch.Tensor]],
        names: Sequence[str],
        device: str,
        base_set: Mapping[str, torch.Tensor],
    ) -> None:
        self._draw, self._names, self._device = draw, names, device
        self._specs = {spec.name: spec for spec in target.inputs}
        self._mixes = not any(self._specs[name].posed for name in names)
        self._base_set: Inputs = {name: base_set[name].to(device) for name in names if self._mixes}
        self._drawn: Inputs | None = None

    def next(self) -> Inputs:
        """One more set."""
        if not self._mixes:
            return self._whole()
        if self._drawn is None:
            self._drawn = self._whole()
        return {name: self._mixed(name, self._base_set[name], self._drawn[name]) for name in self._names}

    def renewed(self) -> FreshSets:
        """Itself, from now on with sets of which nobody has learnt anything: those so far are mixed of what was drawn
        before."""
        self._drawn = None
        return self

    def _whole(self) -> Inputs:
        made = self._draw(secrets.randbits(62))
        return {name: made[name].to(self._device) for name in self._names}

    def _mixed(self, name: str, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        count = one.numel()
        if not count:
            return one
        if self._specs[name].distribution == "permutation":
            return one.reshape(-1).roll(secrets.randbelow(count)).reshape(one.shape)
        return mixed(one, other, secrets.randbits(62))


class Outside:
    """Times and reads one worker's batches.

    Args:
        line: to the worker.
        reader: to who reads the worker's memory for us, on a CPU.
        target: whose inputs they are.
        sets: makes inputs.
        like: set 0 of the case, whose inputs those of a batch resemble in shape and dtype.
        compare: what is wrong with the outputs for one of `judged`, by its place there.
        pid: of the worker.
        judged: inputs of the calls whose outputs are read, in places that are drawn. The worker gets each once: a set
            that came again would tell which calls are read.
        answer_bytes: of all outputs of a call, as the task declares them.
        both: outputs of the smaller batch of a pair are read too; half of `judged` are for that one.
    """

    def __init__(
        self,
        line: Line,
        reader: Line,
        target: Target,
        sets: FreshSets,
        like: Mapping[str, torch.Tensor],
        compare: Callable[[int, dict[str, torch.Tensor]], reports.Judged],
        pid: int,
        judged: Sequence[Inputs],
        answer_bytes: int,
        *,
        both: bool = False,
    ) -> None:
        self._line, self._reader = line, reader
        self._target, self._sets, self._like, self._compare = target, sets, like, compare
        self._pid, self._answer_bytes = pid, answer_bytes
        self._unseen, self._picked = dict(enumerate(judged)), dict[int, int]()
        self._both, self._picks = both, math.ceil(len(judged) / (1 + both))
        self._names = [n for n in like if n in refilled(target)]
        self._read = 0
        self._judged: reports.Judged | None = None

    def timed(
        self,
        pairs: int,
        device: str,
        per_call_ms: float,
        calls: int = 0,
        *,
        held: bool = True,
        clones: bool = False,
    ) -> reports.BatchesTimed:
        """All pairs.

        Args:
            pairs: how many.
            device: "cpu" or "cuda".
            per_call_ms: as the worker has it. A pair of another length than is meant is less exact, and no more.
            calls: N, where it is known.
            held: whether calls may be launched ahead.
            clones: calls are known to share their outputs.

        Raises:
            LineError: the worker does not come to the end.
            CannotError: there can be no batches.
        """
        forms, _ = self._line.receive()
        if not isinstance(forms, Forms) or len(forms.outputs) != len(self._target.outputs_of(len(forms.outputs))):
            raise LineError("it did not say what its calls give")
        side: _HostSide | _DeviceSide
        if device == "cuda":
            side = _DeviceSide(self, forms, held=held, clones=clones)
        else:
            side = _HostSide(self, forms, self._reader, clones=clones)
        try:
            calls = min(calls or _calls(per_call_ms, side.room, self._fill_ms(device)), side.room // WIDE)
            calls = side.meet(calls)
            side.batch(1)  # what only the first one costs
            if side.late:
                side.hold_no_longer()
            copies_ms = side.copies_ms()
            slopes: list[float] = []
            while len(slopes) < pairs:
                pair = self._pair(side, calls)
                if pair is None:
                    calls = side.fewer(calls) if side.late else calls
                    copies_ms = side.copies_ms()
                else:
                    slopes.append(per_call_ms_of(*pair, calls) - copies_ms)
                if self._judged is not None and not self._judged.right:
                    break
            self._line.send(Over())
        finally:
            side.close()
        return reports.BatchesTimed(
            slopes_ms=slopes,
            copies_ms=copies_ms,
            calls=calls,
            held=side.held,
            clones=side.clones,
            sets=side.room if _cramped(calls, slopes, copies_ms, side.room) else 0,
            read=self._read,
            judged=self._judged,
        )

    def _pair(self, side: _HostSide | _DeviceSide, calls: int) -> tuple[float, float] | None:
        """Milliseconds of a batch of so many calls and of a larger one, which of them is the first is drawn; None where
        one was to be held and was not, whose time has the host in it, or where its calls turn out to share outputs."""
        took: dict[int, float] = {}
        for count in (calls, WIDE * calls) if secrets.randbelow(2) else (WIDE * calls, calls):
            read = self._both or count != calls
            took[count] = self._batch(side, count) if read else side.batch(count)[0]
            if side.late or side.shared:
                return None
        return took[calls], took[WIDE * calls]

    def _fill_ms(self, device: str) -> float:
        """What one more set takes; the first one has the two drawn that all are mixed of."""
        import torch

        settle = torch.cuda.synchronize if device == "cuda" else lambda: None
        for _ in range(2):
            settle()
            start = time.perf_counter()
            self.fresh()
            settle()
            took_ms = (time.perf_counter() - start) * 1e3
        return took_ms

    def _batch(self, side: _HostSide | _DeviceSide, calls: int) -> float:
        """Milliseconds of one batch, outputs of which are compared."""
        took_ms, picked = side.batch(calls, read=True)
        for which, outputs in picked.items():
            if self._judged is None or self._judged.right:
                self._judged = self._compare(which, outputs)
                self._read += 1
        return took_ms

    # -- for its sides ---------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the inputs that are new in each call."""
        return self._names

    def places(self) -> list[int]:
        """Places of these inputs among the arguments of run()."""
        order = [spec.name for spec in self._target.inputs]
        return [order.index(name) for name in self._names]

    def sizes(self) -> list[int]:
        """Bytes of these inputs."""
        return [self._like[name].numel() * self._like[name].element_size() for name in self._names]

    def needed_bytes(self) -> int:
        """Bytes of the inputs and outputs of a call, as the task declares them."""
        return strides([*self.sizes(), self._answer_bytes])[1]

    def output_names(self, count: int) -> list[str]:
        """Names of the first `count` outputs, in declared order."""
        return [spec.name for spec in self._target.outputs_of(count)]

    @property
    def line(self) -> Line:
        """Line to the worker."""
        return self._line

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._pid

    def fresh(self) -> Inputs:
        """One more set of inputs."""
        return self._sets.next()

    def batch_of(self, calls: int, *, read: bool) -> Iterator[Inputs]:
        """So many sets of inputs that the worker has not had; where outputs are to be `read`, those to be judged are
        among them, in places that are drawn.
        """
        unseen = list(self._unseen)[: min(calls, self._picks)] if read else []
        self._picked = dict(zip(secrets.SystemRandom().sample(range(calls), len(unseen)), unseen, strict=True))
        for number in range(calls):
            which = self._picked.get(number)
            yield self._sets.next() if which is None else self._unseen.pop(which)

    @property
    def picked(self) -> Mapping[int, int]:
        """Numbers of the calls of the last batch whose outputs are read, and which set each had."""
        return self._picked


def refilled(target: Target) -> list[str]:
    """Names of the inputs that are new in each call."""
    return [spec.name for spec in target.inputs if spec.refilled]


def per_call_ms_of(few_ms: float, many_ms: float, calls: int) -> float:
    """Time per call from a batch of so many calls and one of WIDE times as many: their slope, and at least what the
    larger one has per call. What both take alike goes out of it, as far as ONCE_MS: a rung that wastes time in short
    batches would make the slope flat.
    """
    slope_ms = (many_ms - few_ms) / ((WIDE - 1) * calls)
    return max(slope_ms, (many_ms - ONCE_MS) / (WIDE * calls))


def why_inside(target: Target, device: str) -> str:
    """Why a target's calls cannot be judged from outside, as a clause; "" where they can."""
    if not refilled(target):
        return "none of its inputs is new in a call"
    if device == "cuda" and any({Flag.CPU, Flag.PINNED} & spec.flags for spec in target.inputs):
        return "its inputs lie in host memory"
    return ""


def _sized(forms: Sequence[Form]) -> list[int]:
    import torch

    sizes = []
    for form in forms:
        dtype = getattr(torch, form.dtype, None)
        if not isinstance(dtype, torch.dtype) or any(not 0 <= extent < 1 << 40 for extent in form.shape):
            raise LineError(f"an output of {form.dtype} {form.shape}")
        sizes.append(math.prod(form.shape) * dtype.itemsize)
    return sizes


def _tensor(raw: torch.Tensor, form: Form) -> torch.Tensor:
    import torch

    return raw.view(getattr(torch, form.dtype)).view(form.shape)


def _calls(per_call_ms: float, room: int, fill_ms: float) -> int:
    """N: a batch of BATCH_MS, for whose larger one there is room and time to fill it."""
    wanted = math.ceil(BATCH_MS / max(per_call_ms, 1e-4))
    payable = int(FILL_MS / max(fill_ms, 1e-3) / WIDE)
    return max(1, min(wanted, room // WIDE, MOST_CALLS // WIDE, payable))


def _mapped(line: Line, layout: Layout, *files: int) -> None:
    """Give the worker what is shared. Raises LineError, CannotError."""
    line.send(layout, files)
    message, _ = line.receive()
    if isinstance(message, Cannot):
        raise CannotError("its process cannot open memory that CUDA shares")
    if not isinstance(message, Mapped):
        raise LineError("it did not map its memory")


def meeting_page() -> tuple[int, npt.NDArray[np.uint64]]:
    """A file of one page, where the judge meets a worker's hold, and the page. Whoever is given the file can write
    there, but neither cut it off, which would be a SIGBUS here, nor change that."""
    fd = os.memfd_create("aisp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, mmap.PAGESIZE)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd, np.frombuffer(mmap.mmap(fd, mmap.PAGESIZE), np.uint64)


def _cramped(calls: int, slopes_ms: Sequence[float], copies_ms: float, room: int) -> bool:
    """Whether there would have been more calls in a batch, had there been memory for more sets."""
    per_call_ms = max(statistics.median(slopes_ms) + copies_ms, 1e-4) if slopes_ms else BATCH_MS
    return room < MOST_CALLS and calls == room // WIDE < math.ceil(BATCH_MS / per_call_ms)


def _copies(come: Sequence[int], go: Sequence[int], most: int, device: str) -> list[list[tuple[Any, Any]]]:
    """What one call after the other copies, of `most` at most: to where, and from where.

    As in a batch, inputs come from places of their own in each call, and outputs go to some: what is in a cache already
    would be copied in half of the time.

    Args:
        come, go: bytes of inputs and of outputs.
    """
    import torch

    each = sum(come) + sum(go)
    if not each:
        return []
    calls: list[list[tuple[Any, Any]]] = [[] for _ in range(max(1, min(most, COPIED_BYTES[device] // each)))]
    for size, comes in [(size, True) for size in come] + [(size, False) for size in go]:
        if size:
            one = torch.ones(size, dtype=torch.uint8, device=device)
            many = torch.ones((len(calls), size), dtype=torch.uint8, device=device)
            for call, other in zip(calls, many, strict=True):
                call.append((one, other) if comes else (other, one))
    return calls


class _Side:
    """Where batches run.

    Attributes:
        held: calls are launched ahead.
        late: a batch since `fewer` was to be launched ahead and was not.
        clones: outputs are copied behind each call.
        shared: calls of the last batch put outputs over one another's, so that none of it can be read; `clones` since.
    """

    held = late = clones = shared = False

    def fewer(self, calls: int) -> int:
        """So many calls may be launched ahead where `calls` were not; where none may, they are held no longer."""
        if calls < FEWER:
            self.hold_no_longer()
            return calls
        self.late = False
        return calls // FEWER

    def hold_no_longer(self) -> None:
        """Launch calls as they run from now on."""
        self.held = self.late = False

    def _picked(self, outside: Outside, placed: Placed, sizes: Sequence[int]) -> Mapping[int, int]:
        """The calls whose outputs are to be read, and which set each had; none where calls put theirs over one
        another's, which are copied from then on."""
        self.shared = not self.clones and overlapping(
            (place.handle, place.offset, place.offset + size, number)
            for number, row in enumerate(placed.places)
            for place, size in zip(row, sizes, strict=False)  # a short row is refused where it is read
        )
        self.clones |= self.shared
        return {} if self.shared else outside.picked


class _HostSide(_Side):
    """Batches on a CPU, where nothing is held."""

    def __init__(self, outside: Outside, forms: Forms, reader: Line, *, clones: bool) -> None:
        self._outside, self._forms, self._copies, self._reader = outside, forms.outputs, forms.copies, reader
        self.clones = clones
        self._offsets, self._set_bytes = strides(outside.sizes())
        self._output_sizes = _sized(forms.outputs)
        each = self._set_bytes + strides(self._output_sizes)[1]
        self.room = min(MOST_CALLS, HOST_BYTES // max(each, 1))
        if self.room < WIDE:
            task = WIDE * outside.needed_bytes() > HOST_BYTES
            raise CannotError(f"three sets of its inputs and outputs take {WIDE * each / 2**20:.3g} MiB", task=task)
        self._clock = (~outside.pid << 3) | 2  # the kernel's name for the processor time of a process

    def meet(self, calls: int) -> int:
        """Have the worker know where inputs of batches of so many calls lie; returns the calls. Raises LineError."""
        self._most = WIDE * calls
        places = dict(zip(self._outside.places(), self._offsets, strict=True))
        _mapped(self._outside.line, Layout(offsets=places, set_bytes=self._set_bytes, most=self._most))
        return calls

    def _filled(self, calls: int, *, read: bool = False) -> tuple[int, mmap.mmap]:
        """A file with the inputs of a batch, which nobody else can write to, and our mapping of it."""
        import torch

        fd = os.memfd_create("aisp", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, calls * self._set_bytes or mmap.PAGESIZE)
        memory = mmap.mmap(fd, 0)
        if self._set_bytes:
            raw = torch.frombuffer(memory, dtype=torch.uint8)
            for number, made in enumerate(self._outside.batch_of(calls, read=read)):
                for name, offset in zip(self._outside.names, self._offsets, strict=True):
                    values = made[name].contiguous().view(-1).view(torch.uint8)
                    start = number * self._set_bytes + offset
                    raw[start : start + values.numel()] = values
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | SEAL_FUTURE_WRITE
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fd, memory

    def batch(self, calls: int, *, read: bool = False) -> tuple[float, dict[int, dict[str, Any]]]:
        """Milliseconds of so many calls, and outputs where some are to be read, by which set they are of."""

        fd, memory = self._filled(calls, read=read)
        try:
            line = self._outside.line
            start = time.perf_counter_ns()
            line.send(Run(calls=calls, clones=self.clones), [fd])
            message, _ = line.receive()
            end, ran = time.perf_counter_ns(), self._ran_ns()
            if not isinstance(message, Done) or len(message.places) != calls:
                raise LineError(f"{type(message).__name__} instead of the end of a batch")
            picked = self._picked(self._outside, message, self._output_sizes)
            outputs = {which: self._read(message.places[number]) for number, which in picked.items()}
            late_ns = max(self._ran_ns() - ran, 0)
            line.send(Read())
        finally:
            os.close(fd)
            del memory
        return (end - start + late_ns) / 1e6, outputs

    def _read(self, row: Sequence[Place]) -> dict[str, Any]:
        """Outputs of one call. Raises LineError, CannotError."""
        if len(row) != len(self._forms):
            raise LineError("it did not say where its outputs lie")
        placed = zip(self._outside.output_names(len(self._forms)), self._forms, self._output_sizes, row, strict=True)
        return {name: _tensor(self._fetched(place.offset, size), form) for name, form, size, place in placed}

    def _fetched(self, address: int, nbytes: int) -> torch.Tensor:
        """What lies in the worker's memory, as bytes. Raises LineError, CannotError."""
        import torch

        if not nbytes:
            return torch.empty(0, dtype=torch.uint8)
        self._reader.send(Fetch(address=address, nbytes=nbytes))
        message, files = self._reader.receive()
        if not isinstance(message, Fetched):
            raise CannotError("its outputs lie in memory that the engine cannot read")
        (file,) = files
        try:
            return torch.frombuffer(mmap.mmap(file, nbytes), dtype=torch.uint8)
        finally:
            os.close(file)

    def _ran_ns(self) -> int:
        """Processor time of the worker's process; it may be gone."""
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            return 0

    def copies_ms(self) -> float:
        """What the copies of one call take here."""
        come = self._outside.sizes() if self._copies else []
        calls = _copies(come, self._output_sizes if self.clones else [], self._most, "cpu")
        if not calls:
            return 0.0
        times_ms: list[float] = []
        for _ in range(COPY_TRIES):
            start = time.perf_counter_ns()
            for to, values in itertools.chain(*calls):
                to.copy_(values)
            times_ms.append((time.perf_counter_ns() - start) / 1e6 / len(calls))
        return statistics.median(times_ms)

    def close(self) -> None:
        """Nothing of it outlives a batch."""


class _DeviceSide(_Side):
    """Batches on a GPU."""

    def __init__(self, outside: Outside, forms: Forms, *, held: bool, clones: bool) -> None:
        import torch

        self._outside, self._declared = outside, forms
        self._forms, self.held = forms.outputs, forms.held and held
        self.clones = clones or forms.copies  # what knows its inputs' places mostly has one for its outputs too
        self._offsets, self._set_bytes = strides(outside.sizes())
        self._output_sizes = _sized(forms.outputs)
        output_bytes = strides(self._output_sizes)[1]
        free, _ = torch.cuda.mem_get_info()
        self.room = min(MOST_CALLS, int(free * DEVICE_SHARE / max(self._set_bytes + output_bytes, 1)))
        if self.room < WIDE:
            raise CannotError(NO_ROOM, task=WIDE * outside.needed_bytes() > free * DEVICE_SHARE)
        self._opened: dict[bytes, tuple[int, int]] = {}
        self._file, self._page = meeting_page()
        self._turn = 0
        self._address = 0

    def meet(self, calls: int) -> int:
        """Have the worker map memory for batches of so many calls, or of fewer where there is less; of how many.

        Raises:
            LineError, CannotError: see Outside.timed.
        """
        while not self._address:
            most = WIDE * calls
            nbytes = max(most * self._set_bytes, 1)
            try:
                self._address = ipc.allocate(nbytes)
            except ipc.IpcError as error:
                if error.status != ipc.OUT_OF_MEMORY:
                    raise CannotError(f"CUDA gives no memory for its inputs ({error})") from None
                calls, self.room = calls // 2, most // 2
                if not calls:
                    raise CannotError(NO_ROOM) from None
        try:
            handle, _ = ipc.share(self._address)
        except ipc.IpcError as error:
            raise CannotError(f"its inputs lie in memory that cannot be shared ({error})") from None
        self._memory = ipc.bytes_at(self._address, nbytes)
        layout = Layout(
            offsets=dict(zip(self._outside.places(), self._offsets, strict=True)),
            set_bytes=self._set_bytes,
            most=most,
            handle=handle,
        )
        _mapped(self._outside.line, layout, self._file)
        return calls

    def _fill(self, calls: int, *, read: bool) -> None:
        import torch

        for number, made in enumerate(self._outside.batch_of(calls, read=read)):
            for name, offset in zip(self._outside.names, self._offsets, strict=True):
                values = made[name].contiguous().view(-1).view(torch.uint8)
                start = number * self._set_bytes + offset
                self._memory[start : start + values.numel()].copy_(values)
        torch.cuda.synchronize()

    def batch(self, calls: int, *, read: bool = False) -> tuple[float, dict[int, dict[str, Any]]]:
        """Milliseconds of so many calls, and outputs where some are to be read, by which set they are of."""
        line = self._outside.line
        where: AnyMessage | None = None
        held = self.held
        if held:
            line.send(Run(calls=calls, held=True, clones=self.clones))
            # A call that waits for the device is never launched ahead of time, nor are more than the device takes.
            armed = line.waits(ARMED_S)
            self.late |= not armed
            if armed:
                where, _ = line.receive()
        self._fill(calls, read=read)
        placed = None if where is None else self._opened_for(where, calls)
        start = time.perf_counter_ns()
        if held:
            self._let_go()
        else:
            line.send(Run(calls=calls, clones=self.clones))
        if held and where is None:
            where, _ = line.receive()
        if CORES >= AWAKE_CORES:
            line.spin(AWAKE_S)
        message, _ = line.receive()
        end = time.perf_counter_ns()
        if not isinstance(message, Done | Cannot):
            raise LineError(f"{type(message).__name__} instead of the end of a batch")
        placed = placed or self._opened_for(where or message, calls)
        picked = self._picked(self._outside, placed, self._output_sizes)
        outputs = {which: self._read(placed, number) for number, which in picked.items()}
        line.send(Read())
        return (end - start) / 1e6, outputs

    def _let_go(self) -> None:
        """Come to the meeting where calls are held."""
        self._turn += 1
        self._page[LINE_WORDS] = self._turn

    def _opened_for(self, where: AnyMessage, calls: int) -> Placed:
        """Where the outputs lie, with the memory of those that are read within reach. Raises LineError, CannotError."""
        if isinstance(where, Cannot):
            raise CannotError("its outputs lie in memory that cannot be shared")
        if not isinstance(where, Placed) or len(where.places) != calls:
            raise LineError("it did not say where its outputs lie")
        for number in self._outside.picked:
            row = where.places[number]
            if len(row) != len(self._forms):
                raise LineError("it did not say where its outputs lie")
            for size, place in zip(self._output_sizes, row, strict=True):
                if not size:
                    continue
                if not 0 <= place.handle < len(where.handles):
                    raise LineError("an output in no memory")
                handle = where.handles[place.handle]
                if handle not in self._opened:
                    try:
                        self._opened[handle] = ipc.open_shared(handle)
                    except ipc.IpcError as error:
                        raise CannotError(f"its outputs lie in memory that cannot be shared ({error})") from None
                if not 0 <= place.offset <= self._opened[handle][1] - size:
                    raise LineError("an output outside of its memory")
        return where

    def _read(self, where: Placed, number: int) -> dict[str, Any]:
        import torch

        outputs: dict[str, Any] = {}
        names, row = self._outside.output_names(len(self._forms)), where.places[number]
        for name, form, size, place in zip(names, self._forms, self._output_sizes, row, strict=True):
            if size:
                address = self._opened[where.handles[place.handle]][0]
                outputs[name] = _tensor(ipc.bytes_at(address + place.offset, size).clone(), form)
            else:
                outputs[name] = torch.empty(form.shape, dtype=getattr(torch, form.dtype), device="cuda")
        torch.cuda.synchronize()
        return outputs

    def copies_ms(self) -> float:
        """What the copies of one call take here, one behind the other on the device."""
        import torch

        come = self._outside.sizes() if self._declared.copies else []
        calls = _copies(come, self._output_sizes if self.clones else [], self.room, "cuda")
        if not calls:
            return 0.0

        def took_ms(count: int) -> float:
            torch.cuda.synchronize()
            torch.cuda._sleep(2_000_000)  # the host is done before the first copy begins
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for number in range(count):
                for to, values in calls[number % len(calls)]:
                    to.copy_(values)
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end))

        took_ms(4)
        return statistics.median((took_ms(60) - took_ms(20)) / 40 for _ in range(COPY_TRIES))

    def close(self) -> None:
        """Give the memory back; nothing waits for a batch that is not to be."""
        self._let_go()
        for address, _ in self._opened.values():
            ipc.close_shared(address)
        if self._address:
            ipc.free(self._address)
        os.close(self._file)
