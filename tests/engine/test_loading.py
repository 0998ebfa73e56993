"""What is told of an exception."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from aisp.engine.worker import loading
from aisp.engine.worker.__main__ import failed


@pytest.mark.parametrize("told", [loading.text_of, loading.summary])
def test_a_long_text_keeps_its_end_where_the_reason_is(told: object) -> None:
    """A compiler's process answers with its whole trace; the line that says why is the last."""
    assert callable(told)
    text = told(RuntimeError("in a subprocess:\n" + "  File x, line 1\n" * 1000 + "PermissionError: /cache/k"))
    assert "in a subprocess:" in text
    assert text.endswith("PermissionError: /cache/k")
    assert len(text) < loading.MAX_MESSAGE_CHARACTERS + 50


def test_a_text_with_methods_of_its_own_is_plain_in_what_is_told() -> None:
    class Loud(str):
        __slots__ = ()

        def split(self, *_: object) -> list[str]:  # type: ignore[override]
            raise AssertionError("asked")

    class LoudError(Exception):
        def __str__(self) -> str:
            return Loud("quiet")

    assert type(loading.text_of(LoudError())) is str
    assert loading.summary(LoudError()) == "LoudError: quiet"


# -- Triton without a GPU ----------------------------------------------------------------------------------------------


def test_a_rung_that_asks_triton_for_a_gpus_driver_needs_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("Triton has a driver here")
    (tmp_path / "asks.py").write_text("import triton\nDEVICE = triton.runtime.driver.active\n")
    with pytest.raises(RuntimeError) as caught:
        loading.import_module(tmp_path, "asks")
    told = failed(caught.value, "Load", tmp_path)
    assert (told.kind, told.summary.partition(":")[0]) == ("unsupported", "needs a GPU")
    assert "asks.py:2" in told.traceback
    says_so = failed(RuntimeError("0 active drivers ([]). There should only be one."), "Load", tmp_path)
    assert says_so.kind == "user"  # its words decide nothing
