"""CUDA sources compile for the GPUs that we name; `kernels.cuda` passes what it was given. No GPU needed."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aisp.engine.worker.loading import import_module
from aisp.kernels import catalog, cuda
from aisp.kernels.catalog.model import Kind, Rung, Target

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "kernels").rglob("*.cu"))
ARCHITECTURES = ("sm_90a", "sm_100a")
BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
ENTRY = re.compile(rf"__global__\s+{BOUNDS}void\s+{BOUNDS}(\w+)\s*\(")

HAS_NVRTC = subprocess.run(
    [sys.executable, "-c", "from cuda.bindings import nvrtc; nvrtc.nvrtcVersion()"], capture_output=True
)
needs_nvrtc = pytest.mark.skipif(HAS_NVRTC.returncode != 0, reason="NVRTC is not installed: pip install 'aisp[cuda]'")


def write(folder: Path, text: str) -> Path:
    path = folder / "given.cu"
    path.write_text(text)
    return path


# -- compiling ---------------------------------------------------------------------------------------------


def test_there_are_sources_to_compile() -> None:
    assert [path.name for path in SOURCES].count("transpose.cu") == 1


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
@pytest.mark.slow
def test_every_entry_of_every_source_compiles_to_machine_code(path: Path, arch: str) -> None:
    entries = ENTRY.findall(path.read_text())
    assert entries, f"{path.name} has no __global__ function"
    cubin, _ = cuda.compile_cubin(cuda.load(path, entries[0]), arch)
    assert cubin[:4] == b"\x7fELF"
    assert [entry for entry in entries if entry.encode() not in cubin] == []


CUDA_TARGETS = [
    pytest.param(target, id=target.id)
    for target in catalog.load().targets
    if any(rung.kind is Kind.CUDA for rung in target.rungs)
]


@needs_nvrtc
@pytest.mark.parametrize("target", CUDA_TARGETS)
@pytest.mark.slow
def test_a_rung_names_an_entry_that_its_source_has(target: Target) -> None:
    """Every kernel that a rung loads compiles with the macros that it gives."""
    pytest.importorskip("torch")
    cubins: dict[tuple[Any, ...], bytes] = {}
    for rung in target.rungs:
        if rung.kind is not Kind.CUDA:
            continue
        kernels = kernels_of(target, rung)
        assert kernels, f"{rung.name}.py loads no kernel"
        for kernel in kernels:
            key = (kernel.name, kernel.macros, kernel.options)
            if key not in cubins or "<" in kernel.entry:
                cubins[key], _ = cuda.compile_cubin(kernel, "sm_90a")
            assert re.split(r"[<:]", kernel.entry)[0].encode() in cubins[key], f"{rung.name}: {kernel.entry}"


def kernels_of(target: Target, rung: Rung) -> list[cuda.Kernel]:
    """Every kernel that a rung's file and the files that it imports from its folder load."""
    path = list(sys.path)
    try:
        import_module(target.folder, rung.name)
        own = [module for module in list(sys.modules.values()) if _lies_in(module, target.folder)]
        return [value for module in own for value in vars(module).values() if isinstance(value, cuda.Kernel)]
    finally:
        sys.path[:] = path
        for name in [name for name, module in sys.modules.items() if _lies_in(module, target.folder)]:
            del sys.modules[name]


def _lies_in(module: Any, folder: Path) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(f"{folder}/")


INSTRUCTED = [
    pytest.param(target, rung, id=f"{target.id}/{rung.name}")
    for target in catalog.load().targets
    for rung in target.rungs
    if rung.instructions and rung.kind is Kind.CUDA
]


@needs_nvrtc
@pytest.mark.parametrize(("target", "rung"), INSTRUCTED)
@pytest.mark.slow
def test_a_rung_uses_the_instructions_that_it_names(target: Target, rung: Rung) -> None:
    pytest.importorskip("torch")
    kernels = kernels_of(target, rung)
    assert kernels, f"{rung.name}.py loads no kernel"
    ptx = "\n".join(cuda.compile_ptx(kernel, "sm_90a") for kernel in kernels)
    assert [name for name in rung.instructions if name not in ptx] == []


@needs_nvrtc
def test_a_broken_source_fails_with_the_compilers_words(tmp_path: Path) -> None:
    broken = write(tmp_path, "__global__ void f(float* y) {\n    y[0] = undefined_name;\n}\n")
    with pytest.raises(cuda.CudaCompileError) as caught:
        cuda.compile_cubin(cuda.load(broken, "f"), "sm_90a")
    assert "given.cu does not compile for sm_90a" in str(caught.value)
    assert 'given.cu(2): error: identifier "undefined_name" is undefined' in str(caught.value)


@needs_nvrtc
def test_a_flood_of_errors_is_cut_to_the_first_ones(tmp_path: Path) -> None:
    lines = "\n".join(f"    y[{i}] = missing_{i};" for i in range(90))
    with pytest.raises(cuda.CudaCompileError) as caught:
        cuda.compile_cubin(cuda.load(write(tmp_path, f"__global__ void f(float* y) {{\n{lines}\n}}\n"), "f"), "sm_90a")
    message = str(caught.value)
    assert '"missing_0"' in message and '"missing_89"' not in message
    assert len(message) < cuda.LOG_LIMIT_CHARS + 200
    assert re.search(r"\.\.\. \d+ more lines$", message)


@needs_nvrtc
@pytest.mark.parametrize(("entry", "arch"), [("g", "sm_90a"), ("f", "sm_12345")])
def test_an_entry_or_architecture_that_is_not_there_is_named(tmp_path: Path, entry: str, arch: str) -> None:
    path = write(tmp_path, "__global__ void f(float* y) { y[0] = 1; }")
    with pytest.raises(cuda.CudaCompileError, match=r'"g"' if entry == "g" else "gpu-architecture"):
        cuda.compile_cubin(cuda.load(path, entry), arch)


@needs_nvrtc
def test_a_template_is_instantiated_and_a_macro_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path, "template <int T> __global__ void fill(float* y) { y[T] = VALUE; }")
    cubin, lowered = cuda.compile_cubin(cuda.load(path, "fill<3>", macros={"VALUE": 2.5}), "sm_90a")
    assert "fill" in lowered and lowered.encode() in cubin
    with pytest.raises(cuda.CudaCompileError, match="VALUE"):
        cuda.compile_cubin(cuda.load(path, "fill<3>"), "sm_90a")


@needs_nvrtc
@pytest.mark.skipif(not cuda.header_folders(), reason="no CUDA toolkit, wheel or Triton brings cuda_fp16.h here")
def test_cuda_headers_are_found(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "#include <cuda_bf16.h>\n__global__ void f(__nv_bfloat16* y) { y[0] = __float2bfloat16(1.f); }",
    )
    assert cuda.compile_cubin(cuda.load(path, "f"), "sm_90a")[0][:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("capability", "arch"), [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a")]
)
def test_hopper_and_later_are_compiled_with_their_own_features(capability: tuple[int, int], arch: str) -> None:
    assert cuda.arch_of(*capability) == arch


def test_sources_macros_and_options_tell_kernels_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "__global__ void f() {}")
    plain = cuda.load(path, "f")
    assert cuda.load(path, "f").digest == plain.digest
    others = [
        cuda.load(path, "f", macros={"N": 1}),
        cuda.load(path, "f", options=("-lineinfo",)),
        cuda.load(write(tmp_path, "__global__ void f() { }"), "f"),
    ]
    assert len({plain.digest, *(other.digest for other in others)}) == 4


def test_loading_imports_neither_torch_nor_cuda() -> None:
    code = (
        "import sys, aisp.kernels.cuda as c; c.load(sys.argv[1], 'transpose_naive');"
        "print([m for m in ('torch', 'triton', 'cuda.core', 'cuda.bindings') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SOURCES[0])], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# -- launching, against a stand-in for cuda.core -----------------------------------------------------------


class FakeCore:
    """cuda.core as the launcher uses it: keeps what it was given."""

    def __init__(self) -> None:
        self.launches: list[SimpleNamespace] = []
        self.loaded: list[str] = []
        self.current: list[int] = []
        core = self

        class Device:
            def __init__(self, index: int) -> None:
                self.index = index

            def set_current(self) -> None:
                core.current.append(self.index)

        class ObjectCode:
            @staticmethod
            def from_cubin(code: bytes, *, name: str) -> Any:
                core.loaded.append(name)
                return SimpleNamespace(get_kernel=lambda entry: (code, entry))

        self.Device = Device
        self.ObjectCode = ObjectCode

    def LaunchConfig(self, **fields: Any) -> SimpleNamespace:
        return SimpleNamespace(**fields)

    def launch(self, stream: Any, config: Any, kernel: Any, *args: Any) -> None:
        self.launches.append(SimpleNamespace(stream=stream.__cuda_stream__(), config=config, kernel=kernel, args=args))


class FakeTensor:
    """A tensor on a GPU, as far as a launch looks at it."""

    is_cuda = True

    def __init__(self, address: int, index: int = 0) -> None:
        self.address = address
        self.device = SimpleNamespace(index=index)

    def data_ptr(self) -> int:
        return self.address


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> FakeCore:
    torch = pytest.importorskip("torch")
    fake = FakeCore()
    monkeypatch.setattr(cuda, "_core", lambda: fake)
    monkeypatch.setattr(cuda, "_loaded_kernels", {})
    monkeypatch.setattr(cuda, "_thread", SimpleNamespace())
    monkeypatch.setattr(cuda, "compile_cubin", lambda kernel, arch: (arch.encode(), kernel.entry))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    cuda._config.cache_clear()
    return fake


@pytest.fixture
def kernel(tmp_path: Path) -> cuda.Kernel:
    return cuda.load(write(tmp_path, "__global__ void f() {}"), "f")


def test_a_launch_passes_addresses_and_scalars_with_their_width(core: FakeCore, kernel: cuda.Kernel) -> None:
    numbers = (np.int32(7), np.float32(0.5), ctypes.c_int64(9))
    cuda.launch(kernel, (4, 2), 256, FakeTensor(0x1000), *numbers, shared_bytes=1024)
    (launch,) = core.launches
    assert launch.args == (0x1000, *numbers)
    assert [type(arg) for arg in launch.args[1:]] == [np.int32, np.float32, ctypes.c_int64]
    assert (launch.config.grid, launch.config.block, launch.config.shmem_size) == (
        (4, 2, 1),
        (256, 1, 1),
        1024,
    )
    assert launch.kernel == (b"sm_90a", "f")


def test_a_launch_goes_to_torchs_current_stream(
    core: FakeCore, kernel: cuda.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    cuda.launch(kernel, 1, 32)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0xBEEF))
    cuda.launch(kernel, 1, 32)
    # 1 is the driver's explicit name for the default stream, which torch calls 0.
    assert [launch.stream for launch in core.launches] == [(0, 1), (0, 0xBEEF)]


def test_a_kernel_is_compiled_once_in_a_process(core: FakeCore, kernel: cuda.Kernel) -> None:
    for _ in range(3):
        cuda.launch(kernel, 1, 32)
    assert len(core.launches) == 3
    assert core.loaded == ["given.cu"]
    assert core.current == [0]


def test_an_empty_grid_launches_nothing(core: FakeCore, kernel: cuda.Kernel) -> None:
    cuda.launch(kernel, (0, 4), 32, FakeTensor(0))
    assert core.launches == [] and core.loaded == []


@pytest.mark.parametrize("number", [3, 0.5, True])
def test_a_number_without_a_width_is_refused(core: FakeCore, kernel: cuda.Kernel, number: object) -> None:
    with pytest.raises(TypeError, match=r"argument 1 is .*no width; wrap it: np\.int32"):
        cuda.launch(kernel, 1, 32, FakeTensor(0), number)
    assert core.launches == []


def test_a_tensor_that_the_gpu_cannot_reach_is_refused(core: FakeCore, kernel: cuda.Kernel) -> None:
    import torch

    with pytest.raises(ValueError, match="argument 0 is a tensor on cpu"):
        cuda.launch(kernel, 1, 32, torch.zeros(4))
    with pytest.raises(ValueError, match="the launch goes to cuda:0"):
        cuda.launch(kernel, 1, 32, FakeTensor(0, index=1))
    with pytest.raises(TypeError, match="argument 0 is a str"):
        cuda.launch(kernel, 1, 32, "x")
    assert core.launches == []


def test_host_memory_that_is_pinned_is_read_where_it_lies(core: FakeCore, kernel: cuda.Kernel) -> None:
    pinned = SimpleNamespace(is_cuda=False, is_pinned=lambda: True, data_ptr=lambda: 0x2000)
    cuda.launch(kernel, 1, 32, FakeTensor(0x1000), pinned)
    assert core.launches[0].args == (0x1000, 0x2000)


def test_too_much_shared_memory_and_bad_sizes_are_refused(core: FakeCore, kernel: cuda.Kernel) -> None:
    with pytest.raises(ValueError, match="shared_bytes is 232449; 232448 is the most"):
        cuda.launch(kernel, 1, 32, shared_bytes=227 * 1024 + 1)
    with pytest.raises(ValueError, match="grid is"):
        cuda.launch(kernel, (1, 1, 1, 1), 32)
    with pytest.raises(ValueError, match="block is"):
        cuda.launch(kernel, 1, (-32,))
    assert core.launches == []


def test_a_kernel_is_allowed_more_shared_memory_once_for_each_larger_size(
    core: FakeCore, kernel: cuda.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[int] = []
    monkeypatch.setattr(cuda, "_opted_in_bytes", {})
    monkeypatch.setattr(cuda, "_opt_in", lambda kernel, index, shared_bytes: allowed.append(shared_bytes))
    for kib in (16, 48, 64, 64, 227, 100):
        cuda.launch(kernel, 1, 32, shared_bytes=kib * 1024)
    assert allowed == [64 * 1024, 227 * 1024]
    assert [launch.config.shmem_size >> 10 for launch in core.launches] == [16, 48, 64, 64, 227, 100]


def test_a_grid_counts_blocks_with_a_cluster_too(core: FakeCore, kernel: cuda.Kernel) -> None:
    cuda.launch(kernel, (16, 3), 128, cluster=8)
    (launch,) = core.launches
    assert (launch.config.grid, launch.config.cluster, launch.config.block) == ((2, 3, 1), (8, 1, 1), (128, 1, 1))
    with pytest.raises(ValueError, match=r"a grid of \(12, 1, 1\) is no whole number of clusters of \(8, 1, 1\)"):
        cuda.launch(kernel, 12, 128, cluster=8)
    assert len(core.launches) == 1


@pytest.mark.parametrize(
    ("shape", "box", "swizzle_bytes", "says"),
    [
        ((4, 4, 4), (4, 4), 0, "contiguous rows"),
        ((64, 20), (8, 8), 0, "multiples of 16 bytes, not 40"),
        ((64, 64), (8, 128), 128, "256 bytes does not go with a swizzle of 128"),
        ((64, 64), (8, 64), 96, "does not go with a swizzle of 96"),
        ((64, 64), (300, 64), 0, "up to 256 each"),
        ((64, 64), (8, 4), 0, "multiple of 16 bytes"),
    ],
)
def test_a_tensor_map_that_the_copy_engine_cannot_follow_is_refused(
    shape: tuple[int, ...], box: tuple[int, int], swizzle_bytes: int, says: str
) -> None:
    import torch

    with pytest.raises(ValueError, match=says):
        cuda.tensor_map(torch.zeros(shape, dtype=torch.float16), box, swizzle_bytes)


def test_the_installed_cuda_core_has_what_a_launch_uses() -> None:
    core = pytest.importorskip("cuda.core")
    assert all(hasattr(core, name) for name in ("Device", "LaunchConfig", "ObjectCode", "launch"))
    assert callable(core.ObjectCode.from_cubin)
    swizzles = type(core.TensorMapDescriptorOptions((1, 1)).swizzle)
    assert {"NONE", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B"} <= set(swizzles.__members__)


@pytest.mark.parametrize(("count", "size", "blocks"), [(0, 32, 0), (1, 32, 1), (32, 32, 1), (33, 32, 2)])
def test_ceil_div_covers_every_element(count: int, size: int, blocks: int) -> None:
    assert cuda.ceil_div(count, size) == blocks
