"""Wrong: undoes the offset in 16 bits and widens afterwards. Tokens from 32768 up come out negative.

Flipping the top bit is the right way to undo the offset of an unsigned number, and int16 is not one. A negative index
is no error in PyTorch: it counts from the table's end, and finds some other token's row.
"""

from torch import Tensor


def run(shard: Tensor, table: Tensor) -> Tensor:  # int16 [B, L], bf16 [V, D] -> [B, L, D]
    ids = (shard.to(table.device, non_blocking=True) ^ -(2**15)).long()
    return table[ids]
