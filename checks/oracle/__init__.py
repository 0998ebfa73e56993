"""The oracle: is a rung right on every input, not on one.

schema.py     which cases there are, and how one is drawn from a seed (no torch)
values.py     a case's input values, the same bytes on every machine
layouts.py    the same values as views of a larger storage
truth.py      the reference in fp64, and how much error a good implementation of that dtype makes
comparator.py one output against the truth: finding, statistics, where
relations.py  what must hold between two calls of the same rung
shrink.py     from a failing case to the smallest one (no torch)
report.py     a failure as data, and as a script that shows it (no torch)
"""
