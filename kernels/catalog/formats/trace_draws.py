"""Operators that draw tokens at random: how their draws are judged, and on what.

No token is the right one, so the benchmark's own rule is the judge (`rule`), asked in the verifier alone:

- **Each draw**: a token that is there, has a probability, and that `top_k` and `top_p` leave, within the benchmark's
  own margin.
- **Many draws** from one distribution: tokens come as often as in draws of the reference, by a chi-square test of two
  samples that an honest solution fails once in a million. The reference says what is right, since it alone decides
  which filter is applied first and what is normalised between them.
- **Seeds**: behind another seed come other draws.

Two cases that are not timed (`CASES`) have rows of one and the same distribution, few of whose tokens are likely: as
many draws in a call as there are rows. Every call of a run stands behind a seed of its set, so that a call that is
repeated draws the same: a solution takes its random numbers from PyTorch's generator.
"""

from __future__ import annotations

from .trace_definition import PROBABILITIES

SEED = "aisp_seed"
SEED_LINE = "int64 [1] integers(0, 2147483648) cpu"
FILTERS = ("top_k", "top_p")
CASES = ("draws", "draws-again")
RULE = "tokens that the filters leave, as often as the reference draws them"
MOST_ELEMENTS = 2**25  # of the probabilities in one of CASES
MOST_ROWS = 1024
FEWEST_ROWS = 64


def rows(tokens: int) -> int:
    """Draws in a call of one of CASES."""
    return max(FEWEST_ROWS, min(MOST_ROWS, MOST_ELEMENTS // max(1, tokens)))


def note(*, counted: bool) -> str:
    """What a person should know before a verdict; `counted`: there are CASES."""
    said = (
        "it draws at random: every call stands behind a seed of its set, from which PyTorch's random numbers follow; a "
        "solution with a generator of its own draws otherwise when it is timed, and is refused for that"
    )
    if counted:
        return f"{said}; in the cases {' and '.join(CASES)} its draws are counted"
    return (
        f"{said}; {PROBABILITIES} has a fixed number of rows, so that draws are looked at one by one, and not counted"
    )
