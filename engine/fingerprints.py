"""How fingerprints of outputs are compared. The worker makes them (engine.worker.arm), the engine judges them.

Per output three numbers: two random projections and the sum of squares, sums in fp32 or fp64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

NUMBERS = 3  # per output


def first_difference(expected: Sequence[float], actual: Sequence[float], tolerance: float) -> int | None:
    """The first output whose fingerprint differs, None where all agree.

    Args:
        wanted, found: of the same number of outputs.
        tolerance: relative, of the outputs' norm for the projections and of its square for the sum of squares.
    """
    for start in range(0, len(expected), NUMBERS):
        square = abs(expected[start + 2])
        scale = math.sqrt(square)
        for offset, unit in ((0, scale), (1, scale), (2, square)):
            if not math.isfinite(unit):
                unit = 0.0  # within a tolerance of infinity lies everything
            old, new = expected[start + offset], actual[start + offset]
            same = old == new or (math.isnan(old) and math.isnan(new))
            if not same and not abs(old - new) <= tolerance * unit:
                return start // NUMBERS
    return None
