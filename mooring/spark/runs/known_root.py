"""The recorded identity of a project's storage root, which distinguishes an empty mount point from a new
root.

Every root has a mark with an identity that is made once. A run notes that identity beside the project before
it starts anything. From then on a root with another mark, or with none, is refused: the stored data is
somewhere else, and a start without it would read every source again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mooring.disk import DISK, read_if_there
from mooring.errors import EngineError, MooringError
from mooring.spark.definitions.pipeline_spec import MARK_NOTE, STORAGE_NOTE
from mooring.spark.ownership.owner import look
from mooring.spark.storage.storage_root import MARK, identity_of

_CONTENT = ("owned", "channels", "checkpoints")
"""One of them is in every storage that was ever used, of whichever format."""


class MissingRootError(EngineError):
    """The root is not the one that the project stores in."""

    def __init__(self, message: str, *, remedy: str, vacant: bool) -> None:
        super().__init__(message, remedy=remedy)
        self.vacant = vacant
        """Nothing is stored there, so that `--fresh` gives up nothing of anybody else."""


@dataclass(frozen=True)
class KnownRoot:
    work_folder: Path
    """Of the project: `.mooring`."""

    def path(self) -> Path | None:
        """Where the last run from here stored; None if there was none, or its note is empty."""
        found = read_if_there(DISK, self.work_folder / STORAGE_NOTE)
        return None if not found else Path(found.decode(errors="surrogateescape"))

    def identity(self) -> str | None:
        """None where no run from here noted one: there was none, or it was an older Mooring's."""
        note = self.work_folder / MARK_NOTE
        found = read_if_there(DISK, note)
        if found is None:
            return None
        if not (known := found.decode(errors="replace").strip()):
            raise EngineError(
                f"{note} is empty, expected the identity of the storage root",
                remedy=f"copy the `name` (or `id`) of the root's {MARK} into it, or remove it if the root is "
                "there",
            )
        return known

    def remember(self, root: Path) -> None:
        """From now on this root and no other, whatever becomes of its path."""
        DISK.replace(self.work_folder / STORAGE_NOTE, str(root).encode(errors="surrogateescape"))
        if (identity := identity_of(root)) is not None:
            DISK.replace(self.work_folder / MARK_NOTE, identity.encode())

    def missing(self, root: Path) -> MissingRootError | None:
        """Why the root is not the one that the project stores in; None where it is, or nothing is known. What
        is wrong with a mark that cannot be read is said where it is needed.
        """
        known = self.identity()
        try:
            found = identity_of(root)
        except MooringError:
            return None
        if known is None:
            if found is not None or was_used(root) or self.path() != root:
                return None
        elif found == known:
            return None
        name = "the storage of the last run" if known is None else f"the storage {known}"
        note = self.work_folder / MARK_NOTE
        if found is not None:
            by = look(root).record
            return MissingRootError(
                f"expected {name} in {root}, found the storage {found}"
                + ("" if by is None else f", used by {by.project}"),
                remedy=(
                    "mount the right storage there, or correct `storage` in mooring.yml; if the found "
                    f"one is right, remove {note}"
                ),
                vacant=False,
            )
        if vacant := not was_used(root):
            what, mend = _vacancy(root), "mount it there, or restore it from a copy"
        else:
            what, mend = f"a storage without its {MARK}", f"restore {MARK} from a copy"
        return MissingRootError(
            f"expected {name} in {root}, found {what}",
            remedy=(
                f"{mend}; if it is lost, run with --fresh, which makes a new storage and reads all "
                "sources from their beginning"
            ),
            vacant=vacant,
        )

    def require(self, root: Path) -> None:
        """`MissingRootError` unless it is the root that the project stores in, as far as that is known."""
        if (missing := self.missing(root)) is not None:
            raise missing


def was_used(root: Path) -> bool:
    return any(DISK.look(root / part) for part in _CONTENT)


def _vacancy(root: Path) -> str:
    if (there := DISK.look(root)) is None:
        return "no folder"
    if there.kind != "folder":
        return "a file instead of a folder"
    return "a folder without a storage" if DISK.list(root) else "an empty folder"
