"""Tensors in shared memory: what is written is read, and whoever wrote it cannot pull it away from its reader."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from engine.protocol.jobs import Blob, Slot
from engine.worker import tensors


@pytest.fixture
def path() -> Iterator[str]:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    yield f"/proc/{os.getpid()}/fd/{fd}"
    os.close(fd)


def test_every_shape_and_dtype_comes_back_bit_for_bit(path: str) -> None:
    sent = {
        "matrix": torch.randn(3, 5).t(),
        "half": torch.randn(7).to(torch.bfloat16),
        "fp8": torch.randn(9).to(torch.float8_e4m3fn),
        "empty": torch.empty(0, 4),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "flags": torch.tensor([True, False, True]),
    }
    blob = tensors.write(path, sent)
    for name, slot, got in zip(sent, blob.slots, tensors.read(blob), strict=True):
        assert slot.name == name
        assert got.dtype == sent[name].dtype
        assert got.shape == sent[name].shape
        assert got.reshape(-1).view(torch.uint8).tolist() == sent[name].reshape(-1).view(torch.uint8).tolist()


def test_a_file_that_is_being_read_cannot_be_cut_off(path: str) -> None:
    blob = tensors.write(path, {"x": torch.arange(4096.0)})
    (view,) = tensors.read(blob)
    with open(path, "r+b", buffering=0) as file, pytest.raises(PermissionError):  # noqa: PTH123  /proc/.../fd path
        file.truncate(16)
    assert view.sum() == 4096 * 4095 / 2


def test_a_smaller_result_fits_into_a_file_that_was_larger(path: str) -> None:
    tensors.read(tensors.write(path, {"x": torch.ones(100_000)}))
    (view,) = tensors.read(tensors.write(path, {"x": torch.full((3,), 7.0)}))
    assert view.tolist() == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    "slot",
    [
        Slot(name="x", dtype="float32", shape=[1 << 20], offset=0, nbytes=4 << 20),
        Slot(name="x", dtype="float32", shape=[4], offset=-16, nbytes=16),
        Slot(name="x", dtype="float32", shape=[5], offset=0, nbytes=16),
    ],
)
def test_a_slot_that_does_not_fit_its_file_is_refused(path: str, slot: Slot) -> None:
    tensors.write(path, {"x": torch.ones(4)})
    with pytest.raises(ValueError, match="does not fit"):
        tensors.read(Blob(path=path, slots=[slot]))
