"""Eager: a loop over the tokens, seven operators in each, every one of them launched by the host."""

from cell import decode

run = decode
