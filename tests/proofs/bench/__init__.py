"""How fast aisp is on this machine: `python -m tests.proofs bench`, or `make bench`. Reports, and asserts no time."""
