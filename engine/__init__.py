"""Measuring: the background process, its workers and verifier, and the client that faces use. No torch here."""
