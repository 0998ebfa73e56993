"""What every rung must agree on."""

EPS = 1e-6  # added to the sum of the squares, inside the root: a row of zeros stays one, and has a gradient
