"""Memory: every run, sample and source, in SQLite, through one writer. Imports nothing of ours."""
