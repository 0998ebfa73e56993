"""Engines for tests: `shared` and `own`, see harness.py."""

from tests.engine.harness import own, shared, shared_process

__all__ = ["own", "shared", "shared_process"]
