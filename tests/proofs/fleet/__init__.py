"""The fleet under kills: candidates over a Ray cluster of one host, and the same without Ray."""
