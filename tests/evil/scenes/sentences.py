"""Rows 76, 77 and 79: what is said where torch, stdout or the disk fail."""
