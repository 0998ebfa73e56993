"""Compile a `.cu` file with NVRTC, load it with cuda.core, launch it on PyTorch's current stream.

    from aisp.kernels.cuda import ceil_div, launch, load

    tile = load(Path(__file__).with_name("transpose.cu"), "transpose_tiled", macros={"PITCH": 33})
    launch(tile, (ceil_div(N, 32), ceil_div(M, 32)), (32, 8), y, x, np.int32(M), np.int32(N))

`load` is free: it reads the file and nothing more, so a rung may call it when it is imported, on any machine.
The first `launch` on a GPU compiles (under a second, no nvcc); a process compiles one source for one
architecture once. Compiling alone, `compile_cubin`, needs no GPU and no driver.

Arguments carry their width: a tensor passes as its address, a number as a NumPy or ctypes scalar. A bare
Python number is refused, because a kernel that reads 4 bytes of an 8-byte argument is a silent wrong answer.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import importlib.util
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

LOG_LIMIT_CHARS = 4000
# A kernel gets more dynamic shared memory than this only after an opt-in; more than the most, never (sm_90, sm_100).
SHARED_WITHOUT_OPT_IN_BYTES = 48 * 1024
SHARED_LIMIT_BYTES = 227 * 1024
SWIZZLES_BYTES = (0, 32, 64, 128)

Dim = int | tuple[int, ...]


class CudaCompileError(RuntimeError):
    """A source did not compile. The message carries the compiler's log, cut to its first errors."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry point of one source. Compiled for a GPU when it is first launched there."""

    name: str  # the file's name, as the compiler's messages show it
    source: str
    entry: str  # a function's name, or a template's instance such as "tile<32>"
    macros: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    digest: str = field(default="", compare=False)  # of all of the above


def ceil_div(count: int, size: int) -> int:
    """How many blocks of `size` cover `count` elements."""
    return -(-count // size)


def load(
    path: str | Path, entry: str, *, macros: Mapping[str, object] | None = None, options: Sequence[str] = ()
) -> Kernel:
    """The kernel `entry` of the file `path`, not compiled yet.

    Args:
        path: a CUDA C++ source.
        entry: the `__global__` function, or a name expression for a template, e.g. "tile<32>".
        macros: names to define before the first line; a value is written with str().
        options: further NVRTC options, e.g. ("--use_fast_math",).

    Raises:
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    source = path.read_text(encoding="utf-8")
    pairs = tuple(sorted((name, str(value)) for name, value in (macros or {}).items()))
    digest = hashlib.sha256(repr((source, entry, pairs, tuple(options))).encode()).hexdigest()
    return Kernel(path.name, source, entry, pairs, tuple(options), digest)


def compile_cubin(kernel: Kernel, arch: str) -> tuple[bytes, str]:
    """Machine code for `arch` (e.g. "sm_90a"), and the entry's name in it. Needs NVRTC, no GPU and no driver.

    Raises:
        CudaCompileError: with NVRTC's log, or saying how to install NVRTC.
    """
    return _compile(kernel, arch, "CUBIN")


def compile_ptx(kernel: Kernel, arch: str) -> str:
    """The PTX for `arch`, which names the instructions; raises as `compile_cubin` does."""
    return _compile(kernel, arch, "PTX")[0].rstrip(b"\0").decode()


def _compile(kernel: Kernel, arch: str, form: str) -> tuple[bytes, str]:
    try:
        from cuda.bindings import nvrtc  # loads the compiler's library: only a compile pays for it
    except ImportError as error:
        raise CudaCompileError(f"{kernel.name}: NVRTC is missing ({error}); pip install 'aisp[cuda]'") from error

    def checked(result: tuple[Any, ...]) -> Any:
        if result[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CudaCompileError(f"{kernel.name}: {result[0].name} from NVRTC for {kernel.entry!r} on {arch}")
        return result[1] if len(result) == 2 else result[1:]

    try:
        created = nvrtc.nvrtcCreateProgram(kernel.source.encode(), kernel.name.encode(), 0, [], [])
    except RuntimeError as error:  # the bindings are there, the library is not
        raise CudaCompileError(f"{kernel.name}: NVRTC is missing ({error}); pip install 'aisp[cuda]'") from error
    program = checked(created)
    try:
        # The name expression keeps a template's instance alive and tells its mangled name.
        checked(nvrtc.nvrtcAddNameExpression(program, kernel.entry.encode()))
        flags = [f"--gpu-architecture={arch}", "--std=c++17"]
        flags += [f"--define-macro={name}={value}" for name, value in kernel.macros]
        flags += [f"--include-path={folder}" for folder in header_folders()]
        flags += kernel.options
        encoded = [flag.encode() for flag in flags]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
            checked(nvrtc.nvrtcGetProgramLog(program, log))
            text = log.rstrip(b"\0").decode("utf-8", "replace").strip()
            raise CudaCompileError(f"{kernel.name} does not compile for {arch}:\n{_cut(text) or status.name}")
        code = b" " * checked(getattr(nvrtc, f"nvrtcGet{form}Size")(program))
        checked(getattr(nvrtc, f"nvrtcGet{form}")(program, code))
        lowered = checked(nvrtc.nvrtcGetLoweredName(program, kernel.entry.encode()))
        return code, lowered.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def launch(
    kernel: Kernel, grid: Dim, block: Dim, *args: Any, shared_bytes: int = 0, cluster: Dim | None = None
) -> None:
    """Start `kernel` on PyTorch's current stream and return at once.

    Args:
        kernel: from `load`.
        grid: blocks in x, y, z; a grid with a zero launches nothing, which is right for an empty input.
        block: threads in x, y, z.
        args: in the kernel's order: CUDA and pinned tensors (passed as addresses), NumPy scalars, ctypes scalars and
            tensor maps.
        shared_bytes: dynamic shared memory of a block, up to 227 KiB.
        cluster: blocks of a thread-block cluster in x, y, z, each a divisor of the grid's; eight in all are portable.

    Raises:
        CudaCompileError: the first launch compiles.
        TypeError: an argument without a width, or of an unknown type.
        ValueError: a tensor on another device, too much shared memory, or a cluster that does not divide the grid.
    """
    import torch  # a lesson has it already; this module must import on a machine that lists lessons only

    grid, block = _dims("grid", grid), _dims("block", block)
    clusters = None if cluster is None else _dims("cluster", cluster)
    if clusters is not None and any(size == 0 or blocks % size for blocks, size in zip(grid, clusters, strict=True)):
        raise ValueError(f"a grid of {grid} is no whole number of clusters of {clusters}")
    if shared_bytes > SHARED_LIMIT_BYTES:
        raise ValueError(f"shared_bytes is {shared_bytes}; {SHARED_LIMIT_BYTES} is the most that a launch gets here")
    packed = [_argument(position, arg) for position, arg in enumerate(args)]
    index = torch.cuda.current_device()
    for position, arg in enumerate(args):
        if getattr(arg, "is_cuda", False) and arg.device.index != index:
            raise ValueError(f"argument {position} is on {arg.device}; the launch goes to cuda:{index}")
    if 0 in grid:
        return
    core = _core()
    # The driver's current context belongs to a thread, and PyTorch sets it lazily.
    if getattr(_thread, "device", None) != index:
        core.Device(index).set_current()
        _thread.device = index
    config = _config(grid, block, shared_bytes, clusters)
    stream = _Stream(torch.cuda.current_stream().cuda_stream)
    core.launch(stream, config, _loaded(kernel, index, shared_bytes), *packed)


def tensor_map(tensor: Any, box: tuple[int, int], swizzle_bytes: int = 0) -> Any:
    """A TMA descriptor, to be given to `launch`: how the copy engine cuts tiles out of a matrix.

    The kernel takes it by value, as `const __grid_constant__ TensorMap map` with `struct alignas(64) TensorMap { char
    bytes[128]; };`, and passes its address to `cp.async.bulk.tensor.2d`. Coordinates are (column, row). What lies
    beyond the matrix is read as zero and never written.

    Args:
        tensor: [rows, columns] on a GPU of sm_90 or later, elements of 1, 2, 4 or 8 bytes, rows contiguous and
            16-byte aligned.
        box: rows and columns of a tile, at most 256 each; with a swizzle its row has at most `swizzle_bytes`.
        swizzle_bytes: 0, 32, 64 or 128: chunks of 16 bytes within so many are exchanged by the row's number, which
            is how the tensor cores want their operands and how bank conflicts are kept off.

    Raises:
        ValueError: what the copy engine cannot do.
    """
    if tensor.dim() != 2 or tensor.stride(1) != 1:
        raise ValueError(f"a tensor map is of a matrix with contiguous rows, not of {list(tensor.shape)}")
    width = tensor.element_size()
    if tensor.data_ptr() % 16 or tensor.stride(0) * width % 16:
        raise ValueError(f"the copy engine wants rows at multiples of 16 bytes, not {tensor.stride(0) * width} apart")
    if swizzle_bytes not in SWIZZLES_BYTES or (swizzle_bytes and box[1] * width > swizzle_bytes):
        raise ValueError(f"a box row of {box[1] * width} bytes does not go with a swizzle of {swizzle_bytes}")
    if not all(1 <= size <= 256 for size in box) or box[1] * width % 16:
        raise ValueError(f"a box of {box} elements; up to 256 each, and rows of a multiple of 16 bytes, would work")
    import torch

    whole = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}[width]  # it copies bits: any type does
    core, utils = _core(), importlib.import_module("cuda.core.utils")
    swizzles = type(core.TensorMapDescriptorOptions(box).swizzle)  # the enumeration has no public name of its own
    swizzle = getattr(swizzles, f"SWIZZLE_{swizzle_bytes}B" if swizzle_bytes else "NONE")
    view = utils.StridedMemoryView.from_any_interface(tensor.detach().view(whole), stream_ptr=-1)
    return view.as_tensor_map(box, swizzle=swizzle)


def arch_of(major: int, minor: int) -> str:
    """The architecture to compile for: with the `a` features (wgmma, TMA) where there are any."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


@functools.cache
def header_folders() -> tuple[str, ...]:
    """Where `#include <cuda_fp16.h>` is found: a toolkit, NVIDIA's wheels, Triton's copy; may be empty."""
    roots = [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for package, parts in (("nvidia", ("cu13", "include")), ("nvidia", ("cuda_runtime", "include"))):
        roots += [place.joinpath(*parts) for place in _package_folders(package)]
    roots.append(Path("/usr/local/cuda/include"))
    roots += [place / "backends" / "nvidia" / "include" for place in _package_folders("triton")]
    for root in roots:
        if (root / "cuda_fp16.h").is_file():
            # CUDA 13 keeps the C++ standard headers (cuda/std) one folder deeper.
            return tuple(str(folder) for folder in (root, root / "cccl") if folder.is_dir())
    return ()


def _package_folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


class _Stream:
    """PyTorch's stream in the form that cuda.core takes from other libraries."""

    # Not called `handle`: by an attribute of that name some versions know their own stream objects.
    __slots__ = ("address",)

    def __init__(self, handle: int) -> None:
        # 0 means the legacy default stream; 1 is its explicit name, and no version takes it for "none given".
        self.address = handle or 1

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


_thread = threading.local()


@functools.cache
def _core() -> Any:
    try:
        import cuda.core as core
    except ImportError as error:
        raise CudaCompileError(f"cuda.core is missing ({error}); pip install 'aisp[cuda]'") from error
    return core


_loaded_kernels: dict[tuple[str, int], Any] = {}
_opted_in_bytes: dict[tuple[str, int], int] = {}


def _loaded(kernel: Kernel, index: int, shared_bytes: int = 0) -> Any:
    """The kernel on GPU `index`: compiled and loaded once in a process, and allowed so much dynamic shared memory."""
    key = (kernel.digest, index)
    found = _loaded_kernels.get(key)
    if found is None:
        import torch

        cubin, lowered = compile_cubin(kernel, arch_of(*torch.cuda.get_device_capability(index)))
        found = _core().ObjectCode.from_cubin(cubin, name=kernel.name).get_kernel(lowered)
        _loaded_kernels[key] = found
    if shared_bytes > _opted_in_bytes.get(key, SHARED_WITHOUT_OPT_IN_BYTES):
        _opt_in(found, index, shared_bytes)
        _opted_in_bytes[key] = shared_bytes
    return found


def _opt_in(kernel: Any, index: int, shared_bytes: int) -> None:
    """Let a kernel's blocks have so much dynamic shared memory on GPU `index`.

    Raises:
        ValueError: this GPU has less.
    """
    from cuda.bindings import driver

    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    status, device = driver.cuDeviceGet(index)
    if status == driver.CUresult.CUDA_SUCCESS:
        (status,) = driver.cuKernelSetAttribute(most, shared_bytes, kernel.handle, device)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ValueError(f"a block of this kernel cannot have {shared_bytes} bytes of shared memory: {status.name}")


@functools.lru_cache(maxsize=256)
def _config(
    grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int, cluster: tuple[int, ...] | None = None
) -> Any:
    if cluster is None:
        return _core().LaunchConfig(grid=grid, block=block, shmem_size=shared_bytes)
    clusters = tuple(blocks // size for blocks, size in zip(grid, cluster, strict=True))  # cuda.core counts these
    return _core().LaunchConfig(grid=clusters, cluster=cluster, block=block, shmem_size=shared_bytes)


def _dims(what: str, dims: Dim) -> tuple[int, ...]:
    full = (dims,) if isinstance(dims, int) else tuple(dims)
    if not 1 <= len(full) <= 3 or any(size < 0 for size in full):
        raise ValueError(f"{what} is {dims!r}; give one to three sizes, none of them negative")
    return full + (1,) * (3 - len(full))


def _argument(position: int, arg: Any) -> Any:
    """`arg` as cuda.core takes it: an address, a scalar of a definite width, or a descriptor."""
    if isinstance(arg, np.generic | ctypes._SimpleCData) or type(arg).__name__ == "TensorMapDescriptor":
        return arg
    if isinstance(arg, int | float | complex):
        raise TypeError(f"argument {position} is {arg!r}, which has no width; wrap it: np.int32(n), np.float32(x)")
    if not hasattr(arg, "data_ptr"):
        raise TypeError(
            f"argument {position} is a {type(arg).__name__}; give a CUDA tensor, a tensor map, a NumPy or ctypes scalar"
        )
    if not arg.is_cuda and not arg.is_pinned():
        raise ValueError(
            f"argument {position} is a tensor on {arg.device}; a kernel needs tensors on the GPU, or in pinned memory"
        )
    return int(arg.data_ptr())


def _cut(log: str) -> str:
    """The log's first errors: what follows is mostly their echo."""
    if len(log) <= LOG_LIMIT_CHARS:
        return log
    kept = log[:LOG_LIMIT_CHARS].rpartition("\n")[0] or log[:LOG_LIMIT_CHARS]
    return f"{kept}\n... {log[len(kept) :].count(chr(10))} more lines"
