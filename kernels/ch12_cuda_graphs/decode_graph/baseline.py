"""Eager: the host launches every one of the block's small kernels, for every token again."""

from decoder_block import decode

run = decode
