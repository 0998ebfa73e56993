"""The programs' own promises, as far as a machine without a GPU can hold them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aisp.kernels import catalog, cuda
from aisp.kernels.catalog.model import Kind
from tests.proofs.agreement import aa, callables, common, cost, profiling, slowed, targets, timers, timing_worker
from tests.proofs.agreement.profiling import Call

PROGRAMS = {"timers": timers, "aa": aa, "slowed": slowed, "cost": cost}
EVERY_WORK = [*targets.SAME, *targets.SLOWED]


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_gpu_a_program_says_so_and_writes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "no_gpu", lambda: "NVML 12: not found")
    assert PROGRAMS[name].main(["--out", str(tmp_path / "out")]) == 3
    assert "needs an NVIDIA GPU" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_program_writes_its_results_where_it_is_told_and_prints_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "no_gpu", lambda: "")
    given = common.parser("timers", "", budget_s=10).parse_args(["--out", str(tmp_path / "new")])
    assert common.run_program("timers", given, lambda: ({"rows": [float("nan"), 1 / 3]}, "timers", "a table")) == 0
    told = json.loads((tmp_path / "new" / "timers.json").read_text(encoding="utf-8"))
    assert told["rows"] == [None, 0.3333333] and told["what"] == "timers" and told["machine"]["cores"] > 0
    assert capsys.readouterr().out == "a table\n"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("timers", ["--timers", "stopwatch"]),
        ("aa", ["--kernels", "nothing"]),
        ("aa", ["--part", "3/2"]),
        ("slowed", ["--kernels", "nothing"]),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(
    program: str, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        PROGRAMS[program].main(["--out", str(tmp_path), *words])
    assert ended.value.code == 2


# -- targets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", EVERY_WORK, ids=lambda work: work.name)
def test_every_kernel_is_a_target_that_the_catalogue_accepts(work: targets.Work, tmp_path: Path) -> None:
    slower = work in targets.SLOWED
    rungs = targets.slower_rungs() if slower else targets.same_rungs(20)
    target = targets.write(tmp_path, work, rungs)
    found = catalog.load([target.root])
    assert found.problems == () and [t.id for t in found.targets] == [f"measured:{work.name}"]
    assert {rung.name for rung in found.targets[0].honest_rungs} == set(rungs)
    assert len(rungs) == (5 if slower else 21)
    kinds = {"torch": Kind.TORCH, "Triton": Kind.TRITON, "CUDA": Kind.CUDA}
    assert {rung.kind for rung in target.rungs} == {kinds[work.language]}


def test_there_are_ten_kernels_of_each_kind_and_all_languages_and_bounds() -> None:
    assert len(targets.SAME) == len(targets.SLOWED) == 10 and len({work.name for work in EVERY_WORK}) == 20
    assert {work.language for work in targets.SAME} == {"torch", "Triton", "CUDA"}
    assert {"launch", "bytes", "flops"} <= {work.bound for work in targets.SAME}


def test_identical_rungs_are_identical_and_slowed_ones_differ_in_the_factor_alone() -> None:
    assert len(set(targets.same_rungs(20).values())) == 1
    slower = targets.slower_rungs()
    base = slower.pop("baseline")
    assert slower == {rung: base.replace("1.0)", f"{factor})") for rung, factor in targets.SLOWER.items()}


@pytest.mark.parametrize("entry", ["wait_ns", "fma_chain", "read_quads"])
def test_the_kernels_compile_for_hopper(entry: str) -> None:
    code, name = cuda.compile_cubin(cuda.load(callables.KERNELS, entry), "sm_90a")
    assert name == entry and code.startswith(b"\x7fELF")


INTERPRETED = """
import importlib.util, pathlib, sys, torch
def load(path):
    spec = importlib.util.spec_from_file_location("work", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
root = pathlib.Path(sys.argv[1])
x = torch.randn(4096)
chain = load(root / "chain_triton" / "work.py").work
assert torch.equal(chain(x, 0.001), 2 * x) and torch.equal(chain(x, 0.0011), 2 * x)
v = torch.randn(1000)
assert torch.equal(load(root / "scale_4mb" / "work.py").work(v), 2 * v + 1)
m = torch.randn(8, 100)
torch.testing.assert_close(load(root / "softmax_32mb" / "work.py").work(m), m.softmax(-1))
from tests.proofs.agreement import triton_kernels
torch.testing.assert_close(triton_kernels.softmax(m), m.softmax(-1))
b, w = torch.randn(4, 100, dtype=torch.bfloat16), torch.randn(100, dtype=torch.bfloat16)
want = torch.nn.functional.rms_norm(b.float(), (100,), w.float(), 1e-6)
torch.testing.assert_close(triton_kernels.rmsnorm(b, w).float(), want, atol=2e-2, rtol=2e-2)
print("right")
"""


@pytest.mark.slow
def test_the_triton_kernels_are_right_and_slowed_ones_give_the_same(tmp_path: Path) -> None:
    for work in EVERY_WORK:
        if work.language == "Triton":
            targets.write(tmp_path, work, dict.fromkeys(("baseline", "optimized"), ""))
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED, str(tmp_path / targets.CHAPTER)],
        cwd=common.ROOT, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "right\n", done.stderr


@pytest.mark.slow
def test_identical_kernels_are_compared_by_the_real_engine_and_kept(tmp_path: Path) -> None:
    work = next(work for work in targets.SAME if work.name == "ten_adds")
    with common.engine_home() as (home, environ):
        found = aa.take([work], home, environ, rungs=2, replicas=2, budget_s=120, device="cpu")
    (run,) = found["runs"]
    assert (run["problem"], run["status"], run["timing"], found["left_out"]) == ("", "ok", "host", [])
    assert [c["rung"] for c in run["comparisons"]] == ["optimized", "optimized_02"]
    assert all(c["low"] <= c["speedup"] <= c["high"] for c in run["comparisons"])
    assert json.loads(found["rule"])["stop_rule"]["replicas"] == 2


def test_a_run_that_did_not_end_well_counts_no_comparison() -> None:
    told: dict[str, Any] = {
        "status": "cancelled", "flags": [], "arms": [], "steps": [],
        "comparisons": [{"rung": "optimized", "verdict": "faster", "speedup": 1.2, "low": 1.1, "high": 1.3}],
    }  # fmt: skip
    assert aa.digest(targets.SAME[0], told, 1.0, "not done within 1 s")["comparisons"] == []
    assert len(aa.digest(targets.SAME[0], {**told, "status": "ok"}, 1.0, "")["comparisons"]) == 1


def test_kernels_for_which_there_is_no_time_are_named(tmp_path: Path) -> None:
    found = aa.take(targets.SAME, tmp_path, {}, rungs=2, replicas=2, budget_s=20)
    assert found["runs"] == [] and found["left_out"] == [work.name for work in targets.SAME]


def test_the_parts_of_a_sitting_cover_every_kernel_once() -> None:
    parts = [targets.SAME[number - 1 :: count] for number, count in map(aa.part_of, ("1/3", "2/3", "3/3"))]
    assert sorted(w.name for part in parts for w in part) == sorted(w.name for w in targets.SAME)
    for wrong in ("0/2", "3/2", "2", "a/b"):
        with pytest.raises(ValueError, match="no part"):
            aa.part_of(wrong)


# -- timers ------------------------------------------------------------------------------------------------------------


def test_there_are_twenty_callables_of_all_languages_and_bounds() -> None:
    assert len({subject.name for subject in callables.SUBJECTS}) == len(callables.SUBJECTS) == 20
    assert {subject.language for subject in callables.SUBJECTS} == {"torch", "Triton", "CUDA"}
    assert {"launch", "bytes", "flops"} <= {subject.bound for subject in callables.SUBJECTS}


def test_a_call_s_kernels_are_those_between_two_holds() -> None:
    events = [
        ("fill", 0, 50), ("spin_kernel(long)", 50, 100), ("add", 1000, 3000), ("Memcpy DtoD", 4000, 5000),
        ("at::spin_kernel(long)", 5100, 5101), ("fill", 6000, 6050), ("spin_kernel(long)", 6050, 6100),
        ("spin_kernel(long)", 9100, 9101),
        ("fill", 9200, 9300), ("spin_kernel(long)", 9300, 9400), ("add", 9500, 9600), ("spin_kernel(long)", 9700, 9701),
    ]  # fmt: skip
    expected = [Call(2, 0.003, 0.004), Call(1, 0.0001, 0.0001)]
    assert profiling.calls_of(list(reversed(events))) == expected
    with pytest.raises(ValueError, match="lost events"):
        profiling.calls_of(events[:4])


def test_a_call_of_several_kernels_is_as_long_as_its_span() -> None:
    assert profiling.typical_ms([Call(1, 1.0, 9.0), Call(1, 2.0, 9.0), Call(1, 4.0, 9.0)]) == 2.0
    assert profiling.typical_ms([Call(2, 1.0, 7.0), Call(2, 2.0, 8.0), Call(2, 4.0, 9.0)]) == 8.0


def test_nvbench_s_results_are_read_by_slot() -> None:
    def summary(tag: str, value: str, kind: str = "float64") -> dict[str, Any]:
        return {"tag": tag, "data": [{"name": "value", "type": kind, "value": value}]}

    def state(slot: int, *summaries: Any, **more: Any) -> dict[str, Any]:
        axis = {"name": "Slot", "type": "int64", "value": str(slot)}
        return {"name": "x", "axis_values": [axis], "summaries": list(summaries), **more}

    mean = summary("nv/cold/time/gpu/mean", "2.5e-05")
    told = {
        "benchmarks": [
            {
                "states": [
                    state(
                        0, mean, summary("nv/cold/time/gpu/median", "2.4e-05"),
                        summary("nv/cold/sample_size", "700", "int64"), summary("nv/cold/sm_clock_rate/mean", "1.98e9"),
                    ),
                    state(1, mean),
                    state(2, is_skipped=True, skip_reason="no stream"),
                ]
            }
        ]
    }  # fmt: skip
    first, second, third = timing_worker.nvbench_results(told)
    assert first == {
        "slot": 0, "ms": pytest.approx(0.024), "mean_ms": pytest.approx(0.025), "is_median": True, "samples": 700,
        "sm_clock_mhz": pytest.approx(1980.0),
    }  # fmt: skip
    assert (second["ms"], second["is_median"]) == (pytest.approx(0.025), False)
    assert third == {"slot": 2, "error": "no stream"}


NVBENCH = """
import contextlib, json, sys, types
import cuda, torch
from tests.proofs.agreement import timing_worker
from tests.proofs.agreement.callables import Subject

class Benchmark:
    def __getattr__(self, name): return lambda *values: setattr(self, "slots", values[1]) if "axis" in name else None

class State:
    def __init__(self, slot): self.slot, self.reason = slot, None
    def get_int64(self, name): return self.slot
    def skip(self, reason): self.reason = reason
    def set_stream(self, stream): assert stream.__cuda_stream__() == (0, 42)
    def exec(self, function, batched): assert function(None) is None and batched is False

bench = types.ModuleType("cuda.bench")
def register(function):
    bench.function, bench.made = function, Benchmark()
    return bench.made
def run_all_benchmarks(words):
    states = [State(slot) for slot in bench.made.slots]
    for state in states: bench.function(state)
    summary = {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "1e-05"}]}
    told = [{"axis_values": [{"name": "Slot", "value": str(s.slot)}], "summaries": [summary],
             "is_skipped": s.reason is not None, "skip_reason": s.reason} for s in states]
    open(words[-1], "w").write(json.dumps({"benchmarks": [{"states": told}]}))
bench.register, bench.run_all_benchmarks = register, run_all_benchmarks
cuda.bench = sys.modules["cuda.bench"] = bench
torch.cuda.Stream = lambda: types.SimpleNamespace(cuda_stream=42)
torch.cuda.stream = lambda stream: contextlib.nullcontext()
torch.cuda.synchronize = lambda: None
def fails(seed): raise RuntimeError("too large")
timing_worker.SUBJECTS = [Subject("a", "", "", lambda seed: lambda: (1,)), Subject("b", "", "", fails)]
timing_worker.serve_nvbench(timing_worker.Lines(), 0.1, 3)
"""


@pytest.mark.slow
def test_nvbench_takes_its_turns_and_skips_what_was_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.proofs.agreement.timers.SUBJECTS", callables.SUBJECTS[:2])
    timer = timers.TimerProcess("nvbench", tmp_path, [sys.executable, "-c", NVBENCH])
    timer.ready(60)
    for index in (0, 1, 0):
        timer.measure(index)
    timer.end()
    assert timer.problem == ""
    assert [turn["ms"] for turn in timer.turns[0]] == [pytest.approx(0.01)] * 2
    assert [turn["error"] for turn in timer.turns[1]] == ["RuntimeError: too large"]


WORKER = """
import json, sys
def say(told): print(json.dumps(told), flush=True)
say({"ready": {"3": "no such kernel"}})
for line in sys.stdin:
    if line.startswith("end"):
        say({"results": [{"slot": 0, "ms": 5.0}, {"slot": 20, "ms": 7.0}, {"slot": 40, "ms": 9.0}]})
        break
    index = int(line.split()[1])
    if index == 7: sys.exit("the GPU is gone")
    say({"index": index, "pending": True, "wall_s": 0.1})
"""


def test_a_timer_s_late_numbers_find_their_turns(tmp_path: Path) -> None:
    timer = timers.TimerProcess("nvbench", tmp_path, [sys.executable, "-c", WORKER])
    timer.ready(30)
    for _ in range(2):
        timer.measure(0)
    timer.end()
    assert timer.problem == ""
    assert timers.columns(timer.turns[0]) == {"wall_s": [0.1, 0.1], "ms": [5.0, 7.0]}


def test_a_timer_that_has_told_all_and_is_gone_has_told_all(tmp_path: Path) -> None:
    """NVBench ends by itself when all of its states are done."""
    ends = WORKER + "    say({'results': [{'slot': 0, 'ms': 5.0}]}); sys.exit()\n"
    timer = timers.TimerProcess("nvbench", tmp_path, [sys.executable, "-c", ends])
    timer.ready(30)
    timer.measure(0)
    timer._process.wait(30)
    timer.end()
    assert timer.problem == ""
    assert timers.columns(timer.turns[0]) == {"wall_s": [0.1], "ms": [5.0]}


def test_a_timer_that_dies_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    dies = timers.TimerProcess("nvbench", tmp_path, [sys.executable, "-c", WORKER])
    lives = timers.TimerProcess("aisp", tmp_path, [sys.executable, "-c", WORKER])
    for timer in (dies, lives):
        timer.ready(30)
        for index in (1, 7 if timer is dies else 2, 4):
            timer.measure(index)
        timer.end()
    assert dies.problem == "its process ended: the GPU is gone" and lives.problem == ""
    made = timers.row(4, [dies, lives])["timers"]
    assert made["nvbench"] == {} and made["aisp"] == {"wall_s": [0.1]}


def test_a_callable_that_a_timer_cannot_do_is_an_answer_too() -> None:
    def fails() -> dict[str, Any]:
        raise RuntimeError("no\nstream")

    told = timing_worker.attempt(fails)
    assert told["error"] == "RuntimeError: no stream" and told["wall_s"] >= 0


def test_a_full_run_s_own_looks_are_asked_for_by_no_number() -> None:
    assert (common.taking(0), common.taking(5)) == ((), ("--replicas", "5"))
    assert (common.taken(0), common.taken(5)) == ("replicas in the looks of a full run", "5 replicas")
