"""Drives the two roles of a worker process, arm and verifier, without an engine: `python -m tests.engine.roles FOLDER`.

Every function named `tell_*` is one scenario: it gets a folder for its target and returns plain data; all of them
run in this one process (the verifier makes its process unreadable for others, so it is never a test's own), and
what they return is printed as one JSON object for test_judge_and_arm.py to judge.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import torch

from aisp.checks import registry
from aisp.checks.oracle import values
from aisp.checks.oracle.schema import Case
from aisp.checks.output import Poison
from aisp.engine import arena, arms
from aisp.engine.protocol import jobs, reports
from aisp.engine.worker import arm as arm_module
from aisp.engine.worker import tensors
from aisp.engine.worker.__main__ import failed
from aisp.engine.worker.arm import Arm
from aisp.engine.worker.loading import user_traceback
from aisp.engine.worker.timers import CaptureError, CudaTimer, LaunchBatch, Sample, WarmedUp
from aisp.engine.worker.verifier import Verifier
from aisp.kernels.catalog.model import Kind, Needs, Role, Rung, Target
from aisp.store.outcomes import Timing
from tests.engine.targets import write_target

SEED = 20240229
_arena = arena.Arena()

SENSED = [check.id for check in registry.checks() if check.sensor not in (None, Poison)]
RAGGED = '\n[[cases]]\nname = "ragged"\naxes = { N = 5 }\ntimed = false\n'


def blob() -> jobs.Blob:
    """A shared file as the engine makes them."""
    made = _arena.blob()
    tensors._held[made.name] = arena.descriptor(made.name)  # as if every job brought it
    return made


class Play:
    """A verifier and one arm of a target, with some sets of the default case's inputs handed over."""

    def __init__(
        self, root: Path, files: dict[str, str], *, sets: int = 2, case: str = "default", **lesson: str
    ) -> None:
        self.target: Target = write_target(root, files, **lesson)
        self.case = case
        self.judge = Verifier(self.load("reference"), self.target)
        self.inputs: list[jobs.Blob] = []
        for number in range(sets):
            self.inputs.append(self.pose(number))

    def pose(self, number: int = 0, *, case: str = "") -> jobs.Blob:
        """A set's inputs as the arms get them; its truth is known."""
        posed = Case.of_set(self.target.case(case or self.case), number).plain()
        return self.judge.pose(jobs.Pose(case=posed, seed=SEED, blob=blob())).blob

    def load(self, module: str) -> jobs.Load:
        """Without sensors: they watch a whole process, and here a hundred arms share one."""
        return jobs.Load(
            folder=os.fsencode(self.target.folder),
            root=os.fsencode(self.target.root),
            chapter=self.target.chapter,
            target_id=self.target.id,
            module=module,
            device="cpu",
            without=SENSED,
        )

    def made_seed(self, case: str) -> int:
        """What a rung's process makes its own inputs of a case by."""
        return values.made_seed(self.target, Case.of_set(self.target.case(case)), SEED)

    def arm(self, rung: str = "optimized", *, prepared: bool = True) -> Arm:
        """The rung with its inputs, called once."""
        arm = Arm(self.load(rung), self.target, 0)
        arm.take_inputs(jobs.TakeInputs(case=self.case, made_seed=self.made_seed(self.case), sets=self.inputs))
        if prepared:
            arm.prepare(jobs.Prepare(case=self.case))
        return arm

    def execute(self, arm: Arm, number: int = 0) -> reports.Executed:
        return arm.execute(jobs.Execute(case=self.case, set_index=number, outputs=blob()))

    def verdict(self, outputs: jobs.Blob, number: int = 0, *, case: str = "") -> reports.Judged:
        posed = Case.of_set(self.target.case(case or self.case), number).plain()
        return self.judge.judge(jobs.Judge(case=posed, seed=SEED, outputs=outputs))

    def right(self, arm: Arm, number: int = 0) -> bool:
        """Whether a call on this set gives what the reference says."""
        return self.verdict(self.execute(arm, number).outputs, number).right

    def warm(self, arm: Arm) -> reports.WarmedUp:
        return arm.warm_up(jobs.WarmUp(case=self.case, budget_ms=20))

    def measure(self, arm: Arm, sets: list[int], budget_ms: float = 1e6, number: int = 0) -> list[reports.Samples]:
        return list(arm.measure(jobs.Measure(case=self.case, round=number, sets=sets, budget_ms=budget_ms)))


def engine_side(inexact: bool = False) -> arms.ArmProcess:
    """The engine's book-keeping for one process of an arm."""
    rung = Rung("optimized", Role.OPTIMIZED, Kind.TORCH, Path("optimized.py"), Needs(), inexact=inexact)
    return arms.ArmProcess(arms.Arm("optimized", rung, "cpu", True), 7, None, blob())  # type: ignore[arg-type]


def notices(before: list[float], after: list[float], *, inexact: bool = False) -> bool:
    """Whether the engine takes these fingerprints for those of different outputs."""
    book = engine_side(inexact)
    book.verified = {0: before}
    try:
        book._check_fingerprint(0, after)
    except arms.ArmEnd as end:
        assert end.state == "incorrect", end.state
        return True
    return False


def error_of(work: Callable[[], object], folder: Path = Path("/")) -> dict[str, Any]:
    """What a worker would report for the exception that `work` raises."""
    try:
        work()
    except Exception as error:
        report = failed(error, "Job", folder)
        return {"kind": report.kind, "summary": report.summary, "traceback": report.traceback}
    return {"kind": "none", "summary": "", "traceback": ""}


# -- right and wrong ---------------------------------------------------------------------------------------------------


def tell_right_and_wrong(root: Path) -> dict[str, Any]:
    wrong = "def run(x):\n    y = x * 2\n    y[-1] += 1\n    return y\n"
    play = Play(root, {"wrong_last.py": wrong}, axes="{ N = 1000 }")
    good, bad = play.arm(), play.arm("wrong_last")
    first, again, other = (play.execute(good, number) for number in (0, 0, 1))
    judged = [play.verdict(executed.outputs, number) for executed, number in ((first, 0), (other, 1))]
    refused = play.verdict(play.execute(bad).outputs)
    mixed_up = play.verdict(first.outputs, 1)
    return {
        "right": [one.right for one in judged],
        "max_error": [one.max_error for one in judged],
        "same": first.fingerprint == again.fingerprint,
        "sets_differ": notices(first.fingerprint, other.fingerprint),
        "width": len(first.fingerprint),
        "peak_bytes": first.peak_bytes,
        "refused": [refused.right, refused.finding, refused.detail],
        "mixed_up": mixed_up.right,
    }


def tell_outputs_of_another_form_reach_the_verifier(root: Path) -> dict[str, Any]:
    """A worker is not believed: what lies in the shared file is looked at again."""
    play = Play(root, {}, axes="{ N = 8 }")
    x = torch.ones(8)
    given = {
        "none": {},
        "two": {"y": x, "z": x},
        "shape": {"y": x.reshape(2, 4)},
        "dtype": {"y": x.double()},
    }
    found = {name: play.verdict(tensors.write(blob().name, outputs)) for name, outputs in given.items()}
    return {name: [judged.right, judged.finding, judged.max_error] for name, judged in found.items()}


def tell_threads(root: Path) -> dict[str, Any]:
    """How many the verifier has where a process is given so many."""
    left = {}
    try:
        for given in (1, 2, 5):
            torch.set_num_threads(given)
            Play(root, {})
            left[given] = torch.get_num_threads()
    finally:
        torch.set_num_threads(1)
    return {"left": list(left.items())}


def tell_the_verifier_is_unreadable(root: Path) -> dict[str, Any]:
    Play(root, {})
    return {"dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}


# -- fingerprints ------------------------------------------------------------------------------------------------------

CHANGES = {
    "one_element_a_little": "y[517003] += 0.01",
    "one_element_a_lot": "y[0] += 5",
    "the_last_element": "y[-1] += 0.1",
    "two_elements_swapped": "y[[3, 700000]] = y[[700000, 3]]",
    "reversed": "y = y.flip(0)",
    "shifted": "y = y.roll(1)",
    "negated": "y = -y",
    "a_tail_cut": "y[-500:] = 0",
    "all_zeros": "y = torch.zeros_like(y)",
    "stale": "y = kept",
    "scaled_by_a_thousandth": "y = y * 1.001",
    "one_nan": "y[77] = float('nan')",
    "one_inf": "y[77] = float('inf')",
}


def tell_changes(root: Path) -> dict[str, Any]:
    """Every change is made in a later call of a rung that was honest when it was verified."""
    told: dict[str, Any] = {}
    for name, change in CHANGES.items():
        code = (
            "import torch\n\ncalls = 0\nkept = torch.zeros(1_000_003)\n\n\n"
            "def run(x):\n    global calls\n    calls += 1\n    y = x * 2\n"
            "    if calls == 2:\n        kept.copy_(y + 1)\n"
            f"    if calls > 3:\n        {change}\n    return y\n"
        )
        play = Play(root / name, {"optimized.py": code}, axes="{ N = 1000003 }", sets=1)
        arm = play.arm()
        verified, honest, changed = (play.execute(arm).fingerprint for _ in range(3))
        told[name] = [notices(verified, honest), notices(verified, changed)]
    return told


def tell_every_single_element(root: Path) -> dict[str, Any]:
    """Sizes around the width of the projection, one element changed at each of some places."""
    told: dict[str, Any] = {}
    for count in (1, 2, 4095, 4096, 4097, 8192, 3 * 4096 + 1, 5000):
        play = Play(root / str(count), {}, axes=f"{{ N = {count} }}", sets=1)
        arm = play.arm()
        play.execute(arm)
        base = torch.randn(count, generator=torch.Generator().manual_seed(1))
        before = arm._fingerprint((base,))
        missed = []
        for place in {0, 1 % count, count // 2, count - 1, 4095 % count, 4096 % count, 8191 % count}:
            changed = base.clone()
            changed[place] += 0.05
            after = arm._fingerprint((changed,))
            if not notices(before, after):
                missed.append(place)
        told[str(count)] = missed
    return told


def tell_swaps(root: Path) -> dict[str, Any]:
    """Elements and whole rows of a tile that changed places, 60 pairs each: how many went unnoticed."""
    play = Play(root, {}, axes="{ N = 1 }")
    arm = play.arm()
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(64, 4096, generator=generator)
    before = arm._fingerprint((base,))
    missed = {"rows": 0, "columns": 0, "elements": 0}
    for _ in range(60):
        first, second = torch.randperm(64, generator=generator)[:2].tolist()
        rows, columns, elements = base.clone(), base.clone(), base.clone()
        rows[[first, second]] = base[[second, first]]
        columns[:, [first, second]] = base[:, [second, first]]
        elements[first, 5], elements[second, 9] = base[second, 9], base[first, 5]
        for name, changed in (("rows", rows), ("columns", columns), ("elements", elements)):
            missed[name] += not notices(before, arm._fingerprint((changed,)))
    return missed


def tell_fingerprints_of_what_is_not_finite(root: Path) -> dict[str, Any]:
    """Masked scores hold -inf, empty rows NaN: the rest of such an output must still be looked at."""
    play = Play(root, {}, axes="{ N = 1 }")
    arm = play.arm()
    generator = torch.Generator().manual_seed(2)
    told: dict[str, Any] = {}

    def compared(base: torch.Tensor, changed: torch.Tensor) -> list[bool]:
        before, again, after = (arm._fingerprint((tensor,)) for tensor in (base, base, changed))
        return [notices(before, again), notices(before, after)]

    for name, mark in (("nan", float("nan")), ("inf", float("inf")), ("minus_inf", -float("inf"))):
        base = torch.randn(10_000, generator=generator)
        base[::7] = mark
        value = base.clone()
        value[1] += 1.0
        moved = base.clone()
        moved[7], moved[8] = base[8], base[7]
        finite = base.clone()
        finite[7] = 0.0
        told[name] = {
            "value": compared(base, value),
            "moved": compared(base, moved),
            "finite": compared(base, finite),
            "zeros": compared(base, torch.zeros_like(base)),
        }
    both = torch.randn(10_000, generator=generator)
    both[3], both[4] = float("inf"), -float("inf")
    swapped = both.clone()
    swapped[3], swapped[4] = both[4], both[3]
    told["signs"] = {"swapped": compared(both, swapped)}
    huge = torch.randn(10_000, generator=generator) * 1e30  # squares that overflow
    changed = huge.clone()
    changed[5] *= 2
    told["huge"] = {"value": compared(huge, changed), "zeros": compared(huge, torch.zeros_like(huge))}
    return told


def tell_fingerprints_of_every_dtype(root: Path) -> dict[str, Any]:
    play = Play(root, {}, axes="{ N = 1 }")
    arm = play.arm()
    told: dict[str, Any] = {}
    base = torch.arange(5000) % 100
    for name in ("float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int64", "bool"):
        dtype = getattr(torch, name)
        first = base.to(dtype)
        second = base.clone()
        second[1234] = 0 if name == "bool" else 55
        prints = [arm._fingerprint((t,)) for t in (first, second.to(dtype))]
        told[name] = notices(*prints)
    empty = arm._fingerprint((torch.empty(0, 3),))
    scalar = arm._fingerprint((torch.tensor(2.0),))
    told["empty"], told["scalar"] = empty, scalar
    return told


def tell_fingerprints_side_by_side(root: Path) -> dict[str, Any]:
    """As on a GPU: of several calls at once, beside those of each by itself and of another output in its place."""
    arm = Play(root, {}, axes="{ N = 1 }").arm()
    generator = torch.Generator().manual_seed(4)
    told: dict[str, Any] = {}
    names = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int64", "bool")
    with mock.patch.multiple(arm_module, LAUNCHING=("cpu",), TOGETHER=3 * 9000):
        for name in names:
            for count in (0, 1, 7, 4096, 9000):
                drawn = torch.randint(0, 100, (5, count), generator=generator).to(getattr(torch, name))
                differs = [bool((row != drawn.double()[0]).any()) for row in drawn.double()]
                outputs = list(drawn.reshape(5, count, 1).transpose(1, 2))
                prints = arm._fingerprints([(output, outputs[0]) for output in outputs])
                each = [prints[6 * i : 6 * i + 3] for i in range(5)]
                told[f"{name} {count}"] = [
                    len(prints) == 5 * 2 * 3,
                    not any(notices(arm._fingerprint((o,)), found) for o, found in zip(outputs, each, strict=True)),
                    [notices(each[0], found) for found in each] == differs,
                ]
        odd = [torch.full((50,), value) for value in (math.nan, math.inf, -math.inf, 1e30, 0.0)]
        found = arm._fingerprints([(output,) for output in odd])
        told["odd"] = [found[3 * i : 3 * i + 3] == arm._fingerprint((output,)) for i, output in enumerate(odd)]
    return told


# -- inputs ------------------------------------------------------------------------------------------------------------


def tell_mutable_inputs_are_restored(root: Path) -> dict[str, Any]:
    code = "def run(x):\n    x += 1\n    return x * 2 - 2\n"
    play = Play(root, {"optimized.py": code}, inputs='x = "float32 [N] normal mutable"')
    arm = play.arm()
    before = [play.right(arm, number) for number in (0, 1, 0)]
    play.warm(arm)
    batches = play.measure(arm, [0, 1, 1, 0])
    prints = {0: play.execute(arm, 0).fingerprint, 1: play.execute(arm, 1).fingerprint}
    timed = [
        not notices(prints[number], batch.fingerprints[i * 3 : i * 3 + 3])
        for batch in batches
        for i, number in enumerate(batch.sets)
    ]
    return {"right": before, "timed": timed}


def tell_static_inputs_are_left_alone(root: Path) -> dict[str, Any]:
    code = "def prepare(x, w):\n    w.mul_(2)\n    return lambda x, w: x * w\n"
    play = Play(
        root,
        {
            "reference.py": "def run(x, w):\n    return x * w * 2\n",
            "baseline.py": "def run(x, w):\n    return x * w * 2\n",
            "optimized.py": f"{code}\n\ndef run(x, w):\n    return x * w * 2\n",
        },
        inputs='x = "float32 [N] normal"\nw = "float32 [N] normal static"',
    )
    arm = play.arm()
    return {
        "right": [play.right(arm, number) for number in (0, 1, 0)],
        "slots": [[slot.name for slot in made.slots] for made in play.inputs],
    }


def tell_addresses_last(root: Path) -> dict[str, Any]:
    code = """
import torch

def prepare(x, w, c):
    seen = [t.data_ptr() for t in (x, w, c)]

    def call(x, w, c):
        same = [t.data_ptr() for t in (x, w, c)] == seen
        return x * w * 2 if same else torch.zeros_like(x)

    return call

def run(x, w, c):
    return x * w * 2
"""
    reference = "def run(x, w, c):\n    return x * w * 2\n"
    play = Play(
        root,
        {"reference.py": reference, "baseline.py": reference, "optimized.py": code},
        inputs='x = "float32 [N] normal"\nw = "float32 [N] positive static"\nc = "float32 [4] ones cpu"',
        sets=3,
    )
    arm = play.arm()
    right = [play.right(arm, number) for number in (0, 1, 2, 0)]
    play.warm(arm)
    play.measure(arm, [2, 1, 0])
    return {"right": [*right, play.right(arm, 1)]}


def tell_what_was_computed_in_prepare_is_stale(root: Path) -> dict[str, Any]:
    code = "def prepare(x):\n    y = x * 2\n    return lambda x: y\n\n\ndef run(x):\n    return x * 2\n"
    play = Play(root, {"optimized.py": code})
    arm = play.arm()
    return {"other_set_right": play.right(arm, 1)}


HOSTILE = """
import contextlib
import mmap
import os

import torch

tried = []

def run(x, w):
    if not tried:
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if "memfd:aisp" in os.readlink(f"/proc/self/fd/{name}"):
                    tried.append(name)
                    overwrite(int(name))
    return x * w * 2

def overwrite(file):
    size = max(os.fstat(file).st_size, 1)
    def by_torch():
        torch.UntypedStorage.from_file(f"/proc/self/fd/{file}", shared=True, nbytes=size).fill_(0x2A)
    def by_mapping():
        mmap.mmap(file, size)[:] = b"*" * size
    for way in (lambda: os.pwrite(file, b"*" * size, 0), by_torch, by_mapping):
        with contextlib.suppress(OSError, RuntimeError):
            way()
"""


def tell_shared_memory_is_not_handed_to_the_rung(root: Path) -> dict[str, Any]:
    """Whoever writes into the shared files of inputs changes nothing, for itself, for others and for the verifier."""
    run = "def run(x, w):\n    return x * w * 2\n"
    files = {"reference.py": run, "baseline.py": run, "optimized.py": run, "wrong_writer.py": HOSTILE}
    play = Play(root, files, inputs='x = "float32 [N] normal"\nw = "float32 [N] positive static"')
    before = [[view.tolist() for view in tensors.read(made)] for made in play.inputs]
    hostile = play.arm("wrong_writer")
    tried = len(sys.modules["wrong_writer"].tried)
    arm = play.arm()
    after = [[view.tolist() for view in tensors.read(made)] for made in play.inputs]
    right = [play.right(one, number) for one in (hostile, arm) for number in (0, 1)]
    return {"right": right, "same": before == after, "tried": tried >= len(play.inputs)}


def tell_several_cases(root: Path) -> dict[str, Any]:
    play = Play(root, {}, cases=RAGGED)
    ragged = play.pose(case="ragged")
    arm = play.arm()
    arm.take_inputs(jobs.TakeInputs(case="ragged", made_seed=play.made_seed("ragged"), sets=[ragged]))
    unprepared = error_of(lambda: arm.execute(jobs.Execute(case="ragged", set_index=0, outputs=blob())))
    arm.prepare(jobs.Prepare(case="ragged"))
    small = arm.execute(jobs.Execute(case="ragged", set_index=0, outputs=blob()))
    judged = play.verdict(small.outputs, case="ragged")
    return {
        "ragged": judged.right,
        "shape": small.outputs.slots[0].shape,
        "default": play.right(arm),
        "unprepared": unprepared["summary"],
    }


class BatchTimer(CudaTimer):
    """Times several calls as on a GPU, without one: what is asked here is which calls on which buffers."""

    def __init__(self, *, warm: bool = False, captures: bool = True) -> None:
        self.timing = Timing.WARM if warm else Timing.COLD
        self._warm = warm
        self._captures = captures
        self.resolution_ms = self.probe_step_ms = self.probe_overhead_ms = None
        self._held, self._empty_ms = False, 0.0  # nothing is taken off
        self.reference_mhz = math.nan

    def warm_up(self, launches: LaunchBatch, refill: Callable[[], None], budget_ms: float) -> WarmedUp:
        self.sample(launches, refill)
        return WarmedUp(0.01, 1)

    def graph(self, calls: Sequence[Callable[[], Any]]) -> LaunchBatch:
        if not self._captures:
            raise CaptureError("not while capturing")
        return LaunchBatch(lambda: [call() for call in calls], len(calls), "graph")

    def sample(self, launches: LaunchBatch, refill: Callable[[], None]) -> Sample:
        refill()
        outputs = launches.launch()
        self.timing = Timing(self.timing.value.split()[0] + ("" if launches.kind == "single" else f" {launches.kind}"))
        return Sample(0.01, 0.01, time.monotonic_ns(), 0, 1000.0, outputs)


def tell_batches(root: Path) -> dict[str, Any]:
    """Several calls in one sample."""
    scale = "def prepare(x, w):\n    kept = w * 2\n    return lambda x, w: x * kept\n\n\ndef run(x, w):\n    return x\n"
    sleeper = scale.replace("    kept", "    import time\n    time.sleep(0.7)\n    kept", 1)
    own = 'x = "float32 [N] normal"\nw = "float32 [N] normal static"'
    plain = "def run(x, w):\n    return x * w * 2\n"
    files = {"reference.py": plain, "baseline.py": plain, "optimized.py": plain, "optimized_prepared.py": scale}
    keeps = "kept = []\n\n\ndef run(x, w):\n    if not kept:\n        kept.append(x * 0)\n"
    keeps += "    kept[0].copy_(x * w * 2)\n    return kept[0]\n"
    once = "made = {}\n\n\ndef prepare(x, w):\n    made['x'] = x\n    return lambda x, w: made['x'] * w * 2\n"
    once += "\n\ndef run(x, w):\n    return x\n"
    more = {"optimized_slow.py": sleeper, "optimized_keeps.py": keeps, "optimized_once.py": once}
    play = Play(root, files | more, inputs=own)

    def ready(rung: str, **timer: bool) -> Arm:
        arm = play.arm(rung)
        arm._timer = BatchTimer(**timer)
        play.warm(arm)
        return arm

    def told(arm: Arm, kind: str = "graph", calls: int = 6, free_bytes: int = 1 << 30) -> list[Any]:
        torch.cuda.mem_get_info = lambda: (free_bytes, free_bytes)  # type: ignore[assignment]
        found = arm.group(jobs.Group(case="default", kind=kind, calls=calls))
        return [found.kind, found.calls, found.timing, found.note]

    def judged(arm: Arm, sets: list[int]) -> list[Any]:
        """Whether every call of a sample has the fingerprint that the engine knows for its set."""
        known = {number: play.execute(arm, number).fingerprint for number in (0, 1)}
        (batch,) = play.measure(arm, sets)
        prints = [batch.fingerprints[3 * i : 3 * i + 3] for i in range(len(batch.sets))]
        same = [prints[i] == known[number] for i, number in enumerate(batch.sets)]
        return [batch.calls, len(batch.device_ms), all(same), batch.sets]

    graph, prepared, batched = ready("optimized"), ready("optimized_prepared"), ready("optimized", captures=False)
    warm, slow = ready("optimized", warm=True), ready("optimized_slow")
    room_for_three = 4 * 3 * (16 * 4 * 2 + 16 * 8)
    result: dict[str, Any] = {
        "graph": [told(graph), judged(graph, [0, 1, 1, 0, 1, 0] * 2)],
        "own_buffers": len({b.data_ptr() for own in graph._grouped.buffers for b in own}),  # type: ignore[attr-defined]
        "prepared": [told(prepared), judged(prepared, [0, 1, 1, 0, 1, 0])],
        "batch": told(batched),
        "warm": [told(warm), judged(warm, [0, 1, 1, 0, 0, 1])],
        "slow": told(slow),
        "keeps": [play.right(ready("optimized_keeps"), 1), *told(ready("optimized_keeps"))],
        "once": [play.right(ready("optimized_once"), 1), *told(ready("optimized_once"))],
        "small": told(ready("optimized"), free_bytes=room_for_three),
        "alone_again": told(graph, "single"),
    }
    result["last_right"] = play.verdict(prepared.last_outputs(jobs.FetchLast(outputs=blob())).outputs, 0).right
    on_cpu = play.arm("optimized")
    play.warm(on_cpu)
    result["cpu"] = told(on_cpu)
    return result


def tell_made_inputs(root: Path) -> dict[str, Any]:
    make = """
import torch

def make(axes, device, generator):
    layer = torch.nn.Linear(axes["N"], axes["N"], bias=False).requires_grad_(False)
    layer.weight.copy_(torch.randn(axes["N"], axes["N"], generator=generator))
    return {"model": {"layers": [layer], "table": torch.arange(axes["N"]), "eps": 1e-3, "name": "m"}}
"""
    reference = """
import torch

def run(x, model):
    layer = model["layers"][0]
    assert x.dtype is torch.float64, x.dtype
    assert layer.weight.dtype is torch.float64, layer.weight.dtype
    assert model["table"].dtype is torch.int64
    assert (model["eps"], model["name"]) == (1e-3, "m")
    y = layer(x)[model["table"]] + model["eps"]
    layer.weight.zero_()   # spoils nothing for the next set
    x.zero_()
    return y
"""
    honest = (
        "import torch\n\n\ndef run(x, model):\n    assert model['layers'][0].weight.dtype is torch.float32\n"
        "    return model['layers'][0](x)[model['table']] + model['eps']\n"
    )
    play = Play(
        root,
        {"inputs.py": make, "reference.py": reference, "baseline.py": honest, "optimized.py": honest},
        inputs='x = "float32 [N] normal"\nmodel = "made static"',
        sets=3,
    )
    arm = play.arm()
    return {"right": [play.right(arm, number) for number in range(3)]}


# -- outputs -----------------------------------------------------------------------------------------------------------

FORMS = {
    "too_many": "return x * 2, x",
    "none_at_all": "return ()",
    "nothing": "return None",
    "a_list_of_numbers": "return [1.0] * 16",
    "numpy": "return (x * 2).numpy()",
    "a_parameter": "return torch.nn.Parameter(x * 2)",
    "a_subclass": "return (x * 2).as_subclass(Lazy)",
    "shape": "return (x * 2).reshape(4, 4)",
    "a_scalar": "return (x * 2).sum()",
    "dtype": "return (x * 2).double()",
    "a_list_of_one": "return [x * 2]",
    "strided": "return torch.stack([x * 2, x], 1)[:, 0]",
    "with_grad": "return (x * 2).requires_grad_()",
    "a_named_tuple": "return Named(x * 2)",
    "a_dict": "return {'y': x * 2}",
    "a_lazy_list": "return LazyList([x])",
    "a_pretended_tuple": "return Pretends()",
    "an_own_detach": "y = x.clone(); y.detach = lambda: y.mul_(2); return y",
    "a_negative_view": "return torch._neg_view(x * -2)",
}


CLASSES = """import torch
from collections import namedtuple

Named = namedtuple("Named", "y")


class Lazy(torch.Tensor):
    pass


class LazyList(list):
    def __iter__(self):
        return iter([self[0] * 2])


class Pretends:
    __class__ = tuple
"""


def tell_forms(root: Path) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, line in FORMS.items():
        code = f"{CLASSES}\n\ndef run(x):\n    {line}\n"
        play = Play(root / name, {"optimized.py": code})
        arm = play.arm(prepared=False)
        told[name] = error_of(lambda arm=arm: arm.prepare(jobs.Prepare(case="default")))  # type: ignore[misc]
        if told[name]["kind"] == "none":
            told[name]["right"] = play.right(arm)
    return told


def tell_a_form_that_changes_while_timed(root: Path) -> dict[str, Any]:
    counted = "calls = 0\n\n\ndef run(x):\n    global calls\n    calls += 1\n    y = x * 2\n"
    code = f"{counted}    return y if calls < 20_000 else y[:3]\n"
    play = Play(root, {"optimized.py": code})
    arm = play.arm()
    play.warm(arm)
    return error_of(lambda: play.measure(arm, [0] * 100_000))


# -- timing ------------------------------------------------------------------------------------------------------------


def tell_samples(root: Path) -> dict[str, Any]:
    play = Play(root, {}, sets=3)
    arm = play.arm()
    early = error_of(lambda: play.measure(arm, [0]))
    warmed = play.warm(arm)
    book = engine_side()
    book.verified = {number: play.execute(arm, number).fingerprint for number in range(3)}
    sets = [0, 1, 2, 2, 1, 0, 0, 1] * 5
    for number in range(2):
        for batch in play.measure(arm, sets, number=number):
            book.take(batch)
    done = arm.done()
    arms.check_done(book, done, wall_ms=1e6)
    last = arm.last_outputs(jobs.FetchLast(outputs=blob()))
    log = book.arm.samples
    return {
        "early": early["summary"],
        "timing": warmed.timing,
        "per_call_ms": warmed.per_call_ms,
        "calls": warmed.calls,
        "sets": log.inputs == sets * 2,
        "count": [len(log.device_ms), done.samples],
        "positive": all(ms > 0 for ms in log.device_ms),
        "rounds": log.round == [0] * 40 + [1] * 40,
        "replicas": set(log.replica) == {7},
        "in_order": log.end_ns == sorted(log.end_ns),
        "discarded": sum(log.discarded),
        "last_set": last.set_index,
        "last_right": play.verdict(last.outputs, last.set_index).right,
        "collecting": __import__("gc").isenabled(),
    }


def tell_nothing_timed(root: Path) -> dict[str, Any]:
    play = Play(root, {})
    arm = play.arm()
    done = arm.done()
    return {"set": arm.last_outputs(jobs.FetchLast(outputs=blob())).set_index, "samples": done.samples}


def tell_the_last_output_as_it_is_now(root: Path) -> dict[str, Any]:
    """A rung that spoils its last output afterwards is found out by its last outputs."""
    code = """
kept = []

def run(x):
    for y in kept:
        y.zero_()
    kept.clear()
    y = x * 2
    kept.append(y)
    return y

def spoil():
    kept[0].zero_()
"""
    play = Play(root, {"optimized.py": code})
    arm = play.arm()
    play.warm(arm)
    play.measure(arm, [0, 1])
    arm._run.__globals__["spoil"]()
    last = arm.last_outputs(jobs.FetchLast(outputs=blob()))
    return {"set": last.set_index, "right": play.verdict(last.outputs, 1).right}


def tell_a_budget(root: Path) -> dict[str, Any]:
    code = "import time\n\n\ndef run(x):\n    time.sleep(0.015)\n    return x * 2\n"
    play = Play(root, {"optimized.py": code})
    arm = play.arm()
    play.warm(arm)
    none = play.measure(arm, [0] * 50, budget_ms=0)
    some = play.measure(arm, [0] * 50, budget_ms=100)
    all_of_them = play.measure(arm, [0, 1, 0])
    slow = play.measure(arm, [0] * 12)
    return {
        "none": [len(batch.sets) for batch in none],
        "some": sum(len(batch.sets) for batch in some),
        "all": sum(len(batch.sets) for batch in all_of_them),
        "lasts": [[batch.last for batch in part] for part in (none, some, all_of_them, slow)],
        "slowest_ms": max(ms for batch in slow for ms in batch.device_ms),
        "fastest_ms": min(ms for batch in slow for ms in batch.device_ms),
        "batches": len(slow),
    }


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def tell_lesson_errors(root: Path) -> dict[str, Any]:
    told: dict[str, Any] = {}

    def rung(name: str, code: str) -> dict[str, Any]:
        play = Play(root / name, {"optimized.py": code})
        return error_of(lambda: play.arm(), play.target.folder)

    told["no_run"] = rung("no_run", "def go(x):\n    return x * 2\n")
    told["run_is_no_function"] = rung("run_is_no_function", "run = 5\n")
    told["prepare_is_no_function"] = rung("prepare_is_no_function", "prepare = 5\n\n\ndef run(x):\n    return x * 2\n")
    told["prepare_alone"] = rung("prepare_alone", "def prepare(x):\n    return lambda x: x * 2\n")
    told["prepare_is_none"] = rung("prepare_is_none", "prepare = None\n\n\ndef run(x):\n    return x * 2\n")
    told["prepare_takes_nothing"] = rung("prepare_takes_nothing", "def prepare():\n    return lambda x: x * 2\n")
    told["too_many_arguments"] = rung("too_many_arguments", "def run(x, y):\n    return x * 2\n")
    told["too_few_arguments"] = rung("too_few_arguments", "def run():\n    return 2\n")
    told["keyword_only"] = rung("keyword_only", "def run(*, x):\n    return x * 2\n")
    told["prepare_returns_nothing"] = rung(
        "prepare_returns_nothing", "def prepare(x):\n    x.sum()\n\n\ndef run(x):\n    return x * 2\n"
    )
    told["any_arguments"] = rung("any_arguments", "def run(*inputs):\n    return inputs[0] * 2\n")
    told["syntax"] = rung("syntax", "def run(x):\n    return x *\n")
    told["import"] = rung("import", "import no_such_module\n\n\ndef run(x):\n    return x * 2\n")
    told["memory"] = rung("memory", "def run(x):\n    raise MemoryError('64 GiB')\n")
    play = Play(root / "missing", {})
    (play.target.folder / "optimized.py").unlink()
    told["missing"] = error_of(lambda: play.arm(), play.target.folder)
    return told


def tell_reference_errors(root: Path) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, code in {
        "shape": "def run(x):\n    return x[:3]\n",
        "count": "def run(x):\n    return x, x\n",
        "type": "def run(x):\n    return 5\n",
        "raises": "def run(x):\n    raise ArithmeticError('no')\n",
    }.items():
        told[name] = error_of(partial(Play, root / name, {"reference.py": code}), root / name / "one")
    return told


def tell_tracebacks(root: Path) -> dict[str, Any]:
    helper = "import torch\n\n\ndef inner(x):\n    return torch.ones(3) @ x\n"
    code = """
import deep.helper

def run(x):
    try:
        return deep.helper.inner(x)
    except RuntimeError as error:
        raise ValueError("the tile does not fit") from error
"""
    play = Play(root, {"deep/helper.py": helper, "deep/__init__.py": "", "optimized.py": code})
    folder = play.target.folder
    arm = play.arm(prepared=False)
    told: dict[str, Any] = {"chained": error_of(lambda: arm.prepare(jobs.Prepare(case="default")), folder)}
    told["folder"] = str(folder)

    def traced(work: Callable[[], object]) -> str:
        try:
            work()
        except BaseException as error:
            return user_traceback(error, folder)
        return ""

    def suppressed() -> None:
        try:
            raise KeyError("hidden")
        except KeyError:
            raise ValueError("shown") from None

    def circular() -> None:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    def long_winded() -> None:
        raise ValueError("x" * 1_000_000)

    def recursive() -> None:
        recursive()

    (folder / "baseline.py").write_text("def run(n):\n    return run(n + 1)\n")
    endless = play.arm("baseline", prepared=False)._run
    told["endless"] = traced(lambda: endless(0))
    (folder / "deep" / "broken.py").write_text("def run(x):\n    return x *\n")
    (folder / "optimized.py").write_text("import deep.broken\n")
    told["syntax"] = traced(lambda: Arm(play.load("optimized"), play.target, 0))
    told["suppressed"] = traced(suppressed)
    told["circular"] = traced(circular)
    told["long"] = len(traced(long_winded))
    told["recursive"] = len(traced(recursive))
    told["foreign"] = traced(lambda: json.loads("{"))
    return told


# -- defences ----------------------------------------------------------------------------------------------------------

KEPT = """
import torch

kept = None

def run(x):
    global kept
    if kept is None:
        kept = torch.empty_like(x)
        kept.copy_(x * 2)
    return kept
"""
REWRITTEN = """
import torch

kept = None

def run(x):
    global kept
    if kept is None:
        kept = torch.empty_like(x)
    torch.mul(x, 2, out=kept)
    return kept
"""
BY_ADDRESS = """
known = {}

def run(x):
    if x.data_ptr() not in known:
        known[x.data_ptr()] = len(known)
    return x * 2 + known[x.data_ptr()]
"""


def facts_of(arm: Any) -> dict[str, Any]:
    """What the sensors of a process noted, by sensor's name, as plain data."""
    (sensed,) = arm.inspect().sensed
    return {name: msgspec.msgpack.decode(facts) for name, facts in sensed.facts.items()}


def tell_poison(root: Path) -> dict[str, Any]:
    """The same set again and again: without poison a kept output would be right by chance."""
    told: dict[str, Any] = {}
    for name, code in (("kept", KEPT), ("rewritten", REWRITTEN)):
        play = Play(root / name, {"optimized.py": code}, sets=1)
        arm = play.arm()
        told[name] = [play.right(arm), play.right(arm)]
        told[f"{name}_facts"] = facts_of(arm)["poison"]
    integers = "def run(x):\n    return x > 0\n"
    files = {"reference.py": integers, "baseline.py": integers, "optimized.py": integers}
    play = Play(root / "bool", files, outputs='y = "bool [N]"', sets=1)
    arm = play.arm()
    told["bool"] = [play.right(arm), play.right(arm)]
    return told


def tell_moved_buffers(root: Path) -> dict[str, Any]:
    play = Play(root, {"optimized.py": BY_ADDRESS})
    arm = play.arm()
    moved = arm.execute(jobs.Execute(case="default", set_index=1, outputs=blob(), moved=True))
    sustained = arm.sustain(jobs.Sustain(case="default", calls=4)).calls
    return {"in_place": play.right(arm, 1), "moved": play.verdict(moved.outputs, 1).right, "sustained": sustained}


def tell_margins(root: Path) -> dict[str, Any]:
    code = (
        "def run(x):\n    raw = x.untyped_storage()\n    return x * 2 + (raw.nbytes() - x.numel() * 4 - "
        "2 * 256) + x.storage_offset() * 4 - 256\n"
    )
    play = Play(root, {"optimized.py": code})
    return {"right": play.right(play.arm())}


def tell_left_out(root: Path) -> dict[str, Any]:
    """Without the check of the form a reader takes what he gets."""
    code = "def run(x):\n    return (x * 2).double()\n"
    play = Play(root, {"optimized.py": code})
    told = {"with": error_of(lambda: play.arm())["kind"]}
    arm = Arm(msgspec.structs.replace(play.load("optimized"), without=["output.form", "output.poison"]), play.target, 0)
    arm.take_inputs(jobs.TakeInputs(case="default", made_seed=play.made_seed("default"), sets=play.inputs))
    arm.prepare(jobs.Prepare(case="default"))
    return told | {"without": play.right(arm), "poison": "poison" in facts_of(arm)}


def tell_a_sensor_that_fails(root: Path) -> dict[str, Any]:
    class Clumsy(registry.Sensor[registry.Facts]):
        name = "clumsy"

        def after_call(self, call: registry.Call) -> None:
            raise ValueError("its own fault")

    class Seen(registry.Facts):
        seen: list[str]

    class Witness(registry.Sensor[Seen]):
        name = "witness"

        def __init__(self, site: registry.Site) -> None:
            super().__init__(site)
            self.seen: list[str] = []

        def before_import(self) -> None:
            self.seen.append(("optimized" in sys.modules and "import too late") or "before_import")

        def after_import(self) -> None:
            self.seen.append("after_import")

        def after_prepare(self, case: Any, buffers: Any) -> None:
            self.seen.append("after_prepare")

        def before_timing(self) -> None:
            self.seen.append("before_timing")

        def before_call(self, call: registry.Call) -> None:
            self.seen.append(f"before {call.stage} {len(call.outputs)}")

        def after_call(self, call: registry.Call) -> None:
            self.seen.append(f"after {call.stage} {len(call.outputs)} {call.sample is not None}")
            if call.stage == "verify":
                time.sleep(0.5)  # no cost of a sample

        def alone(self) -> None:
            self.seen.append(f"alone {self.site.launch_once is not None}")

        def after_timing(self) -> None:
            self.seen.append("after_timing")
            if self.site.call_once is not None:
                self.site.call_once()

        def facts(self) -> Seen:
            return Seen(seen=self.seen)

    def passes(arm: Any, run: Any) -> Any:
        return registry.passed("fine")

    made = [
        registry.Check(
            f"output.{kind.name}",
            "",
            "",
            (),
            registry.When.EACH_SAMPLE,
            arm=passes,
            sensor=kind,
            evidence=registry.Evidence.VALUES,
        )
        for kind in (Clumsy, Witness)
    ]
    sys.modules.pop("optimized", None)
    with mock.patch.object(registry, "checks", lambda: made):
        play = Play(root, {})
        arm = play.arm()
        right = play.right(arm)
        play.warm(arm)
        before = len(arm._sensors.all[1].seen)  # type: ignore[attr-defined]
        play.measure(arm, [0])
        arm.trace()
        inspected = arm.inspect()
    (sensed,) = inspected.sensed
    seen = msgspec.msgpack.decode(sensed.facts["witness"])["seen"]
    return {
        "right": right,
        "clumsy": sensed.failed["clumsy"],
        "first": seen[:6],
        "timed": seen[before:],
        "cost_us": inspected.cost_us,
    }


def main() -> None:
    """Run every scenario; one that fails tells its trace in place of its data."""
    base = Path(sys.argv[1])
    told: dict[str, Any] = {}
    for name, tell in list(globals().items()):
        if name.startswith("tell_"):
            try:
                told[name.removeprefix("tell_")] = tell(base / name)
            except Exception:
                told[name.removeprefix("tell_")] = {"failed": traceback.format_exc()}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
