"""Generator of docs/reference/ from the code, so that the reference cannot differ from the program."""
