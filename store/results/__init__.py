"""One reading of a record: the rules about runs that the engine, the app and the command line share.

Pure functions over anything that has the fields they name: a record of the store, a live view, a row. No SQL, no
screen, no numpy.
"""
