"""Every shipped lesson keeps its promises: honest rungs agree with the reference, wrong ones are refused.

No engine runs here: each target is judged in a process of its own, because rungs are top-level modules and Triton reads
TRITON_INTERPRET when a kernel is made. It is forked from one that has imported torch and Triton, `python -m
tests.kernels.test_lessons DEVICE`. A lesson for several ranks has as many processes with a group between them, and each
judges its own slice.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aisp.engine.spawner import BRIEF_SPIN
from aisp.engine.telemetry import Nvml
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Case, Flag, Kind, Role, Rung, Target, TensorSpec
from tests.proofs.pages import lessons
from tests.proofs.pages.markers import markers

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]
SEED = 20
MOST_WORDS = 900  # of a lesson of several ranks, without the table that is written from a finding
DRAWN_COLUMNS = 62  # of a drawing: what the lesson's pane has beside the table of rungs, in a terminal of 120 columns
MAX_ELEMENTS = 4 << 20  # of all inputs and outputs of a case: what a CPU checks in a second or two

FOUND = catalog.load()
TARGETS = [pytest.param(t, id=t.id, marks=pytest.mark.xdist_group(t.id)) for t in FOUND.targets]
each_target = pytest.mark.parametrize("target", TARGETS)

SECTIONS = {
    "the problem": r"problem",
    "the one change": r"change",
    "what the numbers should show and why": r"numbers.*(show|why)|expect",
    "when it does not help": r"not help",
    "what to try next": r"try next|exercise",
}


def runs_without_gpu(rung: Rung) -> bool:
    """Whether a machine with no GPU can execute the rung."""
    return rung.needs.gpus == 0 and not rung.gpu_only and rung.kind is not Kind.CUDA


def runs_on(rung: Rung, device: str) -> bool:
    """Whether this machine can execute the rung on that device."""
    if device == "cpu":
        return runs_without_gpu(rung)
    gpus = Nvml().devices()
    return rung.needs.missing(sm=gpus[0].sm, gpus=len(gpus)) is None


def small_cases(target: Target) -> list[Case]:
    """The cases that a CPU can check: `cpu`, and every small one that is there for correctness alone."""

    def elements(case: Case) -> int:
        specs = [spec for spec in (*target.inputs, *target.outputs) if not spec.made]
        return sum(math.prod(catalog.shape(spec, case.axes)) for spec in specs)

    chosen = [case for case in target.cases if case.name == "cpu" or not case.timed]
    return [case for case in chosen if elements(case) <= MAX_ELEMENTS]


# -- tests -------------------------------------------------------------------------------------------------


def test_the_shipped_catalogue_loads_without_a_problem() -> None:
    assert [str(problem) for problem in FOUND.problems] == []
    assert len(FOUND.targets) >= 40


def test_eight_targets_do_something_on_a_machine_without_a_gpu() -> None:
    useful = [t.id for t in FOUND.targets if any(runs_without_gpu(rung) for rung in t.honest_rungs)]
    assert len(useful) >= 8, useful


@each_target
def test_a_target_has_a_cpu_case_an_odd_case_and_a_wrong_variant(target: Target) -> None:
    names = [case.name for case in small_cases(target)]
    assert "cpu" in names
    odd = [
        case
        for case in small_cases(target)
        if not case.timed and any(size % 8 for size in case.axes.values() if size > 1)
    ]
    assert odd, f"no small untimed case has a size that 8 does not divide: {names}"
    wrong = [rung for rung in target.rungs if rung.role is Role.WRONG]
    assert any(runs_without_gpu(rung) for rung in wrong), "no wrong_* can be refused on a machine without a GPU"


def test_predictions_as_data_are_those_of_the_prose_and_say_what_an_h200_met() -> None:
    """`ch10:wgmma_gemm`: three of five rows met."""
    kept = {
        told["target"]: told["runs"][0]
        for told in json.loads((ROOT / "docs/results/h200.json").read_text("utf-8"))["targets"]
    }
    predicted = {
        (target.id, rung.name): rung.expect for target in FOUND.targets for rung in target.rungs if rung.expect
    }
    assert len(predicted) > 250
    times = {arm["rung"]: arm["median_ms"] for arm in kept["ch10:wgmma_gemm"]["rungs"]}
    met = {rung: predicted["ch10:wgmma_gemm", rung].judged(ms=time)["ms"] for rung, time in times.items()}
    assert [rung for rung, in_range in met.items() if not in_range] == ["baseline", "optimized_wgmma"]
    for target, rung in predicted:
        ms = predicted[target, rung].ms
        assert ms is None or all(f"{end:g}" in _figures(target) for end in ms), (
            f"{target} {rung}: {ms} is not in the prose"
        )


@functools.cache
def _figures(target: str) -> frozenset[str]:
    """Every number of a lesson's prose as it would be printed, as it stands and from us to ms."""
    numbers = [float(figure) for figure in re.findall(r"\d+(?:\.\d+)?", FOUND.find(target).lesson)]
    return frozenset(f"{number / unit:g}" for number in numbers for unit in (1, 1000))


def test_the_candidate_that_passes_its_gate_is_shown_as_a_win_and_not_as_a_baseline() -> None:
    (passed,) = [rung for rung in FOUND.find("ch20:gated_candidate").rungs if "candidate" in rung.name]
    assert passed.role is Role.OPTIMIZED


@each_target
@pytest.mark.slow
def test_honest_rungs_agree_with_the_reference_on_a_cpu(target: Target) -> None:
    check_honest(target, "cpu")


@each_target
def test_wrong_variants_are_refused_on_a_cpu(target: Target) -> None:
    check_wrong(target, "cpu")


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="there is no NVIDIA GPU here")
@each_target
def test_all_rungs_are_judged_rightly_on_a_gpu(target: Target) -> None:
    if target.ranks > 1:
        pytest.skip(f"wants {target.ranks} GPUs; its ranks are judged on the CPU above")
    check_honest(target, "cuda")
    check_wrong(target, "cuda")


@each_target
def test_the_lesson_tells_the_whole_story(target: Target) -> None:
    headings = re.findall(r"^##+\s+(.+)$", target.lesson, re.MULTILINE)
    missing = [
        section
        for section, pattern in SECTIONS.items()
        if not any(re.search(pattern, heading, re.IGNORECASE) for heading in headings)
    ]
    assert missing == [], f"headings are {headings}"
    for heading in headings:
        body = target.lesson.split(heading, 1)[1].split("\n## ", 1)[0]
        assert len(body.split()) >= 20, f"there is next to nothing under {heading!r}"


@pytest.mark.parametrize(
    "target", [target for target in FOUND.targets if target.ranks > 1], ids=lambda target: target.id
)
def test_a_lesson_of_several_ranks_draws_its_idea_where_it_can_be_seen_whole(target: Target) -> None:
    begin, end = markers(lessons.NAME)
    prose = re.sub(f"{begin}.*?{end}", "", target.lesson, flags=re.DOTALL)
    assert len(prose.split()) <= MOST_WORDS
    drawings = re.findall(r"^```\n(.*?)^```$", target.lesson, re.MULTILINE | re.DOTALL)
    assert drawings, "no fenced block without a language: draw what one rank does beside another, or the road of a byte"
    lines = "".join(drawings).splitlines()
    assert all(line.isascii() for line in lines), "not every terminal has more than ASCII"
    assert [line for line in lines if len(line) > DRAWN_COLUMNS] == []


@each_target
def test_the_prediction_was_written_down_with_its_reason(target: Target) -> None:
    assert target.expect is not None
    low, high = target.expect.speedup
    assert 0 < low < high
    assert len(target.expect.why.split()) >= 5
    assert target.expect.on


@each_target
def test_every_rung_says_in_a_line_what_it_changes(target: Target) -> None:
    assert [rung.name for rung in target.rungs if not rung.summary] == []


@each_target
def test_every_chapter_says_what_it_teaches(target: Target) -> None:
    chapter = next(chapter for chapter in FOUND.chapters if chapter.id == target.chapter)
    assert target.id in chapter.readme or f"`{target.name}`" in chapter.readme


@each_target
def test_no_kernel_converts_an_integer_by_its_method(target: Target) -> None:
    # An integer argument that is 1 is a constant to Triton's compiler, and has no `.to`; the interpreter does not mind.
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in sorted(target.folder.glob("*.py"))}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    asked = [f"{name}: {text}" for name, tree in trees.items() for text in converted_arguments(tree, called)]
    assert asked == []


def converted_arguments(tree: ast.Module, called: Container[str]) -> list[str]:
    """Where a launched Triton kernel converts what is given by value by `.to`; those `called` get tensors too."""
    kernels = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and "triton.jit" in map(ast.unparse, node.decorator_list)
        and node.name not in called
    ]
    given = {k: {a.arg for a in k.args.args if a.annotation is None and not a.arg.endswith("_ptr")} for k in kernels}
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for kernel, names in given.items()
        for node in ast.walk(kernel)
        if isinstance(node, ast.Attribute) and node.attr == "to"
        if isinstance(node.value, ast.Name) and node.value.id in names
    ]


# -- judging in a process of its own -----------------------------------------------------------------------


def check_honest(target: Target, device: str) -> None:
    verdicts = judged(target.id, device)
    honest = [rung for rung in target.honest_rungs if runs_on(rung, device)]
    assert sorted({(v["rung"], v["case"]) for v in verdicts if v["honest"]}) == sorted(
        (rung.name, case.name) for rung in honest for case in small_cases(target) if not rung.unsupported(case.axes)
    )
    wrong = [f"{v['rung']} on {v['case']}: {v['detail']}" for v in verdicts if v["honest"] and not v["right"]]
    assert wrong == []
    idle = {v["rung"] for v in verdicts if v["honest"] and v["idle"]}
    idle -= {rung.name for rung in honest if device == "cpu" and "is_cuda" in rung.path.read_text()}
    assert idle == set(), "they import Triton or bring CUDA and start no kernel of their own"


def check_wrong(target: Target, device: str) -> None:
    verdicts = [v for v in judged(target.id, device) if not v["honest"]]
    crashed = [f"{v['rung']} on {v['case']}: {v['detail']}" for v in verdicts if v["finding"] == "exception"]
    assert crashed == [], "a plausible mistake runs; an exception proves nothing about the judge"
    expected = {rung.name for rung in target.rungs if rung.role is Role.WRONG and runs_on(rung, device)}
    refused = {v["rung"] for v in verdicts if not v["right"]}
    assert refused == expected


@functools.cache
def judged(target_id: str, device: str) -> list[dict[str, Any]]:
    """Every rung that `device` runs, on every small case: [{rung, honest, case, right, finding, detail}]."""
    ranks = FOUND.find(target_id).ranks
    with tempfile.TemporaryDirectory() as folder:
        answers = [f"{folder}/verdicts_{rank}.json" for rank in range(ranks)]
        rendezvous = f"{folder}/rendezvous" if ranks > 1 else ""
        # Compilers tune for minutes on a GPU.
        _judges(device).ask(
            [[target_id, answer, str(rank), rendezvous] for rank, answer in enumerate(answers)],
            patience_s=170 if device == "cpu" else 590,
        )
        return whole([json.loads(Path(answer).read_text()) for answer in answers])


class Judges:
    """A process that has imported what judging takes, and becomes two for each lesson: nothing of one meets another."""

    def __init__(self, device: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{self._folder.name}/triton", "OMP_NUM_THREADS": "2"}
        environment |= BRIEF_SPIN  # beside other tests, threads that spin for long take as long again
        environment.pop("TRITON_INTERPRET", None)
        if device == "cpu":
            environment["TRITON_INTERPRET"] = "1"
        self._log = (Path(self._folder.name) / "log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kernels.test_lessons", device],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        atexit.register(self.end)

    def ask(self, judgements: list[list[str]], patience_s: float) -> None:
        """Judge at once: [lesson, file for the verdicts, rank, where ranks meet], each."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(judgements), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], patience_s)
        codes = json.loads(self._process.stdout.readline() or "[]") if ready else []
        if codes != [0] * len(judgements):
            said = Path(self._log.name).read_text()[-4000:]
            self.end()
            _judges.cache_clear()
            raise AssertionError(f"{judgements}: {codes or f'no answer within {patience_s:.0f} s'}\n{said}")

    def end(self) -> None:
        """It and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_judges = functools.cache(Judges)


def serve(device: str) -> None:
    """Be such a process until nobody asks any more."""
    import gc

    import numpy  # noqa: F401
    import torch  # noqa: F401
    import triton  # noqa: F401

    import aisp.checks.oracle.comparator
    import aisp.engine.worker.loading  # noqa: F401

    gc.collect()
    gc.freeze()  # no collection in a fork copies pages of what all have
    for line in sys.stdin:
        children = []
        for judgement in json.loads(line):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    judge_alone(device, *judgement)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            children.append(child)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)


def judge_alone(device: str, target_id: str, answer: str, rank: str, rendezvous: str) -> None:
    """Judge one lesson, or one rank's slice of it, in this process."""
    target = FOUND.find(target_id)
    if rendezvous:
        import datetime

        import torch.distributed as dist

        dist.init_process_group(
            "gloo",
            init_method=f"file://{rendezvous}",
            rank=int(rank),
            world_size=target.ranks,
            timeout=datetime.timedelta(seconds=60),
        )
    Path(answer).write_text(json.dumps(judge_target(target, device, int(rank))))


def whole(told: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One verdict of what every rank said of its slice: right where all are."""
    return [next((one for one in verdicts if not one["right"]), verdicts[0]) for verdicts in zip(*told, strict=True)]


def judge_target(target: Target, device: str, rank: int) -> list[dict[str, Any]]:
    """Run and judge every rung that `device` can run, each imported afresh."""
    rungs = [rung for rung in target.rungs if runs_on(rung, device)]
    expected = {
        case.name: call(target, "reference", inputs(target, case, 1, device, exact=True))
        for case in small_cases(target)
        if rungs
    }
    verdicts = []
    for rung in rungs:
        for case in (case for case in small_cases(target) if not rung.unsupported(case.axes)):
            with counted_launches(rung) as launches:
                finding, detail = judge_rung(target, rung, case, device, rank, expected[case.name])
            verdicts.append(
                {
                    "rung": rung.name,
                    "honest": rung.role is not Role.WRONG,
                    "case": case.name,
                    "right": finding in ("nothing", "not here"),
                    "finding": finding,
                    "detail": detail,
                    "idle": finding == "nothing" and rung.kind is not Kind.TORCH and not launches,
                }
            )
    return verdicts


@contextlib.contextmanager
def counted_launches(rung: Rung) -> Iterator[list[str]]:
    """The launches of the rung's own kernels, one entry each, of the kind that it claims."""
    from triton.runtime import interpreter, jit

    from aisp.kernels import cuda

    owners: list[tuple[Any, str]] = [(jit.JITFunction, "run"), (interpreter.InterpretedFunction, "run")]
    if rung.kind is Kind.CUDA:
        owners = [(cuda._core(), "launch")]
    launches: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in owners if rung.kind is not Kind.TORCH else []:
            patch.setattr(owner, name, _noted(getattr(owner, name), rung.name, launches))
        yield launches


def _noted(launch: Callable[..., Any], what: str, launches: list[str]) -> Callable[..., Any]:
    @functools.wraps(launch)
    def noted(*arguments: Any, **named: Any) -> Any:
        launches.append(what)
        return launch(*arguments, **named)

    return noted


def own(target: Target, tensors: Sequence[Any], rank: int) -> list[Any]:
    """A rank's slices of these tensors: all of each where there is one rank."""
    return list(tensors) if target.ranks == 1 else [tensor[rank] for tensor in tensors]


def judge_rung(
    target: Target, rung: Rung, case: Case, device: str, rank: int, expected: Sequence[torch.Tensor]
) -> tuple[str, str]:
    """Prepare on one set of values, call on another, judge by reference or own rule: finding and sentence."""
    from aisp.checks.oracle import comparator
    from aisp.checks.oracle.comparator import Expected
    from aisp.engine.worker.loading import NotHereError

    before, timed = (own(target, inputs(target, case, number, device), rank) for number in (0, 1))
    try:
        outputs = call(target, rung.name, before, timed)
    except NotHereError as absent:
        return "not here", str(absent)
    except Exception:
        return "exception", traceback.format_exc(limit=-3)
    if len(outputs) != len(target.outputs):
        return "count", f"{len(outputs)} outputs, {len(target.outputs)} declared"
    if target.rule is not None and target.rule.alone:
        return by_its_own(target, case, device, outputs, expected)
    for spec, got, want in zip(target.outputs, outputs, own(target, expected, rank), strict=True):
        shape = tuple(catalog.shape(spec, case.axes))[target.ranks > 1 :]  # a rank's slice has not the ranks' dimension
        (known,) = comparator.stated(target, [Expected(spec.name, want, spec.dtype, None)])
        found = comparator.form(spec.name, got, shape, spec.dtype) or comparator.compare(known, got, full=False)
        if not found.right:
            return found.finding.value, found.detail
    return "nothing", ""


def by_its_own(
    target: Target, case: Case, device: str, outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> tuple[str, str]:
    """What the lesson's own rule says of the outputs of all ranks: finding and sentence."""
    import torch
    import torch.distributed as dist

    from aisp.engine.worker.loading import import_module

    given = [output.contiguous() for output in outputs]
    if target.ranks > 1:
        parts = [[torch.empty_like(output) for _ in range(target.ranks)] for output in given]
        for part, output in zip(parts, given, strict=True):
            dist.all_gather(part, output)
        given = [torch.stack(part) for part in parts]
    names = [spec.name for spec in target.inputs]
    asked = dict(zip(names, inputs(target, case, 1, device), strict=True))
    told = import_module(target.folder, "rule").judge(asked, given, expected)
    return ("values", told) if told else ("nothing", "")


def call(target: Target, name: str, arguments: list[Any], later: list[Any] | None = None) -> tuple[torch.Tensor, ...]:
    """Call a file's run() or, with `later`, what its prepare() gives, on inputs refilled with those."""
    import torch

    from aisp.engine.worker.loading import import_module

    forget(target.folder)
    module = import_module(target.folder, name)
    run = module.run
    with torch.no_grad():
        if later is not None:
            run = module.prepare(*arguments) if hasattr(module, "prepare") else run
            for spec, buffer, values in zip(target.inputs, arguments, later, strict=True):
                if spec.refilled:
                    buffer.copy_(values)
        returned = run(*arguments)
    if any(isinstance(argument, torch.Tensor) and argument.is_cuda for argument in arguments):
        torch.cuda.synchronize()
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def forget(folder: Path) -> None:
    """Drop every module that came from `folder`, so that no rung sees a sibling that another one imported."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
            del sys.modules[name]


def inputs(target: Target, case: Case, number: int, device: str, *, exact: bool = False) -> list[Any]:
    """The arguments of run() for one set of values; with `exact`, in fp64 for the reference."""
    import copy

    from aisp.checks.oracle.schema import Case as Posed
    from aisp.checks.oracle.values import inputs_of, made_inputs
    from aisp.engine.worker.loading import import_module

    posed = any(spec.posed for spec in target.inputs)
    pose = import_module(target.folder, "inputs").pose if posed else None
    given: dict[str, Any] = dict(inputs_of(target, Posed.of_set(case, number), SEED, pose=pose))
    if any(spec.made for spec in target.inputs):
        make = import_module(target.folder, "inputs").make
        made = made_inputs(target, Posed.of_set(case), SEED, device, make)
        given.update({name: copy.deepcopy(value) for name, value in made.items()})
    return [placed(spec, given[spec.name], device, exact) for spec in target.inputs]


def placed(spec: TensorSpec, value: Any, device: str, exact: bool) -> Any:
    """One argument where its flags want it, and in fp64 where `exact` and it is a float."""
    import torch

    if isinstance(value, torch.nn.Module):
        return value.double() if exact else value
    if not isinstance(value, torch.Tensor):
        return value
    if exact and value.is_floating_point():
        value = value.double()
    if exact or not (spec.flags & {Flag.CPU, Flag.PINNED}):
        return value.to(device)
    return value.pin_memory() if Flag.PINNED in spec.flags and device == "cuda" else value


if __name__ == "__main__":
    serve(sys.argv[1])
