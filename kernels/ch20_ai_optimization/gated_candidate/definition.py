"""What every rung must agree on."""

EPS = 1e-5  # added to the variance, inside the root
