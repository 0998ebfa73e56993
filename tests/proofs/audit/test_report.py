"""The page of the audit says what the files of the audit say."""

from __future__ import annotations

import json

from tests.proofs.audit import report


def test_every_fixture_of_a_matrix_is_one_that_there_is() -> None:
    for path in report.DATA.glob("gallery_*.json"):
        rows = json.loads(path.read_text())
        assert rows, path.name
        assert {row["outcome"] for row in rows} <= set(report.OUTCOMES)
        assert {row["fixture"] for row in rows} <= set(report.fixtures())
