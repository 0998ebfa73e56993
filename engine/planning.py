"""From a request to plans: which target, rungs, case and device, on this machine. Reads files, runs nothing."""

from __future__ import annotations

import datetime
import difflib
import hashlib
import importlib.metadata
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from aisp.checks import registry
from aisp.checks.oracle.schema import CYCLE, MOST_ELEMENTS_HOST, Strategy
from aisp.engine import contention, corpus
from aisp.engine.fuzzing import FuzzPlan
from aisp.engine.plan import PATIENCE, Plan, new_secrets, new_seed
from aisp.engine.protocol import events, requests
from aisp.engine.statistics import PRIORS, Prior
from aisp.engine.telemetry import Nvml
from aisp.engine.turns import StopRule
from aisp.kernels import catalog
from aisp.kernels.catalog import contracts
from aisp.kernels.catalog.contracts import Cache
from aisp.kernels.catalog.frontmatter import definition
from aisp.kernels.catalog.model import Case, Catalog, Needs, Role, Rung, Target
from aisp.kernels.catalog.sources import LESSON
from aisp.kernels.catalog.tensors import ANY
from aisp.store.commitment import COMMITMENT
from aisp.store.outcomes import State, Trigger
from aisp.store.record import Failure, Run
from aisp.store.text import clean_line
from aisp.store.ulid import new_ulid

LEAST_PATIENCE_S = 1.0  # below it a machine that is busy for a moment would end a rung
MOST_CASES = 1_000_000  # of one fuzz
CPU_CASES = 16  # a named case on a CPU may be as large as this many of the target's `cpu` cases


class PlanError(Exception):
    """The request cannot be planned; the message says what was given and what would work."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What runs can be placed on.

    Attributes:
        gpus: usable GPUs.
        sm: compute capability times ten of the one that runs are placed on, or None.
        note: why there is no GPU, "" where there is one.
        index: NVML's index of that GPU.
        usable: each GPU that runs can be placed on, the first of them that one: NVML's index, and the word that
            CUDA_VISIBLE_DEVICES has for it. A GPU of which only parts may be used (MIG) is one.
    """

    devices: tuple[events.Device, ...]
    gpus: int
    sm: int | None
    note: str
    index: int
    usable: tuple[tuple[int, str], ...] = ()

    @staticmethod
    def find(nvml: Nvml) -> Hardware:
        """Look once: the driver's word, the build of torch, and CUDA_VISIBLE_DEVICES."""
        devices = tuple(nvml.devices())
        note = nvml.note
        usable = [(device.index, device.uuid or str(device.index)) for device in devices]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            usable, problem = _visible(visible, devices)
            note = note or problem
        try:
            if importlib.metadata.version("torch").endswith("+cpu"):
                note = note or "torch was built without CUDA; `make run TORCH=system` keeps a torch that has it"
        except importlib.metadata.PackageNotFoundError:
            note = "torch is not installed; `make run` installs it"
        working = [(index, word) for index, word in usable if not devices[index].note]
        if usable and not working:
            note = note or devices[usable[0][0]].note
        if note or not working:
            return Hardware(devices, 0, None, note or "the driver sees no GPU", 0)
        once: dict[int, str] = {}
        for index, word in working:
            once.setdefault(index, word)
        first = working[0][0]
        return Hardware(devices, len(working), devices[first].sm, "", first, tuple(once.items()))


def _visible(text: str, devices: Sequence[events.Device]) -> tuple[list[tuple[int, str]], str]:
    """The GPUs that CUDA_VISIBLE_DEVICES shows, in its order, each as Hardware.usable says, and why there are none.

    CUDA stops at the first entry that names none. A part of a GPU (MIG) cannot be checked from here: it is believed.
    """
    gpus: list[tuple[int, str]] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry.isdigit():
            index = int(entry)
        elif entry.startswith("MIG-"):
            index = 0
        else:
            index = next((d.index for d in devices if entry and d.uuid.startswith(entry)), len(devices))
        if index < len(devices):
            gpus.append((index, entry if entry.startswith("MIG-") else devices[index].uuid or entry))
            continue
        if gpus or not devices:
            break
        if entry in ("", "-1"):
            return [], "CUDA_VISIBLE_DEVICES hides every GPU"
        if entry.isdigit():
            return [], f"CUDA_VISIBLE_DEVICES names GPU {entry}, there are {len(devices)}"
        return [], f"CUDA_VISIBLE_DEVICES names {clean_line(entry)}, which is none of {len(devices)}"
    return gpus, ""


def load_catalog(roots: Sequence[str]) -> Catalog:
    """The collections that a request names, the shipped one where it names none."""
    return catalog.load([Path(root) for root in roots] if roots else None)


def plan(
    target: Target,
    files: dict[str, bytes],
    snapshot: str,
    hardware: Hardware,
    *,
    epoch: str,
    seq: int,
    rungs: Sequence[str] = (),
    device: str = "auto",
    case: str = "",
    quick: bool = False,
    replicas: int = 0,
    cache: Cache = Cache.COLD,
    interleave: bool = True,
    trigger: Trigger = Trigger.CLI,
    validity: str = "strict",
    without: Sequence[str] = (),
    naive: bool | None = None,
    contract: requests.FrozenContract | None = None,
    batch: requests.Batch | None = None,
    patience_s: float = 0.0,
    edit: Mapping[str, object] | None = None,
    priors: Mapping[str, Mapping[str, Prior]] = PRIORS,
) -> Plan:
    """Decide everything about one run.

    `priors` are by device and class of timing: what is known of how processes of the same code differ. `edit` is the
    number of the watch's edit that the run is of, and its files.

    Raises:
        PlanError: an unknown rung, case, device, check or kind of validity, a negative number of replicas or seconds,
            or a contract that is not what its hash says.
    """
    if validity not in ("strict", "portable"):
        raise PlanError(f"no validity {clean_line(validity)!r}; strict or portable")
    _check_ids(without)
    if not 0 <= replicas <= 100:
        raise PlanError(f"{replicas} replicas; 1 to 100, or 0 for the usual number")
    if patience_s and not LEAST_PATIENCE_S <= patience_s <= 3600:
        raise PlanError(f"{patience_s:g} s of patience; {LEAST_PATIENCE_S:g} to 3600, or 0 for the engine's limits")
    try:
        chosen = _rungs(target, rungs)
        chosen_device, chosen_case, problem = _place(target, hardware, device, case)
    except LookupError as error:
        raise PlanError(str(error.args[0])) from None
    # Arms that talk to other GPUs would wait for each other: a collective needs the links for itself.
    alone = chosen_device == "cuda" and target.needs.gpus > 1
    rule = StopRule.of(
        quick=quick, replicas=replicas, cache=cache, interleaved=interleave and not alone, device=chosen_device
    )
    device_priors = priors[chosen_device]
    secrets = new_secrets()
    record = Run(
        id=new_ulid(),
        target=target.id,
        folder=os.fsencode(target.folder),
        title=clean_line(target.title),
        device=chosen_device,
        case=chosen_case.name,
        quick=quick,
        trigger=trigger,
        seed=None,  # until the end: `secrets`
        epoch=epoch,
        seq=seq,
        wall=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        snapshot=snapshot,
        state=State.PLANNED,
        manifest={
            "stop_rule": rule.manifest(),
            "prior": {kind: prior.manifest() for kind, prior in device_priors.items()},
            **({"contention": contention.RULE} if chosen_device == "cpu" else {}),
            "axes": dict(chosen_case.axes),
            "tolerance": {spec.dtype: target.tolerance[spec.dtype] for spec in target.outputs if spec.dtype != ANY},
            "rungs": [rung.name for rung in chosen],
            "code": code_digest(files),
            "validity": validity,
            "without": sorted(without),
            **({"contract": _contract(contract)} if contract is not None else {}),
            **({"batch": msgspec.structs.asdict(batch)} if batch is not None else {}),
            **({PATIENCE: float(patience_s)} if patience_s else {}),
            **({"edit": dict(edit)} if edit is not None else {}),
            COMMITMENT: secrets.commitment,
        },
    )
    obstacles = {
        rung.name: obstacle
        for rung in chosen
        if (obstacle := _obstacle(rung, chosen_device, hardware) or rung.unsupported(chosen_case.axes))
    }
    if problem:
        obstacles = {}  # it says more
    return Plan(
        record,
        target,
        chosen_case,
        chosen,
        rule,
        secrets,
        files,
        problem,
        obstacles,
        frozenset(without),
        not quick if naive is None else naive,
        device_priors,
    )


def _contract(frozen: requests.FrozenContract) -> dict[str, object]:
    """A contract as the manifest keeps it. PlanError where it is none, or not the one that its hash says."""
    contract, why = contracts.of_document(frozen.document, clean_line(frozen.name))
    if contract is None:
        raise PlanError(f"the contract cannot be kept: {clean_line(why, limit=1000)}")
    if contract.sha256 != frozen.sha256:
        raise PlanError(
            f"the contract {contract.name} has sha256 {contract.sha256[:16]}, not {clean_line(frozen.sha256)[:16]}"
        )
    return contract.frozen()


def case_of(target: Target, hardware: Hardware, request: requests.StartRuns) -> str:
    """Name of the case that a run of this target is asked to time; "" for the usual one.

    Raises:
        PlanError: no such device.
        LookupError: no such case.
    """
    if not request.gpu_case:
        return request.case
    placed, _, _ = _place(target, hardware, request.device, "")
    return target.case_on(placed, request.case).name


def cannot_run(
    target: Target, hardware: Hardware, *, rungs: Sequence[str] = (), device: str = "auto", case: str = ""
) -> str:
    """Why no part of such a run can take place on this machine, and what would work; "" where it can.

    Raises:
        PlanError: no such device.
        LookupError: no such rung or case.
    """
    placed, why = _hindered(target, hardware, rungs, device, case)
    if not why:
        return ""
    clauses = [why]
    if hardware.gpus:
        gpu = hardware.devices[hardware.index]
        clauses.append(f"here is {gpu.name}" + (f" (sm_{hardware.sm})" if hardware.sm else ""))
    elif hardware.note not in why:
        clauses.append(f"there is no GPU here: {hardware.note}")
    other = "cpu" if placed == "cuda" else "cuda"
    if not case and not _hindered(target, hardware, rungs, other, "")[1]:
        clauses.append(f"--device {other} runs it here")
    return "; ".join(clauses)


def _hindered(target: Target, hardware: Hardware, rungs: Sequence[str], device: str, case: str) -> tuple[str, str]:
    """The device that a run would be on, and why nothing of it can take place there."""
    placed, _, why = _place(target, hardware, device, case)
    obstacles = [_obstacle(rung, placed, hardware) for rung in _rungs(target, rungs)]
    return placed, why or ("; ".join(sorted(set(obstacles))) if all(obstacles) else "")


def plan_fuzz(
    target: Target,
    files: Mapping[str, bytes],
    snapshot: str,
    hardware: Hardware,
    request: requests.FuzzTarget,
) -> FuzzPlan:
    """Decide everything about one fuzz or lint.

    Raises:
        PlanError: an unknown rung, device or strategy, or a number of cases that is none.
    """
    if not 1 <= request.cases <= MOST_CASES:
        raise PlanError(f"{request.cases} cases; 1 to {MOST_CASES}")
    if not 0 <= request.case_s <= 3600:
        raise PlanError(f"{request.case_s} s of patience with one case; 0 (the usual) to 3600")
    if request.seed is not None and not 0 <= request.seed < 1 << 63:
        raise PlanError(f"{request.seed} is no master seed; 0 to 2**63 - 1")
    strategies = [strategy.value for strategy in Strategy]
    unknown = [name for name in request.strategies if name not in strategies]
    if unknown:
        raise PlanError(f"no strategy {clean_line(unknown[0])!r}; there are {', '.join(strategies)}")
    try:
        if request.rungs:
            names = {target.rung(name).name for name in request.rungs}
            rungs = tuple(rung for rung in target.rungs if rung.name in names)
        elif request.root == corpus.NAME:
            rungs = tuple(rung for rung in target.rungs if rung.role is not Role.BASELINE)
        else:
            rungs = target.honest_rungs
        device, _, problem = _place(target, hardware, request.device, "")
    except LookupError as error:
        raise PlanError(str(error.args[0])) from None
    if device == "cpu" and not target.needs.gpus:
        problem = ""  # cases are drawn small enough for a CPU: none needs to be written down for it
    if target.ranks > 1:
        problem = f"its rungs are {target.ranks} processes each; the oracle poses cases to one"
    if target.rule is not None and target.rule.alone:
        problem = f"{target.rule.name} is its judge, and knows the cases of lesson.md alone; a run asks it"
    obstacles = {rung.name: obstacle for rung in rungs if (obstacle := _obstacle(rung, device, hardware))}
    return FuzzPlan(
        id=new_ulid(),
        what="lint" if request.lint else "fuzz",
        target=target,
        files=files,
        snapshot=snapshot,
        rungs=rungs,
        device=device,
        seed=new_seed() if request.seed is None else request.seed,
        drawn=request.seed is None,
        cases=request.cases,
        strategies=tuple(Strategy(name) for name in request.strategies) or (() if request.lint else CYCLE),
        case_s=request.case_s,
        naive=request.naive,
        trigger=request.trigger,
        obstacles={} if problem else obstacles,
        problem=problem,
    )


def plan_replay(failure: Failure, files: Mapping[str, bytes], folder: Path, hardware: Hardware) -> FuzzPlan:
    """Do a stored failure again, from the sources in `folder`, where they were laid out.

    Raises:
        PlanError: the sources are no target any more, the rung is not among them, or the failure has no seed.
    """
    target = catalog.load_target(folder, root=folder.parent, chapter=failure.target.rpartition(":")[0])
    if not isinstance(target, Target):
        raise PlanError(f"the stored sources cannot be read by this version: {'; '.join(map(str, target))}")
    target = replace(target, id=failure.target, name=failure.target.rpartition(":")[2])
    try:
        rung = target.rung(failure.rung)
    except LookupError as error:
        raise PlanError(str(error.args[0])) from None
    if failure.seed is None:
        raise PlanError(f"the failure {failure.id} is stored without its seed; `aisp fuzz` looks for it again")
    problem = ""
    if failure.device == "cuda" and not hardware.gpus:
        problem = f"it failed on a GPU, and there is none here: {hardware.note}"
    obstacle = _obstacle(rung, failure.device, hardware)
    return FuzzPlan(
        id=new_ulid(),
        what="replay",
        target=target,
        files=files,
        snapshot=failure.snapshot,
        rungs=(rung,),
        device=failure.device,
        seed=failure.seed,
        cases=1,
        strategies=(Strategy(failure.strategy),),
        obstacles={rung.name: obstacle} if obstacle else {},
        problem=problem,
        replay=failure,
    )


def code_digest(files: Mapping[str, bytes]) -> str:
    """sha256 over everything in a snapshot but its prose. A rung that was caught must change it.

    The front matter counts: it says what is run, and what is right.
    """
    digest = hashlib.sha256()
    for name in sorted(files):
        content = definition(files[name]) if name == LESSON else files[name]
        digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def _check_ids(names: Sequence[str]) -> None:
    ids = [check.id for check in registry.checks()]
    for name in names:
        if name not in ids:
            near = difflib.get_close_matches(name, ids, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "`aisp checks` lists them"
            raise PlanError(f"no check {clean_line(name)!r}; {hint}")


def _rungs(target: Target, names: Sequence[str]) -> tuple[Rung, ...]:
    """The baseline, then the rungs asked for in the target's order; all honest ones where none is named."""
    if not names:
        return target.honest_rungs
    wanted = {target.rung(name).name for name in names} | {target.rungs[0].name}
    return tuple(rung for rung in target.rungs if rung.name in wanted)


def _place(target: Target, hardware: Hardware, device: str, case: str) -> tuple[str, Case, str]:
    """Device, case, and why it cannot run there ("" where it can).

    Raises:
        PlanError: no such device.
        LookupError: no such case.
    """
    if device not in ("auto", "cuda", "cpu"):
        raise PlanError(f"no device {clean_line(device)!r}; auto, cuda or cpu")
    if device == "auto":
        device = "cpu" if target.on_host or hardware.gpus < max(target.ranks, 1) else "cuda"
    chosen = target.case(case) if case else target.usual_case(device)
    if device == "cuda":
        if 0 < hardware.gpus < target.ranks:
            return device, chosen, f"needs {target.ranks} GPUs, one for each rank; there is {hardware.gpus}"
        if not hardware.gpus:
            return device, chosen, f"needs a GPU: {hardware.note}"
        if target.on_host:
            return device, chosen, "its inputs stay in host memory, and it does not say needs = { gpus = 1 }"
        return device, chosen, target.needs.missing(sm=hardware.sm, gpus=hardware.gpus) or ""
    if target.on_host:
        return device, chosen, ""
    if all(each.name != "cpu" for each in target.cases):
        if target.needs != Needs() or target.rungs[0].gpu_only:
            return device, chosen, _lacking(target.needs, sm=None, gpus=0)
        why = f"no case `cpu`, a small one that runs without a GPU: a lesson has it in {LESSON}"
        return device, chosen, f"{why}, a problem of others where its sizes can be made small"
    if _is_for_host(target, chosen):
        return device, chosen, ""
    fitting = " or ".join(each.name for each in target.cases if _is_for_host(target, each))
    return device, chosen, f"case {chosen.name} is sized for a GPU; on a CPU, --case {fitting}"


def _is_for_host(target: Target, case: Case) -> bool:
    """Whether a CPU, which runs Triton's kernels in an interpreter, finishes a case in a few minutes.

    It does for an untimed case: a full run judges every one of them anywhere. A timed case may be `CPU_CASES` times
    what the author wrote for a CPU, which takes a second or so there: the interpreter's time goes with the elements and
    the work on each, and only the author knows that work. Where the author's case is tiny, one as large as the oracle's
    for a CPU will do.
    """
    if not case.timed:
        return True
    on_cpu, sizes = _size(target, target.case("cpu")), _size(target, case)
    least = (MOST_ELEMENTS_HOST, CPU_CASES * MOST_ELEMENTS_HOST)
    return all(size <= max(CPU_CASES * small, floor) for size, small, floor in zip(sizes, on_cpu, least, strict=True))


def _size(target: Target, case: Case) -> tuple[int, float]:
    """Elements of a case's largest tensor, and floating-point operations per call."""
    tensors = [spec for spec in (*target.inputs, *target.outputs) if spec.shaped]
    elements = max((math.prod(catalog.shape(spec, case.axes)) for spec in tensors), default=0)
    return elements, catalog.flops(target, case)


def _obstacle(rung: Rung, device: str, hardware: Hardware) -> str:
    """Why one rung cannot run on the chosen device, "" where it can."""
    if device == "cuda":
        return _lacking(rung.needs, sm=hardware.sm, gpus=hardware.gpus)
    return _lacking(rung.needs, sm=None, gpus=0) if rung.gpu_only else ""


def _lacking(needs: Needs, *, sm: int | None, gpus: int) -> str:
    """What a run on the GPU lacks, "" where nothing. `sm` without `gpus` speaks of runs on the GPU too."""
    return replace(needs, gpus=max(1, needs.gpus)).missing(sm=sm, gpus=gpus) or ""
