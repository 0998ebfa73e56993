"""What anybody may send or save, by the hundred thousand: the decoder of frames and the front matter of lessons.

Every input follows from a seed and its number, so that one that broke something is had again by these two alone.
"""
