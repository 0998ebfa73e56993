"""The program that looks at checkouts counts what is there, and says why the rest cannot be opened."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.kernels.formats import kernelbench as text

ROOT = Path(__file__).resolve().parents[2]


def test_problems_are_counted_and_what_cannot_be_opened_has_a_reason(tmp_path: Path) -> None:
    _, problem = text.written(tmp_path, text.MATMUL, text.MATMUL_NEW)
    (problem.parent / "13_Softmax.py").write_text(text.SOFTMAX)
    (problem.parent / "14_Broken.py").write_text(text.BROKEN)
    words = (sys.executable, "-m", "tests.proofs", "formats", str(tmp_path), "--made", "30", "--json")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    own, made = map(json.loads, done.stdout.splitlines())
    row = own["formats"]["kernelbench"]
    assert (row["listed"], row["opened"], own["heavy"]) == (3, 2, [])
    ((why, count),) = row["reasons"].items()
    assert (count, "not Python: '(' was never closed" in why) == (1, True)
    assert made["formats"]["kernelbench"]["listed"] == 30
