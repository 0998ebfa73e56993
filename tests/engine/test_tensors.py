"""Tensors in shared memory: what is written is read, and whoever wrote it cannot pull it away from its reader."""

from __future__ import annotations

import os
from collections.abc import Iterator

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
