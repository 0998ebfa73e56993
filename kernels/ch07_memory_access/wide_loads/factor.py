"""What every rung must agree on."""

FACTOR = 1.25  # exact in binary: the product is rounded once, whoever computes it
