"""The oracle, part by part, without an engine."""
