"""Scenes of files."""
