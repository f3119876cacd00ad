"""What the owner of a storage root writes: all of it in, or by way of, one folder named after its generation.

Whoever takes the root over gets the next generation, and the folder of the last one is gone, as an old epoch
of a checkpoint is (`fencing.py`). So an owner that was overtaken and does not know it yet can change nothing:
what lies in its folder (journal, sessions, notes, checkpoints) is out of its reach, and whatever it changes
elsewhere, such as a sink's log or a file that all readers have passed, it changes by a rename out of its
folder or into it. A rename is one step, so there is no moment between looking and acting.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from mooring.spark.storage.fencing import current_epoch
from mooring.whole_files import write_whole

OWNED = "owned"
"""The folder of all generations in a storage root."""
_PARTS = ("checkpoints", "notes", "out")


@dataclass(frozen=True)
class OwnedFolder:
    folder: Path

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
        return sorted((self.folder / "notes").glob("*.channel.json"))

    def forget_channels(self) -> None:
        for note in sorted((self.folder / "notes").iterdir()):
            self.remove(note)

    def make_parts(self) -> None:
        """In a folder that is there; an owner's own is never made again."""
        for part in _PARTS:
            (self.folder / part).mkdir(exist_ok=True)

    # Changes elsewhere under the root, each of which fails once the folder is gone

    def replace(self, path: Path, content: str | bytes, *, on_disk: bool = False) -> None:
        """Write a file all or nothing."""
        write_whole(path, content, on_disk=on_disk, through=self.out)

    def remove(self, path: Path) -> None:
        """A file, a link, or a folder with all it holds; nothing if it is not there."""
        away = self._hidden()
        try:
            os.rename(path, away)
        except FileNotFoundError:
            if not self.out.is_dir():
                raise
            return
        if away.is_dir() and not away.is_symlink():
            shutil.rmtree(away)
        else:
            away.unlink()

    def make_folder(self, path: Path) -> None:
        """Also those above it; nothing if it is there."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        made = self._hidden()
        made.mkdir()
        os.rename(made, path)

    def make_link(self, path: Path, target: str) -> None:
        """A symbolic link; whatever file or link is there is replaced."""
        made = self._hidden()
        made.symlink_to(target, target_is_directory=True)
        os.rename(made, path)

    def make_twin(self, path: Path, source: Path) -> None:
        """A second name of a file that never changes, or a copy where the file system gives none; nothing if
        it is there.
        """
        if path.is_file():
            return
        made = self._hidden()
        try:
            os.link(source, made)
        except OSError:
            shutil.copyfile(source, made)
        os.rename(made, path)

    @property
    def out(self) -> Path:
        """For what is on its way to another place under the root, or out of it."""
        return self.folder / "out"

    def _hidden(self) -> Path:
        return self.out / secrets.token_hex(8)


def newest_owned(root: Path) -> OwnedFolder | None:
    """That of whoever owns the root, or owned it last; None if nobody ever did."""
    folder = current_epoch(root / OWNED)
    return OwnedFolder(folder) if folder.is_dir() else None


def unowned(root: Path) -> OwnedFolder:
    """For work on a root that nobody else can know of; it is made where there is none."""
    if (found := newest_owned(root)) is None:
        found = OwnedFolder(root / OWNED / "000001")
        found.folder.mkdir(parents=True)
    found.make_parts()
    return found
