"""What every rung must agree on."""

P = 90  # percent of a row's weight that the nucleus must reach
BITS = 20  # weights lie below 2**BITS
