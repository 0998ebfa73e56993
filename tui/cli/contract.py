"""`aisp contract`: write what a run must keep to count, ask whether a run keeps it, and compare two contracts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aisp.store.results.tables import Column, at, attributes, documents
from aisp.store.text import clean_line
from aisp.tui import plain
from aisp.tui.cli import common
from aisp.tui.cli.tree import EXIT_GOOD, EXIT_NO, NotHereError

if TYPE_CHECKING:
    from aisp.kernels.catalog.contracts import Changed, Contract
    from aisp.kernels.catalog.model import Problem
    from aisp.store.results.contract import Breach, Figure
    from aisp.store.results.reading import Reading

USUAL_FILE = "contract.toml"
_A_FILE = click.Path(exists=True, dir_okay=False)
ACTIONS = {"new": ("file", "out", "origin"), "diff": ("file", "other"), "file": ("other", "as_yaml"), "": ()}


@click.command()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(dir_okay=False))
@click.argument("other", metavar="[RUN|TARGET]", required=False, shell_complete=common.complete_targets_and_runs)
@click.option("--yaml", "as_yaml", is_flag=True, help="Print a BenchmarkRun document, with what RUN came to.")
@click.option("--diff", is_flag=True, help="Show in which keys FILE and the contract behind it differ.")
@click.option("--new", is_flag=True, help="Write a commented contract that holds.")
@common.out_option("out", "", f"With --new: into this file; {USUAL_FILE} by default.", type=click.Path(dir_okay=False))
@click.option("--from", "origin", metavar="RUN.yaml", type=_A_FILE, help="With --new: of this BenchmarkRun document.")
@common.json_option
def command(
    file: str | None,
    other: str | None,
    as_yaml: bool,
    out: str | None,
    origin: str | None,
    as_json: bool,
    **_: bool,
) -> int:
    """Say whether FILE is a contract, and whether RUN, or the last result of TARGET, keeps it.

    A run that breaks its contract is no result of that contract; each line that it breaks is named. Its own verdict
    stays what it is. A run that keeps the contract and misses the wanted value of its figure is a result, and the
    answer is no.

    What --new writes is to be changed as it is needed; what is there is never written over. For --diff comments and
    order make no difference.

    Exit status: 0 kept, or alike; 1 broken, the wanted value was missed, or they differ; 2 FILE is no contract, there
    is no such run, or the new FILE is there or its name will not do; 3 the store or FILE cannot be read or written, or
    PyYAML is not installed.
    """
    chosen = common.action(ACTIONS)
    if chosen == "new":
        new(out or file, origin, as_json=as_json)
        return EXIT_GOOD
    if file is None or (chosen == "diff" and other is None):
        raise click.UsageError("give a contract FILE, two with --diff, or --new to write one")
    _A_FILE.convert(file, None, None)
    if other is not None and chosen == "diff":
        _A_FILE.convert(other, None, None)
        return diff(file, other, as_json=as_json)
    return check(file, other, as_yaml=as_yaml, as_json=as_json)


# -- new ---------------------------------------------------------------------------------------------------------------


def new(file: str | None, origin: str | None, *, as_json: bool) -> None:
    """Write a commented contract into `file`, contract.toml by default, or what a BenchmarkRun document says."""
    from aisp.kernels.catalog import contracts  # parses nothing unless a command needs it

    path = Path(file or USUAL_FILE).expanduser()
    if not path.name.endswith(contracts.SUFFIX):
        how = f"ends with {contracts.SUFFIX}, as tier1.{contracts.SUFFIX} does"
        raise click.UsageError(f"{path}: a contract's name {how}")
    found = contracts.example() if origin is None else _of_yaml(Path(origin))
    text = contracts.render(found)
    written = _checked(*contracts.parse(text.encode(), path))
    try:
        with path.open("x", encoding="utf-8") as sink:
            sink.write(text)
    except FileExistsError:
        raise click.UsageError(f"{path} is there already; give another name, or remove it first") from None
    except OSError as error:
        raise NotHereError(common.cannot("written", path, error)) from None
    named = common.path_text(path)
    common.answer(
        as_json,
        lambda: {"file": str(path), "from": origin, **_as_json(written)},
        lambda width: [f"wrote {named}; next:", f"  aisp contract {named} RUN"],
    )


def _of_yaml(path: Path) -> Contract:
    from aisp.kernels.catalog import benchmark_run, yaml_text  # and PyYAML: only for such a document

    try:
        return _checked(*benchmark_run.parse(_bytes(path), path))
    except yaml_text.MissingYamlError as error:
        raise NotHereError(str(error)) from None


# -- check -------------------------------------------------------------------------------------------------------------


def check(file: str, run: str | None, *, as_yaml: bool, as_json: bool) -> int:
    """Say whether a file is a contract, and whether a run keeps it; the exit status."""
    if as_yaml and as_json:
        raise click.UsageError("--yaml and --json are two ways to print the same; give one of them")
    contract = _read(Path(file))
    if run is None:
        if as_yaml:
            _say_yaml(contract, [])
        elif as_json:
            common.say_document({"file": file, **_as_json(contract), "run": None})
        else:
            common.say(f"{common.path_text(file)}: {clean_line(contract.title)} (sha256 {contract.sha256[:16]})")
        return EXIT_GOOD
    from aisp.store.results import contract as results  # the record and the store: only where a run is asked about

    with common.history() as opened:
        record = opened.run(opened.one(run))
        if not record.state.final:
            raise click.UsageError(f"run {record.id} is still {record.state}; ask again when it has ended")
        facts = opened.facts_and_temperature(record)
        files = opened.snapshot(record.snapshot) if record.snapshot else {}
        reading = opened.read(record)
    broken = results.breaches(contract, record, facts, results.imports_of(record, files))
    figure = results.figure(contract, reading)
    frozen, why = results.frozen_in(record)
    other = why or (
        f"the run was started under the contract {frozen.name} (sha256 {frozen.sha256[:16]}), which is another"
        if frozen is not None and frozen.sha256 != contract.sha256
        else ""
    )
    if other:
        common.note(other)
    if as_yaml:
        _say_yaml(contract, [_result(reading, broken, figure)])
    elif as_json:
        told = _run_json(reading, broken, figure, frozen)
        common.say_document({"file": file, **_as_json(contract), "run": told})
    else:
        common.say("\n".join(_lines(reading, broken, figure)))
    return EXIT_NO if broken or figure.met is False else EXIT_GOOD


def _lines(run: Reading, broken: Sequence[Breach], figure: Figure) -> list[str]:
    found = [clean_line(str(breach), limit=2000) for breach in broken]
    count = f"{len(broken)} line{'s' if len(broken) > 1 else ''}"
    what = f"breaks {count} of it and is no result of it" if broken else "keeps it"
    found.append(f"run {run.id} of {clean_line(run.record.target)} {what}")
    if figure.value is not None:
        outcome = "" if figure.met is None else ", met" if figure.met else ", missed"
        wanted = "" if figure.target is None else f", wanted {plain.number(figure.target)}"
        found.append(f"{figure.metric}: {plain.number(figure.value)}{wanted}{outcome}")
    return found


def _result(run: Reading, broken: Sequence[Breach], figure: Figure) -> dict[str, object]:
    best, record = run.best, run.record
    return {
        "run": record.id,
        "target": record.target,
        "case": record.case,
        "wall": record.wall,
        "rung": best.rung if best is not None else None,
        "verdict": str(record.verdict),
        "speedup": best.speedup if best is not None else None,
        "interval": [best.low, best.high] if best is not None else None,
        "kpi": {"metric": str(figure.metric), "value": figure.value, "met": figure.met},
        "kept": not broken,
        "breaches": [str(breach) for breach in broken],
    }


def _run_json(run: Reading, broken: Sequence[Breach], figure: Figure, frozen: Contract | None) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "target": run.record.target,
        "kept": not broken,
        "breaches": [attributes(breach, "place", "key", "wanted", "found") for breach in broken],
        "kpi": attributes(figure, "metric", "value", "target", "met", "reason"),
        "frozen_sha256": frozen.sha256 if frozen is not None else None,
    }


def _say_yaml(contract: Contract, results: Sequence[Mapping[str, object]]) -> None:
    from aisp.kernels.catalog import benchmark_run, yaml_text  # and PyYAML

    try:
        text = benchmark_run.write(contract, results)
    except yaml_text.MissingYamlError as error:
        raise NotHereError(str(error)) from None
    common.say(text.rstrip("\n"))


# -- diff --------------------------------------------------------------------------------------------------------------


def diff(a: str, b: str, *, as_json: bool) -> int:
    """Show in which keys two contracts differ; the exit status."""
    from aisp.kernels.catalog import contracts

    one, other = _read(Path(a)), _read(Path(b))
    changed = contracts.diff(one, other)
    if as_json:
        sides = [{"file": file, "sha256": found.sha256} for file, found in ((a, one), (b, other))]
        changes = documents(CHANGED, changed)
        common.say_document({"a": sides[0], "b": sides[1], "alike": not changed, "changed": changes})
    elif not changed:
        common.say("alike")
    else:
        key, *values = CHANGED
        columns = [replace(one, head=common.path_text(file)) for one, file in zip(values, (a, b), strict=True)]
        common.say("\n".join(plain.listing([key, *columns], changed, width=common.terminal_width())))
    return EXIT_NO if changed else EXIT_GOOD


def _toml(value: Any) -> str:
    from aisp.kernels.catalog import contracts

    return "" if value is None else contracts.as_toml(value)


CHANGED: tuple[Column[Changed], ...] = (
    Column("key", "in which they differ", at("key"), "key"),
    Column("a", "its value in the first, null where it has none", at("a"), "A", lambda item: _toml(item.a)),
    Column("b", "in the second", at("b"), "B", lambda item: _toml(item.b), shrink=True),
)


# -- what they share ---------------------------------------------------------------------------------------------------


def _read(path: Path) -> Contract:
    """The contract in a file; wrong usage, with everything that is wrong, where there is none."""
    from aisp.kernels.catalog import contracts

    return _checked(*contracts.parse(_bytes(path), path))


def _bytes(path: Path) -> bytes:
    from aisp.kernels.catalog import sources

    try:
        return sources.read_bytes(str(path))
    except OSError as error:
        raise NotHereError(f"{path} cannot be read: {sources.reason(error)}") from None


def _checked(found: Contract | None, problems: Sequence[Problem]) -> Contract:
    if found is None:
        raise click.UsageError("\n".join(clean_line(str(problem), limit=2000) for problem in problems))
    return found


def _as_json(contract: Contract) -> dict[str, Any]:
    return {"name": contract.name, "sha256": contract.sha256, "document": contract.document()}
