"""The format, and the plain way from it to bf16.

A row of K e4m3 values is cut into groups of 32, and each group has a scale of one byte, e8m0: eight bits of exponent,
no sign, no mantissa, 2**(byte - 127). That is the exponent field of a bf16 or fp32 number as it stands, so a shift
makes a factor of it: of bytes 1 to 254. Byte 255 is NaN and byte 0 is 2**-127, and the inputs have neither.
"""

import torch
from torch import Tensor

GROUP = 32  # values along K under one scale, of activations and weights alike


def dequantise(values: Tensor, scales: Tensor) -> Tensor:
    """bf16 [R, K] from e4m3 [R, K] and e8m0 in uint8 [R, K/32]. Exact: a power of two moves the exponent alone."""
    powers = (scales.to(torch.int16) << 7).view(torch.bfloat16)
    groups = values.to(torch.bfloat16).view(*scales.shape, GROUP)
    return (groups * powers[:, :, None]).view(values.shape)
