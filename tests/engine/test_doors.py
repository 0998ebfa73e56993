"""`import aisp`: two functions, a candidate and a pytest fixture, from the call to the verdict."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aisp
from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors import api, asking, functions
from aisp.engine.protocol import requests
from aisp.kernels.catalog import onefile
from aisp.store.outcomes import State, Validity, Verdict
from aisp.store.results import telling
from tests.engine.harness import EngineUnderTest
from tests.engine.targets import write_target
from tests.store.examples import finding
from tests.tui.app_support import keep
from tests.tui.fake_engine import MAIN, FakeEngine, isolate, make_target, wait_for

LINES = {"x": "float32 [M, N] normal"}
AXES = {"M": 512, "N": 512}

ROWS = """\
import torch

FIRST = 1
results = []


def in_order(x):
    total = torch.zeros(x.shape[0], dtype=x.dtype)
    for column in range(x.shape[1]):
        total += x[:, column]
    return total


def slow(x):
    \"\"\"Column by column.\"\"\"
    return in_order(x)


def fast(x):
    return x.sum(-1)


def wrong(x):
    return x[:, FIRST:].sum(-1)


print("measured")
for size in (1, 2):
    results.append(size)
"""

LIGHT = """\
import functools

SCALE = 2
SHIFTS = [1]


def slow(x):
    return x * SCALE


def fast(x):
    return x + x


def by_fast(x):
    return fast(x)


def shifted(x):
    return x + SHIFTS[0]


def two(x, y):
    return x + y


def starred(*x):
    return x[0]


again = functools.wraps(fast)(lambda x: fast(x))


class Scaler:
    def of(self, x):
        return x * 2


def make():
    def inner(x):
        return x * 2

    return inner


print("not a part of any")
SHIFTS.append(2)
"""

Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Writes a file and imports it."""

    def loaded(text: str, name: str = "rows") -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return loaded


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TZ", "UTC")
    return isolate(monkeypatch, tmp_path)


def make(f: Any, g: Any, **options: Any) -> functions.Made:
    given = {"inputs": LINES, "axes": AXES, "outputs": "float32 [M, N]", "reference": None, "tolerance": None}
    return functions.make(f, g, **{**given, "on_host": False, **options})


# -- how functions travel ----------------------------------------------------------------------------------------------


def test_a_function_takes_along_what_it_needs_and_nothing_else(load: Load) -> None:
    rows = load(LIGHT)
    made = make(rows.slow, rows.fast)
    files = {name: data.decode() for name, data in made.files.items()}
    assert set(files) == {"lesson.md", "reference.py", "baseline.py", "optimized.py"}
    assert files["reference.py"] == files["baseline.py"]
    assert "SCALE = 2" in files["baseline.py"] and "def run(x):" in files["baseline.py"]
    assert "SCALE" not in files["optimized.py"] and "print" not in files["optimized.py"]
    assert (made.name, made.stem) == ("fast_against_slow", "rows")
    assert made.notes[0].startswith("slow is the truth too")


def test_a_function_goes_by_the_name_that_its_file_has_for_it(load: Load) -> None:
    rows = load(LIGHT)
    assert rows.again.__name__ == "fast"
    made = make(rows.slow, rows.again)
    assert made.files["optimized.py"].decode().rstrip().endswith("run = again")


def partial(rows: Any) -> Any:
    return functools.partial(rows.two, 1)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda rows: lambda x: x, "a lambda has no name to travel by; write def f"),
        (lambda rows: rows.make(), "inner is defined within make, and what it finds there cannot travel; write def in"),
        (lambda rows: rows.Scaler().of, "of is a method of an object, which cannot travel"),
        (lambda rows: rows.Scaler.of, "of is not what .*rows.py has under a name at its top level"),
        (lambda rows: len, "len has no Python source; call it from a function of your own"),
        (partial, "partial is no function"),
        (
            lambda rows: rows.shifted,
            r"SHIFTS.append\(2\) may change SHIFTS, which shifted uses.*; move it into shifted",
        ),
        (lambda rows: rows.two, "two takes x, y, and slow takes x; both are called with the same inputs"),
        (lambda rows: rows.starred, "starred takes x by a star; inputs are passed one by one"),
    ],
    ids=["lambda", "local", "bound", "unbound", "builtin", "partial", "changed", "more inputs", "starred"],
)
def test_what_cannot_travel_is_told_with_what_would_work(load: Load, function: Any, told: str) -> None:
    rows = load(LIGHT)
    with pytest.raises(aisp.RefusedError, match=told):
        make(rows.slow, function(rows))


def test_a_function_of_a_prompt_or_a_notebook_is_sent_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    prompt: dict[str, Any] = {"__name__": "__main__"}
    exec("def slow(x): return x\ndef fast(x): return x", prompt)  # noqa: S102  as a prompt does
    with pytest.raises(aisp.RefusedError, match=r"slow was typed into a prompt or a notebook.*%%writefile kernels.py"):
        make(prompt["slow"], prompt["fast"])


def test_what_is_judged_cannot_be_the_judge(load: Load) -> None:
    rows = load(LIGHT)
    with pytest.raises(aisp.RefusedError, match="by_fast uses fast, and what is judged cannot judge itself"):
        make(rows.by_fast, rows.fast)
    with pytest.raises(aisp.RefusedError, match="cannot be the truth"):
        make(rows.slow, rows.fast, reference=rows.fast)


def test_a_module_beside_the_file_cannot_come_along(load: Load, tmp_path: Path) -> None:
    (tmp_path / "helping.py").write_text("def doubled(x):\n    return x * 2\n")
    loose = "import helping\n\ndef slow(x):\n    return x * 2\n\ndef fast(x):\n    return helping.doubled(x)\n"
    found = onefile.take(tmp_path / "rows.py", loose.encode(), "fast")
    assert "helping lies beside the file" in str(found.problems[0])
    assert not onefile.take(tmp_path / "rows.py", loose.encode(), "slow").problems


# -- inputs and outputs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"axes": {"M": 4}}, "the input x: the axis 'N' is used but not defined; add it to axes="),
        ({"inputs": {"y": "float32 [M] normal"}}, r"slow has no parameter 'y' \(there is: x\)"),
        ({"inputs": {}}, "the input x of slow is not described"),
        ({"inputs": "float32 [M] normal"}, "inputs are named by parameter or given in their order"),
        ({"inputs": {"x": 3.5}}, "x is a float; describe it in words"),
        ({"inputs": {"x": "float32 [M, N]"}}, "the input x: it does not say how its values are made"),
        ({"outputs": "float33 [M]"}, "unknown dtype 'float33'"),
        ({"outputs": "complex64 [M]"}, "complex64 is not judged"),
        ({"inputs": {"x": types.SimpleNamespace(dtype="torch.complex64", shape=(4,))}}, "x is complex64, which is not"),
        ({"tolerance": {"float33": 1.0}}, "float33"),
    ],
)
def test_inputs_that_say_too_little_are_refused(load: Load, given: dict[str, Any], told: str) -> None:
    rows = load(LIGHT)
    with pytest.raises(aisp.RefusedError, match=told):
        make(rows.slow, rows.fast, **given)


def test_of_an_example_type_and_shape_are_taken(load: Load) -> None:
    rows = load(LIGHT + "\n\ndef swapped(y, x):\n    return x + y\n")
    x, y = np.zeros((4, 8), np.float32), np.arange(-3, 5)
    lesson = make(rows.two, rows.swapped, inputs=[x, y], axes={}, outputs="float32 [4, 8]").files["lesson.md"].decode()
    assert 'x = "float32 [4, 8] normal"' in lesson
    assert 'y = "int64 [8] integers(-3, 5)"' in lesson
    made = make(rows.two, rows.swapped, inputs={"y": y, "x": x}, axes={}, outputs=x)
    assert made.files["lesson.md"].decode() == lesson
    assert "x is drawn anew as the example's type and shape say: float32 [4, 8] normal" in made.notes


def test_sizes_are_made_smaller_for_a_machine_without_a_gpu_unless_a_cpu_was_asked_for(load: Load) -> None:
    rows = load(LIGHT)
    large = {"M": 8192, "N": 8192}

    def cpu_case(**options: Any) -> str:
        text = make(rows.slow, rows.fast, axes=large, **options).files["lesson.md"].decode()
        return text[text.index("cpu") :]

    assert "{ M = 512, N = 512 }" in cpu_case()
    assert "{ M = 8192, N = 8192 }" in cpu_case(on_host=True)


def test_what_is_returned_is_asked_of_the_truth_without_data(load: Load) -> None:
    text = "import torch\n\n\ndef f(x, y):\n    assert x.device.type == 'meta'\n    return {}\n\n\ndef g(x, y): ...\n"
    lines = {"x": "bfloat16 [M, N] normal", "y": "float32 [2*N] normal"}

    def outputs(returned: str, **axes: int) -> str:
        rows = load(text.format(returned))
        made = make(rows.f, rows.g, inputs=lines, axes=axes or {"M": 64, "N": 64}, outputs=None)
        found = re.search(r"\[outputs\]\n((?:.+\n)+)", made.files["lesson.md"].decode())
        assert found is not None
        return found[1].strip().replace('"', "")

    assert outputs("x.sum(-1)") == "out = bfloat16 [M]"
    assert outputs("x.T + 1.0, y[:3], x.argmax(0)") == ("out0 = bfloat16 [N, M]\nout1 = float32 [3]\nout2 = int64 [N]")
    assert outputs("torch.cat([y, y[:1]])[:-1].double(), x.flatten()") == "out0 = float64 [2*N]\nout1 = bfloat16 [M*N]"
    with pytest.raises(
        aisp.RefusedError, match=r"no expression over the axes gives it\); say what it returns: outputs="
    ):
        outputs("torch.cat([y, y])")
    with pytest.raises(aisp.RefusedError, match="cannot be told from a call without data"):
        outputs("x.sum().item()")


# -- what comes back ---------------------------------------------------------------------------------------------------

EVIL = "<script>alert(1)</script> & \x1b[31m"
CAUGHT = finding("timing.wall_clock", "optimized", "caught", "0.4 ms by events, 9 ms by the clock")


def compared(state: Path, **changes: Any) -> api.Compared:
    run = keep(state, **changes)
    return api.Compared(asking.read(run.id, None), "optimized", {"optimized": EVIL}, (EVIL,))


def test_a_result_is_the_stored_record_told_on_one_line_and_as_a_table(state: Path) -> None:
    found = compared(state)
    assert found.faster and found.verdict is Verdict.FASTER and found.why == ""
    assert found.speedup == 2.0 and found.interval is not None and found.interval[0] < 2.0 < found.interval[1]
    assert repr(found) == telling.line(found.reading, found.answer.facts, 2)
    assert "2.00x (1.96 to 2.04) faster than baseline, H100, 2 processes" in repr(found)
    shown = found._repr_html_()
    assert "<td>2.00x [1.96..2.04]</td><td>faster</td>" in shown
    assert "<script>" not in shown and "\x1b" not in shown and "&lt;script&gt;" in shown


def test_a_suspect_time_is_no_verdict(state: Path) -> None:
    found = compared(state, validity=Validity.SUSPECT, findings=(finding("timing.steady", "", "suspect", "too fast"),))
    assert not found.faster and found.verdict is Verdict.NONE
    assert found.why == "suspect: timing.steady: too fast"
    assert (found.speedup, found.interval) == (None, None)


def test_of_what_was_caught_there_is_no_figure(state: Path) -> None:
    found = compared(state, findings=(CAUGHT,), validity=Validity.CAUGHT, verdict=Verdict.NONE, comparisons=())
    assert (found.faster, found.speedup, found.interval) == (False, None, None)
    assert "caught by timing.wall_clock" in found.why and "caught by timing.wall_clock" in repr(found)
    assert "0.5000" not in found._repr_html_()


# -- with an engine that plays a script --------------------------------------------------------------------------------


class All(dict[str, str]):
    """Every target ends so."""

    def __init__(self, outcome: str) -> None:
        super().__init__()
        self._outcome = outcome

    def get(self, *_: Any) -> Any:  # type: ignore[override]  # as it is asked
        return self._outcome


def ask(rows: Any, **options: Any) -> api.Compared:
    return aisp.compare(rows.slow, rows.fast, inputs=LINES, axes=AXES, outputs="float32 [M, N]", **options)


async def within(rows: Any) -> api.Compared:
    """The same from within an event loop, as a notebook's cell is."""
    return ask(rows)


def test_the_engine_is_asked_for_a_target_of_the_two_functions(load: Load, state: Path) -> None:
    rows = load(LIGHT)
    with FakeEngine() as engine:
        found = ask(rows, quick=True, device="cpu")
        ask(rows, quick=True, device="cpu")
        asked, same = engine.asked(requests.StartRuns)
    assert found.faster and found.record.state is State.OK
    assert (asked.quick, asked.device, asked.targets) == (True, "cpu", same.targets)
    (target,) = asked.targets
    assert re.fullmatch(r"rows-[0-9a-f]{64}:fast_against_slow", target)
    assert Path(asked.roots[0]).parent.parent == state / "judged"


def test_a_gpu_that_is_not_there_is_told(load: Load, state: Path) -> None:
    rows = load(LIGHT)
    with FakeEngine() as engine:
        with pytest.raises(aisp.NotHereError, match="no GPU here: NVML 12: library not found"):
            ask(rows, device="cuda")
        engine.refuse = "no such thing"
        with pytest.raises(aisp.RefusedError, match="no such thing"):
            ask(rows)


@pytest.mark.parametrize(
    ("joined", "looped"), [(False, False), (True, False), (False, True)], ids=["own", "somebody else's", "in a loop"]
)
def test_ctrl_c_cancels_the_run_unless_somebody_else_asked_for_it(
    load: Load, state: Path, joined: bool, looped: bool
) -> None:
    rows, main = load(LIGHT), threading.get_ident()

    def interrupt() -> None:
        wait_for(lambda: bool(engine.asked(requests.StartRuns)), "the request")
        wait_for(lambda: bool(engine._runs), "the run")
        signal.pthread_kill(main, signal.SIGINT)

    with FakeEngine() as engine:
        engine.outcomes, engine.joins = All("hang"), joined
        presser = threading.Thread(target=interrupt)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(within(rows)) if looped else ask(rows)
        presser.join()
        assert len(engine.asked(requests.Cancel)) == (0 if joined else 1)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("looped", [False, True], ids=["own", "in a loop"])
def test_ctrl_c_before_we_begin_to_wait_for_the_run_cancels_it(
    load: Load, state: Path, looped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, start = load(LIGHT), threading.Thread.start

    def pressed(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "aisp":
            wait_for(lambda: bool(engine._runs), "the run")
            signal.raise_signal(signal.SIGINT)

    with FakeEngine() as engine:
        engine.outcomes = All("hang")
        monkeypatch.setattr(threading.Thread, "start", pressed)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(within(rows)) if looped else ask(rows)
        assert len(engine.asked(requests.Cancel)) == 1


def test_an_end_that_nobody_heard_and_nobody_stored_is_told(load: Load, state: Path) -> None:
    rows = load(LIGHT)
    with FakeEngine() as engine:
        engine.lose_end = True
        with pytest.raises(EngineUnavailableError, match="was not heard and cannot be read"):
            ask(rows)


def test_a_candidate_is_a_further_rung_beside_the_targets_own(state: Path, tmp_path: Path) -> None:
    make_target(tmp_path / "mine", "one")
    texts = {"candidate.py": "import part\n\ndef run(x):\n    return part.twice(x)\n", "part.py": "twice = None\n"}
    with FakeEngine() as engine:
        found = aisp.evaluate(texts, tmp_path / "mine" / "one")
        (asked,) = engine.asked(requests.StartRuns)
    assert asked.rungs == ["optimized_candidate"] and found.rung == "optimized_candidate"
    folder = Path(asked.roots[0])
    own = {path.name for path in (tmp_path / "mine" / "one").iterdir()}
    assert {path.name for path in folder.iterdir()} == own | {"optimized_candidate.py", "part.py"}
    assert (folder / "optimized_candidate.py").read_text() == texts["candidate.py"]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.py": "", "b.py": ""}, r"which Python file has run\(...\) is not known \(there is: a.py, b.py\)"),
        ({"k.cu": ""}, "there is: none"),
        ({"candidate.py": "", "reference.py": ""}, "reference.py would take the place of the target's own"),
        ({"candidate.py": "", "inputs.py": ""}, "inputs.py would take the place"),
        ({"candidate.py": "", "baseline_slow.py": ""}, "baseline_slow.py would take the place"),
        ({"../up.py": ""}, "'../up.py' cannot name a source"),
        ({"/etc/up.py": ""}, "cannot name a source"),
        ({"run.sh": ""}, "cannot name a source"),
        ("nowhere.py", "nowhere.py cannot be read: no such file"),
    ],
)
def test_what_is_no_candidate_is_refused(state: Path, tmp_path: Path, files: Any, told: str) -> None:
    make_target(tmp_path / "mine", "one")
    with pytest.raises(aisp.RefusedError, match=told):
        aisp.evaluate(files, tmp_path / "mine" / "one")


def test_a_target_that_is_not_there_is_refused(state: Path, tmp_path: Path) -> None:
    with pytest.raises(aisp.RefusedError, match="transpoze"):
        aisp.evaluate({"a.py": ""}, "transpoze")
    with pytest.raises(aisp.RefusedError, match="no such folder"):
        aisp.evaluate({"a.py": ""}, tmp_path / "nowhere")


def test_the_mark_of_a_rung_leaves_the_function_as_it_was() -> None:
    def fused(x: int) -> int:
        return x

    assert aisp.rung(fused) is fused
    assert aisp.rung()(fused) is fused


# -- the fixture, and the page -----------------------------------------------------------------------------------------

PAGE = (MAIN / "docs/python.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=os.environ, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A folder with the examples of the page, and nothing of ours that pytest would take for its configuration."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in EXAMPLES.items():
        (folder / name).write_text(text)
    return folder


def test_the_examples_of_the_page_run(state: Path, page: Path) -> None:
    assert set(EXAMPLES) == {"rows.py", "ask.py", "double.py", "candidate.py", "test_rows.py"}
    twice = (page / "candidate.py").read_text().replace('"twice"', '"./mine/twice"')
    (page / "candidate.py").write_text(twice)
    make_target(page / "mine", "twice")
    with FakeEngine():
        asked, judged = python(page, "ask.py"), python(page, "candidate.py")
    assert asked.returncode == 0, asked.stderr
    assert re.search(r"fast_against_slow optimized: 2.00x \(1.96 to 2.04\) faster than baseline", asked.stdout)
    assert "faster True 2.0 (1.96, 2.04) 01RUN" in asked.stdout
    assert "slow is the truth too" in asked.stdout
    assert judged.returncode == 0, judged.stderr


@pytest.mark.slow
def test_a_test_with_the_fixture_is_skipped_without_a_gpu_and_measured_where_a_cpu_is_asked_for(
    state: Path, page: Path
) -> None:
    with FakeEngine() as engine:
        skipped = python(page, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "test_rows.py")
        assert engine.asked(requests.StartRuns) == []
        passed = python(page, "-m", "pytest", "-p", "no:cacheprovider", "--aisp-device=cpu", "test_rows.py")
        engine.outcomes = All("suspect")
        failed = python(page, "-m", "pytest", "-p", "no:cacheprovider", "--aisp-device=cpu", "test_rows.py")
    assert "1 skipped" in skipped.stdout and "no GPU here: NVML 12: library not found" in skipped.stdout
    assert passed.returncode == 0 and "1 passed" in passed.stdout, passed.stdout
    assert failed.returncode == 1 and "suspect, not a verdict" in failed.stdout


# -- with the real engine ----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_two_functions_get_a_verdict_beside_a_running_event_loop(shared: EngineUnderTest, load: Load) -> None:
    rows = load(ROWS)
    found = aisp.compare(rows.slow, rows.fast, inputs=LINES, axes=AXES, device="cpu", quick=True)
    with shared.history() as history:
        assert history.run(found.run_id) == found.record
        files = history.snapshot(found.record.snapshot)
    assert set(files) == {"lesson.md", "reference.py", "baseline.py", "optimized.py"}
    assert found.record.state is State.OK, found.why
    assert found.speedup is not None and found.speedup > 1  # one kernel against 512
    assert found.faster or found.record.validity is Validity.SUSPECT or found.verdict is Verdict.UNDECIDED
    assert f"run {found.run_id}" in repr(found)
    assert "optimized: fast" in found._repr_html_()
    assert "what it returns was asked of slow without data: float32 [M]" in found.notes


async def test_wrong_outputs_are_refused(shared: EngineUnderTest, load: Load) -> None:
    rows = load(ROWS)
    found = aisp.compare(rows.slow, rows.wrong, inputs=LINES, axes=AXES, device="cpu", quick=True, replicas=1)
    assert found.record.state is State.INCORRECT
    assert (found.faster, found.verdict, found.speedup) == (False, Verdict.NONE, None)
    assert "optimized" in found.why


@pytest.mark.slow
async def test_a_candidate_gets_a_verdict(shared: EngineUnderTest, tmp_path: Path) -> None:
    target = write_target(tmp_path / "mine", {}, cases='[[cases]]\nname = "cpu"\naxes = { N = 4096 }')
    text = EXAMPLES["double.py"]
    found = aisp.evaluate({"mine.py": text}, target.folder, device="cpu", quick=True, replicas=1)
    assert found.record.state is State.OK, found.why
    assert found.reading.rungs[:2] == ["baseline", "optimized_candidate"]
    assert found.comparison is not None and found.comparison.rung == "optimized_candidate"
