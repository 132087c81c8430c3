"""Writes docs/reference/ from the code, so that the reference cannot say something else than the program."""
