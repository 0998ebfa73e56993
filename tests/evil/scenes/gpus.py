"""Scenes of gpus."""
