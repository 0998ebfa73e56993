"""Why a request is not carried out: a status, a word for programs, a sentence, and what would work."""

from __future__ import annotations

import enum
from typing import Any


class Kind(enum.StrEnum):
    """What was wrong with a request."""

    NO_TOKEN = "no_token"
    WRONG_HOST = "wrong_host"
    WRONG_ORIGIN = "wrong_origin"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    TOO_MANY = "too_many"  # requests, waiting clients or tasks; Retry-After says when
    NOT_JSON = "not_json"
    INVALID = "invalid"
    UNKNOWN = "unknown"  # no such target, task, run or route
    CONFLICT = "conflict"
    NO_ENGINE = "no_engine"
    STORE = "store"
    FAULT = "fault"  # our own


_STATUS = {
    Kind.NO_TOKEN: 401,
    Kind.WRONG_HOST: 403,
    Kind.WRONG_ORIGIN: 403,
    Kind.TOO_LARGE: 413,
    Kind.TOO_SLOW: 408,
    Kind.TOO_MANY: 429,
    Kind.NOT_JSON: 400,
    Kind.INVALID: 400,
    Kind.UNKNOWN: 404,
    Kind.CONFLICT: 409,
    Kind.NO_ENGINE: 503,
    Kind.STORE: 503,
    Kind.FAULT: 500,
}
RETRY_S = 1.0


class RefusalError(Exception):
    """A request that is not carried out.

    Attributes:
        kind: for programs.
        error: what was given, in a sentence.
        fix: what would work.
        status: of HTTP; the kind's usual one unless given.
        retry_s: after how long the same may be tried again; None where that changes nothing.
    """

    def __init__(
        self, kind: Kind, error: str, fix: str, *, status: int | None = None, retry_s: float | None = None
    ) -> None:
        super().__init__(f"{error}; {fix}")
        self.kind = kind
        self.error = error
        self.fix = fix
        self.status = _STATUS[kind] if status is None else status
        self.retry_s = RETRY_S if retry_s is None and self.status in (429, 503) else retry_s

    @property
    def document(self) -> dict[str, Any]:
        """What the client gets."""
        return {"error": self.error, "fix": self.fix, "kind": self.kind.value}

    @property
    def headers(self) -> dict[str, str]:
        """Beside it."""
        found = {} if self.retry_s is None else {"retry-after": str(max(1, round(self.retry_s)))}
        return found | ({"www-authenticate": 'Basic realm="aisp"'} if self.kind is Kind.NO_TOKEN else {})
