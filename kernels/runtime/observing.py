"""What a problem's own kernel does with its data: called in the verifier, on copies, and looked at.

    seen = observe(kernel, make, tensors, device, settle)
    seen.writable          numbers of the tensors that it writes into, returns, or takes for room that it ignores

Nothing is read from its source. A write shows in the bits or in PyTorch's count of writes, whoever made it; what is
returned shows by its memory. Room that is ignored is a tensor in the form of an output, with which the outputs stay the
same whatever lies in it: bit for bit, or nearly where they are not the same of the same data either. A candidate may
use it, since nothing is to be found there.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import carrying
from .packing import PackError, form_of, spread

_DRAWS = {"rand": "uniform", "rand_like": "uniform", "randn": "normal", "randn_like": "normal"}
_KEEPS = frozenset(("to", "cuda", "cpu", "float", "half", "bfloat16", "double", "contiguous"))  # the values
NEAR = 1e-2
"""Of two calls on the same data whose outputs differ: how far off they may be, of all that they add up to."""


class Draws(TorchFunctionMode):
    """Knows, of the tensors that are made while it is entered, which are plain draws of torch.rand and torch.randn.

    Other values of their distribution are theirs as well; of any other tensor nobody knows what holds between its
    elements: it may be triangular, sorted, or a mask.
    """

    def __init__(self) -> None:
        super().__init__()
        self._drawn: dict[int, tuple[torch.Tensor, int, str]] = {}  # by id: the tensor, its version, of what it is

    def __torch_function__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        of = _DRAWS.get(name, "") or (self.distribution(args[0]) if name in _KEEPS and args else "")
        if of and isinstance(made, torch.Tensor):
            self._drawn[id(made)] = made, made._version, of
        return made

    def distribution(self, tensor: Any) -> str:
        """What it is a plain draw of; "" where that is not known, or it was written into since."""
        made, version, of = self._drawn.get(id(tensor), (None, 0, ""))
        return of if made is not None and made is tensor and made._version == version else ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one call did.

    Attributes:
        wrote, returned, ignored: numbers of tensors of its data: written into; in whose memory an output lies; in the
            form of an output, with values that change nothing.
        draws: the call drew random numbers from PyTorch's generator.
        unwritten: numbers of outputs that hold memory as it was found.
        outputs: what was returned, in words; "" where the call failed.
    """

    wrote: frozenset[int] = frozenset()
    returned: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset()
    draws: bool = False
    unwritten: frozenset[int] = frozenset()
    outputs: str = ""

    @property
    def writable(self) -> frozenset[int]:
        """What a candidate may write into."""
        return self.wrote | self.returned | self.ignored


@dataclass(frozen=True, slots=True)
class Call:
    """One call on copies of data.

    Attributes:
        outputs: the tensors that it returned.
        wrote, returned, draws: as of Seen.
    """

    outputs: Sequence[torch.Tensor]
    wrote: frozenset[int]
    returned: frozenset[int]
    draws: bool


def call(
    kernel: Callable[[Any], Any],
    make: Callable[[Sequence[torch.Tensor]], Any],
    tensors: Sequence[torch.Tensor],
    device: str,
    settle: Callable[[], object],
    blank: Collection[int] = (),
) -> Call:
    """Call the kernel once on copies of the data on `device`, with other values in the tensors that are `blank`.

    Args:
        make: makes data of its tensors.
        settle: puts the generators of random numbers where they were.

    Raises PackError where it returns what cannot be judged.
    """
    flats = [carrying.seen(tensor).to(device, copy=True) for tensor in tensors]
    for number in blank:
        _unlike(flats[number])
    before = [flat._version for flat in flats]
    views = [carrying.like(flat, tensor) for flat, tensor in zip(flats, tensors, strict=True)]
    settle()
    state = _generators(device)
    with torch.no_grad():
        result = kernel(make(views))
    draws = not torch.equal(state, _generators(device))
    wrote = frozenset(n for n, flat in enumerate(flats) if flat._version != before[n])
    outputs: list[torch.Tensor] = []
    try:
        spread(result, outputs)
    except TypeError as error:
        raise PackError(str(error)) from None
    for number, output in enumerate(outputs):
        if output.layout is not torch.strided:
            raise PackError(f"returns a {form_of(output)} as output {number}, which is not judged")
    memory = {flat.untyped_storage().data_ptr(): number for number, flat in enumerate(flats) if flat.numel()}
    places = (memory.get(each.untyped_storage().data_ptr()) for each in outputs if each.numel())
    back = frozenset(place for place in places if place is not None)
    pairs = zip(flats, tensors, strict=True)
    wrote |= {n for n, (flat, was) in enumerate(pairs) if n not in blank and not _same(flat, carrying.seen(was))}
    return Call(outputs, wrote, back, draws)


def observe(
    kernel: Callable[[Any], Any],
    make: Callable[[Sequence[torch.Tensor]], Any],
    tensors: Sequence[torch.Tensor],
    device: str,
    settle: Callable[[], object],
) -> Seen:
    """See what the kernel does with the data, by `call`. Where it fails nothing is seen: its error is told where its
    outputs are needed.

    Raises PackError where it returns what cannot be judged.
    """

    def called(blank: Collection[int] = ()) -> Call:
        return call(kernel, make, tensors, device, settle, blank)

    try:
        first = called()
    except (MemoryError, torch.OutOfMemoryError, PackError):
        raise
    except Exception:  # somebody else's code
        return Seen()
    outputs, wrote, back, drew = first.outputs, first.wrote, first.returned, first.draws
    forms = {(each.shape, each.dtype) for each in outputs}
    able = [
        number
        for number, tensor in enumerate(tensors)
        if number not in wrote | back and (tensor.shape, tensor.dtype) in forms and tensor.numel()
    ]
    kept = [output.clone() for output in outputs]

    def again(blank: Sequence[int]) -> list[torch.Tensor]:
        with contextlib.suppress(Exception):  # of somebody else's code, on what nobody has posed
            return list(called(blank).outputs)
        return []

    exact = not able or alike(again([]), kept)

    def changes_nothing(blank: Sequence[int]) -> bool:
        return alike(again(blank), kept, exact=exact)

    ignored = able if able and changes_nothing(able) else [n for n in able if len(able) > 1 and changes_nothing([n])]
    with _filled():
        pairs = zip(again([]) if kept else [], kept, strict=False)
        unwritten = frozenset(n for n, (full, was) in enumerate(pairs) if bool((full.isnan() & ~was.isnan()).any()))
    said = ", ".join(f"{form_of(each)} {list(each.shape)}" for each in outputs[: carrying.MOST_SHOWN])
    return Seen(wrote, back, frozenset(ignored), drew, unwritten, said or "nothing")


@contextlib.contextmanager
def _filled() -> Iterator[None]:
    """Let PyTorch fill memory that it hands out with NaN."""
    was = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        torch.use_deterministic_algorithms(was[0], warn_only=was[1])


def _generators(device: str) -> torch.Tensor:
    """The state of PyTorch's generators."""
    states = [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if device == "cuda" else [])]
    return torch.cat(states)


def _unlike(flat: torch.Tensor) -> None:
    """Other values, which show in whatever is computed from them: finite ones, and of whole numbers one that was there,
    since they may be places."""
    if flat.is_floating_point() or flat.is_complex():
        flat.copy_(flat.flip(0) * 1.5 + 1)
    elif bool((flat == flat[0]).all()):
        flat.fill_(int(not flat[0]))
    else:
        flat.fill_(flat[0].item())


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two vectors hold the same bits."""
    return torch.equal(one.view(torch.uint8), other.to(one.device).view(torch.uint8))


def alike(found: Sequence[torch.Tensor], kept: Sequence[torch.Tensor], *, exact: bool = True) -> bool:
    """Whether outputs have the same forms and the same bits, or nearly the same values."""
    if [(each.shape, each.dtype) for each in found] != [(each.shape, each.dtype) for each in kept]:
        return False
    pairs = list(zip(found, kept, strict=True))
    if exact:
        return all(_same(one.contiguous().reshape(-1), other.contiguous().reshape(-1)) for one, other in pairs)
    return all(bool(_size(_wide(one) - _wide(other)) <= NEAR * _size(_wide(other))) for one, other in pairs)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).to(torch.float64)


def _size(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.nan_to_num().abs().sum()
