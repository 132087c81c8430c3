"""Test kit for packages with their own drivers: the driver contract as tests (Laws) and a Harness. Needs pytest."""

from windlass.testing.harness import GivenSecrets, Harness, wait_until
from windlass.testing.laws import Laws
from windlass.testing.programs import MemoryBundle, Program

__all__ = ["GivenSecrets", "Harness", "Laws", "MemoryBundle", "Program", "wait_until"]
