"""Wrong: keeps x and y in one buffer, so that twice as large a block fits. Horner's rule needs x to the end."""

from chain import block_elements, horner_into
from torch import Tensor


def run(x: Tensor) -> Tensor:  # [N] -> [N]
    y = x.clone()
    for y_block in y.split(2 * block_elements(x.device)):
        horner_into(y_block, y_block)
    return y
