"""Programs that measure aisp or attack it, and write down what came of it: `python -m tests.proofs` lists them."""
