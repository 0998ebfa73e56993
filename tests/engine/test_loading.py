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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "code",
    [
        'torch.empty(3, device="cuda")',
        'torch.zeros(1).to("cuda")',
        "torch.nn.Linear(2, 2).cuda()",
        "torch.cuda.get_device_properties(0)",
        "torch.cuda.Stream()",
        "torch.cuda.CUDAGraph()",
        "torch.cuda.synchronize()",
        'cpp_extension._join_cuda_home("bin", "nvcc")',
    ],
)
def test_a_rung_that_asks_pytorch_for_a_gpu_needs_one(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fault of the code's, whatever PyTorch calls it."""
    from torch.utils import cpp_extension

    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    (tmp_path / "asks.py").write_text(f"import torch\nfrom torch.utils import cpp_extension\n{code}\n")
    with pytest.raises((AssertionError, RuntimeError, OSError)) as raised:
        loading.import_module(tmp_path, "asks")
    told = failed(raised.value, "Prepare", tmp_path)
    assert (told.kind, told.summary.partition(":")[0]) == ("unsupported", "needs a GPU")


@pytest.mark.parametrize("code", ["torch.zeros(2).reshape(3)", 'torch.device("cuda:x")', "1 / 0"])
def test_a_fault_of_the_code_stays_one_where_there_is_no_gpu(tmp_path: Path, code: str) -> None:
    (tmp_path / "wrong.py").write_text(f"import torch\n{code}\n")
    with pytest.raises((RuntimeError, ZeroDivisionError)) as raised:
        loading.import_module(tmp_path, "wrong")
    assert failed(raised.value, "Prepare", tmp_path).kind == "user"
