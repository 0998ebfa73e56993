"""Nightly runs of a suite, simulated from stored samples: how often unchanged code is called worse, and what planted
slowdowns come to."""
