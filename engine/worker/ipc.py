"""CUDA memory that several processes reach: the driver's IPC handles, through ctypes, past torch's allocator."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

HANDLE_BYTES = 64
PAGE_BYTES = 2 << 20  # of a GPU's large pages
OUT_OF_MEMORY = 2
_LAZY_PEER_ACCESS = 1


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class IpcError(Exception):
    """The driver refused. The message names the call and its status.

    Attributes:
        status: the driver's; 0 where there is none.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise IpcError(f"there is no driver ({error})") from None


def _checked(what: str, status: int) -> None:
    if status:
        raise IpcError(f"{what}: CUDA error {status}", status)


def allocate(nbytes: int) -> int:
    """Address of an allocation of its own, which can be shared whole. Raises IpcError.

    It is whole large pages: another process sees one that is not through small ones, in which an H200 reads 1 GiB at
    2.6 TB/s in place of 3.8.
    """
    address, whole = ctypes.c_uint64(), -(-nbytes // PAGE_BYTES) * PAGE_BYTES
    _checked("cuMemAlloc", _driver().cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(whole)))
    return address.value


def free(address: int) -> None:
    """Give an allocation back."""
    _driver().cuMemFree_v2(ctypes.c_uint64(address))


def share(address: int, handles: dict[int, bytes] | None = None) -> tuple[bytes, int]:
    """The handle of the allocation in which `address` lies, and its offset there.

    Args:
        address: of device memory.
        handles: those of allocations by address, to look one up and to add to: the driver takes long to make one.

    Raises:
        IpcError: the driver refuses.
    """
    driver = _driver()
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    wanted = ctypes.c_uint64(address)
    _checked("cuMemGetAddressRange", driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), wanted))
    handles = {} if handles is None else handles
    if base.value not in handles:
        handle = _Handle()
        _checked("cuIpcGetMemHandle", driver.cuIpcGetMemHandle(ctypes.byref(handle), base))
        handles[base.value] = ctypes.string_at(ctypes.byref(handle), HANDLE_BYTES)
    return handles[base.value], address - base.value


def open_shared(handle: bytes) -> tuple[int, int]:
    """Address and size in bytes of another process's allocation, from now on reachable here. Raises IpcError."""
    if len(handle) != HANDLE_BYTES:
        raise IpcError(f"a handle of {len(handle)} bytes; it has {HANDLE_BYTES}")
    driver = _driver()
    native = _Handle()
    ctypes.memmove(ctypes.byref(native), handle, HANDLE_BYTES)
    address = ctypes.c_uint64()
    driver.cuIpcOpenMemHandle_v2.argtypes = (ctypes.c_void_p, _Handle, ctypes.c_uint)
    _checked("cuIpcOpenMemHandle", driver.cuIpcOpenMemHandle_v2(ctypes.byref(address), native, _LAZY_PEER_ACCESS))
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _checked("cuMemGetAddressRange", driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), address))
    return address.value, size.value


def close_shared(address: int) -> None:
    """Reach it no longer."""
    _driver().cuIpcCloseMemHandle(ctypes.c_uint64(address))


class _Memory:
    """Device memory for torch, see `bytes_at`."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3, "strides": None,
        }  # fmt: skip


def bytes_at(address: int, nbytes: int) -> Any:
    """Tensor uint8 [nbytes] over device memory, which it does not own."""
    import torch

    return torch.as_tensor(_Memory(address, nbytes), device="cuda")
