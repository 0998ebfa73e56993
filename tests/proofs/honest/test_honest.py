"""The honest rungs are whole. What the checks say of them is told by `python -m tests.proofs unusual`."""

from __future__ import annotations

from tests.proofs.honest import ROOT, rungs_of, targets


def test_there_are_as_many_as_the_page_says() -> None:
    found = targets()
    assert len(found) == 9
    assert sum(len(rungs_of(target)) for target in found) == 56
    assert "Fifty-six rungs of nine lessons" in (ROOT / "README.md").read_text("utf-8")


def test_each_says_what_it_does_and_runs_on_a_cpu() -> None:
    for target in targets():
        assert [case.name for case in target.cases if case.name == "cpu"]
        assert all(rung.summary for rung in target.rungs if rung.name in rungs_of(target))
