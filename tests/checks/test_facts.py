"""A misspelt fact disarms no check: judges ask for what sensors note, and what is not that is never a pass.

A judge that misspells a field of its sensor's struct is found by mypy, which `make lint` runs over checks/.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aisp.checks import registry
from aisp.checks.registry import ArmFacts, Check, Facts, Need, RunFacts, Sensor, Status
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target
from aisp.store.outcomes import State, Timing
from aisp.store.record import Finding

MAIN = Path(__file__).parents[2]
SENSORS = {sensor.name: sensor for _, sensor in registry.sensors()}
ASKED = [check for check in registry.checks() if check.arm is not None or check.run is not None]
JUDGED = [check for check in registry.checks() if check.arm is not None and check.sensor is not None]


def loaded() -> Target:
    found = catalog.load_target(MAIN / "kernels/ch07_memory_access/transpose", root=MAIN / "kernels", chapter="ch07")
    assert isinstance(found, Target)
    return found


TARGET = loaded()


# -- what judges ask for -----------------------------------------------------------------------------------------------


def asked(check: Check) -> Iterator[type[Sensor[Facts]]]:
    """Sensors whose facts the judge of a check asks for, by its own source and that of the functions it calls."""
    waiting: list[Any] = [check.arm or check.run]
    seen: set[str] = set()
    while waiting:
        function = waiting.pop()
        module = sys.modules[function.__module__]
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("facts", "of") and node.args:
                given = node.args[0]
                sensor = getattr(module, given.id, None) if isinstance(given, ast.Name) else None
                if isinstance(sensor, type) and issubclass(sensor, Sensor):
                    yield sensor
            names = [node.func, *node.args]
            for name in (each.id for each in names if isinstance(each, ast.Name)):
                found = getattr(module, name, None)
                if isinstance(found, type) and issubclass(found, Sensor):  # handed to a helper that asks for it
                    yield found
                elif inspect.isfunction(found) and found.__module__.startswith("aisp.checks.") and name not in seen:
                    seen.add(name)
                    waiting.append(found)


@pytest.mark.parametrize(
    "check", [each for each in registry.checks() if each.arm or each.run], ids=lambda each: each.id
)
def test_a_judge_asks_for_facts_of_sensors_that_there_are_wherever_it_is_asked(check: Check) -> None:
    needs = {sensor.name: first.needs for first, sensor in registry.sensors()}
    found = set(asked(check)) - {Sensor}
    for sensor in found:
        assert SENSORS.get(sensor.name) is sensor, f"{check.id} asks for {sensor.name}, which no check declares"
        if Need.GPU in needs[sensor.name]:
            assert Need.GPU in check.needs, f"{check.id} asks for {sensor.name}, which there is on a GPU alone"
    if check.sensor is not None:
        assert check.sensor in found, f"{check.id} declares {check.sensor.name} and never asks for it"


@pytest.mark.parametrize("sensor", SENSORS.values(), ids=lambda sensor: sensor.name)
def test_every_sensor_says_which_struct_it_notes_and_leaves_no_field_to_be_guessed(sensor: type[Sensor[Facts]]) -> None:
    struct = registry.struct_of(sensor)
    assert struct is not Facts
    assert struct.__module__ == sensor.__module__, "facts are defined beside their sensor"
    for part in structs_in(struct):
        config = part.__struct_config__
        assert config.frozen
        assert config.forbid_unknown_fields
        assert part.__struct_defaults__ == (), (
            f"{part.__name__}: a field that was left out would be taken for its default"
        )


def structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """A struct and those that it holds."""
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            yield info.cls
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)):
            waiting.append(info.item_type)
        elif isinstance(info, msgspec.inspect.TupleType):
            waiting += info.item_types
        elif isinstance(info, msgspec.inspect.DictType):
            waiting += [info.key_type, info.value_type]


# -- what a worker sends -----------------------------------------------------------------------------------------------


def least(info: msgspec.inspect.Type) -> Any:
    """The least plain value of a type."""
    match info:
        case msgspec.inspect.StructType():
            return {field.encode_name: least(field.type) for field in info.fields}
        case msgspec.inspect.UnionType():
            return None if info.includes_none else least(info.types[0])
        case msgspec.inspect.BoolType():
            return False
        case msgspec.inspect.IntType():
            return 0
        case msgspec.inspect.FloatType():
            return 0.0
        case msgspec.inspect.StrType():
            return ""
        case msgspec.inspect.ListType():
            return []
        case msgspec.inspect.DictType():
            return {}
    raise AssertionError(f"no least value of {info}")


def good(sensor: type[Sensor[Facts]]) -> dict[str, Any]:
    """Facts that the sensor could note."""
    found: dict[str, Any] = least(msgspec.inspect.type_info(registry.struct_of(sensor)))
    return found


def said(sent: dict[str, Any], check: Check) -> Finding:
    """What a check says of an arm whose process sent this, by sensor's name."""
    raw = {name: msgspec.Raw(msgspec.msgpack.encode(facts)) for name, facts in sent.items()}
    sensed = (registry.received(raw, {}),)
    rung = TARGET.rung("optimized")
    arm = ArmFacts("optimized", rung, "cuda", True, State.OK, Timing.COLD, sensed=sensed, median_ms=1.0)
    target = replace(TARGET, ranks=2 if check.category == "distributed" else 1)
    run = RunFacts(target, TARGET.cases[0], "cuda", False, (arm,))
    return next(found for found in registry.examine(run) if (found.check, found.arm) == (check.id, "optimized"))


def everything() -> dict[str, Any]:
    return {name: good(sensor) for name, sensor in SENSORS.items()}


def test_facts_as_sensors_note_them_are_read_as_they_are() -> None:
    raw = {name: msgspec.Raw(msgspec.msgpack.encode(facts)) for name, facts in everything().items()}
    found = registry.received(raw, {})
    assert found.malformed == {}
    assert found.facts.keys() == SENSORS.keys()
    assert all(type(found.facts[name]) is registry.struct_of(sensor) for name, sensor in SENSORS.items())


@pytest.mark.parametrize("check", JUDGED, ids=lambda check: check.id)
def test_a_misspelt_missing_or_wrongly_typed_fact_is_suspect_and_names_itself(check: Check) -> None:
    assert check.sensor is not None
    name, facts = check.sensor.name, good(check.sensor)
    for fact in facts:
        others = {key: value for key, value in facts.items() if key != fact}
        misspelt = {**others, f"{fact}s": facts[fact]}
        for given in (misspelt, others, {**facts, fact: b"\x00"}, {**facts, "more": 1}):
            finding = said({**everything(), name: given}, check)
            assert finding.status is Status.SUSPECT, (fact, finding)
            assert "sent facts that this check's sensor does not note" in finding.evidence


@pytest.mark.parametrize("check", JUDGED, ids=lambda check: check.id)
def test_facts_that_are_no_mapping_or_never_came_are_suspect(check: Check) -> None:
    assert check.sensor is not None
    sent = everything()
    for given in (None, [], "passed", 7):
        assert said({**sent, check.sensor.name: given}, check).status is Status.SUSPECT
    del sent[check.sensor.name]
    finding = said(sent, check)
    assert (finding.status, "nothing was sent of it" in finding.evidence) == (Status.SUSPECT, True)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_fact_that_is_no_number_is_suspect_where_no_comparison_with_it_could_accuse(number: float) -> None:
    check = next(check for check in JUDGED if check.id == "timing.device_idle")
    idle = {"samples": 9, "total_ms": 1.0, "lag_ms": 0.0, "usual_lag_ms": 0.0, "beside_ms": number, "left_ms": 0.0}
    finding = said({**everything(), "idle": idle}, check)
    assert (finding.status, f"beside_ms is {number}" in finding.evidence) == (Status.SUSPECT, True)


def test_bytes_that_are_no_facts_at_all_raise_nothing() -> None:
    for raw in (b"", b"\xc1", b"\x81", b"\x91" * 5000):
        found = registry.received({"idle": msgspec.Raw(raw)}, {})
        assert found.facts == {}
        assert "idle" in found.malformed


def test_a_sensor_that_no_check_has_is_told_by_the_check_of_the_channel() -> None:
    check = next(check for check in registry.checks() if check.id == "evaluation.result_channel")
    assert said(everything(), check).status is Status.PASSED
    for sent in ({"idel": good(SENSORS["idle"])}, {"a sensor of old": {"held": 9}}):
        finding = said({**everything(), **sent}, check)
        assert finding.status is Status.SUSPECT
        assert next(iter(sent)) in finding.evidence


def test_a_sensor_that_failed_is_unavailable_by_its_own_words_and_only_where_facts_are_not_malformed() -> None:
    check = next(check for check in JUDGED if check.id == "timing.device_idle")
    raw = {name: msgspec.Raw(msgspec.msgpack.encode(facts)) for name, facts in everything().items() if name != "idle"}
    failed = registry.received(raw, {"idle": "after_call: no device"})
    torn = registry.received({**raw, "idle": msgspec.Raw(b"\xc1")}, {})
    rung = TARGET.rung("optimized")
    for sensed, status in (((failed,), Status.UNAVAILABLE), ((failed, torn), Status.SUSPECT)):
        arm = ArmFacts("optimized", rung, "cpu", True, State.OK, Timing.HOST, sensed=sensed)
        run = RunFacts(TARGET, TARGET.cases[0], "cpu", False, (arm,))
        assert registry._ask(check, arm, run)[0] is status
    assert Need.GPU not in check.needs
