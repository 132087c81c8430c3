"""The runner: host and supervisor, beside the user's script. Standard library of Python 3.8 only; shipped as a zip."""
