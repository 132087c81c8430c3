"""Network file systems, by the names that /proc/mounts has for them. SQLite's locks do not hold there."""

NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3",
        "smbfs",
    }
)  # fmt: skip
