"""256 tokens at a time: a chunk of fp32 logits is 34 MB and stays in the L2; the weights are read 32 times."""

from chunks import in_chunks, loss_of
from torch import Tensor

CHUNK = 256  # tokens


def run(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:  # h [T, H], w [V, H] bf16, target [T] int64
    return in_chunks(loss_of, h, w, target, chunk=CHUNK)
