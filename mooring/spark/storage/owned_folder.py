"""The owned folder of a storage root: the owner writes only in, or by way of, a folder named after its
generation.

A run that takes the root over gets the next generation, and the folder of the last one is gone, as an old
epoch of a checkpoint is (`fencing.py`). So an owner that was overtaken and has not noticed yet can change
nothing: what lies in its folder (journal, sessions, notes, checkpoints) is out of its reach. Everything that
it changes elsewhere, such as a sink's log or a file that all readers have passed, it changes by a rename out
of its folder or into it. A rename is one step, so there is no moment between looking and acting.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from mooring.disk import DISK, Disk, is_file, is_folder
from mooring.spark.storage.fencing import current_epoch

OWNED = "owned"
"""The folder of all generations in a storage root."""
_PARTS = ("checkpoints", "notes", "out")


@dataclass(frozen=True)
class OwnedFolder:
    folder: Path
    disk: Disk = DISK

    @property
    def checkpoints(self) -> Path:
        """A folder per fragment, with one epoch of its checkpoint per start."""
        return self.folder / "checkpoints"

    def channel_note(self, channel: str) -> Path:
        """Who reads a channel, and what is being trimmed of it; `channel` is the name of its folder."""
        return self.folder / "notes" / f"{channel}.channel.json"

    def merge_lists(self, channel: str) -> Path:
        """A folder with the files of each merge of a channel that is under way."""
        return self.folder / "notes" / f"{channel}.merges"

    def channel_notes(self) -> list[Path]:
        notes = self.folder / "notes"
        return [notes / name for name in self.disk.list(notes) if name.endswith(".channel.json")]

    def forget_channels(self) -> None:
        for name in self.disk.list(self.folder / "notes"):
            self.remove(self.folder / "notes" / name)

    def make_parts(self) -> None:
        """In a folder that is there; an owner's own is never made again."""
        for part in _PARTS:
            self.disk.make_folder(self.folder / part, exist_ok=True)

    # Changes elsewhere under the root, each of which fails once the folder is gone

    def replace(self, path: Path, content: str | bytes, *, on_disk: bool = False) -> None:
        """Write a file all or nothing."""
        data = content.encode() if isinstance(content, str) else content
        self.disk.replace(path, data, durable=on_disk, through=self.out)

    def remove(self, path: Path) -> None:
        """A file, a link, or a folder with all it holds; nothing if it is not there."""
        away = self._hidden()
        try:
            self.disk.move(path, away)
        except FileNotFoundError:
            if not is_folder(self.disk, self.out):
                raise
            return
        self.disk.delete(away)

    def set_aside(self, path: Path, new: Path) -> None:
        """Give a file another name."""
        away = self._hidden()
        self.disk.move(path, away)
        self.disk.move(away, new)

    def make_folder(self, path: Path) -> None:
        """Also those above it; nothing if it is there."""
        if is_folder(self.disk, path):
            return
        self.make_folder(path.parent)
        made = self._hidden()
        self.disk.make_folder(made)
        self.disk.move(made, path)

    def make_link(self, path: Path, target: str) -> None:
        """A symbolic link; whatever file or link is there is replaced."""
        made = self._hidden()
        self.disk.link(made, target)
        self.disk.move(made, path)

    def make_twin(self, path: Path, source: Path) -> None:
        """A second name of a file that never changes, or a copy where the file system gives none; nothing if
        it is there.
        """
        if is_file(self.disk, path):
            return
        made = self._hidden()
        self.disk.copy(source, made)
        self.disk.move(made, path)

    @property
    def out(self) -> Path:
        """For what is on its way to another place under the root, or out of it."""
        return self.folder / "out"

    def _hidden(self) -> Path:
        return self.out / secrets.token_hex(8)


def newest_owned(root: Path, disk: Disk = DISK) -> OwnedFolder | None:
    """That of whoever owns the root, or owned it last; None if nobody ever did."""
    folder = current_epoch(root / OWNED, disk)
    return OwnedFolder(folder, disk) if is_folder(disk, folder) else None


def unowned(root: Path, disk: Disk = DISK) -> OwnedFolder:
    """For work on a root that nobody else can know of; it is made where there is none."""
    if (found := newest_owned(root, disk)) is None:
        found = OwnedFolder(root / OWNED / "000001", disk)
        disk.make_folder(found.folder, parents=True)
    found.make_parts()
    return found
