"""Scenes of the fault matrix, one module per part of the system: see tests/proofs/evil/matrix.py."""
