"""Which file system a folder lies on, by lists of mounts as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aisp.engine import filesystem

MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:40 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw,vers=4.2
23 22 0:41 /sub /home/ada/local rw - btrfs /dev/sdb rw
24 21 0:42 / /mnt/two\040words rw - fuse.sshfs host:/ rw
25 21 0:43 / /twice rw - nfs server:/a rw
26 25 0:44 / /twice rw - tmpfs tmpfs rw
this line is none of the kernel's
"""


@pytest.mark.parametrize(
    ("folder", "kind", "network"),
    [
        ("/", "ext4", ""),
        ("/homely/ada", "ext4", ""),
        ("/home", "nfs4", "nfs4"),
        ("/home/ada", "nfs4", "nfs4"),
        ("/home/ada/local/state", "btrfs", ""),
        ("/mnt/two words/x", "fuse.sshfs", "fuse.sshfs"),
        ("/twice", "tmpfs", ""),
    ],
)
def test_the_nearest_mount_above_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, kind: str, network: str
) -> None:
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(MOUNTS)
    assert (filesystem.kind(Path(folder)), filesystem.network(Path(folder))) == (kind, network)


def test_where_the_kernel_does_not_tell_it_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTS", tmp_path / "none")
    assert (filesystem.kind(Path("/")), filesystem.network(Path("/"))) == ("", "")


def test_the_folder_of_this_test_lies_on_something(tmp_path: Path) -> None:
    assert filesystem.kind(tmp_path) != ""
