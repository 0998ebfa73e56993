"""Measuring what a GPU can do at most: one ceiling a job, in a fresh process with no lesson loaded.

Every ceiling is the best median over several ways of asking for it (kernels of our own, and PyTorch's), each of at
least 20 repetitions behind a stream that is held, so that no host time is in them. Bandwidth is measured on two sets of
buffers in turns. The L2 then holds at the start, clean or dirty, what the same work has left there: everything is read
from memory, and each written line costs the writing back of another. Matrix products run on random data: zeros switch
fewer transistors and let the clock rise. Without tensor cores chains of multiply-adds in registers are tried as well.

Work of several GPUs is timed on the first one's stream: the others' streams begin when it begins, and it goes on when
all of them have ended. What that waiting takes without any work is taken off.

Clocks, power limits and every other setting of the GPU are left as they are.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from aisp.engine.protocol import jobs, reports
from aisp.engine.worker.loading import NotHereError, summary
from aisp.store.results.speed_of_light import (
    ALL_REDUCE,
    CEILINGS,
    DENSE,
    L2_READ,
    LAUNCH_EAGER,
    LAUNCH_EMPTY,
    LAUNCH_GRAPH_NODE,
    PEER,
    PEER_COPY,
    PEER_COPY_BOTH,
    PEER_SM_COPY_BOTH,
)

KB, MB = 1 << 10, 1 << 20
REPETITIONS = 20
WARM_UPS = 3
FOOTPRINTS_OF_L2 = (4, 8, 16)
LARGE_BYTES = 4 << 30
LINK_BYTES = 256 * MB
ALL_REDUCE_BYTES = (8 * KB, 128 * KB, MB, 16 * MB, 256 * MB)  # of each GPU's vector
EAGER_LAUNCHES = 500
SHORT_CHAIN, LONG_CHAIN = 64, 1088  # nodes; the difference leaves out what launching a graph costs
PRODUCT_SIZES = (8192, 4096, 2048, 1024)
PRODUCT_PATIENCE_S = 0.2  # a product that takes longer is made smaller: fp64 on a card for games
THREADS = 256
OWN = "own kernel, "  # how the names of ways begin that are not PyTorch's

# Tiles of THREADS * UNROLL vectors of 16 bytes go round the blocks of the grid; a grid of as many blocks as tiles
# makes one pass. The loads of a tile are independent of one another, so that many are under way at once.
SOURCE = r"""
using Vec = uint4;

__device__ __forceinline__ Vec load(const Vec* p, bool streaming) { return streaming ? __ldcs(p) : *p; }
__device__ __forceinline__ void store(Vec* p, Vec v, bool streaming) { if (streaming) __stcs(p, v); else *p = v; }

extern "C" __global__ void empty() {}

template <int UNROLL, bool STREAMING>
__global__ void read(const Vec* __restrict__ x, long long tiles, unsigned* out) {
    unsigned seen = 0;
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Vec* from = x + tile * (blockDim.x * UNROLL) + threadIdx.x;
        Vec v[UNROLL];
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) v[i] = load(from + i * blockDim.x, STREAMING);
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) seen |= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    if (seen == 0x9e3779b9u) out[0] = seen;  // never true of floats that were drawn; the compiler cannot know
}

template <int UNROLL, bool STREAMING>
__global__ void write(Vec* __restrict__ y, long long tiles, unsigned value) {
    Vec v = make_uint4(value, value + 1, value + 2, value + 3);
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        Vec* to = y + tile * (blockDim.x * UNROLL) + threadIdx.x;
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) store(to + i * blockDim.x, v, STREAMING);
    }
}

template <int UNROLL, bool STREAMING>
__global__ void copy(const Vec* __restrict__ x, Vec* __restrict__ y, long long tiles) {
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        long long at = tile * (blockDim.x * UNROLL) + threadIdx.x;
        Vec v[UNROLL];
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) v[i] = load(x + at + i * blockDim.x, STREAMING);
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) store(y + at + i * blockDim.x, v[i], STREAMING);
    }
}

template <int UNROLL, bool STREAMING>
__global__ void triad(const Vec* __restrict__ x, const Vec* __restrict__ y, Vec* __restrict__ z, long long tiles,
                      float a) {
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        long long at = tile * (blockDim.x * UNROLL) + threadIdx.x;
        Vec v[UNROLL], w[UNROLL];
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            v[i] = load(x + at + i * blockDim.x, STREAMING);
            w[i] = load(y + at + i * blockDim.x, STREAMING);
        }
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            Vec r;
            r.x = __float_as_uint(a * __uint_as_float(v[i].x) + __uint_as_float(w[i].x));
            r.y = __float_as_uint(a * __uint_as_float(v[i].y) + __uint_as_float(w[i].y));
            r.z = __float_as_uint(a * __uint_as_float(v[i].z) + __uint_as_float(w[i].z));
            r.w = __float_as_uint(a * __uint_as_float(v[i].w) + __uint_as_float(w[i].w));
            store(z + at + i * blockDim.x, r, STREAMING);
        }
    }
}

// Reads a footprint again and again, past the L1 (.cg), in a way that the compiler may not fold (volatile).
template <int UNROLL>
__global__ void read_l2(const Vec* x, unsigned tiles, unsigned passes, unsigned* out) {
    unsigned seen = 0;
    for (unsigned turn = blockIdx.x; turn < tiles * passes; turn += gridDim.x) {
        const Vec* from = x + (long long)(turn % tiles) * (blockDim.x * UNROLL) + threadIdx.x;
        Vec v[UNROLL];
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i)
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(from + i * blockDim.x));
        #pragma unroll
        for (int i = 0; i < UNROLL; ++i) seen |= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    if (seen == 0x9e3779b9u) out[0] = seen;
}

// Chains of multiply-adds in registers, independent of one another. All that is stored is a sum for each thread.
template <int CHAINS>
__global__ void multiply_adds(unsigned rounds, float factor, float summand, float* out) {
    float v[CHAINS];
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) v[i] = summand * (threadIdx.x + i);
    #pragma unroll 16
    for (unsigned round = 0; round < rounds; ++round) {
        #pragma unroll
        for (int i = 0; i < CHAINS; ++i) v[i] = fmaf(v[i], factor, summand);
    }
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < CHAINS; ++i) sum += v[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
VARIANTS = ((4, False), (8, False), (4, True))  # loads a thread has under way, streaming hint
L2_UNROLLS = (4, 8)
CHAINS = (4, 8)  # multiply-adds that a thread has under way: 4 clocks each, and 16 warps for every scheduler
BLOCKS_PER_SM = 8  # of 256 threads: a full SM


def entries() -> list[str]:
    """Every kernel of SOURCE that is used, by the name expression that makes it."""
    kinds = [f"{kind}<{unroll}, {str(streaming).lower()}>" for kind in ("read", "write", "copy", "triad")
             for unroll, streaming in VARIANTS]  # fmt: skip
    chains = [f"multiply_adds<{chains}>" for chains in CHAINS]
    return ["empty", *kinds, *(f"read_l2<{unroll}>" for unroll in L2_UNROLLS), *chains]


@functools.cache
def kernel(entry: str) -> Any:
    """One of them, compiled when it is first launched."""
    from aisp.kernels import cuda

    return cuda.Kernel("ceilings.cu", SOURCE, entry, digest=f"aisp ceilings {entry}")


def plan(
    *, l2_bytes: int, free_bytes: int, sm: int, gpus: int, peer: bool, memory_bound: int = LARGE_BYTES
) -> list[reports.PeakItem]:
    """The ceilings of a GPU in the order in which they are measured: what needs a cool GPU first.

    Args:
        l2_bytes: size of its L2; 0 unknown.
        free_bytes: device memory that is free.
        sm: compute capability times ten.
        gpus: how many GPUs this process sees.
        peer: whether the first two reach each other's memory.
        memory_bound: the largest footprint.
    """
    most = min(memory_bound, free_bytes // 8)  # two sets of buffers, and room to spare
    base = l2_bytes or 32 * MB
    footprints = sorted({_whole(min(factor * base, most)) for factor in FOOTPRINTS_OF_L2} | {_whole(most)})
    items: list[reports.PeakItem] = []
    for name in CEILINGS:
        if name.startswith("dram "):
            items += [reports.PeakItem(name=name, footprint_bytes=size) for size in footprints]
        elif name == L2_READ and not l2_bytes:
            items.append(reports.PeakItem(name=name, note="the driver does not report the size of the L2"))
        elif name == L2_READ:
            items += [reports.PeakItem(name=name, footprint_bytes=_whole(l2_bytes // part)) for part in (4, 2)]
        elif name.startswith("fp8 ") and sm < 89:
            items.append(reports.PeakItem(name=name, note=f"needs sm_89; this GPU is sm_{sm}"))
        elif name in (*PEER, ALL_REDUCE) and gpus < 2:
            items.append(reports.PeakItem(name=name, note="needs 2 GPUs"))
        elif name in PEER and not peer:
            items.append(reports.PeakItem(name=name, note="the first two GPUs do not reach each other's memory"))
        elif name == ALL_REDUCE:
            items += [reports.PeakItem(name=name, footprint_bytes=size) for size in ALL_REDUCE_BYTES]
        else:
            items.append(reports.PeakItem(name=name))
    return items


def bus_bytes(footprint_bytes: int, gpus: int) -> float:
    """Bytes that an all-reduce of so many moves out of each GPU, and into it: 2 (n - 1) / n of them.

    Over the time it is the bus bandwidth of nccl-tests, doc/PERFORMANCE.md, which a link's rate of one direction bounds
    whatever the number n of GPUs.
    """
    return 2 * (gpus - 1) / gpus * footprint_bytes


def _whole(size: int) -> int:
    """Rounded down to whole tiles of every kernel, for one buffer, two and three; one such at least."""
    unit = 3 * 2 * THREADS * 8 * 16
    return max(size // unit, 1) * unit


@dataclass(frozen=True, slots=True)
class Way:
    """One way of doing what a ceiling counts. `before` puts the caches in the state that the call would leave."""

    name: str
    call: Callable[[], object]
    before: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Best:
    """The best way's time for one call in seconds, and the SM clock while it ran.

    Also how many ways were tried, and why none of them is a kernel of our own.
    """

    name: str
    seconds: float
    sm_clock_mhz: float | None
    ways: int = 1
    problem: str = ""


def answer(job: jobs.PlanPeak | jobs.MeasureCeiling) -> reports.PeakPlan | reports.CeilingMeasured:
    """One job of the process that measures ceilings.

    Raises:
        NotHereError: there is no GPU, or it cannot do this.
        Exception: whatever PyTorch or the compiler raise.
    """
    bench = _bench()
    if isinstance(job, jobs.PlanPeak):
        return bench.plan()
    try:
        return bench.measure(job.name, job.footprint_bytes)
    finally:
        bench.give_back_memory()


@functools.cache
def _bench() -> Bench:
    return Bench()


class Bench:
    """Measures on the current GPU."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise NotHereError("there is no GPU that PyTorch can use here; `aisp doctor` says why")
        from aisp.engine.worker.probe import ClockProbe

        self._torch = torch
        properties = torch.cuda.get_device_properties(0)
        self._sm = properties.major * 10 + properties.minor
        self._sms = properties.multi_processor_count
        self._l2_bytes = properties.L2_cache_size
        self._probe = ClockProbe()
        self._start = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._hold_cycles = 1_000_000  # some 0.5 ms
        self._overhead_s = 0.0
        self._overhead_s = statistics.median(self._once(lambda: None, lambda: None)[0] for _ in range(40))

    def plan(self) -> reports.PeakPlan:
        """What there is to measure on this GPU."""
        torch = self._torch
        gpus = torch.cuda.device_count()
        peer = gpus > 1 and torch.cuda.can_device_access_peer(0, 1)
        free, _ = torch.cuda.mem_get_info()
        items = plan(l2_bytes=self._l2_bytes, free_bytes=free, sm=self._sm, gpus=gpus, peer=peer)
        return reports.PeakPlan(items=items)

    def give_back_memory(self) -> None:
        """Free what the last ceiling needed."""
        self._torch.cuda.synchronize()
        self._torch.cuda.empty_cache()

    def measure(self, name: str, footprint_bytes: int | None) -> reports.CeilingMeasured:
        """Measure one ceiling by its name in CEILINGS. Raises NotHereError, or what the GPU raises."""
        kind, _, rest = name.partition(" ")
        if name == LAUNCH_EMPTY:
            return self._record(name, self._best(self._empty_ways()), lambda best: best.seconds)
        if name == LAUNCH_GRAPH_NODE:
            return self._graph_node()
        if name == LAUNCH_EAGER:
            return self._eager()
        if kind == "dram" and footprint_bytes:
            best = self._best(self._memory_ways(rest, footprint_bytes))
            return self._record(name, best, lambda best: footprint_bytes / best.seconds, footprint_bytes)
        if name == L2_READ and footprint_bytes:
            return self._l2(footprint_bytes)
        if name.endswith(" dense") and (precision := name.removesuffix(" dense")) in DENSE:
            return self._product(precision)
        if kind == "pcie":
            return self._link(name, rest)
        if name in PEER:
            return self._peer(name)
        if name == ALL_REDUCE and footprint_bytes:
            return self._all_reduce(footprint_bytes)
        raise NotHereError(f"{name!r} is not a ceiling; there are {', '.join(CEILINGS)}")

    def _record(
        self, name: str, best: Best, value: Callable[[Best], float], footprint_bytes: int | None = None
    ) -> reports.CeilingMeasured:
        note = f"best of {best.ways}: {best.name}" if best.ways > 1 else best.name
        if best.problem:
            note += f"; our own kernels could not be used ({best.problem})"
        return reports.CeilingMeasured(
            name=name,
            value=value(best),
            sm_clock_mhz=best.sm_clock_mhz,
            footprint_bytes=footprint_bytes,
            note=note,
        )

    # -- taking times ----------------------------------------------------------------------------------------------

    def _once(self, before: Callable[[], object], call: Callable[[], object]) -> tuple[float, float | None]:
        """One held repetition: seconds without what an empty event pair reads, and the SM clock in MHz."""
        torch = self._torch
        for _ in range(8):
            before()
            torch.cuda._sleep(self._hold_cycles)
            self._probe.before()
            self._start.record()
            call()
            self._end.record()
            leaked = self._start.query()  # it has passed: the stream was not held long enough
            self._probe.after()
            torch.cuda.synchronize()
            if not leaked:
                break
            self._hold_cycles *= 2
        mhz = self._probe.read().mhz
        seconds = self._start.elapsed_time(self._end) / 1e3 - self._overhead_s
        return max(seconds, 1e-7), mhz if mhz == mhz else None

    def _median(self, way: Way) -> Best:
        for _ in range(WARM_UPS):
            self._once(way.before, way.call)
        runs = [self._once(way.before, way.call) for _ in range(REPETITIONS)]
        clocks = [mhz for _, mhz in runs if mhz is not None]
        seconds = statistics.median(seconds for seconds, _ in runs)
        return Best(way.name, seconds, statistics.median(clocks) if clocks else None)

    def _best(self, ways: Iterator[Way]) -> Best:
        """The fastest of several ways. A way that does not work here is left out, unless none is left."""
        return self._best_of((way, functools.partial(self._median, way)) for way in ways)

    def _best_of(self, tries: Iterable[tuple[Way, Callable[[], Best]]]) -> Best:
        bests: list[Best] = []
        problem: Exception | None = None
        own = ""
        for way, attempt in tries:
            try:
                bests.append(attempt())
            except Exception as error:
                # Of four libraries: a type that this GPU lacks, a compiler that is missing, a launch that is refused.
                self._torch.cuda.synchronize()  # raises where the GPU is lost: nothing after it could be believed
                problem = error
                if way.name.startswith(OWN):
                    own = summary(error)[:200]
        if not bests:
            raise problem or NotHereError("there is no way to measure this here")
        best = min(bests, key=lambda one: one.seconds)
        return replace(best, ways=len(bests), problem=own)

    # -- launches --------------------------------------------------------------------------------------------------

    def _launch(self, entry: str, grid: int, *arguments: Any, threads: int = THREADS) -> None:
        from aisp.kernels import cuda

        cuda.launch(kernel(entry), grid, threads, *arguments)

    def _empty_ways(self) -> Iterator[Way]:
        def nothing() -> None:
            pass

        def own() -> None:
            self._launch("empty", 1, threads=32)

        def spin() -> None:
            self._torch.cuda._sleep(0)

        yield Way(f"{OWN}one warp that does nothing", own, nothing)
        yield Way("PyTorch's spinning kernel for 0 cycles", spin, nothing)

    def _graph_node(self) -> reports.CeilingMeasured:
        """Per node of a chain of empty kernels: the difference of a long and a short chain over that of their nodes."""
        torch = self._torch

        def chain(way: Way, nodes: int) -> Best:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(nodes):
                    way.call()
            return self._median(Way(way.name, graph.replay, graph.replay))

        def per_node(way: Way) -> Best:
            way.call()  # compiled before the capture, which may not allocate
            short, long = chain(way, SHORT_CHAIN), chain(way, LONG_CHAIN)
            seconds = (long.seconds - short.seconds) / (LONG_CHAIN - SHORT_CHAIN)
            if seconds <= 0:
                raise NotHereError(f"a chain of {LONG_CHAIN} took no longer than one of {SHORT_CHAIN}")
            return replace(long, seconds=seconds)

        best = self._best_of((way, functools.partial(per_node, way)) for way in self._empty_ways())
        return self._record(LAUNCH_GRAPH_NODE, best, lambda b: b.seconds)

    def _eager(self) -> reports.CeilingMeasured:
        """Host time of one small PyTorch operation, launched again and again."""
        torch = self._torch
        x = torch.zeros(1, device="cuda")
        times: list[float] = []
        for _ in range(WARM_UPS + REPETITIONS):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(EAGER_LAUNCHES):
                x.add_(1.0)
            times.append((time.perf_counter() - start) / EAGER_LAUNCHES)
        seconds = statistics.median(times[WARM_UPS:])
        note = f"host time of x.add_(1.0) on one element, {EAGER_LAUNCHES} in a row"
        return reports.CeilingMeasured(name=LAUNCH_EAGER, value=seconds, note=note)

    # -- memory ----------------------------------------------------------------------------------------------------

    def _grids(self, tiles: int) -> list[tuple[str, int]]:
        """One pass of many blocks, and as many blocks as fit at once going round."""
        resident = self._sms * BLOCKS_PER_SM
        return [("one tile a block", tiles)] + ([("blocks going round", resident)] if resident < tiles else [])

    def _memory_ways(self, what: str, footprint_bytes: int) -> Iterator[Way]:
        """Ways to read, write, copy or triad `footprint_bytes` in all, each in turns on two sets of buffers."""
        import numpy as np

        torch = self._torch
        buffers = {"read": 1, "write": 1, "copy": 2, "triad": 3}[what]
        count = footprint_bytes // buffers // 4
        sets = [[torch.empty(count, device="cuda").normal_() for _ in range(buffers)] for _ in range(2)]
        sink = torch.zeros(1, dtype=torch.int32, device="cuda")

        def in_turns(name: str, on: Callable[[list[Any]], object]) -> Way:
            return Way(name, functools.partial(on, sets[0]), functools.partial(on, sets[1]))

        for unroll, streaming in VARIANTS:
            tiles = count * 4 // (THREADS * unroll * 16)
            entry = f"{what}<{unroll}, {str(streaming).lower()}>"
            length = np.int64(tiles)
            tail = {
                "read": (length, sink), "write": (length, np.uint32(1)), "copy": (length,),
                "triad": (length, np.float32(3.0)),
            }[what]  # fmt: skip
            for how, grid in self._grids(tiles):

                def own(held: list[Any], entry: str = entry, grid: int = grid, tail: tuple[Any, ...] = tail) -> None:
                    self._launch(entry, grid, *held, *tail)

                hint = ", streaming" if streaming else ""
                yield in_turns(f"{OWN}{unroll} vectors a thread{hint}, {how}", own)
        if what == "read":
            yield in_turns("torch.sum", lambda held: held[0].sum())
        elif what == "write":
            yield in_turns("Tensor.fill_", lambda held: held[0].fill_(1.0))
            yield in_turns("Tensor.zero_", lambda held: held[0].zero_())
        elif what == "copy":
            yield in_turns("Tensor.copy_", lambda held: held[1].copy_(held[0]))
        else:
            yield in_turns("torch.add", lambda held: torch.add(held[0], held[1], alpha=3.0, out=held[2]))

    def _l2(self, footprint_bytes: int) -> reports.CeilingMeasured:
        """A footprint that stays in the L2, read over and over in one launch, past the L1."""
        import numpy as np

        torch = self._torch
        x = torch.empty(footprint_bytes // 4, device="cuda").normal_()
        sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        passes = max(8, (2 << 30) // footprint_bytes)

        def ways() -> Iterator[Way]:
            for unroll in L2_UNROLLS:
                tiles = footprint_bytes // (THREADS * unroll * 16)
                for blocks in (4, BLOCKS_PER_SM):

                    def own(unroll: int = unroll, tiles: int = tiles, blocks: int = blocks) -> None:
                        arguments = (x, np.uint32(tiles), np.uint32(passes), sink)
                        self._launch(f"read_l2<{unroll}>", blocks * self._sms, *arguments)

                    yield Way(f"{OWN}{unroll} vectors a thread, {blocks} blocks an SM", own, own)

        return self._record(
            L2_READ, self._best(ways()), lambda b: footprint_bytes * passes / b.seconds, footprint_bytes
        )

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def _product(self, precision: str) -> reports.CeilingMeasured:
        """A square matrix product on random data, as large as memory and patience allow."""
        torch = self._torch
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        try:
            free, _ = torch.cuda.mem_get_info()
            smallest = PRODUCT_SIZES[-1]
            way = next(self._product_ways(precision, smallest))
            way.call()  # loads the library
            predicted_s = self._median(way).seconds / smallest**3
            fitting = [
                n
                for n in PRODUCT_SIZES
                # Operands and result of at most 8 bytes an element, and as much again for the library.
                if n == smallest or (predicted_s * n**3 < PRODUCT_PATIENCE_S and 6 * 8 * n * n < free)
            ]
            n = fitting[0]
            best = self._best(self._product_ways(precision, n))
        finally:
            torch.set_float32_matmul_precision(before)
        named = replace(best, name=f"{n}³, {best.name}")
        return self._record(f"{precision} dense", named, lambda b: 2.0 * n**3 / b.seconds)

    def _product_ways(self, precision: str, n: int) -> Iterator[Way]:
        """The right operand stored by rows and by columns: which is faster differs by GPU and type."""
        import numpy as np

        torch = self._torch

        def twice(name: str, call: Callable[[], object]) -> Way:
            return Way(name, call, call)

        if precision.startswith("fp8"):
            kind = torch.float8_e4m3fn
            a, b = (torch.randn(n, n, device="cuda").to(kind) for _ in range(2))
            one = torch.ones((), device="cuda")
            nn = torch.nn.functional
            if precision == "fp8 promoted" and self._sm == 90 and hasattr(nn, "ScalingType"):
                row_scales = torch.ones(n // 128, n, device="cuda").t()
                block_scales = torch.ones(n // 128, n // 128, device="cuda").t()

                def blocks() -> object:
                    by_row, by_block = nn.ScalingType.BlockWise1x128, nn.ScalingType.BlockWise128x128
                    return nn.scaled_mm(a, b.t(), row_scales, by_row, block_scales, by_block)

                yield twice("scaled_mm of e4m3 with scales of 1 x 128 and 128 x 128", blocks)
                return  # adding in fp32 without a scale at every block is another thing, and faster
            for fast in (False, True) if precision == "fp8" else (False,):

                def scaled(fast: bool = fast) -> object:
                    return torch._scaled_mm(
                        a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
                    )

                yield twice(f"torch._scaled_mm of e4m3, {'fast' if fast else 'fp32'} accumulation", scaled)
            return
        if precision == "int8":
            a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device="cuda") for _ in range(2))
            yield twice("torch._int_mm, right operand by columns", lambda: torch._int_mm(a, b.t()))
            yield twice("torch._int_mm, right operand by rows", lambda: torch._int_mm(a, b))
            return
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}.get(precision, torch.float32)
        a, b = (torch.randn(n, n, device="cuda", dtype=kind) for _ in range(2))
        out = torch.empty(n, n, device="cuda", dtype=kind)
        yield twice("torch.matmul, right operand by rows", lambda: torch.matmul(a, b, out=out))
        yield twice("torch.matmul, right operand by columns", lambda: torch.matmul(a, b.t(), out=out))
        if precision == "fp32":
            # Without tensor cores a product is bound by its loads as well, and no ceiling for arithmetic alone.
            for chains in CHAINS:
                rounds = -(-(n**3) // (chains * THREADS * BLOCKS_PER_SM * self._sms))

                def own(chains: int = chains, rounds: int = rounds) -> None:
                    arguments = (np.uint32(rounds), np.float32(-0.999), np.float32(0.7), out)
                    self._launch(f"multiply_adds<{chains}>", BLOCKS_PER_SM * self._sms, *arguments)

                yield twice(f"{OWN}{chains} chains of multiply-adds a thread, as many as in the product", own)

    # -- links -----------------------------------------------------------------------------------------------------

    def _link(self, name: str, rest: str) -> reports.CeilingMeasured:
        """Copies between host and GPU. Pageable memory goes through a buffer of the driver's: the host's clock."""
        torch = self._torch
        direction, _, memory = rest.partition(" ")
        host = torch.empty(LINK_BYTES, dtype=torch.uint8, pin_memory=memory == "pinned")
        host.fill_(1)  # pages exist only once they are written
        device = torch.ones(LINK_BYTES, dtype=torch.uint8, device="cuda")
        source, goal = (host, device) if direction == "h2d" else (device, host)
        if memory == "pinned":

            def copy() -> None:
                goal.copy_(source, non_blocking=True)

            best = self._median(Way("one copy of pinned memory", copy, copy))
        else:
            times: list[float] = []
            for _ in range(WARM_UPS + REPETITIONS):
                torch.cuda.synchronize()
                start = time.perf_counter()
                goal.copy_(source)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - start)
            best = Best(
                "one copy of pageable memory, by the host's clock", statistics.median(times[WARM_UPS:]), None, 1
            )
        return self._record(name, best, lambda b: LINK_BYTES / b.seconds, LINK_BYTES)

    def _peer(self, name: str) -> reports.CeilingMeasured:
        """Between the first two GPUs' memory, over NVLink where there is one: bytes/s, each way where there are two."""
        torch = self._torch
        sources = [torch.empty(LINK_BYTES // 4, device=f"cuda:{gpu}").normal_() for gpu in range(2)]
        goals = [torch.empty_like(source) for source in sources]
        for gpu in range(2):
            # Before the first copy into the other's memory PyTorch lets this GPU reach it, all of it: allocations of
            # before and after, for the copy engine and for kernels.
            goals[1 - gpu].copy_(sources[gpu])
        self._synchronize(range(2))
        if name == PEER_COPY:

            def copy() -> None:
                goals[1].copy_(sources[0], non_blocking=True)

            best = self._median(Way("one copy from GPU 0 to GPU 1", copy, copy))
        elif name == PEER_COPY_BOTH:
            # A copy makes the current streams of both its GPUs wait for it: the way back has streams of its own.
            back = [torch.cuda.Stream(f"cuda:{gpu}") for gpu in range(2)]

            def copies() -> None:
                goals[1].copy_(sources[0], non_blocking=True)
                with torch.cuda.stream(back[0]), torch.cuda.stream(back[1]):
                    goals[0].copy_(sources[1], non_blocking=True)

            way = Way("one copy from GPU 0 to GPU 1 and one back, each on its GPU's copy engine", copies, copies)
            best = self._best_together([way], [torch.cuda.current_stream(1), *back])
        elif name == PEER_SM_COPY_BOTH:
            best = self._best_together(self._sm_copies(sources, goals, 2), [torch.cuda.current_stream(1)])
        else:
            best = self._best(self._sm_copies(sources, goals, 1))
        return self._record(name, best, lambda b: LINK_BYTES / b.seconds, LINK_BYTES)

    def _sm_copies(self, sources: list[Any], goals: list[Any], gpus: int) -> Iterator[Way]:
        """A kernel on each of the first `gpus` of two GPUs that writes into the other's memory, or reads from it."""
        import numpy as np

        torch = self._torch
        size = sources[0].nbytes
        for how, write in (("writing to the other GPU", True), ("reading from the other GPU", False)):
            for unroll, streaming in VARIANTS:
                tiles = size // (THREADS * unroll * 16)
                entry = f"copy<{unroll}, {str(streaming).lower()}>"
                for passes, grid in self._grids(tiles):

                    def own(write: bool = write, entry: str = entry, grid: int = grid, tiles: int = tiles) -> None:
                        for gpu in range(gpus):
                            source, goal = (gpu, 1 - gpu) if write else (1 - gpu, gpu)
                            # By their addresses: a launch takes tensors of its own GPU alone.
                            addresses = (np.uint64(sources[source].data_ptr()), np.uint64(goals[goal].data_ptr()))
                            with torch.cuda.device(gpu):
                                self._launch(entry, grid, *addresses, np.int64(tiles))

                    hint = ", streaming" if streaming else ""
                    yield Way(f"{OWN}{how}, {unroll} vectors a thread{hint}, {passes}", own, own)

    def _all_reduce(self, footprint_bytes: int) -> reports.CeilingMeasured:
        """NCCL's all-reduce of a vector of float32 on every GPU that this process sees: bus bandwidth, and the time."""
        torch = self._torch
        from torch.cuda import nccl

        gpus = torch.cuda.device_count()
        inputs = [torch.empty(footprint_bytes // 4, device=f"cuda:{gpu}").normal_() for gpu in range(gpus)]
        outputs = [torch.empty_like(one) for one in inputs]
        if not nccl.is_available(inputs):
            raise NotHereError("this PyTorch was built without NCCL")

        def reduce() -> None:
            nccl.all_reduce(inputs, outputs)

        reduce()  # makes the communicators and their connections
        self._synchronize(range(gpus))
        others = [torch.cuda.current_stream(gpu) for gpu in range(1, gpus)]
        best = self._best_together([Way("torch.cuda.nccl.all_reduce", reduce, reduce)], others)
        name = f"{best.name} of float32 over {gpus} GPUs, {best.seconds * 1e6:.1f} µs a call"
        value = bus_bytes(footprint_bytes, gpus) / best.seconds
        return self._record(ALL_REDUCE, replace(best, name=name), lambda _: value, footprint_bytes)

    # -- several GPUs ----------------------------------------------------------------------------------------------

    def _synchronize(self, gpus: Iterable[int]) -> None:
        for gpu in gpus:
            self._torch.cuda.synchronize(gpu)

    def _together(self, call: Callable[[], object], others: list[Any]) -> Callable[[], None]:
        """A call whose work is on the current stream and on streams of other GPUs, as one of the current stream's.

        The other streams begin when it begins, and it ends when all of them have.
        """
        torch = self._torch
        here = torch.cuda.current_stream()
        begun = torch.cuda.Event()
        ended = [torch.cuda.Event() for _ in others]

        def whole() -> None:
            begun.record(here)
            for stream in others:
                stream.wait_event(begun)
            call()
            for stream, event in zip(others, ended, strict=True):
                event.record(stream)
                here.wait_event(event)

        return whole

    def _best_together(self, ways: Iterable[Way], others: list[Any]) -> Best:
        """The fastest of several ways whose work is on streams of several GPUs, less what waiting for these takes."""
        waiting = self._together(lambda: None, others)
        waiting_s = self._median(Way("no work", waiting, waiting)).seconds
        best = self._best(
            Way(way.name, self._together(way.call, others), self._together(way.before, others)) for way in ways
        )
        return replace(best, seconds=max(best.seconds - waiting_s, 1e-7))
