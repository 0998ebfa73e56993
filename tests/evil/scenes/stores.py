"""Scenes of stores."""
