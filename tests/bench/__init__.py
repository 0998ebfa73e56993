"""How fast aisp is on this machine: `python -m tests.bench`, or `make bench`. Reports, and asserts no time."""
