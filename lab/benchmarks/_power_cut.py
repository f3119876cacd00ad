"""A disk of its own whose power can be cut: a file system in a file, shut down without writing its log.

What was synced is there afterwards, and of everything else what the file system happened to have written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHUT_DOWN = 0x8004587D
"""The same call of ext4 and XFS."""
WITHOUT_LOG = struct.pack("I", 2)
SIZE_MB = 640
PATIENCE_S = 30.0


@dataclass(frozen=True)
class LoopDisk:
    image: Path
    folder: Path
    """Where it is mounted."""
    kind: str

    def mount(self) -> None:
        options = "loop,nouuid" if self.kind == "xfs" else "loop"
        _run("mount", "-o", options, str(self.image), str(self.folder))

    def cut(self) -> None:
        """From now on nothing is written; whoever tries gets EIO."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUT_DOWN, WITHOUT_LOG)
        finally:
            os.close(handle)

    def restore(self) -> None:
        """Mount what the cut has left. Nothing of ours may use it any more.

        A copy: whoever made a mount namespace meanwhile may still hold the one that was shut down.
        """
        self.unmount()
        copied = self.image.with_name("copy")
        _run("cp", "--sparse=always", str(self.image), str(copied))
        copied.replace(self.image)
        self.mount()

    def is_mounted(self) -> bool:
        """By the kernel's list: nothing on a disk without power answers, its root neither."""
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        return str(self.folder.resolve()) in {line.split()[1] for line in mounts}

    def unmount(self) -> None:
        """As soon as nobody holds it any more. The loop device goes with it."""
        deadline = time.monotonic() + PATIENCE_S
        while self.is_mounted():
            try:
                _run("umount", str(self.folder))
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def why_not(kind: str = "ext4") -> str | None:
    """Why the power of a disk cannot be cut here, tried on one; None if it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    tools = [tool for tool in (f"mkfs.{kind}", "mount", "losetup") if shutil.which(tool) is None]
    if tools:
        return f"{' and '.join(tools)} cannot be found"
    with tempfile.TemporaryDirectory(prefix="mooring-disk-") as folder:
        try:
            with loop_disk(Path(folder), kind) as disk:
                disk.cut()
                disk.restore()
        except (RuntimeError, OSError) as refused:
            return f"no {kind} in a file, or none that can be shut down: {refused}"
    return None


@contextlib.contextmanager
def loop_disk(folder: Path, kind: str = "ext4", at: str = "disk") -> Iterator[LoopDisk]:
    """Mounted at `folder`/`at`. RuntimeError if this machine does not allow it."""
    disk = LoopDisk(folder / "image", folder / at, kind)
    disk.folder.mkdir()
    with disk.image.open("wb") as image:
        image.truncate(SIZE_MB << 20)
    try:
        _run(f"mkfs.{kind}", "-q", str(disk.image))
        disk.mount()
        yield disk
    finally:
        disk.unmount()
        disk.image.unlink()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
