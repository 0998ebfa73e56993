"""docs/oracle_proof.md from docs/oracle/*.json. Nothing on the page is typed but the sentences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aisp.checks.oracle.schema import CYCLE, Stage, Strategy
from tests.proofs.oracle.asking import FAILING
from tests.proofs.oracle.mutants import RULES, SURVIVORS, Fate

DOCS = Path(__file__).resolve().parents[3] / "docs"
DATA = DOCS / "oracle"

PUBLISHED = {
    Strategy.BOUNDARY: (78, 0),
    Strategy.MIXED: (71, 0),
    Strategy.REGULAR: (64, 0),
    Strategy.ADVERSARIAL: (99, 94),
}
"""Per cent of cases of wrong operators found, and of right ones refused, that a published study of 26 other operators
reports for strategies of these names."""

Data = Mapping[str, Mapping[str, Any]]


def load(folder: Path = DATA) -> dict[str, dict[str, Any]]:
    """Every recorded file by its name without .json: "corpus_cpu", "corpus_h100", "mutants_cpu" ..."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


def page(data: Data, sources: Mapping[str, str]) -> str:
    """The whole page. `sources`: the lessons' hashes now, by target, as `oracle_proof.sources.now` gives them."""
    told = [
        "# What the oracle can tell",
        "",
        "This page is written by `python -m tests.proofs pages oracle_proof` from the files in `docs/oracle/`. They",
        "are left by `python -m tests.proofs oracle` (`corpus`, `mutants`, `lessons`), which asks without the engine:",
        "one process per rung, one thread, inputs and judgement in that process. A failure of a *gate* strategy",
        "(boundary, regular, mixed) refuses a rung; one of *triage* (adversarial, nonfinite) only raises a doubt.",
        "Where nothing else is said, figures are of the *derived* policy, by which drawn cases are judged. *Stated* is",
        "what the tolerances say of the same outputs, by which a run judges its lesson's own values",
        "([oracle.md](oracle.md#two-policies)).",
        "",
    ]
    corpora = _named(data, "corpus")
    for name, figures in corpora.items():
        told += _corpus(name, figures)
    told += _devices(corpora)
    for name, figures in _named(data, "mutants").items():
        told += _mutants(name, figures)
    for name, figures in _named(data, "huge").items():
        told += _huge(name, figures)
    for name, figures in _named(data, "lessons").items():
        told += _lessons(name, figures, sources)
    for name, figures in _named(data, "wrong").items():
        told += _wrong_rungs(name, figures, sources)
    return "\n".join(told).rstrip() + "\n"


# -- corpus ------------------------------------------------------------------------------------------------------------


def rates(operators: Iterable[Mapping[str, Any]], policy: str = "derived") -> dict[str, tuple[int, int]]:
    """Cases and failing cases by strategy, over all these operators; {} where a policy was not asked."""
    found: dict[str, tuple[int, int]] = {}
    for operator in operators:
        for name, (cases, failing) in _by(operator, policy).get("strategies", {}).items():
            before = found.get(name, (0, 0))
            found[name] = (before[0] + cases, before[1] + failing)
    return found


def _by(asked: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
    """Verdict and tallies of an operator or rung by a policy."""
    found: Mapping[str, Any] = asked if policy == "derived" else asked.get("stated", {})
    return found


def _corpus(name: str, figures: Mapping[str, Any]) -> list[str]:
    operators = figures["operators"]
    wrong = [o for o in operators if not o["right"]]
    right = [o for o in operators if o["right"]]
    every = sum(cases for o in operators for cases, _ in o["strategies"].values())
    seeds, cases = figures["seeds"], figures["cases"]
    refused = sum(o["verdict"] == "wrong" for o in wrong)
    always = sum(all(v == "wrong" for v in o["verdict_by_seed"].values()) for o in wrong)
    doubted = sum(o["verdict"] == "doubted" for o in right)
    false = sum(o["verdict"] == "wrong" for o in right)
    replayed, reproduced = (sum(o[key] for o in operators) for key in ("replayed", "reproduced"))
    told = [
        f"## The corpus, {_where(name, figures)}",
        "",
        f"{len(seeds)} seeds ({', '.join(map(str, seeds))}) of {cases} cases each, {every} cases in all:",
        "",
        f"- **{refused} of {len(wrong)} wrong operators are refused by the gate**, {always} of them with every one of "
        f"the seeds alone.",
        f"- **{false} of {len(right)} right operators are refused**, {doubted} doubted.",
        f"- The worst error of a right operator is {max((o['max_error'] or 0.0 for o in right), default=0.0):.2f} of "
        "what is allowed.",
        f"- {reproduced} of {replayed} failures came again in another process from their record: same hashes of the "
        "inputs, same",
        "  hash of the wrong output.",
        f"- {_speed(operators)}",
        "",
        *_both(wrong, right),
        *_rates(wrong, right),
        "",
        *_careless(wrong, right),
        "",
        *_operators(operators),
        "",
    ]
    faults = [f"- `{o['target']}`: {alarm['case']} (seed {alarm['seed']}, {alarm['strategy']} {alarm['number']}): "
              f"{alarm['detail'] or alarm['verdict']}" for o in right for alarm in o["alarms"]]  # fmt: skip
    if faults:
        told += ["What was held against right operators:", "", *faults, ""]
    missed = [f"- `{o['target']}`: {o['verdict']}" for o in wrong if o["verdict"] != "wrong"]
    if missed:
        told += ["Wrong operators that were not refused:", "", *missed, ""]
    lost = [f"- `{o['target']}`: {case}" for o in operators for case in o["not_reproduced"]]
    if lost:
        told += ["Failures that did not come again:", "", *lost, ""]
    notes = [f"- `{o['target']}`: {note}" for o in operators for note in [*o["skipped"], o["problem"]] if note]
    if notes:
        told += ["Cases that could not be judged, and processes that ended early:", "", *notes, ""]
    return told


def _rates(wrong: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[str]:
    found, alarms, stated, stated_alarms = (
        rates(some, policy) for policy in ("derived", "stated") for some in (wrong, right)
    )
    lines = [
        "Shares of cases that fail, over all wrong and over all right operators. The published ones are those of a",
        "study of 26 other operators: how much of what a slip spoils a case shows depends on the slip, so rates over",
        "wrong operators compare loosely; false alarms compare well.",
        "",
        "| strategy | stage | wrong operators | stated | published | right operators | stated | published |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for strategy in CYCLE:
        published = [f"{value} %" for value in PUBLISHED.get(strategy, ())] or ["–", "–"]
        cells = [str(strategy), str(strategy.stage), _share(found, strategy), _share(stated, strategy), published[0]]
        cells += [_share(alarms, strategy), _share(stated_alarms, strategy), published[1]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _share(found: Mapping[str, tuple[int, int]], strategy: Strategy) -> str:
    cases, failing = found.get(strategy, (0, 0))
    return _part(failing, cases)


def percent(part: int, whole: int) -> str:
    """A share; "100 %" and "0 %" only where it is so exactly."""
    if not whole:
        return "–"
    share = 100 * part / whole
    if 0 < share < 1 or 99 < share < 100:
        return f"{share:.1f} %"
    return f"{share:.0f} %"


def accepts(operator: Mapping[str, Any], how: str, *, every: bool) -> bool | None:
    """Whether a careless test accepts an operator, in its own dtype or in every one; None where it was not asked."""
    said = [opinion[how] for opinion in (operator["naive"] or {}).values()]
    return (all(said) if every else said[0]) if said else None


def _both(wrong: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[str]:
    """Misses and false alarms of both policies on the same outputs; nothing where one was not asked."""
    asked = [*wrong, *right]
    if not all("stated" in one for one in asked):
        return []
    told = [
        "**Both policies**, asked about the same outputs. A miss is something wrong that the gate lets through; not",
        "every case shows a slip. A false alarm is something right that is refused or doubted.",
        "",
        "| policy | wrong, missed | gate cases of them that pass | right, refused | doubted | cases that fail |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for policy in ("stated", "derived"):
        verdicts = [[_by(one, policy)["verdict"] for one in some] for some in (wrong, right)]
        gate = [(cases, failing) for name, (cases, failing) in rates(wrong, policy).items()
                if Strategy(name).stage is Stage.GATE]  # fmt: skip
        cases, failing = (sum(numbers) for numbers in zip(*gate, strict=True)) if gate else (0, 0)
        alarms = rates(right, policy).values()
        cells = [f"{len(wrong) - verdicts[0].count('wrong')} of {len(wrong)}", _part(cases - failing, cases)]
        cells += (
            [f"{verdicts[1].count(word)} of {len(right)}" for word in ("wrong", "doubted")] if right else ["–", "–"]
        )
        cells.append(_part(sum(f for _, f in alarms), sum(c for c, _ in alarms)))
        told.append(f"| {policy} | {' | '.join(cells)} |")
    apart = [one for one in asked if one["stated"]["verdict"] != one["verdict"]]
    if not apart:
        return [*told, "", "They agree on every one.", ""]
    lines = [
        f"- `{one['target']}` `{one['rung']}` is {'right' if one['right'] else 'wrong'}; "
        f"stated: {one['stated']['verdict']}, derived: {one['verdict']}"
        for one in apart
    ]
    return [*told, "", "They end otherwise on these:", "", *lines, ""]


def _part(part: int, whole: int) -> str:
    return f"{percent(part, whole)} ({part} of {whole})" if whole else "–"


def _careless(wrong: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the one-shape test does on the same operators."""
    lines = [
        "The test that most projects have: the default shape against eager PyTorch, in the operator's own dtype or in",
        "each of its dtypes. `allclose` has 1e-4 for fp32 and 1e-2 for fp16 and bf16, absolute and relative;",
        "`assert_close` is PyTorch's, as it comes.",
        "",
        "| | wrong that pass | right that are refused | score |",
        "|---|---:|---:|---:|",
    ]
    whole = f"{len(wrong) + len(right)}"
    for how, name in (("allclose", "`allclose`"), ("assert_close", "`torch.testing.assert_close`")):
        for every in (False, True):
            passed = sum(accepts(o, how, every=every) is True for o in wrong)
            kept = sum(accepts(o, how, every=every) is True for o in right)
            cells = [f"{name}, {'each dtype' if every else 'own dtype'}", f"{passed} of {len(wrong)}"]
            cells += [f"{len(right) - kept} of {len(right)}", f"{len(wrong) - passed + kept} of {whole}"]
            lines.append(f"| {' | '.join(cells)} |")
    refused, kept = (sum(o["verdict"] == "wrong" for o in operators) for operators in (wrong, right))
    score = f"{refused + len(right) - kept} of {whole}"
    lines.append(f"| this oracle | {len(wrong) - refused} of {len(wrong)} | {kept} of {len(right)} | {score} |")
    shown = [f"`{o['target']}`" for o in wrong if accepts(o, "allclose", every=False) is False]
    unasked = [f"`{o['target']}`" for o in (*wrong, *right) if accepts(o, "allclose", every=False) is None]
    lines += ["", f"Wrong, and already shown by `allclose` in its own dtype: {', '.join(shown) or 'none'}."]
    return lines + ([f"Not asked: {', '.join(unasked)}."] if unasked else [])


def _operators(operators: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "Each operator: what it is, what the oracle says, failing cases by strategy, the smallest failing case, and",
        "what the careless tests say of it.",
        "",
        f"| operator | is | said to be | {' | '.join(CYCLE)} | smallest failing case | allclose | assert_close |",
        "|---|---|---|" + "---:|" * len(CYCLE) + "---|---|---|",
    ]
    for operator in sorted(operators, key=lambda o: (o["right"], o["target"])):
        name = f"`{operator['target']}`" + ("" if operator["right"] else f" `{operator['rung']}`")
        cells = [name, "right" if operator["right"] else "wrong", operator["verdict"]]
        for strategy in CYCLE:
            cases, failing = operator["strategies"].get(strategy, (0, 0))
            cells.append(percent(failing, cases))
        cells.append(operator["smallest"].get("smallest", "") or "–")
        cells += [_naively(operator, how) for how in ("allclose", "assert_close")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _naively(operator: Mapping[str, Any], how: str) -> str:
    """In words, with the dtypes that are refused."""
    said = operator["naive"] or {}
    refused = [dtype for dtype, opinion in said.items() if not opinion[how]]
    if not said or not refused:
        return "accepts" if said else "–"
    return "refuses" if len(refused) == len(said) else f"refuses {', '.join(refused)}"


def _speed(operators: Sequence[Mapping[str, Any]]) -> str:
    told = sorted((o["cases_per_s"], o["target"]) for o in operators if o["cases_per_s"])
    if not told:
        return "No times were kept."
    middle = told[len(told) // 2][0]
    return (
        f"{middle:.3g} cases a second in the middle, truth, call and judgement together (of one core's time "
        f"where there is no GPU);\n  the slowest is `{told[0][1]}` with {told[0][0]:.3g}, the fastest "
        f"`{told[-1][1]}` with {told[-1][0]:.3g}."
    )


def _devices(corpora: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every pair of recordings that asked the same cases, the CPU's first."""
    names = sorted(corpora, key=lambda name: (name != "cpu", name))
    told: list[str] = []
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            told += _agreement(one, corpora[one], other, corpora[other])
    return ["## The same on every device", "", *told] if told else []


def _agreement(one: str, a: Mapping[str, Any], other: str, b: Mapping[str, Any]) -> list[str]:
    left, right = ({o["target"]: o for o in figures["operators"]} for figures in (a, b))
    both = [name for name in left if name in right]
    same = sum(left[name]["verdict"] == right[name]["verdict"] for name in both)
    lines = [f"**{one} and {other}**: the verdict is the same for {same} of {len(both)} operators."]
    if a["small"] != b["small"] or a["code"] != b["code"]:
        why = "sizes are others" if a["small"] != b["small"] else "the oracle's code was another"
        return [*lines, f"Cases are not compared one by one: {why}.", ""]
    pairs = [(name, seed) for name in both for seed in left[name]["digests"] if seed in right[name]["digests"]]
    hashed = sum(left[name]["digests"][seed] == right[name]["digests"][seed] for name, seed in pairs)
    cases = [
        (x, y) for name, seed in pairs
        for x, y in zip(left[name]["verdicts"][seed], right[name]["verdicts"][seed], strict=False)
    ]  # fmt: skip
    alike = sum(x == y for x, y in cases)
    lines += [
        f"Inputs have the same hashes in {hashed} of {len(pairs)} fuzzes (operator and seed); of {len(cases)} single "
        f"cases {alike} end alike.",
    ]
    apart = Counter(name for name in both for seed in left[name]["verdicts"] for x, y in zip(
        left[name]["verdicts"][seed], right[name]["verdicts"].get(seed, ""), strict=False) if x != y)  # fmt: skip
    if apart:
        listed = ", ".join(f"`{name}` {count}" for name, count in sorted(apart.items()))
        lines += ["", f"Cases that end otherwise: {listed}."]
    return [*lines, ""]


# -- mutants -----------------------------------------------------------------------------------------------------------


def _mutants(name: str, figures: Mapping[str, Any]) -> list[str]:
    every = figures["mutants"]
    killed = [m for m in every if m["verdict"] == "wrong"]
    doubted = [m for m in every if m["verdict"] == "doubted"]
    living = [m for m in every if m["verdict"] not in ("wrong", "doubted")]
    fates = Counter(SURVIVORS.get(m["name"], (Fate.UNEXPLAINED, ""))[0] for m in living)
    beyond = (Fate.EQUIVALENT, Fate.HUGE, Fate.MEMORY)
    shown = [m for m in every if m["name"] not in SURVIVORS or SURVIVORS[m["name"]][0] not in beyond]
    noticed = sum(m in killed or m in doubted for m in shown)
    slips = len(every) - fates[Fate.EQUIVALENT]
    told = [
        f"## Mutants, {_where(name, figures)}",
        "",
        f"{len(every)} small slips, made by rule in the sources of the right operators, {figures['cases']} cases of "
        f"seed {figures['seed']} each:",
        f"{len(killed)} are refused by the gate, {len(doubted)} more doubted by triage, {len(living)} live "
        f"({', '.join(f'{fates[fate]} {fate}' for fate in Fate if fates[fate])}).",
        f"Of the {len(shown)} whose values are wrong at such sizes {noticed} ({percent(noticed, len(shown))}) are "
        f"noticed, of all {slips} that are slips {percent(len(killed) + len(doubted), slips)}.",
        "Cases that the operator itself fails do not count.",
        "",
        "| rule | what it does | mutants | gate | triage alone | live |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for rule in RULES:
        own = [m for m in every if m["rule"] == rule.__name__]
        if own:
            counts = [len(own), *(sum(m in group for m in own) for group in (killed, doubted, living))]
            what = (rule.__doc__ or "").strip().rstrip(".")
            lines = [rule.__name__.replace("_", " "), what, *map(str, counts)]
            told.append(f"| {' | '.join(lines)} |")
    strategies = {s: sum(bool(m["strategies"].get(s, (0, 0))[1]) for m in every) for s in CYCLE}
    findings = Counter(m["first"].get("finding") or m["first"].get("verdict", "") for m in (*killed, *doubted))
    told += [
        "",
        f"Noticed by {', '.join(f'{s} {count}' for s, count in strategies.items())} of {len(every)}; first seen as "
        f"{', '.join(f'{finding} ({count})' for finding, count in sorted(findings.items()))}.",
        "A crash is memory that the slip overwrote: it may live another day.",
        "",
    ]
    if living:
        told += ["Those that live, and why:", "", "| operator | slip | why it lives | |", "|---|---|---|---|"]
        for mutant in living:
            fate, why = SURVIVORS.get(mutant["name"], (Fate.UNEXPLAINED, "nobody has looked"))
            slip = f"`{_cell(mutant['before'])}` became `{_cell(mutant['after'])}`"
            told.append(f"| `{mutant['target']}` | {slip} | {why} | {fate} |")
        told.append("")
    if doubted:
        told += ["Those that triage alone notices:", "", "| operator | slip | first seen |", "|---|---|---|"]
        for mutant in doubted:
            slip = f"`{_cell(mutant['before'])}` became `{_cell(mutant['after'])}`"
            told.append(f"| `{mutant['target']}` | {slip} | {mutant['first']['strategy']}: {mutant['first']['case']} |")
        told.append("")
    return told


# -- huge --------------------------------------------------------------------------------------------------------------


def _huge(name: str, figures: Mapping[str, Any]) -> list[str]:
    every = figures["operators"]
    right = sum(o["operator"]["verdict"] == "right" for o in every)
    told = sum(o["mutant"]["verdict"] in FAILING for o in every)
    lines = [
        f"## Beyond 2^31 elements, {_where(name, figures)}",
        "",
        f"One `huge` case for each operator of which a slip in the width of its offsets lives above: {right} of "
        f"{len(every)} operators are right,",
        f"{told} of {len(every)} slips are noticed.",
        "",
        "| operator | case | it is | s | the slip | is | s |",
        "|---|---|---|---:|---|---|---:|",
    ]
    for o in every:
        one, other = o["operator"], o["mutant"]
        parts = [f"`{o['target']}`", o["case"], _ended(one), f"{one['took_s']:.0f}", f"`{o['after'].strip()}`"]
        parts += [_ended(other), f"{other['took_s']:.0f}"]
        lines.append(f"| {' | '.join(part.replace('|', chr(92) + '|') for part in parts)} |")
    return [*lines, ""]


def _ended(figures: Mapping[str, Any]) -> str:
    detail = figures["detail"].splitlines()[0][:80] if figures["detail"] else ""
    return f"{figures['verdict']}: {detail}" if detail else str(figures["verdict"])


# -- lessons -----------------------------------------------------------------------------------------------------------


def _lessons(name: str, figures: Mapping[str, Any], sources: Mapping[str, str]) -> list[str]:
    every = figures["rungs"]
    asked = [r for r in every if "unavailable" not in r]
    honest, wrong = [r for r in asked if r["right"]], [r for r in asked if not r["right"]]
    clean = sum(r["failing"] == 0 and _judged(r) > 0 for r in honest)
    told = [
        f"## The shipped lessons, {_where(name, figures)}",
        "",
        f"Seed {figures['seed']}, up to {figures['cases']} cases or {figures['budget_s']:.0f} s for an honest rung: "
        f"{clean} of {len(honest)} honest rungs have no failing case",
        f"in {sum(map(_judged, honest))}, and the gate refuses {_refused(honest)}. A `wrong_*` rung gets at "
        f"most 30 in the same time: {_refused(wrong)} of {len(wrong)} are refused by the gate.",
        _since(every, sources),
        "",
        "| lesson | honest rungs | cases | failing | fewest cases of a rung | `wrong_*` refused |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for target in dict.fromkeys(r["target"] for r in asked):
        rungs, slips = ([r for r in some if r["target"] == target] for some in (honest, wrong))
        cases = [_judged(r) for r in rungs]
        cells = [len(rungs), sum(cases), sum(r["failing"] for r in rungs), min(cases, default="–")]
        told.append(f"| `{target}` | {' | '.join(map(str, cells))} | {_refused(slips)} of {len(slips)} |")
    told.append("")
    faults = [
        f"- `{r['target']}` `{r['rung']}`: {f['case']} ({f['strategy']} {f['number']}): {f['detail'] or f['verdict']}"
        for r in honest
        for f in r["failures"]
    ]
    if faults:
        told += ["What was held against honest rungs, the first three of each:", "", *faults, ""]
    if living := [f"- `{r['target']}` `{r['rung']}`: {r['verdict']}" for r in wrong if r["verdict"] != "wrong"]:
        told += [
            "Wrong rungs that the gate let through in so few and small cases. A run asks the lesson's own too,",
            "by which `tests/kernels/test_lessons.py` has each of them refused.",
            "",
            *living,
            "",
        ]
    notes = [f"- `{r['target']}` `{r['rung']}`: {n}" for r in asked for n in [*r["skipped"], r["problem"]] if n]
    if notes:
        told += ["Cases that could not be judged, and processes that ended early:", "", *notes, ""]
    reasons: dict[str, list[str]] = {}
    for r in every:
        if "unavailable" in r:
            reasons.setdefault(r["unavailable"], []).append(f"`{r['target']}` `{r['rung']}`")
    if reasons:
        told += ["Not asked:", "", *(f"- {reason}: {', '.join(who)}." for reason, who in reasons.items()), ""]
    return told


def _wrong_rungs(name: str, figures: Mapping[str, Any], sources: Mapping[str, str]) -> list[str]:
    """The lessons' wrong rungs by both policies."""
    every = figures["rungs"]
    asked = [r for r in every if "unavailable" not in r]
    told = [
        f"## Wrong rungs of the lessons by both policies, {_where(name, figures)}",
        "",
        f"Seed {figures['seed']}, at most 30 cases or {figures['budget_s']:.0f} s for each of {len(asked)} rungs; "
        f"{len(every) - len(asked)} more cannot be asked here.",
        _since(every, sources),
        "",
        *_both(asked, []),
        "| strategy | stage | derived | stated |",
        "|---|---|---:|---:|",
    ]
    derived, stated = rates(asked), rates(asked, "stated")
    told += [f"| {s} | {s.stage} | {_share(derived, s)} | {_share(stated, s)} |" for s in CYCLE]
    reasons = Counter(r["unavailable"] for r in every if "unavailable" in r)
    if reasons:
        told += ["", f"Not asked: {', '.join(f'{reason} ({count})' for reason, count in reasons.items())}."]
    return [*told, ""]


def _since(rungs: Sequence[Mapping[str, Any]], sources: Mapping[str, str]) -> str:
    """Whose files are no longer those that were asked."""
    changed = dict.fromkeys(f"`{r['target']}`" for r in rungs if sources.get(r["target"]) != r["source"])
    if changed:
        return f"Changed since they were asked here: {', '.join(changed)}."
    return "No lesson has changed since in what can decide an answer."


def _judged(rung: Mapping[str, Any]) -> int:
    """Its cases without those that it does not claim to support."""
    return int(rung["cases"] - rung["unsupported"])


def _refused(rungs: Sequence[Mapping[str, Any]]) -> int:
    """How many the gate refuses."""
    return sum(r["verdict"] == "wrong" for r in rungs)


# -- parts -------------------------------------------------------------------------------------------------------------


def _named(data: Data, what: str) -> dict[str, Mapping[str, Any]]:
    return {name.removeprefix(f"{what}_"): data[name] for name in data if name.startswith(f"{what}_")}


def _where(name: str, figures: Mapping[str, Any]) -> str:
    versions = figures["versions"]
    where = "without a GPU, in Triton's interpreter" if versions["device"] == "cpu" else f"on an {versions['device']}"
    sizes = "" if figures.get("small", True) else ", sizes for a GPU"
    jobs = f", {figures['jobs']} rungs at once" if figures.get("jobs", 1) > 1 else ""
    return f"{where} (torch {versions['torch']}, Triton {versions['triton']}{sizes}{jobs})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
