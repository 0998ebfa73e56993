"""What a stretch of time had the GPU do, by the GPU's own records: kernels, copies and fills, through CUPTI.

torch's profiler reads the same records. Its first start took 3.5 to 5.9 s of every process on an H100, CUPTI's own
0.03 s, and each process of a run is a new one.

The places of fields are those that cupti_activity.h of CUDA 13.0 has for CUDA 12 and 13 (CUpti_ActivityKernel9 and 10,
Memcpy6, MemcpyPtoP4, Memset4, API). A test on a GPU holds what is read here against torch's profiler.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL, MEMCPY_PEER = 1, 2, 4, 5, 10, 22  # kinds of records
KINDS = (KERNEL, MEMCPY, MEMSET, MEMCPY_PEER, RUNTIME, DRIVER)
COPIES = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
BUFFER_BYTES = 1 << 20
FORCED = 1  # hand over what is not full

_KERNEL = struct.Struct("<16xQQ8xI4xI40xI8xQ")  # start, end, device, stream, launch, address of the name
_MEMCPY = struct.Struct("<4xB11xQQI4xII")  # direction, start, end, device, stream, launch
_PEER = struct.Struct("<4xB11xQQI4xI16xI")  # the same
_MEMSET = struct.Struct("<16xQQI4xII")  # start, end, device, stream, launch
_CALL = struct.Struct("<8xQ16xI")  # start, launch
_Request = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
_Complete = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, copy or fill on a GPU. Times in ns of CUPTI's clock.

    Attributes:
        launch: number of the call of the driver or the runtime that asked for it.
    """

    name: str
    device: int
    stream: int
    start_ns: int
    end_ns: int
    launch: int = 0


@dataclass(slots=True)
class Recording:
    """What was recorded, whole once `recorded` has ended.

    Attributes:
        activities: in no order.
        called_ns: when the call of a launch number began, by CUPTI's clock.
    """

    activities: list[Activity] = field(default_factory=list)
    called_ns: dict[int, int] = field(default_factory=dict)


class Cupti:
    """The library, with callbacks that hand it memory for records: one for a process, for as long as that lives.

    Args:
        library: by ctypes.
        readable: a kernel's name as its author wrote it.
    """

    def __init__(self, library: Any, readable: Callable[[bytes], str]) -> None:
        self._library, self._readable = library, readable
        self._lent: dict[int, Any] = {}
        self._filled: list[tuple[Any, int]] = []
        self._callbacks = _Request(self._lend), _Complete(self._take_back)  # CUPTI keeps no reference

    def _ask(self, function: str, *arguments: object) -> None:
        if code := getattr(self._library, function)(*arguments):
            raise RuntimeError(f"{function} answered with error {code}")

    def _lend(self, address: Any, size: Any, records: Any) -> None:
        memory = (ctypes.c_uint64 * (BUFFER_BYTES // 8))()
        self._lent[ctypes.addressof(memory)] = memory
        address[0], size[0], records[0] = ctypes.addressof(memory), BUFFER_BYTES, 0

    def _take_back(self, context: object, stream: int, address: int, size: int, valid_bytes: int) -> None:
        self._filled.append((self._lent.pop(address), valid_bytes))

    def now_ns(self) -> int:
        """Its clock."""
        now = ctypes.c_uint64()
        self._ask("cuptiGetTimestamp", ctypes.byref(now))
        return now.value

    @contextlib.contextmanager
    def recorded(self) -> Iterator[Recording]:
        """Record what this process has the GPU do. Synchronise before it ends: what runs then is not in the record.

        Raises:
            RuntimeError: the library refuses.
        """
        recording = Recording()
        self._filled.clear()
        self._ask("cuptiActivityRegisterCallbacks", *self._callbacks)  # a profiler's may have taken their place
        try:
            for kind in KINDS:
                self._ask("cuptiActivityEnable", ctypes.c_int(kind))
            yield recording
        finally:
            self._ask("cuptiActivityFlushAll", ctypes.c_uint32(FORCED))
            for kind in KINDS:
                self._library.cuptiActivityDisable(ctypes.c_int(kind))
        for memory, valid_bytes in self._filled:
            self._read(memory, valid_bytes, recording)

    def _read(self, memory: Any, valid_bytes: int, into: Recording) -> None:
        record = ctypes.c_void_p()
        size = ctypes.c_size_t(valid_bytes)
        while not self._library.cuptiActivityGetNextRecord(memory, size, ctypes.byref(record)):
            assert record.value is not None
            (kind,) = struct.unpack("<I", ctypes.string_at(record.value, 4))
            if kind in (RUNTIME, DRIVER):
                start_ns, launch = _CALL.unpack(ctypes.string_at(record.value, _CALL.size))
                into.called_ns[launch] = start_ns
            elif (activity := self._activity(kind, record.value)) is not None:
                into.activities.append(activity)

    def _activity(self, kind: int, address: int) -> Activity | None:
        if kind == KERNEL:
            start_ns, end_ns, device, stream, launch, name = _KERNEL.unpack(ctypes.string_at(address, _KERNEL.size))
            return Activity(self._readable(ctypes.string_at(name)), device, stream, start_ns, end_ns, launch)
        if kind in (MEMCPY, MEMCPY_PEER):
            layout = _PEER if kind == MEMCPY_PEER else _MEMCPY
            way, start_ns, end_ns, device, stream, launch = layout.unpack(ctypes.string_at(address, layout.size))
            return Activity(f"Memcpy {COPIES.get(way, 'of an unknown kind')}", device, stream, start_ns, end_ns, launch)
        if kind == MEMSET:
            start_ns, end_ns, device, stream, launch = _MEMSET.unpack(ctypes.string_at(address, _MEMSET.size))
            return Activity("Memset", device, stream, start_ns, end_ns, launch)
        return None


@functools.cache
def opened() -> Cupti:
    """That of this process, from the file that torch has loaded.

    Raises:
        RuntimeError: this torch has loaded none.
    """
    maps = os.fsdecode(Path("/proc/self/maps").read_bytes())
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines())
    path = next((path for path in paths if "/libcupti.so" in path), None)
    if path is None:
        raise RuntimeError("this torch has loaded no CUPTI")
    return Cupti(ctypes.CDLL(path), readable_by(ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)))


def readable_by(cxx: Any, c: Any) -> Callable[[bytes], str]:
    """What reads C++ names, with the C++ and the C library."""
    cxx.__cxa_demangle.restype = ctypes.c_void_p
    c.free.argtypes = [ctypes.c_void_p]

    @functools.cache
    def readable(name: bytes) -> str:
        status = ctypes.c_int()
        if not (address := cxx.__cxa_demangle(name, None, None, ctypes.byref(status))):
            return name.decode(errors="replace")
        try:
            return ctypes.string_at(address).decode(errors="replace")
        finally:
            c.free(address)

    return readable
