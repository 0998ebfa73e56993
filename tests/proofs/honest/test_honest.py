"""The honest rungs are whole. What the checks say of them is told by `python -m tests.proofs unusual`."""

from __future__ import annotations

from tests.proofs.honest import HOST, ROOT, rungs_of, targets

HOW_MANY = {"cpu": 56, "cuda": 56}


def test_there_are_as_many_as_the_page_says() -> None:
    found = targets()
    on = {device: {(target.id, rung) for target in found for rung in rungs_of(target, device)} for device in HOW_MANY}
    page = (ROOT / "README.md").read_text("utf-8")
    assert {device: len(rungs) for device, rungs in on.items()} == HOW_MANY
    assert (len(found), len(on["cpu"] | on["cuda"])) == (10, 69)
    assert "Sixty-nine rungs of ten lessons" in page
    assert "Fifty-six run on a CPU, fifty-six on a GPU" in " ".join(page.split())


def test_what_is_left_to_the_host_are_rungs() -> None:
    every = {target.id: set(rungs_of(target, "cpu")) for target in targets()}
    assert all(names <= every[target] for target, names in HOST.items())


def test_each_says_what_it_does_and_runs_on_a_cpu() -> None:
    for target in targets():
        assert target.needs.gpus or [case.name for case in target.cases if case.name == "cpu"]
        assert all(rung.summary for rung in target.rungs if rung.name in rungs_of(target, "cuda"))
