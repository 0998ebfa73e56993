"""Eager: thirteen operators, thirteen trips through memory."""

from pipeline import augment

run = augment
