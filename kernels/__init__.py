"""Lessons: twenty chapters and the labs, and the torch-free catalogue that finds them."""
