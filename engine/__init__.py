"""Measuring: the background process, its workers and verifier, and the client that frontends use. No torch here."""
