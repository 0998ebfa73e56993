"""What calls return is read without running a line of the lesson's: containers, tensors and whose memory they have."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import pytest
import torch

from aisp.checks.oracle.returned import FormError, Reader

READER = Reader()
ran: list[str] = []  # what the lesson's objects did while they were read


class Pair(NamedTuple):
    y: torch.Tensor
    z: torch.Tensor

    def total(self) -> torch.Tensor:
        return self.y + self.z


class LazyList(list[torch.Tensor]):
    def __iter__(self) -> Any:
        ran.append("list")
        return super().__iter__()


class LazyTuple(Pair):
    def __iter__(self) -> Any:
        ran.append("tuple")
        return super().__iter__()


class LazyDict(dict[str, torch.Tensor]):
    def __getitem__(self, key: str) -> torch.Tensor:
        ran.append("dict")
        return super().__getitem__(key)


class Pretends:
    __class__ = tuple  # type: ignore[assignment]

    def __iter__(self) -> Any:
        ran.append("class")
        return iter((torch.ones(3), torch.ones(3)))


class Meta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        ran.append("name")
        return "tuple"

    def __eq__(cls, other: object) -> bool:
        ran.append("equal")
        return True

    __hash__ = type.__hash__


class OfMeta(tuple[Any, ...], metaclass=Meta):
    pass


class Key(str):
    def __hash__(self) -> int:
        ran.append("hash")
        return hash(str(self))

    __eq__ = str.__eq__


def test_plain_containers_and_named_tuples_are_read_in_their_order() -> None:
    y, z = torch.ones(3), torch.zeros(3)
    plain = namedtuple("plain", "y z")
    for given in ((y, z), [y, z], Pair(y, z), plain(y, z), {"z": z, "y": y}):
        first, second = READER.items(given, ["y", "z"])
        assert (first is y, second is z) == (True, True), type(given)
    assert READER.items(y, ["y"]) == (y,)
    assert len(READER.items(torch.max(torch.eye(3), 0), ["y", "z"])) == 2


@pytest.mark.parametrize(
    "made",
    [
        lambda y, z: LazyList([y, z]),
        lambda y, z: LazyTuple(y, z),
        lambda y, z: LazyDict(y=y, z=z),
        lambda y, z: OfMeta((y, z)),
        lambda y, z: type("Named", (tuple,), {Key("hidden"): 1})((y, z)),
    ],
)
def test_a_container_with_methods_of_its_own_is_refused_and_they_do_not_run(made: Any) -> None:
    given = made(torch.ones(3), torch.zeros(3))
    ran.clear()
    with pytest.raises(FormError, match=r"a container with methods of its own.*return a tuple of y, z"):
        READER.items(given, ["y", "z"])
    assert ran == []


def test_what_only_pretends_to_be_a_tuple_is_one_thing_and_no_tensor() -> None:
    ran.clear()
    (one,) = READER.items(Pretends(), ["y"])
    with pytest.raises(FormError, match="y: Pretends, not a plain"):
        READER.plain("y", one)
    assert ran == []


@pytest.mark.parametrize("keys", [["y"], ["y", "z", "w"], ["y", "Z"], [Key("y"), "z"], [1, 2]])
def test_a_dict_has_the_declared_names_and_no_others(keys: list[Any]) -> None:
    given = dict.fromkeys(keys, torch.ones(3))
    ran.clear()
    with pytest.raises(FormError, match="its keys must be y, z"):
        READER.items(given, ["y", "z"])
    assert ran == []


def with_attribute(name: str) -> torch.Tensor:
    tensor = torch.ones(3)
    setattr(tensor, name, lambda *_: ran.append(name))
    return tensor


@pytest.mark.parametrize("name", ["detach", "numel", "reshape", "__array_interface__", "__torch_function__"])
def test_an_attribute_that_hides_a_method_is_refused(name: str) -> None:
    tensor = with_attribute(name)
    with pytest.raises(FormError, match=f"y: it has an attribute {name} of its own"):
        READER.plain("y", tensor)
    assert ran.count(name) == 0


def test_a_label_hides_nothing() -> None:
    tensor = with_attribute("label")
    assert READER.plain("y", tensor) is tensor


@pytest.mark.parametrize(
    ("made", "instead"),
    [
        (lambda: torch._neg_view(torch.ones(3)), r"resolve_neg\(\)"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj(), r"resolve_conj\(\)"),
        (lambda: torch._efficientzerotensor(3), r"torch.zeros\(\)"),
        (lambda: torch._lazy_clone(torch.ones(3)), r"clone\(\)"),
    ],
)
def test_what_a_reader_would_have_to_do_is_refused_with_what_to_return_instead(made: Any, instead: str) -> None:
    with pytest.raises(FormError, match=f"its reader must do; return what {instead} gives"):
        READER.plain("y", made())


def test_tensors_of_other_layouts_are_left_to_the_rules_of_the_form() -> None:
    sparse = torch.eye(3).to_sparse()
    assert READER.plain("y", sparse) is sparse


def test_outputs_that_share_memory_are_refused() -> None:
    whole = torch.arange(12.0)
    for one, other in ((whole, whole), (whole, whole[4:6]), (whole[:5], whole[4:]), (whole, whole.view(torch.int32))):
        with pytest.raises(FormError, match="share memory: each output must have its own"):
            READER.apart(["y", "z"], [one, other])
    READER.apart(["y", "z"], [whole[:4], whole[4:]])
    READER.apart(["y", "z"], [whole, whole[:0]])
    READER.apart(["y"], [whole])
    READER.apart(["y", "z"], [whole.view(6, 2)[:, 0], whole.view(6, 2)[:, 1]])
