"""What a content is known by: the whole sha256 over it, which is made here and nowhere else.

Tasks, candidates, submissions, batches and the folders that aisp writes are recognised by it. A name may show a part
of it to people and decides nothing; and whoever finds something under a digest compares the contents themselves before
one is taken for the other. So a shorter digest would cost refusals, and never a wrong answer.
"""

from __future__ import annotations

import hashlib


def digest(data: bytes) -> str:
    """In 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def of_words(*words: str) -> str:
    """The digest of texts in their order. Each has its length before it, so that no two lists run into one."""
    return digest("".join(f"{len(word)}\n{word}" for word in words).encode("utf-8", "surrogatepass"))
