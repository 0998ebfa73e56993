"""What a call returned, read without asking it: exact containers, plain tensors, memory of their own.

A rung makes the objects that it returns, and what they do when somebody looks at them is done after the clock has
stopped. So nothing here runs a method of theirs: types are compared by identity, items are read by the slots of tuple,
list and dict themselves, tensors by functions of torch's C extension that are saved before a lesson is imported. What a
reader would still have to do, such as the sign of a negative view, is refused.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

_READING = ("__iter__", "__getitem__", "__len__", "__getattribute__")  # how a tuple is read
_name_of: Any = type.__dict__["__name__"].__get__
_bases_of: Any = type.__dict__["__mro__"].__get__
_names_of: Any = type.__dict__["__dict__"].__get__


class FormError(Exception):
    """What run() returned has not the declared number, type, shape or dtype, or is not there yet."""


class Reader:
    """Reads what calls return. Make it before a lesson is imported."""

    def __init__(self) -> None:
        import torch  # only workers and scripts have it

        base: Any = torch._C.TensorBase
        self.detach: Any = base.detach
        self._plain, self._strided = torch.Tensor, torch.strided
        self._own = frozenset(dir(torch.Tensor))
        self._pointer, self._count, self._size = base.data_ptr, base.numel, base.element_size
        self._contiguous = base.is_contiguous
        self._lacks = (
            (base.is_neg, "a negative view", "return what resolve_neg() gives"),
            (base.is_conj, "a conjugate view", "return what resolve_conj() gives"),
            (base._is_zerotensor, "zeros without memory", "return what torch.zeros() gives"),
            (torch._C._is_cow_tensor, "a copy that is made when it is first touched", "return what clone() gives"),
        )

    def items(self, returned: object, names: Sequence[str]) -> tuple[object, ...]:
        """What a call returned, item by item; those of a dict in the order of `names`.

        Raises:
            FormError: a container with methods of its own, or a dict whose keys are not `names`.
        """
        kind, wanted = type(returned), ", ".join(names)
        if kind is tuple or kind is list:
            return tuple(returned)  # type: ignore[arg-type]
        if kind is dict:
            held: dict[Any, object] = returned  # type: ignore[assignment]
            keys = list(held)
            if any(type(key) is not str for key in keys) or set(keys) != set(names):
                listing = ", ".join(key if type(key) is str else _name_of(type(key)) for key in keys)
                raise FormError(f"run() returned a dict of {listing or 'nothing'}; its keys must be {wanted}")
            return tuple(held[name] for name in names)
        if _as_a_tuple(kind):
            return tuple(tuple.__iter__(returned))  # type: ignore[arg-type]
        if issubclass(kind, (tuple, list, dict)):
            raise FormError(
                f"run() returned {_name_of(kind)}, a container with methods of its own: what they do is done when it "
                f"is read; return a tuple of {wanted}"
            )
        return (returned,)

    def plain(self, name: str, item: object) -> Any:
        """The item, if it is a plain tensor that leaves nothing undone. Raises FormError."""
        if type(item) is not self._plain:
            raise FormError(f"{name}: {_name_of(type(item))}, not a plain torch.Tensor")
        # An attribute of the tensor itself hides the method of that name from whoever calls it.
        for key in dict.__iter__(object.__getattribute__(item, "__dict__")):
            if type(key) is not str or key in self._own or key.startswith("__"):
                text = key if type(key) is str else _name_of(type(key))
                raise FormError(
                    f"{name}: it has an attribute {text} of its own, where readers expect a tensor's; del it"
                )
        tensor: Any = item
        for lacks, what, instead in self._lacks if tensor.layout is self._strided else ():
            if lacks(tensor):
                raise FormError(f"{name}: {what}: what it leaves undone, its reader must do; {instead}")
        return tensor

    def apart(self, names: Sequence[str], tensors: Sequence[Any]) -> None:
        """Refuse outputs that share memory, which are fewer results than there are names. Raises FormError.

        Those that are not contiguous are not looked at.
        """
        if len(tensors) < 2:
            return
        spans: list[tuple[int, int, str]] = []
        for name, tensor in zip(names, tensors, strict=True):
            nbytes = self._count(tensor) * self._size(tensor)
            if nbytes and self._contiguous(tensor):
                start = self._pointer(tensor)
                spans.append((start, start + nbytes, name))
        spans.sort()
        for (_, end, one), (start, _, other) in itertools.pairwise(spans):
            if start < end:
                raise FormError(
                    f"{one} and {other} share memory: each output must have its own; return {other}.clone()"
                )


@functools.cache
def reader() -> Reader:
    """This process's, with the functions of torch as they were when it was first asked for."""
    return Reader()


def _as_a_tuple(kind: type) -> bool:
    """Whether objects of this type are read as a tuple is: a named tuple, or what torch.max(x, 0) returns."""
    for base in _bases_of(kind):
        if base is tuple:
            return True
        names = _names_of(base)
        # Made by a plain `class`, with plain names: looking one up runs no code of the lesson's.
        if type(base) is not type or any(type(name) is not str for name in names):
            return False
        if any(name in names for name in _READING):
            return False
    return False
