"""The truth: row shard + 32768 of the table, for every token. It copies numbers and computes none."""

from torch import Tensor


def run(shard: Tensor, table: Tensor) -> Tensor:  # int16 [B, L], [V, D] -> [B, L, D]
    return table[shard.to(table.device).long() + 2**15]
