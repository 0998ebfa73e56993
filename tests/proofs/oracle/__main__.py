"""`python -m tests.proofs oracle corpus|mutants|huge|lessons|wrong`: measures, writes docs/oracle/*.json."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aisp.checks.oracle import schema, shrink
from aisp.checks.oracle.schema import Case, Strategy
from aisp.engine import corpus
from aisp.kernels import catalog
from aisp.kernels.catalog.model import Kind, Role, Rung, Target
from tests import recordings
from tests.proofs.oracle import asking, report, sources, waiting
from tests.proofs.oracle.asking import Job
from tests.proofs.oracle.mutants import SURVIVORS, Fate, Mutant, mutants
from tests.proofs.oracle.waiting import Answers, failure

SEEDS = (1, 2, 3, 4, 5)
CASES = 30
LESSON_CASES = 200
MUTANT_PATIENCE_S = 60.0
HUGE_PATIENCE_S = 300.0


def main() -> None:
    """See the package."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs oracle", description=__doc__)
    parser.add_argument("what", choices=("corpus", "mutants", "huge", "lessons", "wrong"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--cases", type=int, default=0, help=f"per seed; {CASES}, lessons: {LESSON_CASES}")
    parser.add_argument("--large", action="store_true", help="sizes for a GPU; without it both devices get equal cases")
    parser.add_argument("--only", nargs="+", default=[], metavar="TARGET", help="targets, or target:rung of lessons")
    parser.add_argument("--rungs", nargs="+", default=[], metavar="RUNG", help="rungs of lessons")
    parser.add_argument("--budget", type=float, default=120.0, metavar="S", help="for one rung of a lesson")
    parser.add_argument("--root", type=Path, action="append", help="of lessons; the shipped ones by default")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="rungs at once; throughput is then theirs")
    parser.add_argument("--out", type=Path, default=report.DATA)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "huge" and arguments.device == "cpu":
        parser.error("huge is for --device cuda: a case has more than 2^31 elements")
    if arguments.large and arguments.device == "cpu":
        parser.error("--large is for --device cuda: Triton's interpreter would take days")
    started = time.monotonic()
    doing = {"corpus": _corpus, "mutants": _mutants, "huge": _huge, "lessons": _lessons, "wrong": _wrong}
    data = doing[arguments.what](arguments)
    versions = data["versions"]
    data |= {"took_s": round(time.monotonic() - started, 1), "small": not arguments.large, "code": code()}
    data["jobs"] = arguments.jobs
    path = arguments.out / f"{arguments.what}_{device_name(versions)}{'_large' if arguments.large else ''}.json"
    if arguments.what == "lessons" and arguments.only and path.exists():
        try:
            data = renewed(json.loads(path.read_text("utf-8")), data)
        except ValueError as error:
            path = path.with_suffix(".again")
            print(f"not put into the recording: {error}")
    recordings.write(path, data)
    print(f"{path}: {data['took_s']:.0f} s")


# -- the corpus --------------------------------------------------------------------------------------------------------


def _corpus(arguments: argparse.Namespace) -> dict[str, Any]:
    def one(target: Target) -> tuple[Mapping[str, str], dict[str, Any]]:
        rung = corpus.operator(target)
        answers = ask(job(target, rung, arguments, seeds=seeds, cases=cases, naive=True), arguments)
        failures = [failure(line) for line in answers.failures]
        after = Answers()
        if failures:
            # Another process, with nothing but the records: what it finds again comes from them alone.
            worst = min(failures, key=_smallness)
            after = ask(job(target, rung, arguments, replay=tuple(failures), shrink=worst), arguments)
        figures = operator_figures(target.id, rung, answers, after)
        _say(f"{target.id} {rung.name}: {figures['verdict']}, {len(failures)} of {len(answers.cases)} failed")
        return answers.one("ready").get("versions", {}), figures

    cases, seeds = arguments.cases or CASES, tuple(arguments.seeds)
    versions, found = _all(one, _chosen(corpus.load().targets, arguments.only), arguments)
    return {"versions": versions, "seeds": list(seeds), "cases": cases, "operators": found}


def operator_figures(target: str, rung: Rung, answers: Answers, after: Answers) -> dict[str, Any]:
    """What the page needs of one operator.

    digests: by seed, one hash of the inputs of all its cases; verdicts: by seed, a letter per case (r, w, e ...).
    """
    tallies: dict[str, list[int]] = {}
    findings: Counter[str] = Counter()
    hashes: dict[str, list[str]] = {}
    verdicts: dict[str, str] = {}
    for line in answers.cases:
        tally = tallies.setdefault(line["case"]["strategy"], [0, 0])
        failing = line["verdict"] in asking.FAILING
        tally[0] += 1
        tally[1] += failing
        findings[line["finding"] or line["verdict"]] += failing
        seed = str(line["seed"])
        hashes.setdefault(seed, []).append(asking.digest(line["hashes"]))
        verdicts[seed] = verdicts.get(seed, "") + line["verdict"][0]
    took_s = sum(line["took_s"] for line in answers.cases)
    replayed = after.others.get("replayed", [])
    errors = [c["max_error"] for c in answers.cases if c["verdict"] == "right" and c["max_error"] is not None]
    return {
        "target": target,
        "rung": rung.name,
        "right": rung.role is not Role.WRONG,
        "verdict": verdict_of(tallies),
        "verdict_by_seed": {
            seed: verdict_of(_tallies(c for c in answers.cases if str(c["seed"]) == seed)) for seed in verdicts
        },
        "strategies": tallies,
        "stated": by_statement(answers.cases),
        "findings": {name: count for name, count in findings.items() if count},
        "unsupported": sum(line["verdict"] == "unsupported" for line in answers.cases),
        "skipped": [line["detail"] for line in answers.cases if line["verdict"] in ("skipped", "memory")],
        "alarms": [_shown(line) for line in answers.failures] if rung.role is not Role.WRONG else [],
        "smallest": after.one("smallest"),
        "naive": answers.one("naive").get("naive"),
        "replayed": len(replayed),
        "reproduced": sum(line["replayed"] for line in replayed),
        "not_reproduced": [line["case"] for line in replayed if not line["replayed"]],
        "digests": {seed: asking.digest(dict(enumerate_text(told))) for seed, told in hashes.items()},
        "verdicts": verdicts,
        "max_error": max(errors, default=None),
        "cases_per_s": round(len(answers.cases) / took_s, 2) if took_s else None,
        "problem": answers.problem or after.problem,
    }


def enumerate_text(hashes: Sequence[str]) -> list[tuple[str, str]]:
    """Cases' hashes under their numbers, which sort as they stand."""
    return [(f"{index:06d}", value) for index, value in enumerate(hashes)]


def verdict_of(tallies: Mapping[str, Sequence[int]]) -> str:
    """A store.outcomes.FuzzVerdict from [cases, failing] by strategy."""
    if any(failing and Strategy(name).stage is schema.Stage.GATE for name, (_, failing) in tallies.items()):
        return "wrong"
    if any(failing for _, failing in tallies.values()):
        return "doubted"
    return "right" if tallies else "undecided"


# -- mutants -----------------------------------------------------------------------------------------------------------


def _mutants(arguments: argparse.Namespace) -> dict[str, Any]:
    cases, seed = arguments.cases or CASES, arguments.seeds[0]
    versions: dict[str, str] = {}
    found = []
    for index, target in enumerate(right_operators()):
        if arguments.only and target.id not in arguments.only:
            continue
        rung = corpus.operator(target)
        # What fails without any slip says nothing of a slip.
        anyway = {
            line["index"] for line in ask(job(target, rung, arguments, seeds=(seed,), cases=cases), arguments).failures
        }
        for mutant in mutants(rung.path.read_text("utf-8"), target.id, index):
            with written(target, rung, mutant) as (folder, root):
                changed = job(target, rung, arguments, seeds=(seed,), cases=cases, folder=folder, root=root)
                answers = ask(changed, arguments, patience_s=MUTANT_PATIENCE_S, first_s=2 * MUTANT_PATIENCE_S)
            versions = answers.one("ready").get("versions", versions)
            told = [line for line in answers.cases if line["index"] not in anyway]
            tallies = _tallies(told)
            first = next((line for line in answers.failures if line["index"] not in anyway), None)
            found.append(
                {
                    "target": target.id,
                    "rule": mutant.rule,
                    "name": f"{target.id} {mutant.name}",
                    "line": mutant.line,
                    "before": mutant.before,
                    "after": mutant.after,
                    "verdict": verdict_of(tallies),
                    "strategies": tallies,
                    "first": _shown(first) if first else {},
                    "problem": answers.problem,
                }
            )
            print(f"{target.id} {mutant.name}: {verdict_of(tallies)} {first['finding'] if first else ''}")
            sys.stdout.flush()
    return {"versions": versions, "seed": seed, "cases": cases, "mutants": found}


def right_operators() -> list[Target]:
    """The corpus without its wrong operators; the place of one in this list decides its mutants."""
    return [target for target in corpus.load().targets if corpus.operator(target).role is not Role.WRONG]


@contextlib.contextmanager
def written(target: Target, rung: Rung, mutant: Mutant) -> Iterator[tuple[Path, Path]]:
    """The target's folder with the mutant in its operator's place, and the collection that it is in."""
    with tempfile.TemporaryDirectory(prefix="oracle_mutant_") as root:
        folder = Path(root, target.folder.parent.name, target.folder.name)
        shutil.copytree(target.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / rung.path.name).write_text(mutant.source, "utf-8")
        yield folder, Path(root)


# -- huge --------------------------------------------------------------------------------------------------------------


def _huge(arguments: argparse.Namespace) -> dict[str, Any]:
    """One case of more than 2**31 elements for each mutant that only such a case can tell, and for its original."""

    def one(asked: tuple[Target, Rung, Mutant]) -> tuple[Mapping[str, str], dict[str, Any]]:
        target, rung, mutant = asked
        more: dict[str, Any] = {"seeds": (seed,), "cases": 1, "strategy": str(Strategy.HUGE)}
        asked_s = {"patience_s": HUGE_PATIENCE_S, "first_s": HUGE_PATIENCE_S}
        answers = ask(job(target, rung, arguments, **more), arguments, **asked_s)
        with written(target, rung, mutant) as (folder, root):
            changed = ask(job(target, rung, arguments, folder=folder, root=root, **more), arguments, **asked_s)
        figures: dict[str, Any] = {"target": target.id, "before": mutant.before, "after": mutant.after}
        for name, found in (("operator", answers), ("mutant", changed)):
            undecided: dict[str, Any] = {"verdict": "undecided", "detail": found.problem, "took_s": 0.0}
            case = found.cases[0] if found.cases else undecided
            figures[name] = {key: case[key] for key in ("verdict", "detail", "took_s")}
            figures["case"] = Case.of(case["case"]).text if "case" in case else figures.get("case", "")
        _say(f"{target.id}: {figures['operator']['verdict']}, mutant {figures['mutant']['verdict']}")
        return answers.one("ready").get("versions", {}), figures

    seed = arguments.seeds[0]
    asked = [
        (target, rung, mutant)
        for index, target in enumerate(right_operators())
        for rung in [corpus.operator(target)]
        for mutant in mutants(rung.path.read_text("utf-8"), target.id, index)
        if SURVIVORS.get(f"{target.id} {mutant.name}", (None, ""))[0] is Fate.HUGE
        and (not arguments.only or target.id in arguments.only)
    ]
    versions, found = _all(one, asked, arguments)
    return {"versions": versions, "seed": seed, "operators": found}


# -- lessons -----------------------------------------------------------------------------------------------------------


def _lessons(arguments: argparse.Namespace, roles: Sequence[Role] = tuple(Role)) -> dict[str, Any]:
    def one(asked: tuple[Target, Rung]) -> tuple[Mapping[str, str], dict[str, Any]]:
        target, rung = asked
        line: dict[str, Any] = {"target": target.id, "rung": rung.name, "source": sources.of(target)}
        line["right"] = rung.role is not Role.WRONG
        if reason := obstacle(target, rung, arguments.device):
            return {}, line | {"unavailable": reason}
        wanted = min(cases, CASES) if rung.role is Role.WRONG else cases
        answers = ask(job(target, rung, arguments, seeds=(seed,), cases=wanted, budget_s=arguments.budget), arguments)
        if rung.role is Role.PEER and not answers.cases and answers.problem.startswith("ModuleNotFoundError"):
            return {}, line | {"unavailable": answers.problem}
        tallies = _tallies(answers.cases)
        took_s = sum(case["took_s"] for case in answers.cases)
        first = next(iter(answers.failures), None)
        line |= {
            "asked": wanted,
            "cases": len(answers.cases),
            "failing": len(answers.failures),
            "unsupported": sum(case["verdict"] == "unsupported" for case in answers.cases),
            "skipped": sorted({c["detail"] for c in answers.cases if c["verdict"] in ("skipped", "memory")}),
            "verdict": verdict_of(tallies),
            "strategies": tallies,
            "stated": by_statement(answers.cases),
            "first": first["index"] + 1 if first else None,
            "failures": [_shown(case) for case in answers.failures[:3]],
            "cases_per_s": round(len(answers.cases) / took_s, 2) if took_s else None,
            "problem": answers.problem,
        }
        _say(f"{target.id} {rung.name}: {line['verdict']}, {line['failing']} of {line['cases']}")
        return answers.one("ready").get("versions", {}), line

    cases, seed = arguments.cases or LESSON_CASES, arguments.seeds[0]
    asked = [
        (target, rung)
        for target in _chosen(catalog.load(arguments.root).targets, arguments.only)
        for rung in target.rungs
        if (not arguments.rungs or rung.name in arguments.rungs) and rung.role in roles
    ]
    versions, found = _all(one, asked, arguments)
    return {"versions": versions, "seed": seed, "cases": cases, "budget_s": arguments.budget, "rungs": found}


def _wrong(arguments: argparse.Namespace) -> dict[str, Any]:
    """The lessons' wrong rungs alone."""
    return _lessons(arguments, (Role.WRONG,))


def renewed(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded sitting of the lessons with the rungs that were asked again in their places; new ones come last.

    Raises:
        ValueError: the two are not alike in what decides a rung's figures.
    """
    same = ("versions", "seed", "cases", "budget_s", "small", "code")
    if other := [f"{key} {recorded[key]}, not {asked[key]}" for key in same if recorded[key] != asked[key]]:
        raise ValueError(f"it has {'; '.join(other)}; ask all lessons again, or these as it was asked")
    again = {(rung["target"], rung["rung"]): rung for rung in asked["rungs"]}
    rungs = [again.pop((rung["target"], rung["rung"]), rung) for rung in recorded["rungs"]]
    took_s = round(recorded["took_s"] + asked["took_s"], 1)
    return dict(recorded) | {"rungs": [*rungs, *again.values()], "took_s": took_s}


def obstacle(target: Target, rung: Rung, device: str) -> str:
    """Why a rung cannot be asked here; "" where it can."""
    if target.ranks > 1:
        return f"{target.ranks} processes"
    if device == "cuda":
        import torch

        major, minor = torch.cuda.get_device_capability()
        return rung.needs.missing(sm=major * 10 + minor, gpus=torch.cuda.device_count()) or ""
    return "needs a GPU" if rung.gpu_only or rung.kind is Kind.CUDA or target.needs.gpus else ""


# -- parts -------------------------------------------------------------------------------------------------------------


def job(
    target: Target,
    rung: Rung,
    arguments: argparse.Namespace,
    *,
    folder: Path | None = None,
    root: Path | None = None,
    **more: Any,
) -> Job:
    """A job for one rung; `folder` and `root` where it is not to be read from its own place."""
    return Job(
        folder=os.fspath(folder or target.folder),
        root=os.fspath(root or target.root),
        chapter=target.chapter,
        rung=rung.name,
        device=arguments.device,
        lines="",
        small=not arguments.large,
        **more,
    )


def ask(asked: Job, arguments: argparse.Namespace, **more: Any) -> Answers:
    """`waiting.ask`, by forking where that is possible: neither with CUDA nor beside other threads."""
    return waiting.ask(asked, fork=asked.device == "cpu" and arguments.jobs == 1, **more)


def _all(
    one: Callable[[Any], tuple[Mapping[str, str], dict[str, Any]]], asked: Sequence[Any], arguments: argparse.Namespace
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Do each, `jobs` at once; the versions that they ran with, and their figures in the order asked for."""
    with ThreadPoolExecutor(arguments.jobs) as pool:
        told = list(pool.map(one, asked))
    return dict(next((versions for versions, _ in told if versions), {})), [figures for _, figures in told]


def _say(text: str) -> None:
    print(text, flush=True)


def device_name(versions: Mapping[str, str]) -> str:
    """ "cpu", or the part of a GPU's name that has digits: "h100"."""
    words = re.findall(r"[A-Za-z]*\d+[A-Za-z]*", versions["device"])
    return words[0].lower() if words else versions["device"].lower()


def code() -> str:
    """One hash over the oracle and its corpus: figures with another one are of other code."""
    hashed = hashlib.sha256()
    folder = corpus.root().parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".md") and path.name != "README.md":
            hashed.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()[:16]


def _chosen(targets: Sequence[Target], only: Sequence[str]) -> list[Target]:
    return [target for target in targets if not only or target.id in only]


def _tallies(lines: Any, policy: str = "verdict") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in lines:
        tally = found.setdefault(line["case"]["strategy"], [0, 0])
        tally[0] += 1
        tally[1] += (line.get(policy) or line["verdict"]) in asking.FAILING
    return found


def by_statement(lines: Any) -> dict[str, Any]:
    """What the stated policy says of the same outputs; a death is one by either policy."""
    tallies = _tallies(lines, "stated")
    return {"verdict": verdict_of(tallies), "strategies": tallies}


def _shown(line: Mapping[str, Any]) -> dict[str, Any]:
    case = Case.of(line["case"])
    return {
        "seed": line["seed"],
        "number": case.number,
        "strategy": str(case.strategy),
        "case": case.text,
        "verdict": line["verdict"],
        "finding": line["finding"],
        "detail": line["detail"],
    }


def _smallness(told: Mapping[str, Any]) -> tuple[bool, float, int]:
    case = Case.of(told["case"])
    return case.strategy.stage is not schema.Stage.GATE, shrink.size(case), case.number


if __name__ == "__main__":
    main()
