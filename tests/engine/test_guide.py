"""Every target and rung that the documents show is run to the verdict that they claim, on the CPU."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aisp.kernels.catalog import scaffold
from aisp.store.outcomes import Correctness, FindingStatus, State, Timing
from tests.engine.harness import EngineUnderTest, Result
from tests.engine.test_doors import EXAMPLES
from tests.kernels.test_scaffold import fences, guide_files, guide_target, only_target

MAIN = Path(__file__).parents[2]
NUMPY = tuple(int(part) for part in importlib.metadata.version("numpy").split(".")[:2])
has_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or NUMPY >= (2, 4),
    reason="Triton's interpreter is not here, or NumPy is 2.4 or newer, which breaks its loops",
)

# torch.compile takes 15 s here, and many times that beside other work: the shared engine would give it up after 30 s.
PATIENCE_S = 280.0
COMPILER = """\
#!/bin/sh
for file; do
    case $file in *.cpp) grep -q avx_chk "$file" && echo "$file" >> {log};; esac
done
exec c++ "$@"
"""  # notes each program by which torch's compiler tries out a set of instructions
PATIENT = {"AISP_COMPILE_LIMIT_S": "200", "AISP_PROGRESS_LIMIT_S": "100", "AISP_TOTAL_LIMIT_S": "280"}

pytestmark = pytest.mark.xdist_group("engine")


def verdicts(found: Result) -> dict[str, str]:
    """By rung: "timed", "checked" for one that is right and not timed, else why it is refused."""
    said = {}
    for arm in found.record.arms:
        if arm.state is State.OK and arm.correctness is Correctness.CORRECT:
            said[arm.rung] = "checked" if arm.timing is Timing.NONE else "timed"
        else:
            said[arm.rung] = f"{arm.state.value}: {arm.reason.partition(':')[0]}"
    return said


@has_triton
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_rung_of_the_guides_example_ends_as_the_guide_says(
    own: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    target = guide_target(tmp_path)
    tried = Path("/dev/shm") / f"tried-{os.urandom(8).hex()}"  # a confined process may write there
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(log=tried))
    compiler.chmod(stat.S_IRWXU)
    engine = own(**PATIENT, CXX=str(compiler))
    await engine.start()
    rungs = [rung.name for rung in target.rungs]
    try:
        found = await engine.run(tmp_path, target.id, rungs=rungs, device="cpu", patience_s=PATIENCE_S)
        programs = tried.read_text().splitlines() if tried.exists() else []
    finally:
        tried.unlink(missing_ok=True)
    assert programs or platform.machine() != "x86_64"
    rungs_own = [path for path in programs if path.startswith(engine.environment["AISP_STATE"])]
    assert rungs_own == [], "what the processor can do is tried out for all, and not in a rung's process"
    assert verdicts(found) == {
        "baseline": "timed",
        "baseline_compile": "timed",
        "optimized": "timed",
        "optimized_triton": "checked",  # in the interpreter
        "wrong_order": "incorrect: wrong values",
    }
    assert {one.arm for one in found.record.findings if one.status is FindingStatus.CAUGHT} == {"wrong_order"}


@has_triton
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_rung_of_a_new_target_and_the_one_that_its_lesson_offers_end_as_it_says(
    shared: EngineUnderTest, tmp_path: Path
) -> None:
    folder = scaffold("my_kernel", tmp_path)
    (offered,) = [block for language, block in fences((folder / "lesson.md").read_text()) if language == "python"]
    (folder / "optimized_triton.py").write_text(offered)
    target = only_target(tmp_path)
    found = await shared.run(tmp_path, target.id, rungs=[rung.name for rung in target.rungs], device="cpu")
    assert verdicts(found) == {
        "baseline": "timed",
        "optimized": "timed",
        "optimized_triton": "checked",
        "wrong_half": "incorrect: wrong values",
        "wrong_tail": "incorrect: wrong values (case ragged)",  # 64 divides 16384: only the ragged case finds it out
    }


def test_no_document_shows_a_rung_that_is_not_run_here() -> None:
    for page in [*(MAIN / "docs").rglob("*.md"), MAIN / "README.md"]:
        text = page.read_text("utf-8")
        blocks = re.findall(r"^(?:```|~~~)(\w*)\n(.*?)^(?:```|~~~)$", text, re.MULTILINE | re.DOTALL)
        shown = {block for _, block in blocks if re.search(r"^def (run|prepare)\(.*\n ", block, re.MULTILINE)}
        assert shown <= {*guide_files().values(), EXAMPLES["double.py"]}, page
