"""One storage root, seen by every site under a path of its own.

Spark writes absolute addresses into its logs: what a file sink has written, what a file source has read.
Where all sites mount the root at one path, those are plain `file:` addresses. Where a site mounts it
elsewhere, they would mean nothing there, so all sites then name the same place in Hadoop's ViewFs
(`viewfs://mooring-4f1d/storage/...`), and each session carries the one line that says where its site has it.
No log ever names a site's own path. The name is made once and kept in a mark at the root.

The mark is read before anything else, so it also says of which format the storage is.
"""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mooring.checksum import checked, with_sum
from mooring.disk import DISK, Disk, is_file, is_folder
from mooring.errors import EngineError, InputError
from mooring.spark.sites.endpoint import first_line

FORMAT = 3
"""Of the storage that this Mooring writes. Before 2 there was no record of the pipeline (pipeline_record.py),
and no number. From 3 on a checkpoint may begin at the batch number of its sink's log (checkpoint_parts.py).
"""
_OLDEST = 2
"""From this format on a storage has a record of its pipeline, and an owner."""
_READS_FORMAT_1 = "4a31ded"
"""The last commit that brings storage of format 1 up to date."""
MARK = "mooring-storage.json"
_LINK = "/storage"


@dataclass(frozen=True)
class StorageRoot:
    """Where the root lies for Mooring, and for the sites that have it elsewhere."""

    folder: Path
    """As Mooring sees it; so does every site that is not in `site_paths`."""
    site_paths: Mapping[str, str] = field(default_factory=dict)
    """Site -> its own absolute path of the same folder."""
    disk: Disk = DISK

    def begin(self) -> None:
        """Make the root and its mark where there is none."""
        try:
            self.disk.make_folder(self.folder, parents=True, exist_ok=True)
            if _read_mark(self.folder, self.disk) is None:
                mark = {"name": _new_name(), "viewfs": False, "format": _unmarked(self.folder, self.disk)}
                self.disk.replace(self.folder / MARK, _mark(mark))
        except OSError as failure:
            raise EngineError(f"the storage root {self.folder} cannot be made: {failure}") from failure

    def create(self) -> None:
        """Make the root and its mark; refuse a root whose logs name plain paths once sites differ."""
        self.begin()
        mark = _read_mark(self.folder, self.disk)
        if mark is not None and self._differ and not mark["viewfs"]:
            if self.disk.look(self.folder / "channels") is not None:
                raise InputError(
                    f"found site paths, but the logs under {self.folder} were written with one path for "
                    "all sites",
                    field="storage.sites",
                    remedy="remove the site paths, or start the pipeline over with --fresh",
                )
            self.disk.replace(self.folder / MARK, _mark({**mark, "viewfs": True}))

    def address(self, path: Path) -> str:
        """What sites call a path under the root."""
        mark = _read_mark(self.folder, self.disk)
        if mark is None or not mark["viewfs"]:
            return f"file://{path}"
        return f"viewfs://{mark['name']}{_LINK}/{path.relative_to(self.folder)}"

    def introduce(self, session: SparkSession, site: str) -> None:
        """Tell a session at the site what it has to know before it uses an address."""
        for name, value in self.session_settings(site).items():
            session.conf.set(name, value)

    def session_settings(self, site: str) -> dict[str, str]:
        mark = _read_mark(self.folder, self.disk)
        if mark is None or not mark["viewfs"]:
            return {}
        return {f"fs.viewfs.mounttable.{mark['name']}.link.{_LINK}": f"file://{self.path_at(site)}"}

    def path_at(self, site: str) -> str:
        return self.site_paths.get(site, str(self.folder))

    def check_seen(self, session: SparkSession, site: str) -> None:
        """Read the mark through the site: a root that is not mounted there would look empty for ever."""
        mark = self.disk.read(self.folder / MARK).data.decode()
        try:
            seen = [row.value for row in session.read.text(self.address(self.folder / MARK)).collect()]
            found = "another folder" if seen != [mark] else None
        except PySparkException as failure:
            found = first_line(failure)
        if found is not None:
            raise EngineError(
                f"site {site!r} does not see the storage root at {self.path_at(site)}: {found}",
                remedy=(
                    f"mount it there, or give the path it has there as storage: {{root: {self.folder}, "
                    f"sites: {{{site}: ...}}}}; restart an endpoint that has used another path before"
                ),
            )

    @property
    def _differ(self) -> bool:
        return any(path != str(self.folder) for path in self.site_paths.values())


def local_path(address: str, log: Path, disk: Disk = DISK) -> Path:
    """Where Mooring finds what a log under a storage root calls `address`."""
    folder, _, name = address.rpartition("/")
    return _local_folder(folder, log, disk) / unquote(name) if folder else Path(unquote(name))


@functools.lru_cache(maxsize=1024)
def _local_folder(address: str, log: Path, disk: Disk) -> Path:
    """Of thousands of files in one: taking an address apart is what reading a long log spends its time on."""
    if address.startswith("viewfs:"):
        return _root_above(log, disk) / unquote(urlsplit(address).path).removeprefix(_LINK).lstrip("/")
    if "://" in address or address.startswith("file:"):
        return Path(unquote(urlsplit(address).path) or "/")
    return Path(unquote(address))


@functools.lru_cache(maxsize=256)
def _root_above(log: Path, disk: Disk) -> Path:
    for folder in log.parents:
        if is_file(disk, folder / MARK):
            return folder
    raise EngineError(f"{log} names files of a storage root, but no folder above it has a {MARK}")


def _read_mark(root: Path, disk: Disk) -> dict[str, object] | None:
    try:
        mark: dict[str, object] = json.loads(checked(disk.read(root / MARK).data))
        found = mark.get("format", 1)
        if not (isinstance(mark["name"], str) and isinstance(mark["viewfs"], bool)):
            raise ValueError("no name of the storage")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, KeyError) as damage:
        raise EngineError(
            f"{root / MARK} cannot be read: {damage}",
            remedy="restore it from a copy; it identifies the storage",
        ) from damage
    if found == 1:
        raise _too_old(root)
    if found not in range(_OLDEST, FORMAT + 1):
        raise InputError(
            f"found storage of format {found}, expected at most {FORMAT}: a newer Mooring wrote it",
            file=root,
            remedy="run the project with the newer version, or give it another `storage`",
        )
    return mark


def _mark(says: Mapping[str, object]) -> bytes:
    return with_sum(json.dumps(says).encode())


def _new_name() -> str:
    return f"mooring-{secrets.token_hex(6)}"


def identity_of(root: Path, disk: Disk = DISK) -> str | None:
    """Of a root, for as long as it is there; None where there is no mark."""
    mark = _read_mark(root, disk)
    return None if mark is None else str(mark.get("id", mark["name"]))


def format_of(root: Path, disk: Disk = DISK) -> int:
    """Of the storage as it lies there; what was never used is of the present one. Refuses what a newer
    Mooring wrote, or one too early.
    """
    mark = _read_mark(root, disk)
    if is_folder(disk, root / "checkpoints"):  # where they lay before roots had owners
        raise _too_old(root)
    return _unmarked(root, disk) if mark is None else int(str(mark["format"]))


def stamp_format(root: Path, replace: Callable[[Path, bytes], None], disk: Disk = DISK) -> None:
    """The storage is of the present format from now on."""
    mark = _read_mark(root, disk)
    if mark is not None and mark["format"] != FORMAT:
        replace(root / MARK, _mark({**mark, "format": FORMAT}))


def _unmarked(root: Path, disk: Disk) -> int:
    if disk.look(root / "channels") is not None:
        raise EngineError(
            f"{root} has channels, but its {MARK} is missing",
            remedy="restore that from a copy, or give the project another `storage`",
        )
    return FORMAT


def _too_old(root: Path) -> InputError:
    return InputError(
        f"found storage of format 1, expected {_OLDEST} to {FORMAT}: an early Mooring wrote it",
        file=root,
        remedy=(
            f"run the project once with Mooring at commit {_READS_FORMAT_1}, the last that upgrades "
            "it, or give it another `storage`"
        ),
    )


def renew_mark(root: Path, replace: Callable[[Path, bytes], None], disk: Disk = DISK) -> None:
    """The root stays the same one, and its mark forgets how sites called what it held: they call it by
    another name from now on.
    """
    _root_above.cache_clear()
    _local_folder.cache_clear()
    mark = {"name": _new_name(), "viewfs": False, "format": FORMAT}
    if (identity := identity_of(root, disk)) is not None:
        mark["id"] = identity
    replace(root / MARK, _mark(mark))
