"""Which library did the work of a call: for rungs that bring compiled code of their own, C++ or CUDA.

Launches through Triton and cuda.core are counted in Python (checks/workload.py). What an extension of
`torch.utils.cpp_extension`, or a library that a rung built and opened, does is not seen there. So one call is recorded
after the last sample: on a GPU by CUPTI, where each kernel has a name; on a CPU by torch's record of operators, which
sees an operator whoever called it, Python or C++. Recorded is how long each took. A call on a GPU whose kernels took
next to nothing of its time did its work on the host, where a lesson's inputs may lie: there it is recorded again.

What Python itself calls, as `x @ w` in the rung's run(), is in sight of whoever reads the rung, and no laundering. It
is told apart by a mode that sees each function of torch that Python calls, and none that C++ calls.

On a CPU torch's older profiler makes the record: its first start took 18 ms, so that every run can have it.
The newer one takes 1.3 s for its first start. A BLAS that is called past torch on a CPU, or from a thread that the
extension started, is in no record.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aisp.checks import cupti
from aisp.checks.registry import Facts

SAYS_SO = ("library", "cublas", "cudnn", "cutlass", "aten", "at::", "onednn", "mkl", "blas")
"""Words of a lesson that says that a library works."""

_SHOWN = "aisp::shown"

ON_HOST = 0.01  # of a call's time is all that its kernels took: the work was done on the host
LAUNDERED = 0.9  # of the recorded time is a library's: nothing that matters is left for the rung's own code
MOST_NAMED = 4
EMPTY_CALLS = 3
RECORDED_CALLS = 3  # the shortest counts
DISTURBED = 1.5  # times as long as a call without a record: something else than the record made it longer

_SOURCE_COMPILES = re.compile(
    rb"cpp_extension|load_inline|load_library|CDLL|dlopen|cffi|RawKernel|RawModule|ExtensionFileLoader"
)

# By what a kernel is called on the GPU. cuBLAS of CUDA 13 calls its kernels for Hopper nvjet_*, older ones sm90_xmma_*
# or ampere_sgemm_*; some of both libraries' are CUTLASS by name. What lies in at::native is torch's own. A pattern
# names what no author would call a kernel of his own: "gemm" alone is not one.
_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cuDNN", re.compile(r"cudnn|implicit_convolve_|convolve_sgemm|winograd_nonfused|xmma_(fprop|dgrad|wgrad)", re.I)),
    (
        "cuBLAS",
        re.compile(
            r"cublas|\bnvjet_|\b(sm\d+|volta|turing|ampere|hopper|maxwell)_\w*(gemm|xmma)|\bgemv(NSP|2[NT])|\bgemmSN_"
            r"|\bgemmk1_|\bsplitKreduce_kernel",
            re.I,
        ),
    ),
    ("CUTLASS", re.compile(r"cutlass", re.I)),
    ("cuFFT", re.compile(r"cufft|\b(regular|vector)_fft", re.I)),
    ("NCCL", re.compile(r"nccl(Dev)?Kernel", re.I)),
    ("torch", re.compile(r"at::native::|at_cuda_detail|pytorch_flash")),
)
# To move bytes or to fill memory is no result: every extension has its outputs made by these.
_MOVES = re.compile(r"FillFunctor|direct_copy_kernel|CatArrayBatchedCopy|memcpy|memset|spin_kernel", re.I)
_MAKES = frozenset((
    "empty", "empty_like", "empty_strided", "new_empty", "new_zeros", "new_ones", "new_full", "zeros",
    "zeros_like", "ones", "ones_like", "full", "full_like", "zero_", "fill_", "copy_", "clone", "contiguous", "to",
    "_to_copy", "detach", "alias", "lift_fresh", "resize_", "set_", "view", "_unsafe_view", "reshape",
    "_reshape_alias", "flatten", "unflatten", "expand", "expand_as", "permute", "transpose", "t", "numpy_T",
    "slice", "select", "narrow", "split", "chunk", "unbind", "squeeze", "unsqueeze", "as_strided", "item",
    "_local_scalar_dense", "is_pinned", "pin_memory", "result_type", "resolve_conj", "resolve_neg", "unfold",
    "view_as", "movedim", "swapaxes", "record_stream",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """A kernel or an operator that ran within the recorded call.

    Attributes:
        family: whose it is: "cuBLAS", "torch" ...; "" for the rung's own or for what is not known.
        shown: Python called it as an operator of torch, so that whoever reads the rung sees it.
    """

    name: str
    family: str
    duration_ns: int
    shown: bool = False


def family_of(kernel: str) -> str:
    """The library that a kernel of this name on the GPU belongs to; "" where it is nobody's that is known."""
    return next((name for name, pattern in _FAMILIES if pattern.search(kernel)), "")


def brings_code(folder: Path, stem: str, siblings: Iterable[str]) -> bool:
    """Whether this rung's file, or one of the folder's that it names, has a word for opening compiled code."""
    waiting, seen = [stem], set[str]()
    others = set(siblings) - {"reference"}  # no worker opens it
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        file = folder / f"{name}.py"
        source = file.read_bytes() if file.is_file() else b""
        if _SOURCE_COMPILES.search(source):
            return True
        words = {word.decode() for word in re.findall(rb"\b[A-Za-z_]\w*\b", source) if word.isascii()}
        waiting += sorted(others & words)
    return False


class Recorded(Facts, frozen=True, kw_only=True):
    """One recorded call.

    Attributes:
        how: what recorded it.
        hidden, shown: share of its time that was a library's, called out of Python's sight and in sight.
        library: what of a library took longest, at most six.
        total_ms: of the call.
        cost_ms: of recording.
    """

    how: str
    hidden: float
    shown: float
    library: list[str]
    total_ms: float
    cost_ms: float


def summary(pieces: Sequence[Piece], total_ns: int, how: str, cost_ms: float) -> Recorded:
    """Which share of the time was a library's, called out of sight and in sight, and what took longest."""
    by_name: dict[str, int] = {}
    spent = {True: 0, False: 0}
    for piece in pieces:
        if piece.family:
            spent[piece.shown] += piece.duration_ns
            label = f"{piece.name[:60]} ({piece.family})"
            by_name[label] = by_name.get(label, 0) + piece.duration_ns
    return Recorded(
        how=how,
        hidden=min(1.0, spent[False] / total_ns) if total_ns > 0 else 0.0,
        shown=min(1.0, spent[True] / total_ns) if total_ns > 0 else 0.0,
        library=sorted(by_name, key=lambda label: -by_name[label])[:MOST_NAMED],
        total_ms=total_ns / 1e6,
        cost_ms=cost_ms,
    )


def record(device: str, launch_once: Callable[[], object], *, alone: bool = True) -> Recorded:
    """One recorded call. In a worker, after the last sample.

    Args:
        alone: whether no other process takes part in it, so that it may be made as often as what was seen makes one
            want; ranks must make the same calls.
    """
    start = time.perf_counter()
    pieces, total_ns, how = (_on_gpu if device == "cuda" else _on_cpu)(launch_once)
    if alone and device == "cuda" and total_ns < ON_HOST * _finished_ns(launch_once):
        pieces, total_ns, how = _on_cpu(launch_once)
    return summary(pieces, total_ns, how, (time.perf_counter() - start) * 1e3)


def _showing(launch_once: Callable[[], object], span: Callable[[], AbstractContextManager[object]]) -> None:
    """One call in which each function of torch that Python calls goes through a `span`."""
    import torch  # a sensor's part runs in a worker, which has it
    from torch.overrides import TorchFunctionMode

    class Showing(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            # An operator of the rung's own is a door: what is behind it is not seen from Python.
            operator = isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
            if operator and not str(function).startswith("aten."):
                return function(*args, **(kwargs or {}))
            with span():
                return function(*args, **(kwargs or {}))

    with Showing():
        launch_once()


def _in_record() -> AbstractContextManager[object]:
    """A span in torch's own record."""
    import torch  # as above

    return torch.profiler.record_function(_SHOWN)


def _inside(at: float, spans: Sequence[tuple[float, float]]) -> bool:
    return any(start <= at <= end for start, end in spans)


def _on_gpu(launch_once: Callable[[], object]) -> tuple[list[Piece], int, str]:
    import torch  # as above

    spans: list[tuple[int, int]] = []
    reader = cupti.opened()

    @contextlib.contextmanager
    def span() -> Iterator[None]:
        start_ns = reader.now_ns()
        try:
            yield
        finally:
            spans.append((start_ns, reader.now_ns()))

    torch.cuda.synchronize()
    with reader.recorded() as recording:
        _showing(launch_once, span)
        torch.cuda.synchronize()
    pieces = [
        Piece(
            each.name,
            family_of(each.name),
            each.end_ns - each.start_ns,
            _inside(recording.called_ns.get(each.launch, -1), spans),
        )
        for each in recording.activities
        if not _MOVES.search(each.name)
    ]
    return pieces, sum(piece.duration_ns for piece in pieces), "CUPTI"


def _finished_ns(launch_once: Callable[[], object]) -> int:
    """Host time of a call and of all that it launched."""
    import torch  # as above

    start_ns = time.perf_counter_ns()
    launch_once()
    torch.cuda.synchronize()
    return time.perf_counter_ns() - start_ns


def _plain_ns(launch_once: Callable[[], object]) -> int:
    start_ns = time.perf_counter_ns()
    launch_once()
    return time.perf_counter_ns() - start_ns


def _wall_ns(launch_once: Callable[[], object]) -> int:
    start_ns = time.perf_counter_ns()
    _showing(launch_once, _in_record)
    return time.perf_counter_ns() - start_ns


def _on_cpu(launch_once: Callable[[], object]) -> tuple[list[Piece], int, str]:
    from torch.autograd.profiler_legacy import profile  # as above

    with profile():
        _showing(launch_once, _in_record)  # the first call under a record waits for what the record needs
        empty_ns = min(_wall_ns(lambda: None) for _ in range(EMPTY_CALLS))  # the mode itself is no work of the call
    recordings = [_recorded_on_cpu(launch_once, empty_ns) for _ in range(RECORDED_CALLS)]
    pieces, total_ns = min(recordings, key=lambda one: one[1])
    # Of a call of 0.3 ms the record itself takes a tenth, outside of its operators: that is no work of the rung.
    plain_ns = max(1, min(_plain_ns(launch_once) for _ in range(RECORDED_CALLS)))
    return pieces, plain_ns if plain_ns < total_ns < DISTURBED * plain_ns else total_ns, "torch's record of operators"


def _recorded_on_cpu(launch_once: Callable[[], object], empty_ns: int) -> tuple[list[Piece], int]:
    """The operators of one call, and how long it took."""
    from torch.autograd.profiler_legacy import profile  # as above

    with profile() as session:
        total_ns = max(1, _wall_ns(launch_once) - empty_ns)
    times = [(event.time_range.start, event.time_range.end, event.name) for event in session.function_events]
    spans = [(start_us, end_us) for start_us, end_us, name in times if name == _SHOWN]
    pieces: list[Piece] = []
    reached_us = float("-inf")
    for start_us, end_us, name in sorted(times, key=lambda span: (span[0], -span[1])):
        space, _, operator = name.partition("::")
        # The outermost operator of torch that computes stands for all that it calls. One of the rung's own is looked
        # into, and so is one that makes memory.
        if start_us < reached_us or space != "aten" or operator in _MAKES:
            continue
        reached_us = end_us
        pieces.append(Piece(name, "torch", int((end_us - start_us) * 1e3), _inside(start_us, spans)))
    return pieces, total_ns
