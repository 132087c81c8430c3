from __future__ import annotations

from windlass.core.file_systems import NETWORK_FILE_SYSTEMS


def test_disks_of_other_machines_are_known_and_local_ones_are_not_among_them() -> None:
    assert {"nfs4", "cifs", "beegfs", "gpfs", "afs", "fuse.sshfs"} <= NETWORK_FILE_SYSTEMS
    assert not {"ext4", "xfs", "btrfs", "overlay", "tmpfs"} & NETWORK_FILE_SYSTEMS
