"""From a request to plans: which target, rungs, case and device, on this machine. Reads files, runs nothing."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.clean import clean_line
from engine.protocol import events
from engine.runs import Plan, StopRule, new_seed
from engine.telemetry import Nvml
from kernels import catalog
from kernels.catalog.model import Case, Catalog, Rung, Target
from store.outcomes import State, Trigger
from store.records import RunRecord
from store.ulid import new_ulid


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
    """

    devices: tuple[events.Device, ...]
    gpus: int
    sm: int | None
    note: str
    index: int

    @staticmethod
    def find(nvml: Nvml) -> Hardware:
        """Look once: the driver's word, the build of torch, and CUDA_VISIBLE_DEVICES."""
        devices = tuple(nvml.devices())
        note = nvml.note
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        index = 0
        if visible is not None:
            first = visible.split(",")[0].strip()
            if not first or first == "-1":
                note = note or "CUDA_VISIBLE_DEVICES hides every GPU"
            elif first.isdigit():
                index = int(first)
            else:
                index = next((d.index for d in devices if d.uuid.startswith(first)), 0)
        try:
            if importlib.metadata.version("torch").endswith("+cpu"):
                note = note or "torch was built without CUDA; `make run TORCH=system` keeps a torch that has it"
        except importlib.metadata.PackageNotFoundError:
            note = "torch is not installed; `make run` installs it"
        if index >= len(devices):
            note = note or f"CUDA_VISIBLE_DEVICES names GPU {index}, there are {len(devices)}"
        if note:
            return Hardware(devices, 0, None, note, 0)
        return Hardware(devices, len(devices), devices[index].sm, "", index)


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
    trigger: Trigger = Trigger.CLI,
) -> Plan:
    """Decide everything about one run.

    Raises:
        PlanError: an unknown rung, case, device, or a negative number of replicas.
    """
    if device not in ("auto", "cuda", "cpu"):
        raise PlanError(f"no device {clean_line(device)!r}; auto, cuda or cpu")
    if not 0 <= replicas <= 100:
        raise PlanError(f"{replicas} replicas; 1 to 100, or 0 for the usual number")
    try:
        chosen = _rungs(target, rungs)
        chosen_device, chosen_case, problem = _place(target, hardware, device, case)
    except LookupError as error:
        raise PlanError(str(error.args[0])) from None
    rule = StopRule.of(quick=quick, replicas=replicas)
    record = RunRecord(
        id=new_ulid(),
        target=target.id,
        folder=os.fsencode(target.folder),
        title=clean_line(target.title),
        device=chosen_device,
        case=chosen_case.name,
        quick=quick,
        trigger=trigger,
        seed=new_seed(),
        epoch=epoch,
        seq=seq,
        wall=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        snapshot=snapshot,
        state=State.PLANNED,
        manifest={
            "stop_rule": rule.manifest(),
            "axes": dict(chosen_case.axes),
            "tolerance": {spec.dtype: target.tolerance[spec.dtype] for spec in target.outputs},
            "rungs": [rung.name for rung in chosen],
        },
    )
    obstacles = {rung.name: found for rung in chosen if (found := _obstacle(rung, chosen_device, hardware))}
    return Plan(record, target, chosen_case, chosen, rule, files, problem, obstacles)


def _rungs(target: Target, names: Sequence[str]) -> tuple[Rung, ...]:
    """The baseline, then the rungs asked for in the target's order; all honest ones where none is named."""
    if not names:
        return target.honest_rungs
    wanted = {target.rung(name).name for name in names} | {target.rungs[0].name}
    return tuple(rung for rung in target.rungs if rung.name in wanted)


def _place(target: Target, hardware: Hardware, device: str, case: str) -> tuple[str, Case, str]:
    """Device, case, and why it cannot run there ("" where it can)."""
    if device == "auto":
        device = "cpu" if target.on_host or not hardware.gpus else "cuda"
    names = {found.name for found in target.cases}
    if device == "cuda":
        chosen = target.case(case or "default")
        if not hardware.gpus:
            return device, chosen, f"needs a GPU: {hardware.note}"
        return device, chosen, target.needs.missing(sm=hardware.sm, gpus=hardware.gpus) or ""
    if target.on_host:
        return device, target.case(case or "default"), ""
    if "cpu" not in names:
        return device, target.case(case or "default"), target.needs.missing(sm=None, gpus=0) or "needs a GPU"
    return device, target.case(case or "cpu"), ""


def _obstacle(rung: Rung, device: str, hardware: Hardware) -> str:
    """Why one rung cannot run on the chosen device, "" where it can."""
    if device == "cuda":
        return rung.needs.missing(sm=hardware.sm, gpus=hardware.gpus) or ""
    if rung.gpu_only:
        return rung.needs.missing(sm=None, gpus=0) or "needs a GPU"
    return ""


def affected(target: Target, changed: set[str]) -> tuple[str, ...]:
    """Rungs to run again after these files changed; empty for all honest ones.

    A rung's own file affects that rung alone; CUDA sources affect the CUDA rungs; everything else (the
    reference, shared modules, lesson.md) affects all.
    """
    names: set[str] = set()
    by_file = {f"{rung.name}.py": rung.name for rung in target.rungs}
    for file in changed:
        if file in by_file:
            names.add(by_file[file])
        elif file.endswith((".cu", ".cuh", ".h")):
            names |= {rung.name for rung in target.honest_rungs if rung.kind == "cuda"}
        else:
            return ()
    if target.rungs[0].name in names:
        return ()
    return tuple(rung.name for rung in target.rungs if rung.name in names)
