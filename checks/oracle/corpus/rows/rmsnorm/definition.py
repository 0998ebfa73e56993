"""What every rung must agree on."""

EPS = 1e-6  # added to the mean of the squares, inside the root
