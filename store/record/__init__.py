"""The record: what a run, a GPU's ceilings, a fuzz and an edit came to, each as one frozen struct."""

from aisp.store.record.fuzz import ERROR_BINS, Failure, Fuzz, NaiveOpinion, RungFuzz, Tally
from aisp.store.record.peak import Ceiling, Peak
from aisp.store.record.run import (
    AUTHOR_CHECK,
    DISCARDED,
    EVIDENCE_CHARS,
    INSTALLED_CHECK,
    Arm,
    Comparison,
    ContradictionError,
    Finding,
    Light,
    Naive,
    Quality,
    Quarantine,
    RuleSaid,
    Run,
    Step,
    unplanned,
)

__all__ = [
    "AUTHOR_CHECK",
    "DISCARDED",
    "ERROR_BINS",
    "EVIDENCE_CHARS",
    "INSTALLED_CHECK",
    "Arm",
    "Ceiling",
    "Comparison",
    "ContradictionError",
    "Failure",
    "Finding",
    "Fuzz",
    "Light",
    "Naive",
    "NaiveOpinion",
    "Peak",
    "Quality",
    "Quarantine",
    "RuleSaid",
    "Run",
    "RungFuzz",
    "Step",
    "Tally",
    "unplanned",
]
