from tests.faults.conftest import world

__all__ = ["world"]
