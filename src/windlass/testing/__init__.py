"""For packages that bring kinds of targets: the laws of drivers as tests, and what they need. Requires pytest."""

from windlass.testing.harness import GivenSecrets, Harness, wait_until
from windlass.testing.laws import Laws
from windlass.testing.programs import MemoryBundle, Program

__all__ = ["GivenSecrets", "Harness", "Laws", "MemoryBundle", "Program", "wait_until"]
