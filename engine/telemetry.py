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

from aisp.engine.protocol import events
from aisp.store.text import whole

log = logging.getLogger("aisp.telemetry")
PERIOD_S = 0.05
UNKNOWN_MEMORY = (1 << 64) - 1  # NVML's way to say that it does not know a process's memory
NO_LIBRARY = 12  # NVML: its shared library is not there, as on any machine without an NVIDIA driver
NO_DRIVER = "no NVIDIA driver was found here"
LOST = (15, 16)  # NVML: GPU is lost, GPU requires restart; neither passes by itself
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


@dataclass(slots=True)
class Readings:
    """Parallel lists, oldest first; see store.samples.Telemetry."""

    at_ns: list[int] = field(default_factory=list)
    sm_clock_mhz: list[float] = field(default_factory=list)
    memory_clock_mhz: list[float] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)
    power_w: list[float] = field(default_factory=list)
    throttle: list[int] = field(default_factory=list)

    def event(self, gpu: int) -> events.TelemetryBatch:
        """The readings as an event."""
        return events.TelemetryBatch(gpu=gpu, **{name: getattr(self, name) for name in self.__slots__})

    def extend(self, other: Readings) -> None:
        """Append later readings."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))


@dataclass(frozen=True, slots=True)
class User:
    """A process with a context on a GPU.

    Attributes:
        pid: as the driver counts; in a container it may be a number of the host's.
        memory_bytes: on the GPU, None where the driver does not report it.
        busy_at_us: when the driver's newest reading above 0 was taken, in microseconds since 1970; None where there
            is none.
        sm_share_pct: of the multiprocessors' time, in that reading.
    """

    pid: int
    memory_bytes: int | None = None
    busy_at_us: int | None = None
    sm_share_pct: int | None = None


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
            self.driver = _text(whole(pynvml.nvmlSystemGetDriverVersion))
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [self._handle(index) for index in range(count)]
            if not count:
                self.note = "the driver sees no GPU"
        except ImportError as error:
            self.note = f"nvidia-ml-py is not installed ({error})"
        except Exception as error:
            # NVMLError is made at run time from the C library's codes; there is no class to name without it.
            self.note = NO_DRIVER if getattr(error, "value", None) == NO_LIBRARY else _words(error)

    def _handle(self, index: int) -> Any:
        """A GPU's handle, or None with a note why it has none. A lost GPU takes no other along."""
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
        devices: list[events.Device] = []
        for index, handle in enumerate(self._handles):
            if handle is None:
                note = self._notes[index]
                devices.append(events.Device(index=index, name="GPU", driver=self.driver, note=note))
                continue
            capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            devices.append(
                events.Device(
                    index=index,
                    name=_text(self._ask("nvmlDeviceGetName", handle) or "GPU"),
                    uuid=_text(self._ask("nvmlDeviceGetUUID", handle) or ""),
                    sm=capability[0] * 10 + capability[1] if capability else None,
                    memory_bytes=memory.total if memory else None,
                    driver=self.driver,
                )
            )
        return devices

    def processes(self, gpu: int) -> set[int] | None:
        """Pids with a context on the GPU, or None where the driver does not say."""
        if gpu >= len(self._handles) or self._handles[gpu] is None:
            return None
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses", self._handles[gpu])
        return None if processes is None else {process.pid for process in processes}

    def users(self, gpu: int) -> list[User] | None:
        """Who has a context on the GPU, or None where the driver does not say."""
        handle = self._handle_of(gpu)
        processes = None if handle is None else self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        if processes is None:
            return None
        # Readings of the last seconds, some of them of processes that are gone; many drivers do not tell.
        readings = self._ask("nvmlDeviceGetProcessUtilization", handle, 0) or []
        busy: dict[int, tuple[int, int]] = {}
        for reading in readings:
            at_us, share = int(reading.timeStamp), int(reading.smUtil)
            if share > 0 and at_us > busy.get(int(reading.pid), (0, 0))[0]:
                busy[int(reading.pid)] = (at_us, share)
        users: list[User] = []
        for process in processes:
            memory = process.usedGpuMemory
            counted = memory is not None and int(memory) != UNKNOWN_MEMORY
            seen = busy.get(int(process.pid))
            users.append(User(int(process.pid), int(memory) if counted else None, *(seen or (None, None))))
        return users

    def used_bytes(self, gpu: int) -> int | None:
        """Memory in use on the GPU, by whomever; None where the driver does not say."""
        handle = self._handle_of(gpu)
        memory = None if handle is None else self._ask("nvmlDeviceGetMemoryInfo", handle)
        return None if memory is None else int(memory.used)

    def lost(self, gpu: int) -> str:
        """Why the GPU does not come back by itself, in the driver's words; "" where it answers or nothing is known."""
        handle = self._handle_of(gpu)
        if handle is None:
            return ""
        for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage"):
            try:
                with self._lock:
                    getattr(self._nvml, name)(handle)
            except self._nvml.NVMLError as error:
                if error.value in LOST:
                    return _words(error)
        return ""

    def state(self, gpu: int) -> dict[str, object]:
        """The state and settings of the GPU that can change: clocks, limits, modes. None where the driver does not say.

        Some 25 questions of some us each; an empty mapping where there is no such GPU.
        """
        handle = self._handle_of(gpu)
        if handle is None:
            return {}
        nvml, ask = self._nvml, self._ask
        sm, memory = nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM
        pci = ask("nvmlDeviceGetPciInfo", handle)
        mig = ask("nvmlDeviceGetMigMode", handle)
        ecc = ask("nvmlDeviceGetEccMode", handle)
        limits = ask("nvmlDeviceGetPowerManagementLimitConstraints", handle)
        throttle = ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if throttle is None:
            throttle = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        uuid = ask("nvmlDeviceGetUUID", handle)
        energy_mj = ask("nvmlDeviceGetTotalEnergyConsumption", handle)
        uncorrected, volatile = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        ecc_errors = ask("nvmlDeviceGetTotalEccErrors", handle, uncorrected, volatile)
        rows = ask("nvmlDeviceGetRemappedRows", handle)
        driver = ask("nvmlSystemGetDriverVersion")
        return {
            "index": gpu,
            "uuid": None if uuid is None else _text(uuid),
            "pci": None if pci is None else _text(whole(getattr, pci, "busId")).lower(),
            "driver": None if driver is None else _text(driver),
            "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, sm),
            "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", handle, memory),
            "most_sm_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, sm),
            "most_memory_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", handle, memory),
            "application_sm_clock_mhz": ask("nvmlDeviceGetApplicationsClock", handle, sm),
            "application_memory_clock_mhz": ask("nvmlDeviceGetApplicationsClock", handle, memory),
            "power_w": _thousandth(ask("nvmlDeviceGetPowerUsage", handle)),
            "power_limit_w": _thousandth(ask("nvmlDeviceGetPowerManagementLimit", handle)),
            "enforced_power_limit_w": _thousandth(ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
            "default_power_limit_w": _thousandth(ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
            "most_power_limit_w": None if limits is None else _thousandth(limits[1]),
            "energy_j": _thousandth(energy_mj),
            "temperature_c": ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            "throttle": None if throttle is None else int(throttle),
            "ecc": None if ecc is None else bool(ecc[0]),
            "ecc_errors": None if ecc_errors is None else int(ecc_errors),  # that could not be corrected, since a reset
            "remapped_rows": None if rows is None else int(rows[0]) + int(rows[1]),
            "mig": None if mig is None else bool(mig[0]),
            "persistence": _flag(ask("nvmlDeviceGetPersistenceMode", handle)),
            "compute_mode": COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode", handle)),
        }

    def _handle_of(self, gpu: int) -> Any:
        return self._handles[gpu] if 0 <= gpu < len(self._handles) else None

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
                return whole(function, *arguments)
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
        self.lost = ""  # why the GPU does not come back by itself, as the driver says it

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
                self.lost = self.lost or self._nvml.lost(self._gpu)
            due = max(due + PERIOD_S, time.monotonic())


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _words(error: Exception) -> str:
    return f"NVML {getattr(error, 'value', '?')}: {whole(str, error)}"


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _thousandth(value: int | None) -> float | None:
    """mW in W, mJ in J."""
    return None if value is None else value / 1e3


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)
