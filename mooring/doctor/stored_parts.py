"""The parts of a storage, found by their files and not by the pipeline.

Folders are named after flows and fragments, so everything that was ever stored is found, whether or not the
project still defines it. A channel has the name of the fragment that writes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mooring.errors import EngineError
from mooring.spark.runs.falling_back import FallingBack
from mooring.spark.runs.left_sessions import FILE_NAME as SESSIONS
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.checkpoints.fallback import Fallback
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.owned_folder import OwnedFolder
from mooring.spark.storage.sink_numbers import SinkPlace


@dataclass(frozen=True)
class StoredParts:
    root: Path
    """The storage root."""
    owned: OwnedFolder
    """That of its last owner."""
    falling: FallingBack | None = None
    """None where nothing says how the pipeline was cut."""
    sinks: Mapping[str, SinkPlace] = field(default_factory=dict)
    """Of the fragments that write one that counts batches."""

    @property
    def checkpoints(self) -> Path:
        return self.owned.checkpoints

    @property
    def channels(self) -> Path:
        return self.root / "channels"

    @property
    def links(self) -> Path:
        return self.root / "links"

    @property
    def journal_folder(self) -> Path:
        return self.owned.folder

    @property
    def sessions(self) -> Path:
        return self.owned.folder / SESSIONS

    @cached_property
    def fallbacks(self) -> dict[str, Fallback | EngineError]:
        """By file name: where fragments with something damaged go back to with the next run, or why not."""
        found: dict[str, Fallback | EngineError] = {}
        if (falling := self.falling) is None:
            return found
        for fragment in falling.record.fragments:
            try:
                if (fallback := falling.find(fragment)) is not None:
                    found[file_name(fragment)] = fallback
            except EngineError as damage:
                found[file_name(fragment)] = damage
            except OSError:
                continue  # told where the part is looked at
        return found

    def checkpoint(self, fragment: str) -> Path:
        """The newest epoch; not there if there is none."""
        return current_epoch(self.checkpoints / file_name(fragment))

    def fragment_note(self, name: str) -> Path:
        return self.checkpoints / f".{name}.fragment.json"

    def fragments(self) -> list[str]:
        """Names of folders and notes of checkpoints."""
        noted = [
            name.removeprefix(".").removesuffix(".fragment.json")
            for name in _names(self.checkpoints)
            if name.startswith(".") and name.endswith(".fragment.json")
        ]
        return sorted({*noted, *(name for name in _names(self.checkpoints) if not name.startswith("."))})

    def channel_folders(self) -> list[Path]:
        """Those that are there, and those that a note says were."""
        found = {
            name: self.channels / dataset / name
            for dataset in _names(self.channels)
            for name in _names(self.channels / dataset)
            if not name.startswith(".") and (self.channels / dataset / name).is_dir()
        }
        for note in self.owned.channel_notes():
            name = note.name.removesuffix(".channel.json")
            found.setdefault(name, self._linked(name))
        return sorted(found.values())

    def _linked(self, name: str) -> Path:
        """Where the folder of a channel was, by its link, which is known to outlast it."""
        try:
            return Path(os.path.normpath(self.links / os.readlink(self.links / name)))
        except OSError:
            return self.channels / name / name

    def channel_note(self, folder: Path) -> Path:
        return self.owned.channel_note(folder.name)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
