"""Scenes of engines."""
