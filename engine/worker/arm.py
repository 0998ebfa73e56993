"""The arm's role: load one rung, take inputs, call it, time it. It never sees an expected value."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import inspect
import itertools
import math
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aisp.checks import registry
from aisp.checks.oracle import calling
from aisp.checks.oracle.returned import FormError, reader
from aisp.checks.oracle.schema import Case as PosedCase
from aisp.checks.oracle.values import Change, made_inputs
from aisp.engine.fingerprints import NUMBERS, first_difference
from aisp.engine.protocol import jobs, reports
from aisp.engine.protocol.batches import Line, LineError, overlapping
from aisp.engine.worker import batches, tensors
from aisp.engine.worker.channel import packed
from aisp.engine.worker.group import Ranks
from aisp.engine.worker.loading import LessonError, callable_of, entries_of, file_of, import_module, kind_of, text_of
from aisp.engine.worker.timers import (
    CaptureError,
    CudaTimer,
    HostTimer,
    LaunchBatch,
    Outputs,
    Sample,
    Timer,
    batch,
    single,
)
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case, Flag, Goal, Target, TensorSpec
from aisp.kernels.catalog.tensors import ANY

if TYPE_CHECKING:
    import torch

STREAM_EVERY_NS = 40_000_000  # samples leave the process at least this often while a turn lasts
THROTTLED = 1  # store.record.DISCARDED: the clock was low
LEAST_GROUP = 4  # fewer calls in one sample gain nothing over one
GROUP_MEMORY_SHARE = 0.25  # of the free device memory, for the buffers of a group
ALIKE = 1e-2  # of a fingerprint's norm; the engine judges strictly, here only how calls are batched is decided
SEVERAL = 8  # more tensors than this are written to by one launch on a GPU
GROUP_PREPARE_S = 2.0  # for prepare() on every set of buffers
LAUNCHING = ("cuda",)  # devices on which short work costs its launch
SHORT_OUTPUT, TOGETHER = 1 << 20, 1 << 22  # elements of an output, and of those that are projected side by side
MARGIN_BYTES = 256  # before and behind every input, inside its storage: whoever writes past an end writes there
POISON_BYTE = 0x7F  # for what is no floating-point number; NaN for what is

_collect = gc.collect  # before a lesson is imported


class _Sensors:
    """The sensors of all checks that are asked, and what they cost. One that raises is asked no more."""

    def __init__(self, site: registry.Site) -> None:
        self._failed: dict[str, str] = {}
        self._spent_ns: dict[str, int] = {}
        self._samples = 0
        self._sampling = False  # around the latest call; what is done once for a case is no cost of a sample
        self.all: list[registry.Sensor[registry.Facts]] = []
        for check, kind in registry.sensors():
            wanted = [c for c in registry.checks() if c.sensor is kind and c.id not in site.without]
            if not wanted or (registry.Need.GPU in check.needs and site.device != "cuda"):
                continue
            try:
                self.all.append(kind(site))
            except Exception as error:  # see _described
                self._failed[kind.name] = _described(error)
        self._around = [s for s in self.all if _overrides(s, "before_call")]
        self._behind = [s for s in self.all if _overrides(s, "after_call")]

    def call(self, hook: str, *arguments: object) -> None:
        """Call one hook of every sensor."""
        for sensor in self.all:
            self._ask(sensor, hook, *arguments)

    def before(self, call: registry.Call) -> None:
        """Values are about to be refilled."""
        self._sampling = call.stage == "timed"
        self._samples += self._sampling
        for sensor in self._around:
            self._ask(sensor, "before_call", call)

    def after(self, call: registry.Call) -> None:
        """The device is idle and the outputs stand."""
        for sensor in self._behind:
            self._ask(sensor, "after_call", call)

    def _ask(self, sensor: registry.Sensor[registry.Facts], hook: str, *arguments: object) -> None:
        if sensor.name in self._failed:
            return
        start = time.perf_counter_ns()
        try:
            getattr(sensor, hook)(*arguments)
        except Exception as error:  # see _described
            self._failed[sensor.name] = f"{hook}: {_described(error)}"
        if self._sampling and hook in ("before_call", "after_call"):
            self._spent_ns[sensor.name] = self._spent_ns.get(sensor.name, 0) + time.perf_counter_ns() - start

    def sensed(self) -> reports.Sensed:
        """What all of them noted."""
        found: dict[str, msgspec.Raw] = {}
        for sensor in self.all:
            if sensor.name not in self._failed:
                try:
                    found[sensor.name] = packed(sensor.facts())
                except Exception as error:  # see _described
                    self._failed[sensor.name] = f"facts: {_described(error)}"
        return reports.Sensed(facts=found, failed=self._failed)

    def cost_us(self) -> dict[str, float]:
        """Mean time around one sample, of each sensor."""
        return {name: spent / 1e3 / max(self._samples, 1) for name, spent in self._spent_ns.items()}


def _described(error: Exception) -> str:
    """Why a sensor failed. No failure of a sensor ends the run; its check becomes UNAVAILABLE and says this."""
    return f"{kind_of(error)}: {text_of(error)}"[:300]


def _overrides(sensor: registry.Sensor[registry.Facts], hook: str) -> bool:
    return getattr(type(sensor), hook) is not getattr(registry.Sensor, hook)


class _Bound:
    """One case, ready to call: buffers, the values of each set, and the prepared callable."""

    def __init__(self, case: Case, buffers: list[object], sets: list[dict[int, torch.Tensor]]) -> None:
        self.case = case
        self.buffers = buffers  # in the argument order of run()
        self.sets = sets  # per set: argument index -> values to copy in
        self.call: Callable[..., Any] | None = None
        self.takes_others: bool | None = None  # whether that reads other buffers than these; None: not known yet
        self.shapes: dict[str, tuple[int, ...]] = {}  # of open outputs, as the first call returned them
        self.dtypes: dict[str, str] = {}  # likewise
        self.count = 0  # of outputs, where the first call returned fewer than are declared


class _Group:
    """A launch batch, and the buffers that each of its calls reads."""

    def __init__(self, launches: LaunchBatch, buffers: list[list[object]], note: str = "") -> None:
        self.launches = launches
        self.buffers = buffers  # per call, in the argument order of run(); with warm caches all calls share one
        self.note = note  # why it is less than was asked for

    @property
    def shared(self) -> bool:
        """Whether all calls read the same values."""
        return self.buffers[0] is self.buffers[-1]


class Arm:
    """Serves the jobs of one rung. See engine.protocol.jobs for each."""

    def __init__(self, job: jobs.Load, target: Target, l2_bytes: int, writable: Sequence[str] = ()) -> None:
        import torch

        self._torch = torch
        self._target = target
        self._device = job.device
        self._l2_bytes = l2_bytes
        self._folder = Path(os.fsdecode(job.folder))
        self._bound: dict[str, _Bound] = {}
        self._timer: Timer | None = None
        self._group: _Group | None = None
        self._last: tuple[int, Outputs] | None = None
        self._poisonable: list[torch.Tensor] = []
        self._kept_at: set[int] = set()  # where those lie: behind the next call some cannot be asked
        self._weights: dict[int, torch.Tensor] = {}
        self._sent = 0
        self._digest = hashlib.sha256()
        self._without = frozenset(job.without)
        file_of(self._folder, job.module)  # one that was deleted while the run was planned is no rung of the target
        if job.caches:
            writable = [*writable, os.fsdecode(job.caches[job.rank])]
        # A cache is reached by a link: what lies in it has two names.
        own = dict.fromkeys(name for folder in writable for name in (folder, os.path.realpath(folder)))
        self._site = registry.Site(
            job.device, self._folder, target, target.rung(job.module), self._without, writable=tuple(own)
        )
        page = None if job.meeting is None else tensors.descriptor(job.meeting.name)
        # Decides which GPU is this process's.
        self._ranks = Ranks(job.rank, job.ranks, job.rendezvous, job.device, page)
        self._sensors = _Sensors(self._site)
        self._reader = reader()  # before the lesson is imported
        self._sensors.call("before_import")
        module = import_module(self._folder, job.module)
        self._run, self._prepare = entries_of(module)
        self._sensors.call("after_import")

    # -- inputs ----------------------------------------------------------------------------------------------------

    def take_inputs(self, job: jobs.TakeInputs) -> reports.Taken:
        """Make buffers at lasting addresses and hold each set's values beside them."""
        target = self._target = self._site.target = self._target.with_mutable(job.sets[0].mutable)
        case = target.case(job.case)
        arrived = [self._mine(blob) for blob in job.sets]
        made = self._made(PosedCase.of_set(case), job.made_seed)
        buffers: list[object] = []
        sets: list[dict[int, torch.Tensor]] = [{} for _ in arrived]
        held = 0
        for index, spec in enumerate(target.inputs):
            if spec.made:
                buffers.append(made[spec.name])
                continue
            host = Flag.CPU in spec.flags or Flag.PINNED in spec.flags or self._device == "cpu"
            first = arrived[0][spec.name]
            pinned = Flag.PINNED in spec.flags and self._device == "cuda"
            buffer = self._with_margins(first, "cpu" if host else self._device, pinned=pinned)
            buffers.append(buffer)
            held += buffer.numel() * buffer.element_size()
            if Flag.STATIC in spec.flags:
                continue
            for number, values in enumerate(arrived):
                # The copy is private: the shared file belongs to another process.
                copy = values[spec.name].clone() if host else values[spec.name].to(self._device)
                sets[number][index] = copy
                held += copy.numel() * copy.element_size()
        self._bound[case.name] = _Bound(case, buffers, sets)
        self._synchronize()
        return reports.Taken(nbytes=held)

    def _mine(self, blob: jobs.Blob) -> dict[str, torch.Tensor]:
        """What lies in a blob, by name; of several ranks, this one's slices."""
        names = (slot.name for slot in blob.slots)
        return {name: self._ranks.part(whole) for name, whole in zip(names, tensors.read(blob), strict=True)}

    def _shape(self, spec: TensorSpec, bound: _Bound, actual: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that an output must have. The first that is `actual` of an open one is expected from then on;
        whether it is the reference's, the verifier says."""
        if spec.open:
            return bound.shapes.setdefault(spec.name, actual)
        return self._ranks.shape(catalog.shape(spec, bound.case.axes))

    def _with_margins(self, values: torch.Tensor, device: str, *, pinned: bool) -> torch.Tensor:
        """A copy of `values` with MARGIN_BYTES of its own storage on either side."""
        nbytes = values.numel() * values.element_size()
        raw = self._torch.zeros(nbytes + 2 * MARGIN_BYTES, dtype=self._torch.uint8, device=device, pin_memory=pinned)
        buffer = raw[MARGIN_BYTES : MARGIN_BYTES + nbytes].view(values.dtype).view(values.shape)
        return buffer.copy_(values)

    def _made(self, case: PosedCase, made_seed: int) -> dict[str, object]:
        if not any(spec.made for spec in self._target.inputs):
            return {}
        make: Any = callable_of(import_module(self._folder, "inputs"), "make")
        return made_inputs(self._target, case, made_seed, self._device, make)

    def _refill(self, bound: _Bound, number: int) -> None:
        self._fill(bound, bound.buffers, number)

    def _fill(self, bound: _Bound, buffers: list[object], number: int) -> None:
        for index, values in bound.sets[number].items():
            buffers[index].copy_(values)  # type: ignore[attr-defined]

    def _fill_from(self, bound: _Bound, buffers: list[object], arrived: Mapping[str, torch.Tensor]) -> None:
        """Set 0 but for what arrived: an input whole, or stretches of it and where they begin."""
        self._fill(bound, buffers, 0)
        for index in bound.sets[0]:
            name, buffer = self._target.inputs[index].name, buffers[index]
            assert isinstance(buffer, self._torch.Tensor)
            if jobs.places_of(name) in arrived:
                Change(arrived[jobs.places_of(name)], arrived[name]).laid(buffer)
            elif name in arrived:
                buffer.copy_(arrived[name])

    # -- calling ---------------------------------------------------------------------------------------------------

    def prepare(self, job: jobs.Prepare) -> reports.Prepared:
        """Do once what a user would do once, then call once so that lazy compilation is over."""
        bound = self._bound[job.case]
        start = time.perf_counter()
        self._check_arguments(len(bound.buffers))
        bound.call = self._prepared(bound.buffers)
        self._sensors.call("after_prepare", bound.case, bound.buffers)
        self._refill(bound, 0)
        self._outputs(bound, bound.call(*bound.buffers))
        self._synchronize()
        took_ms = (time.perf_counter() - start) * 1e3
        return reports.Prepared(prepare_ms=took_ms, for_buffers=self._prepare is not None)

    def _prepared(self, buffers: list[object]) -> Callable[..., Any]:
        call = self._run if self._prepare is None else self._prepare(*buffers)
        if not callable(call):
            raise LessonError(f"prepare() returned {type(call).__name__}; it must return the callable to time")
        return call

    def _check_arguments(self, count: int) -> None:
        name, function = ("run", self._run) if self._prepare is None else ("prepare", self._prepare)
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError as error:
            names = ", ".join(spec.name for spec in self._target.inputs)
            raise LessonError(f"{name}() cannot take the {count} inputs of lesson.md ({names}): {error}") from None
        except ValueError:
            return  # a builtin without a signature: the call will tell

    def _outputs(self, bound: _Bound, answer: object) -> Outputs:
        """What was returned, as a tuple of tensors of exactly the declared form, detached. Raises FormError."""
        torch, reading = self._torch, self._reader
        checked = "output.form" not in self._without
        if checked:
            items = reading.items(answer, [spec.name for spec in self._target.outputs])
        else:
            items = tuple(answer) if isinstance(answer, (tuple, list)) else (answer,)
        specs = self._target.outputs_of(bound.count or len(items))
        names = [spec.name for spec in specs]
        if len(items) != len(specs):
            wanted = ", ".join(names)
            source = "the first call returned" if bound.count else "lesson.md declares"
            raise FormError(f"run() returned {len(items)} outputs, {source} {len(specs)} ({wanted})")
        if len(specs) < len(self._target.outputs):
            bound.count = len(specs)
        if not checked:
            return self._forced(bound, items)
        outputs = tuple(reading.plain(name, item) for name, item in zip(names, items, strict=True))
        for spec, output in zip(specs, outputs, strict=True):
            shape = self._shape(spec, bound, tuple(output.shape))
            if tuple(output.shape) != shape:
                source = "the first call returned" if spec.open else "lesson.md declares"
                raise FormError(f"{spec.name}: shape {list(output.shape)}, {source} {list(shape)}")
            dtype = str(output.dtype).removeprefix("torch.")
            wanted_dtype = bound.dtypes.setdefault(spec.name, dtype) if spec.dtype == ANY else spec.dtype
            if dtype != wanted_dtype:
                source = "the first call returned" if spec.dtype == ANY else "lesson.md declares"
                raise FormError(f"{spec.name}: dtype {dtype}, {source} {wanted_dtype}")
            if output.layout is not torch.strided or not output.is_contiguous():
                how = f"strides {list(output.stride())}" if output.layout is torch.strided else str(output.layout)
                raise FormError(f"{spec.name}: {how}, not contiguous: what it leaves undone, its reader must do")
            if output.device.type not in self._places:
                raise FormError(f"{spec.name}: it lies on {output.device}, the run is on {self._device}")
        reading.apart(names, outputs)
        return tuple(reading.detach(output) for output in outputs)

    @functools.cached_property
    def _places(self) -> frozenset[str]:
        """Types of device on which outputs may lie: the run's, and the host's where inputs lie there too."""
        host = {Flag.CPU, Flag.PINNED}
        on_host = any(host & spec.flags for spec in self._target.inputs)
        return frozenset({self._device, "cpu"} if on_host else {self._device})

    def _forced(self, bound: _Bound, outputs: tuple[Any, ...]) -> Outputs:
        """What a reader who does not look at the form would make of these outputs."""
        torch = self._torch
        forced: list[Any] = []
        for spec, output in zip(self._target.outputs_of(len(outputs)), outputs, strict=True):
            tensor = torch.as_tensor(output).as_subclass(torch.Tensor)
            if spec.dtype != ANY:
                tensor = tensor.to(getattr(torch, spec.dtype))
            shape = list(self._shape(spec, bound, tuple(tensor.shape)))
            same = tensor.numel() == math.prod(shape)
            forced.append((tensor.reshape(shape) if same else tensor.expand(shape)).contiguous().detach())
        return tuple(forced)

    def execute(self, job: jobs.Execute) -> reports.Executed:
        """One call on one set, its outputs handed over whole."""
        torch = self._torch
        bound = self._bound[job.case]
        call = self._callable(bound)
        buffers = self._moved(bound) if job.moved else bound.buffers
        seen = registry.Call("verify", bound.case, [buffers])
        self._poison_last()
        self._sensors.before(seen)
        if job.values is None:
            self._fill(bound, buffers, job.set_index)
        else:
            self._fill_from(bound, buffers, self._mine(job.values))
        cuda = self._device == "cuda"
        held = 0
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
        outputs = self._outputs(bound, call(*buffers))
        self._synchronize()  # an output in host memory may still be on its way
        # Before the fingerprint, which widens a narrow output: that memory is not the rung's.
        peak = max(0, torch.cuda.max_memory_allocated() - held) if cuda else None
        fingerprint = self._fingerprint(outputs)
        blob = self._hand_over(outputs, job.outputs.name)
        self._sensors.after(replace(seen, outputs=[outputs]))
        self._keep(seen.buffers, [outputs])
        return reports.Executed(outputs=blob, fingerprint=fingerprint, peak_bytes=peak)

    def _moved(self, bound: _Bound) -> list[object]:
        """Other buffers with the same values: a rung that goes by addresses takes them for others."""
        moved: list[object] = []
        for spec, buffer in zip(self._target.inputs, bound.buffers, strict=True):
            if spec.made:
                moved.append(buffer)
                continue
            tensor: Any = buffer
            moved.append(self._with_margins(tensor, tensor.device.type, pinned=tensor.is_pinned()))
        return moved

    # -- poison ----------------------------------------------------------------------------------------------------

    def _keep(self, buffers: Sequence[Sequence[object]], outputs: Sequence[Outputs]) -> None:
        """Remember outputs that are poisoned before the next call: those that share no memory with an input."""
        if "output.poison" in self._without:
            return
        taken = {b.untyped_storage().data_ptr() for own in buffers for b in own if isinstance(b, self._torch.Tensor)}
        fresh = [o for some in outputs for o in some if o.numel() and o.untyped_storage().data_ptr() not in taken]
        last, self._kept_at = self._kept_at, {o.data_ptr() for o in fresh}
        self._site.poisoned.kept += not last.isdisjoint(self._kept_at)
        self._poisonable = fresh

    def _drop(self) -> None:
        """Forget the outputs of the call before, since calls come whose outputs nobody looks at."""
        self._last = None
        self._poisonable = []

    def _poison_last(self) -> None:
        """Overwrite what the call before returned. A rung that hands it back unwritten hands back poison."""
        if not self._poisonable:
            return
        self._site.poisoned.calls += 1
        floats: list[torch.Tensor] = []
        others: list[torch.Tensor] = []
        for output in self._poisonable:
            (floats if output.is_floating_point() and output.element_size() > 1 else others).append(output)
        if _at_once(floats):
            self._torch._foreach_mul_(floats, math.nan)
        else:
            for output in floats:
                output.fill_(math.nan)
        for output in filter(self._torch.Tensor.numel, others):
            output.reshape(-1).view(self._torch.uint8).fill_(1 if output.dtype is self._torch.bool else POISON_BYTE)

    def _callable(self, bound: _Bound) -> Callable[..., Any]:
        if bound.call is None:
            raise RuntimeError(f"case {bound.case.name} was not prepared")
        return bound.call

    def _hand_over(self, outputs: Outputs, name: str) -> jobs.Blob:
        names = [spec.name for spec in self._target.outputs_of(len(outputs))]
        return tensors.write(
            name, dict(zip(names, outputs, strict=True)), rank=self._ranks.rank, ranks=self._ranks.ranks
        )

    # -- cases of the oracle ---------------------------------------------------------------------------------------

    def attempt(self, job: jobs.Try) -> reports.Tried:
        """One call on a drawn case, prepared for it anew, its outputs handed over whole."""
        case = PosedCase.of(job.case)
        names = [slot.name for slot in job.inputs.slots]
        # Copies: the shared file belongs to another process.
        posed = {name: view.clone() for name, view in zip(names, tensors.read(job.inputs), strict=True)}
        made = self._made(case, job.made_seed)
        others = {name: (first, second) for name, (first, second) in job.others.items()}
        start = time.perf_counter()
        outputs = calling.attempt(self._target, self._run, self._prepare, case, others, posed, made, self._device)
        self._synchronize()
        took_ms = (time.perf_counter() - start) * 1e3
        blob = tensors.write(job.outputs.name, outputs)
        self._synchronize()
        return reports.Tried(outputs=blob, took_ms=took_ms)

    # -- timing ----------------------------------------------------------------------------------------------------

    def warm_up(self, job: jobs.WarmUp) -> reports.WarmedUp:
        """Reach a steady state; decide how samples are taken."""
        bound = self._bound[job.case]
        call = self._callable(bound)
        if self._timer is None:
            # Ranks whose kernels do not meet cannot be held: each would keep the others waiting for its own hold.
            latency = self._target.goal is Goal.LATENCY or (self._ranks.several and self._ranks.meeting is None)
            self._timer = (
                CudaTimer(self._l2_bytes, latency=latency, cache=job.cache, together=self._ranks, pair_ms=job.pair_ms)
                if self._device == "cuda"
                else HostTimer(self._ranks)
            )
        timer = self._timer
        self._sensors.call("before_timing")
        _collect(1)  # what earlier calls left in cycles of objects would be frozen with the rest
        gc.freeze()  # a full collection takes 100 ms; it was done while standing by
        self._drop()
        self._group = _Group(single(lambda: call(*bound.buffers)), [bound.buffers])
        warmed = timer.warm_up(self._group.launches, lambda: self._refill(bound, 0), job.budget_ms)
        return reports.WarmedUp(
            per_call_ms=warmed.per_call_ms,
            per_sample_ms=max(self._sample_wall_ms(bound), warmed.per_call_ms),
            calls=warmed.calls,
            timing=timer.timing,
            reference_mhz=timer.reference_mhz,
            resolution_ms=timer.resolution_ms,
            overhead_ms=timer.overhead_ms,
            probe_step_ms=timer.probe_step_ms,
            probe_overhead_ms=timer.probe_overhead_ms,
        )

    def _sample_wall_ms(self, bound: _Bound) -> float:
        """Wall clock of one sample as the turns will take them, to know how many fit into one."""
        start = time.monotonic()
        self._take(bound, [0] * self._grouped.launches.calls)
        return (time.monotonic() - start) * 1e3

    @property
    def _grouped(self) -> _Group:
        if self._group is None:
            raise RuntimeError("measuring before warm-up")
        return self._group

    def group(self, job: jobs.Group) -> reports.Grouped:
        """Let one sample time several calls, or one again. The answer says why less than that is possible."""
        bound = self._bound[job.case]
        timer = self._timer
        if timer is None:
            raise RuntimeError("group before warm-up")
        call = self._callable(bound)
        self._drop()
        self._group = _Group(single(lambda: call(*bound.buffers)), [bound.buffers])
        if job.kind != "single":
            self._group = self._several(bound, timer, job)
        group = self._group
        # Also finds how long the stream must be held now.
        timer.warm_up(group.launches, lambda: self._fill_all(bound, [0] * group.launches.calls), 0.0)
        return reports.Grouped(
            kind=group.launches.kind,
            calls=group.launches.calls,
            per_sample_ms=self._sample_wall_ms(bound),
            timing=timer.timing,
            overhead_ms=timer.overhead_ms,
            note=group.note,
        )

    def _several(self, bound: _Bound, timer: Timer, job: jobs.Group) -> _Group:
        """A launch batch of as many calls as are wanted and fit, captured where they can be."""
        alone = self._grouped
        if self._ranks.several:
            alone.note = "ranks would have to agree on how many"
            return alone
        if not isinstance(timer, CudaTimer) or not timer.timing.held:
            alone.note = f"samples are taken {timer.timing}: one call each"
            return alone
        warm = timer.timing.warm
        if warm and self._changes(bound):
            alone.note = "it changes its inputs, which must be fresh for every call"
            return alone
        if warm:
            call = self._callable(bound)
            calls = [lambda: call(*bound.buffers)] * job.calls
            buffers = [bound.buffers] * job.calls
        else:
            if any(spec.made for spec in self._target.inputs):
                alone.note = "an input made by inputs.py exists only once"
                return alone
            wanted = self._affordable(bound, job.calls)
            calls, buffers = self._on_own_buffers(bound, wanted) if wanted >= LEAST_GROUP else ([], [])
            if len(calls) < LEAST_GROUP:
                lacking = "memory" if wanted < LEAST_GROUP else "time for prepare()"
                alone.note = f"there is not enough {lacking} for {LEAST_GROUP} sets of buffers"
                return alone
        if not warm and not self._each_for_itself(bound, batch(calls).launch, buffers):
            alone.note = "its calls share memory (an output that is kept, a prepare() for one set of buffers only)"
            return alone
        self._fill_every(bound, buffers, [0] * len(calls))
        if job.kind == "graph":
            try:
                captured = timer.graph(calls)
            except CaptureError as error:
                return _Group(batch(calls), buffers, str(error))
            if warm or self._each_for_itself(bound, captured.launch, buffers):
                return _Group(captured, buffers)
            return _Group(batch(calls), buffers, "a replay leaves out what its calls do on the host")
        return _Group(batch(calls), buffers)

    def _changes(self, bound: _Bound) -> bool:
        """Whether a call may change an input. One that is posed may turn out to be empty."""
        buffers: list[Any] = bound.buffers
        pairs = zip(self._target.inputs, buffers, strict=True)
        return any(Flag.MUTABLE in spec.flags and (spec.made or buffer.numel()) for spec, buffer in pairs)

    def _each_for_itself(self, bound: _Bound, launch: Callable[[], Sequence[Any]], buffers: list[list[object]]) -> bool:
        """Whether calls made one after the other each leave outputs of their own, from inputs of their own.

        A rung may keep one output buffer, or what prepare() made, in a global: alone it is right. So is one that does a
        part on the host, which a replayed graph leaves out.
        """
        own = self._callable(bound)
        wanted: list[list[float]] = []
        for number in range(len(bound.sets)):
            self._refill(bound, number)
            wanted.append(self._fingerprint(self._outputs(bound, own(*bound.buffers))))
        sets = [number % len(bound.sets) for number in range(len(buffers))]
        self._fill_every(bound, buffers, sets)
        returned = launch()
        try:
            outputs = [self._outputs(bound, answer) for answer in returned]
        except RuntimeError:  # an output that its own graphs have written over cannot so much as be asked
            return False
        if overlapping(
            (0, o.data_ptr(), o.data_ptr() + o.numel() * o.element_size(), number)
            for number, call_outputs in enumerate(outputs)
            for o in call_outputs
        ):
            return False  # by what they hold, a ring of as many as there are sets, or of twice as many, would pass
        return all(
            first_difference(wanted[number], self._fingerprint(call_outputs), ALIKE) is None
            for number, call_outputs in zip(sets, outputs, strict=True)
        )

    def _affordable(self, bound: _Bound, wanted: int) -> int:
        """How many sets of buffers and outputs there is memory for; at most `wanted`."""
        inputs = sum(b.numel() * b.element_size() for b in bound.buffers)  # type: ignore[attr-defined]
        widest = 8  # bytes of an element
        axes, open_shapes = bound.case.axes, bound.shapes
        specs = self._target.outputs_of(bound.count)
        shapes = [open_shapes[s.name] if s.open else catalog.shape(s, axes) for s in specs]
        outputs = sum(math.prod(shape) * widest for shape in shapes)
        free, _ = self._torch.cuda.mem_get_info()
        return min(wanted, int(free * GROUP_MEMORY_SHARE / max(inputs + outputs, 1)))

    def _on_own_buffers(self, bound: _Bound, count: int) -> tuple[list[Callable[[], Any]], list[list[object]]]:
        """Up to `count` calls, each with buffers and a prepared callable of its own; fewer where prepare() is slow."""
        calls: list[Callable[[], Any]] = []
        buffers: list[list[object]] = []
        deadline = time.monotonic() + GROUP_PREPARE_S
        while len(calls) < count and time.monotonic() < deadline:
            own: list[object] = []
            for buffer in bound.buffers:
                copy = self._torch.empty_like(buffer, pin_memory=buffer.is_pinned())  # type: ignore[attr-defined]
                own.append(copy.copy_(buffer))
            self._fill(bound, own, 0)
            prepared = self._prepared(own)
            if self._prepare is not None:
                prepared(*own)  # what it does lazily is done now
                self._synchronize()
            calls.append(functools.partial(prepared, *own))
            buffers.append(own)
        return calls, buffers

    def _fill_all(self, bound: _Bound, sets: list[int]) -> None:
        self._fill_every(bound, self._grouped.buffers, sets)

    def _fill_every(self, bound: _Bound, buffers: list[list[object]], sets: list[int]) -> None:
        """Write fresh values into the buffers of every call; on the GPU many copies at once."""
        pairs = [
            (own[index], values)
            for own, number in zip(buffers, sets, strict=True)
            for index, values in bound.sets[number].items()
        ]
        if _at_once([to for to, _ in pairs]):
            self._torch._foreach_copy_([to for to, _ in pairs], [values for _, values in pairs])
            return
        for to, values in pairs:
            to.copy_(values)  # type: ignore[attr-defined]

    def _take(self, bound: _Bound, sets: list[int]) -> tuple[Sample, list[Outputs], list[float]]:
        """One sample on these sets, its outputs in the declared form, and their fingerprints."""
        timer = self._timer
        if timer is None:
            raise RuntimeError("measuring before warm-up")
        seen = registry.Call("timed", bound.case, self._grouped.buffers)
        self._poison_last()
        if not gc.isenabled():
            _collect(0)  # a microsecond; outputs in a cycle of objects would stay until the collector is on again
        self._sensors.before(seen)
        sample = timer.sample(self._grouped.launches, lambda: self._fill_all(bound, sets))
        outputs = [self._outputs(bound, returned) for returned in sample.outputs]
        fingerprints = self._fingerprints(outputs)
        self._sensors.after(replace(seen, outputs=outputs, sample=sample))
        self._keep(seen.buffers, outputs)
        return sample, outputs, fingerprints

    def measure(self, job: jobs.Measure) -> Iterator[reports.Samples]:
        """Take samples until all sets are served or the budget is spent, sending them as they come."""
        bound = self._bound[job.case]
        calls = self._grouped.launches.calls
        if len(job.sets) % calls:
            raise RuntimeError(f"{len(job.sets)} sets for samples of {calls} calls")
        pending: list[tuple[list[int], Sample, int, list[float]]] = []
        sent_ns = time.monotonic_ns()
        deadline_ns = sent_ns + int(job.budget_ms * 1e6)
        gc.disable()
        try:
            for start in range(0, len(job.sets), calls):
                sets = job.sets[start : start + calls]
                if self._grouped.shared:
                    sets = sets[-1:] * calls
                # The outputs of the sample before are dropped here, outside of the timed region.
                self._last = None
                sample, outputs, fingerprints = self._take(bound, sets)
                throttled = sample.sm_clock_mhz < job.least_mhz  # never, where the clock is unknown
                discarded = sample.discarded or (THROTTLED if throttled else 0)
                pending.append((sets, replace(sample, outputs=()), discarded, fingerprints))
                self._last = (sets[-1], outputs[-1])
                now = time.monotonic_ns()
                last = start + calls >= len(job.sets)
                if not self._ranks.several:  # ranks take the same samples and report them together
                    last = last or now > deadline_ns or throttled
                if last or (now - sent_ns > STREAM_EVERY_NS and not self._ranks.several):
                    yield self._batch(job.case, job.round, pending, last)
                    pending, sent_ns = [], now
                if last:
                    return
        finally:
            gc.enable()

    def _batch(
        self, case: str, round_number: int, pending: list[tuple[list[int], Sample, int, list[float]]], last: bool
    ) -> reports.Samples:
        times = [sample.device_ms for _, sample, _, _ in pending]
        self._sent += len(times)
        self._digest.update(struct.pack(f"<{len(times)}d", *times))
        return reports.Samples(
            round=round_number,
            calls=self._grouped.launches.calls,
            sets=[number for sets, _, _, _ in pending for number in sets],
            device_ms=times,
            host_ms=[sample.host_ms for _, sample, _, _ in pending],
            end_ns=[sample.end_ns for _, sample, _, _ in pending],
            discarded=[discarded for _, _, discarded, _ in pending],
            sm_clock_mhz=[sample.sm_clock_mhz for _, sample, _, _ in pending],
            probe_ms=[sample.probe_ms for _, sample, _, _ in pending],
            cycles=[sample.cycles for _, sample, _, _ in pending],
            fingerprints=[value for _, _, _, fingerprints in pending for value in fingerprints],
            width=NUMBERS * len(self._target.outputs_of(self._bound[case].count)),
            last=last,
            start_ns=[sample.start_ns for _, sample, _, _ in pending] if self._ranks.several else [],
        )

    def sustain(self, job: jobs.Sustain) -> reports.Sustained:
        """Call again and again, then wait for the device; the engine has the clock."""
        bound = self._bound[job.case]
        call = self._callable(bound)
        self._refill(bound, 0)
        self._drop()
        self._ranks.meet()
        for _ in range(job.calls):
            call(*bound.buffers)
        self._synchronize()
        return reports.Sustained(calls=job.calls)

    def serve_batches(self, job: jobs.ServeBatches) -> reports.BatchesServed:
        """Make the calls that the judge asks for, and times from outside."""
        bound = self._bound[job.case]
        timer = self._timer
        self._drop()
        self._synchronize()
        line = Line(os.dup(tensors.descriptor(job.line.name)), batches.PATIENCE_S)
        gc.disable()
        try:
            with contextlib.suppress(LineError):  # the judge says what happened
                batches.serve(
                    line,
                    self._callable(bound),
                    bound.buffers,
                    list(bound.sets[0]),
                    functools.partial(self._outputs, bound),
                    own=not self._takes_others(bound),
                    hold=timer.hold if isinstance(timer, CudaTimer) else None,
                    device=timer.handles if isinstance(timer, CudaTimer) else None,
                )
        finally:
            gc.enable()
        return reports.BatchesServed()

    def _takes_others(self, bound: _Bound) -> bool:
        """Whether its call reads what it is called with, wherever that lies. What prepare() returns may know the
        buffers, as a graph does: called with others, of other values, it gives the answer of one or of the other.
        """
        if self._changes(bound):
            return False  # outputs in the judge's memory CUDA shares no further, and a CPU's write would copy its page
        if self._prepare is None or bound.takes_others is not None:
            return self._prepare is None or bool(bound.takes_others)
        module = self._torch

        def answer(buffers: list[object], number: int) -> list[torch.Tensor]:
            self._refill(bound, 1 - number)
            self._fill(bound, buffers, number)
            outputs = self._outputs(bound, self._callable(bound)(*buffers))
            return [output.flatten()[:: max(1, output.numel() >> 20)].to(module.complex128) for output in outputs]

        try:
            others = list(bound.buffers)
            for index in bound.sets[0]:
                others[index] = module.empty_like(bound.buffers[index])
            theirs, mine, other = answer(others, 0), answer(bound.buffers, 0), answer(bound.buffers, 1)
            near, far = (sum(map(module.dist, theirs, answers)) for answers in (mine, other))
            bound.takes_others = bool(near < far)
        except Exception:  # it takes no others, or there are no two sets, or no memory for them
            bound.takes_others = False
        finally:
            self._refill(bound, 0)
        return bound.takes_others

    def trace(self) -> reports.Traced:
        """Let sensors record calls."""
        self._call_sensors("alone")
        return reports.Traced()

    def inspect(self) -> reports.Inspected:
        """What the sensors noted."""
        self._call_sensors("after_timing")
        return reports.Inspected(sensed=[self._sensors.sensed()], cost_us=self._sensors.cost_us())

    def _call_sensors(self, hook: str) -> None:
        """Call a hook that may make calls of its own, where the rung was timed."""
        timed = next((b for b in self._bound.values() if b.call is not None), None)
        if self._timer is None or timed is None:
            return
        sample = self._timer.sample
        self._refill(timed, 0)
        self._drop()
        self._synchronize()
        self._site.call_once = functools.partial(self._call_once, timed)
        self._site.launch_once = functools.partial(self._callable(timed), *timed.buffers)
        if isinstance(self._timer, CudaTimer):
            self._site.hold_together = self._timer.hold_together
            if self._timer.hold is not None and not self._ranks.several:
                one = single(self._site.launch_once)
                self._site.sample_once = lambda: sample(one, lambda: self._refill(timed, 0))
        self._sensors.call(hook)

    def _call_once(self, bound: _Bound, number: int = 0) -> object:
        self._refill(bound, number % len(bound.sets))
        self._synchronize()
        returned: object = self._callable(bound)(*bound.buffers)
        self._synchronize()
        return returned

    def last_outputs(self, job: jobs.FetchLast) -> reports.LastOutputs:
        """Hand over what the last timed call left behind."""
        if self._last is None:
            return reports.LastOutputs(outputs=job.outputs, set_index=-1)
        number, outputs = self._last
        return reports.LastOutputs(outputs=self._hand_over(outputs, job.outputs.name), set_index=number)

    def done(self) -> reports.Done:
        """Report what was sent in all, and end compile helpers first: left alone, they keep the process for seconds."""
        if self._ranks.several:
            self._let_go()
        self._ranks.leave()
        inductor = sys.modules.get("torch._inductor.async_compile")
        if inductor is not None:
            inductor.shutdown_compile_workers()
        return reports.Done(samples=self._sent, sha256=self._digest.hexdigest())

    def _let_go(self) -> None:
        """Drop what was made for calls: a group waits for graphs that its collectives were captured into."""
        self._last = self._group = None
        self._bound.clear()
        self._site.call_once = self._site.launch_once = self._site.sample_once = self._site.hold_together = None
        gc.unfreeze()
        gc.collect()

    # -- fingerprints ----------------------------------------------------------------------------------------------

    def _fingerprint(self, outputs: Outputs) -> list[float]:
        """Fingerprint of one call; see _fingerprints."""
        return self._fingerprints([outputs])

    def _fingerprints(self, calls: Sequence[Outputs]) -> list[float]:
        """Per call and output: two random projections and the sum of squares, computed on the outputs' device.

        Outputs that are the same bit for bit have the same fingerprint up to its own rounding, and bit for bit where
        each is projected by itself. One wrong element among n moves a projection by about its error over sqrt(n) RMS,
        far above rounding. The weights differ in size and not in sign alone, so elements and rows that changed places
        show as well.
        """
        flat = (output for returned in calls for output in returned)
        outputs = [self._torch.view_as_real(output) if output.is_complex() else output for output in flat]
        parts = self._projected(outputs)
        # One way to the host for all of them where they lie on one device.
        alike = len({part.device for part in parts}) == 1
        numbers = self._torch.cat(parts).tolist() if alike else [three for part in parts for three in part.tolist()]
        result: list[float] = []
        for three, output in zip(numbers, outputs, strict=True):
            if not math.isfinite(three[2]):
                # A NaN or an infinity would drown all the rest, and so would squares beyond fp32.
                (three,) = self._project(_made_finite(output)[None]).tolist()
            result += three
        return result

    def _projected(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The three numbers of each output, in their order: [count, 3], of one or of several.

        Short ones on a GPU cost launches and not bandwidth, so those alike go side by side. How many go together
        changes the order of the sums, so they are fp64 ones: far below the tolerance of a comparison.
        """
        parts: list[torch.Tensor] = []
        for (device, count, _), alike in itertools.groupby(outputs, lambda o: (o.device, o.numel(), o.dtype)):
            flat = [output.reshape(-1) for output in alike]
            if device.type not in LAUNCHING or not 0 < count <= SHORT_OUTPUT:
                parts += [self._project(one[None].to(self._torch.float32)) for one in flat]
                continue
            most = TOGETHER // count
            for start in range(0, len(flat), most):
                rows = self._torch.stack([one.view(self._torch.uint8) for one in flat[start : start + most]])
                parts.append(self._project(rows.view(flat[0].dtype).to(self._torch.float64)))
        return parts

    def _project(self, flat: torch.Tensor) -> torch.Tensor:
        """Two projections and the sum of squares, [count, 3], of vectors [count, n] in fp32 or fp64."""
        count, each = flat.shape
        width = 4096 if each >= 4096 else max(each, 1)
        rows = each // width
        body, tail = flat[:, : rows * width].view(count, rows, width), flat[:, rows * width :]
        weights = self._weights_for(max(width, rows), flat.device).to(flat.dtype)
        partial = body @ weights[:width, 0:2]  # [count, rows, 2]
        projected = (partial * weights[:rows, 2:4]).sum(1)
        if tail.numel():
            projected = projected + tail @ weights[: tail.shape[1], 0:2]
        squares = self._torch.dot(flat[0], flat[0]).reshape(1, 1) if count == 1 else (flat * flat).sum(1, keepdim=True)
        return self._torch.cat((projected, squares), 1)

    def _weights_for(self, count: int, device: torch.device) -> torch.Tensor:
        """Random weights [n, 4] with n >= count, of either sign and 0.5 to 1.5 in size; the same in every process."""
        key = 1 if device.type == "cuda" else 0
        weights = self._weights.get(key)
        if weights is None or weights.shape[0] < count:
            # Grown by regenerating from one seed: the first n stay what they were.
            generator = self._torch.Generator("cpu").manual_seed(0x5EED)
            drawn = self._torch.rand((max(count, 4096), 4), generator=generator) * 2 - 1
            weights = (drawn + drawn.sign() * 0.5).to(device)
            self._weights[key] = weights
        return weights

    def _synchronize(self) -> None:
        if self._device == "cuda":
            self._torch.cuda.synchronize()


def _at_once(tensors: Sequence[Any]) -> bool:
    """Whether these are written to by one launch."""
    return len(tensors) > SEVERAL and all(tensor.is_cuda for tensor in tensors)


def _made_finite(output: torch.Tensor) -> torch.Tensor:
    """The output as an fp64 vector in which NaN and the infinities are numbers that none of the others has."""
    import torch

    flat = output.reshape(-1).to(torch.float64)
    finite = torch.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0)
    peak = torch.clamp(finite.abs().amax(), min=torch.finfo(torch.float64).tiny)
    marks = 2.0 * torch.isnan(flat) + 3.0 * torch.isposinf(flat) - 3.0 * torch.isneginf(flat)
    return finite + marks * peak
