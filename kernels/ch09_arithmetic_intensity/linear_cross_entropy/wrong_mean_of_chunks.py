"""Wrong: the mean of the chunks' means. A last chunk of 3 tokens weighs as much as one of 256.

The losses of the tokens are right, and so is their mean wherever the chunk divides the number of tokens, as it does in
training; it is wrong for the last batch of an evaluation.
"""

import torch
from chunks import in_chunks, loss_of
from torch import Tensor

CHUNK = 256  # tokens


def run(h: Tensor, w: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:  # h [T, H], w [V, H] bf16, target [T] int64
    token_loss, _ = in_chunks(loss_of, h, w, target, chunk=CHUNK)
    return token_loss, torch.stack([chunk.mean() for chunk in token_loss.split(CHUNK)]).mean()
