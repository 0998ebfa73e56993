"""Rungs of several ranks: ranks that are killed, equal rungs compared, and how nearly ranks begin together."""
