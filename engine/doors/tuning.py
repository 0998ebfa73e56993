"""A search over the launch parameters of a rung: each combination a quick run, the best judged again in a full one.

A combination is a candidate of the target in the rung's place (doors.many): its file with other literals. So it is
judged as any other candidate is, by an ordinary stored run, and not twice. Of many combinations the one with the
luckiest quick run wins; what it is worth is what the full run says, with fresh processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from aisp.engine import paths
from aisp.engine.client import EngineUnavailableError
from aisp.engine.doors import asking
from aisp.engine.doors.asking import NotHereError, RefusedError
from aisp.engine.doors.many import ENTRY, Common, Ended, Judging, StoppedError, Terms, beside
from aisp.kernels.catalog import parameters, sources
from aisp.kernels.catalog.model import Role
from aisp.kernels.catalog.parameters import Parameter, ParameterError, Value
from aisp.store.candidates import Candidates, Level
from aisp.store.results import evidence
from aisp.store.results.evidence import Evidence

if TYPE_CHECKING:
    from aisp.engine.client import Connection
    from aisp.kernels.catalog.model import Target
    from aisp.store.results.reading import Reading

GRID, TPE = "grid", "tpe"
SEED = 0
"""Of the sampler: what it proposes first is the same for everybody, what it proposes then follows from the times."""
_ASKS = 20
"""Proposals of the sampler that were tried before; then one that was not is drawn."""
_LISTED = 10_000
"""Combinations of which those that are left are listed to draw from."""

Values = Mapping[str, Value]
Key = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One combination, and what its run says.

    Attributes:
        number: counted from 1 in the order of trying.
        reading: the stored run.
        evidence: the same as it is told to programs.
        known: it had been measured before, and was not again.
    """

    number: int
    values: Values
    reading: Reading
    evidence: Evidence
    known: bool = False

    @property
    def score(self) -> float:
        """Its speed-up over the baseline; 0 where it has none."""
        return self.evidence.speedup or 0.0


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search came to.

    Attributes:
        written: the values that the file has.
        trials: in the order of trying; the first has the values that the file has.
        combinations: how many there are.
        spent_s: what the search took, without the full run.
        final: the full run of the best; None where none is right and timed, or the search was interrupted.
    """

    rung: str
    parameters: tuple[Parameter, ...]
    written: Values
    sampler: str
    combinations: int
    budget_s: float
    spent_s: float
    trials: tuple[Trial, ...]
    final: Trial | None = None
    interrupted: bool = False

    @property
    def best(self) -> Trial | None:
        """The trial that is taken for the best once luck is taken off; None where none has a speed-up."""
        return _best(self.trials)

    @property
    def ranked(self) -> list[Trial]:
        """The trials, the greatest speed-up first."""
        return [self.trials[number] for number in evidence.ranked([trial.evidence for trial in self.trials])]


class Sampler(Protocol):
    """Chooses what to try next."""

    def next(self) -> Values | None:
        """A combination that was not tried; None where none is left."""

    def told(self, values: Values, score: float) -> None:
        """What a combination came to."""


def prepare(target: Target, rung: str, given: Sequence[Parameter] = ()) -> tuple[tuple[Parameter, ...], Values]:
    """The parameters to search, those given or else those that the lesson declares, and the values that the file has.

    Raises:
        RefusedError: there is none, or the rung's file cannot have such a value.
    """
    try:
        declared = target.rung(rung).parameters
    except LookupError as error:
        raise RefusedError(str(error.args[0])) from None
    if rung == Role.BASELINE.value:
        raise RefusedError(f"{target.id} is measured against its baseline; name another rung")
    chosen = tuple(given) or declared
    source = sources.read_sources(target).get(f"{rung}.py", b"")
    try:
        if not chosen:
            there = parameters.constants(source)
            known = ", ".join(f"{name}={constant.value!r}" for name, constant in there.items()) or "none"
            told = f"{rung} of {target.id} declares no parameters; name them: BLOCK=64,128"
            raise RefusedError(f"{told} (constants at the top of its file: {known})")
        if len(chosen) > parameters.MAX_PARAMETERS:
            raise RefusedError(f"{len(chosen)} parameters; give at most {parameters.MAX_PARAMETERS}")
        names = [parameter.name for parameter in chosen]
        if len(set(names)) != len(names):
            raise RefusedError("a parameter is named twice; give all its values at once: BLOCK=64,128")
        return chosen, parameters.as_written(source, chosen, f"{rung}.py")
    except ParameterError as error:
        raise RefusedError(str(error)) from None


def tune(
    target: Target,
    rung: str,
    given: Sequence[Parameter] = (),
    *,
    budget_s: float,
    grid: bool = False,
    device: str = "auto",
    told: Callable[[Trial], None] = lambda trial: None,
) -> Tuned:
    """Search the parameters of a rung. Blocks; Ctrl-C ends the search, and what was found is returned.

    Args:
        given: what to search; the lesson's own where left out.
        budget_s: no trial begins after so many seconds; the one under way is not cut short.
        grid: every combination in its order, instead of what Optuna's TPE proposes.
        told: hears of each trial at its end.

    Raises:
        RefusedError: it cannot be searched, or not be run here.
        NotHereError: `device` is "cuda" and there is no GPU, or Optuna is not installed.
    """
    chosen, written = prepare(target, rung, given)
    sampler: Sampler = _Grid(chosen) if grid else _Tpe(chosen)
    with Candidates(paths.candidates_file()) as table:
        search = _Search(table, target, rung, Terms(device), _proposed(sampler, written), budget_s)
        search.hear = [lambda trial: sampler.told(trial.values, trial.score), told]
        try:
            asking.blocking(search.carry_out)
        except (KeyboardInterrupt, StoppedError) as error:
            if isinstance(error, StoppedError) and not search.trials:
                raise NotHereError(str(error)) from None
            search.interrupted, search.spent_s = True, time.monotonic() - search.began_s
    return Tuned(
        rung,
        chosen,
        written,
        GRID if grid else TPE,
        parameters.count(chosen),
        budget_s,
        search.spent_s,
        tuple(search.trials),
        search.final,
        search.interrupted,
    )


# -- inside ------------------------------------------------------------------------------------------------------------


def _best(trials: Sequence[Trial]) -> Trial | None:
    at = evidence.best([trial.evidence for trial in trials])
    return None if at is None else trials[at]


def _proposed(sampler: Sampler, written: Values) -> Iterator[Values]:
    """What the file has, then what the sampler proposes."""
    yield written
    while (values := sampler.next()) is not None:
        if _key(values) != _key(written):
            yield values


class _Search(Judging):
    """Combinations that are judged as they are proposed, one after the other.

    Attributes:
        hear: hear of each trial at its end.
        began_s: when it began (time.monotonic).
        spent_s: what it took so far, without the full run.
    """

    def __init__(
        self,
        table: Candidates,
        target: Target,
        rung: str,
        terms: Terms,
        proposed: Iterable[Values],
        budget_s: float,
    ) -> None:
        self._heard: list[Ended] = []
        super().__init__(table, [], terms, self._heard.append)
        self.hear: list[Callable[[Trial], object]] = []
        self.trials: list[Trial] = []
        self.final: Trial | None = None
        self.interrupted = False
        self.began_s, self.spent_s = time.monotonic(), 0.0
        self._source = sources.read_sources(target)[f"{rung}.py"]
        self._common = Common.of(target, rung)
        self._commons = {self._common.sources: self._common}
        self._proposed, self._budget_s = proposed, budget_s

    async def carry_out(self, engine: Connection) -> None:
        """Search. Cancels what is under way where it is cancelled itself."""
        searching = asyncio.ensure_future(self.work(engine))
        try:
            await asyncio.shield(searching)
        except asyncio.CancelledError:
            with contextlib.suppress(EngineUnavailableError):
                await asking.cancel(engine, self.running)
            searching.cancel()
            await asyncio.gather(searching, return_exceptions=True)
            raise

    async def _judge(self) -> list[Ended]:
        for values in self._proposed:
            trial = await self._trial(values, Level.QUICK)
            self.trials.append(trial)
            for hear in self.hear:
                hear(trial)
            self.spent_s = time.monotonic() - self.began_s
            if self.spent_s >= self._budget_s:
                break
        if (best := _best(self.trials)) is not None:
            # Anew: what is chosen for its luck is judged by processes that were not chosen.
            self.final = await self._trial(best.values, Level.FULL, again=True)
        return self._heard

    async def _trial(self, values: Values, level: Level, *, again: bool = False) -> Trial:
        """One combination judged; what is known of it, where a further run could not better that."""
        source = parameters.put(self._source, values, f"{self._common.rung}.py")
        one = beside(parameters.words(values), {ENTRY: source}, self._common)
        if one.refused:
            raise RefusedError(one.refused)
        self._terms = replace(self._terms, again=again)
        await self._level(self._plan([one], level), level)
        end = self._heard[-1]
        if end.outcome is None or not end.outcome.run_id:
            raise RefusedError(end.why if end.outcome is None else end.outcome.why)
        try:
            reading = (await asyncio.to_thread(asking.read, end.outcome.run_id, None)).reading
        except EngineUnavailableError:
            if not end.known:
                raise
        else:  # it is in the store still
            said = evidence.of_run(reading, self._common.rung)
            if said.verdict.settled or not end.known:
                return Trial(len(self.trials) + 1, values, reading, said, end.known)
        return await self._trial(values, level, again=True)


class _Grid:
    """Every combination in its order."""

    def __init__(self, chosen: Sequence[Parameter]) -> None:
        self._left = parameters.grid(chosen)

    def next(self) -> Values | None:
        return next(self._left, None)

    def told(self, values: Values, score: float) -> None:
        """A grid learns nothing."""


class _Tpe:
    """Optuna's tree-structured Parzen estimator, asked until it proposes what was not tried."""

    def __init__(self, chosen: Sequence[Parameter]) -> None:
        try:
            import optuna  # a second, for a search alone
        except ModuleNotFoundError:
            told = "a search that learns needs the package optuna, which is not here"
            raise NotHereError(f'{told}; pip install "aisp[tune]", or search the grid') from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._parameters = tuple(chosen)
        self._choices: dict[str, Any] = {
            parameter.name: optuna.distributions.CategoricalDistribution(parameter.values) for parameter in chosen
        }
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=SEED))
        self._trial: Any = None  # the one that was proposed and has no score yet
        self._create_trial = optuna.trial.create_trial
        self._scores: dict[Key, float] = {}
        self._random = random.Random(SEED)

    def next(self) -> Values | None:
        within = [key for key in self._scores if self._is_within(dict(key))]
        if len(within) >= parameters.count(self._parameters):
            return None
        for _ in range(_ASKS):
            trial = self._study.ask(self._choices)
            values: dict[str, Value] = dict(trial.params)
            score = self._scores.get(_key(values))
            if score is None:
                self._trial = trial
                return values
            self._study.tell(trial, score)
        self._trial = None
        return self._untried()

    def told(self, values: Values, score: float) -> None:
        self._scores[_key(values)] = score
        if self._trial is not None and _key(self._trial.params) == _key(values):
            self._study.tell(self._trial, score)
        elif self._is_within(values):
            made = self._create_trial(params=dict(values), distributions=self._choices, value=score)
            self._study.add_trial(made)
        self._trial = None

    def _is_within(self, values: Values) -> bool:
        """Whether it is one of the combinations; what a file has need not be."""
        return all(values[parameter.name] in parameter.values for parameter in self._parameters)

    def _untried(self) -> Values:
        """A combination that was not tried, drawn evenly; there is one."""
        if parameters.count(self._parameters) <= _LISTED:
            left = [values for values in parameters.grid(self._parameters) if _key(values) not in self._scores]
            return self._random.choice(left)
        while True:
            values = {parameter.name: self._random.choice(parameter.values) for parameter in self._parameters}
            if _key(values) not in self._scores:
                return values


def _key(values: Values) -> Key:
    """What tells two combinations apart."""
    return tuple(sorted((name, value) for name, value in values.items()))
