"""Whether a run keeps a contract (kernels.catalog.contracts), and which line it breaks where it does not.

A run that breaks its contract is no result of that contract. Its own verdict stays what it is: a contract says what a
number may be used for, not whether it is right. What a contract demands and nobody knows is not kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aisp.kernels.catalog import choosing
from aisp.kernels.catalog.contracts import (
    Clocks,
    Contract,
    Direction,
    Metric,
    Mode,
    Policy,
    ToleranceRule,
    Value,
    Variable,
    as_toml,
    of_document,
    version,
)
from aisp.kernels.catalog.parsing import REFUSALS, parsed
from aisp.store.outcomes import State
from aisp.store.results import hardware
from aisp.store.results.outside import by_the_judge, judged
from aisp.store.results.reading import Reading, cache_of

if TYPE_CHECKING:
    from aisp.store.record import Arm, Run

MANIFEST_KEY = "contract"
"""Under which a run's manifest has the contract that it was started under."""
TEMPERATURE = "temperature_c"
"""Among a run's facts: the most that its GPU had during the run, in degrees Celsius."""
UNPARSED = "something that cannot be told: a source does not parse"
"""What a rung imports whose sources are no Python."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Breach:
    """One demand of a contract that a run does not keep.

    Attributes:
        key: dotted.
        wanted: what the contract says.
        found: what the run has instead, to stand behind "the run has".
        place: where the contract says it: "contract.toml:12".
    """

    key: str
    wanted: Value
    found: str
    place: str

    def __str__(self) -> str:
        return f"{self.place} {self.key} = {as_toml(self.wanted)}: the run has {self.found}"


@dataclass(frozen=True, slots=True)
class Figure:
    """The figure that a contract is about, of one run.

    Attributes:
        value: None where the run has none; `reason` says why, "" where nothing more is known.
        target: the value that is wanted; None where any will do.
    """

    metric: Metric
    value: float | None
    target: float | None
    reason: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the wanted value was reached; None where none is wanted, or none was measured."""
        if self.value is None or self.target is None:
            return None
        higher = self.metric.direction is Direction.HIGHER
        return self.value >= self.target if higher else self.value <= self.target


def frozen_in(run: Run) -> tuple[Contract | None, str]:
    """The contract that a run was started under; None and "" where there was none, None and why where it cannot be
    read."""
    held = run.manifest.get(MANIFEST_KEY)
    if held is None:
        return None, ""
    document = held.get("document") if isinstance(held, Mapping) else None
    if not isinstance(document, Mapping):
        return None, "the contract that it was started under is not one"
    return of_document(document, str(held.get("name") or "without a name"))


def figure(contract: Contract, run: Reading) -> Figure:
    """The figure that the contract is about, of the run's best rung as it may be shown."""
    metric, target = contract.metric, contract.target
    record = run.record
    if run.bars and run.best is None:
        return Figure(metric, None, target, "; ".join(bar.sentence for bar in run.bars))
    if record.validity.doubted:
        return Figure(metric, None, target, f"its times are {record.validity}")
    best = run.best
    arm = run.arm(best.rung) if best is not None else run.lead
    value: float | None = None
    if metric is Metric.SPEEDUP:
        value = best.speedup if best is not None else None
    elif arm is not None and arm.rung not in run.hidden:
        value = {
            Metric.MEDIAN_MS: arm.median_ms,
            Metric.SHARE_OF_LIGHT: arm.sol,
            Metric.PEAK_BYTES: arm.peak_bytes,
            Metric.LAUNCHES: arm.launches,
        }[metric]
    if value is None:
        why = "" if record.state is State.OK else f"it ended {record.state}, {record.reason}"
        return Figure(metric, None, target, why)
    return Figure(metric, float(value), target)


# -- what a run keeps --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a contract is held against."""

    run: Run
    facts: Mapping[str, object]
    imports: Mapping[str, set[str]]

    @property
    def arms(self) -> list[Arm]:
        return [arm for arm in self.run.arms if not arm.twin]

    @property
    def rule(self) -> Mapping[str, object]:
        found = self.run.manifest.get("stop_rule")
        return found if isinstance(found, Mapping) else {}

    @property
    def tolerance(self) -> Mapping[str, object]:
        found = self.run.manifest.get("tolerance")
        return found if isinstance(found, Mapping) else {}


def breaches(
    contract: Contract, run: Run, facts: Mapping[str, object], imports: Mapping[str, set[str]]
) -> list[Breach]:
    """What the run breaks of the contract, in the order of its keys; empty where it is a result of it.

    Args:
        run: one that has ended.
        facts: its environment record; TEMPERATURE among them where the GPU's was read.
        imports: what each rung imports, by rung (`imports_of`).
    """
    kept = _Kept(run, facts, imports)
    found: list[Breach] = []
    for key, wanted in contract.values.items():
        check = _tolerance(key) if key.startswith("tolerance.") else _CHECKS.get(key)
        has = check(kept, wanted) if check is not None else ""
        if key == "kpi.metric" and (told := figure(contract, Reading(run))).value is None:
            has = f"no {told.metric}" + (f": {told.reason}" if told.reason else "")
        if has:
            found.append(Breach(key, wanted, has, contract.place(key)))
    return found


Check = Callable[[_Kept, Value], str]
"""What the run has instead of what is wanted; "" where it keeps it."""


def _names(wanted: Value) -> list[str]:
    return [str(one) for one in wanted] if isinstance(wanted, tuple) else [str(wanted)]


def _precision(kept: _Kept, wanted: Value) -> str:
    if not kept.tolerance:
        return "outputs of a dtype that is not known"
    other = [dtype for dtype in kept.tolerance if dtype not in _names(wanted)]
    return f"outputs of {', '.join(sorted(other))}" if other else ""


def _imports(kept: _Kept, wanted: Value) -> str:
    allowed, told = _names(wanted), []
    for arm in kept.arms:
        imported = kept.imports.get(arm.rung)
        if imported is None:
            told.append(f"imports of {arm.rung} that are not known: its sources were not kept")
            continue
        roots = tuple(f"{package}." for package in allowed)
        other = sorted(name for name in imported if not f"{name}.".startswith(roots))
        if other:
            more = f" and {len(other) - MOST_NAMED} more" if len(other) > MOST_NAMED else ""
            told.append(f"{arm.rung}, which imports {', '.join(other[:MOST_NAMED])}{more}")
    return "; ".join(told)


def _tolerance(key: str) -> Check:
    def most(kept: _Kept, wanted: Value) -> str:
        had = kept.tolerance.get(key.partition(".")[2])
        if not kept.tolerance:
            return "a tolerance that is not known"
        assert isinstance(wanted, float)
        return f"tolerance {had}" if isinstance(had, int | float) and had > wanted else ""

    def rule(kept: _Kept, wanted: Value) -> str:
        derived = wanted == ToleranceRule.DERIVED
        without = [
            arm.rung
            for arm in kept.arms
            if arm.quality is None or not (arm.quality.right_by_derived if derived else arm.quality.right_by_stated)
        ]
        return f"no call of {', '.join(without)} that was judged so" if without else ""

    return rule if key == "tolerance.rule" else most


def _cache(kept: _Kept, wanted: Value) -> str:
    has = cache_of(kept.rule)
    if has is None:
        return "a cache of which nothing is known"
    return "" if has == wanted else f"a {has} cache"


def _replicas(kept: _Kept, wanted: Value) -> str:
    has = kept.rule.get("replicas")
    assert isinstance(wanted, int)
    if not isinstance(has, int):
        return "a number of replicas that is not known"
    return "" if has >= wanted else f"at most {has}"


def _looks(kept: _Kept, wanted: Value) -> str:
    looks = kept.rule.get("looks")
    if not isinstance(looks, list | tuple):
        return "looks that are not known"
    has = [look.get("replicas") for look in looks if isinstance(look, Mapping)]
    return "" if isinstance(wanted, tuple) and has == list(wanted) else f"looks {has}"


def _judged(kept: _Kept, _: Value) -> str:
    timed = [arm for arm in kept.arms if arm.median_ms is not None]
    if not timed:
        return "no rung that was timed"
    if all(map(by_the_judge, timed)):
        return ""
    return judged(*timed) or "rungs of which it is not known where they were judged"


def _gpu(kept: _Kept, wanted: Value) -> str:
    if not kept.run.device.startswith("cuda"):
        return f"device {kept.run.device}"
    name = hardware.ran_on(kept.run.device, kept.facts)
    if not name:
        return "a GPU that is not known"
    return "" if hardware.is_meant(str(wanted), [name]) else name


def _driver(kept: _Kept, wanted: Value) -> str:
    has = str(kept.facts.get("driver") or "")
    known, least = version(has), version(str(wanted))
    if known is None or least is None:
        return f"driver {has}" if has else "a driver that is not known"
    return "" if known >= least else f"driver {has}"


def _clocks(kept: _Kept, wanted: Value) -> str:
    flags = [flag.partition("=")[2] for flag in kept.run.flags if flag.startswith("clocks=")]
    if not flags:
        return "clocks of which nothing is known"
    has = Clocks.UNLOCKED if Clocks.UNLOCKED in flags else Clocks.LOCKED
    return "" if has == wanted else f"clocks {', '.join(flags)}"


def _temperature(kept: _Kept, wanted: Value) -> str:
    has = kept.facts.get(TEMPERATURE)
    assert isinstance(wanted, float)
    if not isinstance(has, int | float):
        return "a temperature that is not known"
    return "" if has <= wanted else f"up to {has:g} °C"


def _target(kept: _Kept, wanted: Value) -> str:
    target = kept.run.target
    return "" if any(choosing.meant(word, [target]) for word in _names(wanted)) else f"target {target}"


def _alone(kept: _Kept, wanted: Value) -> str:
    one = wanted == Variable.RUNG and len({arm.rung for arm in kept.arms}) <= 1
    return "one rung alone, which is compared with nothing" if one else ""


def _same(what: str, has: str, *wanted: Value) -> str:
    return "" if has in wanted else f"{what} {has}"


_CHECKS: Mapping[str, Check] = {
    "workload": _target,
    "cases": lambda kept, wanted: _same("case", kept.run.case, *_names(wanted)),
    "variable": _alone,
    "precision": _precision,
    "imports": _imports,
    "measuring.cache": _cache,
    "measuring.mode": lambda kept, wanted: _same("mode", Mode.QUICK if kept.run.quick else Mode.FULL, wanted),
    "measuring.replicas": _replicas,
    "measuring.looks": _looks,
    "measuring.policy": lambda kept, wanted: (
        "" if wanted == Policy.PORTABLE else _same("policy", kept.run.policy, wanted)
    ),
    "measuring.judged": _judged,
    "environment.gpu": _gpu,
    "environment.driver": _driver,
    "environment.clocks": _clocks,
    "environment.temperature_c": _temperature,
}


# -- imports -----------------------------------------------------------------------------------------------------------


def imports_of(run: Run, files: Mapping[str, bytes]) -> dict[str, set[str]]:
    """What each rung of a run imports, by rung, read from the sources that ran: modules by their full names.

    Files of the target's own folder are followed and not named. A source that does not parse imports UNPARSED. A rung
    whose file was not kept is no member. Nothing is imported.

    Args:
        files: the sources of the run's snapshot, by name.
    """
    folder = choosing.name_of(run.target)
    own = {name.removesuffix(".py").replace("/", "."): data for name, data in files.items() if name.endswith(".py")}
    read: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for rung in (arm.rung for arm in run.arms if arm.rung in own):
        modules: set[str] = set()
        seen: set[str] = set()
        ahead = [rung]
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in read:
                read[name] = _imported(own[name])
            for module in read[name]:
                near = _file_of(module, own, folder)
                if near:
                    ahead.append(near)
                else:
                    modules.add(module)
        found[rung] = modules
    return found


def _file_of(module: str, own: Mapping[str, bytes], folder: str) -> str:
    """The file of the target's folder that a module is; "" for a module of elsewhere.

    `from .steps import x` and `import steps` name it alone; `aisp.kernels.ch07.transpose.steps` by its whole path.
    """
    near = module.rpartition(f".{folder}.")[2]
    return next((name for name in (near, f"{near}.__init__") if name in own), "")


def _imported(source: bytes) -> set[str]:
    """The modules that a source names in import statements, and in calls of __import__ and import_module."""
    try:
        tree = parsed(source)
    except REFUSALS:
        return {UNPARSED}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                found.add(node.module)
            else:  # from . import steps
                found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("__import__", "import_module"):
                first = node.args[0] if node.args else None
                named = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else called
                found.add(named)
    return found - {"__future__"}
