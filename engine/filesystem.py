"""On what kind of file system a folder lies, as the kernel names it.

On one that several hosts share, SQLite's write-ahead log is not safe: its index is memory that the readers and the
writer share, and two hosts share none.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")  # tests name another one
# A file system of these types reaches its files over a network, or from the host of a virtual machine.
NETWORK = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|pvfs2|smb3|smbfs|virtiofs|wekafs"
    r"|fuse\.(beegfs|ceph|gcsfuse|glusterfs|juicefs|mfs|rclone|s3fs|smbnetfs|sshfs)"
)


def kind(folder: Path) -> str:
    """The type of the file system that `folder` lies on ("ext4", "nfs4"); "" where the kernel does not tell.

    It is that of the mount point nearest above: a subvolume has a device number that no mount has.
    """
    place = os.fsencode(os.path.realpath(folder))
    fs_type, depth = "", -1
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:
        return ""
    for line in lines:
        mount, _, rest = line.partition(b" - ")
        words = mount.split(b" ")
        if len(words) < 5 or not rest:
            continue
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), words[4]).rstrip(b"/")
        # Of several mounts on one place the last one is seen.
        if (place == point or place.startswith(point + b"/")) and len(point) >= depth:
            fs_type, depth = os.fsdecode(rest.split(b" ")[0]), len(point)
    return fs_type


def network(folder: Path) -> str:
    """The type of the file system that `folder` lies on where other hosts may use it too; else ""."""
    name = kind(folder)
    return name if NETWORK.fullmatch(name) else ""
