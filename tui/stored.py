"""What the store knows of targets, as app and command line read it. What reads belongs into a thread."""

from __future__ import annotations

from collections.abc import Sequence

from aisp.engine.stored import Readings
from aisp.kernels.catalog.model import Target
from aisp.store.record import Run
from aisp.store.results.comparison import Side, side
from aisp.store.results.overview import Lesson
from aisp.store.results.prediction import LOOK_BACK_RUNS, Answer, answer
from aisp.store.results.reading import Reading
from aisp.tui.earlier import newest_first


class Stored(Readings):
    """The store, open for reading, with what app and command line say of its runs and targets."""

    def side(self, record: Run) -> Side:
        """A run with what it ran on. The driver's readings are fetched only where no arm has a clock of its own."""
        telemetry = None
        if record.device.startswith("cuda") and all(arm.sm_clock_mhz is None for arm in record.arms):
            telemetry = self.telemetry(record.id)
        return side(
            self.read(record), self.facts(record), telemetry.sm_clock_mhz.tolist() if telemetry is not None else ()
        )

    def answer(self, target: Target) -> Answer | None:
        if target.expect is None:
            return None
        held = bool(self.marks.in_force(bytes(target.folder)))
        return answer(newest_first(self, target.names, LOOK_BACK_RUNS), target, self.facts, quarantined=held)

    def lessons(self, targets: Sequence[Target], *, facts: bool = True) -> list[Lesson]:
        """Every target with its last result, a newer try that says nothing, and its rungs in quarantine; with what the
        result ran on where `facts` are wanted."""
        names = list(dict.fromkeys(name for target in targets for name in target.names))
        board, attempts = self.board(names, all_findings=False), self.attempts(names)
        found = []
        for target in targets:
            run, attempt = target.known_in(board), target.known_in(attempts)
            if run is not None and attempt is not None and attempt.id < run.id:
                attempt = None  # under the name that it had before
            found.append(
                Lesson(
                    target,
                    self.read(run) if run is not None else None,
                    Reading(attempt) if attempt is not None else None,
                    self.facts(run) if run is not None and facts else {},
                    self.marks.in_force(bytes(target.folder)),
                )
            )
        return found

    def facts_and_temperature(self, record: Run) -> dict[str, object]:
        """The same, and how warm its GPU became at most, where that was read."""
        from aisp.store.results.contract import TEMPERATURE  # only where a contract is held against runs

        telemetry = self.telemetry(record.id)
        degrees = [float(value) for value in telemetry.temperature_c if value > 0] if telemetry is not None else []
        return {**self.facts(record), **({TEMPERATURE: max(degrees)} if degrees else {})}
