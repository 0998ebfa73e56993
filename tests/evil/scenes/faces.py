"""Scenes of faces."""
