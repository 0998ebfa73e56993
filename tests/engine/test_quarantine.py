"""How a quarantine ends that no edit ends: two clean runs of the same code, of a lesson and of a judged file alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisp.engine.doors import api
from aisp.store.outcomes import Correctness, State, Validity
from tests.engine.harness import EngineUnderTest, Result
from tests.engine.targets import write_target

# Wrong as long as a file is not there: a fault that is the rung's own and does not come in every run.
FLAKY = "import os\n\n\ndef run(x):\n    return x * (2 if os.path.exists({path!r}) else 3)\n"


@pytest.fixture
def mended() -> Iterator[Path]:
    path = Path(f"/dev/shm/mended-{os.getpid()}")  # outside of what processes are given anew
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("judged", [False, True], ids=["lesson", "judged file"])
@pytest.mark.slow
async def test_two_clean_runs_of_the_same_code_end_its_quarantine_and_say_so(
    shared: EngineUnderTest, tmp_path: Path, mended: Path, judged: bool
) -> None:
    text = FLAKY.format(path=str(mended))
    cases = '[[cases]]\nname = "cpu"\naxes = { N = 4096 }'
    target = write_target(tmp_path / "mine", {} if judged else {"optimized.py": text}, cases=cases)
    rung = api.CANDIDATE if judged else "optimized"
    if judged:
        target = api.beside(target, {f"{rung}.py": text.encode()})

    async def run() -> Result:
        root = target.folder if judged else tmp_path / "mine"
        return await shared.run(root, target.id, rungs=[rung], replicas=1, validity="portable")

    def held() -> list[str]:
        with shared.history() as history:
            return [one.rung for one in history.quarantines() if one.folder == os.fsencode(target.folder)]

    caught = await run()
    assert caught.arm(rung).state is State.INCORRECT
    assert held() == [rung]
    mended.touch()
    clean: list[Result] = []
    while len(clean) < 2:
        assert held() == [rung]
        again = await run()
        assert again.record.correctness is Correctness.CORRECT, again.record.reason
        if again.record.validity is Validity.VALID:  # a busy machine makes some of them suspect
            clean.append(again)
        else:
            clean.clear()
    first, second = (each.record for each in clean)
    assert first.code == second.code == caught.record.code
    assert not [flag for flag in first.flags if "quarantine" in flag]
    assert all("quarantined: " in one.note for one in first.comparisons)
    assert f"quarantine of {rung} ended by two clean runs {first.id}, {second.id}" in second.flags
    assert not [one.note for one in second.comparisons if "quarantined" in one.note]
    assert held() == []
