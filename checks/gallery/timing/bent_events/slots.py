"""Slots of global offset tables: where a loaded library keeps the addresses of the functions it calls in others."""

import ctypes
import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

# From elf.h.
PT_DYNAMIC = 2
DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_JMPREL = 2, 5, 6, 7, 8, 23
SYMBOL_BYTES = 24
RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
PROT_READ, PROT_WRITE = 1, 2

libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    """Elf64_Phdr."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("offset", "vaddr", "paddr", "filesz", "memsz", "align")),
    )


class _Loaded(ctypes.Structure):
    """The start of dl_phdr_info."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_Header)),
        ("count", ctypes.c_uint16),
    )


_VISITOR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)


@dataclass(frozen=True)
class Slot:
    """One function's address as one library keeps it."""

    library: str
    symbol: str
    address: int

    def read(self) -> int:
        """Where it leads."""
        return ctypes.c_uint64.from_address(self.address).value

    def write(self, target: int) -> None:
        """Make it lead elsewhere. The loader has made its page read-only, where the library asked for that."""
        page = self.address & -mmap.PAGESIZE
        if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), PROT_READ | PROT_WRITE):
            raise OSError(ctypes.get_errno(), f"mprotect of the page of {self.symbol} in {self.library}")
        ctypes.c_uint64.from_address(self.address).value = target


def slots(symbol: str, within: str) -> list[Slot]:
    """Slots of functions whose names begin with `symbol`, of libraries that have `within` in their path."""
    found: list[Slot] = []

    @_VISITOR
    def visit(loaded, size, nothing):  # type: ignore[no-untyped-def]
        name = (loaded.contents.name or b"").decode()
        if within in name:
            found.extend(_of_library(loaded.contents, name, symbol))
        return 0

    libc.dl_iterate_phdr(visit, None)
    return found


def _of_library(loaded: _Loaded, library: str, symbol: str) -> Iterator[Slot]:
    base = loaded.base
    tags: dict[int, int] = {}
    for header in loaded.headers[: loaded.count]:
        if header.type == PT_DYNAMIC:
            entries = (ctypes.c_uint64 * (header.memsz // 8)).from_address(base + header.vaddr)
            tags = dict(zip(entries[::2], entries[1::2], strict=True))

    def at(tag: int) -> int:
        # The loader has already added the base, except where the section is read-only.
        return tags[tag] if tags[tag] >= base else tags[tag] + base

    for table, size in ((DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)):
        if not tags.get(table) or not tags.get(size):
            continue
        relocations = np.frombuffer((ctypes.c_char * tags[size]).from_address(at(table)), RELOCATION)
        numbers = relocations["info"] >> np.uint64(32)
        for number in np.unique(numbers[numbers > 0]):
            name_at = ctypes.c_uint32.from_address(at(DT_SYMTAB) + SYMBOL_BYTES * int(number)).value
            name = ctypes.string_at(at(DT_STRTAB) + name_at).decode()
            if name.startswith(symbol):
                for offset in relocations["offset"][numbers == number]:
                    yield Slot(library, name, base + int(offset))
