"""What targets made of other people's problems import at run time, in rungs, the verifier and the judge's rule.

Real modules, so that a target's folder holds its authors' files and a few lines. torch is imported here: the catalogue,
the engine and the frontends import none of it.
"""
