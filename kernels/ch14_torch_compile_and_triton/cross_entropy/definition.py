"""What every rung must agree on."""

IGNORED = -100  # the label that PyTorch's cross-entropy leaves out by default
