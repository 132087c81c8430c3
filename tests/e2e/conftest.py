from tests.faults.conftest import ssh_world, world

__all__ = ["ssh_world", "world"]
