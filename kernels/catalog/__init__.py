"""The catalogue: finds targets on disk and reads their front matter without importing any of them.

Everything here is plain Python over files, so that a face may list a thousand targets without torch.
"""
