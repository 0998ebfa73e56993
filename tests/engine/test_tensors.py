"""Tensors in shared memory: what is written is read, and whoever wrote it cannot pull it away from its reader."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator

import pytest
import torch

from aisp.engine.protocol.jobs import Blob, Slot
from aisp.engine.worker import tensors


@pytest.fixture
def name() -> Iterator[str]:
    tensors.hold({"one": shared_file()})
    yield "one"
    tensors.hold({})


def shared_file() -> int:
    return os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def test_every_shape_and_dtype_comes_back_bit_for_bit(name: str) -> None:
    sent = {
        "matrix": torch.randn(3, 5).t(),
        "half": torch.randn(7).to(torch.bfloat16),
        "fp8": torch.randn(9).to(torch.float8_e4m3fn),
        "empty": torch.empty(0, 4),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "flags": torch.tensor([True, False, True]),
    }
    blob = tensors.write(name, sent)
    for (key, value), slot, got in zip(sent.items(), blob.slots, tensors.read(blob), strict=True):
        assert slot.name == key
        assert got.dtype == value.dtype
        assert got.shape == value.shape
        assert got.reshape(-1).view(torch.uint8).tolist() == value.reshape(-1).view(torch.uint8).tolist()


def test_a_file_that_is_being_read_cannot_be_cut_off(name: str) -> None:
    blob = tensors.write(name, {"x": torch.arange(4096.0)})
    (view,) = tensors.read(blob)
    with pytest.raises(PermissionError):
        os.ftruncate(tensors.descriptor(name), 16)
    assert view.sum() == 4096 * 4095 / 2


def test_a_smaller_result_fits_into_a_file_that_was_larger(name: str) -> None:
    tensors.read(tensors.write(name, {"x": torch.ones(100_000)}))
    (view,) = tensors.read(tensors.write(name, {"x": torch.full((3,), 7.0)}))
    assert view.tolist() == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    "slot",
    [
        Slot(name="x", dtype="float32", shape=[1 << 20], offset=0, nbytes=4 << 20),
        Slot(name="x", dtype="float32", shape=[4], offset=-16, nbytes=16),
        Slot(name="x", dtype="float32", shape=[5], offset=0, nbytes=16),
    ],
)
def test_a_slot_that_does_not_fit_its_file_is_refused(name: str, slot: Slot) -> None:
    tensors.write(name, {"x": torch.ones(4)})
    with pytest.raises(ValueError, match="does not fit"):
        tensors.read(Blob(name=name, slots=[slot]))


def test_a_file_that_is_used_again_is_not_mapped_again(name: str) -> None:
    (first,) = tensors.read(tensors.write(name, {"x": torch.ones(5000)}))
    (second,) = tensors.read(tensors.write(name, {"x": torch.full((5000,), 2.0)}))
    assert first.data_ptr() == second.data_ptr()
    (grown,) = tensors.read(tensors.write(name, {"x": torch.full((50_000,), 3.0)}))
    assert grown.data_ptr() != first.data_ptr()
    assert (float(first[0]), float(grown[-1])) == (3.0, 3.0), "the old mapping sees the same file"


def test_the_files_of_two_processes_are_never_taken_for_one_another() -> None:
    for value in range(tensors.KEPT + 3):  # the name and the descriptor's number are the same each time
        tensors.hold({"one": shared_file()})
        (view,) = tensors.read(tensors.write("one", {"x": torch.full((10,), float(value))}))
        assert view.tolist() == [float(value)] * 10
    assert len(tensors._kept) <= tensors.KEPT


class Driver:
    """In place of the CUDA runtime: which addresses are page-locked."""

    class cudaError:
        success = 0

    def __init__(self, *, refuses: bool = False) -> None:
        self.locked: dict[int, int] = {}
        self.asked = 0
        self._refuses = refuses

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        self.asked += 1
        if self._refuses:
            return 2
        self.locked[address] = size
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        del self.locked[address]
        return 0


@pytest.mark.parametrize("refuses", [False, True])
def test_a_large_file_is_page_locked_from_its_second_use_until_it_is_forgotten(
    name: str, refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, large = Driver(refuses=refuses), torch.zeros(tensors.LEAST_LOCKED_BYTES // 4)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: driver)
    monkeypatch.setattr(tensors, "_kept", type(tensors._kept)())
    blob = tensors.write(name, {"x": large})
    assert driver.asked == 0
    for _ in range(3):
        (view,) = tensors.read(blob)
    assert driver.asked == 1, "who was refused does not ask again"
    assert driver.locked == ({} if refuses else {view.data_ptr(): len(next(iter(tensors._kept.values())).mapping)})
    tensors.write(name, {"x": torch.zeros(large.numel() * 2)})
    assert driver.locked == {}, "the file grew: its old mapping is given free"
    tensors.hold({"small": shared_file()})
    for _ in range(3):
        tensors.write("small", {"x": torch.zeros(4)})
    assert driver.asked == 1


def test_a_file_that_did_not_come_with_the_job_cannot_be_used_nor_one_of_the_job_before(name: str) -> None:
    blob = tensors.write(name, {"x": torch.ones(4)})
    fd = tensors.descriptor(name)
    tensors.hold({})
    with pytest.raises(ValueError, match="did not come with this job"):
        tensors.read(blob)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


# -- inputs ------------------------------------------------------------------------------------------------------------

INPUTS = {
    "x": torch.arange(5000.0).reshape(50, 100).t(),
    "flags": torch.tensor([True, False, True]),
    "half": torch.linspace(0, 1, 7).to(torch.bfloat16),
    "empty": torch.empty(0, 4),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
}


@pytest.mark.parametrize("staged", [tensors.STAGED_BYTES, 100])
def test_sealed_inputs_are_read_bit_for_bit(name: str, staged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "STAGED_BYTES", staged)
    blob = tensors.write_sealed(name, INPUTS)
    for value, got in zip(INPUTS.values(), tensors.read(blob), strict=True):
        assert (got.dtype, got.shape) == (value.dtype, value.shape)
        assert torch.equal(got, value)


def through_the_descriptor(fd: int) -> None:
    os.pwrite(fd, b"changed", 0)


def through_its_name(fd: int) -> None:
    with open(f"/proc/self/fd/{fd}", "r+b", buffering=0) as file:  # noqa: PTH123
        file.write(b"changed")


def through_a_mapping(fd: int) -> None:
    mmap.mmap(fd, 4096)[:7] = b"changed"


def through_torch(fd: int) -> None:
    torch.UntypedStorage.from_file(f"/proc/self/fd/{fd}", shared=True, nbytes=4096).fill_(0x2A)


def by_its_end(fd: int) -> None:
    os.ftruncate(fd, 0)


def by_its_growth(fd: int) -> None:
    os.ftruncate(fd, 1 << 20)


def by_a_hole(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    keep_size_and_punch = 3
    if libc.fallocate(fd, keep_size_and_punch, ctypes.c_long(0), ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@pytest.mark.parametrize(
    "way",
    [
        through_the_descriptor,
        through_its_name,
        through_a_mapping,
        through_torch,
        by_its_end,
        by_its_growth,
        by_a_hole,
    ],
)
def test_no_process_can_change_inputs_once_they_are_written(name: str, way: Callable[[int], None]) -> None:
    blob = tensors.write_sealed(name, INPUTS)
    with pytest.raises((OSError, RuntimeError), match="not permitted"):
        way(tensors.descriptor(name))
    with pytest.raises(PermissionError):
        tensors.write_sealed(name, {"x": torch.zeros(3)})
    assert torch.equal(tensors.read(blob)[0], INPUTS["x"])


def test_who_writes_into_what_he_read_changes_it_for_himself_alone(name: str) -> None:
    blob = tensors.write_sealed(name, INPUTS)
    tensors.read(blob)[0].zero_()
    assert torch.equal(tensors.read(blob)[0], INPUTS["x"])


def test_inputs_that_somebody_has_mapped_are_not_handed_out(name: str) -> None:
    os.ftruncate(tensors.descriptor(name), 4096)
    with mmap.mmap(tensors.descriptor(name), 4096), pytest.raises(tensors.UnsealedError, match="another process"):
        tensors.write_sealed(name, {"x": torch.ones(4)})
