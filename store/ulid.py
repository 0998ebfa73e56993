"""ULIDs: 26 characters that sort by creation, made without asking anybody.

48 bits of milliseconds since 1970 and 80 random bits, in Crockford's base 32 (no I, L, O, U). Within one
millisecond, and while the wall clock stands still or steps back, a maker counts the random part up, so the
ids of one process always ascend. The time in an id is a label like every wall time.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26
_RANDOM_BITS = 80
_TIME_BITS = 48


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _random() -> int:
    return secrets.randbits(_RANDOM_BITS)


class UlidMaker:
    """Makes ascending ULIDs. Safe from any thread.

    Args:
        wall_ms: milliseconds since 1970.
        random: 80 random bits.
    """

    def __init__(self, wall_ms: Callable[[], int] = _wall_ms, random: Callable[[], int] = _random) -> None:
        self._wall_ms = wall_ms
        self._random = random
        self._lock = threading.Lock()
        self._last = -1  # the last id as a 128-bit number

    def new(self) -> str:
        """The next id. Raises OverflowError in the year 10889."""
        with self._lock:
            value = self._wall_ms() << _RANDOM_BITS | self._random()
            if value >> _RANDOM_BITS <= self._last >> _RANDOM_BITS:
                value = self._last + 1  # runs over into the next millisecond if it must
            if value >> (_TIME_BITS + _RANDOM_BITS):
                raise OverflowError("a ULID has room for 48 bits of milliseconds")
            self._last = value
        return "".join(ALPHABET[value >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))


_maker = UlidMaker()


def new_ulid() -> str:
    """A ULID that sorts after every other one of this process."""
    return _maker.new()


def is_ulid(text: str) -> bool:
    """Whether a text is one, as `new_ulid` writes it."""
    return len(text) == LENGTH and text[0] in ALPHABET[:8] and set(text) <= set(ALPHABET)


def made_s(ulid: str) -> float:
    """When it was made, by its maker's wall clock: seconds since 1970. Raises ValueError for what is no ULID."""
    if len(ulid) != LENGTH:
        raise ValueError(f"a ULID has {LENGTH} characters, not {len(ulid)}")
    value = 0
    for sign in ulid:
        value = value << 5 | ALPHABET.index(sign)
    return (value >> _RANDOM_BITS) / 1e3
