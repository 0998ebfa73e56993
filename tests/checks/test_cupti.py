"""CUPTI's records: read from a library that is made up here, and on a GPU beside torch's profiler."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest

from aisp.checks import cupti
from aisp.checks.cupti import Activity, Cupti
from aisp.engine.telemetry import Nvml

NVML = Nvml()


class Library:
    """Has these records, each of its own kind and size, and hands them over in one buffer or one for each."""

    def __init__(self, *records: bytes, together: bool = True, refuses: str = "") -> None:
        self._records, self._together, self._refuses = records, together, refuses
        self.enabled: set[int] = set()
        self._sizes: list[int] = []

    def _code(self, name: str) -> int:
        return 15 if name == self._refuses else 0

    def cuptiActivityRegisterCallbacks(self, lend: Callable[..., None], back: Callable[..., None]) -> int:
        self._lend, self._back = lend, back
        return self._code("cuptiActivityRegisterCallbacks")

    def cuptiActivityEnable(self, kind: ctypes.c_int) -> int:
        self.enabled.add(kind.value)
        return self._code("cuptiActivityEnable")

    def cuptiActivityDisable(self, kind: ctypes.c_int) -> int:
        self.enabled.discard(kind.value)
        return 0

    def cuptiGetTimestamp(self, now: Any) -> int:
        now._obj.value = 42
        return 0

    def cuptiActivityFlushAll(self, flag: ctypes.c_uint32) -> int:
        assert flag.value == cupti.FORCED
        for records in [self._records] if self._together else [(each,) for each in self._records]:
            address, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
            self._lend(ctypes.pointer(address), ctypes.pointer(size), ctypes.pointer(most))
            content = b"".join(records)
            assert address.value is not None and address.value % 8 == 0
            assert size.value >= len(content)
            ctypes.memmove(address.value, content, len(content))
            self._sizes = [len(each) for each in records]
            self._back(None, 0, address.value, size.value, len(content))
        return self._code("cuptiActivityFlushAll")

    def cuptiActivityGetNextRecord(self, memory: Any, valid: ctypes.c_size_t, record: Any) -> int:
        start = ctypes.addressof(memory)
        at = record._obj.value or start
        if record._obj.value is not None:
            (kind,) = struct.unpack("<I", ctypes.string_at(at, 4))
            at += SIZES[kind]
        if at >= start + valid.value:
            return 12  # CUPTI_ERROR_MAX_LIMIT_REACHED: there are no more
        record._obj.value = at
        return 0


NAME = ctypes.create_string_buffer(b"_ZN2at6native4fillEv")
SIZES = {cupti.KERNEL: 120, cupti.MEMCPY: 56, cupti.MEMCPY_PEER: 72, cupti.MEMSET: 56, cupti.RUNTIME: 40, 9: 16}


def record_of(kind: int, **fields: tuple[str, int]) -> bytes:
    """A record with each field of this format at this place."""
    made = bytearray(b"\xee" * SIZES[kind])
    struct.pack_into("<I", made, 0, kind)
    for format_and_place, value in fields.values():
        format_, place = format_and_place[0], int(format_and_place[1:])
        struct.pack_into(f"<{format_}", made, place, value)
    return bytes(made)


RECORDS = (
    record_of(
        cupti.KERNEL, start=("Q16", 100), end=("Q24", 350), device=("I40", 1), stream=("I48", 7), launch=("I92", 5),
        name=("Q104", ctypes.addressof(NAME)),
    ),
    record_of(cupti.RUNTIME, start=("Q8", 90), launch=("I32", 5)),
    record_of(9),
    record_of(
        cupti.MEMCPY, way=("B4", 2), start=("Q16", 400), end=("Q24", 450), device=("I32", 0), stream=("I40", 13),
        launch=("I44", 6),
    ),
    record_of(
        cupti.MEMCPY_PEER, way=("B4", 10), start=("Q16", 460), end=("Q24", 470), device=("I32", 0), stream=("I40", 14),
        launch=("I60", 8),
    ),
    record_of(
        cupti.MEMSET, start=("Q16", 500), end=("Q24", 501), device=("I32", 0), stream=("I40", 7), launch=("I44", 9)
    ),
)  # fmt: skip


@pytest.mark.parametrize("together", [True, False], ids=["one buffer", "a buffer each"])
def test_records_are_read_and_those_of_other_kinds_are_passed_over(together: bool) -> None:
    library = Library(*RECORDS, together=together)
    reader = Cupti(library, bytes.decode)
    for _ in range(2):  # nothing of the first time is left in the second
        with reader.recorded() as recording:
            assert library.enabled == set(cupti.KINDS)
            assert reader.now_ns() == 42
        assert library.enabled == set()
        assert recording.activities == [
            Activity("_ZN2at6native4fillEv", 1, 7, 100, 350, 5),
            Activity("Memcpy DtoH", 0, 13, 400, 450, 6),
            Activity("Memcpy PtoP", 0, 14, 460, 470, 8),
            Activity("Memset", 0, 7, 500, 501, 9),
        ]
        assert recording.called_ns == {5: 90}


@pytest.mark.parametrize("function", ["cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiActivityFlushAll"])
def test_what_the_library_refuses_is_told_with_its_number(function: str) -> None:
    library = Library(*RECORDS, refuses=function)
    with pytest.raises(RuntimeError, match=f"^{function} answered with error 15$"), Cupti(library, repr).recorded():
        pass


def test_a_call_that_raises_leaves_nothing_enabled() -> None:
    library = Library(*RECORDS)
    with pytest.raises(ValueError, match="the rung's own"), Cupti(library, repr).recorded():
        raise ValueError("the rung's own")
    assert library.enabled == set()


def test_names_are_those_that_were_written() -> None:
    readable = cupti.readable_by(ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None))
    for _ in range(2):
        assert readable(b"_ZN2at6native4fillEv") == "at::native::fill()"
        assert readable(b"nvjet_tst_128x64") == "nvjet_tst_128x64"


def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti.Path, "read_text", lambda self: "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n")
    with pytest.raises(RuntimeError, match="this torch has loaded no CUPTI"):
        cupti.opened.__wrapped__()


@pytest.mark.gpu
@pytest.mark.skipif(not NVML.count, reason=f"no GPU here: {NVML.note}")
def test_it_says_what_the_profiler_of_torch_says() -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    x = torch.rand(1024, 1024, device="cuda")
    host = torch.empty(1024, 1024, pin_memory=True)
    graph = torch.cuda.CUDAGraph()
    other = torch.cuda.Stream()

    def work() -> None:
        torch.relu(x @ x)
        with torch.cuda.stream(other):
            host.copy_(x, non_blocking=True)
        x.clone()
        torch.zeros(1 << 20, device="cuda", dtype=torch.uint8)
        graph.replay()
        torch.cuda.synchronize()

    with torch.cuda.graph(graph):
        torch.tanh(x)
    work()
    started: list[int] = []
    for _ in range(2):
        with cupti.opened().recorded() as recording:
            before_ns = cupti.opened().now_ns()
            work()
            after_ns = cupti.opened().now_ns()
        assert all(before_ns <= recording.called_ns[each.launch] <= after_ns for each in recording.activities)
        assert all(before_ns < each.start_ns < each.end_ns < after_ns for each in recording.activities)
        started.append(len(recording.activities))
    assert started[0] == started[1] >= 5
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        work()
    theirs = [
        event
        for event in session.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and "Sync" not in event.name()
    ]

    def short(name: str) -> str:
        return " ".join(name.split()[:2]) if name.startswith("Memcpy") else name.replace(" (Device)", "")

    def shown(found: list[tuple[int, str, int, int]]) -> list[tuple[str, int, int]]:
        streams: dict[int, int] = {}
        return [
            (short(name), device, streams.setdefault(stream, len(streams))) for _, name, device, stream in sorted(found)
        ]

    ours = shown([(each.start_ns, each.name, each.device, each.stream) for each in recording.activities])
    assert sorted(ours) == sorted(
        shown([(e.start_ns(), e.name(), e.device_index(), e.device_resource_id()) for e in theirs])
    )
    assert sum(each.end_ns - each.start_ns for each in recording.activities) == pytest.approx(
        sum(event.duration_ns() for event in theirs), rel=0.3
    )
    with cupti.opened().recorded() as recording:  # also behind the profiler
        work()
    assert len(recording.activities) == started[0]
