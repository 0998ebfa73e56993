from tests.engine.harness import shared, shared_process

__all__ = ["shared", "shared_process"]
