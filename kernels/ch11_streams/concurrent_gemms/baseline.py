"""One product after the other on one stream: each fills a part of the SMs, and the rest of them wait."""

from dealing import serial as run

__all__ = ["run"]
