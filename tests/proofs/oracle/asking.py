"""The process of one rung: poses cases in it, judges them in it, and writes a JSON line for each.

`python -m tests.proofs.oracle.asking JOB` reads a Job as JSON; lines are appended to its `lines`, so that whoever
waits knows how far it came when it dies. A line {"start": n} stands before the line of question n.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aisp.checks.oracle import comparator
from aisp.checks.oracle.comparator import Mismatch
from aisp.checks.oracle.schema import CYCLE, Case, Schema, Strategy, draw
from aisp.checks.oracle.shrink import Shrinker
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Target

if TYPE_CHECKING:
    from aisp.checks.oracle.examiner import Posed

DEFAULT_CASE = 1 << 24  # number of the case that a naive harness looks at, as in engine.fuzzing
SHRINK_S = 60.0
FAILING = ("wrong", "error", "crashed", "timeout")


@dataclass(frozen=True)
class Job:
    """What to ask one rung.

    Attributes:
        root, chapter: where the target's folder belongs; they decide its id, and so its seeds.
        small: cases of the size that Triton's interpreter can bear, whatever the device.
        seeds, cases: that many cases of each seed, strategies in turn.
        replay: failures to do again: {"seed", "case", "hashes", "sha256"}.
        shrink: the failure to make smaller, likewise; None for none.
        naive: ask the naive oracle as well.
        skip: questions that an earlier process came to.
        budget_s: no new case after that; 0 for no limit.
        strategy: draw in this way alone; "" for all in turn.
    """

    folder: str
    root: str
    chapter: str
    rung: str
    device: str
    lines: str
    small: bool = True
    seeds: tuple[int, ...] = ()
    cases: int = 0
    replay: tuple[Mapping[str, Any], ...] = ()
    shrink: Mapping[str, Any] | None = None
    naive: bool = False
    skip: int = 0
    budget_s: float = 0.0
    strategy: str = ""


@dataclass
class Told:
    """What one case came to: a store.outcomes.CaseVerdict and, where it is wrong, checks.oracle.comparator.Mismatch.

    Attributes:
        hashes: sha256 of each input, and as "changed/<input>" of each as the case's relation changed it.
        sha256: of the output that is wrong.
        max_error: worst error in units of what is allowed.
        stated: the verdict where the stated tolerances decide on the same outputs; "" where there was none to ask.
    """

    verdict: str
    finding: str = ""
    detail: str = ""
    hashes: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    max_error: float | None = None
    stated: str = ""

    @property
    def failing(self) -> bool:
        """Whether the rung is at fault."""
        return self.verdict in FAILING


class Subject:
    """One rung of one target, in this process."""

    def __init__(self, job: Job) -> None:
        from aisp.checks.oracle.examiner import Examiner

        self.job = job
        folder = Path(job.folder)
        found = catalog.load_target(folder, root=Path(job.root), chapter=job.chapter)
        if not isinstance(found, Target):
            raise SystemExit("; ".join(str(problem) for problem in found))
        self.target = found
        self.rung = found.rung(job.rung)
        self.schema = Schema.of(found, host=job.small)
        sys.path.insert(0, job.folder)
        self._make = _module("inputs").make if any(spec.made for spec in found.inputs) else None
        self._examiner = Examiner(found, _module("reference").run, self._make, job.device)
        self._module = _module(job.rung)

    def ask(self, case: Case, seed: int) -> Told:
        """Pose a case and its relation, and judge both."""
        if reason := self.rung.unsupported(case.axes):
            return Told("unsupported", detail=reason)
        try:
            posed = self._examiner.pose(case, seed)
        except Exception as error:
            return Told("skipped", detail=f"{type(error).__name__}: {error}")
        hashes = dict(posed.hashes)
        told = self._call(case, seed, posed, hashes, changed=False)
        if case.relation and told.verdict == "right":
            other = self._examiner.pose(case, seed, changed=True)
            if not other.impossible:
                hashes |= {f"changed/{name}": value for name, value in other.hashes.items()}
                second = self._call(case, seed, other, hashes, changed=True)
                if second.verdict != "right":
                    # A relation is asked of right values alone, and knows no policy.
                    second.stated = told.stated if told.stated == "wrong" else second.verdict
                    return second
        return told

    def naive(self) -> dict[str, dict[str, bool]]:
        """A naive oracle's word on the default case's shape, by dtype, the operator's own first; "" for that alone.

        A dtype where it has nothing to go by is left out.
        """
        names = [case.name for case in self.target.cases]
        axes = self.target.case("cpu" if self.job.device == "cpu" and "cpu" in names else "default").axes
        seed = self.job.seeds[0]
        said: dict[str, dict[str, bool]] = {}
        for index, dtype in enumerate(self.schema.dtypes or ("",)):
            case = Case(DEFAULT_CASE + index, Strategy.REGULAR, dict(axes), dtype)
            posed = self._examiner.pose(case, seed)
            try:
                opinion = self._examiner.naive(case, self._outputs(case, seed, posed.inputs))
            except Exception:
                opinion = {"allclose": False, "assert_close": False}
            if opinion:
                said[dtype] = opinion
        return said

    def _outputs(self, case: Case, seed: int, inputs: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        from aisp.checks.oracle.calling import attempt, keys_before

        made = self._examiner.made(case, seed)
        others = keys_before(self.target, case, seed)
        run, prepare = (getattr(self._module, name, None) for name in ("run", "prepare"))
        outputs = attempt(self.target, run, prepare, case, others, inputs, made, self.job.device)
        if self.job.device == "cuda":
            torch.cuda.synchronize()  # a fault shows here, not in the verifier's next operation
        return outputs

    def _call(self, case: Case, seed: int, posed: Posed, hashes: dict[str, str], *, changed: bool) -> Told:
        try:
            outputs = self._outputs(case, seed, posed.inputs)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            verdict = "memory" if "out of memory" in text else "error"
            return Told(verdict, "", text, dict(hashes), stated=verdict)
        opinions = self._examiner.judge(case, seed, self.job.rung, outputs, changed=changed)
        bad = next((opinion for opinion in opinions if opinion.finding is not Mismatch.NOTHING), None)
        errors = [opinion.max_error for opinion in opinions if opinion.max_error is not None]
        worst = max(errors, default=None)
        stated = "" if changed else self._stated(posed, outputs)
        if bad is None:
            return Told("right", hashes=dict(hashes), max_error=worst, stated=stated)
        return Told("wrong", str(bad.finding), bad.detail, dict(hashes), bad.sha256, worst, stated)

    def _stated(self, posed: Posed, outputs: Mapping[str, Any]) -> str:
        if posed.truth is None:  # it was judged stretch by stretch
            return ""
        truth = comparator.stated(self.target, posed.truth.outputs)
        opinions = comparator.judge(self.target, posed.case, outputs, truth, posed.inputs, full=False)
        return "right" if all(opinion.right for opinion in opinions) else "wrong"


def questions(job: Job, schema: Schema) -> Iterator[tuple[int, Case]]:
    """Seed and case of every question, in order."""
    for seed in job.seeds:
        for number in range(job.cases):
            strategy = Strategy(job.strategy) if job.strategy else CYCLE[number % len(CYCLE)]
            yield seed, draw(schema, seed, strategy, number)


def digest(hashes: Mapping[str, str]) -> str:
    """One hash of a case's inputs as drawn, without those that a relation changed."""
    lines = sorted(f"{name}={value}" for name, value in hashes.items() if not name.startswith("changed/"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def versions(device: str) -> dict[str, str]:
    """Of what a result depends on."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    found = {"python": sys.version.split()[0], "device": name}
    return found | {package: importlib.metadata.version(package) for package in ("torch", "triton", "numpy")}


def main() -> None:
    """See the module."""
    plain = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    prepare(plain["device"])
    work(Job(**{**plain, "seeds": tuple(plain["seeds"]), "replay": tuple(plain["replay"])}))


def prepare(device: str) -> None:
    """Import what every job needs; on a CPU a process that has done so can be forked for each job."""
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # decided when Triton is imported
        os.environ["OMP_NUM_THREADS"] = "1"  # a thread of a pool would be missing after a fork
    for name in ("torch", "triton", "aisp.checks.oracle.examiner", "aisp.checks.oracle.calling"):
        importlib.import_module(name)


def work(job: Job) -> None:
    """Ask everything, a line for each answer."""
    import torch

    torch.set_num_threads(1)
    subject = Subject(job)
    with Path(job.lines).open("a", encoding="utf-8", buffering=1) as out:

        def tell(line: Mapping[str, Any]) -> None:
            out.write(json.dumps(line) + "\n")

        tell({"ready": True, "versions": versions(job.device)})
        started = time.monotonic()
        for index, (seed, case) in enumerate(questions(job, subject.schema)):
            if index < job.skip:
                continue
            if job.budget_s and time.monotonic() - started > job.budget_s:
                break
            tell({"start": index, "seed": seed, "case": case.plain()})
            begin = _clock_s(job.device)
            told = subject.ask(case, seed)
            took_s = _clock_s(job.device) - begin
            tell({"index": index, "seed": seed, "case": case.plain(), "took_s": took_s, **asdict(told)})
            if "CUDA error" in told.detail:  # nothing can be asked in this process any more
                return
        if job.naive:
            tell({"naive": subject.naive()})
        for failure in job.replay:
            case = Case.of(failure["case"])
            told = subject.ask(case, failure["seed"])
            same_inputs, same_output = told.hashes == failure["hashes"], told.sha256 == failure["sha256"]
            again = same_inputs and same_output and told.failing
            tell({"replayed": again, "same_inputs": same_inputs, "same_output": same_output, "case": case.text})
        if job.shrink is not None:
            _shrink(subject, job.shrink, tell)
        tell({"done": True})


def _clock_s(device: str) -> float:
    """On a CPU the time of this one thread, which others on the machine do not lengthen; with a GPU the wall's."""
    return time.process_time() if device == "cpu" else time.monotonic()


def _shrink(subject: Subject, failure: Mapping[str, Any], tell: Any) -> None:
    search = Shrinker(subject.schema, Case.of(failure["case"]))
    detail, deadline = failure["detail"], time.monotonic() + SHRINK_S
    while time.monotonic() < deadline and (case := search.propose()) is not None:
        told = subject.ask(case, failure["seed"])
        search.answer(told.failing)
        detail = told.detail if told.failing else detail
    best = search.best
    tell({"smallest": best.text, "strategy": str(best.strategy), "detail": detail, "tries": search.tries})


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


if __name__ == "__main__":
    main()
