"""Faces: the Textual app `aisp-tui` and the command line `aisp`."""
