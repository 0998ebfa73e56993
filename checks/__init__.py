"""Judges: what a right answer is, and whether one was given. Torch is imported inside functions only."""
