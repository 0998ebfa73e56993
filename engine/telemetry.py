"""GPU state through NVML: what there is, and 20 readings a second while something runs. Only ever read.

Four reads take about 10 us each GPU; they happen in a thread of their own, because a GPU that falls off the bus can
make NVML wait. Without a driver everything degrades to "none, and why" in the driver's own words. What the
driver does not answer is NaN or -1, never 0.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from engine.protocol import events

log = logging.getLogger("aisp.telemetry")
PERIOD_S = 0.05


@dataclass(slots=True)
class Readings:
    """Parallel lists, oldest first; see store.records.Telemetry."""

    at_ns: list[int] = field(default_factory=list)
    sm_clock_mhz: list[float] = field(default_factory=list)
    memory_clock_mhz: list[float] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)
    power_w: list[float] = field(default_factory=list)
    throttle: list[int] = field(default_factory=list)

    def event(self, gpu: int) -> events.TelemetryBatch:
        """The same as an event."""
        return events.TelemetryBatch(
            gpu=gpu,
            at_ns=self.at_ns,
            sm_clock_mhz=self.sm_clock_mhz,
            memory_clock_mhz=self.memory_clock_mhz,
            temperature_c=self.temperature_c,
            power_w=self.power_w,
            throttle=self.throttle,
        )

    def extend(self, other: Readings) -> None:
        """Append later readings."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))


class Nvml:
    """The driver's management library, or the reason why there is none."""

    def __init__(self) -> None:
        self.note = ""
        self.driver = ""
        self._handles: list[Any] = []  # by NVML's index; None for a GPU that was lost before we came
        self._notes: dict[int, str] = {}
        self._lock = threading.Lock()
        self._nvml: Any = None
        try:
            import pynvml  # 30 ms, and only the engine needs it

            pynvml.nvmlInit()
            self._nvml = pynvml
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [self._handle(index) for index in range(count)]
            if not count:
                self.note = "the driver sees no GPU"
        except ImportError as error:
            self.note = f"nvidia-ml-py is not installed ({error})"
        except Exception as error:
            # NVMLError is made at run time from the C library's codes; there is no class to name without it.
            self.note = _words(error)

    def _handle(self, index: int) -> Any:
        """A GPU's handle, or None and a note why it has none: one that is lost takes no other along."""
        try:
            return self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError as error:
            self._notes[index] = _words(error)
            return None

    @property
    def count(self) -> int:
        """How many GPUs."""
        return len(self._handles)

    def devices(self) -> list[events.Device]:
        """Every GPU with what is known of it."""
        found: list[events.Device] = []
        for index, handle in enumerate(self._handles):
            if handle is None:
                note = self._notes[index]
                found.append(events.Device(index=index, name="GPU", driver=self.driver, note=note))
                continue
            capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            found.append(
                events.Device(
                    index=index,
                    name=_text(self._ask("nvmlDeviceGetName", handle) or "GPU"),
                    uuid=_text(self._ask("nvmlDeviceGetUUID", handle) or ""),
                    sm=capability[0] * 10 + capability[1] if capability else None,
                    memory_bytes=memory.total if memory else None,
                    driver=self.driver,
                )
            )
        return found

    def processes(self, gpu: int) -> set[int] | None:
        """Pids with a context on the GPU, or None where the driver does not say."""
        if gpu >= len(self._handles) or self._handles[gpu] is None:
            return None
        found = self._ask("nvmlDeviceGetComputeRunningProcesses", self._handles[gpu])
        return None if found is None else {process.pid for process in found}

    def read(self, gpu: int, into: Readings) -> bool:
        """Append one reading. False where the GPU did not answer at all: a gap, not zeros."""
        if gpu >= len(self._handles) or self._handles[gpu] is None:
            return False
        nvml, handle = self._nvml, self._handles[gpu]
        sm = self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)
        memory = self._ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM)
        temperature = self._ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
        power = self._ask("nvmlDeviceGetPowerUsage", handle)
        throttle = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if throttle is None:
            throttle = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if sm is None and memory is None and temperature is None and power is None:
            return False
        into.at_ns.append(time.monotonic_ns())
        into.sm_clock_mhz.append(_number(sm))
        into.memory_clock_mhz.append(_number(memory))
        into.temperature_c.append(_number(temperature))
        into.power_w.append(_number(power) / 1e3)
        into.throttle.append(-1 if throttle is None else int(throttle))
        return True

    def _ask(self, name: str, *arguments: Any) -> Any:
        """One NVML call, None where it fails or does not exist in this version."""
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            with self._lock:
                return function(*arguments)
        except self._nvml.NVMLError:
            return None


class Sampler:
    """Reads one GPU 20 times a second in a thread, from `start` to `stop`; `take` empties what was read."""

    def __init__(self, nvml: Nvml, gpu: int) -> None:
        self._nvml = nvml
        self._gpu = gpu
        self._readings = Readings()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.misses = 0

    def start(self) -> None:
        """Begin; nothing happens where there is no such GPU."""
        if self._thread is None and self._gpu < self._nvml.count:
            self._stop.clear()
            self._thread = threading.Thread(target=self._work, name="nvml", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End within one period."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
            self._thread = None

    def take(self) -> Readings:
        """Everything read since the last time."""
        with self._lock:
            taken, self._readings = self._readings, Readings()
        return taken

    def _work(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            fresh = Readings()
            if self._nvml.read(self._gpu, fresh):
                with self._lock:
                    self._readings.extend(fresh)
            else:
                self.misses += 1
            due = max(due + PERIOD_S, time.monotonic())


def _words(error: Exception) -> str:
    return f"NVML {getattr(error, 'value', '?')}: {error}"


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
