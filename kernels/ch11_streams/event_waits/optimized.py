"""One stream and no wait: the scale divides on the device, and both histories are stacked once at the end."""

from chain import walk as run

__all__ = ["run"]
