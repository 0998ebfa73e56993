"""What every rung must agree on."""

A = 2.5  # exact in binary: z = A * x + y is one rounding in fp32 with a fused multiply-add, two without
