"""Doors for programs: the Python API. They ask the engine as any client does, and answer with the record."""
